//! A directory as a target.
//!
//! ```text
//!   put:  DIR/DATABASE/log/NAME.tmp  written · synced · linked as NAME, if that is free · .tmp removed · folder synced
//! ```
//!
//! The link makes the object be there whole, durable, and never in place of another. Where files have one name only, whether the name is free is looked
//! at before a rename: then two writers at the same moment are told by the claims alone.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk, File, Unpublished};
use redo::Id;

use crate::error::{TargetError, TargetResult};
use crate::name::{Folder, Name, parse_database};
use crate::target::{Object, Put, Target};

/// The directory that a URL names: `file:///path`, or `file:/path`.
#[must_use]
pub fn directory_of(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("file:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    path.starts_with('/').then(|| Path::new(path))
}

/// See the file's top.
pub struct Directory {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl Directory {
    /// The archives in `root`, which is never made: a directory that is not there may be one that is not mounted.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> Self {
        Self { disk, root: root.to_owned() }
    }

    fn folder(&self, database: Id, folder: Folder) -> PathBuf {
        self.root.join(database.to_string()).join(folder.name())
    }

    fn path(&self, database: Id, name: &Name) -> PathBuf {
        self.folder(database, name.folder()).join(name.file_name())
    }

    /// The names in a directory; none if it is not there.
    fn names(&self, dir: &Path) -> TargetResult<Vec<String>> {
        let names = match self.disk.list(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            names => names.map_err(TargetError::of("list", shown(dir)))?,
        };
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Removes a file, if there is one.
    fn remove_file(&self, path: &Path) -> TargetResult<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(TargetError::of("remove", shown(path))),
        }
    }

    /// Gives what was written its name, if that is free.
    fn link(&self, temporary: &Path, path: &Path) -> io::Result<Put> {
        match self.disk.link(temporary, path) {
            Ok(()) => {
                self.disk.remove(temporary)?;
                Ok(Put::New)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.disk.remove(temporary)?;
                Ok(Put::Taken)
            }
            Err(_) if self.disk.exists(path)? => {
                self.disk.remove(temporary)?;
                Ok(Put::Taken)
            }
            // Files have one name here.
            Err(_) => self.disk.rename(temporary, path).map(|()| Put::New),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The name of what is not complete.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

impl Target for Directory {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let folder = self.folder(database, name.folder());
        let path = self.path(database, name);
        let failed = |doing| TargetError::of(doing, shown(&path));
        let is_there = self.disk.exists(&self.root);
        if !is_there.map_err(TargetError::of("look for", shown(&self.root)))? {
            let what = "the directory is not there; mount what it is on, or make it";
            let source = io::Error::new(ErrorKind::NotFound, what);
            return Err(TargetError::of("archive in", shown(&self.root))(source));
        }
        if !self.disk.exists(&folder).map_err(failed("look for the folder of"))? {
            self.disk.create_dir_all(&folder).map_err(failed("make the folder of"))?;
        }
        let written = Unpublished::create(&*self.disk, &temporary(&path)).and_then(|new| {
            let temporary = new.temporary().to_owned();
            let write = new.file().write_all_at(bytes, 0);
            write.map_err(redo::FileError::io(&temporary, "write"))?;
            new.complete()
        });
        // A file that is complete has its name to come.
        let _complete = written.map_err(|error| failed("write")(io::Error::other(error)))?;
        let put = self.link(&temporary(&path), &path).map_err(failed("name"))?;
        self.disk.sync_dir(&folder).map_err(failed("sync the folder of"))?;
        Ok(put)
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let path = self.path(database, name);
        let file = self.disk.open(&path, Access::Read);
        let file = file.map_err(TargetError::of("open", shown(&path)))?;
        file.advise_sequential();
        Ok(Box::new(FileObject(file)))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        let names = self.names(&self.folder(database, folder))?;
        let mut names: Vec<Name> =
            names.iter().filter_map(|name| Name::parse(folder, name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        self.remove_file(&self.path(database, name))
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        for folder in Folder::ALL {
            let dir = self.folder(database, folder);
            for name in self.names(&dir)? {
                let left = name.strip_suffix(".tmp").and_then(|name| Name::parse(folder, name));
                if left.is_some_and(|name| is_such(&name)) {
                    self.remove_file(&dir.join(&name))?;
                }
            }
        }
        Ok(())
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        let names = self.disk.list(&self.root);
        let names = names.map_err(TargetError::of("list", shown(&self.root)))?;
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let mut ids: Vec<Id> = names.filter_map(|name| parse_database(&name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// So much of an object is fetched ahead: as long as most are.
const FETCHED_BYTES: u64 = 16 << 20;

struct FileObject(Box<dyn File>);

impl Object for FileObject {
    fn bytes(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn fetch_ahead(&self) {
        self.0.fetch_ahead(0, FETCHED_BYTES);
    }
}
