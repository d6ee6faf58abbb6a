//! Why an archive cannot be written, or read.

use std::io;

use base::Lsn;
use keyspace::BadRecord;
use redo::{Id, TimeOfBlock};

use crate::key::KeyId;
use crate::name::Name;

/// The result of what a target does.
pub type TargetResult<T> = std::result::Result<T, TargetError>;

/// A target cannot be used: it may be again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {place}: {source}")]
pub struct TargetError {
    /// The operation, as a verb.
    pub doing: &'static str,
    /// The object or folder.
    pub place: String,
    /// Why.
    pub source: io::Error,
}

impl TargetError {
    /// Whether there is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        use io::ErrorKind::{NotFound, StaleNetworkFileHandle};
        // NFS says so of what is open and was removed by another machine.
        matches!(self.source.kind(), NotFound | StaleNetworkFileHandle)
    }

    /// Whether it is not permitted.
    pub(crate) fn is_refused(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// The error of a failed operation, for `map_err`.
    pub fn of(doing: &'static str, place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        move |source| Self { doing, place, source }
    }
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an archive cannot be written, or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),

    /// The log cannot be read, or not be made.
    #[error(transparent)]
    Log(#[from] redo::Error),

    /// An object is not what was written.
    #[error("{name} of the archive is damaged at byte {at}: {what}")]
    Damaged {
        /// The object.
        name: Name,
        /// Where in it.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },

    /// An object is of a newer program.
    #[error("{name} of the archive has {what}, which this program does not know; use a newer one")]
    Newer {
        /// The object.
        name: Name,
        /// What it has.
        what: NewerWhat,
    },

    /// An object is encrypted with a key that is not there.
    #[error(
        "{name} of the archive is encrypted with key {id}, {}",
        missing_key(*has_keys)
    )]
    NoKey {
        /// The object.
        name: Name,
        /// The key.
        id: KeyId,
        /// Whether there are others.
        has_keys: bool,
    },

    /// An object is in clear, in an archive that is to be encrypted.
    #[error(
        "{name} of the archive is not encrypted: an archive is encrypted from its first object on, or not at all. Read it without a key; to write one that is encrypted give another target"
    )]
    NotEncrypted {
        /// The object.
        name: Name,
    },

    /// A key file cannot be used.
    #[error("the key file {path} cannot be used: {why}")]
    KeyFile {
        /// The file.
        path: String,
        /// Why.
        why: KeyError,
    },

    /// There is no such kind of target, or it cannot be reached with what is known of it.
    #[error("{place} is no target of an archive: {why}")]
    NoTarget {
        /// What was given.
        place: String,
        /// Why.
        why: String,
    },

    /// A record is whole, and has what no keyspace wrote.
    #[error("{name} of the archive, block {lsn}: {bad}; a newer program may have written it")]
    Record {
        /// The object.
        name: Name,
        /// The block.
        lsn: Lsn,
        /// What is wrong with it.
        bad: BadRecord,
    },

    /// There is an object of this name with other bytes.
    #[error("{name} of the archive is there already, and is not what this server writes")]
    Different {
        /// The object.
        name: Name,
    },

    /// Another writer has claimed the archive.
    #[error(
        "writer {by} has claimed the archive: another server has the same database, perhaps from a copy of this one's data directory; this one does not write any more. Give one of them another target"
    )]
    Fenced {
        /// Its number.
        by: u64,
    },

    /// There is no number for another writer.
    #[error(
        "the archive has something of writer {writer}, and no later writer has a number: give this server another target"
    )]
    NoNumber {
        /// The last number that there is, or a later one.
        writer: u64,
    },

    /// Another tidier has claimed the archive.
    #[error(
        "tidier {by} has begun to thin out the archive, on another machine or by the server itself: this one has ended, and lost nothing"
    )]
    OtherTidier {
        /// Its number.
        by: u64,
    },

    /// A writer has claimed the archive, and not said yet where it begins.
    #[error(
        "writer {writer} is about to take the archive: until it has, it is not known what counts; try again when its server has begun. If that server is gone for good, remove its claim, {}",
        Name::Writer { writer: *writer }
    )]
    Claiming {
        /// Its number.
        writer: u64,
    },

    /// A writer is said to have begun that has claimed nothing and put nothing else.
    #[error(
        "{name} of the archive says that a writer has begun which has no claim and has put nothing else: it hides what is behind its block, and no server puts it so. Nothing is thinned out as long as it is there; if no server has that number remove it"
    )]
    Unclaimed {
        /// The object.
        name: Name,
    },

    /// There is no number for another tidier.
    #[error(
        "{name} is the claim of a tidier, and no later one has a number: no program gives that number. Remove it"
    )]
    NoTidier {
        /// The claim.
        name: Name,
    },

    /// What was to be kept could not be restored without what was to go.
    #[error(
        "block {lsn} was to be kept, and could not be restored without what was to be removed, because the archive has changed meanwhile: nothing was removed"
    )]
    WouldLose {
        /// The block.
        lsn: Lsn,
    },

    /// There is no backup of this name.
    #[error(
        "the archive has no backup named {name}; `indelible backup timeline` lists them{}",
        nameless(damaged)
    )]
    NoBackup {
        /// The name.
        name: String,
        /// Objects that have a name and are damaged.
        damaged: Vec<Name>,
    },

    /// The archive has blocks that the log does not have.
    #[error(
        "the archive ends with block {archived}, and the log with block {durable}: it was lost in part, or is an old copy of the data directory. What only the archive has is brought back by `indelible restore --latest`; to go on without it give another target"
    )]
    Ahead {
        /// The last block of the archive.
        archived: Lsn,
        /// The last durable block of the log.
        durable: Lsn,
    },

    /// The archive has other blocks than the log.
    #[error(
        "block {lsn} is another one in the archive than in the log: they have gone different ways, as copies of a data directory do. Give this server another target"
    )]
    Diverged {
        /// The block.
        lsn: Lsn,
    },

    /// There is no archive.
    #[error("there is no archive of a database there")]
    NoArchive,

    /// There are several.
    #[error(
        "there are archives of {count} databases there; say which by --database: {first}, {second} …"
    )]
    Several {
        /// How many.
        count: usize,
        /// One.
        first: Id,
        /// Another.
        second: Id,
    },

    /// Nothing is whole yet.
    #[error("nothing can be restored yet: the first copy of the data is not complete")]
    Nothing,

    /// The block cannot be restored.
    #[error(
        "block {lsn} cannot be restored from the archive; {}",
        nearest(*before, *after)
    )]
    NotThere {
        /// The block.
        lsn: Lsn,
        /// The nearest before it that can.
        before: Option<Lsn>,
        /// The nearest behind it that can.
        after: Option<Lsn>,
    },

    /// The time is before everything that can be restored.
    #[error(
        "nothing can be restored as of {time}: the first that can is block {first}, of {first_time}"
    )]
    TooEarly {
        /// The time.
        time: TimeOfBlock,
        /// The first block.
        first: Lsn,
        /// When it was ended.
        first_time: TimeOfBlock,
    },

    /// The time is in a gap.
    #[error(
        "what the log was at {time} cannot be restored: blocks are missing, or were thinned out, behind {before}{}",
        up_to(*after)
    )]
    InGap {
        /// The time.
        time: TimeOfBlock,
        /// The last block before it that can.
        before: Lsn,
        /// The first behind it that can, if one can.
        after: Option<Lsn>,
    },

    /// Databases may have been emptied or exchanged in a gap.
    #[error(
        "block {lsn} is the last one before databases were emptied or exchanged, as far as the archive knows; but blocks are missing behind {before}, and they may have been emptied there, too. If this one is meant say --at {lsn}"
    )]
    FlushOrGap {
        /// The block before they were, in what the archive has.
        lsn: Lsn,
        /// The last block before the gap.
        before: Lsn,
    },

    /// A key was not lost, as far as the archive knows.
    #[error(
        "the archive does not tell of a deletion of {key} in database {database}; it tells of what has happened from block {first} on, but for gaps and what was thinned out (indelible backup timeline)"
    )]
    NoDelete {
        /// The key, for people.
        key: String,
        /// The number that SELECT takes.
        database: u64,
        /// The first block that can be restored.
        first: Lsn,
    },

    /// A key may have been lost in a gap, or in what was thinned out.
    #[error(
        "block {lsn} is the last one before {key} was lost in database {database}, as far as the archive knows; but blocks are missing or were thinned out behind {before}, and it may have been lost there, too. If this one is meant say --at {lsn}"
    )]
    DeleteOrGap {
        /// The key, for people.
        key: String,
        /// The number that SELECT takes.
        database: u64,
        /// The block before it was, in what the archive has.
        lsn: Lsn,
        /// The last block before the gap, or before what was thinned out.
        before: Lsn,
    },

    /// The clock was set back, so that several blocks are meant.
    #[error(
        "the clock was set back: {count} blocks were the last one at {time}, from {first} to {last}; give one of them"
    )]
    ClockWentBack {
        /// The time.
        time: TimeOfBlock,
        /// How many.
        count: usize,
        /// The first.
        first: Lsn,
        /// The last.
        last: Lsn,
    },

    /// Databases were not emptied so often.
    #[error(
        "the archive knows of {known} times that databases were emptied or exchanged, not of {wanted}"
    )]
    NoFlush {
        /// Which was wanted, from the last one back.
        wanted: usize,
        /// How many there are.
        known: usize,
    },
}

