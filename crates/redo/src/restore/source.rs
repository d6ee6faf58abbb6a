//! A data directory that is read: of a log that is closed, or of one that a process has open.
//!
//! A closed one is locked. Of an open one every file is linked into `history/reader.PID/` of its
//! device, which a lock keeps: what has a name is neither changed nor cut, so the reader may take as
//! long as it likes. The files need never have been there together; so
//!
//! ```text
//!   manifest ─► links of what is in place, and of what is kept ─► manifest again: the same history?
//!      ▲                                                                │ no, or a listed file is missing
//!      └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Each compaction lists what it replaces before it renames, so the same history says that none has begun
//! to replace meanwhile. One that had begun before is no matter: its old files are listed as kept, and
//! are in place or not; if they were missed and are needed, a listed image is missing.
//!
//! What a reader that has died leaves is removed by the server (`compact::reaper`) or its next start.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use base::{Lsn, Mutex};
use env::{Disk, FileError, Lock};

use crate::compact::room::left_bytes;
use crate::error::{Error, IoContext, Result};
use crate::format::manifest::{self, Manifest};
use crate::format::segment;
use crate::read::catalog::{Catalog, FoundDevice, KeptImages, find_devices, history_files};
use crate::read::images::ATTEMPTS_MAX;
use crate::read::in_use::lock_if_there;
use crate::read::reader_links::{
    empty, is_ours, make_reader, reader_name, refused, remove_links, remove_reader,
};
use crate::read::scan::{Block, BlockCursor, Next, SegmentFile};

/// How much of a file is read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// See the file's top.
pub(crate) struct Source {
    pub(crate) catalog: Catalog,
    pub(crate) kept: Vec<KeptImages>,
    hold: Hold,
}

/// What keeps the files as they are.
enum Hold {
    /// No process writes.
    Locked { lock: Option<Box<dyn Lock>> },
    /// Links.
    Linked(Links),
}

