//! What commands do to keyspaces: at random, to several of them in the same way.

use base::DbIndex;
use keyspace::hash::{Field, Hash};
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::string::Form;
use keyspace::zset::ZSet;
use keyspace::{EvictionPolicy, Expiry, Keyspace};
use proptest::prelude::*;

use crate::journal::{LoggedKeyspace, MemoryLog};

pub(super) const DB_COUNT: usize = 3;

/// A database and the number of a key in it.
pub(super) type Name = (DbIndex, u8);

/// A range of elements: the first and how many.
pub(super) type Some = (u16, u16);

#[derive(Debug, Clone)]
pub(super) enum Command {
    Set(Name, usize, Option<i64>),
    SetKeeping(Name, usize),
    Add(Name, i64),
    Overwrite(Name, usize, usize),
    MakeRaw(Name),
    SetFields(Name, Some, u8),
    RemoveFields(Name, Some),
    AddMembers(Name, Some),
    RemoveMembers(Name, Some),
    Pop(Name, usize),
    Score(Name, Some, u8),
    RemoveScored(Name, Some),
    RemoveRanks(Name, usize, usize),
    Push(Name, bool, Some),
    Insert(Name, usize, Some),
    SetItem(Name, usize, u16),
    Cut(Name, bool, usize),
    RemoveItems(Name, bool, u16, usize),
    Store(Name, Some),
    Delete(Name),
    Rename(Name, Name),
    Copy(Name, Name),
    Expire(Name, Option<i64>),
    Swap(DbIndex, DbIndex),
    Flush(DbIndex),
    FlushAll,
    Fill(DbIndex, Some),
    Clear(DbIndex, Some),
    Wait(i64),
    ExpireSome(DbIndex),
    Evict,
    Free(usize),
}

fn db() -> impl Strategy<Value = DbIndex> {
    (0..DB_COUNT).prop_map(|db| DbIndex::checked(db, DB_COUNT).expect("in range"))
}

fn name() -> impl Strategy<Value = Name> {
    (db(), 0u8..6)
}

fn some() -> impl Strategy<Value = Some> {
    prop_oneof![
        6 => (0u16..40, 1u16..12),
        3 => (0u16..200, 40u16..200),
        1 => (0u16..200, 500u16..900),
    ]
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..300usize, 2 => 3000..20_000usize]
}

fn time() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(0..400i64)
}

fn of_values() -> impl Strategy<Value = Command> {
    use Command as C;
    prop_oneof![
        4 => (name(), bytes(), time()).prop_map(|(n, b, at)| C::Set(n, b, at)),
        2 => (name(), bytes()).prop_map(|(n, b)| C::SetKeeping(n, b)),
        3 => (name(), -3..40i64).prop_map(|(n, by)| C::Add(n, by)),
        5 => (name(), bytes(), 0..9000usize).prop_map(|(n, at, b)| C::Overwrite(n, at, b)),
        1 => name().prop_map(C::MakeRaw),
        9 => (name(), some(), any::<u8>()).prop_map(|(n, some, v)| C::SetFields(n, some, v)),
        5 => (name(), some()).prop_map(|(n, some)| C::RemoveFields(n, some)),
        7 => (name(), some()).prop_map(|(n, some)| C::AddMembers(n, some)),
        4 => (name(), some()).prop_map(|(n, some)| C::RemoveMembers(n, some)),
        2 => (name(), 0..30usize).prop_map(|(n, count)| C::Pop(n, count)),
        9 => (name(), some(), 0..4u8).prop_map(|(n, some, score)| C::Score(n, some, score)),
        4 => (name(), some()).prop_map(|(n, some)| C::RemoveScored(n, some)),
        2 => (name(), 0..60usize, 0..60usize).prop_map(|(n, a, b)| C::RemoveRanks(n, a, b)),
        8 => (name(), any::<bool>(), some()).prop_map(|(n, end, some)| C::Push(n, end, some)),
        6 => (name(), 0..300usize, some()).prop_map(|(n, at, some)| C::Insert(n, at, some)),
        4 => (name(), 0..300usize, 0..50u16).prop_map(|(n, at, with)| C::SetItem(n, at, with)),
        4 => (name(), any::<bool>(), 0..150usize).prop_map(|(n, end, count)| C::Cut(n, end, count)),
        3 => (name(), any::<bool>(), 0..50u16, 0..9usize)
            .prop_map(|(n, end, item, count)| C::RemoveItems(n, end, item, count)),
        1 => (name(), some()).prop_map(|(n, some)| C::Store(n, some)),
    ]
}

fn of_keys() -> impl Strategy<Value = Command> {
    use Command as C;
    prop_oneof![
        4 => name().prop_map(C::Delete),
        6 => (name(), name()).prop_map(|(from, to)| C::Rename(from, to)),
        3 => (name(), name()).prop_map(|(from, to)| C::Copy(from, to)),
        4 => (name(), time()).prop_map(|(n, at)| C::Expire(n, at)),
        3 => (db(), db()).prop_map(|(a, b)| C::Swap(a, b)),
        2 => db().prop_map(C::Flush),
        1 => Just(C::FlushAll),
        3 => (db(), some()).prop_map(|(db, some)| C::Fill(db, some)),
        3 => (db(), some()).prop_map(|(db, some)| C::Clear(db, some)),
        2 => (0..30i64).prop_map(C::Wait),
        2 => db().prop_map(C::ExpireSome),
        2 => Just(C::Evict),
        6 => (0..300usize).prop_map(C::Free),
    ]
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![5 => of_values(), 2 => of_keys()]
}

