//! Two keyspaces get the same commands; from one of them values, and keys, leave memory at random moments.
//! They cannot be told apart, both log the same, and in the end both have retired the same records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use base::{DbId, DbIndex, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::hash::Hash;
use keyspace::{
    ColdName, EvictionPolicy, Expiry, HASH_GRAIN, Identity, Journal, KeyHasher, KeysIn, Keyspace,
    Look, LostKey, NamesFor, NamesFound, NamesWanted, Need, RestoreError, Restored, Restorer,
    Round, Type,
};
use proptest::prelude::*;

use crate::DB0;
use crate::cold::needed;
use crate::follow::{KEYS, all, change_by};
use crate::journal::{Logged, LoggedKeyspace, MemoryLog, SEED, addr};

/// A log with blocks, of which the first are durable, and of those the first indexed.
#[derive(Clone, Default)]
pub(crate) struct Blocks {
    pub(crate) log: MemoryLog,
    reach: Arc<Mutex<Reach>>,
}

#[derive(Clone, Default)]
struct Reach {
    /// The block of every record.
    lsns: Vec<Lsn>,
    open: Lsn,
    durable: Lsn,
    indexed: Lsn,
    is_broken: bool,
    damaged: BTreeSet<RecordAddr>,
    /// The index does not say where these are.
    unlisted: BTreeSet<RecordAddr>,
    /// They are not in the log any more.
    gone: BTreeSet<RecordAddr>,
    records_read: usize,
}

impl Blocks {
    fn with<R>(&self, change: impl FnOnce(&mut Reach) -> R) -> R {
        change(&mut self.reach.lock().expect("one thread"))
    }

    /// The elements of an object, as the index knows them.
    fn elements(&self, object: ObjectId) -> BTreeMap<Box<[u8]>, RecordAddr> {
        let mut elements = BTreeMap::new();
        let (lsns, indexed) = self.with(|reach| (reach.lsns.clone(), reach.indexed));
        for (at, logged) in self.log.records().iter().enumerate() {
            if logged.object == object && logged.kind.is_element() && lsns[at] <= indexed {
                if logged.kind == RecordKind::ElementDeleted {
                    elements.remove(&logged.sub);
                } else {
                    elements.insert(logged.sub.clone(), addr(at));
                }
            }
        }
        elements.retain(|_, addr| self.with(|reach| !reach.unlisted.contains(addr)));
        elements
    }

    /// The keys of a database, as the index knows them.
    fn keys(&self, db: DbId) -> BTreeMap<Box<[u8]>, RecordAddr> {
        let mut keys = BTreeMap::new();
        let (lsns, indexed) = self.with(|reach| (reach.lsns.clone(), reach.indexed));
        for (at, logged) in self.log.records().iter().enumerate() {
            let is_key = !logged.kind.is_element() && logged.kind != RecordKind::Databases;
            if logged.db == db && is_key && lsns[at] <= indexed {
                if logged.kind.is_delete() {
                    keys.remove(&logged.key);
                } else {
                    keys.insert(logged.key.clone(), addr(at));
                }
            }
        }
        keys
    }

    /// Time passes: another block is open, and some more may be durable and indexed.
    pub(crate) fn pass(&self, rng: &mut fastrand::Rng) {
        self.with(|reach| {
            reach.open = reach.open.next();
            let open = reach.open.0;
            reach.durable = Lsn(rng.u64(reach.durable.0..open));
            reach.indexed = Lsn(rng.u64(reach.indexed.0..=reach.durable.0));
        });
    }

    /// The block up to which all is indexed.
    pub(crate) fn indexed(&self) -> Option<Lsn> {
        self.indexed_lsn()
    }

    /// What was logged.
    pub(crate) fn records(&self) -> Vec<Logged> {
        self.log.records().clone()
    }

    /// How many records were read.
    pub(crate) fn records_read(&self) -> usize {
        self.with(|reach| reach.records_read)
    }

