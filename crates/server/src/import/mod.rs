//! Data of a Redis server made the data of a log that there was not: an RDB file, an AOF, or a directory of
//! both with its manifest.
//!
//! ```text
//!   Source ── files, open for reading ──┬─► check    every byte, into nothing: Checked
//!                                       │                                          │ what is not served, how far
//!                                       │                                          ▼ an AOF counts
//!                                       └─► build    dump ─┐
//!                                                    play ─┴─► Target ── Keyspace ── log in `dir/import-tmp`
//!                                                                                          │ closed
//!                                                    redo::publish: the manifest in `dir` ◄┘
//! ```
//!
//! The files are read twice. What can be seen without a keyspace is refused before anything is made: damage,
//! forms and commands that are not served, databases that there are not. What needs all keys in memory (a
//! key that stands twice, a command that fails) is noticed while the data is loaded, and what was made until
//! then is removed.
//!
//! Both `indelible import` and a start that finds a Redis server's files (`at_start`) use it; the keyspace
//! need not have a log ([`Target::in_memory`]).
//!
//! # Invariants
//! 1. Sources are opened for reading only, once, and both passes read what was opened.
//! 2. The manifest is written last: before, there is no log in `dir`, and the next attempt removes what it
//!    finds and begins again. After, all of the data is durable ([`redo::publish`]).
//! 3. What is held at a time is one element of a value, or one command: collections grow in the keyspace
//!    element by element.
//! 4. Commands of an AOF are executed as Redis does when it loads: no key expires for them
//!    (`Keyspace::set_timeless`), and a command that fails is an error of the import.

mod aof;
pub(crate) mod at_start;
mod build;
mod check;
mod contents;
mod dump;
mod error;
mod functions;
mod manifest;
mod play;
mod source;
mod stream;
mod strings;
mod target;

pub use build::{Built, Place, build, is_unfinished};
pub use check::{Checked, check};
pub use contents::{Contents, Report};
pub use error::{ImportError, Unusable};
pub use source::Source;
pub use target::Target;

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is at.
    pub stage: Stage,
    /// How much of the files was read.
    pub bytes_done: u64,
    /// How long they are.
    pub bytes_total: u64,
    /// Keys that were read, or commands of an AOF.
    pub items: u64,
}

impl Progress {
    /// Returns the same as of a log that is read.
    pub(crate) const fn as_of_log(self) -> redo::Progress {
        let Self { bytes_done, bytes_total, items, .. } = self;
        redo::Progress { bytes_done, bytes_total, records: items }
    }
}

/// A pass over the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// They are read and checked.
    Checking,
    /// What is in them goes into the log.
    Loading,
}

impl Stage {
    /// Returns what is done, for a person.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Loading => "importing",
        }
    }
}

/// Tells of progress, about once a megabyte.
struct Teller<'a> {
    tell: &'a mut dyn FnMut(Progress),
    stage: Stage,
    /// The files before this one.
    bytes_before: u64,
    bytes_total: u64,
    items: u64,
    next_at: u64,
}

/// So many bytes are read before it is said how far that is.
const TOLD_BYTES: u64 = 1 << 20;

impl<'a> Teller<'a> {
    fn new(stage: Stage, bytes_total: u64, tell: &'a mut dyn FnMut(Progress)) -> Self {
        tell(Progress { stage, bytes_done: 0, bytes_total, items: 0 });
        Self { tell, stage, bytes_before: 0, bytes_total, items: 0, next_at: TOLD_BYTES }
    }

    /// A key or command was read, and the file up to this offset.
    fn note_item(&mut self, offset: u64) {
        self.items += 1;
        self.note_offset(offset);
    }

    fn note_offset(&mut self, offset: u64) {
        if self.bytes_before + offset >= self.next_at {
            self.say(self.bytes_before + offset);
        }
    }

    fn end_file(&mut self, bytes: u64) {
        self.bytes_before += bytes;
        self.say(self.bytes_before);
    }

    fn say(&mut self, bytes_done: u64) {
        self.next_at = bytes_done + TOLD_BYTES;
        let Self { stage, bytes_total, items, .. } = *self;
        (self.tell)(Progress { stage, bytes_done, bytes_total, items });
    }
}
