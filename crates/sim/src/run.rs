//! One seed, one run: a database that lives several lives on one faulty disk.
//!
//! ```text
//!   recover ──► judge ──► live: clients, flushers, compactor, clock, faults ──► end ─┐
//!     ▲  (crashes, EIO, turned bits in between)                                      │
//!     └────────── crash at an I/O · power failure · kill · shutdown ◄────────────────┘
//! ```

use std::sync::Arc;

use base::Lsn;
use env::FileError;
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::Summary;
use server::config::Config;

use crate::archives::{ARCHIVE_SEEDS, Archived, archive_of};
use crate::backup::Backup;
use crate::behind::{self, Whole};
use crate::damage::{self, Flip};
use crate::far::Far;
use crate::index::Fate;
use crate::ledger::Ledger;
use crate::life::Life;
use crate::machine::{LogShape, MEMORY_MAX_BYTES, Machine, boot, data_dir, device_dir};
use crate::named::NamedBackups;
use crate::opening::Site;
use crate::past::{HISTORY_SEEDS, history_of};
use crate::picture::{Hash, Picture};
use crate::saves::{SAVE_SEEDS, merges_dumps};
use crate::short::{self, SHORT_SEEDS};
use crate::tally::Tally;
use crate::thinning::keep_of;
use crate::twin::Found;
use crate::wiretap::lock;
use crate::workload::{DATABASES, Workload};

/// How many devices there may be.
pub(crate) const DEVICES_MAX: usize = 3;

/// From this seed on, eight of sixteen have a `maxmemory-policy` by which values leave memory.
pub(crate) const COLD_SEEDS: u64 = 1 << 32;

/// From this seed on, a start of a run with an index that must read the whole log may find that its keys do not
/// fit into memory.
pub(crate) const NARROW_SEEDS: u64 = 4_300_000_000;

/// Runs from this seed on keep what is hot, if they keep an index.
pub(crate) const HOT_SEEDS: u64 = 5_000_000_000;

/// From this seed on keys that are asked for may be read together.
pub(crate) const TOGETHER_SEEDS: u64 = 6_000_000_000;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Everything random comes from it.
    pub seed: u64,
    /// How many lives.
    pub lives: u32,
    /// Whether to note what happens, to explain a violation.
    pub is_traced: bool,
}

/// Something that must not happen.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The run.
    pub seed: u64,
    /// What it is.
    pub what: String,
    /// What led to it, if it was noted.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// A run that went well.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was done.
    pub tally: Tally,
    /// A hash of every I/O and every reply: the same for the same seed.
    pub fingerprint: u64,
    /// What happened, if that was noted.
    pub trace: Vec<String>,
}

/// Runs a seed; one that fails is run again to tell how it came to that.
///
/// # Errors
/// What must not happen.
pub fn run(plan: Plan) -> Result<Outcome, Violation> {
    let violation = match run_once(plan) {
        Err(violation) if !plan.is_traced => violation,
        ended => return ended,
    };
    let again = run_once(Plan { is_traced: true, ..plan });
    let what = violation.what;
    let differs = format!("{what} (and not again: the run does not depend on its seed alone)");
    Err(again.err().unwrap_or(Violation { seed: plan.seed, what: differs, trace: vec![] }))
}

fn run_once(plan: Plan) -> Result<Outcome, Violation> {
    if SHORT_SEEDS.contains(&plan.seed) {
        return short::run(plan);
    }
    let mut run = Run::new(plan);
    match run.lives() {
        Ok(()) => Ok(run.into_outcome()),
        Err(what) => {
            Err(Violation { seed: plan.seed, what, trace: std::mem::take(&mut run.trace) })
        }
    }
}

