//! The state of a keyspace in a form that can be compared: a number a key, and one for all.
//!
//! It is taken of what lies in the keyspace, expired or not, and so does not depend on the time. It
//! is kept up to date key by key; now and then everything is looked at, to find what has changed
//! without a record.

use std::collections::BTreeMap;
use std::convert::Infallible;

use base::DbIndex;
use keyspace::stream::{Delivery, PendingView, StreamId, StreamRecord, StreamView};
use keyspace::{Contents, Inspected, Keyspace};
use rdb::{EntriesRead, Kind, PendingEntry, StreamGroup};

use crate::workload::DATABASES;

/// A key: the index of its database, and its name.
pub(crate) type Name = (DbIndex, Box<[u8]>);

/// See the file's top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    keys: BTreeMap<Name, u64>,
    /// What streams know of producers, which no dump has.
    messages: BTreeMap<Name, u64>,
    /// The libraries of functions.
    libraries: BTreeMap<Box<[u8]>, u64>,
    /// Of keys and libraries.
    total: u64,
    messages_total: u64,
}

impl Picture {
    /// Of everything.
    pub(crate) fn of(keyspace: &Keyspace) -> Self {
        let mut picture = Self::default();
        for db in keyspace.databases() {
            keyspace.inspect(db, |entry| {
                let name = (db, Box::from(entry.key));
                picture.put(name, Some(Digests::of(&entry)));
            });
        }
        picture.look_at_libraries(keyspace);
        picture
    }

    /// Looks at the libraries of functions again.
    pub(crate) fn look_at_libraries(&mut self, keyspace: &Keyspace) {
        for share in std::mem::take(&mut self.libraries).into_values() {
            self.total = self.total.wrapping_sub(share);
        }
        keyspace.libraries().for_each(|(_, source)| self.put_library(source));
    }

    /// Takes a library, whose source names it.
    pub(crate) fn put_library(&mut self, source: &[u8]) {
        let mut share = Hash::new(7);
        share.add(source);
        let share = share.end();
        let first_line = source.split(|byte| *byte == b'\n').next();
        self.libraries.insert(first_line.unwrap_or_default().into(), share);
        self.total = self.total.wrapping_add(share);
    }

    /// One number that says the same as the picture.
    pub(crate) const fn total(&self) -> u64 {
        self.total.wrapping_add(self.messages_total)
    }

    /// The same of what a dump has.
    pub(crate) const fn dumped_total(&self) -> u64 {
        self.total
    }

    /// Whether it has all of another one.
    pub(crate) fn has(&self, other: &Self) -> bool {
        let has_key = |(name, digest)| {
            self.keys.get(name) == Some(digest)
                && self.messages.get(name) == other.messages.get(name)
        };
        other.keys.iter().all(has_key) && self.libraries == other.libraries
    }

    /// Looks at a key again.
    pub(crate) fn look(&mut self, keyspace: &Keyspace, db: DbIndex, key: &[u8]) {
        let digests = keyspace.inspect_key(db, key).map(|entry| Digests::of(&entry));
        self.put((db, Box::from(key)), digests);
    }

    /// Takes a key of a dump.
    ///
    /// # Errors
    /// When it has come before, or its database is none.
    pub(crate) fn put_dumped(&mut self, key: DumpedKey) -> Result<(), String> {
        let (number, name) = (key.name.0 as usize, key.name.1.clone());
        let db = DbIndex::checked(number, DATABASES).ok_or("no such database")?;
        if self.keys.contains_key(&(db, name.clone())) {
            return Err(format!("{} comes twice", name.escape_ascii()));
        }
        self.put((db, name), Some(Digests { contents: key.digest(), messages: None }));
        Ok(())
    }

    fn put(&mut self, name: Name, digests: Option<Digests>) {
        let messages = digests.and_then(|it| it.messages);
        put_share(&mut self.messages, &mut self.messages_total, 11, name.clone(), messages);
        put_share(&mut self.keys, &mut self.total, 0, name, digests.map(|it| it.contents));
    }

    /// The same without the keys that `is_left_out` says.
    pub(crate) fn without(&self, is_left_out: impl Fn(&Name) -> bool) -> Self {
        let mut rest = self.clone();
        for name in self.keys.keys().filter(|name| is_left_out(name)) {
            rest.put(name.clone(), None);
        }
        rest
    }

