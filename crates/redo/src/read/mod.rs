//! Reading what is on disk, believing nothing and changing nothing.
//!
//! `in_use` says whether there is a log, `catalog` what belongs to it, `scan` reads one image block
//! by block, `large_block` a block piece by piece, and `merge` brings all blocks into the order of
//! their LSNs.

pub(crate) mod catalog;
pub(crate) mod in_use;
pub(crate) mod large_block;
pub(crate) mod merge;
pub(crate) mod scan;
