//! Where only what is young is kept: a tidier makes a copy of what leads to it, and only when that is complete and was read anything goes.

use std::path::Path;
use std::sync::Arc;

use archive::{
    ArchiveOptions, Error, Fill, Folder, Keyed, Name, Picture, Target, Tidier, TidyStep,
};
use base::Lsn;
use env::{Clock as _, Disk as _};
use env_sim::SimDisk;
use env_sim::sweep::crash_everywhere;

use crate::tidy::{HOUR_MS, Old, bytes, last_of};
use crate::world::{Coding, Moody, TARGET, archive_options, keyed, picture, restored, target};

const HOUR: &str = "1h:all";

/// From here on copies are numbered by tidiers.
const OF_TIDIERS: u32 = 1 << 31;

/// An archive of a server that makes one copy for as long as it runs.
fn late(seed: u64, coding: Coding) -> Old {
    let mut old = Old::new(seed, coding);
    set_late(&old);
    old.hours(2);
    old
}

fn set_late(old: &Old) {
    let options = ArchiveOptions { base_percentage: 0, ..archive_options() };
    old.world.desk.set_options(options);
}

fn list(old: &Old, folder: Folder) -> Vec<Name> {
    list_on(old, &old.world.target_disk, folder)
}

fn list_on(old: &Old, disk: &SimDisk, folder: Folder) -> Vec<Name> {
    let target = keyed(disk, old.world.mood.lock().unwrap().coding.keys());
    let database = archive::database_of(&target, None).unwrap();
    target.list(database, folder).unwrap()
}

/// How many objects of copies by tidiers there are that are not complete.
fn left_over(old: &Old, disk: &SimDisk) -> usize {
    let picture = Picture::read(
        &keyed(disk, old.world.mood.lock().unwrap().coding.keys()),
        archive::database_of(&target(disk), None).unwrap(),
    );
    let picture = picture.unwrap();
    let parts = list_on(old, disk, Folder::Base).into_iter();
    let is_left = |name: &Name| matches!(name, Name::Base { fill, .. } if fill.number >= OF_TIDIERS && !picture.is_whole(fill));
    parts.filter(is_left).count()
}

/// The blocks that are no older than so much, and from which time on there is one.
fn young(old: &Old, age_ms: i64) -> Vec<Lsn> {
    let now_ms = *old.times_ms.values().next_back().unwrap();
    let is_young = |(_, time_ms): &(&u64, &i64)| **time_ms >= now_ms - age_ms;
    old.times_ms.iter().filter(is_young).map(|(lsn, _)| Lsn(*lsn)).collect()
}

fn check_young(old: &Old, disk: &SimDisk, what: &str) {
    let keys = old.world.mood.lock().unwrap().coding.keys();
    let (target, picture) = (keyed(disk, keys.clone()), picture(&keyed(disk, keys)));
    for lsn in young(old, HOUR_MS) {
        assert!(picture.chain(lsn).is_some(), "{what}: {lsn}: {:?}", picture.ranges);
    }
    let first = picture.range_of(*young(old, HOUR_MS).last().unwrap()).unwrap().first;
    let found = restored(&target, first.0).unwrap();
    assert_eq!(Some(&found), old.world.states.get(&first.0), "{what}: {first}");
}

