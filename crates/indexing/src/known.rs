//! What following the log has told besides the entries: it is kept with each cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, SegmentId, varint};
use keyspace::{BadRecord, DatabaseMap};
use logindex::{Judge, Scopes};

use crate::keys::Keys;

/// The version of what is kept with a cut.
const VERSION: u8 = 3;

const HAS_MAP: u8 = 1;
const IS_RELOGGING: u8 = 2;
const IS_BUILDING: u8 = 4;
const HAS_KEYS: u8 = 8;
const HAS_LIBRARIES: u8 = 16;
const FLAGS: u8 = HAS_MAP | IS_RELOGGING | IS_BUILDING | HAS_KEYS | HAS_LIBRARIES;

/// The newest record of the map of databases.
#[derive(Debug)]
struct Map {
    addr: RecordAddr,
    value: Vec<u8>,
    map: DatabaseMap,
    scopes: Scopes,
}

/// What is known of a log up to a block. Its bytes are described in `docs/format/log-index.md`.
#[derive(Debug, Clone)]
pub struct Known {
    map: Option<Arc<Map>>,
    /// Where the newest record of each library of functions is. They are few, and change seldom.
    libraries: Arc<BTreeMap<Box<[u8]>, RecordAddr>>,
    is_relogging: bool,
    /// What was logged before the index was begun is being read: what a compaction has left of it has
    /// elements in front of their roots, which were logged again later. With it, how often the log had
    /// been opened.
    building: Option<u64>,
    next_object: u64,
    /// One above every database that a record of a key has named.
    databases_end: u64,
    keys: Keys,
    /// How often the log had been opened in the last life in which it became known what of it is garbage; 0
    /// if that is not known.
    garbage_known_at: u64,
}

impl Known {
    /// Nothing is known: the log, opened for the `epoch`th time, is read from its first block on.
    pub(crate) fn nothing(epoch: u64) -> Self {
        Self {
            map: None,
            libraries: Arc::default(),
            is_relogging: false,
            building: Some(epoch),
            next_object: 0,
            databases_end: 0,
            keys: Keys::Exact(BTreeMap::new()),
            garbage_known_at: 0,
        }
    }

