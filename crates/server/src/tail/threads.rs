//! The thread that steps a tailer.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::tailer::{TailStep, Tailer};
use crate::host::Host;
use crate::process::unhurried;

/// How long a tailer that has nothing to do waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// Steps a tailer.
pub trait TailRunner: Send {
    /// Steps it until it is finished, and wakes the engine when there is something to know.
    ///
    /// # Errors
    /// When the system has no thread for it.
    fn run(&mut self, tailer: Tailer) -> io::Result<()>;

    /// Waits until it has ended, which it was told to: it does not use the log any more.
    fn finish(&mut self);
}

/// See the file's top.
pub(crate) struct TailThread {
    thread: Option<JoinHandle<()>>,
    host: Box<dyn Host>,
    waker: redo::Waker,
}

impl TailThread {
    /// A thread that does not count as the data's memory in `host`, and wakes the executor by `waker`.
    pub(crate) fn new(host: Box<dyn Host>, waker: redo::Waker) -> Self {
        Self { thread: None, host, waker }
    }
}

impl TailRunner for TailThread {
    fn run(&mut self, mut tailer: Tailer) -> io::Result<()> {
        self.finish();
        let (host, waker) = (self.host.another(), std::sync::Arc::clone(&self.waker));
        let step = move || {
            loop {
                let step = tailer.step();
                host.count_apart(0);
                if tailer.has_news() {
                    waker();
                }
                match step {
                    // As a saver: a scheduler lets the running thread use up its slice otherwise.
                    TailStep::Worked => std::thread::yield_now(),
                    TailStep::Idle => tailer.wait(IDLE_WAIT),
                    TailStep::Finished => break,
                }
            }
            drop(tailer);
            host.end_apart();
        };
        self.thread = Some(Builder::new().name("logtail".to_owned()).spawn(unhurried(step))?);
        Ok(())
    }

    fn finish(&mut self) {
        // One that has panicked has ended.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}
