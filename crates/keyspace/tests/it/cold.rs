//! Two keyspaces go on from the same log, with the same commands: one has read all of it, in the other
//! all keys are cold. They cannot be told apart, whatever comes back when, and in the end both have
//! retired the same records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, DbIndex, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use keyspace::hash::Hash;
use keyspace::{
    ColdStart, DatabaseMap, Expiry, Journal, KeyHasher, Keyspace, Look, LostKey, Need,
    RestoreError, Restored, Restorer, Type, Warmth,
};
use proptest::prelude::*;

use crate::DB0;
use crate::follow::{DB_COUNT, KEYS, all, change_by};
use crate::journal::{Logged, LoggedKeyspace, MemoryLog, SEED, addr};

/// What an index says of a log at one moment: the newest records, by name.
#[derive(Clone, Default)]
pub(crate) struct Index {
    records: Vec<Logged>,
    keys: BTreeMap<(DbId, Box<[u8]>), RecordAddr>,
    elements: BTreeMap<ObjectId, BTreeMap<Box<[u8]>, RecordAddr>>,
    start: ColdStart,
    next_object: ObjectId,
    is_broken: Arc<AtomicBool>,
}

impl Index {
    pub(crate) fn of(log: &MemoryLog) -> Self {
        let records = log.records().clone();
        let mut index = Self { records, next_object: ObjectId(1), ..Self::default() };
        for (at, logged) in index.records.iter().enumerate() {
            index.next_object = index.next_object.max(logged.object.next());
            let elements = index.elements.entry(logged.object).or_default();
            let name = (logged.db, logged.key.clone());
            match logged.kind {
                RecordKind::Databases => {
                    let map = DatabaseMap::read(&logged.record()).expect("it was logged");
                    index.start.databases = Some((map, addr(at)));
                }
                RecordKind::KeyDeleted => _ = index.keys.remove(&name),
                RecordKind::ElementDeleted => _ = elements.remove(&logged.sub),
                kind if kind.is_element() => _ = elements.insert(logged.sub.clone(), addr(at)),
                _ => {
                    let seen = &mut index.start.databases_seen;
                    *seen = (*seen).max(logged.db.0 + 1);
                    index.keys.insert(name, addr(at));
                }
            }
        }
        let mut counts = BTreeMap::new();
        index.keys.keys().for_each(|(db, _)| *counts.entry(*db).or_default() += 1);
        index.start.keys = counts.into_iter().collect();
        index
    }

    /// Where the elements of an object are.
    pub(crate) fn elements(&self, object: ObjectId) -> Vec<RecordAddr> {
        self.elements.get(&object).into_iter().flat_map(BTreeMap::values).copied().collect()
    }

    fn record(&self, addr: RecordAddr) -> Record<'_> {
        self.records[addr.ordinal() as usize].record()
    }

    pub(crate) fn restored(&self, addr: RecordAddr) -> Restored {
        let begun = Restored::of(&self.record(addr), addr, KeyHasher::new(SEED));
        let mut restored = begun.expect("the record of a key");
        for addr in self.elements.get(&restored.object()).into_iter().flat_map(BTreeMap::values) {
            restored.gather(&self.record(*addr), *addr).expect("an element");
        }
        restored.arrange().expect("it has elements")
    }

    /// Says what the elements are of objects that were deleted while only their keys were in memory.
    fn list_garbage(&self, keyspace: &mut LoggedKeyspace) {
        for object in keyspace.take_bare_garbage() {
            keyspace.retire_elements(object, Some(self.elements(object)));
        }
    }

    /// Says what is garbage in the databases that were emptied. Here no record is retired twice.
    fn retire_dropped(&self, keyspace: &mut LoggedKeyspace, log: &MemoryLog) {
        while keyspace.free_step(100) {}
        for dropped in keyspace.take_dropped() {
            for ((_, _), addr) in self.keys.iter().filter(|((id, _), _)| *id == dropped) {
                let elements = self.elements.get(&self.record(*addr).object);
                let elements = elements.into_iter().flat_map(BTreeMap::values).copied();
                keyspace.retire_cold(*addr, elements.filter(|it| !log.is_retired(*it)).collect());
            }
        }
    }
}

impl Restorer for Index {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(RestoreError::Io("the index cannot be read".to_owned()));
        }
        Ok(self.keys.get(&(db, key.into())).copied())
    }

    fn look(&mut self, db: DbId, key: &[u8]) -> Look {
        self.keys.get(&(db, key.into())).map_or(Look::Absent, |addr| Look::At(*addr))
    }

    fn look_by_index(&mut self, db: DbId, key: &[u8]) -> Option<Restored> {
        let addr = *self.keys.get(&(db, key.into()))?;
        let (record, hasher) = (self.record(addr), KeyHasher::new(SEED));
        let of = LostKey {
            db,
            identity: hasher.identity(key),
            addr,
            value_type: Type::of_record(record.kind)?,
            expires_at_ms: record.expires_at_ms,
            object: (record.object != ObjectId::NONE).then_some(record.object),
        };
        Some(Restored::by_index(key, &of, Lsn(u64::MAX), hasher))
    }

    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        let record = self.record(addr);
        assert_eq!((record.db, record.key), (db, key));
        Ok(self.restored(addr))
    }
}