    /// Reads what was kept with a cut; `None` if it makes no sense, or is of another program.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[version, flags], mut rest) = bytes.split_first_chunk()?;
        if version != VERSION || flags & !FLAGS != 0 {
            return None;
        }
        let building = match flags & IS_BUILDING != 0 {
            true => Some(varint::take(&mut rest)?),
            false => None,
        };
        let next_object = varint::take(&mut rest)?;
        let databases_end = varint::take(&mut rest)?;
        let garbage_known_at = varint::take(&mut rest)?;
        let keys = match flags & HAS_KEYS != 0 {
            true => Keys::Exact(take_keys(&mut rest)?),
            false => Keys::Unknown,
        };
        let libraries = match flags & HAS_LIBRARIES != 0 {
            true => take_libraries(&mut rest)?,
            false => BTreeMap::new(),
        };
        let mut known = Self {
            map: None,
            libraries: Arc::new(libraries),
            is_relogging: flags & IS_RELOGGING != 0,
            building,
            next_object,
            databases_end,
            keys,
            garbage_known_at,
        };
        if flags & HAS_MAP != 0 {
            let addr = take_addr(&mut rest)?;
            known.map = Some(Arc::new(Map::read(rest, addr).ok()?));
            rest = &[];
        }
        rest.is_empty().then_some(known)
    }

    /// The bytes to be kept with a cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let keys = self.keys.exact();
        let flags = flag(self.map.is_some(), HAS_MAP)
            | flag(self.is_relogging, IS_RELOGGING)
            | flag(self.building.is_some(), IS_BUILDING)
            | flag(keys.is_some(), HAS_KEYS)
            | flag(!self.libraries.is_empty(), HAS_LIBRARIES);
        let mut bytes = vec![VERSION, flags];
        let mut put = |number| varint::put(&mut bytes, number);
        self.building.into_iter().for_each(&mut put);
        put(self.next_object);
        put(self.databases_end);
        put(self.garbage_known_at);
        if let Some(keys) = keys {
            put(keys.len() as u64);
            for (db, count) in keys {
                put(db.0);
                put(*count);
            }
        }
        if !self.libraries.is_empty() {
            varint::put(&mut bytes, self.libraries.len() as u64);
            for (name, addr) in &*self.libraries {
                varint::put_bytes(&mut bytes, name);
                put_addr(&mut bytes, *addr);
            }
        }
        if let Some(map) = &self.map {
            put_addr(&mut bytes, map.addr);
            bytes.extend_from_slice(&map.value);
        }
        bytes
    }

    /// Takes note of the next record, which is at `addr`.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn note(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), BadRecord> {
        let is_out_of_range = record.db >= DbId::MAX || record.object >= ObjectId::MAX;
        if is_out_of_range {
            let what = "a database or an object out of range";
            return Err(BadRecord { kind: record.kind, what });
        }
        self.next_object = self.next_object.max(record.object.next().0);
        if self.building.is_some() {
            // It may be the first that a compaction has left of its key.
            self.keys = Keys::Unknown;
        }
        match record.kind {
            RecordKind::Databases => {
                let map = Map::read(record.value, addr)?;
                self.keys.keep_alive(&map.scopes);
                self.map = Some(Arc::new(map));
                self.is_relogging = false;
            }
            RecordKind::Library => {
                Arc::make_mut(&mut self.libraries).insert(record.key.into(), addr);
            }
            RecordKind::LibraryDeleted => {
                Arc::make_mut(&mut self.libraries).remove(record.key);
            }
            kind if kind.is_element() || kind == RecordKind::Note => {}
            kind => {
                self.databases_end = self.databases_end.max(record.db.0 + 1);
                if kind.is_delete() {
                    self.keys.note_deleted(record.db);
                    return Ok(());
                }
                self.is_relogging |= !self.scopes().is_alive(record.db);
                if record.is_new {
                    self.keys.note_new(record.db);
                }
            }
        }
        Ok(())
    }

    /// All that was logged before the start was read. What was being written anew then is not any more:
    /// what that has logged is dead, because no map will name it.
    pub(crate) fn note_start(&mut self) {
        self.is_relogging = false;
        let scopes = self.scopes();
        self.keys.keep_alive(&scopes);
    }

    /// All that was logged before the index was begun was read: every object that lives has its root.
    pub(crate) const fn note_built(&mut self) {
        self.building = None;
    }

    fn scopes(&self) -> Scopes {
        self.map.as_ref().map_or_else(Scopes::without_map, |map| map.scopes.clone())
    }

    /// Which scopes are dead.
    #[must_use]
    pub fn judge(&self) -> Judge {
        match self.is_relogging || self.building.is_some() {
            true => Judge::Relogging,
            false => Judge::Settled(self.scopes()),
        }
    }

    /// Whether a start may believe this instead of reading the log.
    ///
    /// That is so once all of the log was read and its keys were counted, and while no log is
    /// being written anew.
    #[must_use]
    pub const fn can_start(&self) -> bool {
        self.keys.exact().is_some() && self.building.is_none() && !self.is_relogging
    }

    /// The keys of each living database that has any; `None` while they are not known.
    pub fn keys(&self) -> Option<impl ExactSizeIterator<Item = (DbId, u64)>> {
        let keys = self.keys.exact()?;
        Some(keys.iter().map(|(db, count)| (*db, *count)))
    }

    /// The newest map of databases, if there is one.
    #[must_use]
    pub fn map(&self) -> Option<&DatabaseMap> {
        self.map.as_ref().map(|map| &map.map)
    }

    /// Where the newest map of databases was logged.
    #[must_use]
    pub fn databases_addr(&self) -> Option<RecordAddr> {
        self.map.as_ref().map(|map| map.addr)
    }

    /// The libraries of functions, and where each was logged.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = (&[u8], RecordAddr)> {
        self.libraries.iter().map(|(name, addr)| (&**name, *addr))
    }

    /// One above every database that a record of a key has named; 0 for none.
    #[must_use]
    pub const fn databases_end(&self) -> DbId {
        DbId(self.databases_end)
    }

    /// One above every object that a record has named.
    #[must_use]
    pub const fn next_object(&self) -> ObjectId {
        ObjectId(self.next_object)
    }

    /// While the index is built: how many times the log had been opened.
    pub(crate) const fn building(&self) -> Option<u64> {
        self.building
    }

    /// The log was opened again, for the `epoch`th time, while the index is built.
    pub(crate) const fn note_epoch(&mut self, epoch: u64) {
        if let Some(building) = &mut self.building {
            *building = epoch;
        }
    }

    /// It is known what of the log is garbage, which was opened for the `epoch`th time. Whether that is news.
    pub(crate) const fn note_garbage_known(&mut self, epoch: u64) -> bool {
        let is_news = self.garbage_known_at != epoch;
        self.garbage_known_at = epoch;
        is_news
    }

    /// How many starts in a row, before the one that opened the log for the `epoch`th time, have ended
    /// before it was known what of the log is garbage.
    #[must_use]
    pub const fn unfinished_starts(&self, epoch: u64) -> u64 {
        match self.garbage_known_at {
            0 => 0,
            known_at => epoch.saturating_sub(known_at).saturating_sub(1),
        }
    }

    /// Whether a pass over the index must count the keys, and can.
    pub(crate) fn wants_count(&self) -> bool {
        self.keys == Keys::Unknown && self.building.is_none() && !self.is_relogging
    }

    /// A pass counts as of now.
    pub(crate) fn begin_count(&mut self) {
        self.keys = Keys::Since(BTreeMap::new());
    }

    /// The pass has failed.
    pub(crate) fn abandon_count(&mut self) {
        self.keys = Keys::Unknown;
    }

    /// The pass has counted so many.
    pub(crate) fn note_counted(&mut self, counted: &[(DbId, u64)]) {
        let scopes = self.scopes();
        self.keys.note_counted(counted.iter().copied().filter(|(db, _)| scopes.is_alive(*db)));
    }
}

