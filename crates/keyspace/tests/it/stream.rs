//! Streams against maps, through the log, and what they leave there.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::stream::{
    Delivery, Keep, MESSAGE_NAME_BYTES_MAX, MessageLimits, PRODUCERS_MAX, References, Stream,
    StreamGuard, StreamId, StreamRecord, StreamView, Trim,
};
use keyspace::{Keyspace, NoJournal, Type};

use crate::DB0;
use crate::journal::{Logged, LoggedKeyspace, MemoryLog, SEED};

type Bytes = Vec<u8>;

/// Everything that a command can see of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seen {
    entries: Vec<(StreamId, Vec<(Bytes, Bytes)>)>,
    last_id: StreamId,
    added: u64,
    max_deleted_id: StreamId,
    groups: BTreeMap<Bytes, SeenGroup>,
    /// Messages of producers, by the ids of their entries.
    messages: BTreeMap<StreamId, SeenMessage>,
    limits: Option<MessageLimits>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct SeenMessage {
    producer: Bytes,
    name: Bytes,
    at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct SeenGroup {
    last_id: StreamId,
    read: Option<u64>,
    /// When each was seen, and when it was active.
    consumers: BTreeMap<Bytes, (i64, Option<i64>)>,
    pending: BTreeMap<StreamId, (Bytes, Delivery)>,
}

pub(crate) fn seen(stream: StreamView<'_>) -> Seen {
    let pairs = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    let range = stream.range(StreamId::MIN, StreamId::MAX);
    let groups = stream.groups().map(|group| {
        let pending = group.pending_from(StreamId::MIN);
        let pending: BTreeMap<_, _> = pending
            .map(|it| (it.id, (it.consumer.unwrap_or_default().to_vec(), it.delivery)))
            .collect();
        assert_eq!(group.pending_count(), pending.len());
        for consumer in group.consumers() {
            let held = group.held_from(consumer, StreamId::MIN).map(|it| it.id);
            let of = pending.iter().filter(|(_, (name, _))| name == consumer.name());
            assert!(held.eq(of.map(|(id, _)| *id)), "what is held is what is pending");
        }
        let consumers = group.consumers();
        let consumers = consumers.map(|it| (it.name().to_vec(), (it.seen_ms(), it.active_ms())));
        let (last_id, read, consumers) =
            (group.last_id(), group.entries_read(), consumers.collect());
        (group.name().to_vec(), SeenGroup { last_id, read, consumers, pending })
    });
    let (mut messages, mut limits) = (BTreeMap::new(), None);
    let read = stream.for_each_record(
        |_| Ok::<_, std::convert::Infallible>(()),
        |name, value| {
            match StreamRecord::read(name, value).expect("well-formed") {
                StreamRecord::Message { id, producer, message, at_ms } => {
                    let (producer, name) = (producer.to_vec(), message.to_vec());
                    messages.insert(id, SeenMessage { producer, name, at_ms });
                }
                StreamRecord::Limits(set) => limits = Some(set),
                _ => {}
            }
            Ok(())
        },
    );
    read.expect("nothing fails");
    assert_eq!(stream.producers().map_or(0, |it| it.messages), messages.len());
    let names: BTreeSet<&Bytes> = messages.values().map(|it| &it.producer).collect();
    assert_eq!(stream.producers().map_or(0, |it| it.producers), names.len());
    Seen {
        entries: range.map(|entry| (entry.id, entry.pairs().map(pairs).collect())).collect(),
        last_id: stream.last_id(),
        added: stream.entries_added(),
        max_deleted_id: stream.max_deleted_id(),
        groups: groups.collect(),
        messages,
        limits,
    }
}

fn seen_in(keyspace: &mut Keyspace, key: &[u8]) -> Option<Seen> {
    keyspace.read::<Stream>(DB0, key).expect("it is a stream").map(seen)
}

fn change<R>(
    keyspace: &mut Keyspace,
    key: &[u8],
    change: impl FnOnce(&mut StreamGuard<'_>) -> R,
) -> R {
    let updated = keyspace.update::<Stream, _>(DB0, key, true, change).expect("it is a stream");
    updated.expect("it is made").value
}

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId::new(ms, seq)
}

/// A stream of so many small entries.
fn filled(log: &MemoryLog, count: u64) -> LoggedKeyspace {
    let mut keyspace = log.keyspace();
    for seq in 1..=count {
        change(&mut keyspace, b"s", |stream| stream.append(id(5, seq), &[b"field", b"value"]));
    }
    keyspace
}

/// The kinds of the records that `run` logs, each with the length of its value.
fn logged(log: &MemoryLog, run: impl FnOnce()) -> Vec<(RecordKind, usize)> {
    let before = log.records().len();
    run();
    log.records()[before..].iter().map(|logged| (logged.kind, logged.value.len())).collect()
}

/// A reply would wait for a block that may never come.
#[test]
fn what_is_set_to_what_it_was_is_no_change() {
    let mut keyspace = Keyspace::new(MemoryLog::default(), SEED, 4);
    keyspace.begin_command(5);
    let _ = keyspace.update::<Stream, _>(DB0, b"s", true, |stream| {
        stream.create();
        stream.create_group(b"g", StreamId::MIN, None);
        stream.group(b"g").unwrap().create_consumer(b"c", 5);
    });
    for now_ms in [5, 6, 6] {
        keyspace.begin_command(now_ms);
        let updated = keyspace.update::<Stream, _>(DB0, b"s", false, |stream| {
            let mut group = stream.group(b"g").unwrap();
            let consumer = group.consumer(b"c").unwrap();
            let was_seen_ms = group.view().consumer(b"c").unwrap().seen_ms();
            group.note_seen(consumer, now_ms, false);
            was_seen_ms != now_ms
        });
        let updated = updated.unwrap().unwrap();
        assert_eq!(updated.changed, updated.value);
        assert_eq!(keyspace.end_command().1, updated.value);
    }
}

/// Each record of a message has both names; while a stream is read they are all in memory.
#[test]
fn a_record_of_a_message_is_short() {
    let of_message = [&[4_u8][..], &5_u64.to_be_bytes(), &1_u64.to_be_bytes()].concat();
    let is_message = |producer: usize, name: usize| {
        let mut value = vec![7, 8];
        base::varint::put_bytes(&mut value, &vec![b'p'; producer]);
        base::varint::put_bytes(&mut value, &vec![b'n'; name]);
        StreamRecord::read(&of_message, &value).is_some()
    };
    let most = MESSAGE_NAME_BYTES_MAX;
    assert!(is_message(1, 1) && is_message(most, most));
    assert!(!is_message(0, 1) && !is_message(1, 0));
    assert!(!is_message(most + 1, 1) && !is_message(1, most + 1));
    let are_limits = |duration_s: u64, messages_max: u64| {
        let mut value = Vec::new();
        base::varint::put(&mut value, duration_s);
        base::varint::put(&mut value, messages_max);
        StreamRecord::read(&[5], &value).is_some()
    };
    assert!(are_limits(1, 1) && are_limits(86_400, 10_000));
    assert!(!are_limits(0, 1) && !are_limits(1, 0));
    assert!(!are_limits(86_401, 1) && !are_limits(1, 10_001));
}

#[test]
fn a_stream_knows_so_many_producers_and_forgets_none_for_another() {
    let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
    change(&mut keyspace, b"s", |stream| {
        for number in 1..=PRODUCERS_MAX as u64 {
            stream.append(id(5, number), &[b"f", b"v"]);
            stream.note_message(&number.to_be_bytes(), b"m", id(5, number), 5);
        }
        let stream = stream.view();
        assert!(!stream.has_room_for_message(b"other", 5));
        assert!(stream.has_room_for_message(&1_u64.to_be_bytes(), 5), "it is known");
        assert!(stream.has_room_for_message(b"other", 100_005), "names go with it");
    });
}

/// What a slow group needs lies in front of what all have acknowledged.
#[test]
fn approximate_trims_get_past_what_a_group_needs() {
    let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
    keyspace.settings_mut().stream_node_max_entries = 10;
    let trim = Trim { keep: Keep::Newest(10), about: Some(100) };
    change(&mut keyspace, b"s", |stream| {
        (1..=3000).for_each(|seq| stream.append(id(5, seq), &[b"field", b"value"]));
        stream.create_group(b"g", StreamId::MIN, None);
        let mut group = stream.group(b"g").expect("it was made");
        let consumer = group.create_consumer(b"c", 1);
        group.set(id(5, 2900), None);
        (1..=1000).for_each(|seq| {
            group.deliver(consumer, id(5, seq), Delivery { at_ms: 1, count: 1 });
        });
        let removed: Vec<u64> =
            (0..30).map(|_| stream.trim_with(trim, References::Acknowledged)).collect();
        assert_eq!(removed.iter().sum::<u64>(), 1900, "{removed:?}");
        // Each goes past 256 of the thousand, and what it does not look at cannot go.
        assert_eq!(removed[..3], [0, 0, 0]);
        assert!(removed.iter().all(|removed| *removed <= 100), "{removed:?}");
        assert_eq!(stream.view().len(), 1100);
        // The front is looked at again.
        (1..=1000).for_each(|seq| _ = stream.group(b"g").expect("it is there").release(id(5, seq)));
        let removed: u64 = (0..20).map(|_| stream.trim_with(trim, References::Acknowledged)).sum();
        assert_eq!(removed, 1000);
    });
}

#[test]
fn an_addition_logs_the_last_node_alone() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 1000);
    let (mut nodes, mut roots) = (0, 0);
    for seq in 1001..=1100 {
        for (kind, bytes) in logged(&log, || {
            change(&mut keyspace, b"s", |stream| stream.append(id(5, seq), &[b"field", b"value"]));
        }) {
            match kind {
                RecordKind::StreamNode => nodes += 1,
                RecordKind::Stream => roots += 1,
                other => panic!("{other:?}"),
            }
            assert!(bytes <= 270, "{bytes}");
        }
    }
    assert!(nodes == 100 && roots < 10, "{nodes} nodes, {roots} roots");
}

