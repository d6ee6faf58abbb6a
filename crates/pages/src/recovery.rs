//! Algorithm 2: recovery reads the log into memory, and nothing else.
//!
//! ```text
//!   master record ─► checkpoint record ─► dirty page table, slots
//!   log from the redo starting point ─► unsettled records        ◄─ transactions may begin
//!                                     ─► online log table; its pages are EvictedDirty
//!                                     ─► line 18: a checkpoint that writes no page
//! ```
//!
//! Lines 11 to 13 of the paper read each page to compare its log offset with the record's. Here
//! on-the-fly redo makes that comparison when the page is first used ([`crate::pool`]), so that a
//! start reads no page at all. Records go to the online log table when their pages are first used,
//! and concurrently with the first transactions ([`crate::unsettled`]). Until the checkpoint of
//! line 18, which saves the dirty page table, another crash restarts recovery from the same place.
//!
//! After a failed sync, the kernel may show bytes that are not on the device. So recovery writes
//! and syncs the last flush of the log and the master record again before relying on them.

use std::sync::Arc;

use crate::checkpoint::{CheckpointRecord, Effort};
use crate::core::Core;
use crate::data_file::{DataFile, Slots};
use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{FIRST_OFFSET, GroupKind, LOG_PAGE_BYTES, LogBuffer};
use crate::log_reader::WINDOW_BYTES;
use crate::log_scan::Readers;
use crate::options::{Env, Options, Upkeep};
use crate::pool::Pool;
use crate::position::{LogOffset, PageId};
use crate::replay::Needed;
use crate::shared_log::SharedLog;
use crate::unsettled::Unsettled;

/// Opens the files and restores the committed state. [`Core::advance_restart`] does the rest of the
/// restart.
pub(crate) fn recover(env: &Env, options: Options, salt: u64) -> Result<Core> {
    let first = LogOffset(LOG_PAGE_BYTES as u64);
    let disk = Arc::clone(&env.disk);
    let segment_bytes = options.log_segment_bytes;
    let files = LogFiles::new(disk.clone(), &options.dir, segment_bytes);
    let is_log = !files.segments()?.is_empty();
    let data = DataFile::open(disk.as_ref(), &options.dir, salt, first, segment_bytes, is_log)?;
    let salt = data.salt();
    let mut files = LogFiles::new(disk, &options.dir, data.segment_bytes());
    let master = data.master()?;
    let readers = match options.upkeep {
        Upkeep::Inline => Readers::One,
        Upkeep::Background => Readers::SideBySide,
    };
    let mut buffer = readers.buffer(files.disk());
    let window = &mut buffer[..WINDOW_BYTES];
    let record = read_checkpoint(&files, &data, salt, master.checkpoint, window)?;
    let redo_start = record.redo_start();
    let needed = Needed::new(&record);
    let (end, replayed) =
        files.scan(salt, redo_start, master.durable_end, readers, &mut buffer, &needed)?;
    files.rewrite_last(salt, end, &mut buffer)?;
    data.write_master(&master)?;
    let last_transaction = replayed.iter().map(|range| range.last_transaction).max().unwrap_or(0);
    let log_buffer = LogBuffer::new(salt, end.next_page, end.previous_crc);
    let next_transaction = last_transaction.min(u64::MAX / 2) + 1;
    let log = SharedLog::new(log_buffer, files, options.log_buffer_bytes, next_transaction);
    let (pool_bytes, is_flushing) = (options.pool_bytes, options.flush_on_eviction);
    let mut pool = Pool::new(data, pool_bytes, is_flushing, record.slots, Arc::new(log));
    pool.unsettled = Unsettled::new(replayed.into_iter().map(|range| range.records).collect());
    let mut core = Core::new(pool, master, redo_start, options);
    if master.checkpoint == LogOffset(0) && !core.pool.has_records(PageId::META) {
        core.bootstrap()?;
    }
    Ok(core)
}

impl Core {
    /// Moves a restart on: settles some of the records, or begins the checkpoint of line 18.
    /// Returns false if there is nothing left to do for now.
    pub(crate) fn advance_restart(&mut self) -> bool {
        if !self.is_restarting || self.checkpoint.is_some() {
            return false;
        }
        if !self.pool.settle_next() {
            self.begin_checkpoint(Effort::None);
        }
        true
    }
}

fn read_checkpoint(
    files: &LogFiles,
    data: &DataFile,
    salt: u64,
    offset: LogOffset,
    window: &mut [u8],
) -> Result<CheckpointRecord> {
    if offset == LogOffset(0) {
        return Ok(CheckpointRecord {
            begin: FIRST_OFFSET,
            dirty_pages: Vec::new(),
            active: Vec::new(),
            slots: Slots::default(),
        });
    }
    let found = files.read_group(salt, offset, window, |group| {
        let is_checkpoint = group.offset == offset && group.kind == GroupKind::Checkpoint;
        is_checkpoint.then(|| CheckpointRecord::decode(group.body))?
    })?;
    let what = format!("the checkpoint record is not at {offset}, where the master record says");
    found.ok_or_else(|| Error::corrupt(data.path(), 4096, what))
}
