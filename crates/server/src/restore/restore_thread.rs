//! The thread that runs a [`Warmup`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

use base::DbId;
use redo::Waker;

use super::warmup::Warmup;
use crate::engine::{Comeback, Restoration};
use crate::process::in_background;

/// How much may wait for the executor.
const QUEUE_LEN: usize = 16;

/// See the file's top. Dropping it ends the thread.
pub(crate) struct RestoreThread {
    comebacks: Option<Receiver<Comeback>>,
    orders: Option<Sender<DbId>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RestoreThread {
    /// Starts it; `waker` wakes whoever takes what it says.
    pub(crate) fn start(warmup: Warmup, waker: Waker) -> std::io::Result<Self> {
        let (sender, comebacks) = sync_channel(QUEUE_LEN);
        let (orders, receiver) = channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("restorer".to_owned()).spawn({
            let is_ending = Arc::clone(&is_ending);
            in_background(move || run(warmup, &sender, &receiver, &waker, &is_ending))
        })?;
        let (comebacks, orders) = (Some(comebacks), Some(orders));
        Ok(Self { comebacks, orders, is_ending, thread: Some(thread) })
    }
}

impl Restoration for RestoreThread {
    fn take(&mut self) -> Option<Comeback> {
        self.comebacks.as_ref()?.try_recv().ok()
    }

    fn list(&mut self, db: DbId) {
        // A thread that has failed has said so.
        let _ignored = self.orders.as_ref().map(|orders| orders.send(db));
    }
}

impl Drop for RestoreThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        // Whatever it waits for comes to its end then.
        (self.comebacks, self.orders) = (None, None);
        let _ignored = self.thread.take().map(JoinHandle::join);
    }
}

fn run(
    mut warmup: Warmup,
    sender: &SyncSender<Comeback>,
    orders: &Receiver<DbId>,
    waker: &Waker,
    is_ending: &AtomicBool,
) {
    while !is_ending.load(Ordering::Acquire) {
        loop {
            match orders.try_recv() {
                Ok(db) => warmup.list(db),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let comeback = match warmup.step() {
            Ok(Some(comeback)) => comeback,
            Ok(None) => match orders.recv() {
                Ok(db) => {
                    warmup.list(db);
                    continue;
                }
                Err(_) => return,
            },
            Err(error) => Comeback::Failed(error.to_string()),
        };
        let is_over = matches!(comeback, Comeback::Failed(_));
        if sender.send(comeback).is_err() || is_over {
            return;
        }
        waker();
    }
}
