//! One key, or its value, read from the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use env::FileError;
use indexing::{Namer, hash_of, identity_of};
use keyspace::{
    BadRecord, ColdName, HASH_GRAIN, Identity, KeyHasher, KeysIn, Look, LostKey, Missing,
    NamesFound, NamesWanted, Need, RestoreError, Restored, Restorer, Type,
};
use logindex::{Cached, EXPIRY_MS_MAX, Entry, Hash96, Index, Name, Place, Scope};
use redo::{FoundRecord, Reader, ReaderLimits};

use super::last_nodes::{LastNodes, last_node_of};
use super::newest_index::{NewestIndex, note_contradiction};
use crate::engine::{Fetched, Sweep, Wanted};

/// Of a stream whose end is in memory one element may be superseded and gone, that which was the last node when the index
/// was cut. So what is gone or damaged is left out at first; more than so many are not.
const UNREAD_MAX: usize = 8;
/// So many names are read in the order of the log.
const NAMES_CHUNK: usize = 1 << 20;
/// So many records are asked for together: as many groups as are read at a time, or more.
const RECORDS_TOGETHER: usize = 128;
/// So many keys of a database that was emptied are told of together, with their elements.
const GARBAGE_KEYS: usize = 1024;
const GARBAGE_ADDRS: usize = 1 << 16;
/// So many entries of the index are looked at for keys in damage, while the executor waits.
const KEYS_IN_ENTRIES: usize = 256;

/// Reads keys and values from the log, blocking. See the module's top.
pub struct LogRestorer {
    /// Knows keys that are in no table, and elements of large values.
    index: Option<NewestIndex>,
    reader: Reader,
    namer: Namer,
    hasher: KeyHasher,
    /// What is read is not wanted any more.
    is_ending: Arc<AtomicBool>,
}

impl LogRestorer {
    /// For the log that `reader` reads; `seed` is the database's. Without `index` it reads what has an
    /// address and is not large.
    #[must_use]
    pub fn new(reader: Reader, seed: [u8; 16], index: Option<NewestIndex>) -> Self {
        let (namer, hasher) = (Namer::new(seed), KeyHasher::new(seed));
        Self { index, reader, namer, hasher, is_ending: Arc::default() }
    }

    /// Reads what is wanted, and tells of it, whatever becomes of it.
    pub fn answer(&mut self, wanted: Wanted, tell: &mut dyn FnMut(Fetched)) {
        match wanted {
            Wanted::Missing(missing) => {
                let restored = self.fetch(&missing);
                tell(Fetched::Missing(missing, restored));
            }
            Wanted::Names(wanted) => tell(Fetched::Names(wanted.number, self.names(&wanted))),
            Wanted::Elements(object) => {
                tell(Fetched::Elements(object, self.garbage(object).ok()));
            }
            Wanted::Dropped(db) => {
                let is_told = self.drop_keys(db, tell).is_ok();
                tell(Fetched::Dropped(db, is_told));
            }
            Wanted::Sweep(mut sweep) => {
                let found = self.sweep(&mut sweep);
                tell(Fetched::Swept(sweep, found));
            }
        }
    }

    /// What is missing, if it is there and can be read.
    pub fn fetch(&mut self, missing: &Missing) -> Option<Restored> {
        let index = self.newest().ok();
        let (db, key) = (missing.db, &missing.key);
        match self.place_of(missing, index.as_ref()) {
            Whereabouts::At(addr) if missing.need == Need::End => self.read_end(db, key, addr).ok(),
            Whereabouts::At(addr) => self.read(db, key, addr).ok(),
            Whereabouts::Elements(stream) => self.read_elements(db, key, stream).ok(),
            Whereabouts::Known(restored) => Some(*restored),
            Whereabouts::Nowhere => None,
        }
    }

    /// Whether [`LogRestorer::fetch_together`] reads several keys at a time.
    pub fn fetches_together(&mut self) -> bool {
        self.reader.reads_together()
    }

