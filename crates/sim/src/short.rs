//! A crash in the middle of a script: worlds so small that thousands a minute are judged.
//!
//! ```text
//!   a few commands ─► closed ─┬─► start ─► durable: before ─► a script ─► its reply: after        without a crash
//!                             ├─► start ─► durable: before ─► a script ─┐                         with one at an I/O
//!                             └─► …                                     └─► recovery: before or after, nothing else
//! ```
//!
//! A seed is played once without a crash, to know both states, and how many I/Os there are from the first byte of
//! the script to a while after its reply. Then it is played again from the same moment, and crashes at one of them.
//!
//! The script is an EVAL, an FCALL, or an EXEC with scripts among its commands, over keys of every type. They are in
//! memory, or have left it, or only the index was read; it has declared them, or asks for them in its middle. A
//! compaction may run meanwhile.
//!
//! # What is judged
//! Beyond what [`crate::run`]'s ledger says of each start:
//! - What a recovery comes to is the state before the script or the one after it, whatever the blocks are called.
//! - A script has one block at most.
//! - With `appendfsync always` its client has the reply only when the log says that the block is durable, and what a
//!   client was told is there after the crash.

use std::ops::Range;

use base::Lsn;
use env_sim::SimEntropy;
use server::engine::Engine;

use crate::index::{Fate, IndexShape};
use crate::life::Life;
use crate::machine::{LogShape, Machine, boot};
use crate::opening::Site;
use crate::past::HISTORY_SEEDS;
use crate::picture::Hash;
use crate::reply::encode;
use crate::run::{COLD_SEEDS, DEVICES_MAX, Outcome, Plan, Run, Violation};
use crate::tally::Tally;
use crate::wiretap::lock;
use crate::workload::{Kind, Op, SCRIPT_SEEDS, Workload};

/// The seeds of these worlds.
pub(crate) const SHORT_SEEDS: Range<u64> = 18_500_000_000..19_000_000_000;

/// How often each of them crashes.
const CRASHES: u64 = 2;

/// So many turns are enough for all to be durable, and for a script to get its keys and give its reply.
const TURNS_MAX: u32 = 400;

/// Where the keys are when the script begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warmth {
    Memory,
    /// Memory was full: some have left it.
    Partly,
    /// The index was read, and nothing else.
    Index,
}

/// See the file's top.
struct World {
    plan: Plan,
    /// As it is when all that was before is durable, and closed.
    run: Run,
    rng: SimEntropy,
    warmth: Warmth,
    is_compacting: bool,
    /// `appendfsync` while the script runs.
    policy: u8,
    /// How often the threads of the log step between two records, in a million.
    steps_per_million: u32,
    script: Vec<Op>,
    tally: Tally,
    fingerprint: Hash,
}

/// A moment: the last block, and the state after it.
type Moment = (Lsn, u64);

/// What came of a script.
#[derive(Debug, Clone, Copy)]
struct Played {
    before: Moment,
    /// None if the power has failed before its client had the reply.
    after: Option<Moment>,
    /// How many I/Os there were, until all of it was durable.
    ios: u64,
}