    /// Where the records of nodes of streams are that are needed, in their order.
    pub(crate) fn nodes(&self) -> Vec<RecordAddr> {
        let records = self.log.records();
        let nodes = records.iter().enumerate();
        let nodes = nodes.filter(|(_, it)| it.kind == RecordKind::StreamNode && !it.is_retired);
        nodes.map(|(at, _)| addr(at)).collect()
    }

    fn root_at(&self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        if self.with(|reach| reach.is_broken) {
            return Err(RestoreError::Io("the device does not answer".to_owned()));
        }
        self.check_sound(addr)?;
        assert_eq!(self.undurable_lsn_of(addr), None, "a value went that a crash could take");
        let records = self.log.records().clone();
        let record = records[addr.ordinal() as usize].record();
        assert_eq!((record.db, record.key), (db, key));
        let begun = Restored::of(&record, addr, KeyHasher::new(SEED));
        let mut restored = begun.expect("the record of a key");
        if restored.object() != ObjectId::NONE {
            restored.gather_as_of(self.with(|reach| reach.indexed));
        }
        Ok(restored)
    }

    fn gather(&self, restored: &mut Restored, addr: RecordAddr) -> Result<(), RestoreError> {
        self.check_sound(addr)?;
        self.with(|reach| reach.records_read += 1);
        let records = self.log.records();
        let element = records[addr.ordinal() as usize].record();
        restored.gather(&element, addr).expect("an element");
        Ok(())
    }

    /// All that was logged is durable and indexed.
    pub(crate) fn all_indexed(&self) {
        self.with(|reach| {
            (reach.durable, reach.indexed) = (reach.open, reach.open);
            reach.open = reach.open.next();
        });
    }

    /// All that was logged is durable.
    pub(crate) fn make_durable(&self) {
        self.with(|reach| {
            reach.durable = reach.open;
            reach.open = reach.open.next();
        });
    }

    /// A record can be read no more.
    pub(crate) fn damage(&self, addr: RecordAddr) {
        self.with(|reach| reach.damaged.insert(addr));
    }

    /// The index does not say any more where a record is.
    pub(crate) fn unlist(&self, addr: RecordAddr) {
        self.with(|reach| reach.unlisted.insert(addr));
    }

    /// A record is not in the log any more, though it is needed.
    pub(crate) fn lose(&self, addr: RecordAddr) {
        self.with(|reach| reach.gone.insert(addr));
    }

    /// No record can be read for a while.
    pub(crate) fn break_down(&self, is_broken: bool) {
        self.with(|reach| reach.is_broken = is_broken);
    }

    fn check_sound(&self, addr: RecordAddr) -> Result<(), RestoreError> {
        match self.with(|reach| reach.damaged.contains(&addr)) {
            true => Err(RestoreError::Corrupt("a bad checksum".to_owned())),
            false => Ok(()),
        }
    }

    pub(crate) fn keyspace(&self) -> LoggedKeyspace {
        let mut keyspace = Keyspace::new(Box::new(self.clone()) as Box<dyn Journal>, SEED, 4);
        keyspace.set_restorer(Box::new(self.clone()));
        keyspace
    }
}

impl Journal for Blocks {
    fn has_declared(&self, _kind: RecordKind) -> Option<bool> {
        Some(true)
    }

    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        self.with(|reach| reach.lsns.push(reach.open));
        self.log.append(record)
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.log.retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        self.with(|reach| reach.open)
    }

    fn last_lsn(&self) -> Lsn {
        self.open_lsn()
    }

    fn durable_lsn(&self) -> Lsn {
        self.with(|reach| reach.durable)
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        let (lsn, durable) =
            self.with(|reach| (reach.lsns[addr.ordinal() as usize], reach.durable));
        (lsn > durable).then_some(lsn)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.log.is_retired(addr)
    }

    fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        // As if two blocks were a segment.
        let (lsn, open) = self.with(|reach| (reach.lsns[addr.ordinal() as usize], reach.open));
        Some(open.min(Lsn(lsn.0 | 1)))
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        Some(self.with(|reach| reach.indexed))
    }
}

