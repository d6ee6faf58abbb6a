//! Damage that readers of an index find, on its way to what writes it.

use std::sync::Arc;

use base::Mutex;
use env::FileError;

use crate::error::{Error, Result};
use crate::run::Run;

/// The first damage that any reader has found. A clone is the same one.
///
/// Readers may have runs that are replaced, or of an index before it was begun anew: what they find there is of no
/// interest any more, see [`Damage::confirm`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Damage(Arc<Mutex<Option<FileError>>>);

impl Damage {
    /// Notes damage, if that is what has happened.
    pub(crate) fn watch<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::File(FileError::Corrupt { path, offset, what, remedy })) = &result {
            self.0.lock().get_or_insert_with(|| {
                let (path, offset, what) = (path.clone(), *offset, what.clone());
                FileError::Corrupt { path, offset, what, remedy }
            });
        }
        result
    }

    /// What was found, once, if one of these runs has it and is still so when it is read again: a read that
    /// went wrong once is no reason to build an index anew.
    ///
    /// # Errors
    /// The error of the disk; it is looked for again the next time.
    pub(crate) fn confirm(&self, runs: &[Arc<Run>]) -> Result<Option<Error>> {
        let Some(found) = self.0.lock().take() else { return Ok(None) };
        let FileError::Corrupt { path, offset, .. } = &found else { return Ok(None) };
        let Some(run) = runs.iter().find(|run| run.path == *path) else { return Ok(None) };
        match run.check_at(*offset) {
            Ok(()) => Ok(None),
            Err(error) if error.is_corrupt() => Ok(Some(error)),
            Err(error) => {
                self.0.lock().get_or_insert(found);
                Err(error)
            }
        }
    }
}
