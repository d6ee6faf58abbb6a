//! Values that are not in memory, and whose records are damaged: they are lost by name, and only they.

use base::{ObjectId, RecordAddr, RecordKind, SegmentId};
use keyspace::hash::Hash;
use keyspace::set::Set;
use keyspace::{
    Expiry, Journal, KeyHasher, LostKey, Need, RestoreError, RewriteLost, StringRef, Type,
};

use crate::bare::{Blocks, retire_bare};
use crate::cold::{Index, cold};
use crate::journal::{LoggedKeyspace, MemoryLog, SEED, addr};
use crate::{DB0, DB1};

/// Where the newest record of this kind is.
fn newest(blocks: &Blocks, is_it: impl Fn(&crate::journal::Logged) -> bool) -> RecordAddr {
    addr(blocks.log.records().iter().rposition(is_it).expect("it was logged"))
}

fn walk(keyspace: &mut LoggedKeyspace, segment: u32, is_thorough: bool) {
    let mut walk = RewriteLost::new(vec![SegmentId(segment)], is_thorough);
    while !keyspace.rewrite_lost_step(&mut walk, 3) {}
}

/// `small`, a bare string, and `large`, a bare hash of which one field is in the damage; `near`, a bare
/// string, `huge`, a bare set, and `here`, a string in memory, that are next to it.
fn damaged(blocks: &Blocks) -> LoggedKeyspace {
    let mut keyspace = blocks.keyspace();
    keyspace.begin_command(0);
    keyspace.set_string(
        DB0,
        b"small",
        b"older than what is lost, and never seen again",
        Expiry::Clear,
    );
    keyspace.set_string(DB0, b"small", &[b's'; 100], Expiry::At(50));
    keyspace.set_string(DB1, b"near", &[b'n'; 100], Expiry::Clear);
    keyspace.set_string(DB0, b"here", &[b'h'; 100], Expiry::Clear);
    for number in 0..100_u8 {
        let name = [number; 9];
        let _ = keyspace.update::<Hash, _>(DB0, b"large", true, |it| _ = it.set(&name, &name));
        let _ = keyspace.update::<Set, _>(DB0, b"huge", true, |it| it.add(&name));
    }
    (0..2).for_each(|_| blocks.all_indexed());
    keyspace.note_indexed(blocks.indexed_lsn());
    for (db, key) in [(DB0, &b"small"[..]), (DB1, b"near"), (DB0, b"large"), (DB0, b"huge")] {
        assert!(keyspace.cool_key(db, key), "{}", key.escape_ascii());
    }
    blocks.damage(newest(blocks, |it| &*it.key == b"small"));
    blocks.damage(newest(blocks, |it| it.kind == RecordKind::HashField && it.sub[0] == 40));
    keyspace
}

fn is_lost(keyspace: &mut LoggedKeyspace, key: &[u8]) -> bool {
    assert!(keyspace.exists(DB0, key, true));
    assert!(keyspace.may_lack(), "commands ask");
    matches!(keyspace.restore(DB0, key, Need::Value), Err(RestoreError::Corrupt(_)))
        && matches!(keyspace.restore(DB0, key, Need::Value), Err(RestoreError::Corrupt(_)))
        && keyspace.restore(DB0, key, Need::Name).is_ok()
}

fn check_lost(keyspace: &mut LoggedKeyspace) {
    assert_eq!((keyspace.lost_values(), keyspace.size(DB0)), (2, (4, 1)));
    assert!(is_lost(keyspace, b"small") && is_lost(keyspace, b"large"));
    assert_eq!(keyspace.type_of(DB0, b"large"), Some(Type::Hash));
    assert_eq!(keyspace.expires_at_ms(DB0, b"small"), Some(Some(50)));
    let near = keyspace.string(DB1, b"near").expect("a string");
    assert_eq!(near, Some(StringRef::Bytes(&[b'n'; 100])));
    let count = keyspace.read::<Set>(DB0, b"huge").expect("a set").map(|set| set.len());
    assert_eq!((count, keyspace.take_restore_failure()), (Some(100), None));
}

