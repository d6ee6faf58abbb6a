//! Directories of links, in which readers of other processes keep files of a log that is open.
//!
//! Each is locked as long as its process lives. A start removes what others have left.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use env::{Disk, Lock};

use crate::error::{IoContext, Result};
use crate::format::segment;

/// How the directory of a reader is called, in the directory of history of each device.
pub(crate) fn reader_name(number: u32) -> String {
    format!("reader.{number}")
}

/// The lock in it.
pub(crate) fn lock_of(reader: &Path) -> PathBuf {
    reader.join("lock")
}

/// Removes the links.
pub(crate) fn empty(disk: &dyn Disk, reader: &Path) -> Result<()> {
    for dir in [segment::history_dir(reader), reader.to_owned()] {
        let names = match disk.list(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            names => names.at(&dir, "list")?,
        };
        for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".redo")) {
            let path = dir.join(name);
            disk.remove(&path).at(&path, "remove")?;
        }
    }
    Ok(())
}

/// Removes the directory, whose lock is held.
pub(crate) fn remove_reader(disk: &dyn Disk, reader: &Path, lock: Box<dyn Lock>) {
    // What stays is removed by the next start.
    let history = segment::history_dir(reader);
    let _left = empty(disk, reader);
    let _left = disk.sync_dir(&history);
    let _left = disk.remove_dir(&history);
    let _left = disk.remove(&lock_of(reader));
    let _left = disk.sync_dir(reader);
    drop(lock);
    let _left = disk.remove_dir(reader);
}

/// Removes what readers that have died have left on a device.
pub(crate) fn remove_dead(disk: &dyn Disk, device: &Path) {
    let history = segment::history_dir(device);
    for name in disk.list(&history).unwrap_or_default() {
        let reader = history.join(&name);
        if name.to_string_lossy().starts_with("reader.")
            && let Ok(lock) = disk.lock(&lock_of(&reader))
        {
            remove_reader(disk, &reader, lock);
        }
    }
}
