//! What a record must look like before it is applied.
//!
//! A record has passed its checksum when it comes here, so what is wrong with it was written that
//! way: by another version, or by another program. Everything that [`crate::Keyspace::apply`] and the
//! types take for granted is checked here, once, so that such a log is refused and named instead of
//! ending the server or being served as something that it is not.

use base::{DbId, ObjectId, Record, RecordKind, varint};

use crate::entry::PAYLOAD_BYTES_MAX;
use crate::hasher::Identity;
use crate::packed::{EXPIRING_FIELDS, Packed};
use crate::stream;
use crate::string::CHUNK_BYTES;
use crate::value_type::Type;

/// The record says something that no keyspace of this version ever logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {kind:?} record has {what}")]
pub struct BadRecord {
    /// The record's kind.
    pub kind: RecordKind,
    /// What is wrong with it.
    pub what: &'static str,
}

/// The longest string: elements and strings have lengths of 32 bits.
const STRING_BYTES_MAX: u64 = u32::MAX as u64;

/// What is wrong with a record, if anything is.
pub(crate) fn check(record: &Record<'_>) -> Result<(), &'static str> {
    // The next ones must have numbers too.
    if record.db >= DbId::MAX {
        return Err("a database out of range");
    }
    if record.object >= ObjectId::MAX {
        return Err("an object out of range");
    }
    if (record.kind.is_element() || record.kind.is_root()) && record.object == ObjectId::NONE {
        return Err("no object");
    }
    // When that is does not matter: what a clock that was wrong has made of it is a time as well.
    let may_expire = !record.kind.is_element() || record.kind == RecordKind::HashField;
    if record.expires_at_ms.is_some() && !may_expire {
        return Err("an expiry");
    }
    let is_good = match record.kind {
        RecordKind::String => record.value.len() <= PAYLOAD_BYTES_MAX,
        RecordKind::LargeString => is_length(record.value),
        RecordKind::StringChunk => is_chunk(record),
        RecordKind::ListPacked | RecordKind::SetPacked => is_packed(record.value, 1),
        RecordKind::HashPacked => is_packed(record.value, 2) && !has_triples(record.value),
        RecordKind::HashPackedExpiring => is_packed(record.value, 3) && has_expiries(record.value),
        RecordKind::ZSetPacked => is_packed(record.value, 2) && has_scores(record.value),
        RecordKind::ListNode => record.sub.len() == 8 && is_packed(record.value, 1),
        RecordKind::ZSetMember => is_score(record.value),
        RecordKind::Stream => stream::is_root(record.value),
        RecordKind::StreamNode
        | RecordKind::StreamGroup
        | RecordKind::StreamConsumer
        | RecordKind::StreamPending
        | RecordKind::StreamProducer => stream::is_element(record.sub, record.kind, record.value),
        RecordKind::Databases => is_map(record.value),
        RecordKind::Library => is_word(record.key) && !record.value.is_empty(),
        RecordKind::LibraryDeleted => is_word(record.key),
        RecordKind::ValueLost => lost_type(record.value).is_some(),
        RecordKind::KeyLost => {
            record.key.len() == size_of::<Identity>() && lost_type(record.value).is_some()
        }
        // Nothing depends on what it says, and a later program may say more.
        RecordKind::Note
        | RecordKind::List
        | RecordKind::Hash
        | RecordKind::HashField
        | RecordKind::Set
        | RecordKind::SetMember
        | RecordKind::ZSet
        | RecordKind::KeyDeleted
        | RecordKind::ElementDeleted => true,
    };
    if is_good { Ok(()) } else { Err("a malformed value") }
}

/// The type of a value that is lost.
pub(crate) fn lost_type(value: &[u8]) -> Option<Type> {
    let &[number] = value else { return None };
    Type::ALL.get(usize::from(number)).copied()
}

/// Whether a library can have this name.
fn is_word(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn is_length(mut value: &[u8]) -> bool {
    varint::take(&mut value).is_some_and(|len| len <= STRING_BYTES_MAX)
}

fn is_chunk(record: &Record<'_>) -> bool {
    let Ok(index) = record.sub.try_into().map(u32::from_be_bytes) else { return false };
    let end = u64::from(index) * CHUNK_BYTES as u64 + record.value.len() as u64;
    (1..=CHUNK_BYTES).contains(&record.value.len()) && end <= STRING_BYTES_MAX
}

/// A packed collection; an empty one does not exist.
fn is_packed(value: &[u8], arity: usize) -> bool {
    (2..=PAYLOAD_BYTES_MAX).contains(&value.len()) && Packed::check(value, arity).is_some()
}

/// Whether every other element of a packed collection is a score.
fn has_scores(value: &[u8]) -> bool {
    Packed::new(value).iter().skip(1).step_by(2).all(is_score)
}

/// Whether a packed hash says that it has expiries, and every third element is one, or none.
fn has_expiries(value: &[u8]) -> bool {
    let is_expiry = |expiry: &[u8]| matches!(expiry.len(), 0 | 8);
    has_triples(value) && Packed::new(value).iter().skip(2).step_by(3).all(is_expiry)
}

/// Whether a packed hash says that it has expiries.
fn has_triples(value: &[u8]) -> bool {
    Packed::new(value).flags() & EXPIRING_FIELDS != 0
}

fn is_score(value: &[u8]) -> bool {
    value.try_into().is_ok_and(|bytes| !f64::from_le_bytes(bytes).is_nan())
}

/// The next free id, and ids below it, none of them twice.
fn is_map(mut value: &[u8]) -> bool {
    let Some(next) = varint::take(&mut value).filter(|next| *next < DbId::MAX.0) else {
        return false;
    };
    let mut ids = Vec::new();
    while !value.is_empty() {
        let Some(id) = varint::take(&mut value).filter(|id| *id < next) else { return false };
        ids.push(id);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    ids.len() == count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_keyspace_logs_is_refused() {
        let (db, object) = (DbId(0), ObjectId(1));
        let whole = |kind, value| Record::whole(kind, db, b"k", value, None);
        let element = |kind, sub, value| Record::element(kind, object, sub, value);
        let nan = f64::NAN.to_le_bytes();
        let bad = [
            Record::whole(RecordKind::String, DbId::MAX, b"k", b"v", None),
            Record::root(RecordKind::Hash, db, b"k", ObjectId::NONE, &[0], None),
            Record::root(RecordKind::Hash, db, b"k", ObjectId::MAX, &[0], None),
            Record::root(RecordKind::LargeString, db, b"k", object, &[], None),
            Record::root(RecordKind::LargeString, db, b"k", object, &[0xff; 9], None),
            Record::element_deleted(ObjectId::NONE, b"f"),
            element(RecordKind::StringChunk, b"abc", b"v"),
            element(RecordKind::StringChunk, &[0; 4], b""),
            element(RecordKind::StringChunk, &[0xff; 4], b"v"),
            element(RecordKind::StringChunk, &[0; 4], &[0; CHUNK_BYTES + 1]),
            element(RecordKind::ListNode, &[0; 7], b"\0\x01a"),
            element(RecordKind::ListNode, &[0; 8], b"\0"),
            element(RecordKind::ListNode, &[0; 8], b"\0\x02a"),
            element(RecordKind::ZSetMember, b"m", &nan),
            element(RecordKind::ZSetMember, b"m", b"1"),
            whole(RecordKind::ListPacked, b""),
            whole(RecordKind::SetPacked, b"\0"),
            whole(RecordKind::HashPacked, b"\0\x01f"),
            // As pairs and as triples it is well-formed, and something else.
            whole(RecordKind::HashPacked, b"\x02\x01a\x01b\0\x01c\x01d\0"),
            whole(RecordKind::HashPackedExpiring, b"\x02\x01f\x01v"),
            whole(RecordKind::HashPackedExpiring, b"\x02\x01f\x01v\x011"),
            whole(RecordKind::HashPackedExpiring, b"\0\x01f\x01v\0"),
            whole(RecordKind::ZSetPacked, b"\0\x01m\x011"),
            whole(RecordKind::ValueLost, b""),
            whole(RecordKind::ValueLost, &[6]),
            whole(RecordKind::KeyLost, &[0]),
            Record::library(b"", b"#!lua"),
            Record::library(b"a b", b"#!lua"),
            Record::library(b"a", b""),
            Record::library_deleted(b""),
            whole(RecordKind::Databases, b""),
            whole(RecordKind::Databases, &[2, 2]),
            whole(RecordKind::Databases, &[2, 1, 1]),
            element(RecordKind::SetMember, b"m", b"").until(Some(5)),
            element(RecordKind::ZSetMember, b"m", &[0; 8]).until(Some(5)),
            element(RecordKind::ListNode, &[0; 8], b"\0\x01a").until(Some(5)),
            element(RecordKind::StringChunk, &[0; 4], b"v").until(Some(5)),
            Record::element_deleted(object, b"f").until(Some(5)),
        ];
        for record in bad {
            assert!(check(&record).is_err(), "{record:?}");
        }
        assert_eq!(check(&whole(RecordKind::Databases, &[3, 2, 0])), Ok(()));
        assert_eq!(check(&element(RecordKind::StringChunk, &[0, 0, 0, 9], b"v")), Ok(()));
        assert_eq!(check(&element(RecordKind::HashField, b"f", b"v").until(Some(5))), Ok(()));
        let small = whole(RecordKind::HashPackedExpiring, b"\x02\x01a\x01b\0\x01c\x01d\0");
        assert_eq!(check(&small.until(Some(-5))), Ok(()));
    }
}
