//! DEBUG SLEEP: for a while the server does as if it were busy.
//!
//! The engine itself never waits: it keeps what clients send, executes nothing, sends nothing, and
//! goes on when the time has come. Only the log comes further meanwhile. In a transaction the sleep
//! begins after EXEC, whose reply waits for its end.

use super::Engine;

/// Whether and how long.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    /// The end, on the monotonic clock.
    until_us: Option<u64>,
    /// What counts as the duration of the command that has asked for it.
    asked_us: u64,
    /// DEBUG PAUSE-CRON: the table of keys that clients have read is made smaller by commands alone. All else that is
    /// done several times a second the log needs.
    pub(super) is_cron_paused: bool,
}

impl Sleep {
    pub(crate) const fn is_on(&self) -> bool {
        self.until_us.is_some()
    }

    pub(crate) const fn until_us(&self) -> Option<u64> {
        self.until_us
    }

    /// The time that the running command has asked to sleep.
    pub(crate) fn take_asked_us(&mut self) -> u64 {
        std::mem::take(&mut self.asked_us)
    }
}

impl Engine {
    /// Whether the server was asked to sleep and does so.
    #[must_use]
    pub const fn is_asleep(&self) -> bool {
        self.sleep.is_on()
    }

    /// Executes and sends nothing for so long.
    pub(super) fn fall_asleep(&mut self, duration_us: u64) {
        if duration_us > 0 {
            let from_us = self.sleep.until_us.unwrap_or(self.time.now_us);
            self.sleep.until_us = Some(from_us.saturating_add(duration_us));
            self.sleep.asked_us = self.sleep.asked_us.saturating_add(duration_us);
        }
    }

    /// Whether the sleep goes on; at its end every client goes on with what it has sent meanwhile.
    pub(super) fn sleeps_on(&mut self) -> bool {
        match self.sleep.until_us {
            None => return false,
            Some(until_us) if self.time.now_us < until_us => return true,
            Some(_) => self.sleep.until_us = None,
        }
        self.sessions.resumed.extend(self.sessions.clients.keys());
        // Sockets that took bytes again meanwhile were not looked at.
        self.look_at_all();
        false
    }
}
