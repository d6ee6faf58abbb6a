//! Errors of reading, each with what a person needs to act.

use std::io;

use crate::version::MAGIC_BYTES;

/// Why a dump could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes are not what the format allows.
    #[error("is damaged at byte {offset}: {what}; use another copy, or have it written again")]
    Corrupt {
        /// Where it was noticed, in bytes from the beginning of the dump.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },

    /// It begins with a magic that this program does not read: these nine bytes.
    #[error(
        "begins with \"{}\"; REDIS0001 to REDIS0015 and VALKEY080 are read: if it is a dump at all, \
         have it written by an older server, or use a newer program",
        .0.escape_ascii()
    )]
    Version([u8; MAGIC_BYTES]),

    /// It has a longer string than [`Limits`](crate::Limits) allow.
    #[error(
        "has {bytes} bytes that are held together at byte {offset}, and at most {bytes_max} are read; \
         raise the limit, if that is what the string should be"
    )]
    TooLong {
        /// Where the string begins, in bytes from the beginning of the dump.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },

    /// Its source cannot be read.
    #[error("cannot be read: {0}; check it, its device or its connection, and try again")]
    Io(#[from] io::Error),
}

/// What is wrong with a packed blob, wherever in the dump it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);
