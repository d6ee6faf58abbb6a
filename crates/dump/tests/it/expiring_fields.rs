//! Fields that expire, out of records, in any order and from any number of runs, are what memory has.

use env_sim::SimEntropy;
use keyspace::Keyspace;
use keyspace::hash::{Field, Hash};
use rdb::{Version, WriteOptions};

use crate::commands::DATABASES;
use crate::journal::MemoryLog;
use crate::orders::{of_memory, of_records};
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
        let mut expected = read(&of_memory(&keyspace, OPTIONS));
        let times = expected.values().flatten().filter(|line| line.contains("Some("));
        assert!(times.count() > 200, "there is much to see");
        expected.values_mut().for_each(|lines| lines.sort());
        for (how, file) in of_records(&keyspace, &log, OPTIONS) {
            let mut found = read(&file);
            found.values_mut().for_each(|lines| lines.sort());
            assert!(found == expected, "seed {seed}, {how}");
        }
    }
}