/// Runs a seed.
///
/// # Errors
/// What must not happen.
pub(crate) fn run(plan: Plan) -> Result<Outcome, Violation> {
    let mut world = World::new(plan);
    match world.play() {
        Ok(()) => {
            let trace = std::mem::take(&mut world.run.trace);
            Ok(Outcome { tally: world.tally, fingerprint: world.fingerprint.end(), trace })
        }
        Err(what) => {
            Err(Violation { seed: plan.seed, what, trace: std::mem::take(&mut world.run.trace) })
        }
    }
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut rng = SimEntropy::new(plan.seed ^ 0x5c41_9700);
        let number = plan.seed - SHORT_SEEDS.start;
        // One of four keeps history, in which FLUSHALL is a point. None writes dumps or archives: that is not looked for here.
        let like = if number % 4 == 3 { HISTORY_SEEDS } else { COLD_SEEDS };
        let index = (rng.below(2) == 0).then_some(IndexShape::SMALL);
        let shape = LogShape {
            devices: 1 + usize::try_from(rng.below(DEVICES_MAX as u64)).expect("few"),
            segment_bytes: 400 + rng.below(6000),
            in_flight_bytes: 1 << 20,
            index_lag_bytes: 1 << 30,
            index,
            reads_together: rng.coin(),
            zeros_blocks_min: None,
        };
        let fate = Fate {
            rng: SimEntropy::new(rng.next()),
            is_kept: index.is_some(),
            is_instant: false,
            is_narrow: false,
            narrow_one_in: None,
            is_damaged: false,
        };
        let inner = Plan { seed: like + number, ..plan };
        let mut run = Run::shaped(inner, shape, fate, SimEntropy::new(rng.next()));
        run.is_scripted = true;
        let declares = rng.coin();
        let is_large = rng.below(3) == 0;
        let workload_seed = SCRIPT_SEEDS + u64::from(!declares);
        run.workload = Workload::new(SimEntropy::new(rng.next()), workload_seed, is_large);
        let warmth = match (index.is_some(), rng.below(3)) {
            (true, 0) => Warmth::Index,
            (_, 1) if run.drops_values => Warmth::Partly,
            _ => Warmth::Memory,
        };
        Self {
            plan,
            run,
            warmth,
            is_compacting: rng.below(3) == 0,
            policy: u8::from(rng.below(8) == 0),
            steps_per_million: [0, 20_000, 300_000][usize::try_from(rng.below(3)).expect("few")],
            script: Vec::new(),
            tally: Tally { seeds: 1, ..Tally::default() },
            fingerprint: Hash::new(plan.seed),
            rng: SimEntropy::new(rng.next()),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.prepare()?;
        let declares = self.run.workload.declares();
        let mut script = self.run.workload.script(declares, 12);
        if self.rng.below(3) == 0 {
            script = script.into_function_call();
        }
        self.script = if self.rng.below(4) == 0 {
            let workload = &mut self.run.workload;
            let (first, last) = (workload.change(), workload.script(declares, 4));
            let multi = Op { kind: Kind::Multi, ..Op::of("MULTI") };
            vec![multi, first, script, last, Op { kind: Kind::Exec, ..Op::of("EXEC") }]
        } else {
            vec![script]
        };
        let whole = self.attempt(None)?;
        let Some(after) = whole.after else {
            return Err("the script has no reply".to_owned());
        };
        if after.0 > whole.before.0.next() {
            let (first, last) = (whole.before.0.next(), after.0);
            return Err(format!("SPLIT: the script lies in blocks {first} to {last}"));
        }
        for _ in 0..CRASHES.min(whole.ios * 2) {
            let crash =
                Crash { at: 1 + self.rng.below(whole.ios), is_after: self.rng.coin(), after };
            self.attempt(Some(crash))?;
        }
        Ok(())
    }

    /// What is there before the script: some commands, all durable, and a server that has ended.
    fn prepare(&mut self) -> Result<(), String> {
        let run = &mut self.run;
        let (machine, ..) = start(run, false, 0)?;
        let mut life = Life::new(run, machine);
        life.command(0, "DEBUG SET-ACTIVE-EXPIRE 0")?;
        life.tell(&Op::script_library())?;
        for _ in 0..3 + self.rng.below(10) {
            let op = life.run.workload.change();
            life.tell(&op)?;
            life.turn()?;
        }
        life.settle()?;
        if life.run.shape.index.is_some() {
            life.rest()?;
        }
        life.call(Engine::close)?.map_err(|error| format!("the log is not closed: {error}"))?;
        life.deliver()?;
        let last = life.run.ledger.last();
        life.run.ledger.promise(last, || "the server has ended in good order".to_owned());
        drop(life);
        self.run.disk.crash();
        self.tally.add(&Tally { seeds: 0, ..self.run.tally });
        self.tally.lives += 1;
        Ok(())
    }

    /// Plays the script from where all else is durable, with a crash or without one, and judges what is left.
    fn attempt(&mut self, crash: Option<Crash>) -> Result<Played, String> {
        let mut run = self.run.fork();
        run.tally = Tally::default();
        let ended = self.attempt_on(&mut run, crash);
        self.tally.add(&run.tally);
        self.tally.lives += 1;
        self.tally.promises += run.ledger.promises - self.run.ledger.promises;
        if self.plan.is_traced {
            self.run.trace = std::mem::take(&mut run.trace);
        }
        self.fingerprint.word(run.into_outcome().fingerprint);
        ended
    }

    fn attempt_on(&self, run: &mut Run, crash: Option<Crash>) -> Result<Played, String> {
        let is_instant = self.warmth == Warmth::Index;
        let (machine, ..) = start(run, is_instant, self.steps_per_million)?;
        let mut life = Life::new(run, machine);
        let played = self.execute(&mut life, crash)?;
        let stats = life.machine.engine.keyspace().stats();
        life.run.tally.values_dropped += stats.cooled;
        life.run.tally.keys_departed += stats.departed;
        life.run.tally.compactions += life.machine.compactions().0;
        drop(life);
        let Some(crash) = crash else { return Ok(played) };
        if !run.disk.is_crashed() {
            return Err("the run without a crash had other I/Os".to_owned());
        }
        run.note(|| "CRASH, as planned".to_owned());
        run.tally.crashes += 1;
        run.disk.restart();
        // It recovers by its index, or reads the log as a whole.
        let is_instant = run.shape.index.is_some() && run.rng.coin();
        let (_, lsn, found) = start(run, is_instant, 0)?;
        let is_told = played.after.is_some() && self.policy == 0;
        if found == crash.after.1 && lsn >= crash.after.0 {
            run.tally.scripts_whole += 1;
        } else if found == played.before.1 && !is_told {
            run.tally.scripts_absent += 1;
        } else {
            let (before, after) = (played.before.0, crash.after.0);
            return Err(format!(
                "HALF: block {lsn} is the last, {before} was before the script, {after} is after it; is it told: {is_told}, the \
                 state before: {}, the one after: {}",
                found == played.before.1,
                found == crash.after.1,
            ));
        }
        Ok(played)
    }

    /// The script is executed, until a while after its reply, or until the power fails.
    fn execute(&self, life: &mut Life<'_>, crash: Option<Crash>) -> Result<Played, String> {
        life.command(0, "DEBUG SET-ACTIVE-EXPIRE 0")?;
        if self.warmth == Warmth::Partly {
            life.rest()?;
            life.machine.fill_memory(400);
            (0..3).try_for_each(|_| life.turn())?;
        }
        life.settle()?;
        if self.policy > 0 {
            let kind = Kind::Policy(self.policy);
            // The log notes that, in a block of its own.
            life.tell(&Op { kind, ..Op::of("CONFIG SET appendfsync everysec") })?;
            life.seal()?;
        }
        let before = life.moment()?;
        let first_io = life.run.disk.io_count();
        if let Some(Crash { at, is_after, .. }) = crash {
            life.run.disk.crash_at(at, is_after);
        }
        if self.is_compacting {
            life.command(0, "BGREWRITEAOF")?;
        }
        for op in &self.script {
            life.tell(op)?;
        }
        let mut after = None;
        for _ in 0..TURNS_MAX {
            life.turn_with_keys()?;
            if life.run.disk.is_crashed() || life.is_dead {
                break;
            }
            if life.clients[0].outstanding() == 0 {
                life.seal()?;
                after = Some(life.moment()?);
                break;
            }
        }
        if let Some((lsn, _)) = after {
            let durable = life.machine.durable();
            if self.policy == 0 && durable < lsn {
                return Err(format!("EARLY: {durable} is durable, and the reply needs {lsn}"));
            }
            life.linger()?;
        }
        Ok(Played { before, after, ios: life.run.disk.io_count() - first_io })
    }
}

