//! The file of zeros that a device has ready for its next segment.
//!
//! ```text
//!            begin                 finish                take             end_taking
//!   Nothing ───────► Begun ─────────────────► Ready ──────────────► Taken ───────────► Nothing
//!      ▲               │     (preparer)         │      (flusher)
//!      └── give_up ────┴────────────────────────┘   the disk is full, the device is let go
//! ```
//!
//! A segment that is written over zeros neither grows nor gets its place while it takes blocks: a sync
//! has nothing but their bytes to write. The zeros are new ones each time. Blocks of an earlier file
//! are not used again, so that none of them can be taken for a block of this one.
//!
//! The lock is held during I/O by [`Spare::give_up`] alone. What begins a segment, and the executor, do not wait for
//! it: there are no zeros then.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use base::Mutex;
use env::{Disk, File};

use crate::format::segment;

/// A file of zeros that are durable, under its temporary name.
pub(crate) struct Zeros {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    /// How many there are: whole pages.
    pub(crate) bytes: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Begun(Arc<dyn File>),
    Ready(Zeros),
    /// A flusher is about to rename it.
    Taken,
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Spare {
    state: Mutex<State>,
    /// The open segment has no zeros left, and is worth being ended for these.
    is_offered: AtomicBool,
    /// None is begun before this time: the disk was full, perhaps because of one.
    rests_until_us: AtomicU64,
}

impl Spare {
    /// Whether there is none, and none on its way.
    pub(crate) fn is_wanting(&self, now_us: u64) -> bool {
        now_us >= self.rests_until_us.load(Ordering::Acquire)
            && matches!(*self.state.lock(), State::Nothing)
    }

    /// None is begun before this time.
    pub(crate) fn rest(&self, until_us: u64) {
        self.rests_until_us.store(until_us, Ordering::Release);
    }

    /// How many zeros are ready.
    pub(crate) fn ready_bytes(&self) -> Option<u64> {
        match self.state.try_lock().as_deref() {
            Some(State::Ready(zeros)) => Some(zeros.bytes),
            _ => None,
        }
    }

    /// The preparer has made the file.
    pub(crate) fn begin(&self, file: &Arc<dyn File>) {
        *self.state.lock() = State::Begun(Arc::clone(file));
    }

    /// Whether this is still the file that is to be filled: it may have been given up.
    pub(crate) fn is_begun(&self, file: &Arc<dyn File>) -> bool {
        matches!(&*self.state.lock(), State::Begun(begun) if Arc::ptr_eq(begun, file))
    }

    /// It is filled and durable.
    pub(crate) fn finish(&self, zeros: Zeros) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Begun(begun) if Arc::ptr_eq(begun, &zeros.file)) {
            *state = State::Ready(zeros);
        }
    }

    /// Gives it to a flusher that begins a segment, if it is ready. [`Spare::end_taking`] follows.
    pub(crate) fn take(&self) -> Option<Zeros> {
        let mut state = self.state.try_lock()?;
        self.is_offered.store(false, Ordering::Release);
        match std::mem::take(&mut *state) {
            State::Ready(zeros) => {
                *state = State::Taken;
                Some(zeros)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// The file has its name, or is removed: the next one may be begun under the temporary name.
    pub(crate) fn end_taking(&self) {
        *self.state.lock() = State::Nothing;
    }

    /// Has the executor end the open segment, which has no zeros.
    pub(crate) fn offer(&self) {
        self.is_offered.store(true, Ordering::Release);
    }

    /// Whether the open segment should end for one that is written over zeros; says so once. Takes no
    /// lock: the executor asks at each block.
    pub(crate) fn take_offer(&self) -> bool {
        self.is_offered.load(Ordering::Acquire) && self.is_offered.swap(false, Ordering::AcqRel)
    }

    /// Removes it from the disk, done or not. Whether there was one.
    pub(crate) fn give_up(&self, disk: &dyn Disk, dir: &Path) -> bool {
        let mut state = self.state.lock();
        match std::mem::take(&mut *state) {
            State::Nothing => return false,
            State::Taken => {
                *state = State::Taken;
                return false;
            }
            // What fills it still has it open: without a name it would keep its room.
            State::Begun(file) => _ = file.set_len(0),
            State::Ready(_) => {}
        }
        remove(disk, dir);
        true
    }

    /// Forgets it without a call to the disk: the device has failed.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Taken) {
            *state = State::Nothing;
        }
    }
}

