//! The gate between the client and the taken phase: the paper's "lock Client".
//!
//! ```text
//!   client       ──[ tick: reads and writes ]──────────[ tick ]────────── time ──►
//!   snapshotter            close() waits ····[ closed ]
//!                                             the state taken is the one between two ticks
//! ```
//!
//! The client passes the gate once per tick (a batch, a command, a transaction: any complete unit),
//! not once per write; outside ticks, its data are consistent. The snapshotter closes the gate for
//! its taken phase. A waiting snapshotter goes before a client that comes later, so that ticks
//! without a pause cannot starve it.
//!
//! What either side did on its side of the gate is visible to the other after passing it: the mutex
//! inside orders it.

use crate::sync::{Condvar, Mutex, lock, wait};

#[derive(Debug, Default)]
struct State {
    client_inside: bool,
    closers: usize,
    closed: bool,
}

/// The gate: keeps the client out during the taken phase.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    /// Creates an open gate with no thread inside.
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::default()), changed: Condvar::new() }
    }

    /// Lets the client in, after a snapshotter that is inside or waiting.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let mut state = lock(&self.state);
        while state.closed || state.closers > 0 {
            state = wait(&self.changed, state);
        }
        assert!(!state.client_inside, "there is one client, and it enters once");
        state.client_inside = true;
        Entered { gate: self }
    }

    /// Waits until the client is outside, and keeps it out.
    pub(crate) fn close(&self) -> Closed<'_> {
        let mut state = lock(&self.state);
        state.closers += 1;
        while state.client_inside || state.closed {
            state = wait(&self.changed, state);
        }
        state.closers -= 1;
        state.closed = true;
        Closed { gate: self }
    }

    /// Closes the gate if the client is outside.
    pub(crate) fn try_close(&self) -> Option<Closed<'_>> {
        let mut state = lock(&self.state);
        if state.client_inside || state.closed {
            return None;
        }
        state.closed = true;
        Some(Closed { gate: self })
    }
}

/// The client is inside while this exists.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    gate: &'a Gate,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        lock(&self.gate.state).client_inside = false;
        self.gate.changed.notify_all();
    }
}

/// Proof that the client is outside; it stays there while this exists.
#[derive(Debug)]
pub struct Closed<'a> {
    gate: &'a Gate,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        lock(&self.gate.state).closed = false;
        self.gate.changed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_for_the_client_and_goes_first() {
        let gate = Gate::new();
        let entered = gate.enter();
        assert!(gate.try_close().is_none());
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| drop(gate.close()));
            while lock(&gate.state).closers == 0 {
                std::thread::yield_now();
            }
            let client = scope.spawn(|| {
                drop(entered);
                // The closer has waited longer: this must come after it, and must succeed.
                drop(gate.enter());
            });
            closer.join().unwrap();
            client.join().unwrap();
        });
        assert!(gate.try_close().is_some());
    }
}
