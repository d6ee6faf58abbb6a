//! The index of the log, stepped as the server's thread steps it, and compared with what is needed.
//!
//! ```text
//!   log-index no    what is left of an index is removed, before the log is read
//!             yes   Keeper ── step ──► LogIndex ──► runs on the same disk
//!                     │ a step fails: again · begin anew · give up, as `server::index_thread` does
//!                     └ compare: followed to the end of the log it says what `addresses` says
//! ```
//!
//! # What is judged
//! - An index that a start finds is of use: its cut is not above the end of the log, and no byte of
//!   it is damaged, unless a bit was turned or the device has lied.
//! - What is behind its cut is there: no block is refused as compacted.
//! - Followed to the end of the log, it knows every record that is needed, at its address, and no
//!   other; as many keys a database as the keyspace has; and every byte of its files is right.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, Lsn};
use env_sim::{SimDisk, SimEntropy};
use indexing::LogIndex;
use logindex::{Entry, HotHint, ScopeKind};
use redo::{Id, IndexBound, Reader, Step};

use crate::machine::data_dir;
use crate::run::{COLD_SEEDS, NARROW_SEEDS};

/// So many steps may fail before a cut is installed; then the index is given up.
const FAILURES_MAX: u32 = 10;

/// So many steps bring an index up to the end of any log here.
const CATCH_UP_STEPS: usize = 1_000_000;

/// Where the index is.
#[must_use]
pub(crate) fn index_dir() -> PathBuf {
    data_dir().join("index")
}

/// What an index is made like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexShape {
    cut_bytes: u64,
    cut_entries: usize,
    step_bytes: u64,
    block_bytes: u32,
    fan_in: usize,
    level_1_max: usize,
    newer_per_cent: u64,
    /// `log-index auto`: after so many steps the log is large, and an index is begun.
    rest_steps: Option<u64>,
}

impl IndexShape {
    /// Cuts every few blocks, and runs that are merged soon.
    pub(crate) const SMALL: Self = Self {
        cut_bytes: 60,
        cut_entries: 8,
        step_bytes: 40,
        block_bytes: 256,
        fan_in: 2,
        level_1_max: 2,
        newer_per_cent: 50,
        rest_steps: None,
    };

    /// Any shape of a small index.
    pub(crate) fn random(rng: &mut SimEntropy) -> Self {
        let mut few = |end| usize::try_from(rng.below(end)).expect("few");
        Self {
            cut_bytes: [20, 300, 3000][few(3)],
            cut_entries: [1, 10, 60][few(3)],
            step_bytes: [1, 50, 400][few(3)],
            block_bytes: [256, 512][few(2)],
            fan_in: 2 + few(3),
            level_1_max: 2 + few(2),
            newer_per_cent: [5, 25, 400][few(3)],
            rest_steps: None,
        }
    }

    pub(crate) fn options(self) -> indexing::Options {
        let runs = logindex::Options {
            block_bytes: self.block_bytes,
            fan_in: self.fan_in,
            level_1_max: self.level_1_max,
            newer_per_cent: self.newer_per_cent,
            newer_min_bytes: 0,
            cache_bytes: 2 << 10,
            step_entries: 9,
            chunk_bytes: 600,
            sync_bytes: 1 << 10,
            ..logindex::Options::default()
        };
        indexing::Options {
            cut_bytes: self.cut_bytes,
            cut_entries: self.cut_entries,
            step_bytes: self.step_bytes,
            runs,
        }
    }
}

/// What becomes of a run's index. It has chances of its own, so that a run without an index does not
/// depend on it.
#[derive(Debug, Clone)]
pub(crate) struct Fate {
    pub(crate) rng: SimEntropy,
    /// `log-index`, in the life that is or comes next.
    pub(crate) is_kept: bool,
    /// The next start may believe it.
    pub(crate) is_instant: bool,
    /// The keys do not fit into memory at the next start.
    pub(crate) is_narrow: bool,
    /// That is so at one in so many starts.
    pub(crate) narrow_one_in: Option<u64>,
    /// A bit of one of its files has turned in some life.
    pub(crate) is_damaged: bool,
}

/// Whether the run of this seed keeps an index in some lives: two of eight do.
#[must_use]
pub const fn has_index(seed: u64) -> bool {
    seed & 6 == 6
}

impl Fate {
    /// Of a run with this seed: and the shape of its index, if it has one.
    pub(crate) fn of_run(seed: u64) -> (Self, Option<IndexShape>) {
        let mut rng = SimEntropy::new(seed ^ 0x1de0_0f10);
        let mut shape = has_index(seed).then(|| IndexShape::random(&mut rng));
        if let Some(shape) = &mut shape
            && seed >= COLD_SEEDS
            && seed & 16 != 0
        {
            shape.rest_steps = Some(rng.below(400));
        }
        let fate = Self {
            rng,
            is_kept: shape.is_some(),
            is_instant: false,
            is_narrow: false,
            narrow_one_in: (shape.is_some() && seed >= NARROW_SEEDS).then_some(2),
            is_damaged: false,
        };
        (fate, shape)
    }

