//! A simulated storage device, mounted: a small FUSE file system whose files lie on an
//! `env_sim::LayeredDevice`, so that whole programs run against it.
//!
//! ```text
//!   program ─► kernel's page cache ─► FUSE ─► device cache ─► flash, a backing file
//!              (host memory)                  ② faults        ③ faults
//! ```
//!
//! The kernel writes through to the file system at once, so every `write` is a write to the device; a read
//! that is not answered by the page cache, or goes past it (O_DIRECT), is a read of the device. Names and
//! attributes are plain memory and never fail. Mounting needs root and `/dev/fuse`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use env_sim::LayeredDevice;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

/// Attributes are asked for every time: nothing here is about their speed.
const TTL: Duration = Duration::ZERO;
const PAGE_BYTES: u64 = 4096;
/// What statfs says there is room for, in pages.
const CAPACITY_PAGES: u64 = 1 << 18;

/// A directory, a file or a link.
#[derive(Debug)]
struct Node {
    kind: FileType,
    mode: u16,
    modified: SystemTime,
    size: u64,
    names: BTreeMap<OsString, u64>,
    target: PathBuf,
}

impl Node {
    fn new(kind: FileType, mode: u32) -> Self {
        Self {
            kind,
            mode: u16::try_from(mode & 0o7777).unwrap(),
            modified: UNIX_EPOCH,
            size: 0,
            names: BTreeMap::new(),
            target: PathBuf::new(),
        }
    }

    fn attributes(&self, number: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(number),
            size: self.size,
            blocks: self.size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: self.modified,
            ctime: self.modified,
            crtime: UNIX_EPOCH,
            kind: self.kind,
            perm: self.mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

/// The file system.
struct DeviceFs {
    device: LayeredDevice,
    nodes: Mutex<BTreeMap<u64, Node>>,
}

impl DeviceFs {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u64, Node>> {
        self.nodes.lock().unwrap()
    }

    fn add(&self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        let mut nodes = self.nodes();
        let number = nodes.last_key_value().map_or(1, |(number, _)| number + 1);
        let directory = nodes.get_mut(&parent.0).ok_or(Errno::ENOENT)?;
        if directory.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        directory.names.insert(name.to_owned(), number);
        let attributes = node.attributes(number);
        nodes.insert(number, node);
        Ok(attributes)
    }

    fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        Ok(self.nodes().get(&number).ok_or(Errno::ENOENT)?.attributes(number))
    }

    /// Takes a name away. The file lives on for the process that has it open (and, here, for good).
    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        let directory = nodes.get_mut(&parent.0).ok_or(Errno::ENOENT)?;
        directory.names.remove(name).map(|_| ()).ok_or(Errno::ENOENT)
    }

    fn resize(&self, number: u64, size: u64) {
        if size == 0 {
            self.device.truncate(number);
        }
        self.device.open(number, false).set_len(size).unwrap();
    }
}

fn entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for DeviceFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = self.nodes().get(&parent.0).and_then(|node| node.names.get(name).copied());
        entry(reply, number.ok_or(Errno::ENOENT).and_then(|number| self.attributes(number)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut nodes = self.nodes();
        let node = nodes.get_mut(&ino.0).unwrap();
        if let Some(mode) = mode {
            node.mode = u16::try_from(mode & 0o7777).unwrap();
        }
        if let Some(TimeOrNow::SpecificTime(time)) = mtime {
            node.modified = time;
        }
        if let Some(size) = size {
            node.size = size;
            self.resize(ino.0, size);
        }
        reply.attr(&TTL, &node.attributes(ino.0));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        reply.data(self.nodes()[&ino.0].target.as_os_str().as_encoded_bytes());
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.add(parent, name, Node::new(FileType::Directory, mode & !umask)));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let mut node = Node::new(FileType::Symlink, 0o777);
        node.target = target.to_owned();
        entry(reply, self.add(parent, name, node));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut nodes = self.nodes();
        let moved = nodes.get_mut(&parent.0).and_then(|from| from.names.remove(name));
        let Some(number) = moved else { return reply.error(Errno::ENOENT) };
        nodes.get_mut(&newparent.0).unwrap().names.insert(newname.to_owned(), number);
        reply.ok();
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.add(parent, name, Node::new(FileType::RegularFile, mode & !umask)) {
            Ok(attributes) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // As other file systems: what the host's memory holds of a file outlives its being closed.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // The device has whole pages; what is past the end of the file is cut off.
        let from = offset - offset % PAGE_BYTES;
        let to = (offset + u64::from(size)).next_multiple_of(PAGE_BYTES);
        let mut pages = vec![0; usize::try_from(to - from).unwrap()];
        let read = self.device.open(ino.0, true).read_at(&mut pages, from).unwrap();
        let start = usize::try_from(offset - from).unwrap().min(read);
        let end = (start + size as usize).min(read);
        reply.data(&pages[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = self.device.open(ino.0, false);
        let end = offset + data.len() as u64;
        // The kernel is the host; what comes here is on its way to the device.
        file.write_all_at(data, offset).unwrap();
        file.sync_data().unwrap();
        file.drop_cache(offset, data.len() as u64);
        let mut nodes = self.nodes();
        let node = nodes.get_mut(&ino.0).unwrap();
        node.size = node.size.max(end);
        node.modified = SystemTime::now();
        reply.written(u32::try_from(data.len()).unwrap());
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A device with a cache that power does not take answers at once, too.
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let nodes = self.nodes();
        let names = nodes[&ino.0].names.iter().enumerate();
        for (place, (name, &number)) in names.skip(usize::try_from(offset).unwrap()) {
            if reply.add(INodeNo(number), place as u64 + 1, nodes[&number].kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (pages, size) = (CAPACITY_PAGES, u32::try_from(PAGE_BYTES).unwrap());
        reply.statfs(pages, pages, pages, 1 << 20, 1 << 20, size, 255, size);
    }
}

/// A device, mounted; unmounted when dropped.
pub(crate) struct Mounted {
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl Mounted {
    /// Mounts a device; nothing, and a line that says why, where that is not possible.
    pub(crate) fn new(device: &LayeredDevice) -> Option<Mounted> {
        match Self::try_new(device) {
            Ok(mounted) => Some(mounted),
            Err(why) => {
                testing::skipped("root and FUSE", why);
                None
            }
        }
    }

    fn try_new(device: &LayeredDevice) -> io::Result<Mounted> {
        let directory = tempfile::tempdir()?;
        let top = Node::new(FileType::Directory, 0o755);
        let nodes = Mutex::new(BTreeMap::from([(1, top)]));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("layers".to_owned())];
        let file_system = DeviceFs { device: device.clone(), nodes };
        let session = fuser::spawn_mount(file_system, directory.path(), &config)?;
        Ok(Mounted { session: Some(session), directory })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What all files will be in the end, by name: the only directory's.
    pub(crate) fn contents_in_the_end(&self, device: &LayeredDevice, name: &str) -> Vec<u8> {
        use std::os::unix::fs::MetadataExt;
        let number = std::fs::metadata(self.path().join(name)).unwrap().ino();
        device.contents_in_the_end(number)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            println!("{}: {error}", self.directory.path().display());
        }
    }
}
