//! Directories of links, in which readers of other processes keep files of a log that is open.
//!
//! ```text
//!   history/                        the server's, also if a reader has made it
//!     reader.PID/lock               held as long as the process lives
//!     reader.PID/0000000007.redo    what is in place
//!     reader.PID/history/7.g0.redo  what is kept
//! ```
//!
//! A reader gives its directory to the owner of what is around it: a server that does not run as root must
//! be able to make links next to it, and to take away what a dead one has left (`compact::reaper`). A start
//! removes what others have left. The lock goes last: as long as there are links it tells that no reader has
//! them.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use base::Mutex;
use env::{Disk, FileError, Lock};

use crate::error::{Error, IoContext, Result};
use crate::format::manifest;
use crate::format::segment;

/// The directories whose locks this process has taken to read: those of other processes may have the same
/// number, from another container.
static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Whether the directory is one of a reader in this process.
pub(crate) fn is_ours(reader: &Path) -> bool {
    OURS.lock().contains(reader)
}

/// How the directory of a reader is called, in the directory of history of each device.
pub(crate) fn reader_name(number: u32) -> String {
    format!("reader.{number}")
}

/// What a path names that may go through the directory of a reader: the file as its log knows it.
fn linked(path: &Path) -> PathBuf {
    let is_called = |dir: &Path, is_it: fn(&str) -> bool| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(is_it)
    };
    for reader in path.ancestors().skip(1) {
        let history = reader.parent().filter(|dir| is_called(dir, |name| name == "history"));
        let device = history.and_then(Path::parent);
        if is_called(reader, |name| name.starts_with("reader."))
            && let Some((device, name)) = device.zip(path.strip_prefix(reader).ok())
        {
            return device.join(name);
        }
    }
    path.to_owned()
}

/// The same error, of a file by the name that its log knows: a link goes away with its reader.
pub(crate) fn of_linked(mut error: Error) -> Error {
    if let Error::File(FileError::Corrupt { path, .. } | FileError::Io { path, .. }) = &mut error {
        *path = linked(path);
    }
    error
}

/// The lock in it.
pub(crate) fn lock_of(reader: &Path) -> PathBuf {
    reader.join("lock")
}

/// The directories of readers on a device.
pub(crate) fn readers_on(disk: &dyn Disk, device: &Path) -> Vec<PathBuf> {
    let history = segment::history_dir(device);
    if !disk.exists(&history).unwrap_or(false) {
        return Vec::new();
    }
    let names = disk.list(&history).unwrap_or_default();
    let names = names.iter().filter(|name| name.to_string_lossy().starts_with("reader."));
    names.map(|name| history.join(name)).collect()
}

/// The links in the directory of a reader, as far as they can be seen.
pub(crate) fn links_in(disk: &dyn Disk, reader: &Path) -> Vec<PathBuf> {
    links(disk, reader).unwrap_or_default()
}

fn links(disk: &dyn Disk, reader: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for dir in [segment::history_dir(reader), reader.to_owned()] {
        let names = match disk.list(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            names => names.at(&dir, "list")?,
        };
        let names = names.iter().filter(|name| name.to_string_lossy().ends_with(".redo"));
        found.extend(names.map(|name| dir.join(name)));
    }
    Ok(found)
}

/// Removes the links.
pub(crate) fn empty(disk: &dyn Disk, reader: &Path) -> Result<()> {
    links(disk, reader)?.iter().try_for_each(|path| disk.remove(path).at(path, "remove"))
}

/// Makes the directory of a reader, for the owner of what is around it, and locks it.
///
/// # Errors
/// When the process may not write there, or not give away what it makes; then it leaves nothing.
pub(crate) fn make_reader(disk: &dyn Disk, reader: &Path) -> Result<Box<dyn Lock>> {
    let history = reader.parent().unwrap_or(reader);
    make_for(disk, history.parent().unwrap_or(history), history)?;
    make_for(disk, history, reader)?;
    let path = lock_of(reader);
    let lock = disk.lock(&path).map_err(|error| refused(reader, error))?;
    disk.copy_owner(history, &path).map_err(|error| refused(reader, error))?;
    make_for(disk, reader, &segment::history_dir(reader))?;
    if !disk.exists(&path).at(&path, "look for")? {
        // What has taken away a dead one's directory of this name has taken ours.
        return Err(Error::Changing { path: manifest::path_in(reader) });
    }
    OURS.lock().insert(reader.to_owned());
    Ok(lock)
}

/// Makes a directory that belongs to the owner of `around`.
fn make_for(disk: &dyn Disk, around: &Path, dir: &Path) -> Result<()> {
    if disk.exists(dir).map_err(|error| refused(dir, error))? {
        return Ok(());
    }
    disk.create_dir_all(dir).map_err(|error| refused(dir, error))?;
    disk.copy_owner(around, dir).map_err(|error| {
        let _left = disk.remove_dir(dir);
        refused(dir, error)
    })
}

/// Returns the error of a reader that may not make links.
pub(crate) fn refused(path: &Path, error: io::Error) -> Error {
    if error.kind() == ErrorKind::PermissionDenied {
        return Error::ReaderRefused { path: path.to_owned(), source: error };
    }
    let made: io::Result<()> = Err(error);
    made.at(path, "make").expect_err("it is one")
}

/// Removes the directory, whose lock is held.
pub(crate) fn remove_reader(disk: &dyn Disk, reader: &Path, lock: Box<dyn Lock>) {
    remove_links(disk, reader);
    OURS.lock().remove(reader);
    drop(lock);
    let _left = disk.remove_dir(reader);
}

/// Removes all that is in the directory.
pub(crate) fn remove_links(disk: &dyn Disk, reader: &Path) {
    // What stays is removed by the server.
    let history = segment::history_dir(reader);
    let _left = empty(disk, reader);
    let _left = disk.sync_dir(&history);
    let _left = disk.remove_dir(&history);
    if links(disk, reader).is_ok_and(|links| links.is_empty()) {
        let _left = disk.remove(&lock_of(reader));
    }
    let _left = disk.sync_dir(reader);
}

/// Removes what readers that have died have left on a device.
pub(crate) fn remove_dead(disk: &dyn Disk, device: &Path) {
    for reader in readers_on(disk, device) {
        if let Ok(lock) = disk.lock(&lock_of(&reader)) {
            remove_reader(disk, &reader, lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_called_what_it_is_a_link_to() {
        let named = |path: &str| linked(Path::new(path)).display().to_string();
        assert_eq!(named("/d/redo/history/reader.17/0000000007.redo"), "/d/redo/0000000007.redo");
        assert_eq!(
            named("/d/redo/history/reader.17/history/0000000007.g0.redo"),
            "/d/redo/history/0000000007.g0.redo"
        );
        for plain in
            ["/reader.d/redo/7.redo", "/d/redo/history/7.g0.redo", "reader.1", "/d/reader.1"]
        {
            assert_eq!(named(plain), plain);
        }
    }
}