#[test]
fn an_acknowledgement_logs_that_one_entry_is_gone() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 100);
    change(&mut keyspace, b"s", |stream| {
        assert!(stream.create_group(b"g", StreamId::MIN, Some(0)));
        let mut group = stream.group(b"g").expect("it was made");
        let consumer = group.create_consumer(b"c", 1);
        for seq in 1..=100 {
            group.advance(id(5, seq));
            group.deliver(consumer, id(5, seq), Delivery { at_ms: 1, count: 1 });
        }
        assert_eq!(group.view().entries_read(), Some(100));
    });
    let records = logged(&log, || {
        change(&mut keyspace, b"s", |stream| {
            let mut group = stream.group(b"g").expect("it is there");
            assert!(group.release(id(5, 50)) && !group.release(id(5, 50)));
        });
    });
    assert_eq!(records, [(RecordKind::ElementDeleted, 0)]);
    let records = logged(&log, || {
        change(&mut keyspace, b"s", |stream| {
            let mut group = stream.group(b"g").expect("it is there");
            let consumer = group.consumer(b"c").expect("it is there");
            group.note_seen(consumer, 7, false);
            group.deliver(consumer, id(5, 51), Delivery { at_ms: 7, count: 2 });
            group.deliver(consumer, id(5, 51), Delivery { at_ms: 8, count: 3 });
        });
    });
    let kinds: Vec<_> = records.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [RecordKind::StreamConsumer, RecordKind::StreamPending]);
}

