//! The keyspace against plain maps: strings, hashes and sets in several databases, with deletes,
//! renames, copies, expiry, SWAPDB and FLUSHDB; and the same again from the log after a crash.

use std::collections::{BTreeMap, BTreeSet};

use base::DbIndex;
use keyspace::hash::Hash;
use keyspace::set::Set;
use keyspace::{Expiry, Type};
use proptest::prelude::*;

use crate::journal::{LoggedKeyspace, MemoryLog};

const DB_COUNT: usize = 3;

type Bytes = Vec<u8>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    String(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(BTreeSet<Bytes>),
}

/// A key of a database.
type Name = (DbIndex, u8);

/// One command's change, or what happens between commands.
#[derive(Debug, Clone)]
enum Step {
    SetString(Name, Bytes, Option<i64>),
    Overwrite(Name, usize, Bytes),
    SetFields(Name, Vec<(Bytes, Bytes)>),
    RemoveFields(Name, Vec<Bytes>),
    Add(Name, Vec<Bytes>),
    Remove(Name, Vec<Bytes>),
    Pop(Name, usize),
    Delete(Name),
    Rename(Name, Name),
    Copy(Name, Name),
    Expire(Name, Option<i64>),
    Swap(DbIndex, DbIndex),
    Flush(DbIndex, DbIndex),
    Wait(i64),
    ExpireSample(DbIndex),
    Free(usize),
    /// A crash, after which replay sees every `n`-th of the retired records.
    Crash(usize),
}

fn db() -> impl Strategy<Value = DbIndex> {
    prop::sample::select(DbIndex::all(DB_COUNT).collect::<Vec<_>>())
}

fn name() -> impl Strategy<Value = Name> {
    (db(), b'a'..=b'd')
}

/// Few different elements, numbers and others, some long.
fn element() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        8 => (-40i64..80).prop_map(|number| number.to_string().into_bytes()),
        3 => (0..40u32).prop_map(|number| format!("element:{number}").into_bytes()),
        1 => (1..6usize).prop_map(|size| vec![b'x'; size * 60]),
    ]
}

fn elements() -> impl Strategy<Value = Vec<Bytes>> {
    let numbers = (0..60usize).prop_map(|count| (0..count).map(|n| n.to_string().into()).collect());
    prop_oneof![3 => prop::collection::vec(element(), 1..20), 1 => numbers]
}

fn string() -> impl Strategy<Value = Bytes> {
    prop_oneof![element(), (1..4usize).prop_map(|chunks| vec![b's'; chunks * 3000])]
}

fn step() -> impl Strategy<Value = Step> {
    let pairs = prop::collection::vec((element(), element()), 1..20);
    let time = prop::option::of(0..200i64);
    prop_oneof![
        3 => (name(), string(), time.clone()).prop_map(|(n, s, at)| Step::SetString(n, s, at)),
        1 => (name(), 0..9000usize, element()).prop_map(|(n, at, b)| Step::Overwrite(n, at, b)),
        8 => (name(), pairs).prop_map(|(n, pairs)| Step::SetFields(n, pairs)),
        4 => (name(), elements()).prop_map(|(n, fields)| Step::RemoveFields(n, fields)),
        8 => (name(), elements()).prop_map(|(n, members)| Step::Add(n, members)),
        4 => (name(), elements()).prop_map(|(n, members)| Step::Remove(n, members)),
        2 => (name(), 0..30usize).prop_map(|(n, count)| Step::Pop(n, count)),
        3 => name().prop_map(Step::Delete),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => (name(), name()).prop_map(|(from, to)| Step::Copy(from, to)),
        3 => (name(), time).prop_map(|(n, at)| Step::Expire(n, at)),
        2 => (db(), db()).prop_map(|(a, b)| Step::Swap(a, b)),
        1 => (db(), db()).prop_map(|(from, to)| Step::Flush(from, to)),
        2 => (0..20i64).prop_map(Step::Wait),
        1 => db().prop_map(Step::ExpireSample),
        3 => (0..200usize).prop_map(Step::Free),
        2 => (1..5usize).prop_map(Step::Crash),
    ]
}