    /// What is missing, as [`LogRestorer::fetch`] has it, of several keys or values with one wait for the device.
    /// Tells of each but those that are returned: they are large, or in no group by itself, and take long.
    pub fn fetch_together(
        &mut self,
        wanted: Vec<Missing>,
        tell: &mut dyn FnMut(Missing, Option<Restored>),
    ) -> Vec<Missing> {
        let index = self.newest().ok();
        let has_no_place = |it: &&Missing| it.addr.is_none() && it.rest_of.is_none();
        let names = wanted.iter().filter(has_no_place);
        if let Some(index) = &index {
            let names = names.map(|missing| self.name(missing.db, &missing.key));
            let are_unknown = |name: &Name| index.probe_cached(*name) == Cached::Unknown;
            names.filter(are_unknown).for_each(|name| index.fetch_ahead(name));
        }
        let (mut found, mut large) = (Vec::with_capacity(wanted.len()), Vec::new());
        let mut ends = LastNodes::default();
        for missing in wanted {
            match self.place_of(&missing, index.as_ref()) {
                Whereabouts::At(addr) => found.push((addr, missing)),
                Whereabouts::Elements(_) => large.push(missing),
                Whereabouts::Known(restored) => tell(missing, Some(*restored)),
                Whereabouts::Nowhere => tell(missing, None),
            }
        }
        found.sort_unstable_by_key(|(addr, _)| *addr);
        let (addrs, missing): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let mut missing: Vec<_> = missing.into_iter().map(Some).collect();
        let hasher = self.hasher;
        let others = self.reader.records_of_groups(&addrs, &mut |which, found| {
            let missing = missing[which].take().expect("each is told of once");
            let at = key_at(hasher, missing.db, &missing.key, addrs[which]);
            let root = root_of(hasher, &at, &found);
            note_contradiction(self.index.as_ref(), &root);
            match root.ok() {
                Some(root) if root.object() != ObjectId::NONE => match missing.need {
                    Need::End => ends.push(missing, root),
                    Need::Name | Need::Value => large.push(missing),
                },
                root => {
                    let restored = root.and_then(|root| root.arrange().ok());
                    let restored = restored.map(|restored| restored.named(&missing.key));
                    tell(missing, restored);
                }
            }
        });
        large.extend(others.into_iter().filter_map(|which| missing[which].take()));
        match &index {
            Some(index) => large.extend(ends.read(&self.namer, index, &mut self.reader, tell)),
            None => ends.into_missing().for_each(|missing| tell(missing, None)),
        }
        large
    }

    /// Where the log has what is missing, or what the index knows, if that will do.
    fn place_of(&self, missing: &Missing, index: Option<&Index>) -> Whereabouts {
        if let Some(stream) = missing.rest_of {
            return Whereabouts::Elements(stream);
        }
        if let Some(addr) = missing.addr {
            return Whereabouts::At(addr);
        }
        let (db, key) = (missing.db, &missing.key);
        let Some(index) = index else { return Whereabouts::Nowhere };
        let entry = index.probe(self.name(db, key)).ok().flatten();
        let Some(place) = entry.as_ref().and_then(Entry::place) else {
            return Whereabouts::Nowhere;
        };
        if missing.need == Need::Name
            && let Some(known) = self.by_index(db, key, place, index)
        {
            return Whereabouts::Known(Box::new(known));
        }
        Whereabouts::At(place.addr())
    }

    fn name(&self, db: DbId, key: &[u8]) -> Name {
        Name::new(Scope::database(db), self.namer.hash(key))
    }

    /// What `index` knows of a key, if that is all but its value.
    fn by_index(&self, db: DbId, key: &[u8], place: &Place, index: &Index) -> Option<Restored> {
        // Of lost values and of later expiries only the record tells.
        RecordKind::from_u8(place.tag()).and_then(Type::of_record)?;
        if place.expiry_ms().is_some_and(|at| at >= EXPIRY_MS_MAX) {
            return None;
        }
        let of = lost_key(db, self.hasher.identity(key), place);
        Some(Restored::by_index(key, &of, index.cut()?, self.hasher))
    }

    /// Another one of the same.
    #[must_use]
    pub fn another(&self) -> Self {
        self.with_files(2)
    }

    /// Another one, which keeps so many files open; each may take two descriptors.
    pub(super) fn with_files(&self, open_files: usize) -> Self {
        let limits = ReaderLimits { open_files, ..ReaderLimits::default() };
        let reader = self.reader.another().with_limits(limits);
        Self {
            index: self.index.clone(),
            reader,
            namer: self.namer,
            hasher: self.hasher,
            is_ending: Arc::clone(&self.is_ending),
        }
    }

