//! Records by their addresses, from the groups of sealed segments: the right one, or an error.
//!
//! Broken on purpose, and seen: the checksum of a group is not compared (by what is here); the rank
//! is one more, or the ordinal is taken for it (here, and by `reading`, `racing`, `simulation`); what
//! was replaced is taken for damage at once (by the latter three). That records say wrongly, or not
//! at all, that their entries are new, is seen by the model of the keyspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::RecordAddr;
use env::Disk;
use env_sim::{Faults, SimDisk};
use redo::{Error, FileError, Reader, ReaderLimits};

use crate::harness::{Database, key, options, value};

/// Another one for each byte.
fn bit(at: u64) -> u8 {
    at.to_le_bytes()[0] % 8
}

struct Sealed {
    disk: SimDisk,
    database: Database,
    records: Vec<(RecordAddr, Vec<u8>, Vec<u8>)>,
}

/// Sealed segments, as they were written, compacted, and gathered in one file, with small and large
/// records in them; and the open one.
fn sealed() -> Sealed {
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 2500;
    options.compaction.enabled = false;
    options.compaction.invalid_count_min = 2;
    options.compaction.gathered_min = 2;
    let disk = SimDisk::new(1, Faults::default());
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    let value_byte = |number: usize| b"abcdefghijklmnopqrstuvwxyz"[number % 26];
    let length = |number: usize| if number % 11 == 5 { 400 } else { number % 37 };
    let fill = |database: &mut Database, numbers: std::ops::Range<usize>| {
        for number in numbers {
            database.set(&key(number), &vec![value_byte(number); length(number)]);
            if number % 5 == 0 {
                database.flush();
            }
        }
        database.flush();
    };
    fill(&mut database, 0..100);
    (0..60).filter(|number| number % 3 > 0).for_each(|number| database.set(&key(number), b"again"));
    database.flush();
    database.log.compact_all();
    database.settle();
    assert!(database.log.stats().compactions > 1);
    fill(&mut database, 100..160);
    let entries = database.keyspace.entries.iter();
    let records = entries.map(|(key, (value, addr))| (*addr, key.clone(), value.clone()));
    let mut records: Vec<_> = records.collect();
    records.sort();
    Sealed { disk, database, records }
}

impl Sealed {
    /// The files of sealed segments, with their lengths.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let dir = Path::new("/data/redo");
        let names = self.disk.list(dir).unwrap();
        let paths = names.iter().filter_map(|name| name.to_str()).filter(|n| n.ends_with(".redo"));
        let len = |path: &PathBuf| self.disk.open(path, env::Access::Read).unwrap().len().unwrap();
        let mut files: Vec<_> =
            paths.map(|name| dir.join(name)).map(|path| (path.clone(), len(&path))).collect();
        files.pop();
        files
    }

    /// Reads everything, one by one and then together: which records were an error. None is another one, or
    /// missing.
    fn read_all(&self, reader: &mut Reader) -> Vec<(RecordAddr, Error)> {
        let mut errors = Vec::new();
        for (addr, key, value) in &self.records {
            match reader.record(*addr) {
                Ok(found) => {
                    let found = found.expect("it is durable, and needed");
                    let record = found.record();
                    assert_eq!((record.key, record.value), (&key[..], &value[..]), "{addr}");
                }
                Err(error) => errors.push((*addr, error)),
            }
        }
        // In their order, and in no order.
        let all = 0..self.records.len();
        let mixed = all.clone().rev().step_by(3).chain(all.clone().step_by(2));
        let which: Vec<usize> = all.clone().chain(mixed).collect();
        let addrs: Vec<RecordAddr> = which.iter().map(|at| self.records[*at].0).collect();
        let (mut told, mut damaged) = (0, BTreeSet::new());
        reader.records(&addrs, &mut |at, found| {
            told += 1;
            let (addr, key, value) = &self.records[which[at]];
            if let Ok(found) = found {
                let found = found.expect("it is durable, and needed");
                assert_eq!(
                    (found.record().key, found.record().value),
                    (&key[..], &value[..]),
                    "{addr}"
                );
            } else {
                damaged.insert(*addr);
            }
        });
        assert_eq!((told, damaged), (addrs.len(), errors.iter().map(|(addr, _)| *addr).collect()));
        errors
    }
}

#[test]
fn every_record_is_found_however_little_is_held_on_to() {
    let sealed = sealed();
    for limits in [
        ReaderLimits::default(),
        ReaderLimits { open_files: 1, places: 1 },
        ReaderLimits { open_files: 2, places: 20 },
        ReaderLimits { open_files: 0, places: 0 },
    ] {
        let mut reader = sealed.database.log.reader().with_limits(limits);
        for _ in 0..2 {
            assert!(sealed.read_all(&mut reader).is_empty(), "{limits:?}");
        }
    }
}