impl Source {
    /// Opens the log in `dir`; `None` if there is none. `number` tells this reader from others.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        devices: &[PathBuf],
        number: u32,
    ) -> Result<Option<Self>> {
        if Manifest::read(disk, dir)?.is_none() {
            return Ok(None);
        }
        match lock_if_there(disk, dir) {
            Err(Error::File(FileError::InUse { .. })) => {
                Self::open_running(disk, dir, devices, number).map(Some)
            }
            lock => {
                let hold = Hold::Locked { lock: lock? };
                let Some(manifest) = Manifest::read(disk, dir)? else { return Ok(None) };
                Self::read(disk, dir, devices, manifest, hold).map(Some)
            }
        }
    }

    /// Reads the log in `dir`, whose lock this is.
    pub(crate) fn of_locked(
        disk: &dyn Disk,
        dir: &Path,
        devices: &[PathBuf],
        lock: Box<dyn Lock>,
    ) -> Result<Self> {
        let hold = Hold::Locked { lock: Some(lock) };
        let changing = || Error::Changing { path: manifest::path_in(dir) };
        let manifest = Manifest::read(disk, dir)?.ok_or_else(changing)?;
        Self::read(disk, dir, devices, manifest, hold)
    }

    fn read(
        disk: &dyn Disk,
        dir: &Path,
        devices: &[PathBuf],
        manifest: Manifest,
        hold: Hold,
    ) -> Result<Self> {
        let found = found_devices(disk, dir, &manifest, devices)?;
        let catalog = Catalog::of_devices(disk, dir, Some(manifest), found, 1)?;
        let kept = catalog.kept(disk, 1);
        Ok(Self { catalog, kept, hold })
    }

    /// Its devices, and its lock if no process has it open.
    pub(crate) fn into_devices(self) -> (Vec<FoundDevice>, Option<Box<dyn Lock>>) {
        let lock = match self.hold {
            Hold::Locked { lock } => lock,
            Hold::Linked(_) => None,
        };
        (self.catalog.devices, lock)
    }

    fn open_running(disk: &dyn Disk, dir: &Path, devices: &[PathBuf], number: u32) -> Result<Self> {
        let mut links = Links { dirs: Vec::new() };
        let mut error = Error::Changing { path: manifest::path_in(dir) };
        for _ in 0..ATTEMPTS_MAX {
            match links.take(disk, dir, devices, number) {
                Ok(Some((catalog, kept))) => {
                    return Ok(Self { catalog, kept, hold: Hold::Linked(links) });
                }
                Ok(None) => {}
                Err(met) => error = met,
            }
        }
        links.release(disk);
        Err(error)
    }

    /// Whether a process has the log open.
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.hold, Hold::Linked(_))
    }

    /// Returns how much room the disk of `into` must have left for the process that has the log open, if it is one
    /// of that log's disks.
    pub(crate) fn left_bytes(&self, disk: &dyn Disk, into: &Path) -> u64 {
        // Its segments are at least as long as the longest file.
        let segment_bytes = self.catalog.files.iter().map(|file| file.len).max().unwrap_or(0);
        let on = disk.file_system(into);
        let mut devices = self.catalog.devices.iter();
        let is_shared = on.is_some() && devices.any(|it| disk.file_system(&it.path) == on);
        let is_asked = self.is_running() && is_shared;
        is_asked.then(|| left_bytes(disk, into, segment_bytes)).flatten().unwrap_or(0)
    }

    /// The paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let in_place = self.catalog.files.iter().map(|image| image.path.as_path());
        in_place.chain(self.kept.iter().map(|kept| kept.path.as_path()))
    }

    /// A device of the process that has the log open, if it has half the room or less that it is to have left.
    pub(crate) fn short_of_room(&self, disk: &dyn Disk) -> Option<PathBuf> {
        let Hold::Linked(links) = &self.hold else { return None };
        let segment_bytes = self.catalog.files.iter().map(|file| file.len).max().unwrap_or(0);
        let is_short = |dir: &&Path| {
            let left_bytes = left_bytes(disk, dir, segment_bytes);
            let free_bytes = disk.available_bytes(dir).ok();
            free_bytes.zip(left_bytes).is_some_and(|(free, left)| free < left / 2)
        };
        let short = links.dirs.iter().map(|(dir, _)| dir.as_path()).find(is_short)?;
        short.ancestors().nth(2).map(Path::to_owned)
    }

    /// Lets go of some of the files before the others, as far as they are linked.
    pub(crate) fn let_go(&self, disk: &dyn Disk, paths: &[&Path]) {
        let Hold::Linked(links) = &self.hold else { return };
        // Nothing but links is ever removed.
        let is_link = |path: &&&Path| links.dirs.iter().any(|(dir, _)| path.starts_with(dir));
        paths.iter().filter(is_link).for_each(|path| {
            let _left = disk.remove(path);
        });
    }

    /// Lets go of the files. A process that dies before leaves that to the server.
    pub(crate) fn release(self, disk: &dyn Disk) {
        if let Hold::Linked(links) = self.hold {
            links.release(disk);
        }
    }
}

/// Removes the links that the reader with this number has to files of the log in `dir`, as far as that can
/// be: for a process that is about to be ended. What it still reads it reads from what it has open. As long as
/// what is returned lives no reader of this process makes links: keep it until the end.
pub fn abandon_reader(
    disk: &dyn Disk,
    dir: &Path,
    devices: &[PathBuf],
    number: u32,
) -> NoMoreLinks {
    let none_is_made = NoMoreLinks { _lock: LINKING.lock() };
    let Ok(Some(manifest)) = Manifest::read(disk, dir) else { return none_is_made };
    for device in found_devices(disk, dir, &manifest, devices).unwrap_or_default() {
        let reader = segment::history_dir(&device.path).join(reader_name(number));
        if is_ours(&reader) {
            remove_links(disk, &reader);
            let _left = disk.remove_dir(&reader);
        }
    }
    none_is_made
}

/// Held while links are made.
static LINKING: Mutex<()> = Mutex::new(());

/// See [`abandon_reader`].
#[must_use = "links are made again when it is dropped"]
pub struct NoMoreLinks {
    _lock: MutexGuard<'static, ()>,
}

/// The devices of the log, in `devices` or where the manifest says.
pub(crate) fn found_devices(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    devices: &[PathBuf],
) -> Result<Vec<FoundDevice>> {
    let mut dirs = devices.to_vec();
    if dirs.is_empty() {
        dirs.extend(manifest.devices.iter().map(|device| dir.join(&device.path)));
    }
    find_devices(disk, dir, Some(manifest), &dirs)
}

/// Directories with links, each with its lock.
struct Links {
    dirs: Vec<(PathBuf, Box<dyn Lock>)>,
}

