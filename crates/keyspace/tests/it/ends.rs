//! Two keyspaces get the same commands on streams; from one of them the streams leave memory at random moments, and are
//! added to at their ends while they are away. They cannot be told apart, both log the same, and in the end both have
//! retired the same records.

use std::collections::BTreeSet;

use base::{DbIndex, RecordKind, SegmentId, varint};
use keyspace::hash::Hash;
use keyspace::stream::{Delivery, Keep, Stream, StreamId, Trim};
use keyspace::{
    EvictionPolicy, Expiry, Journal as _, Missing, Need, RestoreError, Restored, Restorer,
    RewriteLost, Warmth,
};
use proptest::prelude::*;

use crate::DB0;
use crate::bare::{Blocks, retire_bare};
use crate::cold::needed;
use crate::follow::all;
use crate::journal::{Logged, LoggedKeyspace, MemoryLog};
use crate::stream::seen;

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// What a command does with the stream at a key; the last `kept` entries stay. None trims by units: what comes back begins
/// one earlier.
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
                1..4 => stream.trim(Trim { keep: Keep::Newest(rng.u64(kept..200)), about: None }),
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

/// What a thread has read of a stream, and brings later; the rest of one with an end may be asked for properly.
fn fetch(
    keyspace: &mut LoggedKeyspace,
    blocks: &Blocks,
    key: &[u8],
    need: Need,
    is_noted: bool,
) -> Option<(Missing, Restored)> {
    let missing = keyspace.missing(DB0, key, need)?;
    if is_noted {
        keyspace.note_asked(&missing);
    }
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
    if restored.is_err() {
        keyspace.note_told(&missing);
    }
    Some((missing, restored.ok()?))
}

/// Of what there are records that are not retired, and what they say; of a node its entries alone: units
/// differ, and a node that begins one when the one before it goes is logged again.
fn names(log: &MemoryLog) -> BTreeSet<String> {
    let records = log.records();
    let needed = records.iter().filter(|it| !it.is_retired && !it.kind.is_delete());
    let name = |it: &Logged| {
        let mut value = &it.value[..];
        if it.kind == RecordKind::StreamNode {
            // How many entries there were says that of the last one alone.
            _ = (varint::take(&mut value), varint::take(&mut value));
            return format!("{:?} {:?} {value:?}", it.object, it.sub);
        }
        format!("{:?} {:?} {:?} {:?} {value:?}", it.kind, it.key, it.object, it.sub)
    };
    needed.map(name).collect()
}

