//! A database of one scheme: how it starts, and how its keys come back.
//!
//! ```text
//!   slr     scan: all of the log ─► keyspace                                     then it is served
//!   ailir   tail: the log behind the tree's cut ─► tree    ─┐ served: all keys are cold
//!   silir   nothing                                        ─┼─► on demand: the executor reads the tree
//!   runs    tail: the log behind the index's cut ─► a run  ─┘   unasked: a thread; the executor installs
//! ```
//!
//! The keyspace, the log and the executor are the same in all of them, so what differs is what is
//! compared. For `runs` index, restorer and warm-up are the server's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use base::{DbId, ObjectId};
use env::{Clock, Disk};
use env_os::{OsClock, OsDisk, OsEntropy};
use indexing::LogIndex;
use keyspace::{ColdStart, KeyHasher, Keyspace, NoJournal, Restored};
use redo::{CompactionOptions, LiveRecords, Recovery, StartPoint, SyncPolicy, Waker};
use server::config::Config;
use server::engine::Comeback;
use server::load::{ColdLoad, IndexPlace, Shape, load, load_cold};
use server::restore::{WarmStep, Warmup};

use super::background::{Background, Ending};
use super::indexer::{TreeIndexer, Unindexed};
use super::journal::{Durable, LogJournal, TreeJournal};
use super::scheme::{Part, Scheme};
use super::tree::{Keeps, Traversal, Tree, TreeRestorer};
use crate::error::{Error, Result};

/// How often an indexer looks for new blocks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long it waits between two looks at whether one is due.
const IDLE_WAIT: Duration = Duration::from_millis(50);

/// Batches of keys that may wait for the executor.
const QUEUE_LEN: usize = 16;

/// The seed of a keyspace without a log.
const SEED: [u8; 16] = [7; 16];

/// What a database is, and where.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) scheme: Scheme,
    /// How many keys it has.
    pub(super) keys: u64,
    /// Memory for the pages of a tree.
    pub(super) pool_bytes: usize,
    /// Whether the log is compacted.
    pub(super) compacts: bool,
    /// Whether keys are restored unasked.
    pub(super) traverses: bool,
}

/// What the thread that restores has to say.
enum Came {
    Live(Arc<LiveRecords>),
    Keys(Vec<Restored>),
    Done,
}

/// See the file's top.
pub(super) struct Database {
    /// Dropped first: the thread behind it waits for room.
    came: Option<Receiver<Came>>,
    threads: Vec<Background>,
    /// What the executor works on.
    pub(super) keyspace: Keyspace<Box<dyn Durable>>,
    keys: u64,
    /// Records of the log that were read before anything was served.
    pub(super) records_read: u64,
}

/// Opens the log in `dir`, without reading it.
pub(super) fn open_log(dir: &Path, compacts: bool, waker: Waker) -> Result<Recovery> {
    let compaction = CompactionOptions { enabled: compacts, ..CompactionOptions::default() };
    let policy = SyncPolicy::Always;
    let options = redo::Options { policy, compaction, ..redo::Options::new(dir) };
    let disk = Arc::new(OsDisk);
    let env =
        redo::Env { disk, clock: Arc::new(OsClock::new()), entropy: Box::new(OsEntropy), waker };
    Recovery::open(env, options).map_err(of_log)
}

/// The options of the server's index.
pub(super) fn index_options() -> indexing::Options {
    let cut_bytes = Config::default().options().log.index_cut_bytes;
    indexing::Options { cut_bytes, ..indexing::Options::default() }
}

pub(super) fn of_log(error: redo::Error) -> Error {
    Error::engine("log")(&error)
}

pub(super) fn of_index(error: indexing::Error) -> Error {
    Error::engine("index")(&error)
}

fn shape() -> Shape {
    Shape::new(&Config::default().options(), OsClock::new().now_ms())
}

impl Database {
    /// Starts a database; `waker` is called when something has become durable or was restored.
    pub(super) fn open(place: &Place, waker: &Waker) -> Result<Self> {
        match place.scheme {
            Scheme::Slr => Self::scan(place, waker),
            Scheme::Ailir => Self::indexed(place, Part::Tree, Keeps::All, waker),
            Scheme::AilirNewest => Self::indexed(place, Part::Newest, Keeps::Newest, waker),
            Scheme::Silir => Self::tree_alone(place, waker),
            Scheme::Runs => Self::runs(place, waker),
        }
    }

