//! The client's end of a session: another machine's directory as a place in which files are put once.
//!
//! A connection is made when something is asked for, and made again when it was lost. What was put and not yet read back is expected by the next
//! session, too; so what is said to be verified is, whatever became of connections and of the server's process. What this store has removed is
//! not missed. When more waits to be read back than there is memory for its checksums, what comes then is not: and nothing behind it is said to be verified.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::checksum::crc32c;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::expectations::{Room, cost_bytes};
use crate::frame::{BODY_MAX, PAGE_BYTES};
use crate::message::{Answer, CHECKSUMS_MAX, Message, Request, Verification, Wish};
use crate::relative_path::RelativePath;
use crate::service::{Remote, Trust, connect};

/// How long the other end may be silent when it was asked for something.
const PATIENCE: Duration = Duration::from_secs(60);

/// So much memory files take that were not read back: 4 bytes for each 4 KiB, and about 200 for each file.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// So many files are expected before an answer is waited for.
const EXPECTED_AT_ONCE: usize = 128;

/// The names in a directory take no more memory, of which each takes so much next to its bytes.
const NAMES_BYTES_MAX: usize = 1 << 30;
const NAME_BYTES: usize = 32;

/// How far what was put is verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stand {
    /// How many files this store has put.
    pub put: u64,
    /// How many of them were read back from the medium, the first ones first.
    pub verified: u64,
    /// Files that were read back as something else, each once.
    pub damaged: Vec<RelativePath>,
}

/// A file that was put, and is not known to be read back.
struct Unverified {
    path: RelativePath,
    bytes: u64,
    checksums: Vec<u32>,
    /// Which it is of this store's.
    number: u64,
    /// Which request of the session it was, or the last of several.
    sequence: u64,
}

struct Live {
    connection: Connection,
    /// How many files were put or expected in this session.
    sequence: u64,
}

struct Inner {
    remote: Remote,
    trust: Trust,
    verification: Verification,
    live: Option<Live>,
    put: u64,
    verified: u64,
    unverified: VecDeque<Unverified>,
    room: Room,
    /// The first one that is not read back, because too much waits to be.
    untracked: Option<u64>,
}

/// See the file's top. Its clones are the same.
#[derive(Clone)]
pub struct Store(Arc<Mutex<Inner>>);

impl Store {
    /// The directory that a server has there. Nothing is asked of it yet.
    #[must_use]
    pub fn new(remote: Remote, trust: Trust, verification: Verification) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            remote,
            trust,
            verification,
            live: None,
            put: 0,
            verified: 0,
            unverified: VecDeque::new(),
            room: Room::new(KEPT_BYTES_MAX),
            untracked: None,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a file, durably, if there is none of that name. Returns whether there was none.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses; the file may be there all the same.
    pub fn put_new(&self, path: &RelativePath, bytes: &[u8]) -> Result<bool> {
        let mut inner = self.inner();
        let checksums: Vec<u32> = bytes.chunks(PAGE_BYTES).map(crc32c).collect();
        let is_new = inner.call(|live| live.put(path, bytes, &checksums))?;
        inner.note_put(path, bytes.len() as u64, checksums, is_new)?;
        Ok(is_new)
    }

    /// The length of a file; `None` if there is none.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn open(&self, path: &RelativePath) -> Result<Option<u64>> {
        let request = Request::Open { path: path.clone() };
        self.inner().call(|live| match live.ask(&request)? {
            Answer::Opened { bytes } => Ok(Some(bytes)),
            Answer::Absent => Ok(None),
            other => Err(unexpected(other)),
        })
    }

    /// Reads exactly so many bytes of a file from there on.
    ///
    /// # Errors
    /// When the file ends before, or the server cannot be reached or refuses.
    pub fn read(&self, path: &RelativePath, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut inner = self.inner();
        for (number, part) in (0..).zip(buffer.chunks_mut(BODY_MAX)) {
            let offset = offset + number * BODY_MAX as u64;
            inner.call(|live| live.read(path, offset, part))?;
        }
        Ok(())
    }

    /// The names of the directories, or of the files, in a directory; `None` if there is none.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn names(
        &self,
        path: Option<&RelativePath>,
        directories: bool,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let request = Request::List { path: path.cloned(), directories };
        self.inner().call(|live| live.names(&request))
    }

    /// Removes a file; nothing if there is none.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn remove(&self, path: &RelativePath) -> Result<()> {
        let request = Request::Remove { path: path.clone() };
        let mut inner = self.inner();
        // Before: if nothing is heard of it, it may be gone.
        inner.forget(path);
        inner.call(|live| match live.ask(&request)? {
            Answer::Done | Answer::Absent => Ok(()),
            other => Err(unexpected(other)),
        })
    }

    /// How far what was put is verified.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn stand(&self) -> Result<Stand> {
        let mut inner = self.inner();
        let (verified, damaged) = inner.call(|live| match live.ask(&Request::Stand)? {
            Answer::Stand { verified, damaged, .. } => Ok((verified, damaged)),
            other => Err(unexpected(other)),
        })?;
        inner.note_verified(verified);
        Ok(Stand { put: inner.put, verified: inner.verified, damaged })
    }
}

