//! The objects of a copy, one after the other, and what says that all are there.

use base::{Lsn, Record};
use redo::Id;

use crate::fill::Portion;
use crate::name::{Fill, Name};
use crate::object::{Builder, Header};

/// See the file's top.
pub(crate) struct Parts {
    database: Id,
    fill: Fill,
    /// What is put together.
    builder: Option<Builder>,
    /// How many objects were made, and what is in them, together.
    objects: u32,
    total: Header,
}

impl Parts {
    pub(crate) const fn new(database: Id, fill: Fill) -> Self {
        let total = Header::new(database, Name::Whole { fill, objects: 0 });
        Self { database, fill, builder: None, objects: 0, total }
    }

    pub(crate) const fn fill(&self) -> Fill {
        self.fill
    }

    /// The objects that were made so far.
    pub(crate) fn begun(&self) -> impl Iterator<Item = Name> + use<> {
        let fill = self.fill;
        (0..self.objects).map(move |index| Name::Base { fill, index })
    }

    /// Adds what was valid of a block, by its number and its time.
    pub(crate) fn put<'a>(&mut self, at: (Lsn, i64), records: impl Iterator<Item = Record<'a>>) {
        let (database, fill, index) = (self.database, self.fill, self.objects);
        let builder = self.builder.get_or_insert_with(|| Builder::base(database, fill, index));
        builder.put_records(at, records);
    }

    /// Whether the object that is put together is as long as that.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.bytes() >= bytes)
    }

    /// The next object; `None` if nothing was added since the last one.
    pub(crate) fn end_part(&mut self) -> Option<Portion> {
        let builder = self.builder.take().filter(|builder| !builder.is_empty())?;
        let (header, bytes) = builder.finish();
        self.objects += 1;
        self.total.blocks += header.blocks;
        self.total.records += header.records;
        self.total.bytes += header.bytes;
        self.total.kinds |= header.kinds;
        Some(Portion::new(header, bytes))
    }

    /// What says that all are there, of a copy whose block was the last one at `time_ms`, in Unix milliseconds.
    pub(crate) fn whole(&self, time_ms: i64) -> Portion {
        let name = Name::Whole { fill: self.fill, objects: self.objects };
        let header = Header { name, time_min_ms: time_ms, time_max_ms: time_ms, ..self.total };
        Portion::new(header, header.encode().to_vec())
    }
}
