//! Recovery after `kill -9`: the evaluation of paper 002, section 5.
//!
//! ```text
//!   fill ─► copy ─► [life under load ─ kill -9] ─► life: exec ─► served ─► restored
//!                    --crash-at                          └─ load from the exec on ─► complete
//! ```
//!
//! | scheme | its records | a start |
//! |---|---|---|
//! | `slr` | in a sequential log | reads all of it, then serves |
//! | `ailir` | and in a tree, put there after the commit | what the tree misses is put there; then serves, and restores keys on demand and unasked |
//! | `ailir-newest` | the same, but the newest record of a key only | the same |
//! | `silir` | in the tree alone, put there by the commit | serves at once, and restores as `ailir` |
//! | `runs` | in the log; an index of where the newest are | as the server's, by its own code |
//!
//! The paper compares `slr`, `ailir` and `silir` on Redis 5.0.7 with Berkeley DB, under memtier. Here
//! the log is `redo`, the tree is `pages`, and the keyspace and the executor are the same for all.
//!
//! # Where this is not what the paper does
//! - The clients are in the process of the database (see `life`), so rates are those of a store
//!   without a network, and a load of the paper's size is over sooner.
//! - A reply waits for its block's sync, which all clients share that wrote in the meantime. Of the
//!   paper's Redis it is not said.
//! - The traversal is a thread of its own, and does not pause for what is asked for: the executor
//!   reads that itself. The paper's restorer is one that does both.
//! - A tree has an entry a record, next to each other, instead of a node a key.
//! - `kill -9` leaves the page cache, so logs and trees are read from memory. What the paper's
//!   shutdown left is not said. `runs` reads single records past the page cache, as the server does.

mod background;
mod database;
pub mod figures;
mod fill;
mod indexer;
mod journal;
mod ledger;
mod life;
mod lives;
mod scheme;
mod timeline;
mod tree;
mod workload;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use database::Place;
use life::{Expected, Load};
use lives::{Told, Until};
use workload::Demand;

use crate::error::{Error, Result};
use crate::json;

pub use scheme::Scheme;
pub use workload::Workload;

const NS_PER_S: u64 = 1_000_000_000;

/// The length of a step of a life's course.
const STEP_MS: u64 = 100;

/// The arguments of `indelible-bench recovery`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How the database logs and recovers.
    #[arg(long, value_enum)]
    pub scheme: Scheme,
    /// The directory for the database; what was filled there is used again.
    #[arg(long)]
    pub dir: PathBuf,
    /// The number of keys.
    #[arg(long, default_value_t = 99_507)]
    pub keys: u64,
    /// How often each key was written.
    #[arg(long, default_value_t = 1600)]
    pub records_per_key: u64,
    /// Divides the records of a key.
    #[arg(long, default_value_t = 1)]
    pub scale: u64,
    /// Which requests the clients make.
    #[arg(long, value_enum, default_value = "rw")]
    pub workload: Workload,
    /// Clients, each waiting for its reply.
    #[arg(long, default_value_t = 200)]
    pub clients: usize,
    /// Requests of each client.
    #[arg(long, default_value_t = 170_000)]
    pub requests: u64,
    /// Requests a second of all clients together; 0: as many as are answered.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Kill the database after so many seconds under load; 0: without load.
    #[arg(long, default_value_t = 0.0)]
    pub crash_at: f64,
    /// From when these seconds count.
    #[arg(long, value_enum, default_value = "restored")]
    pub crash_from: CrashFrom,
    /// How often it is killed under load, one life after the other.
    #[arg(long, default_value_t = 1)]
    pub crashes: usize,
    /// Compare what each crash leaves with what was acknowledged.
    #[arg(long)]
    pub check: bool,
    /// Compact the log; of slr and runs only.
    #[arg(long)]
    pub compaction: bool,
    /// Memory for the pages of a tree.
    #[arg(long, default_value_t = 256)]
    pub pool_mb: usize,
    /// A file for the result.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// A file for the course of the last life, in steps of 100 ms.
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// What this process is to be.
    #[arg(long, value_enum, hide = true, default_value = "whole")]
    pub role: Role,
    /// When this process was started.
    #[arg(long, hide = true, default_value_t = 0)]
    pub exec_us: u64,
}

