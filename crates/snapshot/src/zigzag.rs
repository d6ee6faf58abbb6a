//! Zigzag (section 3.1.3): two copies of each row, and bits that assign them.
//!
//! ```text
//!   D, D̄   client writes the copy D̄bw[i], reads the copy D̄br[i]
//!          snapshotter reads the copy ¬D̄bw[i], which is not written in this period
//!          taken phase: D̄bw ← ¬D̄br, all of it
//! ```
//!
//! It needs no locks and copies no rows. But each write goes to one array or the other, after a
//! load that says which, and the taken phase visits all bits.

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::Closed;

/// Zigzag; see the module.
pub struct Zigzag {
    copies: [Rows; 2],
    /// The copy with the latest value. Only the client changes it.
    read_from: Flags,
    /// The copy that the client writes. It changes only in taken phases.
    write_to: Flags,
}

impl Algorithm for Zigzag {
    const NAME: &'static str = "zigzag";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            copies: [setup.initial_rows(), setup.empty_rows()],
            read_from: Flags::new(rows, 0, setup.pages),
            write_to: Flags::new(rows, 1, setup.pages),
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.copies[usize::from(self.read_from.get(row) & 1)].load(row, into);
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let to = self.write_to.get(row) & 1;
        self.copies[usize::from(to)].store(row, value);
        self.read_from.set(row, to);
    }

    fn take(&self, closed: &Closed<'_>) -> Result<()> {
        self.write_to.fill_with_negation(&self.read_from, closed);
        Ok(())
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.copies[usize::from((self.write_to.get(row) & 1) ^ 1)].load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