fn live(seed: u64, count: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let full_log = MemoryLog::default();
    let mut full = full_log.keyspace();
    let blocks = Blocks::default();
    let mut lean = blocks.keyspace();
    // A unit whose beginning is away takes no further node. So either none ends, or nodes differ.
    let is_exact = rng.bool();
    let (unit_entries, kept) = if is_exact { (0, 0) } else { (9, 30) };
    for keyspace in [&mut full, &mut lean] {
        let settings = keyspace.settings_mut();
        settings.eviction = EvictionPolicy::ColdLru;
        (settings.stream_node_max_bytes, settings.stream_node_max_entries) = (0, unit_entries);
    }
    let (mut ends, mut on_their_way) = (0, Vec::new());
    for _ in 0..count {
        blocks.pass(&mut rng);
        lean.note_indexed(blocks.indexed());
        if rng.u8(..8) == 0 {
            lean.note_pinned(blocks.indexed().filter(|_| rng.bool()));
        }
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
                on_their_way.extend(fetch(&mut lean, &blocks, key, need, rng.bool()));
            }
            7 if !on_their_way.is_empty() => {
                let at = rng.usize(..on_their_way.len());
                let (missing, restored): (Missing, Restored) = on_their_way.swap_remove(at);
                lean.note_told(&missing);
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
    if is_exact {
        assert!(names(&blocks.log) == names(&full_log), "both have logged and retired the same");
    }
    for key in KEYS {
        lean.begin_command(0);
        assert_eq!(lean.restore(DB0, key, Need::Value), Ok(()));
    }
    assert_eq!(all(&lean), all(&full));
    assert_eq!(all(&blocks.log.replay(|_| true)), all(&full));
    if count >= 250 {
        assert!(ends > 0, "no stream was added to while it was away");
    }
    for key in KEYS {
        lean.delete(DB0, key);
    }
    while lean.free_step(100) {}
    assert_eq!((needed(&blocks.log).len(), lean.stream_ends()), (0, 0), "nothing is left behind");
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
        heal(&mut keyspace, nodes[3].segment());
        assert_eq!(keyspace.lost_values(), u64::from(!is_last));
        let added = keyspace.take_lost().added;
        assert_eq!(added, if is_last { 0 } else { 106 }, "it is told what goes with it");
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

/// Logs anew what lies in a segment that is damaged.
fn heal(keyspace: &mut LoggedKeyspace, segment: SegmentId) {
    let mut walk = RewriteLost::new(vec![segment], true);
    keyspace.begin_command(0);
    while !keyspace.rewrite_lost_step(&mut walk, 1000) {}
}

/// Everything that was logged is durable and indexed.
fn settle(keyspace: &mut LoggedKeyspace, blocks: &Blocks) {
    blocks.all_indexed();
    keyspace.note_indexed(blocks.indexed());
    keyspace.begin_command(0);
}

fn len(keyspace: &mut LoggedKeyspace) -> Option<usize> {
    keyspace.read::<Stream>(DB0, b"s").expect("it is a stream").map(|it| it.len())
}

/// A stream at `key` with a last entry of so many bytes, which has left memory.
fn large_end(keyspace: &mut LoggedKeyspace, blocks: &Blocks, key: &[u8], bytes: usize) {
    let value = vec![b'v'; bytes];
    for (seq, value) in [(1, &b"v"[..]), (2, &value)] {
        keyspace.append_to_stream(DB0, key, StreamId::new(1, seq), &[b"f", value]).expect("one");
    }
    settle(keyspace, blocks);
    assert!(keyspace.cool_key(DB0, key));
}

#[test]
fn an_end_counts_with_all_that_it_takes() {
    const BYTES: usize = 1 << 20;
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    for number in 0..10 {
        large_end(&mut keyspace, &blocks, &[number], BYTES);
    }
    let (missing, restored) =
        fetch(&mut keyspace, &blocks, &[0], Need::End, false).expect("it is away");
    assert_eq!(missing.bytes, 0, "how much it takes is known when it has come");
    assert!(restored.bytes() > BYTES);
    // A script, say.
    keyspace.limit_reading(3 * BYTES as u64);
    let fetched = |keyspace: &LoggedKeyspace| keyspace.cold_stats().expect("a source").fetched;
    let before = fetched(&keyspace);
    for number in 0..10 {
        let last = keyspace.stream_end(DB0, &[number]).expect("it is a stream");
        assert_eq!(last.is_some(), number < 3, "{number}");
    }
    assert_eq!(keyspace.take_restore_failure(), Some(RestoreError::TooMuch));
    assert_eq!((fetched(&keyspace) - before, keyspace.stream_ends()), (3, 3));
    assert!(keyspace.memory_usage(DB0, &[0], 0).expect("it is there") > BYTES);
}

#[test]
fn a_value_that_was_asked_for_fits_its_end_when_it_comes() {
    for is_noted in [true, false] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 1000);
        add(&mut keyspace, 1001, 500);
        settle(&mut keyspace, &blocks);
        let (missing, restored) =
            fetch(&mut keyspace, &blocks, b"s", Need::Value, is_noted).expect("it is away");
        assert_eq!(keyspace.awaited_rests(), usize::from(is_noted));
        // It is read slowly, and the index comes on.
        add(&mut keyspace, 1501, 500);
        settle(&mut keyspace, &blocks);
        keyspace.drop_some(100);
        let is_shorter = keyspace.cool_key(DB0, b"s");
        assert_eq!((is_shorter, keyspace.stream_ends()), (false, usize::from(is_noted)));
        keyspace.note_told(&missing);
        assert_eq!((keyspace.install(restored), keyspace.awaited_rests()), (is_noted, 0));
        assert_eq!(len(&mut keyspace), Some(2000));
    }
}

