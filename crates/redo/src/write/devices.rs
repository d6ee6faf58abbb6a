//! Devices come and go while the log is open.
//!
//! ```text
//!   add      directory, mark ─► manifest ─► takes blocks
//!   drain    manifest: is_leaving ─► takes no more blocks, its segment ends
//!            compaction writes its segments to the other devices, one after the other
//!            the last is gone ─► manifest without it ─► mark and reserve removed
//! ```
//!
//! Both begin on the executor's thread and wait for the disk a few times, as does whatever else
//! changes the configuration; what takes long, moving the segments, is done by the compactor, and
//! the end is the flusher's. A crash in between changes nothing: the manifest says which devices
//! are there and which of them are leaving, and the next start goes on with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::RecordKind;
use env::{Disk, Entropy};

use crate::error::is_full;
use crate::error::{Error, IoContext, Result};
use crate::format::kinds::Kinds;
use crate::format::manifest::{DeviceMark, ManifestDevice};
use crate::format::segment;
use crate::id::Id;
use crate::options::default_device;
use crate::read::catalog::history_files;
use crate::shared::device::{Device, DeviceState, Order, Service, Shared};
use crate::shared::devices::DEVICES_MAX;
use crate::write::flusher::Flusher;
use crate::write::log::{Lane, Log};
use crate::write::reserve;

/// A queue of this size is short enough for the next block to go to.
const QUEUE_SHORT_BYTES: u64 = 1 << 20;

/// What becomes of which device, by path or index.
#[derive(Default)]
struct DeviceChange {
    added: Vec<PathBuf>,
    returned: Vec<usize>,
    left: Vec<usize>,
}

impl Log {
    /// Makes the devices be those in `paths`, or the default one: adds those that are new, drains
    /// those that are missing. The flushers of new devices, each for a thread.
    ///
    /// # Errors
    /// When a device cannot be used or let go. Nothing is changed then.
    pub fn set_devices(
        &mut self,
        paths: &[PathBuf],
        entropy: &mut dyn Entropy,
    ) -> Result<Vec<Flusher>> {
        let default = [default_device(self.shared.manifest.dir())];
        let change = self.plan_devices(if paths.is_empty() { &default } else { paths })?;
        let mut added = Vec::new();
        for path in change.added {
            added.push((self.prepare_device(&path, entropy)?, path));
        }
        let shared = &self.shared;
        let listed = |leaves, index: &usize| (shared.devices[*index].id, leaves);
        let left = change.left.iter().map(|index| listed(true, index));
        let moved: Vec<(Id, bool)> =
            left.chain(change.returned.iter().map(|index| listed(false, index))).collect();
        shared.manifest.update(|manifest| {
            for device in &mut manifest.devices {
                let change = moved.iter().find(|(id, _)| *id == device.id);
                device.is_leaving = change.map_or(device.is_leaving, |(_, leaves)| *leaves);
            }
            manifest.devices.extend(added.iter().map(|(id, path)| ManifestDevice {
                id: *id,
                path: shared.manifest.relative(path),
                is_leaving: false,
            }));
            !(moved.is_empty() && added.is_empty())
        })?;
        change.returned.iter().for_each(|index| shared.devices[*index].set_service(Service::InUse));
        let flushers = added.into_iter().map(|(id, path)| self.start_device(id, path)).collect();
        self.seal();
        for index in change.left {
            self.shared.devices[index].set_service(Service::Leaving);
            self.end_active_segment(index);
        }
        Ok(flushers)
    }

    /// What is to be done so that the devices are those in `paths`.
    fn plan_devices(&self, paths: &[PathBuf]) -> Result<DeviceChange> {
        let devices = &self.shared.devices;
        let mut change = DeviceChange::default();
        for (at, path) in paths.iter().enumerate() {
            if paths[..at].contains(path) {
                return Err(Error::DuplicateDevice { first: path.clone(), second: path.clone() });
            }
            let known = devices
                .iter()
                .position(|device| device.service() != Service::Gone && device.path == *path);
            match known {
                None => change.added.push(path.clone()),
                Some(index) if devices[index].service() == Service::Leaving => {
                    if devices[index].inbox().is_ending {
                        return Err(Error::DeviceIsLeaving { path: path.clone() });
                    }
                    change.returned.push(index);
                }
                Some(_) => {}
            }
        }
        for (index, device) in devices.iter().enumerate() {
            if device.service() == Service::InUse && !paths.contains(&device.path) {
                if device.state() == DeviceState::Poisoned {
                    return Err(Error::DeviceHasFailed { path: device.path.clone() });
                }
                change.left.push(index);
            }
        }
        if devices.len() + change.added.len() > DEVICES_MAX {
            return Err(Error::TooManyDevices);
        }
        Ok(change)
    }

    /// Makes the directory `path` a device of this database; its id.
    fn prepare_device(&self, path: &Path, entropy: &mut dyn Entropy) -> Result<Id> {
        let (disk, database) = (&*self.shared.disk, self.shared.database);
        disk.create_dir_all(path).at(path, "make")?;
        let mut id = Id([0; 16]);
        entropy.fill(&mut id.0);
        if let Some(mark) = DeviceMark::read(disk, path)? {
            if mark.database != database {
                let (expected, found) = (database, mark.database);
                return Err(Error::Foreign { path: path.to_owned(), expected, found });
            }
            let mut devices = self.shared.devices.iter();
            let known = devices
                .find(|device| device.id == mark.device && device.service() != Service::Gone);
            if let Some(known) = known {
                let (first, second) = (known.path.clone(), path.to_owned());
                return Err(Error::DuplicateDevice { first, second });
            }
            id = mark.device;
        }
        check_empty(disk, path)?;
        // Of another time here: the names are given again.
        for kept in history_files(disk, path) {
            disk.remove(&kept).at(&kept, "remove")?;
        }
        DeviceMark { database, device: id }.write(disk, path)?;
        Ok(id)
    }

