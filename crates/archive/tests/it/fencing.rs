//! One writer, and the right one.

use std::sync::{Arc, Mutex};

use archive::{Archiver, Desk, Folder, Name, Put, State, Target};
use base::Lsn;
use env::Clock as _;
use env_sim::SimDisk;

use crate::world::{Database, World, begin, log_options};

/// A process that was thought dead comes back: its successor has gone on.
#[test]
fn a_writer_that_comes_back_is_fenced_and_changes_nothing() {
    let mut fenced = 0;
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
        }
        world.settle();
        // The old one keeps its log and its archiver; the new one begins with a copy of the disk.
        let disk = copy_of(&world);
        let database = Database::open(&disk, &world.clock, log_options(seed), seed).unwrap();
        let (mut archiver, desk) =
            begin(&database, &world.target_disk, &world.clock, &world.mood, seed + 50);
        let mut new = database;
        archiver.step();
        assert_eq!(desk.figures().writer, world.desk.figures().writer + 1);
        let archived = world.desk.figures().archived;
        // Both go on; what the old one does from now on is in no ledger.
        let states = world.states.clone();
        let told = world.told.len();
        for number in 0..40_u64 {
            world.write();
            world.database.flush();
            world.clock.advance_us(300_000);
            world.archive();
            if number % 3 == 0 {
                new.set(b"new", number.to_string().as_bytes());
                new.flush();
                archiver.step();
            }
        }
        assert_eq!(world.desk.figures().state, State::Fenced, "seed {seed}");
        assert_eq!(world.desk.figures().archived, archived, "it tells nothing more");
        assert_eq!(world.told.len(), told);
        fenced += 1;
        go_on(&world, &mut new, (&mut archiver, &desk), 20);
        let last = desk.figures().archived.0;
        assert!(
            last > archived.0 && desk.figures().state == State::Streaming,
            "{:?}",
            desk.figures()
        );
        let found = crate::world::restored(&world.target(), last).unwrap();
        assert_eq!(found, new.keyspace.contents(), "seed {seed}");
        let before = crate::world::restored(&world.target(), archived.0).unwrap();
        assert_eq!(Some(&before), states.get(&archived.0));
    }
    assert_eq!(fenced, 12);
}

/// The log of another writer and its archiver go on.
fn go_on(
    world: &World,
    new: &mut Database,
    (archiver, desk): (&mut Archiver, &Desk),
    steps: usize,
) {
    for _ in 0..steps {
        world.clock.advance_us(300_000);
        new.log.tick();
        if desk.wants_mark()
            && let Some(mark) = new.log.mark()
        {
            desk.give_mark(mark, world.clock.now_ms());
        }
        archiver.step();
    }
}

pub(crate) fn copy_of(world: &World) -> SimDisk {
    let dirs = ["/data", "/disk0", "/disk1"].map(std::path::PathBuf::from);
    let dirs: Vec<_> = dirs.iter().map(std::path::PathBuf::as_path).collect();
    env_sim::sweep::disk_of(&env_sim::sweep::image_of(&world.disk, &dirs))
}

/// It is put before the blocks that would tell the writer that it is fenced.
#[test]
fn the_configuration_of_a_writer_that_comes_back_does_not_count() {
    let mut world = World::new(3);
    world.desk.tell_configuration(Lsn(1), "hz 10\n".to_owned());
    world.write();
    world.settle();
    let disk = copy_of(&world);
    let mut new = Database::open(&disk, &world.clock, log_options(3), 3).unwrap();
    let (mut archiver, desk) = begin(&new, &world.target_disk, &world.clock, &world.mood, 50);
    desk.tell_configuration(Lsn(new.last() + 1), "hz 20\n".to_owned());
    go_on(&world, &mut new, (&mut archiver, &desk), 8);
    for _ in 0..5 {
        world.write();
        world.database.flush();
    }
    let later = Lsn(world.database.last() + 1);
    world.desk.tell_configuration(later, "hz 30\n".to_owned());
    world.clock.advance_us(1_000_000);
    (0..4).for_each(|_| world.archive());
    assert_eq!(world.desk.figures().state, State::Fenced);
    let texts = world.list(Folder::Config);
    assert!(texts.contains(&Name::Config { lsn: later, writer: 1, number: 2 }), "{texts:?}");
    while new.last() <= later.0 {
        new.set(b"new", new.last().to_string().as_bytes());
        new.flush();
        go_on(&world, &mut new, (&mut archiver, &desk), 8);
    }
    let into = SimDisk::new(3, env_sim::Faults::default());
    let restored =
        crate::world::restore_into(&into, &world.target(), archive::Point::Latest).unwrap();
    assert_eq!(restored.parent.lsn.0, new.last());
    assert_eq!(restored.configuration.as_deref(), Some("hz 20\n"));
}

