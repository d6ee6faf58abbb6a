//! Segments' files, read by all their readers: the verifier, the dump, and recovery, which
//! must agree, and which changes nothing that it does not understand.

use redo::{DumpFormat, Error, FileError};

use crate::log_directory::{self, Database, directory, disk_of, verify};

pub(crate) fn run(input: &[u8]) {
    let Some(disk) = disk_of(input) else { return };
    let report = verify(&disk);
    for format in [DumpFormat::Text, DumpFormat::Json] {
        let mut out = Vec::new();
        let dumped = redo::dump(&disk, directory(), &[], format, &mut out);
        assert!(!report.is_good() || dumped.is_ok(), "verified, not dumped: {dumped:?}");
    }
    let recovered = match Database::open(&disk) {
        Ok(database) => database.close(),
        Err(error @ Error::File(FileError::Io { .. } | FileError::InUse { .. })) => {
            panic!("no decoder's: {error}")
        }
        Err(error) => {
            assert!(!report.is_good(), "verified, not recovered: {error}");
            return;
        }
    };
    if !report.is_good() {
        return;
    }
    let report = verify(&disk);
    assert!(report.is_good(), "recovery has left: {report}");
    let again = Database::open(&disk).expect("it has just been verified");
    assert_eq!(again.live.records(), recovered.records());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    log_directory::seeds()
}
