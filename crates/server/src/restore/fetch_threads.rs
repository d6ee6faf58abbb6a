//! The threads that read what is asked for.
//!
//! ```text
//!   keys and values ─► thread 0: all that wait by then, in one wait for the device ─┬─► executor
//!                          └── large ones, ──► the others, one by one ──────────────┤
//!                              and those that are in no group
//!   names; garbage, sweeps ─────────────────► the others, one thread each at most ──┘
//! ```
//!
//! Where reads cannot be in flight together, every thread reads keys and values, one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use base::{DbId, Lsn};
use keyspace::{Missing, Need};
use redo::Waker;

use super::log_restorer::LogRestorer;
use crate::descriptors::FETCHED_FILES_MIN;
use crate::engine::{Fetched, Fetching, Wanted};

/// So many keys are read together.
const TOGETHER_MAX: usize = 32;

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
    /// Whether one of them reads keys together.
    is_together: bool,
}

/// What was asked for and was not begun.
#[derive(Default)]
struct Queues {
    missing: VecDeque<Missing>,
    /// Those that take long, or are in no group, if one thread reads all others together.
    large: VecDeque<Missing>,
    /// Names: one thread at a time reads them, however many there are.
    names: VecDeque<Wanted>,
    is_naming: bool,
    /// For which no client waits: one thread at a time lists.
    garbage: VecDeque<Wanted>,
    is_listing: bool,
}

/// What a thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Keys and values, all that wait.
    Together,
    /// All else, next to a thread that does that.
    Long,
    /// Keys and values before all else, one by one: other threads may be kept busy by the rest.
    KeysFirst,
    /// Everything, one by one.
    Any,
}

/// What a thread reads next.
enum Task {
    Together(Vec<Missing>),
    One(Wanted),
}

impl Queues {
    /// What comes next. One thread at most is kept busy by names, and one by garbage.
    fn next(&mut self, job: Job) -> Option<Task> {
        match job {
            Job::Together if self.missing.is_empty() => return None,
            Job::Together => {
                let count = self.missing.len().min(TOGETHER_MAX);
                return Some(Task::Together(self.missing.drain(..count).collect()));
            }
            Job::KeysFirst => {
                if let Some(missing) = self.missing.pop_front() {
                    return Some(Task::One(Wanted::Missing(missing)));
                }
            }
            Job::Long | Job::Any => {}
        }
        if !self.is_naming
            && let Some(names) = self.names.pop_front()
        {
            self.is_naming = true;
            return Some(Task::One(names));
        }
        if !self.is_listing
            && let Some(garbage) = self.garbage.pop_front()
        {
            self.is_listing = true;
            return Some(Task::One(garbage));
        }
        let keys = if job == Job::Long { &mut self.large } else { &mut self.missing };
        keys.pop_front().map(|missing| Task::One(Wanted::Missing(missing)))
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
            Wanted::Elements(_) | Wanted::Dropped(_) | Wanted::Sweep(_) => Self::Garbage,
        }
    }
}

#[derive(Default)]
struct Asked {
    queues: Mutex<Queues>,
    news: Condvar,
    /// For the thread that reads keys together.
    keys: Condvar,
    is_ending: AtomicBool,
}

