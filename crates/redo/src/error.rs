//! What can go wrong with a log, each with what a person needs to act.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use base::{Lsn, RecordAddr, SegmentId};
use env::FileError;

use crate::block_time::TimeOfBlock;
use crate::id::Id;

/// Why a log could not be opened, read or checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the log, or its directory, cannot be used.
    #[error(transparent)]
    File(#[from] FileError),

    /// A file has a section that must not be overlooked.
    #[error(
        "{path} has a section {section:?}, which this program does not know and must not ignore; use the newer program that wrote it",
        path = path.display()
    )]
    UnknownSection {
        /// The file.
        path: PathBuf,
        /// The section's name.
        section: String,
    },

    /// A segment may have records of a kind that this program does not know.
    #[error(
        "{path} may have records of kind {kind}{name}, which this program does not know; use a newer one",
        path = path.display()
    )]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// The kind's number.
        kind: u32,
        /// What the kind is for, in brackets behind a space; empty if unknown.
        name: String,
    },

    /// A segment is part of a database of several shards.
    #[error(
        "{path} belongs to shard {shard}, and this program knows of no shards; use a newer one",
        path = path.display()
    )]
    OtherShard {
        /// The file.
        path: PathBuf,
        /// The shard's number.
        shard: u32,
    },

    /// A record is whole, and the keyspace cannot use it.
    #[error(
        "{path} has a record, {addr}, that this program cannot use: {what}; nothing was changed: a newer program may have written it",
        path = file.display()
    )]
    Rejected {
        /// The file of the block, or the manifest if it was found at the end.
        file: PathBuf,
        /// The record.
        addr: RecordAddr,
        /// Why.
        what: String,
    },

    /// The log has a hole below what is known to have been durable.
    #[error(
        "block {missing} is missing although everything up to block {durable} was durable; the next block there is, {next}, is in {path}; nothing was changed: a file is lost or cut, restore it from a backup",
        path = file.display()
    )]
    Hole {
        /// The first block that is not there.
        missing: Lsn,
        /// What was known durable.
        durable: Lsn,
        /// The next block that is there, or 0.
        next: Lsn,
        /// The file of the next block, or the manifest.
        file: PathBuf,
    },

    /// A file that must be there is not.
    #[error(
        "segment {segment} (part {part}) is on none of the log devices although {path} lists it; nothing was changed: a file is lost, restore it from a backup",
        path = manifest.display()
    )]
    MissingSegment {
        /// The segment.
        segment: SegmentId,
        /// Its part.
        part: u32,
        /// The manifest.
        manifest: PathBuf,
    },

    /// Files were replaced faster than they could be read.
    #[error("{path} lists files that are replaced again and again while they are read; try again", path = path.display())]
    Changing {
        /// The manifest.
        path: PathBuf,
    },

    /// A mark needs a file that was replaced and could not be kept.
    #[error(
        "the records of segment {segment} as of the mark are gone: its file was compacted and could not be kept; make a new mark"
    )]
    NotKept {
        /// The segment.
        segment: SegmentId,
    },

    /// The log does not tell what it was after a block.
    #[error("the log does not tell any more what it was after block {lsn}; {nearest}", nearest = nearest(*before, *after))]
    OutOfReach {
        /// The block.
        lsn: Lsn,
        /// The nearest one before it that can be told.
        before: Option<Lsn>,
        /// The nearest one behind it.
        after: Lsn,
    },

    /// The log ends before a block.
    #[error("the log ends with block {last}: there is no block {lsn}")]
    BehindEnd {
        /// The block.
        lsn: Lsn,
        /// The last one.
        last: Lsn,
    },

    /// The log does not tell what it was at a time.
    #[error(
        "the log does not tell any more what it was at {time}: the first block that it tells of is {first}, ended at {first_time}"
    )]
    BeforeReach {
        /// The time.
        time: TimeOfBlock,
        /// The first block that can be told.
        first: Lsn,
        /// When that was ended.
        first_time: TimeOfBlock,
    },

    /// A time was there more than once.
    #[error(
        "the clock went back: {time} was {count} times, behind block {first} first and behind block {last} last; give the block"
    )]
    ClockWentBack {
        /// The time.
        time: TimeOfBlock,
        /// The last block before it was passed for the first time.
        first: Lsn,
        /// The last block before it was passed for the last time.
        last: Lsn,
        /// How often.
        count: usize,
    },

    /// No state before a flush can be told.
    #[error(
        "of the times that databases were emptied or exchanged, the log tells of {known}, and number {wanted} is wanted; it tells of all states from block {floor} on"
    )]
    NoFlush {
        /// Which one, counted from the last.
        wanted: usize,
        /// How many there are.
        known: usize,
        /// The first block from which on all states can be told.
        floor: Lsn,
    },

    /// It is not known which block is meant, as a file cannot be read to its end.
    #[error(
        "which block that is cannot be told, as a file cannot be read: {why}. Name the block (--at LSN) or a backup (--at NAME): every record of that state is checked, and it may not need the file"
    )]
    NotDated {
        /// Why.
        why: std::sync::Arc<Self>,
    },

    /// There is no backup of this name.
    #[error("there is no backup {name}; {known}")]
    NoBackup {
        /// The name.
        name: String,
        /// Those that there are, for people.
        known: String,
    },

    /// A backup has lost something.
    #[error(
        "backup {name}, of block {lsn}, cannot be restored: a file that it needs is missing, was damaged, or was given up for room"
    )]
    BackupLost {
        /// The name.
        name: String,
        /// The block.
        lsn: Lsn,
    },

    /// The log does not tell when a key was lost.
    #[error(
        "the log does not tell of a deletion of {key} in database {database}; it tells of all that has happened from block {floor} on"
    )]
    NoDelete {
        /// The key, for people.
        key: String,
        /// The number that SELECT takes.
        database: u64,
        /// The first block from which on all states can be told.
        floor: Lsn,
    },

    /// What is to become a data directory has something in it.
    #[error("{path} is not empty; give an empty directory, or one that does not exist", path = path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },

    /// A restore into the data directory was begun and has not ended.
    #[error(
        "{path} has an unfinished restore and no log: run the same restore again, which goes on with it, or remove the directory",
        path = path.display()
    )]
    UnfinishedRestore {
        /// The directory.
        path: PathBuf,
    },

    /// A process may not link the files of a log that is open.
    #[error(
        "{path} cannot be made: {source}; a log that a server has open is read by links next to its files: run this as the user of the server",
        path = path.display()
    )]
    ReaderRefused {
        /// The directory or link.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// What is restored does not fit.
    #[error(
        "restoring into {path} takes up to {needed_bytes} bytes{with}, and {free_bytes} are free there; nothing was made: make room, or restore --into a directory on another disk",
        path = path.display(),
        with = if *is_next_to_server { ", with what the server that runs on that disk must have left" } else { "" }
    )]
    NoRoom {
        /// The new data directory.
        path: PathBuf,
        /// How much it takes.
        needed_bytes: u64,
        /// How much there is.
        free_bytes: u64,
        /// Some of it a server on the same disk must have left.
        is_next_to_server: bool,
    },

    /// What was restored is not what was read.
    #[error(
        "{path}: {found} records up to block {last} were read back, and {records} up to block {lsn} were written; it is no log yet, try again",
        path = path.display()
    )]
    NotRestored {
        /// The new data directory.
        path: PathBuf,
        /// The last block that was written.
        lsn: Lsn,
        /// The last one that was read back.
        last: Lsn,
        /// How many records were written.
        records: u64,
        /// How many were read back.
        found: u64,
    },

    /// How long keys had left is not known.
    #[error(
        "when block {lsn} was ended is not known, so it is not known either which keys had expired then, and how long others had left: use --expiry absolute"
    )]
    NoTimeOf {
        /// The block.
        lsn: Lsn,
    },

    /// A log is being set back in place, and that was interrupted.
    #[error(
        "indelible restore --in-place of {path} was interrupted, and the log cannot be used before it has ended: run the same command again",
        path = path.display()
    )]
    RewindUnfinished {
        /// The data directory.
        path: PathBuf,
    },

    /// A log is to be set back to where it is.
    #[error("the log ends with block {lsn}: there is nothing to undo")]
    NothingToUndo {
        /// The last block.
        lsn: Lsn,
    },

    /// A log cannot be set back, because no backup of what it is now can be made.
    #[error(
        "what the log is now cannot be kept, and nothing was changed: there are {backups} backups, and {files} files would be kept for them; delete some first"
    )]
    CannotKeep {
        /// How many backups there are.
        backups: usize,
        /// How many files would be kept for them and one more.
        files: usize,
    },

    /// A directory that was given is none of the log's.
    #[error(
        "{path} is no device of this log; give the directories that it has, or none, and those that it names are taken",
        path = path.display()
    )]
    NoDeviceOf {
        /// The directory.
        path: PathBuf,
    },

    /// A file has blocks on both sides, and cannot be cut.
    #[error(
        "{path} has blocks behind block {lsn} and was compacted, so it cannot be cut there; nothing was changed: restore --into another directory",
        path = path.display()
    )]
    NotCut {
        /// The file.
        path: PathBuf,
        /// The block that is wanted.
        lsn: Lsn,
    },

    /// A check of the past was ended, because it keeps room.
    #[error(
        "the disk of {path} is short of room, and what is checked keeps files that could go: make room, and check again",
        path = path.display()
    )]
    ShortOfRoom {
        /// The directory.
        path: PathBuf,
    },

    /// A file that was to be put in place is gone.
    #[error(
        "{path} was to be put in place by indelible restore --in-place, and it is not there any more: the log cannot be used until it is",
        path = path.display()
    )]
    PutBackMissing {
        /// Where it was kept.
        path: PathBuf,
    },

    /// A reader of blocks would miss deletions.
    #[error(
        "the blocks from {from} on do not say all that was deleted since: deletions up to block {last} were compacted away; read a new mark and the blocks behind it, or everything from block 1 on"
    )]
    DeletesDropped {
        /// The next block of the reader.
        from: Lsn,
        /// The newest block with such a deletion.
        last: Lsn,
    },

    /// A reader that wants every record asks for a block that has lost some.
    #[error(
        "compactions have dropped records of blocks from {from} on; the blocks from {whole_from} on are whole"
    )]
    BlocksGone {
        /// The next block of the reader.
        from: Lsn,
        /// The first block that has every record, and so have all behind it.
        whole_from: Lsn,
    },

    /// A segment has other records than it must have had at a mark.
    #[error(
        "segment {segment} has {found} records that were valid at the mark, and there were {expected}; nothing read from this mark is complete"
    )]
    Incomplete {
        /// The segment.
        segment: SegmentId,
        /// How many there were.
        expected: u32,
        /// How many were found.
        found: u32,
    },

    /// An index of the log ends before what compactions have already changed.
    #[error(
        "the index knows the log up to block {cut}, and compactions have changed it up to block {horizon}: the index cannot be used; read the whole log"
    )]
    IndexTooOld {
        /// The last block that the index knows.
        cut: Lsn,
        /// The newest block of a segment that was compacted.
        horizon: Lsn,
    },

    /// An index of the log says of a segment what cannot be.
    #[error(
        "the index has {live} live records in segment {segment}, {what}: the index is not of this log or damaged; remove its directory and restart"
    )]
    Contradicted {
        /// The segment.
        segment: SegmentId,
        /// How many of its records are live, as the index says.
        live: u32,
        /// What is the matter.
        what: String,
    },

    /// The directory belongs to another database.
    #[error(
        "{path} belongs to database {found}, not to {expected}; check log-devices and dir",
        path = path.display()
    )]
    Foreign {
        /// The directory or file.
        path: PathBuf,
        /// The database of the manifest.
        expected: Id,
        /// The database of the file.
        found: Id,
    },

    /// A device that the manifest names was not given.
    #[error(
        "log device {id}, last seen at {path}, is missing; add its directory to log-devices (a device is done without by draining it first, with CONFIG SET log-devices; of one that is lost for good indelible log repair --lost says what is left)",
        path = path.display()
    )]
    MissingDevice {
        /// The device.
        id: Id,
        /// Where it was.
        path: PathBuf,
    },

    /// A device that is to be given up is none of the log.
    #[error("{path} is no log device of this log, or not any more: then repair it without --lost", path = path.display())]
    NoSuchDevice {
        /// What was given.
        path: PathBuf,
    },

    /// All devices are to be given up.
    #[error("nothing is left of the log without {path}: start an empty one in another directory", path = path.display())]
    NothingLeft {
        /// One of them.
        path: PathBuf,
    },

    /// Two directories are one device.
    #[error(
        "{first} and {second} are the same log device; list it once",
        first = first.display(),
        second = second.display()
    )]
    DuplicateDevice {
        /// One.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },

    /// A device that is to be added has files of a log.
    #[error(
        "{path} holds files of a log that is not in use, or was a device of this one before and was given up; give an empty directory",
        path = path.display()
    )]
    DeviceNotEmpty {
        /// The directory.
        path: PathBuf,
    },

    /// A device that has failed cannot be drained.
    #[error(
        "log device {path} has failed and cannot be drained; docs/operations.md says what can be done (a disk that has failed)",
        path = path.display()
    )]
    DeviceHasFailed {
        /// The device.
        path: PathBuf,
    },

    /// A device is drained and about to be forgotten.
    #[error("log device {path} is just being let go; try again", path = path.display())]
    DeviceIsLeaving {
        /// The device.
        path: PathBuf,
    },

    /// Too many devices were added since the start.
    #[error("too many log devices were added and drained; restart to add more")]
    TooManyDevices,

    /// There are log files but no manifest.
    #[error(
        "{path} holds log files but {manifest} is missing; restore the manifest from a backup, or move the files away to start empty",
        path = path.display(),
        manifest = manifest.display()
    )]
    NoManifest {
        /// The device.
        path: PathBuf,
        /// Where the manifest should be.
        manifest: PathBuf,
    },

    /// What lies where a log is built is not what an interrupted attempt has left.
    #[error("{path} {what}; nothing was removed", path = path.display())]
    NotUnfinished {
        /// The directory in which logs are built.
        path: PathBuf,
        /// What it is, and what to do.
        what: String,
    },
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The file that an I/O error was about.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(FileError::Io { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Creates the error for a log that another process has open, by the path of its lock.
    pub(crate) fn in_use(path: PathBuf) -> Self {
        let what = "another process uses this data directory; stop it or choose another directory";
        FileError::InUse { path, what }.into()
    }

    /// Creates the error for a format that is newer than this program.
    pub(crate) fn newer(file: &Path, found: u32, known: u32) -> Self {
        FileError::NewerFormat { path: file.to_owned(), found, known }.into()
    }

    /// Whether something of the log is not what it was, or is not there any more.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::File(FileError::Corrupt { .. }) | Self::MissingSegment { .. } | Self::Hole { .. }
        )
    }

    /// Creates the error for durable bytes that have changed.
    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        let remedy =
            "nothing was changed: restore the file from a backup or from the disk's mirror";
        FileError::Corrupt { path: file.to_owned(), offset, what: what.into(), remedy }.into()
    }
}

