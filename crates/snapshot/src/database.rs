//! Rows, a client and a snapshotter: types that say which side may do what, and when.
//!
//! ```text
//!   Database ── split ──► Client ── tick ──► Tick: read, write             one thread
//!                    └──► Snapshotter ── take ──► Snapshot: traverse, finish    another
//! ```
//!
//! A `Snapshot` borrows its snapshotter, so there is one at a time: the paper's "if previous
//! snapshot done". If it is dropped without [`Source::finish`] (because a disk is full, say), it is
//! not lost: [`Snapshotter::unfinished`] returns it, to be traversed from the beginning again. With
//! an algorithm whose snapshots contain only changes, skipping it would lose them.

use std::path::Path;

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::Shape;
use crate::checkpoint::Source;
use crate::dump::Summary;
use crate::error::{Error, Result};
use crate::gate::{Closed, Entered, Gate};
use crate::sync::Backoff;

/// Rows under one of the algorithms.
pub struct Database<A> {
    algorithm: A,
    gate: Gate,
    shape: Shape,
    outstanding: Option<Cursor>,
    sequence: u64,
}

/// The progress of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    online: usize,
    traversed: usize,
}

impl<A: Algorithm> Database<A> {
    /// Loads the rows.
    #[must_use]
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            algorithm: A::load(setup),
            gate: Gate::new(),
            shape: setup.shape,
            outstanding: None,
            sequence: 0,
        }
    }

    /// Splits the database into its two sides, one for each thread.
    pub fn split(&mut self) -> (Client<'_, A>, Snapshotter<'_, A>) {
        let Self { algorithm, gate, shape, outstanding, sequence } = self;
        let (algorithm, gate) = (&*algorithm, &*gate);
        let shape = *shape;
        (Client { algorithm, gate }, Snapshotter { algorithm, gate, shape, outstanding, sequence })
    }
}

/// The side that reads and writes.
pub struct Client<'a, A> {
    algorithm: &'a A,
    gate: &'a Gate,
}

impl<A: Algorithm> Client<'_, A> {
    /// Begins a tick, after waiting for a taken phase in progress.
    pub fn tick(&mut self) -> Tick<'_, A> {
        let entered = self.gate.enter();
        self.algorithm.enter();
        Tick { algorithm: self.algorithm, _entered: entered }
    }
}

/// Reads and writes that belong together: a snapshot contains all of them or none.
pub struct Tick<'a, A> {
    algorithm: &'a A,
    _entered: Entered<'a>,
}

impl<A: Algorithm> Tick<'_, A> {
    /// Copies out the latest value of a row.
    #[inline]
    pub fn read(&self, row: usize, into: &mut [u64]) {
        self.algorithm.read(row, into);
    }

    /// Gives a row a new value.
    #[inline]
    pub fn write(&mut self, row: usize, value: &[u64]) {
        self.algorithm.write(row, value);
    }
}

/// The side that takes snapshots.
pub struct Snapshotter<'a, A> {
    algorithm: &'a A,
    gate: &'a Gate,
    shape: Shape,
    outstanding: &'a mut Option<Cursor>,
    sequence: &'a mut u64,
}

impl<A: Algorithm> Snapshotter<'_, A> {
    /// Takes a snapshot of the state between two ticks, waiting for the client to get there.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if the previous snapshot is not finished; errors of the operating
    /// system.
    pub fn take(&mut self) -> Result<Snapshot<'_, A>> {
        self.take_with(|| ())
    }

    /// As [`Snapshotter::take`]; calls `taken` at the end of the taken phase, while the client
    /// still waits.
    ///
    /// # Errors
    /// As [`Snapshotter::take`].
    pub fn take_with(&mut self, taken: impl FnOnce()) -> Result<Snapshot<'_, A>> {
        if self.outstanding.is_some() {
            return Err(Error::Unfinished);
        }
        let closed: Closed<'_> = self.gate.close();
        self.algorithm.take(&closed)?;
        taken();
        drop(closed);
        *self.outstanding = Some(Cursor::default());
        *self.sequence += 1;
        Ok(self.snapshot())
    }

    /// Returns the last snapshot if it was dropped before it was finished.
    ///
    /// # Errors
    /// If it cannot be read from the beginning again.
    pub fn unfinished(&mut self) -> Result<Option<Snapshot<'_, A>>> {
        let Some(cursor) = self.outstanding else { return Ok(None) };
        cursor.traversed = 0;
        self.algorithm.rewind()?;
        Ok(Some(self.snapshot()))
    }

    fn snapshot(&mut self) -> Snapshot<'_, A> {
        let Self { algorithm, gate, shape, outstanding, sequence } = self;
        Snapshot { algorithm, gate, shape: *shape, outstanding, sequence: **sequence }
    }
}

/// The state between two ticks, kept as long as needed.
pub struct Snapshot<'a, A> {
    algorithm: &'a A,
    gate: &'a Gate,
    shape: Shape,
    outstanding: &'a mut Option<Cursor>,
    sequence: u64,
}

impl<A: Algorithm> Snapshot<'_, A> {
    fn cursor(&mut self) -> &mut Cursor {
        self.outstanding.as_mut().expect("a snapshot exists as long as it is outstanding")
    }

    /// Does part of the work that the next snapshot requires, independently of the traversal.
    /// Returns whether nothing is left, or the client must act first.
    pub fn write_to_online_step(&mut self) -> bool {
        let from = self.cursor().online;
        if from >= self.shape.rows() {
            return true;
        }
        match self.algorithm.write_to_online(from, self.gate) {
            Online::From(row) => {
                self.cursor().online = row;
                false
            }
            Online::Waiting => true,
        }
    }

    /// Does all of that work.
    pub fn write_to_online(&mut self) {
        let mut backoff = Backoff::new();
        while self.cursor().online < self.shape.rows() {
            if self.write_to_online_step() {
                backoff.wait();
            } else {
                backoff = Backoff::new();
            }
        }
    }

    /// Copies out the next row of the snapshot, in ascending order.
    ///
    /// # Errors
    /// If the snapshot is in another process and cannot be read.
    pub fn next_row(&mut self, into: &mut [u64]) -> Result<Option<usize>> {
        let (rows, algorithm) = (self.shape.rows(), self.algorithm);
        let next = &mut self.cursor().traversed;
        while *next < rows {
            let row = *next;
            *next += 1;
            if algorithm.snapshot_row(row, into)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

impl<A: Algorithm> Source for Snapshot<'_, A> {
    const CONTENT: Content = A::CONTENT;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn traverse(&mut self, mut visit: impl FnMut(usize, &[u64]) -> Result<()>) -> Result<()> {
        self.write_to_online();
        if self.cursor().traversed > 0 {
            self.algorithm.rewind()?;
            self.cursor().traversed = 0;
        }
        let mut value = vec![0; self.shape.row_words()];
        while let Some(row) = self.next_row(&mut value)? {
            visit(row, &value)?;
        }
        Ok(())
    }

    fn dump_elsewhere(&mut self, path: &Path) -> Option<Result<Summary>> {
        self.algorithm.dump_elsewhere(path, self.sequence)
    }

    fn finish(mut self) {
        self.write_to_online();
        self.algorithm.finish();
        *self.outstanding = None;
    }
}
