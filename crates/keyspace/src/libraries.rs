//! The libraries of functions, as source by name: what they do is not the keyspace's business.
//!
//! A library is a record of its own, in no database: FLUSHALL and SWAPDB leave it alone. All of them
//! are in memory at any time, and share their source with what runs it.
//!
//! # Invariants
//! - A library that was logged has the address of its newest record, which is the only one of it that
//!   is not retired.
//! - A record is retired in the block of what follows it, never later: a deletion is dropped from the log as
//!   soon as nothing in other segments was retired before it, and would not keep an older record away.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, RecordKind};

use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::survey::SurveyedLibraries;

/// See the file's top.
#[derive(Debug, Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<[u8]>, Library>,
    /// The last block that has changed any of them.
    changed_at: Lsn,
}

#[derive(Debug, Clone)]
struct Library {
    source: Arc<[u8]>,
    addr: Option<RecordAddr>,
}

impl Libraries {
    /// Takes over a library that was read at `addr`.
    pub fn read(&mut self, name: &[u8], source: &[u8], addr: RecordAddr) {
        let library = Library { source: source.into(), addr: Some(addr) };
        self.by_name.insert(name.into(), library);
    }

    /// Takes over a record of one, of the block `lsn`. Returns the address that it makes obsolete.
    pub(crate) fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
    ) -> Option<RecordAddr> {
        self.changed_at = lsn;
        let before = match record.kind {
            RecordKind::Library => {
                let library = Library { source: record.value.into(), addr: Some(addr) };
                self.by_name.insert(record.key.into(), library)
            }
            _ => self.by_name.remove(record.key),
        };
        before?.addr
    }

    /// Logs those again whose record is where `is_lost` says.
    pub(crate) fn rewrite(
        &mut self,
        recorder: &mut Recorder,
        is_lost: impl Fn(RecordAddr) -> bool,
    ) {
        for (name, library) in &mut self.by_name {
            if library.addr.is_some_and(&is_lost) {
                let old = library.addr;
                library.addr = recorder.log_library(name, &library.source, false);
                recorder.retire(old);
                self.changed_at = recorder.open_lsn();
            }
        }
    }

    /// Logs all of them to another log, which has had those that are surveyed: what it has of them is retired.
    ///
    /// A name that is gone there is deleted again. The survey knows nothing of what was retired, so its old deletion
    /// may be dropped from now on, and older records of it may still be in a file.
    pub(crate) fn log_anew(&mut self, recorder: &mut Recorder, surveyed: SurveyedLibraries) {
        let SurveyedLibraries { names, addrs } = surveyed;
        if !self.by_name.is_empty() || !names.is_empty() {
            recorder.journal.declare(RecordKind::Library);
        }
        for name in names.keys().filter(|name| !self.by_name.contains_key(*name)) {
            recorder.log_library_deleted(name);
        }
        for (name, library) in &mut self.by_name {
            let is_new = !names.get(name).is_some_and(|is_there| *is_there);
            // What address it has is of another log.
            library.addr = recorder.log_library(name, &library.source, is_new);
        }
        addrs.into_iter().for_each(|addr| recorder.retire(Some(addr)));
        self.changed_at = recorder.open_lsn();
    }

    fn set(&mut self, recorder: &mut Recorder, name: &[u8], source: Arc<[u8]>) {
        let old = self.by_name.get(name).and_then(|library| library.addr);
        let addr = recorder.log_library(name, &source, old.is_none());
        recorder.retire(old);
        self.by_name.insert(name.into(), Library { source, addr });
        self.changed_at = recorder.open_lsn();
    }

    fn delete(&mut self, recorder: &mut Recorder, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        if library.addr.is_some() {
            recorder.log_library_deleted(name);
            recorder.retire(library.addr);
        }
        self.changed_at = recorder.open_lsn();
        true
    }
}

impl Keyspace {
    /// The libraries of functions in the order of their names: name and source.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = (&[u8], &Arc<[u8]>)> {
        self.libraries.by_name.iter().map(|(name, library)| (&**name, &library.source))
    }

    /// The source of the library of this name.
    #[must_use]
    pub fn library(&self, name: &[u8]) -> Option<&Arc<[u8]>> {
        self.libraries.by_name.get(name).map(|library| &library.source)
    }

    /// The running command depends on which libraries there are.
    pub fn note_libraries_read(&mut self) {
        self.recorder.note_read_of(self.libraries.changed_at);
    }

    /// The last block that which libraries there are depends on; 0 if that is durable.
    #[must_use]
    pub fn libraries_lsn(&self) -> Lsn {
        let lsn = self.libraries.changed_at;
        if lsn > self.recorder.journal.durable_lsn() { lsn } else { Lsn::ZERO }
    }

    /// Lets libraries follow, which an older program does not know. Between blocks only, so in front of all that a
    /// command or transaction logs: the first one of a log begins new files.
    pub fn declare_libraries(&mut self) {
        self.recorder.journal.declare(RecordKind::Library);
    }

    /// Makes a library what `source` says, whatever it was. Libraries were declared.
    pub fn set_library(&mut self, name: &[u8], source: Arc<[u8]>) {
        self.libraries.set(&mut self.recorder, name, source);
        self.dirty += 1;
    }

    /// Deletes a library. Whether it was there.
    pub fn delete_library(&mut self, name: &[u8]) -> bool {
        let was_there = self.libraries.delete(&mut self.recorder, name);
        self.dirty += u64::from(was_there);
        was_there
    }
}
