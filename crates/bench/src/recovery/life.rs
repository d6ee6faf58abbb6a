//! A life of the database: the process that is started, serves, and is killed.
//!
//! ```text
//!   exec ─► Database::open ─► rounds: a request of each client that waits for none
//!    │                                seal · replies · keys that were restored
//!    └ the clients' first requests are made here, whatever is served yet
//! ```
//!
//! One thread executes, as in the server and in Redis. Clients are in the same process: there is no
//! network, so that what is measured is the database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::DbIndex;
use env::Clock as _;
use env_os::OsClock;
use keyspace::StringRef;
use redo::Waker;

use super::database::{Database, Place};
use super::ledger::{Allowed, Ledger};
use super::timeline::{SinceExec, Timeline, event};
use super::workload::{Clients, Demand, filled, value, write_key};
use crate::error::{Error, Result};

/// How long the executor waits for something to happen before it looks.
const IDLE_WAIT: Duration = Duration::from_micros(100);
/// How often the log's schedule is looked at.
const TICK_NS: u64 = 100_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// More than there are versions of values in a microsecond.
const VERSIONS_PER_US: u64 = 1024;

/// What the clients do.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) demand: Demand,
    /// Where to note what was acknowledged.
    pub(super) ledger: Option<PathBuf>,
    /// When the process was started, in microseconds since 1970.
    pub(super) exec_us: u64,
}

/// Serves `load` until that is done and every key is restored, or until it is killed.
pub(super) fn serve(place: &Place, load: &Load) -> Result<()> {
    let since_exec = SinceExec::new(load.exec_us);
    let ledger = load.ledger.as_deref().map(Ledger::create).transpose()?;
    let version = load.exec_us * VERSIONS_PER_US;
    let mut clients = Clients::new(load.demand, place.keys, version, ledger);
    let mut timeline = Timeline::new();
    let executor = std::thread::current();
    let waker: Waker = Arc::new(move || executor.unpark());
    let clock = OsClock::new();

    let mut database = Database::open(place, &waker)?;
    let opened_ns = since_exec.ns();
    event("records_read", database.records_read)?;
    event("serving_ms", opened_ns / NS_PER_MS)?;
    // Before this nothing was answered, nor was a key in memory.
    timeline.advance(opened_ns, 0)?;
    let (mut is_restored, mut is_complete, mut next_tick_ns) = (false, false, 0);
    while !(is_restored && is_complete) {
        clients.execute(&mut database.keyspace, since_exec.ns(), clock.now_ms())?;
        let journal = database.keyspace.journal_mut();
        journal.seal()?;
        let durable = journal.poll();
        let now_ns = since_exec.ns();
        clients.reply(durable, now_ns, &mut timeline.latencies)?;
        if now_ns >= next_tick_ns {
            next_tick_ns = now_ns + TICK_NS;
            journal.tick();
        }
        let has_restored = database.restore_some()?;
        timeline.advance(now_ns, database.restored())?;
        if !is_restored && database.is_restored() {
            is_restored = true;
            event("restored_ms", since_exec.ns() / NS_PER_MS)?;
        }
        if !is_complete && clients.are_done() {
            is_complete = true;
            event("complete_ms", now_ns / NS_PER_MS)?;
        }
        if !clients.has_ready() && !has_restored {
            std::thread::park_timeout(IDLE_WAIT);
        }
    }
    timeline.end(database.restored())
}

/// Where a check finds what it compares.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) ledger: PathBuf,
    /// The state that the life before began with, if that was not the fill.
    pub(super) state: PathBuf,
    pub(super) records_per_key: u64,
}

/// Compares a database that was killed with the ledger: once each key is asked for, once all come
/// unasked. Leaves the state in a file, for the check after the next life.
pub(super) fn check(place: &Place, expected: &Expected) -> Result<()> {
    let before = match read_state(&expected.state)? {
        Some(state) => state,
        None => filled(place.keys, expected.records_per_key),
    };
    let allowed = Allowed::read(&expected.ledger, before)?;
    let states = allowed.states();
    let mut found = None;
    for traverses in [false, true] {
        let place = Place { traverses, ..place.clone() };
        let restored = restore(&place)?;
        if !states.contains(&restored) {
            return Err(Error::damaged(difference(&restored, &states, traverses)));
        }
        found = Some(restored);
    }
    write_state(&expected.state, &found.expect("restored twice"))?;
    event("acknowledged", allowed.acknowledged() as u64)
}

/// The versions of all keys' values.
fn restore(place: &Place) -> Result<HashMap<u64, u64>> {
    let executor = std::thread::current();
    let waker: Waker = Arc::new(move || executor.unpark());
    let mut database = Database::open(place, &waker)?;
    while place.traverses && !database.is_restored() {
        if !database.restore_some()? {
            std::thread::park_timeout(IDLE_WAIT);
        }
    }
    let mut versions = HashMap::new();
    let mut key = String::new();
    for number in 0..place.keys {
        write_key(&mut key, number);
        database.keyspace.begin_command(0);
        let found = database.keyspace.string(DbIndex::FIRST, key.as_bytes());
        let version = match found {
            Ok(Some(StringRef::Bytes(bytes))) => version_of(bytes)
                .filter(|version| value(number, *version) == bytes)
                .ok_or_else(|| Error::damaged(format!("{key} has a value of its own"))),
            other => Err(Error::damaged(format!("{key} is {other:?}"))),
        };
        versions.insert(number, version?);
    }
    if let Some(error) = database.keyspace.take_restore_failure() {
        return Err(Error::damaged(error.to_string()));
    }
    Ok(versions)
}

fn version_of(value: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(value.get(16..)?).ok()?, 16).ok()
}

fn difference(
    restored: &HashMap<u64, u64>,
    states: &[HashMap<u64, u64>],
    traverses: bool,
) -> String {
    let how = if traverses { "unasked" } else { "on demand" };
    let wrong = |state: &HashMap<u64, u64>| {
        restored.iter().filter(|(key, version)| state.get(key) != Some(version)).count()
    };
    let least = states.iter().map(wrong).min().unwrap_or_default();
    format!("restored {how}, at least {least} keys are not what was acknowledged")
}

fn read_state(path: &Path) -> Result<Option<HashMap<u64, u64>>> {
    if !path.exists() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(Error::file(path))?;
    let state: Vec<(u64, u64)> = serde_json::from_reader(std::io::BufReader::new(file))
        .map_err(|error| Error::damaged(format!("{}: {error}", path.display())))?;
    Ok(Some(state.into_iter().collect()))
}

fn write_state(path: &Path, state: &HashMap<u64, u64>) -> Result<()> {
    let text = serde_json::to_string(&state.iter().collect::<Vec<_>>()).expect("plain data");
    std::fs::write(path, text).map_err(Error::file(path))
}
