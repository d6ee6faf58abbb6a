//! Files and directories, and what a program can rely on after a crash.
//!
//! Durability has two halves, each with its own call:
//!
//! ```text
//!   what is in a file (bytes, length)      File::sync_data
//!   that the file is there, by this name   Disk::sync_dir of its directory
//! ```
//!
//! [`File::write_durably_at`] is a write and the first half in one call.
//!
//! Until the call has returned `Ok`, a crash may keep any part of what it would have made durable:
//! some of several writes, in any order; some sectors of one write; a rename or not. Only a rename
//! is atomic: after a crash, `to` is the old file or the new one.
//!
//! A call that returns an error may have had any part of its effect. A **failed sync** is final:
//! the kernel may have dropped the dirty data and report success the next time. The caller must not
//! trust that file's unsynced bytes again, whatever a later sync says.

use std::ffi::OsString;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The purpose of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; writes fail.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// What differs when a file was changed, or another one has taken its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// The number of the file in its file system; 0 where files have none.
    pub number: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was changed last, in Unix nanoseconds; 0 where that is not known.
    pub changed_at_ns: i128,
    /// Whether it is a file with bytes of its own: no directory, device, pipe or socket.
    pub is_regular: bool,
}

/// A disk: directories with files in them. Shared between threads as an `Arc<dyn Disk>`.
pub trait Disk: Send + Sync {
    /// Creates `path` and its missing parents. They are durable on return.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in `dir`, sorted, files and directories alike. `NotFound` if `dir` does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Creates an empty file, open for reading and writing. `AlreadyExists` if the name is taken.
    /// Its name is durable after [`Disk::sync_dir`].
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that exists; `NotFound` otherwise.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>>;

