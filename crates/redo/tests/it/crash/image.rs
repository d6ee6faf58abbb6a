//! The files of a simulated disk as bytes, to damage them and to put them on another disk.

use std::path::{Path, PathBuf};

use env::{Access, Disk};
use env_sim::{Faults, SimDisk};

use super::harness::World;

/// Worlds have devices below this one.
const DEVICES_MAX: usize = 8;

/// Every file of the data directory and the devices, but the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    devices: usize,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
}

impl Image {
    pub(crate) fn take(disk: &SimDisk, devices: usize) -> Self {
        let mut files = Vec::new();
        for dir in Self::dirs(devices) {
            for name in disk.list(&dir).unwrap() {
                let path = dir.join(&name);
                // What is kept for marks, or as evidence of damage, means nothing to a start.
                if path.ends_with("history")
                    || name.to_string_lossy().starts_with("damaged-")
                    || path.extension().is_some_and(|extension| extension == "lock")
                {
                    continue;
                }
                let file = disk.open(&path, Access::Read).unwrap();
                let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
                file.read_exact_at(&mut bytes, 0).unwrap();
                files.push((path, bytes));
            }
        }
        Self { devices, files }
    }

    /// The same with every device that any world may have.
    pub(crate) fn take_all(disk: &SimDisk) -> Self {
        let devices = (0..DEVICES_MAX).rev();
        devices.for_each(|device| disk.create_dir_all(&World::device(device)).unwrap());
        Self::take(disk, DEVICES_MAX)
    }

    fn dirs(devices: usize) -> Vec<PathBuf> {
        let devices = (0..devices).map(World::device);
        std::iter::once(World::dir()).chain(devices).collect()
    }

    /// A disk with these files, all of it durable.
    pub(crate) fn restore(&self) -> SimDisk {
        let disk = SimDisk::new(1, Faults::default());
        let dirs = Self::dirs(self.devices);
        dirs.iter().for_each(|dir| disk.create_dir_all(dir).unwrap());
        for (path, bytes) in &self.files {
            let file = disk.create(path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.sync_data().unwrap();
        }
        dirs.iter().for_each(|dir| disk.sync_dir(dir).unwrap());
        disk
    }

    /// The same with one file changed, or taken away.
    pub(crate) fn with(&self, index: usize, bytes: Option<Vec<u8>>) -> Self {
        let mut changed = self.clone();
        match bytes {
            Some(bytes) => changed.files[index].1 = bytes,
            None => drop(changed.files.remove(index)),
        }
        changed
    }
}

/// Whether the file is one of the log's segments.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "redo")
}
