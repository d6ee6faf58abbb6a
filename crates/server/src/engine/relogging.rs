//! Turning the log on and off while the server runs: CONFIG SET appendonly.
//!
//! ```text
//!   yes ─► Opening ──────────────► Copying ─────────────────► Switching ─────────► on
//!          the owner locks the     writers wait, readers      the last record is
//!          log and reads what is   do not; a slice of the     on its way to the
//!          in it; nothing waits    keyspace is logged each    device; nothing waits
//!                                  iteration                  for the switch
//!   no ──► everything is made durable, the files are closed and stay as they are
//! ```
//!
//! Until the end of Switching a crash brings back what the log held before: see
//! [`keyspace::Relog`]. Therefore nothing is compacted until then, replies of writes made while
//! Opening are held for nothing, and the end of the process, unless forced, waits. The executor
//! logs for about a millisecond an iteration and stops while the devices cannot keep up. A log that
//! fails in Copying stays off; one that fails in Switching is on, and failed, as at any other time.

use base::Lsn;
use command::spec::Flags;
use command::table::Command;
use keyspace::{Journal, Relog, Survey};

use super::blocking::Wait;
use super::client::Closing;
use super::reach::{Level, Reach};
use super::{ClientKey, Engine, LogControl, LogHealth};

/// How long the executor logs in one iteration, in microseconds.
const SLICE_US: u64 = 1000;

/// How many records are logged between two looks at the clock.
const SLICE_RECORDS: usize = 256;

/// How far the log is on its way to being on.
pub(super) enum Relogging {
    /// The owner reads what is in it. `is_wanted`: nobody has turned it off again.
    Opening { is_wanted: bool },
    /// What was deleted is freed first.
    Freeing { journal: Box<dyn Journal>, survey: Survey },
    /// The keyspace is being logged.
    Copying(Box<Relog>),
    /// All of it counts when this block is durable.
    Switching { lsn: Lsn, survey: Survey },
}

/// A log that was opened for a keyspace that is there already.
pub struct OpenedLog {
    /// For the keyspace.
    pub journal: Box<dyn Journal>,
    /// For the engine.
    pub log: Box<dyn LogControl>,
    /// What the log holds.
    pub survey: Survey,
}

impl Engine {
    /// The configuration has a new `appendonly`; the owner must be asked when this says so. While
    /// data is loaded the end of that decides.
    pub(super) fn turn_log(&mut self, is_on: bool) -> bool {
        if self.loading.is_some() || (is_on && self.log.is_some()) {
            return false;
        }
        match (&mut self.relogging, is_on) {
            (Some(Relogging::Opening { is_wanted }), _) => {
                *is_wanted = is_on;
                false
            }
            (None, true) => {
                self.relogging = Some(Relogging::Opening { is_wanted: true });
                true
            }
            // `end_iteration` closes it, which must not happen within a transaction.
            (_, false) | (Some(_), true) => false,
        }
    }

