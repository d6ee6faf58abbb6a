//! `maxmemory-clients`: when all clients together take too much memory, the largest ones are
//! disconnected until the rest take less.
//!
//! What clients take is added up several times a second, and earlier when one of them has become
//! large. CLIENT NO-EVICT exempts a connection from being disconnected, not from being counted.

use super::client::Closing;
use super::{ClientKey, Engine};

/// Below this Redis takes no limit seriously.
const LIMIT_BYTES_MIN: u64 = 128 * 1024;

/// How often a client that is large is a reason to look at all of them, in microseconds.
const LOOK_EVERY_US: u64 = 1000;

/// When clients were looked at, and what came of it.
#[derive(Default)]
pub(super) struct ClientEviction {
    look_at_us: u64,
    /// How many clients were disconnected.
    pub(super) evicted_count: u64,
}

impl Engine {
    /// How much all clients may take; 0 for any.
    fn clients_bytes_max(&self) -> u64 {
        let setting = self.options.clients_bytes_max;
        let bytes = match u64::try_from(setting) {
            Ok(bytes) => bytes,
            // A share of what everything may take.
            Err(_) => self.options.maxmemory_bytes / 100 * setting.unsigned_abs(),
        };
        if bytes == 0 { 0 } else { bytes.max(LIMIT_BYTES_MIN) }
    }

    /// A client has become large: looks at all of them, unless that was done just now.
    pub(super) fn evict_clients_soon(&mut self) {
        if self.time.now_us >= self.sessions.client_eviction.look_at_us {
            self.evict_clients();
        }
    }

    /// Disconnects the largest clients while all together are too large.
    pub(super) fn evict_clients(&mut self) {
        let limit = self.clients_bytes_max();
        self.sessions.client_eviction.look_at_us = self.time.now_us + LOOK_EVERY_US;
        if limit == 0 {
            return;
        }
        let mut sizes: Vec<(usize, ClientKey)> = self
            .sessions
            .clients
            .iter()
            .map(|(key, client)| (client.memory_bytes(), key))
            .collect();
        let mut total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
        if total as u64 <= limit {
            return;
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        for (bytes, key) in sizes {
            if total as u64 <= limit {
                break;
            }
            let client = &self.sessions[key];
            if client.connection.is_exempt_from_eviction
                || client.connection.closing == Closing::Now
            {
                continue;
            }
            let line = self.client_line(key);
            self.deps.logger.notice(&format!("Evicting client: {line}"));
            self.sessions.client_eviction.evicted_count += 1;
            self.end_client(key, Closing::Now);
            let client = &mut self.sessions[key];
            client.connection.output.clear();
            client.connection.input = Vec::new();
            total -= bytes;
        }
    }
}
