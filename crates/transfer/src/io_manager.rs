//! The I/O manager (4.3.2): one thread that writes what comes in, syncs it, has the memory manager
//! take it out of the host's memory, and tells the concurrency controller.
//!
//! ```text
//!   Work ──► write ──► ... ──► sync ──► invalidate ──► controller: these ranges are on the device
//!            └── until a sync's worth is written ──┘
//! ```
//!
//! Because one thread writes and syncs, nothing is written while a sync runs, and what the controller
//! counts as newer than a range really is. Large files are synced each by itself; thousands of small
//! ones by one `syncfs`, which is what makes them cheap.
//!
//! When all was sent and only what the device's cache may still hold is unverified, filler is written
//! to displace it: pages that no device can compress or has seen before, over a range as long as the
//! cache, so that none of them replaces another one that is still in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use env::File;

use crate::concurrency_controller::{Checksums, Range};
use crate::error::Result;
use crate::frame::{BODY_MAX, PAGE_BYTES};
use crate::memory_manager::Buffer;
use crate::receiver::Receiving;

/// What the I/O manager is asked to do.
pub(crate) enum Work {
    /// Write pages; `ranges` are those of them that came in as they were sent.
    Write { entry: u32, first_page: u64, buffer: Buffer, ranges: Vec<Range> },
    /// Pages that were staged by an earlier transfer, or that are holes.
    There { range: Range },
    /// All of the file has been sent.
    End { entry: u32 },
}

/// Syncs when so much is written,
const SYNC_BYTES: u64 = 32 << 20;
/// or so many files,
const SYNC_FILES: usize = 4096;
/// or nothing has come for so long.
const LULL: Duration = Duration::from_millis(50);
/// Files from this size on are synced by themselves.
const SYNCED_SINGLY_BYTES: u64 = 1 << 20;
/// More files than these are not kept open.
const OPEN_MAX: usize = 64;
/// Filler is written and synced in pieces of this size.
const FILLER_PIECE_BYTES: usize = 8 << 20;

/// What has been written since the last sync.
#[derive(Default)]
struct Batch {
    ranges: Vec<Range>,
    written_bytes: u64,
    /// Files in it; whether anything of them is not open any more is in `sync_everything`.
    files: BTreeSet<u32>,
    sync_everything: bool,
}

/// Filler: a file of its own, written round and round.
struct Filler {
    file: Box<dyn File>,
    piece: Vec<u8>,
    at: u64,
    random: fastrand::Rng,
}

/// The state of the thread.
pub(crate) struct IoManager<'a> {
    receiving: &'a Receiving<'a>,
    open: BTreeMap<u32, Box<dyn File>>,
    /// Files that this transfer has written to.
    begun: Vec<bool>,
    batch: Batch,
    filler: Option<Filler>,
}

impl<'a> IoManager<'a> {
    pub(crate) fn new(receiving: &'a Receiving<'a>) -> Self {
        Self {
            receiving,
            open: BTreeMap::new(),
            begun: vec![false; receiving.entries.len()],
            batch: Batch::default(),
            filler: None,
        }
    }

