//! Blocks by time, before a FLUSHALL, and before a key was lost.

use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use archive::{Error, Folder, Name, Object, Point, Put, Request, Target, TargetResult};
use base::{DangerousCommand, DbId, Lsn, Note, NoteEvent, Record, RecordKind, varint};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::WantedKey;

use crate::tidy::Old;
use crate::world::{Coding, INTO, World, restore_into};

fn lsn_at(world: &World, point: Point) -> archive::Result<u64> {
    let disk = SimDisk::new(3, Faults::default());
    restore_into(&disk, &world.target(), point).map(|restored| restored.parent.lsn.0)
}

/// Writes a block a second, and ships all.
fn seconds(world: &mut World, count: usize) -> Vec<(u64, i64)> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        world.write();
        let time_ms = env::Clock::now_ms(&*world.clock) - 1;
        blocks.push((world.database.last(), time_ms));
        world.database.flush();
        world.clock.advance_us(999_000);
        (0..3).for_each(|_| world.archive());
    }
    world.settle();
    blocks
}

#[test]
fn a_time_means_the_last_block_that_is_not_later() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let blocks = seconds(&mut world, 30);
    for pair in blocks.windows(2).step_by(4) {
        let [(lsn, time_ms), (next, next_ms)] = *pair else { unreachable!() };
        assert_eq!(lsn_at(&world, Point::Time(time_ms)).unwrap(), lsn);
        assert_eq!(lsn_at(&world, Point::Time(next_ms - 1)).unwrap(), lsn);
        assert_eq!(lsn_at(&world, Point::Time(next_ms)).unwrap(), next);
    }
    let last = blocks.last().unwrap();
    assert_eq!(lsn_at(&world, Point::Time(i64::MAX)).unwrap(), last.0);
    assert_eq!(lsn_at(&world, Point::Latest).unwrap(), last.0);
    let error = lsn_at(&world, Point::Time(5)).unwrap_err();
    assert!(matches!(error, Error::TooEarly { .. }), "{error}");
    let error = lsn_at(&world, Point::Lsn(last.0 + 1)).unwrap_err();
    assert!(matches!(error, Error::NotThere { before: Some(_), after: None, .. }), "{error}");
}

/// While the target is away blocks are compacted. Returns their times.
pub(crate) fn make_gap(world: &mut World) -> Vec<i64> {
    world.mood.lock().unwrap().is_away = true;
    let mut missing = Vec::new();
    for _ in 0..80 {
        world.write();
        missing.push(env::Clock::now_ms(&*world.clock));
        world.database.flush();
        world.clock.advance_us(999_000);
        world.archive();
    }
    world.database.log.compact_all();
    for _ in 0..400 {
        world.clock.advance_us(200_000);
        world.database.log.tick();
        world.database.compactor.step();
        world.database.flush();
    }
    missing
}

/// The machine is lost before the copy behind a gap is complete.
#[test]
fn the_latest_state_says_that_blocks_behind_it_are_cut_off() {
    let mut world = World::new(1);
    seconds(&mut world, 5);
    let latest = |world: &World| {
        let disk = SimDisk::new(3, Faults::default());
        restore_into(&disk, &world.target(), Point::Latest).unwrap()
    };
    let whole = latest(&world);
    assert_eq!((whole.parent.lsn.0, whole.cut_off), (world.database.last(), None));
    make_gap(&mut world);
    world.mood.lock().unwrap().is_away = false;
    let is_cut_off = |world: &World| {
        let picture = world.picture();
        picture.last > picture.ranges.last().map(|range| range.last)
    };
    let mut rounds = 0;
    while !is_cut_off(&world) {
        world.write();
        world.database.flush();
        world.clock.advance_us(100_000);
        world.database.log.tick();
        world.archive();
        rounds += 1;
        assert!(rounds < 1000, "{:?}", world.picture());
    }
    let now_ms = env::Clock::now_ms(&*world.clock);
    let (restored, last) = (latest(&world), world.picture().last.unwrap());
    assert_eq!(world.picture().ranges.len(), 1, "the copy is not complete");
    assert_eq!(restored.parent.lsn, world.picture().ranges[0].last);
    let (cut_off, time_ms) = restored.cut_off.unwrap();
    assert_eq!(cut_off, last);
    assert!((now_ms - 10_000..=now_ms).contains(&time_ms), "{time_ms}, {now_ms}");
    let error = lsn_at(&world, Point::Time(i64::MAX)).unwrap_err();
    assert!(
        matches!(error, Error::InGap { before, after: None, .. } if before == restored.parent.lsn),
        "{error}"
    );
    world.settle();
    let healed = latest(&world);
    assert_eq!((healed.parent.lsn.0, healed.cut_off), (world.database.last(), None));
}

