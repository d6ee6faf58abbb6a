//! The capacity of the device that holds a directory: its cache is commonly a thousandth of that.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{fstat, fstatvfs, major, minor};

/// The unit of device sizes in sysfs.
const SECTOR_BYTES: u64 = 512;

/// The capacity of the device below a file or directory. If the device has no size of its own
/// (network, memory, several devices), it is that of the file system.
pub(crate) fn device_capacity_bytes(file: impl AsFd) -> u64 {
    whole_device(&file).unwrap_or_else(|| {
        fstatvfs(file).map_or(0, |system| system.f_blocks.saturating_mul(system.f_frsize))
    })
}

fn whole_device(file: &impl AsFd) -> Option<u64> {
    let device = fstat(file).ok()?.st_dev;
    let mut entry =
        Path::new("/sys/dev/block").join(format!("{}:{}", major(device), minor(device)));
    entry = fs::canonicalize(entry).ok()?;
    if entry.join("partition").exists() {
        // A partition shares the cache of its device with the others.
        entry.pop();
    }
    let sectors: u64 = fs::read_to_string(entry.join("size")).ok()?.trim().parse().ok()?;
    (sectors > 0).then(|| sectors.saturating_mul(SECTOR_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_at_least_as_large_as_what_is_free_on_it() {
        let dir = fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        let system = fstatvfs(&dir).unwrap();
        assert!(device_capacity_bytes(&dir) >= system.f_bavail * system.f_frsize);
    }
}
