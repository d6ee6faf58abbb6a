//! Which records of a stored log are needed: of every name the newest one, unless it says that the
//! entry is gone.
//!
//! ```text
//!   StoredLog ── records up to N ─► names ─► Sorter ─► of each name the newest ─┐
//!                └ the map of databases                                         │ neither gone, nor of
//!                                                                               ▼ a dead database
//!                StoredDump ◄── Selected: segment by segment, ordinals ascending ◄── Sorter
//! ```
//!
//! A start that reads the log asks its table for the entry of each record, and so knows which record
//! it replaces. Here nothing has a table: each record is an item of some forty bytes, and those of a
//! name come together by sorting. A name is its database or object and 96 bits of a hash of the key,
//! the field, … (ADR 21), because that is all that a record of a lost key has.
//!
//! Elements are not compared with the objects that there are: a dump leaves out those without a
//! root by itself.

use std::collections::BTreeMap;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId, varint};
use keyspace::{BadRecord, DatabaseMap, Identity, KeyHasher, plain};
use redo::{Progress, Replay, StoredLog};

use crate::error::{Error, Result};
use crate::order::Order;
use crate::run::Payload;
use crate::sorter::Sorter;
use crate::source::{Sorted, Source};
use crate::spill::SpillOptions;

/// How many items a step looks at.
const STEP_ITEMS: u64 = 4096;

/// A bit that no record kind has: the entry expires.
const EXPIRES: u8 = 0x40;

/// See the file's top. A step machine: [`Selection::read`] reads the log, the steps sort.
pub struct Selection {
    stage: Stage,
    needed: Sorter,
    spill: SpillOptions,
    selected: Selected,
    /// The newest record of each name of the group: of one name, unless hashes agree by chance.
    newest: Vec<Named>,
    is_in_group: bool,
    /// How many keys of each database that counts there are, and how many expire.
    sizes: BTreeMap<DbId, (u64, u64)>,
    items_done: u64,
    items_total: u64,
}

enum Stage {
    /// The names are sorted.
    Names(Sorted),
    /// The newest of each is picked.
    Picking(Source),
    /// Addresses are sorted.
    Addresses(Sorted),
    Over,
}

/// The records that are needed, and what is known of them.
pub struct Selected {
    pub(crate) needed: Option<Source>,
    pub(crate) spilled_bytes: u64,
    /// The block after which they are needed.
    pub lsn: Lsn,
    /// The last block of the log.
    pub newest: Lsn,
    /// How many bytes a start would cut off behind that.
    pub cut_bytes: u64,
    /// The ids of the databases, by index.
    pub databases: Vec<DbId>,
    /// The sources of the libraries of functions, in the order of their names.
    pub libraries: Vec<Box<[u8]>>,
    /// Of each, how many keys it has, and how many of them expire.
    pub sizes: Vec<(u64, u64)>,
    /// How many records there are.
    pub records: u64,
}

impl Selection {
    /// Reads `log`, which was `durable` up to there as something else knows, to its end, and begins to
    /// select what is needed after block `lsn`, or at its end.
    ///
    /// # Errors
    /// When the log is damaged or cannot be read, does not tell the state after that block, or the
    /// spill file fails.
    pub fn read(
        log: &StoredLog,
        durable: Lsn,
        lsn: Option<Lsn>,
        spill: SpillOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let mut names = Names::new(log.hash_seed(), lsn.unwrap_or(Lsn::MAX), spill.clone());
        let read = log.read(durable, &mut names, progress);
        if let Some((_, error)) = names.error {
            return Err(error);
        }
        let (end, oldest) = (read?, log.oldest_lsn());
        let (newest, cut_bytes) = (end.last_lsn, end.cut_bytes);
        let lsn = lsn.unwrap_or(newest);
        if lsn < oldest || lsn > newest {
            return Err(Error::NotTold { lsn, oldest, newest });
        }
        let databases = names.databases()?;
        let libraries = std::mem::take(&mut names.libraries).into_values().collect();
        let sizes = databases.iter().map(|id| (*id, (0, 0))).collect();
        Ok(Self {
            stage: Stage::Names(names.sorter.finish()?),
            needed: Sorter::new(spill.clone()),
            spill,
            selected: Selected {
                needed: None,
                spilled_bytes: 0,
                lsn,
                newest,
                cut_bytes,
                databases,
                libraries,
                sizes: Vec::new(),
                records: 0,
            },
            newest: Vec::new(),
            is_in_group: false,
            sizes,
            items_done: 0,
            items_total: names.number,
        })
    }

    /// How many records were looked at, of how many.
    #[must_use]
    pub const fn progress(&self) -> (u64, u64) {
        (self.items_done, self.items_total)
    }

