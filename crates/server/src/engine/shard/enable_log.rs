//! Turning the log on while the server runs: CONFIG SET appendonly yes.
//!
//! ```text
//!   Opening ────────────► Freeing ─────────► Copying ─────────────► Switching ─────► On
//!   the owner locks the   what was deleted   writers wait, readers  the last record
//!   log and reads what    is freed; nothing  do not; a slice of the is on its way to
//!   is in it; nothing     of another log     keyspace is logged     the device; all
//!   waits                 is retired         each iteration         go on
//! ```
//!
//! Until the end of Switching a crash brings back what the log held before: see
//! [`keyspace::FullRewrite`]. Therefore nothing is compacted until then, replies of writes made while
//! Opening are held for nothing, and the end of the process, unless forced, waits. The executor
//! logs for about a millisecond an iteration and stops while the devices cannot keep up. A log that
//! fails in Copying stays off; one that fails in Switching is on, and failed, as at any other time.

use base::Lsn;
use env::Clock;
use keyspace::{FullRewrite, Survey};

use super::eviction::Cooling;
use super::sealing::Sealing;
use super::{BoxedLog, CloseError, LogHealth, LogState, Shard};

/// How long the executor logs in one iteration, in microseconds.
const SLICE_US: u64 = 1000;

/// How many records are logged between two looks at the clock.
const SLICE_RECORDS: usize = 256;

/// What a slice of turning the log on has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum EnableStep {
    /// Nothing that clients must be told.
    Unchanged,
    /// Everything is logged, and counts when the block that is open now is durable.
    Switched,
    /// Everything counts.
    Done,
    /// The log has failed before everything counted.
    Failed,
}

impl Shard {
    /// The configuration has a new `appendonly`. Returns whether the owner must open the log. While
    /// data is loaded the end of that decides.
    pub(in crate::engine) fn turn_log(&mut self, is_on: bool) -> bool {
        if self.is_loading() || (is_on && self.log().is_some()) {
            return false;
        }
        match (self.keyspace.journal_mut(), is_on) {
            (LogState::Opening { is_wanted }, _) => {
                *is_wanted = is_on;
                false
            }
            (state @ LogState::Off, true) => {
                *state = LogState::Opening { is_wanted: true };
                true
            }
            // A log that is open is closed at the end of the iteration, as this must not happen
            // within a transaction.
            _ => false,
        }
    }

    /// Takes the log that was asked for. Returns whether it is still wanted; one that is not is on,
    /// and must be closed.
    #[must_use]
    pub(in crate::engine) fn log_opened(&mut self, mut log: BoxedLog, survey: Survey) -> bool {
        let state = self.keyspace.journal_mut();
        let is_wanted = matches!(state, LogState::Opening { is_wanted: true });
        if is_wanted {
            self.reach = log.reach();
            *state = LogState::Freeing { log, survey };
        } else {
            *state = LogState::On(log);
        }
        is_wanted
    }

    /// The log that was asked for cannot be opened, or not be filled.
    pub(in crate::engine) fn abort_enable(&mut self) {
        debug_assert!(self.log().is_none(), "a log that is open is closed, not dropped");
        *self.keyspace.journal_mut() = LogState::Off;
    }

    /// Whether the keyspace is being logged to a log that takes nothing.
    pub(in crate::engine) fn has_copying_failed(&self) -> bool {
        self.log_state().is_copying() && self.log_health() != LogHealth::Good
    }

    /// Whether there is something to log now.
    pub(in crate::engine) fn can_copy(&self) -> bool {
        self.log_state().is_copying() && !self.is_log_congested()
    }

    /// One slice of turning the log on.
    pub(in crate::engine) fn enable_step(
        &mut self,
        unix_ms: i64,
        clock: &dyn Clock,
        block_bytes_max: u64,
    ) -> EnableStep {
        let (next, step) = match std::mem::take(self.keyspace.journal_mut()) {
            LogState::Freeing { log, survey }
                if self.keyspace.freeing() == 0 && !self.keyspace.is_walked() =>
            {
                let rewrite = self.keyspace.begin_full_rewrite(log, survey);
                (LogState::Copying(Box::new(rewrite)), EnableStep::Unchanged)
            }
            LogState::Copying(rewrite) => {
                return self.copy_slice(rewrite, unix_ms, clock, block_bytes_max);
            }
            LogState::Switching { mut log, lsn, survey } if lsn <= self.reach.durable => {
                self.keyspace.retire_surveyed(survey);
                log.thaw();
                (LogState::On(log), EnableStep::Done)
            }
            LogState::Switching { log, .. } if matches!(log.health(), LogHealth::Failed(_)) => {
                (LogState::On(log), EnableStep::Failed)
            }
            unchanged => (unchanged, EnableStep::Unchanged),
        };
        *self.keyspace.journal_mut() = next;
        step
    }

    fn copy_slice(
        &mut self,
        mut rewrite: Box<FullRewrite<BoxedLog>>,
        unix_ms: i64,
        clock: &dyn Clock,
        block_bytes_max: u64,
    ) -> EnableStep {
        let start_us = clock.monotonic_us();
        while !rewrite.journal().is_congested() {
            if self.keyspace.full_rewrite_step(&mut rewrite, SLICE_RECORDS) {
                self.switch(*rewrite, unix_ms);
                return EnableStep::Switched;
            }
            let log = rewrite.journal_mut();
            if log.open_bytes() as u64 > block_bytes_max {
                log.seal();
                self.sealing = Sealing::default();
            }
            if clock.monotonic_us() - start_us >= SLICE_US {
                break;
            }
        }
        *self.keyspace.journal_mut() = LogState::Copying(rewrite);
        EnableStep::Unchanged
    }

    /// Everything is logged: from here on changes are, and the last record makes it count.
    fn switch(&mut self, rewrite: FullRewrite<BoxedLog>, unix_ms: i64) {
        let (log, rewritten) = rewrite.finish();
        self.keyspace.set_journal(LogState::On(log));
        self.keyspace.begin_command(unix_ms);
        let survey = self.keyspace.finish_full_rewrite(rewritten);
        let (lsn, _) = self.keyspace.end_command();
        self.set_switching(lsn, survey);
    }

    fn set_switching(&mut self, lsn: Lsn, survey: Survey) {
        let state = self.keyspace.journal_mut();
        if let LogState::On(log) = std::mem::take(state) {
            *state = LogState::Switching { log, lsn, survey };
        }
    }

    /// Makes everything durable and closes the log, if there is one; nothing is logged from here on.
    /// Returns what the log says when it cannot.
    pub(in crate::engine) fn close_log(&mut self) -> Option<Result<(), CloseError>> {
        let mut log = self.keyspace.set_journal(LogState::Off).into_log()?;
        log.seal();
        self.sealing = Sealing::default();
        self.cooling = Cooling::default();
        let ended = log.shutdown();
        self.reach = log.reach();
        Some(ended)
    }
}
