//! The concurrency controller (4.3.2): which range may be verified when.
//!
//! ```text
//!                 synced(ranges)                              take()
//!   I/O manager ─────────────────► waiting list ──► ready ──────────► data verifiers
//!               ─────────────────►      ▲
//!                 displaced(bytes)      └─ a range becomes ready when, since it was synced,
//!                                          as much newer data has been synced as the device's
//!                                          cache holds
//! ```
//!
//! The paper accounts by files; here it is by ranges of files of one frame, so that a file larger than
//! the cache is verified while it is still coming in. Counted is only what is synced: what sits in the
//! host's memory displaces nothing. A range that is written counts from the end of the sync that
//! covered it, so data written beside it does not count as newer.
//!
//! The state is plain data without clocks, threads or files ([`Schedule`]); [`ConcurrencyController`]
//! puts it behind a lock and lets threads wait.
//!
//! # Invariants (tests/it/schedule.rs)
//! - No range is handed out before the displacement rule allows it.
//! - Ranges that are synced are handed out at last, exactly once, if enough is written after them.
//! - What waits, in bytes, is at most the device's cache, one sync and what the verifiers are behind
//!   (with the schemes that verify by displacement; the others wait for whole files).

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::scheme::Scheme;

/// Checksums that a range should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksums {
    /// One a page.
    Pages(Vec<u32>),
    /// All pages are zeros.
    Hole,
}

/// Pages of a file, as the sender has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The file.
    pub entry: u32,
    /// Its first page.
    pub first_page: u64,
    /// How many.
    pub pages: u64,
    /// Their bytes; the last page of a file may be short.
    pub bytes: u64,
    /// What should be in them.
    pub checksums: Checksums,
}

/// The rules, without threads.
#[derive(Debug)]
pub struct Schedule {
    scheme: Scheme,
    device_cache_bytes: u64,
    /// Bytes synced to the device since the beginning.
    accumulated_bytes: u64,
    /// Ranges in the order in which they were synced, each with what was accumulated by then.
    waiting: VecDeque<(Range, u64)>,
    waiting_bytes: u64,
    /// With schemes that verify whole files: ranges of files that are not complete.
    incomplete: HashMap<u32, Vec<Range>>,
    ready: VecDeque<Range>,
    ready_bytes: u64,
    /// Ranges handed out and not done.
    in_verification: usize,
}

impl Schedule {
    /// One that has seen nothing yet.
    #[must_use]
    pub fn new(scheme: Scheme, device_cache_bytes: u64) -> Self {
        Self {
            scheme,
            device_cache_bytes,
            accumulated_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            incomplete: HashMap::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            in_verification: 0,
        }
    }

    /// `written_bytes` have been synced, and with them these ranges (some of which may have been on
    /// the device before).
    pub fn synced(&mut self, ranges: Vec<Range>, written_bytes: u64) {
        self.accumulated_bytes += written_bytes;
        for range in ranges {
            self.waiting_bytes += range.bytes;
            if self.scheme.by_whole_files() {
                self.incomplete.entry(range.entry).or_default().push(range);
            } else {
                self.waiting.push_back((range, self.accumulated_bytes));
            }
        }
        self.release();
    }

    /// Bytes that belong to no file have been synced.
    pub fn displaced(&mut self, bytes: u64) {
        self.accumulated_bytes += bytes;
        self.release();
    }

    /// All of a file has been synced.
    pub fn complete(&mut self, entry: u32) {
        for range in self.incomplete.remove(&entry).unwrap_or_default() {
            self.make_ready(range);
        }
    }

    /// A file is given up: nothing of it needs to be verified.
    pub fn forget(&mut self, entry: u32) {
        self.complete(entry);
        let mut forgotten = 0;
        self.waiting.retain(|(range, _)| {
            let keep = range.entry != entry;
            forgotten += if keep { 0 } else { range.bytes };
            keep
        });
        self.waiting_bytes -= forgotten;
        self.ready.retain(|range| range.entry != entry);
        self.ready_bytes = self.ready.iter().map(|range| range.bytes).sum();
    }

    fn make_ready(&mut self, range: Range) {
        self.waiting_bytes -= range.bytes;
        self.ready_bytes += range.bytes;
        self.ready.push_back(range);
    }

    fn release(&mut self) {
        while let Some(&(_, synced_at)) = self.waiting.front()
            && self.accumulated_bytes - synced_at >= self.displacement_bytes()
        {
            let (range, _) = self.waiting.pop_front().expect("there is a first one");
            self.make_ready(range);
        }
    }

    fn displacement_bytes(&self) -> u64 {
        if self.scheme.waits_for_displacement() { self.device_cache_bytes } else { 0 }
    }

