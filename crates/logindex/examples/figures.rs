//! Measures the index: time of the processor for each entry, bytes for each entry on disk.
//!
//! ```text
//! cargo run --release -p indelible-logindex --example figures -- DIRECTORY [MILLIONS …]
//! ```
//!
//! Names are uniform, in one scope; each batch has the 200,000 records of a segment. Times are those
//! of this thread on a processor, unless it says wall.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use base::{DbId, Lsn, RecordAddr, SegmentId};
use env::Disk;
use env_os::OsDisk;
use logindex::{
    Cached, Delta, Entry, Hash96, Index, Indexer, Judge, Level, Name, Options, Place, Scope,
    Scopes, Step, What, stats, verify,
};

/// The product's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const BATCH: u32 = 200_000;
const DATABASE: [u8; 16] = [7; 16];

/// The nanoseconds that this thread has had a processor.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Runs something; the nanoseconds of the processor that it took.
fn timed<T>(run: impl FnOnce() -> T) -> (u64, T) {
    let before = processor_ns();
    let result = run();
    (processor_ns() - before, result)
}

fn row(what: &str, ns: u64, entries: u64) {
    println!("{what:<44} {:>9.1} ns each of {entries}", ns as f64 / entries as f64);
}

fn name(number: u64) -> Name {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Name::new(Scope::database(DbId(0)), Hash96::new(x ^ (x >> 31), u32::MAX / 3))
}

/// Pushes a batch: the names of these numbers, in a segment of its own.
fn push_all(delta: &mut Delta, segment: u32, names: &[Name]) {
    for (ordinal, name) in (0..).zip(names) {
        let tag = u8::try_from(ordinal % 8).unwrap_or(0);
        let place = Place::new(RecordAddr::new(SegmentId(segment), ordinal), tag);
        delta.push(Entry { name: *name, what: What::At(place) });
    }
}

/// What the parts of the work took, in nanoseconds of the processor.
#[derive(Default)]
struct Work {
    push_ns: u64,
    write_ns: u64,
    install_ns: u64,
    merge_ns: u64,
    written_bytes: u64,
}

/// Adds the batches `from..to`, each done completely before the next.
fn fill(
    indexer: &mut Indexer,
    from: u32,
    to: u32,
    numbers: impl Fn(u64) -> u64,
) -> Result<Work, Box<dyn std::error::Error>> {
    let mut work = Work::default();
    let mut delta = Delta::new();
    for batch in from..to {
        let first = u64::from(batch) * u64::from(BATCH);
        let names: Vec<Name> =
            (first..first + u64::from(BATCH)).map(|i| name(numbers(i))).collect();
        work.push_ns += timed(|| push_all(&mut delta, batch + 1, &names)).0;
        let lsn = Lsn(u64::from(batch) + 1);
        indexer.add(delta.cut(lsn, vec![0; 4096], Judge::Settled(Scopes::without_map())));
        // Before the cut is durable it is sorted and written, and not installed.
        let durable = Lsn(u64::from(batch));
        let written = timed(|| while_worked(indexer, durable));
        work.write_ns += written.0;
        written.1?;
        let installed = timed(|| indexer.step(lsn));
        work.install_ns += installed.0;
        installed.1?;
        let before: Vec<u64> = indexer.index().runs().map(|run| run.id).collect();
        let merged = timed(|| while_worked(indexer, lsn));
        work.merge_ns += merged.0;
        merged.1?;
        work.written_bytes += new_bytes(&indexer.index(), &before);
    }
    Ok(work)
}

fn while_worked(indexer: &mut Indexer, durable: Lsn) -> logindex::Result<()> {
    while indexer.step(durable)? == Step::Worked {}
    Ok(())
}

/// The bytes of runs that are in the index and were not.
fn new_bytes(index: &Index, before: &[u64]) -> u64 {
    index.runs().filter(|run| !before.contains(&run.id)).map(|run| run.bytes).sum()
}

fn measure(dir: &Path, millions: u32) -> Outcome {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let dir = &dir.join(format!("{millions}m"));
    let entries = u64::from(millions) * 1_000_000;
    let batches = u32::try_from(entries / u64::from(BATCH))?;
    println!("== {millions} M names, batches of {BATCH}");
    let mut indexer = Indexer::open(disk.clone(), dir, DATABASE, Options::default())?;
    let wall = Instant::now();
    let work = fill(&mut indexer, 0, batches, |i| i)?;
    println!("{:<44} {:>9.2} s", "new names: wall, with syncs", wall.elapsed().as_secs_f64());
    report("new names", &work, entries);
    let more = batches / 4 + 1;
    let work = fill(&mut indexer, batches, batches + more, |i| i.wrapping_mul(7919) % entries)?;
    report("overwrites", &work, u64::from(more) * u64::from(BATCH));
    drop(indexer);
    sizes(&*disk, dir)?;
    let (ns, indexer) = timed(|| Indexer::open(disk.clone(), dir, DATABASE, Options::default()));
    println!("{:<44} {:>9.2} ms", "open", ns as f64 / 1e6);
    read(indexer?, entries)
}

