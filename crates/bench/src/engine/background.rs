//! A thread that repeats one task, for stores without such a thread.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Result;

/// The thread; it ends when this is dropped.
pub(super) struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Calls `work` repeatedly, with pauses. A failure is printed and ends the process: the commits
    /// no longer keep their guarantee, and no result may hide that.
    pub(super) fn start(
        pause: Duration,
        mut work: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = work() {
                    eprintln!("{error}");
                    std::process::exit(1);
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The panic of the thread was already printed.
            let _ended = thread.join();
        }
    }
}
