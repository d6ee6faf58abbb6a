//! What holds thinning out back: other rules, clocks, names, other tidiers, damage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use archive::{
    ArchiveOptions, Directory, Folder, Keep, Name, NamedBlock, Object, Picture, Piece, Put, Target,
    TargetResult, TidyState, TidyStep, Why,
};
use base::Lsn;
use env::Clock;
use redo::Id;

use crate::tidy::{HOUR_MS, KEEP, Old, until_waiting};
use crate::world::{Coding, ManualClock, archive_options, restored, target};

const HOURLY: &str = "2h:all 30d:hour";

fn keeping(keep: &str) -> ArchiveOptions {
    ArchiveOptions { keep: keep.parse().unwrap(), ..archive_options() }
}

fn database_of(old: &Old) -> Id {
    archive::database_of(&old.world.target(), None).unwrap()
}

fn list(old: &Old, folder: Folder) -> Vec<Name> {
    old.world.target().list(database_of(old), folder).unwrap()
}

fn named(id: u64, lsn: Lsn) -> NamedBlock {
    NamedBlock { id, name: format!("backup-{id}"), lsn }
}

/// So many hours in which nothing is written. Returns whether the tidier was ever in this state.
fn idle_hours(old: &mut Old, hours: u64, state: TidyState) -> bool {
    let mut was = false;
    for _ in 0..60 * hours {
        old.world.clock.advance_us(60_000_000);
        for _ in 0..6 {
            old.world.archive();
            was |= old.world.desk.figures().tidy.state == state;
        }
    }
    was
}

/// The last block of each hour.
fn last_of_hours(old: &Old) -> Vec<Lsn> {
    let mut last_of = BTreeMap::new();
    for (lsn, time_ms) in &old.times_ms {
        last_of.insert(time_ms.div_euclid(HOUR_MS), *lsn);
    }
    last_of.into_values().map(Lsn).collect()
}

/// `CONFIG SET archive-keep ""` at any moment of the server's own tidier.
#[test]
fn nothing_is_removed_by_rules_that_are_not_the_rules_any_more() {
    type Reached = fn(&mut Old) -> bool;
    let moments: [(&str, Reached); 4] = [
        ("looking", |old| !list(old, Folder::Tidier).is_empty()),
        ("making leaps", |old| !list(old, Folder::Thin).is_empty()),
        ("waiting", |old| old.world.desk.figures().tidy.state == TidyState::Waiting),
        ("removing", |old| {
            let before = old.picture().states();
            if old.world.desk.figures().tidy.state == TidyState::Waiting {
                old.world.clock.advance_us(10_000_000);
            }
            old.world.archive();
            old.picture().states() < before
        }),
    ];
    for (moment, has_come) in moments {
        let mut old = Old::new(30, Coding::Plain);
        old.hours(20);
        old.world.desk.set_options(keeping(HOURLY));
        let come = (0..10_000).any(|_| {
            old.world.archive();
            has_come(&mut old)
        });
        assert!(come, "{moment}");
        old.world.desk.set_options(ArchiveOptions { keep: Keep::ALL, ..archive_options() });
        let before = old.picture().states();
        assert!(!idle_hours(&mut old, 5, TidyState::Working), "{moment}");
        let figures = old.world.desk.figures();
        assert_eq!((figures.tidy.times, figures.tidy.state), (0, TidyState::Off), "{moment}");
        assert!(old.picture().states() >= before, "{moment}: {before}");
    }
}

/// By other rules nothing is old, and what was about to be removed stays.
#[test]
fn nothing_is_removed_that_only_the_rules_before_had_given_up() {
    let mut old = Old::new(39, Coding::Plain);
    old.hours(20);
    old.world.desk.set_options(keeping(HOURLY));
    let is_waiting = (0..10_000).any(|_| {
        old.world.archive();
        old.world.desk.figures().tidy.state == TidyState::Waiting
    });
    assert!(is_waiting);
    let before = old.picture().states();
    old.world.desk.set_options(keeping("30d:all"));
    idle_hours(&mut old, 5, TidyState::Working);
    let figures = old.world.desk.figures();
    assert!(figures.tidy.times > 0 && figures.tidy.objects == 0, "{figures:?}");
    assert_eq!(old.picture().states(), before);
}

