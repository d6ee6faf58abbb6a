//! How much room a disk must have left, so that history does not take what others need.

use std::collections::BTreeMap;
use std::path::Path;

use env::Disk;

use crate::error::{Error, Result};
use crate::shared::device::{Service, Shared};

/// Below so much, or so many segments, or one in so many of its bytes if that is less, a disk is short
/// of room.
const LEFT_BYTES_MIN: u64 = 2 << 30;
const LEFT_SEGMENTS: u64 = 4;
const LEFT_SHARE: u64 = 10;

/// How many bytes the disk of `dir` is to have left; `None` if it is not known how large that is.
pub(crate) fn left_bytes(disk: &dyn Disk, dir: &Path, segment_bytes: u64) -> Option<u64> {
    let capacity_bytes = disk.capacity_bytes(dir).ok()?;
    let wanted_bytes = LEFT_BYTES_MIN.max(LEFT_SEGMENTS * segment_bytes);
    Some(wanted_bytes.min(capacity_bytes / LEFT_SHARE))
}

/// By how much the disk of each device is short of room, for those that are. What a disk lacks that has
/// several of them is divided among them.
pub(crate) fn short_bytes(shared: &Shared) -> BTreeMap<usize, u64> {
    let disk = &*shared.disk;
    let devices = shared.devices.iter().enumerate();
    let devices = devices.filter(|(_, device)| device.service() != Service::Gone);
    let short = devices.filter_map(|(index, device)| {
        // Where it is not known a write will find out. Zeros are given up first.
        let available_bytes =
            disk.available_bytes(&device.path).ok()? + device.spare.ready_bytes().unwrap_or(0);
        let mut wanted_bytes = left_bytes(disk, &device.path, shared.segment_bytes)?;
        if device.lacks_room() {
            // What a new segment sets aside at once it may have asked for in vain.
            wanted_bytes = wanted_bytes.max(shared.segment_bytes + shared.reserve_bytes);
        }
        let short_bytes = wanted_bytes.checked_sub(available_bytes)?;
        (short_bytes > 0).then(|| (index, short_bytes, disk.file_system(&device.path)))
    });
    let short: Vec<(usize, u64, Option<u64>)> = short.collect();
    let share = |(index, bytes, disk): &(usize, u64, Option<u64>)| {
        let same =
            short.iter().filter(|(other, _, on)| other == index || (disk.is_some() && on == disk));
        (*index, bytes.div_ceil(same.count() as u64))
    };
    short.iter().map(share).collect()
}

/// By how much disks lack what a start needs, which is `wanted_bytes` for each device in the directory next to it. What
/// a disk lacks that has several of them is divided among them; what it needs for them adds up.
pub(crate) fn short_at_start(disk: &dyn Disk, wanted: &[(&Path, u64)]) -> BTreeMap<usize, u64> {
    let on: Vec<Option<u64>> = wanted.iter().map(|(dir, _)| disk.file_system(dir)).collect();
    let is_same =
        |one: usize, other: usize| one == other || (on[one].is_some() && on[one] == on[other]);
    let short = (0..wanted.len()).filter_map(|index| {
        let same: Vec<usize> = (0..wanted.len()).filter(|other| is_same(index, *other)).collect();
        let wanted_bytes: u64 = same.iter().map(|other| wanted[*other].1).sum();
        // Where it is not known a write will find out.
        let available_bytes = disk.available_bytes(wanted[index].0).ok()?;
        let short_bytes = wanted_bytes.checked_sub(available_bytes)?;
        (short_bytes > 0).then(|| (index, short_bytes.div_ceil(same.len() as u64)))
    });
    short.collect()
}

/// Refuses what disks have no room for: so many bytes for each of these directories.
pub(crate) fn check_room(disk: &dyn Disk, wanted: &[(&Path, u64)]) -> Result<()> {
    let Some(first) = short_at_start(disk, wanted).into_keys().next() else { return Ok(()) };
    let path = wanted[first].0;
    let on = disk.file_system(path);
    let is_same = |other: &Path| other == path || (on.is_some() && disk.file_system(other) == on);
    let same = wanted.iter().filter(|(other, _)| is_same(other));
    Err(Error::NoRoom {
        path: path.to_owned(),
        needed_bytes: same.map(|(_, bytes)| bytes).sum(),
        free_bytes: disk.available_bytes(path).unwrap_or(0),
        is_next_to_server: false,
    })
}
