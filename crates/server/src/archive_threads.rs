//! The threads that step archivers.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use archive::{ArchiveStep, Archiver, Target};
use env::Disk;

use crate::config::ArchivePlace;
use crate::host::Host;
use crate::process::unhurried;

/// How long an archiver that has nothing to do waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(20);

/// Makes the target of a place. Nothing waits for it: the target itself is not looked at.
pub type OpenArchive = fn(&Arc<dyn Disk>, &ArchivePlace) -> archive::Result<Box<dyn Target>>;

/// Steps archivers.
pub trait ArchiveRunner: Send {
    /// The target that an archive in this place has.
    ///
    /// # Errors
    /// When there is no such target, or a key cannot be read.
    fn target(&self, place: &ArchivePlace) -> archive::Result<Box<dyn Target>>;

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
    open: OpenArchive,
}

impl ArchiveThreads {
    /// Threads that do not count as the data's memory in `host`, for archives that `open` finds.
    pub(crate) fn new(host: Box<dyn Host>, disk: Arc<dyn Disk>, open: OpenArchive) -> Self {
        Self { threads: Vec::new(), host, disk, open }
    }
}

impl ArchiveRunner for ArchiveThreads {
    fn target(&self, place: &ArchivePlace) -> archive::Result<Box<dyn Target>> {
        (self.open)(&self.disk, place)
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
