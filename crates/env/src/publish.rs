//! Publishes a file: it appears complete and durable, or not at all.
//!
//! ```text
//!   create   remove the rest of an earlier attempt · create the temporary file
//!   write    the caller, by Unpublished::file; keep_permissions before, if they are the user's
//!   publish  sync the file ─► rename it to its name ─► sync the directory
//! ```
//!
//! A crash loses data if any step is missing. Without the first sync, the name can appear before
//! the bytes do; without the rename, a reader can find half of a file, or a crash can leave neither
//! the old nor the new one; without the second sync, the name can disappear after the caller has
//! relied on it. This is the one place that has them in the right order.
//!
//! Invariants:
//! 1. The name always refers to the complete old file or the complete new one, after any crash.
//! 2. When `publish` has returned `Ok`, it is the new one, after any crash.
//! 3. When it has returned an error, it is either: a rename may have had its effect.
//! 4. Whatever a crash leaves under the temporary name is never read, and is removed by the next
//!    attempt. So a temporary name has one writer at a time; the caller's own lock ensures that.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, File};
use crate::file_error::FileError;

/// Adds the failed step to an error of the system.
fn step<T>(path: &Path, doing: &'static str, result: io::Result<T>) -> Result<T, FileError> {
    result.map_err(FileError::io(path, doing))
}

/// A file being written, which does not have its final name yet.
pub struct Unpublished<'a> {
    disk: &'a dyn Disk,
    file: Box<dyn File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl<'a> Unpublished<'a> {
    /// Creates the file as `temporary`, which must be in the directory of `path`.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn create(disk: &'a dyn Disk, temporary: &Path, path: &Path) -> Result<Self, FileError> {
        assert_eq!(temporary.parent(), path.parent(), "a rename within one directory is atomic");
        if step(temporary, "look for", disk.exists(temporary))? {
            step(temporary, "remove", disk.remove(temporary))?;
        }
        let file = step(temporary, "create", disk.create(temporary))?;
        Ok(Self { disk, file, temporary: temporary.to_owned(), path: path.to_owned() })
    }

    /// Gives the file the permissions of the one that it will replace, if there is one.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn keep_permissions(&self) -> Result<(), FileError> {
        if step(&self.path, "look for", self.disk.exists(&self.path))? {
            let copied = self.disk.copy_permissions(&self.path, &self.temporary);
            step(&self.temporary, "set the permissions of", copied)?;
        }
        Ok(())
    }

    /// The file, for writing.
    #[must_use]
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The path until it is published, for errors of writing.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the file durable and gives it its name. Returns the open file.
    ///
    /// # Errors
    /// [`FileError::Io`]; the name may then refer to the old file or to this one.
    pub fn publish(self) -> Result<Box<dyn File>, FileError> {
        let Self { disk, file, temporary, path } = self;
        step(&temporary, "sync", file.sync_data())?;
        step(&path, "replace", disk.rename(&temporary, &path))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        step(directory, "sync", disk.sync_dir(directory))?;
        Ok(file)
    }
}

/// Publishes `bytes` as the file `path`, through `temporary`. Returns the open file.
///
/// # Errors
/// [`FileError::Io`]; the name may then refer to the old file or to the new one.
pub fn publish(
    disk: &dyn Disk,
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
) -> Result<Box<dyn File>, FileError> {
    let new = Unpublished::create(disk, temporary, path)?;
    step(temporary, "write", new.file.write_all_at(bytes, 0))?;
    new.publish()
}
