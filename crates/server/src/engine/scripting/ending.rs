//! How a script ends before its time: it is killed, or the server ends.

use std::time::Duration;

use base::Lsn;

use super::super::Engine;
use super::{Running, Scripting, Subject};

/// How long the end of the server waits for a block on its way to a device.
const BLOCK_WAIT_US_MAX: u64 = 10_000_000;

/// Why a script is not killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum NotKilled {
    /// None runs.
    #[error("NOTBUSY No scripts in execution right now.")]
    NotBusy,
    /// Half of its writes would stay.
    #[error(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
         script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
    )]
    HasWritten,
    /// Another command kills what runs.
    #[error("{0}")]
    Other(&'static str),
}

impl Scripting {
    /// What others are told while a script runs for long. Redis' own words.
    pub(in crate::engine) fn busy(&self) -> &'static str {
        match self.running.as_ref().map(|running| &running.subject) {
            Some(Subject::Function(_)) => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
            _ => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
        }
    }

    /// SCRIPT KILL, or FUNCTION KILL: what runs ends, unless it has written.
    pub(in crate::engine) fn kill(&mut self, kills_functions: bool) -> Result<(), NotKilled> {
        let running = self.running.as_ref().ok_or(NotKilled::NotBusy)?;
        let is_function = matches!(running.subject, Subject::Function(_));
        if is_function != kills_functions && !running.has_written {
            return Err(NotKilled::Other(self.busy()));
        }
        self.kill_any()
    }

    /// Ends what runs, unless it has written.
    fn kill_any(&mut self) -> Result<(), NotKilled> {
        let running = self.running.as_mut().ok_or(NotKilled::NotBusy)?;
        if running.has_written {
            return Err(NotKilled::HasWritten);
        }
        running.is_killed = true;
        Ok(())
    }
}

impl Engine {
    /// A signal asks for the end while a script is paused: one that has written must come to its end before, others are
    /// killed. Whether that is so.
    pub(in crate::engine) fn delay_end(&mut self, directive: &str) -> bool {
        if !self.scripting.is_paused() {
            return false;
        }
        self.scripting.end_directive = Some(directive.to_owned());
        let what = match self.scripting.kill_any() {
            Ok(()) => "The script that is running is killed",
            Err(_) => {
                "The server ends when the script that is running has ended, as it has written; another signal ends it \
                 at once, and nothing of the script will be there"
            }
        };
        self.deps.logger.warning(what);
        true
    }

    /// The server ends, and a script has not. Whether it has written: then all blocks but the open one are durable now,
    /// and the log must be left as it is.
    pub(in crate::engine) fn give_up_script(&mut self) -> bool {
        let Some(paused) = self.scripting.paused.take() else { return false };
        drop(paused);
        // What a transaction around it has written is half of that.
        let leaves_half = |running: Running| running.has_written || running.was_in_transaction;
        let leaves_half = self.scripting.running.take().is_some_and(leaves_half);
        let Some(log) = self.shard.log_mut().filter(|_| leaves_half) else { return false };
        log.request_sync();
        let sealed = Lsn(log.open_lsn().0 - 1);
        let (clock, start_us) = (&self.deps.clock, self.deps.clock.monotonic_us());
        while log.reach().durable < sealed
            && clock.monotonic_us().saturating_sub(start_us) < BLOCK_WAIT_US_MAX
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.deps.logger.warning("Nothing of the script that was running is kept");
        true
    }
}