    /// As [`LogRestorer::another`], but it is not told to end with the others.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { is_ending: Arc::default(), ..self.another() }
    }

    /// Tells all that were made of this one to end what they read.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    fn check_ending(&self) -> Result<(), RestoreError> {
        match self.is_ending.load(Ordering::Relaxed) {
            true => Err(RestoreError::Io("the log is being closed".to_owned())),
            false => Ok(()),
        }
    }

    /// Reads a record.
    pub(super) fn record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>, RestoreError> {
        self.reader.record(addr).map_err(|error| of_log(&error))
    }

    /// Reads several records, in this order.
    fn records(
        &mut self,
        addrs: &[RecordAddr],
    ) -> impl Iterator<Item = Result<Option<FoundRecord>, RestoreError>> + use<> {
        let mut all: Vec<_> = addrs.iter().map(|_| Ok(None)).collect();
        self.reader.records(addrs, &mut |which, found| {
            all[which] = found.map_err(|error| of_log(&error));
        });
        all.into_iter()
    }

    pub(super) const fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The index of the log, if one is kept.
    #[must_use]
    pub const fn index(&self) -> Option<&NewestIndex> {
        self.index.as_ref()
    }

    fn newest(&self) -> Result<Index, RestoreError> {
        let index = self.index.as_ref().map(NewestIndex::get);
        index.ok_or_else(|| RestoreError::Io("the log has no index".to_owned()))
    }

    /// The addresses of an object's elements, in the order of the log, and up to which block these are
    /// all.
    pub(super) fn elements(
        &self,
        object: ObjectId,
    ) -> Result<(Vec<RecordAddr>, Lsn), RestoreError> {
        let index = self.newest()?;
        let mut addrs = self.elements_in(&index, object)?;
        addrs.sort_unstable();
        Ok((addrs, index.cut().unwrap_or(Lsn::ZERO)))
    }

    /// The addresses of the elements of an object that was deleted while it was not in memory.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn garbage(&self, object: ObjectId) -> Result<Vec<RecordAddr>, RestoreError> {
        let (mut addrs, _) = self.elements(object)?;
        if let Some(index) = &self.index
            && let Some(pinned) = index.pinned()
        {
            match self.elements_in(&pinned, object) {
                Ok(more) => addrs.extend(more),
                Err(RestoreError::Unlisted(_)) => index.note_garbage_left(),
                Err(error) => return Err(error),
            }
        }
        addrs.sort_unstable();
        addrs.dedup();
        Ok(addrs)
    }

    /// Tells what the keys had of a database that was emptied, as far as the index of that moment can be read:
    /// if it is damaged, the rest is garbage until the next start.
    fn drop_keys(&self, db: DbId, tell: &mut dyn FnMut(Fetched)) -> Result<(), RestoreError> {
        match self.dropped(db, tell) {
            Ok(()) => {}
            Err(RestoreError::Unlisted(_)) => {
                self.index.iter().for_each(NewestIndex::note_garbage_left);
            }
            Err(error) => return Err(error),
        }
        self.index.iter().for_each(|index| index.forget_dropped(db));
        Ok(())
    }

    /// Tells all of it.
    fn dropped(&self, db: DbId, tell: &mut dyn FnMut(Fetched)) -> Result<(), RestoreError> {
        let pinned = self.index.as_ref().and_then(|index| index.dropped(db));
        let Some(index) = pinned else { return Ok(()) };
        let mut range = index.scope_range(Scope::database(db), Hash96::MIN).map_err(of_index)?;
        let (mut keys, mut addrs) = (Vec::new(), 0);
        while let Some(entry) = range.next().map_err(of_index)? {
            self.check_ending()?;
            let place = entry.place().expect("ranges have what is there");
            let elements = place.object().map(|object| self.elements_in(&index, object));
            let elements = elements.transpose()?.unwrap_or_default();
            addrs += elements.len();
            keys.push((place.addr(), elements));
            if keys.len() >= GARBAGE_KEYS || addrs >= GARBAGE_ADDRS {
                tell(Fetched::Garbage(std::mem::take(&mut keys)));
                addrs = 0;
            }
        }
        tell(Fetched::Garbage(keys));
        Ok(())
    }

    /// Does a step of a walk for keys that have expired.
    fn sweep(&mut self, sweep: &mut Sweep) -> Result<Vec<Restored>, RestoreError> {
        let addrs = sweep.next_records();
        if addrs.is_empty() {
            let looked = sweep.look(&self.newest()?).map_err(of_index);
            // What was found before an error is used.
            return looked.or_else(|error| sweep.end_early(error)).map(|()| Vec::new());
        }
        let (mut expired, hasher) = (Vec::new(), self.hasher);
        for addrs in addrs.chunks(RECORDS_TOGETHER) {
            self.check_ending()?;
            self.sound_records(addrs, &mut |record, addr| {
                let is_due = record.expires_at_ms.is_some_and(|at| sweep.is_due(at));
                if is_due && record.db == sweep.database() {
                    expired.extend(Restored::without_value(record, addr, hasher).ok());
                }
            })?;
        }
        Ok(expired)
    }

    /// Visits those of several records that are there and can be read, in any order: what was changed meanwhile is in
    /// memory, and of what is damaged nothing can tell the name. No two of them are in memory together.
    ///
    /// # Errors
    /// The error of the device.
    fn sound_records(
        &mut self,
        addrs: &[RecordAddr],
        visit: &mut dyn FnMut(&Record<'_>, RecordAddr),
    ) -> Result<(), RestoreError> {
        let mut result = Ok(());
        self.reader.records(
            addrs,
            &mut |which, found| match found.map_err(|error| of_log(&error)) {
                Ok(Some(found)) => visit(&found.record(), addrs[which]),
                Ok(None) | Err(RestoreError::Corrupt(_) | RestoreError::Unlisted(_)) => {}
                Err(error) => result = Err(error),
            },
        );
        result
    }

    fn names_from(
        &mut self,
        index: &Index,
        wanted: &NamesWanted,
        from: u64,
    ) -> Result<NamesFound, RestoreError> {
        let range = index.scope_range(Scope::database(wanted.db), Hash96::new(from, 0));
        let mut range = range.map_err(of_index)?;
        let (mut found, mut addrs) = (NamesFound { names: Vec::new(), end: wanted.to }, Vec::new());
        let (mut count, mut last) = (0, 0);
        while let Some(entry) = range.next().map_err(of_index)? {
            let hash = entry.name.hash.high();
            let grain = hash & !(HASH_GRAIN - 1);
            if wanted.to.is_some_and(|to| hash >= to) {
                break;
            }
            if count >= wanted.count && grain != last {
                found.end = Some(grain);
                break;
            }
            last = grain;
            let addr = entry.place().expect("ranges have what is there").addr();
            if wanted.resident.binary_search(&addr).is_err() {
                count += 1;
                addrs.push(addr);
            }
            if addrs.len() >= NAMES_CHUNK {
                self.read_names(wanted, &mut addrs, &mut found.names)?;
            }
        }
        self.read_names(wanted, &mut addrs, &mut found.names)?;
        Ok(found)
    }

    fn read_names(
        &mut self,
        wanted: &NamesWanted,
        addrs: &mut Vec<RecordAddr>,
        names: &mut Vec<ColdName>,
    ) -> Result<(), RestoreError> {
        let hasher = self.hasher;
        addrs.sort_unstable();
        for addrs in addrs.chunks(RECORDS_TOGETHER) {
            self.check_ending()?;
            if !wanted.is_wanted.load(Ordering::Relaxed) {
                return Err(RestoreError::Io("the names are not wanted any more".to_owned()));
            }
            self.sound_records(addrs, &mut |record, addr| {
                if record.db == wanted.db && wanted.wants(record.key) {
                    names.extend(ColdName::of(record, addr, hasher));
                }
            })?;
        }
        addrs.clear();
        Ok(())
    }

    fn elements_in(
        &self,
        index: &Index,
        object: ObjectId,
    ) -> Result<Vec<RecordAddr>, RestoreError> {
        let mut range = index.scope_range(Scope::object(object), Hash96::MIN).map_err(of_index)?;
        let mut addrs = Vec::new();
        while let Some(entry) = range.next().map_err(of_index)? {
            self.check_ending()?;
            addrs.extend(entry.place().map(|place| place.addr()));
        }
        Ok(addrs)
    }

    /// Reads the elements of an object into it; `None` if one of them is not in the log any more.
    ///
    /// # Errors
    /// [`RestoreError::Corrupt`] if an element is damaged.
    pub(super) fn gather(
        &mut self,
        mut restored: Restored,
    ) -> Result<Option<Restored>, RestoreError> {
        let object = restored.object();
        if object != ObjectId::NONE {
            let (addrs, known) = self.elements(object)?;
            restored.gather_as_of(known);
            for addrs in addrs.chunks(RECORDS_TOGETHER) {
                self.check_ending()?;
                for (addr, found) in addrs.iter().zip(self.records(addrs)) {
                    let Some(found) = found? else { return Ok(None) };
                    restored.gather(&found.record(), *addr).map_err(unlisted)?;
                }
            }
        }
        restored.arrange().map(Some).map_err(unlisted)
    }
}

