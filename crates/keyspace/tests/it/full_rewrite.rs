//! The journal taken away and given back: the log then holds what memory holds, and at no moment
//! anything in between.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use base::{DbIndex, RecordKind};
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::stream::Stream;
use keyspace::zset::ZSet;
use keyspace::{Expiry, FullRewrite, Keyspace, NoJournal, Survey, Type};

use crate::journal::{LoggedKeyspace, MemoryLog};
use crate::{DB0, DB1, DB2, DB3};

/// Every key of every database, with what it holds and when it expires.
pub(crate) fn contents(keyspace: &mut Keyspace) -> BTreeMap<(DbIndex, Vec<u8>), String> {
    keyspace.begin_command(0);
    let mut contents = BTreeMap::new();
    for db in keyspace.databases() {
        let mut keys = Vec::new();
        keyspace.for_each_key(db, None, |key, kind| keys.push((key.to_vec(), kind)));
        for (key, kind) in keys {
            let mut items: Vec<String> = Vec::new();
            match kind {
                Type::String => {
                    let value = keyspace.string(db, &key).unwrap().unwrap();
                    items.push(format!("{:?}", value.as_bytes(&mut itoa::Buffer::new())));
                }
                Type::Hash => {
                    let hash = keyspace.read::<Hash>(db, &key).unwrap().unwrap();
                    hash.for_each_field(|field| items.push(format!("{field:?}")));
                    items.sort();
                }
                Type::Set => {
                    let set = keyspace.read::<Set>(db, &key).unwrap().unwrap();
                    items.extend(set.iter().map(|member| format!("{member:?}")));
                    items.sort();
                }
                Type::List => {
                    let list = keyspace.read::<List>(db, &key).unwrap().unwrap();
                    items.extend(list.iter_from(0).map(|element| format!("{element:?}")));
                }
                Type::ZSet => {
                    let zset = keyspace.read::<ZSet>(db, &key).unwrap().unwrap();
                    items.extend(zset.iter().map(|(member, score)| format!("{member:?} {score}")));
                }
                Type::Stream => {
                    let stream = keyspace.read::<Stream>(db, &key).unwrap().unwrap();
                    items.push(format!("{:?}", crate::stream::seen(stream)));
                }
            }
            let expires = keyspace.expires_at_ms(db, &key).unwrap();
            contents.insert((db, key), format!("{kind:?} {expires:?} {items:?}"));
        }
    }
    for (name, source) in keyspace.libraries() {
        contents.insert((DB0, [b"library ", name].concat()), format!("{source:?}"));
    }
    contents
}

pub(crate) fn fill(keyspace: &mut Keyspace, round: u8) {
    let name = |number: i32| format!("{round}:{number}").into_bytes();
    for number in 0..30 {
        keyspace.set_string(DB1, &name(number), &name(number), Expiry::Clear);
    }
    keyspace.set_string(DB0, b"large", &vec![b'a' + round; 10_000], Expiry::At(1 << 40));
    keyspace
        .update::<Hash, _>(DB0, b"hash", true, |hash| {
            for number in 0..600 {
                hash.set(&name(number), b"value");
            }
        })
        .unwrap();
    keyspace
        .update::<Set, _>(DB2, b"set", true, |set| {
            for number in 0..600 {
                set.add(&name(number));
            }
        })
        .unwrap();
    keyspace
        .update::<ZSet, _>(DB2, b"zset", true, |zset| {
            for number in 0..600 {
                zset.set(&name(number), f64::from(number));
            }
        })
        .unwrap();
    keyspace
        .update::<List, _>(DB3, b"list", true, |list| {
            (0..300).for_each(|number| list.push(End::Back, &name(number)));
        })
        .unwrap();
    keyspace.set_string(DB3, b"small", b"7", Expiry::Clear);
    keyspace.set_library(b"both", [b'#', round].into());
    keyspace.set_library(&[b'_', b'0' + round], (*b"#").into());
}

fn finish(keyspace: &mut LoggedKeyspace, rewrite: FullRewrite<MemoryLog>) -> Survey {
    let (log, rewritten) = rewrite.finish();
    keyspace.set_journal(Box::new(log));
    keyspace.finish_full_rewrite(rewritten)
}

