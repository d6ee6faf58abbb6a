//! Where the blocks come from: the files in place, and those of history.

use base::Lsn;
use redo::{Blocks, Extent, Reader};

use super::error::TailResult;

/// The blocks from this one on, whole.
pub(super) fn whole_from(reader: &Reader, from: Lsn) -> Blocks {
    reader.whole_blocks(from)
}

/// The blocks up to this one, with what was needed then.
pub(super) fn of_state(reader: &Reader, last: Lsn) -> Blocks {
    reader.blocks_of_state(last)
}

/// How much of the past there is.
pub(super) fn extent(reader: &Reader) -> TailResult<Extent> {
    Ok(reader.extent()?)
}
