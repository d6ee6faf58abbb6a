//! Two keyspaces get the same commands on streams; from one of them the streams leave memory at random moments, and are
//! added to at their ends while they are away. They cannot be told apart, both log the same, and in the end both have
//! retired the same records.

use std::collections::BTreeSet;

use base::DbIndex;
use keyspace::stream::{Delivery, Keep, Stream, StreamId, Trim};
use keyspace::{EvictionPolicy, Journal as _, Need, Restored, Restorer, RewriteLost};
use proptest::prelude::*;

use crate::DB0;
use crate::bare::{Blocks, retire_bare};
use crate::cold::needed;
use crate::follow::all;
use crate::journal::{LoggedKeyspace, MemoryLog};
use crate::stream::seen;

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// What a command does with the stream at a key; the last `kept` entries stay.
fn change_by(
    keyspace: &mut LoggedKeyspace,
    key: &[u8],
    kept: u64,
    rng: &mut fastrand::Rng,
) -> Option<u64> {
    let update = |keyspace: &mut LoggedKeyspace, rng: &mut fastrand::Rng| {
        let updated = keyspace.update::<Stream, _>(DB0, key, false, |stream| {
            let last = stream.view().last_id();
            match rng.u8(..6) {
                0 => {
                    let seq = rng.u64(..=last.seq.saturating_sub(2 * kept));
                    u64::from(stream.delete(StreamId::new(1, seq)))
                }
                1 if kept == 0 => u64::from(stream.delete(last)),
                1 | 2 => stream.trim(Trim { keep: Keep::Newest(rng.u64(kept..200)), about: None }),
                3 => stream.trim(Trim { keep: Keep::Newest(rng.u64(kept..200)), about: Some(0) }),
                4 => u64::from(stream.create_group(b"g", StreamId::MIN, Some(0))),
                _ => {
                    let next = stream.group(b"g").map(|group| group.view().last_id());
                    let next = next.and_then(|id| {
                        let id = id.next().unwrap_or(StreamId::MAX);
                        stream.view().range(id, StreamId::MAX).next().map(|entry| entry.id)
                    });
                    if let (Some(id), Some(mut group)) = (next, stream.group(b"g")) {
                        let consumer = group.consumer(b"c");
                        let consumer = consumer.unwrap_or_else(|| group.create_consumer(b"c", 1));
                        group.advance(id);
                        group.deliver(consumer, id, Delivery { at_ms: 5, count: 1 });
                    }
                    0
                }
            }
        });
        updated.expect("it is a stream").map(|updated| updated.value)
    };
    match rng.u8(..40) {
        0..30 => {
            let mut added = 0;
            for _ in 0..rng.u8(1..12) {
                let last = keyspace.stream_end(DB0, key).expect("it is a stream");
                let last = last.unwrap_or(StreamId::new(1, 0));
                let id = StreamId::new(1, last.seq + rng.u64(1..3));
                let value = vec![b'v'; rng.usize(..90)];
                let name: &[u8] = if rng.u8(..5) == 0 { b"another" } else { b"field" };
                let pairs: [&[u8]; 2] = [name, &value];
                keyspace.append_to_stream(DB0, key, id, &pairs).expect("it is a stream");
                added = id.seq;
            }
            Some(added)
        }
        30..37 => update(keyspace, rng),
        37 => Some(u64::from(keyspace.delete(DB0, key))),
        38 => {
            let to = KEYS[rng.usize(..KEYS.len())];
            Some(u64::from(keyspace.rename(DB0, key, DB0, to)))
        }
        _ => Some(u64::from(keyspace.set_expires_at_ms(DB0, key, Some(1 << 50)))),
    }
}

/// What a thread has read of a stream, and brings later.
fn fetch(
    keyspace: &mut LoggedKeyspace,
    blocks: &Blocks,
    key: &[u8],
    need: Need,
) -> Option<Restored> {
    let missing = keyspace.missing(DB0, key, need)?;
    let mut restorer = blocks.clone();
    let restored = match (missing.rest_of, missing.addr) {
        (Some(stream), _) => restorer.read_elements(missing.db, key, stream),
        (None, Some(addr)) if need == Need::End => restorer.read_end(missing.db, key, addr),
        (None, Some(addr)) => restorer.read(missing.db, key, addr),
        (None, None) => {
            let addr = restorer.find(missing.db, key).expect("it can be read")?;
            match need {
                Need::End => restorer.read_end(missing.db, key, addr),
                _ => restorer.read(missing.db, key, addr),
            }
        }
    };
    restored.ok()
}

