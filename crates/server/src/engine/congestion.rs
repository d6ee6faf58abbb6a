//! Back-pressure: while the log cannot keep up, clients that write wait; all others go on. So it is,
//! too, while memory is full of what only a durable log would let go.
//!
//! ```text
//!   command ─► writes? ─no──────────────────────────► executed
//!                └yes─► congested? ─no──────────────► executed
//!                           └yes─► its client waits: nothing more is executed for it, or read
//!                                  from it, until the devices have caught up
//! ```
//!
//! It is known only of a command that is there whether it writes, so a client is held back at its
//! first command that does, which stays in its input buffer. That buffer is bounded by what the
//! reactor reads in one turn, so the memory of all this is bounded by the bytes in flight and one
//! turn's bytes a client. Those that were held back go on in the order in which they came, and the
//! first ones may fill the log again.

use command::spec::Flags;
use command::table::Command;

use super::blocking::Wait;
use super::{ClientKey, Engine};

/// Whether the log keeps up, and which clients wait until it does.
#[derive(Default)]
pub(super) struct Congestion {
    /// The log is, or memory waits for it.
    is_congested: bool,
    is_log_congested: bool,
    held_back: Vec<ClientKey>,
}

impl Congestion {
    /// How many clients are held back.
    pub(super) fn held_back_count(&self) -> usize {
        self.held_back.len()
    }

    /// A client waits no longer.
    pub(super) fn forget(&mut self, key: ClientKey) {
        self.held_back.retain(|held| *held != key);
    }
}

impl Engine {
    /// Whether the log cannot keep up with clients that write.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.sessions.congestion.is_congested
    }

    /// Whether a client has sent a command that waits for the log to keep up, or for keys: it is not to
    /// be read from meanwhile.
    #[must_use]
    pub fn is_held_back(&self, key: ClientKey) -> bool {
        matches!(
            self.sessions.clients.get(key).and_then(|client| client.session.wait.as_deref()),
            Some(Wait::Room | Wait::Fetch(_))
        )
    }

    /// Whether a command, which has these flags with its arguments, has to wait until the log keeps up.
    pub(super) fn waits_for_room(&self, key: ClientKey, command: Command, flags: Flags) -> bool {
        let flags = self.sessions[key].session.flags_of_execution(command, flags);
        // What frees memory need not wait for memory.
        let grows = self.shard.waits_to_cool()
            && flags.is_some_and(|it| it.intersects(Flags::DENYOOM.with(Flags::MAY_WRITE)));
        let is_congested = self.sessions.congestion.is_log_congested;
        grows
            || (is_congested
                && flags.is_some_and(|it| it.intersects(Flags::WRITE.with(Flags::MAY_WRITE))))
    }

    /// Lets a client wait until the log keeps up.
    pub(super) fn hold_back(&mut self, key: ClientKey) {
        // It is asked for again when the client goes on; others need the room meanwhile.
        self.release_fetched(key);
        self.sessions.start_wait(key, Wait::Room);
        self.sessions.congestion.held_back.push(key);
    }

    /// Asks the log how it is; those that were held back go on when it keeps up.
    pub(super) fn update_congestion(&mut self) {
        // Writers wait for the end of a copy anyhow, and the copy looks after the log itself.
        let is_log_congested =
            self.shard.is_log_congested() && !self.shard.log_state().is_copying();
        // Nor may commands hand over more to a walk than it gets rid of.
        let is_log_congested = is_log_congested || self.shard.keyspace.is_walk_congested();
        self.sessions.congestion.is_log_congested = is_log_congested;
        self.sessions.congestion.is_congested = is_log_congested || self.shard.waits_to_cool();
        if self.sessions.congestion.is_congested {
            return;
        }
        for key in std::mem::take(&mut self.sessions.congestion.held_back) {
            self.sessions.stop_waiting(key, &mut self.shard.keyspace);
            if let Some(client) = self.sessions.clients.get(key) {
                let before = client.connection.output.len();
                self.sessions.resume(key, before);
            }
        }
    }
}
