//! A file that gets its name at the end, when all of it is durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk, FileError, Unpublished, leave_room};

use super::predecessor::{Kept, Predecessor};

/// So much is written between two syncs, so that none holds up the log's for long on the same disk: an eighth of what Redis'
/// `rdb-save-incremental-fsync` leaves (results/snapshot-server).
const SYNC_BYTES: u64 = 512 << 10;

/// See the file's top.
pub(crate) struct FileSink {
    disk: Arc<dyn Disk>,
    file: Unpublished,
    path: PathBuf,
    written_bytes: u64,
    synced_bytes: u64,
    syncs_early: bool,
    /// What is left for others on the file system; 0 if that does not matter.
    kept_bytes: u64,
}

/// What a dump begins with, of Redis and of Valkey.
const MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];

/// Refuses to replace what is no dump, such as a file of the log: a wrong name must not cost data.
fn refuse_other(disk: &dyn Disk, path: &Path) -> Result<(), FileError> {
    // What cannot be looked at is met when the file is given its name.
    let Ok(version) = disk.version(path) else { return Ok(()) };
    if version.is_regular {
        let mut begin = [0; 6];
        let read = disk.open(path, Access::Read).and_then(|file| file.read_at(&mut begin, 0));
        let begin = &begin[..read.unwrap_or(0)];
        if begin.is_empty() || MAGICS.iter().any(|magic| begin.starts_with(magic)) {
            return Ok(());
        }
    }
    let what = "it is there and is no dump; choose another name, or move it away";
    let error = io::Error::new(io::ErrorKind::AlreadyExists, what);
    Err(FileError::io(path, "replace")(error))
}

impl FileSink {
    /// Begins the file `path`, as `temporary` in its directory. A dump of that name is replaced.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        temporary: &Path,
        syncs_early: bool,
        kept_bytes: u64,
    ) -> Result<Self, FileError> {
        refuse_other(&*disk, &path)?;
        let file = Unpublished::create(&*disk, temporary)?;
        file.keep_permissions(&*disk, &path)?;
        let (written_bytes, synced_bytes) = (0, 0);
        Ok(Self { disk, file, path, written_bytes, synced_bytes, syncs_early, kept_bytes })
    }

    /// Appends to it.
    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<(), FileError> {
        let failed = |doing| FileError::io(self.file.temporary(), doing);
        let (file, directory) = (self.file.file(), self.path.parent().unwrap_or(Path::new("")));
        let written = leave_room(&*self.disk, directory, chunk.len() as u64, self.kept_bytes)
            .and_then(|()| file.write_all_at(chunk, self.written_bytes));
        written.map_err(failed("write"))?;
        self.written_bytes += chunk.len() as u64;
        if self.syncs_early && self.written_bytes - self.synced_bytes >= SYNC_BYTES {
            file.sync_data().map_err(failed("sync"))?;
            self.synced_bytes = self.written_bytes;
        }
        Ok(())
    }

    /// Completes it: it has its name then, durably.
    pub(crate) fn complete(self) -> Result<(), FileError> {
        self.file.publish(&*self.disk, &self.path).map(drop)
    }

    /// The same, and what must stay of the file that it replaces does. `lost_keys` is how many keys it lacks.
    pub(super) fn complete_after(
        self,
        before: &Predecessor,
        lost_keys: u64,
    ) -> Result<Option<Kept>, FileError> {
        let complete = self.file.complete()?;
        let kept = before.keep(&*self.disk, &self.path, lost_keys)?;
        complete.publish(&*self.disk, &self.path)?;
        before.known.note(&*self.disk, &self.path);
        Ok(kept)
    }
}
