//! A restore that was cut off goes on, also when the archive is another one by then.

use std::path::Path;
use std::sync::{Arc, Mutex};

use archive::{ArchiveOptions, Archiver, Desk, Point};
use base::Lsn;
use env::Disk;
use env_sim::sweep::crash_everywhere;
use env_sim::{Faults, SimDisk};

use crate::fencing::copy_of;
use crate::tidy::{KEEP, Old};
use crate::world::{
    Coding, Database, INTO, Mood, Moody, World, archive_options, bytes_of, contents_of, keyed,
    log_options, restore_into, restore_keeping, target,
};

/// Cut off at every I/O; thinned out, once or twice, before it is run again. What whole blocks had and a leap has not must not come together.
#[test]
fn an_archive_may_be_thinned_out_before_a_restore_goes_on() {
    let (mut resumed, mut anew) = (0, 0);
    for seed in 0..6 {
        let mut old = Old::new(seed, Coding::of_seed(seed));
        old.hours(30);
        let keys = old.world.mood.lock().unwrap().coding.keys();
        if seed % 2 == 1 {
            old.tidy("1h:all 60d:hour");
        }
        let (before, after) = (old.world.target_disk.fork(), old.world.target_disk.fork());
        old.tidy_on(&after, if seed % 3 == 0 { KEEP } else { "1h:all 2h:hour 60d:day" }).unwrap();
        let (before, after) = (keyed(&before, keys.clone()), keyed(&after, keys));
        // States that both have.
        let picture = crate::world::picture(&after);
        let kept = (1..=old.world.database.last()).filter(|lsn| picture.chain(Lsn(*lsn)).is_some());
        let kept: Vec<u64> = kept.collect();
        for lsn in [kept[kept.len() / 2], kept[kept.len() - 1]] {
            crash_everywhere(
                &SimDisk::new(3, Faults::default()),
                |disk| drop(restore_into(disk, &before, Point::Lsn(lsn))),
                |disk, ()| {
                    if !redo::is_there(disk, Path::new(INTO)) {
                        let done = restore_into(disk, &after, Point::Lsn(lsn)).unwrap();
                        *(if done.is_resumed { &mut resumed } else { &mut anew }) += 1;
                    }
                    let found = contents_of(disk);
                    assert_eq!(
                        (found.0, Some(&found.1)),
                        (lsn, old.world.states.get(&lsn)),
                        "{seed}"
                    );
                },
            );
        }
    }
    assert!(resumed > 20 && anew > 20, "{resumed} went on, {anew} began anew");
}

/// A database with some common blocks that has gone on by itself, and has an archive of its own, in objects of about so many bytes.
fn clone_of(common: &World, name: &str, object_bytes: usize, late_ms: i64) -> World {
    let mut world = World::new(3);
    world.disk = copy_of(common);
    world.database = Database::open(&world.disk, &world.clock, log_options(3), 3).unwrap();
    let options = ArchiveOptions { object_bytes, base_percentage: 0, ..archive_options() };
    world.desk = Arc::new(Desk::new(options));
    let (reader, target) = (world.database.log.reader(), Box::new(world.target()));
    let (clock, desk) = (world.clock.clone(), Arc::clone(&world.desk));
    world.archiver = Archiver::new(reader, target, clock, desk, bytes_of(3));
    world.settle();
    world.clock.advance_us(1_000_000_000 - env::Clock::monotonic_us(&*world.clock));
    world.clock.jump_ms(late_ms);
    for number in 0..40 {
        world.database.set(format!("{number}").as_bytes(), format!("of {name}").as_bytes());
        world.seal();
        world.database.flush();
        world.clock.advance_us(200_000);
        (0..4).for_each(|_| world.archive());
    }
    world.settle();
    world
}