    /// The first keys in which two pictures differ.
    pub(crate) fn difference(&self, found: &Self) -> String {
        let names = self.keys.keys().chain(found.keys.keys());
        let mut differing: Vec<String> = names
            .filter(|name| {
                self.keys.get(*name) != found.keys.get(*name)
                    || self.messages.get(*name) != found.messages.get(*name)
            })
            .map(|(db, key)| format!("db {db} {}", key.escape_ascii()))
            .collect();
        if self.libraries != found.libraries {
            differing.push("libraries".to_owned());
        }
        differing.sort();
        differing.dedup();
        differing.join(", ")
    }
}

/// Puts the digest of a key among others, or takes it out, and their total along. Each total has a `seed` of its own.
fn put_share(
    digests: &mut BTreeMap<Name, u64>,
    total: &mut u64,
    seed: u64,
    name: Name,
    digest: Option<u64>,
) {
    let mut hash = Hash::new(seed ^ name.0.get() as u64);
    hash.add(&name.1);
    let salt = hash.end();
    let share = |digest: u64| {
        let mut hash = Hash::new(salt);
        hash.word(digest);
        hash.end()
    };
    let old = match digest {
        Some(digest) => {
            *total = total.wrapping_add(share(digest));
            digests.insert(name, digest)
        }
        None => digests.remove(&name),
    };
    if let Some(old) = old {
        *total = total.wrapping_sub(share(old));
    }
}

/// Calls `visit` with the name and the value of every part, in no order.
fn parts_of(contents: &Contents<'_>, mut visit: impl FnMut(&[u8], &[u8])) {
    match contents {
        // The digits' buffer is not ours to name: a number is as good as its text.
        Contents::String(keyspace::StringRef::Int(number)) => {
            visit(b"", number.to_string().as_bytes());
        }
        Contents::String(keyspace::StringRef::Bytes(bytes)) => visit(b"", bytes),
        Contents::List(list) => {
            for (position, element) in (0_u32..).zip(list.iter_from(0)) {
                visit(&position.to_le_bytes(), element);
            }
        }
        Contents::Hash(hash) => hash.for_each_field(|field| {
            visit(field.name, field.value);
            if let Some(at_ms) = field.expires_at_ms {
                visit(field.name, &until(at_ms));
            }
        }),
        Contents::Set(set) => set.iter().for_each(|member| visit(member, b"")),
        Contents::ZSet(zset) => {
            for (rank, (member, score)) in (0_u32..).zip(zset.iter()) {
                visit(member, &scored_value(score, rank));
            }
        }
        Contents::Stream(stream) => {
            for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                let fields: Vec<&[u8]> =
                    entry.pairs().flat_map(|(n, v)| [n, b"=", v, b"&"]).collect();
                visit(entry.id.to_string().as_bytes(), &fields.concat());
            }
            let (last, max_deleted) = (stream.last_id(), stream.max_deleted_id());
            let numbers = format!("{last} {} {max_deleted}", stream.entries_added());
            visit(b"numbers", numbers.as_bytes());
            for group in stream.groups() {
                let read = format!("{} {:?}", group.last_id(), group.entries_read());
                visit(group.name(), read.as_bytes());
                // When one got something is not in every dump.
                for consumer in group.consumers() {
                    let name = [group.name(), b"/", consumer.name()].concat();
                    visit(&name, consumer.seen_ms().to_string().as_bytes());
                }
                let is_given_back = |it: &PendingView<'_>| it.consumer.is_none();
                if group.pending_from(StreamId::MIN).any(|it| is_given_back(&it)) {
                    // A dump has a consumer without a name for what was given back.
                    visit(&[group.name(), b"/"].concat(), b"0");
                }
                for pending in group.pending_from(StreamId::MIN) {
                    let name = [group.name(), b"#", pending.id.to_string().as_bytes()].concat();
                    let Delivery { at_ms, count } = pending.delivery;
                    let held =
                        format!("{:?} {at_ms} {count}", pending.consumer.unwrap_or_default());
                    visit(&name, held.as_bytes());
                }
            }
        }
    }
}

/// A key of a dump, whose value comes part by part.
pub(crate) struct DumpedKey {
    name: (u32, Box<[u8]>),
    kind: Kind,
    expires_at_ms: Option<i64>,
    sum: u64,
    items: u32,
    scored: Vec<(f64, Vec<u8>)>,
}

impl DumpedKey {
    pub(crate) fn new(database: u32, key: &[u8], kind: Kind, expires_at_ms: Option<i64>) -> Self {
        let name = (database, Box::from(key));
        Self { name, kind, expires_at_ms, sum: 0, items: 0, scored: Vec::new() }
    }

