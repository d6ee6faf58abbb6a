//! The records of a stream, as those read them that have no keyspace: dumps, and followers of changes.

use super::StreamId;
use super::entries::Root;
use super::group::{NO_CONSUMER, Value};
use super::name::Name;
use super::node::{Entries, NodeRecord, StreamEntry};
use super::producers::{self, MessageLimits};

/// What a stream says of all entries that it ever had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRoot {
    /// The largest id that an entry had, unless the last node has a larger one.
    pub last_id: StreamId,
    /// How many entries were added; the last node's number counts if its last id is larger.
    pub entries_added: u64,
    /// The largest id of an entry that XDEL has deleted; 0-0 for none.
    pub max_deleted_id: StreamId,
    /// In how many units the entries lie: nodes with [`StreamRecord::Node::is_first`].
    pub units: u64,
}

impl StreamRoot {
    /// Reads the value of a root's record.
    #[must_use]
    pub fn read(value: &[u8], units: u64) -> Option<Self> {
        let Root { last_id, added, max_deleted_id, .. } = Root::read(value)?;
        Some(Self { last_id, entries_added: added, max_deleted_id, units })
    }
}

/// What the record of an element says. Groups and consumers are named by numbers.
#[derive(Debug, Clone)]
pub enum StreamRecord<'a> {
    /// Some entries.
    Node {
        /// What it is called: the id of the first entry that it had.
        id: StreamId,
        /// It begins a unit.
        is_first: bool,
        /// How many entries the stream had had.
        entries_added: u64,
        /// They, in their order.
        entries: NodeEntries<'a>,
    },
    /// A group of consumers.
    Group {
        /// Its number.
        group: u32,
        /// Its name.
        name: &'a [u8],
        /// The last entry that it was given.
        last_id: StreamId,
        /// How many entries it was given, if that is known.
        entries_read: Option<u64>,
    },
    /// A consumer of a group.
    Consumer {
        /// The group's number.
        group: u32,
        /// Its number.
        consumer: u32,
        /// Its name.
        name: &'a [u8],
        /// When it was last heard of, in Unix milliseconds.
        seen_ms: i64,
        /// When it last got something; `None` if it never did.
        active_ms: Option<i64>,
    },
    /// An entry that a group waits to be acknowledged.
    Pending {
        /// The group's number.
        group: u32,
        /// Its id.
        id: StreamId,
        /// The number of the consumer that holds it; `None` if it was given back.
        consumer: Option<u32>,
        /// When it was given to that one, in Unix milliseconds; 0 if it was given back.
        at_ms: i64,
        /// How often it was given to one.
        count: u64,
    },
    /// A message of a producer, which became an entry.
    Message {
        /// The entry's id.
        id: StreamId,
        /// What the producer is called.
        producer: &'a [u8],
        /// What it calls the message.
        message: &'a [u8],
        /// When it was added, in Unix milliseconds.
        at_ms: u64,
    },
    /// What is kept of messages.
    Limits(MessageLimits),
}

/// What an element is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamElement {
    /// A node, by the id of the first entry that it had.
    Node(StreamId),
    /// A group.
    Group(u32),
    /// A group's number, and that of a consumer of it.
    Consumer(u32, u32),
    /// A group's number, and an entry that it waits to be acknowledged.
    Pending(u32, StreamId),
    /// A message of a producer, by the entry that it became.
    Message(StreamId),
    /// What is kept of messages.
    Limits,
}

impl StreamElement {
    /// Reads the name that a record has.
    #[must_use]
    pub fn read(name: &[u8]) -> Option<Self> {
        Some(match Name::of_sub(name)? {
            Name::Node(id) => Self::Node(id),
            Name::Group(group) => Self::Group(group),
            Name::Consumer(group, consumer) => Self::Consumer(group, consumer),
            Name::Pending(group, id) => Self::Pending(group, id),
            Name::Message(id) => Self::Message(id),
            Name::Limits => Self::Limits,
        })
    }
}

impl<'a> StreamRecord<'a> {
    /// Reads a record's name and value.
    #[must_use]
    pub fn read(name: &[u8], value: &'a [u8]) -> Option<Self> {
        let name = Name::of_sub(name)?;
        if let Name::Node(id) = name {
            let NodeRecord { added, in_unit, bytes, .. } = NodeRecord::read(id, value)?;
            let entries = NodeEntries(Entries::of(id, bytes));
            return Some(Self::Node { id, is_first: in_unit == 0, entries_added: added, entries });
        }
        if let Name::Message(id) = name
            && let Some(producers::Value::Message { producer, name, added }) =
                producers::Value::read(name, value)
        {
            return Some(Self::Message { id, producer, message: name, at_ms: added.at_ms });
        }
        if let Some(producers::Value::Limits(limits)) = producers::Value::read(name, value) {
            return Some(Self::Limits(limits));
        }
        Some(match (name, Value::read(name, value)?) {
            (Name::Group(group), Value::Group { name, last_id, entries_read }) => {
                Self::Group { group, name, last_id, entries_read }
            }
            (Name::Consumer(group, consumer), Value::Consumer { name, seen_ms, active_ms }) => {
                Self::Consumer { group, consumer, name, seen_ms, active_ms }
            }
            (Name::Pending(group, id), Value::Pending { consumer, delivery }) => {
                let (at_ms, count) = (delivery.at_ms, delivery.count);
                let consumer = Some(consumer).filter(|consumer| *consumer != NO_CONSUMER);
                // Which of those that were given back was so first is nothing to others.
                let at_ms = consumer.map_or(0, |_| at_ms);
                Self::Pending { group, id, consumer, at_ms, count }
            }
            _ => return None,
        })
    }
}

/// The entries of a node's record.
#[derive(Debug, Clone)]
pub struct NodeEntries<'a>(Entries<'a>);

impl<'a> Iterator for NodeEntries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        self.0.next()
    }
}