/// A host boots with a clock that is a year ahead, whether the archive was thinned out before or not.
#[test]
fn a_clock_that_is_ahead_at_a_start_empties_no_archive() {
    for is_thinned_before in [true, false] {
        let mut old = Old::new(31, Coding::Plain);
        if is_thinned_before {
            old.world.desk.set_options(keeping(HOURLY));
        }
        old.hours(24);
        let hours = last_of_hours(&old);
        old.world.clock.jump_ms(365 * 24 * HOUR_MS);
        // The second one finds blocks of a year ahead.
        for start in 0..2 {
            old.world.restart(false);
            old.world.desk.set_options(keeping(HOURLY));
            old.hours(1);
            let is_behind = idle_hours(&mut old, 6, TidyState::Behind);
            let what = format!("{is_thinned_before}, {start}");
            assert!(is_behind && old.world.desk.figures().tidy.times > 1, "{what}");
            let picture = old.picture();
            for lsn in &hours {
                assert!(picture.chain(*lsn).is_some(), "{what}: {lsn}");
            }
        }
    }
}

/// The first process whose clock is ahead ends before it has thinned out anything, and leaves blocks of that time.
#[test]
fn a_clock_that_is_ahead_at_a_short_start_empties_no_archive() {
    let mut old = Old::new(42, Coding::Plain);
    old.hours(24);
    let hours = last_of_hours(&old);
    old.world.clock.jump_ms(365 * 24 * HOUR_MS);
    for _ in 0..3 {
        old.world.restart(false);
        old.world.desk.set_options(keeping(HOURLY));
        (0..3).for_each(|_| old.world.write());
        old.world.settle();
        old.world.clock.advance_us(600_000_000);
    }
    let is_behind = idle_hours(&mut old, 6, TidyState::Behind);
    assert!(is_behind && old.world.desk.figures().tidy.times > 1);
    let picture = old.picture();
    for lsn in hours {
        assert!(picture.chain(lsn).is_some(), "{lsn}");
    }
}

/// Nothing that was found says what time it was, and no tidier: nothing goes before a person says so.
#[test]
fn without_any_time_to_count_from_nothing_goes() {
    let mut old = Old::new(43, Coding::Plain);
    old.hours(24);
    for folder in [Folder::Log, Folder::Whole] {
        for name in list(&old, folder) {
            old.world.damage(&name, true);
        }
    }
    let before = Picture::read_all(&old.world.target(), database_of(&old)).unwrap();
    old.world.restart(false);
    old.world.desk.set_options(keeping(HOURLY));
    old.hours(1);
    assert!(idle_hours(&mut old, 5, TidyState::Behind));
    assert_eq!((old.world.desk.figures().tidy.times, list(&old, Folder::Tidier)), (0, Vec::new()));
    let after = Picture::read_all(&old.world.target(), database_of(&old)).unwrap();
    assert!(before.ranges.iter().all(|range| after.chain(range.first).is_some()));
    old.tidy("100d:all");
    assert!(!list(&old, Folder::Tidier).is_empty());
    idle_hours(&mut old, 5, TidyState::Idle);
    assert!(old.world.desk.figures().tidy.times > 0);
}

/// A clock that stands at 1973 for one round does not hold ages back for years.
#[test]
fn the_time_that_ages_go_on_from_never_goes_back() {
    let mut old = Old::new(44, Coding::Plain);
    old.world.desk.set_options(keeping(HOURLY));
    old.hours(10);
    for ms in [-1_600_000_000_000, 1_600_000_000_000] {
        old.world.clock.jump_ms(ms);
        old.world.restart(false);
        old.world.desk.set_options(keeping(HOURLY));
        idle_hours(&mut old, 4, TidyState::Idle);
        assert!(old.world.desk.figures().tidy.times > 0);
    }
    assert_eq!(old.world.desk.figures().tidy.state, TidyState::Idle);
    old.hours(10);
    assert!(!idle_hours(&mut old, 3, TidyState::Behind));
}

