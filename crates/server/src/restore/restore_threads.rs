//! The threads that bring keys back: one for a [`Warmup`], some for what is asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use base::DbId;
use keyspace::Restored;
use redo::Waker;

use super::log_restorer::LogRestorer;
use super::warmup::{WarmStep, Warmup};
use crate::engine::{Comeback, Restoration};
use crate::process::in_background;

/// How much of what comes unasked may wait for the executor, and of what was asked for.
const QUEUE_LEN: usize = 16;
const FETCHED_LEN: usize = 256;

/// So many errors of the disk in a row, and this long apart, end what comes unasked.
const FAILURES_MAX: u32 = 30;
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A key, by its database.
type Name = (DbId, Box<[u8]>);

/// A key that was asked for, if it is there.
type Fetched = (DbId, Box<[u8]>, Option<Restored>);

/// See the file's top. Dropping it ends the threads.
pub(crate) struct RestoreThreads {
    comebacks: Option<Receiver<Comeback>>,
    fetched: Option<Receiver<Fetched>>,
    orders: Option<Sender<DbId>>,
    asked: Arc<Asked>,
    threads: Vec<JoinHandle<()>>,
    /// By it, all that read are told to end.
    restorer: LogRestorer,
}

/// What was asked for and was not begun.
#[derive(Default)]
struct Asked {
    names: Mutex<VecDeque<Name>>,
    news: Condvar,
    is_ending: AtomicBool,
}

impl Asked {
    fn names(&self) -> MutexGuard<'_, VecDeque<Name>> {
        // What is in it is whole, even if a thread has panicked.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next key; `None` at the end.
    fn next(&self) -> Option<Name> {
        let mut names = self.names();
        loop {
            if self.is_ending() {
                return None;
            }
            if let Some(name) = names.pop_front() {
                return Some(name);
            }
            names = self.news.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}

impl RestoreThreads {
    /// Starts them, `fetcher_count` for what is asked for; `waker` wakes the thread that takes what they say.
    pub(crate) fn start(
        warmup: Warmup,
        fetcher_count: usize,
        waker: &Waker,
    ) -> std::io::Result<Self> {
        let (sender, comebacks) = sync_channel(QUEUE_LEN);
        let (fetched_sender, fetched) = sync_channel(FETCHED_LEN);
        let (orders, receiver) = channel();
        let asked = Arc::new(Asked::default());
        let mut started = Self {
            comebacks: Some(comebacks),
            fetched: Some(fetched),
            orders: Some(orders),
            asked: Arc::clone(&asked),
            threads: Vec::new(),
            restorer: warmup.fetcher(),
        };
        for number in 0..fetcher_count {
            let restorer = warmup.fetcher();
            let (asked, sender, waker) =
                (Arc::clone(&asked), fetched_sender.clone(), Arc::clone(waker));
            let thread = Builder::new().name(format!("fetcher-{number}"));
            started.threads.push(thread.spawn(move || fetch(restorer, &asked, &sender, &waker))?);
        }
        let waker = Arc::clone(waker);
        let run = move || warm_up(warmup, &sender, &receiver, &waker, &asked);
        started.threads.push(Builder::new().name("warmup".to_owned()).spawn(in_background(run))?);
        Ok(started)
    }
}

impl Restoration for RestoreThreads {
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

    fn fetch(&mut self, db: DbId, key: &[u8]) {
        self.asked.names().push_back((db, key.into()));
        self.asked.news.notify_one();
    }

    fn take_fetched(&mut self) -> Option<Fetched> {
        self.fetched.as_ref()?.try_recv().ok()
    }

    fn list(&mut self, db: DbId) {
        // A thread that has failed has said so.
        let _ignored = self.orders.as_ref().map(|orders| orders.send(db));
    }
}

impl Drop for RestoreThreads {
    fn drop(&mut self) {
        self.asked.is_ending.store(true, Ordering::Release);
        self.restorer.end();
        // A thread that is about to wait has looked before, or looks behind this.
        drop(self.asked.names());
        self.asked.news.notify_all();
        // Whatever they wait for comes to its end then.
        (self.comebacks, self.fetched, self.orders) = (None, None, None);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

fn fetch(mut restorer: LogRestorer, asked: &Asked, sender: &SyncSender<Fetched>, waker: &Waker) {
    while let Some((db, key)) = asked.next() {
        let restored = restorer.fetch(db, &key);
        if sender.send((db, key, restored)).is_err() {
            return;
        }
        waker();
    }
}

fn warm_up(
    mut warmup: Warmup,
    sender: &SyncSender<Comeback>,
    orders: &Receiver<DbId>,
    waker: &Waker,
    asked: &Asked,
) {
    let mut failures = 0;
    while !asked.is_ending() {
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