/// When the power fails.
#[derive(Debug, Clone, Copy)]
struct Crash {
    /// At this I/O, the first one being 1, before it or after it.
    at: u64,
    is_after: bool,
    /// The last block and the state after the script.
    after: Moment,
}

/// Starts the server and judges what it has found: the last block, and the state after it.
fn start(
    run: &mut Run,
    is_instant: bool,
    steps_per_million: u32,
) -> Result<(Machine, Lsn, u64), String> {
    let seed = run.rng.next();
    let site = Site { is_instant, ..run.site(seed, steps_per_million) };
    let (machine, summary) =
        boot(&site).map_err(|error| format!("REFUSED: the server does not start: {error}"))?;
    run.judge(machine.recovered(), &summary)?;
    lock(&machine.tap).used = run.ledger.object_max(summary.last_lsn);
    let found = machine.recovered().total();
    Ok((machine, summary.last_lsn, found))
}

impl Life<'_> {
    /// The first client sends a command.
    fn tell(&mut self, op: &Op) -> Result<(), String> {
        while self.clients.is_empty() {
            self.come()?;
        }
        let mut bytes = Vec::new();
        encode(&op.args, &mut bytes);
        self.send(0, &bytes, vec![op.clone()])
    }

    /// The last block, and the state after it. No block is open.
    fn moment(&mut self) -> Result<Moment, String> {
        let lsn = self.machine.sealed();
        Ok((lsn, self.machine.look()?.total()))
    }

    /// Until no block is open: one that no client waits for ends after a while.
    fn seal(&mut self) -> Result<(), String> {
        self.turn()?;
        for _ in 0..TURNS_MAX {
            if !self.machine.has_open_records() || self.run.disk.is_crashed() {
                return Ok(());
            }
            self.run.clock.advance_us(1000);
            self.turn()?;
        }
        Err("a block does not end".to_owned())
    }

    /// A turn, in which keys come that are waited for.
    fn turn_with_keys(&mut self) -> Result<(), String> {
        self.turn()?;
        let mut works = lock(&self.machine.works);
        (0..4).for_each(|_| works.step_comebacks(&mut self.run.rng));
        drop(works);
        self.call(|engine| engine.end_iteration(true))?;
        self.deliver()
    }

    /// Until all is durable and told. No time passes.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            self.turn_with_keys()?;
            let is_told = self.clients.iter().all(|client| client.outstanding() == 0);
            let is_sealed = !self.machine.has_open_records();
            if is_told && is_sealed && self.machine.durable() == self.machine.sealed() {
                return Ok(());
            }
        }
        Err("what was written does not become durable".to_owned())
    }

    /// A second passes, so that `everysec` has synced.
    fn linger(&mut self) -> Result<(), String> {
        for us in [0, 0, 600_000, 600_000, 0] {
            self.run.clock.advance_us(us);
            self.turn_with_keys()?;
        }
        Ok(())
    }
}
