//! What is imported: the files, open for reading, in the order in which Redis loads them.

use std::io::Read;
use std::path::{Path, PathBuf};

use env::{Access, Disk, File, FileError, FileVersion};

use super::ImportError;
use super::manifest::{MANIFEST_BYTES_MAX, Manifest, SUFFIX, is_manifest};
use crate::file_bytes::Bytes;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A dump: keys that have expired are left out, and nothing follows it.
    Dump,
    /// Commands, perhaps behind a dump whose keys they may still change.
    Aof,
}

/// A file that is imported.
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    pub(super) bytes: u64,
    /// What it was when it was opened.
    version: FileVersion,
    file: Box<dyn File>,
}

impl SourceFile {
    /// Reads it from its beginning up to `end`.
    pub(super) fn read_to(&self, end: u64) -> Bytes<'_> {
        self.file.advise_sequential();
        Bytes::new(&*self.file, end)
    }

    /// Whether it begins as a dump does.
    pub(super) fn begins_as_dump(&self) -> Result<bool, ImportError> {
        let mut magic = [0; 5];
        let mut source = self.read_to(self.bytes);
        let mut filled = 0;
        while filled < magic.len() {
            match source.read(&mut magic[filled..]).map_err(FileError::io(&self.path, "read"))? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(matches!(&magic[..filled], b"REDIS" | b"VALKE"))
    }
}

/// See the file's top.
pub struct Source {
    path: PathBuf,
    pub(super) files: Vec<SourceFile>,
    /// The manifest that names them, if there is one.
    manifest: Option<SourceFile>,
}

impl Source {
    /// Opens what `path` is: an RDB file, an AOF, the manifest of an AOF directory, or that directory.
    ///
    /// # Errors
    /// When it is none of these, or a file is missing or cannot be opened.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, ImportError> {
        let no_source = |what: String| ImportError::NoSource { path: path.to_owned(), what };
        if let Ok(names) = disk.list(path) {
            let manifests: Vec<_> =
                names.iter().filter(|name| name.to_str().is_some_and(is_manifest)).collect();
            return match manifests[..] {
                [name] => Self::open_manifest(disk, path, &path.join(name)),
                [] => Err(no_source(
                    "is a directory without the manifest of an AOF (NAME.aof.manifest); give an RDB file, an AOF, \
                     or the directory appendonlydir"
                        .to_owned(),
                )),
                _ => Err(no_source("has several manifests; give one of them".to_owned())),
            };
        }
        if path.to_str().is_some_and(|path| path.ends_with(SUFFIX)) {
            return Self::open_manifest(disk, path, path);
        }
        // What begins as a dump may be one that commands follow, unless its name says that it is not.
        let is_dump = path.to_str().is_some_and(|path| path.ends_with(".rdb"));
        Self::open_file(disk, path, if is_dump { Form::Dump } else { Form::Aof })
    }

    /// Opens the dump at `path`, whatever its name is.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_dump(disk: &dyn Disk, path: &Path) -> Result<Self, ImportError> {
        Self::open_file(disk, path, Form::Dump)
    }

    fn open_file(disk: &dyn Disk, path: &Path, form: Form) -> Result<Self, ImportError> {
        let file = open_file(disk, path, form)?;
        Ok(Self { path: path.to_owned(), files: vec![file], manifest: None })
    }

    fn open_manifest(disk: &dyn Disk, given: &Path, path: &Path) -> Result<Self, ImportError> {
        let file = open_file(disk, path, Form::Aof)?;
        let mut bytes = Vec::new();
        file.read_to(MANIFEST_BYTES_MAX.min(file.bytes))
            .read_to_end(&mut bytes)
            .map_err(FileError::io(path, "read"))?;
        let manifest = Manifest::parse(&bytes, path)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let files = manifest.files().map(|name| open_file(disk, &dir.join(name), Form::Aof));
        let files = files.collect::<Result<_, _>>()?;
        Ok(Self { path: given.to_owned(), files, manifest: Some(file) })
    }

    /// Checks that the files are still those that were opened, and have not been changed since: a server that
    /// goes on writing them has data by now that was not read.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn check_unchanged(&self, disk: &dyn Disk) -> Result<(), ImportError> {
        let changed =
            |file: &&SourceFile| !disk.version(&file.path).is_ok_and(|now| now == file.version);
        match self.manifest.iter().chain(&self.files).find(changed) {
            Some(file) => Err(ImportError::Changed { path: file.path.clone() }),
            None => Ok(()),
        }
    }

    /// What was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long its files are together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

fn open_file(disk: &dyn Disk, path: &Path, form: Form) -> Result<SourceFile, ImportError> {
    // Before it is opened: another file that takes its place meanwhile is noticed then.
    let version = disk.version(path).map_err(FileError::io(path, "open"))?;
    // To open a pipe would wait for what writes into it.
    if !version.is_regular {
        return Err(ImportError::NoSource {
            path: path.to_owned(),
            what: "is neither a file nor a directory: what is imported is read twice, and must not change in between; \
                   write it into a file first"
                .to_owned(),
        });
    }
    let file = disk.open(path, Access::Read).map_err(FileError::io(path, "open"))?;
    let bytes = file.len().map_err(FileError::io(path, "read"))?;
    if bytes != version.bytes {
        return Err(ImportError::Changed { path: path.to_owned() });
    }
    Ok(SourceFile { path: path.to_owned(), form, bytes, version, file })
}