/// As long as the oldest block that waits, and not since the last time that none did.
#[test]
fn an_archive_is_no_further_behind_than_the_oldest_block_that_is_not_shipped() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let mut most_ms = 0;
    for _ in 0..200 {
        while world.database.last() < world.desk.figures().shipped.0 + 30 {
            world.write();
        }
        world.database.flush();
        world.clock.advance_us(100_000);
        world.archive();
        let figures = world.desk.figures();
        most_ms = most_ms.max(figures.lag_ms);
        assert!(figures.lag_blocks > 0 && figures.behind_ms == figures.lag_ms, "{figures:?}");
    }
    // Thirty blocks are some objects, and each step ships one.
    assert!((300..6000).contains(&most_ms), "{most_ms}");
}

/// While the target was away blocks were compacted: a time among them has no state.
#[test]
fn a_time_in_a_gap_is_refused_with_the_nearest_blocks() {
    let mut world = World::new(1);
    let before = seconds(&mut world, 5);
    let missing = make_gap(&mut world);
    let after = seconds(&mut world, 5);
    let picture = world.picture();
    assert!(picture.ranges.len() > 1, "there is no gap: {picture:?}");
    let range = &picture.ranges[0];
    let error = lsn_at(&world, Point::Time(missing[40])).unwrap_err();
    assert!(matches!(error, Error::InGap { before, .. } if before == range.last), "{error}");
    let error = lsn_at(&world, Point::Lsn(range.last.0 + 1)).unwrap_err();
    assert!(matches!(error, Error::NotThere { before: Some(_), after: Some(_), .. }), "{error}");
    assert_eq!(lsn_at(&world, Point::Time(before[2].1)).unwrap(), before[2].0);
    assert_eq!(lsn_at(&world, Point::Time(i64::MAX)).unwrap(), after[4].0);
    assert!(world.desk.figures().gaps > 0);
}

#[test]
fn before_the_last_flush_is_the_block_before_the_one_that_notes_it() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let mut before = Vec::new();
    for _ in 0..3 {
        seconds(&mut world, 3);
        before.push(world.database.last());
        // What loses nothing is no flush.
        for loses_data in [true, false] {
            let text = |text: &str| text.to_owned();
            let command = DangerousCommand {
                loses_data,
                user: text("default"),
                address: text("10.0.0.1:5"),
                text: text("\"FLUSHALL\""),
            };
            let note = Note { time_ms: 5, event: NoteEvent::Command(command) }.encode();
            let log = &mut world.database.log;
            log.declare(RecordKind::Note);
            let addr = log.append(&Record::whole(RecordKind::Note, DbId(0), b"", &note, None));
            log.retire(addr);
            world.seal();
        }
        world.database.flush();
    }
    world.settle();
    for (count, lsn) in before.iter().rev().enumerate() {
        assert_eq!(lsn_at(&world, Point::BeforeFlush(count + 1)).unwrap(), *lsn);
    }
    let error = lsn_at(&world, Point::BeforeFlush(4)).unwrap_err();
    assert!(matches!(error, Error::NoFlush { wanted: 4, known: 3 }), "{error}");
    // In what is missing there may have been another one.
    make_gap(&mut world);
    world.settle();
    let error = lsn_at(&world, Point::BeforeFlush(1)).unwrap_err();
    assert!(matches!(error, Error::FlushOrGap { lsn, .. } if lsn.0 == before[2]), "{error}");
}

fn before_delete(world: &World) -> archive::Result<u64> {
    lsn_at(world, Point::BeforeDelete(WantedKey { database: 1, key: b"k".to_vec() }))
}

/// A key of database 1, which is emptied now and then, and the last block that has lost it.
struct Loser {
    world: World,
    /// The id of the database, and the next one.
    id: u64,
    next: u64,
    is_there: bool,
    lost: Option<u64>,
}

impl Loser {
    fn new(world: World) -> Self {
        Self { world, id: 1, next: 16, is_there: false, lost: None }
    }

    fn set(&mut self) {
        let db = DbId(self.id);
        self.world.database.put(&Record::whole(RecordKind::String, db, b"k", b"v", None));
        self.is_there = true;
        self.world.seal();
    }