impl Restorer for Blocks {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        Ok(self.keys(db).get(key).copied())
    }

    fn look(&mut self, _db: DbId, _key: &[u8]) -> Look {
        Look::Unknown
    }

    fn names(&mut self, wanted: &NamesWanted) -> Result<NamesFound, RestoreError> {
        let hasher = KeyHasher::new(SEED);
        let is_in = |hash: u64| hash >= wanted.from && wanted.to.is_none_or(|to| hash < to);
        let is_resident = |addr: &RecordAddr| wanted.resident.binary_search(addr).is_ok();
        let keys = self.keys(wanted.db).into_iter();
        let keys = keys.filter(|(key, addr)| is_in(hasher.hash(key)) && !is_resident(addr));
        let mut keys: Vec<_> = keys.map(|(key, addr)| (hasher.hash(&key), addr)).collect();
        keys.sort_unstable();
        let behind = keys.get(wanted.count).map(|(hash, _)| hash & !(HASH_GRAIN - 1));
        let records = self.log.records();
        let names = keys.iter().take(wanted.count).filter_map(|(_, addr)| {
            let record = &records[addr.ordinal() as usize];
            wanted.wants(&record.key).then(|| ColdName::of(&record.record(), *addr, hasher))?
        });
        let names = names.collect();
        Ok(NamesFound { names, end: behind.or(wanted.to) })
    }

    fn has_elements_in(
        &mut self,
        object: ObjectId,
        segments: &[SegmentId],
    ) -> Result<bool, RestoreError> {
        let all = self.elements(object);
        Ok(all.values().any(|addr| segments.contains(&addr.segment())))
    }

    fn keys_in(
        &mut self,
        db: DbId,
        from: Identity,
        segments: &[SegmentId],
    ) -> Result<KeysIn, RestoreError> {
        let hasher = KeyHasher::new(SEED);
        let all: BTreeMap<Identity, RecordAddr> =
            self.keys(db).into_iter().map(|(key, addr)| (hasher.identity(&key), addr)).collect();
        let mut all = all.range(from..);
        // One at a time.
        let Some((identity, addr)) = all.next() else { return Ok(KeysIn::default()) };
        let record = &self.log.records()[addr.ordinal() as usize];
        let object = (record.object != ObjectId::NONE).then_some(record.object);
        let is_in = |addr: &RecordAddr| segments.contains(&addr.segment());
        let key = is_in(addr).then(|| LostKey {
            db,
            identity: *identity,
            addr: *addr,
            value_type: Type::of_record(record.kind).expect("a key"),
            expires_at_ms: record.expires_at_ms,
            object,
        });
        let next = all.next().map(|(identity, _)| *identity);
        Ok(KeysIn { keys: key.into_iter().collect(), next })
    }

    fn read_unnamed(&mut self, key: &LostKey) -> Result<Option<Restored>, RestoreError> {
        let name = self.log.records()[key.addr.ordinal() as usize].key.clone();
        self.read(key.db, &name, key.addr).map(Some)
    }

    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        let mut restored = self.root_at(db, key, addr)?;
        self.with(|reach| reach.records_read += 1);
        for addr in self.elements(restored.object()).values() {
            self.gather(&mut restored, *addr)?;
        }
        restored.arrange().map_err(|error| RestoreError::Unlisted(error.to_string()))
    }

    fn read_end(
        &mut self,
        db: DbId,
        key: &[u8],
        addr: RecordAddr,
    ) -> Result<Restored, RestoreError> {
        let mut restored = self.root_at(db, key, addr)?;
        self.with(|reach| reach.records_read += 1);
        if let Some(last_node) = restored.last_node() {
            let elements = self.elements(restored.object());
            if let Some(addr) = elements.get(last_node) {
                self.gather(&mut restored, *addr)?;
            }
        }
        restored.arrange_end().map_err(|error| RestoreError::Unlisted(error.to_string()))
    }

    fn read_elements(
        &mut self,
        db: DbId,
        key: &[u8],
        stream: ObjectId,
    ) -> Result<Restored, RestoreError> {
        let mut restored = Restored::of_elements(db, key, stream, KeyHasher::new(SEED));
        restored.gather_as_of(self.with(|reach| reach.indexed));
        for addr in self.elements(stream).values() {
            // As if it were compacted away.
            let is_gone = self.log.is_retired(*addr) && addr.ordinal() % 2 == 0
                || self.with(|reach| reach.gone.contains(addr));
            let gathered = match is_gone {
                true => Err(RestoreError::Unlisted("it is gone".to_owned())),
                false => self.gather(&mut restored, *addr),
            };
            gathered.unwrap_or_else(|why| restored.note_unread(*addr, why));
        }
        Ok(restored.arrange().expect("it has its root"))
    }
}

