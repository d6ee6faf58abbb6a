//! Takes away what readers of other processes have left that have died.
//!
//! ```text
//!   history/reader.PID/lock   held ─► it lives: its links are counted
//!                             free ─► it has died: lock, its links go some at a time, the directory
//! ```
//!
//! A start removes all of them. Between two starts this looks once a minute, and once a second while a disk
//! is short of room: what the links hold may be much. A directory without a lock and without links is one that
//! is just being made, or empty: a reader locks before it links. Links that cannot be removed are tried again
//! when it looks again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use env::{Disk, Lock};

use crate::compact::history::Nameless;
use crate::compact::holds::Holds;
use crate::compact::kept::ReaderFigures;
use crate::compact::room::short_bytes;
use crate::read::reader_links::{links_in, lock_of, readers_on, remove_reader};
use crate::shared::device::{DeviceState, Service, Shared};

/// How often it looks.
const LOOK_EVERY_US: u64 = 60_000_000;

/// How often while a disk is short of room.
const LOOK_EVERY_US_SHORT: u64 = 1_000_000;

/// So many links go in a step; each is a descriptor.
const LINKS_MAX: usize = 16;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Reaper {
    dead: VecDeque<Dead>,
    /// When it looks next, if no disk is short.
    look_at_us: u64,
    /// When it looks next if one is.
    short_at_us: u64,
    /// What living readers hold.
    readers: ReaderFigures,
}

/// A reader that has died.
struct Dead {
    /// The index of its device.
    device: usize,
    path: PathBuf,
    lock: Box<dyn Lock>,
    /// How many links there were before the last step.
    links: usize,
}

/// How much is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// For the dead.
    Dead,
    /// And how much living readers hold: two calls a link.
    All,
}

impl Reaper {
    /// Looks for readers, or takes some links of a dead one away; whether there was anything. What has no
    /// name any more then is in `nameless`.
    pub(crate) fn step(
        &mut self,
        shared: &Shared,
        holds: &Holds,
        now_us: u64,
        nameless: &mut Nameless,
    ) -> bool {
        if self.dead.is_empty()
            && let Some(look) = self.due(shared, now_us)
        {
            self.look(shared, holds, look);
            // Afterwards: it may have taken long.
            let now_us = shared.clock.monotonic_us();
            self.short_at_us = now_us + LOOK_EVERY_US_SHORT;
            if look == Look::All {
                self.look_at_us = now_us + LOOK_EVERY_US;
            }
        }
        let Some(Dead { device, path, lock, links: before }) = self.dead.pop_front() else {
            return false;
        };
        let links = links_in(&*shared.disk, &path);
        let some = links.iter().take(LINKS_MAX);
        nameless.remove(shared, device, some.map(PathBuf::as_path));
        if links.len() > LINKS_MAX {
            if links.len() < before {
                self.dead.push_front(Dead { device, path, lock, links: links.len() });
            }
        } else {
            remove_reader(&*shared.disk, &path, lock);
        }
        true
    }

    /// What is to be looked for now.
    fn due(&mut self, shared: &Shared, now_us: u64) -> Option<Look> {
        if now_us >= self.look_at_us {
            return Some(Look::All);
        }
        if now_us < self.short_at_us {
            return None;
        }
        self.short_at_us = now_us + LOOK_EVERY_US_SHORT;
        let is_full = shared.devices.iter().any(|it| it.state() == DeviceState::Full);
        (is_full || !short_bytes(shared).is_empty()).then_some(Look::Dead)
    }

    fn look(&mut self, shared: &Shared, holds: &Holds, look: Look) {
        let disk = &*shared.disk;
        let (mut count, mut bytes) = (0, 0);
        for (index, device) in shared.devices.iter().enumerate() {
            if device.service() == Service::Gone {
                continue;
            }
            for path in readers_on(disk, &device.path) {
                let lock = lock_of(&path);
                if !disk.exists(&lock).unwrap_or(false) && links_in(disk, &path).is_empty() {
                    continue;
                }
                if let Ok(lock) = disk.lock(&lock) {
                    self.dead.push_back(Dead { device: index, path, lock, links: usize::MAX });
                } else {
                    count += 1;
                    if look == Look::All {
                        let links = links_in(disk, &path);
                        bytes += links.iter().map(|link| own_bytes(disk, link)).sum::<u64>();
                    }
                }
            }
        }
        if look == Look::Dead && count > 0 {
            bytes = self.readers.bytes;
        }
        self.readers = ReaderFigures { count, bytes };
        holds.note_readers(self.readers);
    }
}

/// How long the file is, if it has no other name.
fn own_bytes(disk: &dyn Disk, link: &Path) -> u64 {
    let has_others = disk.has_other_names(link).unwrap_or(true);
    let version = (!has_others).then(|| disk.version(link).ok()).flatten();
    version.map_or(0, |version| version.bytes)
}
