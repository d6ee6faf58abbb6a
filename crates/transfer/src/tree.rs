//! The real destination: a directory tree of this machine.
//!
//! ```text
//!   stage ──► DIR/.indelible-transfer/KEY ──settle──► times ──appear──► mode, rename ──► DIR/INTO/path
//! ```
//!
//! Nothing that the sender says leads out of `DIR`: paths are checked ([`RelativePath`]), links are
//! checked ([`check_entries`]), and existing directories are opened without following any link
//! ([`crate::beneath`]). Links are created last, so that no file of the same transfer can go
//! through them.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File as OsHandle;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::File;
use env_os::OsFile;
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmodat, fchmod, fstat, fsync,
    futimens, openat, renameat, statat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::beneath::{self, explain};
use crate::destination::Destination;
use crate::device_capacity::device_capacity_bytes;
use crate::entry::{Entry, Kind, Time};
use crate::error::{Error, Result};
use crate::message::Origin;
use crate::relative_path::{RelativePath, printable};
use crate::staging::{Claims, Key, Staging};

/// Files below this size are not resumed; they are sent again as a whole.
const OFFER_MIN_BYTES: u64 = 1 << 20;
/// How many directories are synced one by one; beyond that the whole file system is synced.
const DIRECTORIES_SYNCED_SINGLY: usize = 64;
/// How long another transfer of the same file may take to end.
const CLAIM_PATIENCE: Duration = Duration::from_secs(5);
/// Space is reserved for files of at least this size.
const RESERVE_MIN_BYTES: u64 = 1 << 20;

/// Limits on what a receiver accepts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The total bytes of all files.
    pub size_max_bytes: Option<u64>,
    /// Bytes that must stay free on the file system.
    pub keep_free_bytes: u64,
}

/// A directory that receives one transfer.
pub(crate) struct Tree {
    staging: Arc<Staging>,
    /// `DIR`, or the requested directory below it.
    base: OwnedFd,
    into: Option<RelativePath>,
    entries: Arc<Vec<Entry>>,
    /// The directory used last: files arrive directory by directory.
    last_parent: Mutex<Option<(Vec<u8>, Arc<OwnedFd>)>>,
    /// Directories that contain new names.
    changed: Mutex<BTreeSet<Vec<u8>>>,
    /// Staged files that do not have their final permissions yet.
    wrong_modes: Mutex<HashSet<u32>>,
    _claims: Claims,
}

/// Validates the sender's entries, without looking at the disk.
pub(crate) fn check_entries(entries: &[Entry], limits: &Limits) -> Result<()> {
    let mut paths = HashSet::with_capacity(entries.len());
    let mut total: u64 = 0;
    for entry in entries {
        if !paths.insert(&entry.path) {
            return Err(Error::Refusing(format!("{}: comes twice", entry.path)));
        }
        if let Kind::Link { target } = &entry.kind
            && !entry.path.link_stays_inside(target)
        {
            return Err(Error::Refusing(format!(
                "{}: the link leads out of the tree, to {}",
                entry.path,
                printable(target)
            )));
        }
        total = total.saturating_add(entry.size_bytes());
    }
    match limits.size_max_bytes {
        Some(max) if total > max => Err(Error::Refusing(format!(
            "{total} bytes exceed the {max} that this receiver accepts (--max-size)"
        ))),
        _ => Ok(()),
    }
}

impl Tree {
    /// Prepares to receive: claims the files, checks the available space, creates the directories.
    /// `filler_bytes` are needed in addition to the files.
    pub(crate) fn prepare(
        staging: &Arc<Staging>,
        into: Option<RelativePath>,
        entries: &Arc<Vec<Entry>>,
        limits: &Limits,
        filler_bytes: Option<u64>,
    ) -> Result<Self> {
        check_entries(entries, limits)?;
        let keys: Vec<Key> = entries
            .iter()
            .filter(|entry| entry.is_file())
            .map(|entry| Key::of(into.as_ref(), entry))
            .collect();
        let capacity_guess = device_capacity_bytes(staging.dir()) / 1000;
        let (available, held) = staging.room_bytes(keys.iter().copied())?;
        let files: u64 = entries.iter().map(Entry::data_bytes).fold(0, u64::saturating_add);
        let needed = files
            .saturating_sub(held)
            .saturating_add(
                filler_bytes.map_or(0, |bytes| if bytes == 0 { capacity_guess } else { bytes }),
            )
            .saturating_add(limits.keep_free_bytes);
        if needed > available {
            return Err(Error::Refusing(format!(
                "not enough room: {needed} bytes are needed (with what must stay free and what \
                 displaces the last files from the device's cache), {available} are there"
            )));
        }
        let claims = staging.claim(keys, CLAIM_PATIENCE).map_err(|place| {
            let entry = entries.iter().filter(|entry| entry.is_file()).nth(place);
            let path = entry.expect("the place is one of a file").path.clone();
            Error::Refusing(format!("{path}: another transfer is receiving it"))
        })?;
        let base = match &into {
            Some(into) => beneath::create_directory(staging.top(), into.as_bytes()),
            None => beneath::open_directory(staging.top(), None),
        };
        let below = into.as_ref().map_or(Path::new("."), AsRef::as_ref);
        let base = base.map_err(explain).map_err(Error::on(below, "open"))?;
        let tree = Self {
            staging: Arc::clone(staging),
            base,
            into,
            entries: Arc::clone(entries),
            last_parent: Mutex::default(),
            changed: Mutex::default(),
            wrong_modes: Mutex::default(),
            _claims: claims,
        };
        tree.make_directories()?;
        Ok(tree)
    }

