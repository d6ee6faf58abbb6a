//! A keyspace as dumps: out of memory, and out of its records in whatever order they come.

use std::path::PathBuf;
use std::sync::Arc;

use base::DbId;
use dump::{Dumper, RdbTarget, SpillOptions, pass_on};
use env::Disk;
use env_sim::{Faults, SimDisk};
use keyspace::Keyspace;
use rdb::WriteOptions;

use crate::journal::{MemoryLog, addr};

/// The dump that is made of memory.
pub(crate) fn of_memory(keyspace: &Keyspace, options: WriteOptions) -> Vec<u8> {
    let mut target = RdbTarget::begin(Vec::new(), options, &[]).unwrap();
    for (number, db) in (0..).zip(keyspace.databases()) {
        keyspace.inspect(db, |entry| pass_on(&entry, number, &mut target).unwrap());
    }
    target.finish().unwrap()
}

/// The dumps that are made of the log's records: with much and with little memory, forwards and backwards; and how each
/// was made.
pub(crate) fn of_records(
    keyspace: &Keyspace,
    log: &MemoryLog,
    options: WriteOptions,
) -> Vec<(String, Vec<u8>)> {
    let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
    let ways = [(1 << 20, false), (1 << 20, true), (3000, false), (100, true)];
    let dumps = ways.into_iter().map(|(memory_bytes, turns)| {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
        let directory = PathBuf::from("/dumps");
        disk.create_dir_all(&directory).unwrap();
        let target = RdbTarget::begin(Vec::new(), options, &[]).unwrap();
        let spill = SpillOptions { disk, directory, memory_bytes, kept_bytes: 0 };
        let mut dumper = Dumper::new(&ids, target, spill);
        let records = log.records();
        let mut valid: Vec<usize> =
            (0..records.len()).filter(|at| records[*at].is_valid()).collect();
        if turns {
            valid.reverse();
        }
        for at in valid {
            dumper.record(addr(at), &records[at].record()).unwrap();
        }
        dumper.finish_records().unwrap();
        while !dumper.merge_step().unwrap() {}
        (format!("{memory_bytes} bytes, turned: {turns}"), dumper.into_target().finish().unwrap())
    });
    dumps.collect()
}
