//! An index of the log as a model has it: what was there at a cut that was durable.

use std::sync::Arc;

use base::{Lsn, ObjectId, RecordAddr};
use redo::{IndexBound, LiveRecords, StartPoint};

use super::model::Model;

/// The installed cut, and the next one, which waits until its block is durable.
#[derive(Debug, Clone)]
pub(crate) struct Indexed {
    pub(crate) cut: Lsn,
    pub(crate) model: Model,
    next: Option<(Lsn, Model)>,
}

impl Indexed {
    /// An index of nothing.
    pub(crate) fn new() -> Self {
        Self { cut: Lsn::ZERO, model: Model::default(), next: None }
    }

    /// Begins a cut behind block `lsn`, unless one waits.
    pub(crate) fn begin(&mut self, lsn: Lsn, model: &Model) {
        if self.next.is_none() && lsn > self.cut {
            self.next = Some((lsn, model.clone()));
        }
    }

    /// Installs the cut that waits, if it may be.
    pub(crate) fn install(&mut self, durable: Lsn, bound: &IndexBound) {
        if let Some((cut, model)) = self.next.take_if(|(cut, _)| *cut <= durable) {
            (self.cut, self.model) = (cut, model);
            bound.set(cut);
        }
    }

    /// What was not installed is forgotten by a start.
    pub(crate) fn forget_next(&mut self) {
        self.next = None;
    }

    pub(crate) fn point(&self) -> StartPoint {
        StartPoint { cut: self.cut, next_object: ObjectId(self.model.object_max + 1) }
    }
}

/// These addresses as the log wants them.
pub(crate) fn live_records(addresses: impl IntoIterator<Item = RecordAddr>) -> Arc<LiveRecords> {
    Arc::new(addresses.into_iter().collect())
}
