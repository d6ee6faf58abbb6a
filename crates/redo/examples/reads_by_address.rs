//! What a record by its address costs: microseconds a read, with and without the page cache.
//!
//! `cargo run --release -p indelible-redo --example reads_by_address -- DIR [RECORDS [READS]]`: writes a
//! log of records of 200 bytes in DIR, which must not exist yet, and reads some at random.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{DbId, Lsn, Record, RecordAddr, RecordKind};
use env::{Access, Disk};
use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{Env, Opened, Options, Reader, ReaderLimits, Recovery, Replay, Step, SyncPolicy};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RECORD_BYTES: usize = 200;
const BLOCK_RECORDS: usize = 64;

struct Nothing;

impl Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {}
    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which directory?")?);
    let records: usize = args.next().map_or(Ok(2_000_000), |count| count.parse())?;
    let reads: usize = args.next().map_or(Ok(20_000), |count| count.parse())?;
    let addrs = write(&dir, records)?;
    let Opened { log, .. } = open(&dir)?;
    let stats = log.stats();
    println!("{records} records in {} files, {} bytes", stats.files, stats.bytes);
    let limits = ReaderLimits { open_files: 256, places: 1 << 22 };
    drop_caches(&dir)?;
    let mut reader = log.reader().with_limits(limits);
    // Footers and handles.
    read(&mut reader, &addrs, 2000, 3, "first reads, past the page cache")?;
    read(&mut reader, &addrs, reads, 5, "past the page cache")?;
    fill_cache(&dir)?;
    let mut reader = log.reader().with_limits(limits);
    read(&mut reader, &addrs, 2000, 3, "first reads, from the page cache")?;
    read(&mut reader, &addrs, reads, 5, "from the page cache")?;
    let mut reader = log.reader();
    read(&mut reader, &addrs, reads, 5, "from the page cache, 8 files open")
}

fn open(dir: &Path) -> Result<Opened> {
    let env = Env {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        entropy: Box::new(OsEntropy),
        waker: Arc::new(|| {}),
    };
    let mut options = Options::new(dir);
    options.policy = SyncPolicy::No;
    options.compaction.enabled = false;
    Ok(Recovery::open(env, options)?.run(&mut Nothing, &mut |_| {})?)
}

/// Writes the log and closes it. Where the records are.
fn write(dir: &Path, records: usize) -> Result<Vec<RecordAddr>> {
    let Opened { mut log, flushers, .. } = open(dir)?;
    let run = |mut flusher: redo::Flusher| {
        move || loop {
            match flusher.step() {
                Step::Worked => {}
                Step::Idle => flusher.bell().wait(Duration::from_millis(100)),
                Step::Finished => return,
            }
        }
    };
    let threads: Vec<_> = flushers.into_iter().map(|f| std::thread::spawn(run(f))).collect();
    let mut addrs = Vec::with_capacity(records);
    for number in 0..records {
        let key = format!("key:{number:012}");
        let value = vec![b'v'; RECORD_BYTES - 16 - 5];
        let record = Record::whole(RecordKind::String, DbId(0), key.as_bytes(), &value, None);
        addrs.push(log.append(&record));
        if number % BLOCK_RECORDS == 0 {
            log.seal();
            log.poll();
            while log.is_congested() {
                std::thread::sleep(Duration::from_micros(100));
                log.poll();
            }
        }
    }
    log.shutdown();
    for thread in threads {
        thread.join().map_err(|_| "a flusher has panicked")?;
    }
    Ok(addrs)
}

/// Does something with every segment's file.
fn each_file(dir: &Path, act: impl Fn(&dyn env::File) -> std::io::Result<()>) -> Result<()> {
    let dir = dir.join("redo");
    for name in OsDisk.list(&dir)? {
        let path = dir.join(name);
        if path.extension().is_some_and(|extension| extension == "redo") {
            act(&*OsDisk.open(&path, Access::ReadWrite)?)?;
        }
    }
    Ok(())
}

fn drop_caches(dir: &Path) -> Result<()> {
    each_file(dir, |file| {
        file.sync_data()?;
        file.drop_cache(0, file.len()?);
        Ok(())
    })
}

fn fill_cache(dir: &Path) -> Result<()> {
    each_file(dir, |file| {
        let mut chunk = vec![0; 1 << 20];
        let len = file.len()?;
        let mut at = 0;
        while at < len {
            at += file.read_at(&mut chunk, at)? as u64;
        }
        Ok(())
    })
}

/// Reads so many at random, and says how long each took.
fn read(
    reader: &mut Reader,
    addrs: &[RecordAddr],
    count: usize,
    mut random: u64,
    what: &str,
) -> Result<()> {
    let mut times: Vec<Duration> = Vec::with_capacity(count);
    let cpu_before = cpu_ns()?;
    for _ in 0..count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = usize::try_from(random >> 20)? % addrs.len();
        let started = Instant::now();
        let found = reader.record(addrs[number])?.ok_or("a record is missing")?;
        times.push(started.elapsed());
        let key = format!("key:{number:012}");
        assert_eq!(found.record().key, key.as_bytes());
    }
    let cpu = (cpu_ns()? - cpu_before) / count as u64;
    times.sort_unstable();
    let at = |per_mille: usize| times[(count - 1) * per_mille / 1000];
    println!(
        "{what}: p50 {:?}, p99 {:?}, p99.9 {:?}; {cpu} ns of CPU a read",
        at(500),
        at(990),
        at(999)
    );
    Ok(())
}

/// How long this thread has been on a core.
fn cpu_ns() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("schedstat is empty")?.parse()?)
}
