//! Publishes a file: it appears complete and durable, or not at all.
//!
//! ```text
//!   Unpublished   create: remove the rest of an earlier attempt · create the temporary file
//!        │        the caller writes, by Unpublished::file; keep_permissions before, if they are
//!        │        the user's
//!        ▼ complete: sync the file
//!   Complete      durable under its temporary name, for as long as the caller has to wait
//!        ▼ rename it to its name
//!   Renamed       a crash can still take the name back
//!        ▼ settle: sync the directory
//!   published
//! ```
//!
//! `publish` takes all the steps that remain. The types are for a caller that has something to do
//! between two steps: what is not durable cannot be renamed, and a rename is not forgotten to be
//! made durable.
//!
//! A crash loses data if any step is missing. Without the first sync, the name can appear before
//! the bytes do; without the rename, a reader can find half of a file, or a crash can leave neither
//! the old nor the new one; without the second sync, the name can disappear after the caller has
//! relied on it. This is the one place that has them in the right order.
//!
//! Invariants:
//! 1. The name always refers to the complete old file or the complete new one, after any crash.
//! 2. When `publish` or `settle` has returned `Ok`, it is the new one, after any crash.
//! 3. When one of them or `rename` has returned an error, it is either: a rename may have had its
//!    effect.
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
pub struct Unpublished {
    file: Box<dyn File>,
    temporary: PathBuf,
}

impl Unpublished {
    /// Creates the file as `temporary`, which must be in the directory of its final name.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn create(disk: &dyn Disk, temporary: &Path) -> Result<Self, FileError> {
        if step(temporary, "look for", disk.exists(temporary))? {
            step(temporary, "remove", disk.remove(temporary))?;
        }
        let file = step(temporary, "create", disk.create(temporary))?;
        Ok(Self { file, temporary: temporary.to_owned() })
    }

    /// Gives the file the permissions of `path`, which it will replace, if that exists.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn keep_permissions(&self, disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
        if step(path, "look for", disk.exists(path))? {
            let copied = disk.copy_permissions(path, &self.temporary);
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

    /// Makes the file durable under its temporary name, and closes it.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn complete(self) -> Result<Complete, FileError> {
        self.sync().map(|(_, complete)| complete)
    }

    /// Makes the file durable and gives it the name `path`. Returns the open file.
    ///
    /// # Errors
    /// [`FileError::Io`]; the name may then refer to the old file or to this one.
    pub fn publish(self, disk: &dyn Disk, path: &Path) -> Result<Box<dyn File>, FileError> {
        let (file, complete) = self.sync()?;
        complete.publish(disk, path)?;
        Ok(file)
    }

    fn sync(self) -> Result<(Box<dyn File>, Complete), FileError> {
        let Self { file, temporary } = self;
        step(&temporary, "sync", file.sync_data())?;
        Ok((file, Complete { temporary }))
    }
}

/// A file whose contents are durable, and which does not have its final name yet.
#[derive(Debug)]
#[must_use = "the file does not have its name yet"]
pub struct Complete {
    temporary: PathBuf,
}

impl Complete {
    /// Renames the file to `path`. A crash can undo that until the result is settled.
    ///
    /// # Errors
    /// [`FileError::Io`]; the name may then refer to the old file or to this one.
    ///
    /// # Panics
    /// If `path` is in another directory than the temporary name.
    pub fn rename(self, disk: &dyn Disk, path: &Path) -> Result<Renamed, FileError> {
        let directory = path.parent();
        assert_eq!(self.temporary.parent(), directory, "a rename within one directory is atomic");
        step(path, "replace", disk.rename(&self.temporary, path))?;
        Ok(Renamed { directory: directory.unwrap_or(Path::new("")).to_owned() })
    }

    /// Gives the file the name `path`, durably.
    ///
    /// # Errors
    /// [`FileError::Io`]; the name may then refer to the old file or to this one.
    pub fn publish(self, disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
        self.rename(disk, path)?.settle(disk)
    }
}

/// A file that has its final name, which is not durable yet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a crash can still take the name back"]
pub struct Renamed {
    directory: PathBuf,
}

impl Renamed {
    /// Makes the name durable. May be retried after an error.
    ///
    /// # Errors
    /// [`FileError::Io`]; the name may then refer to the old file or to this one.
    pub fn settle(&self, disk: &dyn Disk) -> Result<(), FileError> {
        step(&self.directory, "sync", disk.sync_dir(&self.directory))
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
    let new = Unpublished::create(disk, temporary)?;
    step(temporary, "write", new.file.write_all_at(bytes, 0))?;
    new.publish(disk, path)
}