#[test]
fn what_is_damaged_and_not_in_memory_is_given_up_by_name_and_nothing_else() {
    let blocks = Blocks::default();
    let mut keyspace = damaged(&blocks);
    let count = blocks.log.records().len();
    walk(&mut keyspace, 1, false);
    walk(&mut keyspace, 1, true);
    let mut news = keyspace.take_lost().keys;
    news.sort();
    assert_eq!(news, [(DB0, (*b"large").into()), (DB0, (*b"small").into())]);
    check_lost(&mut keyspace);
    while keyspace.unlisted() > 0 {
        retire_bare(&mut keyspace, &blocks);
        while keyspace.free_step(10) {}
        blocks.all_indexed();
    }
    let is_needed = |it: &crate::journal::Logged| !it.is_retired && !it.kind.is_delete();
    assert!(!blocks.log.records()[..count].iter().any(is_needed), "the file can go");

    // A start that reads everything finds the same, and so do walks over what says so.
    let mut again = blocks.log.replay(|_| true);
    check_lost(&mut again);
    walk(&mut keyspace, 1, true);
    check_lost(&mut keyspace);

    keyspace.set_string(DB0, b"small", b"new", Expiry::Clear);
    assert!(keyspace.delete(DB0, b"large"));
    keyspace.note_full();
    assert_eq!((keyspace.lost_values(), keyspace.bare_values()), (0, 0));
    assert!(!keyspace.may_lack());
    let mut again = blocks.log.replay(|_| true);
    assert_eq!((again.lost_values(), again.size(DB0), again.may_lack()), (0, (3, 0), true));
    assert!(again.string(DB0, b"small").expect("a string").is_some());
}

#[test]
fn what_cannot_be_read_now_is_not_given_up() {
    let blocks = Blocks::default();
    let mut keyspace = damaged(&blocks);
    blocks.break_down(true);
    (0..3).for_each(|_| walk(&mut keyspace, 1, true));
    assert_eq!((keyspace.lost_values(), keyspace.bare_values()), (0, 4));
    blocks.break_down(false);
    walk(&mut keyspace, 1, true);
    check_lost(&mut keyspace);
}

/// What an index says of the key, whose newest record is damaged.
fn lost_key(log: &MemoryLog, key: &[u8], value_type: Type) -> LostKey {
    let records = log.records();
    let at = records.iter().rposition(|it| &*it.key == key).expect("it was logged");
    let object = records[at].object;
    LostKey {
        db: records[at].db,
        identity: KeyHasher::new(SEED).identity(key),
        addr: addr(at),
        value_type,
        expires_at_ms: records[at].expires_at_ms,
        object: (object != ObjectId::NONE).then_some(object),
    }
}

/// `s` and `l` are lost, `h` is not.
fn check_unnamed(keyspace: &mut LoggedKeyspace) {
    assert_eq!((keyspace.lost_values(), keyspace.size(DB0).0), (2, 3));
    assert!(is_lost(keyspace, b"s") && is_lost(keyspace, b"l"));
    assert_eq!(keyspace.type_of(DB0, b"l"), Some(Type::Hash));
    assert_eq!(keyspace.expires_at_ms(DB0, b"s"), Some(Some(50)));
    assert!(!keyspace.exists(DB0, b"none", true));
    assert!(keyspace.string(DB0, b"h").expect("a string").is_some());
    assert_eq!((keyspace.lost_values(), keyspace.size(DB0).0), (2, 3), "now they have names");
}

#[test]
fn a_cold_key_that_is_damaged_is_lost_with_its_name_until_a_command_names_it() {
    let log = MemoryLog::default();
    let mut first = log.keyspace();
    first.begin_command(0);
    first.set_string(DB0, b"s", b"older, and never seen again", Expiry::Clear);
    first.set_string(DB0, b"s", b"lost", Expiry::At(50));
    first.set_string(DB0, b"h", b"here", Expiry::Clear);
    for number in 0..100_u8 {
        let _ = first.update::<Hash, _>(DB0, b"l", true, |it| _ = it.set(&[number; 9], b"v"));
    }
    let count = log.records().len();
    let index = Index::of(&log);
    let mut keyspace = cold(&log, &index);
    keyspace.begin_command(1);
    // One that a command has brought back is not lost, whatever became of its record since.
    assert_eq!(keyspace.restore(DB0, b"h", Need::Value), Ok(()));
    let news = [(&b"h"[..], Type::String), (b"s", Type::String), (b"l", Type::Hash)];
    for (key, value_type) in news.into_iter().chain(news) {
        let lost = lost_key(&log.snapshot_of(count), key, value_type);
        keyspace.lose_cold(lost);
    }
    assert_eq!((keyspace.take_lost().unnamed, keyspace.end_cold()), (2, 0));
    for object in keyspace.take_bare_garbage() {
        keyspace.retire_elements(object, Some(index.elements(object)));
    }
    while keyspace.free_step(10) {}
    let is_needed = |it: &&crate::journal::Logged| !it.is_retired && !it.kind.is_delete();
    assert_eq!(log.records()[..count].iter().filter(is_needed).count(), 1, "that of `h`");

    // Starts: one reads everything, the older value too; another one what the index says; and what has
    // no name is logged anew as what has.
    check_unnamed(&mut log.replay(|_| true));
    check_unnamed(&mut log.replay(|_| false));
    walk(&mut keyspace, 1, true);
    check_unnamed(&mut log.replay(|_| true));
    check_unnamed(&mut keyspace);
    walk(&mut keyspace, 1, true);
    check_unnamed(&mut log.replay(|_| true));

    keyspace.set_string(DB0, b"s", b"new", Expiry::Clear);
    assert!(keyspace.delete(DB0, b"l"));
    let mut again = log.replay(|_| true);
    for keyspace in [&mut keyspace, &mut again] {
        assert_eq!((keyspace.lost_values(), keyspace.size(DB0)), (0, (2, 0)));
        assert!(keyspace.string(DB0, b"s").expect("a string").is_some());
    }
}