/// A server that makes no copy for long: what leads to what is young is a copy, or a copy and a log that is no longer.
#[test]
fn what_leads_to_what_is_young_is_bounded() {
    for coding in Coding::ALL {
        let mut old = late(12, coding);
        let (mut copies, mut leaps, mut kept) = (0, 0, 0);
        for round in 0..40 {
            old.hours(1);
            let disk = old.world.target_disk.fork();
            let keys = old.world.mood.lock().unwrap().coding.keys();
            let mut planning = old.tidier(HOUR, 0, 8);
            let planned = planning.plan(&keyed(&disk, keys), &*old.world.clock).unwrap().clone();
            let tidied = old.tidy(HOUR);
            assert_eq!((planned.copies, planned.leaps), (tidied.copies, tidied.leaps));
            assert_eq!(planned.objects_removed, tidied.objects_removed, "{round}");
            assert_eq!((&planned.kept, planned.states_after), (&tidied.kept, tidied.states_after));
            (copies, leaps) = (copies + tidied.copies, leaps + tidied.leaps);
            // Again, nothing is to be done.
            let again = old.tidy(HOUR);
            assert_eq!((again.copies, again.leaps, again.objects_removed), (0, 0, 0), "{round}");
            assert_eq!(list(&old, Folder::Whole).len(), 1, "{round}");
            if tidied.copies > 0 {
                let first = old.picture().ranges[0].first;
                assert_eq!(first, tidied.last_old, "{round}: nothing is before it");
                let time_ms = tidied.kept[0].time_ms;
                assert_eq!(time_ms, old.times_ms.get(&first.0).copied(), "{round}");
                let (target, whole) = (old.world.target(), list(&old, Folder::Whole)[0]);
                let database = archive::database_of(&target, None).unwrap();
                let whole = archive::ObjectReader::open(&target, database, whole).unwrap();
                assert_eq!(Some(whole.header().time_max_ms), time_ms, "{round}");
                let is_before = |name: &Name| last_of(name) <= Some(first);
                assert_eq!(bytes(&old, &[Folder::Log], is_before), 0, "{round}");
            }
            let young = young(&old, HOUR_MS)[0];
            let copy = bytes(&old, &[Folder::Base, Folder::Whole], |_| true);
            let log = bytes(&old, &[Folder::Log], |name| last_of(name) < Some(young));
            // And the objects that both ends are in.
            assert!(coding != Coding::Plain || log <= 2 * copy, "{round}: {log} behind {copy}");
            kept += u64::from(log > 0);
            if round % 4 == 0 {
                old.check();
            }
        }
        assert!(copies > 2 && leaps == 0 && kept > 2, "{coding:?}: {copies}, {leaps}, {kept}");
        let target = old.world.target();
        let database = archive::database_of(&target, None).unwrap();
        let verified = archive::verify(&target, database, &mut |_, _| {}).unwrap();
        assert!(verified.errors.is_empty() && verified.locked.is_empty(), "{verified:?}");
        // The next server goes on from what is there.
        old.world.restart(false);
        set_late(&old);
        old.hours(3);
        assert_eq!(old.world.desk.figures().gaps, 0);
        old.tidy(HOUR);
        old.check();
    }
}

/// Without memory for a copy a leap is made, as older programs have; a copy takes the place of that, too.
#[test]
fn a_leap_of_before_becomes_part_of_a_copy() {
    let mut old = late(14, Coding::Compressed);
    let (mut leaps, mut copies) = (0, 0);
    for round in 0..16 {
        old.hours(1);
        let memory = if round < 8 { 200 } else { 64 << 20 };
        let tidier = old.tidier_with(HOUR, (0, memory), 100 + round);
        let tidied = old.run_on(&old.world.target_disk, tidier).unwrap();
        assert!(round >= 8 || tidied.copies == 0, "{round}");
        assert!(round < 8 || tidied.leaps == 0, "{round}");
        (leaps, copies) = (leaps + tidied.leaps, copies + tidied.copies);
        assert_eq!(left_over(&old, &old.world.target_disk), 0, "{round}");
        assert_eq!(list(&old, Folder::Thin).is_empty(), leaps == 0 || copies > 0, "{round}");
        check_young(&old, &old.world.target_disk, "leaps");
    }
    assert!(leaps > 1 && copies > 0, "{leaps} leaps, {copies} copies");
    old.check();
}

