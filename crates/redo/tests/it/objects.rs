//! Objects' numbers are not used twice, also when no record names them any more.

use std::path::Path;
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::{Env, Recovery, Replay, RestorePoint, Step};

use crate::harness::{Database, options};
use crate::restoring::{INTO, request, restore};

/// What a start learns of objects.
#[derive(Default)]
struct Seen {
    object_max: ObjectId,
}

impl Replay for Seen {
    fn apply(
        &mut self,
        record: &Record<'_>,
        _addr: RecordAddr,
        _lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        self.object_max = self.object_max.max(record.object);
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}
}

/// The objects that a start takes for used, the first being 1: all below the one that is returned;
/// and the last block that it finds.
fn start(disk: &SimDisk) -> (ObjectId, Lsn) {
    start_in(disk, Path::new("/data"))
}

fn start_in(disk: &SimDisk, dir: &Path) -> (ObjectId, Lsn) {
    let env = Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(0)),
        entropy: Box::new(SimEntropy::new(1)),
        waker: Arc::new(|| {}),
    };
    let recovery = Recovery::open(env, options(dir)).unwrap();
    let floor = recovery.object_floor();
    let mut seen = Seen::default();
    let opened = recovery.run(&mut seen, &mut |_| {}).unwrap();
    (floor.max(seen.object_max.next()), opened.summary.last_lsn)
}

/// Makes large objects and deletes them; for each block the largest object that it names.
fn make_and_delete(database: &mut Database) -> Vec<(Lsn, ObjectId)> {
    let mut blocks = Vec::new();
    for object in (1..=3).map(ObjectId) {
        database.put(&Record::root(RecordKind::Hash, DbId(0), b"h", object, &[0], None));
        for field in [b"a", b"b"] {
            database.put(&Record::element(RecordKind::HashField, object, field, b"v"));
        }
        blocks.push((database.log.open_lsn(), object));
        database.flush();
        // Fields of an object that is gone are garbage without a record that says so.
        for field in [b"a", b"b"] {
            let name = [&object.0.to_be_bytes()[..], b":", field].concat();
            let (_, addr) = database.keyspace.entries.remove(&name).unwrap();
            database.log.retire(addr);
        }
        database.delete(b"h");
        database.flush();
    }
    blocks
}

#[test]
fn a_compaction_that_drops_the_last_record_of_an_object_leaves_its_number_taken() {
    let disk = SimDisk::new(1, Faults::default());
    let mut database =
        Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    make_and_delete(&mut database);
    database.log.compact_all();
    database.settle();
    assert_eq!(database.log.stats().records, 0, "nothing names them any more");
    database.close();
    for _ in 0..3 {
        assert_eq!(start(&disk).0, ObjectId(4));
        disk.kill();
    }
}

/// A log that is made of it has the numbers of what it never had taken, too.
#[test]
fn a_log_that_is_restored_leaves_numbers_taken() {
    let disk = SimDisk::new(2, Faults::default());
    let mut database =
        Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    make_and_delete(&mut database);
    database.log.compact_all();
    database.settle();
    database.close();
    restore(&disk, &request(RestorePoint::Latest)).unwrap();
    assert_eq!(start_in(&disk, Path::new(INTO)).0, ObjectId(4));
}

#[test]
fn no_crash_gives_a_number_free() {
    let mut n_ios = 1;
    let mut is_compacted = false;
    loop {
        let mut ends = false;
        for is_after in [false, true] {
            let disk = SimDisk::new(n_ios, Faults::default());
            let mut database =
                Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
            let blocks = make_and_delete(&mut database);
            disk.crash_at(n_ios, is_after);
            database.log.compact_all();
            database.settle();
            is_compacted |= database.log.stats().compactions > 0;
            database.log.shutdown();
            while database.compactor.step() != Step::Finished {}
            ends |= !disk.is_crashed();
            drop(database);
            disk.restart();
            let (next, last_lsn) = start(&disk);
            let used = blocks.iter().filter(|(lsn, _)| *lsn <= last_lsn);
            let used = used.map(|(_, object)| *object).max().unwrap();
            assert_eq!(used, ObjectId(3), "they were durable");
            assert!(next > used, "crash at I/O {n_ios}, after it: {is_after}: {next:?}");
        }
        if ends {
            break;
        }
        n_ios += 1;
    }
    assert!(is_compacted && n_ios > 5, "{n_ios}");
}
