//! Files of the operating system.
//!
//! `std` already loops over short reads and writes and over EINTR; calls that it lacks (flock,
//! fallocate, statvfs, fadvise) come from `rustix`, which is safe code over the same calls.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;

use env::{Access, Disk, File, FileVersion, Lock, ReadBuffer, ReadTogether, about, opening};
use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, fadvise, fallocate, flock, statfs, statvfs,
};
use rustix::io::{Errno, retry_on_intr};

use crate::durable_writer::DurableWriter;
use crate::file_systems;
use crate::large_pages;
use crate::once_reader::OnceReader;
use crate::residency;
use crate::ring::Ring;

/// The file systems of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

/// A log is readable only for its owner: it holds every value, and passwords.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir_file = fs::File::open(dir).map_err(|error| opening(dir, error))?;
    dir_file.sync_all().map_err(|error| about(dir, error))
}

/// Creates `path` and syncs the directory that got the name, parents first.
fn create_dir_durably(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_dir_durably(parent)?;
    match fs::DirBuilder::new().mode(PRIVATE_DIR).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other.map_err(|error| about(path, error))?,
    }
    sync_dir(parent)
}

impl Disk for OsDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        create_dir_durably(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(dir)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.file_name()))
                    .collect::<io::Result<Vec<_>>>()
            })
            .map_err(|error| opening(dir, error))?;
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(path);
        Ok(Box::new(OsFile::from(file.map_err(|error| opening(path, error))?)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path);
        Ok(Box::new(OsFile::from(file.map_err(|error| opening(path, error))?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(|error| about(from, error))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to).map_err(|error| about(to, error))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path).map_err(|error| about(path, error))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).map_err(|error| about(path, error))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sync_dir(dir)
    }

    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        let metadata = fs::metadata(path).map_err(|error| about(path, error))?;
        Ok(metadata.nlink() > 1)
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        let permissions = fs::metadata(from).map_err(|error| about(from, error))?.permissions();
        fs::set_permissions(to, permissions).map_err(|error| about(to, error))
    }

    fn copy_owner(&self, from: &Path, to: &Path) -> io::Result<()> {
        let owner_of = |path: &Path| {
            let metadata = fs::symlink_metadata(path).map_err(|error| about(path, error))?;
            io::Result::Ok((metadata.uid(), metadata.gid()))
        };
        let (user, group) = owner_of(from)?;
        if (user, group) == owner_of(to)? {
            return Ok(());
        }
        lchown(to, Some(user), Some(group)).map_err(|error| about(to, error))
    }

    fn changed_at_ms(&self, path: &Path) -> io::Result<Option<i64>> {
        let metadata = fs::metadata(path).map_err(|error| about(path, error))?;
        Ok(Some(metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000))
    }

    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        let metadata = fs::metadata(path).map_err(|error| about(path, error))?;
        let changed_at_ns =
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Ok(FileVersion {
            number: metadata.ino(),
            bytes: metadata.len(),
            changed_at_ns,
            is_regular: metadata.is_file(),
        })
    }

    fn is_symlink(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(metadata.is_symlink()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(about(path, error)),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists().map_err(|error| about(path, error))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
        let file = match options.open(path) {
            // Of a file system that is mounted to be read, one that is there can be locked all the same.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => fs::File::open(path),
            opened => opened,
        };
        let file = file.map_err(|error| opening(path, error))?;
        retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive))
            .map_err(|error| about(path, error.into()))?;
        Ok(Box::new(OsLock { _file: file }))
    }

    fn read_buffer(&self, bytes: usize) -> ReadBuffer {
        let mut buffer = ReadBuffer::new(bytes);
        large_pages::advise(buffer.large_pages());
        buffer
    }

    fn read_together(&self) -> Option<Box<dyn ReadTogether>> {
        Some(Box::new(Ring::new()?))
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| statvfs(dir)).map_err(|error| about(dir, error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn file_system(&self, path: &Path) -> Option<u64> {
        fs::metadata(path).ok().map(|metadata| metadata.dev())
    }

    fn overwrites_in_place(&self, dir: &Path) -> bool {
        retry_on_intr(|| statfs(dir)).is_ok_and(|stat| file_systems::overwrites_in_place(&stat))
    }

    fn capacity_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| statvfs(dir)).map_err(|error| about(dir, error.into()))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }
}

/// An open file of the operating system, opened by [`OsDisk`] or elsewhere.
#[derive(Debug)]
pub struct OsFile {
    file: fs::File,
    durable: DurableWriter,
    once: OnceReader,
}

impl From<fs::File> for OsFile {
    fn from(file: fs::File) -> Self {
        Self { file, durable: DurableWriter::default(), once: OnceReader::default() }
    }
}

impl File for OsFile {
    fn has_name(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.once.read(&self.file, buf, offset)
    }

    fn past_cache(&self) -> Option<BorrowedFd<'_>> {
        self.once.direct(&self.file).map(AsFd::as_fd)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.durable.write(&self.file, bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len)) {
            // File systems that cannot reserve space (NFS before 4.2, some FUSE) are usable
            // nevertheless.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn advise_sequential(&self) {
        // Advice: if it is refused, reading is merely slower.
        let _refused = fadvise(&self.file, 0, None, Advice::Sequential);
    }

    fn fetch_ahead(&self, offset: u64, len: u64) {
        if let Some(len) = NonZeroU64::new(len) {
            let _refused = fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }

    fn drop_cache(&self, offset: u64, len: u64) {
        if let Some(len) = NonZeroU64::new(len) {
            let _refused = fadvise(&self.file, offset, Some(len), Advice::DontNeed);
        }
    }

    fn cached_bytes(&self, offset: u64, len: u64) -> Option<u64> {
        residency::cached_bytes(&self.file, offset, len)
    }
}

/// A lock: the kernel holds it while this file is open.
#[derive(Debug)]
struct OsLock {
    _file: fs::File,
}

impl Lock for OsLock {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_path_and_keeps_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent");
        let error = OsDisk.open(&path, Access::Read).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn makes_nested_directories_twice_over() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("a/b/c");
        OsDisk.create_dir_all(&nested).unwrap();
        OsDisk.create_dir_all(&nested).unwrap();
        assert!(nested.is_dir());
    }

    #[test]
    fn a_link_is_another_name_of_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("f"), dir.path().join("g"));
        let file = OsDisk.create(&path).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        OsDisk.link(&path, &link).unwrap();
        assert!(OsDisk.has_other_names(&path).unwrap());
        let error = OsDisk.link(&path, &link).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        OsDisk.remove(&path).unwrap();
        assert!(file.has_name().unwrap());
        assert_eq!(OsDisk.open(&link, Access::Read).unwrap().len().unwrap(), 3);
        OsDisk.remove(&link).unwrap();
        assert!(!file.has_name().unwrap());
    }

    #[test]
    fn there_is_room_and_it_can_be_reserved() {
        let dir = tempfile::tempdir().unwrap();
        assert!(OsDisk.available_bytes(dir.path()).unwrap() > 0);
        let file = OsDisk.create(&dir.path().join("f")).unwrap();
        file.allocate(0, 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 0);
    }
}
