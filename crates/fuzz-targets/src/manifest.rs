//! The manifest: what is read is written as the same.

use std::path::{Path, PathBuf};

use base::{Lsn, ObjectId, SegmentId};
use redo::manifest::{KeptFile, Manifest, ManifestDevice};
use redo::{Id, Listed};

use crate::checksums;

pub(crate) fn run(input: &[u8]) {
    let file = Path::new("manifest");
    let mut bytes = input.to_vec();
    checksums::seal_manifest(&mut bytes);
    for bytes in [input, &bytes] {
        let Ok(manifest) = Manifest::decode(bytes, file) else { continue };
        let again = Manifest::decode(&manifest.encode(), file).expect("just written");
        assert_eq!(again, manifest);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut manifest = Manifest {
        epoch: 3,
        durable_lsn: Lsn(4),
        horizon: Lsn(5),
        next_segment: SegmentId(6),
        object_floor: ObjectId(9),
        ..Manifest::new(Id([1; 16]), [2; 16])
    };
    let empty = manifest.encode();
    for (number, path) in [(7, "redo"), (8, "/somewhere/else")] {
        manifest.devices.push(ManifestDevice {
            id: Id([number; 16]),
            path: PathBuf::from(path),
            is_leaving: number % 2 == 1,
        });
    }
    for (segment, last_lsn) in [(1, Listed::SEALED), (2, Lsn(4))] {
        manifest.listed.push(Listed { segment: SegmentId(segment), part: segment - 1, last_lsn });
    }
    manifest.history_floor = Lsn(2);
    manifest.history.push(KeptFile {
        segment: SegmentId(1),
        part: 0,
        generation: 1,
        device: Id([7; 16]),
        from: Lsn(1),
        until: Lsn(3),
    });
    // Without devices and images.
    let version_1 = [b"INDELMAN\x01\0\0\0".to_vec(), vec![0; 80]].concat();
    vec![empty, manifest.encode(), version_1]
}
