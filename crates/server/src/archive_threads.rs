//! The threads that step archivers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use archive::{ArchiveStep, Archiver, Directory, Target};
use env::Disk;

use crate::host::Host;
use crate::process::unhurried;

/// How long an archiver that has nothing to do waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(20);

/// Steps archivers.
pub trait ArchiveRunner: Send {
    /// The target that an archive in this directory has.
    fn target(&self, directory: &Path) -> Box<dyn Target>;

    /// Steps an archiver until it is finished.
    ///
    /// # Errors
    /// When the system has no thread for it.
    fn run(&mut self, archiver: Archiver) -> io::Result<()>;

    /// Waits until all have ended, which they were told to, but not longer than `most`.
    fn finish(&mut self, most: Duration);
}

/// See the file's top.
pub(crate) struct ArchiveThreads {
    threads: Vec<JoinHandle<()>>,
    host: Box<dyn Host>,
    disk: Arc<dyn Disk>,
}

impl ArchiveThreads {
    /// Threads that do not count as the data's memory in `host`, for archives on `disk`.
    pub(crate) fn new(host: Box<dyn Host>, disk: Arc<dyn Disk>) -> Self {
        Self { threads: Vec::new(), host, disk }
    }
}

impl ArchiveRunner for ArchiveThreads {
    fn target(&self, directory: &Path) -> Box<dyn Target> {
        Box::new(Directory::new(Arc::clone(&self.disk), directory))
    }

    fn run(&mut self, mut archiver: Archiver) -> io::Result<()> {
        self.threads.retain(|thread| !thread.is_finished());
        let host = self.host.another();
        let step = move || {
            loop {
                let step = archiver.step();
                host.count_apart(0);
                match step {
                    // As a saver: a scheduler lets the running thread use up its slice otherwise.
                    ArchiveStep::Worked => std::thread::yield_now(),
                    ArchiveStep::Idle => archiver.wait(IDLE_WAIT),
                    ArchiveStep::Finished => break,
                }
            }
            drop(archiver);
            host.end_apart();
        };
        self.threads.push(Builder::new().name("archiver".to_owned()).spawn(unhurried(step))?);
        Ok(())
    }

    fn finish(&mut self, most: Duration) {
        let begun = Instant::now();
        while self.threads.iter().any(|thread| !thread.is_finished()) && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        // One that waits for a target that never answers ends when it does, or with the process.
        self.threads.retain(|thread| !thread.is_finished());
    }
}
