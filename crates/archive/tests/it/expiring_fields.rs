//! That fields of hashes expire, or did, is said by every object of an archive that has such a hash, and by the log
//! that is made of it: a program that does not know them refuses both.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Point, Request};
use base::{DbId, ObjectId, Record, RecordKind};
use env::Disk;
use env_sim::sweep::image_of;
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::Expiry;

use crate::world::{Database, INTO, TARGET, World, log_options};

const KIND: RecordKind = RecordKind::HashPackedExpiring;

/// Makes an archive of a log with this record, and a log of that. Whether each object of the archive says it, and
/// whether the log does.
fn says_so(record: &Record<'_>, expiry: Expiry) -> (Vec<bool>, bool) {
    let mut world = World::new(2);
    world.database.log.declare(KIND);
    world.database.put(record);
    world.seal();
    world.settle();
    // Once more, for the log behind the copy.
    world.database.put(record);
    world.seal();
    world.settle();
    let target = world.target();
    let root = Path::new(TARGET).join(archive::database_of(&target, None).unwrap().to_string());
    let mut said = Vec::new();
    for folder in ["base", "log", "whole"] {
        for (_, bytes) in image_of(&world.target_disk, &[&root.join(folder)]) {
            let kinds = u64::from_le_bytes(bytes[104..112].try_into().unwrap());
            said.push(kinds >> KIND as u32 & 1 == 1);
        }
    }
    assert!(said.len() >= 3, "a copy, the mark that it is whole, and what came later: {said:?}");
    let disk = SimDisk::new(1, Faults::default());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let request = Request {
        target: &target,
        database: None,
        into: Some(Path::new(INTO)),
        point: Point::Latest,
        expiry,
        threads: NonZero::<usize>::MIN,
        keep_bytes: archive::KEEP_BYTES,
    };
    archive::restore(&shared, &request, &mut SimEntropy::new(9), &mut |_| {}).unwrap();
    let mut options = log_options(0);
    (options.dir, options.devices) = (PathBuf::from(INTO), Vec::new());
    let restored = Database::open(&disk, &Arc::default(), options, 5).unwrap();
    (said, restored.log.has_declared(KIND))
}

#[test]
fn an_archive_and_what_is_made_of_it_name_fields_that_expire_or_did() {
    let (db, object) = (DbId(0), ObjectId(7));
    let root = |flags| Record::root(RecordKind::Hash, db, b"h", object, flags, None);
    let field = Record::element(RecordKind::HashField, object, b"f", b"v");
    let small = Record::whole(KIND, db, b"h", b"\x02\x01f\x01v\0", None);
    for (record, expiry, expected) in [
        (root(&[3]), Expiry::Absolute, true),
        // The times go, and that there were some stays.
        (root(&[2]), Expiry::Never, true),
        (small, Expiry::Never, true),
        (field.until(Some(4_000_000_000_000)), Expiry::Absolute, true),
        (field, Expiry::Absolute, false),
        (root(&[1]), Expiry::Absolute, false),
    ] {
        let (objects, log) = says_so(&record, expiry);
        assert!(objects.iter().all(|says| *says == expected), "{record:?}: {objects:?}");
        assert_eq!(log, expected, "{record:?}");
    }
}
