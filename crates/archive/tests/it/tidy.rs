//! Thinning out: what is kept is restored as it was, and everything else is given up.

use std::collections::{BTreeMap, BTreeSet};

use archive::{
    ArchiveOptions, Error, Folder, Name, NamedBlock, Picture, Point, Put, State, Target, Tidied,
    Tidier, TidyOptions, TidyStep, Why,
};
use base::Lsn;
use env::Clock;
use env_sim::SimDisk;
use env_sim::sweep::crash_everywhere;

use crate::world::{
    Coding, Moody, World, archive_options, bytes_of, keyed, picture, restored, target,
};

pub(crate) const HOUR_MS: i64 = 3_600_000;
pub(crate) const KEEP: &str = "6h:all 2d:hour 30d:day";

/// An archive over some time, and when each block was written.
pub(crate) struct Old {
    pub(crate) world: World,
    pub(crate) times_ms: BTreeMap<u64, i64>,
}

impl Old {
    pub(crate) fn new(seed: u64, coding: Coding) -> Self {
        let mut world = World::coded(seed, coding);
        world.write();
        world.settle();
        Self { world, times_ms: BTreeMap::new() }
    }

    /// One of which nothing is archived yet.
    fn empty(seed: u64) -> Self {
        Self { world: World::new(seed), times_ms: BTreeMap::new() }
    }

    /// Writes a block each quarter of an hour or so, and ships it.
    pub(crate) fn hours(&mut self, hours: u64) {
        for _ in 0..4 * hours {
            let world = &mut self.world;
            world.write();
            // What changes nothing makes no block.
            self.times_ms.entry(world.database.last()).or_insert(world.clock.now_ms() - 1);
            world.database.flush();
            world.database.log.tick();
            world.database.compactor.step();
            world.database.log.poll();
            (0..12).for_each(|_| world.archive());
            let minutes = 5 + world.rng.below(20);
            world.clock.advance_us(minutes * 60_000_000);
        }
        self.world.settle();
    }

    pub(crate) fn tidier(&self, keep: &str, grace_us: u64, seed: u64) -> Tidier {
        self.tidier_with(keep, (grace_us, 64 << 20), seed)
    }

    /// One that has so much memory.
    pub(crate) fn tidier_with(
        &self,
        keep: &str,
        (grace_us, memory_bytes): (u64, usize),
        seed: u64,
    ) -> Tidier {
        let coding = self.world.mood.lock().unwrap().coding;
        let compression = coding.compression();
        let keep = keep.parse().unwrap();
        let options = ArchiveOptions { keep, compression, base_bytes_min: 0, ..archive_options() };
        let options = TidyOptions { grace_us, memory_bytes, ..TidyOptions::new(options) };
        let database = archive::database_of(&self.world.target(), None).unwrap();
        Tidier::new(database, options, bytes_of(seed))
    }

    pub(crate) fn tidy_on(&self, disk: &SimDisk, keep: &str) -> archive::Result<Tidied> {
        self.run_on(disk, self.tidier(keep, 0, 7))
    }

    /// Has a tidier do all that there is to do.
    pub(crate) fn run_on(&self, disk: &SimDisk, mut tidier: Tidier) -> archive::Result<Tidied> {
        let keys = self.world.mood.lock().unwrap().coding.keys();
        let target = keyed(disk, keys);
        loop {
            match tidier.step(&target, &*self.world.clock)? {
                TidyStep::Worked => {}
                TidyStep::Waiting(until_us) => {
                    let now_us = self.world.clock.monotonic_us();
                    self.world.clock.advance_us(until_us.saturating_sub(now_us));
                }
                TidyStep::Finished => return Ok(tidier.tidied().clone()),
            }
        }
    }

    pub(crate) fn tidy(&self, keep: &str) -> Tidied {
        self.tidy_on(&self.world.target_disk, keep).unwrap()
    }

    /// The blocks that are kept for their time, of those that are old, by looking at all of them.
    pub(crate) fn expected(&self) -> BTreeSet<u64> {
        let now_ms = *self.times_ms.values().next_back().unwrap();
        let age = |hours: i64| now_ms - hours * HOUR_MS;
        let mut last_of = BTreeMap::new();
        for (lsn, time_ms) in &self.times_ms {
            let (hour, day) = (time_ms.div_euclid(HOUR_MS), time_ms.div_euclid(24 * HOUR_MS));
            let period = if *time_ms < age(30 * 24) {
                None
            } else if (day + 1) * 24 * HOUR_MS <= age(48) {
                Some((24, day))
            } else if (hour + 1) * HOUR_MS <= age(6) {
                Some((1, hour))
            } else {
                None
            };
            last_of.extend(period.map(|period| (period, *lsn)));
        }
        last_of.into_values().collect()
    }

