//! A data directory that is made, and that is no log before all of it was read back.
//!
//! ```text
//!   INTO/redo.lock      held all the while
//!   INTO/restore-tmp/   begun: what is made · manifest: new database, its device        a crash here: begun anew
//!   INTO/redo/          mark · images, each with its footer                             a crash here: gone on with
//!   INTO/restore-tmp/   manifest: what there is · all of it verified
//!   INTO/redo.manifest  the same manifest: now it is a log
//! ```
//!
//! Until the last step no log is found in the directory, and a server refuses to start there, because the
//! device has a mark and there is no manifest. Neither another restore nor a server may begin there meanwhile.
//!
//! An unfinished one that was to become the same is gone on with: of what it has left the images that are good, to the last byte, are
//! kept. One that was to become something else is removed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::SegmentId;
use env::{Access, Disk, Entropy, Lock};

use crate::error::{Error, IoContext, Result};
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, Manifest, ManifestDevice, Parent};
use crate::format::segment::{self, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::{Report, check_image, verify_rest};
use crate::options::default_device;
use crate::read::in_use::{is_there, lock, lock_path};
use crate::read::scan::SegmentFile;
use crate::write::publication::{RESTORE_DIR, begin, begun, discard, publish};

/// What is made.
pub(crate) struct Plan<'a> {
    /// The log that it branches off, and the last block.
    pub(crate) parent: Parent,
    /// What the same plan has the same, and no other.
    pub(crate) what: &'a [u8],
    /// On how many threads it is made at most.
    pub(crate) threads: usize,
}

/// See the file's top.
pub(crate) struct Building {
    pub(crate) disk: Arc<dyn Disk>,
    /// The directory of the one device.
    pub(crate) device: PathBuf,
    /// What the log will say of itself. Its durable LSN is the last block.
    pub(crate) manifest: Manifest,
    into: PathBuf,
    build: PathBuf,
    threads: usize,
    /// What was found in the images that were read.
    checked: Report,
    /// It goes on with an unfinished one.
    is_resumed: bool,
    _lock: Box<dyn Lock>,
}

impl Building {
    /// Begins a log in `into`, which must be empty or have an unfinished one, or goes on with that if it is of the same plan: a branch of that of the
    /// parent, with ids of its own and nothing in it yet. `check_room` is asked before anything is made, with how many bytes of an unfinished
    /// one are there.
    ///
    /// # Errors
    /// When the directory is not empty or is in use, there is no room, or the disk refuses.
    pub(crate) fn begin(
        disk: &Arc<dyn Disk>,
        into: &Path,
        plan: &Plan<'_>,
        entropy: &mut dyn Entropy,
        mut check_room: impl FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let build = into.join(RESTORE_DIR);
        let is_begun = disk.exists(&build).at(&build, "look for")?;
        if !is_begun {
            check_room(0)?;
        }
        let lock = lock(&**disk, into)?;
        // Another one may have ended since this was looked at.
        check_into(&**disk, into)?;
        let device = default_device(into);
        let unfinished = unfinished(&**disk, into, plan)?;
        let is_resumed = unfinished.is_some();
        let manifest = if let Some(manifest) = unfinished {
            check_room(length_of_all(&**disk, &device)?)?;
            manifest
        } else {
            discard(&**disk, &build, into)?;
            if is_begun {
                check_room(0)?;
            }
            begin(&**disk, &build, into, plan.what)?;
            begin_manifest(&**disk, into, plan, entropy)?
        };
        let (disk, into) = (Arc::clone(disk), into.to_owned());
        let (checked, threads) = (Report::default(), plan.threads);
        Ok(Self { disk, device, manifest, into, build, threads, checked, is_resumed, _lock: lock })
    }

    /// Whether it goes on with an unfinished one.
    pub(crate) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The directory in which it is noted how far it is.
    pub(crate) fn notes(&self) -> &Path {
        &self.build
    }

    /// On how many threads it is made at most.
    pub(crate) const fn threads(&self) -> usize {
        self.threads
    }

    /// Notes an image that is complete.
    pub(crate) fn list(&mut self, segment: SegmentId, part: u32) {
        self.manifest.listed.push(Listed { segment, part, last_lsn: Listed::SEALED });
    }

    /// Forgets what was found in images: they are removed.
    pub(crate) fn forget_checked(&mut self) {
        self.checked = Report::default();
    }

    /// Adds what was found in an image that was read when it was complete.
    pub(crate) fn take_checked(&mut self, found: Report) {
        self.checked.add(found);
    }

    /// Reads the log in its order, and each image that was not read yet by itself. There must be so many blocks and records. Then it
    /// becomes the log of its directory.
    ///
    /// # Errors
    /// When what is read is not what was put, or the disk refuses. Then there is no log in the directory.
    pub(crate) fn finish(self, blocks: u64, records: u64) -> Result<()> {
        self.remove_others()?;
        self.manifest.write(&*self.disk, &self.build)?;
        let devices = std::slice::from_ref(&self.device);
        let report = verify_rest(&self.disk, &self.build, devices, self.threads, self.checked);
        if let Some(error) = report.errors.into_iter().next() {
            return Err(error);
        }
        let lsn = self.manifest.durable_lsn;
        if (report.blocks, report.records, report.last_lsn) != (blocks, records, lsn) {
            let (last, found) = (report.last_lsn, report.records);
            return Err(Error::NotRestored { path: self.into, lsn, last, records, found });
        }
        publish(&*self.disk, &self.build, &self.into)
    }

