//! Whether the log takes records.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::shared::device::{Device, DeviceState, Service, Shared};
use crate::write::log::Log;

/// Whether the log takes records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Writable,
    /// Every device is full: refuse writes until there is room, it is looked for all the time.
    DiskFull {
        /// What the system said.
        reason: String,
    },
    /// Nothing can be made durable until the next start.
    ReadOnly {
        /// What has happened and what to do.
        reason: String,
    },
}

/// The health of a log as of now. Takes no lock while it is writable: the executor asks for every
/// command.
pub(crate) fn of(shared: &Shared) -> Health {
    if let Some(reason) = shared.fatal() {
        return Health::ReadOnly { reason };
    }
    let (mut full, mut is_writable) = (None, false);
    for device in shared.devices.iter() {
        match device.state() {
            _ if device.service() != Service::InUse => {}
            DeviceState::Healthy => is_writable = true,
            DeviceState::Full => full = full.or(device.last_error()),
            DeviceState::Poisoned => {}
        }
    }
    // Blocks that a full device cannot get rid of hold up all later ones, wherever those are.
    let is_held_up = shared.devices.iter().any(Device::is_stuck);
    if is_writable && !is_held_up {
        return Health::Writable;
    }
    Health::DiskFull { reason: full.unwrap_or_else(|| "no room on any log device".to_owned()) }
}

impl Log {
    /// Returns whether a block of so many bytes finds room although disks are full, as of now: nothing that was accepted
    /// before waits for room, and each of them has that much left for its own user. Asks the disks. Where there is less,
    /// what is kept for a full disk is lent, and it may find room a while later.
    #[must_use]
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let in_use = self.shared.devices.iter().filter(|it| it.service() == Service::InUse);
        let full = in_use.filter(|device| device.state() == DeviceState::Full);
        let mut full = full.peekable();
        full.peek().is_some()
            && full.all(|device| {
                let queued_bytes = device.queued_bytes.load(Ordering::Relaxed);
                let wanted_bytes = bytes + queued_bytes + self.open_bytes() as u64;
                // A block may need a new segment, and that the manifest.
                let on = |dir: &Path| self.shared.disk.available_bytes(dir).unwrap_or(0);
                let free_bytes = on(&device.path).min(on(self.shared.manifest.dir()));
                if free_bytes < wanted_bytes {
                    device.ask_for_room();
                }
                !device.is_stuck() && free_bytes >= wanted_bytes
            })
    }
}
