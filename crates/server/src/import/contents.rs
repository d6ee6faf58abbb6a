//! What was found and what was made of it, counted, and told.

use std::collections::BTreeMap;
use std::fmt;

use keyspace::{Keyspace, Type};

/// The types of values, in the order in which they are told.
const TYPES: [Type; 6] =
    [Type::String, Type::List, Type::Set, Type::ZSet, Type::Hash, Type::Stream];

/// The keys of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    by_type: [u64; TYPES.len()],
    pub(super) expiring: u64,
}

impl Keys {
    pub(super) fn note(&mut self, value_type: Type) {
        let place = TYPES.iter().position(|other| *other == value_type);
        self.by_type[place.expect("all types are there")] += 1;
    }

    fn sum(&self) -> u64 {
        self.by_type.iter().sum()
    }

    fn add(&mut self, other: Self) {
        self.by_type.iter_mut().zip(other.by_type).for_each(|(own, other)| *own += other);
        self.expiring += other.expiring;
    }
}

/// As `5 keys, 1 expire: string 3, hash 2`.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys, {} expire: ", self.sum(), self.expiring)?;
        let some = TYPES.iter().zip(self.by_type).filter(|(_, count)| *count > 0);
        let some: Vec<String> = some.map(|(it, count)| format!("{} {count}", it.name())).collect();
        f.write_str(&some.join(", "))
    }
}

/// What is in files, or came out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    databases: BTreeMap<u32, Keys>,
    /// What is not served: refused, or left out.
    pub(super) not_served: BTreeMap<String, u64>,
    /// Libraries of functions.
    pub(super) libraries: u64,
    /// What holds no data that is served here: what belongs to a cluster or a module.
    pub(super) left_out: BTreeMap<&'static str, u64>,
    /// Keys of a dump that had expired, and were left out.
    pub(super) expired: u64,
    /// Keys of AOFs that have expired since they were written: they are imported, and go at the first look at them.
    pub(super) past: u64,
    /// Keys of a dump without elements, which Redis leaves out too.
    pub(super) empty: u64,
    /// Commands of AOFs.
    pub(super) commands: u64,
}

impl Contents {
    /// Adds the keys of a database.
    pub(super) fn add(&mut self, database: u32, keys: Keys) {
        if keys.sum() > 0 {
            self.databases.entry(database).or_default().add(keys);
        }
    }

    pub(super) fn note_not_served(&mut self, what: &str) {
        match self.not_served.get_mut(what) {
            Some(count) => *count += 1,
            None => _ = self.not_served.insert(what.to_owned(), 1),
        }
    }

    pub(super) fn note_left_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }

    /// Counts what a keyspace has, in place of what commands were read.
    pub(super) fn count(&mut self, keyspace: &mut Keyspace) {
        self.databases.clear();
        for db in keyspace.databases() {
            let mut keys = Keys::default();
            keyspace.for_each_key(db, None, |_, value_type| keys.note(value_type));
            let (count, expiring) = keyspace.size(db);
            keys.expiring = expiring as u64;
            // They are there until something looks for them, and in what is made.
            self.past += (count as u64).saturating_sub(keys.sum());
            self.add(u32::try_from(db.get()).expect("databases are few"), keys);
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.databases.values().map(Keys::sum).sum()
    }

    /// How many commands of AOFs were read.
    #[must_use]
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// What is not served, with counts; `None` if all is.
    pub(super) fn not_served_text(&self) -> Option<String> {
        (!self.not_served.is_empty()).then(|| counts(&self.not_served))
    }

    /// What is in it, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .databases
            .iter()
            .map(|(index, keys)| format!("database {index}: {keys}"))
            .collect();
        if self.databases.is_empty() {
            lines.push("no keys".to_owned());
        }
        if self.libraries > 0 {
            lines.push(format!("libraries of functions: {}", self.libraries));
        }
        if self.commands > 0 {
            lines.push(format!("commands of AOFs: {}", self.commands));
        }
        if self.expired > 0 {
            lines.push(format!("keys that have expired, left out: {}", self.expired));
        }
        if self.past > 0 {
            lines
                .push(format!("keys that have expired, removed by the first start: {}", self.past));
        }
        if self.empty > 0 {
            lines.push(format!("keys without elements, left out: {}", self.empty));
        }
        if !self.left_out.is_empty() {
            lines.push(format!("left out: {}", counts(&self.left_out)));
        }
        if let Some(text) = self.not_served_text() {
            lines.push(format!("not served, left out: {text}"));
        }
        lines
    }
}

fn counts<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    let all: Vec<String> =
        counts.iter().map(|(what, count)| format!("{count} {}", what.as_ref())).collect();
    all.join(", ")
}

/// What an import has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is in the log.
    pub contents: Contents,
    /// What the user should know of the files.
    pub warnings: Vec<String>,
    /// How long the files are.
    pub source_bytes: u64,
    /// How much was written to the log.
    pub log_bytes: u64,
    /// How long it took, all passes.
    pub micros: u64,
}

impl Report {
    /// What to show, a line each, the warnings first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.warnings.iter().map(|warning| format!("WARNING: {warning}")).collect();
        lines.extend(self.contents.lines());
        let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let seconds = self.micros as f64 / 1e6;
        lines.push(format!(
            "{:.1} MiB in {seconds:.1} s ({:.0} MiB/s, {:.0} keys/s); {:.1} MiB of log",
            megabytes(self.source_bytes),
            megabytes(self.source_bytes) / seconds.max(1e-6),
            self.contents.keys() as f64 / seconds.max(1e-6),
            megabytes(self.log_bytes)
        ));
        lines
    }
}
