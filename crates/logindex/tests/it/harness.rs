//! A database that logs to the index, and what the index must say as of each cut.
//!
//! The writer keeps what a keyspace would: databases with keys, objects with elements, a map of
//! databases. Each operation pushes what the log's records say and ends a block. A model of each
//! cut is kept, so that an index that comes back after a crash is compared with the model of the
//! cut that it claims.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, RecordAddr, SegmentId};
use env::Disk;
use logindex::{
    Batch, Cached, Delta, Entry, Hash96, Index, Indexer, Judge, Name, Options, Place, Result,
    Scope, ScopeKind, Scopes, Step, What,
};

pub(crate) const DATABASE: [u8; 16] = [0xda; 16];
pub(crate) const DIR: &str = "/db/index";

/// Runs so small that a few dozen entries reach the bottom.
pub(crate) const TINY: Options = Options {
    block_bytes: 256,
    fan_in: 2,
    merge_max: 4,
    level_1_max: 2,
    newer_per_cent: 400,
    newer_min_bytes: 0,
    cache_bytes: 4 << 10,
    step_entries: 5,
    chunk_bytes: 700,
    sync_bytes: 512,
};

pub(crate) fn open(disk: &Arc<dyn Disk>) -> Result<Indexer> {
    Indexer::open(disk.clone(), Path::new(DIR), DATABASE, TINY)
}

/// Steps until there is nothing to do; the number of steps.
pub(crate) fn settle(indexer: &mut Indexer, durable: Lsn) -> Result<usize> {
    let mut steps = 0;
    while indexer.step(durable)? == Step::Worked {
        steps += 1;
        assert!(steps < 100_000, "merging does not end");
    }
    Ok(steps)
}

/// The number of a key or an element as 96 bits that are spread over all of them.
pub(crate) fn hash(number: u64) -> Hash96 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Hash96::new(mixed ^ (mixed >> 29), u32::try_from(number).unwrap())
}

/// What the log says up to some block: of the living scopes, and of all names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Picture {
    /// The newest entry of every name that ever was.
    pub(crate) newest: BTreeMap<Name, What>,
    pub(crate) scopes: Scopes,
    pub(crate) is_relogging: bool,
}

impl Picture {
    pub(crate) fn judge(&self) -> Judge {
        if self.is_relogging { Judge::Relogging } else { Judge::Settled(self.scopes.clone()) }
    }

    /// The objects that a living database names.
    fn live_objects(&self) -> BTreeSet<ObjectId> {
        let in_live_databases = self.newest.iter().filter(|(name, _)| match name.scope.kind() {
            ScopeKind::Database(id) => self.scopes.is_alive(id),
            ScopeKind::Object(_) => false,
        });
        let objects = in_live_databases.filter_map(|(_, what)| match what {
            What::At(place) => place.object(),
            What::Gone => None,
        });
        objects.collect()
    }

    /// The living entries: what `live_pass` must show.
    pub(crate) fn live(&self) -> BTreeMap<Name, Place> {
        let objects = self.live_objects();
        let is_live = |scope: Scope| match scope.kind() {
            ScopeKind::Database(id) => self.scopes.is_alive(id),
            ScopeKind::Object(id) => objects.contains(&id),
        };
        let entries = self.newest.iter().filter_map(|(name, what)| match what {
            What::At(place) => Some((*name, *place)),
            What::Gone => None,
        });
        entries.filter(|(name, _)| self.is_relogging || is_live(name.scope)).collect()
    }
}

/// Something that a client does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Sets a key; with an expiry, maybe.
    Set { db: u8, key: u8, expires: bool },
    /// Deletes a key, with all that belongs to it.
    Delete { db: u8, key: u8 },
    /// Creates a large object, with so many elements, at a key.
    Create { db: u8, key: u8, elements: u8 },
    /// Changes an element of the object at a key.
    Touch { db: u8, key: u8, element: u8 },
    /// Deletes an element.
    Drop { db: u8, key: u8, element: u8 },
    /// Renames a key, over another one maybe: the object and its elements stay.
    Rename { db: u8, from: u8, to: u8 },
    /// Flushes a database.
    Flush { db: u8 },
    /// Exchanges two databases.
    Swap { a: u8, b: u8 },
    /// Ends the delta.
    Cut,
}

pub(crate) const DATABASES: u8 = 3;

