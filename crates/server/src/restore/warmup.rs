//! All keys, unasked.
//!
//! ```text
//!   Validity   one pass over the index: which records are needed        ─► Live
//!   Segments   one segment after the other, the newest first: its keys  ─► Keys, Keys, …
//!   Done
//!   between any two steps: a database that was emptied is listed        ─► Garbage, …, Listed
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use base::{DbId, RecordKind, SegmentId};
use indexing::{Known, ValidityPass};
use keyspace::{RestoreError, Restored};
use logindex::{Hash96, Scope, ScopeRange};
use redo::{LiveRecords, SegmentScan};

use super::log_restorer::{LogRestorer, bad_record, of_index, of_log};
use crate::engine::Comeback;

/// So many entries of the index are looked at in a step.
const PASS_ENTRIES: usize = 4096;

/// So many keys, or bytes of them, are handed over together.
const BATCH_KEYS: usize = 128;
const BATCH_BYTES: usize = 256 << 10;

/// See the file's top. A step machine: a thread runs it in the product, a simulator interleaves it.
pub struct Warmup {
    restorer: LogRestorer,
    /// What was there at the start, the oldest segment first.
    segments: Vec<SegmentId>,
    stage: Stage,
    /// Databases that were emptied and are still to be listed.
    dropped: VecDeque<DbId>,
    listing: Option<ScopeRange>,
}

enum Stage {
    Validity(Box<ValidityPass>),
    Segments { live: Arc<LiveRecords>, scan: Option<SegmentScan> },
    Done,
}

impl Warmup {
    /// Of the log and the index of `restorer`, whose cut has told `known`.
    ///
    /// # Errors
    /// When the log or the index cannot be read.
    pub fn new(restorer: LogRestorer, known: &Known) -> indexing::Result<Self> {
        let mut segments = restorer.reader().segments();
        segments.reverse();
        let pass = ValidityPass::new(restorer.index(), known)?;
        let (stage, dropped) = (Stage::Validity(Box::new(pass)), VecDeque::new());
        Ok(Self { restorer, segments, stage, dropped, listing: None })
    }

    /// What reads single keys by the same index.
    #[must_use]
    pub fn fetcher(&self) -> LogRestorer {
        self.restorer.another()
    }

    /// A database was emptied: what it held is to be listed.
    pub fn list(&mut self, db: DbId) {
        self.dropped.push_back(db);
    }

    /// Does a step. `None` in the end, until something is to be listed.
    ///
    /// # Errors
    /// When the log or the index cannot be read, or is damaged: nothing more comes.
    pub fn step(&mut self) -> Result<Option<Comeback>, RestoreError> {
        loop {
            if self.listing.is_some() || !self.dropped.is_empty() {
                return self.list_step().map(Some);
            }
            match &mut self.stage {
                Stage::Validity(pass) => {
                    let ended = pass.step(PASS_ENTRIES);
                    let ended = ended.map_err(|error| RestoreError::Io(error.to_string()))?;
                    if let Some((live, _)) = ended {
                        let live = Arc::new(live);
                        self.stage = Stage::Segments { live: Arc::clone(&live), scan: None };
                        return Ok(Some(Comeback::Live(live)));
                    }
                }
                Stage::Segments { .. } => return self.segment_step().map(Some),
                Stage::Done => return Ok(None),
            }
        }
    }

    fn list_step(&mut self) -> Result<Comeback, RestoreError> {
        let restorer = &self.restorer;
        let range = match &mut self.listing {
            Some(range) => range,
            none => {
                let db = self.dropped.pop_front().expect("seen by the caller");
                let range = restorer.index().scope_range(Scope::database(db), Hash96::MIN);
                none.insert(range.map_err(of_index)?)
            }
        };
        let Some(entry) = range.next().map_err(of_index)? else {
            self.listing = None;
            return Ok(Comeback::Listed);
        };
        let place = entry.place().expect("ranges have what is there");
        let elements = place.object().map(|object| restorer.elements(object)).transpose()?;
        Ok(Comeback::Garbage { addr: place.addr(), elements: elements.unwrap_or_default() })
    }

    fn segment_step(&mut self) -> Result<Comeback, RestoreError> {
        let Self { restorer, segments, stage, .. } = self;
        let Stage::Segments { live, scan } = stage else { return Ok(Comeback::Done) };
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while keys.len() < BATCH_KEYS && bytes < BATCH_BYTES {
            let Some(current) = scan else {
                let Some(segment) = segments.pop() else { break };
                *scan = Some(restorer.reader().scan(segment));
                continue;
            };
            let Some(block) = current.next().map_err(|error| of_log(&error))? else {
                *scan = None;
                continue;
            };
            for record in block.records() {
                let (addr, record) = record.map_err(|error| of_log(&error))?;
                let kind = record.kind;
                let is_key =
                    !kind.is_element() && !kind.is_delete() && kind != RecordKind::Databases;
                if !is_key || !live.contains(addr) {
                    continue;
                }
                let begun = Restored::of(&record, addr, restorer.hasher()).map_err(bad_record)?;
                if let Some(restored) = restorer.gather(begun)? {
                    bytes += restored.bytes();
                    keys.push(restored);
                }
            }
        }
        if keys.is_empty() {
            *stage = Stage::Done;
            return Ok(Comeback::Done);
        }
        Ok(Comeback::Keys(keys))
    }
}
