//! A log of requests: whatever is in its files is read or refused, and a log that is continued says the
//! same as before and then that requests may be missing.
//!
//! The right checksums are put into the input first, where its batches seem to be.

use std::path::Path;
use std::sync::Arc;

use base::checksum::crc32c;
use env::Disk;
use env_sim::{Faults, SimDisk};
use tap::log::{self, Batch, Keep, Settings, Writer};
use tap::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};

const DIR: &str = "/log";
const FILE: &str = "/log/0000000001.tap";
const SEGMENT_HEADER_BYTES: usize = 72;
const BATCH_HEADER_BYTES: usize = 48;

fn settings() -> Settings {
    Settings { protocol: "resp".into(), keep: Keep::default() }
}

pub(crate) fn run(input: &[u8]) {
    let mut bytes = input.to_vec();
    seal(&mut bytes);
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(0, Faults::default()));
    disk.create_dir_all(Path::new(DIR)).expect("a disk without faults");
    let file = disk.create(Path::new(FILE)).expect("a disk without faults");
    file.write_all_at(&bytes, 0).expect("a disk without faults");
    let Ok(entries) = read(&disk) else { return };
    let Ok(writer) = Writer::open(disk.clone(), Path::new(DIR), settings(), Time(0)) else {
        return;
    };
    writer.close().expect("a disk without faults");
    let continued = read(&disk).expect("what was read once is read again");
    let (gap, before) = continued.split_last().expect("there is a gap at least");
    assert!(matches!(gap, Entry::Gap { reason: GapReason::Stopped, .. }), "{gap:?}");
    assert!(before == entries, "a log that is continued says what it said");
}

fn read(disk: &Arc<dyn Disk>) -> Result<Vec<Entry>, tap::Error> {
    log::read(disk, Path::new(DIR), None)?.collect()
}

fn seal(bytes: &mut [u8]) {
    if bytes.len() < SEGMENT_HEADER_BYTES {
        return;
    }
    let crc = crc32c(&bytes[16..SEGMENT_HEADER_BYTES]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(header) = bytes.get(at..at + BATCH_HEADER_BYTES) {
        let length = u32::from_le_bytes(header[40..44].try_into().expect("four bytes")) as usize;
        let end = (at + BATCH_HEADER_BYTES).saturating_add(length);
        let Some(crc) = bytes.get(at + 4..end).map(crc32c) else { return };
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(0, Faults::default()));
    let mut writer = Writer::open(disk.clone(), Path::new(DIR), settings(), Time(1))
        .expect("a disk without faults");
    let connection = ConnectionNumber(1);
    let end = |text: &str| text.parse().expect("an address");
    let mut batch = Batch::after(Position(0));
    batch.opened(connection, Time(5), end("192.0.2.7:40000"), end("[2001:db8::1]:6379"));
    let first = batch.request(connection, Time(9), Class::Connection, 40_000, 7, b"SELECT 3\r\n");
    let second = batch.request(connection, Time(11), Class::Query, 40_000, 17, b"INCR a\r\n");
    writer.write(&mut batch).expect("a disk without faults");
    batch.clear();
    batch.completed(second, Time(12), Outcome::Error);
    batch.completed(first, Time(10), Outcome::Ok);
    batch.gap(None, Time(13), 5, GapReason::RingOverflow);
    batch.closed(connection, Time(14));
    writer.write(&mut batch).expect("a disk without faults");
    writer.close().expect("a disk without faults");
    let file = disk.open(Path::new(FILE), env::Access::Read).expect("it was written");
    let mut whole = vec![0; usize::try_from(file.len().expect("no faults")).expect("short")];
    file.read_exact_at(&mut whole, 0).expect("a disk without faults");
    let torn = whole[..whole.len() - 60].to_vec();
    vec![whole, torn]
}
