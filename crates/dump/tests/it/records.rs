//! A dump of the records that are valid is what the keyspace has, however little memory it takes.

use std::path::PathBuf;
use std::sync::Arc;

use base::DbId;
use dump::{Dumper, Figures, SpillOptions};
use env::Disk;
use env_sim::{Faults, SimDisk};
use keyspace::Keyspace;
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use proptest::prelude::*;

use crate::commands::{DATABASES, apply, op};
use crate::journal::{MemoryLog, addr};
use crate::kept::{All, Kept, contents};

/// A dump of what is valid in the log now, in an order that follows from `stride`.
fn dumped(
    log: &MemoryLog,
    databases: &[DbId],
    memory_bytes: usize,
    stride: usize,
) -> (All, Figures) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let directory = PathBuf::from("/dumps");
    disk.create_dir_all(&directory).unwrap();
    let options = SpillOptions {
        disk: Arc::clone(&disk),
        directory: directory.clone(),
        memory_bytes,
        kept_bytes: 0,
    };
    let mut dumper = Dumper::new(databases, Kept::default(), options);
    let records = log.records();
    for first in 0..stride.min(records.len()) {
        for at in (first..records.len()).step_by(stride) {
            if records[at].is_valid() {
                dumper.record(addr(at), &records[at].record()).unwrap();
            }
        }
    }
    dumper.finish_records().unwrap();
    while !dumper.merge_step().unwrap() {}
    assert!(disk.list(&directory).unwrap().is_empty(), "nothing is left of the spill file");
    let figures = dumper.figures();
    (dumper.into_target().all, figures)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_dump_is_what_the_keyspace_has(
        ops in prop::collection::vec(op(), 1..60),
        memory_bytes in prop_oneof![Just(200_usize), Just(5_000), Just(1 << 20)],
        stride in 1..7_usize,
    ) {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        ops.iter().for_each(|op| apply(&mut keyspace, 1_000_000, op));
        let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
        let (found, figures) = dumped(&log, &ids, memory_bytes, stride);
        let expected = contents(&keyspace);
        prop_assert_eq!(figures.keys, expected.len() as u64);
        prop_assert!(found == expected, "{:?}\n{:?}", found.keys(), expected.keys());
        // All that waits to be freed is gone then.
        while keyspace.free_step(1000) {}
        let (again, after) = dumped(&log, &ids, memory_bytes, 1);
        prop_assert!(again == expected);
        prop_assert_eq!(after.orphans, 0);
    }
}

/// Runs of one item each, an object in nearly all of them, and items that are larger than a frame.
#[test]
fn large_values_are_merged_from_many_runs() {
    let log = MemoryLog::default();
    let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
    keyspace.begin_command(0);
    let db = keyspace.database(0).unwrap();
    let long = vec![b'l'; 100_000];
    let _ = keyspace.update::<Hash, _>(db, b"hash", true, |hash| {
        (0..300)
            .for_each(|number: u32| _ = hash.set(&number.to_be_bytes(), &long[..number as usize]));
        hash.set(b"long", &long);
    });
    let _ = keyspace.update::<List, _>(db, b"list", true, |list| {
        (0..3000_u32).for_each(|number| list.push(End::Front, &number.to_be_bytes()));
        list.push(End::Back, &long);
    });
    let _ = keyspace.change_string(db, b"string", 300_000, 299_990..299_995, |to| to.fill(b'x'));
    let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
    for memory_bytes in [1, 3000, 1 << 30] {
        let (found, figures) = dumped(&log, &ids, memory_bytes, 3);
        assert!(found == contents(&keyspace), "{memory_bytes}");
        assert_eq!(figures.spilled_bytes > 500_000, memory_bytes < 1 << 30, "{figures:?}");
    }
}
