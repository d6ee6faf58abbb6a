//! The thread of a [`Warmup`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use redo::Waker;

use super::log_restorer::LogRestorer;
use super::warmup::{WarmStep, Warmup};
use crate::engine::{Comeback, Restoration};
use crate::process::in_background;

/// How much may wait for the executor.
const QUEUE_LEN: usize = 16;

/// So many errors of the disk in a row, and this long apart, end what comes unasked.
const FAILURES_MAX: u32 = 30;
const AGAIN_AFTER: Duration = Duration::from_secs(1);

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
    pub(crate) fn start(warmup: Warmup, waker: &Waker) -> std::io::Result<Self> {
        let (sender, comebacks) = sync_channel(QUEUE_LEN);
        let (end, receiver) = channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let (restorer, waker) = (warmup.restorer(), Arc::clone(waker));
        let is_over = Arc::clone(&is_ending);
        let run = move || warm_up(warmup, &sender, &receiver, &waker, &is_over);
        let thread = Builder::new().name("warmup".to_owned()).spawn(in_background(run))?;
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

fn warm_up(
    mut warmup: Warmup,
    sender: &SyncSender<Comeback>,
    end: &Receiver<()>,
    waker: &Waker,
    is_ending: &AtomicBool,
) {
    let mut failures = 0;
    while !is_ending.load(Ordering::Acquire) {
        let comeback = match warmup.step() {
            Ok(WarmStep::Comeback(comeback)) => {
                failures = 0;
                comeback
            }
            Ok(WarmStep::Worked) => continue,
            // Its end without having been asked for would be a failure.
            Ok(WarmStep::Idle) => {
                let _ended = end.recv();
                return;
            }
            Err(error) => {
                failures += 1;
                if failures <= FAILURES_MAX {
                    match end.recv_timeout(AGAIN_AFTER) {
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) | Err(RecvTimeoutError::Timeout) => continue,
                    }
                }
                Comeback::Failed(error.to_string())
            }
        };
        let is_over = matches!(comeback, Comeback::Failed(_));
        if sender.send(comeback).is_err() || is_over {
            return;
        }
        waker();
    }
}
