//! Restores a log as it was into a new directory.
//!
//! ```text
//!   source ─► the block that is meant ─► the images of then ─► copied up to that block ─► verified (`building`)
//! ```
//!
//! The new log is a *branch*: a database with another id, so
//! that files of the two never mix, which knows its parent and the last block that both have.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::{Disk, Entropy};

use crate::error::{Error, Result};
use crate::format::block::HEADER_BYTES;
use crate::format::manifest::{Manifest, Parent, path_in};
use crate::format::registry::Registry;
use crate::id::Id;
use crate::read::catalog::Catalog;
use crate::read::in_use::lock_if_there;
use crate::read::reader_links::of_linked;
use crate::read::scan::SegmentFile;
use crate::read::side_by_side::side_by_side;
use crate::restore::branch::{Branch, CopyCount};
use crate::restore::building::{Building, Plan, check_into};
use crate::restore::expiry::Expiry;
use crate::restore::source::{ImageBlocks, Source};
use crate::restore::timeline::{BlockTime, RestorePoint, Timeline};

/// So many images a thread are copied in one step. After each it is told how far the restore is, and no thread works while the last one ends.
const IMAGES_TOGETHER: usize = 4;

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
    /// When keys expire in the new log.
    pub expiry: Expiry,
    /// On how many threads it is read and made at most.
    pub threads: NonZero<usize>,
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
    /// How the server was configured when the backup was made that was restored, without secrets, if it is one and says that.
    pub configuration: Option<String>,
    /// What it takes and what there is, before anything is made, if that is known.
    pub room: Option<Room>,
    /// It went on with a restore of the same state that had been cut off.
    pub is_resumed: bool,
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
    let timeline = Timeline::read(&**disk, &source, (wanted, request.threads.get()), &mut finding);
    let found = timeline.and_then(|timeline| {
        check_end(&timeline, request)?;
        Ok((timeline.find(&request.point)?, timeline))
    });
    let (lsn, timeline) = match found {
        Ok(found) => found,
        Err(error) => {
            source.release(&**disk);
            return Err(of_linked(error));
        }
    };
    let restored = carry_out(disk, request, (&source, &timeline, lsn), entropy, progress);
    source.release(&**disk);
    restored.map(Some).map_err(of_linked)
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

/// When the block `last` was ended, as the images say that may have it: the timeline begins at the floor.
fn time_in(disk: &dyn Disk, images: &Catalog, last: Lsn) -> Result<Option<i64>> {
    let may_have = |image: &&SegmentFile| image.footer.as_ref().is_none_or(|it| it.max_lsn >= last);
    for image in images.files.iter().filter(may_have) {
        let mut blocks = ImageBlocks::open(disk, image)?;
        while let Some(block) = blocks.next()?
            && block.header.lsn <= last
        {
            if block.header.lsn == last {
                return Ok(Some(block.header.time_ms));
            }
        }
    }
    Ok(None)
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
    let mut restored = Restored {
        database: None,
        parent: Parent { database: old.database, lsn },
        time_ms: timeline.time_of(lsn),
        neighbours: timeline.neighbours(lsn),
        is_running: source.is_running(),
        files: images.files.len(),
        bytes: images.files.iter().map(|image| image.len).sum(),
        blocks: 0,
        records: 0,
        configuration: timeline.configuration(&request.point),
        room: None,
        is_resumed: false,
    };
    let what = (source, &images);
    let Some(into) = request.into else {
        if let Some(dir) = request.room_in {
            restored.room = Room::look(&**disk, dir, what, restored.bytes)?;
        }
        return Ok(restored);
    };
    if restored.time_ms.is_none() {
        restored.time_ms = time_in(&**disk, &images, lsn)?;
    }
    let expiry = request.expiry.rule(lsn, restored.time_ms)?;
    let (parent, bytes) = (restored.parent, restored.bytes);
    let threads = request.threads.get();
    // A copy of the directory that went on by itself has blocks of the same numbers, and others.
    let same =
        format!("images of {:?}, at {:?}, expiry {expiry:?}", request.source, restored.time_ms);
    let plan = Plan { parent, what: same.as_bytes(), threads };
    let mut building = Building::begin(disk, into, &plan, entropy, |there| {
        restored.room = check_room(&**disk, into, what, (bytes, there))?;
        Ok(())
    })?;
    restored.is_resumed = building.is_resumed();
    let manifest = &mut building.manifest;
    manifest.listed.clear();
    (manifest.horizon, manifest.next_segment) = (images.horizon(), images.next_segment());
    manifest.object_floor = old.object_floor;
    manifest.history_floor_ms = restored.time_ms.unwrap_or(0);
    // Its notes are in the log that is made: those of backups must be known there already.
    manifest.registry = Registry::new(
        timeline.registry.next_id(),
        Vec::new(),
        timeline.commands().iter().filter(|noted| noted.lsn <= lsn).cloned().collect(),
    );
    let (database, device) = (manifest.database, manifest.devices[0].id);
    let path = building.device.clone();
    let branch = Branch { disk: &**disk, database, device, path: &path, last: lsn, expiry };
    let (mut total, mut done) = (CopyCount::default(), 0);
    restored.files = 0;
    for together in images.files.chunks(threads * IMAGES_TOGETHER) {
        let copied = side_by_side(together, threads, |image| branch.copy(&images, image));
        for (image, count) in together.iter().zip(copied) {
            let (count, found) = count?;
            building.take_checked(found);
            if count.blocks > 0 {
                restored.files += 1;
                building.list(image.header.segment, image.header.part);
            }
            total.bytes += count.bytes;
            total.blocks += count.blocks;
            total.records += count.records;
            done += image.len;
        }
        progress(Restoring::Copying(done, restored.bytes));
    }
    progress(Restoring::Verifying);
    building.finish(total.blocks, total.records)?;
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

/// Whether there is room for the images, which are `bytes` long with what was set aside for them, and of which so much is there; next to a
/// server that runs on the same disk, without making that short of room.
fn check_room(
    disk: &dyn Disk,
    into: &Path,
    what: (&Source, &Catalog),
    (bytes, there): (u64, u64),
) -> Result<Option<Room>> {
    let room = Room::look(disk, into, what, bytes)?;
    let room =
        room.map(|room| Room { needed_bytes: room.needed_bytes.saturating_sub(there), ..room });
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
pub(crate) fn nearest_dir<'a>(disk: &dyn Disk, into: &'a Path) -> Option<&'a Path> {
    into.ancestors().find(|dir| disk.exists(dir).unwrap_or(false))
}
