//! Copies the data directory and the devices by hard links, as scripts for backups do.
//!
//! The disk notes what the server then changes in a file that has another name
//! ([`SimDisk::take_trespass`]).

use std::path::{Path, PathBuf};

use env::Disk;
use env_sim::SimDisk;

use crate::machine::{data_dir, device_dir};
use crate::run::DEVICES_MAX;

/// The newest copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backup {
    number: u64,
    files: Vec<PathBuf>,
}

impl Backup {
    /// Makes a copy next to the last one, or in its place. Returns how many files it has.
    pub(crate) fn make(&mut self, disk: &SimDisk, keeps_last: bool) -> usize {
        let last = std::mem::take(&mut self.files);
        if !keeps_last {
            last.iter().for_each(|path| disk.unlink(path));
        }
        self.number += 1;
        let copy = Path::new("/backup").join(self.number.to_string());
        let dirs = (0..DEVICES_MAX).map(device_dir).chain([data_dir()]);
        for dir in dirs {
            // A copy that is made while the disk fails has what can be listed.
            for name in disk.list(&dir).unwrap_or_default() {
                let from = dir.join(&name);
                // What is not finished means nothing, and is written where it lies.
                let is_finished = from.extension().is_none_or(|extension| extension != "tmp");
                let to = copy.join(dir.strip_prefix("/").unwrap_or(&dir)).join(name);
                if is_finished && disk.link(&from, &to) {
                    self.files.push(to);
                }
            }
        }
        self.files.len()
    }
}
