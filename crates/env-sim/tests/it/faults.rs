//! The fault model: each fault described in `disk.rs` happens, and nothing synced is ever lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use env::{Access, Clock, Disk, Entropy, File};
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};

fn dir() -> &'static Path {
    Path::new("/d")
}

fn disk(seed: u64, faults: Faults) -> SimDisk {
    let disk = SimDisk::new(seed, Faults::default());
    disk.create_dir_all(dir()).unwrap();
    disk.set_faults(faults);
    disk
}

fn path(name: &str) -> PathBuf {
    dir().join(name)
}

fn contents(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(&path(name), Access::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

fn durable_file(disk: &SimDisk, name: &str, bytes: &[u8]) -> Box<dyn File> {
    let file = disk.create(&path(name)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(dir()).unwrap();
    file
}

/// Runs a mixture of everything. Returns what it did and left behind.
fn run(seed: u64) -> (u64, Vec<Option<Vec<u8>>>) {
    let faults = Faults {
        error_per_million: 20_000,
        sync_error_per_million: 50_000,
        misdirect_per_million: 10_000,
        short_reads: true,
        ..Faults::default()
    };
    let disk = disk(seed, faults);
    let mut rng = SimEntropy::new(seed);
    for round in 0..5 {
        for step in 0..40_u8 {
            let name = path(&format!("f{}", rng.below(4)));
            // Any call may fail: both runs must fail alike.
            let _outcome = match rng.below(5) {
                0 => disk.create(&name).map(|_| ()),
                1 => disk.remove(&name),
                2 => disk.rename(&name, &path(&format!("f{}", step % 4))),
                3 => disk.sync_dir(dir()),
                _ => disk.open(&name, Access::ReadWrite).and_then(|file| {
                    file.write_all_at(&[step; 900], rng.below(3000))?;
                    if rng.coin() { file.sync_data() } else { Ok(()) }
                }),
            };
        }
        if round % 2 == 0 { disk.crash() } else { disk.kill() }
    }
    disk.set_faults(Faults::default());
    let left = (0..4).map(|i| contents(&disk, &format!("f{i}"))).collect();
    (disk.trace_hash(), left)
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut hashes = Vec::new();
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
        hashes.push(run(seed).0);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 20, "another seed is another run");
}

#[test]
fn a_name_needs_its_directory_synced() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        durable_file(&disk, "durable", b"1");
        let file = disk.create(&path("fresh")).unwrap();
        file.write_all_at(b"2", 0).unwrap();
        file.sync_data().unwrap();
        disk.crash();
        assert_eq!(contents(&disk, "durable").unwrap(), b"1");
        match contents(&disk, "fresh") {
            None => lost += 1,
            Some(bytes) => {
                assert_eq!(bytes, b"2", "its bytes were synced");
                kept += 1;
            }
        }
    }
    assert!(lost > 20 && kept > 20, "{lost} lost, {kept} kept");
}

