//! A thread that repeats one task for a store that has no such thread of its own.

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
    /// Calls `work` with pauses between. A failure is said on standard error, and ends it: the
    /// promise of the commits is then no longer kept, which no result may hide.
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
            // A panic of the thread was already shown.
            let _ended = thread.join();
        }
    }
}
