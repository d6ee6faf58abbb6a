//! Why a run ended early.

use std::path::{Path, PathBuf};

/// What can go wrong in a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two transactions stood in each other's way. This one has no effect: run it again.
    #[error("given up for another transaction: run it again")]
    Conflict,

    /// A store failed.
    #[error("{engine}: {what}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// What it said.
        what: String,
    },

    /// A file or directory of the benchmark itself.
    #[error("cannot use {path}: {source}", path = path.display())]
    File {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// The program was built without a store.
    #[error("this program was built without {engine}: build it with make bench-peers")]
    NotBuilt {
        /// The store.
        engine: &'static str,
    },

    /// The data are not what the workload has written.
    #[error("the data are wrong: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For an error of the store `engine`.
    pub(crate) fn engine(engine: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Self {
        move |what| Self::Engine { engine, what: what.to_string() }
    }

    /// For an error about the file `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_path_buf(), source }
    }

    /// For data that are wrong.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}
