//! The guarantees of the concurrency controller, under random runs.
//!
//! The model keeps the history: when each write began and whether it is synced. A range may be
//! handed out when the writes that began after the end of its sync, and are synced, have as many
//! bytes as the device's cache holds; how the schedule computes that does not matter.

use std::collections::VecDeque;

use proptest::prelude::*;
use transfer::Scheme;
use transfer::concurrency_controller::{Checksums, Range, Schedule};

/// An event of a schedule.
#[derive(Debug, Clone)]
enum Event {
    /// Some ranges are written, each of which may have been there before.
    Written(Vec<(u64, bool)>),
    /// The oldest write is synced, whatever was written since.
    Synced,
    /// A write fails: it is unknown what of it is on the device.
    Failed(u64),
    /// A verifier takes a range.
    Take,
    /// The verifier is done with it; bad ranges come again.
    Done { bad: bool },
    /// A file is given up.
    Forget(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let ranges = prop::collection::vec((1_u64..200, prop::bool::weighted(0.1)), 0..5);
    prop_oneof![
        8 => ranges.prop_map(Event::Written),
        8 => Just(Event::Synced),
        1 => (1_u64..200).prop_map(Event::Failed),
        8 => Just(Event::Take),
        6 => prop::bool::weighted(0.2).prop_map(|bad| Event::Done { bad }),
        2 => (0_u32..40).prop_map(Event::Forget),
    ]
}

/// A unit of writing.
struct Write {
    began_at: u64,
    bytes: u64,
    ranges: Vec<Range>,
}

/// A schedule, and what is known about it.
struct Model {
    schedule: Schedule,
    cache_bytes: u64,
    /// The time, in events.
    now: u64,
    unsynced: VecDeque<Write>,
    /// Writes on the device: when they began, and their bytes.
    on_device: Vec<(u64, u64)>,
    /// By file: when its sync ended.
    synced_at: Vec<Option<u64>>,
    /// By file: whether it must still be handed out.
    wanted: Vec<bool>,
    in_verification: Vec<Range>,
    largest_sync: u64,
    failed_bytes: u64,
}

impl Model {
    fn new(scheme: Scheme, cache_bytes: u64) -> Self {
        Self {
            schedule: Schedule::new(scheme, cache_bytes),
            cache_bytes,
            now: 0,
            unsynced: VecDeque::new(),
            on_device: Vec::new(),
            synced_at: Vec::new(),
            wanted: Vec::new(),
            in_verification: Vec::new(),
            largest_sync: 0,
            failed_bytes: 0,
        }
    }

    fn write(&mut self, ranges: &[(u64, bool)]) {
        let bytes: u64 = ranges.iter().filter(|(_, there)| !there).map(|(bytes, _)| bytes).sum();
        self.schedule.writing(bytes);
        let ranges = ranges.iter().map(|&(bytes, _)| {
            let entry = u32::try_from(self.synced_at.len()).unwrap();
            self.synced_at.push(None);
            self.wanted.push(true);
            Range { entry, first_page: 0, pages: 1, bytes, checksums: Checksums::Hole }
        });
        self.unsynced.push_back(Write { began_at: self.now, bytes, ranges: ranges.collect() });
    }

    /// Syncs the oldest write, if there is one.
    fn sync(&mut self) -> bool {
        let Some(mut write) = self.unsynced.pop_front() else { return false };
        self.on_device.push((write.began_at, write.bytes));
        write.ranges.retain(|range| self.wanted[range.entry as usize]);
        for range in &write.ranges {
            self.synced_at[range.entry as usize] = Some(self.now);
        }
        self.schedule.synced(write.ranges, write.bytes);
        self.largest_sync = self.largest_sync.max(write.bytes);
        true
    }