#[test]
fn keys_without_a_name_go_with_their_database() {
    let log = MemoryLog::default();
    log.keyspace().set_string(DB0, b"s", b"lost", Expiry::Clear);
    let mut keyspace = cold(&log, &Index::of(&log));
    keyspace.lose_cold(lost_key(&log, b"s", Type::String));
    assert_eq!(keyspace.end_cold(), 0);
    assert_eq!((keyspace.size(DB0).0, keyspace.flush([DB0])), (1, 1));
    while keyspace.free_step(10) {}
    assert_eq!((keyspace.size(DB0).0, keyspace.exists(DB0, b"s", true)), (0, false));
    let is_needed = |it: &&crate::journal::Logged| !it.is_retired && it.kind == RecordKind::KeyLost;
    assert_eq!(log.records().iter().filter(is_needed).count(), 0);
    assert_eq!(log.replay(|_| true).size(DB0).0, 0);
}

#[test]
fn keys_that_have_left_memory_are_looked_for_by_the_index() {
    let blocks = Blocks::default();
    let mut keyspace = damaged(&blocks);
    for (db, key) in [(DB1, &b"near"[..]), (DB0, b"large"), (DB0, b"huge")] {
        assert!(keyspace.depart_key(db, key));
    }
    assert_eq!((keyspace.cold_keys(), keyspace.size(DB0).0, keyspace.size(DB1).0), (3, 4, 1));
    let count = blocks.log.records().len();
    walk(&mut keyspace, 1, false);
    assert_eq!(keyspace.lost_values(), 1, "`small` expires, and is in the table");
    walk(&mut keyspace, 1, true);
    assert_eq!((keyspace.take_lost().unnamed, keyspace.cold_keys()), (1, 0));
    assert!(!keyspace.depart_key(DB0, b"small"));
    while keyspace.unlisted() > 0 {
        retire_bare(&mut keyspace, &blocks);
        while keyspace.free_step(10) {}
        blocks.all_indexed();
    }
    let is_needed = |it: &crate::journal::Logged| !it.is_retired && !it.kind.is_delete();
    assert!(!blocks.log.records()[..count].iter().any(is_needed), "the file can go");
    check_lost(&mut blocks.log.replay(|_| true));
    check_lost(&mut keyspace);
}

/// What was logged again is in a place that no index knows: gone from memory, it could not be found.
#[test]
fn what_was_logged_again_stays_in_memory_until_it_is_indexed() {
    for is_thorough in [false, true] {
        let blocks = Blocks::default();
        let mut keyspace = blocks.keyspace();
        keyspace.begin_command(0);
        for number in 0..100_u8 {
            let _ =
                keyspace.update::<Hash, _>(DB0, b"k", true, |it| _ = it.set(&[number; 9], b"v"));
        }
        (0..2).for_each(|_| blocks.all_indexed());
        keyspace.note_indexed(blocks.indexed_lsn());
        if is_thorough {
            assert!(keyspace.cool_key(DB0, b"k") && keyspace.depart_key(DB0, b"k"));
        }
        let logged = blocks.log.records().len();
        walk(&mut keyspace, 1, is_thorough);
        assert!(blocks.log.records().len() > logged + 100, "it is logged again");
        blocks.make_durable();
        assert!(!keyspace.cool_key(DB0, b"k"), "no index knows its fields");
        blocks.all_indexed();
        keyspace.note_indexed(blocks.indexed_lsn());
        assert!(keyspace.cool_key(DB0, b"k"));
        let count = keyspace.read::<Hash>(DB0, b"k").expect("a hash").map(|hash| hash.len());
        assert_eq!((count, keyspace.take_restore_failure()), (Some(100), None));
    }
}
