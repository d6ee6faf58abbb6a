//! Which images a running log has at this moment.
//!
//! Files are made, replaced and removed while a directory is listed, so what a list of names shows
//! need never have been there together. The manifest's listing says what must be there: an image is
//! on it before its first block is written, and until before it is removed. So
//!
//! ```text
//!   listing ─► names of every device ─► headers and footers ─► is all of the listing met? ─► done
//!      ▲                                                                  │ no
//!      └──────────────── something was replaced meanwhile ◄───────────────┘
//! ```
//!
//! A segment that is there in two generations is between a compaction's rename and the removal of
//! what it replaces; the younger one counts, as at a start.

use std::collections::HashMap;
use std::io::ErrorKind;

use base::SegmentId;

use crate::error::{Error, IoContext, Result};
use crate::format::manifest;
use crate::format::segment;
use crate::read::scan::SegmentFile;
use crate::shared::device::{Service, Shared};

/// So often something is looked up again that was replaced meanwhile, before that is an error.
pub(crate) const ATTEMPTS_MAX: usize = 20;

/// Which segments are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Every one.
    All,
    /// This one, in files that are named after it.
    Named(SegmentId),
}

/// The images of all segments, complete, by segment and part.
pub(crate) fn find_all(shared: &Shared) -> Result<Vec<SegmentFile>> {
    for _ in 0..ATTEMPTS_MAX {
        let listed = shared.manifest.listing().ids();
        let Some(images) = look(shared, Wanted::All)? else { continue };
        let is_met = |(segment, part): &(SegmentId, u32)| meets(&images, *segment, *part);
        if listed.iter().all(is_met) {
            return Ok(images);
        }
    }
    Err(keeps_changing(shared))
}

/// The images of one segment, complete; none if there is no such segment (any more).
pub(crate) fn find_segment(shared: &Shared, id: SegmentId) -> Result<Vec<SegmentFile>> {
    for _ in 0..ATTEMPTS_MAX {
        let parts: Vec<u32> = {
            let listed = shared.manifest.listing().ids();
            listed.iter().filter(|(segment, _)| *segment == id).map(|(_, part)| *part).collect()
        };
        // Nearly every segment has a file of its own name.
        for wanted in [Wanted::Named(id), Wanted::All] {
            let Some(images) = look(shared, wanted)? else { continue };
            if parts.iter().all(|part| meets(&images, id, *part)) {
                return Ok(images.into_iter().filter(|i| i.header.segment == id).collect());
            }
        }
    }
    Err(keeps_changing(shared))
}

fn meets(images: &[SegmentFile], segment: SegmentId, part: u32) -> bool {
    images.iter().any(|image| {
        let header = &image.header;
        header.segment == segment
            && (header.part == part || (header.part == 0 && header.generation > 0))
    })
}

fn keeps_changing(shared: &Shared) -> Error {
    let path = manifest::path_in(shared.manifest.dir());
    Error::Changing { path }
}

/// What a look at every device shows; `None` if a file went away meanwhile.
fn look(shared: &Shared, wanted: Wanted) -> Result<Option<Vec<SegmentFile>>> {
    let mut images = Vec::new();
    for (index, device) in shared.devices.iter().enumerate() {
        if device.service() == Service::Gone {
            continue;
        }
        let names = match shared.disk.list(&device.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            names => names.at(&device.path, "list")?,
        };
        for name in names.iter().filter_map(|name| name.to_str()) {
            let Some((segment, _)) = segment::parse_file_name(name) else { continue };
            if wanted != Wanted::All && wanted != Wanted::Named(segment) {
                continue;
            }
            match SegmentFile::read(&*shared.disk, &device.path.join(name), index) {
                // Without a header it has no block.
                Ok(found) => images.extend(found),
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
    let mut generations: HashMap<SegmentId, u32> = HashMap::new();
    for image in &images {
        let generation = generations.entry(image.header.segment).or_default();
        *generation = (*generation).max(image.header.generation);
    }
    images.retain(|image| image.header.generation == generations[&image.header.segment]);
    images.sort_by_key(|image| (image.header.segment, image.header.part));
    Ok(Some(images))
}

/// Whether the error says that the file has no such name, or is being cut because it has none.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. }
        if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof))
}