impl Asked {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // What is in them is whole, even if a thread has panicked.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes next; `None` at the end.
    fn next(&self, job: Job) -> Option<Task> {
        let news = if job == Job::Together { &self.keys } else { &self.news };
        let mut queues = self.queues();
        loop {
            if self.is_ending.load(Ordering::Acquire) {
                return None;
            }
            if let Some(task) = queues.next(job) {
                return Some(task);
            }
            queues = news.wait(queues).unwrap_or_else(PoisonError::into_inner);
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

    fn add_large(&self, large: Vec<Missing>) {
        for missing in large {
            // An end is two records, and what others wait for may be any number.
            match missing.need {
                Need::End => self.queues().large.push_front(missing),
                Need::Name | Need::Value => self.queues().large.push_back(missing),
            }
            self.news.notify_one();
        }
    }
}

impl FetchThreads {
    /// `count` of them, which read as `restorer` does and keep so many `files` open each; `waker` wakes
    /// the thread that takes what they have read.
    pub(crate) fn new(restorer: LogRestorer, count: usize, files: usize, waker: Waker) -> Self {
        let (asked, threads) = (Arc::default(), Vec::new());
        let (fetched, garbage) = (None, None);
        let is_together = false;
        Self { restorer, count, files, waker, fetched, garbage, asked, threads, is_together }
    }

    /// Ends the threads.
    fn stop(&mut self) {
        self.asked.is_ending.store(true, Ordering::Release);
        // A thread that is about to wait has looked before, or looks behind this.
        drop(self.asked.queues());
        self.asked.news.notify_all();
        self.asked.keys.notify_all();
        (self.fetched, self.garbage) = (None, None);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }

    /// Without any thread nothing would ever come.
    fn start(&mut self) -> std::io::Result<()> {
        let (sender, fetched) = sync_channel(FETCHED_LEN);
        let (garbage_sender, garbage) = sync_channel(GARBAGE_LEN);
        let (files, others) = (self.files, self.count.saturating_sub(1));
        self.is_together = others > 0 && self.restorer.another().fetches_together();
        let mut spawn = |number: usize, job: Job, files: usize| {
            let restorer = self.restorer.with_files(files);
            let (asked, waker) = (Arc::clone(&self.asked), Arc::clone(&self.waker));
            let senders = [sender.clone(), garbage_sender.clone()];
            let thread = Builder::new().name(format!("fetcher-{number}"));
            let thread = thread.spawn(move || fetch(restorer, &asked, job, &senders, &waker))?;
            self.threads.push(thread);
            std::io::Result::Ok(())
        };
        // The one that reads keys together has most of the files.
        let (job, others_files) = match self.is_together {
            true => (Job::Long, (files / others).max(FETCHED_FILES_MIN)),
            false => (Job::Any, files),
        };
        let spawned = (1..=others).take_while(|number| spawn(*number, job, others_files).is_ok());
        self.is_together &= spawned.count() > 0;
        let spawned = match self.is_together {
            true => spawn(0, Job::Together, files * others),
            false => spawn(0, Job::KeysFirst, files),
        };
        if let Err(error) = spawned {
            // What the others took would be lost.
            self.stop();
            self.asked = Arc::default();
            return Err(error);
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
        let mut news = &self.asked.news;
        match wanted {
            Wanted::Missing(missing) => {
                queues.missing.push_back(missing);
                if self.is_together {
                    news = &self.asked.keys;
                }
            }
            Wanted::Names(_) => queues.names.push_back(wanted),
            Wanted::Elements(_) | Wanted::Dropped(_) | Wanted::Sweep(_) => {
                queues.garbage.push_back(wanted);
            }
        }
        drop(queues);
        news.notify_one();
        true
    }

    fn indexed_lsn(&mut self) -> Option<Lsn> {
        self.restorer.index()?.cut()
    }

    fn take_contradiction(&mut self) -> Option<String> {
        self.restorer.index()?.take_contradiction()
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
        self.restorer.end();
        self.stop();
    }
}

fn fetch(
    mut restorer: LogRestorer,
    asked: &Asked,
    job: Job,
    [sender, garbage_sender]: &[SyncSender<Fetched>; 2],
    waker: &Waker,
) {
    let mut is_ended = false;
    while !is_ended && let Some(task) = asked.next(job) {
        let wanted = match task {
            Task::One(wanted) => wanted,
            Task::Together(all) => {
                let large = restorer.fetch_together(all, &mut |missing, restored| {
                    let sent = sender.try_send(Fetched::Missing(missing, restored));
                    if let Err(TrySendError::Full(fetched)) = sent {
                        // The executor makes room; it is told of all others at the end.
                        waker();
                        is_ended = is_ended || sender.send(fetched).is_err();
                    } else {
                        is_ended = is_ended || sent.is_err();
                    }
                });
                waker();
                asked.add_large(large);
                continue;
            }
        };
        let kind = Kind::of(&wanted);
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
    }
}
