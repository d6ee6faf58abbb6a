//! Keeps the memory below `maxmemory`: evicts keys before a command, and says when nothing helps.

use super::Engine;

/// How long a command may be held up by evictions, in microseconds; the rest is done before the
/// next ones.
const EVICTION_US_MAX: u64 = 500;

impl Engine {
    /// Evicts until the memory is below the limit. `false` when it is above and nothing helps.
    pub(super) fn make_room(&mut self) -> bool {
        let limit = self.options.maxmemory_bytes;
        if self.surroundings.host.used_bytes() <= limit || self.loading.is_some() {
            return true;
        }
        if self.keyspace.is_frozen() {
            // Nothing can be evicted; commands that write are refused for what is behind that.
            return true;
        }
        let clock = std::sync::Arc::clone(&self.surroundings.clock);
        let start_us = clock.monotonic_us();
        self.keyspace.begin_command(self.unix_ms());
        let is_late = || clock.monotonic_us() - start_us > EVICTION_US_MAX;
        // What was deleted goes first: a flush empties the database at once and its memory later.
        while self.keyspace.freeing() > 0 && !is_late() {
            self.keyspace.free_step(1000);
        }
        let mut has_room =
            self.keyspace.freeing() > 0 || self.surroundings.host.used_bytes() <= limit;
        while !has_room && self.keyspace.evict_one() {
            // A large value is not freed in one piece.
            while self.keyspace.free_step(1000) && !is_late() {}
            has_room = self.surroundings.host.used_bytes() <= limit;
            // Out of time, but not out of keys: the command may go ahead.
            if has_room || is_late() {
                has_room = true;
                break;
            }
        }
        let (lsn, _) = self.keyspace.end_command();
        self.settle(lsn);
        self.note_latency("eviction-cycle", clock.monotonic_us() - start_us);
        has_room
    }
}
