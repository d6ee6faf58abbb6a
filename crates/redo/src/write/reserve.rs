//! Room that a device keeps for when its disk is full.
//!
//! ```text
//!   reserve         for blocks that were accepted before the disk was full, and for compaction:
//!                   given up when it is full, taken again when there is room
//!   reserve.start   for the next start, which must seal segments and replace the manifest:
//!                   given up only then
//! ```
//!
//! Both are empty files with blocks reserved for them. A start takes the small one again when it is
//! done, as much of it as it has left, so that any number of starts is possible on a full disk. Where
//! the manifest is on none of the devices its directory keeps a small one too.

use std::path::{Path, PathBuf};

use env::{Access, Disk};

use crate::error::{IoContext, Result};

/// What is kept for a start: the footers of the largest segments are below it.
pub(crate) const START_BYTES_MAX: u64 = 1 << 20;

/// One in so many bytes of the reserve, where that is less.
const START_SHARE: u64 = 16;

/// How often a smaller one is tried when there is no room for the whole.
const HALVINGS_MAX: u32 = 6;

/// Where a device keeps the space for when it is full.
fn path_in(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

/// Where a directory keeps the space for the next start.
fn start_path_in(dir: &Path) -> PathBuf {
    dir.join("reserve.start")
}

fn start_bytes(reserve_bytes: u64) -> u64 {
    START_BYTES_MAX.min(reserve_bytes / START_SHARE)
}

/// How much room a start wants on a device: for all that is set aside, and for what it writes itself.
pub(crate) fn wanted_bytes(reserve_bytes: u64) -> u64 {
    reserve_bytes + 2 * start_bytes(reserve_bytes)
}

/// Sets space aside on a device, for the next start first.
///
/// # Errors
/// When there is no room, mostly.
pub(crate) fn make(disk: &dyn Disk, dir: &Path, reserve_bytes: u64) -> Result<()> {
    make_for_start(disk, dir, reserve_bytes);
    if reserve_bytes == 0 {
        return Ok(());
    }
    allocate(disk, dir, &path_in(dir), reserve_bytes)
}

/// Sets space aside for the next start: all of it, or what there is room for.
pub(crate) fn make_for_start(disk: &dyn Disk, dir: &Path, reserve_bytes: u64) {
    let mut bytes = start_bytes(reserve_bytes);
    for _ in 0..HALVINGS_MAX {
        // The next start can do without if there is room then.
        if bytes == 0 || allocate(disk, dir, &start_path_in(dir), bytes).is_ok() {
            return;
        }
        bytes /= 2;
    }
}

fn allocate(disk: &dyn Disk, dir: &Path, path: &Path, bytes: u64) -> Result<()> {
    let file = if disk.exists(path).at(path, "look for")? {
        disk.open(path, Access::ReadWrite).at(path, "open")?
    } else {
        disk.create(path).at(path, "create")?
    };
    // A crash must not give away what was kept for the start after it.
    let allocated = file
        .allocate(0, bytes)
        .and_then(|()| file.sync_data())
        .and_then(|()| disk.sync_dir(dir))
        .at(path, "reserve space for");
    if allocated.is_err() {
        drop(file);
        // Part of it may have been set aside.
        let _ = disk.remove(path);
    }
    allocated
}

/// Gives up what a device keeps for accepted blocks; whether there was anything.
pub(crate) fn give_up(disk: &dyn Disk, dir: &Path) -> bool {
    remove(disk, dir, &path_in(dir))
}

/// Makes room for a start that writes `rewritten_bytes` and what any start does.
pub(crate) fn make_room_for_start(
    disk: &dyn Disk,
    dir: &Path,
    reserve_bytes: u64,
    rewritten_bytes: u64,
) {
    let wanted_bytes = start_bytes(reserve_bytes) + rewritten_bytes;
    // Where it is not known how much room there is the start will find out.
    let is_short = || disk.available_bytes(dir).is_ok_and(|bytes| bytes < wanted_bytes);
    if is_short() {
        remove(disk, dir, &start_path_in(dir));
        if rewritten_bytes > 0 && is_short() {
            give_up(disk, dir);
        }
    }
}

/// Gives up all that a device keeps, because it is no longer used.
pub(crate) fn remove_all(disk: &dyn Disk, dir: &Path) {
    remove(disk, dir, &path_in(dir));
    remove(disk, dir, &start_path_in(dir));
}

fn remove(disk: &dyn Disk, dir: &Path, path: &Path) -> bool {
    let is_removed = disk.remove(path).is_ok();
    if is_removed {
        // Only now may a file system give the blocks to other files.
        let _ = disk.sync_dir(dir);
    }
    is_removed
}
