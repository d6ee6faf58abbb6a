//! What an archiver and the owner of its log tell each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Lsn;
use redo::Mark;

use crate::figures::{Figures, State};
use crate::frames::Compression;
use crate::keep::Keep;

/// A target that takes longer for a step is away.
const STEP_US_MAX: u64 = 10_000_000;

/// How an archive is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// How often blocks are shipped.
    pub interval_ms: u64,
    /// Past so many bytes an object takes no further block.
    pub object_bytes: usize,
    /// A new copy is made when the log behind the last one is larger than this share of it, in percent; 0: never.
    pub base_percentage: u64,
    /// But not before the log behind it has so many bytes; a tidier, likewise.
    pub base_bytes_min: u64,
    /// How long which states are kept.
    pub keep: Keep,
    /// How objects are compressed.
    pub compression: Compression,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            interval_ms: 1000,
            object_bytes: 16 << 20,
            base_percentage: 100,
            base_bytes_min: 64 << 20,
            keep: Keep::ALL,
            compression: Compression::Zstd(1),
        }
    }
}

/// How an archiver ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ships what is durable, if that is possible at once.
    Shipping,
    /// It ships nothing more.
    AtOnce,
}

/// See the file's top. The owner never waits at it for more than a moment.
pub struct Desk {
    state: Mutex<Inner>,
    news: Condvar,
    wants_mark: AtomicBool,
}

#[derive(Default)]
struct Inner {
    ending: Option<Ending>,
    mark: Option<(Mark, i64)>,
    figures: Figures,
    /// When they were told, and when the step has begun that is under way.
    told_us: u64,
    step_us: Option<u64>,
    options: ArchiveOptions,
    /// The backups of the log, if they were told since they were asked for.
    backups: Option<Vec<NamedBlock>>,
    /// How the server is configured, if that was told since it was asked for.
    configuration: Option<(Lsn, String)>,
}

/// A block that a backup has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBlock {
    /// The number of the backup.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The block.
    pub lsn: Lsn,
}

impl Desk {
    /// A desk of an archive that is to be written so.
    #[must_use]
    pub fn new(options: ArchiveOptions) -> Self {
        let state = Mutex::new(Inner { options, ..Inner::default() });
        Self { state, news: Condvar::new(), wants_mark: AtomicBool::new(false) }
    }

    /// Changes how it is written from now on.
    pub fn set_options(&self, options: ArchiveOptions) {
        self.state().options = options;
    }

    /// Tells which backups the log has, when they have changed.
    pub fn tell_backups(&self, backups: Vec<NamedBlock>) {
        self.state().backups = Some(backups);
    }

    /// Tells how the server is configured, without secrets, and from which block on, when that may have changed. At most 64 KiB.
    pub fn tell_configuration(&self, from: Lsn, text: String) {
        self.state().configuration = Some((from, text));
    }

    pub(crate) fn take_configuration(&self) -> Option<(Lsn, String)> {
        self.state().configuration.take()
    }

    pub(crate) fn take_backups(&self) -> Option<Vec<NamedBlock>> {
        self.state().backups.take()
    }

    pub(crate) fn options(&self) -> ArchiveOptions {
        self.state().options
    }

    fn state(&self) -> MutexGuard<'_, Inner> {
        // What is in it is whole, even if a thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the owner is asked for a mark of its log.
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        self.wants_mark.load(Ordering::Acquire)
    }

    /// Gives the mark that was asked for, which was taken at this time, in Unix milliseconds.
    pub fn give_mark(&self, mark: Mark, time_ms: i64) {
        let before = self.state().mark.replace((mark, time_ms));
        self.wants_mark.store(false, Ordering::Release);
        // Letting go of a mark takes another lock.
        drop(before);
        self.news.notify_all();
    }

    /// The archiver is to end.
    pub fn end(&self, ending: Ending) {
        self.state().ending = Some(ending);
        self.news.notify_all();
    }

    /// What the archiver has done.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.state().figures.clone()
    }

    /// As [`Self::figures`], with what has come since they were told: the log is durable up to `durable`, and a step that
    /// is under way for long waits for the target.
    #[must_use]
    pub fn figures_at(&self, now_us: u64, durable: Lsn) -> Figures {
        let state = self.state();
        let (told_us, step_us) = (state.told_us, state.step_us);
        let mut figures = state.figures.clone();
        drop(state);
        figures.lag_blocks = durable.0.saturating_sub(figures.shipped.0);
        let since_ms = now_us.saturating_sub(told_us) / 1000;
        figures.lag_ms = match figures.lag_blocks {
            0 => 0,
            _ => figures.lag_ms + since_ms,
        };
        figures.behind_ms =
            if durable <= figures.archived { 0 } else { figures.behind_ms + since_ms };
        let is_over = matches!(figures.state, State::Off | State::Fenced | State::Failed);
        let step_us = step_us.map_or(0, |begun| now_us.saturating_sub(begun));
        if step_us >= STEP_US_MAX && !is_over {
            let seconds = step_us / 1_000_000;
            figures.state = State::Away;
            figures.last_error = Some(format!("the target has not answered for {seconds} seconds"));
        }
        figures
    }

    /// The archiver does not run, for this reason.
    pub fn fail(&self, why: &dyn std::fmt::Display) {
        let mut state = self.state();
        state.figures.state = State::Failed;
        state.figures.last_error = Some(why.to_string());
    }

    pub(crate) fn begin_step(&self, now_us: u64) {
        self.state().step_us = Some(now_us);
    }

    pub(crate) fn ask_for_mark(&self) {
        self.wants_mark.store(true, Ordering::Release);
    }

    pub(crate) fn take_mark(&self) -> Option<(Mark, i64)> {
        self.state().mark.take()
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.state().ending
    }

    /// What has been done by the end of a step.
    pub(crate) fn tell(&self, figures: Figures, now_us: u64) {
        let mut state = self.state();
        (state.figures, state.told_us, state.step_us) = (figures, now_us, None);
    }

    /// Waits for a mark or the end, or for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let state = self.state();
        if state.mark.is_none() && state.ending.is_none() {
            drop(self.news.wait_timeout(state, timeout));
        }
    }
}
