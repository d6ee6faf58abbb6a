//! A session, as the server serves it: files are put, read, listed and removed, one request after the other.
//!
//! ```text
//!   Put ─► staged, page by page with its checksums ─► synced ─► renamed, if the name is free ─► directory synced ─► answered
//!                                                                          └─► read back past all caches, when displaced
//! ```
//!
//! A file appears under its name as a whole and durable, and never in the place of another: this is *archived*. It is *verified* when it was
//! read back from the medium, which is done when as much newer data was written by this session as the device's cache holds. Nothing is written
//! only to displace other data, because a session does not end: so what was put last waits for what comes.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File as OsHandle;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use base::checksum::crc32c;
use env::{File as _, ReadBuffer};
use env_os::OsFile;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fstat, fstatvfs, fsync, linkat, openat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::beneath;
use crate::concurrency_controller::{Checksums, Range, Schedule};
use crate::connection::Connection;
use crate::device_capacity::device_capacity_bytes;
use crate::error::{Error, Result};
use crate::expectations::{Expectation, Expectations, Room, cost_bytes, cost_of_frame};
use crate::frame::{BODY_MAX, PAGE_BYTES, PAGES_PER_FRAME};
use crate::message::{Answer, Message, NAMES_BYTES_MAX, Request};
use crate::relative_path::{RelativePath, STAGING};
use crate::scheme::Scheme;
use crate::staging::Staging;
use crate::tree::Limits;

/// So many files that were found damaged are remembered.
const DAMAGED_MAX: usize = 100;

/// At least so much is read back between two requests, if there is so much to be.
const VERIFIED_BYTES_MIN: u64 = 4 << 20;

/// What a session did.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    put: u64,
    put_bytes: u64,
    read_bytes: u64,
    verified: u64,
    damaged: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { put, put_bytes, read_bytes, verified, damaged } = self;
        write!(
            f,
            "{put} files put, {put_bytes} bytes; {verified} verified, {damaged} damaged; {read_bytes} bytes read"
        )
    }
}

/// So much memory the checksums take of what is to be read back; twice of what a client of this program has read back.
const EXPECTED_BYTES_MAX: u64 = 128 << 20;

/// So many directories are known to be durable.
const DURABLE_MAX: usize = 10_000;

/// A file that is to be read back.
struct Expected {
    path: RelativePath,
    /// The page behind the last one that is.
    end_page: u64,
    cost_bytes: u64,
    expectation: Expectation,
}

/// What sessions of a server have in common.
pub(crate) struct Shared {
    pub(crate) staging: Arc<Staging>,
    pub(crate) expectations: Arc<Expectations>,
    pub(crate) limits: Limits,
    pub(crate) may_remove: bool,
}

/// See the file's top.
pub(crate) struct Session {
    connection: Connection,
    shared: Shared,
    into: Option<RelativePath>,
    schedule: Schedule,
    /// How many files were put or expected in this session, and those that were not read back yet, by their numbers.
    put: u64,
    expected: BTreeMap<u32, Expected>,
    room: Room,
    /// The first one that is not read back, because too much waits to be.
    untracked: Option<u64>,
    /// Directories whose names are durable.
    durable: HashSet<Vec<u8>>,
    damaged: VecDeque<RelativePath>,
    /// The file that was read last.
    open: Option<(RelativePath, OsHandle)>,
    buffer: ReadBuffer,
    summary: Summary,
}

impl Session {
    pub(crate) fn new(
        connection: Connection,
        shared: Shared,
        into: Option<RelativePath>,
        device_cache_bytes: u64,
    ) -> Self {
        let device_cache_bytes = match device_cache_bytes {
            0 => device_capacity_bytes(shared.staging.dir()) / 1000,
            bytes => bytes,
        };
        Self {
            connection,
            shared,
            into,
            schedule: Schedule::new(Scheme::Spc, device_cache_bytes),
            put: 0,
            expected: BTreeMap::new(),
            room: Room::new(EXPECTED_BYTES_MAX),
            untracked: None,
            durable: HashSet::new(),
            damaged: VecDeque::new(),
            open: None,
            buffer: ReadBuffer::new(BODY_MAX),
            summary: Summary::default(),
        }
    }

