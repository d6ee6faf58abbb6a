//! The concurrency controller (4.3.2): which range may be verified, and when.
//!
//! ```text
//!                 writing(bytes)
//!   I/O manager ─────────────────┐
//!                 synced(ranges) ▼                            take()
//!   syncer      ─────────────────► waiting list ──► ready ──────────► data verifiers
//!   I/O manager ─────────────────►      ▲
//!                 displaced(bytes)      └─ a range becomes ready when, since it was synced,
//!                                          as much newer data has been written and synced as the
//!                                          device's cache holds
//! ```
//!
//! The paper accounts by files; here, the unit is a range of one file in one frame, so that a file
//! larger than the cache is verified while it is still arriving. Only synced bytes count: what is
//! still in the host's memory displaces nothing. While one sync runs, the next files are already
//! being written. So bytes written before the end of the sync that covered a range do not count as
//! newer than that range, whichever of the two reached the device first:
//!
//! ```text
//!   written  ├────── batch 1 ──────┤├─────── batch 2 ───────┤├─────── batch 3 ───────┤
//!   synced                        ├─ sync of 1 ─┤           ├─ sync of 2 ─┤
//!                                        mark of 1 ▲          mark of 2 ▲
//!   batch 1 may be verified when what is synced reaches its mark and the size of the cache
//! ```
//!
//! The state is plain data without clocks, threads or files ([`Schedule`]);
//! [`ConcurrencyController`] adds a lock and lets threads wait.
//!
//! # Invariants (tests/it/schedule.rs)
//! - No range is handed out before the displacement rule allows it.
//! - Every synced range is eventually handed out, exactly once, if enough is written after it.
//! - The bytes that wait are at most the device's cache, one sync and the backlog of the verifiers
//!   (with the schemes that verify by displacement; the others wait for whole files).

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::frame::BODY_MAX;
use crate::scheme::Scheme;

/// The most ranges that a verifier gets at once, so that the others get some as well.
const RANGES_AT_ONCE: usize = 32;

/// The expected checksums of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksums {
    /// One per page.
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
    /// The number of pages.
    pub pages: u64,
    /// Their bytes; the last page of a file may be short.
    pub bytes: u64,
    /// The expected contents.
    pub checksums: Checksums,
}

/// The rules, without threads.
#[derive(Debug)]
pub struct Schedule {
    scheme: Scheme,
    device_cache_bytes: u64,
    /// Bytes written since the beginning, on their way to the device or there: the accumulated
    /// size.
    written_bytes: u64,
    /// The part of them that is synced.
    synced_bytes: u64,
    /// Ranges in the order in which they were synced, each with the bytes written by then.
    waiting: VecDeque<(Range, u64)>,
    waiting_bytes: u64,
    /// For schemes that verify whole files: ranges of incomplete files.
    incomplete: HashMap<u32, Vec<Range>>,
    ready: VecDeque<Range>,
    ready_bytes: u64,
    /// Ranges handed out and not done.
    in_verification: usize,
}

impl Schedule {
    /// Creates an empty schedule.
    #[must_use]
    pub fn new(scheme: Scheme, device_cache_bytes: u64) -> Self {
        Self {
            scheme,
            device_cache_bytes,
            written_bytes: 0,
            synced_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            incomplete: HashMap::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            in_verification: 0,
        }
    }

    /// Notes that `bytes` are about to be written; the device may have them from now on.
    pub fn writing(&mut self, bytes: u64) {
        self.written_bytes += bytes;
    }

    /// Notes that the next `bytes` of those written have been synced, and with them these ranges.
    /// Some of the ranges may have been on the device before.
    pub fn synced(&mut self, ranges: Vec<Range>, bytes: u64) {
        self.synced_bytes += bytes;
        for range in ranges {
            self.waiting_bytes += range.bytes;
            if self.scheme.by_whole_files() {
                self.incomplete.entry(range.entry).or_default().push(range);
            } else {
                self.waiting.push_back((range, self.written_bytes));
            }
        }
        self.release();
    }

    /// Notes that bytes of no file have been written and synced, while nothing else was.
    pub fn displaced(&mut self, bytes: u64) {
        self.written_bytes += bytes;
        self.synced_bytes += bytes;
        self.release();
    }

    /// Notes that all of a file has been synced.
    pub fn complete(&mut self, entry: u32) {
        for range in self.incomplete.remove(&entry).unwrap_or_default() {
            self.make_ready(range);
        }
    }