/// See the file's top.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) rng: SimEntropy,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    /// One for each policy.
    pub(crate) configs: Vec<Config>,
    pub(crate) shape: LogShape,
    pub(crate) index: Fate,
    /// `maxmemory-policy` is cold-lfu.
    pub(crate) drops_values: bool,
    /// Starts believe the index also where a bit has turned at rest.
    believes_over_damage: bool,
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    pub(crate) workload: Workload,
    pub(crate) replies: Hash,
    /// `appendfsync`: always, everysec, no.
    pub(crate) policy: u8,
    /// The device has lied: what it has swallowed is not the log's fault.
    pub(crate) is_betrayed: bool,
    /// A bit that has turned while the server ran.
    pub(crate) decayed: Option<Flip>,
    /// How much of what was written under `everysec` may be lost at most, in microseconds.
    pub(crate) at_stake_us: Option<u64>,
    /// The process was killed and nothing else has happened: what clients had read, and by which reply.
    pub(crate) killed: Option<(Lsn, String)>,
    backup: Backup,
    /// What clients know of named backups.
    pub(crate) named: NamedBackups,
    /// A dump was completed.
    pub(crate) has_dump: bool,
    /// Where the log is archived, and what was said to be there.
    pub(crate) far: Far,
    pub(crate) archived: Archived,
    /// Nothing is left to chance but what a crash leaves on the disk.
    pub(crate) is_scripted: bool,
    pub(crate) trace: Vec<String>,
}

/// With these seeds zeros are written ahead of the log.
const ZEROS_SEEDS: std::ops::Range<u64> = 22_000_000_000..23_000_000_000;

impl Run {
    fn new(plan: Plan) -> Self {
        let mut rng = SimEntropy::new(plan.seed ^ 0x51b0_5eed);
        let (index, index_shape) = Fate::of_run(plan.seed);
        let shape = LogShape {
            devices: 1 + usize::try_from(rng.below(3)).expect("few"),
            segment_bytes: 400 + rng.below(6000),
            in_flight_bytes: if rng.below(4) == 0 { 3000 } else { 1 << 20 },
            index_lag_bytes: match plan.seed >= COLD_SEEDS {
                true => [300, 4000, 1 << 30][usize::try_from(plan.seed / 16 % 3).expect("few")],
                false => 1 << 30,
            },
            index: index_shape,
            reads_together: plan.seed >= TOGETHER_SEEDS,
            zeros_blocks_min: ZEROS_SEEDS.contains(&plan.seed).then_some(plan.seed / 16 % 3),
        };
        Self::shaped(plan, shape, index, rng)
    }

    /// A run on a log of this shape.
    pub(crate) fn shaped(plan: Plan, shape: LogShape, index: Fate, mut rng: SimEntropy) -> Self {
        let compaction = rng.below(3);
        // Older seeds are named in documents, and stay what they are.
        let drops_values = plan.seed >= COLD_SEEDS && plan.seed & 8 != 0;
        let hot_seconds = match plan.seed {
            ..HOT_SEEDS => "0",
            // Or at the end alone.
            seed => ["1", "600"][usize::from(seed & 96 == 0)],
        };
        let algorithm = match plan.seed {
            ..SAVE_SEEDS => "auto",
            seed if merges_dumps(seed) => "hourglass",
            seed => {
                ["auto", "piggyback", "cou", "auto"][usize::try_from(seed / 4 % 4).expect("few")]
            }
        };
        let config = |policy| {
            let history = history_of(plan.seed);
            let kept = (history, archive_of(plan.seed), keep_of(plan.seed));
            configuration(policy, compaction, drops_values, hot_seconds, algorithm, kept)
        };
        let is_large = rng.below(3) == 0;
        let clock = SimClock::new(1_700_000_000_000);
        let disk = SimDisk::new(rng.next(), Faults::default());
        if plan.is_traced {
            disk.keep_ios();
        }
        Self {
            plan,
            disk,
            clock: clock.clone(),
            configs: (0..3).map(config).collect(),
            drops_values,
            believes_over_damage: plan.seed >= COLD_SEEDS && plan.seed & 32 != 0,
            shape,
            index,
            ledger: Ledger::new(plan.is_traced),
            tally: Tally { seeds: 1, ..Tally::default() },
            workload: Workload::new(SimEntropy::new(rng.next()), plan.seed, is_large),
            named: NamedBackups::default(),
            replies: Hash::new(plan.seed),
            policy: 0,
            is_betrayed: false,
            decayed: None,
            at_stake_us: None,
            killed: None,
            backup: Backup::default(),
            has_dump: false,
            far: Far::new(plan.seed, clock),
            archived: Archived::default(),
            is_scripted: false,
            trace: Vec::new(),
            rng,
        }
    }

