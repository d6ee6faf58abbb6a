//! The dump of a mark that is merged with the last dump, step by step.
//!
//! ```text
//!   Waiting ─► Reading: blocks behind the last dump's, or all ─► Reducing ─► Merging: see `merging` ─► Done
//! ```
//!
//! Without a last dump that fits it is a dump of the whole log, of which the next one can be made. Source: Hourglass of
//! paper 004, whose snapshots hold what has changed, and whose full checkpoint is merged with the last one (its
//! Algorithm 2 and section 5.4); what has changed is told by the log instead of by bits (ADR 50).

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, Lsn};
use rdb::{Version, WriteError};
use redo::{Id, Mark, MarkReader};

use crate::companion::CompanionWriter;
use crate::dumper::{Dumper, Figures, ITEM_BYTES, STEP_BYTES};
use crate::error::{Error, LastError, Result};
use crate::last_dump::{LastDump, LastFile, WholeReason};
use crate::mark_dump::Step;
use crate::merging::Merging;
use crate::noted_target::NotedTarget;
use crate::old_dump::Old;
use crate::passing::Passing;
use crate::rdb_target::RdbTarget;
use crate::source::Sorted;
use crate::spill::SpillOptions;

/// What an hourglass dump was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HourglassFigures {
    /// The block of the dump that it was merged with; `None` if it was made of the whole log.
    pub last_lsn: Option<Lsn>,
    /// Why it was made of the whole log.
    pub whole: Option<WholeReason>,
    /// What was copied of the last dump, in bytes.
    pub copied_bytes: u64,
    /// How many records of the log it has.
    pub changed_records: u64,
    /// How many bytes the next dump needs of this one next to its file.
    pub companion_bytes: u64,
}

/// See the file's top.
pub struct HourglassDump<W> {
    stage: Stage<W>,
    log: Id,
    lsn: Lsn,
    databases: Vec<DbId>,
    version: Version,
    spill: SpillOptions,
    last: std::result::Result<Arc<LastDump>, WholeReason>,
    file: Option<LastFile>,
    figures: HourglassFigures,
    records_total: u64,
    records_done: u64,
    read_bytes: u64,
}

enum Stage<W> {
    Waiting(Mark, Box<Dumper<NotedTarget<W>>>),
    Reading(Box<MarkReader>, Box<Dumper<NotedTarget<W>>>),
    Reducing(Box<Reduced<W>>),
    Merging(Box<Merging<W>>),
    Done(Box<Merging<W>>),
    /// A step has failed.
    Failed,
}

struct Reduced<W> {
    sorted: Sorted,
    passing: Passing<NotedTarget<W>>,
    old: Option<Old>,
}

impl<W: Write> HourglassDump<W> {
    /// Begins a dump of `databases` as of `mark` into `target`, of this version, merged with the last dump if there is
    /// one that fits.
    ///
    /// # Errors
    /// When the file of what is noted cannot be made.
    pub fn new(
        mark: Mark,
        databases: &[DbId],
        (target, version): (RdbTarget<W>, Version),
        spill: SpillOptions,
        last: std::result::Result<Arc<LastDump>, WholeReason>,
    ) -> Result<Self> {
        let target = NotedTarget::new(target, CompanionWriter::create(&spill)?);
        let (log, lsn) = (mark.database(), Lsn::ZERO);
        let dumper = Dumper::new(databases, target, spill.clone());
        Ok(Self {
            stage: Stage::Waiting(mark, Box::new(dumper)),
            log,
            lsn,
            databases: databases.to_vec(),
            version,
            spill,
            last,
            file: None,
            figures: HourglassFigures::default(),
            records_total: 0,
            records_done: 0,
            read_bytes: 0,
        })
    }

    /// How many records were read, of how many.
    #[must_use]
    pub const fn progress(&self) -> (u64, u64) {
        (self.records_done, self.records_total)
    }

