//! The memory manager (4.3.2): buffers for arriving pages and for reading back, within a fixed
//! number of bytes; and eviction of written files from the host's cache.
//!
//! The paper buffers whole files in mappings and unmaps them. Here, pages pass through buffers of
//! one frame each, which is enough because pages are verified singly. `fadvise` drops what the
//! kernel keeps of a written file, and `cachestat` tells whether it is gone, as `mincore` does in
//! the paper.
//!
//! Buffers begin at a page boundary, so that reads past the host's cache can fill them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use env::File;

use crate::frame::{BODY_MAX, PAGE_BYTES};

/// The memory of one buffer.
pub(crate) const BUFFER_BYTES: u64 = (BODY_MAX + PAGE_BYTES) as u64;

/// Hands out buffers, and evicts files from the host's memory.
#[derive(Debug)]
pub struct MemoryManager {
    free: Mutex<Pool>,
    returned: Condvar,
    resident_bytes: AtomicU64,
}

#[derive(Debug)]
struct Pool {
    /// Memory for reuse.
    spare: Vec<Vec<u8>>,
    /// Buffers in use.
    out: usize,
    out_peak: usize,
    out_max: usize,
    closed: bool,
}

impl MemoryManager {
    /// Creates a manager of at most `memory_bytes`, but at least two buffers.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Arc<Self> {
        let out_max = usize::try_from(memory_bytes / BUFFER_BYTES).unwrap_or(usize::MAX).max(2);
        Arc::new(Self {
            free: Mutex::new(Pool {
                spare: Vec::new(),
                out: 0,
                out_peak: 0,
                out_max,
                closed: false,
            }),
            returned: Condvar::new(),
            resident_bytes: AtomicU64::new(0),
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a buffer; `None` after [`MemoryManager::close`].
    #[must_use]
    pub fn allocate(self: &Arc<Self>) -> Option<Buffer> {
        let mut pool = self.pool();
        while pool.out >= pool.out_max && !pool.closed {
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        if pool.closed {
            return None;
        }
        pool.out += 1;
        pool.out_peak = pool.out_peak.max(pool.out);
        let spare = pool.spare.pop();
        drop(pool);
        let memory = spare.unwrap_or_else(|| vec![0; BODY_MAX + PAGE_BYTES]);
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        Some(Buffer { memory, start, len: 0, owner: Arc::clone(self) })
    }

    /// Ends all waiting for buffers.
    pub fn close(&self) {
        self.pool().closed = true;
        self.returned.notify_all();
    }

    /// The most bytes in use at a time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.pool().out_peak as u64 * BUFFER_BYTES
    }

    /// Evicts a range of a synced file from the host's memory. What stays nevertheless is counted:
    /// it would be verified from memory if it were not read past the cache.
    pub fn invalidate(&self, file: &dyn File, offset: u64, len: u64) {
        file.drop_cache(offset, len);
        if let Some(resident) = file.cached_bytes(offset, len) {
            self.resident_bytes.fetch_add(resident, Ordering::Relaxed);
        }
    }

    /// Bytes that stayed in the host's memory after an eviction.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }
}

/// Memory for the pages of one frame. Dropping it returns it.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    owner: Arc<MemoryManager>,
}

impl Buffer {
    /// Resizes it to `len` bytes and returns them, with undefined contents.
    ///
    /// # Panics
    /// If that is more than the pages of a frame.
    pub fn resize(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= BODY_MAX, "a buffer holds the pages of one frame");
        self.len = len;
        &mut self.memory[self.start..self.start + len]
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut pool = self.owner.pool();
        pool.out -= 1;
        pool.spare.push(std::mem::take(&mut self.memory));
        drop(pool);
        self.owner.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use env::Disk;

    use super::*;

    #[test]
    fn holds_no_more_than_it_was_given() {
        let memory = MemoryManager::new(3 * BUFFER_BYTES);
        let buffers: Vec<Buffer> = (0..3).map(|_| memory.allocate().unwrap()).collect();
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| memory.allocate().is_some());
            drop(buffers);
            waiting.join().unwrap()
        });
        assert!(waiting);
        assert_eq!(memory.peak_bytes(), 3 * BUFFER_BYTES);
    }

    #[test]
    fn a_waiting_thread_gets_nothing_when_it_is_closed() {
        let memory = MemoryManager::new(0);
        let _held = (memory.allocate().unwrap(), memory.allocate().unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| memory.allocate().is_none());
            memory.close();
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn buffers_begin_at_a_page() {
        let memory = MemoryManager::new(0);
        let mut buffer = memory.allocate().unwrap();
        assert_eq!(buffer.resize(5).as_ptr().addr() % PAGE_BYTES, 0);
        assert_eq!(buffer.bytes().len(), 5);
    }

    #[test]
    fn a_synced_file_leaves_the_hosts_memory() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = env_os::OsDisk.create(&dir.path().join("file")).unwrap();
        file.write_all_at(&[1; 1 << 20], 0).unwrap();
        let Some(cached) = file.cached_bytes(0, 1 << 20) else {
            println!("skipped: this kernel has no cachestat");
            return;
        };
        assert_eq!(cached, 1 << 20, "what was written is in memory first");
        file.sync_data().unwrap();
        let memory = MemoryManager::new(0);
        memory.invalidate(&*file, 0, 1 << 20);
        assert_eq!((memory.resident_bytes(), file.cached_bytes(0, 1 << 20)), (0, Some(0)));
    }

    #[test]
    fn what_cannot_be_invalidated_is_counted() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = env_os::OsDisk.create(&dir.path().join("file")).unwrap();
        file.write_all_at(&[1; 1 << 16], 0).unwrap();
        let memory = MemoryManager::new(0);
        // Not synced: dirty pages stay.
        memory.invalidate(&*file, 0, 1 << 16);
        if file.cached_bytes(0, 1).is_some() {
            assert_eq!(memory.resident_bytes(), 1 << 16);
        }
    }
}