    /// Another run that goes on from here, between two lives.
    pub(crate) fn fork(&self) -> Self {
        Self {
            disk: self.disk.fork(),
            clock: self.clock.fork(),
            rng: self.rng.clone(),
            index: self.index.clone(),
            configs: self.configs.clone(),
            ledger: self.ledger.clone(),
            named: self.named.clone(),
            workload: self.workload.clone(),
            decayed: self.decayed.clone(),
            killed: self.killed.clone(),
            backup: self.backup.clone(),
            far: self.far.fork(),
            archived: Archived { told: self.archived.told.clone(), rival: None },
            trace: self.trace.clone(),
            ..*self
        }
    }

    fn lives(&mut self) -> Result<(), String> {
        for _ in 0..self.plan.lives {
            let Some(machine) = self.recover()? else { return Ok(()) };
            self.tally.lives += 1;
            Life::new(self, machine).live()?;
            self.check_links()?;
            if self.is_betrayed {
                break;
            }
        }
        self.recover()?;
        self.check_links()
    }

    /// Nothing was changed in a file that has another name.
    fn check_links(&self) -> Result<(), String> {
        self.disk.take_trespass().map_or(Ok(()), |what| Err(format!("TRESPASS: {what}")))
    }

    /// Copies the files by hard links.
    pub(crate) fn back_up(&mut self) {
        let keeps_last = self.rng.coin();
        let count = self.backup.make(&self.disk, keeps_last);
        self.tally.backups += 1;
        self.note(|| format!("BACKUP by hard links: {count} files"));
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        let mut fingerprint = self.replies;
        fingerprint.word(self.disk.trace_hash());
        let mut tally = self.tally;
        tally.promises = self.ledger.promises;
        (tally.lies, tally.targets_died) = (self.far.lies(), self.far.deaths());
        tally.tidiers_copies = self.far.tidiers_copies();
        Outcome { tally, fingerprint: fingerprint.end(), trace: self.trace }
    }

