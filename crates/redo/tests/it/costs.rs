//! What a mark costs the executor. Ignored, because it tells and does not judge:
//! `cargo test --release -p indelible-redo --test it costs -- --ignored --nocapture`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::RecordAddr;
use env_sim::{Faults, SimDisk};

use crate::harness::{Database, key, options};

const SEGMENTS: usize = 3000;
const RETIRED: usize = 2000;
const ROUNDS: usize = 9;
const RECORDS: usize = 2 * ROUNDS;

fn retire(database: &mut Database, addrs: &[RecordAddr]) -> Duration {
    let began = Instant::now();
    for addr in addrs {
        database.log.retire(*addr);
    }
    began.elapsed()
}

#[test]
#[ignore = "it prints times, and judges nothing"]
fn what_retirements_cost_with_a_mark_and_without() {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 100;
    options.compaction.enabled = false;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    let mut segments: Vec<Vec<RecordAddr>> = Vec::new();
    for number in 0..SEGMENTS {
        for record in 0..RECORDS {
            database.set(&key(number * RECORDS + record), b"value");
        }
        database.flush();
        let addr = |record| database.keyspace.entries[&key(number * RECORDS + record)].1;
        segments.push((0..RECORDS).map(addr).collect());
    }
    assert_eq!(database.log.stats().segments, SEGMENTS);
    // Each round another record of each: the next to last rounds without a mark, the others with.
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let one_each = |at: usize| -> Vec<_> {
            let stride = segments.iter().cycle().step_by(7);
            stride.take(RETIRED).map(|addrs| addrs[at]).collect()
        };
        without.push(retire(&mut database, &one_each(2 * round)));
        let began = Instant::now();
        let mark = database.log.mark().unwrap();
        let made = began.elapsed();
        with.push((retire(&mut database, &one_each(2 * round + 1)), made));
        let began = Instant::now();
        database.log.copy_marks(2 << 20);
        let copied = began.elapsed();
        database.log.copy_marks(usize::MAX);
        let reader = mark.read().ok().unwrap();
        println!(
            "{} records are valid; a slice of copying takes {copied:?}",
            reader.record_count()
        );
        drop(reader);
        database.log.tick();
    }
    without.sort();
    with.sort();
    let (with, made) = with[ROUNDS / 2];
    println!(
        "{RETIRED} retirements in distinct segments of {SEGMENTS}: {:?} without a mark,",
        without[ROUNDS / 2]
    );
    println!("{with:?} with one, which took {made:?} to make");
}
