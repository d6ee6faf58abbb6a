//! Values that the log had, and has no more: their records lay in what is damaged.
//!
//! ```text
//!   bare entry ── its record cannot be read ─► give_up ── ValueLost record ─► lost entry
//!                                                            │  the old record is retired
//!   after a start, by a scan or by the index: ValueLost ─────┴──────────────► lost entry
//!   SET, DEL, expiry, FLUSHALL … ─► as of any other entry: it is lost no longer
//! ```
//!
//! That a value is lost is the state of its key's entry, so it goes the way of all states: one record,
//! which is indexed, compacted and recovered as others are. A lost entry is bare, and a command that
//! needs its value is answered [`RestoreError::Corrupt`]: never an older value, and never nothing.

use base::DbIndex;

use crate::effects::DbKey;
use crate::entry::Entry;
use crate::free::FreeQueue;
use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::source::RestoreError;
use crate::table::Keyed;
use crate::value_type::entry_type;

/// So many names are kept to be told of.
const NEWS_MAX: usize = 100;

/// What a keyspace knows of values that are lost.
#[derive(Default)]
pub(crate) struct Lost {
    /// Whether there may be one.
    pub(crate) may_be: bool,
    /// The running command needs one.
    pub(crate) failure: Option<RestoreError>,
    news: LostNews,
}

/// Keys whose values were given up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LostNews {
    /// The first of them.
    pub keys: Vec<DbKey>,
    /// How many there were besides.
    pub others: u64,
}

impl Lost {
    /// The value of an entry that is bare is in the log no more. The caller counts it.
    pub(crate) fn give_up(
        &mut self,
        db: (DbIndex, base::DbId),
        entry: &mut Entry,
        recorder: &mut Recorder,
        free: &mut FreeQueue,
    ) {
        free.bare_object(entry.bare_object().map(|(_, id)| id));
        entry.make_lost(entry_type(entry));
        recorder.log_key(db.1, entry);
        self.may_be = true;
        if self.news.keys.len() < NEWS_MAX {
            self.news.keys.push((db.0, entry.key().into()));
        } else {
            self.news.others += 1;
        }
    }

    /// The running command needs a value that is lost.
    pub(crate) fn fail(&mut self) {
        let what = "its value was in a part of the log that was damaged, and is lost";
        self.failure = Some(RestoreError::Corrupt(what.to_owned()));
    }
}

impl Keyspace {
    /// How many keys there are whose values are lost.
    #[must_use]
    pub fn lost_values(&self) -> u64 {
        self.dbs.iter().map(|db| db.lost_count).sum()
    }

    /// The keys whose values were given up since this was asked last.
    pub fn take_lost(&mut self) -> LostNews {
        std::mem::take(&mut self.lost.news)
    }
}
