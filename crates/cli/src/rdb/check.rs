//! `indelible rdb check`: what is in a dump, and whether every byte of it is right. Whether a key, or a member of a
//! collection, stands twice is not looked for: that would take memory for all of them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use rdb::{Checksum, Event, Key, Kind};

use super::Dump;

/// At most so many databases are told apart.
const DATABASES_MAX: usize = 10_000;

/// The keys of one database.
#[derive(Default)]
struct Database {
    by_kind: BTreeMap<Kind, u64>,
    expiring: u64,
    foreign: BTreeMap<&'static str, u64>,
}

impl Database {
    /// As a line: how many there are, and of what.
    fn text(&self) -> String {
        let kinds = self.by_kind.iter().map(|(kind, count)| (kind.name(), count));
        let foreign = self.foreign.iter().map(|(what, count)| (*what, count));
        let all: u64 = self.by_kind.values().chain(self.foreign.values()).sum();
        let counts: Vec<String> =
            kinds.chain(foreign).map(|(name, count)| format!("{name} {count}")).collect();
        format!("{all} keys, {} expire: {}", self.expiring, counts.join(", "))
    }
}

/// Shows what is in a dump; a dump that is bad is an error.
pub(super) fn check(dump: &Dump<'_>) -> anyhow::Result<ExitCode> {
    // All others together are `None`.
    let mut databases: BTreeMap<Option<u32>, Database> = BTreeMap::new();
    let mut ignored: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut index, mut functions, mut empty) = (Some(0), 0_u64, 0_u64);
    let whole = dump.read(|event| match event {
        Event::Aux { name, value } => {
            println!("{}: {}", name.escape_ascii(), value.escape_ascii());
        }
        Event::Database(now) => {
            let is_told_apart =
                databases.len() < DATABASES_MAX || databases.contains_key(&Some(*now));
            index = is_told_apart.then_some(*now);
        }
        Event::Function(_) => functions += 1,
        Event::Key(Key { kind, expires_at_ms, .. }) => {
            let database = databases.entry(index).or_default();
            *database.by_kind.entry(*kind).or_default() += 1;
            database.expiring += u64::from(expires_at_ms.is_some());
        }
        Event::Foreign { what, .. } => {
            *databases.entry(index).or_default().foreign.entry(what).or_default() += 1;
        }
        Event::Empty { .. } => empty += 1,
        Event::Ignored { what } => *ignored.entry(what).or_default() += 1,
        _ => {}
    })?;
    for (index, database) in &databases {
        let name =
            index.map_or_else(|| "all others".to_owned(), |index| format!("database {index}"));
        println!("{name}: {}", database.text());
    }
    if functions > 0 {
        println!("libraries of functions: {functions}");
    }
    if empty > 0 {
        println!("keys without elements, which no server keeps: {empty}");
    }
    for (what, count) in &ignored {
        println!("skipped: {what}, {count} times");
    }
    let foreign: u64 = databases.values().flat_map(|database| database.foreign.values()).sum();
    if foreign > 0 {
        println!(
            "{foreign} keys are streams of Redis 8.6 or newer, modules' values or arrays: this server has no such types"
        );
    }
    let sum = match whole.checksum {
        Checksum::Right => "the checksum is right",
        Checksum::Absent => "it has no checksum, and what it says was not compared with anything",
    };
    println!("good: {} bytes of {} were read, {sum}", whole.bytes, whole.version);
    Ok(ExitCode::SUCCESS)
}
