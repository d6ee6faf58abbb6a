//! All keys, unasked.
//!
//! ```text
//!   Validity   one pass over the index: which records are needed        ─► Live
//!   Hint       which of these were hot before the start                 ─► Hot
//!   Hot        these, by segment                                        ─► Keys, Keys, … Hot
//!   Segments   one segment after the other, the newest first: all others ─► Keys, Keys, …
//!   Unread     if any: the index is asked for the names of keys in damage    ─► Lost, …
//!   Done
//! ```
//!
//! A value that comes takes room in memory, and those that come when there is none left stay in the log: so what
//! comes first is in memory in the end.
//!
//! A step is short: an index block, a block of the log, a large object at most.
//!
//! # What fails
//! An error of the disk is told, and the next step tries again. Of a segment that is damaged each key is
//! read by itself, so that only those are left out that lie in the damage. What the index knows of those is
//! told in the end ([`Comeback::Lost`]); a value of which only elements lie there stays in the log, and its
//! key comes. A hint that cannot be read is none. An index that the pass finds damaged, or in contradiction
//! to itself, is [`Comeback::Distrusted`]; one that turns out to be damaged later is built anew elsewhere.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, Lsn, Record, RecordAddr, SegmentId};
use env::Disk;
use indexing::{Known, ValidityPass, identity_of};
use keyspace::{RestoreError, Restored};
use logindex::{Hash96, HotHint, Index, Scope, ScopeRange};
use redo::{LiveRecords, LogBlock, SegmentScan};

use super::hot_walk::{HotStep, HotWalk};
use super::log_restorer::{LogRestorer, bad_record, lost_key, of_index, of_log};
use crate::engine::{Comeback, HotNews};

/// So many entries of the index are looked at in a step.
const PASS_ENTRIES: usize = 4096;

/// So many keys, or bytes of them, are handed over together.
const BATCH_KEYS: usize = 128;
const BATCH_BYTES: usize = 256 << 10;

/// What a step has done.
pub enum WarmStep {
    /// Something that the executor must know.
    Comeback(Comeback),
    /// Something.
    Worked,
    /// Nothing: there is nothing left to be done.
    Idle,
}

/// See the file's top. A step machine: a thread runs it in the product, a simulator interleaves it.
pub struct Warmup {
    restorer: LogRestorer,
    /// As it was at the start.
    index: Index,
    known: Known,
    /// What was there at the start, the oldest segment first.
    segments: Vec<SegmentId>,
    stage: Stage,
    /// Keys that are not handed over yet, and their bytes.
    keys: Vec<Restored>,
    bytes: usize,
    /// Records that are damaged, of what was not handed over.
    unread: HashSet<RecordAddr>,
    /// The keys of the segment that is being read that were taken.
    taken: HashSet<RecordAddr>,
    /// Where a hint may be of what was hot.
    hint: Option<HintPlace>,
    /// What has come because it was hot.
    came: LiveRecords,
}

/// Where the hint of what was hot is.
struct HintPlace {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    database: [u8; 16],
}

enum Stage {
    /// A pass that has failed, or is none yet, has to be begun.
    Validity(Option<Box<ValidityPass>>),
    Hint(Arc<LiveRecords>),
    Hot(Arc<LiveRecords>, Box<HotWalk>),
    Segments {
        live: Arc<LiveRecords>,
        reading: Reading,
    },
    /// In which databases names are still to be looked for.
    Unread(Vec<DbId>, Option<ScopeRange>),
    Done,
}

/// How a segment is read.
enum Reading {
    Nothing,
    Blocks(SegmentScan),
    /// It is damaged: these are left.
    Records(VecDeque<RecordAddr>),
}

impl Warmup {
    /// Of all that `index` knows of the log of `restorer`; its cut has told `known`. Reads nothing yet.
    #[must_use]
    pub fn new(restorer: LogRestorer, index: Index, known: &Known) -> Self {
        let mut segments = restorer.reader().segments();
        segments.reverse();
        Self {
            restorer,
            index,
            known: known.clone(),
            segments,
            stage: Stage::Validity(None),
            keys: Vec::new(),
            bytes: 0,
            unread: HashSet::new(),
            taken: HashSet::new(),
            hint: None,
            came: LiveRecords::new(),
        }
    }

    /// What a hint names that is in the `directory` of the index comes first.
    #[must_use]
    pub fn with_hint(
        mut self,
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        database: [u8; 16],
    ) -> Self {
        self.hint = Some(HintPlace { disk, directory, database });
        self
    }

    /// By it, what is read here is told to end.
    pub(super) fn restorer(&self) -> LogRestorer {
        self.restorer.another()
    }

    /// Does a step.
    ///
    /// # Errors
    /// When the log or the index cannot be read: the next step tries again.
    pub fn step(&mut self) -> Result<WarmStep, RestoreError> {
        match &mut self.stage {
            Stage::Validity(_) => self.pass_step(),
            Stage::Hint(_) => Ok(self.hint_step()),
            Stage::Hot(..) => self.hot_step(),
            Stage::Segments { .. } => self.segment_step(),
            Stage::Unread(..) => self.unread_step(),
            Stage::Done => Ok(WarmStep::Idle),
        }
    }

