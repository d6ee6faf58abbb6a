//! The thread of a [`Warmup`].
//!
//! ```text
//!   works ──────► told, or tried on
//!   fails ──────► 1 s ─► again ─► 2 s ─► again ─► 4 s ─► … ─► 60 s ─► again ─► 60 s ─► …
//!                                    └─ told: Failing              └─ works: Again
//! ```
//!
//! Until the pass is over nothing is compacted, so it goes on for as long as the server runs: a device that
//! comes back after a day is worth as much as one that comes back after a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use keyspace::RestoreError;
use redo::Waker;

use super::log_restorer::LogRestorer;
use super::warmup::{WarmStep, Warmup};
use crate::engine::{Comeback, Restoration};
use crate::process::in_background;

/// How much may wait for the executor.
const QUEUE_LEN: usize = 16;

/// An error of the disk is told when it has come so many times in a row.
const FAILURES_TOLD: u32 = 3;

/// How long the thread waits after the first error, and after many.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// See the file's top. Dropping it ends the thread.
pub(crate) struct WarmupThread {
    comebacks: Option<Receiver<Comeback>>,
    /// Dropping it is the end, and ends what the thread waits for.
    end: Option<Sender<()>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// By it, what reads is told to end.
    restorer: LogRestorer,
}

impl WarmupThread {
    /// Starts it; `waker` wakes the thread that takes what it says.
    ///
    /// It begins after `delay`, and where all `fits` into memory at the priority of what clients wait for: each key that
    /// it brings back costs a fiftieth of one that they ask for.
    pub(crate) fn start(
        warmup: Warmup,
        delay: Duration,
        fits: bool,
        waker: &Waker,
    ) -> std::io::Result<Self> {
        let (sender, comebacks) = sync_channel(QUEUE_LEN);
        let (end, receiver) = channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let (restorer, waker) = (warmup.restorer(), Arc::clone(waker));
        let is_over = Arc::clone(&is_ending);
        let run = move || {
            if let Some(warmup) = begin(warmup, delay, &receiver) {
                warm_up(warmup, &sender, &receiver, &waker, &is_over);
            }
        };
        let thread = Builder::new().name("warmup".to_owned());
        let thread = if fits { thread.spawn(run)? } else { thread.spawn(in_background(run))? };
        let (comebacks, end, thread) = (Some(comebacks), Some(end), Some(thread));
        Ok(Self { comebacks, end, is_ending, thread, restorer })
    }
}

impl Restoration for WarmupThread {
    fn take(&mut self) -> Option<Comeback> {
        match self.comebacks.as_ref()?.try_recv() {
            Ok(comeback) => Some(comeback),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.comebacks = None;
                // After a failure that was told this changes nothing.
                Some(Comeback::Failed("the thread that brings them back has ended".to_owned()))
            }
        }
    }
}

impl Drop for WarmupThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.restorer.end();
        // Whatever it waits for comes to its end then.
        (self.comebacks, self.end) = (None, None);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Errors of the disk in a row.
#[derive(Default)]
struct Failures {
    count: u32,
}

impl Failures {
    /// There was one more: what is to be told of it.
    fn note(&mut self, error: &RestoreError) -> Option<Comeback> {
        self.count = self.count.saturating_add(1);
        (self.count == FAILURES_TOLD).then(|| Comeback::Failing(error.to_string()))
    }

    /// How long to wait before the next try.
    fn pause(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(6);
        PAUSE_MAX.min(PAUSE_MIN * (1 << doublings))
    }

    /// There is progress: what is to be told of that.
    fn end(&mut self) -> Option<Comeback> {
        (std::mem::take(&mut self.count) >= FAILURES_TOLD).then_some(Comeback::Again)
    }
}

/// Waits before the first step; nothing if the thread is to end meanwhile.
fn begin(warmup: Warmup, delay: Duration, end: &Receiver<()>) -> Option<Warmup> {
    let has_ended = end.recv_timeout(delay) == Err(RecvTimeoutError::Disconnected);
    (!has_ended).then_some(warmup)
}

/// What ends the thread: nothing is taken from it any more.
struct Unwanted;

fn warm_up(
    mut warmup: Warmup,
    sender: &SyncSender<Comeback>,
    end: &Receiver<()>,
    waker: &Waker,
    is_ending: &AtomicBool,
) {
    let tell = |comeback| {
        sender.send(comeback).map_err(|_| Unwanted)?;
        waker();
        Ok(())
    };
    let mut failures = Failures::default();
    let is_wanted = || !is_ending.load(Ordering::Acquire);
    while is_wanted() && warm_up_some(&mut warmup, end, &mut failures, &tell).is_ok() {}
}

/// Does a step, and waits if there is nothing to do, or after an error.
fn warm_up_some(
    warmup: &mut Warmup,
    end: &Receiver<()>,
    failures: &mut Failures,
    tell: &dyn Fn(Comeback) -> Result<(), Unwanted>,
) -> Result<(), Unwanted> {
    match warmup.step() {
        Ok(WarmStep::Worked) => Ok(()),
        Ok(WarmStep::Comeback(comeback)) => {
            failures.end().map_or(Ok(()), tell)?;
            tell(comeback)
        }
        // Its end without having been asked for would be a failure.
        Ok(WarmStep::Idle) => end.recv().map_err(|_| Unwanted),
        Err(error) => {
            failures.note(&error).map_or(Ok(()), tell)?;
            match end.recv_timeout(failures.pause()) {
                Err(RecvTimeoutError::Disconnected) => Err(Unwanted),
                Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded_and_each_change_is_told_once() {
        let error = RestoreError::Io("no such luck".to_owned());
        let mut failures = Failures::default();
        for _ in 0..2 {
            let mut pauses = Vec::new();
            let mut told = 0;
            for _ in 0..100 {
                told += u32::from(matches!(failures.note(&error), Some(Comeback::Failing(_))));
                pauses.push(failures.pause().as_secs());
            }
            assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
            assert!(pauses[8..].iter().all(|pause| *pause == 60));
            assert_eq!(told, 1);
            assert!(matches!(failures.end(), Some(Comeback::Again)));
            assert!(failures.end().is_none());
        }
        assert!(failures.note(&error).is_none());
        assert!(failures.end().is_none(), "what was not told of needs no end");
    }
}