/// Retires what was not in memory when it was deleted.
pub(crate) fn retire_bare(keyspace: &mut LoggedKeyspace, blocks: &Blocks) {
    for object in keyspace.take_bare_garbage() {
        if blocks.with(|reach| reach.open.0 % 2 == 0) {
            keyspace.retire_elements(object, None);
            continue;
        }
        let elements = blocks.elements(object).into_values().collect();
        keyspace.retire_elements(object, Some(elements));
    }
}

/// Retires what databases had that were emptied, and was not in memory.
fn retire_dropped(keyspace: &mut LoggedKeyspace, blocks: &Blocks) {
    for db in keyspace.take_dropped() {
        for addr in blocks.keys(db).into_values() {
            let object = blocks.log.records()[addr.ordinal() as usize].object;
            let elements = blocks.elements(object).into_values();
            let elements = elements.filter(|it| !blocks.log.is_retired(*it)).collect();
            keyspace.retire_cold(addr, elements);
        }
        keyspace.end_dropped(db);
    }
}

/// Deletes what has expired and is not in memory, and in `full` the same.
fn sweep(keyspace: &mut LoggedKeyspace, full: &mut LoggedKeyspace, blocks: &Blocks, now_ms: i64) {
    let records = blocks.log.records().clone();
    for db in DbIndex::all(4) {
        for (key, addr) in blocks.keys(keyspace.database_id(db)) {
            let record = records[addr.ordinal() as usize].record();
            let restored = Restored::without_value(&record, addr, KeyHasher::new(SEED));
            let is_due = record.expires_at_ms.is_some_and(|at| at <= now_ms);
            let size = keyspace.size(db);
            if keyspace.expire_cold(restored.expect("the record of a key")) {
                assert!(is_due && !full.exists(db, &key, false), "{key:?} has not expired");
                assert_eq!(keyspace.size(db), (size.0 - 1, size.1 - 1));
            } else {
                assert_eq!(keyspace.size(db), size);
            }
        }
    }
}

/// All keys and their types, by a scan whose names are read ahead, while keys go on leaving memory.
fn scan(keyspace: &mut LoggedKeyspace, db: DbIndex, blocks: &Blocks) -> BTreeMap<Box<[u8]>, Type> {
    let (mut found, mut cursor) = (BTreeMap::new(), 0);
    loop {
        let from = NamesFor::Scan(cursor * HASH_GRAIN);
        if let Some(wanted) = keyspace.names_wanted(db, from, 2) {
            let names = blocks.clone().names(&wanted);
            for key in KEYS {
                keyspace.cool_key(db, key);
                keyspace.depart_key(db, key);
            }
            keyspace.install_names(wanted.number, names);
        }
        cursor = keyspace.scan(db, cursor, 2, |key, value_type| {
            found.insert(key.into(), value_type);
        });
        if cursor == 0 {
            return found;
        }
    }
}

fn listed(keyspace: &mut LoggedKeyspace, db: DbIndex) -> BTreeMap<Box<[u8]>, Type> {
    let mut found = BTreeMap::new();
    keyspace.for_each_key(db, None, |key, value_type| {
        assert_eq!(found.insert(key.into(), value_type), None, "it is visited once");
    });
    found
}

