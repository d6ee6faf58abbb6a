//! Sorted sets against a plain map, through the log.

use std::collections::BTreeMap;

use base::RecordKind;
use keyspace::Keyspace;
use keyspace::zset::{LexBound, LexRange, ScoreRange, ZSet, ZSetGuard};
use proptest::prelude::*;

use crate::DB0;
use crate::journal::{LoggedKeyspace, MemoryLog};

type Model = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, f64>>;

fn sorted(members: &BTreeMap<Vec<u8>, f64>) -> Vec<(&[u8], f64)> {
    let mut sorted: Vec<_> = members.iter().map(|(m, s)| (m.as_slice(), *s)).collect();
    sorted.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("not NaN").then(a.0.cmp(b.0)));
    sorted
}

#[derive(Debug, Clone)]
enum Op {
    Set(Vec<(u16, f64)>),
    Remove(Vec<u16>),
    RemoveRange(usize, usize),
    Delete,
    CopyFrom(bool),
    /// Replays the log, with every `n`-th of the retired records.
    Restart(usize),
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-5..5i32).prop_map(f64::from),
        1 => -1e9..1e9,
        1 => prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, 0.1]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let wide = || prop_oneof![0..12u16, 0..3000u16];
    prop_oneof![
        6 => prop::collection::vec((wide(), score()), 1..4).prop_map(Op::Set),
        2 => prop::collection::vec((0..3000u16, score()), 1..300).prop_map(Op::Set),
        3 => prop::collection::vec(wide(), 1..20).prop_map(Op::Remove),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Op::RemoveRange(a, b)),
        1 => Just(Op::Delete),
        1 => any::<bool>().prop_map(Op::CopyFrom),
        1 => (1..5usize).prop_map(Op::Restart),
    ]
}

fn name(number: u16) -> Vec<u8> {
    let long = if number % 701 == 700 { 70 } else { 0 };
    format!("{}{}", "m".repeat(long), number).into_bytes()
}

fn apply(log: &MemoryLog, keyspace: &mut LoggedKeyspace, model: &mut Model, key: &[u8], op: &Op) {
    match op {
        Op::Set(pairs) => {
            let members = model.entry(key.to_vec()).or_default();
            let updated = keyspace.update::<ZSet, _>(DB0, key, true, |set| {
                for (number, score) in pairs {
                    let member = name(*number);
                    assert_eq!(set.set(&member, *score), members.insert(member, *score));
                }
            });
            assert!(updated.expect("it is a sorted set").is_some());
        }
        Op::Remove(numbers) => {
            let members = model.entry(key.to_vec()).or_default();
            let removed = keyspace.update::<ZSet, _>(DB0, key, false, |set| {
                for number in numbers {
                    let member = name(*number);
                    assert_eq!(set.remove(&member), members.remove(&member).is_some());
                }
            });
            let emptied =
                removed.expect("it is a sorted set").is_some_and(|updated| updated.emptied);
            assert!(!emptied || members.is_empty());
        }
        Op::RemoveRange(from, to) => {
            let members = model.entry(key.to_vec()).or_default();
            let len = members.len() + 1;
            let range = from % len..(to % (len + 3)).max(from % len);
            let gone: Vec<Vec<u8>> = sorted(members)
                .iter()
                .skip(range.start)
                .take(range.len())
                .map(|member| member.0.to_vec())
                .collect();
            members.retain(|member, _| !gone.contains(member));
            let removed =
                keyspace.update::<ZSet, _>(DB0, key, false, |set| set.remove_range(range));
            assert_eq!(
                removed.expect("it is a sorted set").map_or(0, |updated| updated.value),
                gone.len()
            );
        }
        Op::Delete => {
            let members = model.remove(key).unwrap_or_default();
            assert_eq!(keyspace.delete(DB0, key), !members.is_empty());
        }
        Op::Restart(step) => {
            while keyspace.free_step(1000) {}
            *keyspace = log.replay(|at| at % step == 0);
        }
        Op::CopyFrom(same) => {
            let other: &[u8] = if *same { key } else { b"other" };
            if other != key && model.get(other).is_some_and(|members| !members.is_empty()) {
                assert!(keyspace.copy(DB0, other, DB0, key));
                model.insert(key.to_vec(), model[other].clone());
            }
        }
    }
}