    fn pass_step(&mut self) -> Result<WarmStep, RestoreError> {
        let Stage::Validity(pass) = &mut self.stage else { return Ok(WarmStep::Idle) };
        let begin = || ValidityPass::new(&self.index, &self.known).map(Box::new);
        let stepped = pass.take().map_or_else(begin, Ok).and_then(|mut begun| {
            let found = begun.step(PASS_ENTRIES)?;
            *pass = Some(begun);
            Ok(found)
        });
        match stepped {
            Ok(None) => Ok(WarmStep::Worked),
            Ok(Some((live, counts))) => {
                let live = Arc::new(live);
                self.stage = Stage::Hint(Arc::clone(&live));
                Ok(WarmStep::Comeback(Comeback::Live(live, counts.expiring)))
            }
            Err(error) if error.is_final() => {
                self.stage = Stage::Done;
                Ok(WarmStep::Comeback(Comeback::Distrusted(error.to_string())))
            }
            Err(error) => Err(RestoreError::Io(error.to_string())),
        }
    }

    /// Looks which records were hot.
    fn hint_step(&mut self) -> WarmStep {
        let Stage::Hint(live) = &self.stage else { return WarmStep::Idle };
        let live = Arc::clone(live);
        match self.read_hint() {
            Ok(Some(hint)) => {
                let walk = HotWalk::new(&hint, &live);
                if walk.count() == 0 {
                    self.stage = Stage::Segments { live, reading: Reading::Nothing };
                    return WarmStep::Worked;
                }
                let news = HotNews::Begun(walk.count());
                self.stage = Stage::Hot(live, Box::new(walk));
                WarmStep::Comeback(Comeback::Hot(news))
            }
            Ok(None) => {
                self.stage = Stage::Segments { live, reading: Reading::Nothing };
                WarmStep::Worked
            }
            Err(why) => {
                self.stage = Stage::Segments { live, reading: Reading::Nothing };
                WarmStep::Comeback(Comeback::Hot(HotNews::OfNoUse(why.to_string())))
            }
        }
    }

    /// The hint, if there is one.
    fn read_hint(&self) -> logindex::Result<Option<HotHint>> {
        let Some(HintPlace { disk, directory, database }) = &self.hint else { return Ok(None) };
        let end = self.index.cut().unwrap_or(Lsn::ZERO);
        HotHint::read(&**disk, directory, *database, end)
    }

    fn hot_step(&mut self) -> Result<WarmStep, RestoreError> {
        if self.is_batch_full() {
            return Ok(self.hand_over());
        }
        let Stage::Hot(live, walk) = &mut self.stage else { return Ok(WarmStep::Idle) };
        match walk.step(&mut self.restorer, live)? {
            HotStep::Worked => {}
            HotStep::Block(block) => {
                for record in block.records() {
                    let taken = match record.map_err(|error| of_log(&error)) {
                        Ok((addr, record)) => self.take_hot(&record, addr),
                        Err(error) => Err(error),
                    };
                    if taken.is_err() {
                        // The walk is past this block.
                        self.with_walk(HotWalk::read_singly);
                        return taken.map(|()| WarmStep::Worked);
                    }
                }
            }
            HotStep::Record(addr, found) => {
                self.take_hot(&found.record(), addr)?;
                self.with_walk(HotWalk::pass);
            }
            HotStep::Over if !self.keys.is_empty() => return Ok(self.hand_over()),
            HotStep::Over => {
                let live = Arc::clone(live);
                self.stage = Stage::Segments { live, reading: Reading::Nothing };
                return Ok(WarmStep::Comeback(Comeback::Hot(HotNews::Done)));
            }
        }
        Ok(WarmStep::Worked)
    }

    fn with_walk(&mut self, action: impl FnOnce(&mut HotWalk)) {
        if let Stage::Hot(_, walk) = &mut self.stage {
            action(walk);
        }
    }

    /// Takes the record if it is hot, once.
    fn take_hot(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), RestoreError> {
        let is_hot = matches!(&self.stage, Stage::Hot(_, walk) if walk.has(addr));
        if is_hot && !self.came.contains(addr) {
            self.take(record, addr)?;
            if self.taken.remove(&addr) {
                self.came.insert(addr);
            }
        }
        Ok(())
    }

    fn is_batch_full(&self) -> bool {
        self.keys.len() >= BATCH_KEYS || self.bytes >= BATCH_BYTES
    }

