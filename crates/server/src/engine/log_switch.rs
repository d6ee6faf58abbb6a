//! What turning the log on and off means for clients: CONFIG SET appendonly.
//!
//! ```text
//!   yes ─► the owner opens it ─► [`Shard::enable_step`] each iteration; commands that write wait
//!          while everything is logged
//!   no ──► everything is made durable, the files are closed and stay as they are
//! ```

use std::io;

use base::Lsn;
use command::spec::Flags;
use command::table::Command;
use keyspace::{Restorer, Survey};
use thiserror::Error;

use super::blocking::Wait;
use super::client::Closing;
use super::host_request::RequestError;
use super::shard::{BoxedLog, CloseError, EnableStep, Fetching, Level};
use super::{ClientKey, Engine};

/// A log that was opened for a keyspace that is there already.
pub struct OpenedLog {
    /// The log.
    pub log: BoxedLog,
    /// What it holds.
    pub survey: Survey,
    /// What reads it, once everything is in it.
    pub source: Option<ColdSource>,
}

/// What reads a log for what memory lacks.
pub struct ColdSource {
    /// On the executor's thread.
    pub restorer: Box<dyn Restorer>,
    /// On others.
    pub fetching: Box<dyn Fetching>,
}

/// Why the owner has no log to hand over: it cannot be opened, read or started.
#[derive(Debug, Error)]
pub enum OpenLogError {
    /// The log is in use or damaged, or the system refuses.
    #[error(transparent)]
    Log(#[from] redo::Error),
    /// The index of the log can be neither opened nor removed.
    #[error("the log index: {0}")]
    Index(#[from] indexing::Error),
    /// The keys do not fit into memory, and the index that makes do without them cannot be built.
    #[error(
        "the keys of the log do not fit into maxmemory, and its index, by which it can be opened all the \
         same, cannot be built: {0}. When that is mended the next start goes on with it; or raise maxmemory, or \
         set log-index no: then all keys are loaded"
    )]
    Build(#[source] indexing::Error),
    /// There is no thread to read it, or none for its flushers.
    #[error(transparent)]
    NoThread(io::Error),
    /// The thread that reads it has ended without a word.
    #[error("the recovery thread has panicked")]
    Panicked,
}

impl Engine {
    /// The owner has locked the log and looked at it, or could not.
    pub fn log_looked_at(&mut self, result: Result<(), OpenLogError>) {
        match result {
            Ok(()) => {
                self.deps.logger.notice("The redo log is being opened");
                self.request_done(Ok(()));
            }
            Err(why) => {
                self.abort_enable(&why.to_string());
                self.request_done(Err(RequestError::OpenLog));
            }
        }
    }

    /// The log is open, or could not be read.
    pub fn log_opened(&mut self, result: Result<OpenedLog, OpenLogError>) {
        if self.scripting.is_paused() {
            return self.scripting.keep_opened(result);
        }
        match result {
            Err(why) => self.abort_enable(&why.to_string()),
            Ok(OpenedLog { log, survey, source }) => {
                if !self.shard.log_opened(log, survey) {
                    return self.close_log();
                }
                self.opened_source = source;
                self.apply_settings();
                self.update_frozen();
            }
        }
    }

    /// The log cannot be turned on: the configuration says so again.
    fn abort_enable(&mut self, why: &str) {
        self.deps.logger.warning(&format!("The redo log stays off: {why}"));
        self.shard.abort_enable();
        self.set_config(self.config.without_log());
        self.sessions.resume_paused(&mut self.shard.keyspace);
    }

    /// Whether a command, which has these flags with its arguments, must wait until everything is logged. DEBUG may
    /// change anything, and WAITAOF asks for what comes after that.
    pub(super) fn waits_for_copying(&self, key: ClientKey, command: Command, flags: Flags) -> bool {
        if self.shard.log_state().is_turning_on() && command.name == "waitaof" {
            return self.sessions[key].session.transaction.is_none();
        }
        if !self.shard.log_state().is_copying() {
            return false;
        }
        let flags = match &self.sessions[key].session.transaction {
            None => flags,
            Some(transaction) if command.name == "exec" => {
                // What a function does is known when it is called: its library may be another one by then.
                let has_function = transaction.queue.iter().any(|it| it.command.name == "fcall");
                let flags = transaction.flags;
                if has_function { flags.with(Flags::MAY_WRITE) } else { flags }
            }
            Some(_) => return false,
        };
        flags.intersects(Flags::WRITE.with(Flags::MAY_WRITE).with(Flags::PROTECTED))
    }