/// A target at which another archiver works just before a claim is put.
struct Meddling(archive::Keyed, Mutex<Option<Archiver>>);

impl Target for Meddling {
    fn put_new(&self, database: redo::Id, name: &Name, bytes: &[u8]) -> archive::TargetResult<Put> {
        if let Name::Writer { .. } = name
            && let Some(mut other) = self.1.lock().unwrap().take()
        {
            (0..5).for_each(|_| _ = other.step());
        }
        self.0.put_new(database, name, bytes)
    }
    fn open(
        &self,
        database: redo::Id,
        name: &Name,
    ) -> archive::TargetResult<Box<dyn archive::Object>> {
        self.0.open(database, name)
    }
    fn list(&self, database: redo::Id, folder: Folder) -> archive::TargetResult<Vec<Name>> {
        self.0.list(database, folder)
    }
    fn remove(&self, database: redo::Id, name: &Name) -> archive::TargetResult<()> {
        self.0.remove(database, name)
    }
    fn clean(
        &self,
        database: redo::Id,
        is_such: &dyn Fn(&Name) -> bool,
    ) -> archive::TargetResult<()> {
        self.0.clean(database, is_such)
    }
    fn databases(&self) -> archive::TargetResult<Vec<redo::Id>> {
        self.0.databases()
    }
}

/// The earlier writer sees no claim yet, and says so; the later one, which has looked already, must find it.
#[test]
fn what_is_archived_between_a_look_and_the_claim_behind_it_counts() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    for _ in 0..3 {
        world.write();
        world.database.flush();
    }
    world.clock.advance_us(300_000);
    let archived = world.desk.figures().archived;
    let disk = copy_of(&world);
    let new = Database::open(&disk, &world.clock, log_options(3), 3).unwrap();
    let (idle, _) = begin(&world.database, &world.target_disk, &world.clock, &world.mood, 60);
    let old = std::mem::replace(&mut world.archiver, idle);
    let target = Box::new(Meddling(world.target(), Mutex::new(Some(old))));
    let desk = Arc::new(archive::Desk::new(crate::world::archive_options()));
    let (reader, clock) = (new.log.reader(), world.clock.clone());
    let mut archiver = Archiver::new(reader, target, clock, Arc::clone(&desk), [1; 32]);
    archiver.step();
    assert_eq!(desk.figures().writer, world.desk.figures().writer + 1);
    let told = world.desk.figures().archived;
    assert_eq!((told.0, told > archived), (world.database.last(), true));
    assert!(world.picture().chain(told).is_some(), "{told} was told, and is hidden");
    let found = crate::world::restored(&world.target(), told.0).unwrap();
    assert_eq!(Some(&found), world.states.get(&told.0));
}

