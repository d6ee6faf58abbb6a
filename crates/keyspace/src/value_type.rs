//! The types that values have for clients.

use base::{Record, RecordKind};

use crate::entry::{Entry, Kind};
use crate::record_check::lost_type;

/// The type of a value, as TYPE tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    ZSet,
    /// A stream.
    Stream,
}

impl Type {
    /// All of them, by their number.
    pub(crate) const ALL: [Self; 6] =
        [Self::String, Self::List, Self::Hash, Self::Set, Self::ZSet, Self::Stream];

    /// The type of the value that a record of this kind has; `None` if it has none.
    #[must_use]
    pub const fn of_record(kind: RecordKind) -> Option<Self> {
        match kind {
            RecordKind::String | RecordKind::LargeString => Some(Self::String),
            RecordKind::ListPacked | RecordKind::List => Some(Self::List),
            RecordKind::HashPacked | RecordKind::HashPackedExpiring | RecordKind::Hash => {
                Some(Self::Hash)
            }
            RecordKind::SetPacked | RecordKind::Set => Some(Self::Set),
            RecordKind::ZSetPacked | RecordKind::ZSet => Some(Self::ZSet),
            RecordKind::Stream => Some(Self::Stream),
            _ => None,
        }
    }

    /// The name that TYPE answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::ZSet => "zset",
            Self::Stream => "stream",
        }
    }
}

/// The key holds a value of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
pub struct WrongType;

/// The type of an entry's value, in memory or not.
pub(crate) fn entry_type(entry: &Entry) -> Type {
    match entry.value_kind() {
        Kind::Str | Kind::StrRaw | Kind::Int => Type::String,
        Kind::ListPacked => Type::List,
        Kind::HashPacked => Type::Hash,
        Kind::SetPacked => Type::Set,
        Kind::ZSetPacked => Type::ZSet,
        Kind::Object => match entry.object() {
            Some(object) => object.value_type(),
            None => entry.bare_type().unwrap_or(Type::String),
        },
    }
}

/// The type of the value that a key's record has; `None` for a record that is not a key's.
pub(crate) fn record_type(record: &Record<'_>) -> Option<Type> {
    match record.kind {
        RecordKind::ValueLost => lost_type(record.value),
        kind => Type::of_record(kind),
    }
}