impl Links {
    /// Links everything; `None` if it has changed meanwhile.
    fn take(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        devices: &[PathBuf],
        number: u32,
    ) -> Result<Option<(Catalog, Vec<KeptImages>)>> {
        let _linking = LINKING.lock();
        let no_log = || Error::Changing { path: manifest::path_in(dir) };
        let before = Manifest::read(disk, dir)?.ok_or_else(no_log)?;
        let mut found = found_devices(disk, dir, &before, devices)?;
        for device in &mut found {
            let reader = segment::history_dir(&device.path).join(reader_name(number));
            self.make(disk, &reader)?;
            link_all(disk, &device.path, &reader)?;
            device.path = reader;
        }
        let after = Manifest::read(disk, dir)?.ok_or_else(no_log)?;
        let is_same = before.history == after.history
            && before.history_floor == after.history_floor
            && before.history_points == after.history_points
            && before.horizon == after.horizon
            && before.devices == after.devices;
        if !is_same {
            return Ok(None);
        }
        let catalog = Catalog::of_devices(disk, dir, Some(before), found, 1)?;
        let kept = catalog.kept(disk, 1);
        Ok(Some((catalog, kept)))
    }

    /// Makes the directory, empty, with its lock.
    fn make(&mut self, disk: &dyn Disk, reader: &Path) -> Result<()> {
        if self.dirs.iter().any(|(dir, _)| dir == reader) {
            return empty(disk, reader);
        }
        self.dirs.push((reader.to_owned(), make_reader(disk, reader)?));
        // A process that had the same number may have left something.
        empty(disk, reader)
    }

    fn release(self, disk: &dyn Disk) {
        for (dir, lock) in self.dirs {
            remove_reader(disk, &dir, lock);
        }
    }
}

/// Gives a second name to every segment's file of the device and to all that is kept there. One that is
/// gone meanwhile is missed later, if it is needed.
fn link_all(disk: &dyn Disk, device: &Path, reader: &Path) -> Result<()> {
    let names = disk.list(device).at(device, "list")?;
    let names = names
        .iter()
        .filter(|name| name.to_str().is_some_and(|name| segment::parse_file_name(name).is_some()));
    let in_place = names.map(|name| (device.join(name), reader.join(name)));
    let kept = history_files(disk, device).into_iter().map(|path| {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        (path, segment::history_dir(reader).join(name))
    });
    for (from, to) in in_place.chain(kept) {
        match disk.link(&from, &to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(refused(&to, error));
            }
            linked => linked.at(&from, "link")?,
        }
    }
    Ok(())
}

/// The blocks of an image in the order of their numbers. The file may be one that is written meanwhile.
pub(crate) struct ImageBlocks<'a> {
    disk: &'a dyn Disk,
    image: SegmentFile,
    cursor: BlockCursor,
    last: Lsn,
    failures: usize,
}

impl<'a> ImageBlocks<'a> {
    pub(crate) fn open(disk: &'a dyn Disk, image: &SegmentFile) -> Result<Self> {
        let cursor = BlockCursor::open(disk, image.clone(), CHUNK_BYTES)?;
        Ok(Self { disk, image: image.clone(), cursor, last: Lsn::ZERO, failures: 0 })
    }

    /// The next block; `None` where the good ones end.
    pub(crate) fn next(&mut self) -> Result<Option<Block>> {
        loop {
            match self.cursor.next() {
                Ok(Next::Block(block)) if block.header.lsn <= self.last => {}
                Ok(Next::Block(block)) => {
                    self.last = block.header.lsn;
                    return Ok(Some(block));
                }
                Ok(Next::End | Next::Tail(_)) => return Ok(None),
                // It had no footer when it was looked at, and gets one: then it is shorter.
                Err(_) if self.image.footer.is_none() && self.failures < ATTEMPTS_MAX => {
                    self.failures += 1;
                    match self.open_again() {
                        Ok(cursor) => self.cursor = cursor,
                        Err(error) if self.failures == ATTEMPTS_MAX => return Err(error),
                        // It is cut just now.
                        Err(_) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn open_again(&self) -> Result<BlockCursor> {
        let images = SegmentFile::read(self.disk, &self.image.path, self.image.device)?;
        let image = images.into_iter().next().unwrap_or_else(|| self.image.clone());
        BlockCursor::open(self.disk, image, CHUNK_BYTES)
    }
}
