//! What thinning out does not believe: a list that lacks something, a leap that was not read, a writer that has nothing but a beginning.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use archive::{Directory, Error, Folder, Name, Object, Piece, Put, Target, TargetResult, TidyStep};
use base::Lsn;
use env::Clock;
use redo::Id;

use crate::tidy::{KEEP, Old};
use crate::world::{Coding, Moody, restored, target};

fn database_of(old: &Old) -> Id {
    archive::database_of(&old.world.target(), None).unwrap()
}

/// The blocks that can be restored now, of those that the rules keep.
fn kept_and_there(old: &Old) -> Vec<u64> {
    let picture = old.picture();
    old.expected().into_iter().filter(|lsn| picture.chain(Lsn(*lsn)).is_some()).collect()
}

fn check(old: &Old, kept: &[u64]) {
    for lsn in kept {
        let found = restored(&old.world.target(), *lsn);
        let found = found.unwrap_or_else(|error| panic!("{lsn}: {error}"));
        assert_eq!(Some(&found), old.world.states.get(lsn));
    }
}

/// A folder that is mounted a moment later, or a store whose list lags.
#[test]
fn a_list_that_lacked_something_once_loses_nothing() {
    for folder in [Folder::Thin, Folder::Whole, Folder::Base, Folder::Log] {
        let mut old = Old::new(51, Coding::Plain);
        old.hours(40);
        old.tidy(KEEP);
        old.hours(20);
        let kept = kept_and_there(&old);
        assert!(kept.len() > 20);
        let mood = std::sync::Arc::clone(&old.world.mood);
        let moody = Moody { inner: target(&old.world.target_disk), mood };
        let mut tidier = old.tidier(KEEP, 60_000_000, 3);
        tidier.step(&moody, &*old.world.clock).unwrap();
        // What it plans by.
        old.world.mood.lock().unwrap().hidden = Some((folder, 1));
        loop {
            match tidier.step(&moody, &*old.world.clock) {
                Ok(TidyStep::Worked) => {}
                Ok(TidyStep::Waiting(_)) => old.world.clock.advance_us(10_000_000),
                Ok(TidyStep::Finished) | Err(_) => break,
            }
        }
        check(&old, &kept);
    }
}

/// A target whose medium turns a bit of leaps as they are put.
struct Rotting {
    inner: Directory,
    /// So many.
    left: AtomicU32,
}

impl Target for Rotting {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let mut bytes = bytes.to_vec();
        if matches!(name, Name::Thin { .. }) && self.left.load(Relaxed) > 0 {
            self.left.fetch_sub(1, Relaxed);
            *bytes.last_mut().unwrap() ^= 1;
        }
        self.inner.put_new(database, name, &bytes)
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        self.inner.open(database, name)
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        self.inner.list(database, folder)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        self.inner.remove(database, name)
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.inner.clean(database, is_such)
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.inner.databases()
    }
}

/// What is made in the place of something is read before that goes.
#[test]
fn nothing_goes_for_a_leap_that_cannot_be_read() {
    let mut old = Old::new(52, Coding::Plain);
    old.hours(40);
    let kept = kept_and_there(&old);
    let rotting = Rotting { inner: target(&old.world.target_disk), left: AtomicU32::new(1) };
    let mut tidier = old.tidier(KEEP, 0, 3);
    while tidier.step(&rotting, &*old.world.clock).unwrap() != TidyStep::Finished {}
    let tidied = tidier.tidied();
    assert_eq!((tidied.damaged.len(), tidied.objects_removed), (1, 0), "{tidied:?}");
    assert!(matches!(tidied.damaged.first(), Some(Piece::Leap { .. })));
    assert_eq!(old.world.list(Folder::Damaged).len(), 1);
    check(&old, &kept);
    // The next one makes it anew.
    let tidied = old.tidy(KEEP);
    assert!(tidied.objects_removed > 10 && tidied.leaps > 0, "{tidied:?}");
    check(&old, &kept);
    old.tidy(KEEP);
    check(&old, &kept);
}

/// The one that has made a leap was killed before it has read it.
#[test]
fn nothing_goes_for_a_leap_of_another_that_cannot_be_read() {
    let mut old = Old::new(53, Coding::Plain);
    old.hours(40);
    let kept = kept_and_there(&old);
    let rotting = Rotting { inner: target(&old.world.target_disk), left: AtomicU32::new(1) };
    let mut tidier = old.tidier(KEEP, 0, 3);
    while tidier.tidied().leaps < 3 {
        tidier.step(&rotting, &*old.world.clock).unwrap();
    }
    let tidied = old.tidy(KEEP);
    assert!(tidied.damaged.len() == 1 && tidied.objects_removed > 0, "{tidied:?}");
    check(&old, &kept);
    let Some(Piece::Leap { from, to, tidier }) = tidied.damaged.first().copied() else {
        panic!("{tidied:?}")
    };
    let is_made_anew = |leap: &Name| {
        let Name::Thin { from: begin, to: end, tidier: by, .. } = *leap else { return false };
        (begin, end) == (from, to) && by != tidier
    };
    assert!(old.world.list(Folder::Thin).iter().any(is_made_anew));
}

