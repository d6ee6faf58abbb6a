//! From what is on disk to a log that goes on.
//!
//! `recovery` opens, `catalog` looks what is there, `scan` reads one image believing nothing, `merge`
//! brings all blocks into the order of their LSNs, `replay` judges what counts as missing, and `cut`
//! puts the end in order.

pub(crate) mod catalog;
pub(crate) mod cut;
pub(crate) mod merge;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod scan;
