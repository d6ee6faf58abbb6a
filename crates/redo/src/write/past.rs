//! What a start makes of the history that it finds.
//!
//! What is listed and there is kept on; ages begin anew. What is missing raises the floor: people
//! remove the directory when a disk is full. So does the oldest on a disk that lacks room for the start
//! itself, as much of it as that takes, and all of it when no history is kept any more. Then the manifest is
//! written, and after it what is not kept is removed (`recover::cut`), before anything is copied.
//!
//! It costs a look at each listed file, three reads: of as many as the window allows, four for each file of
//! the log and 1,024, eight at a time.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base::Lsn;
use env::Disk;

use crate::compact::history::first_needing;
use crate::compact::kept::Kept;
use crate::compact::room::short_at_start;
use crate::compact::window::{Moment, Window};
use crate::error::Error;
use crate::format::manifest::{KeptFile, Manifest};
use crate::options::Options;
use crate::read::catalog::{Catalog, KeptImages, KeptState, LOOKERS};
use crate::read::reader_links::remove_dead;
use crate::write::reserve;

/// See the file's top.
pub(crate) struct Past {
    /// Names that stay in the directories of history.
    pub(crate) names: BTreeSet<PathBuf>,
    pub(crate) kept: Vec<Kept>,
    /// Listed files that are missing or damaged.
    pub(crate) missing: Vec<PathBuf>,
    /// What could not be removed from `history/`, and why.
    pub(crate) stuck: Vec<Error>,
    window: Window,
}

impl Past {
    /// Finds what is kept on, and says so in `manifest`, which is still to be written. The log ends with the
    /// block `last`; of each device's files so many bytes are written again before it goes on.
    pub(crate) fn take(
        disk: &dyn Disk,
        catalog: &Catalog,
        options: &Options,
        (manifest, last): (&mut Manifest, Lsn),
        now: Moment,
        rewritten_bytes: &[u64],
    ) -> Self {
        let mut window = Window::default();
        window.begin(options.history, manifest, now);
        catalog.devices.iter().for_each(|device| remove_dead(disk, &device.path));
        let (mut kept, mut missing) = (Vec::new(), Vec::new());
        let lookers = if options.parallel_loaders { LOOKERS } else { 1 };
        for KeptImages { file, path, device, state } in catalog.kept(disk, lookers) {
            let images = match state {
                KeptState::There(images) => images,
                KeptState::InPlace => continue,
                // A backup must not be lost for a disk that fails once: which blocks need the file is not known now.
                KeptState::Unreadable if window.registry.needs(file.from, file.until) => Vec::new(),
                KeptState::Missing | KeptState::Damaged | KeptState::Unreadable => {
                    window.lose(file.from, file.until, now);
                    missing.push(path);
                    continue;
                }
            };
            // A manifest may have been written that did not say it.
            let from = file.from.max(first_needing(&images));
            if !window.is_on() && !window.registry.needs(from, file.until) {
                window.lose(from, file.until, now);
                continue;
            }
            kept.push(Kept {
                file: KeptFile { from, ..file },
                path,
                device,
                // Of marks that are made from now on none needs it.
                segments: Vec::new(),
                holders: BTreeSet::new(),
                turn: 0,
                bytes: images.iter().map(|image| image.len).sum(),
                is_linked: false,
                kept_at: now,
            });
        }
        let wanted =
            catalog.devices.iter().zip(rewritten_bytes).map(|(device, rewritten_bytes)| {
                let wanted_bytes = reserve::wanted_bytes(options.reserve_bytes) + rewritten_bytes;
                (device.path.as_path(), wanted_bytes)
            });
        let short = short_at_start(disk, &wanted.collect::<Vec<_>>());
        for kept in kept.iter_mut().filter(|kept| short.contains_key(&kept.device)) {
            kept.is_linked = disk.has_other_names(&kept.path).unwrap_or(false);
        }
        window.make_room(&kept, now, short);
        kept.retain(|kept| window.needs(kept));
        window.describe(manifest, last);
        manifest.history = kept.iter().map(|kept| kept.file).collect();
        let names = kept.iter().map(|kept| kept.path.clone()).collect();
        Self { names, kept, missing, stuck: Vec::new(), window }
    }

    /// Gives up more, because a start lacks room in a way that no disk tells: all that no backup needs, and when nothing else
    /// is left, if that may go, what only the oldest backup needs. Whether there was anything.
    pub(crate) fn give_up(&mut self, (manifest, last): (&mut Manifest, Lsn), now: Moment) -> bool {
        let mut given_up = self.take_unheld();
        if given_up.is_empty() && self.window.options.drops_backups {
            while given_up.is_empty() && self.window.drop_oldest_backup() {
                given_up = self.take_unheld();
            }
        }
        for kept in &given_up {
            self.window.lose(kept.file.from, kept.file.until, now);
        }
        self.names = self.kept.iter().map(|kept| kept.path.clone()).collect();
        self.window.describe(manifest, last);
        manifest.history = self.kept.iter().map(|kept| kept.file).collect();
        !given_up.is_empty()
    }

    fn take_unheld(&mut self) -> Vec<Kept> {
        let is_free = |kept: &mut Kept| !self.window.is_held(kept);
        self.kept.extract_if(.., is_free).collect()
    }
}