fn read_all(keyspace: &mut LoggedKeyspace) {
    for db in keyspace.databases() {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        keyspace.begin_command(0);
        keyspace.for_each_key(db, None, |key, _| keys.push(key.into()));
        keys.iter().for_each(|key| keyspace.restore(db, key, Need::Value).expect("it is there"));
    }
    assert_eq!(keyspace.bare_values(), 0);
}

fn live(seed: u64, count: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let full_log = MemoryLog::default();
    let mut full = full_log.keyspace();
    let blocks = Blocks::default();
    let mut lean = blocks.keyspace();
    let policy = if rng.bool() { EvictionPolicy::ColdLfu } else { EvictionPolicy::ColdLru };
    [&mut full, &mut lean].into_iter().for_each(|it| it.settings_mut().eviction = policy);
    let mut now_ms = 0;
    for _ in 0..count {
        now_ms += rng.i64(0..20);
        blocks.pass(&mut rng);
        lean.note_indexed(blocks.indexed_lsn());
        let mut same = rng.clone();
        for (keyspace, rng) in [(&mut full, &mut rng), (&mut lean, &mut same)] {
            keyspace.begin_command(now_ms);
            change_by(keyspace, rng, now_ms, false);
        }
        assert_eq!(lean.take_restore_failure(), None);
        let db = DbIndex::all(4).nth(rng.usize(..4)).expect("there are four");
        let key = KEYS[rng.usize(..KEYS.len())];
        assert_eq!(lean.type_of(db, key), full.type_of(db, key));
        assert_eq!(lean.expires_at_ms(db, key), full.expires_at_ms(db, key));
        let bare = lean.bare_values();
        match rng.u8(..8) {
            0..3 => {
                lean.cool_key(db, key);
                assert!(lean.bare_values() >= bare);
            }
            3 => {
                let cooled = lean.cool_step(Some(rng.u64(..200)));
                // Keys with small values go with them.
                assert!(lean.bare_values() + cooled.keys >= bare + cooled.values);
            }
            6 => _ = lean.depart_key(db, key),
            7 => {
                let expected = listed(&mut full, db);
                assert_eq!(scan(&mut lean, db, &blocks), expected);
                assert_eq!(listed(&mut lean, db), expected);
                // It deletes what has expired.
                if expected.len() == full.size(db).0 {
                    let random = lean.random_key(db);
                    assert_eq!(random.is_some(), !expected.is_empty());
                    assert!(random.is_none_or(|key| expected.contains_key(&key)));
                }
            }
            4 => {
                // That a string was changed in place is forgotten with its key, as at a restart.
                let told = |it: &'static str| if it == "raw" { "embstr" } else { it };
                let encodings = [lean.encoding(db, key), full.encoding(db, key)];
                let [lean, full] = encodings.map(|it| it.map(told));
                assert_eq!(lean, full);
            }
            _ => {
                let read = |keyspace: &mut LoggedKeyspace| {
                    let string = keyspace.string(db, key).ok().flatten();
                    string.map(|string| string.as_bytes(&mut itoa::Buffer::new()).to_vec())
                };
                assert_eq!(read(&mut lean), read(&mut full));
            }
        }
        DbIndex::all(4).for_each(|db| assert_eq!(lean.size(db), full.size(db)));
        if rng.bool() {
            let count = rng.usize(..100);
            full.free_step(count);
            lean.free_step(count);
        }
        if rng.u8(..8) == 0 {
            sweep(&mut lean, &mut full, &blocks, now_ms);
        }
        if rng.u8(..8) == 0 {
            retire_bare(&mut lean, &blocks);
            retire_dropped(&mut lean, &blocks);
        }
    }
    while full.free_step(100) {}
    while lean.free_step(100) {}
    blocks.with(|reach| reach.open = Lsn(reach.open.0 | 1));
    retire_bare(&mut lean, &blocks);
    while lean.free_step(100) {}
    retire_dropped(&mut lean, &blocks);
    while lean.free_step(100) {}
    assert_eq!((lean.unlisted(), lean.dropped()), (0, &[][..]));
    assert!(needed(&blocks.log) == needed(&full_log), "both have retired the same");
    read_all(&mut lean);
    assert_eq!(all(&lean), all(&full));
    assert_eq!(all(&blocks.log.replay(|_| true)), all(&full));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn values_that_are_not_in_memory_are_as_if_they_were(seed: u64, count in 0..300usize) {
        live(seed, count);
    }
}

