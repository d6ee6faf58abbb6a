//! One dump as a step machine.
//!
//! ```text
//!   Beginning ─► Dumping ─► Over          each step: a block of the log, some elements, or the end
//! ```

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{DbId, Lsn};
use dump::{
    Dumper, HourglassDump, LastDump, MarkDump, RdbTarget, SpillOptions, Step, WalkDump, WholeReason,
};
use env::{Clock, Disk};
use rdb::WriteOptions;
use redo::Mark;

use super::child::ChildDump;
use super::desk::{Desk, SaveFigures, Ticket};
use super::error::{SaveError, SaveResult};
use super::feed::Fed;
use super::file_sink::FileSink;
use super::last_dumps::LastDumps;
use super::pace::Pace;
use super::predecessor::{Kept, Predecessor};
use super::sink::Sink;

/// What is to be dumped, and how.
pub(crate) struct SaveJob {
    /// The disk with the file and what is spilled.
    pub(crate) disk: Arc<dyn Disk>,
    /// What is dumped.
    pub(crate) source: SaveSource,
    /// The last block that the dump shows; 0 without a log.
    pub(crate) lsn: Lsn,
    /// Of each database, how many keys it has, and how many of them expire: a hint for what loads the dump.
    pub(crate) sizes: Vec<(u64, u64)>,
    /// The sources of the libraries of functions; a child has its own.
    pub(crate) libraries: Vec<Arc<[u8]>>,
    /// Where to.
    pub(crate) target: SaveTarget,
    /// In which form.
    pub(crate) options: WriteOptions,
    /// What the file says of itself: names and values.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Where large values are sorted.
    pub(crate) spill: SpillOptions,
    /// What tells how fast it is.
    pub(crate) clock: Arc<dyn Clock>,
    /// How many bytes a second it may read of the log, sort on disk and write; 0 for no bound.
    pub(crate) bytes_per_s: u64,
    /// The end of the server waits for it.
    pub(crate) is_urgent: bool,
}

/// Where a dump comes from.
pub(crate) enum SaveSource {
    /// The log, as of a mark, and the databases then.
    Log(Mark, Vec<DbId>),
    /// The same, and the dump before: what has not changed since is copied. Into a file only.
    Hourglass(Mark, Vec<DbId>, LastDumps),
    /// A walk of memory, whose chunks come from the executor.
    Walk(Fed),
    /// A child process, which sends what [`super::child::dump_into`] writes.
    Child(Box<dyn Read + Send>),
}

/// Where a dump goes.
pub(crate) enum SaveTarget {
    /// Into a file.
    File {
        /// Its name.
        path: PathBuf,
        /// Its name until it is complete, in the same directory.
        temporary: PathBuf,
        /// Whether it is synced while it grows.
        syncs_early: bool,
        /// What it replaces.
        before: Predecessor,
    },
    /// To whatever has the ticket.
    Ticket,
}

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaverStep {
    /// Some of the dump.
    Worked,
    /// Nothing: what it dumps is not durable yet, its client has not taken what there is, or it is ahead of its rate.
    Idle,
    /// The dump is over.
    Finished,
}

/// See the file's top.
pub struct Saver {
    desk: Arc<Desk>,
    lsn: Lsn,
    /// What is removed unless the dump is completed.
    temporary: Option<(Arc<dyn Disk>, PathBuf)>,
    pace: Pace,
    is_urgent: bool,
    stage: Stage,
    result: Option<SaveResult>,
    /// A walk of memory had to wait for it, and may go on.
    has_made_room: bool,
}

enum Stage {
    Beginning(Box<SaveJob>),
    Dumping(Dumping),
    Over,
}

enum Dumping {
    Log(Box<MarkDump<RdbTarget<Sink>>>),
    /// With where it goes.
    Hourglass(Box<HourglassDump<Sink>>, LastDumps, PathBuf),
    Walk(Fed, Box<WalkDump<RdbTarget<Sink>>>),
    Child(Box<ChildDump>),
}

impl Dumping {
    fn step(&mut self) -> Result<Step, SaveError> {
        match self {
            Self::Log(dump) => Ok(dump.step()?),
            Self::Hourglass(dump, last_dumps, _) => {
                let step = dump.step().map_err(SaveError::from);
                if step.as_ref().is_err_and(SaveError::is_of_last) {
                    last_dumps.forget(WholeReason::Damaged);
                }
                step
            }
            Self::Walk(_, dump) if dump.is_finished() => Ok(Step::Done),
            Self::Walk(fed, dump) => match fed.take() {
                Ok(chunk) => {
                    dump.chunk(&chunk)?;
                    Ok(Step::Worked)
                }
                Err(true) => Ok(Step::Waiting),
                Err(false) => Err(SaveError::Interrupted),
            },
            Self::Child(dump) => dump.step(),
        }
    }

    /// Whether the step has made room where there was none.
    fn has_made_room(&self) -> bool {
        matches!(self, Self::Walk(fed, _) if fed.has_made_room())
    }