    /// Whether the keys do not fit into memory at this start.
    pub(crate) fn runs_short(&mut self) -> bool {
        self.narrow_one_in.is_some_and(|count| self.one_in(count))
    }

    /// One in so many times.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.rng.below(count) == 0
    }
}

/// Removes the index that a life with `log-index no` finds.
pub(crate) fn remove(disk: &SimDisk) -> redo::Result<()> {
    logindex::discard(disk, &index_dir()).map_err(as_log_error)
}

/// An error that keeps the server from starting.
fn as_log_error(error: logindex::Error) -> redo::Error {
    match error {
        logindex::Error::File(error) => error.into(),
        other => unreachable!("to remove an index reads none of it: {other}"),
    }
}

/// What was done in a life.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) cuts: u64,
    pub(crate) begun_anew: u64,
    pub(crate) given_up: u64,
    /// Hints of what is hot that were written.
    pub(crate) hints: u64,
}

/// See the file's top.
pub(crate) struct Keeper {
    disk: SimDisk,
    /// `None` once it was given up.
    index: Option<LogIndex>,
    cut: Lsn,
    failures: u32,
    /// It rests for so many steps.
    rest_steps: Option<u64>,
    bound: Arc<IndexBound>,
    /// A compaction ran when it was begun, and may have taken what it has to read.
    is_raced: bool,
    /// What may only be if the index or a file of the log was damaged, or the device has lied.
    suspicion: Option<String>,
    /// What is hot, and is not written.
    hot: Option<HotHint>,
    pub(crate) figures: Figures,
}

/// What must be found: by name, and how many keys each database has.
pub(crate) struct Expected {
    pub(crate) entries: Vec<Entry>,
    pub(crate) keys: BTreeMap<DbId, u64>,
}

impl Keeper {
    /// Opens the index of an opened log, before anything works on the log.
    pub(crate) fn open(
        disk: &SimDisk,
        reader: Reader,
        database: Id,
        seed: [u8; 16],
        shape: IndexShape,
    ) -> redo::Result<Self> {
        let (bound, shared) = (reader.index_bound(), Arc::new(disk.clone()));
        let opened =
            LogIndex::open(shared, &index_dir(), reader, database.0, seed, shape.options());
        let mut rest_steps = None;
        let (index, unusable) = match opened {
            Ok((mut index, unusable)) => {
                // Whether it rests, if no index is there, does not depend on what was wrong with one.
                if shape.rest_steps.is_some() && index.cut() == Lsn::ZERO && index.give_up().is_ok()
                {
                    rest_steps = shape.rest_steps;
                }
                (Some(index), unusable)
            }
            Err(error) if error.is_loss() => (None, Some(error.to_string())),
            Err(_) => {
                remove(disk)?;
                bound.lift();
                (None, None)
            }
        };
        Ok(Self {
            disk: disk.clone(),
            cut: index.as_ref().map_or(Lsn::ZERO, LogIndex::cut),
            index,
            failures: 0,
            rest_steps,
            bound,
            is_raced: false,
            // A start that was cut short has opened the log, and not come to the index.
            suspicion: unusable
                .filter(|why| !why.contains("while it was built"))
                .map(|why| format!("OF NO USE: {why}")),
            hot: None,
            figures: Figures::default(),
        })
    }

    /// Keeps an index that a start has opened, of the log with this bound.
    pub(crate) fn of(disk: &SimDisk, index: LogIndex, bound: Arc<IndexBound>) -> Self {
        Self {
            disk: disk.clone(),
            cut: index.cut(),
            bound,
            index: Some(index),
            failures: 0,
            rest_steps: None,
            is_raced: false,
            suspicion: None,
            hot: None,
            figures: Figures::default(),
        }
    }

    /// What readers have of it.
    pub(crate) fn published(&self) -> Option<logindex::Published> {
        self.index.as_ref().map(LogIndex::published)
    }

    /// Whether it is stepped.
    pub(crate) const fn is_kept(&self) -> bool {
        self.index.is_some() && self.rest_steps.is_none()
    }

    /// Takes what is hot, to be written when it steps next.
    pub(crate) fn found_hot(&mut self, hint: HotHint) {
        self.hot = Some(hint);
    }

    /// Writes what is hot. What fails is left: it is a hint.
    pub(crate) fn save_hot(&mut self) {
        let Some((index, hint)) = self.index.as_ref().zip(self.hot.take()) else { return };
        if index.save_hot(&hint).is_ok() {
            self.figures.hints += 1;
        }
    }

