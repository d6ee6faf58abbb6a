//! vPB: Piggyback without the closed gate.
//!
//! The arrays and the hand-over of rows are those of [`crate::Piggyback`], the trigger is that of
//! [`super::hourglass`]. `WriteToOnline` begins after the last installation into the old copy. A
//! transaction holds the lock of each row that it installs, so only the snapshotter can use that
//! row at the same time: the same two parties as with one client.

use super::commits::Commits;
use super::{VirtualAlgorithm, Writes};
use crate::algorithm::{Content, Setup};
use crate::piggyback::Copies;
use crate::sync::{AtomicU8, Ordering};

/// vPB; see the module.
pub struct VirtualPiggyback {
    copies: Copies,
    commits: Commits,
    /// pD: the copy that the snapshotter traverses. Only the snapshotter uses it.
    down: AtomicU8,
}

impl VirtualAlgorithm for VirtualPiggyback {
    const NAME: &'static str = "vpb";
    const CONTENT: Content = Content::Full;
    type Begun = ();

    fn load(setup: &Setup<'_>) -> Self {
        Self { copies: Copies::load(setup), commits: Commits::new(), down: AtomicU8::new(1) }
    }

    fn begin(&self) {}

    fn read(&self, row: usize, into: &mut [u64]) {
        self.copies.read(row, into);
    }

    fn commit(&self, (): (), writes: &Writes) -> u64 {
        self.commits.commit(|up| {
            for (row, value) in writes {
                self.copies.write(u8::from(up == 1), *row, value);
            }
        })
    }

    fn abort(&self, (): ()) {}

    fn take(&self) -> u64 {
        let point = self.commits.swap(|| self.copies.begin_to_copy());
        let up = u8::from(self.commits.up() == 1);
        self.down.store(up ^ 1, Ordering::Relaxed);
        for row in 0..self.copies.rows() {
            self.copies.write_to_online(up, row);
        }
        point
    }

    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> bool {
        self.copies.load_row(self.down.load(Ordering::Relaxed) & 1, row, into);
        true
    }

    fn finish(&self) {}
}