    /// Whether commands wait for it.
    fn is_waited_for(&self) -> bool {
        matches!(self, Self::Walk(fed, _) if fed.is_waited_for())
    }

    /// For how long the executor has walked memory for it, until now.
    fn walked(&self) -> Duration {
        match self {
            Self::Walk(fed, _) => fed.walked(),
            Self::Log(_) | Self::Hourglass(..) | Self::Child(_) => Duration::ZERO,
        }
    }

    /// Whether all that it shows is durable by itself.
    const fn is_durable(&self) -> bool {
        // Nothing else of the log is read.
        matches!(self, Self::Log(_) | Self::Hourglass(..))
    }

    fn figures(&self) -> SaveFigures {
        match self {
            Self::Log(dump) => {
                let (records_done, records_total) = dump.progress();
                let dump::Figures { keys, lost_keys, spilled_bytes, .. } = dump.figures();
                let of_file =
                    SaveFigures { keys, lost_keys, spilled_bytes, ..SaveFigures::default() };
                SaveFigures { records_done, records_total, ..of_file }
            }
            Self::Hourglass(dump, ..) => {
                let (records_done, records_total) = dump.progress();
                let dump::Figures { keys, lost_keys, spilled_bytes, .. } = dump.figures();
                let made_of = dump.made_of();
                let of_file = SaveFigures { keys, lost_keys, made_of, ..SaveFigures::default() };
                SaveFigures { records_done, records_total, spilled_bytes, ..of_file }
            }
            Self::Walk(_, dump) => SaveFigures { keys: dump.keys(), ..SaveFigures::default() },
            Self::Child(dump) => {
                SaveFigures { keys: dump.keys().unwrap_or(0), ..SaveFigures::default() }
            }
        }
    }

    /// What it has read of devices and written to them, but for the dump itself.
    fn device_bytes(&self) -> u64 {
        match self {
            // What is sorted is written and read.
            Self::Log(dump) => dump.read_bytes() + 2 * dump.figures().spilled_bytes,
            Self::Hourglass(dump, ..) => {
                let spilled_bytes = 2 * dump.figures().spilled_bytes;
                dump.read_bytes() + spilled_bytes + dump.made_of().companion_bytes
            }
            Self::Walk(..) | Self::Child(_) => 0,
        }
    }

    fn finish(self) -> Result<Finished, SaveError> {
        let sink = match self {
            Self::Log(dump) => dump.into_target().finish()?,
            Self::Hourglass(dump, last_dumps, path) => {
                let (sink, last) = dump.finish(path)?;
                return Ok(Finished { sink, last: Some((last_dumps, last)) });
            }
            Self::Walk(_, dump) => dump.into_target().finish()?,
            Self::Child(dump) => dump.finish(),
        };
        Ok(Finished { sink, last: None })
    }
}

/// A dump to which everything is written.
struct Finished {
    sink: Sink,
    /// What the next dump needs of it.
    last: Option<(LastDumps, LastDump)>,
}

impl Finished {
    /// It gets its name. Returns what stays of the file before.
    fn complete(self, lost_keys: u64) -> Result<Option<Kept>, SaveError> {
        let kept = self.sink.complete(lost_keys)?;
        if let Some((last_dumps, last)) = self.last {
            last_dumps.put(last);
        }
        Ok(kept)
    }
}

impl Saver {
    /// Returns a saver and what tells of it.
    pub(crate) fn new(job: SaveJob) -> (Self, Ticket) {
        let desk = Arc::new(Desk::default());
        let lsn = job.lsn;
        let ticket = Ticket::new(Arc::clone(&desk), lsn);
        let pace = Pace::new(Arc::clone(&job.clock), job.bytes_per_s);
        let is_urgent = job.is_urgent;
        let stage = Stage::Beginning(Box::new(job));
        let (temporary, result, has_made_room) = (None, None, false);
        (Self { desk, lsn, temporary, pace, is_urgent, stage, result, has_made_room }, ticket)
    }

    /// Returns how the dump has ended; `None` if it was given up.
    #[must_use]
    pub fn result(self) -> Option<SaveResult> {
        self.result
    }

