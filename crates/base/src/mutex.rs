//! A mutex that counts its locks, so that a test can prove that a path takes none.
//!
//! It has no poisoning: a thread that panics while it holds a lock ends its work, and its owner
//! learns that by joining it. The guarded value changes in steps that are each complete.

use std::cell::Cell;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

thread_local! {
    static LOCK_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many locks this thread has requested, in a build with debug assertions.
#[must_use]
pub fn lock_count() -> u64 {
    LOCK_COUNT.get()
}

fn count() {
    if cfg!(debug_assertions) {
        LOCK_COUNT.set(LOCK_COUNT.get() + 1);
    }
}

/// A mutex that counts its locks; see the top of this file.
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a mutex that guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Locks the value, waiting for other threads.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        count();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value, unless another thread holds it or has panicked while holding it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        count();
        self.0.try_lock().ok()
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_is_counted_where_it_is_taken() {
        let mutex = Mutex::new(1);
        let before = lock_count();
        *mutex.lock() += 1;
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert_eq!(lock_count() - before, 3);
        let elsewhere = std::thread::scope(|scope| scope.spawn(lock_count).join());
        assert_eq!(elsewhere.ok(), Some(0));
    }

    #[test]
    fn after_a_panic_lock_succeeds_and_try_lock_fails() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _held = mutex.lock();
                    panic!("on purpose");
                })
                .join()
                .is_err()
        });
        assert!(panicked && mutex.try_lock().is_none());
        assert_eq!(*mutex.lock(), 1);
    }
}