/// A moment in the life of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CrashFrom {
    /// It serves its clients; most keys may not be in memory yet.
    Served,
    /// All keys are in memory.
    Restored,
}

impl CrashFrom {
    /// The event that a life tells of it by.
    const fn event(self) -> &'static str {
        match self {
            Self::Served => "serving_ms",
            Self::Restored => "restored_ms",
        }
    }
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Starts the others.
    Whole,
    /// Fills the log.
    Fill,
    /// Makes trees and index of the log.
    Index,
    /// Serves the load without end, until it is killed.
    Crash,
    /// Serves the load to its end.
    Recover,
    /// Compares what is left with what was acknowledged.
    Check,
}

impl Arguments {
    fn records(&self) -> u64 {
        (self.records_per_key / self.scale.max(1)).max(1)
    }

    /// The arguments of a process that lives in `dir`.
    fn for_life(&self, role: Role, dir: &Path, exec_us: u64) -> Vec<OsString> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.expect("none is skipped").get_name().to_owned()
        };
        let mut words: Vec<OsString> = vec!["recovery".into(), "--dir".into(), dir.into()];
        let options = [
            ("--scheme", name(self.scheme.to_possible_value())),
            ("--workload", name(self.workload.to_possible_value())),
            ("--role", name(role.to_possible_value())),
            ("--keys", self.keys.to_string()),
            ("--records-per-key", self.records().to_string()),
            ("--clients", self.clients.to_string()),
            ("--requests", self.requests.to_string()),
            ("--rate", self.rate.to_string()),
            ("--pool-mb", self.pool_mb.to_string()),
            ("--exec-us", exec_us.to_string()),
        ];
        for (option, value) in options {
            words.extend([option.into(), value.into()]);
        }
        words.extend(self.compaction.then(|| "--compaction".into()));
        words.extend(self.check.then(|| "--check".into()));
        words
    }

    fn place(&self) -> Place {
        Place {
            dir: self.dir.clone(),
            scheme: self.scheme,
            keys: self.keys,
            pool_bytes: self.pool_mb << 20,
            compacts: self.compaction,
            traverses: true,
        }
    }

    fn load(&self, requests: u64) -> Load {
        let Self { workload, clients, rate, .. } = *self;
        let interval_ns = (clients as u64 * NS_PER_S).checked_div(rate).unwrap_or_default();
        Load {
            demand: Demand { workload, clients, requests, interval_ns },
            ledger: self.check.then(|| self.dir.join("ledger")),
            exec_us: self.exec_us,
        }
    }
}

/// A run's result.
#[derive(Debug, serde::Serialize)]
struct Outcome {
    scheme: Scheme,
    workload: Workload,
    keys: u64,
    records_per_key: u64,
    clients: usize,
    requests_per_client: u64,
    /// 0: as many as were answered.
    rate: u64,
    crash_at_seconds: f64,
    compaction: bool,
    pool_mb: usize,
    /// Before the crash, with all keys in memory.
    requests_per_second_before: Option<f64>,
    /// What the start read of the log before it served.
    records_read: u64,
    /// From the exec on.
    serving_ms: u64,
    restored_ms: u64,
    complete_ms: u64,
    /// Over all of the load, from the exec on.
    requests_per_second: f64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    /// Of the disk, when the last life began.
    bytes: u64,
}

/// Runs the experiment, or the part of it that this process is for.
///
/// # Errors
/// Errors of stores and files; a state that is not what was acknowledged.
pub fn run(arguments: &Arguments) -> Result<()> {
    let dir = &arguments.dir;
    match arguments.role {
        Role::Whole => whole(arguments),
        Role::Fill => fill::fill_log(dir, arguments.keys, arguments.records()),
        Role::Index => fill::index(dir, arguments.scheme),
        Role::Crash => life::serve(&arguments.place(), &arguments.load(u64::MAX)),
        Role::Recover => life::serve(&arguments.place(), &arguments.load(arguments.requests)),
        Role::Check => {
            let (ledger, state) = (dir.join("ledger"), dir.join("state"));
            let expected = Expected { ledger, state, records_per_key: arguments.records() };
            life::check(&arguments.place(), &expected)
        }
    }
}

