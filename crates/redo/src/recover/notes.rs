//! What a start learns from notes that the manifest does not have yet.

use std::collections::VecDeque;

use base::{Lsn, Note};

use crate::compact::window::POINTS_MAX;
use crate::format::manifest::{HistoryPoint, Manifest};
use crate::format::registry::Registry;

/// Notes as they were met, as far as they are of use.
#[derive(Debug, Default)]
pub(crate) struct FoundNotes {
    registry: Registry,
    /// The last block with a command that the manifest has.
    known: Lsn,
    /// Blocks behind which databases were emptied or exchanged. Ascending.
    points: VecDeque<HistoryPoint>,
}

impl FoundNotes {
    pub(crate) fn new(manifest: Option<&Manifest>) -> Self {
        let registry = manifest.map(|manifest| manifest.registry.clone()).unwrap_or_default();
        Self { known: registry.last_command(), registry, points: VecDeque::new() }
    }

    /// Takes a note of the block `lsn`; notes come in their order.
    pub(crate) fn take(&mut self, lsn: Lsn, value: &[u8]) {
        let Some(note) = Note::decode(value) else { return };
        if note.loses_data() {
            let before = Lsn(lsn.0.saturating_sub(1));
            if self.points.back().is_none_or(|last| last.lsn < before) {
                self.points.push_back(HistoryPoint { lsn: before, time_ms: note.time_ms });
            }
            if self.points.len() > POINTS_MAX {
                self.points.pop_front();
            }
        }
        self.registry.take(lsn, &note, self.known);
    }

    /// Writes into the manifest what it lacks.
    pub(crate) fn settle(&self, manifest: &mut Manifest) {
        manifest.registry = self.registry.clone();
        let known = manifest.history_points.last().map_or(Lsn::ZERO, |point| point.lsn);
        let floor = manifest.history_floor;
        let new = self.points.iter().filter(|point| point.lsn > known && point.lsn >= floor);
        manifest.history_points.extend(new);
        let surplus = manifest.history_points.len().saturating_sub(POINTS_MAX);
        manifest.history_points.drain(..surplus);
    }
}