/// Of what there are records that are not retired.
fn names(log: &MemoryLog) -> BTreeSet<String> {
    let records = log.records();
    let needed = records.iter().filter(|it| !it.is_retired && !it.kind.is_delete());
    needed.map(|it| format!("{:?} {:?} {:?} {:?}", it.kind, it.key, it.object, it.sub)).collect()
}

fn live(seed: u64, count: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let full_log = MemoryLog::default();
    let mut full = full_log.keyspace();
    let blocks = Blocks::default();
    let mut lean = blocks.keyspace();
    // How many entries the last unit has had, deleted ones too, is forgotten when a stream leaves memory. So either
    // none of it is deleted, or it never ends and the numbers in records differ.
    let is_exact = rng.bool();
    let (unit_entries, kept) = if is_exact { (9, 30) } else { (0, 0) };
    for keyspace in [&mut full, &mut lean] {
        let settings = keyspace.settings_mut();
        settings.eviction = EvictionPolicy::ColdLru;
        // How many bytes the last unit has is not known of one whose end alone is here.
        (settings.stream_node_max_bytes, settings.stream_node_max_entries) = (0, unit_entries);
    }
    let (mut ends, mut on_their_way) = (0, Vec::new());
    for _ in 0..count {
        blocks.pass(&mut rng);
        lean.note_indexed(blocks.indexed());
        let key = KEYS[rng.usize(..KEYS.len())];
        let seed = rng.u64(..);
        let change = |keyspace: &mut LoggedKeyspace| {
            change_by(keyspace, key, kept, &mut fastrand::Rng::with_seed(seed))
        };
        full.begin_command(0);
        let expected = change(&mut full);
        lean.begin_command(0);
        if rng.u8(..4) == 0 {
            assert_eq!(lean.restore(DB0, key, Need::End), Ok(()));
        }
        let bare = lean.bare_values();
        assert_eq!(change(&mut lean), expected);
        ends += usize::from(bare > 0 && lean.bare_values() == bare);
        assert_eq!(lean.take_restore_failure(), None);
        let key = KEYS[rng.usize(..KEYS.len())];
        match rng.u8(..10) {
            0..3 => _ = lean.cool_key(DB0, key),
            3 => _ = lean.cool_step(Some(rng.u64(..200))),
            4 => lean.drop_some(50),
            5 => _ = lean.depart_key(DB0, key),
            6 => {
                let need = if rng.bool() { Need::End } else { Need::Value };
                on_their_way.extend(fetch(&mut lean, &blocks, key, need));
            }
            7 if !on_their_way.is_empty() => {
                let restored = on_their_way.swap_remove(rng.usize(..on_their_way.len()));
                lean.install(restored);
            }
            8 => {
                let view = |keyspace: &mut LoggedKeyspace| {
                    keyspace.read::<Stream>(DB0, key).expect("it is a stream").map(seen)
                };
                assert_eq!(view(&mut lean), view(&mut full));
            }
            _ => {
                let last = lean.stream_end(DB0, key).expect("it is a stream");
                assert_eq!(last, full.stream_end(DB0, key).expect("it is a stream"));
            }
        }
        assert_eq!(lean.size(DB0), full.size(DB0));
        if rng.bool() {
            let count = rng.usize(..100);
            full.free_step(count);
            lean.free_step(count);
        }
        if rng.u8(..8) == 0 {
            retire_bare(&mut lean, &blocks);
        }
    }
    while full.free_step(100) {}
    for _ in 0..4 {
        while lean.free_step(100) {}
        blocks.all_indexed();
        retire_bare(&mut lean, &blocks);
    }
    while lean.free_step(100) {}
    assert_eq!(lean.unlisted(), 0);
    assert_eq!(names(&blocks.log), names(&full_log), "both have retired the same");
    assert!(!is_exact || needed(&blocks.log) == needed(&full_log), "both have logged the same");
    for key in KEYS {
        lean.begin_command(0);
        assert_eq!(lean.restore(DB0, key, Need::Value), Ok(()));
    }
    assert_eq!(all(&lean), all(&full));
    assert_eq!(all(&blocks.log.replay(|_| true)), all(&full));
    if count >= 250 {
        assert!(ends > 0, "no stream was added to while it was away");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn streams_that_are_added_to_at_their_ends_are_as_if_they_were_in_memory(
        seed: u64,
        count in 0..400usize,
    ) {
        live(seed, count);
    }
}

/// A keyspace with a stream of so many entries that has left memory.
fn away(blocks: &Blocks, entries: u64) -> LoggedKeyspace {
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    add(&mut keyspace, 1, entries);
    assert!(blocks.nodes().len() > 5);
    blocks.all_indexed();
    keyspace.note_indexed(blocks.indexed());
    assert!(keyspace.cool_key(DB0, b"s"));
    keyspace
}

fn add(keyspace: &mut LoggedKeyspace, from: u64, count: u64) {
    for seq in from..from + count {
        let pairs: [&[u8]; 2] = [b"field", b"a value of a stream"];
        let last = keyspace.stream_end(DB0, b"s").expect("it is a stream");
        assert!(last.is_none_or(|last| last == StreamId::new(1, seq - 1)));
        keyspace.append_to_stream(DB0, b"s", StreamId::new(1, seq), &pairs).expect("a stream");
    }
}

#[test]
fn an_addition_to_a_stream_that_is_away_reads_two_records() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 10_000);
    let read = blocks.records_read();
    let missing = keyspace.missing(DB0, b"s", Need::End).expect("its end is not in memory");
    assert!(missing.bytes < 10_000 && missing.rest_of.is_none());
    keyspace.begin_command(0);
    assert_eq!(keyspace.restore(DB0, b"s", Need::End), Ok(()));
    assert_eq!(blocks.records_read() - read, 2, "the root and the last node");
    assert_eq!(keyspace.missing(DB0, b"s", Need::End), None);
    add(&mut keyspace, 10_001, 1000);
    assert_eq!((keyspace.bare_values(), blocks.records_read() - read), (1, 2));
    let usage = keyspace.memory_usage(DB0, b"s", 0).expect("it is there");
    assert!((20_000..200_000).contains(&usage), "{usage}: the thousand that were added");
    // What the index knows of them leaves memory, too, but for the last node.
    blocks.all_indexed();
    keyspace.note_indexed(blocks.indexed());
    keyspace.begin_command(0);
    add(&mut keyspace, 11_001, 1);
    keyspace.cool_step(None);
    assert!(keyspace.memory_usage(DB0, b"s", 0).expect("it is there") < 2_000);
    add(&mut keyspace, 11_002, 10);
    let len = keyspace.read::<Stream>(DB0, b"s").expect("it is a stream").map(|it| it.len());
    assert_eq!((len, keyspace.bare_values()), (Some(11_011), 0));
}

