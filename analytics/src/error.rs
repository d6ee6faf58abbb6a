//! Errors of an export, each with what a person needs to act.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source has the form of an address and is none.
    #[error("{text} is no address: {why}; redis://[[USER]:PASSWORD@]HOST[:PORT] is one")]
    Address {
        /// What was given; a password is left out.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },

    /// A field cannot have a column of its own.
    #[error("the field '{name}' cannot be a column: {why}; leave it out, and it is in `fields`")]
    Field {
        /// The field.
        name: String,
        /// Why it cannot be one.
        why: &'static str,
    },

    /// The source cannot be opened.
    #[error("cannot open {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },

    /// The server cannot be reached, or went away before the dump began.
    #[error(
        "cannot ask {address} for a dump: {source}; check that the server runs and listens there"
    )]
    Connection {
        /// Where it should be.
        address: String,
        /// What the system says.
        source: io::Error,
    },

    /// The server gives no dump.
    #[error("{address} answers {command} with \"{reply}\"")]
    Refused {
        /// The server.
        address: String,
        /// What it was asked.
        command: &'static str,
        /// Its answer.
        reply: String,
    },

    /// The dump is damaged, or cannot be read.
    #[error("the dump from {from} {source}")]
    Dump {
        /// Where it comes from.
        from: String,
        /// What is wrong with it.
        source: rdb::Error,
    },

    /// The dump is good and what surrounds it is not.
    #[error(
        "the dump from {from} does not end as it should: {what}; have it written or sent again"
    )]
    Ending {
        /// Where it comes from.
        from: String,
        /// What is wrong with it.
        what: &'static str,
    },

    /// A field that has a column of its own stands twice in one hash.
    #[error(
        "the dump has the field '{name}' twice in the key \"{key}\" of database {database}: no server writes that"
    )]
    FieldTwice {
        /// The field.
        name: String,
        /// The key, with what is not printable escaped.
        key: String,
        /// Its database.
        database: u32,
    },

    /// A key has a value that there is no file for.
    #[error(
        "the key \"{key}\" of database {database} is of type {what}, which is not exported: leave such keys out \
         with --skip-unknown"
    )]
    Foreign {
        /// The key, with what is not printable escaped.
        key: String,
        /// Its database.
        database: u32,
        /// What it is.
        what: &'static str,
    },

    /// What is to be written is there already.
    #[error("{path} is there already: name another directory, or remove it", path = path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },

    /// Another export has the same target.
    #[error("{path} is being written by another export: wait for it", path = path.display())]
    Busy {
        /// Its directory.
        path: PathBuf,
    },

    /// A file or directory of the target cannot be made, written, synced or renamed.
    #[error("cannot write {path}: {source}; check its device and try again", path = path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },

    /// A file cannot be written as Parquet.
    #[error("cannot write {path}: {source}; check its device and try again", path = path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the library says.
        source: ParquetError,
    },
}
