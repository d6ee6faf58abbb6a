//! Crashes everywhere: a short trace of commands, run again and again, crashing each time at
//! another I/O, before it or after it, and then again at each I/O of the recovery.
//!
//! A trace is lines of text. A command is sent by client 0, or by client N behind `N>`; after it
//! the iteration ends, the flushers step once and replies are read, so that each command is a
//! block of its own. Lines that begin with `@` are not commands:
//!
//! - `@together` to `@apart`: what is in between is one iteration, and so one block;
//! - `@rest`: the flushers and the compactor step until there is nothing to do;
//! - `@off` to `@on`: the log is turned off, and on again;
//! - `@full N`: memory is full until it was looked at so often; values and keys leave it, if the seed says so;
//! - `@pass MS`: time passes; `@wall MS`: the wall clock is moved by so much.

use env::Clock;
use env_sim::SimEntropy;

use crate::index::{Fate, IndexShape};
use crate::life::Life;
use crate::machine::{LogShape, Machine};
use crate::reply::encode;
use crate::run::{Plan, Run, Violation};
use crate::wiretap::lock;
use crate::workload::Op;

/// A trace, and what its log is like.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    /// How many devices the log has at first.
    pub devices: usize,
    /// The size at which segments end.
    pub segment_bytes: u64,
    /// `appendfsync`: 0 for always, 1 for everysec, 2 for no.
    pub policy: u8,
    /// Whether an index of the log is kept, which is compared after each recovery.
    pub has_index: bool,
    /// Whether the keys fit into memory at no start, so that each builds the index first.
    pub is_narrow: bool,
    /// What happens.
    pub lines: &'a [&'a str],
}

/// How much was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// I/Os of the trace, those of the first start among them.
    pub ios: u64,
    /// Crashes, each judged.
    pub crashes: u64,
    /// The most I/Os that a recovery had.
    pub recovery_ios: u64,
    /// Compactions in the trace.
    pub compactions: u64,
    /// Values and keys that have left memory in it.
    pub departed: u64,
    /// Keys that have expired where they were then.
    pub cold_expired: u64,
}

/// What happens after a crash was judged: the database must be good for more.
const EPILOGUE: [&str; 5] =
    ["SET a epilogue", "DEL h", "HSET h f epilogue", "BGREWRITEAOF", "@rest"];

/// Crashes the trace at each of its I/Os, before and after it, on disks of `seeds`; and, with
/// `in_recovery`, crashes the recovery from each of these at each of its I/Os.
///
/// # Errors
/// The first promise that was broken.
pub fn crash_everywhere(
    trace: &Trace<'_>,
    seeds: std::ops::Range<u64>,
    in_recovery: bool,
) -> Result<Coverage, Violation> {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let attempt = Attempt { trace, seed, is_traced: false };
        let found = attempt.uninterrupted()?;
        coverage.ios = coverage.ios.max(found.ios);
        coverage.compactions = coverage.compactions.max(found.compactions);
        coverage.departed = coverage.departed.max(found.departed);
        coverage.cold_expired = coverage.cold_expired.max(found.cold_expired);
        for at in 1..=found.ios {
            for is_after in [false, true] {
                attempt.crash(at, is_after, in_recovery, &mut coverage)?;
            }
        }
    }
    Ok(coverage)
}

/// One seed of a trace.
#[derive(Debug, Clone, Copy)]
struct Attempt<'a> {
    trace: &'a Trace<'a>,
    seed: u64,
    is_traced: bool,
}

