//! What is known of file systems, by the number by which each names itself (statfs, magic.h).
//!
//! | file system | overwrites in place | a write with `RWF_DSYNC` is durable |
//! | --- | --- | --- |
//! | ext2, ext3, ext4 | yes | yes |
//! | XFS | yes, unless blocks are shared | yes |
//! | btrfs | no: it writes elsewhere | yes |
//! | others | not known | not known: a sync follows |

use rustix::fs::StatFs;

/// ext2, ext3 and ext4 have one number.
const EXT: i128 = 0xef53;
const XFS: i128 = 0x5846_5342;
const BTRFS: i128 = 0x9123_683e;

/// Whether a write over what is there changes neither a length nor a place.
pub(crate) fn overwrites_in_place(stat: &StatFs) -> bool {
    matches!(i128::from(stat.f_type), EXT | XFS)
}

/// Whether a write with `RWF_DSYNC` is known to be durable when it returns.
pub(crate) fn honours_dsync(stat: &StatFs) -> bool {
    matches!(i128::from(stat.f_type), EXT | XFS | BTRFS)
}