/// Removes the file under its temporary name, if there is one. Nothing needs that it is gone.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) {
    if disk.remove(&segment::spare_path(dir)).is_ok() {
        // Only now may a file system give the blocks to other files.
        let _ = disk.sync_dir(dir);
    }
}

/// What the preparer is told.
pub(crate) struct ZerosOrders {
    /// So many blocks a device has written since the start when zeros are worth their writing.
    blocks_min: Option<u64>,
    is_enabled: AtomicBool,
    is_ending: Mutex<bool>,
    changed: Condvar,
}

impl ZerosOrders {
    /// For devices that have written `blocks_min` blocks; `None` for no device.
    pub(crate) fn new(blocks_min: Option<u64>) -> Self {
        Self {
            blocks_min,
            is_enabled: AtomicBool::new(blocks_min.is_some()),
            is_ending: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.is_enabled.store(enabled, Ordering::Release);
    }

    /// Whether a device that has written so many blocks is to have zeros.
    pub(crate) fn wants(&self, blocks: u64) -> bool {
        self.is_enabled.load(Ordering::Acquire) && self.blocks_min.is_some_and(|min| blocks >= min)
    }

    pub(crate) fn end(&self) {
        *self.is_ending.lock() = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.is_ending.lock()
    }

    /// Waits for `timeout`, or until it is to end.
    pub(crate) fn wait(&self, timeout: Duration) {
        let is_ending = self.is_ending.lock();
        if !*is_ending {
            let _ = self.changed.wait_timeout(is_ending, timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env_sim::{Faults, SimDisk};

    fn zeros(disk: &SimDisk, dir: &Path) -> Zeros {
        let path = segment::spare_path(dir);
        let file: Arc<dyn File> = Arc::from(disk.create(&path).unwrap());
        Zeros { path, file, bytes: 4096 }
    }

    fn world() -> (SimDisk, PathBuf, Spare) {
        let (disk, dir) = (SimDisk::new(1, Faults::default()), PathBuf::from("/redo"));
        disk.create_dir_all(&dir).unwrap();
        (disk, dir, Spare::default())
    }

    #[test]
    fn its_name_is_in_use_until_a_flusher_has_renamed_it() {
        let (disk, dir, spare) = world();
        assert!(spare.take().is_none() && spare.is_wanting(0));
        let made = zeros(&disk, &dir);
        spare.begin(&made.file);
        assert!(spare.take().is_none() && !spare.is_wanting(0));
        spare.finish(made);
        assert_eq!(spare.ready_bytes(), Some(4096));
        spare.offer();
        assert!(spare.take_offer() && !spare.take_offer(), "once");
        spare.offer();
        assert!(spare.take().is_some());
        assert!(!spare.is_wanting(0) && !spare.take_offer());
        spare.end_taking();
        assert!(spare.is_wanting(0));
    }

    #[test]
    fn a_segment_does_not_wait_for_a_removal() {
        let (disk, dir, spare) = world();
        let made = zeros(&disk, &dir);
        spare.begin(&made.file);
        spare.finish(made);
        let removal = spare.state.lock();
        assert!(spare.take().is_none() && spare.ready_bytes().is_none());
        drop(removal);
        assert!(spare.take().is_some());
    }

    #[test]
    fn what_was_given_up_is_neither_filled_nor_ready() {
        let (disk, dir, spare) = world();
        let made = zeros(&disk, &dir);
        spare.begin(&made.file);
        assert!(spare.is_begun(&made.file));
        assert!(spare.give_up(&disk, &dir) && !spare.is_begun(&made.file));
        assert!(!disk.exists(&segment::spare_path(&dir)).unwrap());
        spare.finish(made);
        assert!(spare.ready_bytes().is_none() && spare.is_wanting(0));
        assert!(!spare.give_up(&disk, &dir), "once");
    }

    #[test]
    fn what_a_flusher_has_is_not_given_up() {
        let (disk, dir, spare) = world();
        let made = zeros(&disk, &dir);
        spare.begin(&made.file);
        spare.finish(made);
        let taken = spare.take().unwrap();
        assert!(!spare.give_up(&disk, &dir));
        spare.forget();
        assert!(!spare.is_wanting(0) && disk.exists(&taken.path).unwrap());
    }
}
