//! Streams as payloads have them: DUMP and RESTORE.

use base::DbIndex;
use keyspace::stream::{Delivery, GroupView, Stream, StreamGuard, StreamId, StreamView};
use keyspace::{Keyspace, WrongType};
use rdb::{
    EntriesRead, EntryId, PendingEntry, StreamConsumer, StreamEntry, StreamGroup, StreamNumbers,
    StreamValue,
};

const fn dumped_id(id: StreamId) -> EntryId {
    EntryId::new(id.ms, id.seq)
}

const fn id_of(id: EntryId) -> StreamId {
    StreamId::new(id.ms, id.seq)
}

/// Copies a stream out.
pub(crate) fn value_of(stream: StreamView<'_>) -> StreamValue {
    let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    let entries = stream.range(StreamId::MIN, StreamId::MAX).map(|entry| StreamEntry {
        id: dumped_id(entry.id),
        pairs: entry.pairs().map(owned).collect(),
    });
    StreamValue {
        entries: entries.collect(),
        numbers: StreamNumbers {
            last_id: dumped_id(stream.last_id()),
            max_deleted_id: dumped_id(stream.max_deleted_id()),
            entries_added: stream.entries_added(),
        },
        groups: stream.groups().map(group_of).collect(),
    }
}

fn group_of(group: GroupView<'_>) -> StreamGroup {
    let consumers = group.consumers().map(|consumer| {
        let held = group.held_from(consumer, StreamId::MIN).map(|held| {
            let Delivery { at_ms, count } = held.delivery;
            PendingEntry { id: dumped_id(held.id), at_ms, count: count.min(Delivery::COUNT_MAX) }
        });
        let (seen_ms, active_ms) = (consumer.seen_ms(), consumer.active_ms());
        StreamConsumer {
            name: consumer.name().to_vec(),
            seen_ms,
            active_ms,
            pending: held.collect(),
        }
    });
    let mut consumers: Vec<StreamConsumer> = consumers.collect();
    hold_given_back(group, &mut consumers);
    StreamGroup {
        name: group.name().to_vec(),
        last_id: dumped_id(group.last_id()),
        entries_read: group.entries_read().map_or(EntriesRead::Unknown, EntriesRead::Known),
        consumers,
    }
}

/// What was given back is held by a consumer without a name: servers before Redis 8.8 read no entry without one.
fn hold_given_back(group: GroupView<'_>, consumers: &mut Vec<StreamConsumer>) {
    let given_back = group.pending_from(StreamId::MIN).filter(|it| it.consumer.is_none());
    let given_back: Vec<PendingEntry> = given_back
        .map(|it| PendingEntry {
            id: dumped_id(it.id),
            at_ms: it.delivery.at_ms,
            count: it.delivery.count.min(Delivery::COUNT_MAX),
        })
        .collect();
    if given_back.is_empty() {
        return;
    }
    // Consumers are in the order of their names.
    if consumers.first().is_none_or(|first| !first.name.is_empty()) {
        let unnamed =
            StreamConsumer { name: Vec::new(), seen_ms: 0, active_ms: None, pending: Vec::new() };
        consumers.insert(0, unnamed);
    }
    let pending = &mut consumers[0].pending;
    pending.extend(given_back);
    pending.sort_unstable_by_key(|pending| pending.id);
}

/// A payload of this stream has at least so many bytes; each name and value at least those that `bytes` says.
pub(crate) fn payload_bytes_min(stream: StreamView<'_>, bytes: impl Fn(&[u8]) -> usize) -> usize {
    let entries = stream.range(StreamId::MIN, StreamId::MAX);
    // Of names that are the node's nothing is said.
    let of_entries: usize =
        entries.map(|entry| entry.pairs().map(|(_, value)| bytes(value)).sum::<usize>()).sum();
    /// An id in a group's list, with time and count, and in its consumer's.
    const PENDING_BYTES: usize = 16 + 8 + 1 + 16;
    let pending: usize = stream.groups().map(GroupView::pending_count).sum();
    of_entries + pending * PENDING_BYTES
}

/// Creates a stream that is not there.
pub(crate) fn create(
    keyspace: &mut Keyspace,
    db: DbIndex,
    key: &[u8],
    value: &StreamValue,
) -> Result<(), WrongType> {
    keyspace.update::<Stream, ()>(db, key, true, |stream| {
        stream.create();
        let mut pairs: Vec<&[u8]> = Vec::new();
        for entry in &value.entries {
            pairs.clear();
            pairs.extend(entry.pairs.iter().flat_map(|(name, value)| [&name[..], &value[..]]));
            stream.restore(id_of(entry.id), &pairs);
        }
        set_numbers(stream, value.numbers);
        for group in &value.groups {
            add_group(stream, group);
        }
    })?;
    Ok(())
}

/// What a stream says of all that it ever had, when all its entries are there.
pub fn set_numbers(stream: &mut StreamGuard<'_>, numbers: StreamNumbers) {
    let StreamNumbers { last_id, max_deleted_id, entries_added } = numbers;
    stream.set_ids(id_of(last_id), Some(entries_added), Some(id_of(max_deleted_id)));
}

/// Adds a group to a stream whose entries and numbers are there, as it was elsewhere. Whether there was none of its name.
pub fn add_group(stream: &mut StreamGuard<'_>, group: &StreamGroup) -> bool {
    let last_id = id_of(group.last_id);
    let entries_read = match group.entries_read {
        EntriesRead::Known(count) => Some(count),
        EntriesRead::Unknown => None,
        EntriesRead::Unsaid => stream.view().added_up_to(last_id),
    };
    if !stream.create_group(&group.name, last_id, entries_read) {
        return false;
    }
    let mut created = stream.group(&group.name).expect("it was just made");
    for StreamConsumer { name, seen_ms, active_ms, pending } in &group.consumers {
        let consumer = created.restore_consumer(name, *seen_ms, *active_ms);
        for PendingEntry { id, at_ms, count } in pending {
            created.deliver(consumer, id_of(*id), Delivery { at_ms: *at_ms, count: *count });
        }
    }
    true
}
