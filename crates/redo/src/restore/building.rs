//! A data directory that is made, and that is no log before all of it was read back.
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
//! device has a mark and there is no manifest. Neither another restore nor a server may begin there meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::SegmentId;
use env::{Disk, Entropy, Lock};

use crate::error::{Error, IoContext, Result};
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, Manifest, ManifestDevice, Parent};
use crate::id::Id;
use crate::inspect::verify::{Report, verify_rest};
use crate::options::default_device;
use crate::read::in_use::{is_there, lock, lock_path};
use crate::write::publication::{begin, discard, publish};

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
    _lock: Box<dyn Lock>,
}

impl Building {
    /// Begins a log in `into`, which must be empty or have an unfinished one: a branch of that of `parent`, with ids of
    /// its own and nothing in it yet. It is made on up to so many threads. `check_room` is asked before anything is made, and again if what was left there
    /// had taken room.
    ///
    /// # Errors
    /// When the directory is not empty or is in use, there is no room, or the disk refuses.
    pub(crate) fn begin(
        disk: &Arc<dyn Disk>,
        into: &Path,
        (parent, threads): (Parent, usize),
        entropy: &mut dyn Entropy,
        mut check_room: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        let build = build_dir(into);
        let is_begun = disk.exists(&build).at(&build, "look for")?;
        if !is_begun {
            check_room()?;
        }
        let lock = lock(&**disk, into)?;
        // Another one may have ended since this was looked at.
        check_into(&**disk, into)?;
        discard(&**disk, &build, into)?;
        if is_begun {
            check_room()?;
        }
        begin(&**disk, &build, into)?;
        // Nothing depends on the seed of hashes, and a branch may be given away: the parent's stays a secret.
        let [mut database, mut id, mut hash_seed] = [[0; 16]; 3];
        for bytes in [&mut database, &mut id, &mut hash_seed] {
            entropy.fill(bytes);
        }
        let (database, id) = (Id(database), Id(id));
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
        manifest.write(&**disk, &build)?;
        disk.create_dir_all(&device).at(&device, "make")?;
        DeviceMark { database, device: id }.write(&**disk, &device)?;
        let (disk, into) = (Arc::clone(disk), into.to_owned());
        let checked = Report::default();
        Ok(Self { disk, device, manifest, into, build, threads, checked, _lock: lock })
    }

    /// On how many threads it is made at most.
    pub(crate) const fn threads(&self) -> usize {
        self.threads
    }

    /// Notes an image that is complete.
    pub(crate) fn list(&mut self, segment: SegmentId, part: u32) {
        self.manifest.listed.push(Listed { segment, part, last_lsn: Listed::SEALED });
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
}

/// Where a log is built.
fn build_dir(into: &Path) -> PathBuf {
    into.join("restore-tmp")
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
