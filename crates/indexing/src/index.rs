//! The index of a log, and the work that keeps it.

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use logindex::{HotHint, Index, Indexer, Published};
use redo::{IndexBound, Reader};

use crate::counting::Counting;
use crate::error::{Error, Result};
use crate::follower::{Before, Followed, Follower};
use crate::known::Known;
use crate::namer::Namer;
use crate::peek::{Unusable, is_of_no_use, peek};
use crate::tail::Tail;
use crate::validity::ValidityPass;

/// Of what makes a cut due, one in so many parts is enough for one when a look finds nothing new.
const REST_SHARE: u64 = 8;

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
    reader: Reader,
    namer: Namer,
    options: Options,
    /// The last block that was logged before this start.
    started_at: Lsn,
    bound: Arc<IndexBound>,
    follower: Follower,
    indexer: Indexer,
    counting: Counting,
    /// Up to here a sync was asked for.
    requested: Lsn,
}

impl LogIndex {
    /// Opens the index in `dir` of the log that `reader` reads, or begins it. From here on the log
    /// compacts nothing that is not indexed. Call it before the log's compactor runs, and
    /// before anything is logged.
    ///
    /// An index that is of no use is begun anew: one that is damaged, or of another database or
    /// program, or that was not kept while it was built. Returns why with it.
    ///
    /// # Errors
    /// The error of the disk; or the index knows more than the log ([`Error::is_loss`]).
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        reader: Reader,
        database: [u8; 16],
        seed: [u8; 16],
        options: Options,
    ) -> Result<(Self, Option<String>)> {
        let (namer, bound, epoch) = (Namer::new(seed), reader.index_bound(), reader.epoch());
        bound.set(Lsn::ZERO);
        let started_at = reader.blocks(Lsn(1)).end();
        let peeked = peek(&*disk, dir, database)?;
        peeked.check_end(started_at)?;
        let open = || Indexer::open(Arc::clone(&disk), dir, database, options.runs);
        let opened = peeked.go_on(epoch).and_then(|known| match open() {
            Err(error) if is_of_no_use(&error) => Err(Unusable::Refused(error)),
            opened => Ok(opened.map(|indexer| (indexer, known))),
        });
        let (opened, unusable) = match opened {
            Ok(opened) => (opened.map_err(Error::unreadable(dir))?, None),
            Err(why) => {
                discard(&*disk, dir)?;
                ((open().map_err(Error::unreadable(dir))?, None), Some(why.to_string()))
            }
        };
        let (mut indexer, known) = opened;
        let cut = indexer.installed_cut().map_or(Lsn::ZERO, |cut| cut.lsn);
        let known = known.unwrap_or_else(|| Known::nothing(epoch));
        if known.building().is_some() && cut > Lsn::ZERO {
            // Before any compaction can run: the build has been there in this life of the log, too.
            indexer.restate(known.encode(), known.judge())?;
        }
        let tail = Tail::behind(cut, known, namer);
        let build = tail.known().building().map(|_| started_at);
        let before = Before { start: Some(started_at), build };
        let mut index = Self::with(reader, namer, options, indexer, tail, started_at, before);
        index.raise_bound();
        Ok((index, unusable))
    }

    /// Goes on with the index in `dir`, which `indexer` has opened, of a log that was opened behind its
    /// cut, with the tail that recovery has read. Call it before the log's compactor runs, and before anything is logged.
    ///
    /// Returns with it what knows all of the log at once, from memory. The first steps write and install
    /// that; if the process ends before, the next start reads the tail again.
    ///
    /// # Errors
    /// The log ends before the cut.
    ///
    /// # Panics
    /// If the index has been written since it was looked at.
    pub fn open_with(
        mut indexer: Indexer,
        dir: &Path,
        reader: Reader,
        seed: [u8; 16],
        options: Options,
        mut tail: Tail,
    ) -> Result<(Self, Index)> {
        let bound = reader.index_bound();
        bound.set(Lsn::ZERO);
        let started_at = reader.blocks(Lsn(1)).end();
        let cut = indexer.installed_cut().map_or(Lsn::ZERO, |cut| cut.lsn);
        assert_eq!(cut, tail.last_cut(), "the index is locked with the log");
        if cut > started_at {
            return Err(Error::AheadOfLog { dir: dir.to_owned(), cut, end: started_at });
        }
        tail.note_end(started_at);
        tail.note_start();
        bound.note_before(tail.pending().0);
        bound.note_unfinished(tail.known().unfinished_starts(reader.epoch()));
        let mut whole = indexer.index();
        if let Some(batch) = tail.cut() {
            whole = whole.with_batch(&batch);
            indexer.add(batch);
        }
        let (namer, before) = (Namer::new(seed), Before::default());
        let mut index = Self::with(reader, namer, options, indexer, tail, started_at, before);
        index.raise_bound();
        Ok((index, whole))
    }

    fn with(
        reader: Reader,
        namer: Namer,
        options: Options,
        indexer: Indexer,
        tail: Tail,
        started_at: Lsn,
        before: Before,
    ) -> Self {
        let follower = Follower::new(reader.another(), tail, before, options.step_bytes);
        Self {
            bound: reader.index_bound(),
            reader,
            namer,
            options,
            started_at,
            follower,
            indexer,
            counting: Counting::default(),
            requested: Lsn::ZERO,
        }
    }

    fn raise_bound(&mut self) {
        if let Some(cut) = self.indexer.installed_cut() {
            self.bound.set(cut.lsn);
            let known = Known::decode(&cut.state);
            self.bound.set_believed(known.is_some_and(|known| known.can_start()));
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
        self.note_garbage_known();
        if self.waits_for_count() {
            step = self.prepare_count()?;
        } else if self.indexer.backlog() < BACKLOG_MAX {
            if self.is_cut_due() {
                self.cut_now();
                step = Step::Worked;
            } else if may_look || self.follower.is_reading() || self.is_cut_wanted() {
                match self.follower.step()? {
                    Followed::Some => step = Step::Worked,
                    Followed::All => {
                        self.request_sync();
                        if self.has_much_at_rest() {
                            self.cut_now();
                            step = Step::Worked;
                        }
                    }
                }
            }
        }
        if self.indexer.step(self.read())? == logindex::Step::Worked {
            step = Step::Worked;
            self.raise_bound();
        }
        if self.counting.is_running() {
            self.count()?;
            step = Step::Worked;
        }
        if step == Step::Idle && self.restate()? {
            step = Step::Worked;
        }
        Ok(step)
    }

    /// A start that ends before it is known what is garbage compacts nothing; the next one learns that this
    /// was none of those.
    fn note_garbage_known(&mut self) {
        let epoch = self.reader.epoch();
        let known = self.follower.tail_mut().known_mut();
        if self.bound.is_garbage_known() && known.note_garbage_known(epoch) {
            self.cut_now();
        }
    }

    /// Whether nothing may be read before a pass has begun that counts the keys.
    fn waits_for_count(&self) -> bool {
        !self.counting.is_running() && self.known().wants_count()
    }

    /// Begins the pass, once all that was read is installed: what it counts is then as of the last
    /// block that was read.
    fn prepare_count(&mut self) -> Result<Step> {
        if self.follower.tail().last_cut() < self.read() {
            self.cut_now();
        } else if self.cut() == self.read() {
            self.counting = Counting::begin(&self.indexer.index(), self.known().judge())?;
            self.follower.tail_mut().known_mut().begin_count();
        } else {
            return Ok(Step::Idle);
        }
        Ok(Step::Worked)
    }

    fn count(&mut self) -> Result<()> {
        let counted = self.counting.step(self.options.runs.step_entries);
        let known = self.follower.tail_mut().known_mut();
        match counted {
            Ok(Some(counts)) => {
                known.note_counted(&counts);
                // It is to be known at the next start, too.
                self.cut_now();
            }
            Ok(None) => {}
            Err(error) => {
                known.abandon_count();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Keeps with the installed cut what is known, if that has changed and nothing else has: the start
    /// is over, or the keys were counted. Returns whether it had.
    fn restate(&mut self) -> Result<bool> {
        let Some(cut) = self.indexer.installed_cut() else { return Ok(false) };
        let state = self.known().encode();
        if cut.lsn != self.read() || cut.state == state {
            return Ok(false);
        }
        let judge = self.known().judge();
        self.indexer.restate(state, judge)?;
        self.raise_bound();
        Ok(true)
    }

    fn is_cut_due(&self) -> bool {
        let (bytes, entries) = self.follower.tail().pending();
        bytes >= self.options.cut_bytes
            || entries >= self.options.cut_entries
            || (self.is_cut_wanted() && self.read() >= self.bound.wanted())
    }

    /// Asks for the sync that a wanted cut waits for. With `appendfsync no` nothing else does on a log
    /// at rest: of several devices one may have older blocks that are not durable.
    fn request_sync(&mut self) {
        let wanted = self.bound.wanted();
        if self.is_cut_wanted() && self.read() < wanted && self.requested < wanted {
            self.reader.request_sync(wanted);
            self.requested = wanted;
        }
    }

    /// Whether a start would have much to read, and the log has come to rest.
    fn has_much_at_rest(&self) -> bool {
        let (bytes, _) = self.follower.tail().pending();
        bytes > self.options.cut_bytes / REST_SHARE
    }

    /// Whether a compaction waits for a cut that is not on its way.
    fn is_cut_wanted(&self) -> bool {
        self.follower.tail().last_cut() < self.bound.wanted()
    }

    /// Cuts behind what was read, if that is behind the last cut.
    pub fn cut_now(&mut self) {
        if let Some(batch) = self.follower.tail_mut().cut() {
            self.indexer.add(batch);
        }
    }

    /// Changes what it may have in memory: blocks of the index, and entries that are not written yet.
    pub fn set_memory(&mut self, cache_bytes: u64, cut_entries: usize) {
        self.options.cut_entries = cut_entries;
        self.options.runs.cache_bytes = cache_bytes;
        self.indexer.set_cache_bytes(cache_bytes);
    }

    /// Makes this the hint of what is hot, for the next start.
    ///
    /// # Errors
    /// The error of the disk; the hint before may be there still.
    pub fn save_hot(&self, hint: &HotHint) -> Result<()> {
        Ok(self.indexer.save_hot(hint)?)
    }

    /// Removes the index and begins it anew with the first block, also after [`LogIndex::give_up`].
    ///
    /// A compaction that was ordered before may still drop deletions of what the build has read: then a
    /// step says so ([`crate::Error::is_final`]), and it is begun anew once more.
    ///
    /// # Errors
    /// The error of the disk; then the index goes on as it was, as far as it can.
    pub fn begin_anew(&mut self) -> Result<()> {
        self.bound.set(Lsn::ZERO);
        self.bound.set_believed(false);
        self.indexer.begin_anew()?;
        // A compaction that still runs may take a deletion that the build has not read yet. In this life that
        // is noticed; a start after it goes on with no such build, which epoch 0 says.
        let epoch = if self.bound.is_compacting() { 0 } else { self.reader.epoch() };
        let tail = Tail::behind(Lsn::ZERO, Known::nothing(epoch), self.namer);
        let reader = self.reader.another();
        // Compactions have taken what the index before knew: here, too, roots are behind their elements. And
        // those that still run take what was superseded by blocks that need not be durable yet.
        let build = Some(reader.blocks(Lsn(1)).end().max(self.bound.ordered()));
        let before = Before { start: Some(self.started_at), build };
        self.follower = Follower::new(reader, tail, before, self.options.step_bytes);
        self.counting = Counting::default();
        Ok(())
    }

    /// Removes the index: the log may compact what it likes. It is not stepped again, unless it is begun anew.
    ///
    /// # Errors
    /// The error of the disk; the log then goes on as if there were an index, but no writer waits for it.
    pub fn give_up(&mut self) -> Result<()> {
        self.bound.set_believed(false);
        self.indexer.begin_anew()?;
        self.bound.lift();
        Ok(())
    }

    /// How large the log is.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.bound.log_bytes()
    }

    /// The installed cut: up to this block the index knows the log. 0 for none.
    #[must_use]
    pub fn cut(&self) -> Lsn {
        self.indexer.installed_cut().map_or(Lsn::ZERO, |cut| cut.lsn)
    }

    /// The last block that was read.
    #[must_use]
    pub const fn read(&self) -> Lsn {
        self.follower.tail().last()
    }

    /// What following the log has told, as of the last block that was read.
    #[must_use]
    pub const fn known(&self) -> &Known {
        self.follower.tail().known()
    }

    /// Begins a pass that finds what is live at the installed cut.
    ///
    /// # Errors
    /// When the index cannot be read, or is damaged.
    pub fn validity_pass(&self) -> Result<ValidityPass> {
        let cut = self.indexer.installed_cut();
        let known = cut.map_or_else(|| Some(Known::nothing(0)), |cut| Known::decode(&cut.state));
        let known = known.expect("it was read or written by this program");
        ValidityPass::new(&self.indexer.index(), &known)
    }

    /// The handle by which other threads get the newest index.
    #[must_use]
    pub fn published(&self) -> Published {
        self.indexer.published()
    }
}

/// Removes the index in `dir`, durably.
///
/// # Errors
/// The error of the disk, and what to do.
pub fn discard(disk: &dyn Disk, dir: &Path) -> Result<()> {
    logindex::discard(disk, dir).map_err(Error::unreadable(dir))
}