    fn entry(&self, entry: u32) -> &Entry {
        &self.entries[entry as usize]
    }

    fn key_name(&self, entry: u32) -> String {
        Key::of(self.into.as_ref(), self.entry(entry)).name()
    }

    /// Opens the parent directory of `path`, which must exist.
    fn parent(&self, path: &RelativePath) -> std::result::Result<Arc<OwnedFd>, Errno> {
        let parent = path.split_last().0.unwrap_or(b".");
        let mut last = lock(&self.last_parent);
        if let Some((name, dir)) = &*last
            && name == parent
        {
            return Ok(Arc::clone(dir));
        }
        let dir = Arc::new(beneath::open_directory(&self.base, Some(parent))?);
        *last = Some((parent.to_vec(), Arc::clone(&dir)));
        Ok(dir)
    }

    /// Creates every directory of the transfer, so that a file never has to wait for one.
    fn make_directories(&self) -> Result<()> {
        let mut made: Option<&[u8]> = None;
        for entry in &**self.entries {
            let directory = match entry.kind {
                Kind::Directory => Some(entry.path.as_bytes()),
                _ => entry.path.split_last().0,
            };
            let Some(directory) = directory else { continue };
            if made == Some(directory) {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(directory));
            let dir = beneath::create_directory(&self.base, directory)
                .map_err(explain)
                .map_err(Error::on(path, "create"))?;
            if entry.kind == Kind::Directory {
                // Creating files in it requires this; its own permissions come at the end.
                let mode = Mode::from_raw_mode(entry.mode | 0o700);
                fchmod(&dir, mode).map_err(Error::on(path, "set the permissions of"))?;
                lock(&self.changed).insert(directory.to_vec());
                let parent = entry.path.split_last().0.unwrap_or(b".");
                lock(&self.changed).insert(parent.to_vec());
            }
            made = Some(directory);
        }
        Ok(())
    }

    /// Creates a link at its place, atomically.
    fn make_link(&self, number: u32, target: &[u8]) -> std::result::Result<(), Errno> {
        let name = format!("link-{}", self.key_name(number));
        match unlinkat(self.staging.dir(), &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        symlinkat(target, self.staging.dir(), &name)?;
        let entry = self.entry(number);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(self.staging.dir(), &name, &timestamps(entry.modified), flags)?;
        self.put(&name, &entry.path)
    }

    /// Renames a staged file or link to its place.
    fn put(&self, name: &str, path: &RelativePath) -> std::result::Result<(), Errno> {
        let parent = self.parent(path)?;
        let (directory, last_name) = path.split_last();
        renameat(self.staging.dir(), name, &*parent, last_name)?;
        let directory = directory.unwrap_or(b".");
        let mut changed = lock(&self.changed);
        if !changed.contains(directory) {
            changed.insert(directory.to_vec());
        }
        Ok(())
    }

    fn finish_directory(&self, entry: &Entry) -> std::result::Result<(), Errno> {
        let dir = beneath::open_directory(&self.base, Some(entry.path.as_bytes()))?;
        fchmod(&dir, Mode::from_raw_mode(entry.mode))?;
        futimens(&dir, &timestamps(entry.modified))
    }

    fn open_handle(&self, name: &str, flags: OFlags, mode: u32) -> io::Result<OsHandle> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(OsHandle::from(openat(self.staging.dir(), name, flags, Mode::from_raw_mode(mode))?))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn timestamps(modified: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: modified.seconds,
            tv_nsec: modified.nanoseconds.into(),
        },
    }
}

impl Destination for Tree {
    fn offers(&self) -> Vec<(u32, Origin)> {
        let staged = self.staging.names();
        let mut offers = Vec::new();
        for (number, entry) in (0u32..).zip(self.entries.iter()) {
            if !entry.is_file() || entry.size_bytes() == 0 {
                continue;
            }
            let existing = self.parent(&entry.path).and_then(|parent| {
                statat(&*parent, entry.path.split_last().1, AtFlags::SYMLINK_NOFOLLOW)
            });
            let is_same = existing.is_ok_and(|stat| {
                rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
                    && u64::try_from(stat.st_size) == Ok(entry.size_bytes())
                    && stat.st_mtime == entry.modified.seconds
                    && stat.st_mtime_nsec == u64::from(entry.modified.nanoseconds)
                    && stat.st_mode & 0o777 == entry.mode
            });
            if is_same {
                offers.push((number, Origin::Existing));
            } else if entry.size_bytes() >= OFFER_MIN_BYTES
                && staged.contains(Path::new(&self.key_name(number)).as_os_str())
            {
                offers.push((number, Origin::Staged));
            }
        }
        offers
    }