fn report(what: &str, work: &Work, entries: u64) {
    row(&format!("{what}: push"), work.push_ns, entries);
    row(&format!("{what}: sort and write level 0"), work.write_ns, entries);
    row(&format!("{what}: install"), work.install_ns, entries);
    row(&format!("{what}: merges"), work.merge_ns, entries);
    row(&format!("{what}: all but push"), work.write_ns + work.install_ns + work.merge_ns, entries);
    let bytes = work.written_bytes as f64 / entries as f64;
    println!("{:<44} {bytes:>9.1} bytes an entry", format!("{what}: written by merges"));
}

fn sizes(disk: &dyn Disk, dir: &Path) -> Outcome {
    let Some(stats) = stats(disk, dir)? else { return Ok(()) };
    for run in &stats.runs {
        let each = |bytes: u64| bytes as f64 / run.info.entries as f64;
        println!(
            "run of level {:?}: {} entries, {:.2} bytes each: {:.2} in blocks, {:.2} filter",
            run.info.level,
            run.info.entries,
            each(run.info.bytes),
            each(run.blocks * 4096),
            each(run.filter_bytes),
        );
    }
    let (ns, verified) = timed(|| verify(disk, dir));
    verified?;
    let entries = stats.runs.iter().map(|run| run.info.entries).sum();
    row("verify", ns, entries);
    Ok(())
}

fn read(mut indexer: Indexer, entries: u64) -> Outcome {
    let (ns, loaded) = timed(|| while_worked(&mut indexer, Lsn(u64::MAX >> 1)));
    loaded?;
    println!("{:<44} {:>9.2} ms", "load the filters", ns as f64 / 1e6);
    let index = indexer.index();
    let is_bottom = |level| level == Level::Bottom;
    let newer = index.runs().filter(|run| !is_bottom(run.level)).count();
    println!("{newer} runs above the bottom");
    let in_runs: u64 = index.runs().map(|run| run.entries).sum();
    let mut sum = 0_u64;
    let mut visit = |entry: &Entry| {
        sum += entry.place().map_or(0, |place| u64::from(place.addr().ordinal()));
    };
    let (ns, pass) = timed(|| -> logindex::Result<_> {
        let mut pass = index.live_pass(Judge::Settled(Scopes::without_map()))?;
        while !pass.step(8192, &mut visit)? {}
        Ok(pass)
    });
    println!("{:?}, checksum {sum}", pass?.counts());
    row("live_pass, an entry of the runs", ns, in_runs);
    probes(&index, entries)
}

fn probes(index: &Index, entries: u64) -> Outcome {
    let count = 100_000;
    let known: Vec<Name> = (0..count).map(|i| name(i * 104_729 % entries)).collect();
    let absent: Vec<Name> = (0..count).map(|i| name(entries * 4 + i)).collect();
    let mut found = 0_u64;
    let mut probe = |names: &[Name]| -> logindex::Result<()> {
        for name in names {
            found += u64::from(index.probe(*name)?.is_some());
        }
        Ok(())
    };
    let (ns, result) = timed(|| probe(&absent));
    result?;
    row("probe, absent", ns, count);
    let (ns, result) = timed(|| probe(&known));
    result?;
    row("probe, block not in memory (page cache)", ns, count);
    // So few that their blocks are in memory.
    let few = &known[..2000];
    probe(few)?;
    let (ns, result) = timed(|| (0..20).try_for_each(|_| probe(few)));
    result?;
    row("probe, block in memory", ns, 20 * few.len() as u64);
    let (ns, unknown) = timed(|| {
        let is_unknown = |name: &&Name| index.probe_cached(**name) == Cached::Unknown;
        (0..20).map(|_| few.iter().filter(is_unknown).count()).sum::<usize>()
    });
    row("probe_cached", ns, 20 * few.len() as u64);
    println!("{found} found, {unknown} unknown, {} bytes cached", index.cached_bytes());
    Ok(())
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: figures DIRECTORY [MILLIONS …]")?;
    let mut sizes: Vec<u32> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1, 10];
    }
    sizes.into_iter().try_for_each(|millions| measure(Path::new(&dir), millions))
}
