//! `indelible rdb diff`: which keys of two dumps differ, in whatever order they stand.
//!
//! ```text
//!   first  ──► 20 bytes a key: hash of its name, hash of its value ──► sorted
//!   second ──► each key looked up: the same, different, only here; what was found is marked
//!   first  ──► again, if keys are not marked: their names
//! ```
//!
//! Two names are taken for the same by 96 bits of SHA-1, two values by 64 and their number of elements. Elements without
//! an order are combined as DEBUG DIGEST does, by XOR: chance does not hide a difference, but a dump can be made for that.

use std::process::ExitCode;

use rdb::{Event, Fingerprint, Key};

use super::Dump;

/// At most so many keys are named.
const NAMED_MAX: u64 = 100;

const NAME_BYTES: usize = 12;
const VALUE_BYTES: usize = 8;

/// A key with its value, as hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: [u8; NAME_BYTES],
    value: [u8; VALUE_BYTES],
}

/// A key of a dump and the fingerprint of its value so far.
struct Open {
    database: u32,
    key: Vec<u8>,
    value: Fingerprint,
    /// How many elements have come.
    count: u64,
}

/// Makes entries of events.
#[derive(Default)]
struct Entries {
    database: u32,
    open: Option<Open>,
    functions: Fingerprint,
}

impl Entries {
    /// Takes the next event; what is complete with it goes to `each`.
    fn take(&mut self, event: &Event<'_>, mut each: impl FnMut(&Open, Entry)) {
        let database = self.database;
        match event {
            Event::Database(index) => self.database = *index,
            Event::Function(code) => self.functions.member(code),
            Event::Key(Key { key, kind, expires_at_ms, .. }) => {
                let mut value = Fingerprint::of_key(&expires_at_ms.unwrap_or(-1).to_le_bytes());
                value.kind(*kind);
                self.open = Some(Open { database, key: key.to_vec(), value, count: 0 });
            }
            Event::Field { name, value, expires_at_ms: Some(at_ms) } => {
                // When a field expires is not in the fingerprint, so it stands next to its value.
                if let Some(open) = &mut self.open {
                    open.count += 1;
                    open.value.field(name, &[*value, &at_ms.to_le_bytes()].concat(), true);
                }
            }
            // What the fingerprint has nothing of, as DEBUG DIGEST has not. Which times a consumer has depends on the version.
            Event::Numbers(_) | Event::Pending(_) | Event::Held(_) => {
                if let Some(open) = &mut self.open {
                    open.value.item(format!("{event:?}").as_bytes());
                }
            }
            Event::Group { name, last_id, .. } => {
                if let Some(open) = &mut self.open {
                    open.value.pair(name, last_id.to_string().as_bytes());
                }
            }
            Event::Consumer { name, seen_ms, .. } => {
                if let Some(open) = &mut self.open {
                    open.value.pair(name, &seen_ms.to_le_bytes());
                }
            }
            Event::Foreign { key, what } => {
                let value = Fingerprint::of_key(what.as_bytes());
                let open = Open { database, key: key.to_vec(), value, count: 0 };
                each(&open, open.entry());
            }
            Event::EndOfKey => {
                if let Some(mut open) = self.open.take() {
                    // Two that are the same have no trace otherwise.
                    open.value.item(&open.count.to_le_bytes());
                    each(&open, open.entry());
                }
            }
            element => {
                if let Some(open) = &mut self.open {
                    open.count += 1;
                    open.value.take(element);
                }
            }
        }
    }
}

impl Open {
    fn entry(&self) -> Entry {
        let mut name = Fingerprint::of_key(&self.database.to_be_bytes());
        name.item(&self.key);
        Entry { name: front(&name), value: front(&self.value) }
    }

    fn text(&self) -> String {
        format!("database {} key \"{}\"", self.database, self.key.escape_ascii())
    }
}

fn front<const N: usize>(fingerprint: &Fingerprint) -> [u8; N] {
    *fingerprint.bytes().first_chunk().expect("fingerprints are longer")
}

/// What differs, and how much of it was named.
#[derive(Default)]
struct Findings {
    same: u64,
    differ: u64,
    only_first: u64,
    only_second: u64,
    twice: u64,
    named: u64,
}

impl Findings {
    fn name(&mut self, what: &str, open: &Open) {
        if self.named < NAMED_MAX {
            println!("{what}: {}", open.text());
        }
        self.named += 1;
    }
}

/// Compares two dumps.
pub(super) fn diff(first: &Dump<'_>, second: &Dump<'_>) -> anyhow::Result<ExitCode> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut firsts = Entries::default();
    first.read(|event| firsts.take(event, |_, entry| entries.push(entry)))?;
    entries.shrink_to_fit();
    entries.sort_unstable();
    let mut findings = Findings::default();
    findings.twice += entries.windows(2).filter(|pair| pair[0].name == pair[1].name).count() as u64;

    let mut is_found = vec![0_u64; entries.len().div_ceil(64)];
    let mut seconds = Entries::default();
    second.read(|event| {
        seconds.take(event, |open, entry| {
            let from = entries.partition_point(|other| other.name < entry.name);
            match entries.get(from).filter(|other| other.name == entry.name) {
                None => {
                    findings.only_second += 1;
                    findings.name("only in the second", open);
                }
                Some(other) => {
                    findings.twice += is_found[from / 64] >> (from % 64) & 1;
                    is_found[from / 64] |= 1 << (from % 64);
                    if *other == entry {
                        findings.same += 1;
                    } else {
                        findings.differ += 1;
                        findings.name("differs", open);
                    }
                }
            }
        });
    })?;

    let is_missing = |at: usize| {
        let is_other_of_two = at > 0 && entries[at - 1].name == entries[at].name;
        is_found[at / 64] >> (at % 64) & 1 == 0 && !is_other_of_two
    };
    findings.only_first = (0..entries.len()).filter(|at| is_missing(*at)).count() as u64;
    if findings.only_first > 0 && findings.named < NAMED_MAX {
        let mut again = Entries::default();
        first.read(|event| {
            again.take(event, |open, entry| {
                let at = entries.partition_point(|other| other.name < entry.name);
                if entries.get(at).is_some_and(|other| other.name == entry.name) && is_missing(at) {
                    findings.name("only in the first", open);
                }
            });
        })?;
    }
    let functions_differ = firsts.functions != seconds.functions;
    Ok(report(&findings, functions_differ))
}

fn report(findings: &Findings, functions_differ: bool) -> ExitCode {
    let Findings { same, differ, only_first, only_second, twice, .. } = *findings;
    let differences = differ + only_first + only_second;
    if differences > NAMED_MAX {
        println!("… and {} more", differences - NAMED_MAX);
    }
    if functions_differ {
        println!("libraries of functions differ");
    }
    if twice > 0 {
        println!("{twice} keys stand twice in a dump: no server writes that");
    }
    println!(
        "{same} keys are the same, {differ} differ, {only_first} are only in the first dump, \
         {only_second} only in the second"
    );
    if differences == 0 && twice == 0 && !functions_differ {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