#[test]
fn a_group_that_is_destroyed_takes_what_it_has_along() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 10);
    let fill = |stream: &mut StreamGuard<'_>| {
        assert!(stream.create_group(b"g", StreamId::MIN, None));
        let mut group = stream.group(b"g").expect("it was made");
        let consumer = group.create_consumer(b"c", 1);
        group.deliver(consumer, id(5, 1), Delivery { at_ms: 1, count: 1 });
    };
    change(&mut keyspace, b"s", fill);
    change(&mut keyspace, b"s", |stream| {
        assert!(stream.destroy_group(b"g") && !stream.destroy_group(b"g"));
    });
    assert_eq!(seen_in(&mut log.replay(|_| true), b"s"), seen_in(&mut keyspace, b"s"));
    // Within one command the names are the same, and the records are those of the new ones.
    change(&mut keyspace, b"s", fill);
    change(&mut keyspace, b"s", |stream| {
        assert!(stream.destroy_group(b"g"));
        assert!(stream.create_group(b"g", StreamId::MIN, None));
    });
    let left = seen_in(&mut keyspace, b"s").expect("it is there");
    assert_eq!(left.groups[&b"g"[..]], SeenGroup::default());
    assert_eq!(seen_in(&mut log.replay(|_| true), b"s"), Some(left));
}