/// What two clones of a stopped database put into archives of their own has the same names: a copy of the last block that they have in common, and
/// behind it blocks of the same numbers, in objects that begin and end elsewhere.
#[test]
fn a_restore_does_not_go_on_with_the_archive_of_another_clone() {
    let mut common = World::new(3);
    for key in ["x", "y"] {
        common.database.set(key.as_bytes(), b"of both");
        common.seal();
    }
    common.database.flush();
    for late_ms in [0, 60_000] {
        let one = clone_of(&common, "one", 900, 0);
        let other = clone_of(&common, "the other", 2000, late_ms);
        let last = one.database.last();
        assert_eq!(last, other.database.last());
        let (mut anew, mut refused) = (0, 0);
        crash_everywhere(
            &SimDisk::new(3, Faults::default()),
            |disk| drop(restore_into(disk, &one.target(), Point::Lsn(last))),
            |disk, ()| {
                if redo::is_there(disk, Path::new(INTO)) {
                    return;
                }
                match restore_into(disk, &other.target(), Point::Lsn(last)) {
                    Ok(done) => {
                        anew += usize::from(!done.is_resumed);
                        let found = contents_of(disk).1;
                        // All of it may have been copied by then.
                        let is_one = late_ms == 0 && Some(&found) == one.states.get(&last);
                        assert!(is_one || Some(&found) == other.states.get(&last), "{found:?}");
                    }
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.contains("does not go on where"), "{error}");
                        refused += 1;
                    }
                }
            },
        );
        // Where also their times are the same it is seen at the block at which it would have gone on.
        assert_eq!(refused > 0, late_ms == 0, "{refused} refused, {anew} begun anew");
        assert!(anew > 10, "{anew}");
    }
}

/// One whose copy has several objects.
fn in_some_objects() -> World {
    let mut world = World::new(3);
    for number in 0..120 {
        world.database.set(format!("key-{number}").as_bytes(), &[b'x'; 60]);
        if number % 10 == 9 {
            world.seal();
            world.database.flush();
        }
    }
    world.settle();
    world
}

/// What has gone while it was read is looked for again by the same command: that is nothing that had been cut off, and what was read counts once.
#[test]
fn a_restore_that_reads_on_elsewhere_has_not_been_cut_off() {
    let mut world = in_some_objects();
    for _ in 0..4 {
        world.write();
        world.settle();
    }
    let whole = restore_into(&SimDisk::new(3, Faults::default()), &world.target(), Point::Latest);
    let bytes = whole.unwrap().bytes;
    let mood = Arc::new(Mutex::new(Mood { is_lost_gone: true, ..Mood::default() }));
    let inner = target(&world.target_disk);
    let moody = Moody { inner, mood: Arc::clone(&mood) };
    for opens in 1.. {
        mood.lock().unwrap().opens_until_lost = opens;
        let disk = SimDisk::new(3, Faults::default());
        let restored = restore_into(&disk, &moody, Point::Latest).unwrap();
        assert_eq!((restored.is_resumed, restored.bytes), (false, bytes), "{opens}");
        assert_eq!(Some(&contents_of(&disk).1), world.states.get(&world.database.last()));
        if mood.lock().unwrap().opens_until_lost > 0 {
            assert!(opens > 10, "{opens}");
            break;
        }
    }
}

/// What was noted before is of other images than those that take their names.
#[test]
fn a_restore_that_is_begun_anew_forgets_how_far_it_was() {
    let world = in_some_objects();
    let (target, last) = (world.target(), world.database.last());
    let begun = (1..).find_map(|crash_at| {
        let disk = SimDisk::new(3, Faults::default());
        disk.crash_after(crash_at);
        restore_keeping(&disk, &target, Point::Lsn(last), 3000).unwrap_err();
        disk.restart();
        let is_kept = disk.exists(&Path::new(INTO).join("restore-tmp/reached")).unwrap();
        is_kept.then_some(disk)
    });
    let begun = begun.unwrap();
    let images = begun.list(&Path::new(INTO).join("redo")).unwrap();
    let is_image = |name: &&str| redo::segment::parse_file_name(name).is_some();
    let image = images.iter().filter_map(|name| name.to_str()).find(is_image).unwrap();
    begun.flip_bit(&Path::new(INTO).join("redo").join(image), 200, 3);
    // With others of the same names, which have less.
    let mut resumed = 0;
    crash_everywhere(
        &begun,
        |disk| drop(restore_keeping(disk, &target, Point::Lsn(last), 1)),
        |disk, ()| {
            if !redo::is_there(disk, Path::new(INTO)) {
                let done = restore_into(disk, &target, Point::Lsn(last)).unwrap();
                resumed += usize::from(done.is_resumed);
            }
            assert_eq!(Some(&contents_of(disk).1), world.states.get(&last));
        },
    );
    assert!(resumed > 10, "{resumed}");
}
