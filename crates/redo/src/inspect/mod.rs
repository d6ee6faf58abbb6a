//! Looking at a log that is not open: `verify` checks it, `dump` shows it, `stored_log` reads it for others.

pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod stored_log;
pub(crate) mod verify;
