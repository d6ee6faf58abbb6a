//! What a state needs of the blocks since an earlier one.
//!
//! ```text
//!   blocks A + 1 … B, from the last one back:   SET k 3 kept · DEL j kept · SET k 2 dropped · SET j 1 dropped
//! ```
//!
//! A record is dropped if a later one in these blocks is of the same entry: of the key in its database, of the element in its object, or of the
//! library of functions. Deletions
//! are entries like others, because the state at A may have what they delete. What is left comes to the same state at B, whichever way A
//! was come to, and to none between. A record of an object that no key had any more is dropped, too.
//!
//! That is what a compaction drops and a start does without, but decided by the names of entries instead of their addresses, so no keyspace is needed:
//! 16 bytes for each entry, within a bound, behind which records are kept that need not be.

use std::collections::{HashSet, VecDeque};

use base::{Lsn, ObjectId, Record, RecordKind};
use redo::{Id, record};

use crate::entry::EntryHasher;
use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::name::Name;
use crate::object::{Builder, ObjectReader, StoredBlock};
use crate::restorer::check_records;
use crate::target::Target;

/// About what one entry takes of memory.
pub(crate) const ENTRY_BYTES: usize = 40;

/// What leads from one state to another, and the objects that it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// In order; they have every block behind `from` up to `to`, whole or as it was thinned out.
    pub(crate) inputs: Vec<Name>,
}

/// What a step has come to.
pub(crate) enum Thinning {
    /// An object was read.
    Read,
    /// This is to be put.
    Part(Portion),
    /// The memory is not enough for it, or something is there that it cannot be made of.
    NoRoom,
    /// There is nothing more.
    Done,
}

/// See the file's top.
pub(crate) struct Thinner {
    database: Id,
    tidier: u64,
    job: Job,
    bytes_max: usize,
    entries: Entries,
    /// What was kept and not put yet, in order.
    kept: VecDeque<StoredBlock>,
    kept_bytes: usize,
    /// The blocks from here on were read, and those behind `put` were put.
    read: Lsn,
    put: Lsn,
    /// The earliest time of what is not put, and that of the last block of it.
    times_ms: Option<(i64, i64)>,
}

impl Thinner {
    /// Makes objects of about so many bytes, with so much memory for entries. `key` is random.
    pub(crate) fn new(
        database: Id,
        tidier: u64,
        job: Job,
        (bytes_max, memory_bytes): (usize, usize),
        key: (u64, u64),
    ) -> Self {
        let (read, put) = (job.to.next(), job.to);
        Self {
            database,
            tidier,
            job,
            bytes_max,
            entries: Entries::new(memory_bytes / ENTRY_BYTES, key),
            kept: VecDeque::new(),
            kept_bytes: 0,
            read,
            put,
            times_ms: None,
        }
    }

    /// Reads the next object, or makes one of what was kept.
    pub(crate) fn step(&mut self, target: &dyn Target) -> Result<Thinning> {
        if self.kept_bytes >= self.bytes_max {
            return Ok(Thinning::Part(self.part()));
        }
        let is_all = self.read == self.job.from.next();
        if is_all && self.put == self.job.from {
            return Ok(Thinning::Done);
        }
        if is_all {
            return Ok(Thinning::Part(self.part()));
        }
        let Some(name) = self.job.inputs.last().copied() else {
            let (lsn, before) = (Lsn(self.read.0 - 1), Some(self.job.from));
            return Err(Error::NotThere { lsn, before, after: Some(self.job.to) });
        };
        self.read(target, name)?;
        // What has failed is asked for again.
        self.job.inputs.pop();
        Ok(Thinning::Read)
    }