fn whole(arguments: &Arguments) -> Result<()> {
    if arguments.compaction && !arguments.scheme.may_compact() {
        let why = "the paper's schemes keep every record: --compaction is for slr and runs";
        return Err(Error::engine("recovery")(&why));
    }
    let filled = lives::fill(arguments)?;
    let dir = lives::copy(arguments, &filled)?;
    let mut before = None;
    if arguments.crash_at > 0.0 {
        for _ in 0..arguments.crashes {
            let time = Duration::from_secs_f64(arguments.crash_at);
            let until = Until::After(arguments.crash_from.event(), time);
            let told = lives::live(arguments, Role::Crash, &dir, until)?;
            before = rate(&told);
            if arguments.check {
                let told = lives::live(arguments, Role::Check, &dir, Until::End)?;
                let acknowledged = told.event("acknowledged").unwrap_or_default();
                println!("every write is there that was acknowledged: {acknowledged}");
            }
        }
    }
    let bytes = bytes_below(&dir)?;
    let told = lives::live(arguments, Role::Recover, &dir, Until::End)?;
    let number = |name| told.event(name).unwrap_or_default();
    let (complete_ms, requests) = (number("complete_ms"), number("requests"));
    #[expect(clippy::cast_precision_loss, reason = "it is for people to read")]
    let requests_per_second = requests as f64 * 1000.0 / complete_ms.max(1) as f64;
    let outcome = Outcome {
        scheme: arguments.scheme,
        workload: arguments.workload,
        keys: arguments.keys,
        records_per_key: arguments.records(),
        clients: arguments.clients,
        requests_per_client: arguments.requests,
        rate: arguments.rate,
        crash_at_seconds: arguments.crash_at,
        compaction: arguments.compaction,
        pool_mb: arguments.pool_mb,
        requests_per_second_before: before,
        records_read: number("records_read"),
        serving_ms: number("serving_ms"),
        restored_ms: number("restored_ms"),
        complete_ms,
        requests_per_second,
        p50_us: number("p50_us"),
        p99_us: number("p99_us"),
        p999_us: number("p999_us"),
        max_us: number("max_us"),
        bytes,
    };
    println!(
        "served after {} ms, restored after {} ms, complete after {complete_ms} ms: {requests_per_second:.0} /s",
        outcome.serving_ms, outcome.restored_ms
    );
    json::write(arguments.json.as_deref(), &outcome)?;
    arguments.csv.as_deref().map_or(Ok(()), |path| write_steps(path, &told))
}

/// Requests a second from when all keys were in memory.
#[expect(clippy::cast_precision_loss, reason = "it is for people to read")]
fn rate(told: &Told) -> Option<f64> {
    let restored_ms = told.event("restored_ms")?;
    let after = told.steps.iter().filter(|step| step.ms >= restored_ms + STEP_MS);
    let requests: Vec<u64> = after.map(|step| step.requests).collect();
    let ms = requests.len() as u64 * STEP_MS;
    (ms > 0).then(|| requests.iter().sum::<u64>() as f64 * 1000.0 / ms as f64)
}

fn write_steps(path: &Path, told: &Told) -> Result<()> {
    let write = || {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(file, "ms,requests,p50_us,p99_us,max_us,restored")?;
        for step in &told.steps {
            let lives::Step { ms, requests, p50_us, p99_us, max_us, restored } = step;
            writeln!(file, "{ms},{requests},{p50_us},{p99_us},{max_us},{restored}")?;
        }
        file.flush()
    };
    write().map_err(Error::file(path))
}

fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(Error::file(dir))? {
        let entry = entry.map_err(Error::file(dir))?;
        let metadata = entry.metadata().map_err(Error::file(dir))?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
