//! What no client may exceed: input and output that wait, and time without a word; and what else
//! is done several times a second.

use super::client::Closing;
use super::{ClientKey, Engine, LogHealth, ShardLog};

/// An input buffer larger than this is given back when it is empty.
pub(super) const KEPT_INPUT_BYTES_MAX: usize = 16 * 1024;

/// Only when more than this waits is it worth a look between two commands.
const UNCHECKED_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Before authentication: what a client may have sent without a complete request, what may wait for
/// it while its requests are executed (Redis' static buffer and a KiB), and what its socket may
/// refuse. As in Redis since CVE-2025-21605.
const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 64 * 1024;
const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 17 * 1024;
const UNAUTHENTICATED_UNSENT_BYTES_MAX: usize = 1024;

/// The same for what a client has sent and was not executed.
const UNCHECKED_INPUT_BYTES_MAX: usize = 64 * 1024;

impl Engine {
    /// Ends a connection whose request has become too large.
    pub(super) fn check_input_size(&mut self, key: ClientKey) {
        let Some(client) = self.sessions.clients.get(key) else { return };
        let queued =
            client.session.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes());
        let held = client.connection.input.len() + client.connection.parser.memory_bytes() + queued;
        let is_stranger = client.session.is_stranger()
            && client.connection.input.len() > UNAUTHENTICATED_INPUT_BYTES_MAX;
        if is_stranger || held as u64 > self.options.query_buffer_bytes_max {
            let address = client.connection.peer.address.clone();
            self.deps
                .logger
                .warning(&format!("Closing client {address} that reached max query buffer length"));
            self.end_client(key, Closing::Now);
        } else if client.connection.input.len() > UNCHECKED_INPUT_BYTES_MAX {
            self.evict_clients_soon();
        }
    }

    /// How many bytes may wait for a client in the middle of a command: its hard limit, or half of
    /// the machine's memory.
    pub(super) fn output_room(&self, key: ClientKey) -> usize {
        let Some(client) = self.sessions.clients.get(key) else { return 0 };
        if client.session.is_stranger() {
            return UNAUTHENTICATED_OUTPUT_BYTES_MAX;
        }
        match self.options.output_limits[client.output_class()].hard_bytes {
            0 => self.unlimited_output_bytes,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// Ends a connection for which more would wait than may.
    pub(super) fn end_over_limit(&mut self, key: ClientKey) {
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        client.connection.output.clear();
        if client.connection.closing == Closing::Now {
            return;
        }
        let address = client.connection.peer.address.clone();
        self.deps.logger.warning(&format!(
            "Client {address} scheduled to be closed ASAP for overcoming of output buffer limits."
        ));
        self.end_client(key, Closing::Now);
    }

    /// Ends a connection that reads too slowly, in the middle of what it has sent.
    pub(super) fn check_large_output(&mut self, key: ClientKey) {
        if self.sessions[key].connection.output.is_over() {
            self.end_over_limit(key);
            return;
        }
        self.check_stranger(key, 0, UNAUTHENTICATED_OUTPUT_BYTES_MAX);
        if self.sessions[key].connection.output.waiting_bytes() > UNCHECKED_OUTPUT_BYTES_MAX {
            self.check_output_size(key);
            self.evict_clients_soon();
            let client = &mut self.sessions[key];
            if client.connection.closing == Closing::Now {
                client.connection.output.clear();
            }
        }
    }

    /// The socket of a client takes nothing more for now, where `handed_over` bytes wait for it that were sent as far as
    /// the engine knows.
    pub fn stuck(&mut self, key: ClientKey, handed_over: usize) {
        self.check_stranger(key, handed_over, UNAUTHENTICATED_UNSENT_BYTES_MAX);
    }

    /// Ends the connection of a client that has not authenticated and does not read.
    fn check_stranger(&mut self, key: ClientKey, handed_over: usize, bytes_max: usize) {
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        let is_over = client.session.is_stranger()
            && client.connection.output.waiting_bytes() + handed_over > bytes_max;
        if is_over && client.connection.closing != Closing::Now {
            client.connection.output.clear();
            let address = client.connection.peer.address.clone();
            self.deps.logger.warning(&format!(
                "Client {address} scheduled to be closed ASAP: it reads no replies and has not \
                 authenticated."
            ));
            self.end_client(key, Closing::Now);
        }
    }

    /// Ends a connection that reads too slowly.
    pub(super) fn check_output_size(&mut self, key: ClientKey) {
        let now_us = self.time.now_us;
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        let limit = self.options.output_limits[client.output_class()];
        let waiting_bytes = client.connection.output.waiting_bytes() as u64;
        let is_above = |bytes: u64| bytes > 0 && waiting_bytes > bytes;
        if !is_above(limit.soft_bytes) {
            client.connection.soft_limit_since_us = None;
        }
        let since_us = if is_above(limit.soft_bytes) {
            *client.connection.soft_limit_since_us.get_or_insert(now_us)
        } else {
            now_us
        };
        let is_soft_over =
            is_above(limit.soft_bytes) && now_us - since_us > limit.soft_seconds * 1_000_000;
        if is_above(limit.hard_bytes) || is_soft_over {
            self.end_over_limit(key);
        }
    }

    /// What is done `hz` times a second.
    pub(super) fn periodic(&mut self) {
        self.observed.sample_rates(self.time.now_us);
        self.observed.note_memory(self.deps.host.used_bytes());
        self.expire();
        self.shard.sweep(self.time.now_us, self.options.active_expire_effort);
        if self.options.eviction.is_cold() {
            // What came unasked is more than there is room for, and no command may come for a while.
            self.make_room();
        }
        self.shard.note_full();
        let is_over = self.sessions.tracking.key_count() > self.options.tracking_keys_max;
        if is_over && !self.sleep.is_cron_paused {
            self.limit_tracking();
        }
        self.check_clients();
        self.evict_clients();
        self.shard.tick_log(self.time.now_us, &self.deps.logger);
        self.give_up_held();
        self.save_if_due();
    }

    /// Deletes some keys that have expired.
    pub(super) fn expire(&mut self) {
        let now_ms = self.time.unix_ms();
        self.shard.keyspace.begin_command(now_ms);
        let clock = std::sync::Arc::clone(&self.deps.clock);
        let effort = self.options.active_expire_effort;
        if let Some(duration_us) = self.shard.expire_cycle(clock.as_ref(), effort) {
            self.note_latency("expire-cycle", duration_us);
        }
        self.end_unasked();
    }

    /// What was done to keys unasked comes to its end, as a command does.
    pub(super) fn end_unasked(&mut self) {
        if self.shard.keyspace.has_effects() {
            let (lsn, _) = self.shard.keyspace.end_command();
            self.settle(lsn, None);
            self.serve_ready_keys();
            self.seal_if_large();
        }
    }

    /// When the log has failed, replies that wait for it will never be true: their clients learn
    /// it by the end of their connections.
    fn give_up_held(&mut self) {
        if self.sessions.held.is_empty() {
            return;
        }
        if let Some(LogHealth::Failed(why)) = self.shard.log().map(ShardLog::health) {
            let logger = self.deps.logger.clone();
            logger.warning(&format!(
                "Closing {} clients whose writes cannot become durable: {why}",
                self.sessions.held.len()
            ));
            for (key, id) in self.sessions.held.take_all() {
                // The place may be another client's by now.
                if self.sessions.clients.get(key).is_some_and(|client| client.id == id) {
                    self.end_client(key, Closing::Now);
                }
            }
        }
    }

    /// Ends connections that were silent, or slow, for too long.
    fn check_clients(&mut self) {
        let now_us = self.time.now_us;
        while let Some(key) = self.sessions.half_open.take_late(&self.sessions.clients, now_us) {
            self.deps.logger.verbose("Closing client: its TLS handshake takes too long");
            self.end_client(key, Closing::Now);
        }
        let timeout_us = self.options.timeout_s * 1_000_000;
        for key in self.sessions.clients.keys() {
            let client = &self.sessions[key];
            let is_idle = timeout_us > 0
                && self.time.now_us.saturating_sub(client.connection.active_us) > timeout_us
                && client.session.wait.is_none()
                && !client.is_subscribed()
                && client.session.monitor.is_none();
            let has_waiting_output = client.connection.output.waiting_bytes() > 0;
            if is_idle {
                self.deps.logger.verbose("Closing idle client");
                self.end_client(key, Closing::Now);
            } else if has_waiting_output {
                self.check_output_size(key);
            }
        }
    }
}