    /// The next range to verify. [`Schedule::done`] follows.
    pub fn take(&mut self) -> Option<Range> {
        let range = self.ready.pop_front()?;
        self.ready_bytes -= range.bytes;
        self.in_verification += 1;
        Some(range)
    }

    /// A range that was handed out has been looked at.
    pub fn done(&mut self) {
        self.in_verification -= 1;
    }

    /// How much has still to be synced before everything that waits may be verified.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        self.waiting.back().map_or(0, |&(_, synced_at)| {
            let displaced = self.accumulated_bytes - synced_at;
            self.displacement_bytes().saturating_sub(displaced)
        })
    }

    /// Bytes that are synced and not verified.
    #[must_use]
    pub fn unverified_bytes(&self) -> u64 {
        self.waiting_bytes + self.ready_bytes
    }

    /// Bytes that could be verified now.
    #[must_use]
    pub fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Whether nothing waits, is ready or is being verified.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty() && self.in_verification == 0
    }
}

/// The schedule, for threads.
#[derive(Debug)]
pub(crate) struct ConcurrencyController {
    schedule: Mutex<(Schedule, bool)>,
    changed: Condvar,
    /// How far the verifiers may be behind before the I/O manager waits for them.
    ready_max_bytes: u64,
}

impl ConcurrencyController {
    pub(crate) fn new(schedule: Schedule, ready_max_bytes: u64) -> Self {
        Self { schedule: Mutex::new((schedule, false)), changed: Condvar::new(), ready_max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, (Schedule, bool)> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the schedule, or asks it something, and lets everybody look again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Schedule) -> T) -> T {
        let result = change(&mut self.lock().0);
        self.changed.notify_all();
        result
    }

    /// The next range to verify, as soon as there is one; nothing at the end.
    pub(crate) fn next(&self) -> Option<Range> {
        let mut state = self.lock();
        loop {
            if state.1 {
                return None;
            }
            if let Some(range) = state.0.take() {
                drop(state);
                // The I/O manager may be waiting for the list to become shorter.
                self.changed.notify_all();
                return Some(range);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while the verifiers are too far behind.
    pub(crate) fn wait_for_verifiers(&self) {
        let mut state = self.lock();
        while state.0.ready_bytes() > self.ready_max_bytes && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The end: whoever waits stops waiting.
    pub(crate) fn close(&self) {
        self.lock().1 = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(entry: u32, bytes: u64) -> Range {
        Range { entry, first_page: 0, pages: 1, bytes, checksums: Checksums::Hole }
    }

    /// The example of the paper: a cache of 4 GiB, eight files of 1 GiB.
    #[test]
    fn the_first_file_is_verified_after_the_fifth_is_written() {
        let mut schedule = Schedule::new(Scheme::Spc, 4);
        for file in 1..=4 {
            schedule.synced(vec![range(file, 1)], 1);
            assert_eq!(schedule.take(), None, "after file {file}");
        }
        for file in 5..=8 {
            schedule.synced(vec![range(file, 1)], 1);
            assert_eq!(schedule.take().map(|range| range.entry), Some(file - 4));
            schedule.done();
        }
        assert_eq!(schedule.needed_bytes(), 4);
        schedule.displaced(4);
        assert_eq!((0..4).filter_map(|_| schedule.take()).count(), 4);
    }

    #[test]
    fn without_scheduling_a_file_is_verified_when_all_of_it_is_written() {
        for scheme in [Scheme::Sequential, Scheme::Pipelined, Scheme::Riva] {
            let mut schedule = Schedule::new(scheme, 1 << 40);
            schedule.synced(vec![range(1, 1), range(2, 1)], 2);
            assert_eq!(schedule.take(), None);
            schedule.complete(2);
            assert_eq!(schedule.take().map(|range| range.entry), Some(2));
            assert_eq!(schedule.take(), None);
            schedule.done();
            assert_eq!(schedule.needed_bytes(), 0, "no filler is wanted");
        }
    }

    #[test]
    fn what_was_on_the_device_before_displaces_nothing() {
        let mut schedule = Schedule::new(Scheme::Sp, 10);
        schedule.synced(vec![range(1, 100)], 0);
        assert_eq!((schedule.take(), schedule.needed_bytes()), (None, 10));
    }

    #[test]
    fn a_file_given_up_is_not_verified() {
        let mut schedule = Schedule::new(Scheme::Sp, 1);
        schedule.synced(vec![range(1, 1), range(2, 1)], 2);
        schedule.forget(1);
        schedule.displaced(1);
        assert_eq!(schedule.take().map(|range| range.entry), Some(2));
        assert_eq!(schedule.take(), None);
        assert_eq!(schedule.unverified_bytes(), 0);
        schedule.done();
        assert!(schedule.is_idle());
    }
}
