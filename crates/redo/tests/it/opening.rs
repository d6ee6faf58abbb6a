//! What stops a log from being opened, and that nothing is touched then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use redo::segment::{self, SegmentHeader};
use redo::{Error, FileError, Options};

use crate::harness::{Counter, Database, key, options, value};

/// Every file below `dir` with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn filled(options: &Options) {
    let mut database = Database::open(options.clone()).unwrap();
    for number in 0..300 {
        database.set(&key(number), &value(number));
        database.flush();
    }
    database.close();
}

fn refused(dir: &Path, options: &Options) -> Error {
    let before = files(dir);
    let error = Database::open(options.clone()).err().expect("it is refused");
    assert_eq!(files(dir), before, "nothing is touched: {error}");
    error
}

fn with_devices(dir: &Path, names: &[&str]) -> Options {
    let mut options = options(dir);
    options.devices = names.iter().map(|name| dir.join(name)).collect();
    options
}

#[test]
fn a_log_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let database = Database::open(options.clone()).unwrap();
    let error = refused(dir.path(), &options);
    assert!(matches!(error, Error::File(FileError::InUse { .. })), "{error}");
    drop(database);
    Database::open(options).unwrap();
}

#[test]
fn a_log_without_room_behind_its_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    filled(&options);
    let mut segments = files(dir.path()).into_keys();
    let path = segments.find(|path| path.extension().is_some_and(|ext| ext == "redo")).unwrap();
    let good = fs::read(&path).unwrap();
    let header = SegmentHeader::decode(good.first_chunk().unwrap(), &path).unwrap().unwrap();
    for (left, is_room) in [(0, false), (1, false), ((1 << 48) - 1, false), (1 << 48, true)] {
        let horizon = base::Lsn(base::Lsn::MAX.0 - left);
        let mut bytes = good.clone();
        bytes[..segment::HEADER_BYTES]
            .copy_from_slice(&SegmentHeader { horizon, ..header }.encode());
        fs::write(&path, bytes).unwrap();
        if is_room {
            Database::open(options.clone()).unwrap();
            continue;
        }
        let error = refused(dir.path(), &options);
        assert!(
            matches!(&error, Error::File(FileError::Corrupt { path: file, .. }) if *file == path),
            "{error}"
        );
        assert!(error.to_string().contains("leaves no room"), "{error}");
    }
}

#[test]
fn devices_are_found_by_what_they_say_not_by_their_order() {
    let dir = tempfile::tempdir().unwrap();
    filled(&with_devices(dir.path(), &["a", "b", "c"]));
    fs::rename(dir.path().join("c"), dir.path().join("moved")).unwrap();
    let database = Database::open(with_devices(dir.path(), &["moved", "b", "a"])).unwrap();
    assert_eq!(database.keyspace.entries.len(), 300);
}

#[test]
fn a_device_can_be_added() {
    let dir = tempfile::tempdir().unwrap();
    filled(&with_devices(dir.path(), &["a"]));
    let mut database = Database::open(with_devices(dir.path(), &["a", "b"])).unwrap();
    for number in 0..300 {
        database.set(&key(number), b"new");
        database.flush();
    }
    assert!(database.log.stats().devices[1].written_blocks > 100);
    let expected = database.close().contents();
    let database = Database::open(with_devices(dir.path(), &["a", "b"])).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
}

#[test]
fn a_missing_device_is_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(&with_devices(dir.path(), &["a", "b"]));
    let error = refused(dir.path(), &with_devices(dir.path(), &["a"]));
    assert!(matches!(&error, Error::MissingDevice { path, .. } if path.ends_with("b")), "{error}");
    // An empty directory in its place, as when its disk is not mounted, is not the device either.
    fs::rename(dir.path().join("b"), dir.path().join("elsewhere")).unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    let error = refused(dir.path(), &with_devices(dir.path(), &["a", "b"]));
    assert!(matches!(error, Error::MissingDevice { .. }), "{error}");
}

#[test]
fn a_device_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(&with_devices(dir.path(), &["a", "b"]));
    let error = refused(dir.path(), &with_devices(dir.path(), &["a", "b", "a"]));
    assert!(matches!(error, Error::DuplicateDevice { .. }), "{error}");
    fs::create_dir(dir.path().join("copy")).unwrap();
    fs::copy(dir.path().join("a/device"), dir.path().join("copy/device")).unwrap();
    let error = refused(dir.path(), &with_devices(dir.path(), &["a", "b", "copy"]));
    assert!(matches!(error, Error::DuplicateDevice { .. }), "{error}");
}

#[test]
fn a_device_of_another_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    filled(&options(&ours));
    let disk = std::sync::Arc::new(env_os::OsDisk);
    let env = redo::Env {
        disk,
        clock: std::sync::Arc::new(crate::harness::ManualClock::default()),
        entropy: Box::new(Counter(99)),
        waker: std::sync::Arc::new(|| {}),
    };
    let recovery = redo::Recovery::open(env, options(&theirs)).unwrap();
    drop(recovery.run(&mut crate::harness::Keyspace::default(), &mut |_| {}).unwrap());
    let mut mixed = options(&ours);
    mixed.devices = vec![ours.join("redo"), theirs.join("redo")];
    let error = refused(dir.path(), &mixed);
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

#[test]
fn segments_without_their_manifest_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(&options(dir.path()));
    fs::remove_file(dir.path().join("redo.manifest")).unwrap();
    let error = refused(dir.path(), &options(dir.path()));
    assert!(matches!(error, Error::NoManifest { .. }), "{error}");
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    filled(&options(dir.path()));
    let path = dir.path().join("redo.manifest");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, bytes).unwrap();
    let error = refused(dir.path(), &options(dir.path()));
    assert!(
        matches!(error, Error::File(FileError::NewerFormat { found: 9, known: 2, .. })),
        "{error}"
    );
}

#[test]
fn a_segment_that_is_lost_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    filled(&options(dir.path()));
    fs::remove_file(dir.path().join("redo/0000000002.redo")).unwrap();
    let error = refused(dir.path(), &options(dir.path()));
    assert!(matches!(error, Error::MissingSegment { .. }), "{error}");
}

/// A keyspace that cannot use what it is given.
struct Rejecting(Option<base::RecordAddr>);

impl redo::Replay for Rejecting {
    fn apply(
        &mut self,
        _: &base::Record<'_>,
        addr: base::RecordAddr,
        _: base::Lsn,
        _: &mut Vec<base::RecordAddr>,
    ) {
        self.0 = Some(addr);
    }

    fn finish(&mut self, _: &mut Vec<base::RecordAddr>) {}

    fn rejected(&self) -> Option<(base::RecordAddr, String)> {
        self.0.map(|addr| (addr, "it is upside down".to_owned()))
    }
}

#[test]
fn a_record_that_the_keyspace_rejects_stops_the_start_before_any_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    database.set(b"a", b"1");
    database.flush();
    drop(database);
    let before = files(dir.path());
    let env = redo::Env {
        disk: std::sync::Arc::new(env_os::OsDisk),
        clock: std::sync::Arc::new(crate::harness::ManualClock::default()),
        entropy: Box::new(Counter(1)),
        waker: std::sync::Arc::new(|| {}),
    };
    let recovery = redo::Recovery::open(env, options(dir.path())).unwrap();
    let error = recovery.run(&mut Rejecting(None), &mut |_| {}).err().unwrap();
    assert!(matches!(error, Error::Rejected { .. }), "{error}");
    assert_eq!(files(dir.path()), before);
}
