//! Dumps that are cut short or damaged, and targets that cannot be written: nothing is at OUT.

use std::fs::File;

use analytics::{Error, Options};

use crate::data::{Data, dump, sample};
use crate::forms::{Place, narrow};
use crate::read_back::read_back;

/// A dump that has everything and is short.
fn short() -> (Data, Vec<u8>) {
    let mut data = sample();
    data.retain(|(database, _), entry| *database != 3 && format!("{entry:?}").len() < 5000);
    let bytes = dump(&data);
    (data, bytes)
}

const MARK: &[u8; 40] = b"26eff17346e14f2095339fbc42f59ef52e541ae3";

#[test]
fn a_dump_that_is_cut_short_leaves_nothing() {
    let (_, dump) = short();
    for bytes in 0..dump.len() {
        let place = Place::of(&dump[..bytes]);
        let options = Options { bounds: narrow(), ..Options::default() };
        assert!(place.export(&options).is_err(), "{bytes} of {}", dump.len());
        assert_eq!(place.names().len(), 0, "{bytes}");
    }
}

#[test]
fn a_long_dump_that_is_cut_short_leaves_nothing() {
    let dump = dump(&sample());
    let place = Place::of(&dump[..dump.len() - 1]);
    let options = Options { bounds: narrow(), ..Options::default() };
    assert!(matches!(place.export(&options), Err(Error::Dump { .. })));
    assert_eq!(place.names().len(), 0);
}

#[test]
fn only_the_mark_of_redis_cli_may_follow() {
    let (data, dump) = short();
    for (behind, is_good) in [
        (&MARK[..], true),
        (&MARK[..39], false),
        (b"x", false),
        (&[0; 40], false),
        (&[&MARK[..], b"\n"].concat(), false),
    ] {
        let place = Place::of(&[&dump[..], behind].concat());
        let exported = place.export(&Options::default());
        assert_eq!(exported.is_ok(), is_good, "{exported:?}");
        if is_good {
            assert_eq!(read_back(&place.out()), data);
        } else {
            assert!(matches!(exported, Err(Error::Ending { .. })));
            assert_eq!(place.names().len(), 0);
        }
    }
}

#[test]
fn what_is_there_is_left_alone() {
    let (_, dump) = short();
    let place = Place::of(&dump);
    std::fs::create_dir(place.out()).unwrap();
    assert!(matches!(place.export(&Options::default()), Err(Error::Exists { .. })));
    std::fs::remove_dir(place.out()).unwrap();
    std::fs::write(place.out(), "mine").unwrap();
    assert!(matches!(place.export(&Options::default()), Err(Error::Exists { .. })));
    assert_eq!(std::fs::read(place.out()).unwrap(), b"mine");
    assert_eq!(place.names(), ["out"]);
}

#[test]
fn what_a_kill_has_left_is_taken_over() {
    let (data, dump) = short();
    let place = Place::of(&dump);
    let left = place.0.path().join("out.tmp");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("lists.parquet"), "half").unwrap();
    place.export(&Options::default()).unwrap();
    assert_eq!(read_back(&place.out()), data);
    assert_eq!(place.names(), ["out"]);
}

#[test]
fn files_behind_a_link_are_not_removed() {
    let (_, dump) = short();
    let place = Place::of(&dump);
    let behind = tempfile::tempdir().unwrap();
    std::fs::write(behind.path().join("lists.parquet"), "mine").unwrap();
    std::os::unix::fs::symlink(behind.path(), place.0.path().join("out.tmp")).unwrap();
    assert!(matches!(place.export(&Options::default()), Err(Error::Exists { .. })));
    assert_eq!(std::fs::read(behind.path().join("lists.parquet")).unwrap(), b"mine");
}

#[test]
fn an_export_that_runs_is_not_disturbed() {
    let (_, dump) = short();
    let place = Place::of(&dump);
    let other = place.0.path().join("out.tmp");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("lists.parquet"), "half").unwrap();
    let lock = File::open(&other).unwrap();
    lock.lock().unwrap();
    assert!(matches!(place.export(&Options::default()), Err(Error::Busy { .. })));
    assert_eq!(std::fs::read(other.join("lists.parquet")).unwrap(), b"half");
}

#[test]
fn a_target_that_cannot_be_made_is_named() {
    let (_, dump) = short();
    let place = Place::of(&dump);
    let nowhere = place.0.path().join("no/where");
    let source = analytics::Source::File(place.0.path().join("dump.rdb"));
    let error = analytics::export(&source, &nowhere, &Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("no/where.tmp: No such file"), "{error}");
    let missing = analytics::Source::File(place.0.path().join("missing.rdb"));
    let error = analytics::export(&missing, &place.out(), &Options::default(), |_| {}).unwrap_err();
    assert!(matches!(error, Error::Open { .. }), "{error}");
    assert_eq!(place.names().len(), 0);
}