    /// Does some of it. Returns whether that was all.
    ///
    /// # Errors
    /// When the spill file fails.
    pub fn step(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Names(mut sorted) => {
                self.stage = match merge_some(&mut sorted)? {
                    true => Stage::Picking(sorted.into_source()?),
                    false => Stage::Names(sorted),
                };
            }
            Stage::Picking(mut source) => {
                let mut left = STEP_ITEMS;
                while left > 0 && self.pick(&mut source)? {
                    left -= 1;
                }
                if left == 0 {
                    self.stage = Stage::Picking(source);
                } else {
                    self.selected.spilled_bytes += source.spilled_bytes();
                    let needed = Sorter::new(self.spill.clone());
                    let needed = std::mem::replace(&mut self.needed, needed).finish()?;
                    self.stage = Stage::Addresses(needed);
                }
            }
            Stage::Addresses(mut sorted) => {
                if merge_some(&mut sorted)? {
                    self.selected.spilled_bytes += sorted.spilled_bytes();
                    self.selected.needed = Some(sorted.into_source()?);
                } else {
                    self.stage = Stage::Addresses(sorted);
                }
            }
            Stage::Over => {}
        }
        Ok(matches!(self.stage, Stage::Over))
    }

    /// Returns what was selected.
    ///
    /// # Panics
    /// Before [`Selection::step`] has said that that was all, or after it has failed.
    #[must_use]
    pub fn finish(mut self) -> Selected {
        assert!(self.selected.needed.is_some(), "not all was selected");
        let sizes = self.selected.databases.iter().map(|id| self.sizes[id]);
        self.selected.sizes = sizes.collect();
        self.selected
    }

    /// Looks at the next record, or ends a group. Returns whether there was anything.
    fn pick(&mut self, source: &mut Source) -> Result<bool> {
        if !self.is_in_group {
            self.is_in_group = source.group()?.is_some();
            return Ok(self.is_in_group);
        }
        // They come by their numbers, which ascend with the log.
        if let Some((item, _)) = source.item()? {
            self.items_done += 1;
            let Payload::Here(bytes) = item.payload else { unreachable!("names are short") };
            let named = Named::read(bytes);
            match self.newest.iter_mut().find(|other| other.name == named.name) {
                Some(older) => *older = named,
                None => self.newest.push(named),
            }
            return Ok(true);
        }
        self.is_in_group = false;
        for named in std::mem::take(&mut self.newest) {
            self.select(&named)?;
        }
        Ok(true)
    }

    fn select(&mut self, named: &Named) -> Result<()> {
        if named.kind.is_delete() {
            return Ok(());
        }
        if let Scope::Database(id) = named.name.scope {
            let Some((keys, expiring)) = self.sizes.get_mut(&id) else { return Ok(()) };
            if !matches!(named.kind, RecordKind::ValueLost | RecordKind::KeyLost) {
                *keys += 1;
                *expiring += u64::from(named.expires);
            }
        }
        self.selected.records += 1;
        let segment = ObjectId(named.addr.segment().0.into());
        self.needed.push(segment, Some(Order::of(named.addr.ordinal().into())), 0, &[])
    }
}

/// Merges some of what was sorted. Returns whether it can be read.
fn merge_some(sorted: &mut Sorted) -> Result<bool> {
    for _ in 0..STEP_ITEMS {
        if sorted.step()?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where a name is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Database(DbId),
    Object(ObjectId),
}

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    scope: Scope,
    identity: Identity,
}

/// An odd number whose bits are in no order: consecutive scopes are spread by it.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Name {
    fn of(record: &Record<'_>, hasher: KeyHasher) -> Self {
        let (scope, hashed) = match record.kind.is_element() {
            true => (Scope::Object(record.object), record.sub),
            false => (Scope::Database(record.db), record.key),
        };
        let identity = match record.kind {
            RecordKind::KeyLost => hashed.try_into().expect("it was checked"),
            _ => hasher.identity(hashed),
        };
        Self { scope, identity }
    }

    /// The group that its records are sorted into: nearly always its own.
    fn group(&self) -> ObjectId {
        let scope = match self.scope {
            Scope::Database(id) => id.0,
            Scope::Object(id) => !id.0,
        };
        let hash = u64::from_le_bytes(*self.identity.first_chunk().expect("it is longer"));
        ObjectId((hash ^ scope.wrapping_mul(SPREAD)) >> 2)
    }
}

/// A record as it is sorted.
///
/// ```text
///   kind u8, with EXPIRES │ identity 12 bytes │ scope varint │ segment varint │ ordinal varint
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    name: Name,
    kind: RecordKind,
    expires: bool,
    addr: RecordAddr,
}

