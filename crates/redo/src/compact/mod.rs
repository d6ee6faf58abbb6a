//! Garbage: what it is, when it goes, and how.
//!
//! `segments` knows the garbage of each (`bitmap`) and when delete records may go. `schedule` chooses
//! what is compacted, `pins` forbid it, `compactor` does it: file by file, segment by segment
//! (`image_copy`), and large blocks piece by piece (`large_block`); `debt` is about what happens when it
//! does not keep up.

pub(crate) mod bitmap;
pub(crate) mod compactor;
pub(crate) mod debt;
pub(crate) mod image_copy;
pub(crate) mod large_block;
pub(crate) mod pins;
pub(crate) mod schedule;
pub(crate) mod segments;
