//! What the threads of a log share: executor, flushers, compactor, scrubber, readers.
//!
//! `device` has one device with its queue, the mailbox of the executor, and all of it together;
//! `devices` the devices in their order. `durability` is how far the log is written and synced,
//! `sealed_block` what goes from the executor to a flusher, `step` what step machines say, and
//! `dropped_deletes` what the compactor tells readers of blocks. `index_bound` keeps from compaction what
//! a log index does not know yet, and `leaders` remembers which segments share a file. `spare` is the file
//! of zeros that a device has ready, `sync_times` how long its syncs took.

pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod dropped_deletes;
pub(crate) mod durability;
pub(crate) mod index_bound;
pub(crate) mod leaders;
pub(crate) mod sealed_block;
pub(crate) mod spare;
pub(crate) mod step;
pub(crate) mod sync_times;
pub(crate) mod used_kinds;
