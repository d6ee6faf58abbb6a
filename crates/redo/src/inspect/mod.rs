//! For those who look: `verify` checks a log, `dump` shows it, `stats` counts.

pub(crate) mod dump;
pub(crate) mod verify;
