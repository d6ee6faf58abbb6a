//! A disk in front of another: writes stay in memory, and the other disk is only read.
//!
//! This allows a store to be recovered, checked and read without touching its files, for example
//! when it may be damaged or belongs to another program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use env::{Access, Disk, File, Lock};

const BLOCK_BYTES: u64 = 2048;

/// A file: the real one, if any, below the blocks written since.
#[derive(Default)]
struct Layers {
    real: Option<Box<dyn File>>,
    blocks: BTreeMap<u64, Vec<u8>>,
    len: u64,
}

/// An open file: a handle on its layers.
struct DetachedFile(Arc<Mutex<Layers>>);

/// Names that were looked up or changed; `None` for a removed one.
type Names = BTreeMap<PathBuf, Option<Arc<Mutex<Layers>>>>;

pub(crate) struct DetachedDisk {
    real: Arc<dyn Disk>,
    names: Mutex<Names>,
}

/// The lock of a store without a lock file; such a store cannot be open.
struct NoLock;

impl Lock for NoLock {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing here panics")
}

fn small(number: u64) -> usize {
    usize::try_from(number).expect("less than a block")
}

impl DetachedDisk {
    pub(crate) fn new(real: Arc<dyn Disk>) -> Self {
        Self { real, names: Mutex::default() }
    }

    fn find(&self, path: &Path) -> io::Result<Arc<Mutex<Layers>>> {
        let mut names = locked(&self.names);
        match names.get(path) {
            Some(Some(layers)) => return Ok(Arc::clone(layers)),
            Some(None) => return Err(io::ErrorKind::NotFound.into()),
            None => {}
        }
        let real = self.real.open(path, Access::Read)?;
        let len = real.len()?;
        let layers = Layers { real: Some(real), blocks: BTreeMap::new(), len };
        let layers = Arc::new(Mutex::new(layers));
        names.insert(path.to_path_buf(), Some(Arc::clone(&layers)));
        Ok(layers)
    }
}

impl Disk for DetachedDisk {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut listed = self.real.list(dir)?;
        for (path, layers) in locked(&self.names).iter() {
            let Some(name) = path.file_name().filter(|_| path.parent() == Some(dir)) else {
                continue;
            };
            listed.retain(|other| other != name);
            listed.extend(layers.is_some().then(|| name.to_os_string()));
        }
        listed.sort_unstable();
        Ok(listed)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        if self.exists(path)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let layers = Arc::new(Mutex::new(Layers::default()));
        locked(&self.names).insert(path.to_path_buf(), Some(Arc::clone(&layers)));
        Ok(Box::new(DetachedFile(layers)))
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Box<dyn File>> {
        Ok(Box::new(DetachedFile(self.find(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let layers = self.find(from)?;
        let mut names = locked(&self.names);
        names.insert(from.to_path_buf(), None);
        names.insert(to.to_path_buf(), Some(layers));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        locked(&self.names).insert(path.to_path_buf(), None);
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match locked(&self.names).get(path) {
            Some(layers) => Ok(layers.is_some()),
            None => self.real.exists(path),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        if self.real.exists(path)? { self.real.lock(path) } else { Ok(Box::new(NoLock)) }
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.real.available_bytes(dir)
    }
}

impl Layers {
    /// Reads as much of a block as exists; the rest is zeros.
    fn block(&self, number: u64) -> io::Result<Vec<u8>> {
        if let Some(block) = self.blocks.get(&number) {
            return Ok(block.clone());
        }
        let mut block = vec![0; small(BLOCK_BYTES)];
        let mut at = 0;
        while let Some(real) = &self.real {
            match real.read_at(&mut block[at..], number * BLOCK_BYTES + at as u64)? {
                0 => break,
                count => at += count,
            }
        }
        Ok(block)
    }
}

impl File for DetachedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let layers = locked(&self.0);
        let left = layers.len.saturating_sub(offset);
        let at = small(offset % BLOCK_BYTES);
        let count =
            buf.len().min(small(BLOCK_BYTES) - at).min(usize::try_from(left).unwrap_or(usize::MAX));
        if count > 0 {
            let block = layers.block(offset / BLOCK_BYTES)?;
            buf[..count].copy_from_slice(&block[at..at + count]);
        }
        Ok(count)
    }

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let mut layers = locked(&self.0);
        while !bytes.is_empty() {
            let (number, at) = (offset / BLOCK_BYTES, small(offset % BLOCK_BYTES));
            let count = bytes.len().min(small(BLOCK_BYTES) - at);
            let mut block = layers.block(number)?;
            block[at..at + count].copy_from_slice(&bytes[..count]);
            layers.blocks.insert(number, block);
            bytes = &bytes[count..];
            offset += count as u64;
            layers.len = layers.len.max(offset);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.0).len)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        // Truncated bytes would reappear from the file below if the file grew again.
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}
