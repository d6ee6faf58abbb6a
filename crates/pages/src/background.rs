//! The thread in the background: checkpoints, and the delay of commits that nobody waits for.
//!
//! It ends with the last handle of the store. A transaction that is still open then does its own
//! upkeep, as all do with [`crate::Upkeep::Inline`]: who finds the online log table full takes a
//! checkpoint.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkpoint::Effort;
use crate::error::{Error, Result};
use crate::latch::{Inner, Latched, RECLAIM_PAGES, Sleep, is_log_full};

/// After a restart the rest of its records are settled within about a second.
const SETTLE_PAUSE: Duration = Duration::from_micros(500);

/// Ends the thread when it is dropped.
pub(crate) struct Background {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Self> {
        let of_thread = Arc::clone(inner);
        let thread = std::thread::Builder::new()
            .name(String::from("pages-upkeep"))
            .spawn(move || {
                // An error has poisoned the store, or will be met again by who needs the page.
                while run(&of_thread).is_err() && of_thread.latch().healthy().is_ok() {}
            })
            .map_err(Error::io(std::path::Path::new("pages-upkeep"), "start the thread"))?;
        Ok(Self { inner: Arc::clone(inner), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Ok(mut core) = self.inner.core.lock() {
            core.is_stopping = true;
        }
        self.inner.upkeep_wanted.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics only when an invariant is broken, which it has said then.
            let _said_already = thread.join();
        }
    }
}

/// Works until the store is closed.
fn run(inner: &Inner) -> Result<()> {
    let mut core = inner.latch();
    while !core.is_stopping {
        core.healthy()?;
        let is_due = core.checkpoint.is_none() && !core.is_restarting && core.needs_checkpoint();
        if is_due {
            core.begin_checkpoint(Effort::Normal);
        }
        if is_log_full(&core) || inner.is_group_late(&mut core) {
            core = inner.flush_all(core)?;
        }
        if core.advance_restart() {
            // The first transactions settle what they need, and are not to wait for the rest.
            let waited = inner.upkeep_wanted.wait_timeout(core, SETTLE_PAUSE);
            core = waited.expect("as for the latch").0;
            continue;
        }
        if core.checkpoint.is_some() {
            core = inner.advance_checkpoint(core, None)?;
            // Those who want to commit come first.
            core = inner.give_way(core);
            continue;
        }
        if core.has_deleted_tables {
            core = inner.make_room(core)?;
            core.reclaim(RECLAIM_PAGES);
            core = inner.give_way(core);
            continue;
        }
        core = wait(inner, core);
    }
    Ok(())
}

fn wait<'a>(inner: &Inner, mut core: Latched<'a>) -> Latched<'a> {
    if core.log.is_empty() {
        core.background = Sleep::UntilWoken;
        core = inner.upkeep_wanted.wait(core).expect("as for the latch");
    } else {
        core.background = Sleep::UntilLate;
        let waited = inner.upkeep_wanted.wait_timeout(core, inner.group_delay);
        core = waited.expect("as for the latch").0;
    }
    core.background = Sleep::Awake;
    core
}
