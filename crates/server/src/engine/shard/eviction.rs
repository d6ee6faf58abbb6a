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

/// For so long writers wait for memory that does not become less while the index does not come further; what needs
/// memory is refused then.
const WAIT_US_MAX: u64 = 2_000_000;

/// It becomes less if it does so by one in so many bytes.
const PROGRESS_SHARE: u64 = 128;

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
        // What was flushed while memory is walked goes when the walk has passed.
        let is_freeing = self.keyspace.freeing() > 0 || self.keyspace.detached_keys() > 0;
        let mut has_room = is_freeing || host.used_bytes() <= limit_bytes;
        if self.keyspace.settings().eviction.is_cold() {
            return has_room || self.cool(host, clock, limit_bytes, key_bytes_max);
        }
        // The policy may have been another one.
        self.note_room();
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

    /// Whether what takes memory waits until values have left it.
    pub(in crate::engine) fn waits_to_cool(&self) -> bool {
        let is_cold = self.keyspace.settings().eviction.is_cold();
        self.cooling.wait.is_some() && is_cold && self.health == LogHealth::Good
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
        clock: &dyn Clock,
        limit_bytes: u64,
        key_bytes_max: Option<u64>,
    ) -> bool {
        if !self.can_cool() {
            self.note_room();
            return false;
        }
        if self.health != LogHealth::Good {
            self.cooling.wait = None;
        }
        self.note_indexed();
        let start_us = clock.monotonic_us();
        let is_late = || clock.monotonic_us() - start_us > EVICTION_US_MAX;
        loop {
            let cooled = self.keyspace.cool_step(key_bytes_max);
            while self.keyspace.free_step(1000) && !is_late() {}
            let used_bytes = host.used_bytes();
            if used_bytes <= limit_bytes {
                self.note_room();
                return true;
            }
            self.cooling.lacks_index |= cooled.lacks_index;
            if let Some(round) = cooled.round {
                self.end_round(round, used_bytes, clock.monotonic_us());
            }
            let now_us = clock.monotonic_us();
            let log = Known { durable: self.reach.durable, indexed: self.keyspace.indexed_lsn() };
            if let Some(wait) = &mut self.cooling.wait
                && wait.is_in_vain(used_bytes, limit_bytes, log, now_us)
            {
                (self.cooling.wait, self.cooling.is_hopeless) = (None, true);
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
    fn end_round(&mut self, round: Round, used_bytes: u64, now_us: u64) {
        let before = self.cooling.round_bytes.replace(used_bytes);
        let lacks_index = std::mem::take(&mut self.cooling.lacks_index);
        let is_indexed = self.keyspace.knows_index();
        let Some(log) = self.keyspace.journal_mut().log_mut() else { return };
        // One that is just begun knows nothing yet.
        let may_be_indexed = lacks_index && log.want_indexed() || is_indexed;
        let is_no_less = before.is_some_and(|before| used_bytes >= before);
        if !is_no_less {
            let is_clearly_less = before.is_some_and(|it| used_bytes + it / PROGRESS_SHARE < it);
            self.cooling.is_hopeless &= !is_clearly_less;
            self.cooling.round_was_durable = false;
            return;
        }
        // What is not durable cannot go, and will soon; without an index nothing else is waited for.
        let until = log.request_sync();
        let is_durable = until <= self.reach.durable;
        if self.cooling.is_hopeless {
            return;
        }
        let has_seen_all = round.was_desperate && self.cooling.round_was_durable;
        self.cooling.round_was_durable = is_durable;
        if has_seen_all && round.gone == 0 && !may_be_indexed {
            (self.cooling.wait, self.cooling.is_hopeless) = (None, true);
            return;
        }
        let (least_bytes, since_us) = (used_bytes, now_us);
        let begun = Wait { least_bytes, since_us, until, indexed: None, has_seen_all: false };
        let wait = self.cooling.wait.get_or_insert(begun);
        wait.has_seen_all |= round.was_desperate;
        self.keyspace.hurry();
    }

    /// There is room: no client waits for it, and none is refused.
    pub(in crate::engine) fn note_room(&mut self) {
        if self.cooling != Cooling::default() {
            self.cooling = Cooling::default();
            self.keyspace.calm_down();
        }
    }
}

/// How far it has come to keep the memory below the limit by dropping values.
///
/// ```text
///   below the limit ─► above ──a round frees nothing──► waiting ──no less for WAIT_US_MAX──► hopeless
///          ▲             │                                │                                    │
///          └─────────────┴────────── memory falls below the limit ─────────────────────────────┘
/// ```
///
/// The time counts from when what was written before is durable and the index was written last, and is not over before
/// the hand has passed over all and taken whatever may go.
///
/// While it waits, writers are held back, and each round of the hand takes more than the one before: what
/// fills memory besides values becomes less by itself, as blocks are written and the index is merged, and
/// what could not go is durable and indexed by then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Cooling {
    /// How much was used when the hand came round last.
    round_bytes: Option<u64>,
    /// All that was written was durable when the round began.
    round_was_durable: bool,
    /// A large value or a key could go if the index knew it.
    lacks_index: bool,
    /// Writers are held back.
    wait: Option<Wait>,
    /// What is left cannot go: what needs memory is refused.
    is_hopeless: bool,
}

/// Writers wait for memory to become less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    /// The least that was used since.
    least_bytes: u64,
    /// When it began, or there was clearly less, or the index came further.
    since_us: u64,
    /// What was written when it began.
    until: Lsn,
    /// Up to where the index knew the log.
    indexed: Option<Lsn>,
    /// A round has taken all that may go.
    has_seen_all: bool,
}

/// Up to which blocks the log is durable, and indexed.
#[derive(Debug, Clone, Copy)]
struct Known {
    durable: Lsn,
    indexed: Option<Lsn>,
}

impl Wait {
    /// Notes how much is used; whether it is not worth waiting any more.
    fn is_in_vain(&mut self, used_bytes: u64, limit_bytes: u64, log: Known, now_us: u64) -> bool {
        let excess_bytes = self.least_bytes.saturating_sub(limit_bytes);
        let clearly = (self.least_bytes / PROGRESS_SHARE).min(excess_bytes / 8);
        if used_bytes + clearly < self.least_bytes {
            (self.least_bytes, self.since_us) = (used_bytes, now_us);
        }
        // What is written later than the wait began is not waited for.
        let comes_further = self.indexed != log.indexed && self.indexed < Some(self.until);
        if self.until > log.durable || comes_further {
            (self.indexed, self.since_us) = (log.indexed, now_us);
        }
        self.has_seen_all && now_us - self.since_us > WAIT_US_MAX
    }
}
