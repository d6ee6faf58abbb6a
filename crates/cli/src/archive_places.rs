//! Where archives are, and the keys that they are encrypted with.

use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::archive::{Directory, Error, Key, KeyError, Keyed, Keys, Result, Target, directory_of};
use bucket::Bucket;
use env::Disk;
use rustix::fs::OFlags;
use server::config::ArchivePlace;

use crate::archive_transfer::{self, Machine};

/// A key file is not longer.
const KEY_FILE_BYTES_MAX: u64 = 1024;

/// The permissions of others than a file's owner.
const OF_OTHERS: u32 = 0o077;

/// The target in a place, with its keys. Nothing is waited for: only key files are read.
pub(crate) fn open(disk: &Arc<dyn Disk>, place: &ArchivePlace) -> Result<Box<dyn Target>> {
    let keys: Result<Vec<Key>> = place.key_files.iter().map(|path| read_key(path)).collect();
    let target = target_of(disk, &place.url)?;
    Ok(Box::new(Keyed::new(target, Keys::new(keys?))))
}

fn target_of(disk: &Arc<dyn Disk>, url: &str) -> Result<Box<dyn Target>> {
    if url.starts_with("s3://") {
        return Ok(Box::new(Bucket::from_environment(url)?));
    }
    if url.starts_with(archive_transfer::SCHEME) {
        return Ok(Box::new(Machine::from_environment(url)?));
    }
    match directory_of(url) {
        Some(path) => Ok(Box::new(Directory::new(Arc::clone(disk), path))),
        None => {
            let why = "give a directory as file:///path, three slashes; or s3://bucket/prefix; or transfer:HOST:PORT/name";
            Err(Error::NoTarget { place: url.to_owned(), why: why.to_owned() })
        }
    }
}

fn read_key(path: &Path) -> Result<Key> {
    let failed = |why| Error::KeyFile { path: path.display().to_string(), why };
    // A server reads it between two commands: what is no file that ends, such as a pipe, is not waited for.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let mut file = options.open(path).map_err(|error| failed(KeyError::Io(error)))?;
    let metadata = file.metadata().map_err(|error| failed(KeyError::Io(error)))?;
    if !metadata.is_file() {
        return Err(failed(KeyError::NoFile));
    }
    let (mode, mut text) = (metadata.mode(), Vec::new());
    let read = file.by_ref().take(KEY_FILE_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|error| failed(KeyError::Io(error)))?;
    if mode & OF_OTHERS != 0 {
        return Err(failed(KeyError::Readable(mode & 0o7777)));
    }
    Key::parse(&text).map_err(failed)
}

/// The files of keys, as options of commands.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct KeyFiles {
    /// Of an encrypted archive: a file with its key, as `indelible backup key` makes it; each of them if there were several.
    #[arg(long = "key-file", value_name = "FILE")]
    pub(crate) key_files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_file_is_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        let read = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_key(&path).map(|key| key.id()).map_err(|error| error.to_string())
        };
        let digits = "0f".repeat(32);
        assert_eq!(read(&digits, 0o600), read(&digits, 0o400));
        for mode in [0o640, 0o604, 0o660, 0o644] {
            let error = read(&digits, mode).unwrap_err();
            assert!(error.contains("others than its owner may read it"), "{error}");
        }
        let error = read("0f", 0o600).unwrap_err();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = read_key(&path).unwrap_err().to_string();
        assert!(error.contains("cannot be used: No such file"), "{error}");
        // Nothing is waited for.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        for path in [&path, Path::new("/dev/null"), place.path()] {
            let error = read_key(path).unwrap_err().to_string();
            assert!(error.contains("it is no regular file"), "{error}");
        }
    }
}