    /// One slice of turning the log on or off.
    pub(super) fn follow_log_switch(&mut self) {
        if self.shard.log().is_some() && !self.options.log.enabled && !self.shard.is_loading() {
            self.close_log();
        }
        if self.shard.has_copying_failed() {
            self.close_log();
            self.abort_enable("its devices take nothing");
        }
        if !self.shard.log_state().is_turning_on() {
            return;
        }
        let clock = std::sync::Arc::clone(&self.deps.clock);
        let block_bytes_max = self.options.log.block_bytes;
        let step = self.shard.enable_step(self.time.unix_ms(), clock.as_ref(), block_bytes_max);
        let logger = self.deps.logger.clone();
        match step {
            EnableStep::Unchanged => return,
            EnableStep::Switched => {
                self.await_block(Level::Durable);
                self.update_frozen();
            }
            EnableStep::Done => {
                if let Some(ColdSource { restorer, fetching }) = self.opened_source.take() {
                    self.shard.keyspace.set_restorer(restorer);
                    self.shard.set_fetching(Some(fetching));
                }
                self.apply_settings();
                logger.notice("The redo log is on: everything is in it");
            }
            EnableStep::Failed => {
                self.apply_settings();
                logger.warning(
                    "The redo log has failed before everything was in it: nothing can be written, \
                     and the next start brings back what was in it before. CONFIG SET appendonly no \
                     lets writers go on without it",
                );
            }
        }
        self.sessions.resume_paused(&mut self.shard.keyspace);
    }

    /// Makes everything durable and closes the log; the server goes on without.
    pub(super) fn close_log(&mut self) {
        self.shard.keyspace.note_full();
        debug_assert!(!self.shard.keyspace.may_lack(), "what memory lacks is in the log alone");
        // Its readers keep it locked.
        self.opened_source = None;
        self.shard.set_fetching(None);
        self.forget_fetches();
        self.shard.keyspace.drop_restorer();
        // What is to be shipped is shipped by the next start.
        self.end_archive(archive::Ending::AtOnce, super::archiving::MEANWHILE);
        self.verifying.end(super::archiving::MEANWHILE);
        // It may wait for a block that never comes.
        self.give_up_migration(crate::migrate::MigrateError::Closing);
        let closed = self.close();
        let logger = self.deps.logger.clone();
        match &closed {
            Ok(()) => logger.notice("The redo log is off: nothing is written down from now on"),
            Err(why) => logger.warning(&format!("The redo log was not closed well: {why}")),
        }
        self.forget_blocks(closed.is_ok());
        self.update_frozen();
        self.sessions.resume_paused(&mut self.shard.keyspace);
    }

    /// Makes everything durable and closes the log: the last thing before the end.
    ///
    /// # Errors
    /// What the log says when it cannot.
    pub fn close(&mut self) -> Result<(), CloseError> {
        if self.give_up_script() {
            // Half of its writes are in the open block, which must not become durable.
            return Ok(());
        }
        self.give_up_saves();
        self.give_up_tails();
        let clock = std::sync::Arc::clone(&self.deps.clock);
        let plan = self.hot_plan();
        self.shard.save_hot_at_end(clock.as_ref(), plan);
        let ended = self.shard.close_log();
        // Everything that is durable is, by now.
        self.end_archive(archive::Ending::Shipping, super::archiving::AT_END);
        self.verifying.end(super::archiving::AT_END);
        let Some(ended) = ended else { return Ok(()) };
        for (key, _) in self.sessions.held.take_all() {
            self.sessions.note(key);
        }
        ended
    }

    /// The log of the blocks that clients wait for is closed: a client that still waits for one
    /// learns whether it is durable.
    pub(super) fn forget_blocks(&mut self, is_all_durable: bool) {
        self.sessions.wake_durable(self.shard.reach.durable, &mut self.shard.keyspace);
        let reach = self.shard.reach;
        for key in self.sessions.clients.keys() {
            let client = &mut self.sessions[key];
            if !is_all_durable && client.connection.output.is_held(&reach) {
                self.end_client(key, Closing::Now);
            } else {
                client.connection.output.open_gates();
                client.session.last_write = Lsn::ZERO;
                self.sessions.note(key);
            }
        }
        for key in self.sessions.waiters.durable.clone() {
            match self.sessions[key].session.wait.as_deref_mut() {
                Some(Wait::Durable(wait)) if wait.lsn <= reach.durable => wait.lsn = Lsn::ZERO,
                _ => {
                    self.sessions.time_out(key, self.shard.reach.durable, &mut self.shard.keyspace)
                }
            }
        }
    }
}