/// A keyspace whose keys are all cold, which goes on logging to `log`.
pub(crate) fn cold(log: &MemoryLog, index: &Index) -> LoggedKeyspace {
    let mut keyspace = Keyspace::new(Box::new(log.clone()) as Box<dyn Journal>, SEED, 4);
    keyspace.skip_objects_below(index.next_object);
    keyspace.begin_cold(&index.start, Box::new(index.clone()));
    keyspace
}

/// Brings back what has not come by itself, and frees what is left over.
fn warm_up(keyspace: &mut LoggedKeyspace, index: &Index) {
    index.keys.values().for_each(|addr| _ = keyspace.install(index.restored(*addr)));
    assert_eq!(keyspace.end_cold(), 0, "every key that was counted has come");
    while keyspace.free_step(100) {}
    index.list_garbage(keyspace);
    while keyspace.free_step(100) {}
}

/// What is not retired, whatever the order in which it was logged: elements of a copy come as they lie
/// in their table.
pub(crate) fn needed(log: &MemoryLog) -> Vec<String> {
    let records = log.records();
    let needed = records.iter().filter(|it| !it.is_retired && !it.kind.is_delete());
    let mut needed: Vec<String> = needed.map(|it| format!("{:?}", it.record())).collect();
    needed.sort();
    needed
}

/// With `names`, some keys come back by what the index says, without their values.
fn live(seed: u64, before: usize, after: usize, names: bool) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    let mut now_ms = 0;
    for _ in 0..before {
        now_ms += rng.i64(0..20);
        first.begin_command(now_ms);
        change_by(&mut first, &mut rng, now_ms, true);
    }
    while first.free_step(100) {}
    let (warm_log, cold_log) = (log.snapshot(), log.snapshot());
    let index = Index::of(&log);
    let mut warm = warm_log.replay(|_| true);
    let mut cold = cold(&cold_log, &index);
    let waiting: Vec<RecordAddr> = index.keys.values().copied().collect();
    for _ in 0..after {
        now_ms += rng.i64(0..20);
        if names && rng.bool() {
            let db = DbIndex::all(DB_COUNT).nth(rng.usize(..DB_COUNT)).expect("there are so many");
            let key = KEYS[rng.usize(..KEYS.len())];
            let had = cold.size(db).0;
            assert_eq!(cold.missing(db, key, Need::Name), None, "the index tells");
            assert_eq!(cold.size(db).0, had);
        }
        let mut same = rng.clone();
        for (keyspace, rng) in [(&mut warm, &mut rng), (&mut cold, &mut same)] {
            keyspace.begin_command(now_ms);
            change_by(keyspace, rng, now_ms, false);
        }
        assert_eq!(cold.take_restore_failure(), None);
        for db in DbIndex::all(DB_COUNT) {
            assert_eq!(cold.size(db).0, warm.size(db).0, "keys of database {db}");
        }
        if rng.bool() {
            let db = DbIndex::all(DB_COUNT).nth(rng.usize(..DB_COUNT)).expect("there are so many");
            let key = KEYS[0];
            assert_eq!(cold.exists(db, key, true), warm.exists(db, key, true));
            assert_eq!(cold.expires_at_ms(db, key), warm.expires_at_ms(db, key));
        }
        if rng.u8(..4) == 0 && !waiting.is_empty() {
            cold.install(index.restored(waiting[rng.usize(..waiting.len())]));
        }
        if rng.bool() {
            let count = rng.usize(..100);
            warm.free_step(count);
            cold.free_step(count);
        }
        if rng.u8(..4) == 0 {
            index.list_garbage(&mut cold);
        }
        if rng.u8(..8) == 0 {
            index.retire_dropped(&mut cold, &cold_log);
        }
    }
    index.retire_dropped(&mut cold, &cold_log);
    warm_up(&mut cold, &index);
    while warm.free_step(100) {}
    assert_eq!(all(&cold), all(&warm));
    assert!(needed(&cold_log) == needed(&warm_log), "both have retired the same");
    assert_eq!(all(&cold_log.replay(|_| true)), all(&warm));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cold_keys_are_as_if_they_were_there(
        seed: u64, before in 0..200usize, after in 0..60usize, names: bool
    ) {
        live(seed, before, after, names);
    }
}

