//! The settings of a running server that the keyspace obeys, with Redis' names and defaults.

use crate::stream::MessageLimits;

/// What is evicted when memory is short (`maxmemory-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// Nothing: writes are refused.
    NoEviction,
    /// The least recently used of all keys.
    AllKeysLru,
    /// The least frequently used of all keys.
    AllKeysLfu,
    /// The least recently modified of all keys.
    AllKeysLrm,
    /// Any key.
    AllKeysRandom,
    /// The least recently used of the keys that expire.
    VolatileLru,
    /// The least frequently used of the keys that expire.
    VolatileLfu,
    /// The least recently modified of the keys that expire.
    VolatileLrm,
    /// Any key that expires.
    VolatileRandom,
    /// The key that expires first.
    VolatileTtl,
    /// No key: the least recently used values leave memory, and stay in the log.
    ColdLru,
    /// No key: the least frequently used values leave memory, and stay in the log.
    ColdLfu,
}

impl EvictionPolicy {
    /// Whether entries keep how often they are used, rather than when.
    #[must_use]
    pub const fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::VolatileLfu | Self::ColdLfu)
    }

    /// Whether entries keep when they were modified: to read them is no use.
    #[must_use]
    pub const fn is_lrm(self) -> bool {
        matches!(self, Self::AllKeysLrm | Self::VolatileLrm)
    }

    /// Whether values leave memory and no key is deleted.
    #[must_use]
    pub const fn is_cold(self) -> bool {
        matches!(self, Self::ColdLru | Self::ColdLfu)
    }

    /// Whether the choice depends on the use of each key.
    #[must_use]
    pub const fn looks_at_use(self) -> bool {
        matches!(self, Self::AllKeysLru | Self::VolatileLru | Self::ColdLru)
            || self.is_lfu()
            || self.is_lrm()
    }

    /// Whether only keys that expire are evicted.
    #[must_use]
    pub const fn is_volatile(self) -> bool {
        matches!(
            self,
            Self::VolatileLru
                | Self::VolatileLfu
                | Self::VolatileLrm
                | Self::VolatileRandom
                | Self::VolatileTtl
        )
    }
}

/// See the file's top.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `hash-max-listpack-entries`, in fields.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`, in bytes.
    pub hash_max_listpack_value: usize,
    /// `set-max-intset-entries`, in members.
    pub set_max_intset_entries: usize,
    /// `zset-max-listpack-entries`, in members.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`, in bytes.
    pub zset_max_listpack_value: usize,
    /// `hll-sparse-max-bytes`: how long a HyperLogLog's string may be while it is sparse.
    pub hll_sparse_max_bytes: usize,
    /// `list-max-listpack-size`: elements a node when positive, a size class when negative.
    pub list_max_listpack_size: i64,
    /// `stream-node-max-entries`; 0 for no limit.
    pub stream_node_max_entries: u64,
    /// `stream-node-max-bytes`; 0 for no limit.
    pub stream_node_max_bytes: u64,
    /// `stream-idmp-duration` and `stream-idmp-maxsize`: of streams that know of no message yet.
    pub message_limits: MessageLimits,
    /// `maxmemory-policy`.
    pub eviction: EvictionPolicy,
    /// Whether `maxmemory` is a limit.
    pub is_memory_limited: bool,
    /// `maxmemory-samples`, in keys.
    pub eviction_samples: usize,
    /// `lfu-log-factor`.
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`, in minutes.
    pub lfu_decay_minutes: u32,
    /// `notify-keyspace-events`.
    pub notify: crate::effects::Notify,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            hll_sparse_max_bytes: 3000,
            list_max_listpack_size: -2,
            stream_node_max_entries: 100,
            stream_node_max_bytes: 4096,
            message_limits: MessageLimits::default(),
            eviction: EvictionPolicy::NoEviction,
            is_memory_limited: false,
            eviction_samples: 5,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            notify: crate::effects::Notify::NONE,
        }
    }
}