    fn delete(&mut self) {
        self.world.database.put(&Record::key_deleted(DbId(self.id), b"k"));
        self.lose();
    }

    fn flush(&mut self) {
        (self.id, self.next) = (self.next, self.next + 1);
        let mut map = Vec::new();
        [self.next, 0, self.id].into_iter().for_each(|id| varint::put(&mut map, id));
        self.world.database.put(&Record::whole(RecordKind::Databases, DbId(0), b"", &map, None));
        self.lose();
    }

    fn lose(&mut self) {
        self.world.seal();
        if std::mem::take(&mut self.is_there) {
            self.lost = Some(self.world.database.last());
        }
    }

    /// What the archive must tell: the block before, or that it does not know.
    fn check(&mut self, what: &str) {
        self.world.settle();
        let first = self.world.picture().ranges[0].first.0;
        let found = before_delete(&self.world);
        match self.lost.filter(|lost| *lost > first) {
            Some(lost) => assert_eq!(found.unwrap(), lost - 1, "{what}"),
            None => assert!(matches!(found, Err(Error::NoDelete { database: 1, .. })), "{what}"),
        }
    }
}

#[test]
fn before_a_delete_is_the_block_before_the_one_that_has_lost_the_key() {
    let (mut copies, mut losses) = (0, 0);
    for seed in 0..8 {
        let mut loser = Loser::new(World::coded(seed, Coding::of_seed(seed)));
        loser.world.write();
        loser.world.settle();
        loser.check("nothing was lost");
        for round in 0..60 {
            match loser.world.rng.below(12) {
                0 | 1 => loser.set(),
                2 if loser.is_there => loser.delete(),
                3 => loser.flush(),
                _ => drop(seconds(&mut loser.world, 2)),
            }
            if round % 6 == 5 {
                loser.check(&format!("seed {seed}, round {round}"));
                losses += u64::from(loser.lost.is_some());
            }
        }
        copies += loser.world.list(Folder::Whole).len();
    }
    assert!(copies > 16 && losses > 40, "{copies} copies, {losses} losses");
}

#[test]
fn a_key_that_may_have_been_lost_in_a_gap_is_no_key_that_was_lost_before() {
    let mut loser = Loser::new(World::new(1));
    loser.world.write();
    loser.world.settle();
    loser.set();
    loser.delete();
    let lost = loser.lost.unwrap();
    loser.check("whole");
    make_gap(&mut loser.world);
    loser.world.settle();
    let error = before_delete(&loser.world).unwrap_err();
    assert!(matches!(error, Error::DeleteOrGap { lsn, .. } if lsn.0 == lost - 1), "{error}");
    loser.set();
    loser.delete();
    loser.check("behind the gap");
}

/// The block is known, and its state was given up: the nearest are told.
#[test]
fn a_key_that_was_lost_in_what_was_thinned_out_is_told_with_the_nearest_states() {
    let Old { world, times_ms } = {
        let mut old = Old::new(5, Coding::Plain);
        old.hours(2);
        old
    };
    let mut loser = Loser::new(world);
    loser.set();
    seconds(&mut loser.world, 3);
    loser.delete();
    seconds(&mut loser.world, 3);
    loser.check("whole");
    let lost = loser.lost.unwrap();
    let mut old = Old { world: loser.world, times_ms };
    old.hours(3);
    old.tidy("forever:hour");
    assert!(old.picture().chain(Lsn(lost - 1)).is_none());
    let error = before_delete(&old.world).unwrap_err();
    let (before, after) = old.picture().nearest(Lsn(lost - 1));
    assert!(
        matches!(error, Error::NotThere { lsn, before: b, after: a }
            if (lsn.0, b, a) == (lost - 1, before, after) && a.is_some()),
        "{error}"
    );
}

/// Of a key that was set again a leap does not tell that it was lost: an older loss is none to be sure of.
#[test]
fn a_key_that_may_have_been_lost_in_what_was_thinned_out_is_no_key_that_was_lost_before() {
    let Old { world, times_ms } = {
        let mut old = Old::new(5, Coding::Plain);
        old.hours(2);
        old
    };
    let mut loser = Loser::new(world);
    loser.set();
    loser.delete();
    loser.check("whole");
    let first = loser.lost.unwrap();
    let mut old = Old { world: loser.world, times_ms };
    old.hours(2);
    let mut loser = Loser::new(old.world);
    loser.set();
    loser.delete();
    let second = loser.lost.unwrap();
    loser.set();
    seconds(&mut loser.world, 1);
    loser.check("whole, and set again");
    let mut old = Old { world: loser.world, times_ms: old.times_ms };
    old.hours(3);
    old.tidy("forever:hour");
    assert!(old.picture().chain(Lsn(second)).is_none());
    let error = before_delete(&old.world).unwrap_err();
    assert!(
        matches!(error, Error::DeleteOrGap { lsn, before, .. }
            if lsn.0 == first - 1 && before.0 >= first && before.0 < second),
        "{error}"
    );
}

