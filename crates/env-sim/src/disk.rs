//! The simulated disk.
//!
//! # Fault model
//!
//! **Crash** ([`SimDisk::crash`]: power fails). Synced bytes, lengths and names remain. Of the
//! rest, by seed:
//! - a write is kept, lost, cut short, or torn into any of its 512-byte sectors; a sector itself
//!   is never torn. Writes are independent: a later one may be there without an earlier one.
//! - a new length is kept or lost. Where bytes below the length were lost, zeros are read.
//! - a name created, renamed or removed without a sync of its directory is kept or lost: a
//!   prefix of such changes, or any subset. A rename itself is whole or absent.
//! - reservations are gone; locks are free; earlier handles fail forever.
//!
//! A **durable write** ([`env::File::write_durably_at`]) of whole sectors makes durable what it has
//! written and nothing that was written before it elsewhere in the file.
//!
//! **Death of the process** ([`SimDisk::kill`]): the same, but nothing is lost.
//!
//! **Crash at the n-th I/O** ([`SimDisk::crash_after`]): the n-th call that changes the disk fails,
//! and may or may not have had its effect ([`SimDisk::crash_at`] decides). Every later call fails
//! too, because no process exists to make one, until [`SimDisk::restart`], which is the crash.
//!
//! **Errors** ([`Faults`]): EIO from any call, or any that reads, by chance or at the n-th; the failed
//! write may have had its effect. A device (a directory) fails as a whole ([`SimDisk::break_dir`]).
//! **A failed sync** keeps any part of what was dirty, drops the rest for good, and the next sync
//! succeeds; readers may or may not still see what was dropped.
//! **ENOSPC**: past the capacity; the write may have been done in part.
//! **Short reads**: fewer bytes than asked for, never 0 before the end.
//! **Misdirected writes**: reported as done, visible to readers while cached, but stored at
//! another sector of the same file. **Bit flips** at rest ([`SimDisk::flip_bit`]).
//!
//! **Slow devices** are not modelled here: a call takes no time. The owner of the flushers gives
//! the one of a slow device few steps, which has the same visible effect (crate `sim`). **Clocks
//! that jump** are in [`crate::SimClock`].
//! **Lack of descriptors**: EMFILE, ENFILE or ENOMEM from any call that opens a file, and has no effect. **Hard links** ([`SimDisk::link`]): other programs give files another name,
//! and it is an error, of the program and not of the disk, to change what they read (`links.rs`).
//! The same holds for a link that the program itself makes ([`env::Disk::link`]), which can also
//! fail with any error.
//!
//! Not modelled: bytes of one file in another, permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use env::{Access, Disk, File, FileVersion, Lock, ReadTogether};

use crate::entropy::SimEntropy;
use crate::faults::{Faults, Verdict};
use crate::file::SimFile;
use crate::inode::{Inode, SECTOR_BYTES};
use crate::links::{Links, Trespass};
use crate::names::{InodeId, Names, not_found};
use crate::together::Backwards;

/// A simulated disk. A clone is another handle on the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rng: SimEntropy,
    pub(crate) faults: Faults,
    pub(crate) inodes: BTreeMap<InodeId, Inode>,
    pub(crate) names: Names,
    pub(crate) links: Links,
    pub(crate) trespass: Trespass,
    next_inode: InodeId,
    locks: BTreeSet<PathBuf>,
    broken: BTreeSet<PathBuf>,
    /// The number of this life of the process; handles of an earlier one fail.
    generation: u64,
    io_count: u64,
    read_count: u64,
    crash_at_io: Option<u64>,
    /// Whether the call that crashes has had its effect; random if `None`.
    crash_is_after: Option<bool>,
    crashed: bool,
    trace_hash: u64,
    /// Descriptions of the calls that change the disk, if a test wants them.
    ios: Option<Vec<String>>,
}

fn crashed() -> io::Error {
    io::Error::other("crashed")
}

/// Returns EIO as the kernel does.
pub(crate) fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// And ENOSPC.
pub(crate) fn enospc() -> io::Error {
    io::Error::from_raw_os_error(28)
}

/// ENOMEM, ENFILE and EMFILE as the kernel numbers them.
const LACKS: [i32; 3] = [12, 23, 24];

