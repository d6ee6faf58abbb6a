//! Restores a log as it was into a new directory.
//!
//! ```text
//!   INTO/redo.lock      held all the while
//!   INTO/restore-tmp/   begun · manifest: new database, its device        a crash here: begun anew
//!   INTO/redo/          mark · images, each with its footer
//!   INTO/restore-tmp/   manifest: what there is · all of it verified
//!   INTO/redo.manifest  the same manifest: now it is a log
//! ```
//!
//! Until the last step no log is found in the directory, and a server refuses to start there, because the
//! device has a mark and there is no manifest. The new log is a *branch*: a database with another id, so
//! that files of the two never mix, which knows its parent and the last block that both have.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::{Disk, Entropy};

use crate::error::{Error, IoContext, Result};
use crate::format::block::HEADER_BYTES;
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, Manifest, ManifestDevice, Parent, path_in};
use crate::format::registry::Registry;
use crate::id::Id;
use crate::inspect::verify::verify_unlocked;
use crate::options::default_device;
use crate::read::catalog::Catalog;
use crate::read::in_use::{is_there, lock, lock_if_there, lock_path};
use crate::read::scan::SegmentFile;
use crate::restore::branch::{Branch, CopyCount};
use crate::restore::source::{ImageBlocks, Source};
use crate::restore::timeline::{BlockTime, RestorePoint, Timeline};
use crate::write::publication::{begin, discard, publish};

/// What is restored.
#[derive(Debug, Clone)]
pub struct RestoreRequest<'a> {
    /// The data directory of the log, which a process may have open.
    pub source: &'a Path,
    /// The directories of its devices; none for those that it names.
    pub devices: &'a [PathBuf],
    /// The data directory that is made; `None` to find out only what would be.
    pub into: Option<&'a Path>,
    /// Without a new directory: one that is asked how much room it has.
    pub room_in: Option<&'a Path>,
    /// The state that is wanted.
    pub point: RestorePoint,
    /// The log was durable up to this block, as something else than it knows.
    pub durable: Lsn,
    /// A number that no other reader of the log has: that of the process.
    pub reader: u32,
}

/// How far it is, in bytes done and in all of the step that it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restoring {
    /// Finding the block that is meant.
    Finding(u64, u64),
    /// Copying.
    Copying(u64, u64),
    /// Verifying what was written.
    Verifying,
}

/// What was restored, or would be.
#[derive(Debug)]
pub struct Restored {
    /// The new database; `None` if nothing was made.
    pub database: Option<Id>,
    /// The log that it has branched off, and the last block that they have in common.
    pub parent: Parent,
    /// When that block was ended, in Unix milliseconds, if that is known.
    pub time_ms: Option<i64>,
    /// The block before it and the one behind it.
    pub neighbours: (Option<BlockTime>, Option<BlockTime>),
    /// Whether a process has the log open that was read.
    pub is_running: bool,
    /// How many files there are of it.
    pub files: usize,
    /// Their length; without a new directory, the length of the files that would be copied.
    pub bytes: u64,
    /// The blocks; none without a new directory, and no records.
    pub blocks: u64,
    /// The records, each of which was read again.
    pub records: u64,
    /// What it takes and what there is, before anything is made, if that is known.
    pub room: Option<Room>,
}

/// Where a log is built.
pub(crate) fn build_dir(into: &Path) -> PathBuf {
    into.join("restore-tmp")
}

/// Restores what `request` says; `None` if there is no log.
///
/// # Errors
/// When the state cannot be told, the source is damaged, the new directory is not empty, or a disk refuses. Then
/// there is no log in the new directory.
pub fn restore(
    disk: &Arc<dyn Disk>,
    request: &RestoreRequest<'_>,
    entropy: &mut dyn Entropy,
    progress: &mut dyn FnMut(Restoring),
) -> Result<Option<Restored>> {
    if let Some(into) = request.into {
        // Another restore may be at its end.
        let _lock = lock_if_there(&**disk, into)?;
        check_into(&**disk, into)?;
    }
    let source = Source::open(&**disk, request.source, request.devices, request.reader)?;
    let Some(source) = source else { return Ok(None) };
    let mut finding = |done, all| progress(Restoring::Finding(done, all));
    let wanted = match &request.point {
        RestorePoint::BeforeDelete(wanted) => Some(wanted),
        _ => None,
    };
    let timeline = Timeline::read(&**disk, &source, wanted, &mut finding);
    let found = timeline.and_then(|timeline| {
        check_end(&timeline, request)?;
        Ok((timeline.find(&request.point)?, timeline))
    });
    let (lsn, timeline) = match found {
        Ok(found) => found,
        Err(error) => {
            source.release(&**disk);
            return Err(error);
        }
    };
    let restored = carry_out(disk, request, (&source, &timeline, lsn), entropy, progress);
    source.release(&**disk);
    restored.map(Some)
}