/// Everything that a view answers, against the sorted members of the model.
fn check(keyspace: &mut Keyspace, key: &[u8], members: &BTreeMap<Vec<u8>, f64>, probe: usize) {
    let expected = sorted(members);
    let Some(set) = keyspace.read::<ZSet>(DB0, key).expect("it is a sorted set") else {
        assert!(expected.is_empty());
        return;
    };
    assert_eq!(set.len(), expected.len());
    assert!(set.iter().eq(expected.iter().copied()));
    assert!(set.iter().rev().eq(expected.iter().rev().copied()));
    let (from, to) = (probe % (expected.len() + 1), probe / 7 % (expected.len() + 2));
    let there = from.min(to.min(expected.len()))..to.min(expected.len());
    assert!(set.range(from..to).eq(expected[there.clone()].iter().copied()));
    assert!(set.range(from..to).rev().eq(expected[there].iter().rev().copied()));

    let (member, score) = expected[probe % expected.len()];
    assert_eq!(set.at(probe % expected.len()), Some((member, score)));
    assert_eq!(set.rank(member), Some((probe % expected.len(), score)));
    assert_eq!((set.score(b"nobody"), set.rank(b"nobody")), (None, None));

    let other = expected[probe / 3 % expected.len()].1;
    for (min_excluded, max_excluded) in [(false, false), (true, false), (false, true)] {
        let range = ScoreRange { min: score, max: other, min_excluded, max_excluded };
        let inside = expected.iter().filter(|(_, s)| {
            (if min_excluded { *s > score } else { *s >= score })
                && (if max_excluded { *s < other } else { *s <= other })
        });
        assert!(set.range(set.score_range(&range)).eq(inside.copied()));
    }
    let mut scanned = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, |member, score| scanned.push((member.to_vec(), score)));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned.into_iter().collect::<BTreeMap<_, _>>(), members);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sorted_set_is_a_map_in_order_and_survives_replay(
        ops in prop::collection::vec((any::<bool>(), op(), any::<usize>()), 1..40),
    ) {
        let log = MemoryLog::default();
        let mut keyspace = log.keyspace();
        let mut model = Model::new();
        for (other, op, probe) in &ops {
            let key: &[u8] = if *other { b"other" } else { b"key" };
            apply(&log, &mut keyspace, &mut model, key, op);
            check(&mut keyspace, key, model.entry(key.to_vec()).or_default(), *probe);
            keyspace.free_step(3);
        }
        while keyspace.free_step(1000) {}
        for keeps in [true, false] {
            let mut replayed = log.replay(|_| keeps);
            for (key, members) in &model {
                check(&mut replayed, key, members, 5);
                prop_assert_eq!(replayed.encoding(DB0, key), keyspace.encoding(DB0, key));
                prop_assert_eq!(replayed.size(DB0), keyspace.size(DB0));
            }
        }
    }
}

fn filled(count: u16) -> (LoggedKeyspace, MemoryLog) {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    for number in 0..count {
        let set = |set: &mut ZSetGuard<'_>| set.set(&name(number), f64::from(number));
        keyspace.update::<ZSet, _>(DB0, b"key", true, set).expect("it is a sorted set");
    }
    (keyspace, log)
}

#[test]
fn a_change_of_a_large_set_is_one_record() {
    let (mut keyspace, log) = filled(500);
    let before = log.records().len();
    let change = |set: &mut ZSetGuard<'_>| {
        set.set(b"499", -1.0);
        set.set(b"499", -1.0);
        set.remove(b"498");
        set.remove(b"498");
    };
    keyspace.update::<ZSet, _>(DB0, b"key", false, change).expect("it is a sorted set");
    let log = log.records();
    let kinds: Vec<RecordKind> = log[before..].iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [RecordKind::ZSetMember, RecordKind::ElementDeleted]);
}

