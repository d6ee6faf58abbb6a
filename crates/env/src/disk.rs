//! Files and directories, and what may be believed about them after a crash.
//!
//! Durability has two halves, and each has a call of its own:
//!
//! ```text
//!   what is in a file (bytes, length)      File::sync_data
//!   that the file is there, by this name   Disk::sync_dir of its directory
//! ```
//!
//! [`File::write_durably_at`] is a write and the first half in one call.
//!
//! Until the call has returned `Ok`, a crash may keep any part of what it would have made durable:
//! some of several writes, in any order; some sectors of one write; a rename or not. The one thing
//! that is atomic is a rename: after a crash `to` is the old file or the new one.
//!
//! A call that returns an error may have had any part of its effect. A **failed sync** is final:
//! the kernel may have dropped the dirty data and report success the next time. The caller must
//! not trust that file's unsynced bytes again, whatever a later sync says.

use std::ffi::OsString;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; writes fail.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// A disk: directories with files in them. Shared between threads as an `Arc<dyn Disk>`.
pub trait Disk: Send + Sync {
    /// Makes `path` and its missing parents. They are durable on return.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in `dir`, sorted, files and directories alike. `NotFound` without it.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Makes an empty file, open for reading and writing. `AlreadyExists` if the name is taken.
    /// Its name is durable after [`Disk::sync_dir`].
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that exists; `NotFound` otherwise.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>>;

    /// Gives the file `from` the name `to`, atomically replacing a file of that name. Handles stay
    /// open: those of the replaced file still read it. Durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the further name `to`; `AlreadyExists` if that is taken. Durable after
    /// [`Disk::sync_dir`] of the directory of `to`. `Unsupported` where files have one name.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file. Handles stay open. Durable after [`Disk::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable every create, rename and remove in `dir` that has returned.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Whether the file has another name besides this one: a hard link, such as a backup's.
    fn has_other_names(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Takes the exclusive lock that the file `path` stands for, making the file if needed.
    /// `WouldBlock` if another handle has it, in this process or another. Dropping the guard or
    /// the death of the process gives it back; the file stays.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// Memory for reads of so many bytes by [`File::read_once_at`].
    fn read_buffer(&self, bytes: usize) -> ReadBuffer {
        ReadBuffer::new(bytes)
    }

    /// How many bytes can still be written to the file system that `dir` is on.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file. No position of its own: every read and write says where.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads exactly `buf.len()` bytes at `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Reads as [`File::read_exact_at`] does, once and not again: no memory is filled with what
    /// it does not hold already. For what was written by [`File::write_durably_at`]; cheapest
    /// where offset and length are whole sectors of 512 bytes, and `buf` is the front of a
    /// [`ReadBuffer`] of a few MiB.
    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    /// Writes all of `bytes` at `offset`, growing the file as needed; a gap reads as zeros. After
    /// an error or a crash any part of it may be there. Durable after [`File::sync_data`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes durable every byte written and the length set, by any handle, before the call.
    fn sync_data(&self) -> io::Result<()>;

    /// Writes all of `bytes` at `offset` and makes them durable, as [`File::write_all_at`] and
    /// [`File::sync_data`] do, but says nothing of what was written before. For logs: cheapest
    /// where offset and length are whole sectors of 512 bytes, and bytes of the file already.
    /// What is written may have to be read from the device.
    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)?;
        self.sync_data()
    }

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to `len` bytes, or grows it with zeros. Durable after [`File::sync_data`].
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `len` bytes at `offset` without changing the length, so that writing
    /// there later cannot run out of it. `StorageFull` if there is none; `Ok` without any effect
    /// where the file system cannot reserve. Cutting the file short of it gives the space back.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Whether the file has a name: one that was removed or replaced has none, but for hard links.
    fn has_name(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Says that the file is about to be read from beginning to end.
    fn advise_sequential(&self) {}

    /// Says that these bytes, already synced, are not needed again soon.
    fn drop_cache(&self, _offset: u64, _len: u64) {}

    /// How many of these bytes the host's memory holds, in whole pages; `None` where that is unknown.
    fn cached_bytes(&self, _offset: u64, _len: u64) -> Option<u64> {
        None
    }
}

/// What a [`ReadBuffer`] begins at a multiple of: what the largest pages of memory do, too.
const BUFFER_ALIGNMENT: usize = 2 << 20;

/// Memory that is aligned as reads past all caches want it. Zeros, until something is read.
#[derive(Debug)]
pub struct ReadBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl ReadBuffer {
    /// Memory of so many bytes; behind them there is as much that it ends where a large page does.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes.next_multiple_of(BUFFER_ALIGNMENT) + BUFFER_ALIGNMENT];
        Self { start: memory.as_ptr().align_offset(BUFFER_ALIGNMENT), memory, bytes }
    }

    /// All of the large pages that it is in.
    pub fn large_pages(&mut self) -> &mut [u8] {
        let bytes = self.bytes.next_multiple_of(BUFFER_ALIGNMENT);
        &mut self.memory[self.start..self.start + bytes]
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

impl DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// A lock held; dropping it gives it back.
pub trait Lock: Send + Sync {}
