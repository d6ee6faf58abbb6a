//! What a start has to import, found and locked before it makes anything.

use std::path::{Path, PathBuf};

use env::{Disk, Lock};

use crate::config::Config;
use crate::engine::OpenLogError;
use crate::error::ServeError;
use crate::import::at_start::{self, Appends, Found};
use crate::logger::Logger;

/// See the file's top.
pub(crate) struct ToImport {
    /// The files of Redis.
    pub(crate) path: PathBuf,
    /// That of the directory; `None` if there will be no log.
    pub(crate) lock: Option<Box<dyn Lock>>,
}

impl ToImport {
    /// Looks for what a start has to import: an empty database must not start next to data that its
    /// users take to be loaded. Removes what earlier imports have left.
    pub(crate) fn find(
        disk: &dyn Disk,
        directory: &Path,
        config: &Config,
        appends: Appends,
        logger: &Logger,
    ) -> Result<Option<Self>, ServeError> {
        match at_start::find(disk, directory, config, appends)? {
            Found::Nothing => at_start::tidy(disk, directory)?,
            Found::Files { path, newer } => {
                if let Some(newer) = newer {
                    logger.warning(&format!(
                        "WARNING: {} is loaded, and {} is NEWER and is not, as Redis does with this configuration \
                         (appendonly): make sure that this is the one with your data",
                        path.display(),
                        newer.display()
                    ));
                }
                let lock = config.is_yes("appendonly").then(|| redo::lock(disk, directory));
                let lock = lock.transpose().map_err(OpenLogError::from)?;
                return Ok(Some(Self { path, lock }));
            }
            Found::OtherFiles { path, what } => return Err(ServeError::RedisFiles { path, what }),
            Found::Both { aof, dump } => return Err(ServeError::TwoSources { aof, dump }),
            Found::Unfinished => {
                return Err(ServeError::UnfinishedImport { path: directory.to_owned() });
            }
        }
        Ok(None)
    }
}
