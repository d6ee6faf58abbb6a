//! Why a command failed.

/// The error that a handler returns; its text is what the client reads.
#[derive(Debug)]
pub enum CommandError {}
