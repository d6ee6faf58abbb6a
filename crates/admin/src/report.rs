//! What the server says of itself at one moment, and how it is asked.

use std::time::Duration;

/// Gives the server's report to the one that has asked for it.
pub type Answer = Box<dyn FnOnce(Report) + Send>;

/// The server, as this crate sees it.
pub trait Server: Send + Sync {
    /// Asks for a report. Returns at once: `answer` is called by the executor's thread when it comes to it, or dropped. It
    /// is not asked again before either.
    fn ask(&self, answer: Answer);
}

/// See the file's top.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What INFO everything replies.
    pub info: String,
    /// The devices of the log.
    pub devices: Vec<LogDevice>,
    /// Commands that were called, with how long they took.
    pub commands: Vec<CommandLatency>,
    /// The slow log, the newest first.
    pub slow: Shown<SlowCommand>,
    /// Clients.
    pub clients: Shown<ViewedClient>,
    /// What BACKUP TIMELINE has, the newest first.
    pub events: Shown<Event>,
}

/// Some of a list, and how long it is.
#[derive(Clone, Debug)]
pub struct Shown<T> {
    /// Those that are shown.
    pub some: Vec<T>,
    /// How many there are.
    pub total: usize,
}

impl<T> Default for Shown<T> {
    fn default() -> Self {
        Self { some: Vec::new(), total: 0 }
    }
}

/// How long something took, over many times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How often.
    pub count: u64,
    /// How long all of them together.
    pub sum: Duration,
    /// Upper bounds in microseconds, rising, each with how many took no longer. What took longer than the last one is
    /// in `count` only.
    pub up_to_us: Vec<(u64, u64)>,
}

/// A bound in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Not more than this.
    UpTo(u64),
    /// More than this, which is the last bound.
    Above(u64),
}

impl Latency {
    /// The bound that `share` (0 to 1) of them did not exceed; nothing if there were none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Bound> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank of a count; a rounding error moves it by one"
        )]
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let within = self.up_to_us.iter().find(|(_, count)| *count >= rank);
        let found = within.map_or_else(|| self.above(), |(bound, _)| Bound::UpTo(*bound));
        (self.count > 0).then_some(found)
    }

    /// How many lie between each bound and the one before it, and at the end how many above the last.
    pub fn buckets(&self) -> impl Iterator<Item = (Bound, u64)> {
        let mut before = 0;
        let bounds = self.up_to_us.iter().map(|(bound, count)| (Bound::UpTo(*bound), *count));
        // The counts are taken one after the other while others are added.
        bounds.chain([(self.above(), self.count)]).map(move |(bound, up_to)| {
            let up_to = up_to.max(before);
            (bound, up_to - std::mem::replace(&mut before, up_to))
        })
    }

    fn above(&self) -> Bound {
        Bound::Above(self.up_to_us.last().map_or(0, |last| last.0))
    }
}

/// A device of the log.
#[derive(Clone, Debug, Default)]
pub struct LogDevice {
    /// Its number.
    pub index: usize,
    /// Its directory.
    pub path: String,
    /// `Healthy`, `Full`, `Poisoned` or `Draining`.
    pub state: String,
    /// How many segments are on it.
    pub segments: u64,
    /// How long their files are.
    pub bytes: u64,
    /// How many records they have.
    pub records: u64,
    /// How many of those are garbage.
    pub invalid_records: u64,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Bytes written since the start.
    pub written_bytes: u64,
    /// Blocks written since the start.
    pub written_blocks: u64,
    /// How long its syncs took.
    pub syncs: Latency,
    /// How long the write or sync that is under way has taken by now; zero if none is.
    pub busy: Duration,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// A command, with how long its calls took.
#[derive(Clone, Debug, Default)]
pub struct CommandLatency {
    /// Its name, in lower case: one of those that the server knows.
    pub name: String,
    /// Calls that were executed.
    pub calls: u64,
    /// How long they took together.
    pub duration: Duration,
    /// Of those that were called while latency-tracking was yes.
    pub latency: Latency,
    /// Calls that were refused before they were executed.
    pub rejected: u64,
    /// Calls that replied an error.
    pub failed: u64,
}

/// A command of the slow log.
#[derive(Clone, Debug, Default)]
pub struct SlowCommand {
    /// Its number.
    pub id: i64,
    /// When, in Unix seconds.
    pub unix_s: i64,
    /// How long it took.
    pub duration_us: u64,
    /// The command, quoted and cut.
    pub text: String,
    /// Where it came from.
    pub peer: String,
    /// The client's name.
    pub client_name: String,
}

/// A client.
#[derive(Clone, Debug, Default)]
pub struct ViewedClient {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub address: String,
    /// What it calls itself.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its last command.
    pub command: String,
    /// For how long it has been connected.
    pub age_s: u64,
    /// For how long it has sent nothing.
    pub idle_s: u64,
    /// The letters of CLIENT LIST.
    pub flags: String,
    /// The memory that it takes.
    pub memory_bytes: u64,
    /// What of that is output that it has not read.
    pub output_bytes: u64,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A named backup.
    Backup,
    /// A named backup that cannot be restored any more.
    LostBackup,
    /// The last block before databases were emptied or exchanged.
    Point,
    /// A dangerous command.
    Command,
}

/// Something that the log can be restored to, or back over.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// Its block.
    pub lsn: u64,
    /// When, in Unix milliseconds.
    pub unix_ms: i64,
    /// The backup's name, or the command with its user and address.
    pub text: String,
}
