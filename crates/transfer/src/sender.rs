//! The sender: lists the files, sends them page by page with checksums, and resends pages on
//! request until the receiver reports success.
//!
//! ```text
//!   this thread     list ─► accept? ─► file after file, no waiting in between ─► AllSent ─► Finished
//!                                       ▲ between frames: pages that are asked for again
//!   reading thread ─── what the receiver says ──┘
//! ```
//!
//! A file is read once, from beginning to end; holes are skipped. Before and after, its length and
//! modification time are compared with the announcement: a file that changes while it is sent is
//! reported and does not appear at the receiver. The same happens if a requested page can no longer
//! be read as it was.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Instant;

use base::checksum::crc32c;
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;

use crate::connection::{Connection, Input};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::frame::{BODY_MAX, FrameWriter, PAGE_BYTES, PAGES_PER_FRAME};
use crate::message::{Message, Origin, Totals};
use crate::progress::Progress;
use crate::report::{Failure, Report};
use crate::scheme::Scheme;
use crate::source::Source;

/// The pages of the longest hole in one message.
const HOLE_PAGES_MAX: u64 = 1 << 18;
/// Offered files about which the sender asks ahead of the current one.
const ASKED_AHEAD: usize = 32;
/// Why a file that differs from its announcement is not sent.
const CHANGED: &str = "has changed while it was being sent";

/// What the sender knows about the receiver.
struct Peer<'a> {
    writer: &'a FrameWriter,
    events: Receiver<Result<Message>>,
    progress: &'a Progress,
    source: &'a Source,
    offers: HashMap<u32, Origin>,
    /// Checksums of what the receiver has; `true` once all have arrived.
    have: HashMap<u32, (Vec<u32>, bool)>,
    /// The receiver's verdicts on files.
    verified: HashMap<u32, bool>,
    failures: Vec<(u32, String)>,
    finished: Option<Totals>,
    waits_for_each: bool,
    buffer: Vec<u8>,
}

/// Why sending a file stops.
enum Stop {
    /// Because of the file.
    Lost(String),
    /// Because of the transfer.
    Broken(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Broken(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::Lost(CHANGED.to_owned()),
            _ => Stop::Lost(format!("cannot be read: {error}")),
        }
    }
}

/// Sends all of a source, and returns the receiver's totals. `scheme` is for the report.
pub(crate) fn send(
    connection: Connection,
    source: &Source,
    scheme: Scheme,
    progress: &Progress,
) -> Result<Report> {
    let started = Instant::now();
    let Connection { mut reader, writer, hangup } = connection;
    progress.set_total(source.entries().map(Entry::size_bytes).sum());
    let listed = announce(source, &writer);
    // If the receiver hung up during the list, it has given the reason.
    let (offers, waits_for_each) = accepted(&mut reader)?;
    listed?;
    thread::scope(|scope| {
        let (events_in, events) = mpsc::channel();
        scope.spawn(move || {
            loop {
                let message = reader.next();
                let is_last = matches!(message, Err(_) | Ok(Message::Finished(_)));
                if events_in.send(message).is_err() || is_last {
                    return;
                }
            }
        });
        let mut peer = Peer {
            writer: &writer,
            events,
            progress,
            source,
            offers,
            have: HashMap::new(),
            verified: HashMap::new(),
            failures: Vec::new(),
            finished: None,
            waits_for_each,
            buffer: vec![0; BODY_MAX],
        };
        let sent = peer.send_all();
        if let Err(Error::Protocol(why)) = &sent {
            // The other end is at fault and should know.
            let _unsent = writer.send(&Message::Refuse { why: why.clone() });
        }
        let sent = sent.map_err(|error| peer.better_reason(error));
        hangup.all();
        let totals = sent?;
        let failures = peer
            .failures
            .into_iter()
            .filter_map(|(entry, what)| Some(Failure::new(&source.entry(entry)?.path, what)));
        let failures = failures.collect();
        let mut report =
            Report::new(scheme, source.entries(), &totals, failures, started.elapsed());
        report.skipped = source.skipped().to_vec();
        Ok(report)
    })
}

/// Sends the list.
fn announce(source: &Source, writer: &FrameWriter) -> Result<()> {
    for entry in source.entries() {
        writer.queue(&Message::Entry(entry.clone()))?;
    }
    let count = u32::try_from(source.entries().len()).expect("checked when they were found");
    writer.send(&Message::EntriesEnd { count })
}

/// Reads the receiver's answer to the list.
fn accepted(reader: &mut Input) -> Result<(HashMap<u32, Origin>, bool)> {
    let mut offers = HashMap::new();
    loop {
        match reader.next()? {
            Message::Offer { entries } => offers.extend(entries),
            Message::Accept { waits_for_each } => return Ok((offers, waits_for_each)),
            Message::Refuse { why } => return Err(Error::Refused(why)),
            _ => {
                return Err(Error::protocol(
                    "another message than the answer to the list of files",
                ));
            }
        }
    }
}