    fn read(&mut self, target: &dyn Target, name: Name) -> Result<()> {
        let (Name::Log { first, last, .. } | Name::Thin { first, last, .. }) = name else {
            return Ok(());
        };
        let mut object = ObjectReader::open(target, self.database, name)?;
        let header = *object.header();
        let first = first.max(self.job.from.next());
        if first >= self.read || last.next() < self.read {
            // All of it was in those behind it.
            return Ok(());
        }
        let mut blocks = Vec::new();
        while let Some(block) = object.next()? {
            check_records(name, &block)?;
            if (first..self.read).contains(&block.header.lsn) {
                blocks.push(block);
            }
        }
        let last_ms = match (name, blocks.last()) {
            (Name::Log { .. }, Some(block)) => block.header.time_ms,
            _ => header.time_max_ms,
        };
        let (min_ms, last_ms) = self.times_ms.unwrap_or((i64::MAX, last_ms));
        self.times_ms = Some((min_ms.min(header.time_min_ms), last_ms));
        for block in blocks.into_iter().rev() {
            let kept = self.entries.thin_out(block);
            if let Some(block) = kept {
                self.kept_bytes += block.payload.len();
                self.kept.push_front(block);
            }
        }
        self.read = first;
        Ok(())
    }

    /// An object of what was kept.
    fn part(&mut self) -> Portion {
        let Job { from, to, .. } = self.job;
        let name = Name::Thin { first: self.read, last: self.put, from, to, tidier: self.tidier };
        let mut builder = Builder::thin(self.database, name);
        for block in self.kept.drain(..) {
            let at = (block.header.lsn, block.header.time_ms);
            builder.put_records(at, block.records());
        }
        self.kept_bytes = 0;
        self.put = Lsn(self.read.0 - 1);
        let (header, bytes) = builder.finish_thin(self.times_ms.take().unwrap_or_default());
        Portion::new(header, bytes)
    }
}

/// The entries that were met, from the last record back.
struct Entries {
    hasher: EntryHasher,
    count_max: usize,
    met: HashSet<u128>,
    /// Objects that a record which was kept binds to a key; and those that none does any more.
    bound: HashSet<ObjectId>,
    unbound: HashSet<ObjectId>,
}

impl Entries {
    fn new(count_max: usize, key: (u64, u64)) -> Self {
        let (met, bound, unbound) = (HashSet::new(), HashSet::new(), HashSet::new());
        Self { hasher: EntryHasher::new(key), count_max, met, bound, unbound }
    }

    /// What is to be kept of a block; `None` if nothing is.
    fn thin_out(&mut self, block: StoredBlock) -> Option<StoredBlock> {
        let records: Vec<Record<'_>> = block.records().collect();
        let mut kept: Vec<bool> = records.iter().rev().map(|it| self.is_needed(it)).collect();
        kept.reverse();
        if !kept.contains(&true) {
            return None;
        }
        let mut payload = Vec::new();
        for (record, _) in records.iter().zip(&kept).filter(|(_, is_kept)| **is_kept) {
            // A deletion before it may be dropped: then the entry is not new.
            record::encode(&mut payload, &Record { is_new: false, ..*record });
        }
        Some(StoredBlock { header: block.header, payload })
    }

    /// Whether a record is needed, of which all later ones were asked about.
    fn is_needed(&mut self, record: &Record<'_>) -> bool {
        match record.kind {
            // Which key it is of is not known.
            RecordKind::KeyLost => true,
            // They say what has happened.
            RecordKind::Note => true,
            kind if kind.is_element() => {
                !self.unbound.contains(&record.object) && self.meet(record)
            }
            kind => {
                let is_needed = self.meet(record);
                // When not all of them can be known, none is said to be unbound.
                if kind.is_root() && !self.is_full() {
                    if is_needed {
                        self.bound.insert(record.object);
                    } else if !self.bound.contains(&record.object) {
                        self.unbound.insert(record.object);
                    }
                }
                is_needed
            }
        }
    }

    fn is_full(&self) -> bool {
        self.met.len() + self.bound.len() + self.unbound.len() >= self.count_max
    }

