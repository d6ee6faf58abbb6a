//! The paper's indexed log: a B-tree of records by the key that they are of.
//!
//! ```text
//!   records   KEY LSN INDEX ─► address, value     every record of a key, side by side
//!             KEY           ─► address, value     or only the newest
//!   cut                     ─► LSN                the tree has the blocks up to here
//! ```
//!
//! Section 4.2: a node "contains a tuple ID and the update records", and one probe finds all of them.
//! Here one range has them: a value that grows with each record would be copied as a whole each time.
//! The cut is committed with the records, so after a crash the tree knows what it misses. A record
//! that is put there twice is there once, because its name is its place in the log.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use base::{DbId, Lsn, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{KeyHasher, Look, RestoreError, Restored, Restorer};
use pages::{Durability, Options, PageStore, Range};

use crate::error::{Error, Result};

const RECORDS: &str = "records";
const CUT: &str = "cut";

/// Bytes of LSN and index.
const PLACE_BYTES: usize = 12;
/// Bytes of an address.
const ADDR_BYTES: usize = 8;

/// Entries that a traversal reads in one transaction: their locks keep writers waiting.
const READ_ENTRIES: usize = 1024;

/// Stands for the address of a record that is in no log.
const NO_LOG: SegmentId = SegmentId(u32::MAX - 1);

/// Which records a tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    All,
    Newest,
}

/// See the file's top.
pub(super) struct Tree {
    store: PageStore,
    keeps: Keeps,
}

