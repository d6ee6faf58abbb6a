//! Segments that are damaged: everything that memory has is logged elsewhere, while it is used.

use keyspace::RewriteLost;
use keyspace::hash::Hash;

use base::SegmentId;

use crate::full_rewrite::{contents, fill};
use crate::journal::MemoryLog;
use crate::{DB0, DB1, DB2, DB3};

#[test]
fn nothing_but_deletes_is_left_where_the_damage_is() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    fill(&mut keyspace, 0);
    keyspace.swap(DB0, DB2);
    keyspace.delete(DB3, b"small");
    while keyspace.free_step(100) {}
    let damaged = log.records().len();
    // All records are in one segment here, so each walk rewrites all; one is enough.
    let mut walk = RewriteLost::new(vec![SegmentId(1)], false);
    let mut slices = 0;
    while !keyspace.rewrite_lost_step(&mut walk, 50) {
        slices += 1;
        if slices % 2 == 0 {
            // It is used meanwhile, but for keys and fields that would be moved about.
            let name = format!("new {slices}").into_bytes();
            keyspace.update::<Hash, _>(DB1, &name, true, |hash| hash.set(&name, b"v")).unwrap();
        }
    }
    assert!(slices > 4, "{slices}");
    let mut again = RewriteLost::new(vec![SegmentId(1)], false);
    while !keyspace.rewrite_lost_step(&mut again, 1000) {}
    let left = |logged: &&crate::journal::Logged| !logged.is_retired && !logged.kind.is_delete();
    let records = log.records();
    let kinds: Vec<_> = records[..damaged].iter().filter(left).map(|l| l.kind).collect();
    assert!(kinds.is_empty(), "{kinds:?}");
    drop(records);
    let all = contents(&mut keyspace);
    assert_eq!(contents(&mut log.replay(|_| false)), all);
}

#[test]
fn what_is_elsewhere_is_left_alone() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    fill(&mut keyspace, 0);
    let records = log.records().len();
    let mut walk = RewriteLost::new(vec![SegmentId(2), SegmentId(3)], false);
    assert!(keyspace.rewrite_lost_step(&mut walk, usize::MAX));
    assert_eq!(log.records().len(), records);
}
