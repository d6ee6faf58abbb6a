//! Algorithm 2: the log is read into the online log table, and that is all.
//!
//! ```text
//!   master record ─► checkpoint record ─► dirty page table, slots
//!   log from the redo starting point ─► online log table; its pages are EvictedDirty
//! ```
//!
//! Lines 11 to 13 of the paper read each page to compare its LSN with the record's. Here that
//! comparison is made by on-the-fly redo when the page is first used ([`crate::pool`]), so that
//! starting reads no page at all. Line 18's checkpoint saves the dirty page table and writes no page.
//!
//! After a failed sync the kernel may show bytes that are not on the device. So the last flush of
//! the log and the master record are written and synced again before anything relies on them.

use crate::checkpoint::CheckpointRecord;
use crate::core::Core;
use crate::data_file::{DataFile, Slots};
use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{FIRST_LSN, GroupKind, LOG_PAGE_BYTES, LogBuffer};
use crate::options::{Env, Options};
use crate::pool::Pool;
use crate::position::{Lsn, PageId};
use crate::replay::{Replayed, replay};

/// Opens the files and brings the store to where it was, but for the checkpoint that the caller
/// then takes (line 18).
pub(crate) fn recover(env: &Env, options: Options, salt: u64) -> Result<Core> {
    let first = Lsn(LOG_PAGE_BYTES as u64);
    let disk = std::sync::Arc::clone(&env.disk);
    let segment_bytes = options.log_segment_bytes;
    let files = LogFiles::new(disk.clone(), &options.dir, segment_bytes);
    let is_log = !files.segments()?.is_empty();
    let data = DataFile::open(disk.as_ref(), &options.dir, salt, first, segment_bytes, is_log)?;
    let salt = data.salt();
    let mut files = LogFiles::new(disk, &options.dir, data.segment_bytes());
    let master = data.master()?;
    let record = read_checkpoint(&files, &data, salt, master.checkpoint)?;
    let redo_start = record.redo_start();
    let replayed = replay(&record, options.upkeep, |visit| {
        files.scan(salt, redo_start, master.durable_end, true, visit)
    })?;
    let (end, Replayed { table, last_transaction }) = replayed;
    data.write_master(&master)?;
    let mut pool = Pool::new(data, options.pool_bytes, options.flush_on_eviction, record.slots);
    pool.table = table;
    pool.durable_end = Lsn(end.next_page * LOG_PAGE_BYTES as u64);
    pool.mark_all_evicted();
    let log = LogBuffer::new(salt, end.next_page, end.previous_crc);
    let mut core = Core::new(pool, log, files, master, options);
    core.redo_start = redo_start;
    core.next_transaction = last_transaction.min(u64::MAX / 2) + 1;
    if master.checkpoint == Lsn(0) && !core.pool.table.has(PageId::META) {
        core.bootstrap()?;
    }
    Ok(core)
}

fn read_checkpoint(
    files: &LogFiles,
    data: &DataFile,
    salt: u64,
    lsn: Lsn,
) -> Result<CheckpointRecord> {
    if lsn == Lsn(0) {
        return Ok(CheckpointRecord {
            begin: FIRST_LSN,
            dirty_pages: Vec::new(),
            active: Vec::new(),
            slots: Slots::default(),
        });
    }
    let found = files.read_group(salt, lsn, |group| {
        let is_checkpoint = group.lsn == lsn && group.kind == GroupKind::Checkpoint;
        is_checkpoint.then(|| CheckpointRecord::decode(group.body))?
    })?;
    let what = format!("the checkpoint record is not at {lsn}, where the master record says");
    found.ok_or_else(|| Error::corrupt(data.path(), 4096, what))
}