    fn scan(place: &Place, waker: &Waker) -> Result<Self> {
        let recovery = open_log(&Part::Log.dir(&place.dir), place.compacts, Arc::clone(waker))?;
        let (keyspace, opened) = load(recovery, shape(), None, &mut |_| {}).map_err(of_log)?;
        let records_read = opened.summary.records;
        let journal: Box<dyn Durable> = Box::new(LogJournal::start(opened)?);
        let keyspace = keyspace.expect("there is no limit of memory").with_journal(journal);
        Ok(Self { came: None, threads: Vec::new(), keyspace, keys: place.keys, records_read })
    }

    /// A log and a tree that follows it.
    fn indexed(place: &Place, part: Part, keeps: Keeps, waker: &Waker) -> Result<Self> {
        let tree = Tree::open(&part.dir(&place.dir), keeps, place.pool_bytes)?;
        let mut recovery = open_log(&Part::Log.dir(&place.dir), false, Arc::clone(waker))?;
        let (cut, seed) = (tree.cut()?, recovery.hash_seed());
        recovery.note_durable(cut);
        let mut unindexed = Unindexed::new(Arc::clone(&tree), cut);
        let point = StartPoint { cut, next_object: ObjectId::NONE.next() };
        let opened = recovery.run_behind(point, &mut unindexed, &mut |_| {}).map_err(of_log)?;
        let records_read = unindexed.records();
        let reader = opened.log.reader();
        let mut indexer = TreeIndexer::new(reader, Arc::clone(&tree))?;
        let follow = move |ending: &Ending| {
            each_second(ending, |is_due| {
                if is_due {
                    indexer.index(&|| !ending.is_near())?;
                }
                Ok(false)
            })
        };
        let journal = Box::new(LogJournal::start(opened)?);
        let mut database = Self::cold(place, journal, seed, tree, waker)?;
        database.threads.push(Background::start("indexer", follow)?);
        database.records_read = records_read;
        Ok(database)
    }

    /// A tree and no log.
    fn tree_alone(place: &Place, waker: &Waker) -> Result<Self> {
        let tree = Tree::open(&Part::Tree.dir(&place.dir), Keeps::All, place.pool_bytes)?;
        let journal = Box::new(TreeJournal::new(Arc::clone(&tree))?);
        Self::cold(place, journal, SEED, tree, waker)
    }

    /// All keys are in a tree, and none is in memory.
    fn cold(
        place: &Place,
        journal: Box<dyn Durable>,
        seed: [u8; 16],
        tree: Arc<Tree>,
        waker: &Waker,
    ) -> Result<Self> {
        let hasher = KeyHasher::new(seed);
        let keys = vec![(DbId(0), place.keys)];
        let start = ColdStart { keys, databases_seen: 1, ..ColdStart::default() };
        let mut keyspace = Keyspace::new(NoJournal, seed, 1);
        keyspace.begin_cold(&start, Box::new(TreeRestorer::new(Arc::clone(&tree), hasher)));
        let mut traversal = Traversal::new(tree, hasher);
        let step = move || Ok(Some(traversal.step()?.map_or(Came::Done, Came::Keys)));
        Self::restored_by(place, keyspace.with_journal(journal), step, waker)
    }