#[test]
fn a_stream_without_entries_is_there() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    let updated = keyspace.update::<Stream, _>(DB0, b"s", true, |_| ()).expect("a stream");
    assert!(!updated.expect("it was made").created);
    assert_eq!((keyspace.type_of(DB0, b"s"), log.records().len()), (None, 0), "nothing was done");
    let updated = keyspace.update::<Stream, _>(DB0, b"s", true, |stream| stream.create());
    assert!(updated.expect("a stream").expect("it was made").created);
    assert_eq!(keyspace.type_of(DB0, b"s"), Some(Type::Stream));
    assert_eq!(keyspace.encoding(DB0, b"s"), Some("stream"));
    let mut again = log.replay(|_| true);
    assert_eq!(seen_in(&mut again, b"s"), Some(Seen::default()));
    change(&mut again, b"s", |stream| stream.append(id(1, 1), &[b"f", b"v"]));
    change(&mut again, b"s", |stream| assert!(stream.delete(id(1, 1))));
    let left = Seen { last_id: id(1, 1), added: 1, max_deleted_id: id(1, 1), ..Seen::default() };
    assert_eq!(seen_in(&mut again, b"s"), Some(left.clone()));
    assert_eq!(seen_in(&mut log.replay(|_| false), b"s"), Some(left));
}

#[test]
fn what_was_the_last_id_survives_the_entry() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 5);
    change(&mut keyspace, b"s", |stream| assert!(stream.delete(id(5, 5))));
    for mut keyspace in [log.replay(|_| true), log.replay(|_| false)] {
        let stream = seen_in(&mut keyspace, b"s").expect("it is there");
        assert_eq!((stream.last_id, stream.added, stream.entries.len()), (id(5, 5), 5, 4));
    }
    change(&mut keyspace, b"s", |stream| {
        stream.trim(Trim { keep: Keep::Newest(0), about: None });
        stream.set_ids(id(9, 9), Some(77), Some(id(8, 8)));
    });
    change(&mut keyspace, b"s", |stream| stream.append(id(9, 10), &[b"f", b"v"]));
    for mut keyspace in [log.replay(|_| true), log.replay(|_| false)] {
        let stream = seen_in(&mut keyspace, b"s").expect("it is there");
        assert_eq!((stream.last_id, stream.added, stream.entries.len()), (id(9, 10), 78, 1));
        assert_eq!(stream.max_deleted_id, id(8, 8));
    }
}

