//! A log that no server has open, read in order by a tool: nothing is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, ObjectId};
use env::Disk;

use crate::error::Result;
use crate::format::groups::GROUP_BYTES;
use crate::format::manifest::Manifest;
use crate::id::Id;
use crate::inspect::verify::open_catalog;
use crate::read::catalog::Catalog;
use crate::recover::behind::{KnownBefore, StartPoint};
use crate::recover::replay::{Progress, Reading, Replay};

/// See the file's top.
pub struct StoredLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    catalog: Catalog,
    manifest: Manifest,
}

impl StoredLog {
    /// Looks at the log in `dir`; `None` if there is none. `devices` as in [`crate::Options::devices`]; empty for
    /// those that the manifest names.
    ///
    /// # Errors
    /// When a server uses it, it is damaged, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, devices: &[PathBuf]) -> Result<Option<Self>> {
        let catalog = open_catalog(&*disk, dir, devices)?;
        let Some(manifest) = catalog.manifest.clone() else { return Ok(None) };
        Ok(Some(Self { disk, dir: dir.to_owned(), catalog, manifest }))
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> Id {
        self.manifest.database
    }

    /// The seed of the keyspace's hashes.
    #[must_use]
    pub const fn hash_seed(&self) -> [u8; 16] {
        self.manifest.hash_seed
    }

    /// See [`crate::Recovery::horizon`].
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.catalog.horizon()
    }

    /// Reads all of it in order, as a start does that knows that it was `durable` up to there. Returns the last
    /// block that such a start would keep.
    ///
    /// # Errors
    /// When it is damaged or cannot be read, or `replay` rejects a record.
    pub fn read(
        &self,
        durable: Lsn,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Lsn> {
        let point = StartPoint { cut: Lsn::ZERO, next_object: ObjectId::NONE.next() };
        let reading = Reading {
            disk: &self.disk,
            dir: &self.dir,
            catalog: &self.catalog,
            is_parallel: false,
            group_bytes: GROUP_BYTES,
            before: KnownBefore { durable, point },
        };
        Ok(reading.run(replay, progress)?.last_lsn)
    }
}
