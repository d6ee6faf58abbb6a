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

/// And of garbage.
const GARBAGE_LEN: usize = 4;

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
    garbage: Option<Receiver<Fetched>>,
    asked: Arc<Asked>,
    threads: Vec<JoinHandle<()>>,
}

/// What was asked for and was not begun.
#[derive(Default)]
struct Queues {
    missing: VecDeque<Wanted>,
    /// Names: one thread at a time reads them, however many there are.
    names: VecDeque<Wanted>,
    is_naming: bool,
    /// For which no client waits: one thread at a time lists.
    garbage: VecDeque<Wanted>,
    is_listing: bool,
}

impl Queues {
    /// What comes next. Of several threads one at most is kept from what single keys need by each of the
    /// others; one that is alone does single keys first.
    fn next(&mut self, is_alone: bool) -> Option<Wanted> {
        if is_alone && let Some(missing) = self.missing.pop_front() {
            return Some(missing);
        }
        if !self.is_naming
            && let Some(names) = self.names.pop_front()
        {
            self.is_naming = true;
            return Some(names);
        }
        if !self.is_listing
            && let Some(garbage) = self.garbage.pop_front()
        {
            self.is_listing = true;
            return Some(garbage);
        }
        self.missing.pop_front()
    }
}

/// What keeps a thread busy.
#[derive(Clone, Copy)]
enum Kind {
    Missing,
    Names,
    Garbage,
}

impl Kind {
    const fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Missing(_) => Self::Missing,
            Wanted::Names(_) => Self::Names,
            Wanted::Elements(_) | Wanted::Dropped(_) => Self::Garbage,
        }
    }
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
    fn next(&self, is_alone: bool) -> Option<Wanted> {
        let mut queues = self.queues();
        loop {
            if self.is_ending.load(Ordering::Acquire) {
                return None;
            }
            if let Some(wanted) = queues.next(is_alone) {
                return Some(wanted);
            }
            queues = self.news.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_done(&self, kind: Kind) {
        let mut queues = self.queues();
        match kind {
            Kind::Missing => return,
            Kind::Names => queues.is_naming = false,
            Kind::Garbage => queues.is_listing = false,
        }
        drop(queues);
        self.news.notify_one();
    }
}

impl FetchThreads {
    /// `count` of them, which read as `restorer` does and keep so many `files` open each; `waker` wakes
    /// the thread that takes what they have read.
    pub(crate) fn new(restorer: LogRestorer, count: usize, files: usize, waker: Waker) -> Self {
        let (asked, threads) = (Arc::default(), Vec::new());
        let (fetched, garbage) = (None, None);
        Self { restorer, count, files, waker, fetched, garbage, asked, threads }
    }

    /// Without any thread nothing would ever come.
    fn start(&mut self) -> std::io::Result<()> {
        let (sender, fetched) = sync_channel(FETCHED_LEN);
        let (garbage_sender, garbage) = sync_channel(GARBAGE_LEN);
        for number in 0..self.count {
            let restorer = self.restorer.with_files(self.files);
            let (asked, waker) = (Arc::clone(&self.asked), Arc::clone(&self.waker));
            let senders = [sender.clone(), garbage_sender.clone()];
            let thread = Builder::new().name(format!("fetcher-{number}"));
            // The others may not come, or be kept busy by names and garbage.
            let is_alone = number == 0;
            match thread.spawn(move || fetch(restorer, &asked, is_alone, &senders, &waker)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        (self.fetched, self.garbage) = (Some(fetched), Some(garbage));
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
            Wanted::Missing(_) => queues.missing.push_back(wanted),
            Wanted::Names(_) => queues.names.push_back(wanted),
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

    fn take_garbage(&mut self) -> Option<Fetched> {
        self.garbage.as_ref()?.try_recv().ok()
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.asked.is_ending.store(true, Ordering::Release);
        self.restorer.end();
        // A thread that is about to wait has looked before, or looks behind this.
        drop(self.asked.queues());
        self.asked.news.notify_all();
        (self.fetched, self.garbage) = (None, None);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

fn fetch(
    mut restorer: LogRestorer,
    asked: &Asked,
    is_alone: bool,
    [sender, garbage_sender]: &[SyncSender<Fetched>; 2],
    waker: &Waker,
) {
    while let Some(wanted) = asked.next(is_alone) {
        let kind = Kind::of(&wanted);
        let mut is_ended = false;
        restorer.answer(wanted, &mut |fetched| {
            if matches!(fetched, Fetched::Elements(_, None) | Fetched::Dropped(_, false)) {
                // It will be asked for again.
                std::thread::sleep(AGAIN_AFTER);
            }
            let sender = if matches!(kind, Kind::Garbage) { garbage_sender } else { sender };
            is_ended = is_ended || sender.send(fetched).is_err();
            waker();
        });
        asked.is_done(kind);
        if is_ended {
            return;
        }
    }
}