/// The numbers of Redis 7.0 for the same commands.
#[test]
fn a_lag_is_told_where_it_is_known() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 5);
    let lag = |keyspace: &mut Keyspace| {
        let stream = keyspace.read::<Stream>(DB0, b"s").expect("a stream").expect("it is there");
        let group = stream.group(b"g").expect("it is there");
        (group.entries_read(), stream.lag(group))
    };
    let read = |keyspace: &mut Keyspace, seq| {
        change(keyspace, b"s", |stream| {
            stream.group(b"g").expect("it is there").advance(id(5, seq));
        });
    };
    change(&mut keyspace, b"s", |stream| stream.create_group(b"g", StreamId::MIN, None));
    assert_eq!(lag(&mut keyspace), (None, Some(5)));
    read(&mut keyspace, 1);
    assert_eq!(lag(&mut keyspace), (Some(1), Some(4)));
    read(&mut keyspace, 2);
    assert_eq!(lag(&mut keyspace), (Some(2), Some(3)));
    // An entry behind what was read is gone.
    change(&mut keyspace, b"s", |stream| stream.delete(id(5, 4)));
    assert_eq!(lag(&mut keyspace), (Some(2), None));
    read(&mut keyspace, 3);
    assert_eq!(lag(&mut keyspace), (None, None));
    read(&mut keyspace, 5);
    assert_eq!(lag(&mut keyspace), (Some(5), Some(0)));
}

/// A record of a consumer may come before that of its group, which was logged again.
#[test]
fn what_belongs_to_a_group_waits_for_it() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 3);
    change(&mut keyspace, b"s", |stream| {
        stream.create_group(b"g", StreamId::MIN, Some(0));
        let mut group = stream.group(b"g").expect("it was made");
        let consumer = group.create_consumer(b"c", 1);
        group.deliver(consumer, id(5, 1), Delivery { at_ms: 1, count: 1 });
    });
    let expected = seen_in(&mut keyspace, b"s");
    let mut follower = Keyspace::new(NoJournal, SEED, 4);
    let (mut retired, mut live) = (Vec::new(), 0);
    let records = log.records();
    let (roots, elements): (Vec<_>, Vec<_>) = (0..)
        .zip(records.iter())
        .filter(|(_, it)| !it.is_retired)
        .partition(|(_, it)| it.kind.is_root());
    for (at, logged) in roots.into_iter().chain(elements.into_iter().rev()) {
        let addr = RecordAddr::new(SegmentId(1), at);
        follower.apply(&logged.record(), addr, Lsn(1), &mut retired).expect("well-formed");
        follower.end_block(&mut retired).expect("well-formed");
        live += 1;
    }
    assert_eq!((seen_in(&mut follower, b"s"), retired.len()), (expected, 0));
    let gone = Record::key_deleted(DbId(0), b"s");
    follower
        .apply(&gone, RecordAddr::new(SegmentId(2), 0), Lsn(1), &mut retired)
        .expect("well-formed");
    follower.end_block(&mut retired).expect("well-formed");
    follower.free_all(&mut retired);
    assert!(live > 4 && retired.len() == live, "each record belongs to something");
}

/// Ten million entries that were trimmed are not forgotten in one block.
#[test]
fn what_is_gone_is_found_some_at_a_time() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 1200);
    let mut found = Vec::new();
    change(&mut keyspace, b"s", |stream| {
        stream.create_group(b"g", StreamId::MIN, None);
        let mut group = stream.group(b"g").expect("it was just made");
        let consumer = group.create_consumer(b"c", 1);
        for seq in 1..=1200 {
            group.deliver(consumer, id(5, seq), Delivery { at_ms: 1, count: 1 });
        }
        (1..1200).for_each(|seq| assert!(stream.delete(id(5, seq))));
        for _ in 0..2 {
            let mut group = stream.group(b"g").expect("it is there");
            let idle = group.idle_since(9, 1);
            found.push((idle.gone.len(), idle.there.len()));
            assert!(idle.gone.into_iter().all(|id| group.release(id)));
        }
    });
    assert_eq!(found, [(1000, 0), (199, 1)]);
}

/// The log says which entry was given back before which, and that no consumer has it.
#[test]
fn what_was_given_back_comes_in_its_order_after_a_start() {
    for keeps_stale in [false, true] {
        what_was_given_back_comes_in_its_order(keeps_stale);
    }
}

