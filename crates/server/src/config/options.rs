//! The configuration as the server works with it: numbers and enums instead of texts.
//!
//! Read from [`Config`] once after every change, so that nothing on the path of a command ever
//! looks up a name. Reading cannot fail: the texts are canonical, the table has checked them.

use std::path::PathBuf;
use std::str::FromStr;

use keyspace::EvictionPolicy;
use rdb::{Version, WriteOptions};

use super::Config;

/// When a write's reply may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// When it is durable.
    Always,
    /// When it is written; the log is synced every second.
    EverySecond,
    /// When it is written; the kernel decides when to sync.
    No,
}

impl FsyncPolicy {
    /// The policy of this name, in any case.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        [Self::Always, Self::EverySecond, Self::No]
            .into_iter()
            .find(|policy| policy.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// How `appendfsync` writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::No => "no",
        }
    }
}

/// Whether an index of the log is kept: `log-index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPolicy {
    /// None is, and one that is there is removed.
    No,
    /// One is from when the log is so large that it takes noticeably long to read.
    Auto,
    /// One is.
    Yes,
}

/// Which clients may use a dangerous command or directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectedAction {
    /// None.
    No,
    /// All.
    Yes,
    /// Clients on this machine.
    Local,
}

/// How much output may wait for a client of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// More than this ends the connection at once; 0 for no limit.
    pub hard_bytes: u64,
    /// More than this for `soft_seconds` ends it; 0 for no limit.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u64,
}

/// Which clients may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessOptions {
    /// Without a password clients of other machines are refused.
    pub protected_mode: bool,
    /// `enable-debug-command`.
    pub debug_command: ProtectedAction,
    /// `enable-protected-configs`.
    pub protected_configs: ProtectedAction,
    /// No client changes the data: `read-only`.
    pub is_read_only: bool,
    /// A client is the user that its certificate names: `tls-auth-clients-user CN`.
    pub takes_certificate_names: bool,
}

/// Settings of the redo log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether there is a log at all: `appendonly`.
    pub enabled: bool,
    /// The directories the segments lie in; one below `dir` when the list is empty.
    pub devices: Vec<PathBuf>,
    /// The size at which a segment is sealed.
    pub segment_bytes: u64,
    /// The size at which a block is sealed before the loop iteration ends.
    pub block_bytes: u64,
    /// How much may wait for the devices before clients are held back.
    pub in_flight_bytes: u64,
    /// Whether zeros are written ahead for segments.
    pub preallocates: bool,
    /// The share of invalid records, in percent, that makes a segment worth compacting.
    pub compaction_invalid_percentage: u64,
    /// The share of garbage in the whole log, in percent of the live data, up to which only segments that
    /// are mostly garbage are compacted.
    pub compaction_garbage_percentage: u64,
    /// The number of invalid records that makes a segment worth compacting.
    pub compaction_invalid_min: u64,
    /// Whether the log is indexed.
    pub index: IndexPolicy,
    /// `recovery`: an index may be believed at the start.
    pub is_instant: bool,
    /// How much of the log is read before what it says is written to the index.
    pub index_cut_bytes: u64,
    /// How often it is noted which keys are hot, in seconds; 0 for never.
    pub hot_every_s: u64,
    /// Whether segments are compacted without being asked to.
    pub compaction_enabled: bool,
    /// How fast compaction may read and write; 0 for no bound.
    pub compaction_bytes_per_second: u64,
    /// How fast sealed segments are read again to find damage; 0 for not at all.
    pub scrub_bytes_per_second: u64,
    /// How long what compactions replace is kept, in seconds; 0 to keep nothing.
    pub history_seconds: u64,
    /// How much of it is kept however old it is.
    pub history_bytes: u64,
    /// How much of it is kept at most, in percent of the log.
    pub history_percentage: u64,
    /// Whether named backups are given up for a disk that is short of room.
    pub history_drops_backups: bool,
    /// Where the log is archived, and how.
    pub archive: ArchiveSettings,
}

/// Blocks are not shipped more often than that.
const INTERVAL_MS_MIN: u64 = 10;

/// Settings of continuous archiving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Where the archive is; `None` for no archive.
    pub place: Option<ArchivePlace>,
    /// The level of zstd that objects are compressed with; `None` for not at all: `archive-compression`.
    pub zstd_level: Option<i32>,
    /// How often blocks are shipped, in milliseconds.
    pub interval_ms: u64,
    /// Past so many bytes an object takes no further block.
    pub object_bytes: usize,
    /// A new copy is made when the log behind the last one is larger than so many percent of it; 0: never.
    pub base_percentage: u64,
    /// How long which states are kept: `archive-keep`.
    pub keep: archive::Keep,
    /// Writes are refused while the archive is further behind than so many seconds; 0: never.
    pub required_s: u64,
}

