//! How much room a disk must have left, so that history does not take what others need.

use std::collections::BTreeMap;

use crate::shared::device::{Service, Shared};

/// Below so much, or so many segments, or one in so many of its bytes if that is less, a disk is short
/// of room.
const LEFT_BYTES_MIN: u64 = 2 << 30;
const LEFT_SEGMENTS: u64 = 4;
const LEFT_SHARE: u64 = 10;

/// By how much the disk of each device is short of room, for those that are.
pub(crate) fn short_bytes(shared: &Shared) -> BTreeMap<usize, u64> {
    let disk = &*shared.disk;
    let devices = shared.devices.iter().enumerate();
    let devices = devices.filter(|(_, device)| device.service() != Service::Gone);
    let short = devices.filter_map(|(index, device)| {
        // Where it is not known a write will find out.
        let available_bytes = disk.available_bytes(&device.path).ok()?;
        let capacity_bytes = disk.capacity_bytes(&device.path).ok()?;
        let wanted_bytes = LEFT_BYTES_MIN
            .max(LEFT_SEGMENTS * shared.segment_bytes)
            .min(capacity_bytes / LEFT_SHARE);
        let short_bytes = wanted_bytes.checked_sub(available_bytes)?;
        (short_bytes > 0).then_some((index, short_bytes))
    });
    short.collect()
}