impl Inner {
    /// Does something over the connection, which is made if there is none, and once more if one that was there turns out to be lost.
    fn call<T>(&mut self, mut call: impl FnMut(&mut Live) -> Result<T>) -> Result<T> {
        let was_there = self.live.is_some();
        let done = self.live().and_then(&mut call);
        match done {
            Err(error) if is_lost(&error) => {
                self.live = None;
                if !was_there {
                    return Err(error);
                }
                let again = self.live().and_then(&mut call);
                if again.as_ref().is_err_and(is_lost) {
                    self.live = None;
                }
                again
            }
            done => done,
        }
    }

    fn live(&mut self) -> Result<&mut Live> {
        if self.live.is_none() {
            let wish = Wish::Session { into: self.remote.path().cloned() };
            let connection = connect(&self.remote, &self.trust, self.verification, wish);
            let connection = connection.map_err(|error| match error {
                Error::BrokenOff => Error::Refused(
                    "it hung up; is it as new as this program? Sessions want version 2 of the protocol".to_owned(),
                ),
                error => error,
            })?;
            connection.hangup.be_patient(PATIENCE)?;
            let mut live = Live { connection, sequence: 0 };
            live.expect(self.unverified.iter_mut())?;
            self.live = Some(live);
        }
        Ok(self.live.as_mut().expect("it was just made"))
    }

    /// A file is there, and is to be read back.
    fn note_put(
        &mut self,
        path: &RelativePath,
        bytes: u64,
        checksums: Vec<u32>,
        is_new: bool,
    ) -> Result<()> {
        let cost = cost_bytes(path, checksums.len());
        let (is_empty, number) = (checksums.is_empty(), self.put + 1);
        let sequence = self.live.as_ref().map_or(0, |live| live.sequence);
        let mut file = Unverified { path: path.clone(), bytes, checksums, number, sequence };
        if !is_empty && !is_new && self.room.has(cost)
            // An attempt of which nothing was heard has put it.
            && let Some(mut live) = self.live.take()
        {
            live.expect([&mut file])?;
            self.live = Some(live);
        }
        self.put = number;
        if is_empty {
            return Ok(());
        }
        if self.room.take(cost) {
            self.unverified.push_back(file);
        } else {
            self.untracked.get_or_insert(number);
        }
        Ok(())
    }

    /// A file is to be removed: nothing needs it.
    fn forget(&mut self, path: &RelativePath) {
        let room = &mut self.room;
        self.unverified.retain(|file| {
            let is_other = file.path != *path;
            if !is_other {
                room.give_back(cost_bytes(&file.path, file.checksums.len()));
            }
            is_other
        });
    }

    /// The first so many files that were put or expected in this session were read back.
    fn note_verified(&mut self, sequence: u64) {
        while let Some(file) = self.unverified.pop_front_if(|file| file.sequence <= sequence) {
            self.room.give_back(cost_bytes(&file.path, file.checksums.len()));
        }
        let next = self.unverified.front().map(|file| file.number);
        let next = next.into_iter().chain(self.untracked).min();
        self.verified = next.map_or(self.put, |next| next - 1);
    }
}

/// Whether a connection is of no use any more.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::BrokenOff | Error::Protocol(_) | Error::Token(_))
        || matches!(error, Error::Io { what, .. } if what == "connection")
}

impl Live {
    fn send(&self, request: Request) -> Result<()> {
        self.connection.writer.send(&Message::Request(request))
    }

