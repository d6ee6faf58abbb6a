//! Row locks for strict two-phase locking.
//!
//! One byte per row: 0 free, n shared by n readers, 255 exclusive. A transaction that does not
//! obtain a lock after some tries gives up and releases everything, so no deadlock detection is
//! needed.

use crate::sync::{AtomicU8, Backoff, Ordering};

const FREE: u8 = 0;
const EXCLUSIVE: u8 = u8::MAX;
const SHARED_MAX: u8 = EXCLUSIVE - 1;
/// Tries before giving up.
const TRIES_MAX: usize = if cfg!(loom) { 1 } else { 200 };

/// The mode of a lock, the weaker first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Reading, together with other readers.
    Shared,
    /// Writing, alone.
    Exclusive,
}

/// A lock for each row.
pub(super) struct Locks {
    cells: Vec<AtomicU8>,
}

impl Locks {
    pub(super) fn new(rows: usize) -> Self {
        Self { cells: (0..rows).map(|_| AtomicU8::new(FREE)).collect() }
    }

    /// Tries to upgrade a lock held as `held` to `mode`. Returns whether it was granted.
    pub(super) fn acquire(&self, row: usize, held: Option<Mode>, mode: Mode) -> bool {
        let mut backoff = Backoff::new();
        for _ in 0..TRIES_MAX {
            let state = self.cells[row].load(Ordering::Relaxed);
            let wanted = match (held, mode) {
                (None, Mode::Shared) if state < SHARED_MAX => Some(state + 1),
                (None, Mode::Exclusive) if state == FREE => Some(EXCLUSIVE),
                // The one reader is the caller.
                (Some(_), Mode::Exclusive) if state == 1 => Some(EXCLUSIVE),
                _ => None,
            };
            if wanted.is_some_and(|wanted| {
                self.cells[row]
                    .compare_exchange(state, wanted, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            }) {
                return true;
            }
            backoff.wait();
        }
        false
    }

    /// Releases a lock.
    pub(super) fn release(&self, row: usize, mode: Mode) {
        match mode {
            Mode::Shared => {
                self.cells[row].fetch_sub(1, Ordering::Release);
            }
            Mode::Exclusive => self.cells[row].store(FREE, Ordering::Release),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let locks = Locks::new(1);
        assert!(locks.acquire(0, None, Mode::Shared) && locks.acquire(0, None, Mode::Shared));
        assert!(!locks.acquire(0, None, Mode::Exclusive), "there are readers");
        assert!(!locks.acquire(0, Some(Mode::Shared), Mode::Exclusive), "there is another reader");
        locks.release(0, Mode::Shared);
        assert!(locks.acquire(0, Some(Mode::Shared), Mode::Exclusive));
        assert!(!locks.acquire(0, None, Mode::Shared), "there is a writer");
        locks.release(0, Mode::Exclusive);
        assert!(locks.acquire(0, None, Mode::Exclusive));
    }
}
