//! Takes away what readers of other processes have left that have died.
//!
//! ```text
//!   history/reader.PID/lock   held ─► it lives: its links are counted
//!                             free ─► it has died: lock, its links go some at a time, the directory
//! ```
//!
//! A start removes all of them. Between two starts this looks once a minute, and once a second while a disk
//! is short of room: what the links hold may be much. A directory without a lock is one that is just being
//! made, or empty.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use env::{Disk, Lock};

use crate::compact::history::Nameless;
use crate::compact::holds::{Holds, ReaderFigures};
use crate::compact::room::short_bytes;
use crate::read::reader_links::{links_in, lock_of, readers_on, remove_reader};
use crate::shared::device::{DeviceState, Service, Shared};

/// How often it looks.
const LOOK_EVERY_US: u64 = 60_000_000;

/// How often while a disk is short of room.
const LOOK_EVERY_US_SHORT: u64 = 1_000_000;

/// So many links go in a step.
const LINKS_MAX: usize = 256;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Reaper {
    dead: VecDeque<Dead>,
    /// When it looks next, if no disk is short.
    look_at_us: u64,
    /// When it looks next if one is.
    short_at_us: u64,
}

/// A reader that has died.
struct Dead {
    /// The index of its device.
    device: usize,
    path: PathBuf,
    lock: Box<dyn Lock>,
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
        if self.dead.is_empty() && self.is_due(shared, now_us) {
            self.look(shared, holds);
        }
        let Some(Dead { device, path, lock }) = self.dead.pop_front() else { return false };
        let links = links_in(&*shared.disk, &path);
        let some = links.iter().take(LINKS_MAX);
        nameless.remove(shared, device, some.map(PathBuf::as_path));
        if links.len() > LINKS_MAX {
            self.dead.push_front(Dead { device, path, lock });
        } else {
            remove_reader(&*shared.disk, &path, lock);
        }
        true
    }

    fn is_due(&mut self, shared: &Shared, now_us: u64) -> bool {
        let mut is_due = now_us >= self.look_at_us;
        if !is_due && now_us >= self.short_at_us {
            let is_full = shared.devices.iter().any(|it| it.state() == DeviceState::Full);
            is_due = is_full || !short_bytes(shared).is_empty();
            self.short_at_us = now_us + LOOK_EVERY_US_SHORT;
        }
        if is_due {
            self.look_at_us = now_us + LOOK_EVERY_US;
            self.short_at_us = now_us + LOOK_EVERY_US_SHORT;
        }
        is_due
    }

    fn look(&mut self, shared: &Shared, holds: &Holds) {
        let disk = &*shared.disk;
        let mut readers = ReaderFigures::default();
        for (index, device) in shared.devices.iter().enumerate() {
            if device.service() == Service::Gone {
                continue;
            }
            for path in readers_on(disk, &device.path) {
                let lock = lock_of(&path);
                if !disk.exists(&lock).unwrap_or(false) {
                    continue;
                }
                if let Ok(lock) = disk.lock(&lock) {
                    self.dead.push_back(Dead { device: index, path, lock });
                } else {
                    readers.count += 1;
                    let links = links_in(disk, &path);
                    readers.bytes += links.iter().map(|link| own_bytes(disk, link)).sum::<u64>();
                }
            }
        }
        holds.note_readers(readers);
    }
}

/// How long the file is, if it has no other name.
fn own_bytes(disk: &dyn Disk, link: &Path) -> u64 {
    let has_others = disk.has_other_names(link).unwrap_or(true);
    let version = (!has_others).then(|| disk.version(link).ok()).flatten();
    version.map_or(0, |version| version.bytes)
}