    /// Serves requests until the client hangs up.
    pub(crate) fn run(mut self) -> Result<Summary> {
        loop {
            let request = match self.connection.reader.next() {
                Ok(Message::Request(request)) => request,
                Ok(_) => return Err(Error::protocol("a message that is no request")),
                Err(Error::BrokenOff) => return Ok(self.summary),
                Err(error) => return Err(error),
            };
            let mut to_verify = VERIFIED_BYTES_MIN;
            if let Request::Put { bytes, .. } = &request {
                to_verify = to_verify.max(bytes.saturating_mul(2));
            }
            self.serve(request)?;
            self.verify(to_verify);
        }
    }

    fn serve(&mut self, request: Request) -> Result<()> {
        let answer = match request {
            Request::Put { path, bytes } => self.put(&path, bytes)?,
            Request::Open { path } => self.opened(&path).map(|bytes| Answer::Opened { bytes }),
            Request::Read { path, offset, bytes } => match self.read(&path, offset, bytes) {
                Ok(count) => return self.send(count),
                Err(error) => Err(error),
            },
            Request::List { path, directories } => match self.names(path.as_ref(), directories) {
                Ok(names) => return self.send_names(names),
                Err(error) => Err(error),
            },
            Request::Remove { path } => self.remove(&path).map(|()| Answer::Done),
            Request::Expect { path, bytes, first_page, checksums } => {
                self.expect(&path, bytes, first_page, &checksums).map(|()| Answer::Done)
            }
            Request::Stand => {
                let damaged = self.damaged.drain(..).collect();
                let next = self.expected.keys().next().map(|next| u64::from(*next));
                let next = next.into_iter().chain(self.untracked).min();
                let verified = next.map_or(self.put, |next| next - 1);
                Ok(Answer::Stand { put: self.put, verified, damaged })
            }
        };
        self.connection.writer.send(&Message::Answer(answer.unwrap_or_else(|error| failed(&error))))
    }

    /// The name of something as the top directory has it.
    fn below(&self, path: &RelativePath) -> io::Result<RelativePath> {
        match &self.into {
            None => Ok(path.clone()),
            Some(into) => into.join(path.as_bytes()).map_err(io::Error::other),
        }
    }