/// Where an archive is, and what it is encrypted with. Another place is another archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePlace {
    /// `archive`, which is not empty.
    pub url: String,
    /// The files of the keys: the first one encrypts, all of them decrypt; none for an archive in clear: `archive-key-file`.
    pub key_files: Vec<PathBuf>,
}

impl ArchivePlace {
    /// How often blocks are shipped there, in milliseconds, if nothing else was said: each time costs requests.
    const fn interval_ms(is_bucket: bool) -> u64 {
        if is_bucket { 10_000 } else { 1000 }
    }
}

/// How a dump comes to be of one moment: `snapshot-algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAlgorithm {
    /// By the log where there is one.
    Auto,
    /// By the log's validity bitmaps.
    Bitmap,
    /// By a walk of memory, which commands hand over to what they are about to change.
    Piggyback,
    /// By such a walk, to which keys are copied as a whole before they are changed.
    CopyOnUpdate,
    /// By a child process.
    Fork,
    /// By the log, merged with the last dump.
    Hourglass,
}

impl SnapshotAlgorithm {
    /// Whether it needs the log, and nothing but that.
    pub(crate) const fn reads_log(self) -> bool {
        matches!(self, Self::Bitmap | Self::Hourglass)
    }
}

/// Settings of dumps.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// After so many seconds with so many changes there is one: `save`.
    pub points: Vec<(u64, u64)>,
    /// Whether writers are refused when one has failed and there are save points.
    pub stops_writes_on_error: bool,
    /// See [`SnapshotAlgorithm`].
    pub algorithm: SnapshotAlgorithm,
    /// How much of the executor's time a walk of memory may take under load, in percent: `snapshot-cpu-percent`.
    pub cpu_percent: u64,
    /// How many bytes a second a dump may read, sort on disk and write: `snapshot-bytes-per-second`; 0 for no bound.
    pub bytes_per_s: u64,
    /// What a dump takes of memory, about: `snapshot-memory`.
    pub memory_bytes: usize,
    /// How they are written: `rdb-version`, `rdbcompression`, `rdbchecksum`.
    pub rdb: WriteOptions,
    /// How long a client may take nothing of its dump: `repl-timeout`.
    pub silence_s_max: u64,
}

/// What a command log keeps.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Commands that take or have at least this, in microseconds or bytes; negative for none.
    pub least: i64,
    /// How many, the latest.
    pub len_max: usize,
}

/// Settings for tests.
#[derive(Clone, Copy, Debug)]
pub struct DebugOptions {
    /// So many of a hundred values leave memory after each iteration: `debug-drop-values`.
    pub drop_values: u8,
    /// How long after a start keys begin to come back unasked: `debug-restore-delay-ms`.
    pub restore_delay_ms: u64,
}

/// See the file's top.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are redis.conf's directives, documented there")]
pub struct Options {
    pub databases: usize,
    pub debug: DebugOptions,
    /// Which keys go when memory is short: `maxmemory-policy`.
    pub eviction: EvictionPolicy,
    pub max_clients: usize,
    pub timeout_s: u64,
    pub access: AccessOptions,
    pub bulk_bytes_max: u64,
    pub query_buffer_bytes_max: u64,
    /// By class: normal, replica, pubsub.
    pub output_limits: [OutputLimit; 3],
    /// After how long other clients are told that a script runs; 0 for never.
    pub busy_reply_threshold_ms: u64,
    /// Of commands that are slow, of large requests and of large replies.
    pub command_logs: [LogLimits; 3],
    pub latency_threshold_ms: u64,
    pub latency_tracking: bool,
    pub latency_percentiles: Vec<f64>,
    /// How many keys are remembered for clients that have read them.
    pub tracking_keys_max: usize,
    pub maxmemory_bytes: u64,
    /// What keys without values may take: `cold-keys-maxmemory`. Negative: a percentage of
    /// `maxmemory_bytes`.
    pub cold_keys_bytes_max: i64,
    /// Negative: a percentage of `maxmemory_bytes`.
    pub clients_bytes_max: i64,
    pub hz: u32,
    pub active_expire_effort: u32,
    pub fsync: FsyncPolicy,
    pub saves: SaveOptions,
    pub log: LogOptions,
}