/// Records that are to be committed together.
#[derive(Default)]
pub(super) struct TreeBatch {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl TreeBatch {
    /// Adds record `index` of block `lsn`; one of no log has no address.
    pub(super) fn push(
        &mut self,
        tree: &Tree,
        key: &[u8],
        lsn: Lsn,
        index: u32,
        addr: Option<RecordAddr>,
        value: &[u8],
    ) {
        let mut name = name_of(key);
        if tree.keeps == Keeps::All {
            name.extend(lsn.0.to_be_bytes());
            name.extend(index.to_be_bytes());
        }
        let addr = addr.unwrap_or_else(|| RecordAddr::new(NO_LOG, 0));
        let mut record = RecordAddr::to_raw(Some(addr)).to_be_bytes().to_vec();
        record.extend(value);
        self.entries.push((name, record));
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A key, as names begin: no other name begins with it.
fn name_of(key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(1 + key.len() + PLACE_BYTES);
    name.push(u8::try_from(key.len()).expect("the load has short keys"));
    name.extend(key);
    name
}

fn error(error: pages::Error) -> Error {
    Error::engine("pages")(&error)
}

fn damaged(what: &str) -> Error {
    Error::damaged(format!("the tree of records: {what}"))
}

/// Runs `body` until it ends without a conflict.
fn retried<T>(mut body: impl FnMut() -> pages::Result<T>) -> Result<T> {
    loop {
        match body() {
            Err(conflict) if conflict.is_retryable() => {}
            other => return other.map_err(error),
        }
    }
}

impl Tree {
    pub(super) fn open(dir: &Path, keeps: Keeps, pool_bytes: usize) -> Result<Arc<Self>> {
        let options = Options::with_memory(dir, pool_bytes);
        let store = PageStore::open_path(dir, options).map_err(error)?;
        Ok(Arc::new(Self { store, keeps }))
    }

    /// The last block that it has.
    pub(super) fn cut(&self) -> Result<Lsn> {
        let bytes = retried(|| self.store.begin_read()?.table(CUT).get(CUT))?;
        let cut = bytes.map(|bytes| bytes.try_into().map(u64::from_be_bytes)).transpose();
        Ok(Lsn(cut.map_err(|_bytes| damaged("its cut"))?.unwrap_or_default()))
    }

    /// Puts the records of `batch` into the tree, which has the blocks up to `cut` then; nothing
    /// without records.
    pub(super) fn commit(
        &self,
        batch: &mut TreeBatch,
        cut: Lsn,
        durability: Durability,
    ) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        retried(|| {
            let transaction = self.store.begin()?;
            let table = transaction.table(RECORDS);
            for (name, record) in &batch.entries {
                table.insert(name, record)?;
            }
            transaction.table(CUT).insert(CUT, cut.0.to_be_bytes())?;
            transaction.commit(durability).map(drop)
        })?;
        batch.entries.clear();
        Ok(())
    }

    /// Makes all that was committed durable.
    pub(super) fn flush(&self) -> Result<()> {
        self.store.flush().map_err(error)
    }

    /// Restores a key: applies all of its records in order.
    fn restore(&self, key: &[u8], hasher: KeyHasher) -> Result<Option<Found>> {
        let (low, mut high) = (name_of(key), name_of(key));
        high.extend([u8::MAX; PLACE_BYTES]);
        retried(|| {
            let reader = self.store.begin_read()?;
            let table = reader.table(RECORDS);
            let mut found = None;
            for entry in table.range(&low[..]..=&high[..]) {
                let (name, record) = entry?;
                found = Some(Found::of(&name, &record, hasher));
            }
            Ok(found)
        })?
        .transpose()
    }
}

/// A key as one of its records says.
struct Found {
    restored: Restored,
    addr: RecordAddr,
}

impl Found {
    fn of(name: &[u8], record: &[u8], hasher: KeyHasher) -> Result<Self> {
        let read = || {
            let (len, rest) = name.split_first()?;
            let key = rest.get(..usize::from(*len))?;
            let (addr, value) = record.split_first_chunk::<ADDR_BYTES>()?;
            let addr = RecordAddr::from_raw(u64::from_be_bytes(*addr))?;
            let record = Record::whole(RecordKind::String, DbId(0), key, value, None);
            let restored = Restored::of(&record, addr, hasher).ok()?;
            Some(Self { restored, addr })
        };
        read().ok_or_else(|| damaged("a record that makes no sense"))
    }
}

/// Restores keys on demand.
pub(super) struct TreeRestorer {
    tree: Arc<Tree>,
    hasher: KeyHasher,
    /// What was found last: to find a key is to read it.
    found: Option<Restored>,
}

impl TreeRestorer {
    pub(super) const fn new(tree: Arc<Tree>, hasher: KeyHasher) -> Self {
        Self { tree, hasher, found: None }
    }
}

impl Restorer for TreeRestorer {
    fn find(
        &mut self,
        _db: DbId,
        key: &[u8],
    ) -> std::result::Result<Option<RecordAddr>, RestoreError> {
        let found = self.tree.restore(key, self.hasher);
        let found = found.map_err(|error| RestoreError::Corrupt(error.to_string()))?;
        Ok(found.map(|Found { restored, addr }| {
            self.found = Some(restored);
            addr
        }))
    }

    fn look(&mut self, _db: DbId, _key: &[u8]) -> Look {
        Look::Unknown
    }

    fn read(
        &mut self,
        _db: DbId,
        key: &[u8],
        _addr: RecordAddr,
    ) -> std::result::Result<Restored, RestoreError> {
        let found = self.found.take().filter(|found| found.key() == key);
        found.ok_or_else(|| RestoreError::Corrupt("it was not looked up before".to_owned()))
    }
}

/// Restores all keys, in the order of the tree.
pub(super) struct Traversal {
    tree: Arc<Tree>,
    hasher: KeyHasher,
    /// The last name that was read.
    from: Option<Vec<u8>>,
    /// The key of that name, as far as it was read.
    last: Option<Restored>,
    is_over: bool,
}

impl Traversal {
    pub(super) const fn new(tree: Arc<Tree>, hasher: KeyHasher) -> Self {
        Self { tree, hasher, from: None, last: None, is_over: false }
    }