/// Commands for one type of values, most of them for the same key, and what takes it elsewhere.
pub(super) fn command_of_one_type() -> impl Strategy<Value = Vec<Command>> {
    use Command as C;
    let name = || prop_oneof![9 => Just((DbIndex::FIRST, 0u8)), 1 => name()];
    let strings = prop_oneof![
        1 => (name(), 8000..40_000usize).prop_map(|(n, b)| C::Set(n, b, None)),
        8 => (name(), 0..40_000usize, 0..9000usize).prop_map(|(n, at, b)| C::Overwrite(n, at, b)),
    ];
    let hashes = prop_oneof![
        4 => (name(), some(), any::<u8>()).prop_map(|(n, some, v)| C::SetFields(n, some, v)),
        2 => (name(), some()).prop_map(|(n, some)| C::RemoveFields(n, some)),
    ];
    let sets = prop_oneof![
        4 => (name(), some()).prop_map(|(n, some)| C::AddMembers(n, some)),
        1 => (name(), some()).prop_map(|(n, some)| C::RemoveMembers(n, some)),
        1 => (name(), 0..30usize).prop_map(|(n, count)| C::Pop(n, count)),
    ];
    let sorted_sets = prop_oneof![
        4 => (name(), some(), 0..4u8).prop_map(|(n, some, score)| C::Score(n, some, score)),
        1 => (name(), some()).prop_map(|(n, some)| C::RemoveScored(n, some)),
        1 => (name(), 0..60usize, 0..60usize).prop_map(|(n, a, b)| C::RemoveRanks(n, a, b)),
    ];
    let lists = prop_oneof![
        4 => (name(), any::<bool>(), some()).prop_map(|(n, end, some)| C::Push(n, end, some)),
        4 => (name(), 0..400usize, some()).prop_map(|(n, at, some)| C::Insert(n, at, some)),
        4 => (name(), 0..400usize, 0..50u16).prop_map(|(n, at, with)| C::SetItem(n, at, with)),
        4 => (name(), any::<bool>(), 0..90usize).prop_map(|(n, end, count)| C::Cut(n, end, count)),
        4 => (name(), any::<bool>(), 0..50u16, 0..9usize)
            .prop_map(|(n, end, item, count)| C::RemoveItems(n, end, item, count)),
    ];
    prop_oneof![
        vec(prop_oneof![20 => strings, 1 => of_keys()]),
        vec(prop_oneof![20 => hashes, 1 => of_keys()]),
        vec(prop_oneof![20 => sets, 1 => of_keys()]),
        vec(prop_oneof![20 => sorted_sets, 1 => of_keys()]),
        vec(prop_oneof![20 => lists, 1 => of_keys()]),
    ]
}

fn vec(command: impl Strategy<Value = Command>) -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec(command, 1..60)
}

/// The name of an element; some are longer than a node of a list.
fn element(number: u16) -> Vec<u8> {
    let mut name = format!("element:{number}").into_bytes();
    if number % 37 == 5 {
        name.resize(400, b'e');
    }
    name
}

fn elements((first, count): Some) -> impl Iterator<Item = Vec<u8>> {
    (first..first + count).map(element)
}

fn text(bytes: usize) -> Vec<u8> {
    let digits = bytes.to_string().into_bytes();
    digits.iter().copied().cycle().take(bytes).collect()
}

const fn end(is_front: bool) -> End {
    if is_front { End::Front } else { End::Back }
}

/// An empty keyspace, and its log.
pub(super) fn keyspace() -> (LoggedKeyspace, MemoryLog) {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.settings_mut().eviction = EvictionPolicy::AllKeysRandom;
    (keyspace, log)
}

/// Executes the command, at a time that it may move on.
pub(super) fn execute(keyspace: &mut Keyspace, now_ms: &mut i64, command: &Command) {
    keyspace.begin_command(*now_ms);
    match *command {
        Command::Wait(ms) => *now_ms += ms,
        Command::Free(items) => _ = keyspace.free_step(items),
        Command::Evict => _ = keyspace.evict_one(),
        Command::ExpireSome(db) => _ = keyspace.expire_sample(db, 3),
        Command::Swap(a, b) => keyspace.swap(a, b),
        Command::Flush(db) => _ = keyspace.flush([db]),
        Command::FlushAll => _ = keyspace.flush(keyspace.databases()),
        Command::Fill(db, some) => elements(some).for_each(|key| {
            keyspace.set_string(db, &key, &key, Expiry::Clear);
        }),
        Command::Clear(db, some) => elements(some).for_each(|key| {
            keyspace.delete(db, &key);
        }),
        Command::Delete(name) => _ = keyspace.delete(name.0, &[name.1]),
        Command::Rename(from, to) => _ = keyspace.rename(from.0, &[from.1], to.0, &[to.1]),
        Command::Copy(from, to) if from == to => {}
        Command::Copy(from, to) => _ = keyspace.copy(from.0, &[from.1], to.0, &[to.1]),
        Command::Expire((db, key), at_ms) => _ = keyspace.set_expires_at_ms(db, &[key], at_ms),
        _ => change(keyspace, command),
    }
    keyspace.take_effects();
}

