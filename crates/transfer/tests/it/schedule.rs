//! The concurrency controller's promises, under random runs.

use proptest::prelude::*;
use transfer::Scheme;
use transfer::concurrency_controller::{Checksums, Range, Schedule};

/// Something that happens to a schedule.
#[derive(Debug, Clone)]
enum Event {
    /// A sync of some ranges, each of which may have been there before.
    Synced(Vec<(u64, bool)>),
    /// A verifier takes a range.
    Take,
    /// And is done with it; bad ones come again.
    Done { bad: bool },
    /// A file is given up.
    Forget(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let ranges = prop::collection::vec((1_u64..200, prop::bool::weighted(0.1)), 0..5);
    prop_oneof![
        4 => ranges.prop_map(Event::Synced),
        4 => Just(Event::Take),
        3 => prop::bool::weighted(0.2).prop_map(|bad| Event::Done { bad }),
        1 => (0_u32..40).prop_map(Event::Forget),
    ]
}

/// A schedule beside what is known of it.
struct Model {
    schedule: Schedule,
    cache_bytes: u64,
    accumulated: u64,
    /// By file: what was accumulated when it was synced; nothing for what is not wanted any more.
    synced_at: Vec<Option<u64>>,
    in_verification: Vec<Range>,
    largest_sync: u64,
}

impl Model {
    fn sync(&mut self, ranges: &[(u64, bool)]) {
        let written: u64 = ranges.iter().filter(|(_, there)| !there).map(|(bytes, _)| bytes).sum();
        self.accumulated += written;
        let ranges = ranges.iter().map(|&(bytes, _)| {
            let entry = u32::try_from(self.synced_at.len()).unwrap();
            self.synced_at.push(Some(self.accumulated));
            Range { entry, first_page: 0, pages: 1, bytes, checksums: Checksums::Hole }
        });
        self.schedule.synced(ranges.collect(), written);
        self.largest_sync = self.largest_sync.max(written);
    }

    /// Takes a range if there is one, which must be allowed.
    fn take(&mut self) -> bool {
        let Some(range) = self.schedule.take() else { return false };
        let synced_at = self.synced_at[range.entry as usize].take();
        let synced_at = synced_at.expect("handed out once, and not after it was given up");
        assert!(
            self.accumulated - synced_at >= self.cache_bytes,
            "verified after {} newer bytes, with a cache of {}",
            self.accumulated - synced_at,
            self.cache_bytes
        );
        self.in_verification.push(range);
        true
    }

    fn done(&mut self, bad: bool) {
        if let Some(range) = self.in_verification.pop() {
            self.schedule.done();
            if bad {
                self.sync(&[(range.bytes, false)]);
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_verified_too_early_and_everything_at_last(
        events in prop::collection::vec(event(), 0..300),
        cache_bytes in 0_u64..1000,
    ) {
        let mut model = Model {
            schedule: Schedule::new(Scheme::Spc, cache_bytes),
            cache_bytes,
            accumulated: 0,
            synced_at: Vec::new(),
            in_verification: Vec::new(),
            largest_sync: 0,
        };
        for event in &events {
            match event {
                Event::Synced(ranges) => model.sync(ranges),
                Event::Take => { model.take(); }
                Event::Done { bad } => model.done(*bad),
                Event::Forget(entry) => {
                    let out = model.in_verification.iter().any(|range| range.entry == *entry);
                    if !out && (*entry as usize) < model.synced_at.len() {
                        model.schedule.forget(*entry);
                        model.synced_at[*entry as usize] = None;
                    }
                }
            }
            // What waits for displacement is bounded by what was written since: the rest is ready.
            let waiting = model.synced_at.iter().flatten()
                .filter(|&&synced_at| model.accumulated - synced_at < cache_bytes);
            prop_assert!(waiting.count() == 0 || model.schedule.needed_bytes() > 0);
        }
        // The end: filler, until nothing waits.
        let mut rounds = 0;
        while !model.schedule.is_idle() {
            rounds += 1;
            prop_assert!(rounds < 10, "it does not terminate");
            let needed = model.schedule.needed_bytes();
            prop_assert!(needed <= cache_bytes, "no more filler than the cache holds");
            model.accumulated += needed;
            model.schedule.displaced(needed);
            while model.take() {
                model.done(false);
            }
            while !model.in_verification.is_empty() {
                model.done(false);
            }
        }
        prop_assert!(model.synced_at.iter().all(Option::is_none), "everything was handed out");
        prop_assert_eq!(model.schedule.unverified_bytes(), 0);
    }

    #[test]
    fn what_is_held_is_at_most_the_cache_and_one_sync_when_verifiers_keep_up(
        syncs in prop::collection::vec(prop::collection::vec(1_u64..200, 1..5), 0..100),
        cache_bytes in 0_u64..1000,
    ) {
        let mut model = Model {
            schedule: Schedule::new(Scheme::Sp, cache_bytes),
            cache_bytes,
            accumulated: 0,
            synced_at: Vec::new(),
            in_verification: Vec::new(),
            largest_sync: 0,
        };
        for sync in &syncs {
            let ranges: Vec<(u64, bool)> = sync.iter().map(|&bytes| (bytes, false)).collect();
            model.sync(&ranges);
            while model.take() {
                model.done(false);
            }
            prop_assert!(model.schedule.unverified_bytes() <= cache_bytes + model.largest_sync);
        }
    }
}