/// Why a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Others may read it.
    #[error(
        "others than its owner may read it (mode {0:o}); chmod 600, and if they are not trusted make a new key"
    )]
    Readable(u32),
    /// It is no file that ends.
    #[error("it is no regular file")]
    NoFile,
    /// It is none.
    #[error("it has no key: 64 hexadecimal digits, as `indelible backup key` prints them")]
    NoKey,
}

/// Says what to do about a key that is missing.
const fn missing_key(has_keys: bool) -> &'static str {
    if has_keys { "which is none of those that were given" } else { "and no key was given" }
}

/// Says which names cannot be read.
fn nameless(damaged: &[Name]) -> String {
    match damaged {
        [] => String::new(),
        [one, ..] => format!(
            ". The names of {} are damaged, one is {one}: what they name is restored by the number of its block",
            damaged.len()
        ),
    }
}

/// What a program may not know of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewerWhat {
    /// Its format.
    Format(u32),
    /// How its body is encoded.
    Codec(u32),
    /// Kinds of records, as a bit each.
    Kinds(u64),
}

impl std::fmt::Display for NewerWhat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Format(format) => write!(f, "format {format}"),
            Self::Codec(codec) => write!(f, "encoding {codec}"),
            Self::Kinds(bits) => {
                write!(f, "records of kind {}", kind_of_bit(bits.trailing_zeros()))
            }
        }
    }
}

const fn kind_of_bit(bit: u32) -> u32 {
    if bit < 32 { bit } else { 128 + bit - 32 }
}

/// Says what there is behind a gap.
fn up_to(after: Option<Lsn>) -> String {
    after.map_or_else(
        || {
            ", and no copy of the data is complete behind them; give that block, or --latest"
                .to_owned()
        },
        |after| format!(", up to {after}; give one of these two"),
    )
}

/// Says which blocks are nearest to one that cannot be restored.
fn nearest(before: Option<Lsn>, after: Option<Lsn>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => {
            format!("the nearest are {before} before it and {after} behind it")
        }
        (Some(nearest), None) => format!("the last that can is {nearest}"),
        (None, Some(nearest)) => format!("the first that can is {nearest}"),
        (None, None) => "nothing can yet".to_owned(),
    }
}
