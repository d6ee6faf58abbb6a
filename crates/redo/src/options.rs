//! How a log is set up, and what it needs of the world.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Clock, Disk, Entropy};

/// How long a group of records is at least, unless its image ends: see [`crate::groups`].
pub const GROUP_BYTES: u32 = 8 << 10;

/// Called, from any thread, when the durable LSN has advanced or the health has changed.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The world outside.
pub struct Env {
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub entropy: Box<dyn Entropy>,
    /// Called when [`crate::Log::poll`] has something to find.
    pub waker: Waker,
}

/// When a block is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// As soon as it is written.
    Always,
    /// Every second.
    EverySec,
    /// When the kernel likes, when a segment is full, and when something asks for it.
    No,
}

/// When a segment is compacted, and how fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactionOptions {
    /// Whether segments are compacted without being asked to.
    pub enabled: bool,
    /// At least so many of its records must be garbage; or a 64th of all that it ever had, if that
    /// is less.
    pub invalid_count_min: u32,
    /// At least this share of its records must be garbage.
    pub invalid_share_min: f64,
    /// As long as the garbage of the whole log is less than this share of its live data, only files
    /// that are mostly garbage are compacted; 0 makes [`Self::invalid_share_min`] count alone.
    pub garbage_share_min: f64,
    /// So many small files on a device are worth being made one.
    pub gathered_min: usize,
    /// How many bytes a second the compactor reads at most; 0 for no limit.
    pub rate_bytes_per_s: u64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            invalid_count_min: 1024,
            invalid_share_min: 0.4,
            garbage_share_min: 0.45,
            gathered_min: 8,
            rate_bytes_per_s: 128 << 20,
        }
    }
}

/// How much is kept of what compactions replace, so that the log can be read as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryOptions {
    /// What was replaced so many seconds ago is given up, beyond [`Self::bytes_min`]; 0 to keep
    /// nothing at all.
    pub seconds: u64,
    /// So much is kept however old it is.
    pub bytes_min: u64,
    /// However young it is, no more than this is kept, in percent of what the log was at most
    /// meanwhile; or [`Self::bytes_min`], if that is more.
    pub percentage: u64,
    /// Whether named backups are given up, the oldest first, for a disk that is short of room when nothing else
    /// is left.
    pub drops_backups: bool,
}

impl HistoryOptions {
    /// Nothing is kept, but for marks.
    pub const OFF: Self = Self { seconds: 0, bytes_min: 0, percentage: 0, drops_backups: false };

    /// Everything is kept: for a program that opens the log of another for a while.
    pub const ALL: Self =
        Self { seconds: u64::MAX, bytes_min: u64::MAX, percentage: 100, drops_backups: false };
}

/// How a log is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory: manifest, lock, and the default device below it.
    pub dir: PathBuf,
    /// The data directory that the log will have, when it is built in `dir` and published later:
    /// devices below it are noted by paths that move with it.
    pub destination: Option<PathBuf>,
    /// The directories of the devices; none for one device below `dir`.
    pub devices: Vec<PathBuf>,
    /// When blocks are synced.
    pub policy: SyncPolicy,
    /// The size past which a segment takes no further block. With little data it is less, so that
    /// the segments that take the log, which cannot be compacted, are a small share of it.
    pub segment_bytes: u64,
    /// About how much is read for a record by its address: see [`crate::groups`].
    pub group_bytes: u32,
    /// Past so many bytes that are not yet durable the log is congested.
    pub in_flight_bytes_max: u64,
    /// Past so many bytes behind the cut of an index that is kept the log is congested.
    pub index_lag_bytes_max: u64,
    /// How much space a device sets aside for a full disk.
    pub reserve_bytes: u64,
    /// So many blocks a device has written since the start when zeros are written ahead for its segments; `None`
    /// for no device. A [`crate::Preparer`] must be stepped for it.
    pub zeros_blocks_min: Option<u64>,
    /// When segments are compacted.
    pub compaction: CompactionOptions,
    /// How much is kept of what compactions replace.
    pub history: HistoryOptions,
    /// So much of the bitmaps of marks is copied in a [`crate::Log::tick`].
    pub mark_copy_bytes: usize,
    /// Whether recovery reads with several threads, each device on one of its own.
    pub parallel_loaders: bool,
}

impl Options {
    /// The defaults, for a log in `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            destination: None,
            devices: Vec::new(),
            policy: SyncPolicy::Always,
            segment_bytes: 64 << 20,
            group_bytes: GROUP_BYTES,
            in_flight_bytes_max: 64 << 20,
            index_lag_bytes_max: 1 << 30,
            reserve_bytes: 16 << 20,
            zeros_blocks_min: None,
            compaction: CompactionOptions::default(),
            history: HistoryOptions::OFF,
            // Less than half a millisecond.
            mark_copy_bytes: 2 << 20,
            parallel_loaders: true,
        }
    }

    /// The directory that the paths of devices in the manifest are relative to.
    #[must_use]
    pub(crate) fn home(&self) -> &Path {
        self.destination.as_deref().unwrap_or(&self.dir)
    }

    /// The directories of the devices, the default one included.
    #[must_use]
    pub fn device_dirs(&self) -> Vec<PathBuf> {
        match self.devices[..] {
            [] => vec![default_device(&self.dir)],
            _ => self.devices.clone(),
        }
    }
}

/// The device of a log in `dir` that was given none.
pub(crate) fn default_device(dir: &Path) -> PathBuf {
    dir.join("redo")
}
