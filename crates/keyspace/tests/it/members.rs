//! Sets and hashes of every size: what a change logs, how they are called, what is picked at
//! random, what a scan returns.

use std::collections::BTreeSet;

use base::RecordKind;
use keyspace::Keyspace;
use keyspace::hash::{Hash, HashGuard};
use keyspace::set::{Set, SetView};

use crate::DB0;
use crate::journal::MemoryLog;

const KEY: &[u8] = b"key";

fn add(keyspace: &mut Keyspace, numbers: std::ops::Range<usize>) {
    let added = keyspace.update::<Set, _>(DB0, KEY, true, |set| {
        numbers.clone().filter(|number| set.add(number.to_string().as_bytes())).count()
    });
    assert_eq!(added.expect("a set").expect("created").value, numbers.len());
}

fn view(keyspace: &mut Keyspace) -> SetView<'_> {
    keyspace.read::<Set>(DB0, KEY).expect("a set").expect("it is there")
}

/// The kinds of the records that `change` logs.
fn logged(
    log: &MemoryLog,
    keyspace: &mut Keyspace,
    change: impl FnOnce(&mut Keyspace),
) -> Vec<RecordKind> {
    let before = log.records().len();
    change(keyspace);
    log.records()[before..].iter().map(|logged| logged.kind).collect()
}

#[test]
fn a_small_set_is_logged_whole_and_a_large_one_by_member() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    let kinds = logged(&log, &mut keyspace, |keyspace| add(keyspace, 0..40));
    assert_eq!(kinds, [RecordKind::SetPacked]);
    let kinds = logged(&log, &mut keyspace, |keyspace| add(keyspace, 40..300));
    assert_eq!(kinds.iter().filter(|kind| **kind == RecordKind::SetMember).count(), 300);
    assert_eq!(kinds.iter().filter(|kind| **kind == RecordKind::Set).count(), 1);
    let kinds = logged(&log, &mut keyspace, |keyspace| add(keyspace, 300..301));
    assert_eq!(kinds, [RecordKind::SetMember]);
    let kinds = logged(&log, &mut keyspace, |keyspace| {
        let removed = keyspace.update::<Set, _>(DB0, KEY, false, |set| set.remove(b"7"));
        assert!(removed.expect("a set").expect("it is there").value);
    });
    assert_eq!(kinds, [RecordKind::ElementDeleted]);
    let kinds = logged(&log, &mut keyspace, |keyspace| assert!(keyspace.delete(DB0, KEY)));
    assert_eq!(kinds, [RecordKind::KeyDeleted]);
    while keyspace.free_step(10) {}
    assert!(log.records().iter().all(|logged| logged.is_retired || logged.kind.is_delete()));
}

#[test]
fn an_intset_is_in_order_until_it_is_none_for_good() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    for numbers in [90..100, 20..40, 100..300, 0..20] {
        add(&mut keyspace, numbers);
        let members: Vec<usize> = view(&mut keyspace)
            .iter()
            .map(|member| std::str::from_utf8(member).unwrap().parse().unwrap())
            .collect();
        assert!(members.is_sorted());
        assert_eq!(keyspace.encoding(DB0, KEY), Some("intset"));
    }
    add(&mut keyspace, 300..600);
    assert_eq!(keyspace.encoding(DB0, KEY), Some("hashtable"));
    keyspace.update::<Set, _>(DB0, KEY, false, |set| set.pop(540)).expect("a set");
    assert_eq!(view(&mut keyspace).len(), 10);
    assert_eq!(keyspace.encoding(DB0, KEY), Some("hashtable"));
    let mut keyspace = log.replay(|_| false);
    assert_eq!(keyspace.encoding(DB0, KEY), Some("hashtable"));
}

#[test]
fn picks_are_different_members_and_a_scan_returns_all() {
    let mut rng = fastrand::Rng::with_seed(5);
    for size in [1, 10, 60, 400] {
        let mut keyspace = MemoryLog::default().keyspace();
        add(&mut keyspace, 0..size);
        let set = view(&mut keyspace);
        for count in [0, 1, size / 10, size / 2, size, size + 7] {
            let picked = set.sample(count, &mut rng);
            assert_eq!(picked.len(), count.min(size));
            assert_eq!(BTreeSet::from_iter(&picked).len(), picked.len());
            assert!(picked.iter().all(|member| set.contains(member)));
        }
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = set.scan(cursor, 10, |member| {
                seen.insert(member);
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), size);
    }
}

#[test]
fn every_field_is_as_likely() {
    let mut rng = fastrand::Rng::with_seed(5);
    for size in [8, 200] {
        let mut keyspace = MemoryLog::default().keyspace();
        keyspace
            .update::<Hash, _>(DB0, KEY, true, |hash| {
                (0..size).filter(|number| hash.set(number.to_string().as_bytes(), b"x")).count()
            })
            .expect("a hash");
        let hash = keyspace.read::<Hash>(DB0, KEY).expect("a hash").expect("it is there");
        let mut counts = vec![0; size];
        let mut count = |field: &[u8]| {
            let number: usize = std::str::from_utf8(field).unwrap().parse().unwrap();
            counts[number] += 1;
        };
        (0..size * 100).for_each(|_| count(hash.random(&mut rng).expect("it has fields").0));
        (0..300)
            .for_each(|_| hash.sample(size / 3, &mut rng).iter().for_each(|pair| count(pair.0)));
        assert!(counts.iter().all(|count| (130..270).contains(count)), "{counts:?}");
    }
}

#[test]
fn what_takes_the_place_of_another_value_is_one_record() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.update::<Hash, _>(DB0, b"key", true, |hash| fill(hash, 500)).expect("a hash");
    keyspace.set_expires_at_ms(DB0, b"key", Some(1 << 40));
    let before = log.records().len();
    keyspace.replace::<Set, _>(DB0, b"key", |set| set.add(b"member")).expect("of any type");
    assert_eq!(log.records().len(), before + 1);
    while keyspace.free_step(100) {}
    let mut keyspace = log.replay(|_| false);
    assert_eq!(keyspace.expires_at_ms(DB0, b"key"), Some(None));
    let set = keyspace.read::<Set>(DB0, b"key").expect("a set").expect("it is there");
    assert!(set.contains(b"member") && set.len() == 1);
    keyspace.replace::<Hash, _>(DB0, b"key", |hash| fill(hash, 500)).expect("of any type");
    keyspace.replace::<Hash, _>(DB0, b"key", |hash| fill(hash, 400)).expect("of any type");
    while keyspace.free_step(100) {}
    let mut keyspace = log.replay(|_| false);
    let hash = keyspace.read::<Hash>(DB0, b"key").expect("a hash").expect("it is there");
    assert_eq!(hash.len(), 400);
    keyspace.replace::<Set, _>(DB0, b"key", |_| ()).expect("of any type");
    assert!(!keyspace.exists(DB0, b"key", false));
    while keyspace.free_step(100) {}
    assert!(!log.replay(|_| false).exists(DB0, b"key", false));
}

fn fill(hash: &mut HashGuard<'_>, count: u32) {
    for number in 0..count {
        hash.set(number.to_string().as_bytes(), b"value");
    }
}
