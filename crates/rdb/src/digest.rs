//! Fingerprints of data, the ones that Redis' DEBUG DIGEST computes for the same data.
//!
//! ```text
//!   value    kind mixed in, then elements: those that have an order mixed, the others by XOR
//!   key      its name mixed in, then its value
//!   dataset  for each database that has keys, from 0 up: its number mixed in, then its keys by XOR
//! ```
//!
//! So a fingerprint depends on the data alone and not on how it lies in memory or in a dump. Source:
//! Redis' `debug.c` (the mark of fields that expire is from 7.4 on).

use std::collections::BTreeMap;

use sha1::{Digest as _, Sha1};

use crate::event::{Event, Key, Kind};
use crate::stream::EntryId;

/// Bytes of a fingerprint.
const FINGERPRINT_BYTES: usize = 20;

/// A fingerprint in the making, of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Begins the fingerprint of a key: its name, without its value.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        let mut fingerprint = Self::default();
        fingerprint.mix(key);
        fingerprint
    }

    /// Adds the type of the value.
    pub fn kind(&mut self, kind: Kind) {
        let number: u32 = match kind {
            Kind::String => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::ZSet => 3,
            Kind::Hash => 4,
            Kind::Stream => 6,
        };
        self.mix(&number.to_be_bytes());
    }

    /// Adds the value of a string, or the next item of a list.
    pub fn item(&mut self, item: &[u8]) {
        self.mix(item);
    }

    /// Adds a member of a set.
    pub fn member(&mut self, member: &[u8]) {
        self.xor(member);
    }

    /// Adds a member of a sorted set.
    pub fn scored(&mut self, member: &[u8], score: f64) {
        let mut text = Vec::with_capacity(32);
        resp::format_double(score, &mut text);
        let mut element = Self::default();
        element.mix(member);
        element.mix(&text);
        self.xor(&element.0);
    }

    /// Adds a field of a hash.
    pub fn field(&mut self, name: &[u8], value: &[u8], expires: bool) {
        let mut element = Self::default();
        element.mix(name);
        element.mix(value);
        if expires {
            element.xor(b"!!hexpire!!");
        }
        self.xor(&element.0);
    }

    /// Adds the next entry of a stream, whose fields follow. What groups know does not matter, as in Redis.
    pub fn entry(&mut self, id: EntryId) {
        self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
    }

    /// Adds the next field of an entry.
    pub fn pair(&mut self, name: &[u8], value: &[u8]) {
        self.mix(name);
        self.mix(value);
    }

    /// Adds, last, that the key expires; when does not matter.
    pub fn expires(&mut self) {
        self.xor(b"!!expire!!");
    }

    /// Returns it as bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }

    /// Returns it in hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds bytes for which the order does not matter.
    fn xor(&mut self, bytes: &[u8]) {
        self.combine(Self(Sha1::digest(bytes).into()));
    }

    /// Adds bytes for which the order matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn combine(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own ^= other);
    }
}

/// The fingerprint of a dataset, from its keys in any order.
#[derive(Clone, Debug, Default)]
pub struct DatasetFingerprint {
    /// What the keys of each database add up to.
    databases: BTreeMap<u32, Fingerprint>,
}

impl DatasetFingerprint {
    /// Adds a key with its value.
    pub fn add(&mut self, database: u32, key: &Fingerprint) {
        self.databases.entry(database).or_default().xor(&key.0);
    }

    /// Returns the fingerprint of all keys.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        let mut all = Fingerprint::default();
        for (database, keys) in &self.databases {
            all.mix(&database.to_be_bytes());
            all.combine(*keys);
        }
        all
    }
}

/// The fingerprint of a dump, from its events.
///
/// It is not the one of a server that loads the dump where that server changes what it loads: keys that
/// are [`Event::Foreign`] are not in this one, keys that have expired are; and Redis makes a score of -0
/// a plain zero when it packs a small sorted set. Redis from 7.2 on writes scores with the fewest digits that will do,
/// and has another fingerprint for fractions.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    dataset: DatasetFingerprint,
    database: u32,
    open: Option<OpenKey>,
}

/// A key whose value is not complete.
#[derive(Clone, Copy, Debug)]
struct OpenKey {
    fingerprint: Fingerprint,
    expires: bool,
}

impl Digest {
    /// Takes the next event of a dump.
    pub fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Database(index) => self.database = *index,
            Event::Key(Key { key, kind, expires_at_ms, .. }) => {
                let mut fingerprint = Fingerprint::of_key(key);
                fingerprint.kind(*kind);
                self.open = Some(OpenKey { fingerprint, expires: expires_at_ms.is_some() });
            }
            Event::EndOfKey => {
                if let Some(mut key) = self.open.take() {
                    if key.expires {
                        key.fingerprint.expires();
                    }
                    self.dataset.add(self.database, &key.fingerprint);
                }
            }
            element => {
                if let Some(key) = &mut self.open {
                    key.fingerprint.take(element);
                }
            }
        }
    }

    /// Returns the fingerprint of what was taken.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        self.dataset.finish()
    }
}

impl Fingerprint {
    /// Adds an element of a value; other events are nothing to it.
    pub fn take(&mut self, event: &Event<'_>) {
        match *event {
            Event::String(bytes) | Event::Item(bytes) => self.item(bytes),
            Event::Member(member) => self.member(member),
            Event::Scored(member, score) => self.scored(member, score),
            Event::Field { name, value, expires_at_ms } => {
                self.field(name, value, expires_at_ms.is_some());
            }
            Event::Entry(id) => self.entry(id),
            Event::Pair(name, value) => self.pair(name, value),
            _ => {}
        }
    }
}
