//! The commit order, and how the pointer-swapping algorithms divide it into periods.
//!
//! ```text
//!   commit        number and period, in one step ── install the writes ── done
//!   snapshotter   swap: the next number belongs to the other period ── wait for installers of the old
//! ```

use crate::sync::{Condvar, Mutex, lock, wait};

#[derive(Debug, Default)]
struct State {
    commits: u64,
    up: usize,
    installing: [usize; 2],
}

/// Assigns each commit to a period.
#[derive(Debug)]
pub(super) struct Commits {
    state: Mutex<State>,
    drained: Condvar,
}

impl Commits {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State::default()), drained: Condvar::new() }
    }

    /// Commits a transaction that has all of its locks: passes `install` the copy to write. Returns
    /// its number.
    pub(super) fn commit(&self, install: impl FnOnce(usize)) -> u64 {
        let (number, up) = {
            let mut state = lock(&self.state);
            state.commits += 1;
            let up = state.up;
            state.installing[up] += 1;
            (state.commits, up)
        };
        install(up);
        let mut state = lock(&self.state);
        state.installing[up] -= 1;
        if state.installing[up] == 0 {
            self.drained.notify_all();
        }
        number
    }

    /// Begins a new period, calling `swapped` before the first commit in it. Waits until all
    /// commits of the old period have installed, and returns their number.
    pub(super) fn swap(&self, swapped: impl FnOnce()) -> u64 {
        let mut state = lock(&self.state);
        let down = state.up;
        state.up ^= 1;
        swapped();
        let point = state.commits;
        while state.installing[down] > 0 {
            state = wait(&self.drained, state);
        }
        point
    }

    /// The copy that transactions write. Only the snapshotter's own swap changes it.
    pub(super) fn up(&self) -> usize {
        lock(&self.state).up
    }
}
