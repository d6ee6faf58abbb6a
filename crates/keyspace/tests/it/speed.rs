//! How fast a log is applied: run by hand, in release, before and after a change.
//!
//! `cargo test --release -p indelible-keyspace --test it -- --ignored --nocapture speed`

use std::time::Instant;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{Keyspace, NoJournal};

use crate::DB0;

/// How many keys, or elements.
const COUNT: u32 = 1_000_000;

/// How many collections the elements belong to, at random.
const OBJECTS: u32 = 10_000;

/// How many records are announced before they are applied, as recovery does.
const ANNOUNCED: usize = 32;

/// What is in a record, to be made into one when it is its turn.
#[derive(Clone, Copy)]
enum Make {
    String(u32),
    Root(RecordKind, u32),
    Element(RecordKind, u32, u32),
}

fn feed(name: &str, makes: &[Make]) {
    let mut seconds: Vec<f64> = (0..5).map(|_| time(makes)).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = makes.len() as f64 / seconds[2] / 1e6;
    println!("{name:>10}: {rate:.3} million records a second (median of 5)");
}

fn time(makes: &[Make]) -> f64 {
    let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
    let mut retired = Vec::new();
    let value = [b'v'; 200];
    let start = Instant::now();
    let mut ordinal = 0;
    for group in makes.chunks(ANNOUNCED) {
        let texts: Vec<(Vec<u8>, [u8; 8])> = group.iter().map(text).collect();
        let records: Vec<Record<'_>> = group
            .iter()
            .zip(&texts)
            .map(|(make, (name, score))| record(*make, name, score, &value))
            .collect();
        keyspace.announce(&records);
        for record in &records {
            let addr = RecordAddr::new(SegmentId(1), ordinal);
            keyspace.apply(record, addr, Lsn(1), &mut retired).expect("well-formed");
            ordinal += 1;
        }
    }
    keyspace.settle(&mut retired).expect("well-formed");
    let seconds = start.elapsed().as_secs_f64();
    assert!(keyspace.size(DB0).0 > 0 && retired.is_empty());
    std::mem::forget(keyspace);
    seconds
}

fn text(make: &Make) -> (Vec<u8>, [u8; 8]) {
    match make {
        Make::String(number) | Make::Root(_, number) => {
            (format!("key:{number:012}").into_bytes(), [0; 8])
        }
        Make::Element(RecordKind::ListNode, _, number) => {
            (u64::from(*number).to_be_bytes().to_vec(), [0; 8])
        }
        Make::Element(_, _, number) => {
            (format!("field:{number:010}").into_bytes(), f64::from(*number).to_le_bytes())
        }
    }
}

fn record<'a>(make: Make, name: &'a [u8], score: &'a [u8], value: &'a [u8]) -> Record<'a> {
    match make {
        Make::String(_) => Record::whole(RecordKind::String, DbId(0), name, value, None),
        Make::Root(kind, number) => {
            Record::root(kind, DbId(0), name, ObjectId(u64::from(number) + 1), &[0], None)
        }
        Make::Element(kind, object, _) => {
            let value = match kind {
                RecordKind::ZSetMember => score,
                RecordKind::ListNode => b"\0\x07element\x07element",
                _ => &value[..50],
            };
            Record::element(kind, ObjectId(u64::from(object) + 1), name, value)
        }
    }
}

fn elements(root: RecordKind, element: RecordKind) -> Vec<Make> {
    let mut rng = fastrand::Rng::with_seed(1);
    let roots = (0..OBJECTS).map(|number| Make::Root(root, number));
    let mut makes: Vec<Make> = roots.collect();
    makes.extend((0..COUNT).map(|number| Make::Element(element, rng.u32(..OBJECTS), number)));
    makes
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut numbers: Vec<u32> = (0..COUNT).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut numbers);
    let strings: Vec<Make> = numbers.into_iter().map(Make::String).collect();
    feed("strings", &strings);
    feed("hashes", &elements(RecordKind::Hash, RecordKind::HashField));
    feed("zsets", &elements(RecordKind::ZSet, RecordKind::ZSetMember));
    feed("lists", &elements(RecordKind::List, RecordKind::ListNode));
}