impl Restorer for LogRestorer {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        let Some(index) = &self.index else { return Ok(None) };
        let entry = index.get().probe(self.name(db, key)).map_err(of_index)?;
        Ok(entry.and_then(|entry| entry.place().map(|place| place.addr())))
    }

    fn look(&mut self, db: DbId, key: &[u8]) -> Look {
        let Some(index) = &self.index else { return Look::Absent };
        match index.get().probe_cached(self.name(db, key)) {
            Cached::Found(place) => Look::At(place.addr()),
            Cached::Gone | Cached::Absent => Look::Absent,
            Cached::Unknown => Look::Unknown,
        }
    }

    fn look_by_index(&mut self, db: DbId, key: &[u8]) -> Option<Restored> {
        let index = self.newest().ok()?;
        match index.probe_cached(self.name(db, key)) {
            Cached::Found(place) => self.by_index(db, key, &place, &index),
            Cached::Gone | Cached::Absent | Cached::Unknown => None,
        }
    }

    fn names(&mut self, wanted: &NamesWanted) -> Result<NamesFound, RestoreError> {
        let index = self.newest()?;
        let found = self.names_from(&index, wanted, wanted.from)?;
        if found.names.is_empty() && wanted.wraps && wanted.from > 0 {
            return self.names_from(&index, wanted, 0);
        }
        Ok(found)
    }

    fn has_elements_in(
        &mut self,
        object: ObjectId,
        segments: &[SegmentId],
    ) -> Result<bool, RestoreError> {
        let (addrs, _) = self.elements(object)?;
        Ok(addrs.iter().any(|addr| segments.binary_search(&addr.segment()).is_ok()))
    }

    fn keys_in(
        &mut self,
        db: DbId,
        from: Identity,
        segments: &[SegmentId],
    ) -> Result<KeysIn, RestoreError> {
        let index = self.newest()?;
        let from = hash_of(&from);
        let mut range = index.scope_range(Scope::database(db), from).map_err(of_index)?;
        let is_in = |addr: &RecordAddr| segments.binary_search(&addr.segment()).is_ok();
        let mut found = KeysIn::default();
        for _ in 0..KEYS_IN_ENTRIES {
            let Some(entry) = range.next().map_err(of_index)? else { return Ok(found) };
            let place = entry.place().expect("ranges have what is there");
            let elements = place.object().map(|object| self.elements_in(&index, object));
            let elements = elements.transpose()?.unwrap_or_default();
            if is_in(&place.addr()) || elements.iter().any(is_in) {
                found.keys.push(lost_key(db, identity_of(entry.name.hash), place));
            }
        }
        found.next = range.next().map_err(of_index)?.map(|entry| identity_of(entry.name.hash));
        Ok(found)
    }

    fn read_unnamed(&mut self, key: &LostKey) -> Result<Option<Restored>, RestoreError> {
        let Some(found) = self.record(key.addr)? else { return Ok(None) };
        let root = root_of(self.hasher, key, &found);
        note_contradiction(self.index.as_ref(), &root);
        self.gather(root?)
    }

    fn read_end(
        &mut self,
        db: DbId,
        key: &[u8],
        addr: RecordAddr,
    ) -> Result<Restored, RestoreError> {
        let gone = || RestoreError::Unlisted(format!("the key at {addr} is not in the log"));
        let found = self.record(addr)?.ok_or_else(gone)?;
        let root = root_of(self.hasher, &key_at(self.hasher, db, key, addr), &found);
        note_contradiction(self.index.as_ref(), &root);
        let mut root = root?;
        if root.object() != ObjectId::NONE {
            let index = self.newest()?;
            root.gather_as_of(index.cut().unwrap_or(Lsn::ZERO));
            if let Some(addr) = last_node_of(&root, &self.namer, &index)? {
                let gone = || RestoreError::Unlisted(format!("the node at {addr} is gone"));
                let found = self.record(addr)?.ok_or_else(gone)?;
                root.gather(&found.record(), addr).map_err(unlisted)?;
            }
        }
        Ok(root.arrange_end().map_err(unlisted)?.named(key))
    }

    fn read_elements(
        &mut self,
        db: DbId,
        key: &[u8],
        stream: ObjectId,
    ) -> Result<Restored, RestoreError> {
        let mut restored = Restored::of_elements(db, key, stream, self.hasher);
        let (addrs, known) = self.elements(stream)?;
        restored.gather_as_of(known);
        let mut damaged = 0;
        for addrs in addrs.chunks(RECORDS_TOGETHER) {
            self.check_ending()?;
            for (addr, found) in addrs.iter().zip(self.records(addrs)) {
                match found {
                    Ok(Some(found)) => {
                        restored.gather(&found.record(), *addr).map_err(unlisted)?;
                    }
                    Ok(None) => {
                        let what = format!("the element at {addr} is not in the log");
                        restored.note_unread(*addr, RestoreError::Unlisted(what));
                    }
                    Err(RestoreError::Corrupt(why)) => {
                        damaged += 1;
                        restored.note_unread(*addr, RestoreError::Corrupt(why));
                    }
                    Err(error) => return Err(error),
                }
            }
            if restored.unread_count() > UNREAD_MAX {
                let what = format!("more than {UNREAD_MAX} elements of one value cannot be read");
                // What is given up for good is damaged: an index may list what is not there.
                return Err(match damaged > UNREAD_MAX {
                    true => RestoreError::Corrupt(what),
                    false => RestoreError::Unlisted(what),
                });
            }
        }
        restored.arrange().map_err(unlisted)
    }

    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        let gone = || RestoreError::Unlisted(format!("not all of the key at {addr} is in the log"));
        let at = key_at(self.hasher, db, key, addr);
        Ok(self.read_unnamed(&at)?.ok_or_else(gone)?.named(key))
    }
}