    fn open_file(&self, path: &RelativePath, flags: OFlags) -> io::Result<OsHandle> {
        let path = self.below(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | flags;
        let file = beneath::open(self.shared.staging.top(), path.as_bytes(), flags, Mode::empty());
        let file = file.map_err(beneath::explain)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(file.into())
    }

    /// Receives a file. Whatever comes of it, all of its pages are taken off the connection.
    fn put(&mut self, path: &RelativePath, bytes: u64) -> Result<io::Result<Answer>> {
        let staged = self.check_room(bytes).and_then(|()| Staged::create(&self.shared.staging));
        // None when they would be too many, or when there is nothing that they are of.
        let (mut checksums, mut done) = (Some(Vec::new()), 0_u64);
        let mut cost = cost_bytes(path, 0);
        let mut written = staged.as_ref().map(|_| ()).map_err(copy_of);
        let mut body = Vec::new();
        while done < bytes {
            let Message::Data { first_page, checksums: of_body, .. } =
                self.connection.reader.next()?
            else {
                return Err(Error::protocol("no pages where a file's should be"));
            };
            body.resize(self.connection.reader.body_bytes(), 0);
            self.connection.reader.read_body(&mut body)?;
            let found: Vec<u32> = body.chunks(PAGE_BYTES).map(crc32c).collect();
            let is_whole = body.len().is_multiple_of(PAGE_BYTES);
            let end = done.saturating_add(body.len() as u64);
            let is_next = first_page == done / PAGE_BYTES as u64 && (is_whole || end == bytes);
            if found != of_body || !is_next || end > bytes {
                // The client sends all of it again.
                return Err(Error::protocol("pages that are not those that should come"));
            }
            if written.is_ok()
                && let Ok(staged) = &staged
            {
                self.schedule.writing(body.len() as u64);
                written = staged.file.write_all_at(&body, done);
            }
            cost += cost_of_frame(found.len());
            match &mut checksums {
                Some(all) if written.is_ok() && self.room.has(cost) => {
                    all.push((first_page, found))
                }
                _ => checksums = None,
            }
            done = end;
        }
        let appeared = match (staged, written) {
            (Ok(staged), Ok(())) => self.appear(staged, path),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        Ok(appeared.map(|is_new| {
            self.schedule.synced(Vec::new(), bytes);
            self.summary.put += 1;
            self.summary.put_bytes += bytes;
            // What was there is another's, or was put by a session that did not hear of it: that one expects it.
            let checksums = if is_new { checksums } else { Some(Vec::new()) };
            self.note_put(path, bytes, checksums);
            Answer::Put { is_new }
        }))
    }

    fn check_room(&self, bytes: u64) -> io::Result<()> {
        if self.shared.limits.size_max_bytes.is_some_and(|most| bytes > most) {
            return Err(io::Error::other("it is longer than --max-size"));
        }
        let system = fstatvfs(self.shared.staging.dir())?;
        let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
        if free_bytes < bytes.saturating_add(self.shared.limits.keep_free_bytes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Makes what was staged durable, and gives it its name, if that is free.
    fn appear(&mut self, staged: Staged, path: &RelativePath) -> io::Result<bool> {
        fsync(&staged.file)?;
        let path = self.below(path)?;
        let (parent, name) = path.split_last();
        let directory = self.directory(parent)?;
        let is_new = staged.rename(&directory, name)?;
        fsync(&directory)?;
        Ok(is_new)
    }

    /// Opens a directory, which is made if it is not there, and whose name is durable: what has made one that is there may have
    /// ended before it was.
    fn directory(&mut self, path: Option<&[u8]>) -> io::Result<OwnedFd> {
        let top = self.shared.staging.top();
        let there = match beneath::open_directory(top, path) {
            Err(Errno::NOENT) => None,
            opened => Some(opened.map_err(beneath::explain)?),
        };
        let path = path.unwrap_or_default();
        let directory = match there {
            Some(there) if path.is_empty() || self.durable.contains(path) => return Ok(there),
            Some(there) => there,
            None => beneath::create_directory(top, path).map_err(beneath::explain)?,
        };
        fsync(beneath::open_directory(top, None).map_err(beneath::explain)?)?;
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            fsync(beneath::open_directory(top, Some(&path[..at])).map_err(beneath::explain)?)?;
        }
        if self.durable.len() >= DURABLE_MAX {
            self.durable.clear();
        }
        self.durable.insert(path.to_vec());
        Ok(directory)
    }

    fn opened(&mut self, path: &RelativePath) -> io::Result<u64> {
        let file = self.open_file(path, OFlags::empty())?;
        let bytes = file.metadata()?.len();
        self.open = Some((path.clone(), file));
        Ok(bytes)
    }

    /// Reads into the buffer. Returns how many bytes.
    fn read(&mut self, path: &RelativePath, offset: u64, bytes: u32) -> io::Result<usize> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            self.opened(path)?;
        }
        let count = usize::try_from(bytes).unwrap_or(usize::MAX);
        if count == 0 || count > BODY_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (_, file) = self.open.as_ref().expect("it was opened");
        file.read_exact_at(&mut self.buffer[..count], offset)?;
        self.summary.read_bytes += u64::from(bytes);
        Ok(count)
    }

    /// Sends what is in the buffer.
    fn send(&self, count: usize) -> Result<()> {
        let body = &self.buffer[..count];
        let checksums = body.chunks(PAGE_BYTES).map(crc32c).collect();
        let data = Message::Data { entry: 0, first_page: 0, checksums };
        self.connection.writer.queue_with_body(&data, body)?;
        self.connection.writer.flush()
    }

    fn names(&self, path: Option<&RelativePath>, directories: bool) -> io::Result<Vec<Vec<u8>>> {
        let below = path.map(|path| self.below(path)).transpose()?.or_else(|| self.into.clone());
        let path = below.as_ref().map(RelativePath::as_bytes);
        let directory =
            beneath::open_directory(self.shared.staging.top(), path).map_err(beneath::explain)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let is_hidden = matches!(name, b"." | b"..") || name == STAGING.as_bytes();
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            let wanted = if directories { FileType::Directory } else { FileType::RegularFile };
            if !is_hidden && kind == wanted {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    fn send_names(&self, names: Vec<Vec<u8>>) -> Result<()> {
        let (mut some, mut bytes) = (Vec::new(), 0);
        for name in names {
            bytes += name.len() + 2;
            some.push(name);
            if bytes >= NAMES_BYTES_MAX {
                let names = std::mem::take(&mut some);
                self.connection
                    .writer
                    .queue(&Message::Answer(Answer::Names { names, is_last: false }))?;
                bytes = 0;
            }
        }
        self.connection.writer.send(&Message::Answer(Answer::Names { names: some, is_last: true }))
    }

    fn remove(&mut self, path: &RelativePath) -> io::Result<()> {
        if !self.shared.may_remove {
            let why = "this server lets nothing be removed (--sessions append)";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        self.open = None;
        let path = self.below(path)?;
        // Before it is gone: a session that reads it back at this moment must know why.
        let expected = self.shared.expectations.remove(&path);
        let (parent, name) = path.split_last();
        let removed = beneath::open_directory(self.shared.staging.top(), parent)
            .and_then(|directory| unlinkat(directory, name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => {
                if let Some(file) = expected {
                    self.shared.expectations.put_back(path, file);
                }
                Err(beneath::explain(error))
            }
        }
    }

    /// A file is there, and is to be read back, unless there are no checksums for it.
    fn note_put(
        &mut self,
        path: &RelativePath,
        bytes: u64,
        checksums: Option<Vec<(u64, Vec<u32>)>>,
    ) {
        self.put += 1;
        let Some(checksums) = checksums else {
            self.untracked.get_or_insert(self.put);
            return;
        };
        let Some((first_page, last)) = checksums.last() else { return };
        let end_page = first_page + last.len() as u64;
        let frames = checksums.iter().map(|(_, some)| cost_of_frame(some.len()));
        let cost_bytes = cost_bytes(path, 0) + frames.sum::<u64>();
        let Ok(below) = self.below(path) else { return };
        if !self.room.take(cost_bytes) {
            self.untracked.get_or_insert(self.put);
            return;
        }
        let entry = entry_of(self.put);
        let expectation = self.shared.expectations.add(below);
        let path = path.clone();
        self.expected.insert(entry, Expected { path, end_page, cost_bytes, expectation });
        let ranges = checksums.into_iter().map(|(first_page, checksums)| {
            let pages = checksums.len() as u64;
            let begin = first_page * PAGE_BYTES as u64;
            let bytes = (pages * PAGE_BYTES as u64).min(bytes - begin);
            Range { entry, first_page, pages, bytes, checksums: Checksums::Pages(checksums) }
        });
        self.schedule.synced(ranges.collect(), 0);
    }

    /// A file that an earlier session has put, or a part of it, is to be read back.
    fn expect(
        &mut self,
        path: &RelativePath,
        bytes: u64,
        first_page: u64,
        checksums: &[u32],
    ) -> io::Result<()> {
        let begin = first_page.checked_mul(PAGE_BYTES as u64);
        let length = begin.and_then(|begin| bytes.checked_sub(begin));
        let pages = length.map_or(0, |length| length.div_ceil(PAGE_BYTES as u64));
        if (checksums.len() as u64) > pages || checksums.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.below(path)?;
        let parts = (first_page..).step_by(PAGES_PER_FRAME).zip(checksums.chunks(PAGES_PER_FRAME));
        let parts = parts.map(|(first_page, checksums)| (first_page, checksums.to_vec()));
        self.note_put(path, bytes, Some(parts.collect()));
        Ok(())
    }

    /// Reads back some of what may be by now.
    fn verify(&mut self, bytes_max: u64) {
        let mut done = 0;
        while done < bytes_max
            && let Some(range) = self.schedule.take()
        {
            done += range.bytes;
            self.verify_range(&range);
            self.schedule.done();
        }
    }

    fn verify_range(&mut self, range: &Range) {
        let Some(Expected { path, end_page, .. }) = self.expected.get(&range.entry) else { return };
        let (path, end_page) = (path.clone(), *end_page);
        let Checksums::Pages(expected) = &range.checksums else { return };
        let found = self.read_back(&path, range);
        let is_removed = |session: &Self| {
            let expected = session.expected.get(&range.entry);
            expected.is_none_or(|expected| !expected.expectation.is_wanted())
        };
        let is_good = found.is_ok_and(|found| found == *expected) || is_removed(self);
        if !is_good {
            self.summary.damaged += 1;
            if self.damaged.contains(&path) {
                // It is told.
            } else if self.damaged.len() < DAMAGED_MAX {
                self.damaged.push_back(path);
            } else {
                // It is not, so nothing behind it is said to be verified.
                let number = u64::from(range.entry);
                self.untracked = Some(self.untracked.map_or(number, |first| first.min(number)));
            }
        }
        if !is_good || range.first_page + range.pages == end_page {
            if let Some(done) = self.expected.remove(&range.entry) {
                self.room.give_back(done.cost_bytes);
            }
            self.summary.verified += u64::from(is_good);
        }
    }

    /// The checksums of a range's pages as they are on the medium.
    fn read_back(&mut self, path: &RelativePath, range: &Range) -> io::Result<Vec<u32>> {
        let file = match self.open_file(path, OFlags::DIRECT) {
            // File systems in memory have no cache to bypass.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                self.open_file(path, OFlags::empty())?
            }
            opened => opened?,
        };
        let file = OsFile::from(file);
        let offset = range.first_page * PAGE_BYTES as u64;
        file.drop_cache(offset, range.bytes);
        let wanted = usize::try_from(range.bytes).unwrap_or(usize::MAX);
        let memory = &mut self.buffer[..wanted.next_multiple_of(PAGE_BYTES)];
        let mut got = 0;
        while got < wanted {
            let read = file.read_at(&mut memory[got..], offset + got as u64)?;
            got += read;
            if read == 0 || (got < wanted && !got.is_multiple_of(PAGE_BYTES)) {
                return Ok(Vec::new());
            }
        }
        Ok(memory[..wanted].chunks(PAGE_BYTES).map(crc32c).collect())
    }
}

/// The number that a file has in the schedule.
fn entry_of(put: u64) -> u32 {
    u32::try_from(put).unwrap_or(u32::MAX)
}

fn failed(error: &io::Error) -> Answer {
    match error.kind() {
        io::ErrorKind::NotFound => Answer::Absent,
        kind => Answer::Failed {
            is_denied: kind == io::ErrorKind::PermissionDenied,
            why: error.to_string(),
        },
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// A file on its way, which is removed unless it gets its name.
struct Staged {
    staging: Arc<Staging>,
    name: String,
    file: OsHandle,
}

impl Staged {
    fn create(staging: &Arc<Staging>) -> io::Result<Self> {
        // As long as the names of other staged files, and never one of them.
        let name =
            format!("{:032x}", u128::from(fastrand::u64(..)) << 64 | u128::from(fastrand::u64(..)));
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(staging.dir(), &name, flags, Mode::from_raw_mode(0o600))?;
        Ok(Self { staging: Arc::clone(staging), name, file: file.into() })
    }

    /// Gives it its name. Returns whether that was free.
    fn rename(&self, directory: &OwnedFd, name: &[u8]) -> io::Result<bool> {
        let staging = self.staging.dir();
        match renameat_with(staging, &self.name, directory, name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Ok(false),
            // The file system does not know that.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
        match linkat(staging, &self.name, directory, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Nothing is there when it was renamed.
        let _gone = unlinkat(self.staging.dir(), &self.name, AtFlags::empty());
    }
}