    /// Everything that can be restored is as it was, and nothing else can be. Returns how many states there are.
    pub(crate) fn check_on(&self, disk: &SimDisk) -> usize {
        let keys = self.world.mood.lock().unwrap().coding.keys();
        let target = keyed(disk, keys);
        let picture = picture(&target);
        let mut checked = 0;
        for lsn in 1..=self.world.database.last() {
            let found = restored(&target, lsn);
            if picture.chain(Lsn(lsn)).is_some() {
                let state = self.world.states.get(&lsn);
                assert_eq!(Some(&found.unwrap()), state, "{}: {lsn}", self.world.seed);
                checked += 1;
                continue;
            }
            let (before, after) = picture.nearest(Lsn(lsn));
            let error = found.unwrap_err();
            assert!(
                matches!(error, Error::NotThere { before: b, after: a, .. } if (b, a) == (before, after)),
                "{error}"
            );
        }
        checked
    }

    pub(crate) fn check(&self) -> usize {
        self.check_on(&self.world.target_disk)
    }

    pub(crate) fn picture(&self) -> Picture {
        self.world.picture()
    }
}

fn by_rule(tidied: &Tidied) -> BTreeSet<u64> {
    let by_rule = tidied.kept.iter().filter(|kept| matches!(kept.why, Why::Rule(_)));
    by_rule.map(|kept| kept.lsn.0).collect()
}

#[test]
fn what_is_kept_is_restored_as_it_was_and_the_rest_is_refused() {
    let (mut checked, mut leaps, mut removed) = (0, 0, 0);
    for seed in 0..3 {
        let mut old = Old::new(seed, Coding::of_seed(seed));
        for hours in [30, 20, 30] {
            old.hours(hours);
            let before = old.picture().states();
            let tidied = old.tidy(KEEP);
            assert_eq!(by_rule(&tidied), old.expected(), "{seed}");
            let after = old.picture().states();
            assert_eq!((before, after), (tidied.states_before, tidied.states_after), "{seed}");
            for kept in &tidied.kept {
                assert!(old.picture().chain(kept.lsn).is_some(), "{seed}: {kept:?}");
                let time_ms = old.times_ms.get(&kept.lsn.0).copied();
                let is_known = kept.time_ms.is_some() && time_ms.is_some();
                assert!(
                    !is_known || kept.why == Why::Copy || kept.time_ms == time_ms,
                    "{kept:?}: {time_ms:?}, {:?}",
                    old.picture().ranges[0]
                );
            }
            // All of the last six hours, what is kept, and copies.
            let young =
                old.times_ms.values().filter(|it| **it >= old.world.clock.now_ms() - 6 * HOUR_MS);
            assert!(after >= young.count() as u64 + tidied.kept.len() as u64, "{seed}");
            (leaps, removed) = (leaps + tidied.leaps, removed + tidied.objects_removed);
        }
        checked += old.check();
        let verified = archive::verify(
            &old.world.target(),
            archive::database_of(&old.world.target(), None).unwrap(),
            &mut |_, _| {},
        );
        let verified = verified.unwrap();
        assert!(verified.errors.is_empty() && verified.locked.is_empty(), "{verified:?}");
        // Again and again, until copies that leaps are shorter than are gone: then there is nothing to do.
        let mut rounds = 0;
        while old.tidy(KEEP).objects_removed > 0 {
            rounds += 1;
            assert!(rounds < 5, "{seed}");
        }
        assert_eq!(old.tidy(KEEP).objects_put, 0);
        checked += old.check();
        let expected = old.expected();
        let picture = old.picture();
        assert!(expected.iter().all(|lsn| picture.chain(Lsn(*lsn)).is_some()), "{seed}");
    }
    assert!(checked > 300 && leaps > 100 && removed > 300, "{checked}, {leaps}, {removed}");
}

