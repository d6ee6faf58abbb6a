//! What is kept of a log that goes on: files that compactions have replaced, as the manifest lists them.
//!
//! ```text
//!   kept        7.g0 ──[from ───────until)             every record that its blocks ever had
//!   in place    7.g1 ───────────────[from ──────────►  what was needed when it was made
//! ```
//!
//! Every file that was in place at the floor of history or later is in place or kept. So of every block behind the floor
//! there is the file that it was written to, which no compaction has changed; and the state after the floor, and after every block
//! behind it, is told by the files that were in place then.
//!
//! A kept file may have the block of its `until`: that was the last one when the compaction was ordered.
//!
//! **What was set back is not told.** Kept files have the blocks that `restore --in-place` has undone. The floor is not below
//! the last of them.
//!
//! Files are given up while they are looked for: what is not there any more, and not listed either, is looked up again.

use base::Lsn;
use env::FileError;

use crate::error::{Error, Result};
use crate::format::manifest::{KeptFile, Manifest};
use crate::format::segment;
use crate::read::images::ATTEMPTS_MAX;
use crate::read::scan::SegmentFile;
use crate::shared::device::{Service, Shared};

/// See the file's top.
pub(crate) struct Past {
    /// What is told reaches down to here.
    pub(crate) floor: Lsn,
    /// The images of kept files.
    pub(crate) images: Vec<SegmentFile>,
}

/// Down to where history tells, if all that is listed is there.
pub(crate) fn floor(manifest: &Manifest) -> Lsn {
    let set_back = manifest.rewinds.list.iter().map(|rewind| rewind.at);
    set_back.fold(manifest.history_floor, Lsn::max)
}

impl Past {
    /// Looks up the kept files that are wanted. The floor is above what one would tell that is not there or is damaged.
    pub(crate) fn find(shared: &Shared, is_wanted: impl Fn(&KeptFile) -> bool) -> Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let manifest = shared.manifest.get();
            let mut past = Self { floor: floor(&manifest), images: Vec::new() };
            let mut missing = Vec::new();
            for file in manifest.history.iter().filter(|file| is_wanted(file)) {
                match look_at(shared, file)? {
                    Some(images) => past.images.extend(images),
                    None => missing.push(*file),
                }
            }
            let listed = shared.manifest.get();
            if missing.iter().all(|file| listed.history.contains(file)) {
                // States before `until` lack the file, and blocks up to it may be in it.
                past.floor = missing.iter().map(|file| file.until).fold(past.floor, Lsn::max);
                return Ok(past);
            }
        }
        let path = crate::format::manifest::path_in(shared.manifest.dir());
        Err(Error::Changing { path })
    }
}

/// The images of a kept file; `None` if it is not there, or not what it should be.
fn look_at(shared: &Shared, file: &KeptFile) -> Result<Option<Vec<SegmentFile>>> {
    let is_its = |device: &crate::shared::device::Device| {
        device.id == file.device && device.service() != Service::Gone
    };
    let Some(index) = shared.devices.iter().position(is_its) else { return Ok(None) };
    let name = segment::history_name(file.segment, file.part, file.generation);
    let path = segment::history_dir(&shared.devices[index].path).join(name);
    if !shared.disk.exists(&path).unwrap_or(true) {
        return Ok(None);
    }
    match SegmentFile::read(&*shared.disk, &path, index) {
        Ok(images) => {
            let is_good = images
                .iter()
                .all(|image| image.footer.is_some() && image.header.database == shared.database);
            let is_named = images.first().is_some_and(|image| {
                let header = &image.header;
                (header.segment, header.part, header.generation)
                    == (file.segment, file.part, file.generation)
            });
            Ok(Some(images).filter(|_| is_good && is_named))
        }
        // A disk that does not tell now may do so later.
        Err(error @ Error::File(FileError::Io { .. }))
            if shared.disk.exists(&path).unwrap_or(true) =>
        {
            Err(error)
        }
        Err(_) => Ok(None),
    }
}
