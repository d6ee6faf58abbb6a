//! Which keys are hot: a walk over the tables that notes where their records are.
//!
//! ```text
//!   a sample of what is in memory ─► the least heat of what is hot
//!   page · page · page · …        ─► addresses of the keys at or above it, whose records are durable
//! ```
//!
//! A start that brings keys back from the log reads these first. Where values have left memory, the hand of
//! `cooling` has chosen already: all that is in memory is hot. Where everything fits, the hotter half is;
//! about, because many keys are equally hot. If none is hotter than the others, all are.
//!
//! The walk reads a page of some hundred keys in a step, and is done while the keyspace is used: a
//! key that moves to another page meanwhile may be noted twice, or not at all.

use base::{DbIndex, RecordAddr};

use crate::cooling::{Heats, heat};
use crate::entry::Entry;
use crate::keyspace::Keyspace;

/// So many keys are looked at before it is known what is hot.
const SAMPLES: usize = 1024;

/// Addresses are gathered in pieces of so many, because a larger one would be copied when it grows.
const PIECE_LEN: usize = 1 << 14;

/// See the file's top.
#[derive(Debug)]
pub struct HotSurvey {
    db: DbIndex,
    /// The hash at which the next page begins.
    from: u64,
    /// The least heat of what is hot; `None` before the first step.
    least: Option<u8>,
    pieces: Vec<Vec<RecordAddr>>,
    /// So many more may be noted.
    left: usize,
}

impl HotSurvey {
    /// A walk that notes at most `records_max` records.
    #[must_use]
    pub const fn new(records_max: usize) -> Self {
        let pieces = Vec::new();
        Self { db: DbIndex::FIRST, from: 0, least: None, pieces, left: records_max }
    }

    /// What was found, in pieces of any order.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Vec<RecordAddr>> {
        self.pieces
    }

    fn note(&mut self, addr: RecordAddr) {
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_LEN) {
            Some(piece) => piece.push(addr),
            None => {
                let mut piece = Vec::with_capacity(PIECE_LEN);
                piece.push(addr);
                self.pieces.push(piece);
            }
        }
        self.left -= 1;
    }
}

impl Keyspace {
    /// Looks at a page of keys. Whether the walk is at its end.
    pub fn hot_step(&mut self, survey: &mut HotSurvey) -> bool {
        let least = match survey.least {
            Some(least) => least,
            None => *survey.least.insert(self.least_hot(survey.left)),
        };
        let Some(db) = self.dbs.get(survey.db) else { return true };
        for entry in db.keys().page_items(survey.from) {
            if survey.left == 0 {
                return true;
            }
            let durable =
                |addr: &RecordAddr| self.recorder.journal.undurable_lsn_of(*addr).is_none();
            if is_there(entry)
                && heat(entry, &self.settings, self.now_ms) >= least
                && let Some(addr) = entry.addr().filter(durable)
            {
                survey.note(addr);
            }
        }
        match db.keys().page_end(survey.from) {
            Some(next) => survey.from = next,
            None => (survey.db, survey.from) = (survey.db.next(), 0),
        }
        self.dbs.get(survey.db).is_none()
    }

    /// The least heat of what is hot, of which there are to be at most about so many.
    fn least_hot(&mut self, records_max: usize) -> u8 {
        let keys: usize = self.dbs.iter().map(|db| db.keys().len()).sum();
        let mut heats = Heats::default();
        let mut looked_at = 0;
        for db in self.databases() {
            let table = self.dbs[db].keys();
            let samples = (SAMPLES * table.len()).div_ceil(keys.max(1));
            for _ in 0..samples {
                let Some(entry) = table.random(&mut self.rng) else { break };
                looked_at += 1;
                if is_there(entry) {
                    heats.note(heat(entry, &self.settings, self.now_ms));
                }
            }
        }
        let count = heats.count();
        let is_larger_than_memory = self.bare_values() + self.cold_keys() > 0;
        let hot = if is_larger_than_memory { count } else { count / 2 };
        // What is in memory is about `count` of `looked_at` of all keys.
        let fitting = (records_max as u64).saturating_mul(looked_at) / (keys as u64).max(1);
        least_of(&heats, hot.min(fitting))
    }
}

/// The least heat of about so many values: many may have the same.
fn least_of(heats: &Heats, wanted: u64) -> u8 {
    let least = heats.coldest(heats.count() - wanted);
    let Some(hotter) = least.checked_add(1) else { return least };
    let (without, with) = (heats.above(least), least.checked_sub(1).map(|it| heats.above(it)));
    let too_few = wanted - without;
    let too_many = with.unwrap_or(heats.count()) - wanted;
    if without > 0 && too_few < too_many { hotter } else { least }
}

/// Whether a start would have to bring something back.
fn is_there(entry: &Entry) -> bool {
    !entry.is_bare() && !entry.is_lost()
}
