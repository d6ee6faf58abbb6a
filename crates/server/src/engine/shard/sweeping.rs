//! Deletes keys that have expired while they were not in memory, and that no command asks for.
//!
//! ```text
//!   executor   is one due? ─► Sweep ─► Wanted ─┐   at each cycle, another step
//!                  ▲                           │
//!                  └── keys that have expired ─┴─ other threads: some entries of the index, or some records
//! ```
//!
//! A sweep goes over the index of one database, notes which records have expired, and reads these in
//! the order of the log, because only they have the names: a deletion is logged, and told to clients, by
//! name. It is a walk over the whole index for the first key that expires in it, so it goes
//! slowly, and as long as nothing is due there is none.

use std::vec;

use base::{DbId, RecordAddr, RecordKind};
use keyspace::{RestoreError, Restored};
use logindex::{EXPIRY_MS_MAX, Hash96, Index, Scope, ScopeRange};

use super::{Shard, Wanted};

/// So many entries of an index are looked at in a step, at the least effort. At ten cycles a second
/// that is a few hundredths of a processor.
const ENTRIES_PER_STEP: usize = 1 << 14;

/// So many records are read in a step.
const RECORDS_PER_STEP: usize = 256;

/// So many keys are deleted in the order of the log.
const DUE_MAX: usize = 1 << 20;

/// After a failure the next sweep begins so much later.
const PAUSE_US: u64 = 10_000_000;

/// A walk over the keys of a database for those that have expired, wherever it is: with the executor, or with
/// a thread that does a step.
pub struct Sweep {
    db: DbId,
    now_ms: i64,
    entries_per_step: usize,
    range: Looking,
    /// Records of keys that have expired.
    due: Vec<RecordAddr>,
    /// Those of `due` whose names are read now, in the order of the log.
    reading: vec::IntoIter<RecordAddr>,
    /// When the next one expires of those that have not.
    soonest_ms: i64,
}

enum Looking {
    Unbegun,
    At(Box<ScopeRange>),
    Over,
}

impl Sweep {
    fn new(db: DbId, now_ms: i64, effort: u32) -> Self {
        Self {
            db,
            now_ms,
            entries_per_step: ENTRIES_PER_STEP
                * usize::try_from(effort.max(1)).expect("at most ten"),
            range: Looking::Unbegun,
            due: Vec::new(),
            reading: Vec::new().into_iter(),
            soonest_ms: i64::MAX,
        }
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> DbId {
        self.db
    }

    /// Whether a key that expires then has expired.
    #[must_use]
    pub const fn is_due(&self, expires_at_ms: i64) -> bool {
        expires_at_ms <= self.now_ms
    }

    /// The records to be read next, ascending; none before some entries of the index were looked at.
    pub fn next_records(&mut self) -> Vec<RecordAddr> {
        self.reading.by_ref().take(RECORDS_PER_STEP).collect()
    }

    /// Looks at some entries of the database in `index`, the same one in each step as in the first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn look(&mut self, index: &Index) -> Result<(), logindex::Error> {
        let mut range = match std::mem::replace(&mut self.range, Looking::Over) {
            Looking::Over => return Ok(()),
            Looking::At(range) => range,
            Looking::Unbegun => Box::new(index.scope_range(Scope::database(self.db), Hash96::MIN)?),
        };
        let mut is_over = false;
        for _ in 0..self.entries_per_step {
            let Some(entry) = range.next()? else {
                is_over = true;
                break;
            };
            let place = entry.place().expect("ranges have what is there");
            let Some(at) = place.expiry_ms() else { continue };
            let at_ms = i64::try_from(at).unwrap_or(i64::MAX);
            if at < EXPIRY_MS_MAX && self.is_due(at_ms) {
                // A name that is lost is not in the log.
                if place.tag() != RecordKind::KeyLost as u8 {
                    self.due.push(place.addr());
                }
            } else {
                self.soonest_ms = self.soonest_ms.min(at_ms);
            }
        }
        if is_over || self.due.len() >= DUE_MAX {
            self.begin_reading();
        }
        if !is_over {
            self.range = Looking::At(range);
        }
        Ok(())
    }

    fn begin_reading(&mut self) {
        self.due.sort_unstable();
        self.reading = std::mem::take(&mut self.due).into_iter();
    }

    /// After an error nothing more is looked for, and another sweep is needed; what was found is read.
    ///
    /// # Errors
    /// That error, if nothing was found.
    pub fn end_early<E>(&mut self, error: E) -> Result<(), E> {
        self.soonest_ms = i64::MIN;
        self.begin_reading();
        if self.is_reading() { Ok(()) } else { Err(error) }
    }

    fn is_reading(&self) -> bool {
        self.reading.len() > 0
    }

    fn is_over(&self) -> bool {
        matches!(self.range, Looking::Over) && !self.is_reading()
    }
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Sweeper {
    /// Databases that come after the one that is looked through.
    left: Vec<DbId>,
    /// What is to be done next. While threads do it, it is with them.
    next: Option<Sweep>,
    is_away: bool,
    not_before_us: u64,
}

impl Shard {
    /// Whether keys may be deleted because they have expired.
    pub(super) fn may_expire(&self) -> bool {
        self.expiry.is_on && !self.is_loading() && !self.keyspace.is_frozen()
    }

    /// Has another step done, if one is due.
    pub(in crate::engine) fn sweep(&mut self, now_us: u64, effort: u32) {
        let must_wait = self.sweeper.is_away || now_us < self.sweeper.not_before_us;
        // What comes back unasked expires in memory.
        if must_wait || !self.may_expire() || self.is_warming() || self.is_log_congested() {
            return;
        }
        if self.sweeper.next.is_none() {
            if self.sweeper.left.is_empty() {
                self.sweeper.left = self.keyspace.begin_sweep().unwrap_or_default();
            }
            let Some(db) = self.sweeper.left.pop() else { return };
            self.sweeper.next = Some(Sweep::new(db, self.keyspace.now_ms(), effort));
        }
        self.ask_for_sweep();
    }

    fn ask_for_sweep(&mut self) {
        if let Some(sweep) = self.sweeper.next.take() {
            self.sweeper.is_away = self.ask(Wanted::Sweep(sweep));
            if !self.sweeper.is_away {
                // Without threads nothing is found; they may be there again later.
                self.give_up_sweep();
            }
        }
    }

    /// Takes over what a step has found.
    pub(in crate::engine) fn swept(
        &mut self,
        sweep: Sweep,
        found: Result<Vec<Restored>, RestoreError>,
        now_us: u64,
    ) {
        self.sweeper.is_away = false;
        let Ok(keys) = found else {
            self.sweeper.not_before_us = now_us + PAUSE_US;
            return self.give_up_sweep();
        };
        if !keys.is_empty() && !self.may_expire() {
            // Another sweep has to find these.
            self.keyspace.note_cold_due(i64::MIN);
        }
        for key in keys {
            self.keyspace.expire_cold(key);
        }
        if sweep.is_over() {
            if sweep.soonest_ms == i64::MIN {
                self.sweeper.not_before_us = now_us + PAUSE_US;
            }
            self.keyspace.note_cold_due(sweep.soonest_ms);
            return;
        }
        let goes_on = sweep.is_reading() && self.may_expire() && !self.is_log_congested();
        self.sweeper.next = Some(sweep);
        if goes_on {
            self.ask_for_sweep();
        }
    }

    /// It begins anew, some time.
    fn give_up_sweep(&mut self) {
        self.sweeper.left.clear();
        self.keyspace.note_cold_due(i64::MIN);
    }
}
