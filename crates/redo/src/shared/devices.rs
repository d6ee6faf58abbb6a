//! The devices of a log, in the order in which they came.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shared::device::{Device, DeviceState, Service};
use crate::shared::spare::ZerosOrders;

/// More devices than this in the life of a process make no sense.
pub(crate) const DEVICES_MAX: usize = 256;

/// The devices of a log. One that is added gets the next index; one that has left keeps its own.
pub(crate) struct Devices {
    slots: Box<[OnceLock<Device>]>,
    count: AtomicUsize,
    /// Which of them have zeros written ahead.
    pub(crate) zeros: ZerosOrders,
}

impl Devices {
    pub(crate) fn new(devices: Vec<Device>, zeros: ZerosOrders) -> Self {
        let slots = (0..DEVICES_MAX.max(devices.len())).map(|_| OnceLock::new()).collect();
        let this = Self { slots, count: AtomicUsize::new(0), zeros };
        for device in devices {
            this.push(device);
        }
        this
    }

    /// Adds a device, on the executor's thread; its index, if there is one left.
    pub(crate) fn push(&self, device: Device) -> Option<usize> {
        let index = self.count.load(Ordering::Acquire);
        self.slots.get(index)?.set(device).ok()?;
        self.count.store(index + 1, Ordering::Release);
        Some(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.slots[..self.len()].iter().map(|slot| slot.get().expect("set before it was counted"))
    }

    /// The device for the blocks of one that has failed: `preferred` if it still takes blocks, or a
    /// healthy one, or a full one. A device that has come to its end takes nothing, however healthy.
    pub(crate) fn successor(&self, preferred: Option<usize>) -> Option<usize> {
        let is_open = |state| move |other: &Device| other.state() == state && other.takes_more();
        preferred
            .filter(|other| is_open(DeviceState::Healthy)(&self[*other]))
            .or_else(|| self.iter().position(is_open(DeviceState::Healthy)))
            .or_else(|| self.iter().position(is_open(DeviceState::Full)))
    }

    /// How many take blocks, or did until they failed.
    pub(crate) fn in_service(&self) -> usize {
        self.iter().filter(|device| device.service() == Service::InUse).count()
    }
}

impl Index<usize> for Devices {
    type Output = Device;

    fn index(&self, index: usize) -> &Device {
        self.slots[index].get().expect("an index is given out when the device is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use std::path::PathBuf;

    #[test]
    fn devices_keep_their_places() {
        let device = |name: u8| Device::new(Id([name; 16]), PathBuf::from(format!("/{name}")));
        let devices = Devices::new(vec![device(1), device(2)], ZerosOrders::new(None));
        assert_eq!(devices.push(device(3)), Some(2));
        devices[1].set_service(Service::Gone);
        assert_eq!((devices.len(), devices.in_service()), (3, 2));
        assert_eq!(devices[2].id, Id([3; 16]));
        assert_eq!(devices.iter().map(|device| device.id.0[0]).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