#[test]
fn removing_everything_is_one_record() {
    let (mut keyspace, log) = filled(500);
    let before = log.records().len();
    let removed = keyspace.update::<ZSet, _>(DB0, b"key", false, |set| set.remove_range(0..999));
    let removed = removed.expect("it is a sorted set").expect("it is there");
    assert_eq!((removed.value, removed.emptied), (500, true));
    assert_eq!(log.records().len(), before + 1);
    assert!(!keyspace.exists(DB0, b"key", false));
    while keyspace.free_step(100) {}
    let live = log.records().iter().filter(|r| !r.is_retired && !r.kind.is_delete()).count();
    assert_eq!(live, 0);
}

#[test]
fn what_changes_nothing_logs_nothing() {
    for count in [3, 300] {
        let (mut keyspace, log) = filled(count);
        let before = log.records().len();
        let nothing = |set: &mut ZSetGuard<'_>| {
            set.set(b"1", 1.0);
            set.remove(b"nobody");
            set.remove_range(5..5);
        };
        let updated = keyspace
            .update::<ZSet, _>(DB0, b"key", false, nothing)
            .expect("it is a sorted set")
            .expect("it is there");
        assert!(!updated.changed);
        assert_eq!(log.records().len(), before);
    }
}

#[test]
fn the_encoding_is_the_one_that_redis_would_name_and_never_shrinks() {
    let (mut keyspace, _) = filled(128);
    assert_eq!(keyspace.encoding(DB0, b"key"), Some("listpack"));
    let add = |set: &mut ZSetGuard<'_>| set.set(b"one more", 0.0);
    keyspace.update::<ZSet, _>(DB0, b"key", false, add).expect("it is a sorted set");
    assert_eq!(keyspace.encoding(DB0, b"key"), Some("skiplist"));
    keyspace
        .update::<ZSet, _>(DB0, b"key", false, |set| set.remove_range(1..129))
        .expect("it is a sorted set");
    assert_eq!(keyspace.encoding(DB0, b"key"), Some("skiplist"));

    let long = |set: &mut ZSetGuard<'_>| set.set(&[b'x'; 65], 0.0);
    keyspace.update::<ZSet, _>(DB0, b"long", true, long).expect("it is a sorted set");
    assert_eq!(keyspace.encoding(DB0, b"long"), Some("skiplist"));
    keyspace.settings_mut().zset_max_listpack_entries = 0;
    let add = |set: &mut ZSetGuard<'_>| set.set(b"x", 0.0);
    keyspace.update::<ZSet, _>(DB0, b"none", true, add).expect("it is a sorted set");
    assert_eq!(keyspace.encoding(DB0, b"none"), Some("skiplist"));
}

#[test]
fn members_of_equal_score_are_cut_by_their_bytes() {
    for padding in [0, 40] {
        let mut keyspace = MemoryLog::default().keyspace();
        let fill = |set: &mut ZSetGuard<'_>| {
            for letter in b'a'..=b'j' {
                let mut member = vec![letter];
                member.resize(1 + padding, b'.');
                set.set(&member, 0.0);
            }
        };
        keyspace.update::<ZSet, _>(DB0, b"key", true, fill).expect("it is a sorted set");
        let set =
            keyspace.read::<ZSet>(DB0, b"key").expect("it is a sorted set").expect("it is there");
        let cut = |min, max| set.lex_range(&LexRange { min, max });
        assert_eq!(cut(LexBound::Least, LexBound::Greatest), 0..10);
        assert!(cut(LexBound::Greatest, LexBound::Least).is_empty());
        assert_eq!(cut(LexBound::Included(b"b"), LexBound::Excluded(b"d")), 1..3);
        assert!(cut(LexBound::Included(b"d"), LexBound::Included(b"b")).is_empty());
        assert_eq!(cut(LexBound::Excluded(b"z"), LexBound::Greatest), 10..10);
    }
}
