//! The indexer: sorts batches, writes and merges runs, publishes the manifest.
//!
//! ```text
//!   add ─► batches ─► sort ─► run of level 0 ─► pending ──────► manifest ─► Published
//!                                                  │ durable ≥ cut      ▲
//!                                                  └─ rule I            │
//!                        8 × level 0 ─► level 1 ┐                       │
//!                        everything ─► bottom   ┴─► merged ─────────────┘
//! ```
//!
//! A step machine: a thread runs it in the product, a simulator interleaves it. A step handles one
//! batch's sorting, or some thousand entries, or one chunk of a write, or one manifest. What is
//! installed goes first, then batches, then filters, then merges.
//!
//! **Errors.** A step that fails leaves everything as it was: a run that could not be written is
//! begun anew under another number, because after a failed sync nothing of a file can be trusted;
//! what could not be published is published again. A run that turns out to be damaged stops
//! merging, and nothing else: probes of other blocks are still right.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, Mutex};
use env::Disk;

use crate::cache::BlockCache;
use crate::damage::Damage;
use crate::delta::{Batch, Cut};
use crate::error::{Error, Result};
use crate::hot::HotHint;
use crate::index::{Index, discard, open_runs, remove_unnamed};
use crate::judge::Judge;
use crate::manifest::{FILE_NAME, Manifest};
use crate::merge_job::MergeJob;
use crate::options::Options;
use crate::run::{FilterLoad, Run, file_name};
use crate::run_format::Level;
use crate::run_writer::{Ended, Output, Target};
use crate::sort_key::SortKey;

/// The names whose order's memory is kept for the next batch.
const ORDER_KEPT: usize = 1 << 19;

/// The entries of a batch that are fetched together.
const GATHERED: usize = 128;

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something; there may be more to do at once.
    Worked,
    /// Nothing: wait for a batch, or until more of the log is durable.
    Idle,
}

/// The newest index, for every thread that reads it.
#[derive(Debug, Clone)]
pub struct Published {
    index: Arc<Mutex<Index>>,
}

impl Published {
    /// Returns the index as of the newest installed cut.
    #[must_use]
    pub fn get(&self) -> Index {
        self.index.lock().clone()
    }
}

/// A batch that is being written.
struct Writing {
    batch: Batch,
    /// How much of the order is written.
    at: usize,
    id: u64,
    output: Output,
}

/// A cut that is written, and not installed.
struct Pending {
    run: Option<Arc<Run>>,
    cut: Cut,
}

/// What merges are doing.
enum Merging {
    Idle,
    Running(Box<MergeJob>),
    /// The result is durable, and the manifest does not name it yet.
    Merged(Box<MergeJob>, Option<Arc<Run>>),
    /// A run is damaged.
    Halted,
}

/// Keeps the index up to date with the log.
pub struct Indexer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: Options,
    cache: Arc<BlockCache>,
    /// What is durably published, as far as is known.
    manifest: Manifest,
    index: Index,
    /// What readers of it have found.
    damage: Damage,
    published: Published,
    next_run: u64,
    batches: VecDeque<Batch>,
    writing: Option<Writing>,
    /// The order of the batch that is being written. Its memory is used again: to get as much from
    /// the system takes longer than to sort it.
    order: Vec<SortKey>,
    pending: VecDeque<Pending>,
    filter: Option<FilterLoad>,
    merging: Merging,
    /// Replaced runs that a reader may still have: the last one to let go of a file frees it, and
    /// that should be this thread.
    replaced: Vec<Arc<Run>>,
}

