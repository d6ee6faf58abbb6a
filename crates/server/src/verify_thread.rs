//! The thread that reads backups, to see whether they can be restored.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use base::Mutex;
use env::{Clock, Disk};
use redo::{CheckProgress, CheckRequest, CheckedState};

use crate::host::Host;
use crate::process::unhurried;

/// No more is read in a second.
const BYTES_PER_S: u64 = 64 << 20;

/// What is behind its time by less does not rest.
const REST_MIN: Duration = Duration::from_millis(2);

/// What a reader and the engine share.
#[derive(Default)]
pub struct VerifyDesk {
    state: Mutex<Told>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Told {
    progress: CheckProgress,
    /// What was found, and when it had ended, in Unix milliseconds.
    found: Option<(redo::Result<Vec<CheckedState>>, i64)>,
}

impl VerifyDesk {
    /// How far it is.
    pub fn tell(&self, progress: CheckProgress) {
        self.state.lock().progress = progress;
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// It has ended, and has told nothing if nothing was told.
    pub fn end_unless_told(&self, now_ms: i64) {
        self.state.lock().found.get_or_insert_with(|| (Ok(Vec::new()), now_ms));
    }

    /// It has ended.
    pub fn end_with(&self, found: redo::Result<Vec<CheckedState>>, now_ms: i64) {
        self.state.lock().found = Some((found, now_ms));
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> CheckProgress {
        self.state.lock().progress
    }

    /// What was found, once, if it has ended.
    pub(crate) fn take_found(&self) -> Option<(redo::Result<Vec<CheckedState>>, i64)> {
        self.state.lock().found.take()
    }

    /// Has it end.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }
}

/// Reads backups.
pub trait VerifyRunner: Send {
    /// Reads the backup of this name, or all of them and the newest state, and tells `desk`.
    ///
    /// # Errors
    /// When the system has no thread for it.
    fn run(&mut self, name: Option<String>, desk: Arc<VerifyDesk>) -> io::Result<()>;

    /// Waits until it has ended, which it was told to, but not longer than `most`.
    fn finish(&mut self, most: Duration);
}

/// See the file's top.
pub(crate) struct VerifyThread {
    thread: Option<JoinHandle<()>>,
    host: Box<dyn Host>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// The data directory.
    directory: PathBuf,
}

/// Tells that it has ended, however it does.
struct EndTold {
    desk: Arc<VerifyDesk>,
    clock: Arc<dyn Clock>,
}

impl Drop for EndTold {
    fn drop(&mut self) {
        self.desk.end_unless_told(self.clock.now_ms());
    }
}

impl VerifyThread {
    /// A thread that does not count as the data's memory in `host`.
    pub(crate) fn new(
        host: Box<dyn Host>,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        directory: PathBuf,
    ) -> Self {
        Self { thread: None, host, disk, clock, directory }
    }
}

impl VerifyRunner for VerifyThread {
    fn run(&mut self, name: Option<String>, desk: Arc<VerifyDesk>) -> io::Result<()> {
        let (disk, clock) = (Arc::clone(&self.disk), Arc::clone(&self.clock));
        let (host, directory) = (self.host.another(), self.directory.clone());
        let read = move || {
            let _told = EndTold { desk: Arc::clone(&desk), clock: Arc::clone(&clock) };
            let (begun, mut read_bytes) = (Instant::now(), 0_u64);
            let mut pace = |so_far: CheckProgress| {
                desk.tell(so_far);
                host.count_apart(0);
                read_bytes += so_far.read_bytes;
                let due = Duration::from_micros(read_bytes.saturating_mul(1_000_000) / BYTES_PER_S);
                let rest = due.saturating_sub(begun.elapsed());
                if rest >= REST_MIN {
                    std::thread::sleep(rest);
                }
                if desk.is_ending() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let request = CheckRequest {
                source: &directory,
                devices: &[],
                name: name.as_deref(),
                // No process has this number, in no container.
                reader: u32::MAX,
            };
            let found = redo::check_past(&*disk, &request, &mut pace);
            desk.end_with(found.map(Option::unwrap_or_default), clock.now_ms());
            host.end_apart();
        };
        self.thread = Some(Builder::new().name("verifier".to_owned()).spawn(unhurried(read))?);
        Ok(())
    }

    fn finish(&mut self, most: Duration) {
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Links that one leaves which is not finished are removed by the next start.
    }
}
