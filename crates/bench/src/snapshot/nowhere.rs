//! A disk that forgets what is written: for Fork's child process, when nothing should be written.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use env::{Access, Disk, File, Lock};

/// The disk; see the module.
pub(super) struct Nowhere;

fn nothing<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotFound.into())
}

impl File for Nowhere {
    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write_all_at(&self, bytes: &[u8], _offset: u64) -> io::Result<()> {
        std::hint::black_box(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for Nowhere {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<OsString>> {
        Ok(Vec::new())
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Self))
    }

    fn open(&self, _path: &Path, _access: Access) -> io::Result<Box<dyn File>> {
        nothing()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Lock>> {
        nothing()
    }

    fn available_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}
