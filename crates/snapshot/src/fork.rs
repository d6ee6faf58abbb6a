//! Fork (sections 3.1.2 and 5.2.3): the operating system copies pages when they are written.
//!
//! ```text
//!   parent   D ◄── client           taken phase: fork(2), which copies the page tables
//!   child    D, as it was           'R': all rows, through a pipe, to the parent's snapshotter
//!                                   'D' path: dumps them to a file itself, and reports the result
//! ```
//!
//! This is what Redis does. Between two snapshots, it costs nothing. The taken phase grows with the
//! number of pages, and afterwards the first write to each page faults and copies it: 4 KiB, or 2
//! MiB with huge pages, for which the page tables are 512 times smaller.
//!
//! # `unsafe`
//!
//! `fork` in a process with threads: the child has only the thread that called it. Whatever the
//! other threads were doing stops there; a lock held by one of them is never released. So the child
//! uses nothing that another thread may have locked: only the rows (atomics), its pipes, and the
//! disk that it was given (`env_os::OsDisk` has no state). It may allocate, because glibc and
//! jemalloc take their own locks around a fork. It prints nothing, does not unwind into the
//! parent's frames, and exits by `_exit`, which runs none of the parent's destructors and flushes
//! none of its buffers.

#![expect(unsafe_code, reason = "fork(2) and _exit(2)")]

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::{Rows, Shape};
use crate::dump::{self, Summary};
use crate::error::{Error, Result};
use crate::gate::Closed;

/// Request: all rows through the pipe.
const ROWS: u8 = b'R';
/// Request: dump to a file. Sequence number (8), length of the path (8), path.
const DUMP: u8 = b'D';
/// Bytes gathered before they go through the pipe.
const PIPE_BUFFER_BYTES: usize = 64 * 1024;

/// The process that holds a snapshot, as the parent sees it.
struct Child {
    pid: Pid,
    requests: File,
    replies: BufReader<File>,
    /// Unread rows of the last request.
    rows_left: usize,
}

