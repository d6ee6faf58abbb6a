//! Where the blocks come from. What reaches further back than the files in place is to be added here.

use base::Lsn;
use redo::{Blocks, Extent, Reader};

use super::error::TailResult;

/// The blocks from this one on, whole.
pub(super) fn whole_from(reader: &Reader, from: Lsn) -> Blocks {
    reader.whole_blocks(from)
}

/// What is left of the blocks up to this one.
pub(super) fn left_up_to(reader: &Reader, last: Lsn) -> Blocks {
    reader.blocks(Lsn(1)).up_to(last)
}

/// How much of the past there is.
pub(super) fn extent(reader: &Reader) -> TailResult<Extent> {
    Ok(reader.extent()?)
}