/// Bytes all over the files, turned while the log is open: no answer is another one.
#[test]
fn damage_is_an_error_of_the_records_of_its_group_alone() {
    let sealed = sealed();
    let all = sealed.records.len();
    let mut alone = 0;
    for (path, len) in sealed.files() {
        for at in (0..len).step_by(7) {
            assert!(sealed.disk.flip_bit(&path, at, bit(at)));
            let errors = sealed.read_all(&mut sealed.database.log.reader());
            assert!(errors.len() < all, "byte {at} of {}", path.display());
            for (addr, error) in &errors {
                let Error::File(FileError::Corrupt { path: named, offset, what, .. }) = error
                else {
                    assert!(
                        matches!(
                            error,
                            Error::File(FileError::NewerFormat { .. }) | Error::Changing { .. }
                        ),
                        "{addr}: {error}"
                    );
                    continue;
                };
                assert_eq!(*named, path);
                assert!(
                    *offset <= at || what.contains("footer"),
                    "byte {at} of {}, {addr}: {error}",
                    path.display()
                );
            }
            alone += u64::from(!errors.is_empty() && errors.len() < 12);
            assert!(sealed.disk.flip_bit(&path, at, bit(at)));
        }
    }
    assert!(alone > 500, "{alone} times a group was damaged and its neighbours were not");
    assert!(sealed.read_all(&mut sealed.database.log.reader()).is_empty());
}

/// A segment that takes the log has no footer: its blocks are found by walking over their headers.
#[test]
fn a_damaged_header_in_a_segment_that_takes_the_log_hides_nothing() {
    let disk = SimDisk::new(1, Faults::default());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut database = Database::open_on(shared, options(Path::new("/data"))).unwrap();
    for number in 0..20 {
        database.set(&key(number), &value(number));
        database.flush();
    }
    let addrs: Vec<RecordAddr> =
        (0..20).map(|number| database.keyspace.entries[&key(number)].1).collect();
    let segment = addrs[0].segment();
    let read = |at: usize| database.log.reader().record(addrs[at]).map(|found| found.is_some());
    let scan = || {
        let mut scan = database.log.reader().scan(segment);
        let mut count = 0;
        while scan.next()?.is_some() {
            count += 1;
        }
        Ok::<_, Error>(count)
    };
    assert_eq!(scan().unwrap(), 20);
    let path = Path::new("/data/redo/0000000001.redo");
    let bytes = crate::sweep::read_all(&disk)[path].clone();
    let mark = &bytes[128..132];
    let headers: Vec<usize> =
        (128..bytes.len() - 4).filter(|at| &bytes[*at..at + 4] == mark).collect();
    assert_eq!(headers.len(), 20);
    for (block, offset) in headers.into_iter().enumerate() {
        assert!(disk.flip_bit(path, offset as u64 + 9, 2));
        assert!((0..block).all(|at| read(at).unwrap()), "those before are found");
        for at in block..20 {
            let error = read(at).expect_err("a header before it is damaged");
            assert!(error.to_string().contains("damaged"), "block {block}, record {at}: {error}");
        }
        let error = scan().expect_err("blocks behind the damage were durable");
        assert!(matches!(error, Error::File(FileError::Corrupt { .. })), "{error}");
        assert!(disk.flip_bit(path, offset as u64 + 9, 2));
        assert!((0..20).all(|at| read(at).unwrap()));
    }
}

/// Segments that share a file are looked for in all files once, and not by each reader.
#[test]
fn a_segment_in_the_file_of_another_is_found_there_the_next_time() {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.compaction.gathered_min = 4;
    let open = |options: &redo::Options| {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Database::open_on(shared, options.clone()).unwrap()
    };
    for life in 0..4 {
        options.compaction.enabled = life == 3;
        let mut database = open(&options);
        database.set(&key(life), &value(life));
        database.settle();
        assert!(database.close().entries.len() > life);
    }
    options.compaction.enabled = true;
    let mut database = open(&options);
    database.settle();
    assert_eq!(database.log.stats().files, 1);
    options.compaction.enabled = false;
    drop(database);
    for life in 4..24 {
        let mut database = open(&options);
        database.set(&key(life), &value(life));
        database.settle();
        drop(database);
    }
    let database = open(&options);
    let (_, addr) = database.keyspace.entries[&key(2)];
    let reads = || {
        let before = disk.read_count();
        assert!(database.log.reader().record(addr).unwrap().is_some());
        disk.read_count() - before
    };
    let (first, second) = (reads(), reads());
    assert!(second * 4 < first, "reads in 21 files: {first}, then {second}");
}
