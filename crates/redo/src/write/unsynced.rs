//! What a flusher has written and not synced, block by block.
//!
//! The blocks are kept until they are synced, because after a failed sync nothing that the kernel
//! shows of them can be believed: they are written elsewhere, from memory. Under `no`, where a sync
//! may be long in coming, their buffers go back at once.

use std::sync::atomic::Ordering;

use base::Lsn;

use crate::shared::device::Shared;
use crate::shared::sealed_block::SealedBlock;

/// Under `everysec`, so many unsynced bytes are a reason to sync at once: they are kept in memory.
const BYTES_MAX: usize = 16 << 20;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Unsynced {
    pub(crate) lsns: Vec<Lsn>,
    /// The blocks themselves, unless the policy gives their buffers back at once.
    pub(crate) blocks: Vec<SealedBlock>,
    /// The length of `blocks`.
    bytes: usize,
}

/// How much of it there was at a moment: nothing is taken out of the middle.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    lsn_count: usize,
    block_count: usize,
    bytes: usize,
}

impl Unsynced {
    /// How much there is now.
    pub(crate) fn written(&self) -> Written {
        Written { lsn_count: self.lsns.len(), block_count: self.blocks.len(), bytes: self.bytes }
    }

    /// Counts a block as written to a device; keeps its buffer or gives it back, as the policy says.
    pub(crate) fn add(&mut self, shared: &Shared, device: usize, block: SealedBlock) {
        let device = &shared.devices[device];
        let bytes = block.buffer.len();
        device.queued_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        device.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        device.written_blocks.fetch_add(1, Ordering::Relaxed);
        self.lsns.push(block.lsn);
        if shared.keeps_unsynced.load(Ordering::Relaxed) {
            self.bytes += bytes;
            self.blocks.push(block);
        } else {
            give_back(shared, std::iter::once(block));
            if shared.is_congested.load(Ordering::Relaxed) {
                (shared.waker)();
            }
        }
    }

    /// Whether so much is kept that it is to be synced at once.
    pub(crate) const fn is_large(&self) -> bool {
        self.bytes > BYTES_MAX
    }

    /// Whether so much was added to what there was that it should wait.
    pub(crate) const fn has_much_beyond(&self, written: Written) -> bool {
        self.bytes > written.bytes + BYTES_MAX
    }

    /// What there was is synced: says so, and gives the buffers back. Whether the durable prefix is
    /// longer now.
    pub(crate) fn note_synced(&mut self, shared: &Shared, written: Written) -> bool {
        let has_advanced = shared.durability.mark_synced(self.lsns.drain(..written.lsn_count));
        let synced = self.blocks.drain(..written.block_count);
        self.bytes -= synced.as_slice().iter().map(|block| block.buffer.len()).sum::<usize>();
        give_back(shared, synced);
        has_advanced
    }
}

/// Says that the system has these blocks; wakes the executor if it waits for them.
pub(crate) fn tell_written(shared: &Shared, lsns: &[Lsn]) {
    if shared.durability.mark_written(lsns.iter().copied()) {
        (shared.waker)();
    }
}

/// Sends buffers back to the executor.
pub(crate) fn give_back(shared: &Shared, blocks: impl ExactSizeIterator<Item = SealedBlock>) {
    if blocks.len() > 0 {
        let buffers = blocks.map(|block| (block.buffer, block.marks));
        shared.post(|mail| mail.recycled.extend(buffers));
    }
}
