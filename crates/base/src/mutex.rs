//! A mutex that is counted, so that a test can show what takes none.
//!
//! It knows no poison: a thread that panics while it holds a lock ends its work, and its owner learns
//! that by joining it. What it guards is changed in steps that are each complete.

use std::cell::Cell;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

thread_local! {
    static LOCK_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many locks this thread has asked for, in a build with debug assertions.
#[must_use]
pub fn lock_count() -> u64 {
    LOCK_COUNT.get()
}

fn count() {
    if cfg!(debug_assertions) {
        LOCK_COUNT.set(LOCK_COUNT.get() + 1);
    }
}

/// See the file's top.
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits until no other thread has the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        count();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the value unless another thread has it, or has panicked while it had.
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
    fn what_a_panic_has_left_can_be_had_by_waiting_and_not_in_passing() {
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