/// The first copy of an older program says that its block was the last one for hours more than it was.
#[test]
fn a_copy_that_says_too_late_a_time_takes_no_hour_from_what_is_behind_it() {
    let mut old = Old::empty(13);
    old.world.late_ms = 4 * HOUR_MS;
    old.hours(24);
    let first = old.picture().ranges[0].first;
    for _ in 0..3 {
        old.tidy(KEEP);
        old.hours(3);
    }
    let picture = old.picture();
    let kept = old.expected().into_iter().filter(|lsn| *lsn > first.0);
    let gone: Vec<u64> = kept.filter(|lsn| picture.chain(Lsn(*lsn)).is_none()).collect();
    assert!(gone.is_empty(), "{gone:?} of {:?}", old.expected());
    old.check();
}

/// The mark waits for hours, because the target is away or the device slow.
#[test]
fn a_copy_is_of_the_time_at_which_its_mark_was_taken() {
    let mut old = Old::empty(14);
    let world = &mut old.world;
    (0..3).for_each(|_| world.write());
    world.database.flush();
    while !world.desk.wants_mark() {
        world.archiver.step();
    }
    let time_ms = world.clock.now_ms();
    let mark = world.database.log.mark().unwrap();
    world.desk.give_mark(mark, time_ms);
    world.clock.advance_us(5 * 3_600_000_000);
    world.write();
    world.settle();
    let (target, database) = (world.target(), archive::database_of(&world.target(), None).unwrap());
    let whole = target.list(database, Folder::Whole).unwrap()[0];
    let header = *archive::ObjectReader::open(&target, database, whole).unwrap().header();
    assert_eq!(header.time_max_ms, time_ms);
}

/// The last block that an object of the log or of a copy has to do with.
pub(crate) fn last_of(name: &Name) -> Option<Lsn> {
    match name {
        Name::Log { last, .. } => Some(*last),
        Name::Whole { fill, .. } | Name::Base { fill, .. } => Some(fill.lsn),
        _ => None,
    }
}

/// The bytes of the objects in these folders that are wanted.
pub(crate) fn bytes(old: &Old, folders: &[Folder], is_wanted: impl Fn(&Name) -> bool) -> u64 {
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let names = folders.iter().flat_map(|folder| target.list(database, *folder).unwrap());
    let length = |name: Name| target.open(database, &name).unwrap().bytes().unwrap();
    names.filter(is_wanted).map(length).sum()
}

/// The chain of a state is never longer than copies would make it, however often it is thinned out.
#[test]
fn leaps_are_shorter_than_what_they_take_the_place_of() {
    let mut old = Old::new(4, Coding::Plain);
    old.hours(60);
    let all =
        |old: &Old| bytes(old, &[Folder::Log, Folder::Base, Folder::Thin, Folder::Whole], |_| true);
    let before = all(&old);
    (0..3).for_each(|_| _ = old.tidy("1h:all 30d:day"));
    let after = all(&old);
    assert!(after * 2 < before, "{before} to {after}");
    old.check();
}

/// The tidier's machine, or the target's, loses power at every single I/O.
#[test]
fn a_tidier_may_be_cut_off_at_every_single_io() {
    let mut old = Old::new(5, Coding::Plain);
    old.hours(16);
    let keep = "2h:all 30d:hour";
    old.tidy(keep);
    old.hours(6);
    let expected: BTreeSet<u64> =
        by_rule(&old.tidy_on(&old.world.target_disk.fork(), keep).unwrap());
    assert!(expected.len() > 8, "{expected:?}");
    let ios = crash_everywhere(
        &old.world.target_disk.fork(),
        |disk| old.tidy_on(disk, keep).is_ok(),
        |disk, is_done| {
            let picture = picture(&target(disk));
            for lsn in &expected {
                assert!(picture.chain(Lsn(*lsn)).is_some(), "{lsn}: {picture:?}");
            }
            // A few of them: all are compared where nothing was cut off.
            for lsn in expected.iter().step_by(5) {
                let found = restored(&target(disk), *lsn).unwrap();
                assert_eq!(Some(&found), old.world.states.get(lsn));
            }
            if !is_done {
                // The next one does what is left.
                let tidied = old.tidy_on(disk, keep).unwrap();
                assert_eq!(by_rule(&tidied), expected);
            }
        },
    );
    assert!(ios > 50, "{ios}");
    old.check();
}

