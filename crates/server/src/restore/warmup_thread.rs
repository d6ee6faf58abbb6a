//! The thread of a [`Warmup`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use base::DbId;
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
    orders: Option<Sender<DbId>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// By it, what reads is told to end.
    restorer: LogRestorer,
}

impl WarmupThread {
    /// Starts it; `waker` wakes the thread that takes what it says.
    pub(crate) fn start(warmup: Warmup, waker: &Waker) -> std::io::Result<Self> {
        let (sender, comebacks) = sync_channel(QUEUE_LEN);
        let (orders, receiver) = channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let (restorer, waker) = (warmup.restorer(), Arc::clone(waker));
        let is_over = Arc::clone(&is_ending);
        let run = move || warm_up(warmup, &sender, &receiver, &waker, &is_over);
        let thread = Builder::new().name("warmup".to_owned()).spawn(in_background(run))?;
        let (comebacks, orders, thread) = (Some(comebacks), Some(orders), Some(thread));
        Ok(Self { comebacks, orders, is_ending, thread, restorer })
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

    fn list(&mut self, db: DbId) {
        // A thread that has failed has said so.
        let _ignored = self.orders.as_ref().map(|orders| orders.send(db));
    }
}

impl Drop for WarmupThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.restorer.end();
        // Whatever it waits for comes to its end then.
        (self.comebacks, self.orders) = (None, None);
        self.thread.take().map(JoinHandle::join);
    }
}

fn warm_up(
    mut warmup: Warmup,
    sender: &SyncSender<Comeback>,
    orders: &Receiver<DbId>,
    waker: &Waker,
    is_ending: &AtomicBool,
) {
    let mut failures = 0;
    while !is_ending.load(Ordering::Acquire) {
        loop {
            match orders.try_recv() {
                Ok(db) => warmup.list(db),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let comeback = match warmup.step() {
            Ok(WarmStep::Comeback(comeback)) => {
                failures = 0;
                comeback
            }
            Ok(WarmStep::Worked) => continue,
            Ok(WarmStep::Idle) => match orders.recv() {
                Ok(db) => {
                    warmup.list(db);
                    continue;
                }
                Err(_) => return,
            },
            Err(error) => {
                failures += 1;
                if failures <= FAILURES_MAX {
                    // Dropping the orders is the end, and ends this wait.
                    match orders.recv_timeout(AGAIN_AFTER) {
                        Ok(db) => warmup.list(db),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                    continue;
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
