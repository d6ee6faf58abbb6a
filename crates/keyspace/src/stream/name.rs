//! The names that the elements of a stream have in the log.
//!
//! ```text
//!   0 · id                   a node, by its master
//!   1 · group                a group of consumers, by its number
//!   2 · group · consumer     a consumer of a group
//!   3 · group · id           an entry that a group waits to be acknowledged
//!   4 · id                   the message of a producer that became this entry
//!   5                        what is kept of messages
//! ```
//!
//! Numbers are big-endian, so names are ordered as their bytes are. The order is that in which a reader can build what they name: a group before its consumers, a
//! consumer before what it holds.

use std::ops::Deref;

use base::RecordKind;

use super::StreamId;

/// The number of a group within its stream, or of a consumer within its group. It may be given again when
/// what had it is gone: all its records are then.
pub(super) type Number = u32;

const NODE: u8 = 0;
const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const PENDING: u8 = 3;
const MESSAGE: u8 = 4;
const LIMITS: u8 = 5;

/// See the file's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Node(StreamId),
    Group(Number),
    Consumer(Number, Number),
    Pending(Number, StreamId),
    Message(StreamId),
    Limits,
}

/// A name as records have it.
pub(super) struct Sub {
    bytes: [u8; Self::BYTES_MAX],
    len: usize,
}

impl Sub {
    const BYTES_MAX: usize = 1 + size_of::<Number>() + StreamId::BYTES;

    fn of(tag: u8, parts: [&[u8]; 2]) -> Self {
        let mut sub = Self { bytes: [tag; Self::BYTES_MAX], len: 1 };
        for part in parts {
            sub.bytes[sub.len..sub.len + part.len()].copy_from_slice(part);
            sub.len += part.len();
        }
        sub
    }
}

impl Deref for Sub {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Name {
    /// The name that a record has for it.
    pub(super) fn sub(self) -> Sub {
        match self {
            Self::Node(id) => Sub::of(NODE, [&id.to_bytes(), &[]]),
            Self::Group(group) => Sub::of(GROUP, [&group.to_be_bytes(), &[]]),
            Self::Consumer(group, consumer) => {
                Sub::of(CONSUMER, [&group.to_be_bytes(), &consumer.to_be_bytes()])
            }
            Self::Pending(group, id) => Sub::of(PENDING, [&group.to_be_bytes(), &id.to_bytes()]),
            Self::Message(id) => Sub::of(MESSAGE, [&id.to_bytes(), &[]]),
            Self::Limits => Sub::of(LIMITS, [&[], &[]]),
        }
    }

    /// The name that a record has; `None` if it is none.
    pub(super) fn of_sub(sub: &[u8]) -> Option<Self> {
        let (tag, rest) = sub.split_first()?;
        match *tag {
            NODE => return StreamId::from_bytes(rest).map(Self::Node),
            MESSAGE => return StreamId::from_bytes(rest).map(Self::Message),
            LIMITS => return rest.is_empty().then_some(Self::Limits),
            _ => {}
        }
        let (group, rest) = rest.split_first_chunk()?;
        let group = Number::from_be_bytes(*group);
        match *tag {
            GROUP if rest.is_empty() => Some(Self::Group(group)),
            CONSUMER => {
                let consumer = rest.try_into().ok().map(Number::from_be_bytes)?;
                Some(Self::Consumer(group, consumer))
            }
            PENDING => StreamId::from_bytes(rest).map(|id| Self::Pending(group, id)),
            _ => None,
        }
    }

    /// The kind of its record.
    pub(super) const fn kind(self) -> RecordKind {
        match self {
            Self::Node(_) => RecordKind::StreamNode,
            Self::Group(_) => RecordKind::StreamGroup,
            Self::Consumer(..) => RecordKind::StreamConsumer,
            Self::Pending(..) => RecordKind::StreamPending,
            Self::Message(_) | Self::Limits => RecordKind::StreamProducer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_bytes() {
        let id = StreamId::new(1 << 40, 3);
        let names = [
            Name::Node(id),
            Name::Group(7),
            Name::Consumer(7, 9),
            Name::Pending(7, id),
            Name::Message(id),
            Name::Limits,
        ];
        for name in names {
            assert_eq!(Name::of_sub(&name.sub()), Some(name));
        }
        assert!(names.is_sorted() && names.is_sorted_by(|a, b| *a.sub() < *b.sub()));
        for none in [
            &[0; 16][..],
            &[0; 18],
            &[1; 4],
            &[1; 6],
            &[2; 8],
            &[3; 20],
            &[4; 5],
            &[5; 2],
            &[6; 5],
            &[],
        ] {
            assert_eq!(Name::of_sub(none), None);
        }
    }
}
