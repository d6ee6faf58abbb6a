//! Figures for people and monitoring.

use std::sync::atomic::Ordering;

use base::{Lsn, SegmentId};

use crate::compact::schedule::Schedule;
use crate::compact::segments::Segments;
use crate::repair::healing::Healing;
use crate::repair::scrubber::ScrubQueue;
use crate::shared::device::{DeviceStats, Service, Shared};

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
    /// Marks, and what they cost.
    pub marks: MarkStats,
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

/// What there is to say about marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// How many marks hold files.
    pub count: usize,
    /// How many files that were replaced are kept for them.
    pub kept_files: usize,
}

/// What [`crate::Log::history`] says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// The log can be read as of every block from this one on.
    pub from_lsn: Lsn,
    /// When that was the last block, at the latest, in Unix milliseconds.
    pub from_time_ms: i64,
    /// How long ago that is; 0 if nothing is kept but for marks.
    pub seconds: u64,
    /// How long the kept files are, those of marks included.
    pub bytes: u64,
    /// How many there are.
    pub files: usize,
    /// How many were given up before they were old, or could not be kept.
    pub given_up: u64,
    /// No more than this is kept, because a device has refused more that its disk seemed to have room for.
    pub limit_bytes: Option<u64>,
    /// How many directories with links of other processes there are, a minute ago at most.
    pub readers: usize,
    /// How long the files are that have no other name than one of those links.
    pub reader_bytes: u64,
}

/// What [`crate::Log::index_stats`] says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// About how many bytes lie behind the cut of the index; 0 without one.
    pub lag_bytes: u64,
    /// Whether a start would believe the index.
    pub is_believed: bool,
    /// So many starts in a row before this one have ended before it was known what is garbage.
    pub unfinished_starts: u64,
}

impl Stats {
    pub(crate) fn add_segments(&mut self, segments: &Segments) {
        for segment in segments.iter() {
            self.segments += 1;
            self.files += usize::from(segment.leader == segment.id) + segment.parts.len();
            self.bytes += segment.bytes;
            self.records += u64::from(segment.present_count);
            self.invalid_records += u64::from(segment.invalid_count);
            self.delete_records += u64::from(segment.delete_count);
            self.bitmap_bytes += segment.bitmap_bytes() as u64;
        }
    }

    pub(crate) fn add_compactions(&mut self, schedule: &Schedule) {
        let tally = &schedule.tally;
        self.compactions = tally.compactions;
        self.compactions_failed = tally.failed;
        self.reclaimed_bytes = tally.reclaimed_bytes;
        self.compaction_error.clone_from(&tally.last_error);
        self.is_sweeping = schedule.is_sweeping();
        self.compacting = schedule.compacting().first().copied();
    }

    pub(crate) fn add_repairs(&mut self, scrub: &ScrubQueue, healing: &Healing) {
        self.scrubbed_bytes = scrub.scrubbed_bytes.load(Ordering::Relaxed);
        self.scrub_passes = scrub.passes.load(Ordering::Relaxed);
        self.scrub_pass_ended_at_ms = scrub.pass_ended_at_ms.load(Ordering::Relaxed);
        self.scrub_errors = healing.error_count;
        self.scrub_healed = healing.healed_count;
        self.scrub_error.clone_from(&healing.last_error);
    }

    pub(crate) fn add_devices(&mut self, shared: &Shared, segments: &Segments) {
        let now_us = shared.clock.monotonic_us();
        for (index, device) in shared.devices.iter().enumerate() {
            if device.service() == Service::Gone {
                continue;
            }
            let mut stats = device.stats(now_us);
            for segment in segments.iter().filter(|segment| segment.device == index) {
                stats.segments += 1;
                stats.bytes += segment.bytes;
                stats.records += u64::from(segment.present_count);
                stats.invalid_records += u64::from(segment.invalid_count);
            }
            self.devices.push(stats);
        }
    }
}