    /// Notes what happens, if a trace is wanted.
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.plan.is_traced {
            let ios = self.disk.take_ios();
            self.trace.extend(ios.into_iter().map(|io| format!("      io {io}")));
            let at = self.disk.io_count();
            self.trace.push(format!("[{at}] {}", what()));
        }
    }

    /// Starts the server; one that misses a device that was added in an earlier life is told of it,
    /// as its operator would.
    ///
    /// A file may be damaged if a bit has turned: then the log is read as a whole, or, in some runs, the index
    /// is believed all the same. Not if it turned below the server, as the file may have been replaced since.
    pub(crate) fn boot(
        &mut self,
        turned: Option<(&Flip, bool)>,
    ) -> redo::Result<(Machine, Summary)> {
        loop {
            let (seed, steps_per_million) = self.site_numbers();
            if self.shape.index.is_some() && !self.is_scripted {
                self.index.is_kept = !self.index.one_in(4);
            }
            let is_sound = !self.index.is_damaged && turned.is_none();
            let was_below = turned.is_some_and(|(_, was_below)| was_below);
            let may_believe = is_sound || (self.believes_over_damage && !was_below);
            self.index.is_instant = !self.is_betrayed && may_believe && !self.index.one_in(4);
            self.index.is_narrow = !self.is_betrayed && turned.is_none() && self.index.runs_short();
            self.index.is_instant &= self.index.narrow_one_in != Some(1);
            let turned = turned.map(|(flip, _)| flip);
            match boot(&Site { turned, ..self.site(seed, steps_per_million) }) {
                Err(redo::Error::MissingDevice { .. }) if self.shape.devices < DEVICES_MAX => {
                    self.shape.devices = DEVICES_MAX;
                }
                booted => return booted,
            }
        }
    }

    /// A seed for what happens in the machine, and how often the works step inside a command.
    pub(crate) fn site_numbers(&mut self) -> (u64, u32) {
        let steps_per_million = if self.is_scripted || self.rng.coin() { 0 } else { 20_000 };
        (self.rng.next(), steps_per_million)
    }

    pub(crate) fn site(&self, seed: u64, steps_per_million: u32) -> Site<'_> {
        Site {
            disk: &self.disk,
            clock: &self.clock,
            config: &self.configs[usize::from(self.policy)],
            shape: &self.shape,
            keeps_index: self.index.is_kept,
            is_instant: self.index.is_instant,
            turned: None,
            is_narrow: self.index.is_narrow,
            saves: self.plan.seed >= SAVE_SEEDS,
            far: (self.plan.seed >= ARCHIVE_SEEDS).then_some(&self.far),
            seed,
            steps_per_million,
        }
    }

    /// Brings the server up and judges what it has found; `None` when a device has lied and the
    /// server rightly refuses to start. On the way there may be crashes, EIO and turned bits.
    pub(crate) fn recover(&mut self) -> Result<Option<Machine>, String> {
        self.policy = [0, 0, 0, 1, 2][usize::try_from(self.rng.below(5)).expect("few")];
        if self.plan.seed >= HISTORY_SEEDS && !self.is_betrayed && !self.has_turned() {
            let last = self.verify()?;
            self.go_back(last.unwrap_or_default())?;
            self.find_backups(last.unwrap_or_default())?;
            self.set_back(last.unwrap_or_default())?;
        }
        if !self.is_betrayed {
            self.lose_everything()?;
            self.tidy_elsewhere()?;
        }
        let mut crashes = if self.rng.below(3) == 0 { 1 + self.rng.below(3) } else { 0 };
        let has_decayed = self.decayed.is_some();
        let mut flipped = self.decayed.take();
        if self.believes_over_damage && !self.is_betrayed && self.index.one_in(12) {
            self.damage_index();
        }
        let turns = |run: &mut Self| {
            run.rng.below(6) == 0 || (run.believes_over_damage && run.index.one_in(3))
        };
        if flipped.is_none() && turns(self) && !self.is_betrayed {
            flipped = damage::flip_some_bit(&self.disk, &self.shape, &mut self.rng);
            self.tally.bits_flipped += u64::from(flipped.is_some());
        } else if self.rng.below(8) == 0 {
            let faults =
                Faults { error_per_million: 20_000, short_reads: true, ..Faults::default() };
            self.disk.set_faults(faults);
        } else if self.rng.below(8) == 0 {
            self.disk.set_faults(Faults { lack_per_million: 50_000, ..Faults::default() });
        }
        if !self.is_scripted && self.rng.below(8) == 0 {
            self.back_up();
        }
        let is_quiet = crashes == 0 && flipped.is_none() && !self.is_betrayed;
        let copy = (self.shape.index.is_some() && is_quiet && self.index.one_in(3))
            .then(|| self.copy_disk());
        let verified = if is_quiet && self.rng.below(8) == 0 { self.verify()? } else { None };
        loop {
            if crashes > 0 && flipped.is_none() {
                crashes -= 1;
                // A start that builds an index does more before it is over.
                let ios = if self.index.narrow_one_in.is_some() { 120 } else { 30 };
                self.disk.crash_after(1 + self.rng.below(ios));
            }
            let booted = self.boot(flipped.as_ref().map(|flip| (flip, has_decayed)));
            let is_crashed = self.disk.is_crashed();
            match booted {
                Ok((mut machine, summary)) if !is_crashed => {
                    self.disk.crash_after(u64::MAX / 4);
                    self.disk.set_faults(Faults::default());
                    if flipped.is_some() && machine.engine.keyspace().is_cold() {
                        self.note(|| "by the index, over what has turned".to_owned());
                        self.tally.starts_over_damage += 1;
                        self.decayed = flipped;
                    } else if let Some(flip) = flipped {
                        // It is in a file that is not needed, or was healed: the state tells.
                        self.note(|| format!("UNNOTICED: {flip:?}"));
                        self.tally.flips_unnoticed += 1;
                    }
                    if verified.is_some_and(|lsn| lsn != summary.last_lsn) {
                        return Err(format!("the verifier expects {verified:?}: {summary:?}"));
                    }
                    self.judge(machine.recovered(), &summary)?;
                    lock(&machine.tap).used = self.ledger.object_max(summary.last_lsn);
                    if let Some(copy) = copy {
                        self.judge_twin(&machine, &summary, &copy)?;
                    }
                    self.judge_index(&mut machine)?;
                    return Ok(Some(machine));
                }
                _ if is_crashed => {
                    self.note(|| "CRASH in the recovery".to_owned());
                    self.disk.restart();
                    self.killed = None;
                    self.tally.crashes += 1;
                    self.tally.crashes_in_recovery += 1;
                }
                Ok(_) => unreachable!("the arm above has it"),
                Err(error) => {
                    self.note(|| format!("no start: {error}"));
                    let is_eio = matches!(&error, redo::Error::File(FileError::Io { source, .. }) if env::system_number(source).is_some());
                    if is_eio {
                        self.tally.recoveries_with_io_errors += 1;
                        self.disk.set_faults(Faults::default());
                        (0..self.shape.devices).for_each(|at| self.disk.mend_dir(&device_dir(at)));
                    } else if let Some(flip) = flipped.take() {
                        match flip.check_named(&error) {
                            // What the device has written to the wrong place is found first.
                            Err(_) if self.is_betrayed => {
                                self.tally.starts_refused += 1;
                                return Ok(None);
                            }
                            named => named?,
                        }
                        self.tally.flips_detected += 1;
                        flip.undo(&self.disk);
                    } else if self.is_betrayed {
                        self.tally.starts_refused += 1;
                        return Ok(None);
                    } else {
                        return Err(format!("REFUSED: the server does not start: {error}"));
                    }
                }
            }
        }
    }

    /// A bit of the index turns at rest.
    fn damage_index(&mut self) {
        if damage::flip_in_index(&self.disk, &mut self.index.rng) {
            self.index.is_damaged = true;
            self.tally.index_decays += 1;
            self.note(|| "a bit of the index has turned".to_owned());
        }
    }

    /// A copy of the disk as it is between two lives, which works well.
    fn copy_disk(&self) -> SimDisk {
        let copy = self.disk.fork();
        copy.set_faults(Faults::default());
        (0..DEVICES_MAX).for_each(|at| copy.mend_dir(&device_dir(at)));
        copy
    }

    /// Starts another server on a copy of the disk: it must come to the same as this machine.
    fn judge_twin(
        &mut self,
        machine: &Machine,
        summary: &Summary,
        copy: &SimDisk,
    ) -> Result<(), String> {
        let shape = self.shape.index.filter(|_| !self.index.is_damaged && self.index.one_in(2));
        if let (Some(shape), Some(whole)) = (shape, Whole::of(machine, summary.last_lsn)) {
            let (seed, clock) = (self.index.rng.next(), self.clock.fork());
            let site = Site { disk: copy, clock: &clock, keeps_index: true, ..self.site(seed, 0) };
            let is_believed = behind::compare(&site, &mut SimEntropy::new(seed), shape, &whole)?;
            if is_believed {
                self.tally.starts_behind_index += 1;
                // What such a start has opened is durable, and what it has compacted.
                copy.crash();
            }
        }
        let seed = self.index.rng.next();
        let site = Site {
            disk: copy,
            keeps_index: !self.index.is_kept,
            is_narrow: false,
            ..self.site(seed, 0)
        };
        let (twin, other) =
            boot(&site).map_err(|error| format!("TWINS: one does not start: {error}"))?;
        self.tally.twin_recoveries += 1;
        let other = Found::of(&twin, other.last_lsn);
        Found::of(machine, summary.last_lsn).compare(&other)
    }

    /// What is wrong with the index that a start has found, if one is kept.
    pub(crate) fn judge_index(&mut self, machine: &mut Machine) -> Result<(), String> {
        let suspicion = lock(&machine.works).take_suspicion();
        if self.shape.index.is_none() || self.is_betrayed {
            return Ok(());
        }
        if let Some(what) = suspicion.filter(|_| !self.index.is_damaged) {
            return Err(what);
        }
        if self.is_scripted || self.index.one_in(2) {
            let compared = machine.compare_index(self.index.is_damaged)?;
            self.note_comparison(compared);
        }
        Ok(())
    }

    pub(crate) fn note_comparison(&mut self, compared: Option<u64>) {
        if let Some(entries) = compared {
            self.note(|| format!("the index says the same of {entries} entries"));
            self.tally.index_comparisons += 1;
            self.tally.index_entries += entries;
        }
    }

    /// Whether a bit has turned in this run: it may lie in what is kept.
    const fn has_turned(&self) -> bool {
        self.tally.bits_flipped + self.tally.decays > 0
    }

    /// What `indelible log verify` says: it must find nothing wrong, and the block that recovery
    /// will come to.
    fn verify(&mut self) -> Result<Option<Lsn>, String> {
        self.disk.set_faults(Faults::default());
        let disk: Arc<dyn env::Disk> = Arc::new(self.disk.clone());
        let report = redo::verify(&disk, &data_dir(), &[]).map_err(|error| error.to_string())?;
        self.tally.verifications += 1;
        if report.files > 0 && !report.is_good() {
            return Err(format!("the verifier finds damage: {report}"));
        }
        Ok((report.files > 0).then_some(report.last_lsn))
    }

    pub(crate) fn judge(&mut self, found: &Picture, summary: &Summary) -> Result<(), String> {
        self.note(|| format!("recovered up to block {}", summary.last_lsn));
        self.tally.blocks += summary.blocks;
        self.tally.cut_blocks += summary.cut_blocks;
        self.ledger.judge(summary.last_lsn, found, self.is_betrayed)?;
        if let Some((lsn, what)) = self.killed.take().filter(|(lsn, _)| *lsn > summary.last_lsn) {
            let last = summary.last_lsn;
            return Err(format!(
                "LOST: block {last} is the last after a kill, {lsn} was read: {what}"
            ));
        }
        if let Some(at_stake_us) = self.at_stake_us.take().filter(|_| !self.is_betrayed) {
            self.ledger.judge_loss(summary.last_lsn, at_stake_us)?;
        }
        self.ledger.settle(summary.last_lsn);
        self.far.kept(|kept| kept.settle(summary.last_lsn));
        self.judge_old_dump()
    }
}

