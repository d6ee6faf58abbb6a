//! The files and trees to send, as named by the user: found once, opened one by one.
//!
//! ```text
//!   /data/photos  ──►  root { directory /data, name photos }  ──►  photos, photos/a.jpg, ...
//! ```
//!
//! No symbolic link below a named path is followed, neither on listing the tree nor on opening a
//! file: links are sent as links. Sockets, pipes and devices are skipped and reported.

use std::ffi::OsStr;
use std::fs::File as OsHandle;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, readlinkat, statat};
use rustix::io::Errno;

use crate::beneath::{self, explain};
use crate::entry::{Entry, Kind, Time};
use crate::error::{Error, Result};
use crate::relative_path::{RelativePath, STAGING};

/// A named path: its parent directory, and its name there.
struct Root {
    directory: OwnedFd,
    /// Its name on this disk and in the transfer; they differ for `send ..`.
    name: Vec<u8>,
    sent_as: usize,
}

/// Everything to be sent.
pub(crate) struct Source {
    roots: Vec<Root>,
    entries: Vec<(u32, Entry)>,
    skipped: Vec<String>,
}

impl Source {
    /// Finds the files that local paths name.
    pub(crate) fn of_paths(paths: &[std::path::PathBuf]) -> Result<Self> {
        let mut source = Self { roots: Vec::new(), entries: Vec::new(), skipped: Vec::new() };
        for path in paths {
            // A path from a person may be a link; its target is meant.
            let real = path.canonicalize().map_err(Error::on(path, "find"))?;
            let name = real.file_name().ok_or_else(|| {
                Error::Refusing(format!("{}: has no name; name the files in it", path.display()))
            })?;
            let sent_as = path.file_name().unwrap_or(name);
            let parent = real.parent().unwrap_or(Path::new("/"));
            let directory = OsHandle::open(parent).map_err(Error::on(parent, "open"))?.into();
            source.add_root(directory, name, sent_as.as_bytes())?;
        }
        Ok(source)
    }

    /// Finds the files that paths below `dir` name; everything in it if there are none.
    pub(crate) fn below(dir: &Path, paths: &[RelativePath]) -> Result<Self> {
        let mut source = Self { roots: Vec::new(), entries: Vec::new(), skipped: Vec::new() };
        let top = OsHandle::open(dir).map_err(Error::on(dir, "open"))?;
        if paths.is_empty() {
            for name in names(&top).map_err(Error::on(dir, "list"))? {
                if name != STAGING.as_bytes() {
                    let directory = beneath::open_directory(&top, None)
                        .map_err(explain)
                        .map_err(Error::on(dir, "open"))?;
                    source.add_root(directory, OsStr::from_bytes(&name), &name)?;
                }
            }
        }
        for path in paths {
            let (parent, name) = path.split_last();
            let directory = beneath::open_directory(&top, parent)
                .map_err(explain)
                .map_err(Error::on(path, "find"))?;
            source.add_root(directory, OsStr::from_bytes(name), name)?;
        }
        Ok(source)
    }

    fn add_root(&mut self, directory: OwnedFd, name: &OsStr, sent_as: &[u8]) -> Result<()> {
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Error::on(name, "look at"))?;
        let path = RelativePath::new(sent_as)?;
        let number = u32::try_from(self.roots.len()).expect("fewer paths than entries");
        let place = beneath::open_directory(&directory, None)
            .map_err(explain)
            .map_err(Error::on(&path, "open the directory of"))?;
        self.roots.push(Root { directory, name: name.as_bytes().to_vec(), sent_as: sent_as.len() });
        self.add(number, place.as_fd(), name.as_bytes(), path, &stat)
    }

    /// Adds `name` in `directory`, and everything below it.
    fn add(
        &mut self,
        root: u32,
        directory: BorrowedFd<'_>,
        name: &[u8],
        path: RelativePath,
        stat: &Stat,
    ) -> Result<()> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
                let on_disk = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
                Kind::File { size_bytes, data_bytes: on_disk.min(size_bytes) }
            }
            FileType::Symlink => Kind::Link {
                target: readlinkat(directory, name, Vec::new())
                    .map_err(Error::on(&path, "read"))?
                    .into_bytes(),
            },
            FileType::Directory => Kind::Directory,
            other => {
                self.skipped.push(format!("{path}: is a {other:?} and not sent"));
                return Ok(());
            }
        };
        let is_directory = kind == Kind::Directory;
        let entry = Entry {
            path: path.clone(),
            kind,
            mode: stat.st_mode & 0o777,
            modified: modified(stat),
        };
        if self.entries.len() >= u32::MAX as usize {
            return Err(Error::Refusing("more than 4294967295 files".to_owned()));
        }
        self.entries.push((root, entry));
        if !is_directory {
            return Ok(());
        }
        let below = beneath::open_directory(directory, Some(name))
            .map_err(explain)
            .map_err(Error::on(&path, "open"))?;
        for name in names(&below).map_err(Error::on(&path, "list"))? {
            let stat = match statat(&below, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed since it was listed.
                Err(Errno::NOENT) => continue,
                other => other.map_err(Error::on(&path, "look at the contents of"))?,
            };
            let path = path.join(&name)?;
            self.add(root, below.as_fd(), &name, path, &stat)?;
        }
        Ok(())
    }

    /// The entries to be sent.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// Returns one entry.
    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize).map(|(_, entry)| entry)
    }

    /// What was skipped, and why.
    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self, number: u32) -> io::Result<OsHandle> {
        let (root, entry) = &self.entries[number as usize];
        let root = &self.roots[*root as usize];
        let path = [root.name.as_slice(), &entry.path.as_bytes()[root.sent_as..]].concat();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = beneath::open(&root.directory, &path, flags, Mode::empty()).map_err(explain)?;
        Ok(OsHandle::from(file))
    }

    /// Whether an open file has not changed since it was found.
    pub(crate) fn is_unchanged(&self, number: u32, file: &OsHandle) -> io::Result<bool> {
        let entry = &self.entries[number as usize].1;
        let stat = fstat(file)?;
        Ok(FileType::from_raw_mode(stat.st_mode).is_file()
            && u64::try_from(stat.st_size) == Ok(entry.size_bytes())
            && modified(&stat) == entry.modified)
    }
}

fn modified(stat: &Stat) -> Time {
    Time {
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0).min(999_999_999),
    }
}

/// The names in a directory, sorted.
fn names(directory: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
