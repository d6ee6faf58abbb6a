//! The I/O manager (4.3.2): one thread that writes arriving pages and passes them to the syncer in
//! batches.
//!
//! ```text
//!   Work ──► write ──► ... ──► batch ──► syncer ──► controller: these ranges are on the device
//!            └── until a sync's worth is written ──┘
//! ```
//!
//! Writes go through the host's memory, even where the scheme wants nothing to stay there: the
//! kernel gives the device more parallel work than one thread that writes past it
//! (docs/transfer.md).
//!
//! When everything was sent and only what the device's cache may hold is unverified, filler is
//! written to displace it: pages that no device can compress or deduplicate, over a range as long
//! as the cache, so that none replaces another that is still cached.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::Duration;

use env::File;

use crate::concurrency_controller::{Checksums, Range};
use crate::error::{Error, Result};
use crate::frame::{BODY_MAX, PAGE_BYTES};
use crate::memory_manager::Buffer;
use crate::receiver::Receiving;
use crate::syncer::{Batch, Order, wait_until_idle};

/// A request to the I/O manager.
pub(crate) enum Work {
    /// Write pages; `ranges` are those that arrived intact.
    Write { entry: u32, first_page: u64, buffer: Buffer, ranges: Vec<Range> },
    /// Account for pages staged by an earlier transfer, or holes.
    There { range: Range },
    /// Note that all of the file has been sent.
    End { entry: u32 },
}

/// A sync begins when this many bytes are written,
const SYNC_BYTES: u64 = 16 << 20;
/// or so many files,
const SYNC_FILES: usize = 4096;
/// or nothing has arrived for this long.
const LULL: Duration = Duration::from_millis(50);
/// Files of at least this size are synced individually.
const LARGE_BYTES: u64 = 1 << 20;
/// Files kept open, at most.
const OPEN_MAX: usize = 64;
/// Filler is written and synced in pieces of this size.
const FILLER_PIECE_BYTES: usize = 8 << 20;

/// Filler: a file of its own, as long as the device's cache, overwritten cyclically.
struct Filler {
    file: Box<dyn File>,
    len: u64,
    piece: Vec<u8>,
    at: u64,
    random: fastrand::Rng,
}

/// The state of the thread.
pub(crate) struct IoManager<'a> {
    receiving: &'a Receiving<'a>,
    orders: SyncSender<Order>,
    open: BTreeMap<u32, Arc<dyn File>>,
    /// Files that this transfer has written to.
    begun: Vec<bool>,
    /// Files that have been sent completely.
    ended: Vec<bool>,
    batch: Batch,
    filler: Option<Filler>,
}

impl<'a> IoManager<'a> {
    pub(crate) fn new(receiving: &'a Receiving<'a>, orders: SyncSender<Order>) -> Self {
        Self {
            receiving,
            orders,
            open: BTreeMap::new(),
            begun: vec![false; receiving.entries.len()],
            ended: vec![false; receiving.entries.len()],
            batch: Batch::default(),
            filler: None,
        }
    }