#[test]
fn a_crash_brings_back_the_old_state_until_the_new_one_is_complete() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    fill(&mut keyspace, 0);
    keyspace.swap(DB0, DB2);
    while keyspace.free_step(100) {}
    let old = contents(&mut keyspace);

    keyspace.set_journal(Box::new(NoJournal));
    let records = log.records().len();
    keyspace.update::<Hash, _>(DB2, b"hash", false, |hash| hash.remove(b"0:7")).unwrap();
    keyspace.delete(DB3, b"small");
    assert!(keyspace.delete_library(b"_0"));
    keyspace.flush([DB1]);
    keyspace.rename(DB0, b"zset", DB1, b"other");
    fill(&mut keyspace, 1);
    while keyspace.free_step(100) {}
    let new = contents(&mut keyspace);
    assert_eq!(log.records().len(), records, "nothing is logged meanwhile");

    let mut rewrite = keyspace.begin_full_rewrite(log.clone(), log.survey());
    loop {
        assert_eq!(contents(&mut log.snapshot().replay_after_crash(|_| true)), old);
        if keyspace.full_rewrite_step(&mut rewrite, 500) {
            break;
        }
    }
    assert_eq!(contents(&mut log.snapshot().replay_after_crash(|_| true)), old);
    let survey = finish(&mut keyspace, rewrite);
    assert_eq!(contents(&mut log.snapshot().replay_after_crash(|_| true)), new);

    keyspace.retire_surveyed(survey);
    keyspace.update::<Hash, _>(DB2, b"hash", false, |hash| hash.remove(b"0:9")).unwrap();
    keyspace.update::<List, _>(DB3, b"list", false, |list| list.cut(End::Front, 299)).unwrap();
    keyspace.delete(DB1, b"other");
    keyspace.set_library(b"both", (*b"#newest").into());
    assert!(keyspace.delete_library(b"_1") && !keyspace.delete_library(b"_1"));
    while keyspace.free_step(100) {}
    let newest = contents(&mut keyspace);
    assert_eq!(contents(&mut keyspace), newest);
    assert_eq!(contents(&mut log.replay(|at| at % 3 == 0)), newest);
}

#[test]
fn a_log_that_was_empty_shows_nothing_until_everything_is_in_it() {
    let mut keyspace: LoggedKeyspace = Keyspace::new(Box::new(NoJournal), [1; 16], 4);
    fill(&mut keyspace, 0);
    let all = contents(&mut keyspace);
    let log = MemoryLog::default();
    let mut rewrite = keyspace.begin_full_rewrite(log.clone(), log.survey());
    while !keyspace.full_rewrite_step(&mut rewrite, 1000) {
        let mut crashed = log.snapshot().replay_after_crash(|_| true);
        assert_eq!((crashed.database_count(), contents(&mut crashed)), (4, BTreeMap::new()));
    }
    let survey = finish(&mut keyspace, rewrite);
    keyspace.retire_surveyed(survey);
    while keyspace.free_step(100) {}
    assert_eq!(contents(&mut log.replay(|_| false)), all);
}

#[test]
fn what_the_log_has_of_libraries_is_retired_in_the_block_of_what_follows() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    for name in [&b"kept"[..], b"gone", b"past"] {
        keyspace.set_library(name, (*b"#").into());
    }
    assert!(keyspace.delete_library(b"past"));
    // A log that is surveyed does not know what was retired before.
    log.records().iter_mut().for_each(|logged| logged.is_retired = false);
    let before = log.records().len();
    keyspace.set_journal(Box::new(NoJournal));
    assert!(keyspace.delete_library(b"gone"));

    let mut rewrite = keyspace.begin_full_rewrite(log.clone(), log.survey());
    while !keyspace.full_rewrite_step(&mut rewrite, 1000) {}
    let survey = finish(&mut keyspace, rewrite);
    let records = log.records().clone();
    let (old, new) = records.split_at(before);
    let mut old = old.iter().filter(|logged| logged.kind == RecordKind::Library);
    assert!(old.all(|logged| logged.is_retired), "no later than what follows them");
    let mut named: Vec<_> = new
        .iter()
        .filter(|logged| logged.kind.is_library())
        .map(|logged| (logged.kind == RecordKind::Library, &*logged.key, logged.is_new))
        .collect();
    named.sort_unstable();
    let gone = |name: &'static [u8]| (false, name, false);
    assert_eq!(named, [gone(b"gone"), gone(b"past"), (true, b"kept", false)]);

    keyspace.retire_surveyed(survey);
    while keyspace.free_step(100) {}
    assert_eq!(log.replay_after_crash(|_| true).libraries().len(), 1);
}