impl Config {
    /// The values in the form that the server works with.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            databases: self.number("databases"),
            debug: DebugOptions {
                drop_values: self.number("debug-drop-values"),
                restore_delay_ms: self.number("debug-restore-delay-ms"),
            },
            eviction: eviction(self.value("maxmemory-policy")),
            max_clients: self.number("maxclients"),
            timeout_s: self.number("timeout"),
            access: AccessOptions {
                protected_mode: self.is_yes("protected-mode"),
                debug_command: self.protected_action("enable-debug-command"),
                protected_configs: self.protected_action("enable-protected-configs"),
                is_read_only: self.is_yes("read-only"),
                takes_certificate_names: self.value("tls-auth-clients-user") == "CN",
            },
            // Keys and elements have lengths of 32 bits in memory.
            bulk_bytes_max: self.number::<u64>("proto-max-bulk-len").min(u32::MAX.into()),
            query_buffer_bytes_max: self.number("client-query-buffer-limit"),
            output_limits: self.output_limits(),
            busy_reply_threshold_ms: self.number("busy-reply-threshold"),
            command_logs: [
                ("slowlog-log-slower-than", "slowlog-max-len"),
                ("commandlog-request-larger-than", "commandlog-large-request-max-len"),
                ("commandlog-reply-larger-than", "commandlog-large-reply-max-len"),
            ]
            .map(|(least, len_max)| LogLimits {
                least: self.number(least),
                len_max: self.number(len_max),
            }),
            latency_threshold_ms: self.number("latency-monitor-threshold"),
            latency_tracking: self.is_yes("latency-tracking"),
            latency_percentiles: self
                .words("latency-tracking-info-percentiles")
                .map(number)
                .collect(),
            tracking_keys_max: match self.number("tracking-table-max-keys") {
                0 => usize::MAX,
                keys => keys,
            },
            maxmemory_bytes: self.number("maxmemory"),
            cold_keys_bytes_max: self.number("cold-keys-maxmemory"),
            clients_bytes_max: self.number("maxmemory-clients"),
            hz: self.number::<u32>("hz").clamp(1, 500),
            active_expire_effort: self.number("active-expire-effort"),
            fsync: FsyncPolicy::by_name(self.value("appendfsync").as_bytes())
                .expect("the table lists the names"),
            saves: self.save_options(),
            log: LogOptions {
                enabled: self.is_yes("appendonly"),
                devices: self.words("log-devices").map(PathBuf::from).collect(),
                segment_bytes: self.number("log-segment-bytes"),
                block_bytes: self.number("log-block-bytes"),
                in_flight_bytes: self.number("log-in-flight-bytes"),
                preallocates: self.is_yes("log-preallocate"),
                compaction_invalid_percentage: self.number("log-compaction-invalid-percentage"),
                compaction_garbage_percentage: self.number("log-compaction-garbage-percentage"),
                compaction_invalid_min: self.number("log-compaction-invalid-min"),
                index: index_policy(self.value("log-index")),
                is_instant: self.value("recovery") == "instant",
                index_cut_bytes: self.number("log-index-cut-bytes"),
                hot_every_s: self.number("log-index-hot-seconds"),
                compaction_enabled: self.is_yes("log-compaction"),
                compaction_bytes_per_second: self.number("log-compaction-bytes-per-second"),
                scrub_bytes_per_second: self.number("log-scrub-bytes-per-second"),
                history_seconds: self.number("log-history-seconds"),
                history_bytes: self.number("log-history-bytes"),
                history_percentage: self.number("log-history-percentage"),
                history_drops_backups: self.is_yes("log-history-drop-backups"),
                archive: ArchiveSettings {
                    place: Some(self.value("archive")).filter(|url| !url.is_empty()).map(|url| {
                        ArchivePlace {
                            url: url.to_owned(),
                            key_files: self.words("archive-key-file").map(PathBuf::from).collect(),
                        }
                    }),
                    zstd_level: self
                        .value("archive-compression")
                        .strip_prefix("zstd:")
                        .and_then(|level| level.parse().ok()),
                    interval_ms: match self.number("archive-interval-ms") {
                        0 => ArchivePlace::interval_ms(self.value("archive").starts_with("s3:")),
                        ms => ms.max(INTERVAL_MS_MIN),
                    },
                    object_bytes: self.number("archive-object-bytes"),
                    base_percentage: self.number("archive-base-percentage"),
                    keep: self.value("archive-keep").parse().unwrap_or_default(),
                    required_s: self.number("archive-required"),
                },
            },
        }
    }

    /// A directive's value as a number.
    #[must_use]
    pub fn number<T: FromStr>(&self, name: &str) -> T {
        number(self.value(name))
    }

    /// Whether a directive's value is yes.
    #[must_use]
    pub fn is_yes(&self, name: &str) -> bool {
        self.value(name) == "yes"
    }

    /// The words of a directive's value.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.value(name).split_ascii_whitespace()
    }

    fn protected_action(&self, name: &str) -> ProtectedAction {
        match self.value(name) {
            "yes" => ProtectedAction::Yes,
            "local" => ProtectedAction::Local,
            _ => ProtectedAction::No,
        }
    }

    fn save_options(&self) -> SaveOptions {
        let numbers: Vec<u64> = self.words("save").map(number).collect();
        SaveOptions {
            points: numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            algorithm: match self.value("snapshot-algorithm") {
                "bitmap" => SnapshotAlgorithm::Bitmap,
                "piggyback" => SnapshotAlgorithm::Piggyback,
                "cou" => SnapshotAlgorithm::CopyOnUpdate,
                "fork" => SnapshotAlgorithm::Fork,
                "hourglass" => SnapshotAlgorithm::Hourglass,
                _ => SnapshotAlgorithm::Auto,
            },
            cpu_percent: self.number("snapshot-cpu-percent"),
            bytes_per_s: self.number("snapshot-bytes-per-second"),
            memory_bytes: self.number("snapshot-memory"),
            stops_writes_on_error: self.is_yes("stop-writes-on-bgsave-error"),
            rdb: WriteOptions {
                version: rdb_version(self.value("rdb-version")),
                compress: self.is_yes("rdbcompression"),
                checksum: self.is_yes("rdbchecksum"),
            },
            silence_s_max: self.number("repl-timeout"),
        }
    }

    fn output_limits(&self) -> [OutputLimit; 3] {
        let words: Vec<&str> = self.words("client-output-buffer-limit").collect();
        [0, 4, 8].map(|at| OutputLimit {
            hard_bytes: number(words[at + 1]),
            soft_bytes: number(words[at + 2]),
            soft_seconds: number(words[at + 3]),
        })
    }
}

