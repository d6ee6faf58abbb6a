//! Figures for people and monitoring.

use base::{Lsn, SegmentId};

use crate::shared::device::DeviceStats;

/// What [`crate::Log::stats`] says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many times the log was opened.
    pub epoch: u64,
    /// The block that takes records.
    pub open_lsn: Lsn,
    /// The last block of the durable prefix.
    pub durable_lsn: Lsn,
    /// Bytes in blocks that were handed over and are not given back yet.
    pub in_flight_bytes: u64,
    /// How many marks hold files.
    pub marks: usize,
    /// How many files that were replaced are kept for them.
    pub kept_files: usize,
    /// How many segments there are.
    pub segments: usize,
    /// How many files they are in.
    pub files: usize,
    /// How long their files are.
    pub bytes: u64,
    /// How many records are in them.
    pub records: u64,
    /// How many of those are garbage.
    pub invalid_records: u64,
    /// How many of them say that an entry is gone.
    pub delete_records: u64,
    /// Memory of the validity bitmaps.
    pub bitmap_bytes: u64,
    /// The segment that is being compacted.
    pub compacting: Option<SegmentId>,
    /// Whether a compaction of everything is going on.
    pub is_sweeping: bool,
    /// Compactions that came to a good end.
    pub compactions: u64,
    /// Compactions that did not.
    pub compactions_failed: u64,
    /// Bytes that compactions have freed.
    pub reclaimed_bytes: u64,
    /// Why the last compaction failed.
    pub compaction_error: Option<String>,
    /// Bytes that the scrubber has read.
    pub scrubbed_bytes: u64,
    /// How often it has read everything.
    pub scrub_passes: u64,
    /// When it last had, in Unix milliseconds; 0 for never.
    pub scrub_pass_ended_at_ms: i64,
    /// Damaged files that it has found.
    pub scrub_errors: u64,
    /// How many of them are superfluous by now, and put aside.
    pub scrub_healed: u64,
    /// What was wrong with the last one.
    pub scrub_error: Option<String>,
    /// Each device.
    pub devices: Vec<DeviceStats>,
}
