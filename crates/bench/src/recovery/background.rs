//! Threads that end when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// A thread that is told to end, and waited for, when this is dropped.
pub(super) struct Background {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Whether a thread is to end.
#[derive(Clone)]
pub(super) struct Ending(Arc<AtomicBool>);

impl Ending {
    pub(super) fn is_near(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Background {
    /// Starts a thread. A measurement without it would be worth nothing: its error ends the process.
    pub(super) fn start(
        name: &'static str,
        run: impl FnOnce(&Ending) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Ending(Arc::clone(&is_ending));
        let run = move || {
            if let Err(error) = run(&ending) {
                eprintln!("{name}: {error}");
                std::process::exit(1);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::engine(name)(&error))?;
        Ok(Self { is_ending, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // One that has panicked has said so.
            let _panicked = thread.join();
        }
    }
}
