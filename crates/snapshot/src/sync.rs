//! Atomics and locks, from the standard library or from loom.
//!
//! Compiled with `--cfg loom`, the crate uses loom's, so that `tests/loom` can try every order in
//! which the loads and stores of two threads may become visible. Nothing else differs.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};

/// A value in cache lines of its own, padded for processors that fetch lines in pairs. What one
/// thread often writes must not share a line with what another often reads.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Waits for progress of another thread.
///
/// The wait is for the copy of one row, some hundred nanoseconds, unless the copying thread has
/// lost its processor: so spin first, then yield.
pub(crate) struct Backoff {
    spins: u32,
}

impl Backoff {
    /// Spins before the thread yields.
    #[cfg(not(loom))]
    const SPINS_MAX: u32 = 64;

    /// Begins a wait.
    pub(crate) fn new() -> Self {
        Self { spins: 0 }
    }

    /// Waits a moment.
    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.spins < Self::SPINS_MAX {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.spins = self.spins.saturating_add(1);
    }
}

/// Locks, also after a panic of another holder. The locks of this crate protect state that changes
/// in single steps, so it is consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// As [`Condvar::wait`]; continues in the same way after a panic elsewhere.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}