#[test]
fn an_end_whose_rest_cannot_come_leaves_memory_as_any() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    add(&mut keyspace, 1001, 500);
    settle(&mut keyspace, &blocks);
    for forgets_all in [true, false] {
        let missing = keyspace.missing(DB0, b"s", Need::Value).expect("it is away");
        keyspace.note_asked(&missing);
        assert!(!keyspace.cool_key(DB0, b"s"));
        if forgets_all {
            keyspace.forget_asked();
        } else {
            keyspace.note_told(&missing);
        }
        assert_eq!(keyspace.awaited_rests(), 0);
        assert!(keyspace.cool_key(DB0, b"s"));
        assert_eq!(keyspace.restore(DB0, b"s", Need::End), Ok(()));
    }
    let missing = keyspace.missing(DB0, b"s", Need::Value).expect("it is away");
    keyspace.note_asked(&missing);
    assert!(keyspace.delete(DB0, b"s"));
    retire_bare(&mut keyspace, &blocks);
    assert_eq!((keyspace.awaited_rests(), keyspace.stream_ends()), (0, 0));
    keyspace.note_told(&missing);
    assert_eq!(keyspace.awaited_rests(), 0);
}

#[test]
fn an_end_that_the_index_does_not_know_wants_a_cut_of_it() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    keyspace.settings_mut().eviction = EvictionPolicy::ColdLru;
    assert!(!keyspace.cool_step(None).lacks_index);
    add(&mut keyspace, 1001, 3);
    for key_bytes_max in [None, Some(0)] {
        blocks.make_durable();
        keyspace.note_indexed(blocks.indexed());
        // The hand comes round.
        let lacks_index = |_| keyspace.cool_step(key_bytes_max).lacks_index;
        assert!((0..20).any(lacks_index));
    }
    settle(&mut keyspace, &blocks);
    assert!((0..20).all(|_| !keyspace.cool_step(None).lacks_index), "it knows all of it");
}

#[test]
fn an_end_that_cannot_be_read_is_told_and_the_rest_is_not_read_for_it() {
    for is_damaged in [true, false] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 10_000);
        let last = *blocks.nodes().last().expect("some");
        if is_damaged {
            blocks.damage(last)
        } else {
            blocks.unlist(last)
        }
        let (read, logged) = (blocks.records_read(), blocks.log.records().len());
        let is_told = |error: Option<RestoreError>| match error {
            Some(RestoreError::Corrupt(_)) => is_damaged,
            Some(RestoreError::Unlisted(_)) => !is_damaged,
            _ => false,
        };
        assert!(is_told(keyspace.restore(DB0, b"s", Need::End).err()));
        assert_eq!(keyspace.stream_end(DB0, b"s"), Ok(None));
        assert!(keyspace.has_restore_failure() && is_told(keyspace.take_restore_failure()));
        assert!(blocks.records_read() - read <= 4, "twice the root and the last node");
        // Not even as a whole is it there without its last node.
        assert!(is_told(keyspace.restore(DB0, b"s", Need::Value).err()));
        assert_eq!((keyspace.bare_values(), blocks.log.records().len()), (1, logged));
    }
}

#[test]
#[should_panic(expected = "the caller has asked for the last id")]
fn no_entry_goes_in_front_of_the_last_one() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    add(&mut keyspace, 1001, 1);
    _ = keyspace.append_to_stream(DB0, b"s", StreamId::new(1, 1001), &[b"f", b"v"]);
}