/// Whether the log goes as far as it is known that it did.
fn check_end(timeline: &Timeline, request: &RestoreRequest<'_>) -> Result<()> {
    let (last, durable) = (timeline.last(), request.durable);
    if last >= durable {
        return Ok(());
    }
    let (missing, next) = (last.next(), Lsn::ZERO);
    Err(Error::Hole { missing, durable, next, file: path_in(request.source) })
}

/// The database whose log is in `dir`; `None` if there is none.
///
/// # Errors
/// When the manifest is damaged or cannot be read.
pub fn database_of(disk: &dyn Disk, dir: &Path) -> Result<Option<Id>> {
    Ok(Manifest::read(disk, dir)?.map(|manifest| manifest.database))
}

fn carry_out(
    disk: &Arc<dyn Disk>,
    request: &RestoreRequest<'_>,
    (source, timeline, lsn): (&Source, &Timeline, Lsn),
    entropy: &mut dyn Entropy,
    progress: &mut dyn FnMut(Restoring),
) -> Result<Restored> {
    let old = source.catalog.manifest.clone();
    let old = old.ok_or_else(|| Error::Changing { path: request.source.to_owned() })?;
    let images = source.catalog.told_as_of(&source.kept, lsn)?;
    let at = timeline.blocks.partition_point(|block| block.lsn < lsn);
    let after = timeline.blocks.iter().find(|block| block.lsn > lsn);
    let mut restored = Restored {
        database: None,
        parent: Parent { database: old.database, lsn },
        time_ms: timeline.time_of(lsn),
        neighbours: (timeline.blocks[..at].last().copied(), after.copied()),
        is_running: source.is_running(),
        files: images.files.len(),
        bytes: images.files.iter().map(|image| image.len).sum(),
        blocks: 0,
        records: 0,
        room: None,
    };
    let what = (source, &images);
    let Some(into) = request.into else {
        if let Some(dir) = request.room_in {
            restored.room = Room::look(&**disk, dir, what, restored.bytes)?;
        }
        return Ok(restored);
    };
    let build = build_dir(into);
    let is_begun = disk.exists(&build).at(&build, "look for")?;
    if !is_begun {
        restored.room = check_room(&**disk, into, what, restored.bytes)?;
    }
    // Neither another restore nor a server may begin there meanwhile. It is looked at again: one may have ended
    // since.
    let _lock = lock(&**disk, into)?;
    check_into(&**disk, into)?;
    discard(&**disk, &build, into)?;
    if is_begun {
        // What was left took room.
        restored.room = check_room(&**disk, into, what, restored.bytes)?;
    }
    begin(&**disk, &build, into)?;
    let (mut database, mut device, mut hash_seed) = (Id([0; 16]), Id([0; 16]), [0; 16]);
    entropy.fill(&mut database.0);
    entropy.fill(&mut device.0);
    // Nothing that is copied depends on it, and a branch may be given away: the parent's stays a secret.
    entropy.fill(&mut hash_seed);
    let path = default_device(into);
    let mut manifest = Manifest {
        database,
        hash_seed,
        epoch: 1,
        durable_lsn: lsn,
        horizon: images.horizon(),
        next_segment: images.next_segment(),
        devices: vec![ManifestDevice {
            id: device,
            path: path.strip_prefix(into).unwrap_or(&path).to_owned(),
            is_leaving: false,
        }],
        listed: Vec::new(),
        history: Vec::new(),
        history_floor: lsn,
        history_floor_ms: restored.time_ms.unwrap_or(0),
        history_points: Vec::new(),
        // Its notes are in the log that is made: those of backups must be known there already.
        registry: Registry::new(
            timeline.registry.next_id(),
            Vec::new(),
            timeline.commands().iter().filter(|noted| noted.lsn <= lsn).cloned().collect(),
        ),
        parent: Some(restored.parent),
        ..old
    };
    // First: what is made is found by what it says, after a crash.
    manifest.write(&**disk, &build)?;
    disk.create_dir_all(&path).at(&path, "make")?;
    DeviceMark { database, device }.write(&**disk, &path)?;
    let branch = Branch { disk: &**disk, database, device, path: &path, last: lsn };
    let (mut total, mut done) = (CopyCount::default(), 0);
    restored.files = 0;
    for image in &images.files {
        let count = branch.copy(&images, image)?;
        if count.blocks > 0 {
            restored.files += 1;
            let (segment, part) = (image.header.segment, image.header.part);
            manifest.listed.push(Listed { segment, part, last_lsn: Listed::SEALED });
        }
        total.bytes += count.bytes;
        total.blocks += count.blocks;
        total.records += count.records;
        done += image.len;
        progress(Restoring::Copying(done, restored.bytes));
    }
    manifest.write(&**disk, &build)?;
    progress(Restoring::Verifying);
    let report = verify_unlocked(disk, &build, std::slice::from_ref(&path));
    if let Some(error) = report.errors.into_iter().next() {
        return Err(error);
    }
    if (report.blocks, report.records, report.last_lsn) != (total.blocks, total.records, lsn) {
        return Err(Error::NotRestored {
            path: into.to_owned(),
            lsn,
            last: report.last_lsn,
            records: total.records,
            found: report.records,
        });
    }
    publish(&**disk, &build, into)?;
    (restored.database, restored.bytes) = (Some(database), total.bytes);
    (restored.blocks, restored.records) = (total.blocks, total.records);
    Ok(restored)
}

