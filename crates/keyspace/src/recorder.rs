//! The one way from an entry to the journal.
//!
//! What changes an entry tells the recorder; the recorder appends exactly one record, stores
//! its address in the entry and retires the address that was there. It also keeps what the
//! running command's reply depends on, so that no handler has to think of durability:
//!
//! - a write depends on the open block;
//! - a read depends on the blocks of the records that it touched, when they are not durable yet;
//! - a read that found nothing depends on the block that deleted the key, if that is so recent.

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use hashbrown::HashMap;

use crate::entry::{Entry, Kind, Payload};
use crate::hasher::{Identity, KeyHasher};
use crate::journal::Journal;
use crate::lost::LostName;
use crate::object::Object;
use crate::packed::{EXPIRING_FIELDS, Packed};
use crate::table::Keyed;
use crate::value_type::entry_type;

/// See the file's top. The journal is the last field, so that a recorder of a known journal
/// coerces to one of any: all that is logged goes through `&mut Recorder`.
pub(crate) struct Recorder<J: ?Sized = dyn Journal> {
    pub(crate) hasher: KeyHasher,
    /// The id that the next object gets: above every id in the log.
    pub(crate) next_object: u64,
    deletes: RecentDeletes,
    wrote: bool,
    read_lsn: Lsn,
    value: Vec<u8>,
    pub(crate) journal: J,
}

impl<J> Recorder<J> {
    pub(crate) fn new(journal: J, hasher: KeyHasher) -> Self {
        Self {
            hasher,
            next_object: 1,
            deletes: RecentDeletes::default(),
            wrote: false,
            read_lsn: Lsn::ZERO,
            value: Vec::new(),
            journal,
        }
    }

    /// Connects another journal, with everything logged so far in it, and returns the old one.
    pub(crate) fn set_journal(&mut self, journal: J) -> J {
        // Their blocks are of the journal before.
        self.deletes = RecentDeletes::default();
        std::mem::replace(&mut self.journal, journal)
    }

    /// The same with a journal of another type.
    pub(crate) fn with_journal<K>(self, journal: K) -> Recorder<K> {
        let next_object = self.next_object;
        Recorder { next_object, ..Recorder::new(journal, self.hasher) }
    }
}

impl Recorder {
    /// Begins to note what a command depends on.
    pub(crate) fn begin_command(&mut self) {
        self.wrote = false;
        self.read_lsn = Lsn::ZERO;
    }

    /// The LSN that the command's reply depends on, and whether it wrote.
    pub(crate) fn end_command(&self) -> (Lsn, bool) {
        let lsn = if self.wrote { self.journal.open_lsn() } else { self.read_lsn };
        (lsn, self.wrote)
    }

    /// The LSN of the open block.
    pub(crate) fn open_lsn(&self) -> Lsn {
        self.journal.open_lsn()
    }

    /// An incarnation that was never used.
    pub(crate) fn new_object_id(&mut self) -> ObjectId {
        let id = ObjectId(self.next_object);
        self.next_object += 1;
        id
    }

