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

use base::{Lsn, SegmentId};

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
    let mut error = None;
    for _ in 0..ATTEMPTS_MAX {
        let listed = shared.manifest.listing().images();
        let found = look(shared, Wanted::All);
        match unmet(&found.images, &listed) {
            None => return Ok(found.images),
            Some(unmet) => error = found.error.or(unmet),
        }
    }
    Err(error.unwrap_or_else(|| keeps_changing(shared)))
}

/// The images of one segment, complete; none if there is no such segment (any more).
pub(crate) fn find_segment(shared: &Shared, id: SegmentId) -> Result<Vec<SegmentFile>> {
    let mut error = None;
    for _ in 0..ATTEMPTS_MAX {
        let mut listed = shared.manifest.listing().images();
        listed.retain(|(segment, ..)| *segment == id);
        // Nearly every segment has a file of its own name, or is where it was seen last.
        let seen = shared.leaders.find(id).map(Wanted::Named);
        for wanted in seen.into_iter().chain([Wanted::Named(id), Wanted::All]) {
            let Look { mut images, error: met } = look(shared, wanted);
            if wanted == Wanted::All {
                let seen = images.iter().map(|image| (image.header.segment, image.leader));
                shared.leaders.note_all(seen);
            }
            match unmet(&images, &listed) {
                None => {
                    images.retain(|image| image.header.segment == id);
                    return Ok(images);
                }
                Some(unmet) => error = met.or(unmet),
            }
        }
    }
    Err(error.unwrap_or_else(|| keeps_changing(shared)))
}

/// The last block up to `durable` that the image must have if it has no footer yet: behind that its
/// end may be torn, before it is damage what is no block. REQUIRES: everything up to `durable` was
/// durable before the image was looked up.
pub(crate) fn last_block(shared: &Shared, image: &SegmentFile, durable: Lsn) -> Lsn {
    if image.footer.is_some() {
        return Lsn::ZERO;
    }
    shared.manifest.listing().last_block(image.header.segment, image.header.part, durable)
}

/// Whether something that is listed is not among the images, and why if they say so.
fn unmet(images: &[SegmentFile], listed: &[(SegmentId, u32, bool)]) -> Option<Option<Error>> {
    listed.iter().find_map(|(segment, part, is_sealed)| {
        let image = images.iter().find(|image| {
            let header = &image.header;
            header.segment == *segment
                && (header.part == *part || (header.part == 0 && header.generation > 0))
        });
        match image {
            Some(image) if *is_sealed && image.footer.is_none() => {
                let what = "the segment was sealed, and its footer is damaged or missing";
                Some(Some(image.corrupt(image.len, what)))
            }
            Some(_) => None,
            None => Some(None),
        }
    })
}

fn keeps_changing(shared: &Shared) -> Error {
    Error::Changing { path: manifest::path_in(shared.manifest.dir()) }
}

/// What a look at every device has shown.
#[derive(Default)]
struct Look {
    images: Vec<SegmentFile>,
    /// Why something is not among them: it went away meanwhile, or is damaged. That matters only to
    /// a caller that wants it.
    error: Option<Error>,
}

impl Look {
    fn device(&mut self, shared: &Shared, index: usize, wanted: Wanted) -> Result<()> {
        let dir = &shared.devices[index].path;
        let names = match shared.disk.list(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            names => names.at(dir, "list")?,
        };
        for name in names.iter().filter_map(|name| name.to_str()) {
            let Some((segment, _)) = segment::parse_file_name(name) else { continue };
            if wanted == Wanted::All || wanted == Wanted::Named(segment) {
                let path = dir.join(name);
                match SegmentFile::read_running(&*shared.disk, &path, index) {
                    Ok(found) if found.is_empty() => {
                        // That is an error if it has a block: then it is listed.
                        let what = "the segment's header is damaged";
                        self.error = Some(Error::corrupt(&path, 0, what));
                    }
                    Ok(found) => self.images.extend(found),
                    Err(error) => self.error = Some(error),
                }
            }
        }
        Ok(())
    }

    /// Forgets older generations of segments that are there in two.
    fn keep_youngest(&mut self) {
        let mut generations: HashMap<SegmentId, u32> = HashMap::new();
        for image in &self.images {
            let generation = generations.entry(image.header.segment).or_default();
            *generation = (*generation).max(image.header.generation);
        }
        self.images.retain(|image| image.header.generation == generations[&image.header.segment]);
        self.images.sort_by_key(|image| (image.header.segment, image.header.part));
    }
}

fn look(shared: &Shared, wanted: Wanted) -> Look {
    let mut look = Look::default();
    for (index, device) in shared.devices.iter().enumerate() {
        if device.service() != Service::Gone
            && let Err(error) = look.device(shared, index, wanted)
        {
            look.error = Some(error);
        }
    }
    look.keep_youngest();
    look
}
