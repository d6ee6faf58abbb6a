//! Damage: found while the log runs, or repaired when it cannot start.
//!
//! `scrubber` reads again what was written, and `healing` writes anew what it finds damaged. `offline`
//! makes a log start of what is good: `places` finds whose directories there are, `salvage` what is
//! good in a file, and `rebuild` writes it.

pub(crate) mod healing;
pub(crate) mod offline;
pub(crate) mod places;
pub(crate) mod rebuild;
pub(crate) mod salvage;
pub(crate) mod scrubber;