    fn answer(&mut self) -> Result<Answer> {
        match self.connection.reader.next()? {
            Message::Answer(Answer::Failed { is_denied: true, why }) => {
                Err(Error::io(why, io::ErrorKind::PermissionDenied))
            }
            Message::Answer(Answer::Failed { why, .. }) => Err(Error::Refused(why)),
            Message::Answer(answer) => Ok(answer),
            Message::Refuse { why } => Err(Error::Refused(why)),
            _ => Err(Error::protocol("no answer")),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer> {
        self.send(request.clone())?;
        self.answer()
    }

    fn put(&mut self, path: &RelativePath, bytes: &[u8], checksums: &[u32]) -> Result<bool> {
        let writer = &self.connection.writer;
        let request = Request::Put { path: path.clone(), bytes: bytes.len() as u64 };
        writer.queue(&Message::Request(request))?;
        let pages = BODY_MAX / PAGE_BYTES;
        for (first_page, (body, checksums)) in
            (0..).step_by(pages).zip(bytes.chunks(BODY_MAX).zip(checksums.chunks(pages)))
        {
            let data = Message::Data { entry: 0, first_page, checksums: checksums.to_vec() };
            writer.queue_with_body(&data, body)?;
        }
        writer.flush()?;
        match self.answer()? {
            Answer::Put { is_new } => {
                self.sequence += 1;
                Ok(is_new)
            }
            other => Err(unexpected(other)),
        }
    }

    /// Has files read back that are there. After an error the connection is of no use.
    fn expect<'a>(&mut self, files: impl IntoIterator<Item = &'a mut Unverified>) -> Result<()> {
        let mut asked = 0;
        for file in files {
            for (first_page, checksums) in
                (0..).step_by(CHECKSUMS_MAX).zip(file.checksums.chunks(CHECKSUMS_MAX))
            {
                if asked == EXPECTED_AT_ONCE {
                    self.hear_done(asked)?;
                    asked = 0;
                }
                let (path, bytes, checksums) = (file.path.clone(), file.bytes, checksums.to_vec());
                let request = Request::Expect { path, bytes, first_page, checksums };
                self.connection.writer.queue(&Message::Request(request))?;
                asked += 1;
                self.sequence += 1;
            }
            file.sequence = self.sequence;
        }
        self.hear_done(asked)
    }

    /// Sends what was queued, and waits for so many answers.
    fn hear_done(&mut self, count: usize) -> Result<()> {
        if count > 0 {
            self.connection.writer.flush()?;
        }
        for _ in 0..count {
            let answer = self.answer()?;
            if answer != Answer::Done {
                return Err(unexpected(answer));
            }
        }
        Ok(())
    }

    fn read(&mut self, path: &RelativePath, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = u32::try_from(buffer.len()).expect("at most 1 MiB");
        self.send(Request::Read { path: path.clone(), offset, bytes })?;
        match self.connection.reader.next()? {
            Message::Data { checksums, .. }
                if self.connection.reader.body_bytes() == buffer.len() =>
            {
                self.connection.reader.read_body(buffer)?;
                let found: Vec<u32> = buffer.chunks(PAGE_BYTES).map(crc32c).collect();
                if found != checksums {
                    return Err(Error::protocol("pages with wrong checksums"));
                }
                Ok(())
            }
            Message::Answer(Answer::Absent) => {
                Err(Error::io(path.to_string(), io::ErrorKind::NotFound))
            }
            Message::Answer(Answer::Failed { why, .. }) => Err(Error::Refused(why)),
            _ => Err(Error::protocol("other bytes than were asked for")),
        }
    }

    fn names(&mut self, request: &Request) -> Result<Option<Vec<Vec<u8>>>> {
        self.send(request.clone())?;
        let (mut all, mut bytes) = (Vec::new(), 0);
        loop {
            match self.answer()? {
                Answer::Names { names, is_last } => {
                    bytes += names.iter().map(|name| name.len() + NAME_BYTES).sum::<usize>();
                    if bytes > NAMES_BYTES_MAX || (names.is_empty() && !is_last) {
                        return Err(Error::protocol("names without an end"));
                    }
                    all.extend(names);
                    if is_last {
                        return Ok(Some(all));
                    }
                }
                Answer::Absent => return Ok(None),
                other => return Err(unexpected(other)),
            }
        }
    }
}

fn unexpected(answer: Answer) -> Error {
    Error::protocol(format!("an answer to something else: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    /// Without a connection: what was put is noted, and how far it was read back.
    fn inner(most_bytes: u64) -> Inner {
        let remote = "127.0.0.1:1".parse().unwrap();
        let store = Store::new(remote, Trust::Loopback, Verification::default());
        let inner = Arc::into_inner(store.0).unwrap().into_inner().unwrap();
        Inner { room: Room::new(most_bytes), ..inner }
    }

    /// Puts a file of so many pages, as the session's request of that number.
    fn put(inner: &mut Inner, name: &str, pages: usize) {
        inner.note_put(&path(name), (pages * PAGE_BYTES) as u64, vec![0; pages], true).unwrap();
        let number = inner.put;
        inner.unverified.iter_mut().filter(|it| it.number == number).for_each(|it| {
            it.sequence = number;
        });
    }

    #[test]
    fn behind_what_there_is_no_memory_for_nothing_is_said_to_be_verified() {
        let cost = cost_bytes(&path("a"), 10);
        let mut inner = inner(2 * cost);
        for name in ["a", "b", "c", "d"] {
            put(&mut inner, name, 10);
        }
        assert_eq!((inner.unverified.len(), inner.untracked), (2, Some(3)));
        inner.note_verified(1);
        assert_eq!(inner.verified, 1);
        put(&mut inner, "e", 10);
        inner.note_verified(5);
        assert_eq!((inner.put, inner.verified), (5, 2), "the third one was not read back");
        assert!(inner.room.has(2 * cost), "the memory is given back");
    }

    #[test]
    fn what_was_removed_holds_nothing_up_and_takes_no_memory() {
        let mut inner = inner(1 << 20);
        for name in ["a", "b", "c"] {
            put(&mut inner, name, 1);
        }
        inner.note_verified(0);
        assert_eq!(inner.verified, 0);
        inner.forget(&path("a"));
        inner.note_verified(0);
        assert_eq!(inner.verified, 1);
        inner.forget(&path("c"));
        inner.forget(&path("b"));
        inner.note_verified(0);
        assert_eq!(inner.verified, 3);
        assert!(inner.room.has(1 << 20));
    }
}
