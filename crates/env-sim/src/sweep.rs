//! What every format must withstand: one damage or one crash at a time.
//!
//! ```text
//!   Image     path → bytes, read from a disk, put on a new one
//!   Damage    a bit flipped · a file truncated · lost · longer · exchanged with another one
//!   damages   one of each for every byte and every length of every file (or every n-th)
//!   crash_everywhere   the same run on a fresh disk, ended before and after each of its I/Os
//! ```
//!
//! A format's test provides the image of something small, and the result that reading must have
//! after each damage: an error that names the file or, where the byte has no meaning, the same
//! contents as before. "It does not panic" is not enough.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use env::{Access, Disk};

use crate::{Faults, SimDisk};

/// Files with their bytes.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// Reads all files in these directories, but not in their subdirectories.
///
/// # Panics
/// If a file cannot be read.
#[must_use]
pub fn image_of(disk: &dyn Disk, directories: &[&Path]) -> Image {
    let mut image = Image::new();
    for directory in directories {
        for name in disk.list(directory).unwrap_or_default() {
            let path = directory.join(name);
            let Ok(file) = disk.open(&path, Access::Read) else { continue };
            let bytes = file.len().expect("the file is open");
            let mut content = vec![0; usize::try_from(bytes).expect("an image is in memory")];
            file.read_exact_at(&mut content, 0).expect("the disk has no faults");
            image.insert(path, content);
        }
    }
    image
}

/// Creates a disk with these files, all durable.
///
/// # Panics
/// Never: the disk has no faults.
#[must_use]
pub fn disk_of(image: &Image) -> SimDisk {
    let disk = SimDisk::new(2, Faults::default());
    for (path, bytes) in image {
        let directory = path.parent().expect("a file is in a directory");
        disk.create_dir_all(directory).expect("no faults");
        let file = disk.create(path).expect("no faults");
        file.write_all_at(bytes, 0).expect("no faults");
        file.sync_data().expect("no faults");
        disk.sync_dir(directory).expect("no faults");
    }
    disk
}

/// One damage to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Flips a bit (0 to 7) of the byte `at`.
    Flip {
        /// The file.
        path: PathBuf,
        /// The offset of the byte.
        at: usize,
        /// The number of the bit.
        bit: u8,
    },
    /// Truncates the file to `len` bytes.
    Cut {
        /// The file.
        path: PathBuf,
        /// The remaining bytes.
        len: usize,
    },
    /// Loses the file.
    Lose {
        /// The file.
        path: PathBuf,
    },
    /// Appends bytes to the file.
    Append {
        /// The file.
        path: PathBuf,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Exchanges the contents of two files.
    Exchange {
        /// One file.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },
}

impl Damage {
    /// Returns the path of the damaged file, of two the first one.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Flip { path, .. }
            | Self::Cut { path, .. }
            | Self::Lose { path }
            | Self::Append { path, .. }
            | Self::Exchange { path, .. } => path,
        }
    }

    /// Returns the files of `image`, damaged.
    ///
    /// # Panics
    /// If `image` does not contain the file.
    #[must_use]
    pub fn apply(&self, image: &Image) -> Image {
        let mut image = image.clone();
        let file = image.get_mut(self.path()).expect("the damage is of this image");
        match self {
            Self::Flip { at, bit, .. } => file[*at] ^= 1 << bit,
            Self::Cut { len, .. } => file.truncate(*len),
            Self::Append { bytes, .. } => file.extend_from_slice(bytes),
            Self::Lose { path } => drop(image.remove(path)),
            Self::Exchange { path, other } => {
                let bytes = std::mem::take(file);
                let other = image.get_mut(other).expect("the damage is of this image");
                let bytes = std::mem::replace(other, bytes);
                image.insert(path.clone(), bytes);
            }
        }
        image
    }

    /// Creates a disk with the files of `image`, damaged.
    ///
    /// # Panics
    /// If `image` does not contain the file.
    #[must_use]
    pub fn on(&self, image: &Image) -> SimDisk {
        disk_of(&self.apply(image))
    }
}

/// Lists damages to every file: a flip and a cut at every `step`-th byte (each bit in turn), its
/// loss, and a byte appended.
///
/// # Panics
/// If `step` is 0.
#[must_use]
pub fn damages(image: &Image, step: usize) -> Vec<Damage> {
    let mut all = Vec::new();
    for (path, bytes) in image {
        for at in (0..bytes.len()).step_by(step) {
            let bit = u8::try_from(at / step % 8).expect("below 8");
            all.push(Damage::Flip { path: path.clone(), at, bit });
            all.push(Damage::Cut { path: path.clone(), len: at });
        }
        all.push(Damage::Lose { path: path.clone() });
        for byte in [0, 0xff] {
            all.push(Damage::Append { path: path.clone(), bytes: vec![byte] });
        }
    }
    all
}

/// Lists the exchanges of any two files.
#[must_use]
pub fn exchanges(image: &Image) -> Vec<Damage> {
    let mut all = Vec::new();
    for path in image.keys() {
        let others = image.keys().filter(|other| *other > path);
        all.extend(
            others.map(|other| Damage::Exchange { path: path.clone(), other: other.clone() }),
        );
    }
    all
}

/// Runs `write` on copies of `start`, each with a crash before or after a different I/O.
///
/// Passes what is left to `judge`, together with the result of `write`. The last run does not
/// crash. Returns its number of I/Os.
///
/// # Panics
/// If `judge` panics.
pub fn crash_everywhere<T>(
    start: &SimDisk,
    mut write: impl FnMut(&SimDisk) -> T,
    mut judge: impl FnMut(&SimDisk, T),
) -> u64 {
    for n in 1.. {
        for is_after in [false, true] {
            let disk = start.fork();
            disk.crash_at(n, is_after);
            let returned = write(&disk);
            let has_crashed = disk.is_crashed();
            disk.restart();
            judge(&disk, returned);
            if !has_crashed {
                return n - 1;
            }
        }
    }
    unreachable!("a run ends")
}
