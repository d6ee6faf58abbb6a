//! Damage that readers of an index find, on its way to what writes it.

use std::sync::Arc;

use base::Mutex;
use env::FileError;

use crate::error::{Error, Result};

/// The first damage that any reader has found. A clone is the same one.
///
/// An index that is begun anew has another one: readers may have the one before for a while, and what they
/// find there is of no interest any more.
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

    /// What was found, once.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().take().map(Error::from)
    }
}
