//! The oracle: a scan of the whole log, which says where everything that lives has its record.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use indexing::Namer;
use logindex::Name;
use redo::Replay;

/// A key in a database, or an element in an object.
pub(crate) type Thing = (bool, u64, Vec<u8>);

/// Where the newest record of a thing is, and the object whose root it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub(crate) addr: RecordAddr,
    pub(crate) object: ObjectId,
}

/// What a scan has found so far.
#[derive(Clone, Default)]
pub(crate) struct Scan {
    pub(crate) newest: BTreeMap<Thing, Newest>,
    pub(crate) map: Option<(RecordAddr, Vec<u64>, u64)>,
    pub(crate) next_object: u64,
    pub(crate) next_db: u64,
}

/// The thing that a record is about.
pub(crate) fn thing_of(record: &Record<'_>) -> Thing {
    match record.kind.is_element() {
        true => (true, record.object.0, record.sub.to_vec()),
        false => (false, record.db.0, record.key.to_vec()),
    }
}

impl Scan {
    /// Takes note of a record. Returns the address that it makes garbage.
    pub(crate) fn note(&mut self, record: &Record<'_>, addr: RecordAddr) -> Option<RecordAddr> {
        self.next_object = self.next_object.max(record.object.0 + 1);
        if record.kind == RecordKind::Databases {
            let (next, ids) = record.value.split_first().expect("a map");
            let ids = ids.iter().map(|id| u64::from(*id)).collect();
            self.next_db = self.next_db.max(u64::from(*next));
            return self.map.replace((addr, ids, u64::from(*next))).map(|(addr, _, _)| addr);
        }
        let old = match record.kind.is_delete() {
            true => self.newest.remove(&thing_of(record)),
            false => self.newest.insert(thing_of(record), Newest { addr, object: record.object }),
        };
        old.map(|old| old.addr)
    }

    fn is_alive(&self, db: u64) -> bool {
        self.map.as_ref().is_none_or(|(_, ids, next)| db >= *next || ids.contains(&db))
    }

    /// Forgets what is dead. Returns its addresses.
    pub(crate) fn bury(&mut self) -> Vec<RecordAddr> {
        let alive = |thing: &Thing| self.is_alive(thing.1);
        let roots: HashSet<u64> = self
            .newest
            .iter()
            .filter(|(thing, newest)| !thing.0 && newest.object != ObjectId::NONE && alive(thing))
            .map(|(_, newest)| newest.object.0)
            .collect();
        let is_dead = |thing: &Thing| match thing.0 {
            true => !roots.contains(&thing.1),
            false => !alive(thing),
        };
        let dead: Vec<Thing> = self.newest.keys().filter(|thing| is_dead(thing)).cloned().collect();
        dead.iter().map(|thing| self.newest.remove(thing).expect("it is there").addr).collect()
    }

    /// How many keys each database has.
    pub(crate) fn keys(&self) -> BTreeMap<DbId, u64> {
        let mut keys = BTreeMap::new();
        for thing in self.newest.keys().filter(|thing| !thing.0) {
            *keys.entry(DbId(thing.1)).or_default() += 1;
        }
        keys
    }

    /// The addresses of all records that are needed.
    pub(crate) fn live(&self) -> BTreeSet<RecordAddr> {
        let map = self.map.iter().map(|(addr, _, _)| *addr);
        self.newest.values().map(|newest| newest.addr).chain(map).collect()
    }

    /// What an index must say.
    pub(crate) fn names(&self, namer: &Namer) -> BTreeSet<(Name, RecordAddr)> {
        let name = |(thing, newest): (&Thing, &Newest)| {
            let scope = match thing.0 {
                true => logindex::Scope::object(ObjectId(thing.1)),
                false => logindex::Scope::database(DbId(thing.1)),
            };
            (Name::new(scope, namer.hash(&thing.2)), newest.addr)
        };
        self.newest.iter().map(name).collect()
    }
}

impl Replay for Scan {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        // An element has no object of its own: it is no root.
        let old = self.note(record, addr);
        retired.extend(old);
    }

    fn finish(&mut self, retired: &mut Vec<RecordAddr>) {
        retired.extend(self.bury());
    }
}
