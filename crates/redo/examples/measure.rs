//! What the log costs: nanoseconds a record for the executor, records a second for recovery.
//!
//! `cargo run --release -p indelible-redo --example measure -- DIR [RECORDS]`: writes and reads a log in
//! DIR, which must not exist yet.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{DbId, Lsn, Record, RecordAddr, RecordKind};
use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{Env, Opened, Options, Recovery, Replay, Step, SyncPolicy};

/// Counts, and keeps nothing.
#[derive(Default)]
struct Count(u64);

impl Replay for Count {
    fn apply(&mut self, record: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {
        self.0 += record.value.len() as u64;
    }

    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

const KEYS: usize = 1 << 20;
const BLOCK_RECORDS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which directory?")?);
    let records: usize = args.next().map_or(Ok(10_000_000), |count| count.parse())?;
    for (policy, value_bytes) in [(SyncPolicy::No, 8), (SyncPolicy::No, 100)] {
        let dir = dir.join(format!("{value_bytes}"));
        write(&dir, policy, records, value_bytes)?;
        for parallel_loaders in [false, true] {
            recover(&dir, parallel_loaders)?;
        }
    }
    Ok(())
}

fn env() -> Env {
    Env {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        entropy: Box::new(OsEntropy),
        waker: Arc::new(|| {}),
    }
}

fn write(
    dir: &std::path::Path,
    policy: SyncPolicy,
    records: usize,
    value_bytes: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new(dir);
    options.policy = policy;
    options.compaction.enabled = false;
    let recovery = Recovery::open(env(), options)?;
    let Opened { mut log, flushers, .. } = recovery.run(&mut Count::default(), &mut |_| {})?;
    let threads: Vec<_> = flushers
        .into_iter()
        .map(|mut flusher| {
            std::thread::spawn(move || {
                loop {
                    match flusher.step() {
                        Step::Worked => {}
                        Step::Idle => flusher.bell().wait(Duration::from_millis(100)),
                        Step::Finished => return,
                    }
                }
            })
        })
        .collect();
    let value = vec![b'v'; value_bytes];
    let mut addrs = vec![None; KEYS];
    let mut key = *b"key:000000000000";
    let (mut waiting, cpu_before) = (Duration::ZERO, cpu_ns()?);
    let mut random = 1u64;
    for _ in 0..records / BLOCK_RECORDS {
        for _ in 0..BLOCK_RECORDS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (random >> 40) % KEYS as u64;
            key[8..].copy_from_slice(&number.to_le_bytes());
            let record = Record::whole(RecordKind::String, DbId(0), &key, &value, None);
            let addr = log.append(&record);
            let old = addrs[usize::try_from(number)?].replace(addr);
            if let Some(old) = old {
                log.retire(old);
            }
        }
        log.seal();
        log.poll();
        let started = Instant::now();
        while log.is_congested() {
            std::thread::sleep(Duration::from_micros(100));
            log.poll();
        }
        waiting += started.elapsed();
    }
    let cpu = (cpu_ns()? - cpu_before) / records as u64;
    log.shutdown();
    for thread in threads {
        thread.join().map_err(|_| "a flusher has panicked")?;
    }
    println!(
        "{value_bytes}-byte values: append + retire + 1/{BLOCK_RECORDS} seal and poll: {cpu} ns of CPU a \
         record, random keys; waited {waiting:?} for the disk"
    );
    Ok(())
}

/// How long this thread has been on a core: on a busy machine the only time that means something.
fn cpu_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("schedstat is empty")?.parse()?)
}

fn recover(
    dir: &std::path::Path,
    parallel_loaders: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new(dir);
    options.parallel_loaders = parallel_loaders;
    let started = Instant::now();
    let recovery = Recovery::open(env(), options)?;
    let Opened { summary, .. } = recovery.run(&mut Count::default(), &mut |_| {})?;
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate to look at")]
    let (records, bytes) = (summary.records as f64, summary.bytes as f64);
    println!(
        "recovery, parallel loaders {parallel_loaders}: {:.2} M records/s, {:.0} MB/s",
        records / seconds / 1e6,
        bytes / seconds / 1e6
    );
    Ok(())
}