    /// Removes what an unfinished one has left of images that are not noted. What is noted has its name durably: the process that gave it that may have
    /// been killed before it saw to that.
    pub(crate) fn remove_others(&self) -> Result<()> {
        if !self.is_resumed {
            return Ok(());
        }
        let noted: HashSet<(SegmentId, u32)> =
            self.manifest.listed.iter().map(|image| (image.segment, image.part)).collect();
        for name in self.disk.list(&self.device).at(&self.device, "list")? {
            let Some(text) = name.to_str() else { continue };
            let is_noted = match text.strip_suffix(".tmp") {
                Some(_) => false,
                None => segment::parse_file_name(text).is_none_or(|image| noted.contains(&image)),
            };
            if !is_noted {
                let path = self.device.join(&name);
                self.disk.remove(&path).at(&path, "remove")?;
            }
        }
        self.disk.sync_dir(&self.device).at(&self.device, "sync")
    }
}

/// The image in a file that an unfinished restore has left, and what was found in it, if it is whole; of a file that is not there or damaged nothing is kept.
pub(crate) fn whole_image(disk: &dyn Disk, path: &Path) -> Result<Option<(SegmentHeader, Report)>> {
    if !disk.exists(path).at(path, "look for")? {
        return Ok(None);
    }
    let Ok(images) = SegmentFile::read(disk, path, 0) else { return Ok(None) };
    let Ok([image]) = <[SegmentFile; 1]>::try_from(images) else { return Ok(None) };
    let is_sealed = image.footer.is_some();
    Ok(check_image(disk, path).ok().filter(|_| is_sealed).map(|found| (image.header, found)))
}

/// The manifest of an unfinished restore of the same plan.
fn unfinished(disk: &dyn Disk, into: &Path, plan: &Plan<'_>) -> Result<Option<Manifest>> {
    let build = into.join(RESTORE_DIR);
    if begun(disk, &build, into)?.as_deref() != Some(plan.what) {
        return Ok(None);
    }
    let Ok(Some(manifest)) = Manifest::read(disk, &build) else { return Ok(None) };
    let [device] = &manifest.devices[..] else { return Ok(None) };
    let mark = DeviceMark { database: manifest.database, device: device.id };
    let path = into.join(&device.path);
    let is_ours = path == default_device(into)
        && matches!(DeviceMark::read(disk, &path), Ok(Some(found)) if found == mark)
        && manifest.parent == Some(plan.parent);
    Ok(is_ours.then_some(manifest))
}

/// Makes the new database's manifest, and its device.
fn begin_manifest(
    disk: &dyn Disk,
    into: &Path,
    plan: &Plan<'_>,
    entropy: &mut dyn Entropy,
) -> Result<Manifest> {
    // Nothing depends on the seed of hashes, and a branch may be given away: the parent's stays a secret.
    let [mut database, mut id, mut hash_seed] = [[0; 16]; 3];
    for bytes in [&mut database, &mut id, &mut hash_seed] {
        entropy.fill(bytes);
    }
    let (database, id, parent) = (Id(database), Id(id), plan.parent);
    let device = default_device(into);
    let manifest = Manifest {
        epoch: 1,
        durable_lsn: parent.lsn,
        devices: vec![ManifestDevice {
            id,
            path: device.strip_prefix(into).unwrap_or(&device).to_owned(),
            is_leaving: false,
        }],
        history_floor: parent.lsn,
        parent: Some(parent),
        ..Manifest::new(database, hash_seed)
    };
    // First: what is made is found by what it says, after a crash.
    manifest.write(disk, &into.join(RESTORE_DIR))?;
    disk.create_dir_all(&device).at(&device, "make")?;
    DeviceMark { database, device: id }.write(disk, &device)?;
    Ok(manifest)
}

/// How long all files of a directory are.
fn length_of_all(disk: &dyn Disk, dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for name in disk.list(dir).at(dir, "list")? {
        let path = dir.join(name);
        bytes += disk.open(&path, Access::Read).and_then(|file| file.len()).at(&path, "look at")?;
    }
    Ok(bytes)
}

/// Whether the directory is empty, or has nothing but an unfinished restore.
pub(crate) fn check_into(disk: &dyn Disk, into: &Path) -> Result<()> {
    let names = match disk.list(into) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        names => names.at(into, "list")?,
    };
    let is_begun = names.iter().any(|name| name == RESTORE_DIR);
    let lock = lock_path(into);
    let is_ours = |name: &std::ffi::OsString| {
        name == RESTORE_DIR
            || Some(name.as_os_str()) == lock.file_name()
            || (is_begun && (name == "redo" || name == "redo.tmp"))
    };
    if is_there(disk, into) && is_begun {
        // The last step of one that was published: its remains go.
        discard(disk, &into.join(RESTORE_DIR), into)?;
    }
    if is_there(disk, into) || !names.iter().all(is_ours) {
        return Err(Error::NotEmpty { path: into.to_owned() });
    }
    Ok(())
}
