//! Brings a changed configuration to where it applies.

use keyspace::stream::MessageLimits;
use keyspace::{Notify, Settings};

use super::Engine;
use crate::config::{Config, Options};

impl Engine {
    /// Replaces the configuration.
    pub(super) fn set_config(&mut self, config: Config) {
        self.config = config;
        self.options = self.config.options();
        self.apply_settings();
    }

    /// What a reply to a write promises: the policy of the log, or `volatile` without one.
    pub(super) fn durability(&self) -> &'static str {
        if self.options.log.enabled { self.options.fsync.name() } else { "volatile" }
    }

    /// Tells the keyspace and the log what the configuration says.
    pub(super) fn apply_settings(&mut self) {
        keyspace_settings(&self.config, &self.options, self.shard.keyspace.settings_mut());
        let logger = &self.deps.logger;
        logger.set_level(self.config.value("loglevel"));
        logger
            .set_format(self.config.value("log-format"), self.config.value("log-timestamp-format"));
        self.deps.logger.set_crash_reports(self.config.value("crash-log-enabled") == "yes");
        self.shard.configure_log(&self.options);
        let durable = self.shard.reach.durable;
        self.archives.set_options(&self.options.log.archive, self.time.now_us, durable);
        self.archive_configuration();
    }
}

/// Tells a keyspace what the configuration says.
pub(crate) fn keyspace_settings(config: &Config, options: &Options, settings: &mut Settings) {
    settings.hash_max_listpack_entries = config.number("hash-max-listpack-entries");
    settings.hash_max_listpack_value = config.number("hash-max-listpack-value");
    settings.set_max_intset_entries = config.number("set-max-intset-entries");
    settings.zset_max_listpack_entries = config.number("zset-max-listpack-entries");
    settings.zset_max_listpack_value = config.number("zset-max-listpack-value");
    settings.hll_sparse_max_bytes = config.number("hll-sparse-max-bytes");
    settings.stream_node_max_entries = config.number("stream-node-max-entries");
    settings.stream_node_max_bytes = config.number("stream-node-max-bytes");
    settings.message_limits = MessageLimits {
        duration_s: config.number("stream-idmp-duration"),
        messages_max: config.number("stream-idmp-maxsize"),
    };
    settings.list_max_listpack_size = config.number("list-max-listpack-size");
    settings.eviction = options.eviction;
    settings.is_memory_limited = options.maxmemory_bytes > 0;
    settings.eviction_samples = config.number("maxmemory-samples");
    settings.lfu_log_factor = config.number("lfu-log-factor");
    settings.lfu_decay_minutes = config.number("lfu-decay-time");
    settings.notify = Notify::parse(config.value("notify-keyspace-events")).unwrap_or(Notify::NONE);
}
