//! Threads that step savers.
//!
//! ```text
//!   stands back:  steps ── starved? ──► unhurried: steps for a second ──┐
//!        ▲─────────────────────── the saver ◄──────────────────────────┘
//! ```
//!
//! A saver has two threads, which take turns. One *stands back*: it runs on processors that are free, and the scheduler takes
//! such a processor for free, so that the executor and its clients are not moved together to make room for a dump. Where
//! none is free a dump would not come to its end, and files of the log would be kept for it. Then the other one has its turn,
//! whose priority is low, but gives it a tenth of a busy processor.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::saver::{Saver, SaverStep};
use crate::host::Host;
use crate::process::unhurried;

/// How long a saver that has nothing to do waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(5);

/// After so long it is looked whether a thread that stands back gets on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// It does if it has run for one part in this many.
const STARVED_SHARE: u32 = 50;

/// How long the turn is of the one that does not stand back.
const HURRIED_FOR: Duration = Duration::from_secs(1);

/// Steps savers, whatever they write.
pub trait SaveRunner: Send {
    /// Steps a saver until it is finished, and wakes the engine when there is something to know.
    ///
    /// # Errors
    /// When the system has no thread for it.
    fn run(&mut self, saver: Saver) -> io::Result<()>;

    /// Waits until every saver has ended, each of which was given up: none uses the log any more.
    fn finish(&mut self);
}

/// Two threads a saver. See the file's top.
pub(crate) struct SaveThreads {
    threads: Vec<JoinHandle<()>>,
    host: Box<dyn Host>,
    waker: redo::Waker,
}

impl SaveThreads {
    /// Threads that do not count as the data's memory in `host`, and wake the executor by `waker`.
    pub(crate) fn new(host: Box<dyn Host>, waker: redo::Waker) -> Self {
        Self { threads: Vec::new(), host, waker }
    }

    /// A thread that steps what it is given until `is_over` says that its turn is, and passes it on.
    fn spawn(
        &mut self,
        turns: Receiver<Work>,
        next: Sender<Work>,
        is_over: fn(&mut Turn) -> bool,
        stands_back: bool,
    ) -> io::Result<()> {
        let (host, waker) = (self.host.another(), Arc::clone(&self.waker));
        let run = move || {
            if stands_back {
                host.stand_back();
            }
            for work in turns {
                let work = work.turn(&*host, &waker, is_over);
                host.set_apart(0);
                // What has ended is passed on to nothing, and its other thread ends, too.
                let Some(work) = work else { break };
                if next.send(work).is_err() {
                    break;
                }
            }
        };
        self.threads.push(Builder::new().name("saver".to_owned()).spawn(unhurried(run))?);
        Ok(())
    }
}

impl SaveRunner for SaveThreads {
    fn run(&mut self, saver: Saver) -> io::Result<()> {
        self.threads.retain(|thread| !thread.is_finished());
        let (to_idle, idle) = channel();
        let (to_hurried, hurried) = channel();
        let first = to_idle.clone();
        self.spawn(idle, to_hurried, Turn::is_starved, true)?;
        self.spawn(hurried, to_idle, Turn::was_long, false)?;
        // If its thread had ended, so would it here.
        let _ended = first.send(Work { saver, carried_bytes: 0 });
        Ok(())
    }

    fn finish(&mut self) {
        // One that has panicked has ended.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// A saver on its way between its threads.
struct Work {
    saver: Saver,
    /// What threads before have allocated for it, without what they have freed.
    carried_bytes: i64,
}

impl Work {
    /// Steps it; `None` when it is finished.
    fn turn(
        mut self,
        host: &dyn Host,
        waker: &redo::Waker,
        is_over: fn(&mut Turn) -> bool,
    ) -> Option<Self> {
        let before = self.carried_bytes - host.thread_bytes();
        let mut turn = Turn::begin();
        loop {
            let step = self.saver.step();
            self.carried_bytes = before + host.thread_bytes();
            let given = i64::try_from(self.saver.given_bytes()).unwrap_or(i64::MAX);
            host.set_apart(u64::try_from(self.carried_bytes - given).unwrap_or(0));
            if self.saver.has_news() {
                waker();
            }
            match step {
                // As a compactor: a scheduler lets the running thread use up its slice otherwise.
                SaverStep::Worked => std::thread::yield_now(),
                SaverStep::Idle => {
                    self.saver.wait(IDLE_WAIT);
                    turn.has_waited = true;
                }
                SaverStep::Finished => return None,
            }
            if is_over(&mut turn) {
                return Some(self);
            }
        }
    }
}

/// For how long a thread has worked, and how much it got of that.
struct Turn {
    began: Instant,
    processor_began: Duration,
    /// It had nothing to do now and then.
    has_waited: bool,
}

impl Turn {
    fn begin() -> Self {
        Self { began: Instant::now(), processor_began: processor_time(), has_waited: false }
    }

    /// Whether this thread has hardly run since it was looked at last.
    fn is_starved(&mut self) -> bool {
        let passed = self.began.elapsed();
        if passed < LOOK_EVERY {
            return false;
        }
        let before = std::mem::replace(self, Self::begin());
        let got = self.processor_began.saturating_sub(before.processor_began);
        !before.has_waited && got * STARVED_SHARE < passed
    }

    /// Whether this thread has had its turn.
    fn was_long(&mut self) -> bool {
        self.began.elapsed() > HURRIED_FOR
    }
}

/// How long this thread has run.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
