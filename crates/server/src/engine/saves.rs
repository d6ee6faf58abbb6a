//! Dumps of the data, as the engine begins and follows them: which are wanted, which are under way, how the last one
//! has ended.
//!
//! ```text
//!   BGSAVE, SAVE, save points, SHUTDOWN ──► Wanted ── a mark can be made ──► Running ── the saver has ended ──► None
//!                                             │  between commands                                                │
//!                                             └── not while it is unknown what of the log is garbage             └─► Last
//!   SYNC ──► a stream of its own, in the same way
//! ```
//!
//! A dump is of one moment between two commands: the block that is open then is ended, and the mark is made.

use std::time::Duration;

use base::Lsn;
use command::error::CommandError;
use thiserror::Error;

use super::ClientKey;
use crate::save::{
    KnownDump, LastDumps, SaveError, SaveFigures, SaveResult, SaveRunner, Saver, Ticket,
};

/// Redis tries again so long after a save that has failed, in microseconds.
pub(super) const RETRY_US: u64 = 5_000_000;

/// How many clients may be sent a dump at a time.
const STREAMS_MAX: usize = 4;

/// Why there is no dump, as clients are told.
#[derive(Debug, Error)]
pub(super) enum NotSaved {
    /// Redis' own words.
    #[error("ERR Background save already in progress")]
    InProgress,
    /// Without a log there is nothing to make it from.
    #[error(
        "ERR appendonly is no, and snapshot-algorithm bitmap or hourglass reads the redo log. CONFIG SET snapshot-algorithm auto"
    )]
    NoLog,
    /// A child process has only what memory has.
    #[error(
        "ERR some keys or values are in the log only, and only snapshot-algorithm bitmap or hourglass reads it. CONFIG SET snapshot-algorithm auto"
    )]
    NotInMemory,
    /// What memory has is not durable, and will not be.
    #[error("MISCONF The redo log takes nothing, so nothing is saved: {0}")]
    LogFailed(String),
    /// The version that is chosen does not have all that there is.
    #[error("ERR {0}")]
    Version(#[from] rdb::WriteError),
    /// It could not be begun.
    #[error("ERR Background saving failed; see the server's log")]
    NotBegun,
    /// Each one that is sent takes a thread and memory.
    #[error("ERR too many clients are sent a dump already: try again later")]
    TooMany,
}

impl From<NotSaved> for CommandError {
    fn from(why: NotSaved) -> Self {
        Self::Other(why.to_string().into())
    }
}

/// The dump into the file.
#[derive(Default)]
pub(super) enum FileSave {
    /// There is none.
    #[default]
    None,
    /// It begins as soon as a mark can be made.
    Wanted,
    /// It is being written.
    Running(Running),
}

/// A dump that is being written.
pub(super) struct Running {
    pub(super) ticket: Ticket,
    pub(super) begun_us: u64,
    /// How many changes there were when it was begun.
    dirty: u64,
    /// How many keys there were.
    pub(super) keys_total: u64,
}

/// A dump that is sent to a client.
pub(super) struct Stream {
    pub(super) client: ClientKey,
    /// Its number: the place may be another client's by now.
    pub(super) client_id: u64,
    /// `None` until a mark can be made.
    pub(super) ticket: Option<Ticket>,
    /// What the stream ends with: then the client knows that it is whole.
    pub(super) delimiter: String,
    /// What was taken from the saver, and how much of it was passed on.
    pub(super) chunk: Vec<u8>,
    pub(super) sent: usize,
    /// When its client has last taken something.
    pub(super) taken_us: u64,
    /// It is of a walk of memory, for which commands may have to wait.
    pub(super) is_walk: bool,
}

impl Stream {
    /// The next bytes for the client, at most so many.
    pub(super) fn next(&mut self, bytes_max: usize) -> Option<&[u8]> {
        if self.sent == self.chunk.len() {
            (self.chunk, self.sent) = (self.ticket.as_ref()?.take_chunk()?, 0);
        }
        let from = self.sent;
        self.sent = self.chunk.len().min(from + bytes_max);
        Some(&self.chunk[from..self.sent])
    }

    /// Whether there is something for the client, or to know.
    pub(super) fn has_news(&self) -> bool {
        self.sent < self.chunk.len() || self.ticket.as_ref().is_some_and(Ticket::has_news)
    }

    /// How the dump has ended, once all of it was passed on.
    pub(super) fn end(&self) -> Option<SaveResult> {
        let is_all = self.sent == self.chunk.len();
        self.ticket.as_ref().filter(|_| is_all)?.end()
    }
}

/// How the last dump into the file was.
pub(super) struct Last {
    pub(super) is_good: bool,
    pub(super) duration_s: Option<u64>,
    pub(super) ended_us: u64,
    pub(super) figures: SaveFigures,
}

/// See the file's top.
pub(super) struct Saves {
    runner: Option<Box<dyn SaveRunner>>,
    pub(super) file: FileSave,
    pub(super) streams: Vec<Stream>,
    /// The end of the server waits for a dump, and clients that write wait for either.
    pub(super) final_save: bool,
    /// Another dump is wanted when the one that gets its name has ended: it is older than what is to be saved.
    pub(super) wants_another: bool,
    /// When the last one was complete, or the server was started.
    pub(super) last_unix_s: i64,
    /// How many changes the last one has.
    pub(super) dirty: u64,
    pub(super) last: Last,
    /// How many dumps into the file were completed.
    pub(super) completed: u64,
    /// How long the executor took to make the last mark, in microseconds.
    pub(super) taken_us: u64,
    /// What the next dump into the file may be merged with.
    pub(super) last_dumps: LastDumps,
    /// What may be replaced: see [`crate::save`].
    pub(super) known: KnownDump,
    begun: u64,
}

