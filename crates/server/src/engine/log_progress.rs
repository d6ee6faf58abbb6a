//! What it means for clients that the log comes further.

use base::Lsn;

use super::shard::Level;
use super::{ClientKey, Engine};

impl Engine {
    /// Ends the log's open block.
    pub(super) fn seal(&mut self) {
        let begun_us = self.deps.clock.monotonic_us();
        self.shard.seal();
        self.observed.cycles.log_us += self.deps.clock.monotonic_us().saturating_sub(begun_us);
        self.update_congestion();
    }

    /// What a client has sent is executed: what has changed is told before others are answered, and the log's open block
    /// ends if it has become large.
    pub fn seal_if_large(&mut self) {
        if !self.scripting.is_running() {
            self.end_broadcast();
        }
        // Only between commands: a command's records lie in one block.
        if !self.scripting.is_running() && self.shard.seal_if_large(self.options.log.block_bytes) {
            self.update_congestion();
        }
    }

    /// A client waits until everything so far has come to `level`.
    pub(super) fn await_block(&mut self, level: Level) {
        self.shard.await_block(level, self.options.fsync);
    }

    /// A reply waits behind a new gate.
    pub(super) fn hold(&mut self, key: ClientKey, level: Level, lsn: Lsn) {
        let id = self.sessions[key].id;
        if self.sessions.held.push(level, lsn, key, id)
            && let Some(log) = self.shard.log_mut()
        {
            log.want_written(lsn);
        }
    }

    /// The log may have come further than before: replies that waited may go.
    pub fn log_advanced(&mut self) {
        let Some(advance) = self.shard.advance() else { return };
        let reach = self.shard.reach;
        while let Some(key) = self.sessions.held.pop_reached(&reach) {
            self.sessions.note(key);
        }
        if advance.is_more_durable {
            self.sessions.wake_durable(self.shard.reach.durable, &mut self.shard.keyspace);
            let now_us = self.deps.clock.monotonic_us();
            self.backups.note_durable(reach.durable, now_us);
        }
    }

    /// Nothing is deleted unasked while the log takes no writes, or clients that write are paused.
    pub(super) fn update_frozen(&mut self) {
        let holds_writers = self.saves.final_save || self.migrations.holds_writers();
        self.shard.update_frozen(self.pause.is_some() || holds_writers);
    }

    /// Evicts until the memory is below the limit. `false` when it is above and nothing helps.
    ///
    /// While writers wait for memory, [`Engine::end_iteration`] does that, and commands do not: what was read for
    /// them would leave again before they are executed.
    pub(super) fn make_room(&mut self) -> bool {
        self.shard.waits_to_cool() || self.make_room_now()
    }

    /// As [`Engine::make_room`], also while writers wait.
    pub(super) fn make_room_now(&mut self) -> bool {
        // What a walk has is gone soon, whatever is evicted.
        let limit_bytes = match self.options.maxmemory_bytes {
            0 => 0,
            bytes => bytes.saturating_add(self.walking.bytes(&self.shard.keyspace)),
        };
        let key_bytes_max = (!self.in_transaction).then(|| self.options.bare_key_bytes_max());
        if limit_bytes == 0 || !self.shard.is_full(self.deps.host.as_ref(), limit_bytes) {
            self.shard.note_room();
            return true;
        }
        let clock = std::sync::Arc::clone(&self.deps.clock);
        let start_us = clock.monotonic_us();
        let now_ms = self.time.unix_ms();
        self.shard.keyspace.begin_command(now_ms);
        let host = self.deps.host.as_ref();
        let has_room = self.shard.evict(host, clock.as_ref(), limit_bytes, key_bytes_max);
        let (lsn, _) = self.shard.keyspace.end_command();
        self.settle(lsn, None);
        self.note_latency("eviction-cycle", clock.monotonic_us() - start_us);
        has_room
    }
}
