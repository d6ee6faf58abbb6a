//! What an archive that is thinned out must keep, and time for it to be.
//!
//! ```text
//!   a night: more than an hour in which nothing is written ─► the last block before it is the last one of its hour
//!            told to be restorable ─────► kept by every rule that is ever set, until the end
//!   a name: put while its block can be restored ─► that is kept until the name is removed
//!   rules that keep a window alone ─────► those of the last two hours are kept
//! ```
//!
//! It is looked for after each removal: what is kept can be restored at every moment, so no tidier need end its work.

use std::collections::{BTreeMap, BTreeSet};

use archive::{
    ArchiveOptions, Compression, KEY_BYTES, Keyed, Name, Picture, Tidier, TidyOptions, TidyStep,
};
use base::Lsn;
use env::Clock;
use env_sim::{SimClock, SimEntropy};

use crate::archives::keys_of;
use crate::far::Nature;
use crate::life::Life;
use crate::run::Run;

/// Runs from this seed on thin out their archives.
const TIDY_SEEDS: u64 = 20_000_000_000;

/// Runs from this seed on keep nothing that is older than a window.
const WINDOW_SEEDS: u64 = 26_000_000_000;

/// The rules, by all of which the last state of each hour is kept.
const KEEPS: [&str; 5] =
    ["30m:all 30d:hour", "2h:all 30d:hour", "30m:all 30d:minute", "10m:all 1d:minute 30d:hour", ""];

/// Rules of those that keep a window alone.
const WINDOWS: [&str; 4] = ["3h:all", "200m:all", "4h:all", "3h:all 4h:hour"];

/// So old is what a window has at least, with an hour for what a block is older than the night behind it.
const WINDOW_US: u64 = 2 * 3600 * 1_000_000;

/// How long a night is: the clock is believed after an hour, and an hour after it was thinned out it is done again.
const NIGHT_US: u64 = 70 * 60 * 1_000_000;

/// How long it is waited between two of the steps that a night has, sometimes: a tidier waits ten minutes.
const NAP_US: u64 = 700 * 1_000_000;

/// So many steps archivers have in a night, at most.
const NIGHT_STEPS: u64 = 250;

/// So many nights are less than 30 days.
const NIGHTS_MAX: usize = 400;

/// Whether archives are thinned out in the run with this seed: not where another server writes to them, whose hours end
/// with other blocks.
pub(crate) fn thins_out(seed: u64) -> bool {
    seed >= TIDY_SEEDS && Nature::of(seed) != Nature::Shared
}

/// What is kept at first, by seed.
pub(crate) fn keep_of(seed: u64) -> &'static str {
    let rules = rules_of(seed);
    let at = usize::try_from(seed % rules.len() as u64).expect("few");
    if thins_out(seed) { rules[at] } else { "" }
}

/// What may be kept.
pub(crate) fn rules_of(seed: u64) -> &'static [&'static str] {
    if seed < WINDOW_SEEDS { &KEEPS } else { &WINDOWS }
}

/// See the file's top.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    clock: SimClock,
    /// For how long, in microseconds.
    window_us: u64,
    /// The last blocks of their hours, and when those ended.
    hours: BTreeMap<Lsn, u64>,
    /// Those of them that were told to be restorable.
    told: BTreeSet<Lsn>,
    /// What was told last.
    last_told: Option<(Lsn, Lsn)>,
    /// What names are of that were put while that could be restored.
    named: BTreeMap<Name, Lsn>,
    violation: Option<String>,
}

impl Kept {
    /// In the run with this seed.
    pub(crate) fn new(seed: u64, clock: SimClock) -> Self {
        Self {
            clock,
            window_us: if seed < WINDOW_SEEDS { u64::MAX } else { WINDOW_US },
            hours: BTreeMap::new(),
            told: BTreeSet::new(),
            last_told: None,
            named: BTreeMap::new(),
            violation: None,
        }
    }

    /// The hour of this block ends with it.
    pub(crate) fn end_hour(&mut self, lsn: Lsn) {
        if lsn > Lsn::ZERO && self.hours.len() < NIGHTS_MAX {
            self.hours.entry(lsn).or_insert(self.clock.monotonic_us());
            if self.last_told.is_some_and(|(from, last)| from <= lsn && lsn <= last) {
                self.told.insert(lsn);
            }
        }
    }

    /// Each of these blocks is told to be restorable.
    pub(crate) fn note_told(&mut self, (from, last): (Lsn, Lsn)) {
        self.last_told = Some((from, last));
        // A copy is of the time at which it was begun, not of its block's.
        if from < last {
            self.told.extend(self.hours.range(from.next()..=last).map(|(lsn, _)| lsn));
        }
    }

    /// Blocks behind this one have never been.
    pub(crate) fn settle(&mut self, last: Lsn) {
        self.hours.retain(|lsn, _| *lsn <= last);
        self.told.retain(|lsn| *lsn <= last);
    }

    /// A name was put next to what there is then.
    pub(crate) fn note_put(&mut self, name: Name, picture: impl FnOnce() -> Picture) {
        if let Name::Named { lsn, .. } = name
            && picture().chain(lsn).is_some()
        {
            self.named.insert(name, lsn);
        }
    }

