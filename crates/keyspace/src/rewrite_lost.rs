//! Logging anew whatever has its record in certain segments: those are damaged, and what they held is in
//! memory, or next to the damage, or lost.
//!
//! ```text
//!   in memory ──────────────────────────────► logged again
//!   bare, its records can be read ──► filled ─► logged again
//!   bare, a record of it is damaged ──────────► given up, by name (`lost`)
//!   bare, and not to be read now ─────────────► stays: another walk tries again
//!   cold: as bare ones, but those that are given up have no name
//! ```
//!
//! The keyspace is walked in slices while it is used. Between two slices entries may move, so that
//! one may be missed; the caller knows from the segments' counts whether anything is left,
//! and walks again. What was rewritten has a new address and is passed over the next time.
//!
//! Where the elements of a bare object are, and which cold keys there are, only an index tells. Most are
//! elsewhere, so it is asked by *thorough* walks alone: the caller makes one when something is left behind a quick one.

use std::cell::Cell;

use base::{DbIndex, RecordAddr, SegmentId};

use crate::cold::Warmth;
use crate::db::{Db, Parts};
use crate::entry::Entry;
use crate::hash;
use crate::hasher::{Identity, KeyHasher};
use crate::keyspace::Keyspace;
use crate::lost::KeysIn;
use crate::source::{RestoreError, Source};
use crate::stream::end::Ends;
use crate::table::Keyed;

/// Reading a value, or asking an index, counts as so many entries.
const READ_COST: usize = 64;

/// How far a walk is.
#[derive(Debug)]
pub struct RewriteLost {
    /// Ascending.
    segments: Vec<SegmentId>,
    is_thorough: bool,
    db: DbIndex,
    page: usize,
    item: usize,
    /// How many pieces of the object at this place were looked at.
    piece: usize,
    /// Behind the tables: the database, and the identity in it, from which keys are looked for that are in
    /// no table.
    cold: (DbIndex, Identity),
}

impl RewriteLost {
    /// A walk that logs anew what has its record in one of `segments`; `is_thorough` if it asks for
    /// the elements of objects that are not in memory.
    #[must_use]
    pub fn new(mut segments: Vec<SegmentId>, is_thorough: bool) -> Self {
        segments.sort_unstable();
        let (db, cold) = (DbIndex::FIRST, (DbIndex::FIRST, Identity::default()));
        Self { segments, is_thorough, db, page: 0, item: 0, piece: 0, cold }
    }

    /// Whether a record of the bare value of `entry` is in one of the segments.
    fn concerns(&self, entry: &Entry, source: &mut Source, ends: &Ends) -> bool {
        if entry.addr().is_some_and(|addr| self.has(addr))
            || ends.concerns(entry, |addr| self.has(addr))
        {
            return true;
        }
        let object = entry.bare_object().filter(|_| self.is_thorough);
        object.is_some_and(|(_, id)| source.has_elements_in(id, &self.segments))
    }

    fn is_at_start(&self) -> bool {
        (self.db, self.page, self.item, self.piece) == (DbIndex::FIRST, 0, 0, 0)
    }

    fn has(&self, addr: RecordAddr) -> bool {
        self.segments.binary_search(&addr.segment()).is_ok()
    }
}

