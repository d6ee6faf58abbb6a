//! The records that were hot before the start, read before all others.
//!
//! ```text
//!   hint ∩ what is needed ─► segment, the newest first ─┬─ much of it is hot: its blocks, one after the other
//!                                                       └─ else, or if it is damaged: record by record
//! ```
//!
//! What cannot be read here is left to the pass over all segments, which knows what to do with damage. So
//! nothing depends on the hint but the order in which keys come.

use std::collections::VecDeque;

use base::{RecordAddr, SegmentId};
use keyspace::RestoreError;
use logindex::HotHint;
use redo::{FoundRecord, LiveRecords, LogBlock, SegmentScan};

use super::log_restorer::{LogRestorer, of_log};

/// A segment is read as a whole if one in so many of its records is hot: a block has a hundred, and to read it
/// record by record takes a call for each group.
const WHOLE_SHARE: u64 = 10;

/// See the file's top.
pub(super) struct HotWalk {
    /// What is hot and needed.
    hot: LiveRecords,
    /// Of each segment, how many are: the oldest first.
    segments: Vec<(SegmentId, u64)>,
    reading: Reading,
}

/// How a segment is read.
enum Reading {
    Nothing,
    Blocks(SegmentScan),
    /// These are left.
    Records(VecDeque<RecordAddr>),
}

/// What a step has found.
pub(super) enum HotStep {
    /// Nothing yet.
    Worked,
    /// A block: some of its records are hot.
    Block(LogBlock),
    /// A record. It comes again until it is passed.
    Record(RecordAddr, FoundRecord),
    /// Everything was read.
    Over,
}

impl HotWalk {
    /// Over what `hint` names and is `live` still.
    pub(super) fn new(hint: &HotHint, live: &LiveRecords) -> Self {
        let (mut hot, mut segments) = (LiveRecords::new(), Vec::new());
        for records in hint.records().chunk_by(|a, b| a.segment() == b.segment()) {
            let before = hot.count();
            hot.extend(records.iter().copied().filter(|addr| live.contains(*addr)));
            if hot.count() > before {
                segments.push((records[0].segment(), hot.count() - before));
            }
        }
        Self { hot, segments, reading: Reading::Nothing }
    }

    /// How many records are hot and needed.
    pub(super) const fn count(&self) -> u64 {
        self.hot.count()
    }

    /// Whether this record is hot.
    pub(super) fn has(&self, addr: RecordAddr) -> bool {
        self.hot.contains(addr)
    }

    /// Reads on. Errors of the disk may be tried again.
    pub(super) fn step(
        &mut self,
        restorer: &mut LogRestorer,
        live: &LiveRecords,
    ) -> Result<HotStep, RestoreError> {
        match &mut self.reading {
            Reading::Nothing => {
                let Some((segment, count)) = self.segments.pop() else { return Ok(HotStep::Over) };
                self.reading = if count * WHOLE_SHARE > live.count_in(segment) {
                    Reading::Blocks(restorer.reader().scan(segment))
                } else {
                    Reading::Records(self.hot.in_segment(segment).collect())
                };
            }
            Reading::Blocks(scan) => match scan.next().map_err(|error| of_log(&error)) {
                Ok(Some(block)) => return Ok(HotStep::Block(block)),
                Ok(None) => self.reading = Reading::Nothing,
                Err(RestoreError::Corrupt(_)) => self.read_singly(),
                Err(error) => return Err(error),
            },
            Reading::Records(left) => match left.front().copied() {
                None => self.reading = Reading::Nothing,
                Some(addr) => match restorer.record(addr) {
                    Ok(Some(found)) => return Ok(HotStep::Record(addr, found)),
                    Ok(None) | Err(RestoreError::Corrupt(_) | RestoreError::Unlisted(_)) => {
                        self.pass();
                    }
                    Err(error) => return Err(error),
                },
            },
        }
        Ok(HotStep::Worked)
    }

    /// The record that has come does not come again.
    pub(super) fn pass(&mut self) {
        if let Reading::Records(left) = &mut self.reading {
            left.pop_front();
        }
    }

    /// Reads the segment record by record, from its beginning.
    pub(super) fn read_singly(&mut self) {
        if let Reading::Blocks(scan) = &self.reading {
            let records = self.hot.in_segment(scan.segment()).collect();
            self.reading = Reading::Records(records);
        }
    }
}