impl Named {
    fn put(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(self.kind as u8 | if self.expires { EXPIRES } else { 0 });
        out.extend_from_slice(&self.name.identity);
        let (Scope::Database(DbId(scope)) | Scope::Object(ObjectId(scope))) = self.name.scope;
        let (segment, ordinal) = (self.addr.segment().0, self.addr.ordinal());
        for number in [scope, segment.into(), ordinal.into()] {
            varint::put(out, number);
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let (head, mut rest) = bytes.split_first_chunk::<13>().expect("as it was put");
        let mut number = || varint::take(&mut rest).expect("as it was put");
        let kind = RecordKind::from_u8(head[0] & !EXPIRES).expect("as it was put");
        let scope = match kind.is_element() {
            true => Scope::Object(ObjectId(number())),
            false => Scope::Database(DbId(number())),
        };
        let identity = *head[1..].first_chunk().expect("that many bytes");
        let mut part = || u32::try_from(number()).expect("as it was put");
        let addr = RecordAddr::new(SegmentId(part()), part());
        let expires = head[0] & EXPIRES != 0;
        Self { name: Name { scope, identity }, kind, expires, addr }
    }
}

/// Takes the records of a log in order.
struct Names {
    hasher: KeyHasher,
    /// Records behind this block are none of its business.
    end: Lsn,
    sorter: Sorter,
    map: Option<DatabaseMap>,
    /// The libraries of functions, which are few: name and source.
    libraries: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// The largest database that a record of a key names, and that record.
    last_database: Option<(DbId, RecordAddr)>,
    /// How many records have come.
    number: u64,
    item: Vec<u8>,
    /// Why it takes no more, and the record.
    error: Option<(RecordAddr, Error)>,
}

impl Names {
    fn new(seed: [u8; 16], end: Lsn, spill: SpillOptions) -> Self {
        Self {
            hasher: KeyHasher::new(seed),
            end,
            sorter: Sorter::new(spill),
            map: None,
            libraries: BTreeMap::new(),
            last_database: None,
            number: 0,
            item: Vec::new(),
            error: None,
        }
    }

    fn take(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<()> {
        let bad = |bad: BadRecord| Error::Record { addr, bad };
        plain::check(record).map_err(bad)?;
        if record.kind == RecordKind::Databases {
            self.map = Some(DatabaseMap::read(record).map_err(bad)?);
            return Ok(());
        }
        match record.kind {
            RecordKind::Note => return Ok(()),
            RecordKind::Library => {
                self.libraries.insert(record.key.into(), record.value.into());
                return Ok(());
            }
            RecordKind::LibraryDeleted => {
                self.libraries.remove(record.key);
                return Ok(());
            }
            _ => {}
        }
        let is_later = self.last_database.is_none_or(|(last, _)| record.db > last);
        if !record.kind.is_element() && is_later {
            self.last_database = Some((record.db, addr));
        }
        let (name, expires) = (Name::of(record, self.hasher), record.expires_at_ms.is_some());
        Named { name, kind: record.kind, expires, addr }.put(&mut self.item);
        self.sorter.push(name.group(), Some(Order::of(self.number)), 0, &[&self.item])?;
        self.number += 1;
        Ok(())
    }
}

impl Names {
    /// The ids of the databases by index, as a start has them.
    fn databases(&self) -> Result<Vec<DbId>> {
        let map = self.map.as_ref();
        match self.last_database {
            None => Ok(map.map_or(Vec::new(), |map| map.ids().to_vec())),
            Some((id, addr)) => plain::databases(map, DbId(id.0.saturating_add(1)))
                .map_err(|bad| Error::Record { addr, bad }),
        }
    }
}

impl Replay for Names {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        if lsn <= self.end && self.error.is_none() {
            self.error = self.take(record, addr).err().map(|error| (addr, error));
        }
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}

    /// Ends the reading when there is an error. What it says is lost: the error is told instead.
    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.error.as_ref().map(|(addr, error)| (*addr, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_sorted_as_it_is() {
        let hasher = KeyHasher::new([3; 16]);
        let addr = RecordAddr::new(SegmentId::MAX, u32::MAX);
        let records = [
            Record::whole(RecordKind::String, DbId(0), b"key", b"value", None),
            Record::whole(RecordKind::HashPacked, DbId(1 << 60), b"", b"", Some(-1)),
            Record::whole(RecordKind::KeyLost, DbId(7), b"twelve bytes", &[0], None),
            Record::key_deleted(DbId(7), b"key"),
            Record::element(RecordKind::HashField, ObjectId(7), b"key", b"value"),
            Record::element_deleted(ObjectId(ObjectId::MAX.0 - 1), b"key"),
        ];
        let mut bytes = Vec::new();
        let read = records.map(|record| {
            let (name, expires) = (Name::of(&record, hasher), record.expires_at_ms.is_some());
            let named = Named { name, kind: record.kind, expires, addr };
            named.put(&mut bytes);
            assert_eq!(Named::read(&bytes), named);
            assert!(named.name.group() < ObjectId::MAX);
            named
        });
        assert_eq!(read[2].name.identity, *b"twelve bytes");
        assert_eq!(read[3].name.identity, read[4].name.identity);
        let [deleted, element] = [read[3], read[4]].map(|named| named.name);
        assert!(deleted != element, "a database and an object of the same number are two scopes");
        assert!(deleted.group() != element.group());
    }
}
