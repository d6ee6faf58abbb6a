//! vPB: Piggyback without the closed gate.
//!
//! The arrays are those of [`crate::Piggyback`], the trigger is that of [`super::hourglass`].
//! `WriteToOnline` begins when nobody installs into the old copy any more. A transaction has the lock
//! of a row that it installs, so besides it only the snapshotter can be at that row. There is no one
//! client that could adopt a window, so each row is handed over by its flag:
//!
//! ```text
//!            a commit: first write in the period
//!         ┌───────────────────────────────────────────────┐
//!         ▼                                               │
//!   latest in *pU ◄──────── latest in *pD ──────► copying │
//!         ▲                        snapshotter       │    │
//!         │                                          ▼    │
//!         └───────────────────────────────────── both the same
//! ```
//!
//! Each arrow out of "latest in *pD" is a compare-and-swap, so one of them wins. A commit marks the
//! row *before* it writes it, and waits for a copy under way: that of one row. The snapshotter says
//! "both the same" *after* it has copied. When the pass is over nobody but commits, under the row's
//! lock, changes flags until the next swap, and a plain store does.

use super::commits::Commits;
use super::{VirtualAlgorithm, Writes};
use crate::algorithm::{Content, Setup};
use crate::cells::{Flags, Rows};
use crate::sync::{AtomicBool, AtomicU8, Backoff, Ordering};

/// Both copies have the row.
const SAME: u8 = 0;
/// The latest value is in D; in D̄ it is `LATEST_IN_D + 1`.
const LATEST_IN_D: u8 = 1;
/// Bit of a flag: the latest value is in D̄.
const IN_SHADOW: u8 = 2;
/// Bit of a flag: it is being copied to the other one.
const COPYING: u8 = 4;

/// See the module.
pub struct VirtualPiggyback {
    /// D and D̄.
    copies: [Rows; 2],
    /// D̄b: where the latest value of each row is.
    latest: Flags,
    /// Whether `WriteToOnline` still has rows to copy.
    copying: AtomicBool,
    commits: Commits,
    /// pD: the copy that the snapshotter traverses. Its own.
    down: AtomicU8,
    rows: usize,
}

impl VirtualPiggyback {
    /// Makes the row the commit's before the snapshotter begins to copy it, or after it is copied.
    fn claim(&self, row: usize, own: u8) {
        let mut backoff = Backoff::new();
        loop {
            let state = self.latest.look(row);
            if state == own {
                return;
            }
            if state & COPYING != 0 {
                backoff.wait();
            } else if self.latest.claim(row, state, own) {
                return;
            }
        }
    }

    fn install(&self, up: usize, row: usize, value: &[u64]) {
        let own = LATEST_IN_D + u8::from(up == 1);
        if self.copying.load(Ordering::Acquire) {
            self.claim(row, own);
        } else {
            self.latest.set(row, own);
        }
        self.copies[up].store(row, value);
    }

    /// Snapshotter::WriteToOnline.
    fn write_to_online(&self, down: u8) {
        let latest_down = LATEST_IN_D + down;
        let down = usize::from(down);
        for row in 0..self.rows {
            if self.latest.get(row) == latest_down
                && self.latest.claim(row, latest_down, latest_down | COPYING)
            {
                self.copies[down ^ 1].copy_row(row, &self.copies[down]);
                self.latest.hand_over(row, SAME);
            }
        }
        self.copying.store(false, Ordering::Release);
    }
}

impl VirtualAlgorithm for VirtualPiggyback {
    const NAME: &'static str = "vpb";
    const CONTENT: Content = Content::Full;
    type Begun = ();

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            latest: Flags::new(rows, SAME, setup.pages),
            copying: AtomicBool::new(false),
            commits: Commits::new(),
            down: AtomicU8::new(1),
            rows,
        }
    }

    fn begin(&self) {}

    fn read(&self, row: usize, into: &mut [u64]) {
        let in_shadow = self.latest.look(row) & IN_SHADOW != 0;
        self.copies[usize::from(in_shadow)].load(row, into);
    }

    fn commit(&self, (): (), writes: &Writes) -> u64 {
        self.commits.commit(|up| {
            for (row, value) in writes {
                self.install(up, *row, value);
            }
        })
    }

    fn abort(&self, (): ()) {}

    fn take(&self) -> u64 {
        // From the first commit of the new period on, rows are handed over.
        let point = self.commits.swap(|| self.copying.store(true, Ordering::Release));
        let down = u8::from(self.commits.up() == 0);
        self.down.store(down, Ordering::Relaxed);
        self.write_to_online(down);
        point
    }

    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> bool {
        self.copies[usize::from(self.down.load(Ordering::Relaxed) & 1)].load(row, into);
        true
    }

    fn finish(&self) {}
}