/// The database. What it has not cut is what a crash would lose of the index.
pub(crate) struct Writer {
    pub(crate) delta: Delta,
    /// The last block.
    pub(crate) lsn: Lsn,
    pub(crate) picture: Picture,
    /// What each cut must say.
    pub(crate) cuts: BTreeMap<Lsn, Picture>,
    map: Vec<DbId>,
    next_database: u64,
    next_object: u64,
    ordinal: u32,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            delta: Delta::new(),
            lsn: Lsn::ZERO,
            picture: Picture::default(),
            cuts: BTreeMap::new(),
            map: (0..u64::from(DATABASES)).map(DbId).collect(),
            next_database: DATABASES.into(),
            next_object: 1,
            ordinal: 0,
        }
    }

    /// Continues as after a crash that lost everything behind a cut.
    pub(crate) fn back_to(&mut self, cut: Option<Lsn>) {
        self.delta = Delta::new();
        self.lsn = cut.unwrap_or(Lsn::ZERO);
        self.picture = cut.map(|cut| self.cuts[&cut].clone()).unwrap_or_default();
        let lsn = self.lsn;
        self.cuts.retain(|cut, _| *cut <= lsn);
        // Its ids go on above all that were used: the real ones do, too, and the map is logged.
        if self.picture.scopes == Scopes::default() {
            self.map = (0..u64::from(DATABASES)).map(DbId).collect();
        } else {
            self.map = (0..self.next_database)
                .map(DbId)
                .filter(|id| self.picture.scopes.is_alive(*id))
                .take(DATABASES.into())
                .collect();
        }
    }

    fn push(&mut self, name: Name, what: What) {
        self.delta.push(Entry { name, what });
        self.picture.newest.insert(name, what);
    }

    fn place(&mut self) -> Place {
        self.ordinal += 1;
        let segment = SegmentId(1 + self.ordinal / 20);
        let tag = u8::try_from(self.ordinal % 32).unwrap();
        Place::new(RecordAddr::new(segment, self.ordinal % 20), tag)
    }

    pub(crate) fn key(&self, db: u8, key: u8) -> Name {
        Name::new(Scope::database(self.map[usize::from(db)]), hash(key.into()))
    }

    /// Logs elements of a new object in a block of their own, before its root: a relog may.
    pub(crate) fn elements(&mut self, elements: u8) -> ObjectId {
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        for element in 0..elements {
            let place = self.place();
            self.push(Self::element(object, element), What::At(place));
        }
        self.lsn = self.lsn.next();
        object
    }

    /// Logs the root of such an object.
    pub(crate) fn root(&mut self, db: u8, key: u8, object: ObjectId) {
        let place = self.place().with_object(object);
        self.push(self.key(db, key), What::At(place));
        self.lsn = self.lsn.next();
    }

    fn object_at(&self, name: Name) -> Option<ObjectId> {
        match self.picture.newest.get(&name)? {
            What::At(place) => place.object(),
            What::Gone => None,
        }
    }

    fn is_there(&self, name: Name) -> bool {
        matches!(self.picture.newest.get(&name), Some(What::At(_)))
    }

    /// Elements of odd objects lie close together.
    fn element(object: ObjectId, element: u8) -> Name {
        let is_close = object.0 % 2 == 1;
        let hash = if is_close { Hash96::new(0, element.into()) } else { hash(element.into()) };
        Name::new(Scope::object(object), hash)
    }

    /// Does what a client does; a block ends with it.
    pub(crate) fn run(&mut self, op: Op) -> Option<Batch> {
        match op {
            Op::Set { db, key, expires } => {
                let mut place = self.place();
                if expires {
                    place = place.with_expiry(1_800_000_000_000 + u64::from(key) * 977);
                }
                self.push(self.key(db, key), What::At(place));
            }
            Op::Delete { db, key } => {
                let name = self.key(db, key);
                if self.is_there(name) {
                    self.push(name, What::Gone);
                }
            }
            Op::Create { db, key, elements } => {
                let object = ObjectId(self.next_object);
                self.next_object += 1;
                for element in 0..elements {
                    let place = self.place();
                    self.push(Self::element(object, element), What::At(place));
                }
                let place = self.place().with_object(object);
                self.push(self.key(db, key), What::At(place));
            }
            Op::Touch { db, key, element } => {
                if let Some(object) = self.object_at(self.key(db, key)) {
                    let place = self.place();
                    self.push(Self::element(object, element), What::At(place));
                }
            }
            Op::Drop { db, key, element } => {
                if let Some(object) = self.object_at(self.key(db, key)) {
                    let name = Self::element(object, element);
                    if self.is_there(name) {
                        self.push(name, What::Gone);
                    }
                }
            }
            Op::Rename { db, from, to } => {
                let (from, to) = (self.key(db, from), self.key(db, to));
                if from != to && self.is_there(from) {
                    let mut place = self.place();
                    if let Some(object) = self.object_at(from) {
                        place = place.with_object(object);
                    }
                    self.push(to, What::At(place));
                    self.push(from, What::Gone);
                }
            }
            Op::Flush { db } => {
                self.map[usize::from(db)] = DbId(self.next_database);
                self.next_database += 1;
                self.write_map();
            }
            Op::Swap { a, b } => {
                self.map.swap(a.into(), b.into());
                self.write_map();
            }
            Op::Cut => return self.cut(),
        }
        self.lsn = self.lsn.next();
        None
    }

    fn write_map(&mut self) {
        let next = DbId(self.next_database);
        self.picture.scopes = Scopes::mapped(next, self.map.iter().copied());
    }

    /// Ends the delta, unless no block has come since the last cut.
    pub(crate) fn cut(&mut self) -> Option<Batch> {
        if self.cuts.last_key_value().is_some_and(|(cut, _)| *cut >= self.lsn) || self.lsn.0 == 0 {
            return None;
        }
        self.cuts.insert(self.lsn, self.picture.clone());
        Some(self.delta.cut(self.lsn, state_of(self.lsn), self.picture.judge()))
    }
}