/// Each round would leave a claim, and leaps next to what cannot go.
#[test]
fn a_target_that_lets_nothing_be_removed_is_asked_once() {
    let mut old = Old::new(45, Coding::Plain);
    old.world.mood.lock().unwrap().refuses_removals = true;
    old.world.desk.set_options(keeping(HOURLY));
    old.hours(12);
    assert_eq!(old.world.desk.figures().tidy.state, TidyState::Refused);
    let claims = list(&old, Folder::Tidier).len();
    let leaps = list(&old, Folder::Thin).len();
    assert!(claims <= 3, "{claims}");
    old.hours(12);
    assert_eq!(list(&old, Folder::Tidier).len(), claims);
    assert_eq!(list(&old, Folder::Thin).len(), leaps);
    // By other rules it is tried again.
    old.world.mood.lock().unwrap().refuses_removals = false;
    old.world.desk.set_options(keeping("3h:all 30d:hour"));
    old.hours(3);
    assert!(old.world.desk.figures().tidy.objects > 0);
    old.check();
}

/// What is damaged, and is met only when a leap is made of it.
#[test]
fn it_is_planned_at_once_without_what_is_found_damaged() {
    let mut old = Old::new(46, Coding::Plain);
    old.hours(30);
    let logs = list(&old, Folder::Log);
    let damaged = logs[logs.len() / 2];
    old.world.damage(&damaged, false);
    let tidied = old.tidy(HOURLY);
    assert_eq!(tidied.damaged.iter().copied().collect::<Vec<_>>(), [Piece::of(&damaged).unwrap()]);
    assert!(tidied.objects_removed > 10, "{tidied:?}");
}

/// A wall clock that was set is believed when it has gone as the other one for an hour.
#[test]
fn a_clock_that_was_set_ends_thinning_out_for_an_hour() {
    let mut old = Old::new(32, Coding::Plain);
    old.world.desk.set_options(keeping(HOURLY));
    old.hours(8);
    old.world.clock.jump_ms(2 * HOUR_MS);
    let before = old.world.desk.figures().tidy.times;
    (0..5).for_each(|_| old.world.archive());
    assert_eq!(old.world.desk.figures().tidy.state, TidyState::ClockSet);
    idle_hours(&mut old, 6, TidyState::Idle);
    assert!(old.world.desk.figures().tidy.times > before);
    old.check();
}

/// A block that is old, is not kept for its time, and can be restored.
fn unkept(old: &Old, last_old: Lsn, kept: &[Lsn]) -> Lsn {
    let picture = old.picture();
    let mut all = (1..last_old.0).map(Lsn).rev();
    let is_unkept = |lsn: &Lsn| picture.chain(*lsn).is_some() && !kept.contains(lsn);
    all.find(is_unkept).unwrap()
}

#[test]
fn what_a_backup_names_meanwhile_is_kept() {
    for is_removing in [false, true] {
        let mut old = Old::new(33, Coding::Plain);
        old.hours(40);
        let target = old.world.target();
        let mut tidier = old.tidier(KEEP, 60_000_000, 3);
        until_waiting(&mut tidier, &old);
        let kept: Vec<Lsn> = tidier.tidied().kept.iter().map(|kept| kept.lsn).collect();
        // A copy is kept as long as others need it.
        let by_rule = tidier.tidied().kept.iter().filter(|kept| matches!(kept.why, Why::Rule(_)));
        let by_rule: Vec<Lsn> = by_rule.map(|kept| kept.lsn).collect();
        if is_removing {
            old.world.clock.advance_us(60_000_000);
            while tidier.tidied().objects_removed == 0 {
                tidier.step(&target, &*old.world.clock).unwrap();
            }
        }
        let lsn = unkept(&old, tidier.tidied().last_old, &kept);
        old.world.desk.tell_backups(vec![named(1, lsn)]);
        (0..4).for_each(|_| old.world.archive());
        assert_eq!(list(&old, Folder::Named).len(), 1);
        loop {
            match tidier.step(&target, &*old.world.clock).unwrap() {
                TidyStep::Worked => {}
                TidyStep::Waiting(_) => old.world.clock.advance_us(10_000_000),
                TidyStep::Finished => break,
            }
        }
        assert!(tidier.tidied().objects_removed > 0);
        for round in 0..2 {
            let found = restored(&target, lsn.0).unwrap();
            assert_eq!(Some(&found), old.world.states.get(&lsn.0), "{is_removing}, {round}");
            for lsn in &by_rule {
                assert!(old.picture().chain(*lsn).is_some(), "{is_removing}, {round}: {lsn}");
            }
            old.tidy(KEEP);
        }
        old.check();
    }
}

