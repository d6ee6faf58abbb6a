//! Where imported data goes: a keyspace, and the log that it is in, if it has one.
//!
//! ```text
//!   dump, play ── a key, some elements, a command ──► Keyspace ── records ──► open block
//!        └─► breathe: seal the block when it is long, wait while too much is on its way
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use env::Clock;
use keyspace::{Keyspace, NoJournal};

use super::ImportError;
use crate::engine::scripting::Functions;
use crate::engine::{BoxedLog, LogHealth, LogState, ShardLog};

/// The size at which a block is sealed.
const BLOCK_BYTES: usize = 1 << 20;

/// So many deleted elements are freed at a time.
const FREED_ITEMS: usize = 10_000;

/// How long the log is waited for before it is looked at again.
const PATIENCE: Duration = Duration::from_millis(10);

/// How often the log does what it does now and then.
const TICK_US: u64 = 50_000;

/// Wakes an import that waits for the log.
pub(super) struct Bell {
    sender: SyncSender<()>,
    receiver: Receiver<()>,
}

impl Bell {
    pub(super) fn new() -> Self {
        let (sender, receiver) = sync_channel(1);
        Self { sender, receiver }
    }

    pub(super) fn waker(&self) -> redo::Waker {
        let sender = self.sender.clone();
        Arc::new(move || {
            // One that is rung already need not be rung again.
            let _ignored = sender.try_send(());
        })
    }
}

/// See the file's top.
pub struct Target {
    pub(super) keyspace: Keyspace<LogState>,
    /// The libraries that the keyspace has, as they run.
    pub(super) functions: Functions,
    clock: Arc<dyn Clock>,
    bell: Bell,
    ticked_at_us: u64,
}

impl Target {
    /// A keyspace whose changes go nowhere.
    #[must_use]
    pub fn in_memory(keyspace: Keyspace<NoJournal>, clock: Arc<dyn Clock>) -> Self {
        Self::new(keyspace.with_journal(LogState::Off), clock, Bell::new())
    }

    /// A keyspace with a log, which rings `bell`.
    pub(super) fn with_log(
        keyspace: Keyspace<NoJournal>,
        log: BoxedLog,
        clock: Arc<dyn Clock>,
        bell: Bell,
    ) -> Self {
        Self::new(keyspace.with_journal(LogState::On(log)), clock, bell)
    }

    fn new(mut keyspace: Keyspace<LogState>, clock: Arc<dyn Clock>, bell: Bell) -> Self {
        // When a key is used does not matter before anything uses it.
        keyspace.track_access(false);
        keyspace.begin_command(clock.now_ms());
        Self { keyspace, functions: Functions::default(), clock, bell, ticked_at_us: 0 }
    }

    /// Takes the keyspace out, without its log.
    #[must_use]
    pub fn into_keyspace(self) -> Keyspace<LogState> {
        self.keyspace
    }

    /// Between two changes: passes on what is in the log's open block if that is much, and waits while more
    /// is on its way to the devices than there should be.
    pub(super) fn breathe(&mut self) -> Result<(), ImportError> {
        if self.keyspace.freeing() > 0 {
            self.keyspace.free_step(FREED_ITEMS);
        }
        let Some(log) = self.keyspace.journal_mut().log_mut() else { return Ok(()) };
        if log.open_bytes() < BLOCK_BYTES {
            return Ok(());
        }
        log.seal();
        loop {
            log.reach();
            let now_us = self.clock.monotonic_us();
            if now_us >= self.ticked_at_us + TICK_US {
                self.ticked_at_us = now_us;
                log.tick();
            }
            check_health(log)?;
            if !log.is_congested() {
                return Ok(());
            }
            // Whether it has rung or not: the log is looked at again.
            let _ignored = self.bell.receiver.recv_timeout(PATIENCE);
        }
    }

    /// Makes everything durable and closes the log, whose threads have ended then in any case. Returns the keyspace,
    /// and how many bytes the log has.
    pub(super) fn close(self) -> Result<(Keyspace<LogState>, u64), ImportError> {
        let Self { mut keyspace, .. } = self;
        while keyspace.free_step(FREED_ITEMS) {}
        let mut bytes = 0;
        if let LogState::On(mut log) = keyspace.set_journal(LogState::Off) {
            log.seal();
            log.reach();
            let health = check_health(&*log);
            bytes = log.stats().bytes;
            let closed = log.shutdown();
            health?;
            closed?;
        }
        Ok((keyspace, bytes))
    }

    /// Ends the log's threads, so that nothing makes or uses files that are removed then.
    pub(super) fn abandon(mut self) {
        if let LogState::On(mut log) = self.keyspace.set_journal(LogState::Off) {
            // What was not made durable is not wanted.
            let _ignored = log.shutdown();
        }
    }
}

fn check_health(log: &dyn ShardLog) -> Result<(), ImportError> {
    match log.health() {
        LogHealth::Good => Ok(()),
        LogHealth::ReadOnly(reason) | LogHealth::Failed(reason) => {
            Err(ImportError::Unwritable { reason })
        }
    }
}