    /// Appends a record that is not of an entry with an address of its own.
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        self.wrote = true;
        self.journal.append(record)
    }

    /// Logs which id each database has; `value` says so.
    pub(crate) fn log_databases(&mut self, value: &[u8]) -> Option<RecordAddr> {
        self.append(&Record::whole(RecordKind::Databases, DbId(0), &[], value, None))
    }

    /// Logs a library of functions, and returns where it is. What was there before is the caller's to retire.
    pub(crate) fn log_library(
        &mut self,
        name: &[u8],
        source: &[u8],
        is_new: bool,
    ) -> Option<RecordAddr> {
        self.append(&Record::library(name, source).new_entry(is_new))
    }

    /// Logs that a library of functions is gone.
    pub(crate) fn log_library_deleted(&mut self, name: &[u8]) {
        self.append(&Record::library_deleted(name));
    }

    /// A command has read what the block `lsn` says.
    pub(crate) fn note_read_of(&mut self, lsn: Lsn) {
        if lsn > self.journal.durable_lsn() {
            self.read_lsn = self.read_lsn.max(lsn);
        }
    }

    /// The record at `addr` is no longer needed.
    pub(crate) fn retire(&mut self, addr: Option<RecordAddr>) {
        if let Some(addr) = addr {
            self.journal.retire(addr);
        }
    }

    /// Logs the state of a key entry: whole, its root, or that its value is lost.
    pub(crate) fn log_key(&mut self, db: DbId, entry: &mut Entry) {
        let (key, expires) = (entry.key(), entry.expires_at_ms());
        let mut digits = itoa::Buffer::new();
        let lost_type = [entry_type(entry) as u8];
        let payload = (!entry.is_lost()).then(|| entry.payload());
        let record = match payload {
            None => Record::whole(RecordKind::ValueLost, db, key, &lost_type, expires),
            Some(Payload::Str(bytes)) => Record::whole(RecordKind::String, db, key, bytes, expires),
            Some(Payload::Int(value)) => {
                let digits = digits.format(value).as_bytes();
                Record::whole(RecordKind::String, db, key, digits, expires)
            }
            Some(Payload::Packed(kind, bytes)) => {
                Record::whole(packed_record(kind, bytes), db, key, bytes, expires)
            }
            Some(Payload::Object(object)) => root_record(&mut self.value, db, entry, object),
        };
        // Of a stream and a hash with fields that expire, where all is logged to another log; what makes one has
        // said so before.
        let declared = match (record.kind, payload) {
            (RecordKind::Hash, Some(Payload::Object(object))) if object.has_expiring_fields() => {
                Some(RecordKind::HashPackedExpiring)
            }
            (RecordKind::ValueLost | RecordKind::Stream | RecordKind::HashPackedExpiring, _) => {
                Some(record.kind)
            }
            _ => None,
        };
        if let Some(kind) = declared {
            self.journal.declare(kind);
        }
        let addr = self.journal.append(&record.new_entry(entry.addr().is_none()));
        self.supersede(entry, addr);
    }

    /// Logs the root of `object`, which is the end of what a bare entry stands for.
    pub(crate) fn log_root(&mut self, db: DbId, entry: &mut Entry, object: &Object) {
        let record = root_record(&mut self.value, db, entry, object);
        let addr = self.journal.append(&record.new_entry(entry.addr().is_none()));
        self.supersede(entry, addr);
    }

    /// What was logged of an entry is at `addr` now.
    fn supersede(&mut self, entry: &mut Entry, addr: Option<RecordAddr>) {
        self.wrote = true;
        let old = entry.addr();
        entry.set_addr(addr);
        self.retire(old);
    }

    /// Logs that there is a key whose name and value are lost.
    pub(crate) fn log_lost_name(&mut self, db: DbId, identity: &Identity, lost: &mut LostName) {
        let value = [lost.value_type as u8];
        let record = Record::whole(RecordKind::KeyLost, db, identity, &value, lost.expires_at_ms);
        self.journal.declare(record.kind);
        let addr = self.append(&record.new_entry(lost.addr.is_none()));
        self.retire(std::mem::replace(&mut lost.addr, addr));
    }

    /// Logs that a key is gone whose entry was `entry`. A key that was never logged is not
    /// logged as gone either.
    pub(crate) fn log_key_deleted(&mut self, db: DbId, hash: u64, entry: &Entry) {
        self.wrote = true;
        if let Some(addr) = entry.addr() {
            self.journal.append(&Record::key_deleted(db, entry.key()));
            self.journal.retire(addr);
            self.note_deleted(db, hash, self.journal.open_lsn());
        }
    }

    /// The block `lsn` says that a key is gone.
    pub(crate) fn note_deleted(&mut self, db: DbId, hash: u64, lsn: Lsn) {
        self.deletes.note(hash ^ db.0, lsn, self.journal.durable_lsn());
    }

    /// Logs the state of an element whose record was at `old`, and returns where it is now.
    pub(crate) fn log_element(
        &mut self,
        kind: RecordKind,
        object: ObjectId,
        sub: &[u8],
        value: &[u8],
        old: Option<RecordAddr>,
    ) -> Option<RecordAddr> {
        self.log_element_record(&Record::element(kind, object, sub, value), old)
    }

    /// As [`Recorder::log_element`].
    #[inline]
    pub(crate) fn log_element_record(
        &mut self,
        record: &Record<'_>,
        old: Option<RecordAddr>,
    ) -> Option<RecordAddr> {
        self.wrote = true;
        let addr = self.journal.append(&record.new_entry(old.is_none()));
        self.retire(old);
        addr
    }

    /// Logs that an element is gone whose record was at `old`.
    pub(crate) fn log_element_deleted(
        &mut self,
        object: ObjectId,
        sub: &[u8],
        old: Option<RecordAddr>,
    ) {
        self.wrote = true;
        if let Some(old) = old {
            self.journal.append(&Record::element_deleted(object, sub));
            self.journal.retire(old);
        }
    }

    /// A command read this entry.
    pub(crate) fn note_read(&mut self, entry: &Entry) {
        if let Some(lsn) = entry.addr().and_then(|addr| self.journal.undurable_lsn_of(addr)) {
            self.read_lsn = self.read_lsn.max(lsn);
        }
        if let Some(object) = entry.object()
            && object.changed_at > self.journal.durable_lsn()
        {
            self.read_lsn = self.read_lsn.max(object.changed_at);
        }
        if self.deletes.flushed_at != Lsn::ZERO {
            self.note_flush_read();
        }
    }

    /// Databases were emptied or exchanged not long ago: whatever is read depends on that.
    #[cold]
    fn note_flush_read(&mut self) {
        if self.deletes.flushed_at > self.journal.durable_lsn() {
            self.read_lsn = self.read_lsn.max(self.deletes.flushed_at);
        } else {
            self.deletes.flushed_at = Lsn::ZERO;
        }
    }

    /// A command looked for a key and found none.
    pub(crate) fn note_missing(&mut self, db: DbId, hash: u64) {
        if let Some(lsn) = self.deletes.lsn_of(hash ^ db.0, &self.journal) {
            self.read_lsn = self.read_lsn.max(lsn);
        }
    }

    /// A command read what depends on every key: a count, a scan.
    pub(crate) fn note_read_all(&mut self) {
        self.read_lsn = self.read_lsn.max(self.journal.last_lsn());
    }

    /// Databases were emptied or exchanged: what is read in them depends on this block.
    pub(crate) fn note_flush(&mut self) {
        self.note_flush_at(self.journal.open_lsn());
    }

    /// As [`Recorder::note_flush`], by the block `lsn`.
    pub(crate) fn note_flush_at(&mut self, lsn: Lsn) {
        self.deletes.flushed_at = self.deletes.flushed_at.max(lsn);
    }
}