    fn open_offered(&self, entry: u32, origin: Origin) -> io::Result<Box<dyn File>> {
        if origin == Origin::Staged {
            return self.open_staged(entry, true);
        }
        let path = self.entry(entry).path.as_bytes();
        let open = |flags| beneath::open(&self.base, path, flags, Mode::empty());
        let file = match open(OFlags::RDONLY | OFlags::DIRECT) {
            Err(Errno::INVAL) => open(OFlags::RDONLY),
            other => other,
        };
        Ok(Box::new(OsFile::from(OsHandle::from(file.map_err(explain)?))))
    }

    fn stage(&self, entry: u32, keep: bool) -> io::Result<Box<dyn File>> {
        let size_bytes = self.entry(entry).size_bytes();
        let name = self.key_name(entry);
        let flags = OFlags::RDWR | OFlags::CREATE;
        let flags = if keep { flags } else { flags | OFlags::TRUNC };
        // Most files can have their final permissions immediately, which saves a change of each at
        // the end.
        let mode = self.entry(entry).mode | 0o600;
        let handle = self.open_handle(&name, flags, mode)?;
        if fstat(&handle)?.st_mode & 0o777 != self.entry(entry).mode {
            lock(&self.wrong_modes).insert(entry);
        }
        let file = OsFile::from(handle);
        if keep {
            file.set_len(size_bytes)?;
        } else if size_bytes >= RESERVE_MIN_BYTES && self.entry(entry).data_bytes() == size_bytes {
            file.allocate(0, size_bytes)?;
        }
        Ok(Box::new(file))
    }

    fn open_staged(&self, entry: u32, direct: bool) -> io::Result<Box<dyn File>> {
        let name = self.key_name(entry);
        let file = match self.open_handle(&name, OFlags::RDONLY | OFlags::DIRECT, 0) {
            // File systems in memory have no cache to bypass.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                self.open_handle(&name, OFlags::RDONLY, 0)
            }
            _ if !direct => self.open_handle(&name, OFlags::RDONLY, 0),
            other => other,
        };
        Ok(Box::new(OsFile::from(file?)))
    }

    fn settle(&self, number: u32) -> io::Result<()> {
        let name = self.key_name(number);
        let entry = self.entry(number);
        let staging = self.staging.dir();
        utimensat(staging, &name, &timestamps(entry.modified), AtFlags::empty())?;
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(syncfs(self.staging.dir())?)
    }

    fn appear(&self, number: u32) -> io::Result<()> {
        let name = self.key_name(number);
        let entry = self.entry(number);
        if lock(&self.wrong_modes).contains(&number) {
            let mode = Mode::from_raw_mode(entry.mode);
            chmodat(self.staging.dir(), &name, mode, AtFlags::empty())?;
        }
        self.put(&name, &entry.path).map_err(explain)
    }

    fn discard(&self, entry: u32) {
        // It may never have existed; if it stays, it is removed after a week.
        let _absent = unlinkat(self.staging.dir(), self.key_name(entry), AtFlags::empty());
    }

    fn filler(&self) -> io::Result<Box<dyn File>> {
        let name = format!("filler-{:x}", std::ptr::from_ref(self).addr());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open_handle(&name, flags, 0o600)?;
        // It lives as long as it is open.
        unlinkat(self.staging.dir(), &name, AtFlags::empty())?;
        Ok(Box::new(OsFile::from(file)))
    }

    fn finish(&self) -> io::Result<Vec<(u32, io::Error)>> {
        let mut failures = Vec::new();
        for (number, entry) in (0u32..).zip(self.entries.iter()) {
            if let Kind::Link { target } = &entry.kind
                && let Err(error) = self.make_link(number, target)
            {
                failures.push((number, explain(error)));
            }
        }
        // Deepest first: a directory without write permission would block what is below it.
        let count = u32::try_from(self.entries.len()).expect("entries are numbered with 32 bits");
        for number in (0..count).rev() {
            let entry = self.entry(number);
            if entry.kind == Kind::Directory
                && let Err(error) = self.finish_directory(entry)
            {
                failures.push((number, explain(error)));
            }
        }
        let changed = lock(&self.changed);
        if changed.len() > DIRECTORIES_SYNCED_SINGLY {
            syncfs(self.base.as_fd())?;
        } else {
            for directory in changed.iter() {
                fsync(beneath::open_directory(&self.base, Some(directory)).map_err(explain)?)?;
            }
        }
        fsync(&self.base)?;
        // Permissions and times of large files, which were synced without them.
        syncfs(self.base.as_fd())?;
        Ok(failures)
    }

    fn device_cache_bytes(&self) -> u64 {
        device_capacity_bytes(self.staging.dir()) / 1000
    }
}
