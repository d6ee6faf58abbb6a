//! A stream on its way into an RDB file.
//!
//! ```text
//!   root ─► key │ how many nodes        unit of nodes ─► one node of Redis' │ … │ numbers │ groups
//!                                       (held until the next one begins)             (held until the end)
//! ```
//!
//! RDB has what a group waits for by id, and once more by consumer, each list behind its length; records come in any
//! order. So all that groups know is held: 48 bytes a pending entry.
//!
//! What belongs to a group or consumer that is not there waits to be freed, and is left out.

use std::collections::BTreeMap;
use std::io::Write;

use keyspace::stream::{Delivery, StreamId, StreamRecord, StreamRoot};
use rdb::{
    EntriesRead, EntryId, Key, Kind, NodeBuilder, PendingEntry, StreamNumbers, WriteError, Writer,
};

/// The stream that is written.
#[derive(Debug, Default)]
pub(crate) struct StreamParts {
    /// The key, until its root has come.
    key: Vec<u8>,
    expires_at_ms: Option<i64>,
    numbers: StreamNumbers,
    node: NodeBuilder,
    first: Option<EntryId>,
    length: u64,
    groups: BTreeMap<u32, Group>,
}

#[derive(Debug, Default)]
struct Group {
    head: Option<GroupHead>,
    consumers: BTreeMap<u32, Consumer>,
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct GroupHead {
    name: Vec<u8>,
    last_id: EntryId,
    entries_read: EntriesRead,
}

#[derive(Debug)]
struct Consumer {
    name: Vec<u8>,
    seen_ms: i64,
    active_ms: Option<i64>,
}

impl Consumer {
    /// The one without a name, that has in a dump what was given back and what no consumer has: servers before Redis 8.8
    /// read no entry that waits without a consumer.
    const fn unnamed() -> Self {
        Self { name: Vec::new(), seen_ms: 0, active_ms: None }
    }
}

/// The number that no consumer has.
const NO_CONSUMER: u32 = 0;

#[derive(Debug, Clone, Copy)]
struct Pending {
    consumer: u32,
    entry: PendingEntry,
}

const fn id(id: StreamId) -> EntryId {
    EntryId::new(id.ms, id.seq)
}

impl StreamParts {
    /// Begins a stream under this key.
    pub(crate) fn new(key: &[u8], expires_at_ms: Option<i64>) -> Self {
        Self { key: key.to_vec(), expires_at_ms, ..Self::default() }
    }

    pub(crate) fn root<W: Write>(
        &mut self,
        root: &StreamRoot,
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        let StreamRoot { last_id, entries_added, max_deleted_id, units } = *root;
        let (last_id, max_deleted_id) = (id(last_id), id(max_deleted_id));
        self.numbers = StreamNumbers { last_id, max_deleted_id, entries_added };
        let key = std::mem::take(&mut self.key);
        writer.key(&Key {
            key: &key,
            kind: Kind::Stream,
            count: Some(units),
            expires_at_ms: self.expires_at_ms,
            idle_s: None,
            frequency: None,
        })
    }

    pub(crate) fn record<W: Write>(
        &mut self,
        name: &[u8],
        value: &[u8],
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        match StreamRecord::read(name, value).expect("the record was checked") {
            StreamRecord::Node { is_first, entries_added, entries, .. } => {
                if is_first && !self.node.is_empty() {
                    writer.node(&mut self.node)?;
                }
                for entry in entries {
                    let id = id(entry.id);
                    self.node.push(id, entry.pairs());
                    self.first.get_or_insert(id);
                    self.length += 1;
                    if id > self.numbers.last_id {
                        // The root was not logged since.
                        self.numbers.last_id = id;
                        self.numbers.entries_added = entries_added;
                    }
                }
            }
            StreamRecord::Group { group, name, last_id, entries_read } => {
                let entries_read = entries_read.map_or(EntriesRead::Unknown, EntriesRead::Known);
                let (name, last_id) = (name.to_vec(), id(last_id));
                self.group(group).head = Some(GroupHead { name, last_id, entries_read });
            }
            StreamRecord::Consumer { group, consumer, name, seen_ms, active_ms } => {
                let one = Consumer { name: name.to_vec(), seen_ms, active_ms };
                self.group(group).consumers.insert(consumer, one);
            }
            StreamRecord::Pending { group, id: of, consumer, at_ms, count } => {
                let count = count.min(Delivery::COUNT_MAX);
                let entry = PendingEntry { id: id(of), at_ms, count };
                let consumer = consumer.unwrap_or(NO_CONSUMER);
                self.group(group).pending.push(Pending { consumer, entry });
            }
            // No form before Redis 8.6 has them.
            StreamRecord::Message { .. } | StreamRecord::Limits(_) => {}
        }
        Ok(())
    }

    fn group(&mut self, number: u32) -> &mut Group {
        self.groups.entry(number).or_default()
    }

    /// All has come.
    pub(crate) fn end<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        if !self.node.is_empty() {
            writer.node(&mut self.node)?;
        }
        let Self { numbers, first, length, groups, .. } = std::mem::take(self);
        let groups: Vec<Group> =
            groups.into_values().filter(|group| group.head.is_some()).collect();
        let entries = (first.unwrap_or_default(), length);
        writer.numbers(entries, &numbers, groups.len() as u64)?;
        groups.into_iter().try_for_each(|group| group.write(writer))
    }
}

impl Group {
    fn write<W: Write>(self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let Self { head, mut consumers, mut pending } = self;
        let head = head.expect("the caller has looked");
        if pending.iter().any(|pending| pending.consumer == NO_CONSUMER) {
            let unnamed = consumers.iter().find(|(_, consumer)| consumer.name.is_empty());
            let number = unnamed.map_or(NO_CONSUMER, |(number, _)| *number);
            consumers.entry(number).or_insert_with(Consumer::unnamed);
            let given_back = pending.iter_mut().filter(|it| it.consumer == NO_CONSUMER);
            given_back.for_each(|pending| pending.consumer = number);
        }
        pending.retain(|pending| consumers.contains_key(&pending.consumer));
        pending.sort_unstable_by_key(|pending| pending.entry.id);
        let entries = pending.iter().map(|pending| pending.entry);
        let of_group = (&head.name[..], head.last_id, head.entries_read);
        writer.group(of_group, entries, consumers.len() as u64)?;
        pending.sort_unstable_by_key(|pending| (pending.consumer, pending.entry.id));
        let mut rest = &pending[..];
        for (number, Consumer { name, seen_ms, active_ms }) in consumers {
            let (held, behind) = rest.split_at(rest.partition_point(|it| it.consumer <= number));
            writer.consumer(&name, (seen_ms, active_ms), held.iter().map(|it| it.entry.id))?;
            rest = behind;
        }
        Ok(())
    }
}
