//! Why nothing was imported, each with what a person needs to act.

use std::io;
use std::path::PathBuf;

use command::error::CommandError;
use env::FileError;
use thiserror::Error;

use crate::engine::CloseError;

/// See the file's top.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file or directory cannot be used.
    #[error(transparent)]
    File(#[from] FileError),

    /// There is nothing to import there.
    #[error("{path} {what}", path = path.display())]
    NoSource {
        /// What was given.
        path: PathBuf,
        /// What it is, and what to give.
        what: String,
    },

    /// The manifest of an AOF directory is not one.
    #[error("{path} is damaged in line {line}: {what}; use another copy", path = path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The line, the first one being 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },

    /// A dump is damaged, too new, or cannot be read.
    #[error("{path} {source}", path = path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rdb::Error,
    },

    /// An AOF has bytes that are no command.
    #[error(
        "{path} is damaged at byte {offset}: {what}; use another copy, or mend a copy with redis-check-aof --fix",
        path = path.display()
    )]
    Aof {
        /// The file.
        path: PathBuf,
        /// Where the command begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },

    /// A library of functions in a dump cannot be loaded.
    #[error(
        "{path} has a library of functions that cannot be loaded: {why}; leave such out with --import-skip-unknown \
         (import-skip-unknown yes), or mend it where the dump comes from",
        path = path.display()
    )]
    Library {
        /// The file.
        path: PathBuf,
        /// Why.
        why: CommandError,
    },

    /// A command of an AOF has a longer argument than is read.
    #[error(
        "{path}, byte {offset}: a command has an argument of {bytes} bytes, which is longer than proto-max-bulk-len \
         (--string-bytes-max); set that higher, also for the server",
        path = path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Where the command begins.
        offset: u64,
        /// The length of the argument.
        bytes: u64,
    },

    /// An AOF ends in the middle of a command or transaction.
    #[error(
        "{path} ends in the middle of a command or transaction that begins at byte {offset}, {dropped_bytes} bytes before \
         its end; {remedy}",
        path = path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Up to where it counts.
        offset: u64,
        /// What is behind.
        dropped_bytes: u64,
        /// What to do.
        remedy: &'static str,
    },

    /// A command of an AOF cannot be executed.
    #[error("{path}, byte {offset}: the command {command} {what}", path = path.display())]
    Command {
        /// The file.
        path: PathBuf,
        /// Where the command begins.
        offset: u64,
        /// The command, shortened.
        command: String,
        /// Why.
        what: Unusable,
    },

    /// There are keys in a database that there is not.
    #[error(
        "{path} has keys in database {index}, and there are {databases} databases; use --databases {wanted}",
        path = path.display(),
        wanted = u64::from(*index) + 1
    )]
    Databases {
        /// The file.
        path: PathBuf,
        /// The database.
        index: u32,
        /// How many there are.
        databases: usize,
    },

    /// A key, or an element of a value, stands twice in a dump.
    #[error(
        "{path} has {what} (key '{key}', database {database}); no server writes such a dump: use another copy",
        path = path.display()
    )]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// What stands twice.
        what: &'static str,
        /// The key, printable.
        key: String,
        /// Its database.
        database: usize,
    },

    /// There are types or commands that are not served.
    #[error(
        "{path} has what is not served yet: {what}; go on without it with import-skip-unknown yes \
         (--import-skip-unknown): it is left out then",
        path = path.display()
    )]
    NotServed {
        /// What was given.
        path: PathBuf,
        /// What it is, with counts.
        what: String,
    },

    /// A file is not what it was when it was opened.
    #[error(
        "{path} changed while it was imported: end the server that writes it, and begin again",
        path = path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },

    /// A dump of which something is left out would be lost with the next save.
    #[error(
        "something of {path} is left out, and the next save replaces the file; it cannot have {kept} as a second \
         name, which would stay: {source}. Copy it elsewhere, and import that with indelible import",
        path = path.display(),
        kept = kept.display()
    )]
    NotKept {
        /// The file.
        path: PathBuf,
        /// The name.
        kept: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The data directory is not new.
    #[error("{path} {what}", path = path.display())]
    NotNew {
        /// The directory.
        path: PathBuf,
        /// What is there, and what to do.
        what: &'static str,
    },

    /// The log cannot be opened or moved.
    #[error(transparent)]
    Log(#[from] redo::Error),

    /// There is no thread for the log.
    #[error("cannot start a thread for the log: {0}")]
    NoThread(#[source] io::Error),

    /// The log takes nothing more.
    #[error("the log cannot be written: {reason}; nothing was imported")]
    Unwritable {
        /// What the log says.
        reason: String,
    },

    /// The log was not made durable.
    #[error("the log cannot be made durable: {0}; nothing was imported")]
    Close(#[from] CloseError),
}

/// Why a command of an AOF cannot be executed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// There is no such command in any version.
    #[error("is unknown (was it renamed by rename-command?)")]
    Unknown,
    /// There is, and Redis writes it to no AOF.
    #[error("is one that no AOF has")]
    Foreign,
    /// It has too few arguments, or too many.
    #[error("has a wrong number of arguments")]
    Arity,
    /// It names a database that is no number.
    #[error("names no database")]
    NoDatabase,
    /// A transaction begins in a transaction.
    #[error("stands in a transaction")]
    InTransaction,
    /// A transaction ends that has not begun.
    #[error("stands in no transaction")]
    NoTransaction,
    /// It replies an error.
    #[error("fails: {0}")]
    Fails(#[from] CommandError),
}

/// What is shown of a name or argument that may be long, or not printable.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 128;
    let (shown, rest) = bytes.split_at(bytes.len().min(SHOWN_BYTES));
    let dots = if rest.is_empty() { "" } else { "…" };
    format!("{}{dots}", shown.escape_ascii())
}