    /// Reads some records, and returns the keys that are whole; `None` at the end.
    pub(super) fn step(&mut self) -> Result<Option<Vec<Restored>>> {
        if self.is_over {
            return Ok(None);
        }
        let from = self.from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = retried(|| {
            let reader = self.tree.store.begin_read()?;
            let table = reader.table(RECORDS);
            let range: Range<'_> = table.range::<&[u8]>((from, Bound::Unbounded));
            range.take(READ_ENTRIES).collect::<pages::Result<Vec<_>>>()
        })?;
        let mut keys = Vec::new();
        self.is_over = entries.len() < READ_ENTRIES;
        for (name, record) in &entries {
            let Found { restored, .. } = Found::of(name, record, self.hasher)?;
            let before = self.last.replace(restored);
            let is_other = |before: &Restored| !has_key(name, before.key());
            keys.extend(before.filter(is_other));
        }
        if self.is_over {
            keys.extend(self.last.take());
        }
        self.from = entries.into_iter().last().map(|(name, _)| name).or(self.from.take());
        Ok(Some(keys))
    }
}

fn has_key(name: &[u8], key: &[u8]) -> bool {
    usize::from(name[0]) == key.len() && name[1..].starts_with(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher() -> KeyHasher {
        KeyHasher::new([1; 16])
    }

    fn addr(ordinal: u32) -> RecordAddr {
        RecordAddr::new(SegmentId(1), ordinal)
    }

    /// What the traversal restores, by key: the address of the record that was applied last.
    fn traversed(tree: &Arc<Tree>) -> Vec<String> {
        let mut traversal = Traversal::new(Arc::clone(tree), hasher());
        let mut keys = Vec::new();
        while let Some(some) = traversal.step().unwrap() {
            keys.extend(some.iter().map(|key| String::from_utf8(key.key().to_vec()).unwrap()));
        }
        keys
    }

    #[test]
    fn the_newest_record_of_a_key_is_applied_last() {
        for keeps in [Keeps::All, Keeps::Newest] {
            let dir = tempfile::tempdir().unwrap();
            let tree = Tree::open(dir.path(), keeps, 32 << 20).unwrap();
            let mut batch = TreeBatch::default();
            // The index counts as a number, and so does the block.
            for (lsn, index) in [(2, 0), (2, 300), (2, 9), (1, 999)] {
                if keeps == Keeps::All || index == 300 {
                    batch.push(&tree, b"k1", Lsn(lsn), index, Some(addr(index)), b"v");
                }
            }
            batch.push(&tree, b"k", Lsn(3), 0, Some(addr(5)), b"other");
            batch.push(&tree, b"k12", Lsn(3), 1, Some(addr(6)), b"other");
            tree.commit(&mut batch, Lsn(3), Durability::Immediate).unwrap();
            assert!(batch.is_empty());
            assert_eq!(tree.cut().unwrap(), Lsn(3));
            let found = tree.restore(b"k1", hasher()).unwrap().unwrap();
            assert_eq!((found.addr, found.restored.key()), (addr(300), &b"k1"[..]));
            assert!(tree.restore(b"k2", hasher()).unwrap().is_none());
            assert_eq!(traversed(&tree), ["k", "k1", "k12"]);
        }
    }

    #[test]
    fn a_traversal_restores_each_key_once_however_many_records_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path(), Keeps::All, 32 << 20).unwrap();
        let mut batch = TreeBatch::default();
        let counts = [1, READ_ENTRIES - 1, 1, 2 * READ_ENTRIES, 7];
        for (key, count) in counts.into_iter().enumerate() {
            for index in 0..count {
                let index = u32::try_from(index).unwrap();
                batch.push(&tree, format!("k{key}").as_bytes(), Lsn(1), index, None, b"value");
            }
        }
        tree.commit(&mut batch, Lsn(1), Durability::Immediate).unwrap();
        assert_eq!(traversed(&tree), ["k0", "k1", "k2", "k3", "k4"]);
    }
}
