//! Which kinds of records a file may have, besides those that every program of its format knows.
//!
//! ```text
//!   bits of the header   0 ……………… 31   32 ……………… 63
//!   kinds                0 ……………… 31   128 …………… 159   (the upper half says that something is gone)
//! ```
//!
//! A program refuses a file with a kind that it does not know, by the file's header: by name, before anything
//! is changed, and wherever in the file such a record is. So no record of such a kind is in a file whose
//! header does not say so: [`Log::declare`](crate::Log::declare) comes before the first one.

use base::{Record, RecordKind};

/// A set of such kinds, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(pub u64);

/// What the kinds are for that this program does not know and that have been given a number.
const RESERVED: [(u32, &str); 2] = [(18, "replication position"), (20, "stream")];

impl Kinds {
    /// Those that this program knows.
    pub const KNOWN: Self = Self::of(RecordKind::Note)
        .and(Self::of(RecordKind::Library))
        .and(Self::of(RecordKind::Stream))
        .and(Self::of(RecordKind::StreamProducer))
        .and(Self::of(RecordKind::HashPackedExpiring))
        .and(Self::of(RecordKind::ValueLost))
        .and(Self::of(RecordKind::KeyLost));

    /// The kind of a record, if a header must say it.
    #[must_use]
    pub const fn of(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Note
            | RecordKind::ValueLost
            | RecordKind::KeyLost
            | RecordKind::StreamProducer => Self(1 << kind as u8),
            // Where one may be gone, one may be.
            RecordKind::Library | RecordKind::LibraryDeleted => {
                Self(1 << RecordKind::Library as u8)
            }
            // Where there is a stream, there may be all that belongs to one, except messages.
            RecordKind::Stream
            | RecordKind::StreamNode
            | RecordKind::StreamGroup
            | RecordKind::StreamConsumer
            | RecordKind::StreamPending => Self(1 << RecordKind::Stream as u8),
            // Where one is, fields of large hashes may expire, or have, too.
            RecordKind::HashPackedExpiring => Self(1 << kind as u8),
            _ => Self(0),
        }
    }

    /// The kind of a record, or what it has besides, if a header must say it.
    #[must_use]
    pub const fn of_record(record: &Record<'_>) -> Self {
        match record.has_expiring_fields() {
            true => Self::of(RecordKind::HashPackedExpiring),
            false => Self::of(record.kind),
        }
    }

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of those that headers say.
    pub(crate) fn all(kinds: impl IntoIterator<Item = Self>) -> Self {
        kinds.into_iter().fold(Self::default(), Self::and)
    }

    /// The first kind that this program does not know, and what it is for, in brackets behind a space.
    pub(crate) fn unknown(self) -> Option<(u32, String)> {
        let bits = self.0 & !Self::KNOWN.0;
        if bits == 0 {
            return None;
        }
        let bit = bits.trailing_zeros();
        let kind = if bit < 32 { bit } else { 128 + bit - 32 };
        let name = RESERVED.iter().find(|(number, _)| *number == kind);
        Some((kind, name.map_or(String::new(), |(_, name)| format!(" ({name})"))))
    }
}

#[cfg(test)]
mod tests {
    use base::{DbId, ObjectId};

    use super::*;

    /// A program that knows streams may not know messages.
    #[test]
    fn messages_of_producers_have_a_bit_of_their_own() {
        assert_eq!(Kinds::of(RecordKind::StreamProducer), Kinds(1 << 29));
        for kind in [RecordKind::StreamNode, RecordKind::StreamPending] {
            assert_eq!(Kinds::of(kind), Kinds::of(RecordKind::Stream));
        }
    }

    #[test]
    fn fields_that_expire_or_did_are_named_by_the_kind_of_small_hashes() {
        let (db, object) = (DbId(0), ObjectId(7));
        let root = |kind, flags| Record::root(kind, db, b"h", object, flags, None);
        let field = Record::element(RecordKind::HashField, object, b"f", b"v");
        let small = Record::whole(RecordKind::HashPackedExpiring, db, b"h", b"\x02", None);
        let named = Kinds::of(RecordKind::HashPackedExpiring);
        for flags in [&[2][..], &[3]] {
            assert_eq!(Kinds::of_record(&root(RecordKind::Hash, flags)), named);
        }
        assert_eq!(Kinds::of_record(&field.until(Some(5))), named);
        assert_eq!(Kinds::of_record(&small), named);
        // What a program of the format's first day wrote too.
        for flags in [&[][..], &[0], &[1]] {
            assert_eq!(Kinds::of_record(&root(RecordKind::Hash, flags)), Kinds::default());
        }
        assert_eq!(Kinds::of_record(&root(RecordKind::Set, &[2])), Kinds::default());
        assert_eq!(Kinds::of_record(&field), Kinds::default());
    }
}
