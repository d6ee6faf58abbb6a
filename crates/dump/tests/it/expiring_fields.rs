//! Fields that expire, out of records, in any order and from any number of runs, are what memory has.

use std::path::PathBuf;
use std::sync::Arc;

use base::DbId;
use dump::{Dumper, RdbTarget, SpillOptions, pass_on};
use env::Disk;
use env_sim::{Faults, SimDisk, SimEntropy};
use keyspace::Keyspace;
use keyspace::hash::{Field, Hash};
use rdb::{Version, WriteOptions};

use crate::commands::DATABASES;
use crate::journal::{MemoryLog, addr};
use crate::streams::read;

const OPTIONS: WriteOptions =
    WriteOptions { version: Version::Redis(12), compress: true, checksum: true };

/// Small and large hashes with fields that expire, that did, and that never do.
fn fill(keyspace: &mut Keyspace, seed: u64) {
    let mut rng = SimEntropy::new(seed);
    let db = keyspace.database(0).unwrap();
    for key in 0..30_u64 {
        keyspace.begin_command(1000);
        let updated = keyspace.update::<Hash, _>(db, format!("h{key}").as_bytes(), true, |hash| {
            for _ in 0..=rng.below(if key % 2 == 0 { 8 } else { 300 }) {
                let name = format!("field {}", rng.below(200));
                let value = vec![b'v'; usize::try_from(rng.below(20)).unwrap()];
                let at_ms = 1 << (11 + rng.below(30));
                let expires_at_ms = (key % 3 > 0 && rng.below(2) == 0).then_some(at_ms);
                hash.put(&Field { name: name.as_bytes(), value: &value, expires_at_ms });
                if key % 3 > 0 && rng.below(4) == 0 {
                    hash.set_expiry(format!("field {}", rng.below(200)).as_bytes(), None);
                    hash.remove(format!("field {}", rng.below(200)).as_bytes());
                }
            }
        });
        assert!(updated.is_ok());
    }
    while keyspace.free_step(1000) {}
}

#[test]
fn fields_keep_their_times_in_whatever_order_their_records_come() {
    for seed in 0..6 {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        fill(&mut keyspace, seed);
        let mut target = RdbTarget::begin(Vec::new(), OPTIONS, &[]).unwrap();
        let seen: &Keyspace = &keyspace;
        for (number, db) in (0..).zip(seen.databases()) {
            seen.inspect(db, |entry| pass_on(&entry, number, &mut target).unwrap());
        }
        let mut expected = read(&target.finish().unwrap());
        let times = expected.values().flatten().filter(|line| line.contains("Some("));
        assert!(times.count() > 200, "there is much to see");
        expected.values_mut().for_each(|lines| lines.sort());
        let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
        for (memory_bytes, turns) in [(1 << 20, false), (1 << 20, true), (3000, false), (100, true)]
        {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
            let directory = PathBuf::from("/dumps");
            disk.create_dir_all(&directory).unwrap();
            let target = RdbTarget::begin(Vec::new(), OPTIONS, &[]).unwrap();
            let options = SpillOptions { disk, directory, memory_bytes, kept_bytes: 0 };
            let mut dumper = Dumper::new(&ids, target, options);
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
            let mut found = read(&dumper.into_target().finish().unwrap());
            found.values_mut().for_each(|lines| lines.sort());
            assert!(found == expected, "seed {seed}, {memory_bytes} bytes");
        }
    }
}