impl Drop for Child {
    /// The child has nothing left to do, or its result is no longer wanted.
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Fork; see the module.
pub struct Fork {
    d: Rows,
    shape: Shape,
    disk: Option<Arc<dyn env::Disk>>,
    child: Mutex<Option<Child>>,
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Child { what: format!("{what}: {error}") }
}

impl Fork {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves requests in the child, one after another, until there are no more or one fails.
    fn serve(&self, mut requests: File, replies: File) -> io::Result<()> {
        let mut replies = BufWriter::with_capacity(PIPE_BUFFER_BYTES, replies);
        let mut request = [0];
        while requests.read(&mut request)? == 1 {
            match request[0] {
                ROWS => self.send_rows(&mut replies)?,
                DUMP => {
                    let sequence = read_u64(&mut requests)?;
                    let mut path = vec![0; usize::try_from(read_u64(&mut requests)?).unwrap_or(0)];
                    requests.read_exact(&mut path)?;
                    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
                    self.reply_to_dump(&mut replies, &path, sequence)?;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            replies.flush()?;
        }
        Ok(())
    }

    fn send_rows(&self, replies: &mut impl Write) -> io::Result<()> {
        let mut value = vec![0; self.shape.row_words()];
        for row in 0..self.shape.rows() {
            self.d.load(row, &mut value);
            for word in &value {
                replies.write_all(&word.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Rows, bytes, and the length of an error text: 0 for success, otherwise the text follows.
    fn reply_to_dump(
        &self,
        replies: &mut impl Write,
        path: &Path,
        sequence: u64,
    ) -> io::Result<()> {
        let (summary, complaint) = match self.dump(path, sequence) {
            Ok(summary) => (summary, String::new()),
            Err(error) => (Summary::default(), error.to_string()),
        };
        for number in [summary.rows, summary.bytes, complaint.len() as u64] {
            replies.write_all(&number.to_le_bytes())?;
        }
        replies.write_all(complaint.as_bytes())
    }

    fn dump(&self, path: &Path, sequence: u64) -> Result<Summary> {
        let Some(disk) = &self.disk else {
            return Err(Error::Child { what: "it has no disk".into() });
        };
        let mut writer =
            dump::Writer::create(disk.as_ref(), path, self.shape, Content::Full, sequence)?;
        let mut value = vec![0; self.shape.row_words()];
        for row in 0..self.shape.rows() {
            self.d.load(row, &mut value);
            writer.row(row, &value)?;
        }
        writer.finish()
    }

    fn ask_for_dump(&self, path: &Path, sequence: u64) -> Result<Summary> {
        let mut guard = self.child();
        let Some(child) = guard.as_mut() else {
            return Err(Error::Child { what: "it does not exist".into() });
        };
        skip_rows(child, self.shape).map_err(|error| failed("its rows", &error))?;
        let mut exchange = || -> io::Result<(Summary, String)> {
            let bytes = path.as_os_str().as_bytes();
            let mut request = vec![DUMP];
            request.extend(sequence.to_le_bytes());
            request.extend((bytes.len() as u64).to_le_bytes());
            request.extend(bytes);
            child.requests.write_all(&request)?;
            let replies = &mut child.replies;
            let summary = Summary { rows: read_u64(replies)?, bytes: read_u64(replies)? };
            let mut complaint = String::new();
            let length = read_u64(replies)?;
            replies.take(length).read_to_string(&mut complaint)?;
            Ok((summary, complaint))
        };
        let (summary, complaint) = exchange().map_err(|error| failed("no reply", &error))?;
        if complaint.is_empty() { Ok(summary) } else { Err(Error::Child { what: complaint }) }
    }
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads and drops the remaining rows of the last request.
fn skip_rows(child: &mut Child, shape: Shape) -> io::Result<()> {
    let bytes = (child.rows_left * shape.row_bytes()) as u64;
    child.rows_left = 0;
    let skipped = io::copy(&mut (&mut child.replies).take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Algorithm for Fork {
    const NAME: &'static str = "fork";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        Self {
            d: setup.initial_rows(),
            shape: setup.shape,
            disk: setup.child_disk.clone(),
            child: Mutex::new(None),
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.d.load(row, into);
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        self.d.store(row, value);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|error| failed("no pipe", &error))
        };
        let (requests_read, requests_write) = pipe()?;
        let (replies_read, replies_write) = pipe()?;
        // SAFETY: the child continues in the branch below with this thread alone, uses only what
        // the module permits, and never returns from it.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop((requests_write, replies_read));
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.serve(requests_read.into(), replies_write.into())
            }));
            let status = i32::from(!matches!(served, Ok(Ok(()))));
            // SAFETY: ends the process without running any code of the parent's.
            unsafe { libc::_exit(status) }
        }
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(failed("fork", &io::Error::last_os_error()));
        };
        *self.child() = Some(Child {
            pid,
            requests: requests_write.into(),
            replies: BufReader::with_capacity(PIPE_BUFFER_BYTES, replies_read.into()),
            rows_left: 0,
        });
        Ok(())
    }

    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        let mut guard = self.child();
        let Some(child) = guard.as_mut() else {
            return Err(Error::Child { what: "it does not exist".into() });
        };
        let mut read = || -> io::Result<()> {
            if row == 0 {
                child.requests.write_all(&[ROWS])?;
                child.rows_left = self.shape.rows();
            }
            for word in into.iter_mut() {
                *word = read_u64(&mut child.replies)?;
            }
            child.rows_left -= 1;
            Ok(())
        };
        read().map_err(|error| failed("its rows", &error))?;
        Ok(true)
    }

    fn rewind(&self) -> Result<()> {
        match self.child().as_mut() {
            Some(child) => skip_rows(child, self.shape).map_err(|error| failed("its rows", &error)),
            None => Err(Error::Child { what: "it does not exist".into() }),
        }
    }

    fn dump_elsewhere(&self, path: &Path, sequence: u64) -> Option<Result<Summary>> {
        self.disk.as_ref().map(|_| self.ask_for_dump(path, sequence))
    }

    fn finish(&self) {
        *self.child() = None;
    }
}