fn what_was_given_back_comes_in_its_order(keeps_stale: bool) {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 9);
    change(&mut keyspace, b"s", |stream| {
        stream.create_group(b"g", StreamId::MIN, None);
        let mut group = stream.group(b"g").expect("it was just made");
        let consumer = group.create_consumer(b"c", 1);
        for seq in 1..=3 {
            group.deliver(consumer, id(5, seq), Delivery { at_ms: 1, count: 1 });
        }
    });
    change(&mut keyspace, b"s", |stream| {
        let mut group = stream.group(b"g").expect("it is there");
        [3, 1, 2, 3].into_iter().for_each(|seq| group.give_back(id(5, seq), 4));
        let consumer = group.consumer(b"c").expect("it was made");
        assert_eq!(group.delete_consumer(consumer), 0);
    });
    let made = seen_in(&mut keyspace, b"s");
    let mut again = log.replay_after_crash(|_| keeps_stale);
    assert_eq!(seen_in(&mut again, b"s"), made);
    change(&mut again, b"s", |stream| {
        let mut group = stream.group(b"g").expect("it is there");
        group.give_back(id(5, 2), 4);
        let pending = group.view().pending(id(5, 2)).expect("it waits");
        assert_eq!((pending.consumer, pending.delivery.at_ms), (None, 0));
        let idle = group.idle_since(i64::MIN + 9, 9);
        let given = Delivery { at_ms: 0, count: 4 };
        assert_eq!(idle.there, [1, 3, 2].map(|seq| (id(5, seq), given)));
    });
}

/// A group that is made when the one before is lost would have what that one's consumers hold.
#[test]
fn nothing_takes_over_what_a_lost_group_or_consumer_left() {
    let pend = |stream: &mut StreamGuard<'_>, group: &[u8], consumer: &[u8], seq| {
        let mut group = stream.group(group).expect("it is there");
        let number = group.consumer(consumer);
        let number = number.unwrap_or_else(|| group.create_consumer(consumer, 1));
        group.deliver(number, id(5, seq), Delivery { at_ms: 1, count: 1 });
    };
    for lost in [RecordKind::StreamGroup, RecordKind::StreamConsumer] {
        let log = MemoryLog::default();
        let mut keyspace = filled(&log, 9);
        change(&mut keyspace, b"s", |stream| {
            for group in [b"g", b"h"] {
                stream.create_group(group, StreamId::MIN, None);
                pend(stream, group, b"c", 1);
                pend(stream, group, b"d", 2);
            }
        });
        log.lose(|logged| logged.kind == lost);
        let mut keyspace = log.replay_after_crash(|_| false);
        change(&mut keyspace, b"s", |stream| {
            for group in [&b"new"[..], b"g"] {
                stream.create_group(group, StreamId::MIN, None);
                pend(stream, group, b"newer", 3);
            }
        });
        let made = seen_in(&mut keyspace, b"s").expect("it is there");
        for mut again in [log.replay_after_crash(|_| true), log.replay_after_crash(|_| false)] {
            let again = seen_in(&mut again, b"s").expect("it is there");
            assert_eq!(again, made, "{lost:?}");
            for group in [&b"new"[..], b"g"] {
                let pending: Vec<_> = again.groups[group].pending.keys().collect();
                assert_eq!(pending, [&id(5, 3)], "{lost:?}");
            }
        }
    }
}

/// What a lost consumer held is given to another one: its record takes the place of the one that waits.
#[test]
fn what_is_given_again_has_one_record() {
    let log = MemoryLog::default();
    let mut keyspace = filled(&log, 9);
    let give = |stream: &mut StreamGuard<'_>, consumer: &[u8]| {
        stream.create_group(b"g", StreamId::MIN, None);
        let mut group = stream.group(b"g").expect("it is there");
        let consumer = group.create_consumer(consumer, 1);
        group.deliver(consumer, id(5, 1), Delivery { at_ms: 1, count: 1 });
    };
    change(&mut keyspace, b"s", |stream| give(stream, b"c"));
    log.lose(|logged| logged.kind == RecordKind::StreamConsumer);
    let mut keyspace = log.replay_after_crash(|_| false);
    change(&mut keyspace, b"s", |stream| give(stream, b"d"));
    let records = log.records();
    let is_left = |logged: &&Logged| logged.kind == RecordKind::StreamPending && !logged.is_retired;
    assert_eq!(records.iter().filter(is_left).count(), 1);
}