impl Map {
    fn read(value: &[u8], addr: RecordAddr) -> Result<Self, BadRecord> {
        let record = Record::whole(RecordKind::Databases, DbId(0), &[], value, None);
        let map = DatabaseMap::read(&record)?;
        let scopes = Scopes::mapped(map.next_id(), map.ids().iter().copied());
        Ok(Self { addr, value: value.to_vec(), map, scopes })
    }
}

fn put_addr(bytes: &mut Vec<u8>, addr: RecordAddr) {
    varint::put(bytes, u64::from(addr.segment().0));
    varint::put(bytes, u64::from(addr.ordinal()));
}

fn take_addr(rest: &mut &[u8]) -> Option<RecordAddr> {
    let segment = u32::try_from(varint::take(rest)?).ok()?;
    let ordinal = u32::try_from(varint::take(rest)?).ok()?;
    let is_one = segment != 0 && SegmentId(segment) <= SegmentId::MAX;
    is_one.then(|| RecordAddr::new(SegmentId(segment), ordinal))
}

/// Takes the libraries; `None` if they are not what [`Known::encode`] writes.
fn take_libraries(rest: &mut &[u8]) -> Option<BTreeMap<Box<[u8]>, RecordAddr>> {
    let mut libraries: BTreeMap<Box<[u8]>, RecordAddr> = BTreeMap::new();
    let count = varint::take(rest).filter(|count| *count > 0)?;
    for _ in 0..count {
        let name = varint::take_bytes(rest)?;
        let addr = take_addr(rest)?;
        if libraries.last_key_value().is_some_and(|(last, _)| **last >= *name) {
            return None;
        }
        libraries.insert(name.into(), addr);
    }
    Some(libraries)
}