    /// Works until nobody is left who could ask for something.
    pub(crate) fn run(mut self, requests: &Receiver<Work>) -> Result<()> {
        loop {
            match requests.try_recv() {
                Ok(work) => self.take(work),
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) if self.receiving.incoming.nothing_is_coming() => {
                    self.sync();
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
                    Err(RecvTimeoutError::Timeout) => self.sync(),
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                },
            }
            if self.batch.written_bytes >= SYNC_BYTES || self.batch.files.len() >= SYNC_FILES {
                self.sync();
                self.receiving.controller.wait_for_verifiers();
            }
        }
    }

    /// Does one thing; if it cannot be done, its file has failed.
    fn take(&mut self, work: Work) {
        let entry = match &work {
            Work::Write { entry, .. } | Work::End { entry } => *entry,
            Work::There { range } => range.entry,
        };
        if !self.receiving.incoming.is_open(entry) {
            self.open.remove(&entry);
            return;
        }
        self.batch.files.insert(entry);
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

    /// The staged file, opened.
    fn file(&mut self, entry: u32) -> io::Result<&dyn File> {
        if !self.open.contains_key(&entry) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
                self.batch.sync_everything = true;
            }
            let keep = self.begun[entry as usize] || self.receiving.is_staged(entry);
            self.open.insert(entry, self.receiving.destination.stage(entry, keep)?);
            self.begun[entry as usize] = true;
        }
        Ok(&**self.open.get(&entry).expect("it was put there"))
    }

    fn write(
        &mut self,
        entry: u32,
        first_page: u64,
        buffer: &Buffer,
        ranges: Vec<Range>,
    ) -> io::Result<()> {
        self.file(entry)?.write_all_at(buffer.bytes(), first_page * PAGE_BYTES as u64)?;
        let written = buffer.bytes().len() as u64;
        self.batch.written_bytes += written;
        self.receiving.progress.wrote(written);
        self.batch.ranges.extend(ranges);
        Ok(())
    }

    /// Pages that need not be written, or are zeros.
    fn there(&mut self, range: Range) -> io::Result<()> {
        let kept = self.receiving.is_staged(range.entry);
        let size_bytes = self.receiving.entries[range.entry as usize].size_bytes();
        let file = self.file(range.entry)?;
        if range.checksums == Checksums::Hole {
            if kept {
                // Something else may have been there.
                write_zeros(file, range.first_page * PAGE_BYTES as u64, range.bytes)?;
            } else if file.len()? < size_bytes {
                file.set_len(size_bytes)?;
            }
        }
        self.receiving.progress.wrote(range.bytes);
        self.batch.ranges.push(range);
        Ok(())
    }

    fn end(&mut self, entry: u32) -> io::Result<()> {
        self.file(entry)?;
        if self.receiving.entries[entry as usize].size_bytes() < SYNCED_SINGLY_BYTES {
            self.open.remove(&entry);
            self.batch.sync_everything = true;
        }
        if self.receiving.scheme.waits_for_each() {
            self.sync();
        }
        Ok(())
    }

    /// Makes everything durable that was written, and passes it on.
    fn sync(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.files.is_empty() {
            return;
        }
        let receiving = self.receiving;
        let mut ended = Vec::new();
        for &entry in &batch.files {
            if receiving.incoming.has_ended(entry) && receiving.incoming.is_open(entry) {
                match receiving.destination.settle(entry) {
                    Ok(()) => ended.push(entry),
                    Err(error) => receiving.fail(entry, &format!("cannot be settled: {error}")),
                }
            }
        }
        if batch.sync_everything {
            if let Err(error) = receiving.destination.sync_all() {
                // What of it is on the device nobody knows, and a second sync may say that all is well.
                for &entry in &batch.files {
                    receiving.fail(entry, &format!("cannot be synced: {error}"));
                }
                return;
            }
        } else {
            for entry in &batch.files {
                let synced = self.open.get(entry).map_or(Ok(()), |file| file.sync_data());
                if let Err(error) = synced {
                    receiving.fail(*entry, &format!("cannot be synced: {error}"));
                }
            }
        }
        if receiving.scheme.reads_the_medium() {
            for range in &batch.ranges {
                if let Some(file) = self.open.get(&range.entry) {
                    file.drop_cache(range.first_page * PAGE_BYTES as u64, range.bytes);
                }
            }
        }
        ended.iter().for_each(|entry| {
            self.open.remove(entry);
        });
        self.pass_on(batch, &ended);
    }

    /// Tells the controller what is on the device now, and who is complete by that.
    fn pass_on(&self, batch: Batch, ended: &[u32]) {
        let receiving = self.receiving;
        let wanted = |range: &Range| receiving.incoming.is_open(range.entry);
        let ranges = batch.ranges.into_iter().filter(wanted).collect();
        receiving.controller.with(|schedule| {
            schedule.synced(ranges, batch.written_bytes);
            ended.iter().for_each(|&entry| schedule.complete(entry));
        });
        for &entry in ended {
            if receiving.incoming.settled(entry) {
                receiving.show(entry);
            }
        }
    }

    /// Writes a piece of filler if one is needed; whether one was.
    fn displace_a_piece(&mut self) -> Result<bool> {
        let receiving = self.receiving;
        let needed = receiving.controller.with(|schedule| schedule.needed_bytes());
        if needed == 0 {
            return Ok(false);
        }
        let failed = |error| crate::Error::io("filler that displaces the last files", error);
        if self.filler.is_none() {
            self.filler = Some(Filler {
                file: receiving.destination.filler().map_err(failed)?,
                piece: vec![0; FILLER_PIECE_BYTES],
                at: 0,
                random: fastrand::Rng::new(),
            });
        }
        let filler = self.filler.as_mut().expect("it was put there");
        let pages = needed.div_ceil(PAGE_BYTES as u64).saturating_mul(PAGE_BYTES as u64);
        let length = usize::try_from(pages).unwrap_or(usize::MAX).min(FILLER_PIECE_BYTES);
        filler.random.fill(&mut filler.piece[..length]);
        filler.file.write_all_at(&filler.piece[..length], filler.at).map_err(failed)?;
        filler.file.sync_data().map_err(failed)?;
        filler.file.drop_cache(filler.at, length as u64);
        filler.at += length as u64;
        if filler.at >= receiving.device_cache_bytes {
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
