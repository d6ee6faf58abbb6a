//! Whether there is a log in a directory, and whether a process has it open.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use env::{Disk, FileError, Lock};

use crate::error::{Error, IoContext, Result};

/// The path of the lock of the log in `dir`.
#[must_use]
pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("redo.lock")
}

/// Takes the lock of the log in `dir`; `None` where no process ever had it. Makes no file.
///
/// # Errors
/// When the log is in use, or the lock cannot be tried.
pub(crate) fn lock_if_there(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    let path = lock_path(dir);
    if !disk.exists(&path).at(&path, "look for")? {
        return Ok(None);
    }
    match disk.lock(&path) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::in_use(path)),
        lock => lock.at(&path, "lock").map(Some),
    }
}

/// Whether there is a log in `dir`.
#[must_use]
pub fn is_there(disk: &dyn Disk, dir: &Path) -> bool {
    disk.exists(&crate::format::manifest::path_in(dir)).unwrap_or(false)
}

/// Whether the log in `dir` is open in some process.
///
/// # Errors
/// When the lock cannot be tried.
pub fn is_in_use(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    match lock_if_there(disk, dir) {
        Err(Error::File(FileError::InUse { .. })) => Ok(true),
        lock => lock.map(|_released| false),
    }
}

/// Locks the log in `dir`, which need not be there yet, as the process that has it open does.
///
/// # Errors
/// When it is open in some process, or the lock file cannot be made.
pub fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Lock>> {
    disk.create_dir_all(dir).at(dir, "make")?;
    let path = lock_path(dir);
    match disk.lock(&path) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::in_use(path)),
        lock => lock.at(&path, "lock"),
    }
}