    fn segment_step(&mut self) -> Result<WarmStep, RestoreError> {
        if self.is_batch_full() {
            return Ok(self.hand_over());
        }
        let Stage::Segments { live, reading } = &mut self.stage else { return Ok(WarmStep::Idle) };
        match reading {
            Reading::Nothing => match self.segments.pop() {
                Some(segment) => {
                    self.taken.clear();
                    *reading = Reading::Blocks(self.restorer.reader().scan(segment));
                }
                None if self.keys.is_empty() => {
                    let keys = self.known.keys().into_iter().flatten();
                    let dbs = keys.map(|(db, _)| db).filter(|_| !self.unread.is_empty()).collect();
                    self.stage = Stage::Unread(dbs, None);
                }
                None => return Ok(self.hand_over()),
            },
            Reading::Blocks(scan) => match scan.next().map_err(|error| of_log(&error)) {
                Ok(None) => *reading = Reading::Nothing,
                Ok(Some(block)) => {
                    let (live, segment) = (Arc::clone(live), scan.segment());
                    let taken = self.take_block(&block, &live);
                    if taken.is_err() {
                        // The scan is past this block. What has come of it does no harm a second time.
                        self.read_records(segment);
                    }
                    return taken;
                }
                Err(RestoreError::Corrupt(_)) => {
                    let segment = scan.segment();
                    self.read_records(segment);
                }
                Err(error) => return Err(error),
            },
            Reading::Records(left) => match left.front().copied() {
                None => *reading = Reading::Nothing,
                Some(addr) => {
                    match self.restorer.record(addr) {
                        Ok(Some(found)) => self.take(&found.record(), addr)?,
                        Err(RestoreError::Corrupt(_)) if !self.taken.contains(&addr) => {
                            self.unread.insert(addr);
                        }
                        Ok(None) | Err(RestoreError::Corrupt(_) | RestoreError::Unlisted(_)) => {}
                        Err(error) => return Err(error),
                    }
                    if let Stage::Segments { reading: Reading::Records(left), .. } = &mut self.stage
                    {
                        left.pop_front();
                    }
                }
            },
        }
        Ok(WarmStep::Worked)
    }

    /// Looks for the names of what is damaged.
    fn unread_step(&mut self) -> Result<WarmStep, RestoreError> {
        let Stage::Unread(dbs, range) = &mut self.stage else { return Ok(WarmStep::Idle) };
        let Some(db) = dbs.last().copied() else {
            self.stage = Stage::Done;
            return Ok(WarmStep::Comeback(Comeback::Done));
        };
        let begun = match range.take() {
            Some(entries) => Ok(entries),
            None => self.index.scope_range(Scope::database(db), Hash96::MIN),
        };
        let mut entries = match begun {
            Ok(entries) => entries,
            Err(error) => return Err(self.unlisted(error)),
        };
        let mut lost = Vec::new();
        for _ in 0..PASS_ENTRIES {
            let entry = match entries.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    dbs.pop();
                    return Ok(WarmStep::Comeback(Comeback::Lost(lost)));
                }
                Err(error) => return Err(self.unlisted(error)),
            };
            let place = entry.place().expect("ranges have what is there");
            if self.unread.contains(&place.addr()) {
                lost.push(lost_key(db, identity_of(entry.name.hash), place));
                if lost.len() == BATCH_KEYS {
                    break;
                }
            }
        }
        *range = Some(entries);
        Ok(match lost.is_empty() {
            true => WarmStep::Worked,
            false => WarmStep::Comeback(Comeback::Lost(lost)),
        })
    }

    /// The index cannot be read. If it is damaged, it is built anew, and the next time the newest one is
    /// asked, from the database's beginning on: what is told twice is lost once.
    fn unlisted(&mut self, error: logindex::Error) -> RestoreError {
        if let Some(index) = self.restorer.index().filter(|_| error.is_corrupt()) {
            self.index = index.get();
        }
        of_index(error)
    }

    /// Reads what is needed of a segment record by record.
    fn read_records(&mut self, segment: SegmentId) {
        if let Stage::Segments { live, reading } = &mut self.stage {
            let left = live.in_segment(segment).filter(|addr| !self.came.contains(*addr));
            *reading = Reading::Records(left.collect());
        }
    }

    fn hand_over(&mut self) -> WarmStep {
        self.bytes = 0;
        WarmStep::Comeback(Comeback::Keys(std::mem::take(&mut self.keys)))
    }

    fn take_block(
        &mut self,
        block: &LogBlock,
        live: &LiveRecords,
    ) -> Result<WarmStep, RestoreError> {
        for record in block.records() {
            let (addr, record) = record.map_err(|error| of_log(&error))?;
            if live.contains(addr) && !self.came.contains(addr) {
                self.take(&record, addr)?;
            }
        }
        Ok(WarmStep::Worked)
    }

    /// Takes a key, if the record is one's, and if it can be read.
    fn take(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), RestoreError> {
        let kind = record.kind;
        if kind.is_element() || kind.is_delete() || kind.is_of_no_database() {
            return Ok(());
        }
        let hasher = self.restorer.hasher();
        let begun = Restored::of(record, addr, hasher).map_err(bad_record);
        match begun.and_then(|begun| self.restorer.gather(begun)) {
            Ok(Some(restored)) => self.push(restored, addr),
            // An element of it is damaged.
            Err(RestoreError::Corrupt(_)) => {
                if let Ok(bare) = Restored::without_value(record, addr, hasher) {
                    self.push(bare, addr);
                }
            }
            // It was changed meanwhile, or cannot be found: asking for it tells.
            Ok(None) | Err(RestoreError::Unlisted(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn push(&mut self, restored: Restored, addr: RecordAddr) {
        self.taken.insert(addr);
        self.bytes += restored.bytes();
        self.keys.push(restored);
    }
}
