//! Random runs: many seeds, a few lives each.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sim::tally::Tally;
use sim::{Plan, run};

/// The seeds to run: `count` of them unless the environment says otherwise.
fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match (number("INDELIBLE_SEED"), number("INDELIBLE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, times) => 0..count * times.unwrap_or(1),
    }
}

/// From this seed on values leave memory, in every second eight.
const COLD_SEEDS: u64 = 1 << 32;

/// From here on what is hot is kept.
const HOT_SEEDS: u64 = 5_000_000_000;

/// From here on keys are read together.
const TOGETHER_SEEDS: u64 = 6_000_000_000;

/// From here on dumps are written.
const SAVE_SEEDS: u64 = 7_000_000_000;

/// From here on history is kept, and what was is restored.
const HISTORY_SEEDS: u64 = 9_000_000_000;

/// From here on the log is archived, and what was is restored from the archive alone.
const ARCHIVE_SEEDS: u64 = 12_000_000_000;

/// From here on named backups are made.
const BACKUP_SEEDS: u64 = 10_000_000_000;

/// From here on most dumps are merged with the ones before.
const HOURGLASS_SEEDS: u64 = 13_000_000_000;

/// From here on strings count elements, and sorted sets have places.
const FAMILY_SEEDS: u64 = 14_000_000_000;

/// From here on there are libraries of functions.
const LIBRARY_SEEDS: u64 = 16_000_000_000;

/// From here on scripts execute several commands.
const SCRIPT_SEEDS: u64 = 18_000_000_000;

/// From here on a world is small, and its power fails in the middle of a script.
const SHORT_SEEDS: u64 = 18_500_000_000;

/// From here on archives are thinned out.
const TIDY_SEEDS: u64 = 20_000_000_000;

/// From here on logs are set back in place.
const SET_BACK_SEEDS: u64 = 21_000_000_000;

/// From here on zeros are written ahead of the log.
const ZEROS_SEEDS: u64 = 22_000_000_000;

/// From here on there are streams, also such as are added to while they are in the log only.
const STREAM_SEEDS: u64 = 23_000_000_000;

/// From here on fields of hashes expire.
const FIELD_SEEDS: u64 = 24_000_000_000;

/// From here on the archive's machine dies or lies, or another server writes there, too.
const FAR_SEEDS: u64 = 25_000_000_000;

/// From here on archives may be thinned out to a window of time alone.
const WINDOW_SEEDS: u64 = 26_000_000_000;

fn plan(seed: u64) -> Plan {
    Plan { seed, lives: 8, is_traced: false }
}

#[test]
fn what_survives_is_a_prefix_with_everything_that_was_promised() {
    let mut tally = Tally::default();
    let seeds = seeds(400);
    let is_whole = seeds.end - seeds.start >= 400;
    let later = [
        (COLD_SEEDS, 112),
        (HOT_SEEDS, 64),
        (TOGETHER_SEEDS, 112),
        (SAVE_SEEDS, 64),
        (HISTORY_SEEDS, 96),
        (BACKUP_SEEDS, 96),
        (ARCHIVE_SEEDS, 96),
        (HOURGLASS_SEEDS, 96),
        (FAMILY_SEEDS, 64),
        (LIBRARY_SEEDS, 64),
        (SCRIPT_SEEDS, 64),
        (SHORT_SEEDS, 200),
        (TIDY_SEEDS, 96),
        (SET_BACK_SEEDS, 64),
        (ZEROS_SEEDS, 128),
        (STREAM_SEEDS, 64),
        (FIELD_SEEDS, 96),
        (FAR_SEEDS, 128),
        (WINDOW_SEEDS, 96),
    ];
    let later = later.into_iter().filter(|_| is_whole);
    let later = later.flat_map(|(first, count)| first..first + count);
    let seeds: Vec<u64> = seeds.chain(later).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(None));
    let run_some = || {
        let mut tally = Tally::default();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            match run(plan(*seed)) {
                Ok(outcome) => tally.add(&outcome.tally),
                Err(violation) => {
                    next.store(seeds.len(), Ordering::Relaxed);
                    found.lock().unwrap().get_or_insert_with(|| violation.to_string());
                }
            }
        }
        tally
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        runs.into_iter().for_each(|run| tally.add(&run.join().unwrap()));
    });
    if let Some(violation) = found.into_inner().unwrap() {
        panic!("{violation}");
    }
    if is_whole {
        let unmet: Vec<_> = tally
            .figures()
            .into_iter()
            .filter(|(name, count)| *count == 0 && *name != "violations")
            .collect();
        assert!(unmet.is_empty(), "never met: {unmet:?} in {tally}");
        assert!(tally.crashes > 3000 && tally.promises > 10_000, "{tally}");
    }
}

/// Damage takes the name of a key, whose record the archive has: in a restored log the key is there.
#[test]
fn a_key_that_damage_has_made_nameless_may_come_back_from_the_archive() {
    if let Err(violation) = run(plan(12_000_000_102)) {
        panic!("{violation}");
    }
}

/// An index is begun anew before anyone has seen what it knew of the start.
#[test]
fn what_was_there_at_the_start_stays_in_memory_until_an_index_has_it() {
    if let Err(violation) = run(plan(26_000_300_079)) {
        panic!("{violation}");
    }
}

/// The log of a copy cannot be read any more, and the next copy is complete before the stream has got to its block.
#[test]
fn a_copy_in_front_of_the_stream_can_be_restored() {
    if let Err(violation) = run(plan(12_000_000_680)) {
        panic!("{violation}");
    }
}

#[test]
fn the_same_seed_is_the_same_run_byte_for_byte() {
    let fingerprint = |seed| run(plan(seed)).unwrap().fingerprint;
    // Then two runs with an index in which objects are freed in a start, and some in which values leave
    // memory.
    let seeds = || {
        (0..24).chain([54, 55]).chain(COLD_SEEDS + 6..COLD_SEEDS + 16).chain([
            HOT_SEEDS + 46,
            TOGETHER_SEEDS + 14,
            SAVE_SEEDS + 3,
            HISTORY_SEEDS + 4,
            BACKUP_SEEDS + 4,
            ARCHIVE_SEEDS + 5,
            HOURGLASS_SEEDS + 4,
            FAMILY_SEEDS + 1,
            LIBRARY_SEEDS + 5,
            SCRIPT_SEEDS + 6,
            SHORT_SEEDS,
            SHORT_SEEDS + 1,
            TIDY_SEEDS + 7,
            SET_BACK_SEEDS + 8,
            FIELD_SEEDS + 9,
            FAR_SEEDS,
            FAR_SEEDS + 1,
            FAR_SEEDS + 2,
            WINDOW_SEEDS + 3,
        ])
    };
    let first: Vec<u64> = seeds().map(fingerprint).collect();
    let second: Vec<u64> = seeds().map(fingerprint).collect();
    assert_eq!(first, second);
    let mut distinct = first.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), first.len(), "another seed is another run");
}
