//! The client's ticks and the snapshotter's checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::snapshot::{Checkpoints, Client, Database, Pages, Setup, Shape, Snapshotter, Source};

use super::direct_disk::DirectDisk;
use super::handshake::Handshake;
use super::memory::{self, Peak};
use super::nowhere::Nowhere;
use super::{Arguments, updates};
use crate::error::{Error, Result};

/// The interval of ticks.
const TICK: Duration = Duration::from_millis(10);
/// Ticks before the first checkpoint. Caches and the machine settle in them, so they are not
/// counted.
pub(super) const WARM_UP_TICKS: usize = 20;
/// The most updates that are generated; then they repeat.
const UPDATES_MAX: usize = 1 << 27;

/// One checkpoint.
#[derive(Debug, serde::Serialize)]
pub(super) struct Checkpoint {
    /// The tick at whose beginning it was triggered.
    pub(super) tick: usize,
    /// The taken phase, during which the client waits.
    pub(super) taken_us: f64,
    /// The time to update the client's copy.
    pub(super) online_ms: f64,
    /// The time to traverse, merge, write and sync.
    pub(super) dump_ms: f64,
    /// The size of the file.
    pub(super) bytes: u64,
}

/// The measurements of a run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Run {
    pub(super) tick_us: Vec<f64>,
    /// The part of each latency spent waiting for the processor.
    pub(super) tick_waited_us: Vec<f64>,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) peak_memory_mb: f64,
    /// The part of the memory that the kernel has put into huge pages.
    pub(super) huge_memory_mb: f64,
}

/// Pins this thread to one processor, if the system permits it.
fn stay_on(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Raises the priority of this thread above the kernel's writeback threads, if the system permits
/// it.
fn go_first() {
    let _ = rustix::process::setpriority_process(None, -20);
}

/// Returns how long this thread was runnable without a processor, plus the time that the host took
/// from the processor. The unit is microseconds. Neither is caused by an algorithm.
fn waited_us() -> f64 {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let queue_ns = |text: &str| text.split(' ').nth(1)?.trim().parse::<f64>().ok();
    let stolen_jiffies = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("cpu0 "))?;
        line.split(' ').nth(8)?.parse::<f64>().ok()
    };
    queue_ns(&read("/proc/thread-self/schedstat")).unwrap_or(0.0) / 1e3
        + stolen_jiffies(&read("/proc/stat")).unwrap_or(0.0) * 1e4
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Engine { engine: "snapshot", what: error.to_string() }
}

/// Runs the client's ticks until there are enough of them and all checkpoints are complete.
fn client<A: ::snapshot::Algorithm>(
    mut client: Client<'_, A>,
    arguments: &Arguments,
    updates: &[u32],
    handshake: &Handshake,
) -> (Vec<f64>, Vec<f64>) {
    stay_on(0);
    go_first();
    let mut value = vec![0; arguments.row_bytes / 8];
    let mut ticks_us = Vec::with_capacity(arguments.ticks * 2);
    let mut ticks_waited_us = Vec::with_capacity(arguments.ticks * 2);
    let mut updates = updates.chunks_exact(arguments.updates_per_tick).cycle();
    let every = (arguments.ticks - WARM_UP_TICKS) / arguments.checkpoints.max(1);
    let mut triggered = 0;
    let mut next = Instant::now();
    while ticks_us.len() < arguments.ticks || !handshake.is_over() {
        let now = Instant::now();
        if next > now {
            std::thread::sleep(next - now);
        } else {
            next = now;
        }
        let tick_number = ticks_us.len();
        let due = tick_number >= WARM_UP_TICKS + triggered * every;
        let rows = updates.next().expect("there is at least one tick's worth");
        value.fill(tick_number as u64);
        let waited_before_us = waited_us();
        let begin = Instant::now();
        // The paper's Trigger: if the previous snapshot is finished.
        if due && triggered < arguments.checkpoints && handshake.trigger(tick_number) {
            triggered += 1;
        }
        let mut tick = client.tick();
        for row in rows {
            tick.write(*row as usize, &value);
        }
        drop(tick);
        ticks_us.push(microseconds(begin.elapsed()));
        ticks_waited_us.push(waited_us() - waited_before_us);
        next += TICK;
    }
    (ticks_us, ticks_waited_us)
}