#[test]
fn damage_of_what_is_needed_is_told_before_all_else() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 995);
    let nodes = blocks.nodes();
    add(&mut keyspace, 996, 105);
    let last = *nodes.last().expect("some");
    assert!(blocks.log.is_retired(last), "it had room");
    // What nothing needs is damaged, what is needed is not there, and something else that is needed is damaged.
    blocks.damage(last);
    blocks.lose(nodes[2]);
    let told = keyspace.restore(DB0, b"s", Need::Value).err();
    assert!(matches!(told, Some(RestoreError::Unlisted(_))), "{told:?}: of what is needed");
    heal(&mut keyspace, nodes[3].segment());
    assert_eq!(keyspace.lost_values(), 0, "it may be found yet");
    blocks.damage(nodes[3]);
    let told = keyspace.restore(DB0, b"s", Need::Value).err();
    assert!(matches!(told, Some(RestoreError::Corrupt(_))), "{told:?}");
    heal(&mut keyspace, nodes[3].segment());
    assert_eq!(keyspace.lost_values(), 1, "no walk is in vain");
}

#[test]
fn while_an_index_is_pinned_it_knows_what_leaves_an_end() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    add(&mut keyspace, 1001, 500);
    settle(&mut keyspace, &blocks);
    keyspace.note_pinned(blocks.indexed());
    add(&mut keyspace, 1501, 500);
    settle(&mut keyspace, &blocks);
    assert!(keyspace.cool_key(DB0, b"s"), "what it knows");
    assert!(!keyspace.cool_key(DB0, b"s"), "but no more");
    let missing = keyspace.missing(DB0, b"s", Need::Value).expect("it is away");
    assert!(missing.rest_of.is_some());
    keyspace.note_pinned(None);
    assert!(keyspace.cool_key(DB0, b"s"));
    assert_eq!(keyspace.stream_ends(), 0);
    assert_eq!(len(&mut keyspace), Some(2000));
}

#[test]
fn a_unit_whose_beginning_is_away_takes_no_further_node() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    let settings = keyspace.settings_mut();
    (settings.stream_node_max_bytes, settings.stream_node_max_entries) = (0, 0);
    keyspace.begin_command(0);
    for round in 0..5 {
        add(&mut keyspace, round * 1000 + 1, 1000);
        settle(&mut keyspace, &blocks);
        assert!(keyspace.cool_key(DB0, b"s"));
    }
    let trim = Trim { keep: Keep::Newest(1), about: Some(0) };
    let trimmed = keyspace.update::<Stream, _>(DB0, b"s", false, |stream| stream.trim(trim));
    let trimmed = trimmed.expect("it is a stream").expect("it is there").value;
    // One unit without end otherwise.
    assert!((4000..4100).contains(&trimmed), "{trimmed}");
}

#[test]
fn an_end_stays_short_when_memory_is_not() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    for round in 0..200 {
        add(&mut keyspace, 1001 + round * 500, 500);
        settle(&mut keyspace, &blocks);
    }
    let usage = keyspace.memory_usage(DB0, b"s", 0).expect("it is there");
    assert!(usage < 600_000, "{usage} bytes of 3 MB");
    assert_eq!(keyspace.stream_ends(), 1);
    assert_eq!(len(&mut keyspace), Some(101_000));
}

#[test]
fn what_is_taken_from_a_restorer_is_freed_little_by_little() {
    let blocks = Blocks::default();
    let mut keyspace = away(&blocks, 1000);
    add(&mut keyspace, 1001, 5000);
    keyspace.drop_restorer();
    assert_eq!(keyspace.stream_ends(), 0);
    assert!(keyspace.free_step(100) && keyspace.free_step(100), "there is more");
    while keyspace.free_step(1000) {}
}

#[test]
fn of_a_key_that_is_not_in_memory_the_end_comes_too() {
    for is_in_script in [true, false] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 10_000);
        settle(&mut keyspace, &blocks);
        assert!(keyspace.depart_key(DB0, b"s"));
        keyspace.begin_command(0);
        let read = blocks.records_read();
        if !is_in_script {
            assert_eq!(keyspace.restore(DB0, b"s", Need::End), Ok(()));
        }
        add(&mut keyspace, 10_001, 1);
        assert_eq!((blocks.records_read() - read, keyspace.bare_values()), (2, 1));
        assert_eq!(len(&mut keyspace), Some(10_001));
    }
}