/// A target on which each open waits for another one for a while.
struct Slow {
    inner: archive::Keyed,
    /// How many are being opened, and at most were.
    opening: Mutex<(usize, usize)>,
    another: Condvar,
}

impl Target for Slow {
    fn open(&self, database: redo::Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let mut opening = self.opening.lock().unwrap();
        opening.0 += 1;
        opening.1 = opening.1.max(opening.0);
        self.another.notify_all();
        let wait = Duration::from_millis(20);
        let (mut opening, _) =
            self.another.wait_timeout_while(opening, wait, |(now, _)| *now < 2).unwrap();
        opening.0 -= 1;
        drop(opening);
        self.inner.open(database, name)
    }

    fn list(&self, database: redo::Id, folder: Folder) -> TargetResult<Vec<Name>> {
        self.inner.list(database, folder)
    }

    fn databases(&self) -> TargetResult<Vec<redo::Id>> {
        self.inner.databases()
    }

    fn put_new(&self, database: redo::Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        self.inner.put_new(database, name, bytes)
    }

    fn remove(&self, database: redo::Id, name: &Name) -> TargetResult<()> {
        self.inner.remove(database, name)
    }

    fn clean(&self, database: redo::Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.inner.clean(database, is_such)
    }
}

/// On a store each object is a call that waits: they are made several at a time, and not all at once.
#[test]
fn a_moment_is_looked_for_in_several_objects_at_a_time() {
    let mut loser = Loser::new(World::new(2));
    loser.world.write();
    loser.world.settle();
    loser.set();
    let blocks = seconds(&mut loser.world, 40);
    loser.delete();
    loser.world.settle();
    let disk: Arc<dyn env::Disk> = Arc::new(SimDisk::new(3, Faults::default()));
    for (point, expected) in [
        (Point::Time(blocks[20].1), Some(blocks[20].0)),
        (Point::BeforeFlush(1), None),
        (Point::BeforeDelete(WantedKey { database: 1, key: b"k".to_vec() }), loser.lost),
    ] {
        let (inner, opening) = (loser.world.target(), Mutex::default());
        let target = Slow { inner, opening, another: Condvar::new() };
        let threads = NonZero::new(16).unwrap();
        let (database, into, expiry) = (None, None, redo::Expiry::Absolute);
        let is_delete = matches!(point, Point::BeforeDelete(_));
        let keep_bytes = archive::KEEP_BYTES;
        let request =
            Request { target: &target, database, into, point, expiry, threads, keep_bytes };
        let found = archive::restore(&disk, &request, &mut SimEntropy::new(9), &mut |_| {});
        let most = target.opening.lock().unwrap().1;
        assert!((2..=8).contains(&most), "{most} at a time");
        let found = found.ok().map(|found| found.parent.lsn.0 + u64::from(is_delete));
        assert_eq!(found, expected);
    }
}

/// The configuration of a state is the one that applied then, in whatever process.
#[test]
fn a_state_has_the_configuration_of_its_time() {
    for coding in Coding::ALL {
        let mut world = World::coded(4, coding);
        let mut then = Vec::new();
        for (round, text) in
            ["hz 10\n", "hz 10\n", "hz 20\n", "", "hz 10\n"].into_iter().enumerate()
        {
            let next = Lsn(world.database.last() + 1);
            world.desk.tell_configuration(next, text.to_owned());
            world.archive();
            seconds(&mut world, 3);
            then.push((world.database.last(), text));
            if round % 2 == 1 {
                world.restart(false);
                world.archive();
            }
        }
        // What is there already is not put again.
        assert_eq!(world.list(Folder::Config).len(), 4);
        for (lsn, text) in then {
            let disk = SimDisk::new(3, Faults::default());
            let restored = restore_into(&disk, &world.target(), Point::Lsn(lsn)).unwrap();
            assert_eq!(restored.configuration.as_deref(), Some(text), "{coding:?}, block {lsn}");
        }
        let disk = SimDisk::new(3, Faults::default());
        let newest = *world.list(Folder::Config).last().unwrap();
        world.damage(&newest, false);
        // It is no reason not to restore the data.
        let restored = restore_into(&disk, &world.target(), Point::Latest).unwrap();
        assert_eq!(restored.configuration, None);
        assert!(restored.damage.unwrap().contains(&newest.to_string()));
        // A file that is changed often does not fill the target.
        for number in 0..100_u64 {
            world.desk.tell_configuration(Lsn(1000 + number), format!("hz {number}\n"));
            (0..3).for_each(|_| world.archive());
        }
        assert_eq!(world.list(Folder::Config).len(), 64);
    }
}