#[test]
fn a_rename_is_whole_or_absent() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        durable_file(&disk, "target", b"old");
        durable_file(&disk, "fresh", b"new");
        disk.rename(&path("fresh"), &path("target")).unwrap();
        disk.crash();
        match contents(&disk, "target").unwrap().as_slice() {
            b"old" => {
                assert_eq!(contents(&disk, "fresh").unwrap(), b"new");
                before += 1;
            }
            b"new" => {
                assert_eq!(contents(&disk, "fresh"), None);
                after += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(before > 20 && after > 20);
}

#[test]
fn a_removal_not_synced_may_come_back_whole() {
    let mut back = 0;
    for seed in 0..50 {
        let disk = disk(seed, Faults::default());
        durable_file(&disk, "f", b"abc");
        disk.remove(&path("f")).unwrap();
        disk.crash();
        if let Some(bytes) = contents(&disk, "f") {
            assert_eq!(bytes, b"abc");
            back += 1;
        }
    }
    assert!((5..45).contains(&back));
}

#[test]
fn handles_and_locks_die_with_the_process() {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    let lock = disk.lock(&path("lock")).unwrap();
    disk.kill();
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().to_string(), "crashed");
    assert!(file.read_at(&mut [0], 0).is_err() && file.sync_data().is_err());
    let again = disk.lock(&path("lock")).unwrap();
    drop(lock);
    assert_eq!(disk.lock(&path("lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(again);
    assert_eq!(contents(&disk, "f").unwrap(), b"abc");
}

#[test]
fn a_kill_loses_nothing() {
    for seed in 0..20 {
        let disk = disk(seed, Faults::default());
        disk.create(&path("f")).unwrap().write_all_at(&[5; 3000], 0).unwrap();
        disk.kill();
        assert_eq!(contents(&disk, "f").unwrap(), [5; 3000]);
    }
}

#[test]
fn a_crash_can_be_planned_at_every_io() {
    let script = |disk: &SimDisk| -> std::io::Result<()> {
        let file = disk.create(&path("f"))?;
        file.write_all_at(b"abc", 0)?;
        file.sync_data()?;
        disk.sync_dir(dir())?;
        disk.rename(&path("f"), &path("g"))?;
        disk.sync_dir(dir())
    };
    let whole = disk(1, Faults::default());
    let before = whole.io_count();
    script(&whole).unwrap();
    let ios = whole.io_count() - before;
    assert_eq!(ios, 6);
    for n in 1..=ios {
        for seed in 0..20 {
            let disk = disk(seed, Faults::default());
            disk.crash_after(n);
            assert_eq!(script(&disk).unwrap_err().to_string(), "crashed");
            assert!(disk.is_crashed());
            assert!(disk.exists(&path("f")).is_err(), "no process exists to ask");
            assert!(disk.list(dir()).is_err());
            disk.restart();
            assert!(!disk.is_crashed());
            let there = contents(&disk, "f").or_else(|| contents(&disk, "g"));
            if n > 4 {
                assert_eq!(there.unwrap(), b"abc", "was durable after four I/Os");
            }
            if n < 5 {
                assert_eq!(contents(&disk, "g"), None);
            }
        }
    }
}

#[test]
fn the_nth_io_and_the_nth_read_fail() {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    let at = disk.io_count() + 2;
    disk.set_faults(Faults { error_at_io: Some(at), ..Faults::default() });
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!(file.set_len(9).unwrap_err().raw_os_error(), Some(5));
    file.write_all_at(b"y", 0).unwrap();
    let at = disk.read_count() + 1;
    disk.set_faults(Faults { error_at_read: Some(at), ..Faults::default() });
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(file.read_at(&mut [0], 0).unwrap(), 1);
}

#[test]
fn reads_fail_and_nothing_else() {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    disk.set_faults(Faults { read_error_per_million: 1_000_000, ..Faults::default() });
    assert_eq!(file.read_at(&mut [0; 3], 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(disk.list(dir()).unwrap_err().raw_os_error(), Some(5));
    file.write_all_at(b"xyz", 0).unwrap();
    file.sync_data().unwrap();
    disk.set_faults(Faults::default());
    assert_eq!(contents(&disk, "f").unwrap(), b"xyz");
}

#[test]
fn a_failed_sync_drops_what_was_dirty_and_the_next_one_lies() {
    let mut dropped = 0;
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        let file = durable_file(&disk, "f", b"abc");
        file.write_all_at(b"xyz", 0).unwrap();
        disk.set_faults(Faults { sync_error_per_million: 1_000_000, ..Faults::default() });
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
        disk.set_faults(Faults::default());
        file.sync_data().unwrap();
        disk.crash();
        match contents(&disk, "f").unwrap().as_slice() {
            b"abc" => dropped += 1,
            b"xyz" => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((20..80).contains(&dropped), "{dropped}");
}

#[test]
fn a_full_disk_refuses_and_takes_again_when_there_is_room() {
    let disk = disk(1, Faults { capacity_bytes: Some(10_000), ..Faults::default() });
    let file = durable_file(&disk, "f", &[1; 6000]);
    let other = disk.create(&path("g")).unwrap();
    other.allocate(0, 3000).unwrap();
    assert_eq!(disk.available_bytes(dir()).unwrap(), 1000);
    let error = file.write_all_at(&[2; 2000], 6000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    other.write_all_at(&[3; 3000], 0).unwrap();
    assert_eq!(other.allocate(3000, 5000).unwrap_err().kind(), ErrorKind::StorageFull);
    file.set_len(100).unwrap();
    other.write_all_at(&[3; 5000], 3000).unwrap();
    drop((file, other));
    disk.remove(&path("g")).unwrap();
    disk.sync_dir(dir()).unwrap();
    assert_eq!(disk.used_bytes(), 100);
}

#[test]
fn a_device_breaks_as_a_whole() {
    let disk = disk(1, Faults::default());
    disk.create_dir_all(Path::new("/e")).unwrap();
    let file = durable_file(&disk, "f", b"abc");
    disk.break_dir(dir());
    assert!(file.write_all_at(b"x", 0).is_err() && file.sync_data().is_err());
    assert!(file.read_at(&mut [0], 0).is_err() && disk.create(&path("g")).is_err());
    disk.create(Path::new("/e/f")).unwrap();
    disk.mend_dir(dir());
    file.write_all_at(b"x", 0).unwrap();
}

#[test]
fn bits_flip_at_rest() {
    let disk = disk(1, Faults::default());
    durable_file(&disk, "f", b"abc");
    assert!(disk.flip_bit(&path("f"), 1, 0));
    assert_eq!(contents(&disk, "f").unwrap(), b"acc");
    disk.crash();
    assert_eq!(contents(&disk, "f").unwrap(), b"acc");
    assert!(!disk.flip_bit(&path("f"), 3, 0));
}

#[test]
fn a_misdirected_write_is_seen_only_after_the_cache_is_gone() {
    let mut strayed = 0;
    for seed in 0..50 {
        let disk = disk(seed, Faults::default());
        let file = durable_file(&disk, "f", &[1; 4096]);
        disk.set_faults(Faults { misdirect_per_million: 1_000_000, ..Faults::default() });
        file.write_all_at(&[2; 512], 1024).unwrap();
        file.sync_data().unwrap();
        assert_eq!(contents(&disk, "f").unwrap()[1024..1536], [2; 512]);
        disk.crash();
        let bytes = contents(&disk, "f").unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == 2).count(), 512);
        strayed += usize::from(bytes[1024] == 1);
    }
    assert!(strayed > 25);
}

#[test]
fn time_passes_when_told() {
    let clock = SimClock::new(1000);
    let same = clock.clone();
    clock.advance_ms(5);
    assert_eq!((same.now_ms(), same.monotonic_us()), (1005, 5000));
    clock.set_wall_ms(3);
    assert_eq!((same.now_ms(), same.monotonic_us()), (3, 5000));
}

#[test]
fn entropy_repeats_by_seed() {
    let bytes = |seed| {
        let mut bytes = [0; 13];
        SimEntropy::new(seed).fill(&mut bytes);
        bytes
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn a_crash_comes_before_or_after_the_call_that_it_is_planned_for() {
    for (is_after, found) in [(false, None), (true, Some(b"whole".to_vec()))] {
        let disk = disk(1, Faults::default());
        let file = disk.create(&path("a")).unwrap();
        disk.sync_dir(dir()).unwrap();
        file.write_all_at(b"whole", 0).unwrap();
        disk.crash_at(1, is_after);
        assert!(file.sync_data().is_err() && disk.is_crashed());
        disk.restart();
        let left = contents(&disk, "a").filter(|bytes| !bytes.is_empty());
        // Unsynced data may be there nevertheless.
        assert!(left == found || !is_after, "after: {is_after}, left: {left:?}");
    }
}

#[test]
fn a_fork_goes_its_own_way_and_crashes_as_the_original_would() {
    let disk = disk(7, Faults::default());
    let file = disk.create(&path("a")).unwrap();
    (0..20).for_each(|at| file.write_all_at(&[7; 700], at * 700).unwrap());
    drop(file);
    let fork = disk.fork();
    disk.crash();
    fork.crash();
    assert_eq!(contents(&disk, "a"), contents(&fork, "a"));
    durable_file(&fork, "b", b"only here");
    assert_eq!((contents(&disk, "b"), contents(&fork, "b")), (None, Some(b"only here".to_vec())));
}

#[test]
fn the_calls_that_change_the_disk_can_be_read_again() {
    let disk = disk(1, Faults::default());
    disk.keep_ios();
    durable_file(&disk, "a", b"x");
    let names: Vec<String> = disk
        .take_ios()
        .iter()
        .map(|io| io.split(' ').nth(1).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(names, ["create", "write", "sync_data", "sync_dir"]);
    assert!(disk.take_ios().is_empty());
}

#[test]
fn a_lack_of_descriptors_keeps_a_call_from_opening_and_changes_nothing() {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    disk.set_faults(Faults { lack_per_million: 1_000_000, ..Faults::default() });
    let mut numbers = Vec::new();
    for _ in 0..20 {
        let errors = [
            disk.create(&path("g")).err(),
            disk.open(&path("f"), Access::Read).err(),
            disk.list(dir()).err(),
            disk.sync_dir(dir()).err(),
            disk.lock(&path("l")).err(),
        ];
        for error in errors.map(Option::unwrap) {
            assert!(env::lacks_descriptor(&error), "{error}");
            numbers.extend(env::system_number(&error));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, [12, 23, 24]);
    file.write_all_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    disk.rename(&path("f"), &path("h")).unwrap();
    disk.set_faults(Faults::default());
    assert_eq!(contents(&disk, "h").unwrap(), b"xbc");
    assert!(!disk.exists(&path("g")).unwrap());
}

/// The effect of changing a file that was linked between `before` and `after`.
fn trespass(
    before: impl Fn(&SimDisk, &dyn File),
    after: impl Fn(&SimDisk, &dyn File),
) -> Option<String> {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    before(&disk, &*file);
    assert!(!disk.has_other_names(&path("f")).unwrap());
    assert!(disk.link(&path("f"), Path::new("/backup/f")));
    assert!(disk.has_other_names(&path("f")).unwrap());
    after(&disk, &*file);
    disk.take_trespass()
}

#[test]
fn a_file_with_another_name_is_only_appended_to_and_only_through_open_handles() {
    let nothing = |_: &SimDisk, _: &dyn File| {};
    let open = |disk: &SimDisk| disk.open(&path("f"), Access::ReadWrite).unwrap();
    let is_wrong = |after: &dyn Fn(&SimDisk, &dyn File)| trespass(nothing, after).is_some();
    assert!(is_wrong(&|_, file| file.write_all_at(b"x", 2).unwrap()));
    assert!(is_wrong(&|_, file| file.set_len(2).unwrap()));
    assert!(!is_wrong(&|_, file| file.write_all_at(b"x", 3).unwrap()));
    assert!(!is_wrong(&|_, file| file.set_len(3).unwrap()));
    assert!(is_wrong(&|disk, _| open(disk).write_all_at(b"x", 3).unwrap()));
    assert!(is_wrong(&|disk, _| open(disk).set_len(3).unwrap()));
    assert!(!is_wrong(&|disk, _| drop(open(disk))));
    // A holder of the copy may not change it either.
    assert!(is_wrong(&|disk, _| {
        let copy = disk.open(Path::new("/backup/f"), Access::ReadWrite).unwrap();
        copy.write_all_at(b"x", 3).unwrap();
    }));
    // The program's last name may go: the file is no longer the program's then.
    assert!(is_wrong(&|disk, file| {
        disk.remove(&path("f")).unwrap();
        assert!(file.has_name().unwrap());
        file.set_len(0).unwrap();
    }));
    // Once the other name is gone, the file is the program's alone.
    assert!(!is_wrong(&|disk, file| {
        disk.unlink(Path::new("/backup/f"));
        assert!(!disk.has_other_names(&path("f")).unwrap());
        file.set_len(0).unwrap();
        disk.remove(&path("f")).unwrap();
        assert!(!file.has_name().unwrap());
    }));
    // No code relies on the remains of a failed write.
    let cut = |disk: &SimDisk, file: &dyn File| {
        let capacity_bytes = Some(disk.used_bytes() + 2);
        disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        file.write_all_at(b"defg", 3).unwrap_err();
        disk.set_faults(Faults::default());
        assert_eq!(file.len().unwrap(), 5);
    };
    assert_eq!(trespass(cut, |_, file| file.write_all_at(b"defg", 3).unwrap()), None);
}

#[test]
#[should_panic(expected = "has another name")]
fn a_trespass_that_no_test_asks_for_is_a_panic() {
    let disk = disk(1, Faults::default());
    let file = durable_file(&disk, "f", b"abc");
    disk.link(&path("f"), Path::new("/backup/f"));
    file.set_len(0).unwrap();
}
