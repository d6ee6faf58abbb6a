//! The receiver: takes files from a connection and connects the paper's parts (Figure 4.2).
//!
//! ```text
//!   connection ──► this thread ──Work──► I/O manager ──ranges──► concurrency controller
//!       ▲            │ buffers                │ write     ▲ syncer       │ ready
//!       │            ▼                        ▼                          ▼
//!       │        memory manager ◄──── invalidate              data verifiers (threads)
//!       └──────────────────────── Resend, Failed ◄─────────────────┤ read, CRC32C
//!       └──────────────────────── Progress, Finished ◄── reporter  └──► files appear
//! ```
//!
//! The reading thread never waits for a verdict, only for buffers: resent pages use the same queue
//! as new ones, and no cycle of waiting threads is possible. It verifies each page on arrival; a
//! page damaged on the way is requested again before any part relies on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base::checksum::crc32c;

use crate::concurrency_controller::{Checksums, ConcurrencyController, Range, Schedule};
use crate::connection::{Connection, Hangup, Input};
use crate::data_verifier::{DataVerifier, read_pages};
use crate::destination::Destination;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::frame::{FrameWriter, PAGE_BYTES, PAGES_PER_FRAME};
use crate::incoming::{Arrival, Incoming};
use crate::io_manager::{IoManager, Work};
use crate::memory_manager::{BUFFER_BYTES, MemoryManager};
use crate::message::{CHECKSUMS_MAX, Message, OFFERS_MAX, Origin, Totals, Verification};
use crate::progress::Progress;
use crate::report::{Failure, Report};
use crate::scheme::Scheme;
use crate::syncer::{self, ORDERS_MAX};

/// Limits of the list of files: its entries and its memory.
const ENTRIES_MAX: usize = 100_000;
const ENTRIES_BYTES_MAX: usize = 64 << 20;
/// The interval of progress reports to the sender.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Queued requests to the I/O manager, at most; memory limits those with pages earlier.
const QUEUE: usize = 8192;
/// The permitted backlog of the verifiers.
const READY_MAX_BYTES: u64 = 256 << 20;
/// More verifiers than this only obstruct one another.
const VERIFIERS_MAX: usize = 64;

/// Totals of a transfer.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    filler: AtomicU64,
    verified: AtomicU64,
    unchanged: AtomicU64,
    verification_us: AtomicU64,
}

impl Sums {
    pub(crate) fn filler(&self, bytes: u64) {
        self.filler.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn verified(&self, bytes: u64) {
        self.verified.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn verification(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.verification_us.fetch_add(time, Ordering::Relaxed);
    }
}

/// The state that the threads of a receiver share.
pub(crate) struct Receiving<'a> {
    pub(crate) entries: Arc<Vec<Entry>>,
    pub(crate) destination: &'a dyn Destination,
    pub(crate) scheme: Scheme,
    pub(crate) resends_max: u16,
    pub(crate) device_cache_bytes: u64,
    pub(crate) memory: Arc<MemoryManager>,
    pub(crate) controller: ConcurrencyController,
    pub(crate) incoming: Incoming,
    pub(crate) progress: &'a Progress,
    pub(crate) totals: Sums,
    pub(crate) writer: Arc<FrameWriter>,
    hangup: Hangup,
    offers: HashMap<u32, Origin>,
    failures: Mutex<Vec<(u32, String)>>,
    broken: Mutex<Option<Error>>,
    finished: AtomicBool,
}

impl Receiving<'_> {
    /// Whether an earlier transfer staged part of the file.
    pub(crate) fn is_staged(&self, entry: u32) -> bool {
        self.offers.get(&entry) == Some(&Origin::Staged)
    }

    /// Makes a complete file appear at its place.
    pub(crate) fn show(&self, entry: u32) {
        match self.destination.appear(entry) {
            Ok(()) => {
                if self.scheme.waits_for_each()
                    && let Err(error) = self.writer.send(&Message::Verified { entry })
                {
                    self.abort(error);
                }
                self.incoming.told();
            }
            Err(error) => self.fail(entry, &format!("cannot be renamed into place: {error}")),
        }
    }

    /// Fails a file; the others continue.
    pub(crate) fn fail(&self, entry: u32, why: &str) {
        if self.incoming.fail(entry) {
            self.controller.with(|schedule| schedule.forget(entry));
            self.destination.discard(entry);
            self.report_failure(entry, why);
            self.incoming.told();
        }
    }

    fn report_failure(&self, entry: u32, why: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push((entry, why.to_owned()));
        drop(failures);
        if let Err(error) = self.writer.send(&Message::Failed { entry, why: why.to_owned() }) {
            self.abort(error);
        }
    }