/// How the server was configured at the newest state, and what could not be read.
fn newest_configuration(world: &World) -> (Option<String>, Option<String>) {
    let disk = SimDisk::new(3, Faults::default());
    let restored = restore_into(&disk, &world.target(), Point::Latest).unwrap();
    assert_eq!(restored.parent.lsn.0, world.database.last());
    (restored.configuration, restored.damage)
}

fn tell_configuration(world: &mut World, text: &str) {
    let next = Lsn(world.database.last() + 1);
    world.desk.tell_configuration(next, text.to_owned());
    (0..3).for_each(|_| world.archive());
}

/// One in clear, where all is encrypted: anyone may have put it there.
#[test]
fn a_configuration_that_cannot_be_read_keeps_nothing_from_being_restored_or_archived() {
    let mut world = World::coded(4, Coding::Encrypted);
    world.write();
    world.settle();
    tell_configuration(&mut world, "hz 10\n");
    world.write();
    world.settle();
    let target = world.target();
    let database = archive::database_of(&target, None).unwrap();
    let name = Name::Config { lsn: Lsn(world.database.last()), writer: 1, number: 9 };
    target.put_new(database, &name, &archive::Header::new(database, name).encode()).unwrap();
    let (configuration, damage) = newest_configuration(&world);
    assert_eq!(configuration, None);
    assert!(damage.unwrap().contains(&name.to_string()));
    world.restart(false);
    tell_configuration(&mut world, "hz 20\n");
    world.write();
    world.settle();
    assert_eq!(world.desk.figures().state, archive::State::Streaming);
    assert_eq!(newest_configuration(&world), (Some("hz 20\n".to_owned()), None));
}

/// It is there, and the next one of the same block must be, too.
#[test]
fn a_configuration_of_which_nothing_is_heard_is_not_taken_for_the_next_one() {
    let mut world = World::new(4);
    world.write();
    world.settle();
    tell_configuration(&mut world, "hz 10\n");
    let before = world.list(Folder::Config).len();
    world.mood.lock().unwrap().lost_percent = 100;
    while world.list(Folder::Config).len() == before {
        tell_configuration(&mut world, "hz 20\n");
        world.clock.advance_us(60_000_000);
    }
    world.mood.lock().unwrap().lost_percent = 0;
    world.clock.advance_us(60_000_000);
    tell_configuration(&mut world, "hz 30\n");
    world.write();
    world.settle();
    assert_eq!(newest_configuration(&world).0.as_deref(), Some("hz 30\n"));
}

/// One that was told and of which no block was written, before another process has begun at that block.
#[test]
fn a_configuration_of_the_next_block_is_known_also_when_another_process_writes_it() {
    let mut world = World::new(4);
    tell_configuration(&mut world, "hz 10\n");
    world.write();
    world.settle();
    for _ in 0..3 {
        tell_configuration(&mut world, "hz 20\n");
        world.restart(false);
    }
    tell_configuration(&mut world, "hz 20\n");
    world.write();
    world.settle();
    assert_eq!(newest_configuration(&world).0.as_deref(), Some("hz 20\n"));
}

/// Up to its copy a restored log has what was needed then, and behind it every block: a start must know which, to miss one.
#[test]
fn a_restored_log_says_from_where_on_none_of_its_blocks_may_be_missing() {
    let mut world = World::new(3);
    for _ in 0..8 {
        world.write();
        world.settle();
    }
    let new = SimDisk::new(3, Faults::default());
    let point = Point::Lsn(world.database.last());
    let restored = restore_into(&new, &world.target(), point).unwrap();
    assert!(restored.base < restored.parent.lsn, "{restored:?}");
    let manifest = redo::manifest::Manifest::read(&new, Path::new(INTO)).unwrap().unwrap();
    assert_eq!(manifest.horizon, restored.base);
}
