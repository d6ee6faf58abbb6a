//! How much of the past the files of a log still tell.
//!
//! ```text
//!   block      1 ……………… horizon ……………… told from ……………… now
//!   has        some of its records      every record
//!   and what there was before it is     not all told      told
//! ```
//!
//! A compaction drops what was garbage when its bitmaps were copied. So blocks of a compacted segment have lost
//! some of their records; and the state of a moment before the copying may have lost some that were needed then.

use base::Lsn;

use crate::format::manifest::Manifest;
use crate::read::scan::SegmentFile;

/// See the file's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// No compaction has ever dropped anything of a block above this one, or history has it.
    pub horizon: Lsn,
    /// The state after this block, and after each one behind it, is told completely by the records up to there.
    pub told_from: Lsn,
    /// The last block that is durable.
    pub durable: Lsn,
}

/// See [`Extent::horizon`]. `images` must have been looked up before the manifest.
pub(crate) fn horizon(manifest: &Manifest, images: &[SegmentFile]) -> Lsn {
    images.iter().map(|image| image.header.horizon).fold(manifest.horizon, Lsn::max)
}

/// See [`Extent::told_from`]. The block that was the last when the bitmaps were copied is in the file that came
/// of it, and in the manifest, also of files that are gone.
pub(crate) fn told_from(manifest: &Manifest, images: &[SegmentFile]) -> Lsn {
    if horizon(manifest, images) == Lsn::ZERO {
        // Nothing was ever compacted: a manifest without a floor stands for the last block.
        return Lsn::ZERO;
    }
    let kept = manifest.history.iter().map(|kept| kept.until);
    let compacted = images.iter().filter(|image| image.header.generation > 0);
    let compacted = compacted.map(|image| image.header.durable_lsn);
    kept.chain(compacted).fold(manifest.history_floor, Lsn::max)
}
