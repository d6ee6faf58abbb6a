//! A log in memory: keeps every record, notes which are retired, and replays them.
//!
//! It checks what every journal relies on: a record is retired once, and never a delete. A
//! replay may leave out any of the retired records for good, as compaction does, and must then
//! retire exactly those of them that it was given: so what the keyspace thinks is live, and what
//! replay thinks is live, are the same records.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{Journal, Keyspace, NoJournal, Survey};

/// A keyspace that may be connected to one journal after the other.
pub(crate) type LoggedKeyspace = Keyspace<Box<dyn Journal>>;

/// The seed of every keyspace here.
pub(crate) const SEED: [u8; 16] = [7; 16];

/// A record that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) kind: RecordKind,
    pub(crate) db: DbId,
    pub(crate) key: Box<[u8]>,
    pub(crate) object: ObjectId,
    pub(crate) sub: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
    pub(crate) expires_at_ms: Option<i64>,
    pub(crate) is_new: bool,
    pub(crate) is_retired: bool,
    /// Compaction dropped it: no replay ever sees it again.
    is_dropped: bool,
}

impl Logged {
    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            kind: self.kind,
            db: self.db,
            key: &self.key,
            object: self.object,
            sub: &self.sub,
            value: &self.value,
            expires_at_ms: self.expires_at_ms,
            is_new: self.is_new,
        }
    }
}

/// A handle of the log; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryLog(Arc<Mutex<Vec<Logged>>>);

impl MemoryLog {
    /// The log as it is now, by itself: what a crash at this moment leaves.
    pub(crate) fn snapshot(&self) -> Self {
        Self(Arc::new(Mutex::new(self.records().clone())))
    }

    /// The first records of the log.
    pub(crate) fn snapshot_of(&self, count: usize) -> Self {
        Self(Arc::new(Mutex::new(self.records()[..count].to_vec())))
    }

    /// What a new beginning in this log must know; retired records are not in it any more.
    pub(crate) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for (at, logged) in self.records().iter_mut().enumerate() {
            logged.is_dropped |= logged.is_retired;
            if !logged.is_dropped {
                survey.apply(&logged.record(), addr(at)).expect("the keyspace logged this record");
            }
        }
        survey
    }

    /// An empty keyspace that logs here.
    pub(crate) fn keyspace(&self) -> LoggedKeyspace {
        Keyspace::new(Box::new(self.clone()), SEED, 4)
    }

    /// The records, in the order in which they were appended.
    pub(crate) fn records(&self) -> MutexGuard<'_, Vec<Logged>> {
        self.0.lock().expect("no test panics while it holds the log")
    }

    /// Damage: no replay sees again the records that `is_lost` names, whether they were needed or not.
    pub(crate) fn lose(&self, is_lost: impl Fn(&Logged) -> bool) {
        for logged in self.records().iter_mut() {
            logged.is_dropped |= is_lost(logged);
        }
    }

    /// Checks that exactly those records say that their entry is new of which no live record is
    /// before them. Returns how many keys each database has by that alone: entries that are new,
    /// less those that are gone.
    pub(crate) fn key_counts(&self) -> Vec<usize> {
        let mut live = HashSet::new();
        let mut counts: HashMap<DbId, usize> = HashMap::new();
        let mut ids: Vec<DbId> = (0..4).map(DbId).collect();
        for logged in self.records().iter().filter(|logged| !logged.kind.is_library()) {
            let is_element = logged.kind.is_element();
            let scope = if is_element { logged.object.0 } else { logged.db.0 };
            let name = if is_element { &logged.sub } else { &logged.key };
            let entry = (is_element, scope, name.clone());
            if logged.kind == RecordKind::Databases {
                let mut value = &logged.value[..];
                base::varint::take(&mut value).expect("the next id");
                ids.clear();
                ids.extend(std::iter::from_fn(|| base::varint::take(&mut value)).map(DbId));
            } else if logged.kind.is_delete() {
                assert!(live.remove(&entry), "what was not there is gone: {logged:?}");
            } else {
                assert_eq!(live.insert(entry), logged.is_new, "{logged:?}");
            }
            if !is_element && logged.is_new {
                *counts.entry(logged.db).or_default() += 1;
            } else if logged.kind == RecordKind::KeyDeleted {
                *counts.get_mut(&logged.db).expect("it was there") -= 1;
            }
        }
        ids.iter().map(|id| counts.get(id).copied().unwrap_or(0)).collect()
    }

    /// The keyspace that the log restores, which goes on logging here. Of the retired records
    /// replay sees those for whose index `keeps` says so. Nothing waited to be freed.
    pub(crate) fn replay(&self, keeps: impl FnMut(usize) -> bool) -> LoggedKeyspace {
        let before = self.records().iter().filter(|logged| logged.is_retired).count();
        let keyspace = self.replay_after_crash(keeps);
        let after = self.records().iter().filter(|logged| logged.is_retired).count();
        assert_eq!(before, after, "replay retires what was retired before, and nothing else");
        keyspace
    }

    /// As [`MemoryLog::replay`], but what waited to be freed was not retired yet: replay does it.
    pub(crate) fn replay_after_crash(
        &self,
        mut keeps: impl FnMut(usize) -> bool,
    ) -> LoggedKeyspace {
        let mut keyspace = Keyspace::new(NoJournal, SEED, 4);
        // A log knows which objects there were, also those of which compaction has left nothing.
        let newest = self.records().iter().map(|logged| logged.object).max();
        keyspace.skip_objects_below(newest.unwrap_or_default().next());
        let (mut retired, mut stale) = (Vec::new(), Vec::new());
        for (at, logged) in self.records().iter_mut().enumerate() {
            logged.is_dropped |= logged.is_retired && !keeps(at);
            if logged.is_dropped {
                continue;
            }
            if logged.is_retired {
                stale.push(addr(at));
            }
            keyspace
                .apply(&logged.record(), addr(at), Lsn(1), &mut retired)
                .expect("the keyspace logged this record");
        }
        keyspace.settle(&mut retired).expect("every database has an id");
        keyspace.free_all(&mut retired);
        for addr in retired {
            match stale.iter().position(|other| *other == addr) {
                Some(at) => drop(stale.swap_remove(at)),
                None => self.clone().retire(addr),
            }
        }
        assert!(stale.is_empty(), "replay does not retire {stale:?}");
        keyspace.with_journal(Box::new(self.clone()))
    }
}

pub(crate) fn addr(at: usize) -> RecordAddr {
    RecordAddr::new(SegmentId(1), u32::try_from(at).expect("tests log little"))
}

impl Journal for MemoryLog {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        let mut records = self.records();
        records.push(Logged {
            kind: record.kind,
            db: record.db,
            key: record.key.into(),
            object: record.object,
            sub: record.sub.into(),
            value: record.value.into(),
            expires_at_ms: record.expires_at_ms,
            is_new: record.is_new,
            is_retired: false,
            is_dropped: false,
        });
        Some(addr(records.len() - 1))
    }

    fn retire(&mut self, addr: RecordAddr) {
        let logged = &mut self.records()[addr.ordinal() as usize];
        assert!(!logged.is_retired, "{addr} is retired twice: {logged:?}");
        assert!(!logged.kind.is_delete(), "deletes are never retired: {logged:?}");
        logged.is_retired = true;
    }

    fn open_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.records()[addr.ordinal() as usize].is_retired
    }
}