    pub(crate) fn part(&mut self, name: &[u8], value: &[u8]) {
        self.sum = self.sum.wrapping_add(part(name, value));
    }

    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
        self.part(name, value);
        if let Some(at_ms) = expires_at_ms {
            self.part(name, &until(at_ms));
        }
    }

    pub(crate) fn item(&mut self, item: &[u8]) {
        self.part(&self.items.to_le_bytes(), item);
        self.items += 1;
    }

    /// A group of a stream.
    pub(crate) fn group(&mut self, group: &StreamGroup) {
        let read = match group.entries_read {
            EntriesRead::Known(count) => Some(count),
            EntriesRead::Unknown | EntriesRead::Unsaid => None,
        };
        self.part(&group.name, format!("{} {read:?}", group.last_id).as_bytes());
        for consumer in &group.consumers {
            let name = [&group.name, &b"/"[..], &consumer.name].concat();
            self.part(&name, consumer.seen_ms.to_string().as_bytes());
            for PendingEntry { id, at_ms, count } in &consumer.pending {
                let name = [&group.name, &b"#"[..], id.to_string().as_bytes()].concat();
                let held = format!("{:?} {at_ms} {count}", &consumer.name[..]);
                self.part(&name, held.as_bytes());
            }
        }
    }

    pub(crate) fn scored(&mut self, member: &[u8], score: f64) {
        self.scored.push((score, member.to_vec()));
    }

    fn digest(mut self) -> u64 {
        let mut scored = std::mem::take(&mut self.scored);
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        for (rank, (score, member)) in (0_u32..).zip(scored) {
            self.part(&member, &scored_value(score, rank));
        }
        let kind = match self.kind {
            Kind::String => 1,
            Kind::List => 2,
            Kind::Hash => 3,
            Kind::Set => 4,
            Kind::ZSet => 5,
            Kind::Stream => 6,
        };
        whole(kind, self.expires_at_ms, self.sum)
    }
}

/// A second value of a field that expires; no field has one that begins so.
fn until(at_ms: i64) -> Vec<u8> {
    format!("\0until {at_ms}").into_bytes()
}

fn scored_value(score: f64, rank: u32) -> Vec<u8> {
    let mut value = score.to_le_bytes().to_vec();
    value.extend_from_slice(&rank.to_le_bytes());
    value
}

fn part(name: &[u8], value: &[u8]) -> u64 {
    let mut part = Hash::new(3);
    part.add(name);
    part.add(value);
    part.end()
}

fn whole(kind: u64, expires_at_ms: Option<i64>, sum: u64) -> u64 {
    let mut whole = Hash::new(kind);
    match expires_at_ms {
        None => whole.word(0),
        Some(at) => {
            whole.word(1);
            whole.word(at.cast_unsigned());
        }
    }
    whole.word(sum);
    whole.end()
}

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
struct Digests {
    /// What a dump has, too.
    contents: u64,
    /// What a stream knows of producers, if it does.
    messages: Option<u64>,
}

impl Digests {
    fn of(entry: &Inspected<'_>) -> Self {
        let kind = match entry.contents {
            Contents::String(_) => 1,
            Contents::List(_) => 2,
            Contents::Hash(_) => 3,
            Contents::Set(_) => 4,
            Contents::ZSet(_) => 5,
            Contents::Stream(_) => 6,
        };
        let mut sum = 0_u64;
        parts_of(&entry.contents, |name, value| sum = sum.wrapping_add(part(name, value)));
        let messages = match &entry.contents {
            Contents::Stream(stream) => messages_of(*stream),
            _ => None,
        };
        Self { contents: whole(kind, entry.expires_at_ms, sum), messages }
    }
}

/// The messages of producers that a stream knows, and what it keeps of them.
fn messages_of(stream: StreamView<'_>) -> Option<u64> {
    stream.producers()?;
    let mut sum = 0_u64;
    let visited = stream.for_each_record(
        |_| Ok::<_, Infallible>(()),
        |name, value| {
            if let Some(StreamRecord::Message { .. } | StreamRecord::Limits(_)) =
                StreamRecord::read(name, value)
            {
                sum = sum.wrapping_add(part(name, value));
            }
            Ok(())
        },
    );
    let Ok(()) = visited;
    Some(sum)
}

/// A quick hash that is the same everywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) const fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    pub(crate) const fn end(mut self) -> u64 {
        self.word(0x94d0_49bb_1331_11eb);
        self.0 ^ (self.0 >> 32)
    }
}