    /// Ends the transfer with an error; the first error counts.
    pub(crate) fn abort(&self, error: Error) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        if broken.is_none() && !self.finished.load(Ordering::Relaxed) {
            if !matches!(error, Error::BrokenOff) {
                // If the connection is what failed, this fails as well.
                let _unsent = self.writer.send(&Message::Refuse { why: error.to_string() });
            }
            *broken = Some(error);
        }
        drop(broken);
        self.stop();
        // The last message still arrives; the reading thread waits until the sender has read it.
        self.hangup.writing();
    }

    /// Ends all waiting.
    fn stop(&self) {
        self.controller.close();
        self.memory.close();
        self.incoming.close();
    }

    fn sums(&self) -> Totals {
        Totals {
            verified_bytes: self.totals.verified.load(Ordering::Relaxed),
            unchanged_bytes: self.totals.unchanged.load(Ordering::Relaxed),
            written_bytes: self.progress.written_bytes(),
            filler_bytes: self.totals.filler.load(Ordering::Relaxed),
            pages_sent_again: self.incoming.pages_sent_again(),
            resident_bytes: self.memory.resident_bytes(),
            device_cache_bytes: if self.scheme.waits_for_displacement() {
                self.device_cache_bytes
            } else {
                0
            },
            verification_us: self.totals.verification_us.load(Ordering::Relaxed),
            memory_peak_bytes: self.memory.peak_bytes(),
        }
    }
}

/// Reads the list of entries.
pub(crate) fn read_entries(reader: &mut Input) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    loop {
        match reader.next()? {
            Message::Entry(entry) => {
                bytes += size_of::<Entry>() + entry.names_bytes();
                if entries.len() >= ENTRIES_MAX || bytes > ENTRIES_BYTES_MAX {
                    return Err(Error::Refusing(format!(
                        "more than {ENTRIES_MAX} files, or {} MiB of names, in one transfer: \
                         transfer parts of the tree one after the other",
                        ENTRIES_BYTES_MAX >> 20
                    )));
                }
                entries.push(entry);
            }
            Message::EntriesEnd { count } if count as usize == entries.len() => return Ok(entries),
            Message::Refuse { why } => return Err(Error::Refused(why)),
            _ => return Err(Error::protocol("another message in the list of files")),
        }
    }
}