/// What a backup names keeps the copy before it, and what leads from that to it.
#[test]
fn what_a_backup_names_before_such_a_copy_stays() {
    let mut old = late(15, Coding::Plain);
    old.hours(3);
    let lsn = Lsn(young(&old, 2 * HOUR_MS)[0].0);
    let named = archive::NamedBlock { id: 1, name: "here".to_owned(), lsn };
    old.world.desk.tell_backups(vec![named]);
    let mut copies = 0;
    for _ in 0..12 {
        old.hours(1);
        copies += old.tidy(HOUR).copies;
        let found = restored(&old.world.target(), lsn.0).unwrap();
        assert_eq!(Some(&found), old.world.states.get(&lsn.0));
    }
    assert!(copies > 0);
    old.check();
    old.world.desk.tell_backups(Vec::new());
    old.hours(3);
    (0..2).for_each(|_| _ = old.tidy(HOUR));
    assert!(old.picture().chain(lsn).is_none());
    assert_eq!(list(&old, Folder::Whole).len(), 1);
}

/// An archive that a tidier makes a copy of, next.
fn before_a_copy(seed: u64) -> Old {
    let mut old = late(seed, Coding::Plain);
    for _ in 0..20 {
        old.hours(1);
        if old.tidy_on(&old.world.target_disk.fork(), HOUR).unwrap().copies > 0 {
            return old;
        }
        old.tidy(HOUR);
    }
    panic!("there is no copy");
}

/// The tidier's machine, or the target's, loses power at every single I/O.
#[test]
fn a_copy_may_be_cut_off_at_every_single_io() {
    let old = before_a_copy(16);
    let (mut cut, mut whole, mut left) = (0, 0, 0);
    let ios = crash_everywhere(
        &old.world.target_disk.fork(),
        |disk| old.tidy_on(disk, HOUR).is_ok(),
        |disk, is_done| {
            check_young(&old, disk, "cut off");
            let is_there = picture(&target(disk)).ranges[0].fills[0].0.number >= OF_TIDIERS;
            (cut, whole) = (cut + usize::from(!is_done), whole + usize::from(is_there));
            left += usize::from(left_over(&old, disk) > 0);
            if cut % 5 == 0 {
                old.check_on(disk);
            }
            if !is_done {
                // The next one does what is left, and clears up.
                old.tidy_on(disk, HOUR).unwrap();
                check_young(&old, disk, "gone on with");
                assert_eq!(left_over(&old, disk), 0);
                let wholes = list_on(&old, disk, Folder::Whole);
                assert_eq!(wholes.len(), 1, "{wholes:?}");
            }
        },
    );
    assert!(ios > 25 && left > 5 && whole > 0 && cut > whole, "{ios}, {left}, {whole} of {cut}");
}

/// Does steps until there is an object of the copy that it makes.
fn until_begun(old: &Old, tidier: &mut Tidier) -> Name {
    let target = old.world.target();
    loop {
        assert_eq!(tidier.step(&target, &*old.world.clock).unwrap(), TidyStep::Worked);
        let parts = list(old, Folder::Base).into_iter();
        let is_its = |name: &Name| matches!(name, Name::Base { fill, .. } if fill.number >= OF_TIDIERS && fill.lsn > old.picture().ranges[0].first);
        if let Some(part) = parts.into_iter().find(is_its) {
            return part;
        }
    }
}

fn finish(old: &Old, tidier: &mut Tidier) -> archive::Result<()> {
    loop {
        match tidier.step(&old.world.target(), &*old.world.clock)? {
            TidyStep::Worked => {}
            TidyStep::Waiting(_) => old.world.clock.advance_us(10_000_000),
            TidyStep::Finished => return Ok(()),
        }
    }
}

/// A server that claims the archive meanwhile removes nothing of it, and what is left of one that never ends goes.
#[test]
fn a_copy_is_made_to_its_end_next_to_a_server_that_starts() {
    let mut old = before_a_copy(17);
    let mut tidier = old.tidier(HOUR, 60_000_000, 3);
    let part = until_begun(&old, &mut tidier);
    old.world.restart(false);
    set_late(&old);
    old.world.settle();
    assert!(list(&old, Folder::Base).contains(&part));
    assert_eq!(left_over(&old, &old.world.target_disk), 1);
    finish(&old, &mut tidier).unwrap();
    assert_eq!((tidier.tidied().copies, list(&old, Folder::Whole).len()), (1, 1));
    old.check();
    check_young(&old, &old.world.target_disk, "next to a server");
}

