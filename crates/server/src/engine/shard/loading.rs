//! The time before the data is there, at the start and at a reload: the log is read elsewhere, and
//! clients are told so.

use keyspace::{Keyspace, NoJournal};

use super::eviction::Cooling;
use super::{BoxedLog, LogState, Shard};

/// Whether the data is there.
#[derive(Clone, Copy, Debug)]
pub enum DataState {
    /// It is.
    Ready,
    /// It is read from the log, and clients have not seen it yet.
    Loading(Progress),
    /// It is read from the log again.
    Reloading(Progress),
}

impl DataState {
    /// How far loading has come.
    #[must_use]
    pub const fn progress(&self) -> Option<&Progress> {
        match self {
            Self::Ready => None,
            Self::Loading(progress) | Self::Reloading(progress) => Some(progress),
        }
    }
}

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

impl Shard {
    /// Data is being loaded, this far.
    pub(in crate::engine) fn set_loading(
        &mut self,
        unix_s: i64,
        total_bytes: u64,
        loaded_bytes: u64,
    ) {
        let new = Progress { started_unix_s: unix_s, ..Progress::default() };
        if matches!(self.data, DataState::Ready) {
            self.data = DataState::Loading(new);
        }
        if let DataState::Loading(progress) | DataState::Reloading(progress) = &mut self.data {
            (progress.total_bytes, progress.loaded_bytes) = (total_bytes, loaded_bytes);
        }
    }

    /// Puts the data, as it was read from `log`, in place of the empty keyspace. Returns whether
    /// clients had not seen it before.
    pub(in crate::engine) fn install(
        &mut self,
        keyspace: Keyspace<NoJournal>,
        log: Option<BoxedLog>,
    ) -> bool {
        let mut keyspace = keyspace.with_journal(log.map_or(LogState::Off, LogState::On));
        keyspace.succeed(&mut self.keyspace);
        self.keyspace = keyspace;
        if let Some(log) = self.log_mut() {
            self.reach = log.reach();
        }
        (self.restoring, self.restored) = (None, None);
        let before = std::mem::replace(&mut self.data, DataState::Ready);
        !matches!(before, DataState::Reloading(_))
    }

    /// Takes the data out, once the log is closed, so that it can be loaded again. What clients
    /// watch and wait for stays.
    pub(in crate::engine) fn take_data(&mut self, unix_s: i64) -> Keyspace<LogState> {
        let count = self.keyspace.database_count();
        let mut empty = Keyspace::new(LogState::Off, [0; 16], count);
        empty.succeed(&mut self.keyspace);
        let progress = Progress { started_unix_s: unix_s, ..Progress::default() };
        self.data = DataState::Reloading(progress);
        // Both read the log, which is opened again.
        self.restoring = None;
        self.set_fetching(None);
        self.cooling = Cooling::default();
        self.keyspace.drop_restorer();
        std::mem::replace(&mut self.keyspace, empty)
    }
}