/// Receives all `entries` into a destination.
pub(crate) fn receive(
    connection: Connection,
    entries: Arc<Vec<Entry>>,
    destination: &dyn Destination,
    verification: Verification,
    memory_bytes: u64,
    progress: &Progress,
) -> Result<Report> {
    let started = Instant::now();
    let Connection { mut reader, writer, hangup } = connection;
    let scheme = verification.scheme;
    let device_cache_bytes = match verification.device_cache_bytes {
        0 => destination.device_cache_bytes(),
        bytes => bytes,
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let wanted = match verification.verifiers {
        0 => processors,
        verifiers => usize::from(verifiers).min(VERIFIERS_MAX),
    };
    let verifiers = scheme.verifiers(wanted);
    progress.set_total(entries.iter().map(Entry::size_bytes).sum());
    let offers = destination.offers();
    for some in offers.chunks(OFFERS_MAX) {
        writer.queue(&Message::Offer { entries: some.to_vec() })?;
    }
    writer.send(&Message::Accept { waits_for_each: scheme.waits_for_each() })?;
    // Each verifier keeps one buffer, one more answers offers, and two let pages flow.
    let memory = MemoryManager::new(memory_bytes.max(BUFFER_BYTES * (verifiers as u64 + 3)));
    let receiving = Receiving {
        incoming: Incoming::new(Arc::clone(&entries)),
        entries,
        destination,
        scheme,
        resends_max: verification.resends_max,
        device_cache_bytes,
        memory,
        controller: ConcurrencyController::new(
            Schedule::new(scheme, device_cache_bytes),
            READY_MAX_BYTES,
        ),
        progress,
        totals: Sums::default(),
        writer,
        hangup,
        offers: offers.into_iter().collect(),
        failures: Mutex::default(),
        broken: Mutex::default(),
        finished: AtomicBool::new(false),
    };
    let buffers: Vec<_> = (0..verifiers).filter_map(|_| receiving.memory.allocate()).collect();
    thread::scope(|scope| {
        let (requests, queue) = mpsc::sync_channel(QUEUE);
        let receiving = &receiving;
        let (orders, to_sync) = mpsc::sync_channel(ORDERS_MAX);
        scope.spawn(move || syncer::run(receiving, &to_sync));
        scope.spawn(move || {
            if let Err(error) = IoManager::new(receiving, orders).run(&queue) {
                receiving.abort(error);
            }
        });
        for buffer in buffers {
            scope.spawn(move || DataVerifier::new(receiving, buffer).run());
        }
        scope.spawn(move || report(receiving));
        if let Err(error) = read(receiving, &mut reader, &requests) {
            receiving.abort(error);
            receiving.hangup.after_refusal(&mut reader);
        }
    });
    let broken = receiving.broken.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(error) = broken {
        return Err(error);
    }
    let failures = receiving.failures.lock().unwrap_or_else(PoisonError::into_inner);
    let failures = failures
        .iter()
        .map(|(entry, what)| Failure::new(&receiving.entries[*entry as usize].path, what.clone()));
    Ok(Report::new(
        scheme,
        receiving.entries.iter(),
        &receiving.sums(),
        failures.collect(),
        started.elapsed(),
    ))
}

/// Reports progress to the sender; at the end makes the rest durable and reports completion.
fn report(receiving: &Receiving<'_>) {
    while !receiving.incoming.wait(REPORT_INTERVAL) {
        let progress = Message::Progress {
            written_bytes: receiving.progress.written_bytes(),
            verified_bytes: receiving.progress.verified_bytes(),
        };
        if let Err(error) = receiving.writer.send(&progress) {
            receiving.abort(error);
        }
    }
    if !receiving.incoming.is_done() {
        return;
    }
    match receiving.destination.finish() {
        Ok(failures) => {
            for (entry, error) in failures {
                receiving.report_failure(entry, &error.to_string());
            }
        }
        Err(error) => {
            receiving.abort(Error::io("names cannot be made durable", error));
            return;
        }
    }
    // Set before sending: the sender hangs up as soon as it reads the message.
    receiving.finished.store(true, Ordering::Relaxed);
    // If the sender is gone, all its files are here nevertheless.
    let _unheard = receiving.writer.send(&Message::Finished(receiving.sums()));
    receiving.stop();
    receiving.hangup.reading();
}

/// The I/O manager ends only with the transfer.
fn pass(requests: &SyncSender<Work>, work: Work) -> Result<()> {
    requests.send(work).map_err(|_ended| Error::BrokenOff)
}

/// Reads messages until the end of the transfer.
fn read(receiving: &Receiving<'_>, reader: &mut Input, requests: &SyncSender<Work>) -> Result<()> {
    loop {
        let message = match reader.next() {
            Err(_) if receiving.finished.load(Ordering::Relaxed) => return Ok(()),
            other => other?,
        };
        match message {
            Message::Data { entry, first_page, checksums } => {
                data(receiving, reader, requests, entry, first_page, &checksums)?;
            }
            Message::Held { entry, first_page, checksums } => {
                if !receiving.is_staged(entry) {
                    return Err(Error::protocol("a claim that missing pages are here"));
                }
                let pages = checksums.len() as u64;
                there(receiving, requests, entry, first_page, pages, Checksums::Pages(checksums))?;
            }
            Message::Hole { entry, first_page, pages } => {
                there(receiving, requests, entry, first_page, pages, Checksums::Hole)?;
            }
            Message::FileEnd { entry } => {
                receiving.incoming.end(entry)?;
                pass(requests, Work::End { entry })?;
            }
            Message::Lost { entry, why } => {
                receiving.incoming.file(entry)?;
                receiving.fail(entry, &why);
            }
            Message::Ask { entry } => tell_what_is_here(receiving, entry)?,
            Message::Same { entry } => {
                if receiving.offers.get(&entry) != Some(&Origin::Existing) {
                    return Err(Error::protocol("a claim that a missing file is here"));
                }
                receiving.incoming.same(entry)?;
                let bytes = receiving.entries[entry as usize].size_bytes();
                receiving.totals.unchanged.fetch_add(bytes, Ordering::Relaxed);
                receiving.progress.wrote(bytes);
                receiving.progress.verified(bytes);
                if receiving.scheme.waits_for_each() {
                    receiving.writer.send(&Message::Verified { entry })?;
                }
            }
            Message::AllSent => receiving.incoming.all_sent()?,
            Message::Refuse { why } => return Err(Error::Refused(why)),
            other => return Err(Error::protocol(format!("a {:?} message here", other.kind()))),
        }
    }
}

/// Verifies arriving pages of a file, and passes them on for writing.
fn data(
    receiving: &Receiving<'_>,
    reader: &mut Input,
    requests: &SyncSender<Work>,
    entry: u32,
    first_page: u64,
    checksums: &[u32],
) -> Result<()> {
    let pages = checksums.len() as u64;
    let arrival = receiving.incoming.arrive(entry, first_page, pages)?;
    let file = &receiving.entries[entry as usize];
    let bytes = usize::try_from(file.bytes_of_pages(first_page, pages)).unwrap_or(usize::MAX);
    if checksums.len() > PAGES_PER_FRAME || reader.body_bytes() != bytes {
        return Err(Error::protocol("pages whose length does not match their file"));
    }
    let Some(mut buffer) = receiving.memory.allocate() else { return Err(Error::BrokenOff) };
    reader.read_body(buffer.resize(bytes))?;
    if arrival == Arrival::Unwanted {
        return Ok(());
    }
    let is_good: Vec<bool> = buffer
        .bytes()
        .chunks(PAGE_BYTES)
        .zip(checksums)
        .map(|(page, &checksum)| crc32c(page) == checksum)
        .collect();
    let mut ranges = Vec::with_capacity(1);
    let mut first = 0;
    for run in is_good.chunk_by(|one, other| one == other) {
        let from = first_page + first as u64;
        let pages = run.len() as u64;
        if run[0] {
            let checksums = checksums[first..first + run.len()].to_vec();
            let bytes = file.bytes_of_pages(from, pages);
            let checksums = Checksums::Pages(checksums);
            ranges.push(Range { entry, first_page: from, pages, bytes, checksums });
        } else {
            damaged_on_the_way(receiving, entry, from, pages);
        }
        first += run.len();
    }
    pass(requests, Work::Write { entry, first_page, buffer, ranges })
}

/// Handles pages that were damaged on the way.
fn damaged_on_the_way(receiving: &Receiving<'_>, entry: u32, first_page: u64, pages: u64) {
    let allowed = |page| receiving.incoming.bad(entry, page, receiving.resends_max);
    if (first_page..first_page + pages).all(allowed) {
        receiving.ask_again(entry, (first_page, pages));
    } else {
        let why = format!(
            "pages from {first_page} on are damaged on the way, even after they were sent {} times",
            receiving.resends_max
        );
        receiving.fail(entry, &why);
    }
}

/// Handles pages that need not be sent: they are here, or they are zeros.
fn there(
    receiving: &Receiving<'_>,
    requests: &SyncSender<Work>,
    entry: u32,
    first_page: u64,
    pages: u64,
    checksums: Checksums,
) -> Result<()> {
    if receiving.incoming.arrive(entry, first_page, pages)? == Arrival::Unwanted {
        return Ok(());
    }
    let bytes = receiving.entries[entry as usize].bytes_of_pages(first_page, pages);
    pass(requests, Work::There { range: Range { entry, first_page, pages, bytes, checksums } })
}

/// Sends the checksums of the existing data of a file. Unreadable data count as missing.
fn tell_what_is_here(receiving: &Receiving<'_>, entry: u32) -> Result<()> {
    let Some(&origin) = receiving.offers.get(&entry) else {
        return Err(Error::protocol("a question about a file that was not offered"));
    };
    let size_bytes = receiving.incoming.file(entry)?.size_bytes();
    let Some(mut buffer) = receiving.memory.allocate() else { return Err(Error::BrokenOff) };
    let mut checksums = Vec::new();
    if let Ok(file) = receiving.destination.open_offered(entry, origin) {
        let held = file.len().unwrap_or(0).min(size_bytes);
        let mut offset = 0;
        while offset < held {
            let bytes = (held - offset).min((PAGES_PER_FRAME * PAGE_BYTES) as u64);
            receiving.memory.invalidate(&*file, offset, bytes);
            let Ok(some) = read_pages(&*file, &mut buffer, offset, bytes) else { break };
            checksums.extend(some);
            offset += bytes;
            if checksums.len() + PAGES_PER_FRAME > CHECKSUMS_MAX {
                let checksums = std::mem::take(&mut checksums);
                receiving.writer.send(&Message::Have { entry, checksums, is_last: false })?;
            }
        }
    }
    receiving.writer.send(&Message::Have { entry, checksums, is_last: true })
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::entry::{Kind, Time};
    use crate::frame::FrameReader;
    use crate::relative_path::RelativePath;

    fn refusal(entry: &Entry, count: usize) -> String {
        let (out, input) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let writer = FrameWriter::new(Box::new(BufWriter::new(out)));
                // The reader hangs up when it has seen enough.
                while (0..count).all(|_| writer.queue(&Message::Entry(entry.clone())).is_ok())
                    && writer.flush().is_ok()
                {}
            });
            let input: Box<dyn std::io::Read + Send> = Box::new(input);
            let mut reader = FrameReader::new(std::io::BufReader::new(input));
            read_entries(&mut reader).unwrap_err().to_string()
        })
    }

    #[test]
    fn a_list_of_files_has_an_end() {
        let modified = Time { seconds: 0, nanoseconds: 0 };
        let mut entry = Entry {
            path: RelativePath::new("a").unwrap(),
            kind: Kind::Directory,
            mode: 0o755,
            modified,
        };
        assert!(refusal(&entry, ENTRIES_MAX).contains("more than 100000 files"));
        entry.path = RelativePath::new(vec!["x".repeat(250); 16].join("/")).unwrap();
        assert!(refusal(&entry, ENTRIES_BYTES_MAX / 4000).contains("64 MiB of names"));
    }
}
