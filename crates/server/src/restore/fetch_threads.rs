//! The threads that read what is asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use base::{DbId, Lsn};
use redo::Waker;

use super::log_restorer::LogRestorer;
use crate::engine::{Fetched, Fetching, Wanted};

/// How much of what was asked for may wait for the executor.
const FETCHED_LEN: usize = 256;

/// So long garbage waits that cannot be listed.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// See the file's top. They are started when the first thing is asked for; dropping it ends them.
pub(crate) struct FetchThreads {
    restorer: LogRestorer,
    count: usize,
    /// How many each keeps open.
    files: usize,
    waker: Waker,
    fetched: Option<Receiver<Fetched>>,
    asked: Arc<Asked>,
    threads: Vec<JoinHandle<()>>,
}

/// What was asked for and was not begun.
#[derive(Default)]
struct Queues {
    missing: VecDeque<Wanted>,
    /// For which no client waits: one thread at a time lists, when nothing else is to be done.
    garbage: VecDeque<Wanted>,
    is_listing: bool,
}

#[derive(Default)]
struct Asked {
    queues: Mutex<Queues>,
    news: Condvar,
    is_ending: AtomicBool,
}

impl Asked {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // What is in them is whole, even if a thread has panicked.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes next; `None` at the end.
    fn next(&self) -> Option<Wanted> {
        let mut queues = self.queues();
        loop {
            if self.is_ending.load(Ordering::Acquire) {
                return None;
            }
            if let Some(missing) = queues.missing.pop_front() {
                return Some(missing);
            }
            if !queues.is_listing
                && let Some(garbage) = queues.garbage.pop_front()
            {
                queues.is_listing = true;
                return Some(garbage);
            }
            queues = self.news.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn listed(&self) {
        self.queues().is_listing = false;
        self.news.notify_one();
    }
}

impl FetchThreads {
    /// `count` of them, which read as `restorer` does and keep so many `files` open each; `waker` wakes
    /// the thread that takes what they have read.
    pub(crate) fn new(restorer: LogRestorer, count: usize, files: usize, waker: Waker) -> Self {
        let (asked, threads) = (Arc::default(), Vec::new());
        Self { restorer, count, files, waker, fetched: None, asked, threads }
    }

    /// Without any thread nothing would ever come.
    fn start(&mut self) -> std::io::Result<()> {
        let (sender, fetched) = sync_channel(FETCHED_LEN);
        for number in 0..self.count {
            let restorer = self.restorer.with_files(self.files);
            let (asked, sender, waker) =
                (Arc::clone(&self.asked), sender.clone(), Arc::clone(&self.waker));
            let thread = Builder::new().name(format!("fetcher-{number}"));
            match thread.spawn(move || fetch(restorer, &asked, &sender, &waker)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.fetched = Some(fetched);
        Ok(())
    }
}

impl Fetching for FetchThreads {
    fn ask(&mut self, wanted: Wanted) -> bool {
        if self.fetched.is_none() && self.start().is_err() {
            return false;
        }
        let mut queues = self.asked.queues();
        match wanted {
            Wanted::Missing(_) | Wanted::Names(_) => queues.missing.push_back(wanted),
            Wanted::Elements(_) | Wanted::Dropped(_) => queues.garbage.push_back(wanted),
        }
        drop(queues);
        self.asked.news.notify_one();
        true
    }

    fn indexed_lsn(&mut self) -> Option<Lsn> {
        self.restorer.index()?.cut()
    }

    fn pin(&mut self, is_pinned: bool) {
        match self.restorer.index() {
            Some(index) if is_pinned => index.pin(),
            Some(index) => index.unpin(),
            None => {}
        }
    }

    fn pin_dropped(&mut self, db: DbId) {
        self.restorer.index().iter().for_each(|index| index.pin_dropped(db));
    }

    fn take(&mut self) -> Option<Fetched> {
        self.fetched.as_ref()?.try_recv().ok()
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.asked.is_ending.store(true, Ordering::Release);
        self.restorer.end();
        // A thread that is about to wait has looked before, or looks behind this.
        drop(self.asked.queues());
        self.asked.news.notify_all();
        self.fetched = None;
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

fn fetch(mut restorer: LogRestorer, asked: &Asked, sender: &SyncSender<Fetched>, waker: &Waker) {
    while let Some(wanted) = asked.next() {
        let is_garbage = matches!(wanted, Wanted::Elements(_) | Wanted::Dropped(_));
        let mut is_ended = false;
        restorer.answer(wanted, &mut |fetched| {
            if matches!(fetched, Fetched::Elements(_, None) | Fetched::Dropped(_, false)) {
                // It will be asked for again.
                std::thread::sleep(AGAIN_AFTER);
            }
            is_ended = is_ended || sender.send(fetched).is_err();
            waker();
        });
        if is_garbage {
            asked.listed();
        }
        if is_ended {
            return;
        }
    }
}
