//! The index of a log, and the work that keeps it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use logindex::{Indexer, Published};
use redo::{IndexBound, Reader};

use crate::error::Result;
use crate::follower::{Followed, Follower};
use crate::known::Known;
use crate::namer::Namer;

/// So many batches may wait to be written before the log is read on.
const BACKLOG_MAX: usize = 2;

/// When to cut, and the shape of the index.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A cut is due when so many bytes of the log were read since the last one.
    pub cut_bytes: u64,
    /// Or so many entries: each takes 48 bytes until it is written.
    pub cut_entries: usize,
    /// About so many bytes of the log are read in a step.
    pub step_bytes: u64,
    /// The shape of the index.
    pub runs: logindex::Options,
}

impl Default for Options {
    fn default() -> Self {
        let runs = logindex::Options::default();
        Self { cut_bytes: 64 << 20, cut_entries: 1 << 19, step_bytes: 256 << 10, runs }
    }
}

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something; there may be more to do at once.
    Worked,
    /// Nothing: until more of the log is durable, or a compaction wants a cut, nothing is to be done.
    Idle,
}

/// See the file's top. A step machine: a thread runs it in the product, a simulator interleaves it.
pub struct LogIndex {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    database: [u8; 16],
    reader: Reader,
    namer: Namer,
    options: Options,
    /// The last block that was logged before this start.
    started_at: Lsn,
    bound: Arc<IndexBound>,
    follower: Follower,
    indexer: Indexer,
}

impl LogIndex {
    /// Opens the index in `dir` of the log that `reader` reads, or begins it. From here on the log
    /// compacts nothing that is not indexed. Call it before the log's compactor runs, and
    /// before anything is logged.
    ///
    /// An index that is of no use is begun anew: one that is damaged, of another database or of a
    /// newer program, or that knows more than the log. Returns why with it.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        reader: Reader,
        database: [u8; 16],
        seed: [u8; 16],
        options: Options,
    ) -> Result<(Self, Option<String>)> {
        let namer = Namer::new(seed);
        let bound = reader.index_bound();
        bound.set(Lsn::ZERO);
        let durable = reader.blocks(Lsn(1)).end();
        let opened = Indexer::open(Arc::clone(&disk), dir, database, options.runs);
        let usable = |indexer: &Indexer| {
            let Some((_, cut)) = Known::at(indexer.installed_cut()) else {
                return Err("a newer program has cut it".to_owned());
            };
            if cut > durable {
                return Err(format!("it knows the log up to block {cut}, which ends at {durable}"));
            }
            Ok(())
        };
        let (indexer, unusable) = match opened {
            Ok(indexer) => {
                let unusable = usable(&indexer).err();
                (Some(indexer), unusable)
            }
            Err(error) if is_of_no_use(&error) => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let indexer = match (indexer, &unusable) {
            (Some(indexer), None) => indexer,
            (indexer, _) => {
                drop(indexer);
                logindex::discard(&*disk, dir)?;
                Indexer::open(Arc::clone(&disk), dir, database, options.runs)?
            }
        };
        let follower = Follower::new(
            reader.another(),
            namer,
            indexer.installed_cut(),
            durable,
            options.step_bytes,
        );
        let follower = follower.expect("looked at above");
        let dir = dir.to_owned();
        let mut index = Self {
            disk,
            dir,
            database,
            reader,
            namer,
            options,
            started_at: durable,
            bound,
            follower,
            indexer,
        };
        index.raise_bound();
        Ok((index, unusable))
    }

    fn raise_bound(&mut self) {
        if let Some(cut) = self.indexer.installed_cut() {
            self.bound.set(cut.lsn);
        }
    }

    /// Does some of what there is to do. Looking for new blocks costs a look at every file of the log:
    /// only if `may_look`, or if a compaction wants a cut, a new look is begun.
    ///
    /// # Errors
    /// When the log or the index cannot be read or written. If [`crate::Error::is_final`], nothing goes on
    /// until [`LogIndex::begin_anew`]; otherwise another step tries again.
    pub fn step(&mut self, may_look: bool) -> Result<Step> {
        let mut step = Step::Idle;
        if self.indexer.backlog() < BACKLOG_MAX {
            if self.is_cut_due() {
                self.cut_now();
                step = Step::Worked;
            } else if (may_look || self.follower.is_reading() || self.is_cut_wanted())
                && self.follower.step()? == Followed::Some
            {
                step = Step::Worked;
            }
        }
        if self.indexer.step(self.follower.last())? == logindex::Step::Worked {
            step = Step::Worked;
            self.raise_bound();
        }
        Ok(step)
    }

    fn is_cut_due(&self) -> bool {
        let (bytes, entries) = self.follower.pending();
        bytes >= self.options.cut_bytes
            || entries >= self.options.cut_entries
            || (self.is_cut_wanted() && self.follower.last() >= self.bound.wanted())
    }

    /// Whether a compaction waits for a cut that is not on its way.
    fn is_cut_wanted(&self) -> bool {
        self.follower.last_cut() < self.bound.wanted()
    }

    /// Cuts behind what was read, if that is behind the last cut.
    pub fn cut_now(&mut self) {
        if let Some(batch) = self.follower.cut() {
            self.indexer.add(batch);
        }
    }

    /// Removes the index and begins it anew with the first block.
    ///
    /// # Errors
    /// The error of the disk; the index may be there still.
    pub fn begin_anew(&mut self) -> Result<()> {
        self.bound.set(Lsn::ZERO);
        logindex::discard(&*self.disk, &self.dir)?;
        let disk = Arc::clone(&self.disk);
        self.indexer = Indexer::open(disk, &self.dir, self.database, self.options.runs)?;
        let (reader, step_bytes) = (self.reader.another(), self.options.step_bytes);
        let follower = Follower::new(reader, self.namer, None, self.started_at, step_bytes);
        self.follower = follower.expect("there is no cut");
        Ok(())
    }

    /// Removes the index: the log may compact what it likes.
    ///
    /// # Errors
    /// The error of the disk; the log then goes on as if there were an index.
    pub fn give_up(self) -> Result<()> {
        drop((self.follower, self.indexer));
        logindex::discard(&*self.disk, &self.dir)?;
        self.bound.lift();
        Ok(())
    }

    /// The installed cut: up to this block the index knows the log. 0 for none.
    #[must_use]
    pub fn cut(&self) -> Lsn {
        self.indexer.installed_cut().map_or(Lsn::ZERO, |cut| cut.lsn)
    }

    /// The last block that was read.
    #[must_use]
    pub const fn read(&self) -> Lsn {
        self.follower.last()
    }

    /// What following the log has told.
    #[must_use]
    pub const fn known(&self) -> &Known {
        self.follower.known()
    }

    /// The handle by which other threads get the newest index.
    #[must_use]
    pub fn published(&self) -> Published {
        self.indexer.published()
    }
}

/// Whether the way out is to remove the index.
fn is_of_no_use(error: &logindex::Error) -> bool {
    match error {
        logindex::Error::OtherDatabase { .. } => true,
        logindex::Error::File(env::FileError::NewerFormat { .. }) => true,
        error => error.is_corrupt(),
    }
}
