//! Loaded data on disk: created once per format, copied for each run.

use std::fs;
use std::path::{Path, PathBuf};

use super::Arguments;
use crate::engine::Store;
use crate::error::{Error, Result};

/// A file next to the data, written when they are complete.
const COMPLETE: &str = "complete";

pub(super) struct Dataset {
    loaded: PathBuf,
    run: PathBuf,
    is_kept: bool,
}

impl Dataset {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let Arguments { dir, engine, warehouses, seed, tiny, .. } = arguments;
        let &Store { name, format, .. } = engine.store();
        let size = if *tiny { "tiny" } else { "w" };
        let loaded = format!("loaded-{}-{size}{warehouses}-seed{seed}", format.unwrap_or(name));
        let run = dir.join(format!("run-{name}"));
        Self { loaded: dir.join(loaded), run, is_kept: format.is_some() }
    }

    /// The directory of the run.
    pub(super) fn run_dir(&self) -> PathBuf {
        self.run.clone()
    }

    fn data(&self) -> PathBuf {
        self.loaded.join("data")
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.is_kept && self.loaded.join(COMPLETE).exists()
    }

    /// Creates an empty directory to load into, removing the rest of an earlier attempt.
    pub(super) fn begin_loading(&self) -> Result<PathBuf> {
        remove(&self.loaded)?;
        let data = self.data();
        fs::create_dir_all(&data).map_err(Error::file(&data))?;
        Ok(data)
    }

    pub(super) fn end_loading(&self) -> Result<()> {
        let path = self.loaded.join(COMPLETE);
        fs::write(&path, b"").map_err(Error::file(&path))
    }

    /// Creates the directory of a run, with a copy of the data.
    pub(super) fn copy(&self) -> Result<PathBuf> {
        remove(&self.run)?;
        fs::create_dir_all(&self.run).map_err(Error::file(&self.run))?;
        copy_files(&self.data(), &self.run).map_err(Error::file(&self.run))?;
        Ok(self.run.clone())
    }

    pub(super) fn remove_copy(&self) -> Result<()> {
        remove(&self.run)
    }
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(dir)(error)),
        _ => Ok(()),
    }
}

/// Copies files, and syncs them so that their writeback is not part of the measurement.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}