    /// Whether a record's entry is met for the first time.
    fn meet(&mut self, record: &Record<'_>) -> bool {
        let Some(entry) = self.hasher.of(record) else { return true };
        if self.is_full() {
            return !self.met.contains(&entry);
        }
        self.met.insert(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{DbId, checksum::crc32c};
    use redo::block::BlockHeader;

    fn block(lsn: u64, records: &[Record<'_>]) -> StoredBlock {
        let mut payload = Vec::new();
        records.iter().for_each(|it| record::encode(&mut payload, it));
        let header = BlockHeader {
            payload_crc: crc32c(&payload),
            flags: 0,
            lsn: Lsn(lsn),
            time_ms: 1,
            payload_bytes: payload.len() as u64,
            record_count: u32::try_from(records.len()).unwrap(),
            first_ordinal: 0,
            segment: base::SegmentId(1),
            database_tag: 0,
            durable_lsn: Lsn(0),
        };
        StoredBlock { header, payload }
    }

    fn set<'a>(db: u64, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        let record = Record::whole(RecordKind::String, DbId(db), key, value, None);
        Record { is_new: true, ..record }
    }

    /// What is kept of blocks, as (block, value) of each record.
    fn kept(count_max: usize, blocks: Vec<StoredBlock>) -> Vec<(u64, Vec<u8>)> {
        let mut entries = Entries::new(count_max, (1, 2));
        let mut all = Vec::new();
        for block in blocks.into_iter().rev() {
            let Some(block) = entries.thin_out(block) else { continue };
            assert!(block.records().all(|it| !it.is_new), "what deletes it before may be gone");
            let records: Vec<_> =
                block.records().map(|it| (block.header.lsn.0, it.value.to_vec())).collect();
            all.extend(records.into_iter().rev());
        }
        all.reverse();
        all
    }

    #[test]
    fn the_last_record_of_an_entry_is_kept_and_deletions_are_records() {
        let blocks = || {
            vec![
                block(5, &[set(0, b"k", b"1"), set(0, b"j", b"1"), set(1, b"k", b"other")]),
                block(6, &[set(0, b"k", b"2"), set(0, b"k", b"3")]),
                block(7, &[Record::key_deleted(DbId(0), b"j"), set(0, b"l", b"1")]),
                block(8, &[set(0, b"l", b"2")]),
            ]
        };
        let text = |text: &[u8]| text.to_vec();
        let expected =
            [(5, text(b"other")), (6, text(b"3")), (7, text(b"")), (8, text(b"2"))].to_vec();
        assert_eq!(kept(100, blocks()), expected);
        // Without memory for all entries more is kept, and nothing that is needed is dropped.
        for count_max in 0..5 {
            let kept = kept(count_max, blocks());
            assert!(expected.iter().all(|it| kept.contains(it)), "{count_max}: {kept:?}");
            assert!(kept.len() > expected.len() || count_max > 2, "{count_max}: {kept:?}");
        }
    }

    #[test]
    fn a_library_of_functions_is_no_key_of_the_first_database() {
        let library = |source| Record::library(b"mylib", source);
        let blocks = vec![
            block(5, &[library(b"old"), set(0, b"other", b"1")]),
            block(6, &[library(b"new")]),
            block(7, &[set(0, b"mylib", b"a key"), Record::library_deleted(b"gone")]),
        ];
        let values: Vec<_> = kept(100, blocks).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [b"1".to_vec(), b"new".to_vec(), b"a key".to_vec(), b"".to_vec()]);
    }

    #[test]
    fn elements_of_an_object_that_no_key_has_are_dropped_and_of_one_that_moved_are_kept() {
        let root = |key: &'static [u8], object| Record {
            object: ObjectId(object),
            ..Record::whole(RecordKind::Hash, DbId(0), key, b"", None)
        };
        let field = |object, sub: &'static [u8], value: &'static [u8]| Record {
            kind: RecordKind::HashField,
            object: ObjectId(object),
            sub,
            value,
            ..Record::key_deleted(DbId(0), b"")
        };
        let gone = vec![
            block(5, &[field(7, b"f", b"1"), root(b"k", 7)]),
            block(6, &[Record::key_deleted(DbId(0), b"k")]),
        ];
        assert_eq!(kept(100, gone), [(6, Vec::new())]);
        let moved = vec![
            block(5, &[field(7, b"f", b"1"), root(b"k", 7)]),
            block(6, &[Record::key_deleted(DbId(0), b"k"), root(b"new", 7)]),
            block(7, &[field(7, b"f", b"2"), field(7, b"g", b"3")]),
        ];
        let values: Vec<_> = kept(100, moved).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [b"".to_vec(), b"".to_vec(), b"2".to_vec(), b"3".to_vec()]);
        // Of one that was there before nothing is known.
        let before = vec![block(5, &[field(7, b"f", b"1")]), block(6, &[field(7, b"f", b"2")])];
        assert_eq!(kept(100, before).len(), 1);
    }
}
