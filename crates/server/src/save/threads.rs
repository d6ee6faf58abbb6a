//! Threads that step savers.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::saver::{Saver, SaverStep};
use crate::courtesy::{Accounts, Courtesy};
use crate::host::Host;
use crate::process::unhurried;

/// How long a saver that has nothing to do waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(5);

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

/// A thread a saver. See the file's top.
pub(crate) struct SaveThreads {
    threads: Vec<JoinHandle<()>>,
    host: Box<dyn Host>,
    waker: redo::Waker,
    /// The executor's.
    accounts: Option<Accounts>,
}

impl SaveThreads {
    /// Threads that do not count as the data's memory in `host`, wake the executor by `waker`, and step back for
    /// it: for the thread that this is called by.
    pub(crate) fn new(host: Box<dyn Host>, waker: redo::Waker) -> Self {
        Self { threads: Vec::new(), host, waker, accounts: Accounts::of_this_thread() }
    }
}

impl SaveRunner for SaveThreads {
    fn run(&mut self, mut saver: Saver) -> io::Result<()> {
        self.threads.retain(|thread| !thread.is_finished());
        let (host, waker) = (self.host.another(), std::sync::Arc::clone(&self.waker));
        let is_urgent = saver.is_urgent();
        let executor = self.accounts.as_ref().filter(|_| !is_urgent);
        let executor = executor.map(Accounts::another).transpose()?;
        let step = move || {
            let mut courtesy = executor.and_then(Courtesy::toward);
            loop {
                let courtesy = courtesy.as_mut().filter(|_| !saver.is_waited_for());
                if let Some(rest) = courtesy.and_then(|courtesy| courtesy.rest(saver.walked())) {
                    saver.wait(rest.min(IDLE_WAIT));
                    continue;
                }
                let step = saver.step();
                host.count_apart(saver.given_bytes());
                if saver.has_news() {
                    waker();
                }
                match step {
                    // As a compactor: a scheduler lets the running thread use up its slice otherwise.
                    SaverStep::Worked => std::thread::yield_now(),
                    SaverStep::Idle => saver.wait(IDLE_WAIT),
                    SaverStep::Finished => break,
                }
            }
            drop(saver);
            host.end_apart();
        };
        let thread = Builder::new().name("saver".to_owned());
        let begun = if is_urgent { thread.spawn(step) } else { thread.spawn(unhurried(step)) };
        self.threads.push(begun?);
        Ok(())
    }

    fn finish(&mut self) {
        // One that has panicked has ended.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