    /// Takes a device that the manifest lists into use.
    fn start_device(&mut self, id: Id, path: PathBuf) -> Flusher {
        let shared = &self.shared;
        let reserve = reserve::make(&*shared.disk, &path, shared.reserve_bytes);
        let device = Device::new(id, path);
        if let Err(error) = &reserve {
            device.become_full(&*shared.disk, error);
        }
        let index = shared.devices.push(device).expect("places were counted before");
        self.lanes.push(Lane::default());
        let holds = Arc::clone(self.marks.holds());
        Flusher::new(Arc::clone(shared), holds, index, reserve.is_ok())
    }

    /// Lets records of this kind follow. One that headers must name, and that is the first of its kind, begins
    /// new files, whose headers name it: only between commands, as it ends the open block then.
    pub fn declare(&mut self, kind: RecordKind) {
        if self.shared.used_kinds.add(Kinds::of(kind)) {
            self.seal();
            (0..self.lanes.len()).for_each(|device| self.end_active_segment(device));
        }
    }

    /// Whether records of this kind may follow, or are there.
    #[must_use]
    pub fn has_declared(&self, kind: RecordKind) -> bool {
        self.shared.used_kinds.has(kind)
    }

    /// Ends the segment of a device that takes the log, unless the open block is in it.
    pub(crate) fn end_active_segment(&mut self, index: usize) {
        let Some(active) = self.lanes[index].active else { return };
        let has_open_block = self.open_segment() == Some(active);
        if !has_open_block && self.shared.devices[index].push(Order::Seal).is_ok() {
            self.lanes[index].active = None;
        }
    }

    /// Lets go of devices whose last segment is gone.
    pub(crate) fn release_drained_devices(&mut self) {
        for (index, device) in self.shared.devices.iter().enumerate() {
            if device.service() != Service::Leaving || device.inbox().is_ending {
                continue;
            }
            let is_used = self.schedule.compacting_device() == Some(index)
                || self.lanes[index].active.is_some()
                || !self.lanes[index].pending.is_empty()
                || self.segments.iter().any(|segment| {
                    segment.device == index || segment.parts.iter().any(|part| part.device == index)
                });
            // Of the log as it was: not before nothing else is there.
            if !is_used && !self.keeps_leaving(index) {
                device.end_drained();
            }
        }
    }
}

/// Whether no file of a log is in the directory `path`.
fn check_empty(disk: &dyn Disk, path: &Path) -> Result<()> {
    let names = disk.list(path).at(path, "list")?;
    let mut files = names.iter().filter_map(|name| segment::parse_file_name(name.to_str()?));
    match files.next() {
        Some(_) => Err(Error::DeviceNotEmpty { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// A device that can take everything that waits for a full one, and has room beyond that: it may be
/// the same disk.
pub(crate) fn other_with_room(shared: &Shared, full: &Device) -> Option<usize> {
    let queued_bytes = full.queued_bytes.load(Ordering::Relaxed);
    let wanted_bytes = queued_bytes + shared.segment_bytes.min(shared.reserve_bytes);
    shared.devices.iter().position(|other| {
        other.state() == DeviceState::Healthy
            && other.takes_more()
            && shared.disk.available_bytes(&other.path).is_ok_and(|bytes| bytes >= wanted_bytes)
    })
}

/// The last deed of a device's flusher: if the device was drained, not the log closed, nothing will
/// ask for it again. An error says that it may be tried again.
pub(crate) fn leave(shared: &Shared, device: &Device) -> Result<()> {
    if device.service() != Service::Leaving || !device.inbox().is_drained {
        return Ok(());
    }
    match forget(shared, device) {
        Err(error) if !is_full(&error) => {
            // It stays listed as one that is leaving: the next start tries again.
            device.set_last_error(error.to_string());
            Ok(())
        }
        forgotten => forgotten,
    }
}

fn forget(shared: &Shared, device: &Device) -> Result<()> {
    let disk: &dyn Disk = &*shared.disk;
    // Blocks of a device that has failed may have come here in the last moment.
    check_empty(disk, &device.path)?;
    shared.manifest.update(|manifest| {
        manifest.devices.retain(|listed| listed.id != device.id);
        true
    })?;
    reserve::remove_all(disk, &device.path);
    device.spare.give_up(disk, &device.path);
    let mark = DeviceMark::path_in(&device.path);
    match disk.remove(&mark) {
        // An attempt before this one has removed it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed.at(&mark, "remove")?,
    }
    disk.sync_dir(&device.path).at(&device.path, "sync")?;
    device.set_service(Service::Gone);
    Ok(())
}

/// The next device from the `from`th on, round and round, that has a short queue, is healthy and not
/// being compacted; failing that, the least bad one.
pub(crate) fn choose_device(shared: &Shared, from: usize, compacting: Option<usize>) -> usize {
    let count = shared.devices.len();
    if count == 1 {
        return 0;
    }
    let mut best = 0;
    let mut best_rank = (u8::MAX, u64::MAX);
    for step in 0..count {
        let index = (from + step) % count;
        let device = &shared.devices[index];
        let state_rank = match device.state() {
            _ if device.service() != Service::InUse => 4,
            DeviceState::Healthy if compacting != Some(index) => 0,
            DeviceState::Healthy => 1,
            DeviceState::Full => 2,
            DeviceState::Poisoned => 3,
        };
        let queued = device.queued_bytes.load(Ordering::Relaxed);
        let rank = (state_rank, queued.saturating_sub(QUEUE_SHORT_BYTES));
        if rank < best_rank {
            (best, best_rank) = (index, rank);
        }
    }
    best
}
