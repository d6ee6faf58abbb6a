//! What a record changes.

use base::{DbId, ObjectId, Record, RecordKind};
use keyspace::Type;
use keyspace::stream::{StreamElement, StreamRoot};

/// A database: its stable id, and the number that SELECT takes if there is one now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Database {
    /// See [`DbId`].
    pub id: DbId,
    /// `None` for one that is not in use yet: the log is being filled by CONFIG SET appendonly yes.
    pub index: Option<u64>,
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its database.
    pub database: Database,
    /// Its name.
    pub key: &'a [u8],
}

/// Which database has what another one had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The number that SELECT takes.
    pub index: u64,
    /// What it stands for now.
    pub id: DbId,
    /// The number that had this database before; `None` for one that had none, and is empty as a rule.
    pub was: Option<u64>,
}

/// What an element is called within its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementName<'a> {
    /// A part of a string: where it begins, in bytes.
    Offset(u64),
    /// A node of a list: nodes lie in the order of these numbers.
    Node(u64),
    /// A field of a hash.
    Field(&'a [u8]),
    /// A member of a set or sorted set.
    Member(&'a [u8]),
    /// A node of a stream, a group, a consumer, or what a group waits for.
    Stream(StreamElement),
    /// Something of a value of unknown type.
    Unknown(&'a [u8]),
}

/// The entry that an element's record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// The key of the value; `None` if it is unknown.
    pub place: Option<Place<'a>>,
    /// The type of the value, if it is known.
    pub value_type: Option<Type>,
    /// The value's number.
    pub object: ObjectId,
    /// What the element is called.
    pub name: ElementName<'a>,
}

/// One change. See the crate's essay for what they mean in a row.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The key has this value as a whole, whatever it had before.
    Set {
        /// The key.
        place: Place<'a>,
        /// The type of the value.
        value_type: Type,
        /// The record: a string, or one with [`keyspace::plain::elements`].
        record: &'a Record<'a>,
    },
    /// The key has the large value with this number. One that is new has no elements yet; any other one has
    /// those that it had, under whatever key.
    Root {
        /// The key.
        place: Place<'a>,
        /// The type of the value.
        value_type: Type,
        /// The value's number.
        object: ObjectId,
        /// How long it is, if it is a string.
        string_bytes: Option<u64>,
        /// If it is a stream, what it says of its entries; the last node's last id and number count where they are larger.
        stream: Option<StreamRoot>,
        /// When it expires, in Unix milliseconds.
        expires_at_ms: Option<i64>,
        /// The key that had it before, if it was another one and is known.
        from: Option<Place<'a>>,
    },
    /// The key is gone.
    Deleted {
        /// The key.
        place: Place<'a>,
        /// The type of its value, if it is known: it is of large ones.
        value_type: Option<Type>,
    },
    /// An element is this now.
    Element {
        /// Which one.
        element: Element<'a>,
        /// The record.
        record: &'a Record<'a>,
    },
    /// An element is gone.
    ElementDeleted(Element<'a>),
    /// Damage has taken the value of the key, which is there all the same.
    ValueLost {
        /// The key.
        place: Place<'a>,
        /// When it expires, in Unix milliseconds.
        expires_at_ms: Option<i64>,
    },
    /// Damage has taken the value and the name of a key. It is given out so that every record is.
    KeyLost(Database),
    /// There is a library of functions with this source, whatever it was before.
    Library {
        /// Its name.
        name: &'a [u8],
        /// Its source, first line included.
        source: &'a [u8],
    },
    /// A library of functions is gone.
    LibraryDeleted {
        /// Its name.
        name: &'a [u8],
    },
    /// The log says something of itself: see [`base::Note`], which this is if this program knows it.
    Note(&'a [u8]),
    /// Databases were emptied or exchanged: all of these at once.
    Databases(&'a [Moved]),
}

/// The name of an element of a value of this type, as its record has it.
pub(crate) fn name_of<'a>(value_type: Option<Type>, sub: &'a [u8]) -> ElementName<'a> {
    let of_node = || sub.try_into().ok().map(u64::from_be_bytes);
    let of_part = || sub.try_into().ok().map(u32::from_be_bytes);
    let name = match value_type {
        None => None,
        Some(Type::Stream) => StreamElement::read(sub).map(ElementName::Stream),
        Some(Type::String) => of_part().map(|index| {
            ElementName::Offset(u64::from(index) * keyspace::string::CHUNK_BYTES as u64)
        }),
        Some(Type::List) => of_node().map(ElementName::Node),
        Some(Type::Hash) => Some(ElementName::Field(sub)),
        Some(Type::Set | Type::ZSet) => Some(ElementName::Member(sub)),
    };
    name.unwrap_or(ElementName::Unknown(sub))
}

/// The type of the value that has elements with records of this kind; `None` of one that says that an element is
/// gone.
pub(crate) const fn type_of_element(kind: RecordKind) -> Option<Type> {
    match kind {
        RecordKind::StringChunk => Some(Type::String),
        RecordKind::ListNode => Some(Type::List),
        RecordKind::HashField => Some(Type::Hash),
        RecordKind::SetMember => Some(Type::Set),
        RecordKind::ZSetMember => Some(Type::ZSet),
        RecordKind::StreamNode
        | RecordKind::StreamGroup
        | RecordKind::StreamConsumer
        | RecordKind::StreamPending
        | RecordKind::StreamProducer => Some(Type::Stream),
        _ => None,
    }
}
