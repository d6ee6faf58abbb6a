//! Which journal a keyspace has.
//!
//! A keyspace owns its journal. Its owner knows the journal's type; commands do not, and need not:
//!
//! ```text
//!   Keyspace<J> ── deref, or coercion ──► Keyspace = Keyspace<dyn Journal>
//!    the shard: journal(), set_journal()    commands: everything else
//! ```

use std::ops::{Deref, DerefMut};

use crate::journal::Journal;
use crate::keyspace::Keyspace;

impl<J: Journal> Keyspace<J> {
    /// Connects another journal that has all that is in the keyspace, and returns the old one.
    pub fn set_journal(&mut self, journal: J) -> J {
        self.recorder.set_journal(journal)
    }

    /// The same data with a journal of another type, as recovery has filled it from a log.
    #[must_use]
    pub fn with_journal<K: Journal>(self, journal: K) -> Keyspace<K> {
        Keyspace {
            dbs: self.dbs,
            free: self.free,
            ends: self.ends,
            rng: self.rng,
            scratch: self.scratch,
            databases_addr: self.databases_addr,
            libraries: self.libraries,
            had_streams: self.had_streams,
            had_expiring_fields: self.had_expiring_fields,
            next_db_id: self.next_db_id,
            settings: self.settings,
            now_ms: self.now_ms,
            stats: self.stats,
            dirty: self.dirty,
            effects: self.effects,
            watched: self.watched,
            awaited: self.awaited,
            awaited_changes: self.awaited_changes,
            access_tracked: self.access_tracked,
            is_frozen: self.is_frozen,
            is_timeless: self.is_timeless,
            source: self.source,
            cold: self.cold,
            may_be_bare: self.may_be_bare,
            lost: self.lost,
            hand: self.hand,
            limbo: self.limbo,
            stale_roots: self.stale_roots,
            walk: self.walk,
            has_lost_walk: self.has_lost_walk,
            recorder: self.recorder.with_journal(journal),
        }
    }

    /// The journal.
    #[must_use]
    pub const fn journal(&self) -> &J {
        &self.recorder.journal
    }

    /// The journal, to be changed; what is in the keyspace must stay in it.
    pub const fn journal_mut(&mut self) -> &mut J {
        &mut self.recorder.journal
    }
}

impl<J: Journal + 'static> Deref for Keyspace<J> {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        self
    }
}

impl<J: Journal + 'static> DerefMut for Keyspace<J> {
    fn deref_mut(&mut self) -> &mut Keyspace {
        self
    }
}