/// What is stored with a cut: not the same for any two.
pub(crate) fn state_of(lsn: Lsn) -> Vec<u8> {
    format!("the state at {lsn}").into_bytes()
}

/// Compares an index with what it must say, in all the ways in which it can be asked.
pub(crate) fn check(index: &Index, picture: &Picture) {
    let mut pass = index.live_pass(picture.judge()).unwrap();
    let mut seen = BTreeMap::new();
    let mut last = None;
    let mut visit = |entry: &Entry| {
        assert!(last.is_none_or(|last| last < entry.name), "the order of the pass");
        last = Some(entry.name);
        seen.insert(entry.name, *entry.place().unwrap());
    };
    while !pass.step(3, &mut visit).unwrap() {}
    let live = picture.live();
    assert_eq!(seen, live, "live_pass");
    let mut counts: BTreeMap<Scope, u64> = BTreeMap::new();
    live.keys().for_each(|name| *counts.entry(name.scope).or_default() += 1);
    let (databases, objects): (Vec<_>, Vec<_>) =
        counts.iter().partition(|(scope, _)| !scope.is_object());
    let databases: Vec<_> =
        databases.into_iter().map(|(scope, count)| (scope.kind(), *count)).collect();
    let counted = pass.counts().databases.iter().copied();
    let counted: Vec<_> = counted.map(|(id, count)| (ScopeKind::Database(id), count)).collect();
    assert_eq!(counted, databases, "keys of each database");
    assert_eq!(pass.counts().objects, objects.len() as u64);
    assert_eq!(pass.counts().elements, objects.iter().map(|(_, count)| **count).sum::<u64>());
    for scope in counts.keys() {
        check_scope(index, picture, *scope);
    }
    check_probes(index, picture, &live);
}

fn check_scope(index: &Index, picture: &Picture, scope: Scope) {
    let whole: Vec<(Name, Place)> =
        picture.live().into_iter().filter(|(name, _)| name.scope == scope).collect();
    let starts = [Some(Hash96::MIN), whole.get(whole.len() / 2).map(|(name, _)| name.hash)];
    for from in starts.into_iter().flatten().chain([Hash96::MAX]) {
        let mut range = index.scope_range(scope, from).unwrap();
        let mut seen = Vec::new();
        while let Some(entry) = range.next().unwrap() {
            seen.push((entry.name, *entry.place().unwrap()));
        }
        let expected: Vec<_> =
            whole.iter().copied().filter(|(name, _)| name.hash >= from).collect();
        assert_eq!(seen, expected, "scope_range of {scope:?} from {from:?}");
    }
}

/// Every name of a living scope is found where it is; what is gone or never was is not found.
fn check_probes(index: &Index, picture: &Picture, live: &BTreeMap<Name, Place>) {
    let live_scopes: BTreeSet<Scope> = live.keys().map(|name| name.scope).collect();
    for (name, what) in &picture.newest {
        if !live_scopes.contains(&name.scope) {
            continue;
        }
        let cached = index.probe_cached(*name);
        let found = index.probe(*name).unwrap().and_then(|entry| entry.place().copied());
        let expected = match what {
            What::At(place) => Some(*place),
            What::Gone => None,
        };
        assert_eq!(found, expected, "{name:?}");
        let agrees = match cached {
            Cached::Found(place) => Some(place) == expected,
            Cached::Gone | Cached::Absent => expected.is_none(),
            Cached::Unknown => true,
        };
        assert!(agrees, "{name:?}: {cached:?}, not {expected:?}");
    }
    for scope in live_scopes {
        for number in 1000..1010 {
            let name = Name::new(scope, hash(number));
            assert_eq!(index.probe(name).unwrap(), None);
            assert!(matches!(index.probe_cached(name), Cached::Absent | Cached::Unknown));
        }
    }
}
