//! File descriptors: how many clients may have them, and how many are kept back for the log.
//!
//! ```text
//!   0 ─────────────────────────────── limit - reserve ────────────── limit (ulimit -n)
//!     clients, and what was open before   kept back: the log, per device, the process itself
//! ```
//!
//! The kernel gives the lowest number that is free. A connection whose number lies in what is kept
//! back says that everything below is taken, so it is turned away: the log can
//! always open its next segment, and close well. No counting of descriptors can be wrong.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the listeners, the event loop, the log file and the like.
const FOR_THE_PROCESS: u64 = 32;

/// For the log: manifest, compaction, scrubbing, recovery.
const FOR_THE_LOG: u64 = 32;

/// For each log device: the open segment and the next one, each also past the page cache, and the file of zeros
/// that is being written for the one after.
const FOR_A_DEVICE: u64 = 5;

/// For what reads values and keys that are not in memory. A process has one number of descriptors, and
/// so one of these: it is set at the start.
static FOR_FETCHERS: AtomicU64 = AtomicU64::new(0);

/// See the file's top.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    reserve: u64,
}

/// For the I/O threads, which poll: as [`FOR_FETCHERS`].
static FOR_FRONTS: AtomicU64 = AtomicU64::new(0);

/// So many files are enough to read what is not in memory, and too few to read it fast. They are not kept
/// back.
pub(crate) const FETCHED_FILES_MIN: usize = 2;

/// With fewer descriptors than these none are kept back for what is read fast.
const ENOUGH: u64 = 2048;

/// For the admin page: as [`FOR_FETCHERS`].
static FOR_ADMIN: AtomicU64 = AtomicU64::new(0);

impl Descriptors {
    /// Keeps back what the admin page needs: its connections, its socket and its event loop.
    pub(crate) fn keep_for_admin(connections: usize) {
        FOR_ADMIN.store(connections as u64 + 8, Ordering::Relaxed);
    }

    /// Keeps back what so many threads need that read so many files of the log each.
    pub(crate) fn keep_for_fetchers(threads: usize, files: usize) {
        // Each file may be open a second time, to be read past the page cache.
        FOR_FETCHERS.store((threads * files * 2) as u64, Ordering::Relaxed);
    }

    /// Keeps back what so many I/O threads need.
    pub(crate) fn keep_for_fronts(threads: usize) {
        FOR_FRONTS.store(threads as u64 * 2, Ordering::Relaxed);
    }

    /// How many files each thread keeps open that reads what is not in memory: `wanted`, where the system lets
    /// us have descriptors enough for that and for clients.
    pub(crate) fn fetched_files(wanted: usize) -> usize {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let is_enough = maximum.is_none_or(|maximum| maximum >= ENOUGH);
        if is_enough { wanted } else { wanted.min(FETCHED_FILES_MIN) }
    }

    /// What is kept back for a log on so many devices.
    pub(crate) fn with_devices(count: usize) -> Self {
        let devices = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        let threads = FOR_FETCHERS.load(Ordering::Relaxed) + FOR_FRONTS.load(Ordering::Relaxed);
        let admin = FOR_ADMIN.load(Ordering::Relaxed);
        let others = FOR_THE_PROCESS + FOR_THE_LOG + threads + admin;
        Self { reserve: others.saturating_add(devices.saturating_mul(FOR_A_DEVICE)) }
    }

    /// Makes room for so many clients, if the system lets us; how many there may be.
    pub(crate) fn allow_clients(self, wanted: usize) -> usize {
        let needed = (wanted as u64).saturating_add(self.reserve);
        let old = getrlimit(Resource::Nofile);
        if old.current.is_none_or(|current| current >= needed) {
            return wanted;
        }
        let raised = old.maximum.map_or(needed, |maximum| maximum.min(needed));
        let limit = Rlimit { current: Some(raised), maximum: old.maximum };
        let granted = match setrlimit(Resource::Nofile, limit) {
            Ok(()) => raised,
            Err(_) => old.current.unwrap_or(needed),
        };
        let allowed = granted.saturating_sub(self.reserve).max(1);
        usize::try_from(allowed).unwrap_or(usize::MAX).min(wanted)
    }

    /// Whether a connection with this descriptor would take what is kept back.
    pub(crate) fn is_reserved(self, descriptor: RawFd) -> bool {
        let limit = getrlimit(Resource::Nofile).current;
        // Where the limit is smaller than what should be kept back, one half of it is.
        let is_in =
            |limit: u64| descriptor_number(descriptor) >= limit - self.reserve.min(limit / 2);
        limit.is_some_and(is_in)
    }
}

fn descriptor_number(descriptor: RawFd) -> u64 {
    u64::try_from(descriptor).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptors_are_kept_back() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        let descriptors = Descriptors::with_devices(4);
        assert_eq!(descriptors.reserve, 32 + 32 + 4 * 5);
        let at = |number: u64| descriptors.is_reserved(RawFd::try_from(number).unwrap());
        assert!(!at(3));
        assert_eq!(at(limit - 1), getrlimit(Resource::Nofile).current.is_some());
        assert!(descriptors.allow_clients(10) == 10);
    }
}