/// A number may be that of another backup: of a log that was set back.
#[test]
fn a_backup_is_known_by_its_number_and_its_block() {
    let mut old = Old::new(34, Coding::Plain);
    old.hours(4);
    let blocks = |old: &Old| {
        let names = list(old, Folder::Named).into_iter();
        let blocks = names.filter_map(|name| match name {
            Name::Named { lsn, .. } => Some(lsn.0),
            _ => None,
        });
        blocks.collect::<Vec<_>>()
    };
    old.world.desk.tell_backups(vec![named(1, Lsn(5))]);
    (0..4).for_each(|_| old.world.archive());
    assert_eq!(blocks(&old), [5]);
    old.world.desk.tell_backups(vec![named(1, Lsn(9))]);
    (0..4).for_each(|_| old.world.archive());
    assert_eq!(blocks(&old), [9]);
}

/// A target that takes its time to remove something, and knows when it was looked for other tidiers.
struct Slow {
    inner: Directory,
    clock: Arc<ManualClock>,
    looked_us: AtomicU64,
    removed: AtomicU64,
    /// How long it takes to put something.
    put_us: u64,
}

impl Target for Slow {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        self.clock.advance_us(self.put_us);
        self.inner.put_new(database, name, bytes)
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        self.inner.open(database, name)
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        if folder == Folder::Tidier {
            self.looked_us.store(self.clock.monotonic_us(), Relaxed);
        }
        self.inner.list(database, folder)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        let age_us = self.clock.monotonic_us() - self.looked_us.load(Relaxed);
        assert!(age_us <= 120_000_000, "{name} is removed {age_us} after it was looked");
        self.removed.fetch_add(1, Relaxed);
        self.clock.advance_us(50_000_000);
        self.inner.remove(database, name)
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.inner.clean(database, is_such)
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.inner.databases()
    }
}

/// A tidier that is suspended wakes up when another one has planned by what it removes.
#[test]
fn nothing_is_removed_long_after_it_was_looked_for_other_tidiers() {
    let mut old = Old::new(35, Coding::Plain);
    old.hours(30);
    let slow = Slow {
        inner: target(&old.world.target_disk),
        clock: Arc::clone(&old.world.clock),
        looked_us: AtomicU64::new(0),
        removed: AtomicU64::new(0),
        put_us: 0,
    };
    let mut tidier = old.tidier(KEEP, 0, 3);
    while tidier.step(&slow, &*old.world.clock).unwrap() != TidyStep::Finished {}
    let removed = slow.removed.load(Relaxed);
    assert!(removed > 20, "{removed}");
    old.check();
}