    /// Does something, and what follows if that fails.
    pub(crate) fn step(&mut self, may_look: bool) -> Step {
        self.save_hot();
        let Some(index) = &mut self.index else { return Step::Finished };
        if let Some(left) = &mut self.rest_steps {
            if *left > 0 {
                *left -= 1;
            } else if index.begin_anew().is_ok() {
                self.rest_steps = None;
                self.is_raced = self.bound.is_compacting();
                self.figures.begun_anew += 1;
            }
            return Step::Idle;
        }
        match index.step(may_look) {
            Ok(indexing::Step::Idle) => Step::Idle,
            Ok(indexing::Step::Worked) => {
                if index.cut() > self.cut {
                    (self.cut, self.failures) = (index.cut(), 0);
                    self.figures.cuts += 1;
                }
                Step::Worked
            }
            Err(error) => {
                self.failed(&error);
                Step::Worked
            }
        }
    }

    fn failed(&mut self, error: &indexing::Error) {
        let Some(index) = &mut self.index else { return };
        self.failures += 1;
        if error.is_final() && !std::mem::take(&mut self.is_raced) {
            self.suspicion.get_or_insert_with(|| format!("NOT TO BE FOLLOWED: {error}"));
        }
        if self.failures > FAILURES_MAX {
            self.figures.given_up += 1;
            // If that cannot be, nothing is compacted that the index does not know.
            let _removed = self.index.take().map(|mut index| index.give_up());
        } else if error.is_final() && index.begin_anew().is_ok() {
            self.is_raced = self.bound.is_compacting();
            self.figures.begun_anew += 1;
            self.cut = index.cut();
        }
    }

    /// What may only be if the index was damaged or the device has lied.
    pub(crate) fn take_suspicion(&mut self) -> Option<String> {
        self.suspicion.take()
    }

    /// Brings the index up to the end of the log, which must be at rest. Whether there is one, and it may come there:
    /// what the manifest is yet to be told of is not indexed.
    fn catch_up(&mut self) -> Result<bool, String> {
        self.failures = 0;
        if self.rest_steps.is_some() || self.bound.indexable() < Lsn::MAX {
            return Ok(false);
        }
        for _ in 0..CATCH_UP_STEPS {
            match self.step(true) {
                Step::Worked => {}
                Step::Finished => return Ok(false),
                Step::Idle => {
                    let index = self.index.as_mut().expect("it was stepped");
                    if index.cut() == index.read() {
                        return Ok(true);
                    }
                    index.cut_now();
                }
            }
        }
        Err("NEVER DONE: the index does not come to the end of the log".to_owned())
    }

    /// Follows the log to its end, and compares. Returns how many entries the index has, if there
    /// is one; with `is_damaged` it may have to be built anew.
    pub(crate) fn compare(
        &mut self,
        expected: &Expected,
        is_damaged: bool,
    ) -> Result<Option<u64>, String> {
        let mut is_again = false;
        loop {
            if !self.catch_up()? {
                return Ok(None);
            }
            let Some(index) = &mut self.index else { return Ok(None) };
            match look(index, &self.disk, expected) {
                Ok(wrong) => {
                    return wrong.map_or(Ok(Some(expected.entries.len() as u64)), |wrong| {
                        Err(format!("INDEX up to block {}: {wrong}", index.read()))
                    });
                }
                Err(error) if error.is_corrupt() && is_damaged && !is_again => {
                    is_again = true;
                    self.failed(&error.into());
                }
                Err(error) => return Err(format!("INDEX: it cannot be read: {error}")),
            }
        }
    }
}

/// What is wrong with an index that knows the whole log.
fn look(index: &LogIndex, disk: &SimDisk, expected: &Expected) -> logindex::Result<Option<String>> {
    let published = index.published().get();
    let mut pass = published.live_pass(index.known().judge())?;
    let mut found = BTreeMap::new();
    while !pass.step(100, &mut |entry: &Entry| _ = found.insert(entry.name, *entry))? {}
    let needed: BTreeMap<_, _> =
        expected.entries.iter().map(|entry| (entry.name, *entry)).collect();
    let names: BTreeSet<_> = found.keys().chain(needed.keys()).collect();
    for name in names {
        let (found, needed) = (found.get(name), needed.get(name));
        if found != needed {
            return Ok(Some(format!("{name:?} is alive at {found:?}, it is needed at {needed:?}")));
        }
    }
    let keys: BTreeMap<DbId, u64> = pass.counts().databases.iter().copied().collect();
    if keys != expected.keys {
        return Ok(Some(format!("keys by database {keys:?}, there are {:?}", expected.keys)));
    }
    for entry in &expected.entries {
        let probed = published.probe(entry.name)?;
        if probed != Some(*entry) {
            return Ok(Some(format!("{entry:?} is needed, a probe finds {probed:?}")));
        }
        if let ScopeKind::Object(id) = entry.name.scope.kind()
            && id >= index.known().next_object()
        {
            return Ok(Some(format!("{:?} is the next object", index.known().next_object())));
        }
    }
    logindex::verify(disk, &index_dir())?;
    Ok(None)
}