/// One object that anything with the token can put, and no server has put it.
#[test]
fn a_writer_that_has_only_begun_is_not_believed() {
    let mut old = Old::new(54, Coding::Plain);
    old.hours(40);
    let (target, database) = (old.world.target(), database_of(&old));
    let kept = kept_and_there(&old);
    let before = old.picture();
    let writer = old.world.desk.figures().writer + 1;
    let forged = Name::Begin { lsn: Lsn(old.world.database.last() / 2), writer };
    target.put_new(database, &forged, b"anything").unwrap();
    let error = old.tidy_on(&old.world.target_disk, KEEP).unwrap_err();
    assert!(matches!(error, Error::Unclaimed { name } if name == forged), "{error}");
    target.remove(database, &forged).unwrap();
    assert_eq!(old.picture(), before);
    // With a claim it is a writer, whose beginning must say so.
    let claim = Name::Writer { writer };
    for name in [forged, claim] {
        target.put_new(database, &name, b"anything").unwrap();
    }
    let error = old.tidy_on(&old.world.target_disk, KEEP).unwrap_err();
    assert!(matches!(error, Error::Damaged { name, .. } if name == forged), "{error}");
    for name in [forged, claim] {
        target.remove(database, &name).unwrap();
    }
    check(&old, &kept);
}

/// A beginning of a writer that was, and has begun elsewhere: what it hides is there when it is gone.
#[test]
fn what_a_forged_beginning_hides_stays() {
    let mut old = Old::new(55, Coding::Plain);
    old.hours(20);
    let middle = old.world.database.last() / 2;
    old.world.restart(false);
    old.hours(30);
    let (target, database) = (old.world.target(), database_of(&old));
    let kept = kept_and_there(&old);
    let forged = Name::Begin { lsn: Lsn(middle), writer: old.world.desk.figures().writer };
    let header = archive::Header::new(database, forged).encode();
    target.put_new(database, &forged, &header).unwrap();
    assert!(kept_and_there(&old).len() < kept.len(), "it hides some");
    for _ in 0..2 {
        let tidied = old.tidy(KEEP);
        assert!(tidied.states_before > 0, "{tidied:?}");
    }
    target.remove(database, &forged).unwrap();
    check(&old, &kept);
    assert!(old.tidy(KEEP).objects_removed > 0);
    check(&old, &kept);
}

#[test]
fn a_claim_that_no_later_one_can_follow_is_told() {
    let mut old = Old::new(56, Coding::Plain);
    old.hours(20);
    let (target, database) = (old.world.target(), database_of(&old));
    let last = Name::Tidier { number: 9_999_999_999 };
    target.put_new(database, &last, b"").unwrap();
    let error = old.tidy_on(&old.world.target_disk, KEEP).unwrap_err();
    assert!(matches!(error, Error::NoTidier { name } if name == last), "{error}");
    assert_eq!(old.world.list(Folder::Tidier), [last]);
    assert!(old.world.clock.monotonic_us() > 0);
}

/// One name that cannot be read takes none from the others.
#[test]
fn a_damaged_name_is_passed_over_and_told() {
    let mut old = Old::new(57, Coding::Plain);
    old.hours(10);
    let named =
        |id, name: &str, lsn| archive::NamedBlock { id, name: name.to_owned(), lsn: Lsn(lsn) };
    old.world.desk.tell_backups(vec![named(1, "first", 5), named(2, "second", 9)]);
    (0..6).for_each(|_| old.world.archive());
    let names = old.world.list(Folder::Named);
    old.world.damage(&names[0], false);
    let (target, database) = (old.world.target(), database_of(&old));
    let backups = archive::backups(&target, database).unwrap();
    assert_eq!((backups.known.len(), &backups.damaged[..]), (1, &names[..1]));
    let restore = |name: &str| {
        let disk = env_sim::SimDisk::new(3, env_sim::Faults::default());
        let point = archive::Point::Backup(name.to_owned());
        crate::world::restore_into(&disk, &target, point).map(|restored| restored.parent.lsn)
    };
    assert_eq!(restore("second").unwrap(), Lsn(9));
    let error = restore("first").unwrap_err().to_string();
    assert!(error.contains(&names[0].to_string()), "{error}");
    let overview = archive::overview(&target, database, false).unwrap();
    assert_eq!(overview.backups, backups);
    // What it names is kept all the same.
    old.hours(60);
    old.tidy("1h:all 3d:day");
    assert!(old.picture().chain(Lsn(5)).is_some());
}