    /// Something was removed, which leaves this.
    pub(crate) fn note_removed(&mut self, name: &Name, picture: impl FnOnce() -> Picture) {
        self.named.remove(name);
        if !self.is_empty() {
            let missing = self.missing(&picture());
            let missing = missing.map(|what| format!("{name} is removed, and {what}"));
            self.violation = self.violation.take().or(missing);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.named.is_empty()
    }

    /// What is kept.
    pub(crate) fn blocks(&self) -> Vec<Lsn> {
        self.last_of_hours().chain(self.named.values()).copied().collect()
    }

    /// Those that are told, and in the window.
    fn last_of_hours(&self) -> impl Iterator<Item = &Lsn> {
        let from_us = self.clock.monotonic_us().saturating_sub(self.window_us);
        self.told.iter().filter(move |lsn| self.hours.get(lsn).is_some_and(|us| *us >= from_us))
    }

    /// What is not there.
    pub(crate) fn missing(&self, picture: &Picture) -> Option<String> {
        let is_missing = |lsn: &&Lsn| picture.chain(**lsn).is_none();
        let hour = self.last_of_hours().find(is_missing);
        let hour = hour.map(|lsn| format!("block {lsn}, the last one of its hour, is not there"));
        let named = || self.named.iter().find(|(_, lsn)| is_missing(lsn));
        hour.or_else(|| named().map(|(name, lsn)| format!("block {lsn} of {name} is not there")))
    }

    pub(crate) fn take_violation(&mut self) -> Option<String> {
        self.violation.take()
    }
}

impl Life<'_> {
    /// Nothing is written for more than an hour, and archivers do what they do now and then.
    pub(crate) fn spend_night(&mut self) -> Result<(), String> {
        let last = self.run.ledger.last();
        self.run.note(|| format!("a night behind block {last}"));
        self.run.tally.nights += 1;
        self.run.far.kept(|kept| kept.end_hour(last));
        self.run.clock.advance_us(NIGHT_US);
        if self.run.rng.coin() {
            self.run.far.be_well();
        }
        for _ in 0..self.run.rng.below(NIGHT_STEPS) {
            self.step_archiver();
            self.note_archived()?;
            if self.run.rng.below(12) == 0 {
                self.run.clock.advance_us(NAP_US);
            }
        }
        self.tick()
    }
}

impl Run {
    /// Another machine thins out the archive between two lives, and may be cut off anywhere.
    pub(crate) fn tidy_elsewhere(&mut self) -> Result<(), String> {
        let options = self.configs[usize::from(self.policy)].options();
        let Some(place) = options.log.archive.place else { return Ok(()) };
        if !thins_out(self.plan.seed) || self.rng.below(3) > 0 {
            return Ok(());
        }
        let target = Keyed::new(Box::new(self.far.clone()), keys_of(&place));
        let Ok(database) = archive::database_of(&target, None) else { return Ok(()) };
        let rules = rules_of(self.plan.seed);
        let keep = rules[usize::try_from(self.rng.below(rules.len() as u64)).expect("few")];
        let options = ArchiveOptions {
            keep: keep.parse().expect("rules"),
            compression: options
                .log
                .archive
                .zstd_level
                .map_or(Compression::None, Compression::Zstd),
            interval_ms: options.log.archive.interval_ms,
            object_bytes: options.log.archive.object_bytes,
            base_percentage: options.log.archive.base_percentage,
            base_bytes_min: 0,
        };
        let grace_us = self.rng.below(2) * NAP_US;
        let mut seed = [0; KEY_BYTES];
        seed[..8].copy_from_slice(&self.rng.next().to_le_bytes());
        let options = TidyOptions::new(options);
        // Some have not the memory that a copy takes.
        let memory_bytes = if seed[0] % 4 == 0 { 2000 } else { options.memory_bytes };
        let options = TidyOptions { grace_us, memory_bytes, ..options };
        let mut tidier = Tidier::new(database, options, seed);
        self.note(|| format!("another machine thins out: {keep}"));
        let mut rng = SimEntropy::new(self.rng.next());
        for _ in 0..self.rng.below(400) {
            match tidier.step(&target, &self.clock) {
                Ok(TidyStep::Worked) => {}
                Ok(TidyStep::Waiting(until_us)) => {
                    let now_us = self.clock.monotonic_us();
                    self.clock.advance_us(until_us.saturating_sub(now_us));
                }
                Ok(TidyStep::Finished) => {
                    self.tally.archives_tidied += 1;
                    break;
                }
                Err(archive::Error::Target(_)) if rng.below(8) > 0 => {}
                Err(error) => {
                    self.note(|| format!("it ends: {error}"));
                    break;
                }
            }
        }
        // What was told last is older than that.
        self.archived.told.forget();
        self.judge_kept()
    }

    /// What is wrong with what is kept.
    pub(crate) fn judge_kept(&mut self) -> Result<(), String> {
        let violation = self.far.kept(Kept::take_violation).filter(|_| self.far.lies() == 0);
        violation.map_or(Ok(()), |what| Err(format!("ARCHIVE: {what}")))
    }
}
