//! The numbers that decide the shape of the index and the size of a step.

/// The shape of the index and the size of a step. The defaults are the product's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The bytes of a block, from 256 to 32 KiB, a power of two.
    pub block_bytes: u32,
    /// So many runs of level 0 are merged into one of level 1.
    pub fan_in: usize,
    /// More runs than this are not merged at once, as far as they are of level 0. At least 2.
    pub merge_max: usize,
    /// When there are so many runs of level 1, everything is merged into the bottom.
    pub level_1_max: usize,
    /// When what is newer than the bottom exceeds this part of its bytes, everything is merged.
    pub newer_per_cent: u64,
    /// But not while it has fewer bytes than this: a small bottom would be written again for each cut.
    pub newer_min_bytes: u64,
    /// The bytes of blocks that are kept in memory.
    pub cache_bytes: u64,
    /// The entries that a step handles.
    pub step_entries: usize,
    /// The bytes of a read or a write of a run.
    pub chunk_bytes: usize,
    /// What is written of a run is synced in portions of so many bytes.
    pub sync_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            fan_in: 8,
            merge_max: 64,
            level_1_max: 8,
            newer_per_cent: 25,
            newer_min_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            step_entries: 8192,
            chunk_bytes: 256 << 10,
            sync_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Returns whether the format allows blocks of so many bytes.
    pub(crate) const fn is_block_size(bytes: u32) -> bool {
        bytes.is_power_of_two() && bytes >= 256 && bytes <= 32 << 10
    }
}