    /// The owner has locked the log and looked at it, or could not.
    pub fn log_looked_at(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.surroundings.logger.notice("The redo log is being opened");
                self.errand_done(Ok(()));
            }
            Err(why) => {
                self.give_log_up(&why);
                self.errand_done(Err(CANNOT_TURN_ON));
            }
        }
    }

    /// The log is open, or could not be read.
    pub fn log_opened(&mut self, result: Result<OpenedLog, String>) {
        let is_wanted = matches!(self.relogging, Some(Relogging::Opening { is_wanted: true }));
        match result {
            Err(why) => self.give_log_up(&why),
            Ok(OpenedLog { journal, log, survey }) => {
                self.log = Some(log);
                if !is_wanted {
                    drop(journal);
                    self.close_log();
                    return;
                }
                self.relogging = Some(Relogging::Freeing { journal, survey });
                self.reach = self.log.as_mut().map_or_else(Reach::default, |log| log.reach());
                self.apply_settings();
                self.freeze_or_thaw();
            }
        }
    }

    /// The log cannot be turned on: the configuration says so again.
    fn give_log_up(&mut self, why: &str) {
        self.surroundings.logger.warning(&format!("The redo log stays off: {why}"));
        self.relogging = None;
        self.set_config(self.config.without_log());
        self.resume_paused();
    }

    /// Whether everything is being logged, and writers wait for the end of it.
    pub(super) fn is_copying(&self) -> bool {
        matches!(self.relogging, Some(Relogging::Freeing { .. } | Relogging::Copying(_)))
    }

    /// Whether a command must wait until everything is logged. DEBUG may change anything, and
    /// WAITAOF asks for what comes after that.
    pub(super) fn waits_for_copying(&self, key: ClientKey, command: Command) -> bool {
        if self.relogging.is_some() && command.name == "waitaof" {
            return self.clients[key].transaction.is_none();
        }
        if !self.is_copying() {
            return false;
        }
        let flags = match &self.clients[key].transaction {
            None => command.flags,
            Some(transaction) if command.name == "exec" => transaction.flags,
            Some(_) => return false,
        };
        flags.intersects(Flags::WRITE.with(Flags::PROTECTED))
    }

    /// Whether there is something to log now.
    pub(super) fn can_copy(&self) -> bool {
        self.is_copying() && self.log.as_ref().is_some_and(|log| !log.is_congested())
    }

    /// One slice of turning the log on or off.
    pub(super) fn follow_log_switch(&mut self) {
        if self.log.is_some() && !self.options.log.enabled && self.loading.is_none() {
            self.close_log();
        }
        if self.is_copying() && self.log.as_ref().is_some_and(|log| log.health() != LogHealth::Good)
        {
            self.close_log();
            self.give_log_up("its devices take nothing");
        }
        match self.relogging.take() {
            Some(Relogging::Freeing { journal, survey }) if self.keyspace.freeing() == 0 => {
                let relog = self.keyspace.begin_relog(journal, survey);
                self.relogging = Some(Relogging::Copying(Box::new(relog)));
            }
            Some(Relogging::Copying(relog)) => self.copy_slice(relog),
            Some(Relogging::Switching { lsn, survey }) if lsn <= self.reach.durable => {
                self.keyspace.retire_surveyed(survey);
                if let Some(log) = &mut self.log {
                    log.thaw();
                }
                self.apply_settings();
                self.resume_paused();
                self.surroundings.logger.notice("The redo log is on: everything is in it");
            }
            Some(Relogging::Switching { .. }) if self.has_log_failed() => {
                self.apply_settings();
                self.resume_paused();
                self.surroundings.logger.warning(
                    "The redo log has failed before everything was in it: nothing can be written, \
                     and the next start brings back what was in it before. CONFIG SET appendonly no \
                     lets writers go on without it",
                );
            }
            unchanged => self.relogging = unchanged,
        }
    }

    /// Whether what is on its way to the devices will never be there.
    fn has_log_failed(&self) -> bool {
        self.log.as_ref().is_some_and(|log| matches!(log.health(), LogHealth::Failed(_)))
    }

    fn copy_slice(&mut self, mut relog: Box<Relog>) {
        let clock = std::sync::Arc::clone(&self.surroundings.clock);
        let start_us = clock.monotonic_us();
        while !self.log.as_ref().is_some_and(|log| log.is_congested()) {
            if self.keyspace.relog_step(&mut relog, SLICE_RECORDS) {
                self.switch(*relog);
                return;
            }
            self.seal_if_large();
            if clock.monotonic_us() - start_us >= SLICE_US {
                break;
            }
        }
        self.relogging = Some(Relogging::Copying(relog));
    }

    /// Everything is logged: from here on changes are, and the last record makes it count.
    fn switch(&mut self, relog: Relog) {
        self.keyspace.begin_command(self.unix_ms());
        let survey = self.keyspace.finish_relog(relog);
        let (lsn, _) = self.keyspace.end_command();
        self.relogging = Some(Relogging::Switching { lsn, survey });
        self.await_block(Level::Durable);
        self.freeze_or_thaw();
        self.resume_paused();
    }

    /// Makes everything durable and closes the log; the server goes on without.
    pub(super) fn close_log(&mut self) {
        let closed = self.close();
        let logger = self.surroundings.logger.clone();
        match &closed {
            Ok(()) => logger.notice("The redo log is off: nothing is written down from now on"),
            Err(why) => logger.warning(&format!("The redo log was not closed well: {why}")),
        }
        self.forget_blocks(closed.is_ok());
        self.freeze_or_thaw();
        self.resume_paused();
    }

    /// The log of the blocks that clients wait for is closed: whoever still waits for one learns
    /// whether it is durable.
    pub(super) fn forget_blocks(&mut self, is_all_durable: bool) {
        self.wake_durable();
        let reach = self.reach;
        for key in self.clients.keys() {
            let client = &mut self.clients[key];
            if !is_all_durable && client.output.is_held(&reach) {
                self.end_client(key, Closing::Now);
            } else {
                client.output.open_gates();
                client.last_write = Lsn::ZERO;
                self.note(key);
            }
        }
        for key in self.waiters.durable.clone() {
            match self.clients[key].wait.as_deref_mut() {
                Some(Wait::Durable(wait)) if wait.lsn <= reach.durable => wait.lsn = Lsn::ZERO,
                _ => self.time_out(key),
            }
        }
    }
}

/// Redis' own words.
const CANNOT_TURN_ON: &str = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - \
    Unable to turn on AOF. Check server logs.";