#[test]
fn a_key_that_cannot_be_read_is_told_and_nothing_is_made_of_it() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    first.set_string(DB0, b"k", b"1", Expiry::Clear);
    let index = Index::of(&log);
    let mut keyspace = cold(&log, &index);
    index.is_broken.store(true, Ordering::Relaxed);
    let failed = RestoreError::Io("the index cannot be read".to_owned());
    assert_eq!(keyspace.restore(DB0, b"k", Need::Value), Err(failed.clone()));
    assert!(!keyspace.exists(DB0, b"k", false));
    assert_eq!(keyspace.take_restore_failure(), Some(failed));
    assert_eq!(keyspace.take_restore_failure(), None);
    assert_eq!(keyspace.size(DB0).0, 1, "it is there all the same");
    assert_eq!(keyspace.end_cold(), 1, "and still to come");
    index.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(keyspace.restore(DB0, b"k", Need::Value), Ok(()));
    assert!(keyspace.exists(DB0, b"k", false));
    assert_eq!(keyspace.end_cold(), 0);
}

#[test]
fn what_was_looked_up_cannot_fail_until_the_transaction_ends() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    for key in [b"a", b"b", b"c"] {
        first.set_string(DB0, key, b"1", Expiry::Clear);
    }
    let index = Index::of(&log);
    let mut keyspace = cold(&log, &index);
    // It is in the table when the transaction begins.
    assert_eq!(keyspace.restore(DB0, b"a", Need::Value), Ok(()));
    keyspace.forget_lookups();
    for key in [b"a", b"b"] {
        assert_eq!(keyspace.restore(DB0, key, Need::Value), Ok(()));
    }
    index.is_broken.store(true, Ordering::Relaxed);
    for key in [b"a", b"b"] {
        assert!(keyspace.delete(DB0, key));
        assert!(!keyspace.exists(DB0, key, false));
    }
    assert_eq!(keyspace.take_restore_failure(), None);
    assert!(!keyspace.exists(DB0, b"c", false));
    assert!(keyspace.take_restore_failure().is_some(), "it was not looked up");
    keyspace.flush([DB0]);
    assert!(!keyspace.exists(DB0, b"c", false));
    assert_eq!(keyspace.take_restore_failure(), None, "nothing of a new database is cold");
}

#[test]
fn what_came_back_is_freed_before_an_emptied_database_is_listed() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    first.set_string(DB0, b"cold", b"1", Expiry::Clear);
    first.set_string(DB0, b"back", b"1", Expiry::Clear);
    let index = Index::of(&log);
    let mut keyspace = cold(&log, &index);
    assert_eq!(keyspace.restore(DB0, b"back", Need::Value), Ok(()));
    let db = keyspace.database_id(DB0);
    keyspace.flush([DB0]);
    assert!(!keyspace.dropped().is_empty() && keyspace.freeing() > 0);
    assert_eq!(keyspace.take_dropped(), [], "a record would be retired twice");
    while keyspace.free_step(1) {}
    assert_eq!(keyspace.take_dropped(), [db]);
}

/// Two may have asked for it: nothing large is freed in one piece.
#[test]
fn a_large_value_that_comes_too_late_is_freed_little_by_little() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    let _ = first.update::<Hash, _>(DB0, b"k", true, |hash| {
        (0..5000).for_each(|field| _ = hash.set(format!("f{field}").as_bytes(), b"v"));
    });
    let index = Index::of(&log);
    let addr = *index.keys.values().next().expect("there is one");
    let mut keyspace = cold(&log, &index);
    assert!(keyspace.install(index.restored(addr)));
    assert_eq!(keyspace.freeing(), 0);
    assert!(!keyspace.install(index.restored(addr)), "it is there");
    assert!(!keyspace.install_key(index.restored(addr), true, Warmth::Asked));
    assert_eq!(keyspace.freeing(), 2);
    while keyspace.free_step(100) {}
    assert_eq!(keyspace.freeing(), 0);
    assert_eq!(needed(&log).len(), 5001, "nothing of it is garbage");
}

#[test]
fn what_is_watched_or_waited_for_may_be_cold() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    let _ = first.update::<Hash, _>(DB0, b"k", true, |hash| _ = hash.set(b"f", b"v"));
    let index = Index::of(&log);
    let other = DbIndex::all(DB_COUNT).nth(2).expect("there are three");

    let mut keyspace = cold(&log.snapshot(), &index);
    keyspace.await_key(other, b"k");
    keyspace.swap(DB0, other);
    assert_eq!(keyspace.take_effects().ready, [(other, Box::from(&b"k"[..]))]);

    let mut keyspace = cold(&log.snapshot(), &index);
    keyspace.watch(DB0, b"k");
    assert_eq!(keyspace.flush([DB0]), 1);
    assert_eq!(keyspace.take_effects().touched, [(DB0, Box::from(&b"k"[..]))]);
    assert_eq!(keyspace.size(DB0).0, 0);
    assert!(!keyspace.exists(DB0, b"k", false));

    // Watched where it is not, and where it is.
    for watched in [other, DB0] {
        let mut keyspace = cold(&log.snapshot(), &index);
        keyspace.watch(watched, b"k");
        keyspace.swap(DB0, other);
        assert_eq!(keyspace.take_effects().touched, [(watched, Box::from(&b"k"[..]))]);
    }
}
