//! Why a command failed. The texts are Redis' own: clients match on them.

use std::borrow::Cow;

/// The error that a handler returns; its text is what the client reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The key holds a value of another type.
    #[error(transparent)]
    WrongType(#[from] keyspace::WrongType),
    /// The arguments do not fit the command's grammar.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument, or a stored value, is not a 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// An argument, or a stored value, is not a number.
    #[error("ERR value is not a valid float")]
    NotAFloat,
    /// The source key is not there.
    #[error("ERR no such key")]
    NoSuchKey,
    /// An index or a length is out of range.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// A string would grow past `proto-max-bulk-len`.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// A number argument is out of its range.
    #[error("ERR value is out of range")]
    OutOfRange,
    /// A count must be positive or zero.
    #[error("ERR value is out of range, must be positive")]
    MustBePositive,
    /// The expiry is not possible.
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(Cow<'static, str>),
    /// Too few or too many arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongArity(Cow<'static, str>),
    /// Whatever else, with its code.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl CommandError {
    /// An error with its whole line: code and text.
    #[must_use]
    pub const fn other(line: &'static str) -> Self {
        Self::Other(Cow::Borrowed(line))
    }
}

/// What a handler returns when it has written its reply.
pub type Done = Result<(), CommandError>;
