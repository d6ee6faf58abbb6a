//! The time before the data is there, at the start and at a reload: the log is being replayed
//! elsewhere, clients are told so.

use keyspace::Keyspace;

use super::{Engine, LogControl};

/// How far loading has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// When it began, in seconds since 1970.
    pub started_unix_s: i64,
    /// How much there is.
    pub total_bytes: u64,
    /// How much of it has been read.
    pub loaded_bytes: u64,
}

impl Engine {
    /// Data is being loaded, this far.
    pub fn set_loading(&mut self, total_bytes: u64, loaded_bytes: u64) {
        let started_unix_s =
            self.loading.map_or_else(|| self.unix_s(), |progress| progress.started_unix_s);
        self.loading = Some(Progress { started_unix_s, total_bytes, loaded_bytes });
    }

    /// The data is there: it takes the place of the empty keyspace, and the log takes writes.
    pub fn loaded(&mut self, mut keyspace: Keyspace, log: Option<Box<dyn LogControl>>) {
        keyspace.succeed(&mut self.keyspace);
        self.keyspace = keyspace;
        if !std::mem::take(&mut self.is_reloading) {
            // What is watched was watched in the empty keyspace, and it has changed.
            for place in self.watchers.keys().cloned().collect::<Vec<_>>() {
                self.spoil(&place);
            }
        }
        self.log = log;
        self.loading = None;
        if let Some(log) = &mut self.log {
            self.reach = log.reach();
        }
        self.apply_settings();
        self.errand_done(Ok(()));
        // Whoever waited for a log that was being turned on.
        self.resume_paused();
    }

    /// Makes everything durable, closes the log and takes the keyspace out, so that it can be loaded
    /// again. What clients watch and wait for stays. To free the keyspace is work for somebody else.
    ///
    /// # Errors
    /// What the log says when it cannot be closed; what it does not hold is gone then.
    pub fn unload(&mut self) -> Result<Keyspace, String> {
        let closed = self.close();
        self.forget_blocks(closed.is_ok());
        let count = self.keyspace.database_count();
        let mut empty = Keyspace::new(Box::new(keyspace::NoJournal), [0; 16], count);
        empty.succeed(&mut self.keyspace);
        self.is_reloading = true;
        let full = std::mem::replace(&mut self.keyspace, empty);
        closed.map(|()| full)
    }
}
