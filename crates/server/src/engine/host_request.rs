//! What only the owner of the engine can do, because it has the files and threads: the engine asks
//! for it between two iterations, and is told when it is done.
//!
//! ```text
//!   engine   take_request ─► Reload ─────► owner: unload, then recovery as at the start ─► loaded
//!                        ─► OpenLog ────► owner: lock and look ─► log_looked_at
//!                                                read what is there ─► log_opened
//! ```
//!
//! The owner reads on a thread of its own; the engine goes on meanwhile.

use keyspace::{Keyspace, NoJournal, Restored};
use thiserror::Error;

use super::blocking::Wait;
use super::shard::{BoxedLog, CloseError, Fetched, Fetching, LogState, Restoration, Wanted};
use super::{ClientKey, Engine};
use crate::host::Host;
use crate::migrate::MigrateError;

/// See the file's top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Fill the keyspace from the log again: [`Engine::unload`], then what is done at the start.
    Reload,
    /// The same, without the log's index: it is not to be believed.
    ReloadAll,
    /// Open the log in the directory that the configuration names, or make one:
    /// [`Engine::log_looked_at`], then [`Engine::log_opened`].
    OpenLog,
}

/// Why the owner has not done what was asked, as its client is told. The log says more.
#[derive(Clone, Copy, Debug, Error)]
pub(super) enum RequestError {
    /// There is no log to open. Redis' own words.
    #[error(
        "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs."
    )]
    OpenLog,
}

impl Engine {
    /// What the owner is to do now.
    pub fn take_request(&mut self) -> Option<HostRequest> {
        self.host_request.take_if(|_| !self.scripting.is_running())
    }

    /// Asks the owner for something. The client is answered when it is done, or at once inside a
    /// transaction, where nothing waits.
    pub(super) fn request_host(&mut self, request: HostRequest, key: ClientKey) {
        self.host_request = Some(request);
        if self.in_transaction {
            self.reply(key).ok();
        } else {
            self.sessions.start_wait(key, Wait::HostRequest);
        }
    }

    /// Answers the clients that wait for a request to the host.
    pub(super) fn request_done(&mut self, result: Result<(), RequestError>) {
        for key in self.sessions.clients.keys() {
            if !matches!(self.sessions[key].session.wait.as_deref(), Some(Wait::HostRequest)) {
                continue;
            }
            match result {
                Ok(()) => self.sessions.end_wait_with_ok(key, &mut self.shard.keyspace),
                Err(error) => self.end_wait_with_error(key, &error.to_string()),
            }
        }
    }

    /// Data is being loaded, this far.
    pub fn set_loading(&mut self, total_bytes: u64, loaded_bytes: u64) {
        self.shard.set_loading(self.time.unix_s(), total_bytes, loaded_bytes);
    }

    /// The data is there: it takes the place of the empty keyspace, and the log takes writes.
    pub fn loaded(&mut self, keyspace: Keyspace<NoJournal>, log: Option<BoxedLog>) {
        if self.shard.install(keyspace, log) {
            // What is watched was watched in the empty keyspace, and it has changed.
            for place in self.sessions.watchers.keys().cloned().collect::<Vec<_>>() {
                self.sessions.mark_watch_dirty(&place);
            }
        }
        // What they have read was in another keyspace, whose hashes may be others.
        self.data_replaced();
        self.load_functions();
        // What clients have waited for is asked for again, if it is still missing.
        self.forget_fetches();
        self.apply_settings();
        if self.options.log.enabled && self.shard.log().is_none() && self.shard.turn_log(true) {
            // It was asked for while a dump was loaded.
            self.host_request = Some(HostRequest::OpenLog);
        }
        self.request_done(Ok(()));
        // Clients that waited for a log that was being turned on.
        self.sessions.resume_paused(&mut self.shard.keyspace);
    }

    /// Keys that are cold in what was loaded come back from `source`.
    pub fn restore_from(&mut self, source: Box<dyn Restoration>) {
        self.shard.begin_restoring(source, self.time.now_us);
    }

    /// The host, for another thread.
    #[must_use]
    pub fn another_host(&self) -> Box<dyn Host> {
        self.deps.host.another()
    }

    /// What memory lacks is read by `fetching`, and by the keyspace itself.
    pub fn fetch_from(&mut self, fetching: Box<dyn Fetching>) {
        self.shard.set_fetching(Some(fetching));
    }

    /// Takes over some of the keys that have come.
    pub(super) fn restore_slice(&mut self) {
        while let Some(fetched) = self.shard.take_fetched() {
            self.take_over(fetched);
        }
        if let Some(garbage) = self.shard.take_garbage() {
            self.take_over(garbage);
        }
        self.fetch_rests();
        if self.shard.is_writable() {
            self.shard.keyspace.log_stale_roots();
        }
        // A log that has failed must not be closed: what is in memory is all that there is.
        let may_reload =
            self.shard.is_writable() && !self.shard.is_loading() && self.host_request.is_none();
        if may_reload && let Some(why) = self.shard.take_distrust() {
            self.deps.logger.warning(&format!(
                "The log index is of no use, and the log is read again as a whole: {why}"
            ));
            self.host_request = Some(HostRequest::ReloadAll);
        }
        let room_bytes = self.options.room_bytes();
        let host = &self.deps.host;
        let is_short = |taken_bytes| {
            host.note_taken_over(taken_bytes);
            room_bytes.is_some_and(|bytes| host.used_bytes() > bytes)
        };
        let (key_bytes_max, reads_rests) =
            (self.options.bare_key_bytes_max(), !self.is_short_of_memory());
        let (clock, logger) = (self.deps.clock.as_ref(), &self.deps.logger);
        self.shard.restore_slice(clock, logger, (&is_short, reads_rests), key_bytes_max);
    }

    fn take_over(&mut self, fetched: Fetched) {
        match fetched {
            Fetched::Missing(missing, restored) => {
                let bytes = restored.as_ref().map_or(0, Restored::bytes) as u64;
                self.deps.host.note_taken_over(bytes);
                self.fetched(&missing, restored);
                if self.options.maxmemory_bytes > 0 {
                    self.make_room();
                }
            }
            Fetched::Names(number, found) => self.named(number, found),
            Fetched::Elements(object, elements) => {
                self.shard.keyspace.retire_elements(object, elements);
            }
            Fetched::Garbage(keys) => {
                for (addr, elements) in keys {
                    self.shard.keyspace.retire_cold(addr, elements);
                }
            }
            Fetched::Swept(sweep, found) => {
                self.shard.keyspace.begin_command(self.time.unix_ms());
                self.shard.swept(sweep, found, self.time.now_us);
                self.end_unasked();
            }
            Fetched::Dropped(db, true) => self.shard.keyspace.end_dropped(db),
            Fetched::Dropped(db, false) => _ = self.shard.ask(Wanted::Dropped(db)),
        }
    }

    /// Makes everything durable, closes the log and takes the keyspace out, so that it can be loaded
    /// again. What clients watch and wait for stays. To free the keyspace is work for another thread.
    ///
    /// # Errors
    /// What the log says when it cannot be closed; what it does not hold is gone then.
    pub fn unload(&mut self) -> Result<Keyspace<LogState>, CloseError> {
        self.give_up_migration(MigrateError::Reloading);
        let closed = self.close();
        self.forget_blocks(closed.is_ok());
        let full = self.shard.take_data(self.time.unix_s());
        closed.map(|()| full)
    }
}