fn change(keyspace: &mut Keyspace, command: &Command) {
    match *command {
        Command::Set((db, key), bytes, at_ms) => {
            let expiry = at_ms.map_or(Expiry::Clear, Expiry::At);
            keyspace.set_string(db, &[key], &text(bytes), expiry);
        }
        Command::SetKeeping((db, key), bytes) => {
            keyspace.set_string_as(Form::Raw, db, &[key], &text(bytes), Expiry::Keep);
        }
        Command::Add((db, key), by) => {
            let Ok(string) = keyspace.string_to_change(db, &[key]) else { return };
            let sum = string.and_then(|string| string.as_int()).unwrap_or(0) + by;
            let digits = sum.to_string();
            keyspace.set_string(db, &[key], digits.as_bytes(), Expiry::Keep);
        }
        Command::Overwrite((db, key), at, bytes) => {
            let (range, with) = (at..at + bytes, text(bytes));
            let change = |old: &mut [u8]| old.copy_from_slice(&with);
            _ = keyspace.change_string(db, &[key], at + bytes, range, change);
        }
        Command::MakeRaw((db, key)) => {
            if keyspace.string(db, &[key]).is_ok() {
                keyspace.make_raw(db, &[key]);
            }
        }
        Command::Store((db, key), some) => {
            let filled = keyspace.replace::<Set, _>(db, &[key], |set| {
                elements(some).for_each(|member| _ = set.add(&member));
            });
            filled.expect("whatever it was");
        }
        _ => update(keyspace, command),
    }
}

/// Changes a collection; one of another type stays as it is.
fn update(keyspace: &mut Keyspace, command: &Command) {
    match *command {
        Command::SetFields((db, key), some, value) => {
            let value = vec![value; usize::from(value)];
            _ = keyspace.update::<Hash, _>(db, &[key], true, |hash| {
                for name in elements(some) {
                    let expires_at_ms = (value.len() % 3 == 1).then_some(1 << 40);
                    hash.put(&Field { name: &name, value: &value, expires_at_ms });
                }
            });
        }
        Command::RemoveFields((db, key), some) => {
            _ = keyspace.update::<Hash, _>(db, &[key], false, |hash| {
                elements(some).for_each(|field| _ = hash.remove(&field));
            });
        }
        Command::AddMembers((db, key), some) => {
            _ = keyspace.update::<Set, _>(db, &[key], true, |set| {
                elements(some).for_each(|member| _ = set.add(&member));
            });
        }
        Command::RemoveMembers((db, key), some) => {
            _ = keyspace.update::<Set, _>(db, &[key], false, |set| {
                elements(some).for_each(|member| _ = set.remove(&member));
            });
        }
        Command::Pop((db, key), count) => {
            _ = keyspace.update::<Set, _>(db, &[key], false, |set| set.pop(count));
        }
        Command::Score((db, key), some, score) => {
            _ = keyspace.update::<ZSet, _>(db, &[key], true, |set| {
                for (at, member) in elements(some).enumerate() {
                    set.set(&member, f64::from(score) - (at % 3) as f64);
                }
            });
        }
        Command::RemoveScored((db, key), some) => {
            _ = keyspace.update::<ZSet, _>(db, &[key], false, |set| {
                elements(some).for_each(|member| _ = set.remove(&member));
            });
        }
        Command::RemoveRanks((db, key), from, count) => {
            _ = keyspace
                .update::<ZSet, _>(db, &[key], false, |set| set.remove_range(from..from + count));
        }
        Command::Push((db, key), is_front, some) => {
            _ = keyspace.update::<List, _>(db, &[key], true, |list| {
                elements(some).for_each(|item| list.push(end(is_front), &item));
            });
        }
        Command::Insert((db, key), at, some) => {
            _ = keyspace.update::<List, _>(db, &[key], false, |list| {
                // At one place, so that the order keys between two nodes are used up.
                let at = at.min(list.view().len());
                elements(some).for_each(|item| list.insert(at, &item));
            });
        }
        Command::SetItem((db, key), at, with) => {
            _ = keyspace.update::<List, _>(db, &[key], false, |list| {
                let at = at % list.view().len();
                list.set(at, &element(with));
            });
        }
        Command::Cut((db, key), is_front, count) => {
            _ = keyspace.update::<List, _>(db, &[key], false, |list| {
                list.cut(end(is_front), count);
            });
        }
        Command::RemoveItems((db, key), is_front, item, count) => {
            _ = keyspace.update::<List, _>(db, &[key], false, |list| {
                list.remove_equal(&element(item), end(is_front), count)
            });
        }
        _ => unreachable!("executed elsewhere"),
    }
}