impl Saves {
    pub(super) fn new(unix_s: i64) -> Self {
        Self {
            runner: None,
            file: FileSave::None,
            streams: Vec::new(),
            final_save: false,
            wants_another: false,
            last_unix_s: unix_s,
            dirty: 0,
            last: Last {
                is_good: true,
                duration_s: None,
                ended_us: 0,
                figures: SaveFigures::default(),
            },
            completed: 0,
            taken_us: 0,
            last_dumps: LastDumps::default(),
            known: KnownDump::default(),
            begun: 0,
        }
    }

    pub(super) fn set_runner(&mut self, runner: Box<dyn SaveRunner>) {
        self.runner = Some(runner);
    }

    /// Whether there is nothing to look after.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.file, FileSave::None) && self.streams.is_empty()
    }

    /// What the log has up to this block is durable; all of it if there is none.
    pub(super) fn note_durable(&self, durable: Option<Lsn>) {
        let file =
            if let FileSave::Running(running) = &self.file { Some(&running.ticket) } else { None };
        let streams = self.streams.iter().filter_map(|stream| stream.ticket.as_ref());
        let is_reached = |ticket: &&Ticket| durable.is_none_or(|lsn| ticket.figures().lsn <= lsn);
        file.into_iter().chain(streams).filter(is_reached).for_each(Ticket::note_durable);
    }

    /// Whether one waits for its moment.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.file, FileSave::Wanted)
            || self.streams.iter().any(|stream| stream.ticket.is_none())
    }

    /// Whether one more client may be sent a dump.
    pub(super) fn has_place(&self) -> bool {
        self.streams.len() < STREAMS_MAX
    }

    /// The number of the next dump.
    pub(super) fn next_number(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Has a saver stepped.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn run(&mut self, saver: Saver) -> Result<(), SaveError> {
        let runner = self.runner.as_mut().ok_or(SaveError::NoRunner)?;
        runner.run(saver).map_err(SaveError::NoThread)
    }

    /// Takes the result of the dump into the file, once it has ended.
    pub(super) fn take_end(&mut self, now_us: u64, unix_s: i64) -> Option<SaveResult> {
        let FileSave::Running(running) = &self.file else { return None };
        let result = running.ticket.end()?;
        let duration = Duration::from_micros(now_us.saturating_sub(running.begun_us));
        if let Ok(figures) = &result {
            self.completed += 1;
            self.last.figures = *figures;
            (self.last_unix_s, self.dirty) = (unix_s, running.dirty);
        }
        // Of the whole log, at once.
        let is_repeated = result.as_ref().is_err_and(|why| why.is_of_last());
        self.last.is_good = result.is_ok() || (is_repeated && self.last.is_good);
        self.last.duration_s = Some(duration.as_secs());
        self.last.ended_us = now_us;
        let is_again = std::mem::take(&mut self.wants_another) || is_repeated;
        self.file = if is_again { FileSave::Wanted } else { FileSave::None };
        Some(result)
    }

    /// The dump that was wanted could not be begun.
    pub(super) fn note_failed(&mut self, now_us: u64) {
        self.file = FileSave::None;
        (self.last.is_good, self.last.ended_us) = (false, now_us);
    }

    /// A dump into the file has begun.
    pub(super) fn note_running(&mut self, ticket: Ticket, begun_us: u64, dirty: u64, keys: u64) {
        self.file = FileSave::Running(Running { ticket, begun_us, dirty, keys_total: keys });
    }

    /// Whether a save point is reached: so many changes, so many seconds after the last dump.
    pub(super) fn is_due(
        &self,
        points: &[(u64, u64)],
        dirty: u64,
        now_us: u64,
        unix_s: i64,
    ) -> bool {
        let changes = dirty.saturating_sub(self.dirty);
        let elapsed_s = u64::try_from(unix_s.saturating_sub(self.last_unix_s)).unwrap_or(0);
        let is_reached = |&(seconds, count): &(u64, u64)| changes >= count && elapsed_s > seconds;
        let rests = !self.last.is_good && now_us < self.last.ended_us + RETRY_US;
        matches!(self.file, FileSave::None) && !rests && points.iter().any(is_reached)
    }

    /// Gives up the dump into the file, if it is not too late for that. Whether there is none any more.
    pub(super) fn give_up_file(&mut self) -> bool {
        if let FileSave::Running(running) = &self.file
            && !running.ticket.give_up()
        {
            return false;
        }
        self.file = FileSave::None;
        true
    }

    /// Gives up what is being written, and waits until nothing uses the log any more. What is wanted stays so. Returns
    /// whether a dump into the file was given up, and the streams that were.
    pub(super) fn give_up(&mut self) -> (bool, Vec<Stream>) {
        let had_file = matches!(self.file, FileSave::Running(_)) && self.give_up_file();
        let given_up = self.streams.extract_if(.., |stream| stream.ticket.is_some());
        let given_up: Vec<Stream> = given_up.collect();
        given_up.iter().filter_map(|it| it.ticket.as_ref()).for_each(|it| _ = it.give_up());
        self.runner.iter_mut().for_each(|runner| runner.finish());
        (had_file, given_up)
    }
}