#[test]
fn what_comes_unasked_fills_what_came_without_its_value() {
    for begins_node in [false, true] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 995);
        // Its name has come, and what comes unasked was read before or behind that.
        let unasked = |keyspace: &LoggedKeyspace| {
            let db = keyspace.database_id(DB0);
            let at = blocks.clone().find(db, b"s").expect("it can be read").expect("it is there");
            blocks.clone().read(db, b"s", at).expect("it is there")
        };
        let db = keyspace.database_id(DB0);
        // A key that has left memory makes it one whose keys may come.
        large_end(&mut keyspace, &blocks, b"other", 10);
        assert!(keyspace.depart_key(DB0, b"other"));
        let early = unasked(&keyspace);
        assert!(keyspace.install_key(early, true, Warmth::Unknown), "it was bare");
        assert!(keyspace.cool_key(DB0, b"s"));
        let late = unasked(&keyspace);
        add(&mut keyspace, 996, if begins_node { 50 } else { 1 });
        // Its root may be another one since.
        assert_eq!(keyspace.install_key(late, true, Warmth::Unknown), !begins_node);
        // Then the rest of it is asked for.
        let rest = keyspace.rest_after(None);
        assert_eq!(rest.is_some(), begins_node);
        if let Some((stream, missing)) = rest {
            assert!(missing.rest_of == Some(stream) && missing.db == db);
            assert_eq!(keyspace.rest_after(Some(stream)), None);
            let (missing, restored) =
                fetch(&mut keyspace, &blocks, b"s", Need::Value, true).expect("it is away");
            keyspace.note_told(&missing);
            assert!(keyspace.install(restored));
        }
        assert_eq!((keyspace.bare_values(), keyspace.stream_ends()), (0, 0));
        assert_eq!(len(&mut keyspace), Some(if begins_node { 1045 } else { 996 }));
    }
}

/// What takes the place of a stream with an end, or takes it away.
#[test]
fn what_replaces_a_stream_with_an_end_leaves_nothing_of_it() {
    type Change = fn(&mut LoggedKeyspace);
    let flush: Change = |keyspace| _ = keyspace.flush([DB0]);
    let set: Change = |keyspace| _ = keyspace.set_string(DB0, b"s", b"v", Expiry::Clear);
    let rename: Change = |keyspace| {
        keyspace.set_string(DB0, b"from", b"v", Expiry::Clear);
        assert!(keyspace.rename(DB0, b"from", DB0, b"s"));
    };
    let expire: Change = |keyspace| {
        keyspace.begin_command(2000);
        assert!(!keyspace.exists(DB0, b"s", false));
    };
    for (change, left) in [(flush, 0), (set, 1), (rename, 1), (expire, 0)] {
        for entries in [3, 3000] {
            let blocks = Blocks::default();
            let mut keyspace = blocks.keyspace();
            keyspace.begin_command(0);
            add(&mut keyspace, 1, 1000);
            assert!(keyspace.set_expires_at_ms(DB0, b"s", Some(1000)));
            settle(&mut keyspace, &blocks);
            assert!(keyspace.cool_key(DB0, b"s"));
            add(&mut keyspace, 1001, entries);
            assert_eq!(keyspace.stream_ends(), 1);
            change(&mut keyspace);
            for _ in 0..6 {
                while keyspace.free_step(100) {}
                blocks.all_indexed();
                retire_bare(&mut keyspace, &blocks);
            }
            assert_eq!((keyspace.unlisted(), keyspace.stream_ends()), (0, 0));
            assert_eq!(needed(&blocks.log).len(), left + usize::from(is_flushed(&blocks)));
        }
    }
}

/// Whether the log says which ids the databases have.
fn is_flushed(blocks: &Blocks) -> bool {
    let records = blocks.log.records();
    records.iter().any(|it| it.kind == RecordKind::Databases && !it.is_retired)
}

