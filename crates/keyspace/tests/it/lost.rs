//! Values that are not in memory, and whose records are damaged: they are lost by name, and only they.

use base::{RecordAddr, RecordKind, SegmentId};
use keyspace::hash::Hash;
use keyspace::set::Set;
use keyspace::{Expiry, Journal, Need, RestoreError, RewriteLost, StringRef, Type};

use crate::bare::{Blocks, retire_bare};
use crate::journal::{LoggedKeyspace, addr};
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
    blocks.all_indexed();
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
