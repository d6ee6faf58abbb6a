//! From what is on disk to the state of a log that can go on.
//!
//! `replay` reads everything in order and judges what counts as missing, or what is `behind` the cut of
//! an index; `cut` puts the end in order.

pub(crate) mod behind;
pub(crate) mod cut;
pub(crate) mod notes;
pub(crate) mod replay;
