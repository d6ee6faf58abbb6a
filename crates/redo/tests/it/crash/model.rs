//! What the log should mean: a database of plain maps that records are applied to.
//!
//! The same model stands on both sides of a crash. Before, the workload applies to it every record
//! that it appends; after, recovery replays into an empty one. Addresses are kept next to the
//! entries as the keyspace keeps them, and are no part of what a client sees ([`Visible`]).

use std::collections::BTreeMap;

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, varint};

/// Databases that clients can name.
pub(crate) const DB_COUNT: u64 = 2;

type KeyName = (DbId, Vec<u8>);

/// A key entry.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) kind: RecordKind,
    pub(crate) object: ObjectId,
    pub(crate) value: Vec<u8>,
    pub(crate) expires_at_ms: Option<i64>,
    addr: RecordAddr,
}

/// An element entry.
#[derive(Debug, Clone)]
struct Element {
    kind: RecordKind,
    value: Vec<u8>,
    addr: RecordAddr,
}

/// The database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    keys: BTreeMap<KeyName, Key>,
    objects: BTreeMap<ObjectId, BTreeMap<Vec<u8>, Element>>,
    databases: Option<(Vec<u8>, RecordAddr)>,
    /// The largest object id that any record named.
    pub(crate) object_max: u64,
}

/// One key as a client sees it: with its elements, by kind and value.
type SeenKey = (u8, Vec<u8>, Option<i64>, BTreeMap<Vec<u8>, (u8, Vec<u8>)>);

/// What clients see, independent of ids and addresses: by database index and key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Visible(BTreeMap<(usize, Vec<u8>), SeenKey>);

impl Visible {
    /// The keys that differ between two states, for a message that a person can read.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let describe = |seen: Option<&SeenKey>| match seen {
            None => "absent".to_owned(),
            Some((kind, value, expiry, elements)) => format!(
                "kind {kind}, {} bytes (crc {:08x}), expiry {expiry:?}, elements {:?}",
                value.len(),
                base::checksum::crc32c(value),
                elements
                    .iter()
                    .map(|(sub, (kind, value))| {
                        (String::from_utf8_lossy(sub), kind, base::checksum::crc32c(value))
                    })
                    .collect::<Vec<_>>()
            ),
        };
        names
            .into_iter()
            .filter(|name| self.0.get(name) != other.0.get(name))
            .map(|name| {
                let (left, right) = (describe(self.0.get(name)), describe(other.0.get(name)));
                let (db, key) = name;
                format!("  db {db} {}: {left} | {right}\n", String::from_utf8_lossy(key))
            })
            .collect()
    }
}

/// The value of a `Databases` record.
pub(crate) fn databases_value(next_free: u64, ids: &[DbId]) -> Vec<u8> {
    let mut value = Vec::new();
    varint::put(&mut value, next_free);
    for id in ids {
        varint::put(&mut value, id.0);
    }
    value
}

impl Model {
    /// Applies a record that the log holds at `addr`; the addresses that it makes superfluous.
    pub(crate) fn apply(&mut self, record: &Record<'_>, addr: RecordAddr) -> Option<RecordAddr> {
        self.object_max = self.object_max.max(record.object.0);
        if record.kind == RecordKind::Databases {
            return self.databases.replace((record.value.to_vec(), addr)).map(|(_, addr)| addr);
        }
        if record.kind.is_element() {
            let elements = self.objects.entry(record.object).or_default();
            let old = if record.kind.is_delete() {
                elements.remove(record.sub)
            } else {
                let element = Element { kind: record.kind, value: record.value.to_vec(), addr };
                elements.insert(record.sub.to_vec(), element)
            };
            return old.map(|element| element.addr);
        }
        let name = (record.db, record.key.to_vec());
        let old = if record.kind.is_delete() {
            self.keys.remove(&name)
        } else {
            let key = Key {
                kind: record.kind,
                object: record.object,
                value: record.value.to_vec(),
                expires_at_ms: record.expires_at_ms,
                addr,
            };
            self.keys.insert(name, key)
        };
        old.map(|key| key.addr)
    }

    /// The next database id never used, and the id of each database.
    pub(crate) fn databases(&self) -> (u64, Vec<DbId>) {
        let Some((value, _)) = &self.databases else {
            return (DB_COUNT, (0..DB_COUNT).map(DbId).collect());
        };
        let mut rest = value.as_slice();
        let mut number = || varint::take(&mut rest).expect("a Databases record holds varints");
        let next_free = number();
        (next_free, (0..DB_COUNT).map(|_| DbId(number())).collect())
    }

    /// Forgets the keys of databases that no longer exist and the elements of objects without a
    /// root, and gives their addresses: nothing can need them again. Only between blocks.
    pub(crate) fn collect_garbage(&mut self) -> Vec<RecordAddr> {
        let (_, live) = self.databases();
        let mut garbage = Vec::new();
        self.keys.retain(|(db, _), key| {
            let keep = live.contains(db);
            if !keep {
                garbage.push(key.addr);
            }
            keep
        });
        let mut roots: Vec<ObjectId> = self.keys.values().map(|key| key.object).collect();
        roots.sort_unstable();
        self.objects.retain(|object, elements| {
            let keep = roots.binary_search(object).is_ok();
            if !keep {
                garbage.extend(elements.values().map(|element| element.addr));
            }
            keep
        });
        garbage
    }

    /// The addresses of everything that is still needed.
    pub(crate) fn live_addresses(&self) -> Vec<RecordAddr> {
        let keys = self.keys.values().map(|key| key.addr);
        let elements = self.objects.values().flat_map(|elements| elements.values());
        let databases = self.databases.iter().map(|(_, addr)| *addr);
        keys.chain(elements.map(|element| element.addr)).chain(databases).collect()
    }

    pub(crate) fn key(&self, db: DbId, key: &[u8]) -> Option<&Key> {
        self.keys.get(&(db, key.to_vec()))
    }

    /// The names of the elements of an object.
    pub(crate) fn element_names(&self, object: ObjectId) -> Vec<Vec<u8>> {
        self.objects.get(&object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
    }

    /// What clients see now.
    pub(crate) fn visible(&self) -> Visible {
        let (_, dbs) = self.databases();
        let mut seen = BTreeMap::new();
        for ((db, name), key) in &self.keys {
            let elements = match self.objects.get(&key.object) {
                Some(all) if key.object != ObjectId::NONE => all
                    .iter()
                    .map(|(sub, element)| {
                        (sub.clone(), (element.kind as u8, element.value.clone()))
                    })
                    .collect(),
                _ => BTreeMap::new(),
            };
            for (index, _) in dbs.iter().enumerate().filter(|(_, id)| *id == db) {
                let state = (key.kind as u8, key.value.clone(), key.expires_at_ms);
                let state = (state.0, state.1, state.2, elements.clone());
                seen.insert((index, name.clone()), state);
            }
        }
        Visible(seen)
    }
}
