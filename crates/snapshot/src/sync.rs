//! Atomics and locks, the standard library's or loom's.
//!
//! Compiled with `--cfg loom` the crate uses loom's, so that `tests/loom` can try every order in
//! which the loads and stores of two threads may be seen. Nothing else differs.

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

/// Something in cache lines of its own, also of those that processors fetch in pairs: what one thread
/// writes all the time is not to be where another one reads all the time.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Lets the other thread get on with what this one waits for.
///
/// What is waited for here is the copy of one row, some hundred nanoseconds, unless the thread that
/// copies has lost its processor: so spin first, and then give the processor away.
pub(crate) struct Backoff {
    spins: u32,
}

impl Backoff {
    /// How many times to spin before the processor is given away.
    #[cfg(not(loom))]
    const SPINS_MAX: u32 = 64;

    /// A wait that begins now.
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

/// The guard, also of a lock whose holder has panicked: what the locks of this crate protect is
/// changed in single steps, so it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// [`Condvar::wait`], going on in the same way after a panic elsewhere.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}