#[test]
fn a_value_that_cannot_be_read_is_told_and_nothing_is_made_in_its_place() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    keyspace.set_string(DB0, b"s", &[b'v'; 100], Expiry::At(50));
    let _ = keyspace.update::<Hash, _>(DB0, b"h", true, |hash| _ = hash.set(b"f", &[b'v'; 100]));
    assert!(keyspace.cool_key(DB0, b"s") && keyspace.cool_key(DB0, b"h"));
    assert!(!keyspace.cool_key(DB0, b"s"), "it went already");
    let count = blocks.log.records().len();
    blocks.with(|reach| reach.is_broken = true);
    let failed = Some(RestoreError::Io("the device does not answer".to_owned()));
    assert_eq!(keyspace.restore(DB0, b"s", Need::Name), Ok(()));
    assert_eq!(keyspace.restore(DB0, b"s", Need::Value).err(), failed);

    assert!(keyspace.string(DB0, b"s").expect("a string").is_none());
    assert_eq!(keyspace.take_restore_failure(), failed);
    let changed = keyspace.change_string(DB0, b"s", 101, 100..101, |bytes| bytes.fill(b'w'));
    assert_eq!((changed.is_ok(), keyspace.take_restore_failure()), (true, failed.clone()));
    let changed = keyspace.update::<Hash, _>(DB0, b"h", true, |_| unreachable!("it has no value"));
    assert_eq!((changed.is_ok(), keyspace.take_restore_failure()), (true, failed.clone()));
    assert!(
        !keyspace.set_expires_at_ms(DB0, b"h", Some(9)) && !keyspace.rename(DB0, b"h", DB0, b"i")
    );
    assert_eq!(keyspace.take_restore_failure(), failed);
    assert_eq!(blocks.log.records().len(), count, "nothing was logged");

    // What needs no value does not miss it.
    assert_eq!(keyspace.type_of(DB0, b"h"), Some(Type::Hash));
    assert_eq!(keyspace.expires_at_ms(DB0, b"s"), Some(Some(50)));
    assert!(keyspace.exists(DB0, b"s", true) && keyspace.size(DB0).0 == 2);
    keyspace.set_string(DB0, b"s", b"new", Expiry::Keep);
    assert!(keyspace.delete(DB0, b"h"));
    assert_eq!((keyspace.take_restore_failure(), keyspace.bare_values()), (None, 0));
    assert_eq!(keyspace.expires_at_ms(DB0, b"s"), Some(Some(50)));
}

#[test]
fn what_comes_back_late_does_not_undo_what_happened_since() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    keyspace.set_string(DB0, b"k", &[b'1'; 100], Expiry::Clear);
    assert_eq!(keyspace.missing(DB0, b"k", Need::Value), None);
    assert!(keyspace.cool_key(DB0, b"k"));
    assert_eq!(keyspace.missing(DB0, b"k", Need::Name), None);
    let missing = keyspace.missing(DB0, b"k", Need::Value).expect("its value is in the log only");
    let at = missing.addr.expect("its entry knows it");
    let read = || blocks.clone().read(missing.db, b"k", at).expect("it is there");
    let (early, late, later) = (read(), read(), read());
    assert!(keyspace.install(early) && !keyspace.install(late), "it came back before");
    assert!(keyspace.cool_key(DB0, b"k"));
    keyspace.set_string(DB0, b"k", &[b'2'; 100], Expiry::Clear);
    assert!(keyspace.cool_key(DB0, b"k"));
    assert!(!keyspace.install(later), "this is an older one");
    let value = keyspace.string(DB0, b"k").expect("a string").expect("it is there");
    assert_eq!(value.as_bytes(&mut itoa::Buffer::new()), [b'2'; 100]);
}

