//! Snapshots under concurrent transactions, none of which waits for them (section 4).
//!
//! ```text
//!   threads    Transaction: read, write ──locks──► commit ──► VirtualAlgorithm: install
//!   snapshotter            take: a point in the commit order; no transaction pauses for it
//!
//!   commits    1   2   3   4 │ 5   6   7 …          the snapshot: 1 to 4, and nothing of 5, 6, 7
//!                            └ virtual point of consistency
//! ```
//!
//! Transactions use strict two-phase locking ([`locks`]): shared locks for rows read, exclusive
//! locks for rows written, all held until the end. Writes are gathered and installed at commit,
//! when the transaction has all of its locks; so an abort has nothing to undo. A transaction that
//! waits too long for a lock gives up ([`Error::Conflict`]) and is retried, so no cycle of waiting
//! transactions persists.
//!
//! With such locks, the commit order is an order in which the transactions could have run serially.
//! [`commits`] numbers it. A snapshot is consistent if it is the state after some number of
//! commits: that number is its *virtual point of consistency*, and [`VirtualSnapshot::point`] says
//! which.
//!
//! # Where this is not what the paper says
//!
//! In the paper's vHG and vPB, a transaction that began before the trigger writes the old copy, and
//! one that began later writes the new one. That is not a consistent cut. Let N begin after the
//! trigger, write x and commit; then O, which began before it, reads x, writes y and commits. The
//! snapshot contains y, which was computed from N's x, but not x. And if O overwrites x, the latest
//! value is in the old copy, while the next snapshot takes N's value from the new one.
//! (`tests/it/transactions.rs` shows both.) So a transaction here belongs to the period of its
//! *commit*, when it has all of its locks: a conflicting transaction commits clearly before or
//! after it, and their periods agree with that order. The snapshotter waits only for transactions
//! that were installing their writes at that moment.

pub mod calc;
pub mod commits;
pub mod hourglass;
pub mod locks;
pub mod piggyback;

use std::collections::BTreeMap;

use crate::algorithm::{Content, Setup};
use crate::cells::Shape;
use crate::checkpoint::Source;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use locks::{Locks, Mode};

/// The rows that a transaction writes, with their values.
pub type Writes = BTreeMap<usize, Vec<u64>>;

/// A way to take snapshots concurrently with transactions.
///
/// The caller of `read` or `install` holds the lock of the row: two simultaneous calls for one row
/// are two reads.
pub trait VirtualAlgorithm: Send + Sync + Sized + 'static {
    /// The name in commands, files and figures.
    const NAME: &'static str;
    /// The rows that its snapshots contain.
    const CONTENT: Content;
    /// What a transaction remembers from its beginning.
    type Begun: Copy + Send;

    /// Loads the rows.
    fn load(setup: &Setup<'_>) -> Self;

    /// Begins a transaction.
    fn begin(&self) -> Self::Begun;

    /// Copies out the latest value of a row.
    fn read(&self, row: usize, into: &mut [u64]);

    /// Commits a transaction: its writes become the latest values. Returns its number in the commit
    /// order, from 1.
    fn commit(&self, begun: Self::Begun, writes: &Writes) -> u64;

    /// Ends a transaction without effect.
    fn abort(&self, begun: Self::Begun);

    /// Takes a snapshot after some number of commits, and returns that number. Waits until the
    /// snapshot can be traversed. Transactions continue meanwhile.
    fn take(&self) -> u64;

    /// Copies a row out of the snapshot; `false` if the snapshot does not have it.
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> bool;

    /// Ends the snapshot.
    fn finish(&self);
}

/// Rows for transactions of several threads.
pub struct TransactionStore<A> {
    algorithm: A,
    locks: Locks,
    shape: Shape,
    outstanding: AtomicBool,
    snapshots: AtomicU64,
}