    /// Whether the end of the server waits for it.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Whether commands, or the executor, wait for it at this moment.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        let is_dumping_for =
            |stage: &Stage| matches!(stage, Stage::Dumping(dumping) if dumping.is_waited_for());
        self.is_urgent || self.desk.is_given_up() || is_dumping_for(&self.stage)
    }

    /// For how long the executor has walked memory for it, until now.
    #[must_use]
    pub fn walked(&self) -> Duration {
        match &self.stage {
            Stage::Dumping(dumping) => dumping.walked(),
            _ => Duration::ZERO,
        }
    }

    /// Waits until there may be something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.desk.wait(timeout);
    }

    /// Whether the ticket is told of something in this step: its holder should look.
    #[must_use]
    pub fn has_news(&mut self) -> bool {
        let has_taken = std::mem::take(&mut self.has_made_room);
        has_taken || matches!(self.stage, Stage::Over) || !self.desk.has_room()
    }

    /// Returns how many bytes it has given away so far.
    #[must_use]
    pub fn given_bytes(&self) -> u64 {
        if self.temporary.is_none() { self.desk.bytes() } else { 0 }
    }

    /// Does some of it.
    pub fn step(&mut self) -> SaverStep {
        if self.desk.is_given_up() {
            self.stage = Stage::Over;
            self.remove_temporary();
            return SaverStep::Finished;
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Beginning(job) => match self.begin(*job) {
                Ok(dumping) => self.stage = Stage::Dumping(dumping),
                Err(why) => self.end(Err(Arc::new(why))),
            },
            Stage::Dumping(dumping) if self.is_to_wait(&dumping) => {
                self.stage = Stage::Dumping(dumping);
                return SaverStep::Idle;
            }
            Stage::Dumping(mut dumping) => {
                let step = dumping.step();
                self.has_made_room |= dumping.has_made_room();
                let figures = self.figures(&dumping);
                self.desk.tell(&figures);
                self.pace.note(dumping.device_bytes() + figures.bytes);
                let is_durable = dumping.is_durable() || self.desk.is_durable();
                match step {
                    Ok(Step::Worked) => self.stage = Stage::Dumping(dumping),
                    // It is given up at this moment; the next step sees it.
                    Ok(Step::Done) if is_durable && !self.desk.begin_publishing() => {}
                    Ok(Step::Done) if is_durable => {
                        let lost_keys = figures.lost_keys;
                        let completed = dumping.finish().and_then(|it| it.complete(lost_keys));
                        let figures = SaveFigures { bytes: self.desk.bytes(), ..figures };
                        let figures_of = |kept| SaveFigures { kept, ..figures };
                        self.end(completed.map(figures_of).map_err(Arc::new));
                    }
                    Ok(Step::Waiting | Step::Done) => {
                        self.stage = Stage::Dumping(dumping);
                        return SaverStep::Idle;
                    }
                    Err(error) => self.end(Err(Arc::new(error))),
                }
            }
            Stage::Over => return SaverStep::Finished,
        }
        SaverStep::Worked
    }

    fn is_to_wait(&self, dumping: &Dumping) -> bool {
        let is_ahead = !dumping.is_waited_for() && self.pace.is_ahead();
        is_ahead || !self.desk.has_room()
    }

    fn begin(&mut self, job: SaveJob) -> Result<Dumping, SaveError> {
        let SaveJob { disk, source, sizes, libraries, target, options, facts, spill, .. } = job;
        let path = match &target {
            SaveTarget::File { path, .. } => path.clone(),
            SaveTarget::Ticket => PathBuf::new(),
        };
        let begin = |sink| {
            RdbTarget::begin(sink, options, &facts)?
                .with_libraries(libraries.iter().map(|source| &**source))
                .map(|target| target.with_sizes(sizes))
        };
        let sink = match target {
            SaveTarget::File { path, temporary, syncs_early, before } => {
                self.temporary = Some((Arc::clone(&disk), temporary.clone()));
                let kept_bytes = spill.kept_bytes;
                let file = FileSink::create(disk, path, &temporary, syncs_early, kept_bytes)?;
                Sink::file(&self.desk, file, before)
            }
            SaveTarget::Ticket => Sink::client(&self.desk),
        };
        Ok(match source {
            SaveSource::Log(mark, databases) => {
                let dumper = Dumper::new(&databases, begin(sink)?, spill);
                Dumping::Log(Box::new(MarkDump::new(mark, dumper)))
            }
            SaveSource::Hourglass(mark, databases, last_dumps) => {
                // The libraries of this moment; those of the last dump stand before its first key, and are not copied.
                let (target, last) = ((begin(sink)?, options.version), last_dumps.get());
                let dump = HourglassDump::new(mark, &databases, target, spill, last)?;
                Dumping::Hourglass(Box::new(dump), last_dumps, path)
            }
            SaveSource::Walk(fed) => Dumping::Walk(fed, Box::new(WalkDump::new(begin(sink)?))),
            SaveSource::Child(child) => Dumping::Child(Box::new(ChildDump::new(child, sink))),
        })
    }

    fn figures(&self, dumping: &Dumping) -> SaveFigures {
        SaveFigures { bytes: self.desk.bytes(), lsn: self.lsn, ..dumping.figures() }
    }

    fn end(&mut self, result: SaveResult) {
        self.stage = Stage::Over;
        match result {
            Ok(_) => self.temporary = None,
            Err(_) => self.remove_temporary(),
        }
        self.result = Some(result.clone());
        self.desk.end(result);
    }

    fn remove_temporary(&mut self) {
        if let Some((disk, temporary)) = self.temporary.take() {
            // What cannot be removed now is removed by the next start.
            let _ignored = disk.remove(&temporary);
        }
    }
}