/// How much a restore into a directory takes, and how much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What is written at most, with [`Room::left_bytes`].
    pub needed_bytes: u64,
    /// What can be written.
    pub free_bytes: u64,
    /// What a server that runs on the same disk must have left of it.
    pub left_bytes: u64,
}

impl Room {
    /// Looks at the disk of `into`, for images that are `bytes` long with what was set aside for them. `None` where
    /// it is not known: a write will find out.
    fn look(
        disk: &dyn Disk,
        into: &Path,
        (source, images): (&Source, &Catalog),
        bytes: u64,
    ) -> Result<Option<Self>> {
        let Some(there) = nearest_dir(disk, into) else { return Ok(None) };
        let Ok(free_bytes) = disk.available_bytes(there) else { return Ok(None) };
        let left_bytes = source.left_bytes(disk, there);
        let room = Self { needed_bytes: bytes + left_bytes, free_bytes, left_bytes };
        if room.fits() {
            return Ok(Some(room));
        }
        let mut needed_bytes = left_bytes;
        for image in &images.files {
            // One that takes blocks is longer than what is in it.
            needed_bytes +=
                if image.footer.is_some() { image.len } else { filled_bytes(disk, image)? };
        }
        Ok(Some(Self { needed_bytes, ..room }))
    }

    /// Whether it is enough.
    #[must_use]
    pub const fn fits(self) -> bool {
        self.free_bytes >= self.needed_bytes
    }
}

/// Whether there is room for the images, which are `bytes` long with what was set aside for them; next to a
/// server that runs on the same disk, without making that short of room.
fn check_room(
    disk: &dyn Disk,
    into: &Path,
    what: (&Source, &Catalog),
    bytes: u64,
) -> Result<Option<Room>> {
    let room = Room::look(disk, into, what, bytes)?;
    match room {
        Some(Room { needed_bytes, free_bytes, left_bytes }) if free_bytes < needed_bytes => {
            let (path, is_next_to_server) = (into.to_owned(), left_bytes > 0);
            Err(Error::NoRoom { path, needed_bytes, free_bytes, is_next_to_server })
        }
        room => Ok(room),
    }
}

/// How far an image without a footer goes.
fn filled_bytes(disk: &dyn Disk, image: &SegmentFile) -> Result<u64> {
    let (mut blocks, mut end) = (ImageBlocks::open(disk, image)?, 0);
    while let Some(block) = blocks.next()? {
        end = block.offset + (HEADER_BYTES + block.payload().len()) as u64;
    }
    Ok(end)
}

/// The directory, or what there is of the path to it.
fn nearest_dir<'a>(disk: &dyn Disk, into: &'a Path) -> Option<&'a Path> {
    into.ancestors().find(|dir| disk.exists(dir).unwrap_or(false))
}

/// Whether the directory is empty, or has nothing but an unfinished restore.
pub(crate) fn check_into(disk: &dyn Disk, into: &Path) -> Result<()> {
    let names = match disk.list(into) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        names => names.at(into, "list")?,
    };
    let is_begun = names.iter().any(|name| name == "restore-tmp");
    let lock = lock_path(into);
    let is_ours = |name: &std::ffi::OsString| {
        name == "restore-tmp"
            || Some(name.as_os_str()) == lock.file_name()
            || (is_begun && (name == "redo" || name == "redo.tmp"))
    };
    if is_there(disk, into) && is_begun {
        // The last step of one that was published: its remains go.
        discard(disk, &build_dir(into), into)?;
    }
    if is_there(disk, into) || !names.iter().all(is_ours) {
        return Err(Error::NotEmpty { path: into.to_owned() });
    }
    Ok(())
}
