//! Compaction of segments' files that recovery accepts, with blocks that are copied as a whole and
//! blocks that are copied in pieces: what was live before is what is there afterwards.

use redo::{Error, FileError};

use crate::log_directory::{self, Database, disk_of, verify};

pub(crate) fn run(input: &[u8]) {
    let Some(disk) = disk_of(input) else { return };
    let was_good = verify(&disk).is_good();
    let Ok(mut database) = Database::open(&disk) else { return };
    // The length decides what goes, so that mutation reaches it.
    database.delete_every(2 + input.len() % 3);
    database.settle();
    database.compact();
    database.delete_every(3);
    database.settle();
    database.compact();
    let live = database.close();
    if was_good {
        let report = verify(&disk);
        assert!(report.is_good(), "compaction has left: {report}");
    }
    match Database::open(&disk) {
        Ok(again) => assert_eq!(again.live.records(), live.records()),
        Err(error @ Error::File(FileError::Corrupt { .. })) => {
            assert!(!was_good, "compaction has left: {error}")
        }
        Err(error) => panic!("compaction has left: {error}"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    log_directory::seeds()
}