/// Reads all of a snapshot, as a dump does, and discards it.
fn discard(mut snapshot: impl Source) -> ::snapshot::Result<u64> {
    if let Some(summary) = snapshot.dump_elsewhere(Path::new("nowhere")) {
        snapshot.finish();
        return Ok(summary?.bytes);
    }
    let (mut bytes, mut sum) = (0, 0_u64);
    snapshot.traverse(|_, value| {
        bytes += value.len() as u64 * 8;
        sum = value.iter().fold(sum, |sum, word| sum.rotate_left(5) ^ word);
        Ok(())
    })?;
    std::hint::black_box(sum);
    snapshot.finish();
    Ok(bytes)
}

/// Takes and writes a checkpoint for each trigger.
fn snapshotter<A: ::snapshot::Algorithm>(
    mut snapshotter: Snapshotter<'_, A>,
    checkpoints: Option<&Checkpoints>,
    count: usize,
    handshake: &Handshake,
) -> ::snapshot::Result<Vec<Checkpoint>> {
    stay_on(1);
    let mut done = Vec::with_capacity(count);
    for _ in 0..count {
        let tick = handshake.wait();
        let begin = Instant::now();
        let mut snapshot = snapshotter.take()?;
        let taken_us = microseconds(begin.elapsed());
        handshake.taken();
        let begin = Instant::now();
        snapshot.write_to_online();
        let online_ms = microseconds(begin.elapsed()) / 1e3;
        let bytes = match checkpoints {
            Some(checkpoints) => checkpoints.make(snapshot)?.bytes,
            None => discard(snapshot)?,
        };
        let dump_ms = microseconds(begin.elapsed()) / 1e3 - online_ms;
        done.push(Checkpoint { tick, taken_us, online_ms, dump_ms, bytes });
    }
    Ok(done)
}

/// Loads the rows and runs both threads.
pub(super) fn run<A: ::snapshot::Algorithm>(arguments: &Arguments) -> Result<Run> {
    let peak = Peak::new();
    let rows = arguments.rows_mb * (1 << 20) / arguments.row_bytes.max(1);
    let shape = Shape::new(rows, arguments.row_bytes).map_err(failed)?;
    let disk: Arc<dyn env::Disk> = Arc::new(DirectDisk);
    let mut database: Database<A> = Database::new(&Setup {
        shape,
        pages: if arguments.huge_pages { Pages::Huge } else { Pages::Ordinary },
        child_disk: Some(if arguments.discard { Arc::new(Nowhere) } else { disk.clone() }),
        initial: &|row, value| value.fill(row as u64),
    });
    let count = (arguments.updates_per_tick * arguments.ticks).min(UPDATES_MAX);
    let updates = updates::make_up(rows, count, arguments.distribution, arguments.seed);
    let checkpoints = Checkpoints::open(disk, &arguments.dir).map_err(failed)?;

    let huge_memory_mb = memory::huge_mb();
    let (client_side, snapshotter_side) = database.split();
    let (handshake, stop) = (Handshake::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let memory = scope.spawn(|| {
            stay_on(1);
            peak.watch(&stop)
        });
        let snapshots = scope.spawn(|| {
            let checkpoints = (!arguments.discard).then_some(&checkpoints);
            let made =
                snapshotter(snapshotter_side, checkpoints, arguments.checkpoints, &handshake);
            handshake.end();
            made
        });
        let (tick_us, tick_waited_us) = client(client_side, arguments, &updates, &handshake);
        let made = snapshots.join().map_err(|_| failed("the snapshotter has panicked"));
        stop.store(true, Ordering::Relaxed);
        let peak_memory_mb = memory.join().unwrap_or(0.0);
        let checkpoints = made?.map_err(failed)?;
        Ok(Run { tick_us, tick_waited_us, checkpoints, peak_memory_mb, huge_memory_mb })
    })
}
