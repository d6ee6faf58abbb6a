//! From what is on disk to the state of a log that can go on.
//!
//! `replay` reads everything in order and judges what counts as missing; `cut` puts the end in
//! order.

pub(crate) mod cut;
pub(crate) mod replay;