#[test]
fn a_large_value_that_comes_late_does_not_undo_what_happened_since() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    // Everything so far is durable and indexed, and a new block begins.
    let settle = |keyspace: &mut LoggedKeyspace| {
        blocks.with(|reach| {
            (reach.durable, reach.indexed) = (reach.open, reach.open);
            reach.open = reach.open.next();
        });
        keyspace.note_indexed(blocks.indexed_lsn());
        keyspace.begin_command(0);
    };
    let set = |keyspace: &mut LoggedKeyspace, value: u8| {
        let fill = |hash: &mut keyspace::hash::HashGuard<'_>| {
            (0..40_u8).filter(|field| hash.set(&[*field], &[value; 100])).count()
        };
        keyspace.update::<Hash, _>(DB0, b"h", true, fill).expect("a hash");
    };
    let leave = |keyspace: &mut LoggedKeyspace| {
        assert!(keyspace.cool_key(DB0, b"h") && keyspace.depart_key(DB0, b"h"));
    };
    blocks.with(|reach| reach.open = Lsn(1));
    set(&mut keyspace, 1);
    settle(&mut keyspace);
    let db = keyspace.database_id(DB0);
    let read = || {
        let at = *blocks.keys(db).get(&b"h"[..]).expect("the index knows it");
        blocks.clone().read(db, b"h", at).expect("it is there")
    };
    let early: Vec<Restored> = (0..3).map(|_| read()).collect();
    let mut early = early.into_iter();
    let mut come_late = |keyspace: &mut LoggedKeyspace| {
        assert!(!keyspace.install(early.next().expect("three were read")), "it is older");
    };
    set(&mut keyspace, 2);
    settle(&mut keyspace);
    leave(&mut keyspace);
    come_late(&mut keyspace);
    // It comes back, and leaves again; with its key, and without.
    assert!(keyspace.install(read()) && keyspace.cool_key(DB0, b"h"));
    come_late(&mut keyspace);
    assert!(keyspace.depart_key(DB0, b"h"));
    come_late(&mut keyspace);
    let hash = keyspace.read::<Hash>(DB0, b"h").expect("a hash").expect("it is there");
    assert_eq!(hash.get(&[7]), Some(&[2; 100][..]));
}

#[test]
fn a_key_that_was_asked_for_stays_until_the_hand_comes_by_again() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    blocks.with(|reach| reach.open = Lsn(1));
    keyspace.set_string(DB0, b"small", b"1", Expiry::Clear);
    keyspace.set_string(DB0, b"large", &[b'v'; 100], Expiry::Clear);
    // It stays, so that there always are keys that take too much.
    keyspace.set_string(DB0, b"watched", b"1", Expiry::Clear);
    keyspace.watch(DB0, b"watched");
    blocks.with(|reach| (reach.open, reach.durable, reach.indexed) = (Lsn(2), Lsn(1), Lsn(1)));
    keyspace.note_indexed(blocks.indexed_lsn());
    let until_cold = |keyspace: &mut LoggedKeyspace, count: u64| {
        (1..100).find(|_| {
            keyspace.cool_step(Some(0));
            keyspace.cold_keys() == count
        })
    };
    assert!(until_cold(&mut keyspace, 2).is_some(), "both go");
    let db = keyspace.database_id(DB0);
    for key in [&b"small"[..], b"large"] {
        let at = *blocks.keys(db).get(key).expect("the index knows it");
        // The hand is at the first page, the only one, when the key comes.
        while keyspace.cool_step(Some(0)).round.is_none() {}
        assert!(keyspace.install(blocks.clone().read(db, key, at).expect("it is there")));
        keyspace.cool_step(Some(0));
        assert_eq!(keyspace.missing(DB0, key, Need::Value), None, "{key:?} has just come");
        assert!(until_cold(&mut keyspace, 2).is_some(), "it goes in the end");
    }
}

