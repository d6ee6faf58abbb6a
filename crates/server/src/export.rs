//! Writes the data of a log that no server has open as RDB: `indelible export`.
//!
//! ```text
//!   StoredLog ─► Selection ─► StoredDump ─► Counted ─► RdbTarget ─┬─► temporary file ─► synced ─► renamed
//!     read        sorted        read again                        └─► whatever takes bytes
//! ```
//!
//! The log is locked and nothing of it is changed: neither is its end cut, nor is a segment sealed. What
//! is written is what a start would recover, or the state after an older block that the log still tells.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordKind};
use dump::{
    DumpedKey, Dumper, Element, Figures, RdbTarget, Selection, SpillOptions, StoredDump, Target,
};
use env::{Disk, FileError};
use rdb::{WriteError, WriteOptions};
use redo::{Id, StoredLog};

use crate::engine::REDIS_VERSION;
use crate::save::FileSink;

/// What is written at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// What is exported, and how.
pub struct Request<'a> {
    /// The data directory.
    pub directory: &'a Path,
    /// The directories of its log devices; none for those that the log names.
    pub devices: &'a [PathBuf],
    /// The block after which the state is wanted; `None` for the end of the log.
    pub lsn: Option<u64>,
    /// The form of the dump.
    pub form: WriteOptions,
    /// Whether a later version is taken if the one in `form` does not have all that there is.
    pub may_raise_version: bool,
    /// The time, in Unix milliseconds.
    pub now_ms: i64,
    /// The disk with all of it.
    pub disk: Arc<dyn Disk>,
    /// Where what does not fit into memory is sorted.
    pub temporary: PathBuf,
    /// The memory for sorting, in bytes.
    pub memory_bytes: usize,
}

/// Where an export goes.
pub enum Output {
    /// Into a file, which appears when it is complete.
    File(PathBuf),
    /// Out, as it comes.
    Stream(Box<dyn Write>),
}

/// How far an export is, in percent of the step that it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporting {
    /// The log is read and checked.
    Reading(u64),
    /// What is needed of it is found.
    Sorting(u64),
    /// It is read again and written.
    Writing(u64),
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The block after which the state is.
    pub lsn: Lsn,
    /// The last block of the log.
    pub newest: Lsn,
    /// How many bytes behind that were left out, as a start would cut them off.
    pub cut_bytes: u64,
    /// The length of the dump.
    pub bytes: u64,
    /// The keys of each database that has any, by type.
    pub keys: BTreeMap<u32, BTreeMap<&'static str, u64>>,
    /// How many libraries of functions are in it.
    pub libraries: u64,
    /// How many keys are in it, and what was left out.
    pub figures: Figures,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no log.
    #[error("there is no redo log in {}", .0.display())]
    NoLog(PathBuf),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] redo::Error),
    /// The index of the log cannot be looked at.
    #[error("the log index: {0}")]
    Index(#[from] indexing::Error),
    /// The log cannot be dumped.
    #[error(transparent)]
    Dump(#[from] dump::Error),
    /// The dump cannot be begun or ended.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file cannot be made, or get its name.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Exports what `request` says.
///
/// # Errors
/// When a server uses the log, it is damaged, does not tell the state that is wanted, or `output` cannot
/// be written. A file that was there is as it was then.
pub fn export(
    request: &Request<'_>,
    output: Output,
    progress: &mut dyn FnMut(Exporting),
) -> Result<Exported, ExportError> {
    let disk = &request.disk;
    let opened = StoredLog::open(Arc::clone(disk), request.directory, request.devices)?;
    let log = opened.ok_or_else(|| ExportError::NoLog(request.directory.to_owned()))?;
    let (output, temporary) = match output {
        Output::File(path) => {
            let temporary = temporary_of(&path);
            // Early: a path that is wrong is not found out after hours.
            let sink = FileSink::create(Arc::clone(disk), path, &temporary, true, 0)?;
            (Out::File(sink), Some(temporary))
        }
        Output::Stream(stream) => (Out::Stream(stream), None),
    };
    let exported = run(request, &log, output, progress);
    if exported.is_err()
        && let Some(temporary) = temporary
    {
        // What cannot be removed says by its name what it is.
        let _ignored = disk.remove(&temporary);
    }
    exported
}

/// The name of the file at `path` until it is complete: of this process, since another one may export to the same.
fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".temp-indelible-{}", std::process::id()));
    path.with_file_name(name)
}