    /// Gives a file up: nothing of it needs verification.
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
        while let Some(&(_, mark)) = self.waiting.front()
            && self.is_displaced(mark)
        {
            let (range, _) = self.waiting.pop_front().expect("there is a first one");
            self.make_ready(range);
        }
    }

    /// Whether the device's cache has evicted what was synced when `mark` bytes were written.
    fn is_displaced(&self, mark: u64) -> bool {
        !self.scheme.waits_for_displacement()
            || self.synced_bytes >= mark.saturating_add(self.device_cache_bytes)
    }

    /// Takes the next range to verify. [`Schedule::done`] must follow.
    pub fn take(&mut self) -> Option<Range> {
        let range = self.ready.pop_front()?;
        self.ready_bytes -= range.bytes;
        self.in_verification += 1;
        Some(range)
    }

    /// Takes the next ranges to verify, at least one if there is one, as many as a verifier reads
    /// at once. Otherwise thousands of small files would wake threads thousands of times.
    fn take_some(&mut self) -> Vec<Range> {
        let mut some: Vec<Range> = self.take().into_iter().collect();
        let mut bytes = some.first().map_or(0, |range| range.bytes);
        while some.len() < RANGES_AT_ONCE
            && let Some(next) = self.ready.front()
            && bytes + next.bytes <= BODY_MAX as u64
        {
            bytes += next.bytes;
            some.extend(self.take());
        }
        some
    }

    /// Notes that a range has been verified.
    pub fn done(&mut self) {
        self.in_verification -= 1;
    }

    /// The bytes that must still be synced before all waiting ranges may be verified.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        self.waiting.back().map_or(0, |&(_, mark)| {
            mark.saturating_add(self.device_cache_bytes).saturating_sub(self.synced_bytes)
        })
    }

    /// Bytes synced but not verified.
    #[must_use]
    pub fn unverified_bytes(&self) -> u64 {
        self.waiting_bytes + self.ready_bytes
    }

    /// Bytes that may be verified now.
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

/// The schedule, shared by threads.
#[derive(Debug)]
pub(crate) struct ConcurrencyController {
    schedule: Mutex<(Schedule, bool)>,
    changed: Condvar,
    /// The backlog of the verifiers above which the I/O manager waits for them.
    ready_max_bytes: u64,
}

impl ConcurrencyController {
    pub(crate) fn new(schedule: Schedule, ready_max_bytes: u64) -> Self {
        Self { schedule: Mutex::new((schedule, false)), changed: Condvar::new(), ready_max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, (Schedule, bool)> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes or queries the schedule, and wakes all waiting threads.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Schedule) -> T) -> T {
        let result = change(&mut self.lock().0);
        self.changed.notify_all();
        result
    }

    /// Counts bytes about to be written. Wakes no thread, because none waits for this.
    pub(crate) fn writing(&self, bytes: u64) {
        self.lock().0.writing(bytes);
    }

    /// Waits for the next ranges to verify, after `done` of the previous ones have been verified.
    /// Returns none at the end.
    pub(crate) fn next(&self, done: usize) -> Vec<Range> {
        let mut state = self.lock();
        (0..done).for_each(|_| state.0.done());
        loop {
            if state.1 {
                return Vec::new();
            }
            let was_full = state.0.ready_bytes() > self.ready_max_bytes;
            let some = state.0.take_some();
            if !some.is_empty() {
                let has_room = state.0.ready_bytes() <= self.ready_max_bytes;
                drop(state);
                if was_full && has_room {
                    // The I/O manager may be waiting for the list to become shorter.
                    self.changed.notify_all();
                }
                return some;
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

    /// Ends all waiting.
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
            schedule.writing(1);
            schedule.synced(vec![range(file, 1)], 1);
            assert_eq!(schedule.take(), None, "after file {file}");
        }
        for file in 5..=8 {
            schedule.writing(1);
            schedule.synced(vec![range(file, 1)], 1);
            assert_eq!(schedule.take().map(|range| range.entry), Some(file - 4));
            schedule.done();
        }
        assert_eq!(schedule.needed_bytes(), 4);
        schedule.displaced(4);
        assert_eq!((0..4).filter_map(|_| schedule.take()).count(), 4);
    }

    #[test]
    fn what_was_written_while_a_range_was_synced_is_not_newer_than_it() {
        let mut schedule = Schedule::new(Scheme::Spc, 4);
        schedule.writing(1);
        schedule.writing(4);
        schedule.synced(vec![range(1, 1)], 1);
        schedule.synced(vec![range(2, 4)], 4);
        assert_eq!((schedule.take(), schedule.needed_bytes()), (None, 4));
        schedule.writing(4);
        schedule.synced(vec![], 4);
        assert_eq!((0..3).filter_map(|_| schedule.take()).count(), 2);
    }

    #[test]
    fn a_verifier_gets_small_ranges_together_and_large_ones_alone() {
        let mut schedule = Schedule::new(Scheme::Pipelined, 0);
        schedule.synced((0..40).map(|_| range(1, 4096)).collect(), 0);
        schedule.synced(vec![range(1, BODY_MAX as u64), range(1, BODY_MAX as u64)], 0);
        schedule.complete(1);
        let taken: Vec<usize> = (0..5).map(|_| schedule.take_some().len()).collect();
        assert_eq!(taken, [32, 8, 1, 1, 0]);
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
        schedule.writing(2);
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