/// In a dump of some kilobytes thousands of entries may share a name of a kilobyte.
#[test]
fn what_is_restored_shares_long_names_as_it_did() {
    fn add(stream: &mut StreamGuard<'_>, shares_names: bool, seq: u64, pairs: &[&[u8]]) {
        if shares_names {
            stream.restore(id(5, seq), pairs);
        } else {
            stream.append(id(5, seq), pairs);
        }
    }
    let bytes_of = |shares_names: bool, has_others: bool| {
        let log = MemoryLog::default();
        let mut keyspace = log.keyspace();
        let long = [b'n'; 5000];
        change(&mut keyspace, b"s", |stream| {
            for seq in (1..=4000).step_by(2) {
                add(stream, shares_names, seq, &[&long, b"value"]);
                if has_others {
                    add(stream, shares_names, seq + 1, &[b"f", b"v"]);
                }
            }
        });
        let seen = seen_in(&mut keyspace, b"s");
        let count = if has_others { 4000 } else { 2000 };
        assert_eq!(seen.as_ref().map(|seen| seen.entries.len()), Some(count));
        assert_eq!(seen_in(&mut log.replay(|_| true), b"s"), seen);
        let records = log.records();
        records.iter().map(|logged| logged.value.len()).sum::<usize>()
    };
    for has_others in [false, true] {
        // The name, and 2,000 times the 9 bytes of an entry and the 8 of another one.
        let bytes = bytes_of(true, has_others);
        assert!(bytes < 3 * (5000 + 2000 * 17), "{bytes}");
        assert!(bytes_of(false, has_others) > 2000 * 5000);
    }
}

#[test]
fn a_malformed_record_is_refused() {
    let whole = |kind, sub: &[u8], value: &[u8]| {
        let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
        let record = Record::element(kind, ObjectId(1), sub, value);
        keyspace.apply(&record, RecordAddr::new(SegmentId(1), 1), Lsn(1), &mut Vec::new())
    };
    let node = [1, 0, 1, 1, b'f', 7, 1, b'v'];
    assert!(whole(RecordKind::StreamNode, &[0; 17], &node).is_ok());
    assert!(whole(RecordKind::StreamNode, &[0; 17], &node[..7]).is_err());
    assert!(whole(RecordKind::StreamNode, &[0; 17], &node[..5]).is_err(), "no entry");
    assert!(whole(RecordKind::StreamNode, &[1; 5], &node).is_err());
    assert!(whole(RecordKind::StreamGroup, &[0; 17], &node).is_err());
    assert!(whole(RecordKind::StreamGroup, &[1; 5], &[1, b'g', 0, 0, 0]).is_ok());
    assert!(whole(RecordKind::StreamGroup, &[1; 5], &[1, b'g', 0, 0, 0, 0]).is_err());
    assert!(whole(RecordKind::StreamPending, &[3; 21], &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_ok());
    let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
    for (value, is_good) in
        [(&[0, 1, 1, 1, 0, 0, 1, 1][..], true), (&[1, 1, 1, 1, 0, 0, 1, 1], false), (&[0], false)]
    {
        let root = Record::root(RecordKind::Stream, DbId(0), b"s", ObjectId(1), value, None);
        let applied =
            keyspace.apply(&root, RecordAddr::new(SegmentId(1), 1), Lsn(1), &mut Vec::new());
        assert_eq!(applied.is_ok(), is_good, "{value:?}");
    }
}
