//! Why a server could not start or had to stop, each with what a person needs to act.
//!
//! ```text
//!   config::CannotServe ──────┐
//!   network::ListenError ─────┤
//!   tls::TlsError ────────────┤
//!   admin::AdminError ────────┤
//!   engine::OpenLogError ─────┼─► ServeError ─► the log file, the standard error output
//!   engine::CloseError ───────┤
//!   import::ImportError ──────┤
//!   the process, its loop ────┘
//! ```

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::CannotServe;
use crate::engine::{AclFileError, CloseError, OpenLogError};
use crate::import::ImportError;
use crate::network::ListenError;
use crate::tls::TlsError;

/// See the file's top.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The configuration asks for what is not there.
    #[error(transparent)]
    Configuration(#[from] CannotServe),
    /// The file of the users cannot be used.
    #[error("Aborting startup because of ACL errors: {0}")]
    Users(#[from] AclFileError),
    /// The log file cannot be written.
    #[error("Can't open the log file: {0}")]
    LogFile(#[source] io::Error),
    /// The data directory cannot be entered.
    #[error("Can't chdir to '{path}': {source}")]
    Directory {
        /// The directory.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A running server has the data directory.
    #[error("{path}: another process uses this data directory", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Files of a Redis server cannot be imported, and an empty database would start next to data that its
    /// users take to be loaded.
    #[error(
        "there is no redo log, and the files of a Redis server cannot be imported: {0}. To begin with an empty \
         database next to them: --ignore-redis-files yes"
    )]
    Import(#[from] ImportError),
    /// There are files of a Redis server that Redis would not load either.
    #[error(
        "{path} holds data of a Redis server that this configuration does not load: {what}, or begin with an \
         empty database next to it with --ignore-redis-files yes",
        path = path.display()
    )]
    RedisFiles {
        /// The file of Redis.
        path: PathBuf,
        /// What to do.
        what: &'static str,
    },
    /// There are an AOF and a dump, and the configuration does not say which of them has the data.
    #[error(
        "{aof} and {dump} hold data of a Redis server, and appendonly is not set: set appendonly yes to import the \
         first, appendonly no to import the second as Redis would by default, or begin with an empty database next \
         to them with --ignore-redis-files yes",
        aof = aof.display(),
        dump = dump.display()
    )]
    TwoSources {
        /// The AOF, or its manifest.
        aof: PathBuf,
        /// The dump.
        dump: PathBuf,
    },
    /// An import was interrupted, and what it imported is not there.
    #[error(
        "an import into {path} was interrupted: run `indelible import` again, or begin with an empty database \
         with --ignore-redis-files yes",
        path = path.display()
    )]
    UnfinishedImport {
        /// The data directory.
        path: PathBuf,
    },
    /// Connections cannot be secured.
    #[error("Failed to configure TLS: {0}")]
    Tls(#[from] TlsError),
    /// There is no admin page.
    #[error(transparent)]
    Admin(#[from] admin::AdminError),
    /// Clients cannot connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no event loop: descriptors or memory of the kernel are used up.
    #[error(transparent)]
    EventLoop(io::Error),
    /// The event loop does not learn what happens.
    #[error("cannot wait for events: {0}")]
    Wait(#[source] io::Error),
    /// Signals cannot be watched for.
    #[error(transparent)]
    Signals(io::Error),
    /// The redo log cannot be opened or read.
    #[error(transparent)]
    OpenLog(#[from] OpenLogError),
    /// The redo log was not closed well.
    #[error(transparent)]
    CloseLog(#[from] CloseError),
}

impl ServeError {
    /// Whether something of the log is not what it was, or is not there any more.
    pub(crate) const fn is_damaged_log(&self) -> bool {
        matches!(self, Self::OpenLog(OpenLogError::Log(why)) if why.is_damage())
    }
}