    /// The server's index.
    fn runs(place: &Place, waker: &Waker) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let directory = Part::Index.dir(&place.dir);
        let mut recovery = open_log(&Part::Log.dir(&place.dir), place.compacts, Arc::clone(waker))?;
        let peeked = indexing::peek(&*disk, &directory, recovery.database().0).map_err(of_index)?;
        recovery.note_durable(peeked.durable());
        let believed = peeked.believe(recovery.horizon());
        let believed = believed.map_err(|why| Error::engine("index")(&why))?;
        let (options, directory) = (index_options(), &directory);
        let index = IndexPlace { disk: &disk, directory, options, is_parallel: true };
        let cold = load_cold(recovery, believed, shape(), &index, &mut |_| {}).map_err(of_index)?;
        let ColdLoad { keyspace, opened, index, mut warmup, .. } = cold;
        let records_read = opened.summary.records;
        let journal: Box<dyn Durable> = Box::new(LogJournal::start(opened)?);
        let step = move || warm(&mut warmup);
        let mut database = Self::restored_by(place, keyspace.with_journal(journal), step, waker)?;
        database.threads.push(Background::start("indexer", |ending| follow(index, ending))?);
        database.records_read = records_read;
        Ok(database)
    }

    /// A cold keyspace, and the thread that restores it with each `step`.
    fn restored_by(
        place: &Place,
        keyspace: Keyspace<Box<dyn Durable>>,
        mut step: impl FnMut() -> Result<Option<Came>> + Send + 'static,
        waker: &Waker,
    ) -> Result<Self> {
        let (mut came, mut threads) = (None, Vec::new());
        if place.traverses {
            let (sender, receiver) = sync_channel(QUEUE_LEN);
            let waker = Arc::clone(waker);
            let run = move |ending: &Ending| restore_all(&mut step, &sender, &waker, ending);
            threads.push(Background::start("restorer", run)?);
            came = Some(receiver);
        }
        Ok(Self { came, threads, keyspace, keys: place.keys, records_read: 0 })
    }

    /// Takes over some of what was restored. Returns whether there was something.
    pub(super) fn restore_some(&mut self) -> Result<bool> {
        let Some(came) = &self.came else { return Ok(false) };
        match came.try_recv() {
            Err(TryRecvError::Empty) => return Ok(false),
            Ok(Came::Live(live)) => self.keyspace.journal_mut().note_live(live)?,
            Ok(Came::Keys(keys)) => {
                keys.into_iter().for_each(|key| _ = self.keyspace.install(key));
            }
            Ok(Came::Done) | Err(TryRecvError::Disconnected) => {
                self.came = None;
                let keys = self.keyspace.end_cold();
                if keys > 0 {
                    return Err(Error::damaged(format!("{keys} keys were not restored")));
                }
            }
        }
        Ok(true)
    }

    /// How many keys are in memory.
    pub(super) fn restored(&self) -> u64 {
        self.keys - self.keyspace.cold_keys()
    }

    /// Whether all keys are in memory.
    pub(super) fn is_restored(&self) -> bool {
        !self.keyspace.is_cold()
    }
}

/// Says what `step` has to say, until it is done.
fn restore_all(
    step: &mut dyn FnMut() -> Result<Option<Came>>,
    sender: &SyncSender<Came>,
    waker: &Waker,
    ending: &Ending,
) -> Result<()> {
    while !ending.is_near() {
        let Some(came) = step()? else { continue };
        let is_last = matches!(came, Came::Done);
        // Without a receiver this is the end, too.
        if sender.send(came).is_err() || is_last {
            waker();
            return Ok(());
        }
        waker();
    }
    Ok(())
}

/// A step of the server's warm-up.
fn warm(warmup: &mut Warmup) -> Result<Option<Came>> {
    match warmup.step().map_err(|error| Error::engine("warm-up")(&error))? {
        WarmStep::Worked => Ok(None),
        WarmStep::Comeback(Comeback::Live(live, _)) => Ok(Some(Came::Live(live))),
        WarmStep::Comeback(Comeback::Keys(keys)) => Ok(Some(Came::Keys(keys))),
        WarmStep::Comeback(Comeback::Failed(why) | Comeback::Distrusted(why)) => {
            Err(Error::engine("warm-up")(&why))
        }
        WarmStep::Idle | WarmStep::Comeback(_) => Ok(Some(Came::Done)),
    }
}

/// Keeps the server's index.
fn follow(mut index: LogIndex, ending: &Ending) -> Result<()> {
    each_second(ending, |is_due| {
        let step = index.step(is_due).map_err(of_index)?;
        Ok(step == indexing::Step::Worked)
    })
}

/// Calls `step` again while it works, and with `true` once a second, until the end.
fn each_second(ending: &Ending, mut step: impl FnMut(bool) -> Result<bool>) -> Result<()> {
    let mut looked_at = Instant::now();
    while !ending.is_near() {
        let is_due = looked_at.elapsed() >= LOOK_EVERY;
        if is_due {
            looked_at = Instant::now();
        }
        if !step(is_due)? {
            std::thread::park_timeout(IDLE_WAIT);
        }
    }
    Ok(())
}
