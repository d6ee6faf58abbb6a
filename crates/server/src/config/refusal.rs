//! Why a configuration is refused: one type for each way that it is given.
//!
//! ```text
//!   a value      ValueError ──┬─► LineError ─► ConfigError   a line of a file, an option: no start
//!                             └─► SetRefusal ─► SetError     CONFIG SET: the client's error reply
//!   all of them  CannotServe                                 each value is right, but not together
//! ```
//!
//! The texts are Redis' own where it has one: a client library or a script may know them.

use std::io;

use command::names::RenameError;
use thiserror::Error;

/// Why a directive does not take a value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValueError {
    /// More or fewer words than the directive takes.
    #[error("wrong number of arguments")]
    WordCount,
    /// Neither yes nor no.
    #[error("argument must be 'yes' or 'no'")]
    NotYesNo,
    /// A path, where a name within the data directory is needed.
    #[error("{directive} can't be a path, just a {noun}")]
    Path {
        /// The directive.
        directive: &'static str,
        /// What it names.
        noun: &'static str,
    },
    /// A word that the directive does not know.
    #[error("argument(s) must be one of the following: {}", known.join(", "))]
    Choice {
        /// The words that it knows.
        known: &'static [&'static str],
    },
    /// No whole number.
    #[error("argument couldn't be parsed into an integer")]
    NotInteger,
    /// No number of bytes.
    #[error("argument must be a memory value")]
    NotMemory,
    /// Neither a number of bytes nor a percentage.
    #[error("argument must be a memory or percent value")]
    NotMemoryOrPercent,
    /// No number with base eight.
    #[error("argument couldn't be parsed as an octal number")]
    NotOctal,
    /// A number outside its bounds.
    #[error("argument must be between {min} and {max} inclusive")]
    OutOfBounds {
        /// The smallest one.
        min: i128,
        /// The largest one.
        max: i128,
    },
    /// The same, of a number that is written with base eight.
    #[error("argument must be between {min:o} and {max:o} inclusive")]
    OctalOutOfBounds {
        /// The smallest one.
        min: i128,
        /// The largest one.
        max: i128,
    },
    /// A percentage that is too large.
    #[error("percentage argument must be less or equal to {max}")]
    PercentTooLarge {
        /// The largest one.
        max: i128,
    },
    /// A word that would not come back from a list of words.
    #[error("argument must not be empty or contain spaces")]
    NotOneWord,
    /// An archive that is neither a directory nor in a bucket.
    #[error(
        "argument must be empty or a directory: file:///path, in a bucket: s3://bucket/prefix, or on another machine: transfer:HOST:PORT/name"
    )]
    Archive,
    /// Another `archive-compression` than there is.
    #[error("argument must be none or zstd:LEVEL, with a level from 1 to 19")]
    Compression,
    /// Rules of `archive-keep` that are none.
    #[error(transparent)]
    ArchiveKeep(archive::NotRules),
    /// `save` without pairs of seconds and changes.
    #[error("Invalid save parameters")]
    SavePoints,
    /// More addresses than Redis takes.
    #[error("Too many bind addresses specified.")]
    TooManyAddresses,
    /// `replicaof` without a port.
    #[error("Invalid master port")]
    MasterPort,
    /// `oom-score-adj-values` outside its bounds.
    #[error("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")]
    OomScore,
    /// A percentile that is no number.
    #[error("Invalid latency-tracking-info-percentiles parameters")]
    NotPercentile,
    /// A percentile outside its bounds.
    #[error("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")]
    PercentileOutOfBounds,
    /// A letter that stands for no class of events.
    #[error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")]
    EventClass,
    /// Limits of output without four words for each class.
    #[error("Wrong number of arguments in buffer limit configuration.")]
    OutputLimitCount,
    /// Limits of output for a class that does not exist.
    #[error("Invalid client class specified in buffer limit configuration.")]
    OutputLimitClass,
    /// Limits of output that are no numbers.
    #[error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")]
    OutputLimitValue,
}

