//! Logging anew whatever has its record in certain segments: those are damaged, and memory has
//! what they held.
//!
//! The keyspace is walked in slices while it is used. Between two slices entries may move, so that
//! one may be missed; the caller knows from the segments' counts whether anything is left,
//! and walks again. What was rewritten has a new address and is passed over the next time.

use std::cell::Cell;

use base::{DbIndex, RecordAddr, SegmentId};

use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::table::Keyed;

/// How far a walk is.
#[derive(Debug)]
pub struct RewriteLost {
    /// Ascending.
    segments: Vec<SegmentId>,
    db: DbIndex,
    page: usize,
    item: usize,
    /// How many pieces of the object at this place were looked at.
    piece: usize,
}

impl RewriteLost {
    /// A walk that logs anew what has its record in one of `segments`.
    #[must_use]
    pub fn new(mut segments: Vec<SegmentId>) -> Self {
        segments.sort_unstable();
        Self { segments, db: DbIndex::FIRST, page: 0, item: 0, piece: 0 }
    }
}

impl Keyspace {
    /// Looks at about `entries_max` further entries. Whether the walk is at its end.
    pub fn rewrite_lost_step(&mut self, walk: &mut RewriteLost, entries_max: usize) -> bool {
        let segments = &walk.segments;
        let is_lost = |addr: RecordAddr| segments.binary_search(&addr.segment()).is_ok();
        if self.databases_addr.is_some_and(is_lost) {
            self.log_databases();
        }
        let mut left = entries_max;
        while let Some(db) = self.dbs.get_mut(walk.db) {
            let Db { id, keys, bare_count, .. } = db;
            let Some(entries) = keys.page_mut(walk.page) else {
                (walk.db, walk.page) = (walk.db.next(), 0);
                continue;
            };
            for entry in entries.skip(walk.item) {
                if entry.is_bare() && entry.addr().is_some_and(is_lost) {
                    // Only what is next to it may be damaged. If it is itself, it stays where it is.
                    let addr = entry.addr().expect("just seen");
                    let source = self.source.as_mut();
                    let read = source.and_then(|source| source.try_read(*id, entry.key(), addr));
                    if let Some(restored) = read {
                        entry.fill(restored.into_entry());
                        *bare_count -= 1;
                    }
                }
                if let Some(object) = entry.object_mut() {
                    let recorder = &mut self.recorder;
                    let is_rewritten = Cell::new(false);
                    let is_lost = |addr| {
                        let is_lost = is_lost(addr);
                        is_rewritten.set(is_rewritten.get() || is_lost);
                        is_lost
                    };
                    while let Some(count) = object.rewrite_lost(recorder, walk.piece, &is_lost) {
                        if is_rewritten.take() {
                            // No index knows it yet.
                            object.changed_at = recorder.open_lsn();
                        }
                        walk.piece += 1;
                        left = left.saturating_sub(count);
                        if left == 0 {
                            return false;
                        }
                    }
                }
                if !entry.is_bare() && entry.addr().is_some_and(is_lost) {
                    self.recorder.log_key(*id, entry);
                }
                (walk.item, walk.piece) = (walk.item + 1, 0);
                left = left.saturating_sub(1);
                if left == 0 {
                    return false;
                }
            }
            (walk.page, walk.item, walk.piece) = (walk.page + 1, 0, 0);
        }
        true
    }
}
