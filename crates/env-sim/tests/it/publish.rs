//! `env::publish`: crashes and errors at each of its steps, and the sweeps themselves.

use std::path::{Path, PathBuf};

use env::{Access, Disk, FileError, Unpublished, publish};
use env_sim::sweep::{Damage, Image, crash_everywhere, damages, disk_of, exchanges, image_of};
use env_sim::{Faults, SimDisk};

const DIR: &str = "/d";
const OLD: &[u8] = b"the old file";

fn path() -> PathBuf {
    Path::new(DIR).join("file")
}

fn temporary() -> PathBuf {
    Path::new(DIR).join("file.tmp")
}

fn new() -> Vec<u8> {
    vec![b'n'; 3000]
}

fn contents(disk: &SimDisk) -> Option<Vec<u8>> {
    image_of(disk, &[Path::new(DIR)]).remove(&path())
}

/// A disk with or without the old file, and with half of an earlier attempt.
fn start(seed: u64, has_old: bool) -> SimDisk {
    let disk = SimDisk::new(seed, Faults::default());
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let files = has_old.then_some((path(), OLD)).into_iter().chain([(temporary(), &b"half"[..])]);
    for (path, bytes) in files {
        let file = disk.create(&path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    for seed in 0..30 {
        for has_old in [false, true] {
            let old = has_old.then(|| OLD.to_vec());
            let mut seen_old = false;
            let ios = crash_everywhere(
                &start(seed, has_old),
                |disk| publish(disk, &temporary(), &path(), &new()).is_ok(),
                |disk, is_published| {
                    let found = contents(disk);
                    seen_old |= found == old;
                    assert!(found == Some(new()) || !is_published && found == old, "{found:?}");
                    // The remains of a crash do not obstruct another attempt.
                    publish(disk, &temporary(), &path(), b"next").unwrap();
                    disk.crash();
                    assert_eq!(contents(disk).as_deref(), Some(&b"next"[..]));
                },
            );
            assert!(seen_old && ios == 6, "remove, create, write, sync, rename, sync: {ios}");
        }
    }
}

#[test]
fn an_error_names_the_step_and_leaves_one_of_both() {
    let mut steps = Vec::new();
    for n in 1..=6 {
        let disk = start(1, true);
        let error_at_io = Some(disk.io_count() + n);
        disk.set_faults(Faults { error_at_io, ..Faults::default() });
        let failed = publish(&disk, &temporary(), &path(), &new());
        let Err(failed @ FileError::Io { doing, .. }) = failed else {
            panic!("step {n} did not fail")
        };
        assert!(failed.to_string().starts_with(&format!("cannot {doing} {DIR}")), "{failed}");
        steps.push(doing);
        disk.crash();
        let found = contents(&disk);
        assert!(found.as_deref() == Some(OLD) || found == Some(new()), "{found:?}");
    }
    assert_eq!(steps, ["remove", "create", "write", "sync", "replace", "sync"]);
}

#[test]
fn a_file_that_is_not_published_never_appears() {
    let disk = start(1, true);
    let unpublished = Unpublished::create(&disk, &temporary()).unwrap();
    unpublished.file().write_all_at(&new(), 0).unwrap();
    drop(unpublished);
    assert_eq!(contents(&disk).as_deref(), Some(OLD));
    let file = publish(&disk, &temporary(), &path(), &new()).unwrap();
    file.write_all_at(b"more", 3000).unwrap();
    assert_eq!(disk.open(&path(), Access::Read).unwrap().len().unwrap(), 3004, "the same file");
}

/// The steps one by one, with a wait before the rename and a second attempt at the last one.
#[test]
fn each_step_can_wait_and_the_last_one_be_made_again() {
    let disk = start(1, true);
    let unpublished = Unpublished::create(&disk, &temporary()).unwrap();
    unpublished.file().write_all_at(&new(), 0).unwrap();
    let complete = unpublished.complete().unwrap();
    assert_eq!(contents(&disk).as_deref(), Some(OLD), "it waits");
    let renamed = complete.rename(&disk, &path()).unwrap();
    let error_at_io = Some(disk.io_count() + 1);
    disk.set_faults(Faults { error_at_io, ..Faults::default() });
    let failed = renamed.settle(&disk).unwrap_err();
    assert!(failed.to_string().starts_with("cannot sync /d"), "{failed}");
    renamed.settle(&disk).unwrap();
    disk.crash();
    assert!(contents(&disk) == Some(new()));
}

#[test]
fn a_sweep_has_every_damage_once_and_does_it() {
    let image = Image::from([(path(), b"abc".to_vec()), (temporary(), b"de".to_vec())]);
    assert_eq!(image_of(&disk_of(&image), &[Path::new(DIR)]), image);
    let all = damages(&image, 1);
    assert_eq!(all.len(), (2 * 3 + 3) + (2 * 2 + 3));
    for damage in &all {
        let damaged = image_of(&damage.on(&image), &[Path::new(DIR)]);
        assert_ne!(damaged, image, "{damage:?}");
        let found = damaged.get(&path()).map(Vec::as_slice);
        match damage {
            Damage::Flip { path: of, at: 1, .. } if *of == path() => {
                assert_eq!(found, Some(&b"a`c"[..]));
            }
            Damage::Cut { path: of, len: 1 } if *of == path() => assert_eq!(found, Some(&b"a"[..])),
            Damage::Lose { path: of } if *of == path() => assert_eq!(found, None),
            _ => {}
        }
    }
    assert_eq!(damages(&image, 2).len(), (2 * 2 + 3) + (2 + 3));
    let all = exchanges(&image);
    assert_eq!(all.len(), 1);
    let exchanged = all[0].apply(&image);
    assert_eq!((&exchanged[&path()][..], &exchanged[&temporary()][..]), (&b"de"[..], &b"abc"[..]));
}
