//! What a saver and the engine tell each other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Lsn;
use dump::HourglassFigures;

use super::error::SaveResult;
use super::predecessor::Kept;

/// A saver goes on as long as fewer bytes than this wait for a client.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How far a dump is, or how it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveFigures {
    /// Keys that were written.
    pub keys: u64,
    /// Records of the log that were read, of how many.
    pub records_done: u64,
    /// See `records_done`.
    pub records_total: u64,
    /// Bytes that the dump has so far.
    pub bytes: u64,
    /// Bytes that large values took in the spill file.
    pub spilled_bytes: u64,
    /// Keys that are not in the dump because damage has taken their values.
    pub lost_keys: u64,
    /// The block up to which the dump shows the data.
    pub lsn: Lsn,
    /// Of a dump that is merged with the one before, of what it is made.
    pub made_of: HourglassFigures,
    /// What stays of the file that it has replaced.
    pub kept: Option<Kept>,
}

impl SaveFigures {
    /// What a dump by hourglass was made of, for the server's log; `None` of all others.
    pub(crate) fn made_of_text(&self) -> Option<String> {
        let HourglassFigures { last_lsn, whole, copied_bytes, changed_records, .. } = self.made_of;
        if let Some(why) = whole {
            return Some(format!("The dump was made of the whole log: {why}"));
        }
        last_lsn.map(|lsn| {
            format!(
                "The dump was merged with that of block {lsn}: {copied_bytes} bytes were copied, {changed_records} \
                 records of the log are new"
            )
        })
    }
}

/// The course of a dump: it is under way, gets its name, or is not wanted any more. Either of the last two is for good,
/// so none gets its name behind a later one.
const UNDER_WAY: u8 = 0;
const PUBLISHING: u8 = 1;
const GIVEN_UP: u8 = 2;

/// See the file's top.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    news: Condvar,
    course: AtomicU8,
    /// What the dump shows is durable.
    is_durable: AtomicBool,
    keys: AtomicU64,
    records_done: AtomicU64,
    records_total: AtomicU64,
    bytes: AtomicU64,
    spilled_bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    end: Option<SaveResult>,
    chunks: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // What is in it is whole, even if a thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the result is not wanted any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.course.load(Ordering::Acquire) == GIVEN_UP
    }

    /// The dump is about to get its name. `false` if it is not wanted any more.
    pub(super) fn begin_publishing(&self) -> bool {
        let (from, to) = (UNDER_WAY, PUBLISHING);
        self.course.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether all that the dump shows is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.is_durable.load(Ordering::Acquire)
    }

    /// Tells how far the dump is.
    pub(super) fn tell(&self, figures: &SaveFigures) {
        let told = [
            (&self.keys, figures.keys),
            (&self.records_done, figures.records_done),
            (&self.records_total, figures.records_total),
            (&self.spilled_bytes, figures.spilled_bytes),
        ];
        told.into_iter().for_each(|(to, value)| to.store(value, Ordering::Relaxed));
    }

    /// The dump has so many bytes more.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes the dump has.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The dump has ended.
    pub(super) fn end(&self, result: SaveResult) {
        self.state().end = Some(result);
    }

    /// Whether more may be given for the client.
    pub(super) fn has_room(&self) -> bool {
        self.state().waiting_bytes < WAITING_BYTES_MAX
    }

    /// Gives bytes for the client.
    pub(super) fn give(&self, chunk: Vec<u8>) {
        let mut state = self.state();
        state.waiting_bytes += chunk.len();
        state.chunks.push_back(chunk);
    }

    /// Waits until the engine has done something, or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let state = self.state();
        if !self.is_given_up() {
            drop(self.news.wait_timeout(state, timeout));
        }
    }
}

/// What the engine has of a saver. Dropping it gives the dump up.
pub struct Ticket {
    desk: Arc<Desk>,
    lsn: Lsn,
}

impl Ticket {
    pub(super) const fn new(desk: Arc<Desk>, lsn: Lsn) -> Self {
        Self { desk, lsn }
    }

    /// Returns how far the dump is.
    #[must_use]
    pub fn figures(&self) -> SaveFigures {
        let [keys, records_done, records_total, bytes, spilled_bytes] = [
            &self.desk.keys,
            &self.desk.records_done,
            &self.desk.records_total,
            &self.desk.bytes,
            &self.desk.spilled_bytes,
        ]
        .map(|figure| figure.load(Ordering::Relaxed));
        let (lsn, unknown) = (self.lsn, SaveFigures::default());
        SaveFigures { keys, records_done, records_total, bytes, spilled_bytes, lsn, ..unknown }
    }

    /// All that the dump shows is durable: it may be completed.
    pub fn note_durable(&self) {
        self.desk.is_durable.store(true, Ordering::Release);
    }

    /// Returns how the dump has ended, once it has and every chunk was taken.
    #[must_use]
    pub fn end(&self) -> Option<SaveResult> {
        let state = self.desk.state();
        if state.chunks.is_empty() { state.end.clone() } else { None }
    }

    /// Takes the next bytes of a stream.
    #[must_use]
    pub fn take_chunk(&self) -> Option<Vec<u8>> {
        let mut state = self.desk.state();
        let chunk = state.chunks.pop_front()?;
        state.waiting_bytes -= chunk.len();
        drop(state);
        self.desk.news.notify_all();
        Some(chunk)
    }

    /// Whether there is something to take: bytes, or how it has ended.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let state = self.desk.state();
        !state.chunks.is_empty() || state.end.is_some()
    }
}

impl Ticket {
    /// Gives the dump up. `false` if it is too late for that: it is getting its name.
    #[must_use]
    pub fn give_up(&self) -> bool {
        let (from, to) = (UNDER_WAY, GIVEN_UP);
        let course = &self.desk.course;
        let is_given_up = course.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        // A saver that is about to wait has looked before, or looks behind this.
        drop(self.desk.state());
        self.desk.news.notify_all();
        is_given_up.is_ok()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _is_given_up = self.give_up();
    }
}