#[test]
fn streams_of_all_kinds_have_ends() {
    type Change = fn(&mut keyspace::stream::StreamGuard<'_>);
    let empty: Change = |stream| _ = stream.trim(Trim { keep: Keep::Newest(0), about: None });
    let set: Change = |stream| stream.set_ids(StreamId::new(7, 7), Some(5000), None);
    let message: Change = |stream| {
        let id = StreamId::new(2, 1);
        stream.append(id, &[b"f", b"v"]);
        stream.note_message(b"producer", b"message", id, 0);
    };
    let large: Change = |stream| stream.append(StreamId::new(2, 1), &[b"f", &[b'v'; 100_000]]);
    for change in [empty, set, message, large] {
        let blocks = Blocks::default();
        let mut lean = blocks.keyspace();
        let full_log = MemoryLog::default();
        let mut full = full_log.keyspace();
        for keyspace in [&mut lean, &mut full] {
            keyspace.begin_command(0);
            add(keyspace, 1, 1000);
            keyspace.update::<Stream, _>(DB0, b"s", false, change).expect("it is a stream");
        }
        settle(&mut lean, &blocks);
        assert!(lean.cool_key(DB0, b"s"));
        let read = blocks.records_read();
        for keyspace in [&mut lean, &mut full] {
            keyspace.begin_command(0);
            let last = keyspace.stream_end(DB0, b"s").expect("a stream").expect("it is there");
            let id = StreamId::new(last.ms, last.seq + 1);
            keyspace.append_to_stream(DB0, b"s", id, &[b"f", b"v"]).expect("a stream");
        }
        assert!(blocks.records_read() - read <= 2);
        assert_eq!((lean.bare_values(), lean.stats().added_to_ends), (1, 1));
        assert_eq!(lean.restore(DB0, b"s", Need::Value), Ok(()));
        assert_eq!(all(&lean), all(&full));
        let known = |keyspace: &mut LoggedKeyspace| {
            let stream =
                keyspace.read::<Stream>(DB0, b"s").expect("a stream").expect("it is there");
            (stream.message(b"producer", b"message", 0), seen(stream))
        };
        assert_eq!(known(&mut lean), known(&mut full));
        assert_eq!(names(&blocks.log), names(&full_log));
        assert_eq!(all(&blocks.log.replay(|_| true)), all(&full));
    }
}

#[test]
fn what_is_read_of_a_stream_with_an_end_waits_for_its_last_addition() {
    type Read = fn(&mut LoggedKeyspace);
    let end: Read = |keyspace| assert!(keyspace.stream_end(DB0, b"s").is_ok_and(|id| id.is_some()));
    let name: Read = |keyspace| assert!(keyspace.exists(DB0, b"s", true));
    let value: Read = |keyspace| assert_eq!(len(keyspace), Some(996));
    let other: Read = |keyspace| {
        assert!(keyspace.string(DB0, b"s").is_err() && keyspace.read::<Hash>(DB0, b"s").is_err());
    };
    let change: Read = |keyspace| {
        let changed = keyspace.change_string(DB0, b"s", 1, 0..1, |_| unreachable!("a stream"));
        assert!(changed.is_err());
        assert!(keyspace.update::<Hash, _>(DB0, b"s", true, |_| ()).is_err());
    };
    let expired: Read = |keyspace| {
        keyspace.set_frozen(true);
        assert!(!keyspace.exists(DB0, b"s", true));
        keyspace.set_frozen(false);
    };
    for (read, now_ms) in [(end, 0), (name, 0), (value, 0), (other, 0), (change, 0), (expired, 99)]
    {
        let blocks = Blocks::default();
        let mut keyspace = blocks.keyspace();
        keyspace.begin_command(0);
        add(&mut keyspace, 1, 995);
        assert!(keyspace.set_expires_at_ms(DB0, b"s", Some(50)));
        settle(&mut keyspace, &blocks);
        assert!(keyspace.cool_key(DB0, b"s"));
        let nodes = blocks.nodes().len();
        add(&mut keyspace, 996, 1);
        assert_eq!(blocks.nodes().len(), nodes, "its root is durable");
        let open = blocks.open_lsn();
        keyspace.begin_command(now_ms);
        read(&mut keyspace);
        assert_eq!(keyspace.end_command(), (open, false));
    }
}

/// A repair of a damaged log has kept a node and lost the root that names it, or the other way round.
#[test]
fn a_root_that_does_not_name_the_last_node_is_logged_anew() {
    for lost in [RecordKind::Stream, RecordKind::StreamNode] {
        let blocks = Blocks::default();
        let mut keyspace = blocks.keyspace();
        keyspace.begin_command(0);
        add(&mut keyspace, 1, 2000);
        let records = blocks.records();
        let last = |kind| records.iter().rposition(|it| it.kind == kind).expect("there are some");
        let master = &records[last(RecordKind::StreamNode)].sub;
        let is_lost = |at: usize| match lost {
            RecordKind::Stream => at == last(lost),
            _ => records[at].kind == lost && records[at].sub == *master,
        };
        // The root that is left is an older one.
        let first_lost = (0..records.len()).position(is_lost).expect("something is");
        let repaired = Blocks::default();
        let mut loaded = repaired.keyspace();
        let mut journal = repaired.clone();
        loaded.load();
        let mut retired = Vec::new();
        let mut left = None;
        for (at, logged) in records.iter().enumerate().filter(|(at, _)| !is_lost(*at)) {
            let record = logged.record();
            let addr = journal.append(&record).expect("it is a log");
            loaded.apply(&record, addr, repaired.open_lsn(), &mut retired).expect("it is good");
            if logged.kind == RecordKind::StreamNode && (at < first_lost || logged.sub == *master) {
                left = Some(at);
            }
        }
        assert!(left.is_some());
        loaded.settle(&mut retired).expect("it is good");
        retired.into_iter().for_each(|addr| journal.retire(addr));
        loaded.begin_command(0);
        let (before, there) = (repaired.records().len(), len(&mut loaded).expect("it is there"));
        let end = loaded.stream_end(DB0, b"s").expect("it is a stream").expect("it is there");
        loaded.log_stale_roots();
        assert_eq!(repaired.records().len(), before + 1);
        loaded.log_stale_roots();
        assert_eq!(repaired.records().len(), before + 1, "once");
        let update = |stream: &mut keyspace::stream::StreamGuard<'_>| {
            stream.create_group(b"g", StreamId::MIN, None)
        };
        let updated = loaded.update::<Stream, _>(DB0, b"s", false, update);
        assert!(updated.expect("it is a stream").is_some());
        assert_eq!(repaired.records().len(), before + 2, "the group alone");
        settle(&mut loaded, &repaired);
        assert!(loaded.cool_key(DB0, b"s"));
        assert_eq!(loaded.stream_end(DB0, b"s"), Ok(Some(end)), "{lost:?}");
        assert_eq!(loaded.stream_ends(), 1);
        add(&mut loaded, end.seq + 1, 100);
        assert_eq!(len(&mut loaded), Some(there + 100), "{lost:?}");
        assert_eq!(loaded.take_restore_failure(), None);
    }
}

/// A value was asked for before its stream had an end in memory.
#[test]
fn a_value_that_was_asked_for_fits_an_end_that_came_later() {
    for is_noted in [true, false] {
        let blocks = Blocks::default();
        let mut keyspace = away(&blocks, 1000);
        let (missing, restored) =
            fetch(&mut keyspace, &blocks, b"s", Need::Value, is_noted).expect("it is away");
        assert_eq!(missing.rest_of, None);
        // An addition has the end fetched, which is read sooner.
        let (of_end, end) =
            fetch(&mut keyspace, &blocks, b"s", Need::End, true).expect("it is away");
        keyspace.note_told(&of_end);
        assert!(keyspace.install(end));
        assert_eq!(keyspace.awaited_rests(), usize::from(is_noted));
        add(&mut keyspace, 1001, 500);
        settle(&mut keyspace, &blocks);
        let is_shorter = keyspace.cool_key(DB0, b"s");
        assert_eq!((is_shorter, keyspace.stream_ends()), (!is_noted, usize::from(is_noted)));
        keyspace.note_told(&missing);
        assert_eq!((keyspace.install(restored), keyspace.awaited_rests()), (is_noted, 0));
        assert_eq!(len(&mut keyspace), Some(1500));
    }
}