/// Takes the counts; `None` if they are not what [`Known::encode`] writes.
fn take_keys(rest: &mut &[u8]) -> Option<BTreeMap<DbId, u64>> {
    let mut keys = BTreeMap::new();
    for _ in 0..varint::take(rest)? {
        let db = DbId(varint::take(rest)?);
        let count = varint::take(rest).filter(|count| *count > 0)?;
        if db > DbId::MAX || keys.last_key_value().is_some_and(|(last, _)| *last >= db) {
            return None;
        }
        keys.insert(db, count);
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr() -> RecordAddr {
        RecordAddr::new(SegmentId(7), 9)
    }

    fn known() -> Known {
        let mut known = Known::nothing(1);
        known.note_built();
        known
    }

    fn map(next: u8, ids: &[u8]) -> Vec<u8> {
        [&[next], ids].concat()
    }

    fn databases(value: &[u8]) -> Record<'_> {
        Record::whole(RecordKind::Databases, DbId(0), &[], value, None)
    }

    fn string(db: u64) -> Record<'static> {
        Record::whole(RecordKind::String, DbId(db), b"k", b"v", None).new_entry(true)
    }

    #[test]
    fn libraries_are_kept_with_a_cut() {
        let mut known = known();
        let at = |ordinal| RecordAddr::new(SegmentId(3), ordinal);
        for (ordinal, name) in [(1, &b"b"[..]), (2, b"a"), (3, b"gone"), (4, b"b")] {
            known.note(&Record::library(name, b"#!lua"), at(ordinal)).unwrap();
        }
        known.note(&Record::library_deleted(b"gone"), at(5)).unwrap();
        let bytes = known.encode();
        let read = Known::decode(&bytes).unwrap();
        let libraries: Vec<_> = read.libraries().collect();
        assert_eq!(libraries, [(&b"a"[..], at(2)), (b"b", at(4))]);
        assert!(read.can_start() && read.databases_end() == DbId(0));
        assert!((0..bytes.len()).all(|len| Known::decode(&bytes[..len]).is_none()));
        known.note(&Record::library_deleted(b"a"), at(6)).unwrap();
        known.note(&Record::library_deleted(b"b"), at(7)).unwrap();
        assert_eq!(Known::decode(&known.encode()).unwrap().libraries().len(), 0);
    }

    fn keys(known: &Known) -> Option<Vec<(u64, u64)>> {
        known.keys().map(|keys| keys.map(|(db, count)| (db.0, count)).collect())
    }

    #[test]
    fn an_entry_that_no_map_names_yet_means_that_a_log_is_written_anew() {
        let mut known = known();
        known.note(&string(3), addr()).unwrap();
        assert_eq!(known.judge(), Judge::Settled(Scopes::without_map()));
        // Databases 0 and 1 keep their ids; 2 and 3 are for the copy.
        known.note(&databases(&map(4, &[0, 1])), addr()).unwrap();
        let settled = Judge::Settled(Scopes::mapped(DbId(4), [DbId(0), DbId(1)]));
        assert_eq!(known.judge(), settled);
        known.note(&string(4), addr()).unwrap();
        assert_eq!(known.judge(), settled, "a database above the map is alive by its position");
        assert!(known.can_start());
        known.note(&string(2), addr()).unwrap();
        assert_eq!(known.judge(), Judge::Relogging);
        assert!(!known.can_start());
        known.note(&databases(&map(4, &[2, 3])), addr()).unwrap();
        assert_eq!(known.judge(), Judge::Settled(Scopes::mapped(DbId(4), [DbId(2), DbId(3)])));
        assert_eq!(keys(&known), Some(vec![(2, 1), (4, 1)]), "what was logged anew counts");
    }

    #[test]
    fn what_was_logged_anew_when_the_process_ended_has_no_keys() {
        let mut known = known();
        known.note(&databases(&map(4, &[0, 1])), addr()).unwrap();
        known.note(&string(0), addr()).unwrap();
        known.note(&string(2), addr()).unwrap();
        known.note_start();
        assert_eq!(keys(&known), Some(vec![(0, 1)]));
    }

    #[test]
    fn while_an_index_is_built_its_keys_are_not_known() {
        let mut known = Known::nothing(5);
        known.note(&string(0), addr()).unwrap();
        known.note_start();
        assert!(!known.wants_count(), "not all was read");
        assert_eq!(known.judge(), Judge::Relogging, "elements may be in front of their roots");
        known.note_built();
        assert!(keys(&known).is_none() && !known.can_start() && known.wants_count());
        known.begin_count();
        known.note(&string(0), addr()).unwrap();
        known.note(&databases(&map(4, &[0, 3])), addr()).unwrap();
        assert!(!known.can_start() && !known.wants_count());
        known.note_counted(&[(DbId(0), 1), (DbId(1), 30)]);
        assert_eq!(
            keys(&known),
            Some(vec![(0, 2)]),
            "a database that has died since is not counted"
        );
    }

    #[test]
    fn what_no_name_can_be_made_of_is_refused() {
        let mut known = known();
        known.note(&string(DbId::MAX.0), addr()).unwrap_err();
        known.note(&Record::element_deleted(ObjectId::MAX, b"f"), addr()).unwrap_err();
        known.note(&Record::element_deleted(ObjectId(u64::MAX), b"f"), addr()).unwrap_err();
        known.note(&databases(b"\x80"), addr()).unwrap_err();
    }

    #[test]
    fn what_is_kept_with_a_cut_is_read_back() {
        let mut known = known();
        let read = |known: &Known| {
            let read = Known::decode(&known.encode()).unwrap();
            assert_eq!(read.encode(), known.encode());
            read
        };
        assert_eq!(read(&known).judge(), known.judge());
        assert_eq!(read(&Known::nothing(9)).building(), Some(9));
        known.note(&Record::element_deleted(ObjectId(700), b"f"), addr()).unwrap();
        known.note(&databases(&map(9, &[8, 3])), addr()).unwrap();
        known.note(&string(3), addr()).unwrap();
        known.note(&string(5), addr()).unwrap();
        let all = read(&known);
        assert_eq!(all.judge(), Judge::Relogging);
        assert_eq!((all.next_object(), all.databases_end()), (ObjectId(701), DbId(6)));
        assert_eq!(all.databases_addr(), Some(addr()));
        assert_eq!(keys(&all), Some(vec![(3, 1), (5, 1)]));
        known.abandon_count();
        assert!(read(&known).keys().is_none());
        known.note_garbage_known(4);
        assert_eq!([4, 5, 6, 8].map(|epoch| read(&known).unfinished_starts(epoch)), [0, 0, 1, 3]);
        assert_eq!(all.unfinished_starts(9), 0, "of a life that has not come so far yet");
        for len in 0..8 {
            assert!(Known::decode(&all.encode()[..len]).is_none());
        }
        assert!(Known::decode(&[2, 0, 0, 0, 0]).is_none(), "of an older program");
        assert!(Known::decode(&[4, 0, 0, 0, 0]).is_none(), "of a newer program");
    }
}
