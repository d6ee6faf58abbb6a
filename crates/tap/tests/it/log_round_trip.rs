//! Entries are read as they were written: over batches, segments and restarts, completely and from
//! a position on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::Disk;
use env_sim::{Faults, SimDisk};
use proptest::prelude::*;
use tap::log::{self, Batch, Keep, Settings, Writer};
use tap::{Class, ConnectionNumber, Entry, Error, GapReason, Position, Time};

use crate::samples;

const DIR: &str = "/log";

fn settings(keep: Keep) -> Settings {
    Settings { protocol: "raw".into(), keep }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(SimDisk::new(7, Faults { short_reads: true, ..Faults::default() }))
}

fn read(disk: &Arc<dyn Disk>, since: Option<Position>) -> Result<Vec<Entry>, Error> {
    log::read(disk, Path::new(DIR), since)?.collect()
}

/// Writes `entries` in batches of at most `batch_len`, in segments.
fn write(disk: &Arc<dyn Disk>, entries: &[Entry], batch_len: usize) {
    let mut writer =
        Writer::open(disk.clone(), Path::new(DIR), settings(Keep::default()), Time(1)).unwrap();
    let mut batch = Batch::after(writer.position());
    for some in entries.chunks(batch_len) {
        some.iter().for_each(|entry| batch.push(entry));
        writer.write(&mut batch).unwrap();
        batch.clear();
        if writer.segment_len_bytes() >= 600 {
            writer.rotate(&[], ConnectionNumber(0), Time(2)).unwrap();
        }
    }
    writer.close().unwrap();
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in samples::entries(60), batch_len in 1..20usize) {
        let disk = disk();
        write(&disk, &entries, batch_len);
        prop_assert_eq!(read(&disk, None).unwrap(), entries);
    }

    #[test]
    fn from_a_position_on_every_request_after_it_is_read(
        entries in samples::entries(60),
        batch_len in 1..20usize,
        since in 0..40u64,
    ) {
        let disk = disk();
        write(&disk, &entries, batch_len);
        let after = |entry: &&Entry| matches!(entry,
            Entry::Request { position, .. } if position.0 > since);
        let read = read(&disk, Some(Position(since))).unwrap();
        let expected: Vec<&Entry> = entries.iter().filter(after).collect();
        prop_assert_eq!(read.iter().filter(after).collect::<Vec<_>>(), expected);
    }
}

fn query(batch: &mut Batch, payload: &[u8]) {
    batch.request(ConnectionNumber(1), Time(5), Class::Query, 1, 2, payload);
}

fn positions(entries: &[Entry]) -> Vec<u64> {
    let position = |entry: &Entry| match entry {
        Entry::Request { position, .. } => Some(position.0),
        _ => None,
    };
    entries.iter().filter_map(position).collect()
}

#[test]
fn a_continued_log_records_the_gap() {
    let disk = disk();
    for start in 0..3 {
        let mut writer =
            Writer::open(disk.clone(), Path::new(DIR), settings(Keep::default()), Time(start))
                .unwrap();
        assert_eq!(writer.is_continued(), start > 0);
        let mut batch = Batch::after(writer.position());
        query(&mut batch, b"one");
        writer.write(&mut batch).unwrap();
        writer.close().unwrap();
    }
    let entries = read(&disk, None).unwrap();
    assert_eq!(positions(&entries), [1, 2, 3]);
    let stopped =
        |at| Entry::Gap { connection: None, at: Time(at), missing: 0, reason: GapReason::Stopped };
    assert_eq!([&entries[1], &entries[3]], [&stopped(1), &stopped(2)]);
}

#[test]
fn a_reader_that_reached_the_end_goes_on_when_there_is_more() {
    let disk = disk();
    let mut writer =
        Writer::open(disk.clone(), Path::new(DIR), settings(Keep::default()), Time(0)).unwrap();
    let mut reader = log::read(&disk, Path::new(DIR), None).unwrap();
    let mut batch = Batch::after(writer.position());
    for round in 1..20u64 {
        assert!(reader.next().is_none());
        query(&mut batch, &[b'x'; 100]);
        writer.write(&mut batch).unwrap();
        batch.clear();
        if round % 4 == 0 {
            writer.rotate(&[], ConnectionNumber(1), Time(0)).unwrap();
        }
        let entry = reader.next().unwrap().unwrap();
        assert_eq!(positions(&[entry]), [round]);
    }
}

#[test]
fn what_is_not_kept_goes_and_is_missed_when_asked_for() {
    let disk = disk();
    let keep = Keep { bytes_max: Some(2000), age_max: None };
    let mut writer = Writer::open(disk.clone(), Path::new(DIR), settings(keep), Time(0)).unwrap();
    let mut batch = Batch::after(writer.position());
    for _ in 0..40 {
        query(&mut batch, &[b'x'; 200]);
        writer.write(&mut batch).unwrap();
        batch.clear();
        if writer.segment_len_bytes() >= 600 {
            writer.rotate(&[], ConnectionNumber(1), Time(0)).unwrap();
        }
    }
    let kept = positions(&read(&disk, None).unwrap());
    assert!((4..12).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept.last(), Some(&40));
    let first = kept[0];
    assert_eq!(positions(&read(&disk, Some(Position(first - 1))).unwrap()), kept);
    match read(&disk, Some(Position(first - 2))) {
        Err(Error::Removed { first: named, .. }) => assert_eq!(named.0, first),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_too_old_goes() {
    let disk = disk();
    let keep = Keep { bytes_max: None, age_max: Some(Duration::from_nanos(25)) };
    let mut writer = Writer::open(disk.clone(), Path::new(DIR), settings(keep), Time(0)).unwrap();
    let mut batch = Batch::after(writer.position());
    for now in (10..=100).step_by(10) {
        query(&mut batch, b"x");
        writer.write(&mut batch).unwrap();
        batch.clear();
        writer.rotate(&[], ConnectionNumber(1), Time(now)).unwrap();
    }
    // Segments begun at 70, 80, 90 and 100 are there: the one before had its last entry at 70.
    assert_eq!(positions(&read(&disk, None).unwrap()), [8, 9, 10]);
}

#[test]
fn a_full_disk_is_told_and_the_same_batch_written_when_there_is_room() {
    let sim = SimDisk::new(3, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut writer =
        Writer::open(disk.clone(), Path::new(DIR), settings(Keep::default()), Time(0)).unwrap();
    sim.set_faults(Faults { capacity_bytes: Some(1000), ..Faults::default() });
    let mut batch = Batch::after(writer.position());
    let full = loop {
        query(&mut batch, &[b'x'; 100]);
        match writer.write(&mut batch) {
            Ok(()) => batch.clear(),
            Err(error) => break error,
        }
    };
    assert!(full.is_storage_full(), "{full}");
    let refused = writer.rotate(&[], ConnectionNumber(1), Time(0)).unwrap_err();
    assert!(refused.is_storage_full(), "{refused}");
    sim.set_faults(Faults::default());
    writer.write(&mut batch).unwrap();
    writer.close().unwrap();
    let count = batch.position().0;
    assert_eq!(positions(&read(&disk, None).unwrap()), (1..=count).collect::<Vec<_>>());
}
