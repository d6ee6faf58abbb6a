//! Logging a whole keyspace anew, in slices: `appendonly yes` while the server runs.
//!
//! ```text
//!   begin    a Databases record: the indexes keep the ids that they have in the log,
//!            and the ids that are used from here on are taken
//!   step     every entry, under a fresh database id; every object, under a fresh incarnation,
//!            its root first, so that whatever follows the log never holds elements without one
//!   finish   the libraries of functions, and that all others which the log ever had are gone;
//!            what it has of them is retired;
//!            a Databases record: the indexes have the fresh ids
//! ```
//!
//! Until the last record is durable, a crash brings back the state that the log had before: what
//! is logged in between belongs to databases that no index maps to, and to objects without a root
//! that counts. From then on it brings back the keyspace as it was when that record was written.
//! Afterwards every older record is garbage ([`Keyspace::retire_surveyed`]). Those of libraries are so in the
//! block of the last record: they have no database whose id would set them apart, so a record that follows
//! must find them retired.
//!
//! # Invariants
//! - Between begin and finish the keyspace does not change: the caller lets writers wait
//!   and freezes the keyspace. So places in its tables stay what they are from slice to slice.
//! - Nothing waits to be freed when it begins: that would retire addresses of another log. A walk, which
//!   may hold objects back from that, has ended.

use base::{DbId, DbIndex, RecordAddr};

use crate::db::Parts;
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::survey::Survey;

/// See the file's top.
pub struct FullRewrite<J> {
    recorder: Recorder<J>,
    survey: Survey,
    /// Where the record of [`Keyspace::begin_full_rewrite`] is.
    databases_addr: Option<RecordAddr>,
    db: DbIndex,
    page: usize,
    item: usize,
    /// How many pieces of the object at this place were logged; `None` for an entry not begun.
    piece: Option<usize>,
}

/// What a full rewrite that is done leaves for [`Keyspace::finish_full_rewrite`].
pub struct FullRewritten {
    next_object: u64,
    survey: Survey,
    databases_addr: Option<RecordAddr>,
}

impl<J: Journal> FullRewrite<J> {
    /// The journal that everything is logged to.
    pub const fn journal(&self) -> &J {
        &self.recorder.journal
    }

    /// The journal, to be changed.
    pub const fn journal_mut(&mut self) -> &mut J {
        &mut self.recorder.journal
    }

    /// Ends: returns the journal, to be connected before [`Keyspace::finish_full_rewrite`].
    pub fn finish(self) -> (J, FullRewritten) {
        let Self { recorder, survey, databases_addr, .. } = self;
        let next_object = recorder.next_object;
        (recorder.journal, FullRewritten { next_object, survey, databases_addr })
    }
}

impl Keyspace {
    /// Begins. `survey` is of the log behind `journal`.
    ///
    /// # Panics
    /// When something waits to be freed, or a walk is under way.
    #[must_use]
    pub fn begin_full_rewrite<J: Journal + 'static>(
        &mut self,
        journal: J,
        survey: Survey,
    ) -> FullRewrite<J> {
        assert!(self.freeing() == 0, "addresses of another log are gone");
        assert!(!self.is_walked(), "databases and objects get other numbers");
        let (old_ids, next) = survey.databases(self.database_count());
        self.next_db_id = self.next_db_id.max(next);
        for db in self.dbs.iter_mut() {
            db.id = DbId(self.next_db_id);
            self.next_db_id += 1;
        }
        let mut recorder = Recorder::new(journal, self.recorder.hasher);
        recorder.next_object = self.recorder.next_object.max(survey.next_object);
        let map = self.databases_value(old_ids.into_iter());
        let databases_addr = (&mut recorder as &mut Recorder).log_databases(&map);
        for db in self.dbs.iter_mut() {
            for (identity, lost) in &mut db.lost_names {
                // What address it has is of another log.
                lost.addr = None;
                (&mut recorder as &mut Recorder).log_lost_name(db.id, identity, lost);
            }
        }
        FullRewrite {
            recorder,
            survey,
            databases_addr,
            db: DbIndex::FIRST,
            page: 0,
            item: 0,
            piece: None,
        }
    }

    /// Logs about `records_max` further records. Whether everything is logged now.
    pub fn full_rewrite_step<J: Journal + 'static>(
        &mut self,
        rewrite: &mut FullRewrite<J>,
        records_max: usize,
    ) -> bool {
        let recorder: &mut Recorder = &mut rewrite.recorder;
        let mut left = records_max;
        while let Some(db) = self.dbs.get_mut(rewrite.db) {
            let Parts { id, keys, .. } = db.parts();
            let Some(entries) = keys.page_mut(rewrite.page) else {
                (rewrite.db, rewrite.page) = (rewrite.db.next(), 0);
                continue;
            };
            for entry in entries.skip(rewrite.item) {
                if rewrite.piece.is_none() {
                    if let Some(object) = entry.object_mut() {
                        object.renew(recorder);
                    }
                    // What address it has is of another log.
                    entry.set_addr(None);
                    recorder.log_key(id, entry);
                    left = left.saturating_sub(1);
                }
                let piece = rewrite.piece.get_or_insert(0);
                if let Some(object) = entry.object_mut() {
                    while left > 0
                        && let Some(count) = object.rewrite(recorder, *piece)
                    {
                        *piece += 1;
                        left = left.saturating_sub(count);
                    }
                }
                if left == 0 {
                    return false;
                }
                (rewrite.item, rewrite.piece) = (rewrite.item + 1, None);
            }
            (rewrite.page, rewrite.item) = (rewrite.page + 1, 0);
        }
        true
    }

    /// Makes what was logged count, once its journal is connected. What the log had before is
    /// garbage as soon as the block that is open now is durable.
    pub fn finish_full_rewrite(&mut self, rewritten: FullRewritten) -> Survey {
        let FullRewritten { next_object, mut survey, databases_addr } = rewritten;
        self.recorder.next_object = next_object;
        self.databases_addr = databases_addr;
        // In one block with the map: either makes what was there before garbage.
        self.libraries.log_anew(&mut self.recorder, std::mem::take(&mut survey.libraries));
        self.log_databases();
        survey
    }

    /// Retires what the log had before, little by little ([`Keyspace::free_step`]).
    pub fn retire_surveyed(&mut self, survey: Survey) {
        self.free.addrs(survey.into_addrs());
    }
}