impl Attempt<'_> {
    fn run(&self) -> Run {
        let Trace { devices, segment_bytes, policy, has_index, is_narrow, .. } = *self.trace;
        let index = has_index.then_some(IndexShape::SMALL);
        let (in_flight_bytes, index_lag_bytes) = (1 << 20, 1 << 30);
        let reads_together = false;
        let shape = LogShape {
            devices,
            segment_bytes,
            in_flight_bytes,
            index_lag_bytes,
            index,
            reads_together,
            zeros_blocks_min: None,
        };
        let plan = Plan { seed: self.seed, lives: 1, is_traced: self.is_traced };
        let rng = SimEntropy::new(self.seed);
        let fate = Fate {
            rng: rng.clone(),
            is_kept: has_index,
            is_instant: has_index,
            is_narrow: false,
            narrow_one_in: is_narrow.then_some(1),
            is_damaged: false,
        };
        let mut run = Run::shaped(plan, shape, fate, rng);
        run.policy = policy;
        run.is_scripted = true;
        run
    }

    /// The trace without a crash: what it has.
    fn uninterrupted(&self) -> Result<Coverage, Violation> {
        let mut run = self.run();
        let played = start(&mut run).and_then(|(machine, _)| {
            let mut life = Life::new(&mut run, machine);
            life.play(self.trace.lines)?;
            Ok(life.coverage())
        });
        let found = self.explain(&mut run, played, |attempt| attempt.uninterrupted().err())?;
        Ok(Coverage { ios: run.disk.io_count(), ..found })
    }

    /// The trace with a crash at an I/O, and in the recovery from it at each of its I/Os.
    fn crash(
        &self,
        at: u64,
        is_after: bool,
        in_recovery: bool,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        let mut run = self.run();
        let ended = self.crash_once(&mut run, at, is_after);
        let told =
            |attempt: Self| attempt.crash(at, is_after, in_recovery, &mut Coverage::default());
        let place = format!("crash at I/O {at}, after it: {is_after}");
        let ended = ended.map_err(|what| format!("{what} ({place})"));
        self.explain(&mut run, ended, |attempt| told(attempt).err())?;

        let mut first = run.fork();
        let recovered = recover_and_go_on(&mut first);
        let recovered = recovered.map_err(|what| format!("{what} ({place})"));
        let recovery_ios = self.explain(&mut first, recovered, |attempt| told(attempt).err())?;
        coverage.crashes += 2;
        coverage.recovery_ios = coverage.recovery_ios.max(recovery_ios);
        let again = if in_recovery { recovery_ios } else { 0 };
        for at_again in 1..=again {
            // Before it or after it, in turns: of the crashes at one I/O each comes once.
            let is_after_again = (at_again % 2 == 0) == is_after;
            let mut run = run.fork();
            run.disk.crash_at(at_again, is_after_again);
            // What an interrupted recovery came to is not a promise yet.
            drop(run.boot(None));
            run.note(|| "CRASH in the recovery".to_owned());
            run.disk.restart();
            let recovered = start(&mut run).map_err(|what| {
                format!(
                    "{what} ({place}; in the recovery at {at_again}, after it: {is_after_again})"
                )
            });
            self.explain(&mut run, recovered.map(drop), |attempt| told(attempt).err())?;
            coverage.crashes += 1;
        }
        Ok(())
    }

    /// Plays the trace until it crashes, and gives the power back.
    fn crash_once(&self, run: &mut Run, at: u64, is_after: bool) -> Result<(), String> {
        run.disk.crash_at(at, is_after);
        if let Ok((machine, summary)) = run.boot(None)
            && !run.disk.is_crashed()
        {
            run.judge(machine.recovered(), &summary)?;
            let mut life = Life::new(run, machine);
            life.play(self.trace.lines)?;
            if !life.is_dead {
                life.check_memory()?;
            }
        }
        run.note(|| "CRASH".to_owned());
        run.disk.restart();
        Ok(())
    }

    /// Makes a violation of what went wrong, and runs it again to tell how.
    fn explain<T>(
        &self,
        run: &mut Run,
        result: Result<T, String>,
        again: impl FnOnce(Self) -> Option<Violation>,
    ) -> Result<T, Violation> {
        let what = match result {
            Ok(value) => return Ok(value),
            Err(what) => what,
        };
        let trace = std::mem::take(&mut run.trace);
        let told = if self.is_traced { None } else { again(Self { is_traced: true, ..*self }) };
        Err(told.unwrap_or(Violation { seed: self.seed, what, trace }))
    }
}

/// Recovers and judges. Returns how many I/Os the recovery had, too.
fn start(run: &mut Run) -> Result<(Machine, u64), String> {
    let before = run.disk.io_count();
    let (mut machine, summary) =
        run.boot(None).map_err(|error| format!("REFUSED: the server does not start: {error}"))?;
    let recovery_ios = run.disk.io_count() - before;
    run.judge(machine.recovered(), &summary)?;
    run.judge_index(&mut machine)?;
    Ok((machine, recovery_ios))
}

