//! Where the bytes of a dump go.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use env::{Disk, FileError};

use super::desk::Desk;
use super::error::SaveError;
use super::file_sink::FileSink;
use super::predecessor::{Kept, Predecessor};

/// What is written, or given to a client, at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// What the names of temporary files begin and end with; between them is what tells servers apart.
const TEMPORARY: (&str, &str) = ("temp-indelible-", ".rdb");

/// The name under which the server with this id writes its dump of this number.
pub(crate) fn temporary_name(run_id: &str, number: u64) -> String {
    let (prefix, suffix) = TEMPORARY;
    format!("{prefix}{}-{number}{suffix}", run_id.get(..16).unwrap_or(run_id))
}

/// Removes what dumps that were not completed have left in a directory. One that another server is
/// writing fails then; nothing that was complete is touched.
///
/// # Errors
/// When the directory cannot be read, or a file not be removed.
pub fn remove_temporaries(disk: &dyn Disk, directory: &Path) -> Result<(), SaveError> {
    let (prefix, suffix) = TEMPORARY;
    let names = disk.list(directory).map_err(FileError::io(directory, "read"))?;
    for name in names {
        let is_ours =
            name.to_str().is_some_and(|it| it.starts_with(prefix) && it.ends_with(suffix));
        if is_ours {
            let path = directory.join(name);
            disk.remove(&path).map_err(FileError::io(&path, "remove"))?;
        }
    }
    // What they have sorted.
    dump::remove_leftovers(disk, directory)?;
    Ok(())
}

/// See the file's top.
pub(super) struct Sink {
    desk: Arc<Desk>,
    chunk: Vec<u8>,
    to: To,
}

enum To {
    File(FileSink, Predecessor),
    /// The desk, from which a client is given it.
    Client,
}

impl Sink {
    /// Fills `file`, which replaces what was there before.
    pub(super) fn file(desk: &Arc<Desk>, file: FileSink, before: Predecessor) -> Self {
        Self { desk: Arc::clone(desk), chunk: Vec::new(), to: To::File(file, before) }
    }

    /// Gives `desk` what is written.
    pub(super) fn client(desk: &Arc<Desk>) -> Self {
        Self { desk: Arc::clone(desk), chunk: Vec::new(), to: To::Client }
    }

    fn pass_on(&mut self) -> Result<(), FileError> {
        self.desk.count_bytes(self.chunk.len());
        match &mut self.to {
            To::File(file, _) => {
                file.write(&self.chunk)?;
                self.chunk.clear();
            }
            To::Client => self.desk.give(std::mem::take(&mut self.chunk)),
        }
        Ok(())
    }

    /// Completes it: a file has its name then, durably. `lost_keys` is how many keys the dump lacks. Returns what stays of
    /// the file before.
    pub(super) fn complete(mut self, lost_keys: u64) -> Result<Option<Kept>, FileError> {
        self.pass_on()?;
        match self.to {
            To::File(file, before) => file.complete_after(&before, lost_keys),
            To::Client => Ok(None),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.pass_on().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
