//! Whether an index says what its log says, of a log that no server has open: nothing of either is changed.
//!
//! ```text
//!   log ── records ─┬─► Tail: what is behind the cut ──► index as a start has it ─┐
//!                   └─► Rebuilt: runs in a directory of their own ────────────────┴─► the same names, and places?
//! ```
//!
//! The log is read once, and both streams go by in the order of the names, so memory is bounded by what a
//! start by the index needs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr};
use env::Disk;
use logindex::{Entry, Indexer, LivePass, Name};
use redo::{Progress, Replay, StoredLog};

use crate::error::{Error, Result};
use crate::index::{Options, discard};
use crate::known::Known;
use crate::namer::Namer;
use crate::peek::{Unusable, peek};
use crate::tail::Tail;

/// Entries that are taken from a stream together.
const ENTRIES_AT_ONCE: usize = 4096;

/// What [`compare`] has found.
#[derive(Debug)]
pub struct Compared {
    /// The last block of the log.
    pub end: Lsn,
    /// Living entries of which index and log say the same.
    pub same: u64,
    /// Those of which they do not.
    pub different: u64,
    /// The first of these.
    pub first: Option<Difference>,
}

/// A name of which an index does not say what its log says.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// The name.
    pub name: Name,
    /// Where the index says that its newest record is.
    pub indexed: Option<RecordAddr>,
    /// Where it is.
    pub logged: Option<RecordAddr>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |addr: Option<RecordAddr>| addr.map_or("nowhere".to_owned(), |a| a.to_string());
        let (indexed, logged) = (at(self.indexed), at(self.logged));
        write!(f, "{:?} is at {logged} in the log, and at {indexed} by the index", self.name)
    }
}

/// Compares the index in `dir` with its log; what the log says is indexed in `scratch`, a directory of no other
/// use, whose files are removed again.
///
/// # Errors
/// When a start would not believe the index, one of both is damaged or cannot be read, or `scratch` cannot be
/// written.
pub fn compare(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    scratch: &Path,
    log: &StoredLog,
    options: Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Compared> {
    let (database, seed) = (log.database().0, log.hash_seed());
    let believed = peek(&**disk, dir, database)?.believe(log.horizon())?;
    let index = logindex::open(&**disk, dir, database, &options.runs)?.ok_or(Unusable::Missing)?;
    discard(&**disk, scratch)?;
    let indexer = Indexer::open(Arc::clone(disk), scratch, database, options.runs)?;
    let nothing = Tail::behind(Lsn::ZERO, Known::nothing(0), Namer::new(seed));
    let rebuilt = Rebuilt { tail: nothing, indexer, cut_entries: options.cut_entries, error: None };
    let mut both = Both { tail: believed.tail(seed), rebuilt };
    let end = log.read(both.tail.last_cut(), &mut both, progress)?.last_lsn;
    let Both { mut tail, mut rebuilt } = both;
    rebuilt.finish(end)?;
    tail.note_end(end);
    tail.note_start();
    let known = tail.known().clone();
    let index = tail.cut().map_or(index.clone(), |batch| index.with_batch(&batch));
    let logged = rebuilt.indexer.index().live_pass(rebuilt.tail.known().judge())?;
    let compared = Streams {
        indexed: Stream::new(index.live_pass(known.judge())?),
        logged: Stream::new(logged),
    }
    .compare(end, &known);
    drop(rebuilt);
    discard(&**disk, scratch)?;
    compared
}

/// What the log is read into.
struct Both {
    /// What a start by the index learns.
    tail: Tail,
    rebuilt: Rebuilt,
}

impl Replay for Both {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        self.tail.apply(record, addr, lsn, retired);
        if self.rebuilt.error.is_none()
            && let Err(error) = self.rebuilt.make_room(lsn)
        {
            self.rebuilt.error = Some(error);
        }
        self.rebuilt.tail.apply(record, addr, lsn, retired);
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.rebuilt.tail.rejected()
    }
}

/// An index of all that the log says.
struct Rebuilt {
    tail: Tail,
    indexer: Indexer,
    cut_entries: usize,
    /// Why it cannot be written: what is read is of no use then.
    error: Option<Error>,
}

impl Rebuilt {
    /// Writes what is waiting, if that is much and a block ends: the next record is of the block `lsn`.
    fn make_room(&mut self, lsn: Lsn) -> Result<()> {
        if lsn > self.tail.last() && self.tail.pending().1 >= self.cut_entries {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if let Some(batch) = self.tail.cut() {
            self.indexer.add(batch);
        }
        while self.indexer.step(self.tail.last())? == logindex::Step::Worked {}
        Ok(())
    }

    /// The log ends at `end`.
    fn finish(&mut self, end: Lsn) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)?;
        self.tail.note_end(end);
        self.tail.note_start();
        self.tail.note_built();
        self.write()
    }
}

/// The living entries of an index, one by one.
struct Stream {
    pass: LivePass,
    ahead: VecDeque<Entry>,
    is_over: bool,
}

impl Stream {
    fn new(pass: LivePass) -> Self {
        Self { pass, ahead: VecDeque::new(), is_over: false }
    }

    fn peek(&mut self) -> Result<Option<Entry>> {
        while self.ahead.is_empty() && !self.is_over {
            let ahead = &mut self.ahead;
            self.is_over =
                self.pass.step(ENTRIES_AT_ONCE, &mut |entry: &Entry| ahead.push_back(*entry))?;
        }
        Ok(self.ahead.front().copied())
    }

    fn take(&mut self, is_taken: bool) -> Option<RecordAddr> {
        let entry = if is_taken { self.ahead.pop_front() } else { None };
        entry.and_then(|entry| entry.place().map(|place| place.addr()))
    }
}

struct Streams {
    indexed: Stream,
    logged: Stream,
}

impl Streams {
    fn compare(mut self, end: Lsn, known: &Known) -> Result<Compared> {
        let mut compared = Compared { end, same: 0, different: 0, first: None };
        loop {
            let (indexed, logged) = (self.indexed.peek()?, self.logged.peek()?);
            let names = [indexed, logged].map(|entry| entry.map(|entry| entry.name));
            let Some(name) = names.into_iter().flatten().min() else { break };
            let is_same = indexed == logged;
            let [is_indexed, is_logged] = names.map(|found| found == Some(name));
            let (indexed, logged) = (self.indexed.take(is_indexed), self.logged.take(is_logged));
            if is_same {
                compared.same += 1;
            } else {
                compared.different += 1;
                compared.first.get_or_insert(Difference { name, indexed, logged });
            }
        }
        if compared.first.is_some() {
            return Ok(compared);
        }
        let counted: BTreeMap<_, _> = self.logged.pass.counts().databases.iter().copied().collect();
        for (db, known) in known.keys().into_iter().flatten() {
            let found = counted.get(&db).copied().unwrap_or_default();
            if found != known {
                return Err(Error::Miscounted { db: db.0, found, known });
            }
        }
        Ok(compared)
    }
}