/// What the server is configured like.
fn configuration(
    policy: usize,
    compaction: u64,
    drops_values: bool,
    hot_seconds: &str,
    algorithm: &str,
    (history, archive, keep): ([&str; 3], [&str; 3], &str),
) -> Config {
    let cold_keys = if compaction == 0 { "25%" } else { "0" };
    let policy = crate::workload::POLICIES[policy];
    let percentage = ["15", "40", "80"][usize::try_from(compaction).expect("few")];
    let (databases, memory) = (DATABASES.to_string(), MEMORY_MAX_BYTES.to_string());
    let words = [
        ["--databases", &databases],
        ["--enable-debug-command", "yes"],
        ["--enable-protected-configs", "yes"],
        ["--appendfsync", policy],
        ["--log-compaction-invalid-min", "2"],
        ["--log-compaction-garbage-percentage", "0"],
        ["--log-compaction-invalid-percentage", percentage],
        ["--log-compaction-bytes-per-second", "0"],
        ["--log-index-hot-seconds", hot_seconds],
        ["--latency-tracking", "no"],
        ["--maxmemory", &memory],
        ["--maxmemory-policy", if drops_values { "cold-lfu" } else { "allkeys-random" }],
        // Keys leave after their values, or when nothing else can.
        ["--cold-keys-maxmemory", cold_keys],
        ["--snapshot-memory", "8192"],
        ["--snapshot-algorithm", algorithm],
        ["--log-history-seconds", history[0]],
        ["--log-history-bytes", history[1]],
        ["--log-history-percentage", history[2]],
        ["--archive", archive[0]],
        ["--archive-compression", archive[1]],
        ["--archive-key-file", archive[2]],
        ["--archive-interval-ms", "10"],
        ["--archive-keep", keep],
    ];
    let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
    let mut config = server::config::load(None, &words).expect("the words are directives");
    config.set_directory(&data_dir());
    config
}
