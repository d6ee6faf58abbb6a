//! Looking at a log that is not open: `verify` checks it, `dump` shows it.

pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod verify;