/// A number of the table, which has checked it.
fn number<T: FromStr>(text: &str) -> T {
    text.parse().ok().expect("the table has checked the bounds")
}

impl Options {
    /// How many files each thread may keep open that reads what is not in memory. Where little will be,
    /// two: no descriptors are kept back for them then.
    #[must_use]
    pub const fn fetched_files(&self) -> usize {
        let has_index = !matches!(self.log.index, IndexPolicy::No);
        if self.log.enabled && (has_index || self.eviction.is_cold()) { 32 } else { 2 }
    }

    /// What one request may bring into memory.
    #[must_use]
    pub const fn request_bytes_max(&self) -> u64 {
        match self.maxmemory_bytes {
            0 => u64::MAX,
            limit => limit / 2,
        }
    }

    /// What may be in memory, or on its way there, for requests that wait.
    #[must_use]
    pub const fn fetch_bytes_max(&self) -> u64 {
        match self.maxmemory_bytes {
            0 => 256 << 20,
            limit => limit / 4,
        }
    }

    /// How many bytes keys may take whose values are not in memory.
    #[must_use]
    pub fn bare_key_bytes_max(&self) -> u64 {
        let percentage = u64::try_from(-self.cold_keys_bytes_max).unwrap_or(0);
        let share = self.maxmemory_bytes / 100 * percentage;
        u64::try_from(self.cold_keys_bytes_max).unwrap_or(share)
    }

    /// How many bytes what comes unasked may fill, if values may leave memory. A tenth is left for what
    /// is asked for.
    #[must_use]
    pub const fn room_bytes(&self) -> Option<u64> {
        if self.maxmemory_bytes > 0 && self.eviction.is_cold() {
            Some(self.maxmemory_bytes / 10 * 9)
        } else {
            None
        }
    }
}

/// `rdb-version`: the label of dumps. The smallest one holds all that there is to dump.
fn rdb_version(name: &str) -> Version {
    match name {
        "auto" => Version::Redis(9),
        "80" => Version::Valkey(80),
        number => Version::Redis(self::number(number)),
    }
}

fn index_policy(name: &str) -> IndexPolicy {
    match name {
        "no" => IndexPolicy::No,
        "auto" => IndexPolicy::Auto,
        _ => IndexPolicy::Yes,
    }
}

/// `maxmemory-policy` as the keyspace names it.
fn eviction(name: &str) -> EvictionPolicy {
    match name {
        "allkeys-lru" => EvictionPolicy::AllKeysLru,
        "allkeys-lfu" => EvictionPolicy::AllKeysLfu,
        "allkeys-lrm" => EvictionPolicy::AllKeysLrm,
        "allkeys-random" => EvictionPolicy::AllKeysRandom,
        "volatile-lru" => EvictionPolicy::VolatileLru,
        "volatile-lfu" => EvictionPolicy::VolatileLfu,
        "volatile-lrm" => EvictionPolicy::VolatileLrm,
        "volatile-random" => EvictionPolicy::VolatileRandom,
        "volatile-ttl" => EvictionPolicy::VolatileTtl,
        "cold-lru" => EvictionPolicy::ColdLru,
        "cold-lfu" => EvictionPolicy::ColdLfu,
        _ => EvictionPolicy::NoEviction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_safe() {
        let options = Config::default().options();
        assert_eq!(options.fsync, FsyncPolicy::Always);
        assert!(options.log.enabled && options.access.protected_mode);
        assert_eq!(options.output_limits[2].hard_bytes, 32 << 20);
        assert_eq!(options.latency_percentiles, [50.0, 99.0, 99.9]);
    }
}
