//! One suite, two disks: whatever code relies on must hold on both the real disk and the simulated
//! one.

use std::io::ErrorKind;
use std::path::Path;

use env::{Access, Disk};
use env_os::OsDisk;
use env_sim::{Faults, SimDisk};

/// Runs a check on the real disk in its own directory, and on a simulated one.
fn on_both(check: impl Fn(&dyn Disk, &Path)) {
    let temporary = tempfile::tempdir().unwrap();
    check(&OsDisk, temporary.path());
    let simulated = SimDisk::new(1, Faults::default());
    let dir = Path::new("/data");
    simulated.create_dir_all(dir).unwrap();
    check(&simulated, dir);
    let choppy = SimDisk::new(2, Faults { short_reads: true, ..Faults::default() });
    choppy.create_dir_all(dir).unwrap();
    check(&choppy, dir);
}

fn contents(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn what_is_written_is_read() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        let file = disk.create(&path).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        file.write_all_at(b"J", 0).unwrap();
        file.write_all_at(b"end", 8).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 11);
        assert!(!file.is_empty().unwrap());
        assert_eq!(contents(disk, &path), b"Jello\0\0\0end");
        let mut middle = [0; 4];
        file.read_exact_at(&mut middle, 1).unwrap();
        assert_eq!(&middle, b"ello");
    });
}

#[test]
fn reading_stops_at_the_end() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        write(disk, &path, b"abc");
        let file = disk.open(&path, Access::Read).unwrap();
        let mut buf = [9; 8];
        let read = file.read_at(&mut buf, 1).unwrap();
        assert!((1..=2).contains(&read));
        assert_eq!(file.read_at(&mut buf, 3).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
        let error = file.read_exact_at(&mut buf, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn names_are_taken_once_and_must_exist() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        let kind = |result: std::io::Result<_>| result.map(|_: Box<_>| ()).unwrap_err().kind();
        assert_eq!(kind(disk.open(&path, Access::Read)), ErrorKind::NotFound);
        assert_eq!(kind(disk.open(&path, Access::ReadWrite)), ErrorKind::NotFound);
        assert_eq!(disk.remove(&path).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.rename(&path, &dir.join("g")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(kind(disk.create(&dir.join("absent/f"))), ErrorKind::NotFound);
        assert_eq!(disk.list(&dir.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.sync_dir(&dir.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
        write(disk, &path, b"");
        assert_eq!(kind(disk.create(&path)), ErrorKind::AlreadyExists);
        assert!(disk.exists(&path).unwrap() && !disk.exists(&dir.join("g")).unwrap());
    });
}

#[test]
fn directories_are_made_with_parents_and_listed_in_order() {
    on_both(|disk, dir| {
        disk.create_dir_all(&dir.join("sub/deep")).unwrap();
        disk.create_dir_all(&dir.join("sub/deep")).unwrap();
        assert!(disk.exists(&dir.join("sub")).unwrap());
        for name in ["b", "a", "c"] {
            write(disk, &dir.join(name), b"");
        }
        write(disk, &dir.join("sub/deep/x"), b"");
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["a", "b", "c", "sub"]);
        assert_eq!(disk.list(&dir.join("sub")).unwrap(), ["deep"]);
        assert_eq!(disk.list(&dir.join("sub/deep")).unwrap(), ["x"]);
    });
}

#[test]
fn a_rename_replaces_and_old_handles_read_on() {
    on_both(|disk, dir| {
        let (old, new) = (dir.join("old"), dir.join("new"));
        write(disk, &old, b"OLD");
        write(disk, &new, b"NEW");
        let handle = disk.open(&old, Access::Read).unwrap();
        disk.rename(&new, &old).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(contents(disk, &old), b"NEW");
        assert!(!disk.exists(&new).unwrap());
        let mut bytes = [0; 3];
        handle.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"OLD");
        disk.rename(&old, &old).unwrap();
        assert_eq!(contents(disk, &old), b"NEW");
    });
}

#[test]
fn a_removed_file_is_gone_by_name_and_open_by_handle() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        let file = disk.create(&path).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        disk.remove(&path).unwrap();
        disk.sync_dir(dir).unwrap();
        assert!(!disk.exists(&path).unwrap());
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abc");
        write(disk, &path, b"another");
        assert_eq!(contents(disk, &path), b"another");
    });
}

#[test]
fn lengths_are_set_and_space_is_reserved() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        let file = disk.create(&path).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.set_len(3).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(contents(disk, &path), b"abc\0\0");
        file.allocate(0, 1 << 16).unwrap();
        assert_eq!(file.len().unwrap(), 5);
        file.advise_sequential();
        file.drop_cache(0, 5);
        assert_eq!(contents(disk, &path), b"abc\0\0");
        assert!(disk.available_bytes(dir).unwrap() > 0);
    });
}

#[test]
fn a_handle_for_reading_does_not_write() {
    on_both(|disk, dir| {
        let path = dir.join("f");
        write(disk, &path, b"abc");
        let file = disk.open(&path, Access::Read).unwrap();
        assert!(file.write_all_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        assert_eq!(contents(disk, &path), b"abc");
        let file = disk.open(&path, Access::ReadWrite).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(contents(disk, &path), b"xbc");
    });
}

#[test]
fn a_lock_is_held_by_one_until_dropped() {
    on_both(|disk, dir| {
        let path = dir.join("lock");
        let held = disk.lock(&path).unwrap();
        assert_eq!(disk.lock(&path).err().unwrap().kind(), ErrorKind::WouldBlock);
        assert!(disk.lock(&dir.join("another")).is_ok());
        drop(held);
        assert!(disk.lock(&path).is_ok());
        assert!(disk.exists(&path).unwrap());
    });
}