/// Where something is that is missing.
enum Whereabouts {
    At(RecordAddr),
    /// Its root is in memory, with its end.
    Elements(ObjectId),
    /// Nothing else of it is needed.
    Known(Box<Restored>),
    Nowhere,
}

/// A key whose record is at `addr`; what else is known of it does not matter.
fn key_at(hasher: KeyHasher, db: DbId, key: &[u8], addr: RecordAddr) -> LostKey {
    let identity = hasher.identity(key);
    LostKey { db, identity, addr, value_type: Type::String, expires_at_ms: None, object: None }
}

/// The root that a record is, which must be that of `key`.
fn root_of(
    hasher: KeyHasher,
    key: &LostKey,
    found: &FoundRecord,
) -> Result<Restored, RestoreError> {
    let record = found.record();
    let is_of_key = match record.kind {
        RecordKind::KeyLost => record.key == key.identity,
        _ => hasher.identity(record.key) == key.identity,
    };
    if record.db != key.db || !is_of_key {
        let addr = key.addr;
        let what = format!("the index says that the record at {addr} is that of another key");
        return Err(RestoreError::Unlisted(what));
    }
    Restored::of(&record, key.addr, hasher).map_err(bad_record)
}

pub(super) fn of_index(error: logindex::Error) -> RestoreError {
    if error.is_corrupt() {
        RestoreError::Unlisted(error.to_string())
    } else {
        RestoreError::Io(error.to_string())
    }
}

pub(super) fn of_log(error: &redo::Error) -> RestoreError {
    match error {
        redo::Error::File(FileError::Corrupt { .. }) => RestoreError::Corrupt(error.to_string()),
        error => RestoreError::Io(error.to_string()),
    }
}

/// What an index has brought together does not belong together.
fn unlisted(error: BadRecord) -> RestoreError {
    RestoreError::Unlisted(error.to_string())
}

pub(super) fn bad_record(error: BadRecord) -> RestoreError {
    RestoreError::Corrupt(error.to_string())
}

/// What the index knows of a key, whose record may be damaged.
pub(super) fn lost_key(db: DbId, identity: Identity, place: &Place) -> LostKey {
    let kind = RecordKind::from_u8(place.tag());
    LostKey {
        db,
        identity,
        addr: place.addr(),
        value_type: kind.and_then(Type::of_record).unwrap_or(Type::String),
        expires_at_ms: place.expiry_ms().map(|at| i64::try_from(at).unwrap_or(i64::MAX)),
        object: place.object(),
    }
}