/// The root of an object that is what `entry` has, or stands for; its value is written to `value`.
fn root_record<'a>(
    value: &'a mut Vec<u8>,
    db: DbId,
    entry: &'a Entry,
    object: &Object,
) -> Record<'a> {
    object.root_value(value);
    let (kind, id) = (object.root_kind(), object.id());
    Record::root(kind, db, entry.key(), id, value, entry.expires_at_ms())
}

fn packed_record(kind: Kind, bytes: &[u8]) -> RecordKind {
    match kind {
        Kind::ListPacked => RecordKind::ListPacked,
        Kind::HashPacked if Packed::new(bytes).flags() & EXPIRING_FIELDS != 0 => {
            RecordKind::HashPackedExpiring
        }
        Kind::HashPacked => RecordKind::HashPacked,
        Kind::SetPacked => RecordKind::SetPacked,
        Kind::ZSetPacked => RecordKind::ZSetPacked,
        Kind::Str | Kind::StrRaw | Kind::Int | Kind::Object => panic!("not a packed collection"),
    }
}

/// Which keys were deleted by blocks that are not durable yet, in two generations: the older one
/// is forgotten when all of it is durable. So there are never more than the blocks in flight hold.
#[derive(Default)]
struct RecentDeletes {
    flushed_at: Lsn,
    young: HashMap<u64, Lsn>,
    old: HashMap<u64, Lsn>,
    old_up_to: Lsn,
}

impl RecentDeletes {
    fn note(&mut self, key: u64, lsn: Lsn, durable: Lsn) {
        if lsn <= durable {
            return;
        }
        if durable >= self.old_up_to {
            self.old.clear();
            std::mem::swap(&mut self.old, &mut self.young);
            self.old_up_to = lsn;
        }
        self.young.insert(key, lsn);
    }

    fn lsn_of(&self, key: u64, journal: &dyn Journal) -> Option<Lsn> {
        if self.young.is_empty() && self.old.is_empty() && self.flushed_at == Lsn::ZERO {
            return None;
        }
        let deleted = self.young.get(&key).or_else(|| self.old.get(&key)).copied();
        let lsn = deleted.unwrap_or(Lsn::ZERO).max(self.flushed_at);
        (lsn > journal.durable_lsn()).then_some(lsn)
    }
}