    /// How many bytes were read of the log and the last dump.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        let merging = match &self.stage {
            Stage::Merging(merging) | Stage::Done(merging) => merging.read_bytes(),
            _ => 0,
        };
        self.read_bytes + merging
    }

    /// What was dumped until now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        match &self.stage {
            Stage::Waiting(_, dumper) | Stage::Reading(_, dumper) => dumper.figures(),
            Stage::Reducing(reduced) => {
                let spilled_bytes = reduced.sorted.spilled_bytes();
                Figures { spilled_bytes, ..reduced.passing.figures }
            }
            Stage::Merging(merging) | Stage::Done(merging) => {
                let spilled_bytes = merging.spilled_bytes();
                Figures { spilled_bytes, ..merging.passing.figures }
            }
            Stage::Failed => Figures::default(),
        }
    }

    /// What it was made of until now.
    #[must_use]
    pub fn made_of(&self) -> HourglassFigures {
        match &self.stage {
            Stage::Merging(merging) | Stage::Done(merging) => HourglassFigures {
                copied_bytes: merging.merged.copied_bytes,
                companion_bytes: merging.passing.target.companion_bytes(),
                ..self.figures
            },
            _ => self.figures,
        }
    }

    /// Does some of it: a block of the log is read, or some keys are copied or passed on.
    ///
    /// # Errors
    /// When the log, the last dump, a spill file or the target fails; the dump is over then. After [`Error::Last`]
    /// another one without the last dump may be whole.
    ///
    /// # Panics
    /// After an error.
    pub fn step(&mut self) -> Result<Step> {
        let (stage, step) = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Waiting(mark, dumper) => match mark.read() {
                Ok(reader) => (self.begin(reader, dumper), Step::Worked),
                Err(mark) if mark.is_given_up() => return Err(Error::GivenUp),
                Err(mark) => (Stage::Waiting(mark, dumper), Step::Waiting),
            },
            Stage::Reading(reader, dumper) => (self.read(reader, dumper)?, Step::Worked),
            Stage::Reducing(reduced) => (reduce(reduced)?, Step::Worked),
            Stage::Merging(mut merging) => match merging.step() {
                Ok(true) => (Stage::Done(merging), Step::Done),
                Ok(false) => (Stage::Merging(merging), Step::Worked),
                Err(error) => return Err(self.doubted(error)),
            },
            Stage::Done(merging) => (Stage::Done(merging), Step::Done),
            Stage::Failed => panic!("a dump that has failed was continued"),
        };
        self.stage = stage;
        Ok(step)
    }

    /// Values that are not whole may be so because of the last dump, or of what was noted of it. If it is the log, a
    /// dump that is made of it alone says so.
    fn doubted(&self, error: Error) -> Error {
        let is_of_value = match &error {
            Error::Object { .. } => true,
            Error::Target(why) => matches!(why.downcast_ref(), Some(WriteError::Count { .. })),
            _ => false,
        };
        match &self.last {
            Ok(last) if is_of_value => {
                let why = LastError::Merged(Box::new(error));
                Error::Last { path: last.path.clone(), why }
            }
            _ => error,
        }
    }

    /// The mark is there: is the last dump of any use?
    fn begin(&mut self, mut reader: MarkReader, dumper: Box<Dumper<NotedTarget<W>>>) -> Stage<W> {
        self.lsn = reader.lsn();
        let opened = self.last.clone().and_then(|last| {
            let at = (self.log, self.lsn);
            let file = last.use_for(&*self.spill.disk, at, &self.databases, self.version)?;
            Ok((last, file))
        });
        match opened {
            Ok((last, file)) => {
                reader.show_after(last.lsn());
                self.figures.last_lsn = Some(last.lsn());
                self.file = Some(file);
            }
            Err(why) => {
                self.last = Err(why);
                self.figures.whole = Some(why);
            }
        }
        self.records_total = reader.record_count();
        Stage::Reading(Box::new(reader), dumper)
    }

    fn read(
        &mut self,
        mut reader: Box<MarkReader>,
        mut dumper: Box<Dumper<NotedTarget<W>>>,
    ) -> Result<Stage<W>> {
        let Some(block) = reader.next()? else {
            let (sorted, passing) = dumper.into_sorted()?;
            let validity = reader.into_validity();
            let old = match (&self.last, self.file.take()) {
                (Ok(last), Some(file)) => Some(Old::new(last, file, validity, &self.databases)?),
                _ => None,
            };
            return Ok(Stage::Reducing(Box::new(Reduced { sorted, passing, old })));
        };
        self.read_bytes += block.payload_bytes() as u64;
        self.records_done += block.valid_count();
        for (addr, record) in block.records() {
            dumper.record(addr, &record)?;
            self.figures.changed_records += 1;
        }
        Ok(Stage::Reading(reader, dumper))
    }

    /// Ends the file. Returns its target, to which everything is written and not synced, and what the next dump needs of
    /// this one when it is durable under `path`.
    ///
    /// # Errors
    /// When the target or the file of what is noted fails.
    ///
    /// # Panics
    /// Before [`HourglassDump::step`] has said that it is done.
    pub fn finish(self, path: PathBuf) -> Result<(W, LastDump)> {
        let Stage::Done(merging) = self.stage else { panic!("the dump is not complete") };
        let (target, last_object) = (merging.passing.target, merging.last_object);
        let (head_bytes, has_streams) = (target.head_bytes, target.has_streams);
        let (target, len, sum, companion) = target.finish()?;
        let Self { log, lsn, databases, version, .. } = self;
        let last = LastDump {
            path,
            len,
            sum,
            version,
            head_bytes,
            log,
            lsn,
            databases,
            last_object,
            has_streams,
            companion,
        };
        Ok((target, last))
    }
}

/// Merges some of what was sorted into fewer runs.
fn reduce<W: Write>(mut reduced: Box<Reduced<W>>) -> Result<Stage<W>> {
    let mut bytes = 0;
    while bytes < STEP_BYTES {
        match reduced.sorted.step()? {
            Some(merged) => bytes += ITEM_BYTES + merged,
            None => {
                let Reduced { sorted, passing, old } = *reduced;
                let merging = Merging::new(sorted.into_source()?, passing, old)?;
                return Ok(Stage::Merging(Box::new(merging)));
            }
        }
    }
    Ok(Stage::Reducing(reduced))
}
