//! Why a run ended early.

use std::path::{Path, PathBuf};

/// Errors of a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two transactions conflicted. This one has had no effect: run it again.
    #[error("given up for another transaction: run it again")]
    Conflict,

    /// A store failed.
    #[error("{engine}: {what}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// Its error.
        what: String,
    },

    /// A file or directory of the benchmark itself.
    #[error("cannot use {path}: {source}", path = path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },

    /// The program was built without this store.
    #[error("this program was built without {engine}: build it with make bench-peers")]
    NotBuilt {
        /// The store.
        engine: &'static str,
    },

    /// The data differ from what the workload has written.
    #[error("the data are wrong: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an error of the store `engine`.
    pub(crate) fn engine(engine: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Self {
        move |what| Self::Engine { engine, what: what.to_string() }
    }

    /// Wraps an error about the file `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_path_buf(), source }
    }

    /// Creates an error for wrong data.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}
