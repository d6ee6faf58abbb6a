//! The background thread: checkpoints, and delayed log writes that no commit waits for.
//!
//! The thread ends with the last handle of the store. A transaction that is still open then does
//! its own upkeep, as all do with [`crate::Upkeep::Inline`]: a commit that finds the online log
//! table full takes a checkpoint.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkpoint::Effort;
use crate::error::{Error, Result};
use crate::latch::{Inner, RECLAIM_PAGES};

/// After a restart, settles the rest of its records within about a second.
const SETTLE_PAUSE: Duration = Duration::from_micros(500);

/// Ends the thread on drop.
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
                // An error has either poisoned the store or will be returned again to the
                // transaction that needs the page.
                while run(&of_thread).is_err() && of_thread.log.healthy().is_ok() {}
            })
            .map_err(Error::io(std::path::Path::new("pages-upkeep"), "start the thread"))?;
        Ok(Self { inner: Arc::clone(inner), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.inner.log.stop_upkeep();
        if let Some(thread) = self.thread.take() {
            // The thread panics only when an invariant is broken, and the panic has been reported
            // by then.
            let _said_already = thread.join();
        }
    }
}

/// What the thread does next.
enum Work {
    Settle,
    Checkpoint,
    Reclaim,
    Nothing,
}

/// Works until the store is closed.
fn run(inner: &Inner) -> Result<()> {
    while !inner.log.lock().is_stopping {
        inner.log.healthy()?;
        inner.flush_if_late(true)?;
        match next_work(inner) {
            // The first transactions settle the parts they need and must not wait for the rest.
            Work::Settle => inner.log.rest(SETTLE_PAUSE),
            Work::Checkpoint => {
                inner.advance_checkpoint(None)?;
                // Commits that wait for the latch go first.
                inner.give_way();
            }
            Work::Reclaim => {
                inner.latch_with_room()?.reclaim(RECLAIM_PAGES);
                inner.give_way();
            }
            Work::Nothing => inner.log.sleep(inner.group_delay),
        }
    }
    Ok(())
}

/// Determines the next work; moves a restart on, or begins a checkpoint, if that is due.
fn next_work(inner: &Inner) -> Work {
    if !inner.share().is_upkeep_due() {
        return Work::Nothing;
    }
    let mut core = inner.latch();
    if core.advance_restart() {
        return Work::Settle;
    }
    if core.checkpoint_begin().is_none() && core.needs_checkpoint() {
        core.begin_checkpoint(Effort::Normal);
    }
    if core.checkpoint_begin().is_some() { Work::Checkpoint } else { Work::Reclaim }
}