impl Keyspace {
    /// Looks at about `entries_max` further entries. Whether the walk is at its end.
    pub fn rewrite_lost_step(&mut self, walk: &mut RewriteLost, entries_max: usize) -> bool {
        if self.databases_addr.is_some_and(|addr| walk.has(addr)) {
            self.log_databases();
        }
        self.libraries.rewrite(&mut self.recorder, |addr| walk.has(addr));
        if walk.is_at_start() {
            for db in self.dbs.iter_mut() {
                let lost = db.lost_names.iter_mut();
                for (identity, lost) in
                    lost.filter(|(_, it)| it.addr.is_some_and(|at| walk.has(at)))
                {
                    self.recorder.log_lost_name(db.id, identity, lost);
                }
            }
        }
        let mut left = entries_max;
        while let Some(db) = self.dbs.get_mut(walk.db) {
            let Parts { id, keys, bare_count, lost_count, due_hashes } = db.parts();
            let Some(entries) = keys.page_mut(walk.page) else {
                (walk.db, walk.page) = (walk.db.next(), 0);
                continue;
            };
            for entry in entries.skip(walk.item) {
                if entry.is_bare()
                    && !entry.is_lost()
                    && let Some((source, addr)) = self.source.as_mut().zip(entry.addr())
                {
                    let is_asked = walk.is_thorough && entry.bare_object().is_some();
                    let concerns = walk.concerns(entry, source, &self.ends);
                    left = left.saturating_sub(if is_asked || concerns { READ_COST } else { 0 });
                    left = left.saturating_sub(self.ends.nodes_of(entry));
                    let stream = entry.bare_object().map(|(_, id)| id);
                    let stream = stream.filter(|stream| self.ends.has(*stream));
                    let mut read = || match stream {
                        Some(stream) => {
                            let journal = &self.recorder.journal;
                            source.try_read_rest(id, entry.key(), stream, journal)
                        }
                        None => source.try_read(id, entry.key(), addr),
                    };
                    match concerns.then(&mut read) {
                        Some(Ok(restored)) => {
                            entry.fill(restored.into_entry());
                            self.ends.join(entry);
                            let first_ms = hash::first_expiry_ms(entry);
                            self.had_expiring_fields |= hash::has_expiring_fields(entry);
                            due_hashes.set(self.recorder.hasher.hash(entry.key()), first_ms);
                            *bare_count -= 1;
                        }
                        Some(Err(RestoreError::Corrupt(_))) => {
                            *lost_count += 1;
                            let (recorder, free) = (&mut self.recorder, &mut self.free);
                            let added = self.ends.added_to(entry);
                            self.lost.give_up((walk.db, id), entry, added, recorder, free);
                        }
                        // It does not say that it is lost. A device that fails may take long for it: one at a time.
                        Some(Err(_)) => left = left.min(1),
                        None => {}
                    }
                }
                if let Some(object) = entry.object_mut() {
                    let recorder = &mut self.recorder;
                    let is_rewritten = Cell::new(false);
                    let is_lost = |addr: RecordAddr| {
                        let is_lost = walk.segments.binary_search(&addr.segment()).is_ok();
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
                let is_known = !entry.is_bare() || entry.is_lost();
                if is_known && entry.addr().is_some_and(|addr| walk.has(addr)) {
                    self.recorder.log_key(id, entry);
                }
                (walk.item, walk.piece) = (walk.item + 1, 0);
                left = left.saturating_sub(1);
                if left == 0 {
                    return false;
                }
            }
            (walk.page, walk.item, walk.piece) = (walk.page + 1, 0, 0);
        }
        !walk.is_thorough || self.rewrite_cold_step(walk)
    }

    /// Goes on with keys that are in no table. Whether there are no further ones.
    fn rewrite_cold_step(&mut self, walk: &mut RewriteLost) -> bool {
        let (at, from) = walk.cold;
        let Some(Db { id, may_be_cold, .. }) = self.dbs.get(at) else { return true };
        let source = self.source.as_mut().filter(|_| *may_be_cold);
        let found = source.map(|source| source.keys_in(*id, from, &walk.segments));
        let KeysIn { keys, next } = found.unwrap_or_default();
        walk.cold = match next {
            Some(next) => (at, next),
            None => (at.next(), Identity::default()),
        };
        for key in keys {
            let is_here = self.dbs[at].find_by_identity(self.recorder.hasher, &key.identity);
            if is_here.is_some() || self.recorder.journal.is_retired(key.addr) {
                continue;
            }
            let Some(source) = &mut self.source else { break };
            match source.read_unnamed(&key) {
                Ok(Some(restored)) => {
                    self.install_key(restored, true, Warmth::Asked);
                    self.rewrite_key(at, &key.identity, walk);
                }
                Err(RestoreError::Corrupt(_)) => self.lose_cold(key),
                // Neither says that it is lost.
                Ok(None) | Err(_) => {}
            }
        }
        false
    }

    /// Logs what is needed of a key that has just come.
    fn rewrite_key(&mut self, db: DbIndex, identity: &Identity, walk: &RewriteLost) {
        let Self { dbs, recorder, .. } = self;
        let hasher = recorder.hasher;
        let Parts { id, keys, .. } = dbs[db].parts();
        let is_it = |entry: &Entry| hasher.identity(entry.key()) == *identity;
        let Some(entry) = keys.find_mut_by(KeyHasher::hash_in(identity), is_it) else { return };
        if let Some(object) = entry.object_mut() {
            let is_lost = |addr: RecordAddr| walk.has(addr);
            let mut piece = 0;
            while object.rewrite_lost(recorder, piece, &is_lost).is_some() {
                piece += 1;
            }
            // No index knows it yet.
            object.changed_at = recorder.open_lsn();
        }
        if entry.addr().is_some_and(|addr| walk.has(addr)) {
            recorder.log_key(id, entry);
        }
    }
}