/// Tidiers come and end anywhere, of different minds, next to a server that writes, is killed and claims anew; answers are lost.
#[test]
fn several_tidiers_and_a_writer_lose_nothing_that_both_keep() {
    let (mut finished, mut fenced, mut checked, mut whole_seeds) = (0, 0, 0, 0);
    for seed in 20..26 {
        let mut old = Old::new(seed, Coding::of_seed(seed));
        old.hours(12);
        let kept_by = ["3h:all 30d:hour", "6h:all 30d:hour"];
        let (mut tidiers, mut has_gap): (Vec<Tidier>, bool) = (Vec::new(), false);
        for step in 0..3000_u64 {
            let which = old.world.rng.below(40);
            // A second one now and then: each new one keeps the one before from ending.
            if which == 0 && (tidiers.is_empty() || tidiers.len() == 1 && step % 4 == 0) {
                let keep = kept_by[usize::try_from(old.world.rng.below(2)).unwrap()];
                tidiers.push(old.tidier(keep, 60_000_000, seed * 10_000 + step));
            }
            if which < 3 {
                old.world.mood.lock().unwrap().lost_percent = old.world.rng.below(2) * 20;
                old.hours_without_settling();
            }
            if old.world.rng.below(200) == 0 {
                has_gap |= old.world.desk.figures().gaps > 0;
                old.world.restart(false);
            }
            if tidiers.is_empty() {
                continue;
            }
            let at = usize::try_from(old.world.rng.below(tidiers.len() as u64)).unwrap();
            let target = Moody {
                inner: target(&old.world.target_disk),
                mood: std::sync::Arc::clone(&old.world.mood),
            };
            let keys = old.world.mood.lock().unwrap().coding.keys();
            let target = archive::Keyed::new(Box::new(target), keys);
            match tidiers[at].step(&target, &*old.world.clock) {
                Ok(TidyStep::Worked) => {}
                Ok(TidyStep::Waiting(_)) => old.world.clock.advance_us(50_000_000),
                Ok(TidyStep::Finished) => {
                    finished += 1;
                    drop(tidiers.swap_remove(at));
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
        // What both keep: the last state of each hour but the last three.
        let picture = old.picture();
        let newest_ms = *old.times_ms.values().next_back().unwrap();
        let mut last_of = BTreeMap::new();
        for (lsn, time_ms) in &old.times_ms {
            last_of.insert(time_ms.div_euclid(HOUR_MS), *lsn);
        }
        let whole = old.world.told.iter().map(|(_, last)| *last).max().unwrap();
        for (hour, lsn) in last_of {
            let is_told = lsn <= whole && (hour + 1) * HOUR_MS <= newest_ms;
            let is_in_gap = has_gap || old.world.desk.figures().gaps > 0;
            whole_seeds += usize::from(!is_in_gap && is_told);
            assert!(
                !is_told || is_in_gap || picture.chain(Lsn(lsn)).is_some(),
                "{seed}: {lsn} of {hour}: {:?}",
                picture.ranges.iter().map(|it| (it.first.0, it.last.0)).collect::<Vec<_>>()
            );
        }
        for range in &picture.ranges {
            let lsn = range.first.0;
            let found = restored(&old.world.target(), lsn).unwrap();
            assert_eq!(Some(&found), old.world.states.get(&lsn), "{seed}: {lsn}");
            checked += 1;
        }
    }
    let told =
        format!("{finished} finished, {fenced} fenced, {checked} checked, {whole_seeds} kept");
    assert!(finished > 4 && fenced > 0 && checked > 30 && whole_seeds > 20, "{told}");
}

impl Old {
    pub(crate) fn hours_without_settling(&mut self) {
        for _ in 0..4 {
            let world = &mut self.world;
            world.write();
            // What changes nothing makes no block.
            self.times_ms.entry(world.database.last()).or_insert(world.clock.now_ms() - 1);
            world.database.flush();
            world.database.log.tick();
            world.database.log.poll();
            world.clock.advance_us(600_000_000);
            (0..6).for_each(|_| world.archive());
        }
    }
}

/// A backup has a name, at the target, too: what it names is kept, is restored by it, and goes when it is deleted.
#[test]
fn what_a_backup_names_is_kept_until_it_is_deleted() {
    let mut old = Old::new(6, Coding::Encrypted);
    old.hours(10);
    let lsn = old.world.database.last() / 2;
    let named = |id, name: &str, lsn| NamedBlock { id, name: name.to_owned(), lsn: Lsn(lsn) };
    let all = vec![named(1, "first", 7), named(2, "half", lsn), named(3, "to-come", 10_000)];
    old.world.desk.tell_backups(all.clone());
    old.hours(200);
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let names = |old: &Old| {
        let backups = archive::backups(&old.world.target(), database).unwrap();
        backups.known.into_iter().map(|backup| (backup.name, backup.lsn.0)).collect::<Vec<_>>()
    };
    assert_eq!(names(&old), [("first".to_owned(), 7), ("half".to_owned(), lsn)]);
    old.tidy("1h:all 3d:day");
    let kept = |old: &Old, lsn| old.picture().chain(Lsn(lsn)).is_some();
    assert!(kept(&old, 7) && kept(&old, lsn), "{:?}", old.picture());
    assert!(!kept(&old, lsn + 1) && !kept(&old, lsn - 1));
    let disk = SimDisk::new(3, env_sim::Faults::default());
    let restored =
        crate::world::restore_into(&disk, &target, Point::Backup("half".to_owned())).unwrap();
    assert_eq!(restored.parent.lsn, Lsn(lsn));
    assert_eq!(Some(&crate::world::contents_of(&disk).1), old.world.states.get(&lsn));
    let error = crate::world::restore_into(&disk, &target, Point::Backup("no".to_owned()));
    assert!(matches!(error, Err(Error::NoBackup { .. })));
    // It is deleted; another one is told to be forgotten.
    old.world.desk.tell_backups(all[..1].to_vec());
    (0..4).for_each(|_| old.world.archive());
    assert_eq!(names(&old), [("first".to_owned(), 7)]);
    assert!(archive::forget(&target, database, "first").unwrap());
    assert!(!archive::forget(&target, database, "first").unwrap());
    old.tidy("1h:all 3d:day");
    assert!(!kept(&old, 7) && !kept(&old, lsn));
    old.check();
}

/// The archiver does it itself, and never tells that what it is about to remove can be restored.
#[test]
fn an_archiver_thins_out_what_it_is_told_to() {
    let mut old = Old::new(7, Coding::Compressed);
    let options = ArchiveOptions { keep: "3h:all 30d:hour".parse().unwrap(), ..archive_options() };
    old.world.desk.set_options(options);
    old.hours(24);
    let figures = old.world.desk.figures();
    assert!(figures.tidy.times > 3 && figures.tidy.objects > 10, "{figures:?}");
    assert_eq!((figures.errors, figures.state), (0, State::Streaming), "{figures:?}");
    let first = figures.restorable_from;
    assert!(old.picture().range_of(figures.archived).is_some_and(|range| range.first <= first));
    old.world.told.retain(|(from, _)| *from >= first.0);
    assert!(old.world.check(1) > 20);
    assert!(old.check() < 80, "{}", old.picture().states());
}

/// A writer that was thought dead has sent something, which arrives when all that said so is thinned out.
#[test]
fn what_arrives_late_does_not_count() {
    let mut old = Old::new(8, Coding::Plain);
    old.hours(4);
    let archived = old.world.desk.figures().archived;
    let writer = old.world.desk.figures().writer;
    old.world.restart(false);
    old.hours(20);
    (0..3).for_each(|_| _ = old.tidy("2h:all 30d:hour"));
    let before = old.picture();
    assert!(before.ranges.len() > 10 && before.writer > writer, "{before:?}");
    let database = archive::database_of(&old.world.target(), None).unwrap();
    let late = Name::Log { first: archived.next(), last: Lsn(archived.0 + 9), writer };
    assert_eq!(old.world.target().put_new(database, &late, b"another life").unwrap(), Put::New);
    assert_eq!(old.picture().ranges, before.ranges);
    old.tidy("2h:all 30d:hour");
    let logs = old.world.target().list(database, Folder::Log).unwrap();
    assert!(!logs.contains(&late), "it goes");
    old.check();
}

/// Steps until there is nothing to do but to wait.
pub(crate) fn until_waiting(tidier: &mut Tidier, old: &Old) {
    let target = old.world.target();
    for _ in 0..10_000 {
        match tidier.step(&target, &*old.world.clock).unwrap() {
            TidyStep::Worked => {}
            TidyStep::Waiting(_) => return,
            TidyStep::Finished => break,
        }
    }
    panic!("nothing was waited for");
}

/// A restore that reads what goes has a while to end, and nothing goes when what was made for it is not there any more.
#[test]
fn before_anything_is_removed_it_is_waited_and_looked_for_what_is_kept() {
    let mut old = Old::new(10, Coding::Plain);
    old.hours(24);
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let folders = [Folder::Log, Folder::Base, Folder::Whole];
    let there = || folders.map(|folder| target.list(database, folder).unwrap());
    let before = there();
    let mut tidier = old.tidier(KEEP, 60_000_000, 3);
    until_waiting(&mut tidier, &old);
    old.world.clock.advance_us(59_000_000);
    until_waiting(&mut tidier, &old);
    assert_eq!(there(), before);
    let made = target.list(database, Folder::Thin).unwrap();
    target.remove(database, &made[0]).unwrap();
    old.world.clock.advance_us(1_000_000);
    let error = tidier.step(&target, &*old.world.clock).unwrap_err();
    assert!(matches!(error, Error::WouldLose { .. }), "{error}");
    assert_eq!(there(), before);
    // The next one makes it anew.
    assert!(old.tidy(KEEP).objects_removed > 0);
    old.check();
}

/// What is inside a leap of another tidier may be going: that one may have looked for later ones just before it is suspended.
#[test]
fn what_another_tidier_may_be_removing_is_not_relied_on() {
    let mut old = Old::new(11, Coding::Plain);
    old.hours(60);
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let mut first = old.tidier("6h:all 30d:day", 60_000_000, 3);
    until_waiting(&mut first, &old);
    let leaps = target.list(database, Folder::Thin).unwrap();
    let is_inside = |lsn: Lsn| {
        leaps
            .iter()
            .any(|leap| matches!(leap, Name::Thin { from, to, .. } if *from < lsn && lsn < *to))
    };
    let expected = old.expected();
    assert!(expected.iter().any(|lsn| is_inside(Lsn(*lsn))), "{expected:?}");
    let planned = old.tidier(KEEP, 0, 4).plan(&target, &*old.world.clock).unwrap().clone();
    for kept in &planned.kept {
        assert!(!is_inside(kept.lsn), "{kept:?}");
    }
    assert!(planned.kept.len() > 1);
    old.tidy(KEEP);
    // The first one wakes up.
    old.world.clock.advance_us(60_000_000);
    let error = first.step(&target, &*old.world.clock).unwrap_err();
    assert!(matches!(error, Error::OtherTidier { .. }), "{error}");
    old.check();
}

/// What counts is not settled before a writer that has claimed has begun.
#[test]
fn an_archive_that_a_writer_is_about_to_go_on_with_is_left_alone() {
    let mut old = Old::new(12, Coding::Plain);
    old.hours(24);
    let target = old.world.target();
    let database = archive::database_of(&target, None).unwrap();
    let mut waiting = old.tidier(KEEP, 60_000_000, 3);
    until_waiting(&mut waiting, &old);
    let claim = Name::Writer { writer: old.world.desk.figures().writer + 1 };
    assert_eq!(target.put_new(database, &claim, b"a claim").unwrap(), Put::New);
    let before = old.picture();
    old.world.clock.advance_us(60_000_000);
    let error = waiting.step(&target, &*old.world.clock).unwrap_err();
    assert!(matches!(error, Error::Claiming { .. }), "{error}");
    let error = old.tidy_on(&old.world.target_disk, KEEP).unwrap_err();
    assert!(matches!(error, Error::Claiming { .. }), "{error}");
    assert_eq!(old.picture(), before);
}

/// What is looked at and what is given up is told without anything being changed.
#[test]
fn a_plan_changes_nothing_and_is_what_is_done() {
    let mut old = Old::new(9, Coding::Plain);
    old.hours(30);
    let disk = old.world.target_disk.fork();
    let (mut tidier, target) = (old.tidier(KEEP, 0, 9), target(&disk));
    let planned = tidier.plan(&target, &*old.world.clock).unwrap().clone();
    assert_eq!(picture(&target), old.picture());
    let database = archive::database_of(&target, None).unwrap();
    assert_eq!(target.list(database, Folder::Tidier).unwrap(), []);
    let done = old.tidy(KEEP);
    assert_eq!((planned.kept, planned.states_after), (done.kept, done.states_after));
    assert_eq!((planned.leaps, planned.objects_removed), (done.leaps, done.objects_removed));
    assert_eq!(old.tidy("").objects_removed, 0, "without rules all is kept");
}