#[test]
fn the_hand_takes_what_is_used_least_and_says_when_nothing_can_go() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.settings_mut().eviction = EvictionPolicy::ColdLfu;
    keyspace.begin_command(0);
    blocks.with(|reach| reach.open = Lsn(1));
    let name = |number: u32| format!("key:{number}").into_bytes();
    for number in 0..5000 {
        keyspace.set_string(DB0, &name(number), &[b'v'; 100], Expiry::Clear);
    }
    for number in (0..5000).filter(|number| number % 10 == 0) {
        (0..200).for_each(|_| _ = keyspace.string(DB0, &name(number)));
    }
    let round = |keyspace: &mut LoggedKeyspace| {
        (0..1000).find_map(|_| keyspace.cool_step(None).round).expect("there are fewer pages")
    };
    // Nothing is durable.
    assert_eq!(round(&mut keyspace), Round { gone: 0, was_desperate: false });
    assert_eq!(round(&mut keyspace), Round { gone: 0, was_desperate: true });
    blocks.with(|reach| reach.durable = Lsn(1));
    assert_eq!(round(&mut keyspace), Round { gone: 5000, was_desperate: true });
    read_all(&mut keyspace);
    keyspace.begin_command(0);
    let passed_over = round(&mut keyspace);
    assert_eq!(passed_over, Round { gone: 0, was_desperate: false }, "all have come back");
    while keyspace.bare_values() < 4000 {
        keyspace.cool_step(None);
    }
    let is_bare = |keyspace: &mut LoggedKeyspace, number: &u32| {
        keyspace.missing(DB0, &name(*number), Need::Value).is_some()
    };
    let hot = (0..5000).filter(|number| number % 10 == 0);
    let gone = hot.filter(|number| is_bare(&mut keyspace, number)).count();
    assert!(gone < 25, "{gone} of 500 that are used went before 4000 of 4500 that are not");
    // What is asked for stays until the hand comes by again.
    let cold = (0..5000).find(|number| is_bare(&mut keyspace, number)).expect("most of them are");
    keyspace.restore(DB0, &name(cold), Need::Value).expect("it is there");
    assert!(!is_bare(&mut keyspace, &cold));
    while keyspace.bare_values() < 5000 {
        keyspace.cool_step(None);
        assert_eq!(keyspace.take_restore_failure(), None);
    }
}

#[test]
fn a_scan_sees_all_although_pages_split_before_its_names_are_there() {
    let blocks = Blocks::default();
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    let name = |number: u32| format!("key:{number}").into_bytes();
    for number in 0..400 {
        keyspace.set_string(DB0, &name(number), &[b'v'; 100], Expiry::Clear);
    }
    (0..2).for_each(|_| blocks.all_indexed());
    keyspace.note_indexed(blocks.indexed_lsn());
    for number in (0..400).step_by(5) {
        assert!(keyspace.cool_key(DB0, &name(number)) && keyspace.depart_key(DB0, &name(number)));
    }
    let (mut found, mut cursor, mut added) = (BTreeSet::new(), 0, 400);
    loop {
        let wanted = keyspace.names_wanted(DB0, NamesFor::Scan(cursor * HASH_GRAIN), 1000);
        for number in added..added + 300 {
            keyspace.set_string(DB0, &name(number), b"new", Expiry::Clear);
        }
        added += 300;
        if let Some(wanted) = wanted {
            keyspace.install_names(wanted.number, blocks.clone().names(&wanted));
        }
        cursor = keyspace.scan(DB0, cursor, 1000, |key, _| _ = found.insert(key.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    let missed: Vec<u32> = (0..400).filter(|number| !found.contains(&name(*number))).collect();
    assert!(missed.is_empty(), "{missed:?} were there all the time");
    assert_eq!(keyspace.take_restore_failure(), None);
}
