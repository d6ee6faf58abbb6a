//! The paper's *Indexer*: copies the log's records to the tree, after the commit.
//!
//! ```text
//!   durable blocks behind the cut ── Reader ──► batches ──► Tree, with the new cut
//! ```
//!
//! Running, it looks for new blocks once a second, as the server's index does. At a start it takes
//! what is behind the cut from the recovery of the log, before anything is served (section 4.3).

use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, RecordKind};
use pages::Durability;
use redo::{Reader, Replay};

use super::tree::{Tree, TreeBatch};
use crate::error::{Error, Result};

/// So many records are committed together.
const BATCH_RECORDS: usize = 1000;

/// See the file's top.
pub(super) struct TreeIndexer {
    reader: Reader,
    tree: Arc<Tree>,
    batch: TreeBatch,
    cut: Lsn,
}

impl TreeIndexer {
    /// Goes on behind the cut of `tree`.
    pub(super) fn new(reader: Reader, tree: Arc<Tree>) -> Result<Self> {
        let cut = tree.cut()?;
        Ok(Self { reader, tree, batch: TreeBatch::default(), cut })
    }

    /// Indexes all that is durable now. Ends early when `goes_on` says no.
    pub(super) fn index(&mut self, goes_on: &dyn Fn() -> bool) -> Result<()> {
        let error = |error: redo::Error| Error::engine("log")(&error);
        let mut blocks = self.reader.blocks(self.cut.next());
        while let Some(block) = blocks.next().map_err(error)? {
            for (index, record) in (0..).zip(block.records()) {
                let (addr, record) = record.map_err(error)?;
                push(&mut self.batch, &self.tree, &record, block.lsn(), index, addr)?;
            }
            self.cut = block.lsn();
            if self.batch.len() >= BATCH_RECORDS {
                self.commit()?;
                if !goes_on() {
                    return Ok(());
                }
            }
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        // What a crash takes of the tree is in the log.
        self.tree.commit(&mut self.batch, self.cut, Durability::None)
    }
}

fn push(
    batch: &mut TreeBatch,
    tree: &Tree,
    record: &Record<'_>,
    lsn: Lsn,
    index: u32,
    addr: RecordAddr,
) -> Result<()> {
    if record.kind != RecordKind::String {
        return Err(Error::damaged(format!("{:?} at {addr}: not of this load", record.kind)));
    }
    batch.push(tree, record.key, lsn, index, Some(addr), record.value);
    Ok(())
}

/// What recovery reads behind the cut, on its way to the tree.
pub(super) struct Unindexed {
    tree: Arc<Tree>,
    batch: TreeBatch,
    lsn: Lsn,
    index: u32,
    records: u64,
    failure: Option<(RecordAddr, Error)>,
}

impl Unindexed {
    /// Begins behind `cut`, the tree's.
    pub(super) fn new(tree: Arc<Tree>, cut: Lsn) -> Self {
        let batch = TreeBatch::default();
        Self { tree, batch, lsn: cut, index: 0, records: 0, failure: None }
    }

    /// How many records there were.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    fn take(&mut self, record: &Record<'_>, addr: RecordAddr, lsn: Lsn) -> Result<()> {
        if lsn > self.lsn {
            // The cut is behind a whole block.
            if self.batch.len() >= BATCH_RECORDS {
                self.tree.commit(&mut self.batch, self.lsn, Durability::None)?;
            }
            (self.lsn, self.index) = (lsn, 0);
        }
        push(&mut self.batch, &self.tree, record, lsn, self.index, addr)?;
        self.index += 1;
        self.records += 1;
        Ok(())
    }
}

impl Replay for Unindexed {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        if self.failure.is_none()
            && let Err(error) = self.take(record, addr, lsn)
        {
            self.failure = Some((addr, error));
        }
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {
        if self.failure.is_none()
            && let Err(error) = self.tree.commit(&mut self.batch, self.lsn, Durability::None)
        {
            self.failure = Some((RecordAddr::new(base::SegmentId(1), 0), error));
        }
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.failure.as_ref().map(|(addr, error)| (*addr, error.to_string()))
    }
}