/// A copy of the data directory is started after a while: it must not push the right one out.
#[test]
fn an_old_copy_is_refused_before_it_claims() {
    let mut world = World::new(3);
    for _ in 0..10 {
        world.write();
        world.database.flush();
    }
    world.settle();
    let old = copy_of(&world);
    for _ in 0..10 {
        world.write();
        world.database.flush();
    }
    world.settle();
    let writer = world.desk.figures().writer;
    let mut database = Database::open(&old, &world.clock, log_options(3), 3).unwrap();
    let begin_old = |database: &Database| {
        let mood = Arc::default();
        let (mut archiver, desk) = begin(database, &world.target_disk, &world.clock, &mood, 9);
        archiver.step();
        desk.figures()
    };
    let figures = begin_old(&database);
    assert_eq!((figures.state, figures.writer), (State::Failed, 0));
    let error = figures.last_error.unwrap();
    assert!(
        error.contains("the archive ends with block") && error.contains("restore --latest"),
        "{error}"
    );
    // It has blocks of its own by then, which are not later than those of the archive.
    world.clock.jump_ms(-3_600_000);
    for number in 0..30_u64 {
        database.set(b"other", number.to_string().as_bytes());
        database.flush();
    }
    let figures = begin_old(&database);
    assert_eq!(figures.state, State::Failed);
    let error = figures.last_error.unwrap();
    assert!(error.contains("is another one in the archive than in the log"), "{error}");
    world.clock.jump_ms(3_600_000);
    world.write();
    world.settle();
    assert_eq!(world.desk.figures().writer, writer, "the right one has noticed nothing");
}

/// What is under the name of an object is not taken for it, nor replaced.
#[test]
fn an_object_that_is_there_and_is_another_one_ends_the_archive() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    let database = archive::database_of(&world.target(), None).unwrap();
    let (archived, writer) = (world.desk.figures().archived, world.desk.figures().writer);
    world.write();
    world.database.flush();
    let name = Name::Log { first: archived.next(), last: archived.next(), writer };
    assert_eq!(world.target().put_new(database, &name, b"another").unwrap(), Put::New);
    world.clock.advance_us(200_000);
    (0..3).for_each(|_| world.archive());
    let figures = world.desk.figures();
    assert_eq!((figures.state, figures.archived), (State::Failed, archived));
    let error = figures.last_error.unwrap();
    assert!(error.contains("is there already, and is not what this server writes"), "{error}");
    let object = world.target().open(database, &name).unwrap();
    assert_eq!(object.bytes().unwrap(), 7, "it is as it was");
}

/// What the target is on is not mounted any more, or the operator has emptied it.
#[test]
fn nothing_is_told_to_be_archived_without_the_claim() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    let database = archive::database_of(&world.target(), None).unwrap();
    let (archived, writer) = (world.desk.figures().archived, world.desk.figures().writer);
    let claim = Name::Writer { writer };
    world.target().remove(database, &claim).unwrap();
    for _ in 0..20 {
        world.write();
        world.database.flush();
        world.clock.advance_us(1_000_000);
        world.archive();
    }
    let figures = world.desk.figures();
    assert_eq!((figures.state, figures.archived), (State::Away, archived));
    let error = figures.last_error.unwrap();
    assert!(error.contains("the claim of this server is gone"), "{error}");
    // It is mounted again.
    world.target().put_new(database, &claim, b"").unwrap();
    world.settle();
    assert!(world.desk.figures().archived > archived);
    world.check(1);
}

#[test]
fn a_directory_that_is_not_there_is_not_made() {
    let world = World::new(3);
    let elsewhere = SimDisk::new(7, env_sim::Faults::default());
    let (mut archiver, desk) = begin(&world.database, &elsewhere, &world.clock, &Arc::default(), 9);
    archiver.step();
    assert_eq!(desk.figures().state, State::Away);
    let error = desk.figures().last_error.unwrap();
    assert!(error.contains("is not there; mount what it is on, or make it"), "{error}");
    let root = std::path::Path::new(crate::world::TARGET);
    assert!(!env::Disk::exists(&elsewhere, root).unwrap());
}

#[test]
fn numbers_of_writers_end() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    let database = archive::database_of(&world.target(), None).unwrap();
    let last = Name::Writer { writer: 9_999_999_999 };
    world.target().put_new(database, &last, b"").unwrap();
    let (mut archiver, desk) =
        begin(&world.database, &world.target_disk, &world.clock, &Arc::default(), 9);
    archiver.step();
    assert_eq!((desk.figures().state, desk.figures().writer), (State::Failed, 0));
    assert!(desk.figures().last_error.unwrap().contains("no later writer has a number"));
}

