//! The dump of a mark, step by step.

use redo::{Mark, MarkReader};

use crate::dumper::{Dumper, Figures};
use crate::error::{Error, Result};
use crate::target::Target;

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The mark is not made yet, or what it refers to is not durable yet.
    Waiting,
    /// Some of it was dumped.
    Worked,
    /// The target has everything.
    Done,
}

/// See the crate's essay.
pub struct MarkDump<T> {
    stage: Stage,
    dumper: Dumper<T>,
    records_total: u64,
    records_done: u64,
    read_bytes: u64,
}

enum Stage {
    Waiting(Mark),
    Reading(Box<MarkReader>),
    Merging,
    Done,
    /// A step has failed.
    Failed,
}

impl<T: Target> MarkDump<T> {
    /// Begins a dump of what was valid at `mark`.
    pub const fn new(mark: Mark, dumper: Dumper<T>) -> Self {
        Self {
            stage: Stage::Waiting(mark),
            dumper,
            records_total: 0,
            records_done: 0,
            read_bytes: 0,
        }
    }

    /// How many records were read, of how many.
    #[must_use]
    pub const fn progress(&self) -> (u64, u64) {
        (self.records_done, self.records_total)
    }

    /// How many bytes of blocks of the log were read.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// What was dumped until now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.dumper.figures()
    }

    /// The target, with all that it was given.
    pub fn into_target(self) -> T {
        self.dumper.into_target()
    }

    /// Does some of it: a block of the log is read, or some elements are passed on.
    ///
    /// # Errors
    /// When the log, the spill file or the target fails; the dump is over then.
    pub fn step(&mut self) -> Result<Step> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Waiting(mark) => match mark.read() {
                Ok(reader) => {
                    self.records_total = reader.record_count();
                    self.stage = Stage::Reading(Box::new(reader));
                    Ok(Step::Worked)
                }
                Err(mark) if mark.is_given_up() => Err(Error::GivenUp),
                Err(mark) => {
                    self.stage = Stage::Waiting(mark);
                    Ok(Step::Waiting)
                }
            },
            Stage::Reading(mut reader) => {
                let Some(block) = reader.next()? else {
                    self.dumper.finish_records()?;
                    self.stage = Stage::Merging;
                    return Ok(Step::Worked);
                };
                self.read_bytes += block.payload_bytes() as u64;
                for (addr, record) in block.records() {
                    self.dumper.record(addr, &record)?;
                    self.records_done += 1;
                }
                self.stage = Stage::Reading(reader);
                Ok(Step::Worked)
            }
            Stage::Merging => {
                let is_done = self.dumper.merge_step()?;
                self.stage = if is_done { Stage::Done } else { Stage::Merging };
                Ok(if is_done { Step::Done } else { Step::Worked })
            }
            Stage::Done => {
                self.stage = Stage::Done;
                Ok(Step::Done)
            }
            Stage::Failed => panic!("a dump that has failed was continued"),
        }
    }
}