/// What a client can see of a key: its value, when it expires, how it is encoded.
type Seen = (Value, Option<i64>, &'static str);

/// A keyspace and what it should be.
struct Checked {
    log: MemoryLog,
    keyspace: LoggedKeyspace,
    now_ms: i64,
    model: Vec<BTreeMap<u8, (Value, Option<i64>)>>,
}

impl Checked {
    fn new() -> Self {
        let log = MemoryLog::default();
        Self { keyspace: log.keyspace(), log, now_ms: 0, model: vec![BTreeMap::new(); DB_COUNT] }
    }

    fn get(&mut self, (db, key): Name) -> Option<&mut Value> {
        self.model[db.get()].get_mut(&key).map(|(value, _)| value)
    }

    fn set_fields(&mut self, name: Name, pairs: &[(Bytes, Bytes)]) {
        let updated = self.keyspace.update::<Hash, _>(name.0, &[name.1], true, |hash| {
            pairs.iter().filter(|(field, value)| hash.set(field, value)).count()
        });
        if self.get(name).is_some_and(|value| !matches!(value, Value::Hash(_))) {
            assert!(updated.is_err());
            return;
        }
        let entry = self.model[name.0.get()].entry(name.1);
        let (value, _) = entry.or_insert((Value::Hash(BTreeMap::new()), None));
        let Value::Hash(hash) = value else { unreachable!("just looked") };
        let old_len = hash.len();
        hash.extend(pairs.iter().cloned());
        let new_count = hash.len() - old_len;
        assert_eq!(updated.expect("a hash").expect("created").value, new_count);
    }

    fn remove_fields(&mut self, name: Name, fields: &[Bytes]) {
        let updated = self.keyspace.update::<Hash, _>(name.0, &[name.1], false, |hash| {
            fields.iter().filter(|field| hash.remove(field)).count()
        });
        let Some(Value::Hash(hash)) = self.get(name) else { return };
        let removed = fields.iter().filter(|field| hash.remove(*field).is_some()).count();
        let is_empty = hash.is_empty();
        let updated = updated.expect("a hash").expect("it is there");
        assert_eq!((updated.value, updated.emptied), (removed, is_empty));
        if is_empty {
            self.model[name.0.get()].remove(&name.1);
        }
    }

    fn add(&mut self, name: Name, members: &[Bytes]) {
        let updated = self.keyspace.update::<Set, _>(name.0, &[name.1], true, |set| {
            members.iter().filter(|member| set.add(member)).count()
        });
        if members.is_empty() || self.get(name).is_some_and(|v| !matches!(v, Value::Set(_))) {
            return;
        }
        let entry = self.model[name.0.get()].entry(name.1);
        let (value, _) = entry.or_insert((Value::Set(BTreeSet::new()), None));
        let Value::Set(set) = value else { unreachable!("just looked") };
        let added = members.iter().filter(|member| set.insert((*member).clone())).count();
        assert_eq!(updated.expect("a set").expect("created").value, added);
    }

    /// Removes what `change` says that it removed.
    fn remove(
        &mut self,
        name: Name,
        change: impl FnOnce(&mut keyspace::set::SetGuard<'_>) -> Vec<Bytes>,
    ) {
        let updated = self.keyspace.update::<Set, _>(name.0, &[name.1], false, change);
        let Some(Value::Set(set)) = self.get(name) else { return };
        let updated = updated.expect("a set").expect("it is there");
        for member in &updated.value {
            assert!(set.remove(member), "{member:?} was not there");
        }
        let is_empty = set.is_empty();
        assert_eq!(updated.emptied, is_empty);
        if is_empty {
            self.model[name.0.get()].remove(&name.1);
        }
    }

    fn pop(&mut self, name: Name, count: usize) {
        let len = match self.get(name) {
            Some(Value::Set(set)) => set.len(),
            _ => return,
        };
        let mut popped = 0;
        self.remove(name, |set| {
            let members = set.pop(count);
            popped = members.len();
            members.into_iter().map(Vec::from).collect()
        });
        assert_eq!(popped, count.min(len));
    }

    fn overwrite(&mut self, name: Name, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        let changed = self.keyspace.change_string(name.0, &[name.1], end, at..end, |old| {
            old.copy_from_slice(bytes);
        });
        if self.get(name).is_some_and(|value| !matches!(value, Value::String(_))) {
            assert!(changed.is_err());
            return;
        }
        let (value, _) =
            self.model[name.0.get()].entry(name.1).or_insert((Value::String(Vec::new()), None));
        let Value::String(string) = value else { unreachable!("just looked") };
        string.resize(string.len().max(end), 0);
        string[at..end].copy_from_slice(bytes);
        assert_eq!(changed, Ok(string.len()));
    }

    fn step(&mut self, step: &Step) {
        self.keyspace.begin_command(self.now_ms);
        match step {
            Step::SetString(name, string, at_ms) => {
                let expiry = at_ms.map_or(Expiry::Clear, Expiry::At);
                self.keyspace.set_string(name.0, &[name.1], string, expiry);
                self.model[name.0.get()].insert(name.1, (Value::String(string.clone()), *at_ms));
            }
            Step::Overwrite(name, at, bytes) => self.overwrite(*name, *at, bytes),
            Step::SetFields(name, pairs) => self.set_fields(*name, pairs),
            Step::RemoveFields(name, fields) => self.remove_fields(*name, fields),
            Step::Add(name, members) => self.add(*name, members),
            Step::Remove(name, members) => self.remove(*name, |set| {
                members.iter().filter(|member| set.remove(member)).cloned().collect()
            }),
            Step::Pop(name, count) => self.pop(*name, *count),
            Step::Delete(name) => {
                let was_there = self.keyspace.delete(name.0, &[name.1]);
                assert_eq!(was_there, self.model[name.0.get()].remove(&name.1).is_some());
            }
            Step::Rename(from, to) => {
                let done = self.keyspace.rename(from.0, &[from.1], to.0, &[to.1]);
                let taken = self.model[from.0.get()].remove(&from.1);
                assert_eq!(done, taken.is_some());
                taken.map(|taken| self.model[to.0.get()].insert(to.1, taken));
            }
            Step::Copy(from, to) if from != to => {
                let done = self.keyspace.copy(from.0, &[from.1], to.0, &[to.1]);
                let copy = self.model[from.0.get()].get(&from.1).cloned();
                assert_eq!(done, copy.is_some());
                copy.map(|copy| self.model[to.0.get()].insert(to.1, copy));
            }
            Step::Copy(..) => {}
            Step::Expire(name, at_ms) => {
                self.keyspace.set_expires_at_ms(name.0, &[name.1], *at_ms);
                self.model[name.0.get()].entry(name.1).and_modify(|(_, expires)| *expires = *at_ms);
            }
            Step::Swap(a, b) => {
                self.keyspace.swap(*a, *b);
                self.model.swap(a.get(), b.get());
            }
            Step::Flush(from, to) => {
                let range = || DbIndex::all(DB_COUNT).filter(|db| (from..=to).contains(&db));
                self.keyspace.flush(range());
                range().for_each(|db| self.model[db.get()].clear());
            }
            Step::Wait(ms) => self.now_ms += ms,
            Step::ExpireSample(db) => drop(self.keyspace.expire_sample(*db, 3)),
            Step::Free(items_max) => drop(self.keyspace.free_step(*items_max)),
            Step::Crash(nth) => self.crash(|at| at % nth == 0),
        }
        let now_ms = self.now_ms;
        for db in &mut self.model {
            db.retain(|_, (_, expires)| expires.is_none_or(|at_ms| at_ms > now_ms));
        }
    }

    fn crash(&mut self, keeps: impl FnMut(usize) -> bool) {
        let before = self.dump();
        self.keyspace = self.log.replay_after_crash(keeps);
        assert_eq!(self.dump(), before, "what replay restores");
    }

    /// Everything that a client can see.
    fn dump(&mut self) -> BTreeMap<Name, Seen> {
        self.keyspace.begin_command(self.now_ms);
        let mut dump = BTreeMap::new();
        for db in DbIndex::all(DB_COUNT) {
            let mut keys = Vec::new();
            self.keyspace.for_each_key(db, None, |key, value_type| keys.push((key[0], value_type)));
            for (key, value_type) in keys {
                let value = self.read((db, key), value_type);
                let expires = self.keyspace.expires_at_ms(db, &[key]).expect("it is there");
                // How a string was made is not in the log.
                let encoding = match value_type {
                    Type::String => "",
                    _ => self.keyspace.encoding(db, &[key]).expect("it is there"),
                };
                assert!(dump.insert((db, key), (value, expires, encoding)).is_none());
            }
        }
        dump
    }

    fn read(&mut self, (db, key): Name, value_type: Type) -> Value {
        match value_type {
            Type::String => {
                let string = self.keyspace.string(db, &[key]).expect("a string").expect("there");
                Value::String(string.as_bytes(&mut itoa::Buffer::new()).to_vec())
            }
            Type::Hash => {
                let hash = self.keyspace.read::<Hash>(db, &[key]).expect("a hash").expect("there");
                let mut pairs = BTreeMap::new();
                hash.for_each(|field, value| {
                    assert_eq!(hash.get(field), Some(value));
                    assert!(pairs.insert(field.to_vec(), value.to_vec()).is_none());
                });
                assert_eq!(hash.len(), pairs.len());
                Value::Hash(pairs)
            }
            Type::Set => {
                let set = self.keyspace.read::<Set>(db, &[key]).expect("a set").expect("there");
                let members: Vec<Bytes> = set.iter().map(<[u8]>::to_vec).collect();
                assert_eq!(set.len(), members.len());
                assert!(members.iter().all(|member| set.contains(member)));
                if self.keyspace.encoding(db, &[key]) == Some("intset") {
                    let numbers = members.iter().map(|member| keyspace::parse_int(member));
                    assert!(numbers.is_sorted_by(|a, b| a.is_some() && a < b));
                }
                let len = members.len();
                let members = BTreeSet::from_iter(members);
                assert_eq!(members.len(), len);
                Value::Set(members)
            }
            Type::List | Type::ZSet | Type::Stream => unreachable!("not made here"),
        }
    }

    fn check(&mut self) {
        let dump = self.dump();
        let seen = dump.into_iter().map(|(name, (value, expires, _))| (name, (value, expires)));
        let model = DbIndex::all(DB_COUNT)
            .zip(&self.model)
            .flat_map(|(db, keys)| keys.iter().map(move |(key, seen)| ((db, *key), seen.clone())));
        assert_eq!(BTreeMap::from_iter(seen), BTreeMap::from_iter(model));
    }

    /// What the log says of the number of keys without being applied.
    fn check_counts(&mut self) {
        let counts = self.log.key_counts();
        for (db, count) in DbIndex::all(DB_COUNT).zip(counts) {
            assert_eq!(count, self.keyspace.size(db).0, "keys in database {}", db.get());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_keyspace_is_its_maps_and_survives_crashes(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut checked = Checked::new();
        checked.keyspace.settings_mut().set_max_intset_entries = 50;
        for step in &steps {
            checked.step(step);
            checked.check();
            checked.check_counts();
        }
        for nth in [1, 2, usize::MAX] {
            checked.crash(|at| at % nth == 0);
            checked.check();
        }
        while checked.keyspace.free_step(100) {}
        checked.keyspace = checked.log.replay(|at| at % 3 == 0);
        checked.check();
    }
}