#[test]
fn what_lies_in_damage_is_known_by_what_is_needed_of_it() {
    for is_last in [true, false] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 995);
        keyspace.begin_command(0);
        let nodes = blocks.nodes();
        add(&mut keyspace, 996, 105);
        let last = *nodes.last().expect("some");
        assert!(blocks.log.is_retired(last), "it had room");
        // The node that was the last one has another record now, and nothing needs this one.
        blocks.damage(if is_last { last } else { nodes[3] });
        keyspace.begin_command(0);
        let restored = keyspace.restore(DB0, b"s", Need::Value);
        assert_eq!(restored.is_ok(), is_last, "{restored:?}");
        // It can be added to all the same.
        keyspace.begin_command(0);
        assert_eq!(keyspace.restore(DB0, b"s", Need::End), Ok(()));
        add(&mut keyspace, 1101, 1);
        let segments = vec![nodes[3].segment()];
        let mut walk = RewriteLost::new(segments, true);
        keyspace.begin_command(0);
        while !keyspace.rewrite_lost_step(&mut walk, 1000) {}
        assert_eq!(keyspace.lost_values(), u64::from(!is_last));
        while keyspace.free_step(100) {}
        retire_bare(&mut keyspace, &blocks);
        retire_bare(&mut keyspace, &blocks);
        while keyspace.free_step(100) {}
        let len = keyspace.read::<Stream>(DB0, b"s").ok().flatten().map(|it| it.len());
        assert_eq!(len, is_last.then_some(1101));
    }
}

#[test]
fn what_is_deleted_while_it_is_away_leaves_nothing_behind() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    keyspace.begin_command(0);
    add(&mut keyspace, 1001, 3000);
    assert!(keyspace.delete(DB0, b"s"));
    assert_eq!(keyspace.stream_end(DB0, b"s"), Ok(None));
    blocks.all_indexed();
    for _ in 0..4 {
        retire_bare(&mut keyspace, &blocks);
        while keyspace.free_step(100) {}
        blocks.all_indexed();
    }
    assert_eq!((keyspace.unlisted(), needed(&blocks.log).len()), (0, 0));
    assert_eq!(keyspace.size(DbIndex::FIRST), (0, 0));
}
