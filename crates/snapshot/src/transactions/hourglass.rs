//! vHG (Algorithm 4): Hourglass without the closed gate.
//!
//! The arrays are those of [`crate::Hourglass`]. The trigger swaps the pointers immediately; a
//! transaction writes all of its rows to the copy that was `*pU` when it committed (the paper says:
//! began; see [`super`] for why not). The snapshotter waits for the transactions that were
//! installing into the old copy, the paper's `Detect_and_Waiting`, and traverses it.

use super::commits::Commits;
use super::{VirtualAlgorithm, Writes};
use crate::algorithm::{Content, Setup};
use crate::cells::{Flags, Rows};
use crate::sync::{AtomicUsize, Ordering};

/// vHG; see the module.
pub struct VirtualHourglass {
    copies: [Rows; 2],
    changed: [Flags; 2],
    /// The copy with the latest value, protected by the row's lock.
    latest: Flags,
    commits: Commits,
    /// pD: the copy that the snapshotter traverses. Only the snapshotter uses it.
    down: AtomicUsize,
}

impl VirtualAlgorithm for VirtualHourglass {
    const NAME: &'static str = "vhg";
    const CONTENT: Content = Content::Changes;
    type Begun = ();

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            copies: [setup.initial_rows(), setup.empty_rows()],
            changed: [Flags::new(rows, 1, setup.pages), Flags::new(rows, 0, setup.pages)],
            latest: Flags::new(rows, 0, setup.pages),
            commits: Commits::new(),
            down: AtomicUsize::new(1),
        }
    }

    fn begin(&self) {}

    fn read(&self, row: usize, into: &mut [u64]) {
        self.copies[usize::from(self.latest.get(row) & 1)].load(row, into);
    }

    fn commit(&self, (): (), writes: &Writes) -> u64 {
        self.commits.commit(|up| {
            for (row, value) in writes {
                self.changed[up].set(*row, 1);
                self.copies[up].store(*row, value);
                self.latest.set(*row, u8::from(up == 1));
            }
        })
    }

    fn abort(&self, (): ()) {}

    fn take(&self) -> u64 {
        let point = self.commits.swap(|| ());
        self.down.store(self.commits.up() ^ 1, Ordering::Relaxed);
        point
    }

    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> bool {
        let down = self.down.load(Ordering::Relaxed) & 1;
        if self.changed[down].get(row) == 0 {
            return false;
        }
        self.copies[down].load(row, into);
        true
    }

    fn finish(&self) {
        self.changed[self.down.load(Ordering::Relaxed) & 1].clear();
    }
}
