//! The directory that is written: `OUT.tmp`, and `OUT` when all of it is on the device.
//!
//! An export that was killed leaves `OUT.tmp`; the next one to the same target takes it over. A lock on the directory
//! keeps two that run at once apart.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::schema::{KINDS, file_name};

/// A directory in progress; it is removed unless it is finished.
pub(crate) struct Target {
    out: PathBuf,
    temporary: PathBuf,
    /// Has the lock, and syncs the names.
    directory: File,
    is_finished: bool,
}

impl Target {
    /// Makes the temporary directory for `out`, which must not be there.
    pub(crate) fn create(out: &Path) -> Result<Self, Error> {
        let name = out.file_name().ok_or_else(|| Error::Exists { path: out.to_owned() })?;
        let mut temporary_name = name.to_owned();
        temporary_name.push(".tmp");
        let temporary = out.with_file_name(temporary_name);
        let wrong = |source| Error::Write { path: temporary.clone(), source };
        refuse_existing(out)?;
        match fs::create_dir(&temporary) {
            // The files behind a link are another's.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&temporary).map_err(wrong)?.is_dir() {
                    return Err(Error::Exists { path: temporary });
                }
            }
            made => made.map_err(wrong)?,
        }
        let directory = File::open(&temporary).map_err(wrong)?;
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: temporary }),
            locked => locked.map_err(|error| wrong(error.into()))?,
        }
        // The one that had the lock may have finished in between.
        refuse_existing(out)?;
        remove_files(&temporary).map_err(wrong)?;
        Ok(Self { out: out.to_owned(), temporary, directory, is_finished: false })
    }

    /// Returns where files are to be written.
    pub(crate) fn directory(&self) -> &Path {
        &self.temporary
    }

    /// Gives the directory its name; its files are synced already.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let wrong = |source| Error::Write { path: self.out.clone(), source };
        self.directory.sync_all().map_err(wrong)?;
        refuse_existing(&self.out)?;
        fs::rename(&self.temporary, &self.out).map_err(wrong)?;
        self.is_finished = true;
        let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))
            .and_then(|parent| parent.sync_all())
            .map_err(wrong)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing can be done about a failure here, and the next export removes what is left.
            let _ = remove_files(&self.temporary).and_then(|()| fs::remove_dir(&self.temporary));
        }
    }
}

fn refuse_existing(out: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Write { path: out.to_owned(), source }),
        Ok(_) => Err(Error::Exists { path: out.to_owned() }),
    }
}

/// Removes what an export writes, and nothing else.
fn remove_files(directory: &Path) -> io::Result<()> {
    for kind in KINDS {
        match fs::remove_file(directory.join(file_name(kind))) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}
