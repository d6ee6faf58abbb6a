//! CALC (section 4.2.1): five phases, some of which copy on update.
//!
//! ```text
//!   phase      a transaction that begins in it              the phase ends when
//!   rest       writes D                                     a snapshot is triggered
//!   prepare    keeps the old value in D̄, writes D           those begun in rest have ended
//!   ─────────────────────────── virtual point of consistency ───────────────────────────
//!   resolve    keeps the old value if there is none, D      those begun in prepare have ended
//!   capture    the same                                     the snapshot was traversed
//!   complete   writes D                                     those begun before have ended
//! ```
//!
//! At the point, the snapshot contains all that is committed. A transaction that began in *prepare*
//! does not know yet on which side it will be, so it keeps the old values. If it commits in
//! *prepare*, they are dropped; if it commits in *resolve*, they are *made available*: the snapshot
//! contains them. A transaction that begins later is certainly after the point, and makes the old
//! values available immediately.
//!
//! The snapshot of a row is the old value if one is available, otherwise the latest. The
//! snapshotter takes no lock for this: it reads the latest value and checks the flag *afterwards*.
//! A transaction sets the flag *before* writing the latest value, so a value that may be torn or
//! too new comes with a flag that redirects to the old one. Fences keep this order on both sides.

use super::{VirtualAlgorithm, Writes};
use crate::algorithm::{Content, Setup};
use crate::cells::{Flags, Rows};
use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, fence, lock, wait};

/// A phase; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No snapshot is being taken.
    Rest,
    /// Before the point.
    Prepare,
    /// After the point, with active transactions that began before it.
    Resolve,
    /// The snapshot is being traversed.
    Capture,
    /// The snapshot has been traversed.
    Complete,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The number of active transactions, by the phase in which they began.
    active: [usize; 5],
    commits: u64,
}

impl State {
    fn active(&self, phases: &[Phase]) -> usize {
        phases.iter().map(|phase| self.active[*phase as usize]).sum()
    }
}

/// CALC; see the module.
pub struct Calc {
    d: Rows,
    stable: Rows,
    /// 1 if `stable` has the snapshot's value of the row.
    available: Flags,
    state: Mutex<State>,
    ended: Condvar,
}

impl Calc {
    /// Waits until no active transaction began in one of these phases.
    fn wait_for<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        phases: &[Phase],
    ) -> MutexGuard<'a, State> {
        while state.active(phases) > 0 {
            state = wait(&self.ended, state);
        }
        state
    }

    fn end(&self, begun: Phase) {
        let mut state = lock(&self.state);
        state.active[begun as usize] -= 1;
        if state.active[begun as usize] == 0 {
            self.ended.notify_all();
        }
    }

    fn install(&self, begun: Phase, row: usize, value: &[u64]) {
        let keeps = matches!(begun, Phase::Prepare | Phase::Resolve | Phase::Capture);
        if keeps && self.available.get(row) == 0 {
            self.stable.copy_row(row, &self.d);
            if begun != Phase::Prepare {
                self.available.hand_over(row, 1);
                fence(Ordering::Release);
            }
        }
        self.d.store(row, value);
    }
}

impl VirtualAlgorithm for Calc {
    const NAME: &'static str = "calc";
    const CONTENT: Content = Content::Full;
    type Begun = Phase;

    fn load(setup: &Setup<'_>) -> Self {
        Self {
            d: setup.initial_rows(),
            stable: setup.empty_rows(),
            available: Flags::new(setup.shape.rows(), 0, setup.pages),
            state: Mutex::new(State { phase: Phase::Rest, active: [0; 5], commits: 0 }),
            ended: Condvar::new(),
        }
    }

    fn begin(&self) -> Phase {
        let mut state = lock(&self.state);
        let phase = state.phase;
        state.active[phase as usize] += 1;
        phase
    }

    fn read(&self, row: usize, into: &mut [u64]) {
        self.d.load(row, into);
    }

    fn commit(&self, begun: Phase, writes: &Writes) -> u64 {
        for (row, value) in writes {
            self.install(begun, *row, value);
        }
        let (number, phase) = {
            let mut state = lock(&self.state);
            state.commits += 1;
            (state.commits, state.phase)
        };
        if begun == Phase::Prepare && phase == Phase::Resolve {
            for row in writes.keys() {
                self.available.hand_over(*row, 1);
            }
        }
        self.end(begun);
        number
    }

    fn abort(&self, begun: Phase) {
        self.end(begun);
    }

    fn take(&self) -> u64 {
        let mut state = lock(&self.state);
        state.phase = Phase::Prepare;
        let mut state = self.wait_for(state, &[Phase::Rest, Phase::Complete]);
        state.phase = Phase::Resolve;
        let point = state.commits;
        let mut state = self.wait_for(state, &[Phase::Prepare]);
        state.phase = Phase::Capture;
        point
    }

    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> bool {
        if self.available.look(row) == 0 {
            self.d.load(row, into);
            fence(Ordering::Acquire);
            if self.available.look(row) == 0 {
                return true;
            }
        }
        self.stable.load(row, into);
        true
    }

    /// Transactions that began in *complete* or later use no flags, so the flags are cleared
    /// meanwhile.
    fn finish(&self) {
        let mut state = lock(&self.state);
        state.phase = Phase::Complete;
        drop(self.wait_for(state, &[Phase::Resolve, Phase::Capture]));
        self.available.clear();
        lock(&self.state).phase = Phase::Rest;
    }
}
