//! Which keys a walk finds hot.

use std::collections::BTreeSet;

use base::RecordAddr;
use keyspace::{EvictionPolicy, Expiry, HotSurvey};

use crate::DB0;
use crate::bare::Blocks;
use crate::journal::{LoggedKeyspace, addr};

const KEYS: usize = 2000;

fn name(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// Key n has record n, and all are durable and indexed.
fn filled(policy: EvictionPolicy) -> (Blocks, LoggedKeyspace) {
    let log = Blocks::default();
    let mut keyspace = log.keyspace();
    keyspace.settings_mut().eviction = policy;
    keyspace.begin_command(1_000_000);
    for number in 0..KEYS {
        keyspace.set_string(DB0, &name(number), &[b'v'; 100], Expiry::Clear);
    }
    log.all_indexed();
    (log, keyspace)
}

fn read(keyspace: &mut LoggedKeyspace, number: usize, times: usize) {
    for _ in 0..times {
        assert!(matches!(keyspace.string(DB0, &name(number)), Ok(Some(_))));
    }
}

fn hot_of(keyspace: &mut LoggedKeyspace, records_max: usize) -> BTreeSet<RecordAddr> {
    let mut survey = HotSurvey::new(records_max);
    while !keyspace.hot_step(&mut survey) {}
    let pieces = survey.into_pieces().into_iter().flatten();
    let found: Vec<RecordAddr> = pieces.collect();
    assert!(found.len() <= records_max);
    found.into_iter().collect()
}

fn addrs(numbers: impl Iterator<Item = usize>) -> BTreeSet<RecordAddr> {
    numbers.map(addr).collect()
}

#[test]
fn what_is_used_more_than_the_rest_is_hot() {
    let (_, mut keyspace) = filled(EvictionPolicy::ColdLfu);
    (0..KEYS).step_by(10).for_each(|number| read(&mut keyspace, number, 50));
    assert_eq!(hot_of(&mut keyspace, KEYS), addrs((0..KEYS).step_by(10)));
    // Without a clock of use: what was used lately.
    let (_, mut keyspace) = filled(EvictionPolicy::NoEviction);
    keyspace.begin_command(3_000_000);
    (0..KEYS).step_by(3).for_each(|number| read(&mut keyspace, number, 1));
    assert_eq!(hot_of(&mut keyspace, KEYS), addrs((0..KEYS).step_by(3)));
}

#[test]
fn if_no_key_is_hotter_than_the_others_all_are_hot_as_far_as_there_is_room() {
    let (_, mut keyspace) = filled(EvictionPolicy::ColdLru);
    assert_eq!(hot_of(&mut keyspace, KEYS), addrs(0..KEYS));
    assert_eq!(hot_of(&mut keyspace, 100).len(), 100);
    assert_eq!(hot_of(&mut keyspace, 0), BTreeSet::new());
}

#[test]
fn where_not_all_fits_what_is_in_memory_is_hot_and_else_the_hotter_half() {
    let (_, mut keyspace) = filled(EvictionPolicy::ColdLru);
    // A quarter is in memory, not all of it used lately.
    for number in (0..KEYS).filter(|number| number % 4 > 0) {
        assert!(keyspace.cool_key(DB0, &name(number)));
    }
    keyspace.begin_command(1_010_000);
    (0..KEYS).step_by(40).for_each(|number| read(&mut keyspace, number, 1));
    keyspace.begin_command(1_030_000);
    assert_eq!(hot_of(&mut keyspace, KEYS), addrs((0..KEYS).step_by(4)));
    // And where all fits, as much as can be told apart.
    let (_, mut keyspace) = filled(EvictionPolicy::ColdLru);
    for (round, at_ms) in (0..4).zip((1_010_000..).step_by(50_000)) {
        keyspace.begin_command(at_ms);
        (round..KEYS).step_by(4).for_each(|number| read(&mut keyspace, number, 1));
    }
    let found = hot_of(&mut keyspace, KEYS);
    assert!(found.is_superset(&addrs((3..KEYS).step_by(4))));
    assert!((KEYS / 4..=KEYS * 3 / 4).contains(&found.len()), "{}", found.len());
    assert!(found.is_disjoint(&addrs((0..KEYS).step_by(4))));
}

#[test]
fn what_is_not_durable_is_not_named() {
    let (_, mut keyspace) = filled(EvictionPolicy::ColdLru);
    for number in 0..KEYS / 2 {
        keyspace.set_string(DB0, &name(number), b"new", Expiry::Clear);
    }
    assert_eq!(hot_of(&mut keyspace, KEYS), addrs(KEYS / 2..KEYS));
}