/// What the one before has begun to remove may go for a while.
#[test]
fn a_tidier_waits_for_one_that_has_not_ended_and_for_no_other() {
    let mut old = Old::new(36, Coding::Plain);
    old.hours(30);
    let target = old.world.target();
    let clock = Arc::clone(&old.world.clock);
    let mut suspended = old.tidier(KEEP, 60_000_000, 3);
    until_waiting(&mut suspended, &old);
    let mut next = old.tidier(KEEP, 0, 4);
    let begun_us = clock.monotonic_us();
    until_waiting(&mut next, &old);
    assert!(next.is_fenced());
    assert_eq!(next.step(&target, &*clock).unwrap(), TidyStep::Waiting(begun_us + 300_000_000));
    clock.advance_us(300_000_000);
    while next.step(&target, &*clock).unwrap() != TidyStep::Finished {
        assert!(!next.is_fenced());
    }
    assert!(next.tidied().objects_removed > 0);
    let mut last = old.tidier(KEEP, 0, 5);
    while last.step(&target, &*clock).unwrap() != TidyStep::Finished {
        assert!(!last.is_fenced());
    }
    assert_eq!(list(&old, Folder::Tidier).len(), 1);
    old.check();
}

/// The one before may have looked just before the claim was there, however long that took.
#[test]
fn the_wait_for_another_tidier_begins_when_the_claim_is_there() {
    let mut old = Old::new(47, Coding::Plain);
    old.hours(30);
    let clock = Arc::clone(&old.world.clock);
    let mut suspended = old.tidier(KEEP, 60_000_000, 3);
    until_waiting(&mut suspended, &old);
    let slow = Slow {
        inner: target(&old.world.target_disk),
        clock: Arc::clone(&clock),
        looked_us: AtomicU64::new(0),
        removed: AtomicU64::new(0),
        put_us: 400_000_000,
    };
    let mut next = old.tidier(KEEP, 0, 4);
    assert_eq!(next.step(&slow, &*clock).unwrap(), TidyStep::Worked);
    let there_us = clock.monotonic_us();
    assert_eq!(next.step(&slow, &*clock).unwrap(), TidyStep::Waiting(there_us + 300_000_000));
}

/// An object that cannot be read leads to nothing; the rest is thinned out, and the archiver says which it was.
#[test]
fn what_is_damaged_stays_as_it_is_and_the_rest_is_thinned_out() {
    // Its header, which is read to plan, or a record, which is read when a leap is made.
    for from_end in [true, false] {
        let mut old = Old::new(37, Coding::Plain);
        old.hours(30);
        let (target, database) = (old.world.target(), database_of(&old));
        let before = old.picture();
        let logs: Vec<Name> =
            before.ranges.iter().flat_map(|range| range.logs.iter().copied()).collect();
        let damaged = logs[logs.len() / 3];
        old.world.damage(&damaged, !from_end);
        old.world.desk.set_options(keeping(HOURLY));
        idle_hours(&mut old, 4, TidyState::Idle);
        let figures = old.world.desk.figures();
        assert!(figures.tidy.times > 0 && figures.tidy.objects > 10, "{from_end}: {figures:?}");
        assert_eq!(figures.tidy.damaged, 1, "{from_end}: {figures:?}");
        assert!(figures.last_error.unwrap().contains(&damaged.to_string()));
        let Name::Log { first, last, .. } = damaged else { panic!("{damaged}") };
        // What only it leads to is there, and not said to be restorable.
        assert!(old.picture().chain(last).is_none());
        let picture = Picture::read_all(&target, database).unwrap();
        let mut checked = 0;
        for lsn in last_of_hours(&old) {
            if !(first..=last).contains(&lsn) && before.chain(lsn).is_some() {
                assert!(picture.chain(lsn).is_some(), "{from_end}: {lsn} of {damaged}");
            }
            if lsn < first && picture.chain(lsn).is_some() {
                let found = restored(&target, lsn.0).unwrap();
                assert_eq!(Some(&found), old.world.states.get(&lsn.0));
                checked += 1;
            }
        }
        assert!(checked > 3, "{from_end}: {checked}");
    }
}

/// The server does not know of it, and looks.
#[test]
fn what_another_machine_has_thinned_out_is_not_said_to_be_there() {
    let mut old = Old::new(38, Coding::Plain);
    old.hours(20);
    old.tidy(HOURLY);
    let first = old.picture().ranges.last().unwrap().first;
    assert!(old.world.desk.figures().restorable_from < first);
    old.hours(2);
    assert_eq!(old.world.desk.figures().restorable_from, first);
}