    /// Renames the file `from` to `to`, atomically replacing a file of that name. Handles stay
    /// open: those of the replaced file still read it. Durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the additional name `to`; `AlreadyExists` if that is taken. Durable after
    /// [`Disk::sync_dir`] of the directory of `to`. `Unsupported` where files have one name.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file. Handles stay open. Durable after [`Disk::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory that is empty; a crash may bring it back. `Unsupported` where directories
    /// stay.
    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes durable every create, rename and remove in `dir` that has returned.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Whether the file has another name as well: a hard link, such as a backup's.
    fn has_other_names(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Gives the file `to` the permissions of the file `from`. Does nothing where files have none.
    fn copy_permissions(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Gives the file or directory `to` to the owner and the group of `from`, if that is not so already.
    /// `PermissionDenied` if the process may not. Does nothing where files have no owner.
    fn copy_owner(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    /// When the file was changed last, in Unix milliseconds; `None` where that is not known.
    fn changed_at_ms(&self, _path: &Path) -> io::Result<Option<i64>> {
        Ok(None)
    }

    /// What the file of that name is at the moment.
    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        let bytes = self.open(path, Access::Read)?.len()?;
        Ok(FileVersion { number: 0, bytes, changed_at_ns: 0, is_regular: true })
    }

    /// Whether the name is that of a symbolic link.
    fn is_symlink(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Takes the exclusive lock represented by the file `path`, creating the file if needed.
    /// `WouldBlock` if another handle holds it, in this process or another. Dropping the guard, or
    /// the death of the process, releases it; the file remains.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// Allocates memory for reading `bytes` bytes by [`File::read_once_at`].
    fn read_buffer(&self, bytes: usize) -> ReadBuffer {
        ReadBuffer::new(bytes)
    }

    /// A way to read from several places at a time, by one thread; `None` where there is none.
    fn read_together(&self) -> Option<Box<dyn ReadTogether>> {
        None
    }

    /// The number of bytes that can still be written to the file system of `dir`.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// A number that the file system of `path` has and no other; `None` where that is not known.
    fn file_system(&self, _path: &Path) -> Option<u64> {
        None
    }

    /// Whether a write over synced bytes of a file in `dir` changes nothing but those bytes: neither the
    /// length of the file nor where it lies. Then zeros that are written ahead spare later writes that.
    fn overwrites_in_place(&self, _dir: &Path) -> bool {
        false
    }

    /// The number of bytes that the file system of `dir` has in all; the largest where that is not known.
    fn capacity_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

/// An open file. It has no position of its own: every read and write specifies an offset.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads exactly `buf.len()` bytes at `offset`; `UnexpectedEof` if the file ends earlier.
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

    /// Reads as [`File::read_exact_at`], for bytes that are read only once. It does not fill the
    /// cache with what is not in it already. For data written by [`File::write_durably_at`];
    /// cheapest if offset and length are multiples of 512-byte sectors, and `buf` is the front of a
    /// [`ReadBuffer`] of a few MiB.
    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    /// Returns the descriptor by which [`File::read_once_at`] reads past the cache; `None` if it does not.
    fn past_cache(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Writes all of `bytes` at `offset`, growing the file as needed; a gap reads as zeros. After
    /// an error or a crash, any part of it may be in the file. Durable after [`File::sync_data`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes durable every byte written and the length set before the call, by any handle.
    fn sync_data(&self) -> io::Result<()>;

    /// Writes all of `bytes` at `offset` and makes them durable. It combines [`File::write_all_at`]
    /// and [`File::sync_data`], but does not cover earlier writes. For logs: cheapest if offset and
    /// length are multiples of 512-byte sectors, inside the existing length of the file. Reading
    /// these bytes later may need the device.
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

    /// Truncates the file to `len` bytes, or extends it with zeros. Durable after
    /// [`File::sync_data`].
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `len` bytes at `offset` without changing the length. Writing there later
    /// cannot run out of space. `StorageFull` if there is none; `Ok` without any effect if the file
    /// system cannot reserve space. Truncating the file below it releases the space.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Whether the file has a name: a removed or replaced file has none, except for hard links.
    fn has_name(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Announces that the file will be read from beginning to end.
    fn advise_sequential(&self) {}

    /// Announces that these bytes will be read soon: they may be fetched meanwhile.
    fn fetch_ahead(&self, _offset: u64, _len: u64) {}

    /// Announces that these bytes, already synced, are not needed again soon.
    fn drop_cache(&self, _offset: u64, _len: u64) {}

    /// How many of these bytes are in the host's memory, in whole pages; `None` if unknown.
    fn cached_bytes(&self, _offset: u64, _len: u64) -> Option<u64> {
        None
    }
}

/// A read of bytes that are needed once, one of several that are in flight together.
#[derive(Clone, Copy)]
pub struct OnceRead<'a> {
    /// The file.
    pub file: &'a dyn File,
    /// Where in it.
    pub offset: u64,
    /// How many bytes, all of which must be there.
    pub len: usize,
}

/// Reads from several places of files at a time, each as [`File::read_once_at`] does.
///
/// A device answers many reads in little more than the time of one, and the kernel is asked once for all.
pub trait ReadTogether: Send {
    /// Carries out `reads` and tells `each` the bytes of every one, by its place in `reads`, or why they
    /// could not be read. It is told once of each, in any order.
    fn read(&mut self, reads: &[OnceRead<'_>], each: &mut dyn FnMut(usize, io::Result<&[u8]>));
}

/// The alignment of a [`ReadBuffer`], which is the size of large memory pages.
const BUFFER_ALIGNMENT: usize = 2 << 20;

/// A page of any machine, or a part of one.
const PAGE_BYTES: usize = 4096;

/// Memory aligned for reads that bypass all caches. Zero until something is read into it.
#[derive(Debug)]
pub struct ReadBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl ReadBuffer {
    /// Allocates `bytes` bytes, followed by enough to fill the last large page.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let alignment = alignment_of(bytes);
        let memory = vec![0; bytes.next_multiple_of(alignment) + alignment];
        Self { start: memory.as_ptr().align_offset(alignment), memory, bytes }
    }

    /// Returns all large pages that contain the buffer; none for a small one.
    pub fn large_pages(&mut self) -> &mut [u8] {
        let is_large = alignment_of(self.bytes) == BUFFER_ALIGNMENT;
        let bytes = if is_large { self.bytes.next_multiple_of(BUFFER_ALIGNMENT) } else { 0 };
        &mut self.memory[self.start..self.start + bytes]
    }
}

/// A buffer that is no large page begins at a page: otherwise each would take two large ones.
const fn alignment_of(bytes: usize) -> usize {
    if bytes < BUFFER_ALIGNMENT { PAGE_BYTES } else { BUFFER_ALIGNMENT }
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

/// A held lock; dropping it releases it.
pub trait Lock: Send + Sync {}
