//! Commands on a few keys of every type.

use base::DbIndex;
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Expiry, Keyspace};
use proptest::prelude::*;

pub(crate) const DATABASES: usize = 3;

/// A command, by numbers.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) kind: u8,
    pub(crate) db: usize,
    pub(crate) key: u8,
    pub(crate) other: u8,
    pub(crate) count: u16,
    pub(crate) len: u16,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    (any::<u8>(), 0..DATABASES, 0..6_u8, 0..6_u8, 0..60_u16, 0..9000_u16)
        .prop_map(|(kind, db, key, other, count, len)| Op { kind, db, key, other, count, len })
}

pub(crate) fn apply(keyspace: &mut Keyspace, now_ms: i64, op: &Op) {
    let databases: Vec<DbIndex> = keyspace.databases().collect();
    let (db, other_db) = (databases[op.db], databases[(op.db + 1) % DATABASES]);
    let (key, other) = ([b'a' + op.key], [b'a' + op.other]);
    let name = |number: u16| format!("{number}:{}", "n".repeat(usize::from(number % 40)));
    let value = vec![b'v'; usize::from(op.len)];
    keyspace.begin_command(now_ms);
    match op.kind % 16 {
        0 => _ = keyspace.set_string(db, &key, &value, Expiry::Clear),
        1 => _ = keyspace.set_string(db, &key, b"12345", Expiry::At(2_000_000)),
        2 => {
            let at = usize::from(op.len) + usize::from(op.count) * 100;
            let _ = keyspace.change_string(db, &key, at + 3, at..at + 3, |to| {
                to.copy_from_slice(b"end");
            });
        }
        3 | 4 => {
            _ = keyspace.update::<Hash, _>(db, &key, true, |hash| {
                (0..=op.count).for_each(|number| {
                    _ = hash.set(name(number).as_bytes(), &value[..value.len() / 30]);
                });
            });
        }
        5 => {
            _ = keyspace.update::<Hash, _>(db, &key, false, |hash| {
                (0..op.count).for_each(|number| _ = hash.remove(name(number).as_bytes()));
            });
        }
        6 | 7 => {
            _ = keyspace.update::<List, _>(db, &key, true, |list| {
                (0..=op.count).for_each(|number| {
                    let end = if number % 3 == 0 { End::Front } else { End::Back };
                    list.push(end, name(number).as_bytes());
                });
            });
        }
        8 => {
            _ = keyspace.update::<List, _>(db, &key, false, |list| {
                list.cut(End::Front, usize::from(op.count / 2));
                let middle = list.view().len() / 2;
                if middle > 0 {
                    list.insert(middle, &value[..value.len() / 10]);
                }
            });
        }
        9 => {
            _ = keyspace.update::<Set, _>(db, &key, true, |set| {
                (0..=op.count).for_each(|number| _ = set.add(name(number).as_bytes()));
            });
        }
        10 => {
            _ = keyspace.update::<ZSet, _>(db, &key, true, |zset| {
                (0..=op.count).for_each(|number| {
                    _ = zset.set(name(number).as_bytes(), f64::from(op.len) - f64::from(number));
                });
            });
        }
        11 => _ = keyspace.delete(db, &key),
        12 => _ = keyspace.rename(db, &key, other_db, &other),
        13 => _ = keyspace.set_expires_at_ms(db, &key, Some(i64::from(op.len) + 1_500_000)),
        14 => keyspace.swap(db, other_db),
        _ if op.count < 12 => _ = keyspace.flush([db]),
        _ if op.count < 24 => _ = keyspace.expire_sample(db, 10),
        _ => _ = keyspace.free_step(usize::from(op.count)),
    }
    keyspace.take_effects();
}
