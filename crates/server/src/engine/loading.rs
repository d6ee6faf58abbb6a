//! The time before the data is there: the log is being replayed elsewhere, clients are told so.

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
    pub fn loaded(&mut self, keyspace: Keyspace, log: Option<Box<dyn LogControl>>) {
        self.keyspace = keyspace;
        // What is watched was watched in the empty keyspace, and it has changed.
        for place in self.watchers.keys().cloned().collect::<Vec<_>>() {
            self.spoil(&place);
        }
        self.log = log;
        self.loading = None;
        if let Some(log) = &mut self.log {
            self.durable = log.durable_lsn();
        }
        self.apply_settings();
    }
}