    /// Bytes on the device that were written after a file's sync ended.
    fn newer_bytes(&self, entry: u32) -> u64 {
        let Some(synced_at) = self.synced_at[entry as usize] else { return 0 };
        let newer = self.on_device.iter().filter(|(began_at, _)| *began_at > synced_at);
        newer.map(|(_, bytes)| bytes).sum()
    }

    /// Takes a range if there is one, which must be permitted.
    fn take(&mut self) -> bool {
        let Some(range) = self.schedule.take() else { return false };
        let wanted = std::mem::take(&mut self.wanted[range.entry as usize]);
        assert!(wanted, "handed out once, and not after it was given up");
        assert!(self.synced_at[range.entry as usize].is_some(), "verified before it is synced");
        let newer = self.newer_bytes(range.entry);
        let cache = self.cache_bytes;
        assert!(newer >= cache, "verified after {newer} newer bytes, with a cache of {cache}");
        self.in_verification.push(range);
        true
    }

    fn done(&mut self, bad: bool) {
        if let Some(range) = self.in_verification.pop() {
            self.schedule.done();
            if bad {
                self.write(&[(range.bytes, false)]);
            }
        }
    }

    fn forget(&mut self, entry: u32) {
        let out = self.in_verification.iter().any(|range| range.entry == entry);
        if !out && (entry as usize) < self.wanted.len() {
            self.schedule.forget(entry);
            self.wanted[entry as usize] = false;
        }
    }

    fn happen(&mut self, event: &Event) {
        self.now += 1;
        match event {
            Event::Written(ranges) => self.write(ranges),
            Event::Synced => {
                self.sync();
            }
            Event::Failed(bytes) => {
                self.schedule.writing(*bytes);
                self.failed_bytes += bytes;
            }
            Event::Take => {
                self.take();
            }
            Event::Done { bad } => self.done(*bad),
            Event::Forget(entry) => self.forget(*entry),
        }
    }

    /// What the I/O manager does when nothing arrives any more: sync everything, then write filler.
    fn finish(&mut self) {
        let mut rounds = 0;
        loop {
            while self.sync() {}
            while self.take() {
                self.done(false);
            }
            while !self.in_verification.is_empty() {
                self.done(false);
            }
            if self.schedule.is_idle() {
                return;
            }
            rounds += 1;
            assert!(rounds < 3, "it does not terminate");
            let needed = self.schedule.needed_bytes();
            let most = self.cache_bytes + self.failed_bytes;
            assert!(needed <= most, "{needed} bytes of filler, and {most} are enough");
            self.now += 1;
            self.on_device.push((self.now, needed));
            self.schedule.displaced(needed);
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_verified_too_early_and_everything_at_last(
        events in prop::collection::vec(event(), 0..300),
        cache_bytes in 0_u64..1000,
    ) {
        let mut model = Model::new(Scheme::Spc, cache_bytes);
        for event in &events {
            model.happen(event);
        }
        model.finish();
        prop_assert!(!model.wanted.contains(&true), "everything was handed out");
        prop_assert_eq!(model.schedule.unverified_bytes(), 0);
    }

    #[test]
    fn what_is_held_is_at_most_the_cache_and_what_is_under_way_when_verifiers_keep_up(
        writes in prop::collection::vec(prop::collection::vec(1_u64..200, 1..5), 0..100),
        cache_bytes in 0_u64..1000,
        ahead in 0_usize..3,
    ) {
        let mut model = Model::new(Scheme::Sp, cache_bytes);
        for write in &writes {
            model.now += 1;
            let ranges: Vec<(u64, bool)> = write.iter().map(|&bytes| (bytes, false)).collect();
            model.write(&ranges);
            // The writer is this many batches ahead of the syncer.
            while model.unsynced.len() > ahead {
                model.now += 1;
                model.sync();
            }
            while model.take() {
                model.done(false);
            }
            let under_way: u64 = (0..=ahead as u64).map(|_| model.largest_sync.max(800)).sum();
            prop_assert!(model.schedule.unverified_bytes() <= cache_bytes + under_way);
        }
    }
}