/// What attempts to put something have left goes with the next one of those that put such things: the others may be putting theirs.
#[test]
fn what_is_not_complete_goes_with_the_next_one_that_puts_such_things() {
    let mut old = before_a_copy(21);
    let fill = |number| Fill { lsn: Lsn(5), writer: 1, number };
    let of_writers = [
        Name::Log { first: Lsn(1), last: Lsn(5), writer: 1 },
        Name::Whole { fill: fill(1), objects: 1 },
    ];
    let of_tidiers = [
        Name::Base { fill: fill(OF_TIDIERS + 1), index: 0 },
        Name::Whole { fill: fill(OF_TIDIERS + 1), objects: 1 },
        Name::Thin { first: Lsn(2), last: Lsn(5), from: Lsn(1), to: Lsn(5), tidier: 1 },
        Name::Tidier { number: 1 },
    ];
    let database = archive::database_of(&old.world.target(), None).unwrap().to_string();
    let disk = old.world.target_disk.clone();
    let path = |name: &Name| Path::new(TARGET).join(&database).join(format!("{name}.tmp"));
    let leave = || {
        for name in of_writers.iter().chain(&of_tidiers) {
            let path = path(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            // What was not removed is there.
            let created = disk.create(&path);
            assert!(created.is_ok() || disk.exists(&path).unwrap());
        }
    };
    let left = |names: &[Name]| {
        let left = names.iter().filter(|name| disk.exists(&path(name)).unwrap());
        left.count()
    };
    leave();
    old.world.restart(false);
    set_late(&old);
    old.world.settle();
    assert_eq!((left(&of_writers), left(&of_tidiers)), (0, of_tidiers.len()));
    leave();
    assert!(old.tidy(HOUR).copies > 0);
    assert_eq!((left(&of_writers), left(&of_tidiers)), (of_writers.len(), 0));
}

/// Does steps until it waits, or removes next.
fn until(old: &Old, tidier: &mut Tidier, is_removing: bool) {
    let target = old.world.target();
    loop {
        match tidier.step(&target, &*old.world.clock).unwrap() {
            TidyStep::Waiting(_) if !is_removing => return,
            TidyStep::Waiting(until_us) => {
                let now_us = old.world.clock.monotonic_us();
                old.world.clock.advance_us(until_us - now_us);
                // It decides.
                tidier.step(&target, &*old.world.clock).unwrap();
                return;
            }
            TidyStep::Worked => {}
            TidyStep::Finished => panic!("nothing is removed"),
        }
    }
}

/// A server of an older program takes what it has seen of a copy that was not complete for left over, and may be about to remove it.
#[test]
fn a_server_that_starts_has_a_tidier_wait_again() {
    for is_removing in [false, true] {
        let mut old = before_a_copy(22);
        let mut tidier = old.tidier(HOUR, 60_000_000, 3);
        until(&old, &mut tidier, is_removing);
        old.world.restart(false);
        set_late(&old);
        old.world.settle();
        old.world.clock.advance_us(60_000_000);
        until(&old, &mut tidier, false);
        assert_eq!(tidier.tidied().objects_removed, 0, "it begins to wait anew");
        finish(&old, &mut tidier).unwrap();
        assert!(tidier.tidied().objects_removed > 0 && tidier.tidied().copies == 1);
        check_young(&old, &old.world.target_disk, "waits again");
        old.check();
    }
}

/// It has removed some of it: what that would have taken the place of is there.
#[test]
fn nothing_goes_for_a_copy_that_was_taken_away() {
    let old = before_a_copy(23);
    let mut tidier = old.tidier(HOUR, 60_000_000, 3);
    let part = until_begun(&old, &mut tidier);
    until(&old, &mut tidier, true);
    let database = archive::database_of(&old.world.target(), None).unwrap();
    old.world.target().remove(database, &part).unwrap();
    until(&old, &mut tidier, false);
    assert_eq!(tidier.tidied().objects_removed, 0);
    // A leap takes the place of that copy.
    finish(&old, &mut tidier).unwrap();
    assert!(tidier.tidied().leaps == 1 && tidier.tidied().objects_removed > 0);
    check_young(&old, &old.world.target_disk, "taken away");
    old.check();
}

/// Two of them make the same copy, each its own; the one before ends, and what it has put goes.
#[test]
fn two_tidiers_do_not_make_one_copy() {
    let old = before_a_copy(18);
    let mut first = old.tidier(HOUR, 60_000_000, 3);
    let part = until_begun(&old, &mut first);
    let mut second = old.tidier(HOUR, 60_000_000, 4);
    // It has claimed, and waits for the first one.
    while !second.is_fenced() {
        second.step(&old.world.target(), &*old.world.clock).unwrap();
    }
    let error = finish(&old, &mut first).unwrap_err();
    assert!(matches!(error, Error::OtherTidier { .. }), "{error}");
    finish(&old, &mut second).unwrap();
    assert!(second.tidied().copies == 1 && !list(&old, Folder::Base).contains(&part));
    assert_eq!(left_over(&old, &old.world.target_disk), 0);
    old.check();
    check_young(&old, &old.world.target_disk, "two");
}

/// The one before has put its last object when the next one removes the others.
#[test]
fn what_a_tidier_that_has_ended_puts_late_is_no_copy() {
    let old = before_a_copy(24);
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let mut first = old.tidier(HOUR, 60_000_000, 3);
    let is_its =
        |name: &Name| matches!(name, Name::Whole { fill, .. } if fill.number >= OF_TIDIERS);
    let before = list(&old, Folder::Whole);
    let late = loop {
        first.step(&target, &*old.world.clock).unwrap();
        let wholes = list(&old, Folder::Whole).into_iter();
        if let Some(whole) = wholes.filter(is_its).find(|name| !before.contains(name)) {
            break whole;
        }
    };
    let object = target.open(database, &late).unwrap();
    let mut bytes = vec![0; usize::try_from(object.bytes().unwrap()).unwrap()];
    object.read_at(&mut bytes, 0).unwrap();
    target.remove(database, &late).unwrap();
    let mut second = old.tidier(HOUR, 60_000_000, 4);
    while !second.is_fenced() {
        second.step(&target, &*old.world.clock).unwrap();
    }
    old.world.clock.advance_us(400_000_000);
    until(&old, &mut second, true);
    target.put_new(database, &late, &bytes).unwrap();
    check_young(&old, &old.world.target_disk, "late");
    finish(&old, &mut second).unwrap();
    assert_eq!(second.tidied().copies, 1);
    assert_eq!(left_over(&old, &old.world.target_disk), 0);
    old.check();
    check_young(&old, &old.world.target_disk, "late, and gone");
    assert!(finish(&old, &mut first).is_err());
}

/// Nothing goes for a copy that cannot be read, and another one is made.
#[test]
fn a_copy_that_was_damaged_takes_the_place_of_nothing() {
    let old = before_a_copy(19);
    let before = old.picture();
    let mut tidier = old.tidier(HOUR, 0, 3);
    let part = until_begun(&old, &mut tidier);
    old.world.damage(&part, false);
    finish(&old, &mut tidier).unwrap();
    assert_eq!((tidier.tidied().copies, tidier.tidied().objects_removed), (0, 0));
    for range in &before.ranges {
        assert!(old.picture().chain(range.first).is_some(), "{range:?}");
    }
    old.check();
    let tidied = old.tidy(HOUR);
    assert!(tidied.copies == 1 && tidied.objects_removed > 0, "{tidied:?}");
    old.check();
    check_young(&old, &old.world.target_disk, "damaged");
}

/// Something that the copy is made of is damaged.
#[test]
fn what_cannot_be_read_is_no_part_of_a_copy() {
    let old = before_a_copy(20);
    let is_old = |name: &&Name| last_of(name) < Some(young(&old, HOUR_MS)[0]);
    let logs = list(&old, Folder::Log);
    let logs: Vec<&Name> = logs.iter().filter(is_old).collect();
    let damaged = *logs[logs.len() / 2];
    old.world.damage(&damaged, false);
    let tidied = old.tidy(HOUR);
    assert_eq!((tidied.copies, tidied.damaged.len()), (0, 1), "{tidied:?}");
    assert!(list(&old, Folder::Log).contains(&damaged));
    assert_eq!(left_over(&old, &old.world.target_disk), 0);
}

/// Tidiers come and end anywhere, of different minds, next to a server that writes, is killed and claims anew; answers are lost.
#[test]
fn several_tidiers_and_a_writer_keep_what_is_young() {
    let (mut finished, mut fenced, mut checked, mut copies, mut kept) = (0, 0, 0, 0, 0);
    for seed in 50..56 {
        let mut old = late(seed, Coding::of_seed(seed));
        let kept_by = [HOUR, "3h:all"];
        let (mut tidiers, mut has_gap): (Vec<Tidier>, bool) = (Vec::new(), false);
        for step in 0..1500_u64 {
            let which = old.world.rng.below(40);
            if which == 0 && (tidiers.is_empty() || tidiers.len() == 1 && step % 4 == 0) {
                let keep = kept_by[usize::try_from(old.world.rng.below(2)).unwrap()];
                let memory = [200, 64 << 20, 64 << 20][usize::try_from(seed % 3).unwrap()];
                tidiers.push(old.tidier_with(keep, (60_000_000, memory), seed * 10_000 + step));
            }
            if which < 3 {
                old.world.mood.lock().unwrap().lost_percent = old.world.rng.below(2) * 20;
                old.hours_without_settling();
            }
            if old.world.rng.below(400) == 0 {
                has_gap |= old.world.desk.figures().gaps > 0;
                old.world.restart(false);
                set_late(&old);
            }
            if tidiers.is_empty() {
                continue;
            }
            let at = usize::try_from(old.world.rng.below(tidiers.len() as u64)).unwrap();
            let inner = target(&old.world.target_disk);
            let target = Moody { inner, mood: Arc::clone(&old.world.mood) };
            let keys = old.world.mood.lock().unwrap().coding.keys();
            let target = Keyed::new(Box::new(target), keys);
            match tidiers[at].step(&target, &*old.world.clock) {
                Ok(TidyStep::Worked) => {}
                Ok(TidyStep::Waiting(_)) => old.world.clock.advance_us(50_000_000),
                Ok(TidyStep::Finished) => {
                    finished += 1;
                    copies += tidiers.swap_remove(at).tidied().copies;
                }
                // Tried again, or ended anywhere.
                Err(Error::Target(_)) if old.world.rng.below(20) > 0 => {}
                Err(error) => {
                    fenced += usize::from(matches!(error, Error::OtherTidier { .. }));
                    drop(tidiers.swap_remove(at));
                }
            }
        }
        old.world.settle();
        let picture = old.picture();
        let told = old.world.told.iter().map(|(_, last)| *last).max().unwrap();
        for lsn in young(&old, HOUR_MS).into_iter().filter(|lsn| lsn.0 <= told) {
            let is_in_gap = has_gap || old.world.desk.figures().gaps > 0;
            kept += usize::from(!is_in_gap);
            assert!(is_in_gap || picture.chain(lsn).is_some(), "{seed}: {lsn}: {picture:?}");
        }
        for range in &picture.ranges {
            for lsn in [range.first.0, range.last.0] {
                let found = restored(&old.world.target(), lsn).unwrap();
                assert_eq!(Some(&found), old.world.states.get(&lsn), "{seed}: {lsn}");
                checked += 1;
            }
        }
    }
    let told = format!("{finished} finished, {fenced} fenced, {checked}, {copies} copies, {kept}");
    assert!(finished > 4 && fenced > 0 && checked > 5 && copies > 3 && kept > 10, "{told}");
}
