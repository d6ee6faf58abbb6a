//! The dump of a log that no server has open, step by step.

use base::SegmentId;
use redo::{StoredLog, StoredSegment};

use crate::dumper::{Dumper, Figures};
use crate::error::{Error, Result};
use crate::selection::Selected;
use crate::source::Source;
use crate::target::Target;

/// Reads the records that were selected, segment by segment, and passes keys on.
pub struct StoredDump<'a, T> {
    log: &'a StoredLog,
    selected: Selected,
    stage: Stage,
    dumper: Dumper<T>,
    records_done: u64,
}

enum Stage {
    Reading(Box<Source>, Option<Open>),
    Merging,
    Done,
    /// A step has failed.
    Failed,
}

/// The segment that is read.
struct Open {
    id: SegmentId,
    blocks: StoredSegment,
    /// The next record of it that is needed.
    needed: u32,
}

impl<'a, T: Target> StoredDump<'a, T> {
    /// Begins a dump of what was selected from `log`.
    ///
    /// REQUIRES: `dumper` has the databases of the selection.
    ///
    /// # Panics
    /// If the selection was used.
    pub fn new(log: &'a StoredLog, mut selected: Selected, dumper: Dumper<T>) -> Self {
        let needed = selected.needed.take().expect("a selection is dumped once");
        let dumper = dumper.taking_empty();
        Self {
            log,
            selected,
            stage: Stage::Reading(Box::new(needed), None),
            dumper,
            records_done: 0,
        }
    }

    /// How many records were read and keys passed on, of how many.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let keys: u64 = self.selected.sizes.iter().map(|(keys, _)| keys).sum();
        (self.records_done + self.figures().keys, self.selected.records + keys)
    }

    /// What was dumped until now; with what was spilled for the selection.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let figures = self.dumper.figures();
        Figures { spilled_bytes: figures.spilled_bytes + self.selected.spilled_bytes, ..figures }
    }

    /// The target, with all that it was given.
    pub fn into_target(self) -> T {
        self.dumper.into_target()
    }

    /// Does some of it: a block of the log is read, or some elements are passed on. Returns whether the
    /// target has everything.
    ///
    /// # Errors
    /// When the log, the spill file or the target fails; the dump is over then.
    ///
    /// # Panics
    /// After an error.
    pub fn step(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Reading(mut source, None) => match source.group()? {
                Some(group) => {
                    let id = u32::try_from(group.object.0).expect("as it was selected");
                    let (id, needed) = (SegmentId(id), next_of(&mut source)?);
                    let needed = needed.expect("a group has items");
                    let open = Open { id, blocks: self.log.segment(id)?, needed };
                    self.stage = Stage::Reading(source, Some(open));
                }
                None => {
                    self.dumper.finish_records()?;
                    self.stage = Stage::Merging;
                }
            },
            Stage::Reading(mut source, Some(open)) => {
                let open = self.read_block(&mut source, open)?;
                self.stage = Stage::Reading(source, open);
            }
            Stage::Merging => {
                let is_done = self.dumper.merge_step()?;
                self.stage = if is_done { Stage::Done } else { Stage::Merging };
            }
            Stage::Done => self.stage = Stage::Done,
            Stage::Failed => panic!("a dump that has failed was continued"),
        }
        Ok(matches!(self.stage, Stage::Done))
    }

    /// Reads a block of a segment; `None` when nothing more of it is needed.
    fn read_block(&mut self, source: &mut Source, mut open: Open) -> Result<Option<Open>> {
        let missing = |open: &Open| Error::Changed { segment: open.id, ordinal: open.needed };
        let block = open.blocks.next(self.selected.lsn)?.ok_or_else(|| missing(&open))?;
        for record in block.records() {
            let (addr, record) = record?;
            if addr.ordinal() < open.needed {
                continue;
            }
            if addr.ordinal() > open.needed {
                return Err(missing(&open));
            }
            self.dumper.record(addr, &record)?;
            self.records_done += 1;
            match next_of(source)? {
                Some(needed) => open.needed = needed,
                None => return Ok(None),
            }
        }
        Ok(Some(open))
    }
}

/// The next ordinal of the group.
fn next_of(source: &mut Source) -> Result<Option<u32>> {
    let Some((item, _)) = source.item()? else { return Ok(None) };
    let ordinal = item.order.and_then(|order| u32::try_from(order.major).ok());
    Ok(Some(ordinal.expect("as it was selected")))
}
