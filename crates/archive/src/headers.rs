//! What headers of objects say, remembered, and which were read to their ends: an object never changes, and an archive that is thinned out is looked
//! at every hour.

use std::collections::{HashMap, HashSet};

use redo::Id;

use crate::error::{Error, Result, TargetError};
use crate::name::Name;
use crate::object::{HEADER_BYTES, Header, ObjectReader};
use crate::restorer::check_records;
use crate::target::Target;

/// So many are remembered.
const COUNT_MAX: usize = 100_000;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Headers {
    seen: HashMap<Name, Seen>,
    read: HashSet<Name>,
}

/// What is remembered of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) time_min_ms: i64,
    pub(crate) time_max_ms: i64,
    pub(crate) bytes: u64,
}

impl Headers {
    /// What an object's header says.
    pub(crate) fn of(&mut self, target: &dyn Target, database: Id, name: Name) -> Result<Seen> {
        match self.seen.get(&name) {
            Some(seen) => Ok(*seen),
            None => Ok(self.note(ObjectReader::open(target, database, name)?.header())),
        }
    }

    fn note(&mut self, header: &Header) -> Seen {
        if self.seen.len() >= COUNT_MAX {
            self.seen.clear();
        }
        let Header { name, time_min_ms, time_max_ms, bytes, .. } = *header;
        let seen = Seen { time_min_ms, time_max_ms, bytes };
        self.seen.insert(name, seen);
        seen
    }

    /// Whether an object was read to its end.
    pub(crate) fn has_read(&self, name: &Name) -> bool {
        self.read.contains(name)
    }

    /// Reads an object to its end.
    ///
    /// # Errors
    /// When it is damaged, or the target cannot be used.
    pub(crate) fn read(&mut self, target: &dyn Target, database: Id, name: Name) -> Result<()> {
        read_to_end(target, database, name)?;
        if self.read.len() >= COUNT_MAX {
            self.read.clear();
        }
        self.read.insert(name);
        Ok(())
    }
}

/// Reads an object to its end, each record.
pub(crate) fn read_to_end(target: &dyn Target, database: Id, name: Name) -> Result<()> {
    let mut object = ObjectReader::open(target, database, name)?;
    while let Some(block) = object.next()? {
        check_records(name, &block)?;
    }
    Ok(())
}

/// The header of an object that has nothing else, and is in clear also where others are encrypted.
pub(crate) fn bare_header(target: &dyn Target, database: Id, name: Name) -> Result<Header> {
    let failed = || TargetError::of("read", name.to_string());
    let object = target.open(database, &name)?;
    let mut bytes = [0; HEADER_BYTES];
    let length = object.bytes().map_err(failed())?;
    if length < bytes.len() as u64 {
        return Err(Error::Damaged { name, at: length, what: "it is cut off" });
    }
    object.read_at(&mut bytes, 0).map_err(failed())?;
    let header = Header::decode(&bytes, database, name)?;
    if length > bytes.len() as u64 {
        return Err(Error::Damaged { name, at: HEADER_BYTES as u64, what: "it is too long" });
    }
    Ok(header)
}
