//! Keeps the memory below `maxmemory`: evicts keys or drops values before a command, and says when
//! nothing helps.

use base::Lsn;
use env::Clock;
use keyspace::Round;

use super::{LogHealth, LogState, Shard};
use crate::host::Host;

/// How long a command may be held up by evictions, in microseconds; the rest is done before the
/// next ones.
const EVICTION_US_MAX: u64 = 500;

impl Shard {
    /// Whether evicting may have to be done before a command.
    pub(in crate::engine) fn is_full(&self, host: &dyn Host, limit_bytes: u64) -> bool {
        // While it is frozen no key can be evicted; commands that write are refused for what is
        // behind that. Values may leave memory, as that writes nothing.
        let may_evict = !self.keyspace.is_frozen() || self.keyspace.settings().eviction.is_cold();
        host.used_bytes() > limit_bytes && !self.is_loading() && may_evict
    }

    /// Evicts until the memory is below the limit. `false` when it is above and nothing helps. Where values
    /// leave memory, their keys take `key_bytes_max` together; without it they stay.
    pub(in crate::engine) fn evict(
        &mut self,
        host: &dyn Host,
        clock: &dyn Clock,
        limit_bytes: u64,
        key_bytes_max: Option<u64>,
    ) -> bool {
        let start_us = clock.monotonic_us();
        let is_late = || clock.monotonic_us() - start_us > EVICTION_US_MAX;
        // What was deleted goes first: a flush empties the database at once and its memory later.
        while self.keyspace.freeing() > 0 && !is_late() {
            self.keyspace.free_step(1000);
        }
        let mut has_room = self.keyspace.freeing() > 0 || host.used_bytes() <= limit_bytes;
        if self.keyspace.settings().eviction.is_cold() {
            return has_room || self.cool(host, &is_late, limit_bytes, key_bytes_max);
        }
        while !has_room && self.keyspace.evict_one() {
            // A large value is not freed in one piece.
            while self.keyspace.free_step(1000) && !is_late() {}
            has_room = host.used_bytes() <= limit_bytes;
            // Out of time, but not out of keys: the command may go ahead.
            if has_room || is_late() {
                return true;
            }
        }
        has_room
    }

    /// Whether what takes memory waits until values can leave it: what was written is not durable yet.
    pub(in crate::engine) fn waits_to_cool(&self) -> bool {
        self.cooling.after > self.reach.durable && self.health == LogHealth::Good
    }

    /// Whether values may leave memory: a log that is not on yet has not everything.
    fn can_cool(&self) -> bool {
        matches!(self.log_state(), LogState::On(_))
            && self.keyspace.has_restorer()
            && !self.is_loading()
    }

    /// Drops about so many of a hundred of some values, and of keys without any, whatever there is room
    /// for; and now and then asks for the index, which keys need.
    pub(in crate::engine) fn drop_some(&mut self, percentage: u8) {
        if self.can_cool() {
            self.note_indexed();
            let is_cut = self.keyspace.rng().u8(..16) == 0;
            if let Some(log) = self.keyspace.journal_mut().log_mut().filter(|_| is_cut) {
                log.want_indexed();
            }
            self.keyspace.drop_some_keys(percentage);
            self.keyspace.drop_some(percentage);
        }
    }

    /// Drops values that the log has. `false` when the memory is above the limit and nothing can go.
    fn cool(
        &mut self,
        host: &dyn Host,
        is_late: &dyn Fn() -> bool,
        limit_bytes: u64,
        key_bytes_max: Option<u64>,
    ) -> bool {
        if !self.can_cool() {
            return false;
        }
        self.note_indexed();
        loop {
            let cooled = self.keyspace.cool_step(key_bytes_max);
            while self.keyspace.free_step(1000) && !is_late() {}
            let used_bytes = host.used_bytes();
            if used_bytes <= limit_bytes {
                self.cooling = Cooling::default();
                return true;
            }
            self.cooling.lacks_index |= cooled.lacks_index;
            if let Some(round) = cooled.round {
                self.end_round(round, used_bytes);
            }
            if self.waits_to_cool() {
                return true;
            }
            if self.cooling.is_hopeless {
                return false;
            }
            // Out of time, but not out of values: the command may go ahead.
            if is_late() {
                return true;
            }
        }
    }

    /// The hand has come round, and this much is used.
    fn end_round(&mut self, round: Round, used_bytes: u64) {
        let before = self.cooling.round_bytes.replace(used_bytes);
        let is_no_less = before.is_some_and(|before| used_bytes >= before);
        self.cooling.is_hopeless = is_no_less && (round.gone > 0 || round.was_desperate);
        let lacks_index = std::mem::take(&mut self.cooling.lacks_index);
        let Some(log) = self.keyspace.journal_mut().log_mut() else { return };
        if lacks_index {
            log.want_indexed();
        }
        if self.cooling.is_hopeless {
            // What is not durable cannot go, and will soon.
            self.cooling.after = log.request_sync();
            if self.waits_to_cool() {
                (self.cooling.is_hopeless, self.cooling.round_bytes) = (false, None);
            }
        }
    }
}

/// How far it has come to keep the memory below the limit by dropping values.
#[derive(Debug, Default)]
pub(in crate::engine) struct Cooling {
    /// Up to here the log must be durable for more values to leave memory.
    after: Lsn,
    /// How much was used when the hand came round last.
    round_bytes: Option<u64>,
    /// A large value or a key could go if the index knew it.
    lacks_index: bool,
    /// A whole round has freed nothing: what is left cannot go.
    is_hopeless: bool,
}