    /// Works until all senders of requests are gone.
    pub(crate) fn run(mut self, requests: &Receiver<Work>) -> Result<()> {
        self.reserve_filler()?;
        loop {
            match requests.try_recv() {
                Ok(work) => self.take(work),
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) if self.receiving.incoming.nothing_is_coming() => {
                    self.sync()?;
                    wait_until_idle(&self.orders);
                    if !self.displace_a_piece()? {
                        match requests.recv_timeout(LULL) {
                            Ok(work) => self.take(work),
                            Err(RecvTimeoutError::Timeout) => {}
                            Err(RecvTimeoutError::Disconnected) => return Ok(()),
                        }
                    }
                }
                Err(TryRecvError::Empty) => match requests.recv_timeout(LULL) {
                    Ok(work) => self.take(work),
                    Err(RecvTimeoutError::Timeout) => self.sync()?,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                },
            }
            if self.batch.written_bytes >= SYNC_BYTES || self.batch.files.len() >= SYNC_FILES {
                self.sync()?;
                self.receiving.controller.wait_for_verifiers();
            }
        }
    }

    /// Serves one request; if that fails, its file fails.
    fn take(&mut self, work: Work) {
        let entry = match &work {
            Work::Write { entry, .. } | Work::End { entry } => *entry,
            Work::There { range } => range.entry,
        };
        if !self.receiving.incoming.is_open(entry) {
            self.open.remove(&entry);
            return;
        }
        let done = match work {
            Work::Write { first_page, buffer, ranges, .. } => {
                self.write(entry, first_page, &buffer, ranges)
            }
            Work::There { range } => self.there(range),
            Work::End { .. } => self.end(entry),
        };
        if let Err(error) = done {
            self.open.remove(&entry);
            self.receiving.fail(entry, &format!("cannot be written: {error}"));
        }
    }

    /// Opens the staged file and adds it to the batch.
    fn file(&mut self, entry: u32) -> io::Result<Arc<dyn File>> {
        let file = match self.open.get(&entry) {
            Some(file) => Arc::clone(file),
            None => {
                if self.open.len() >= OPEN_MAX {
                    self.open.clear();
                    self.close_batch();
                }
                let keep = self.begun[entry as usize] || self.receiving.is_staged(entry);
                let file: Arc<dyn File> = self.receiving.destination.stage(entry, keep)?.into();
                self.open.insert(entry, Arc::clone(&file));
                self.begun[entry as usize] = true;
                file
            }
        };
        let part = self.batch.files.entry(entry).or_default();
        part.has_ended = self.ended[entry as usize];
        if !self.batch.sync_everything {
            part.file = Some(Arc::clone(&file));
        }
        Ok(file)
    }

    /// Closes the batch's files; it is synced as a whole.
    fn close_batch(&mut self) {
        self.batch.sync_everything = true;
        self.batch.files.values_mut().for_each(|part| part.file = None);
    }

    fn write(
        &mut self,
        entry: u32,
        first_page: u64,
        buffer: &Buffer,
        ranges: Vec<Range>,
    ) -> io::Result<()> {
        let file = self.file(entry)?;
        let bytes = buffer.bytes().len() as u64;
        // From now on, some of it may be on the device. It counts as newer than other data only
        // when synced, which never happens if the write fails.
        self.receiving.controller.writing(bytes);
        file.write_all_at(buffer.bytes(), first_page * PAGE_BYTES as u64)?;
        self.batch.written_bytes += bytes;
        self.receiving.progress.wrote(bytes);
        self.batch.ranges.extend(ranges);
        Ok(())
    }

    /// Accounts for pages that need no writing, or are zeros.
    fn there(&mut self, range: Range) -> io::Result<()> {
        let kept = self.receiving.is_staged(range.entry);
        let size_bytes = self.receiving.entries[range.entry as usize].size_bytes();
        let file = self.file(range.entry)?;
        if range.checksums == Checksums::Hole {
            if kept {
                // Other data may have been there.
                write_zeros(&*file, range.first_page * PAGE_BYTES as u64, range.bytes)?;
            } else if file.len()? < size_bytes {
                file.set_len(size_bytes)?;
            }
        }
        self.receiving.progress.wrote(range.bytes);
        self.batch.ranges.push(range);
        Ok(())
    }

    fn end(&mut self, entry: u32) -> io::Result<()> {
        self.ended[entry as usize] = true;
        self.file(entry)?;
        self.open.remove(&entry);
        if self.receiving.entries[entry as usize].size_bytes() < LARGE_BYTES {
            self.close_batch();
        }
        if self.receiving.scheme.waits_for_each() {
            self.sync().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Passes what was written to the syncer.
    fn sync(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.files.is_empty() {
            return Ok(());
        }
        self.orders.send(Order::Sync(batch)).map_err(|_ended| Error::BrokenOff)
    }

    /// Reserves the space for filler at the beginning. If another process fills the disk later,
    /// files fail, but those that have arrived are verified.
    fn reserve_filler(&mut self) -> Result<()> {
        let receiving = self.receiving;
        let has_files = receiving.entries.iter().any(|entry| entry.size_bytes() > 0);
        if !receiving.scheme.waits_for_displacement() || !has_files {
            return Ok(());
        }
        let failed = |error| crate::Error::io("room for filler", error);
        let file = receiving.destination.filler().map_err(failed)?;
        let len = receiving.device_cache_bytes.div_ceil(PAGE_BYTES as u64).max(1);
        let len = len.saturating_mul(PAGE_BYTES as u64);
        file.allocate(0, len).map_err(failed)?;
        self.filler = Some(Filler {
            file,
            len,
            piece: vec![0; FILLER_PIECE_BYTES],
            at: 0,
            random: fastrand::Rng::new(),
        });
        Ok(())
    }

    /// Writes a piece of filler if needed. Returns whether it was.
    fn displace_a_piece(&mut self) -> Result<bool> {
        let receiving = self.receiving;
        let needed = receiving.controller.with(|schedule| schedule.needed_bytes());
        if needed == 0 {
            return Ok(false);
        }
        let Some(filler) = &mut self.filler else { return Ok(false) };
        let failed = |error| crate::Error::io("filler that displaces the last files", error);
        let pages = needed.div_ceil(PAGE_BYTES as u64).saturating_mul(PAGE_BYTES as u64);
        let length = pages.min(filler.len - filler.at);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(FILLER_PIECE_BYTES);
        filler.random.fill(&mut filler.piece[..length]);
        filler.file.write_all_at(&filler.piece[..length], filler.at).map_err(failed)?;
        filler.file.sync_data().map_err(failed)?;
        filler.file.drop_cache(filler.at, length as u64);
        filler.at += length as u64;
        if filler.at == filler.len {
            filler.at = 0;
        }
        receiving.totals.filler(length as u64);
        receiving.controller.with(|schedule| schedule.displaced(length as u64));
        Ok(true)
    }
}

fn write_zeros(file: &dyn File, mut offset: u64, mut len: u64) -> io::Result<()> {
    let zeros = vec![0; BODY_MAX];
    while len > 0 {
        let piece = len.min(BODY_MAX as u64);
        file.write_all_at(&zeros[..usize::try_from(piece).expect("at most 1 MiB")], offset)?;
        offset += piece;
        len -= piece;
    }
    Ok(())
}
