//! What only the owner of the engine can do, because it has the files and threads: the engine asks
//! for it between two iterations, and is told when it is done.
//!
//! ```text
//!   engine   take_errand ─► Reload ─────► owner: unload, then recovery as at the start ─► loaded
//!                       ─► OpenLog ────► owner: lock and look ─► log_looked_at
//!                                               read what is there ─► log_opened
//! ```
//!
//! The owner reads on a thread of its own; the engine goes on meanwhile.

use super::blocking::Wait;
use super::{ClientKey, Engine};

/// See the file's top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Fill the keyspace from the log again: [`Engine::unload`], then what is done at the start.
    Reload,
    /// Open the log in the directory that the configuration names, or make one:
    /// [`Engine::log_looked_at`], then [`Engine::log_opened`].
    OpenLog,
}

impl Engine {
    /// What the owner is to do now.
    pub fn take_errand(&mut self) -> Option<Errand> {
        self.errand.take()
    }

    /// Asks the owner for something. The client is answered when it is done, or at once inside a
    /// transaction, where nothing waits.
    pub(super) fn send_for(&mut self, errand: Errand, key: ClientKey) {
        self.errand = Some(errand);
        if self.in_transaction {
            self.reply(key).ok();
        } else {
            self.start_wait(key, Wait::Errand);
        }
    }

    /// Answers the clients that wait for an errand.
    pub(super) fn errand_done(&mut self, result: Result<(), &str>) {
        for key in self.clients.keys() {
            if !matches!(self.clients[key].wait.as_deref(), Some(Wait::Errand)) {
                continue;
            }
            match result {
                Ok(()) => self.end_wait_with_ok(key),
                Err(why) => self.end_wait_with_error(key, why),
            }
        }
    }
}