impl State {
    /// Notes an event for [`SimDisk::trace_hash`].
    pub(crate) fn note(&mut self, what: &[u8]) {
        for word in what.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let mixed = self.trace_hash ^ u64::from_le_bytes(bytes) ^ ((word.len() as u64) << 56);
            self.trace_hash = mixed.wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Fails if the process of `generation` is dead.
    pub(crate) fn alive(&self, generation: u64) -> io::Result<()> {
        if self.crashed || generation != self.generation { Err(crashed()) } else { Ok(()) }
    }

    fn check_broken(&self, path: &Path) -> io::Result<()> {
        if self.broken.iter().any(|dir| path.starts_with(dir)) { Err(eio()) } else { Ok(()) }
    }

    /// Counts a call that changes the disk and decides its fate. `is_sync` marks a file's sync.
    pub(crate) fn effect(&mut self, generation: u64, name: &str, path: &Path) -> Verdict {
        if let Err(error) = self.alive(generation) {
            return Verdict::Fail(error);
        }
        self.io_count += 1;
        self.note(name.as_bytes());
        self.note(path.as_os_str().as_encoded_bytes());
        if let Some(ios) = &mut self.ios {
            ios.push(format!("{} {name} {}", self.io_count, path.display()));
        }
        if self.crash_at_io.is_some_and(|at| self.io_count >= at) {
            self.crashed = true;
            return match self.crash_is_after {
                Some(true) => Verdict::DoAndFail(crashed()),
                Some(false) => Verdict::Fail(crashed()),
                None => self.fail_somehow(crashed()),
            };
        }
        if let Err(error) = self.check_broken(path) {
            return Verdict::Fail(error);
        }
        if self.faults.full_at_io == Some(self.io_count) {
            return Verdict::Fail(io::ErrorKind::StorageFull.into());
        }
        let per_million = match name {
            "sync_data" => self.faults.sync_error_per_million,
            _ => self.faults.error_per_million,
        };
        if self.faults.error_at_io == Some(self.io_count) || self.rng.chance(per_million) {
            return match name {
                "write" => self.fail_somehow(eio()),
                _ => Verdict::Fail(eio()),
            };
        }
        Verdict::Do
    }

    fn fail_somehow(&mut self, error: io::Error) -> Verdict {
        if self.rng.coin() { Verdict::DoAndFail(error) } else { Verdict::Fail(error) }
    }

    /// Counts a call that only reads.
    pub(crate) fn look(&mut self, generation: u64, path: &Path) -> io::Result<()> {
        self.alive(generation)?;
        self.read_count += 1;
        self.check_broken(path)?;
        let by_chance = self.rng.chance(self.faults.error_per_million)
            || self.rng.chance(self.faults.read_error_per_million);
        if self.faults.error_at_read == Some(self.read_count) || by_chance {
            return Err(eio());
        }
        Ok(())
    }

    /// Fails at random for lack of a descriptor.
    fn get_descriptor(&mut self, path: &Path) -> io::Result<()> {
        if !self.rng.chance(self.faults.lack_per_million) {
            return Ok(());
        }
        let number = LACKS[usize::try_from(self.rng.below(LACKS.len() as u64)).expect("few")];
        self.note(b"no descriptor");
        Err(env::opening(path, io::Error::from_raw_os_error(number)))
    }

    fn used_bytes(&self) -> u64 {
        self.inodes.values().map(Inode::occupied).sum()
    }

    /// The number of bytes that still fit.
    pub(crate) fn room(&self) -> u64 {
        match self.faults.capacity_bytes {
            Some(capacity) => capacity.saturating_sub(self.used_bytes()),
            None => u64::MAX / 2 - self.used_bytes(),
        }
    }

    /// Returns where a write to `at` is stored.
    pub(crate) fn landing(&mut self, inode: InodeId, at: u64) -> u64 {
        if !self.rng.chance(self.faults.misdirect_per_million) {
            return at;
        }
        let sectors = self.inodes.get(&inode).map_or(0, Inode::len) / SECTOR_BYTES + 1;
        self.rng.below(sectors) * SECTOR_BYTES
    }

    fn parent_must_exist(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(dir) if self.names.is_dir(dir) => Ok(()),
            _ => Err(not_found(path)),
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        self.parent_must_exist(path)?;
        if self.names.get(path).is_some() || self.names.is_dir(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.names.link(path, inode);
        Ok(inode)
    }

    fn find(&self, path: &Path) -> io::Result<InodeId> {
        self.names.get(path).ok_or_else(|| not_found(path))
    }

    fn forget_unreachable(&mut self) {
        let names = &self.names;
        self.inodes.retain(|id, inode| inode.is_open() || names.refers_to(*id));
    }

    fn end_life(&mut self, power_fails: bool) {
        self.generation += 1;
        self.crashed = false;
        self.crash_at_io = None;
        self.locks.clear();
        self.note(if power_fails { b"crash" } else { b"kill" });
        if power_fails {
            self.names.crash(&mut self.rng);
            for inode in self.inodes.values_mut() {
                inode.crash(&mut self.rng);
            }
        }
        self.forget_unreachable();
    }
}

impl SimDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        let state = State {
            rng: SimEntropy::new(seed),
            faults,
            inodes: BTreeMap::new(),
            names: Names::default(),
            links: Links::default(),
            trespass: Trespass::default(),
            next_inode: 1,
            locks: BTreeSet::new(),
            broken: BTreeSet::new(),
            generation: 0,
            io_count: 0,
            read_count: 0,
            crash_at_io: None,
            crash_is_after: None,
            crashed: false,
            trace_hash: 0xcbf2_9ce4_8422_2325,
            ios: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns an independent disk in the same state, on which unsynced changes will have the same
    /// fate. No file may be open.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state();
        let inodes = state.inodes.iter().map(|(id, inode)| (*id, inode.fork())).collect();
        let forked = State {
            rng: state.rng.clone(),
            faults: state.faults.clone(),
            inodes,
            names: state.names.clone(),
            links: state.links.clone(),
            trespass: Trespass::default(),
            locks: state.locks.clone(),
            broken: state.broken.clone(),
            ios: state.ios.clone(),
            ..*state
        };
        Self { state: Arc::new(Mutex::new(forked)) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call panics while it holds the disk")
    }

    /// Power fails and returns: unsynced changes are partly lost, handles are dead.
    pub fn crash(&self) {
        self.state().end_life(true);
    }

    /// The process dies and is restarted; the kernel and its cache survive.
    pub fn kill(&self) {
        self.state().end_life(false);
    }

    /// Crashes at the `n_ios`-th I/O from now on, the first being 1. That call fails, and every
    /// later one, until [`SimDisk::restart`].
    pub fn crash_after(&self, n_ios: u64) {
        let mut state = self.state();
        state.crash_at_io = Some(state.io_count + n_ios.max(1));
        state.crash_is_after = None;
    }

    /// As [`SimDisk::crash_after`], immediately before or after the call has its effect.
    pub fn crash_at(&self, n_ios: u64, is_after: bool) {
        self.crash_after(n_ios);
        self.state().crash_is_after = Some(is_after);
    }

    /// Whether the crash planned by [`SimDisk::crash_after`] has happened.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Power returns: as [`SimDisk::crash`], named as the counterpart of [`SimDisk::crash_after`].
    pub fn restart(&self) {
        self.crash();
    }

    /// The number of calls so far that change the disk: create, rename, remove, `sync_dir`,
    /// `create_dir_all`, write, sync, `set_len`, allocate. A crash can make a difference only
    /// before and after one of these.
    #[must_use]
    pub fn io_count(&self) -> u64 {
        self.state().io_count
    }

    /// The number of calls so far that only read: open, list, read.
    #[must_use]
    pub fn read_count(&self) -> u64 {
        self.state().read_count
    }

    /// Replaces the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Makes every I/O below `dir` fail with EIO, as if the device mounted there had failed.
    pub fn break_dir(&self, dir: &Path) {
        self.state().broken.insert(dir.to_path_buf());
    }

    /// Reverts [`SimDisk::break_dir`].
    pub fn mend_dir(&self, dir: &Path) {
        self.state().broken.remove(dir);
    }

    /// Flips one bit (0 to 7) of a file at rest. Returns false if the file ends earlier.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        let mut state = self.state();
        let inode = state.find(path).expect("flip_bit wants a file that exists");
        state.inodes.get_mut(&inode).expect("a name has a file").flip(offset, 1 << (bit & 7))
    }

    /// Gives a file another name, as a backup by hard links does. The directory is created if
    /// needed. Returns false if there is no such file.
    pub fn link(&self, from: &Path, to: &Path) -> bool {
        let mut state = self.state();
        let Some(inode) = state.names.get(from) else { return false };
        if let Some(dir) = to.parent() {
            state.names.make_dirs(dir);
        }
        state.names.link(to, inode);
        state.links.add(to);
        state.inodes.get_mut(&inode).expect("a name has a file").note_linked();
        true
    }

    /// Removes such a name.
    pub fn unlink(&self, path: &Path) {
        let mut state = self.state();
        state.names.unlink(path);
        state.forget_unreachable();
    }

    /// Returns the first change of a file that had another name, if there was one. If a test never
    /// calls this, dropping the disk panics.
    #[must_use]
    pub fn take_trespass(&self) -> Option<String> {
        self.state().trespass.take()
    }

    /// Bytes taken by files, including reserved space and removed files still open.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Starts recording the calls that change the disk, for [`SimDisk::take_ios`].
    pub fn keep_ios(&self) {
        self.state().ios.get_or_insert_default();
    }

    /// Returns the calls that changed the disk since the last time, including failed ones.
    #[must_use]
    pub fn take_ios(&self) -> Vec<String> {
        self.state().ios.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A hash of everything that has changed the disk so far: equal for equal runs.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.state().trace_hash
    }

    fn file(&self, state: &State, path: &Path, inode: InodeId, writable: bool) -> SimFile {
        let open = state.inodes.get(&inode).expect("a name has a file").handle();
        let is_shared = state.links.is_shared(&state.names, path, inode);
        let path = path.to_path_buf();
        SimFile::new(self.clone(), path, inode, writable, state.generation, is_shared, open)
    }

    /// Runs a call that changes the disk, subject to faults.
    fn change<T>(
        &self,
        name: &str,
        path: &Path,
        run: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        let generation = state.generation;
        let verdict = state.effect(generation, name, path);
        verdict.carry_out(|| run(&mut state))
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.change("mkdir", path, |state| {
            state.names.make_dirs(path);
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        let generation = state.generation;
        state.look(generation, dir)?;
        state.get_descriptor(dir)?;
        if !state.names.is_dir(dir) {
            return Err(not_found(dir));
        }
        Ok(state.names.list(dir))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.change("create", path, |state| {
            state.get_descriptor(path)?;
            let inode = state.create(path)?;
            Ok(Box::new(self.file(state, path, inode, true)) as Box<dyn File>)
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        let generation = state.generation;
        state.look(generation, path)?;
        state.get_descriptor(path)?;
        let inode = state.find(path)?;
        Ok(Box::new(self.file(&state, path, inode, access == Access::ReadWrite)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("rename", to, |state| {
            let inode = state.find(from)?;
            state.parent_must_exist(to)?;
            if state.names.is_dir(to) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            state.note(from.as_os_str().as_encoded_bytes());
            state.names.rename(from, to, inode);
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("link", to, |state| {
            if let Some(number) = state.faults.link_error {
                return Err(io::Error::from_raw_os_error(number));
            }
            let inode = state.find(from)?;
            state.parent_must_exist(to)?;
            if state.names.get(to).is_some() || state.names.is_dir(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.note(from.as_os_str().as_encoded_bytes());
            state.names.link(to, inode);
            // A file that the program links must not change either.
            state.links.add(to);
            state.inodes.get_mut(&inode).expect("a name has a file").note_linked();
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change("remove", path, |state| {
            state.find(path)?;
            state.names.unlink(path);
            // Freed only when no crash can bring the name back. That is later than on a real disk,
            // so running out of space is tested more strictly.
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change("rmdir", path, |state| state.names.remove_dir(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change("sync_dir", dir, |state| {
            if !state.names.is_dir(dir) {
                return Err(not_found(dir));
            }
            state.get_descriptor(dir)?;
            state.names.sync(dir);
            state.forget_unreachable();
            Ok(())
        })
    }

    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        state.alive(state.generation)?;
        let inode = state.find(path)?;
        Ok(state.names.of(inode).nth(1).is_some())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        state.alive(state.generation)?;
        Ok(state.names.get(path).is_some() || state.names.is_dir(path))
    }

    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        let bytes = self.open(path, Access::Read)?.len()?;
        let number = self.state().find(path)?;
        Ok(FileVersion { number, bytes, changed_at_ns: 0, is_regular: true })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut state = self.state();
        let generation = state.generation;
        state.alive(generation)?;
        state.get_descriptor(path)?;
        if state.names.get(path).is_none() {
            state.create(path)?;
        }
        if !state.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_path_buf(), generation }))
    }

    fn read_together(&self) -> Option<Box<dyn ReadTogether>> {
        Some(Box::new(Backwards))
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        let state = self.state();
        state.alive(state.generation)?;
        state.check_broken(dir)?;
        Ok(state.room())
    }

    fn file_system(&self, _path: &Path) -> Option<u64> {
        Some(0)
    }

    fn overwrites_in_place(&self, _dir: &Path) -> bool {
        true
    }

    fn capacity_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state();
        state.alive(state.generation)?;
        Ok(state.faults.capacity_bytes.unwrap_or(u64::MAX))
    }
}

/// A lock on a simulated disk.
#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    generation: u64,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        // A crash has already released it, and another process may have taken it since.
        if state.generation == self.generation {
            state.locks.remove(&self.path);
        }
    }
}