/// Recovers, judges, and sees whether the database is good for more: a few commands, a compaction
/// and another crash. How many I/Os the first recovery had.
fn recover_and_go_on(run: &mut Run) -> Result<u64, String> {
    let (machine, recovery_ios) = start(run)?;
    let mut life = Life::new(run, machine);
    life.play(&EPILOGUE)?;
    drop(life);
    run.note(|| "CRASH at rest".to_owned());
    run.disk.crash();
    start(run)?;
    Ok(recovery_ios)
}

impl Life<'_> {
    /// Plays a trace until its end or a crash.
    fn play(&mut self, lines: &[&str]) -> Result<(), String> {
        let (mut is_together, mut is_off) = (false, false);
        for line in lines {
            if self.is_crashed() || self.is_dead {
                return Ok(());
            }
            match line.split_once(' ').unwrap_or((line, "")) {
                ("@together", _) => is_together = true,
                ("@apart", _) => {
                    is_together = false;
                    self.turn()?;
                }
                ("@rest", _) => self.rest()?,
                ("@full", looks) => {
                    self.machine.fill_memory(looks.parse().expect("a number of times"));
                    self.turn()?;
                }
                ("@off", _) => is_off = self.turn_log_off()?,
                ("@on", _) => {
                    is_off = false;
                    self.turn_log_on()?;
                }
                _ if is_off => self.change_unlogged(&Op::parse(line)),
                ("@pass", ms) => {
                    let ms: u64 = ms.parse().expect("milliseconds");
                    self.clock().advance_us(ms * 1000);
                    self.turn()?;
                }
                ("@wall", ms) => {
                    let ms: i64 = ms.parse().expect("milliseconds");
                    let clock = self.clock();
                    clock.set_wall_ms(clock.now_ms() + ms);
                    self.turn()?;
                }
                _ => {
                    let (number, command) = line.split_once("> ").unwrap_or(("0", line));
                    self.command(number.parse().expect("a client's number"), command)?;
                    if !is_together {
                        self.turn()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn is_crashed(&self) -> bool {
        self.run.disk.is_crashed()
    }

    fn clock(&self) -> env_sim::SimClock {
        self.run.clock.clone()
    }

    /// What has happened so far, but for I/Os.
    fn coverage(&self) -> Coverage {
        let keyspace = self.machine.engine.keyspace();
        let stats = keyspace.stats();
        Coverage {
            compactions: self.machine.compactions().0,
            departed: stats.cooled + stats.departed,
            cold_expired: keyspace.cold_stats().map_or(0, |stats| stats.expired),
            ..Coverage::default()
        }
    }

    /// A client sends a command.
    pub(crate) fn command(&mut self, number: usize, line: &str) -> Result<(), String> {
        while self.clients.len() <= number {
            self.come()?;
        }
        let op = Op::parse(line);
        let mut bytes = Vec::new();
        encode(&op.args, &mut bytes);
        self.send(number, &bytes, vec![op])
    }

    /// The iteration ends, the flushers step once, and all clients read.
    pub(crate) fn turn(&mut self) -> Result<(), String> {
        self.tick()?;
        self.call(|engine| engine.end_iteration(true))?;
        lock(&self.machine.works).step_all();
        if self.run.drops_values {
            let mut works = lock(&self.machine.works);
            (0..4).for_each(|_| works.step_comebacks(&mut self.run.rng));
        }
        self.call(|engine| engine.end_iteration(true))?;
        self.deliver()
    }

    /// Until nothing is left to do.
    pub(crate) fn rest(&mut self) -> Result<(), String> {
        let mut idle_turns = 0;
        while idle_turns < 3 && !self.is_crashed() {
            self.run.clock.advance_us(120_000);
            let has_worked = lock(&self.machine.works).step_all();
            self.turn()?;
            idle_turns = if has_worked { 0 } else { idle_turns + 1 };
        }
        Ok(())
    }
}