fn run(
    request: &Request<'_>,
    log: &StoredLog,
    output: Out,
    progress: &mut dyn FnMut(Exporting),
) -> Result<Exported, ExportError> {
    let spill = SpillOptions {
        disk: Arc::clone(&request.disk),
        directory: request.temporary.clone(),
        // What is sorted is merged into what is sorted next.
        memory_bytes: request.memory_bytes / 2,
        kept_bytes: 0,
    };
    // An index may be the only witness of what was durable: a start would refuse a log that lacks it.
    let index = request.directory.join("index");
    let durable = indexing::peek(&*request.disk, &index, log.database().0)?.durable();
    let mut read = |so_far: redo::Progress| {
        progress(Exporting::Reading(percentage((so_far.bytes_done, so_far.bytes_total))));
    };
    let mut selection =
        Selection::read(log, durable, request.lsn.map(Lsn), spill.clone(), &mut read)?;
    while !selection.step()? {
        progress(Exporting::Sorting(percentage(selection.progress())));
    }
    let selected = selection.finish();
    let (lsn, newest, cut_bytes) = (selected.lsn, selected.newest, selected.cut_bytes);
    let library_count = selected.libraries.len();
    let counting = Counting { output, bytes: 0 };
    let file = BufWriter::with_capacity(CHUNK_BYTES, counting);
    let facts = facts(request.now_ms, log.database(), lsn);
    let mut form = request.form;
    let needs_raise = !selected.libraries.is_empty() || log.may_have(RecordKind::Stream);
    if request.may_raise_version {
        if log.may_have(RecordKind::HashPackedExpiring) {
            form.version = WriteOptions::WITH_EXPIRING_FIELDS;
        } else if needs_raise {
            form.version = WriteOptions::WITH_FUNCTIONS;
        }
    }
    let libraries = selected.libraries.iter().map(|source| &**source);
    let target = RdbTarget::begin(file, form, &facts)?.with_libraries(libraries)?;
    let target = target.with_sizes(selected.sizes.clone());
    let target = Counted { target, keys: BTreeMap::new() };
    let dumper = Dumper::new(&selected.databases, target, spill);
    let mut dump = StoredDump::new(log, selected, dumper);
    while !dump.step()? {
        progress(Exporting::Writing(percentage(dump.progress())));
    }
    let figures = dump.figures();
    let Counted { target, keys } = dump.into_target();
    let file = target.finish()?.into_inner().map_err(|error| WriteError::Io(error.into_error()))?;
    let Counting { output, bytes } = file;
    match output {
        Out::File(sink) => sink.complete()?,
        Out::Stream(mut stream) => stream.flush().map_err(WriteError::Io)?,
    }
    let libraries = library_count as u64;
    Ok(Exported { lsn, newest, cut_bytes, bytes, keys, libraries, figures })
}

fn percentage((done, total): (u64, u64)) -> u64 {
    done.saturating_mul(100) / total.max(1)
}

/// What the dump says of itself: names and values.
fn facts(now_ms: i64, database: Id, lsn: Lsn) -> Vec<(&'static str, String)> {
    vec![
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", (now_ms / 1000).to_string()),
        ("aof-base", "0".to_owned()),
        ("indelible-ver", crate::VERSION.to_owned()),
        ("indelible-database", database.to_string()),
        ("indelible-lsn", lsn.to_string()),
    ]
}

enum Out {
    File(FileSink),
    Stream(Box<dyn Write>),
}

/// Counts what is written.
struct Counting {
    output: Out,
    bytes: u64,
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.output {
            Out::File(sink) => sink.write(bytes).map(|()| bytes.len()).map_err(io::Error::other),
            Out::Stream(stream) => stream.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the keys that its target has taken, by database and type.
struct Counted<T> {
    target: T,
    keys: BTreeMap<u32, BTreeMap<&'static str, u64>>,
}

impl<T: Target> Target for Counted<T> {
    type Error = T::Error;

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<(), T::Error> {
        let types = self.keys.entry(key.database).or_default();
        *types.entry(key.value_type.name()).or_default() += 1;
        self.target.begin(key)
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), T::Error> {
        self.target.element(element)
    }

    fn end(&mut self) -> Result<(), T::Error> {
        self.target.end()
    }
}