/// A copy has nothing that the log's block could be compared with: it may be of a log that went another way.
#[test]
fn a_chain_does_not_go_on_behind_what_was_not_compared() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    let before = world.picture();
    assert_eq!(before.last_log, None, "the last thing is a copy");
    world.restart(false);
    for _ in 0..50 {
        world.clock.advance_us(200_000);
        world.archive();
    }
    let figures = world.desk.figures();
    assert_eq!((figures.state, figures.archived.0), (State::Filling, before.ranges[0].last.0));
    assert_eq!(world.picture().ranges, before.ranges, "no copy of the same block is made");
    world.write();
    world.settle();
    let ranges = world.picture().ranges;
    assert_eq!(ranges[..ranges.len() - 1], before.ranges[..]);
    assert!(ranges.last().unwrap().first > before.ranges[0].last);
    world.check(1);
}

/// A step that never ends tells nothing itself.
#[test]
fn a_target_that_hangs_is_away_after_a_while() {
    struct Hanging(Mutex<std::sync::mpsc::Receiver<()>>, archive::Keyed);

    impl Target for Hanging {
        fn put_new(&self, _: redo::Id, _: &Name, _: &[u8]) -> archive::TargetResult<Put> {
            self.0.lock().unwrap().recv().unwrap_or_default();
            Ok(Put::Taken)
        }
        fn open(
            &self,
            database: redo::Id,
            name: &Name,
        ) -> archive::TargetResult<Box<dyn archive::Object>> {
            self.1.open(database, name)
        }
        fn list(&self, database: redo::Id, folder: Folder) -> archive::TargetResult<Vec<Name>> {
            // The step has begun.
            self.1.list(database, folder)
        }
        fn remove(&self, database: redo::Id, name: &Name) -> archive::TargetResult<()> {
            self.1.remove(database, name)
        }
        fn clean(
            &self,
            database: redo::Id,
            is_such: &dyn Fn(&Name) -> bool,
        ) -> archive::TargetResult<()> {
            self.1.clean(database, is_such)
        }
        fn databases(&self) -> archive::TargetResult<Vec<redo::Id>> {
            self.1.databases()
        }
    }

    let world = World::new(3);
    let (release, held) = std::sync::mpsc::channel();
    let desk = Arc::new(archive::Desk::new(crate::world::archive_options()));
    let target = Box::new(Hanging(Mutex::new(held), world.target()));
    let reader = world.database.log.reader();
    let mut archiver =
        archive::Archiver::new(reader, target, world.clock.clone(), Arc::clone(&desk), [1; 32]);
    let thread = std::thread::spawn(move || _ = archiver.step());
    // Until the step has begun it is not away, however late it is.
    let late_us = env::Clock::monotonic_us(&*world.clock) + 11_000_000;
    while desk.figures_at(late_us, base::Lsn(7)).state != State::Away {
        std::thread::yield_now();
    }
    let figures = desk.figures_at(late_us, base::Lsn(7));
    assert_eq!((figures.lag_blocks, figures.lag_ms), (7, 11_000));
    assert!(figures.last_error.unwrap().contains("has not answered for 11 seconds"));
    drop(release);
    thread.join().unwrap();
}

/// One object that cannot be read at the claim makes no gap.
#[test]
fn a_claim_whose_reading_fails_is_made_again() {
    for opens in 1.. {
        let mut world = World::new(2);
        world.write();
        world.settle();
        // Nothing is compacted: the last block can be compared.
        let go_on = |world: &mut World, rounds| {
            for _ in 0..rounds {
                world.clock.advance_us(1_000_000);
                world.database.log.tick();
                world.archive();
            }
        };
        for is_restarted in [false, true] {
            if is_restarted {
                world.restart(false);
                world.mood.lock().unwrap().opens_until_lost = opens;
            }
            for _ in 0..3 {
                world.write();
                world.database.flush();
            }
            go_on(&mut world, 100);
            assert_eq!(world.desk.figures().archived.0, world.database.last());
        }
        let ranges = world.picture().ranges;
        assert_eq!((ranges.len(), world.desk.figures().gaps), (1, 0), "{opens}: {ranges:?}");
        if world.mood.lock().unwrap().opens_until_lost > 0 {
            assert!(opens > 3, "a claim opens {} objects", opens - 1);
            return;
        }
        world.check(1);
    }
}