impl Indexer {
    /// Opens the index in `dir`, or begins an empty one, and removes files that are no part of it.
    ///
    /// Nothing is written before the first cut is installed. One indexer a directory: the owner of
    /// the database has the lock.
    ///
    /// # Errors
    /// Damage, a newer format, another database, or the error of the disk. The way out of the
    /// first three is [`crate::discard`], and to push everything again.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        database: [u8; 16],
        options: Options,
    ) -> Result<Self> {
        assert!(Options::is_block_size(options.block_bytes), "a power of two, 256 to 32768");
        disk.create_dir_all(dir).map_err(Error::io(dir, "create"))?;
        let manifest = Manifest::read(&*disk, dir)?.unwrap_or_else(|| Manifest::empty(database));
        if manifest.database != database {
            return Err(Error::OtherDatabase { path: dir.join(FILE_NAME) });
        }
        let runs = open_runs(&*disk, dir, &manifest)?;
        remove_unnamed(&*disk, dir, &manifest)?;
        let cache = Arc::new(BlockCache::new(options.cache_bytes, options.block_bytes));
        let cut = manifest.cut.as_ref().map(|cut| cut.lsn);
        let damage = Damage::default();
        let index = Index::new(runs, cut, cache.clone(), options.chunk_bytes, damage.clone());
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            options,
            cache,
            next_run: manifest.next_run,
            manifest,
            published: Published { index: Arc::new(Mutex::new(index.clone())) },
            filter: index.missing_filter(),
            index,
            damage,
            batches: VecDeque::new(),
            writing: None,
            order: Vec::new(),
            pending: VecDeque::new(),
            merging: Merging::Idle,
            replaced: Vec::new(),
        })
    }

    /// Changes how many bytes of blocks are kept in memory.
    pub fn set_cache_bytes(&mut self, bytes: u64) {
        if self.options.cache_bytes != bytes {
            self.options.cache_bytes = bytes;
            self.cache.set_budget(bytes);
        }
    }

    /// The handle by which other threads get the newest index.
    #[must_use]
    pub fn published(&self) -> Published {
        self.published.clone()
    }

    /// The index as of the newest installed cut.
    #[must_use]
    pub fn index(&self) -> Index {
        self.index.clone()
    }

    /// The newest installed cut. Segments of the log with later blocks must not be compacted.
    #[must_use]
    pub const fn installed_cut(&self) -> Option<&Cut> {
        self.manifest.cut.as_ref()
    }

    /// The cuts that were added and are not installed.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.batches.len() + usize::from(self.writing.is_some()) + self.pending.len()
    }

    /// Takes a batch. Its cut lies behind those of all batches before.
    ///
    /// # Panics
    /// If it does not.
    pub fn add(&mut self, batch: Batch) {
        assert!(batch.cut.lsn > self.last_cut(), "cuts ascend");
        assert!(batch.cut.lsn <= Lsn::MAX, "a block that no log reaches");
        self.batches.push_back(batch);
    }

    /// The last cut that was added.
    fn last_cut(&self) -> Lsn {
        self.batches.back().map_or_else(|| self.last_taken(), |batch| batch.cut.lsn)
    }

    /// The last cut that is written or being written.
    fn last_taken(&self) -> Lsn {
        self.writing.as_ref().map_or_else(|| self.last_written(), |writing| writing.batch.cut.lsn)
    }

    fn last_written(&self) -> Lsn {
        let installed = self.manifest.cut.as_ref().map_or(Lsn::ZERO, |cut| cut.lsn);
        self.pending.back().map_or(installed, |pending| pending.cut.lsn)
    }

    /// Replaces what is kept with the installed cut. No cut may be on its way.
    ///
    /// REQUIRES: `judge` is as of the cut, as it was when the batch was cut, or says more.
    ///
    /// # Errors
    /// The error of the disk; the old or the new state is kept then.
    ///
    /// # Panics
    /// Without an installed cut, or with a later one on its way.
    pub fn restate(&mut self, state: Vec<u8>, judge: Judge) -> Result<()> {
        assert_eq!(self.backlog(), 0, "a later cut would have another state");
        let lsn = self.manifest.cut.as_ref().expect("a cut is installed").lsn;
        self.publish(self.index.run_list().to_vec(), Some(Cut { lsn, state, judge }))
    }

    /// Makes this the hint of what is hot. What writes the index writes it, too, so that nothing in the
    /// directory has two writers.
    ///
    /// # Errors
    /// The error of the disk; the hint is then this or the one before.
    pub fn save_hot(&self, hint: &HotHint) -> Result<()> {
        hint.publish(&*self.disk, &self.dir, self.manifest.database)
    }

    /// Removes the index durably, and begins an empty one in its place.
    ///
    /// # Errors
    /// The error of the disk; then nothing has changed but that the manifest may be gone.
    pub fn begin_anew(&mut self) -> Result<()> {
        discard(&*self.disk, &self.dir)?;
        self.disk.create_dir_all(&self.dir).map_err(Error::io(&self.dir, "create"))?;
        // The numbers go on: a run that could not be removed is never taken for another one.
        let next_run = self.next_run;
        self.manifest = Manifest { next_run, ..Manifest::empty(self.manifest.database) };
        self.index = self.index_of(Vec::new(), None);
        *self.published.index.lock() = self.index.clone();
        self.batches.clear();
        self.pending.clear();
        self.order.clear();
        self.replaced.clear();
        (self.writing, self.filter, self.merging) = (None, None, Merging::Idle);
        Ok(())
    }

    /// Does some of what there is to do. `durable` is the last durable block of the log.
    ///
    /// # Errors
    /// Damage, also what readers have found, told once; or the error of the disk. Another step tries again
    /// what can be tried again.
    pub fn step(&mut self, durable: Lsn) -> Result<Step> {
        if let Some(error) = self.damage.confirm(self.index.run_list())? {
            return Err(error);
        }
        self.replaced.retain(|run| Arc::strong_count(run) > 1);
        if let Merging::Merged(..) = self.merging {
            self.install_merged()?;
        } else if self.pending.front().is_some_and(|pending| pending.cut.lsn <= durable) {
            self.install_cuts(durable)?;
        } else if self.writing.is_some() {
            self.write_some()?;
        } else if let Some(batch) = self.batches.pop_front() {
            batch.entries.sort(&mut self.order);
            self.writing = Some(Writing { batch, at: 0, id: 0, output: Output::Empty });
        } else if self.filter.is_some() {
            self.load_filter()?;
        } else {
            return self.merge_some();
        }
        Ok(Step::Worked)
    }

    fn index_of(&self, runs: Vec<Arc<Run>>, cut: Option<Lsn>) -> Index {
        let (cache, damage) = (self.cache.clone(), self.damage.clone());
        Index::new(runs, cut, cache, self.options.chunk_bytes, damage)
    }

    fn take_run_number(&mut self) -> u64 {
        self.next_run += 1;
        self.next_run - 1
    }

    /// Writes some entries of a batch, or some of the end of its run.
    fn write_some(&mut self) -> Result<()> {
        let Some(mut writing) = self.writing.take() else { return Ok(()) };
        if writing.at == 0 {
            writing.id = self.take_run_number();
        }
        match self.write_to(&mut writing) {
            Ok(Ended::Yes(run)) => {
                self.pending.push_back(Pending { run, cut: writing.batch.cut });
                self.order.truncate(ORDER_KEPT);
                self.order.shrink_to(ORDER_KEPT);
            }
            Ok(Ended::NotYet) => self.writing = Some(writing),
            Err(error) => {
                self.abandon(writing.id);
                (writing.at, writing.output) = (0, Output::Empty);
                self.writing = Some(writing);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_to(&self, writing: &mut Writing) -> Result<Ended> {
        if writing.at == self.order.len() {
            return writing.output.end(&*self.disk, &self.dir);
        }
        let target = Target {
            disk: &*self.disk,
            dir: &self.dir,
            options: &self.options,
            database: self.manifest.database,
            id: writing.id,
            after: self.last_written(),
            up_to: writing.batch.cut.lsn,
        };
        let to = self.order.len().min(writing.at + self.options.step_entries);
        let mut gathered = Vec::with_capacity(GATHERED);
        for keys in self.order[writing.at..to].chunks(GATHERED) {
            // They lie anywhere in the batch: fetched together, they are waited for together.
            gathered.extend(keys.iter().map(|key| writing.batch.entries[key.number() as usize]));
            for entry in gathered.drain(..) {
                writing.output.push(&entry, &target, Level::Zero)?;
            }
        }
        writing.at = to;
        Ok(Ended::NotYet)
    }

    /// Rule I: only cuts that are durable in the log are named by the manifest.
    fn install_cuts(&mut self, durable: Lsn) -> Result<()> {
        let count = self.pending.iter().take_while(|pending| pending.cut.lsn <= durable).count();
        let mut runs = self.index.run_list().to_vec();
        for pending in self.pending.iter().take(count) {
            runs.splice(0..0, pending.run.clone());
        }
        let cut = self.pending[count - 1].cut.clone();
        assert!(cut.lsn <= durable, "rule I");
        self.publish(runs, Some(cut))?;
        self.pending.drain(..count);
        Ok(())
    }

    /// Replaces runs by what was merged from them; the cut stays as it is.
    fn install_merged(&mut self) -> Result<()> {
        let Merging::Merged(job, merged) = &self.merging else { return Ok(()) };
        let mut runs = self.index.run_list().to_vec();
        let at = runs.iter().position(|run| run.info.id == job.runs[0].info.id);
        let at = at.expect("only a merge removes runs, and there is one at a time");
        runs.splice(at..at + job.runs.len(), merged.clone());
        self.publish(runs, self.manifest.cut.clone())?;
        let Merging::Merged(job, _) = std::mem::replace(&mut self.merging, Merging::Idle) else {
            unreachable!("it was so above");
        };
        for run in job.runs {
            // If that fails, the next start removes it.
            let _removed = self.disk.remove(&run.path);
            self.replaced.push(run);
        }
        Ok(())
    }

    /// Makes these runs the index, durably, then for readers.
    fn publish(&mut self, runs: Vec<Arc<Run>>, cut: Option<Cut>) -> Result<()> {
        let manifest = Manifest {
            database: self.manifest.database,
            next_run: self.next_run,
            cut,
            runs: runs.iter().map(|run| run.info).collect(),
        };
        // What is refused when it is read is never written.
        assert_eq!(manifest.check(), Ok(()));
        assert!(manifest.cut.as_ref().map(|cut| cut.lsn) >= self.index.cut());
        manifest.publish(&*self.disk, &self.dir)?;
        let cut = manifest.cut.as_ref().map(|cut| cut.lsn);
        self.index = self.index_of(runs, cut);
        self.manifest = manifest;
        let replaced = std::mem::replace(&mut *self.published.index.lock(), self.index.clone());
        drop(replaced);
        Ok(())
    }

    fn load_filter(&mut self) -> Result<()> {
        let Some(mut load) = self.filter.take() else { return Ok(()) };
        match load.step(self.options.chunk_bytes) {
            Ok(true) => self.filter = self.index.missing_filter(),
            Ok(false) => self.filter = Some(load),
            // Without the filter, probes read blocks.
            Err(error) if error.is_corrupt() => return Err(error),
            Err(error) => {
                self.filter = Some(load);
                return Err(error);
            }
        }
        Ok(())
    }

    fn merge_some(&mut self) -> Result<Step> {
        match std::mem::replace(&mut self.merging, Merging::Idle) {
            Merging::Halted => {
                self.merging = Merging::Halted;
                return Ok(Step::Idle);
            }
            Merging::Idle => {
                let Some(plan) = crate::merge_job::plan(&self.index, &self.options) else {
                    return Ok(Step::Idle);
                };
                let id = self.take_run_number();
                let judge = self.manifest.cut.as_ref().map(|cut| cut.judge.clone());
                let judge = judge.expect("runs are installed with a cut");
                match MergeJob::begin(plan, id, judge, self.options.chunk_bytes) {
                    Ok(job) => self.merging = Merging::Running(Box::new(job)),
                    Err(error) => {
                        self.merging = halted_by(&error);
                        return Err(error);
                    }
                }
            }
            Merging::Running(mut job) => {
                let stepped =
                    job.step(&*self.disk, &self.dir, &self.options, self.manifest.database);
                self.merging = match stepped {
                    Ok(Ended::NotYet) => Merging::Running(job),
                    Ok(Ended::Yes(run)) => Merging::Merged(job, run),
                    Err(error) => {
                        self.abandon(job.id);
                        self.merging = halted_by(&error);
                        return Err(error);
                    }
                };
            }
            merged @ Merging::Merged(..) => self.merging = merged,
        }
        Ok(Step::Worked)
    }

    /// Removes the file of a run that will not be finished, as far as the disk lets it.
    fn abandon(&self, id: u64) {
        // It may not have been created. The next start removes what stays.
        let _removed = self.disk.remove(&self.dir.join(file_name(id)));
    }
}

/// What an error means for merging: damage stops it, the rest is tried again.
const fn halted_by(error: &Error) -> Merging {
    if error.is_corrupt() { Merging::Halted } else { Merging::Idle }
}
