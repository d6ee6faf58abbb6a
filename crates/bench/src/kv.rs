//! Random point accesses and short scans of one table, for comparing stores.
//!
//! `--keys` keys of 16 bytes with values of `--value-bytes` are inserted in random order, then
//! read, overwritten and scanned at random, each for `--seconds`. Each read or write is its own
//! transaction; a scan visits 100 entries.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::engine::{Commit, Connection, Counters, Direction, Engine, Kind, Settings, Table};
use crate::error::{Error, Result};
use crate::json;
use crate::process_count::ProcessCount;

const TABLE: Table = Table(0);
/// Keys inserted per transaction while the table is created.
const LOAD_BATCH: u64 = 1000;
/// Entries per scan.
const SCAN_ENTRIES: u32 = 100;

/// The arguments of `indelible-bench kv`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The store.
    #[arg(long, value_enum)]
    pub engine: Kind,
    /// The directory for its files; must not exist yet.
    #[arg(long)]
    pub dir: PathBuf,
    /// The number of keys.
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u64,
    /// The size of a value.
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Memory for the store.
    #[arg(long, default_value_t = 40)]
    pub pool_mb: usize,
    /// What a commit guarantees.
    #[arg(long, value_enum, default_value = "immediate")]
    pub commit: Commit,
    /// How long each kind of access is measured, in seconds.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A file for the result.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// One kind of access.
#[derive(Debug, serde::Serialize)]
struct Phase {
    what: &'static str,
    operations: u64,
    seconds: f64,
    per_second: f64,
    counters: Counters,
    process: ProcessCount,
}

#[derive(Debug, serde::Serialize)]
struct Outcome<'a> {
    engine: Kind,
    commit: Commit,
    keys: u64,
    value_bytes: usize,
    pool_mb: usize,
    phases: &'a [Phase],
}

/// Keys are spread over the whole range, in an order unrelated to their numbers.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

struct Bench<'e> {
    engine: &'e dyn Engine,
    connection: Box<dyn Connection + 'e>,
    random: fastrand::Rng,
    arguments: &'e Arguments,
}

impl Bench<'_> {
    /// Runs one transaction, retrying after each conflict.
    fn transact<T>(&mut self, body: impl FnMut(&mut dyn Connection) -> Result<T>) -> Result<T> {
        self.transact_from(|connection| connection.begin(), body)
    }

    /// As [`Bench::transact`], for a read-only transaction.
    fn transact_reading<T>(
        &mut self,
        body: impl FnMut(&mut dyn Connection) -> Result<T>,
    ) -> Result<T> {
        self.transact_from(|connection| connection.begin_read(), body)
    }

    fn transact_from<T>(
        &mut self,
        begin: impl Fn(&mut dyn Connection) -> Result<()>,
        mut body: impl FnMut(&mut dyn Connection) -> Result<T>,
    ) -> Result<T> {
        loop {
            let connection = self.connection.as_mut();
            begin(connection)?;
            let done = body(connection).and_then(|value| connection.commit().map(|()| value));
            match done {
                Err(Error::Conflict) => connection.abort()?,
                other => return other,
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = vec![0; self.arguments.value_bytes];
        self.random.fill(&mut value);
        value
    }

    fn measure(
        &mut self,
        what: &'static str,
        limit: Option<u64>,
        mut operation: impl FnMut(&mut Self, u64) -> Result<u64>,
    ) -> Result<Phase> {
        let (counters, process) = (self.engine.counters(), ProcessCount::now(&self.arguments.dir));
        let patience = Duration::from_secs_f64(self.arguments.seconds);
        let (began, mut operations) = (Instant::now(), 0);
        while limit.map_or_else(|| began.elapsed() < patience, |limit| operations < limit) {
            operations += operation(self, operations)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "it is for people to read")]
        let per_second = operations as f64 / seconds;
        println!("{what:<10} {per_second:>12.0} /s");
        let counters = self.engine.counters().since(&counters);
        let process = ProcessCount::now(&self.arguments.dir).since(process);
        Ok(Phase { what, operations, seconds, per_second, counters, process })
    }

    fn load(&mut self, done: u64) -> Result<u64> {
        let batch = LOAD_BATCH.min(self.arguments.keys - done);
        let values: Vec<_> = (0..batch).map(|_| self.value()).collect();
        self.transact(|connection| {
            let mut numbers = done..;
            values
                .iter()
                .zip(&mut numbers)
                .try_for_each(|(value, number)| connection.put(TABLE, &key(number), value))
        })?;
        Ok(batch)
    }

    fn read(&mut self) -> Result<u64> {
        let key = key(self.random.u64(..self.arguments.keys));
        let value = self.transact_reading(|connection| connection.get(TABLE, &key))?;
        match value {
            Some(value) if value.len() == self.arguments.value_bytes => Ok(1),
            other => Err(Error::damaged(format!("{key:?} has {other:?}"))),
        }
    }

    fn write(&mut self) -> Result<u64> {
        let key = key(self.random.u64(..self.arguments.keys));
        let value = self.value();
        self.transact(|connection| connection.put(TABLE, &key, &value))?;
        Ok(1)
    }

    fn scan(&mut self) -> Result<u64> {
        let low = self.random.u64(..).to_be_bytes();
        self.transact_reading(|connection| {
            let mut seen = 0;
            connection.scan(TABLE, &low, &[0xff; 17], Direction::Up, &mut |_, _| {
                seen += 1;
                seen < SCAN_ENTRIES
            })
        })?;
        Ok(1)
    }
}

/// Creates the table and measures it.
///
/// # Errors
/// Errors of the store and its files; data that differ from what was written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut settings = Settings::new(&arguments.dir, &["kv"], arguments.commit);
    settings.pool_bytes = arguments.pool_mb << 20;
    std::fs::create_dir(&arguments.dir).map_err(Error::file(&arguments.dir))?;
    let engine = arguments.engine.open(&settings)?;
    let random = fastrand::Rng::with_seed(arguments.seed);
    let connection = engine.connect()?;
    let mut bench = Bench { engine: engine.as_ref(), connection, random, arguments };
    let phases = [
        bench.measure("load", Some(arguments.keys), Bench::load)?,
        bench.measure("read", None, |bench, _| bench.read())?,
        bench.measure("write", None, |bench, _| bench.write())?,
        bench.measure("scan", None, |bench, _| bench.scan())?,
    ];
    drop(bench);
    engine.close()?;
    let Arguments { engine, commit, keys, value_bytes, pool_mb, .. } = *arguments;
    let outcome = Outcome { engine, commit, keys, value_bytes, pool_mb, phases: &phases };
    json::write(arguments.json.as_deref(), &outcome)
}