impl Peer<'_> {
    fn send_all(&mut self) -> Result<Totals> {
        let files: Vec<u32> = (0u32..)
            .zip(self.source.entries())
            .filter(|(_, entry)| entry.is_file())
            .map(|(number, _)| number)
            .collect();
        let mut offered: Vec<u32> =
            files.iter().copied().filter(|file| self.offers.contains_key(file)).collect();
        offered.reverse();
        let mut asked = 0;
        for file in files {
            if self.offers.contains_key(&file) {
                while asked < ASKED_AHEAD
                    && let Some(entry) = offered.pop()
                {
                    self.writer.queue(&Message::Ask { entry })?;
                    asked += 1;
                }
                asked -= 1;
            }
            match self.send_file(file) {
                Ok(()) => {}
                Err(Stop::Lost(why)) => self.writer.queue(&Message::Lost { entry: file, why })?,
                Err(Stop::Broken(error)) => return Err(error),
            }
            self.have.remove(&file);
            if self.waits_for_each {
                self.writer.flush()?;
                while self.verified.remove(&file).is_none() {
                    self.wait()?;
                }
            }
        }
        self.writer.send(&Message::AllSent)?;
        loop {
            if let Some(totals) = self.finished {
                return Ok(totals);
            }
            self.wait()?;
        }
    }

    fn send_file(&mut self, number: u32) -> std::result::Result<(), Stop> {
        let have = self.what_it_has(number)?;
        let file = self.open(number)?;
        let entry = self.source.entry(number).expect("one of its files").clone();
        let pages = entry.page_count();
        if self.offers.get(&number) == Some(&Origin::Existing) {
            if self.is_same(&file, &entry, &have)? {
                self.check_unchanged(number, &file)?;
                return Ok(self.writer.queue(&Message::Same { entry: number })?);
            }
            self.send_pages(number, &file, &entry, 0, pages, &[])?;
        } else if entry.data_bytes() < entry.size_bytes() {
            self.send_around_holes(number, &file, &entry, &have)?;
        } else {
            self.send_pages(number, &file, &entry, 0, pages, &have)?;
        }
        self.check_unchanged(number, &file)?;
        Ok(self.writer.queue(&Message::FileEnd { entry: number })?)
    }

    /// Opens a file and checks that it matches its announcement.
    fn open(&self, number: u32) -> std::result::Result<File, Stop> {
        let file = self.source.open(number).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Stop::Lost("has been removed".to_owned()),
            _ => Stop::from(error),
        })?;
        self.check_unchanged(number, &file)?;
        // Advice: if it is refused, reading is merely slower.
        let _refused = fadvise(&file, 0, None, Advice::Sequential);
        Ok(file)
    }

    fn check_unchanged(&self, number: u32, file: &File) -> std::result::Result<(), Stop> {
        if self.source.is_unchanged(number, file)? {
            Ok(())
        } else {
            Err(Stop::Lost(CHANGED.to_owned()))
        }
    }

    /// Waits for the checksums of the receiver's data of an offered file.
    fn what_it_has(&mut self, number: u32) -> std::result::Result<Vec<u32>, Stop> {
        if !self.offers.contains_key(&number) {
            return Ok(Vec::new());
        }
        self.writer.flush()?;
        loop {
            if let Some((_, true)) = self.have.get(&number) {
                return Ok(self.have.remove(&number).map(|(have, _)| have).unwrap_or_default());
            }
            self.wait()?;
        }
    }

    /// Whether the receiver's existing file has the same pages.
    fn is_same(
        &mut self,
        file: &File,
        entry: &Entry,
        have: &[u32],
    ) -> std::result::Result<bool, Stop> {
        if have.len() as u64 != entry.page_count() {
            return Ok(false);
        }
        let mut page = 0;
        for some in have.chunks(PAGES_PER_FRAME) {
            let read = self.read_pages(file, entry, page, some.len() as u64)?;
            if checksums(&self.buffer[..read]) != some {
                return Ok(false);
            }
            page += some.len() as u64;
            self.answer()?;
        }
        Ok(true)
    }

    fn send_around_holes(
        &mut self,
        number: u32,
        file: &File,
        entry: &Entry,
        have: &[u32],
    ) -> std::result::Result<(), Stop> {
        let pages = entry.page_count();
        let page_bytes = PAGE_BYTES as u64;
        let mut page = 0;
        while page < pages {
            let data = match seek(file, SeekFrom::Data(page * page_bytes)) {
                Ok(at) => at / page_bytes,
                Err(Errno::NXIO) => pages,
                // The file system does not report holes.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => page,
                Err(error) => return Err(io::Error::from(error).into()),
            };
            while page < data.min(pages) {
                let count = (data.min(pages) - page).min(HOLE_PAGES_MAX);
                let hole = Message::Hole { entry: number, first_page: page, pages: count };
                self.writer.queue(&hole)?;
                page += count;
            }
            if page == pages {
                break;
            }
            let end = match seek(file, SeekFrom::Hole(page * page_bytes)) {
                Ok(at) => at.div_ceil(page_bytes).clamp(page + 1, pages),
                Err(_) => pages,
            };
            self.send_pages(number, file, entry, page, end, have)?;
            page = end;
        }
        Ok(())
    }

    /// Sends the pages `page..end`, except those that the receiver has.
    fn send_pages(
        &mut self,
        number: u32,
        file: &File,
        entry: &Entry,
        mut page: u64,
        end: u64,
        have: &[u32],
    ) -> std::result::Result<(), Stop> {
        while page < end {
            let count = (end - page).min(PAGES_PER_FRAME as u64);
            let read = self.read_pages(file, entry, page, count)?;
            let found = checksums(&self.buffer[..read]);
            let start = usize::try_from(page).unwrap_or(usize::MAX);
            let held =
                |at: usize| start.checked_add(at).and_then(|at| have.get(at)) == Some(&found[at]);
            let places: Vec<usize> = (0..found.len()).collect();
            for run in places.chunk_by(|&one, &other| held(one) == held(other)) {
                let (first, last) = (run[0], run[run.len() - 1]);
                let first_page = page + first as u64;
                let checksums = found[first..=last].to_vec();
                if held(first) {
                    let held = Message::Held { entry: number, first_page, checksums };
                    self.writer.queue(&held)?;
                } else {
                    let body =
                        &self.buffer[first * PAGE_BYTES..((last + 1) * PAGE_BYTES).min(read)];
                    let data = Message::Data { entry: number, first_page, checksums };
                    self.writer.queue_with_body(&data, body)?;
                }
            }
            page += count;
            self.answer()?;
        }
        Ok(())
    }

    /// Reads pages into the buffer. Returns their bytes.
    fn read_pages(
        &mut self,
        file: &File,
        entry: &Entry,
        page: u64,
        count: u64,
    ) -> std::result::Result<usize, Stop> {
        let bytes = usize::try_from(entry.bytes_of_pages(page, count)).expect("at most a frame's");
        file.read_exact_at(&mut self.buffer[..bytes], page * PAGE_BYTES as u64)?;
        Ok(bytes)
    }

    /// Serves the receiver's requests so far, without waiting.
    fn answer(&mut self) -> std::result::Result<(), Stop> {
        loop {
            match self.events.try_recv() {
                Ok(message) => self.take(message?)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Error::BrokenOff.into()),
            }
        }
    }

    /// Waits for a message from the receiver.
    fn wait(&mut self) -> Result<()> {
        match self.events.recv() {
            Ok(message) => self.take(message?),
            Err(_) => Err(Error::BrokenOff),
        }
    }

    fn take(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Resend { entry, first_page, pages } => {
                self.send_again(entry, first_page, pages)?;
            }
            Message::Have { entry, checksums, is_last } => {
                let have = self.have.entry(entry).or_default();
                have.0.extend(checksums);
                have.1 = is_last;
            }
            Message::Verified { entry } => {
                self.verified.insert(entry, true);
            }
            Message::Failed { entry, why } => {
                self.verified.insert(entry, false);
                self.failures.push((entry, why));
            }
            Message::Progress { written_bytes, verified_bytes } => {
                self.progress.set(written_bytes, verified_bytes);
            }
            Message::Finished(totals) => {
                let verified = totals.verified_bytes.saturating_add(totals.unchanged_bytes);
                self.progress.set(totals.written_bytes, verified);
                self.finished = Some(totals);
            }
            Message::Refuse { why } => return Err(Error::Refused(why)),
            other => return Err(Error::protocol(format!("a {:?} message here", other.kind()))),
        }
        Ok(())
    }

    /// Resends pages, or reports that they cannot be read.
    fn send_again(&mut self, number: u32, first_page: u64, pages: u64) -> Result<()> {
        let known = self.source.entry(number).filter(|entry| entry.is_file()).cloned();
        let entry = known.ok_or_else(|| Error::protocol("a question about an unknown file"))?;
        let end = first_page.checked_add(pages).filter(|&end| end <= entry.page_count());
        let end = end.ok_or_else(|| Error::protocol("a question about an unknown page"))?;
        let mut again = || -> std::result::Result<(), Stop> {
            let file = self.open(number)?;
            let mut page = first_page;
            while page < end {
                let count = (end - page).min(PAGES_PER_FRAME as u64);
                let read = self.read_pages(&file, &entry, page, count)?;
                let checksums = checksums(&self.buffer[..read]);
                let data = Message::Data { entry: number, first_page: page, checksums };
                self.writer.queue_with_body(&data, &self.buffer[..read])?;
                page += count;
            }
            self.check_unchanged(number, &file)
        };
        match again() {
            Ok(()) => {}
            Err(Stop::Lost(why)) => self.writer.queue(&Message::Lost { entry: number, why })?,
            Err(Stop::Broken(error)) => return Err(error),
        }
        self.writer.flush()
    }

    /// If the connection broke during a send, the receiver may have given the reason before it hung
    /// up.
    fn better_reason(&self, error: Error) -> Error {
        if !matches!(error, Error::BrokenOff) {
            return error;
        }
        let said = self.events.iter().find_map(|event| match event {
            Ok(Message::Refuse { why }) => Some(Error::Refused(why)),
            Ok(_) => None,
            Err(error) => Some(error),
        });
        said.unwrap_or(error)
    }
}

fn checksums(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(PAGE_BYTES).map(crc32c).collect()
}