impl<A: VirtualAlgorithm> TransactionStore<A> {
    /// Loads the rows.
    #[must_use]
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            algorithm: A::load(setup),
            locks: Locks::new(setup.shape.rows()),
            shape: setup.shape,
            outstanding: AtomicBool::new(false),
            snapshots: AtomicU64::new(0),
        }
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction<'_, A> {
        Transaction {
            store: self,
            begun: Some(self.algorithm.begin()),
            held: BTreeMap::new(),
            writes: BTreeMap::new(),
        }
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if there is one already.
    pub fn take(&self) -> Result<VirtualSnapshot<'_, A>> {
        if self.outstanding.swap(true, Ordering::AcqRel) {
            return Err(Error::Unfinished);
        }
        let point = self.algorithm.take();
        let sequence = self.snapshots.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(VirtualSnapshot { store: self, point, sequence })
    }
}

/// Reads and writes that happen as a whole or not at all. Dropping it before its commit aborts it.
pub struct Transaction<'a, A: VirtualAlgorithm> {
    store: &'a TransactionStore<A>,
    begun: Option<A::Begun>,
    held: BTreeMap<usize, Mode>,
    writes: Writes,
}

impl<A: VirtualAlgorithm> Transaction<'_, A> {
    fn lock(&mut self, row: usize, mode: Mode) -> Result<()> {
        let held = self.held.get(&row).copied();
        if held.is_some_and(|held| held >= mode) {
            return Ok(());
        }
        if !self.store.locks.acquire(row, held, mode) {
            return Err(Error::Conflict { row });
        }
        self.held.insert(row, mode);
        Ok(())
    }

    /// Copies out the value of a row: this transaction's own, or the latest committed one.
    ///
    /// # Errors
    /// [`Error::Conflict`]: drop the transaction and begin again.
    pub fn read(&mut self, row: usize, into: &mut [u64]) -> Result<()> {
        self.lock(row, Mode::Shared)?;
        match self.writes.get(&row) {
            Some(written) => into.copy_from_slice(written),
            None => self.store.algorithm.read(row, into),
        }
        Ok(())
    }

    /// Gives a row a new value, visible to others after the commit.
    ///
    /// # Errors
    /// [`Error::Conflict`]: drop the transaction and begin again.
    pub fn write(&mut self, row: usize, value: &[u64]) -> Result<()> {
        self.lock(row, Mode::Exclusive)?;
        self.writes.insert(row, value.to_vec());
        Ok(())
    }

    /// Makes the writes the latest values. Returns the number of this commit, from 1.
    #[expect(clippy::missing_panics_doc, reason = "a transaction commits once")]
    pub fn commit(mut self) -> u64 {
        let begun = self.begun.take().expect("only commit and drop take it");
        self.store.algorithm.commit(begun, &self.writes)
    }
}

impl<A: VirtualAlgorithm> Drop for Transaction<'_, A> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.store.algorithm.abort(begun);
        }
        for (row, mode) in &self.held {
            self.store.locks.release(*row, *mode);
        }
    }
}

/// The state after some number of commits.
pub struct VirtualSnapshot<'a, A> {
    store: &'a TransactionStore<A>,
    point: u64,
    sequence: u64,
}

impl<A> VirtualSnapshot<'_, A> {
    /// The number of commits it contains.
    #[must_use]
    pub fn point(&self) -> u64 {
        self.point
    }
}

impl<A: VirtualAlgorithm> Source for VirtualSnapshot<'_, A> {
    const CONTENT: Content = A::CONTENT;

    fn shape(&self) -> Shape {
        self.store.shape
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn traverse(&mut self, mut visit: impl FnMut(usize, &[u64]) -> Result<()>) -> Result<()> {
        let mut value = vec![0; self.store.shape.row_words()];
        for row in 0..self.store.shape.rows() {
            if self.store.algorithm.snapshot_row(row, &mut value) {
                visit(row, &value)?;
            }
        }
        Ok(())
    }

    fn finish(self) {
        self.store.algorithm.finish();
        self.store.outstanding.store(false, Ordering::Release);
    }
}
