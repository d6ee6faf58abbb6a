//! What headers of objects say, remembered: an object never changes, and an archive that is thinned out is looked at every hour.

use std::collections::HashMap;

use redo::Id;

use crate::error::Result;
use crate::name::Name;
use crate::object::{Header, ObjectReader};
use crate::target::Target;

/// So many are remembered.
const COUNT_MAX: usize = 100_000;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Headers(HashMap<Name, Seen>);

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
        match self.0.get(&name) {
            Some(seen) => Ok(*seen),
            None => Ok(self.note(ObjectReader::open(target, database, name)?.header())),
        }
    }

    fn note(&mut self, header: &Header) -> Seen {
        if self.0.len() >= COUNT_MAX {
            self.0.clear();
        }
        let Header { name, time_min_ms, time_max_ms, bytes, .. } = *header;
        let seen = Seen { time_min_ms, time_max_ms, bytes };
        self.0.insert(name, seen);
        seen
    }
}
