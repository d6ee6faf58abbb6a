//! What a start makes of the history that it finds.
//!
//! What is listed and there is kept on; ages begin anew. What is missing raises the floor: people
//! remove the directory when a disk is full. So does all of it on a disk that has no room for the
//! start itself, and everywhere when no history is kept any more. Then the manifest is written, and
//! after it what is not kept is removed (`recover::cut`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use base::Lsn;
use env::Disk;

use crate::compact::history::first_needing;
use crate::compact::holds::Kept;
use crate::compact::window::{Moment, Window};
use crate::format::manifest::Manifest;
use crate::options::Options;
use crate::read::catalog::{Catalog, KeptImages, KeptState};
use crate::read::reader_links::remove_dead;

/// See the file's top.
pub(crate) struct Past {
    /// Names that stay in the directories of history.
    pub(crate) names: BTreeSet<PathBuf>,
    pub(crate) kept: Vec<Kept>,
    /// Listed files that are missing or damaged.
    pub(crate) missing: Vec<PathBuf>,
}

impl Past {
    /// Finds what is kept on, and says so in `manifest`, which is still to be written. The log ends with the
    /// block `last`.
    pub(crate) fn take(
        disk: &dyn Disk,
        catalog: &Catalog,
        options: &Options,
        lookers: usize,
        (manifest, last): (&mut Manifest, Lsn),
        now: Moment,
    ) -> Self {
        let mut window = Window::default();
        window.begin(options.history, manifest, now);
        catalog.devices.iter().for_each(|device| remove_dead(disk, &device.path));
        let devices = catalog.devices.iter().map(|device| {
            let available = disk.available_bytes(&device.path);
            available.is_ok_and(|bytes| bytes < options.reserve_bytes)
        });
        let is_full: Vec<bool> = devices.collect();
        let (mut names, mut kept, mut missing) = (BTreeSet::new(), Vec::new(), Vec::new());
        for KeptImages { file, path, device, state } in catalog.kept(disk, lookers) {
            let images = match state {
                KeptState::There(images) => images,
                KeptState::InPlace => continue,
                // A backup must not be lost for a disk that fails once: which blocks need the file is not known now.
                KeptState::Unreadable if window.registry.needs(Lsn::ZERO, file.until) => Vec::new(),
                KeptState::Missing | KeptState::Damaged | KeptState::Unreadable => {
                    window.lose(Lsn::ZERO, file.until, now);
                    missing.push(path);
                    continue;
                }
            };
            let from = first_needing(&images);
            let is_held = window.registry.needs(from, file.until);
            if !is_held && (!window.is_on() || is_full[device]) {
                window.lose(from, file.until, now);
                continue;
            }
            names.insert(path.clone());
            kept.push(Kept {
                file,
                path,
                device,
                // Of marks that are made from now on none needs it.
                segments: Vec::new(),
                holders: BTreeSet::new(),
                turn: 0,
                from,
                bytes: images.iter().map(|image| image.len).sum(),
                kept_at: now,
            });
        }
        window.describe(manifest, last);
        manifest.history = kept.iter().map(|kept| kept.file).collect();
        Self { names, kept, missing }
    }
}