/// What is wrong with a line of a file or an option of the command line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// A quote that is not closed.
    #[error("Unbalanced quotes in configuration line")]
    UnbalancedQuotes,
    /// Bytes that are no text.
    #[error("The line is not UTF-8 text")]
    NotText,
    /// Files that include one another without end.
    #[error("Files include one another too deeply")]
    IncludesTooDeep,
    /// An option without `--`.
    #[error("Options begin with two dashes")]
    NoOption,
    /// No such directive.
    #[error("Bad directive or wrong number of arguments")]
    UnknownDirective,
    /// What it asks for is not there; the text says how to go on.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A `user` that cannot be.
    #[error(transparent)]
    User(#[from] acl::DeclarationError),
    /// A `rename-command` that cannot be.
    #[error(transparent)]
    Rename(#[from] RenameError),
    /// A value that the directive does not take.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// Why the configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("Fatal error, can't open config file '{path}': {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("\n*** FATAL CONFIG FILE ERROR (Indelible {version}, Redis 7.2) ***\nReading {place}, at line {number}\n>>> '{}'\n{why}", shown(line), version = env!("CARGO_PKG_VERSION"))]
    Line {
        /// The file or the command line.
        place: String,
        /// Counted from one.
        number: usize,
        /// The line as it stands there.
        line: String,
        /// What is wrong with it.
        why: LineError,
    },
}

/// A line as it is shown: of a user only the name, as its rules have passwords and a service's messages are kept.
fn shown(line: &str) -> &str {
    let mut words = line.split_whitespace();
    if !words.next().is_some_and(|first| first.eq_ignore_ascii_case("user")) {
        return line;
    }
    let name = words.next().unwrap_or_default();
    // It is a part of the line, which is not copied.
    line.find(name).map_or(line, |at| &line[..at + name.len()])
}

impl ConfigError {
    /// What can stand in a log file, which others may read: without what a refused line says, as
    /// that may be a password.
    #[must_use]
    pub fn for_log(&self) -> String {
        match self {
            Self::Unreadable { .. } => self.to_string(),
            Self::Line { place, number, line, why } => {
                let name: String =
                    line.split_whitespace().next().unwrap_or("").escape_debug().take(64).collect();
                let why = why.to_string();
                let why = if why.contains(line.as_str()) { "it is refused" } else { &why };
                format!("{place}, line {number}, {name}: {why}")
            }
        }
    }
}

/// Why CONFIG SET changed nothing; displayed as the reply.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SetError {
    /// No such directive.
    #[error("ERR Unknown option or number of arguments for CONFIG SET - '{0}'")]
    Unknown(String),
    /// The directive does not take this value, or not now.
    #[error("ERR CONFIG SET failed (possibly related to argument '{directive}') - {why}")]
    Refused {
        /// The directive, as it was called.
        directive: String,
        /// What is wrong.
        why: SetRefusal,
    },
}

/// Why CONFIG SET does not change a directive.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SetRefusal {
    /// It can be changed by a restart only.
    #[error("can't set immutable config")]
    Immutable,
    /// `enable-protected-configs` does not allow it.
    #[error("can't set protected config")]
    Protected,
    /// It was given twice.
    #[error("duplicate parameter")]
    Duplicate,
    /// It does not take this value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// What it asks for is not there; the text says how to go on.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Why a server cannot start with a configuration whose lines are right.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CannotServe {
    /// To serve would be unsafe or untrue.
    #[error("{directive}: {why}")]
    Unsupported {
        /// The directive.
        directive: &'static str,
        /// What is not there, and how to go on.
        why: &'static str,
    },
    /// Users in two places.
    #[error(
        "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is invalid. This \
         setup is very likely to lead to configuration errors and security holes, please define either an ACL file or \
         declare users directly in your redis.conf, but not both."
    )]
    UsersAndFile,
    /// A `user` that cannot be after what follows it in the file.
    #[error(transparent)]
    User(#[from] acl::DeclarationError),
    /// No client could connect.
    #[error(
        "nothing to listen on: port and tls-port are 0 or bind is empty, and there is no unixsocket"
    )]
    Nowhere,
    /// What leaves memory would be nowhere.
    #[error(
        "maxmemory-policy cold-lru and cold-lfu need the redo log: appendonly yes, or another policy"
    )]
    NoLog,
    /// What has changed since the last dump would be nowhere.
    #[error(
        "snapshot-algorithm hourglass needs the redo log: appendonly yes, or another algorithm"
    )]
    NoLogToMerge,
}
