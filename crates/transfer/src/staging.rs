//! The directory in which files wait until they are complete and verified, and the claims on them.
//!
//! ```text
//!   DIR/.indelible-transfer/lock          locked by the process that receives into DIR
//!   DIR/.indelible-transfer/8c1f…e2       a file on its way: named by its path, size and time, so that
//!                                         a later transfer of the same file resumes it
//! ```
//!
//! Several transfers may use one directory through one server, but never for the same file: each
//! claims its files before it begins.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::hash::Hasher;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use env::FileError;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fchmod, flock, fstatvfs, openat, statat, unlinkat,
};
use rustix::io::Errno;
use siphasher::sip128::{Hasher128, SipHasher};

use crate::beneath;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::relative_path::{RelativePath, STAGING};

/// How long a staged file waits for a transfer that resumes it.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The identity of a file in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// Computes the key of an entry below `into`.
    pub(crate) fn of(into: Option<&RelativePath>, entry: &Entry) -> Self {
        let mut hasher = SipHasher::new();
        hasher.write(into.map_or(b"", RelativePath::as_bytes));
        hasher.write_u8(b'/');
        hasher.write(entry.path.as_bytes());
        hasher.write_u8(0);
        hasher.write_u64(entry.size_bytes());
        hasher.write_i64(entry.modified.seconds);
        hasher.write_u32(entry.modified.nanoseconds);
        Self(hasher.finish128().as_u128())
    }

    /// The name of the staged file.
    pub(crate) fn name(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// The staging directory of `DIR`, locked for this process and shared by its transfers.
#[derive(Debug)]
pub(crate) struct Staging {
    top: OwnedFd,
    dir: OwnedFd,
    claimed: Mutex<HashSet<Key>>,
    given_back: Condvar,
    _lock: File,
}

impl Staging {
    /// Opens the staging directory below `dir`, creating it if needed.
    pub(crate) fn open(dir: &Path) -> Result<Arc<Self>> {
        let path = dir.join(STAGING);
        let lock_path = path.join("lock");
        let top = OwnedFd::from(File::open(dir).map_err(Error::on(dir, "open"))?);
        let staging = beneath::create_directory(&top, STAGING.as_bytes())
            .map_err(beneath::explain)
            .map_err(Error::on(&path, "create"))?;
        // Staged files may already have their final permissions.
        fchmod(&staging, Mode::from_raw_mode(0o700))
            .map_err(Error::on(&path, "set the permissions of"))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = openat(&staging, "lock", flags, Mode::from_raw_mode(0o600))
            .map_err(beneath::explain)
            .map_err(Error::on(&lock_path, "open"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => FileError::InUse {
                path: lock_path.clone(),
                what: "another process receives files into the directory; let it end, or use \
                       another directory",
            }
            .into(),
            other => Error::on(&lock_path, "lock")(other),
        })?;
        let staging = Self {
            top,
            dir: staging,
            claimed: Mutex::default(),
            given_back: Condvar::new(),
            _lock: File::from(lock),
        };
        staging.forget_the_abandoned();
        Ok(Arc::new(staging))
    }

    /// The parent directory.
    pub(crate) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The names of the staged files.
    pub(crate) fn names(&self) -> HashSet<OsString> {
        use std::os::unix::ffi::OsStringExt;
        let Ok(entries) = rustix::fs::Dir::read_from(&self.dir) else { return HashSet::new() };
        entries
            .filter_map(|entry| entry.ok())
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()))
            .collect()
    }

    /// Bytes available, including those that staged files of these keys already occupy.
    pub(crate) fn room_bytes(&self, keys: impl Iterator<Item = Key>) -> Result<(u64, u64)> {
        let system = fstatvfs(&self.dir).map_err(|error| Error::io("statvfs", error))?;
        let held = keys
            .filter_map(|key| statat(&self.dir, key.name(), AtFlags::SYMLINK_NOFOLLOW).ok())
            .map(|stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
            .sum();
        Ok((system.f_bavail.saturating_mul(system.f_frsize), held))
    }

    /// Removes files that no transfer has resumed for a week.
    fn forget_the_abandoned(&self) {
        let oldest = SystemTime::now() - PATIENCE;
        let oldest = oldest.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_secs());
        for name in self.names() {
            let Ok(stat) = statat(&self.dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // The change time, not the modification time: a settled file has the sender's
            // modification time.
            let is_old = u64::try_from(stat.st_ctime).is_ok_and(|changed| changed < oldest);
            if is_old && name != "lock" {
                // The next start retries.
                let _kept = unlinkat(&self.dir, &name, AtFlags::empty());
            }
        }
    }

    /// Claims files for a transfer; the error is the index of one that another transfer has
    /// claimed. A transfer that has just broken off needs a moment to notice, so this waits for a
    /// moment.
    pub(crate) fn claim(
        self: &Arc<Self>,
        keys: Vec<Key>,
        patience: Duration,
    ) -> std::result::Result<Claims, usize> {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |claimed: &mut HashSet<Key>| keys.iter().any(|key| claimed.contains(key));
        let waited = self.given_back.wait_timeout_while(claimed, patience, is_taken);
        let (mut claimed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = keys.iter().position(|key| claimed.contains(key)) {
            return Err(place);
        }
        claimed.extend(&keys);
        drop(claimed);
        Ok(Claims { staging: Arc::clone(self), keys })
    }
}

/// The files claimed by one transfer, released on drop.
#[derive(Debug)]
pub(crate) struct Claims {
    staging: Arc<Staging>,
    keys: Vec<Key>,
}

impl Drop for Claims {
    fn drop(&mut self) {
        let mut claimed = self.staging.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        self.keys.iter().for_each(|key| {
            claimed.remove(key);
        });
        drop(claimed);
        self.staging.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Kind, Time};

    fn key(path: &str, size_bytes: u64) -> Key {
        let entry = Entry {
            path: RelativePath::new(path).unwrap(),
            kind: Kind::File { size_bytes, data_bytes: size_bytes },
            mode: 0o644,
            modified: Time { seconds: 1, nanoseconds: 2 },
        };
        Key::of(None, &entry)
    }

    #[test]
    fn a_key_is_the_same_in_every_version_and_differs_for_every_file() {
        assert_eq!(key("a", 1).name(), "10c74ecaf0dc3c5be64f57692417724b");
        assert_ne!(key("a", 1), key("a", 2));
        assert_ne!(key("a", 1), key("b", 1));
    }

    #[test]
    fn a_file_is_claimed_once_and_a_directory_by_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::open(dir.path()).unwrap();
        assert!(Staging::open(dir.path()).is_err());
        let claim = |keys| staging.claim(keys, Duration::ZERO);
        let claims = claim(vec![key("a", 1), key("b", 1)]).unwrap();
        assert_eq!(claim(vec![key("c", 1), key("b", 1)]).unwrap_err(), 1);
        assert!(claim(vec![key("c", 1)]).is_ok(), "a claim that failed leaves nothing");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| staging.claim(vec![key("b", 1)], Duration::from_secs(60)));
            drop(claims);
            assert!(waits.join().unwrap().is_ok());
        });
    }
}
