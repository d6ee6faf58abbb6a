//! The operating system's disk, with a trace of its reads and writes.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::{Access, Disk, File, Lock, ReadBuffer};
use env_os::OsDisk;

use crate::flash::trace::{Trace, What};

/// The disk.
pub(super) struct TracedDisk {
    trace: Arc<Trace>,
}

impl TracedDisk {
    pub(super) fn new(trace: Arc<Trace>) -> Self {
        Self { trace }
    }

    fn traced(&self, path: &Path, file: Box<dyn File>) -> io::Result<Box<dyn File>> {
        let number = self.trace.file(path, file.len()?);
        Ok(Box::new(TracedFile { file, number, trace: Arc::clone(&self.trace) }))
    }
}

impl Disk for TracedDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsDisk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        OsDisk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.traced(path, OsDisk.create(path)?)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        self.traced(path, OsDisk.open(path, access)?)
    }

    /// Handles of the old name keep its number; only small files are renamed, and each is written
    /// once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let number = self.trace.file(path, 0);
        self.trace.add(What::Removed, number, 0, 0);
        OsDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsDisk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        OsDisk.lock(path)
    }

    fn read_buffer(&self, bytes: usize) -> ReadBuffer {
        OsDisk.read_buffer(bytes)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        OsDisk.available_bytes(dir)
    }
}

struct TracedFile {
    file: Box<dyn File>,
    number: u32,
    trace: Arc<Trace>,
}

impl File for TracedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        self.trace.add(What::Read, self.number, offset, read as u64);
        Ok(read)
    }

    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_once_at(buf, offset)?;
        self.trace.add(What::Read, self.number, offset, buf.len() as u64);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.trace.add(What::Write, self.number, offset, bytes.len() as u64);
        self.file.write_all_at(bytes, offset)
    }

    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.trace.add(What::Write, self.number, offset, bytes.len() as u64);
        self.file.write_durably_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn advise_sequential(&self) {
        self.file.advise_sequential();
    }

    fn drop_cache(&self, offset: u64, len: u64) {
        self.file.drop_cache(offset, len);
    }
}
