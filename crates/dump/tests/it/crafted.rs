//! Records that are made by hand: orders that come about seldom, and what no keyspace writes.

use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordKind, varint};
use dump::{Dumper, Error, Figures, SpillOptions};
use env::Disk;
use env_sim::{Faults, SimDisk};
use keyspace::string::CHUNK_BYTES;
use proptest::prelude::*;

use crate::journal::addr;
use crate::kept::{All, Kept, Value};

const OBJECT: ObjectId = ObjectId(7);

/// A dump of `records`, one database. The memory is so little that each item is a run of its own.
fn dumped(records: &[Record<'_>]) -> Result<(All, Figures), Error> {
    dumped_in(records, 1)
}

fn dumped_in(records: &[Record<'_>], memory_bytes: usize) -> Result<(All, Figures), Error> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let directory = PathBuf::from("/dumps");
    disk.create_dir_all(&directory).unwrap();
    let options = SpillOptions { disk, directory, memory_bytes, kept_bytes: 0 };
    let mut dumper = Dumper::new(&[DbId(3)], Kept::default(), options);
    for (at, record) in records.iter().enumerate() {
        dumper.record(addr(at), record)?;
    }
    dumper.finish_records()?;
    while !dumper.merge_step()? {}
    let figures = dumper.figures();
    Ok((dumper.into_target().all, figures))
}

fn root(kind: RecordKind, value: &[u8]) -> Record<'_> {
    Record::root(kind, DbId(3), b"key", OBJECT, value, None)
}

pub(crate) fn length(bytes: usize) -> Vec<u8> {
    let mut value = Vec::new();
    varint::put(&mut value, bytes as u64);
    value
}

/// A node of a list with one item.
fn node(item: &[u8]) -> Vec<u8> {
    let mut packed = vec![0];
    varint::put_bytes(&mut packed, item);
    packed
}

/// Order keys at which bytes and words carry, and the ends.
fn order_keys() -> Vec<u64> {
    let carries = (0..64).step_by(8).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    let mut keys: Vec<u64> =
        carries.chain([(1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX]).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn nodes_of_a_list_come_in_the_order_of_their_numbers(
        shuffled in Just(order_keys()).prop_shuffle(),
        memory_bytes in prop_oneof![Just(1_usize), Just(300), Just(1 << 20)],
    ) {
        let subs: Vec<_> = shuffled.iter().map(|key| key.to_be_bytes()).collect();
        let nodes: Vec<_> = subs.iter().map(|sub| (sub, node(sub))).collect();
        let mut records: Vec<_> = nodes
            .iter()
            .map(|(sub, packed)| Record::element(RecordKind::ListNode, OBJECT, *sub, packed))
            .collect();
        records.insert(nodes.len() / 2, root(RecordKind::List, &[0]));
        let (all, _) = dumped_in(&records, memory_bytes).unwrap();
        let expected = order_keys().iter().map(|key| key.to_be_bytes().to_vec()).collect();
        prop_assert!(all.into_values().eq([(None, Value::List(expected))]));
    }

    #[test]
    fn chunks_of_a_string_come_in_the_order_of_their_numbers(
        shuffled in Just((0..600_u32).collect::<Vec<_>>()).prop_shuffle(),
        memory_bytes in prop_oneof![Just(1_usize), Just(90_000), Just(1 << 30)],
    ) {
        let chunks: Vec<_> = shuffled
            .iter()
            .map(|number| {
                let bytes = if *number == 599 { 1 } else { CHUNK_BYTES };
                let fill = u8::try_from(number % 251).unwrap();
                (number.to_be_bytes(), vec![fill; bytes])
            })
            .collect();
        let string_bytes = length(599 * CHUNK_BYTES + 1);
        let element = |sub, bytes| Record::element(RecordKind::StringChunk, OBJECT, sub, bytes);
        let mut records = vec![root(RecordKind::LargeString, &string_bytes)];
        records.extend(chunks.iter().map(|(sub, bytes)| element(sub, bytes)));
        let (all, _) = dumped_in(&records, memory_bytes).unwrap();
        let [(None, Value::String(string))] = &all.into_values().collect::<Vec<_>>()[..] else {
            panic!("there is one string");
        };
        let numbers = (0..=599 * CHUNK_BYTES).map(|at| at / CHUNK_BYTES % 251);
        let expected = numbers.map(|number| u8::try_from(number).unwrap());
        prop_assert!(string.iter().copied().eq(expected));
    }
}

#[test]
fn what_contradicts_its_root_is_refused() {
    let field = Record::element(RecordKind::HashField, OBJECT, b"field", b"value");
    let other = Record::element(RecordKind::HashField, OBJECT, b"other", b"value");
    let member = Record::element(RecordKind::SetMember, OBJECT, b"member", b"");
    let score = 1_f64.to_le_bytes();
    let scored = Record::element(RecordKind::ZSetMember, OBJECT, b"member", &score);
    let (packed, at) = (node(b"item"), 5_u64.to_be_bytes());
    let item = Record::element(RecordKind::ListNode, OBJECT, &at, &packed);
    let subs = [0_u32, 1, 2].map(u32::to_be_bytes);
    let whole = [b'v'; CHUNK_BYTES];
    let chunk = |number: usize, bytes| {
        Record::element(RecordKind::StringChunk, OBJECT, &subs[number], bytes)
    };
    let lengths = [CHUNK_BYTES + 1, CHUNK_BYTES, 3].map(length);
    let [two, one, three] = lengths.each_ref().map(|value| root(RecordKind::LargeString, value));
    let [hash, set, zset, list] =
        [RecordKind::Hash, RecordKind::Set, RecordKind::ZSet, RecordKind::List]
            .map(|kind| root(kind, &[0]));
    let refused: &[(&[Record<'_>], &str)] = &[
        (&[hash, field, hash], "two roots"),
        (&[hash, list, field], "two roots"),
        (&[hash], "no elements"),
        (&[list], "no elements"),
        (&[set, field], "an element of another type"),
        (&[hash, member], "an element of another type"),
        (&[zset, member], "an element of another type"),
        (&[set, scored], "an element of another type"),
        (&[list, field], "an element of another type"),
        (&[hash, item], "an element of another type"),
        (&[one, item], "an element of another type"),
        (&[hash, chunk(0, &whole)], "an element of another type"),
        (&[two, chunk(0, &whole), chunk(2, b"x")], "the wrong chunks"),
        (&[two, chunk(1, b"x")], "the wrong chunks"),
        (&[two, chunk(0, b"short"), chunk(1, b"x")], "the wrong chunks"),
        (&[two, chunk(0, &whole), chunk(0, &whole)], "the wrong chunks"),
        (&[three, chunk(0, b"four")], "too many elements"),
        (&[two, chunk(0, &whole), chunk(1, b"xy")], "too many elements"),
        (&[two], "too few elements"),
        (&[two, chunk(0, &whole)], "too few elements"),
    ];
    for (records, expected) in refused {
        for memory_bytes in [1, 1 << 20] {
            match dumped_in(records, memory_bytes) {
                Err(Error::Object { object, what }) => {
                    assert_eq!((object, what), (OBJECT, *expected), "{records:?}");
                }
                other => panic!("{expected}: {:?} of {records:?}", other.map(|_| ())),
            }
        }
    }
    let taken: &[&[Record<'_>]] = &[
        &[hash, field, other],
        &[set, member],
        &[zset, scored],
        &[list, item],
        &[one, chunk(0, &whole)],
        &[two, chunk(0, &whole), chunk(1, b"x")],
        &[three, chunk(0, b"abc")],
    ];
    for records in taken {
        assert_eq!(dumped(records).unwrap().0.len(), 1, "{records:?}");
    }
}

#[test]
fn a_malformed_record_is_named() {
    let bad = Record::element(RecordKind::ListNode, OBJECT, b"short", b"\0\x01a");
    match dumped(&[root(RecordKind::List, &[0]), bad]) {
        Err(error @ Error::Record { addr: at, .. }) => {
            assert_eq!(at, addr(1));
            assert!(error.to_string().contains(&addr(1).to_string()), "{error}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn lost_values_are_counted_and_left_out() {
    let string = Record::whole(RecordKind::String, DbId(3), b"there", b"value", None);
    let lost = Record::whole(RecordKind::ValueLost, DbId(3), b"lost", &[1], None);
    let nameless = Record::whole(RecordKind::KeyLost, DbId(3), b"twelve bytes", &[0], Some(9));
    // No index names this database.
    let elsewhere = Record::whole(RecordKind::ValueLost, DbId(4), b"lost", &[1], None);
    let (all, figures) = dumped(&[lost, string, nameless, elsewhere]).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((figures.keys, figures.lost_keys, figures.orphans), (1, 2, 0));
}

/// What is of no key takes steps that are as short as others, be it many items or large ones.
#[test]
fn elements_without_a_root_are_passed_over_step_by_step() {
    for (count, bytes, step_max) in [(20_000_u32, 0, 4096), (200, 30_000, 9)] {
        let value = vec![b'v'; bytes];
        let subs: Vec<_> = (0..count).map(u32::to_be_bytes).collect();
        let orphans = subs.iter().map(|sub| {
            let kind = if bytes == 0 { RecordKind::SetMember } else { RecordKind::HashField };
            Record::element(kind, OBJECT, sub, &value)
        });
        for memory_bytes in [20_000, 1 << 30] {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
            let directory = PathBuf::from("/dumps");
            disk.create_dir_all(&directory).unwrap();
            let options = SpillOptions { disk, directory, memory_bytes, kept_bytes: 0 };
            let mut dumper = Dumper::new(&[DbId(3)], Kept::default(), options);
            orphans.clone().for_each(|record| dumper.record(addr(0), &record).unwrap());
            dumper.finish_records().unwrap();
            let (mut before, mut most, mut most_spilled) = (0, 0, 0);
            let (mut spilled, mut is_done) = (dumper.figures().spilled_bytes, false);
            while !is_done {
                is_done = dumper.merge_step().unwrap();
                let Figures { orphans, spilled_bytes, .. } = dumper.figures();
                most = most.max(orphans - before);
                most_spilled = most_spilled.max(spilled_bytes - spilled);
                (before, spilled) = (orphans, spilled_bytes);
            }
            assert_eq!(before, count.into());
            assert!(most <= step_max, "{most} in a step");
            assert!(most_spilled < 400_000, "{most_spilled} bytes are written again in a step");
            assert_eq!(most_spilled > 0, memory_bytes == 20_000, "in levels");
        }
    }
}

/// An item is as long as it may be, in each place: a key, a field, a value, an item of a list.
#[test]
fn items_may_be_long() {
    let long: Vec<u8> = (0..700_001_u32).map(|at| u8::try_from(at % 253).unwrap()).collect();
    // At and around the length that is put aside.
    for bytes in [0, 32_754, 32_755, 32_756, 32_767, 32_768, 32_769, 65_536, 700_000] {
        let long = &long[..bytes];
        let packed = node(long);
        let hash = Record::root(RecordKind::Hash, DbId(3), long, OBJECT, &[0], Some(5));
        let list = Record::root(RecordKind::List, DbId(3), b"list", ObjectId(8), &[0], None);
        let records = [
            Record::element(RecordKind::HashField, OBJECT, b"short", long),
            Record::element(RecordKind::ListNode, ObjectId(8), &[2; 8], &packed),
            hash,
            Record::element(RecordKind::HashField, OBJECT, long, b"short"),
            Record::element(RecordKind::HashField, ObjectId(9), long, long),
            list,
            Record::element(RecordKind::ListNode, ObjectId(8), &[1; 8], &packed),
        ];
        for memory_bytes in [1, 1 << 30] {
            let (all, figures) = dumped_in(&records, memory_bytes).unwrap();
            let fields = [(b"short".to_vec(), long.to_vec()), (long.to_vec(), b"short".to_vec())];
            let hash = (Some(5), Value::Hash(fields.into()));
            let list = (None, Value::List(vec![long.to_vec(); 2]));
            let expected = [((0, long.to_vec()), hash), ((0, b"list".to_vec()), list)];
            assert!(all == expected.into(), "{bytes} bytes in {memory_bytes}");
            assert_eq!(figures.orphans, 1);
        }
    }
}