/// Says which blocks are nearest to one that cannot be told.
pub(crate) fn nearest(before: Option<Lsn>, after: Lsn) -> String {
    match before {
        Some(before) => format!("the nearest are {before} before it and {after} behind it"),
        None => format!("the nearest is {after}"),
    }
}

/// Says which file an I/O error was about.
pub(crate) trait IoContext<T> {
    fn at(self, path: &Path, doing: &'static str) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, path: &Path, doing: &'static str) -> Result<T> {
        self.map_err(|source| FileError::io(path, doing)(source).into())
    }
}

/// Whether the error says that there is no room, so that the same may be tried again. Not when it
/// comes from a sync: what was dirty may have been dropped, whatever the reason was.
pub(crate) fn is_full(error: &Error) -> bool {
    let Error::File(FileError::Io { source, doing, .. }) = error else { return false };
    let is_no_room = matches!(
        source.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::OutOfMemory
    );
    env::lacks_descriptor(source) || (*doing != "sync" && is_no_room)
}

/// Whether a disk has said that it has no room, or that a limit of it is reached.
pub(crate) fn is_no_room(error: &Error) -> bool {
    let Error::File(FileError::Io { source, .. }) = error else { return false };
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Whether a file was not there.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::File(FileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound)
}

/// Whether there was no descriptor to open something with: it says nothing of the disk.
pub(crate) fn lacks_descriptor(error: &Error) -> bool {
    matches!(error, Error::File(FileError::Io { source, .. }) if env::lacks_descriptor(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_answer_to_a_write_and_a_failure_of_a_sync() {
        let path = PathBuf::from("f");
        let refused = |doing, source| Error::File(FileError::io(&path, doing)(source));
        let error = |doing| refused(doing, ErrorKind::StorageFull.into());
        assert!(is_full(&error("write")) && is_full(&error("reserve space for")));
        assert!(!is_full(&error("sync")));
        let no_descriptor = |number, doing| {
            let source = env::opening(&path, std::io::Error::from_raw_os_error(number));
            refused(doing, source)
        };
        for doing in ["create", "open", "sync"] {
            assert!([12, 23, 24].into_iter().all(|number| is_full(&no_descriptor(number, doing))));
        }
        assert!(!is_full(&no_descriptor(5, "create")), "an I/O error is one");
    }

    #[test]
    fn the_texts_say_which_file_what_and_what_to_do() {
        let path = Path::new("/data/redo.manifest");
        let texts = [
            (
                Error::in_use("/data/redo.lock".into()),
                "/data/redo.lock is locked: another process uses this data directory; stop it or \
                 choose another directory",
            ),
            (
                Error::newer(path, 3, 2),
                "/data/redo.manifest has format 3, this program supports formats up to 2; use a \
                 newer program",
            ),
            (
                Error::corrupt(path, 8, "its checksum or length is wrong"),
                "/data/redo.manifest is corrupt at byte 8: its checksum or length is wrong; \
                 nothing was changed: restore the file from a backup or from the disk's mirror",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    }
}
