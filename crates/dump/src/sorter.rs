//! Sorts roots and elements by object, in memory and, where that is not enough, in runs of a spill file.
//!
//! ```text
//!   push ─► arena, slots ──full──► sorted ─► a run of the spill file
//!                └──────────────── end ────► the last run, in memory ─► Merge of all runs
//! ```

use base::{ObjectId, varint};

use crate::error::Result;
use crate::merge::Merge;
use crate::run::{Item, Run, RunWriter};
use crate::spill::{Spill, SpillOptions};

/// An item in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    object: ObjectId,
    /// A root is first, with `None`; then by their order key.
    order: Option<u64>,
    at: usize,
}

/// See the file's top.
pub(crate) struct Sorter {
    options: SpillOptions,
    slots: Vec<Slot>,
    arena: Vec<u8>,
    spill: Option<Spill>,
    runs: Vec<Run>,
}

impl Sorter {
    pub(crate) const fn new(options: SpillOptions) -> Self {
        Self { options, slots: Vec::new(), arena: Vec::new(), spill: None, runs: Vec::new() }
    }

    /// Takes an item. `order` is `None` for a root, otherwise the place of the element in its object, if that
    /// matters; `weight` is how many elements it is; `parts` are its bytes.
    pub(crate) fn push(
        &mut self,
        object: ObjectId,
        order: Option<u64>,
        weight: u64,
        parts: &[&[u8]],
    ) -> Result<()> {
        let at = self.arena.len();
        self.slots.push(Slot { object, order, at });
        varint::put(&mut self.arena, weight);
        varint::put(&mut self.arena, parts.iter().map(|part| part.len() as u64).sum());
        parts.iter().for_each(|part| self.arena.extend_from_slice(part));
        let used_bytes = self.arena.len() + self.slots.len() * size_of::<Slot>();
        if used_bytes >= self.options.memory_bytes { self.spill() } else { Ok(()) }
    }

    /// How much has been spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.as_ref().map_or(0, Spill::len)
    }

    /// All has come.
    pub(crate) fn finish(mut self) -> Result<Merge> {
        if self.spill.is_some() {
            self.spill()?;
        } else {
            let mut bytes = Vec::new();
            self.write_run(&mut RunWriter::to_memory(&mut bytes))?;
            self.runs.push(Run::InMemory(bytes));
        }
        (self.arena, self.slots) = (Vec::new(), Vec::new());
        if let Some(spill) = &mut self.spill {
            spill.flush()?;
        }
        Merge::new(self.spill, self.runs)
    }

    /// Writes what is in memory as a run of the spill file.
    fn spill(&mut self) -> Result<()> {
        let mut spill = match self.spill.take() {
            Some(spill) => spill,
            None => Spill::create(&self.options)?,
        };
        let from = spill.len();
        let written = self.write_run(&mut RunWriter::to_file(&mut spill));
        self.runs.push(Run::InFile(from..spill.len()));
        self.spill = Some(spill);
        self.arena.clear();
        self.slots.clear();
        written
    }

    fn write_run(&mut self, writer: &mut RunWriter<'_>) -> Result<()> {
        self.slots.sort_unstable();
        let items = self.slots.iter().map(|slot| {
            let mut bytes = &self.arena[slot.at..];
            let weight = varint::take(&mut bytes).expect("it was put there");
            let payload = varint::take_bytes(&mut bytes).expect("it was put there");
            (slot.object, weight, Item { order: slot.order, payload })
        });
        let items: Vec<_> = items.collect();
        for group in items.chunk_by(|(a, ..), (b, ..)| a == b) {
            let weight = group.iter().map(|(_, weight, _)| weight).sum();
            writer.begin_group(group[0].0, weight, group.len() as u64)?;
            for (.., item) in group {
                writer.item(item)?;
            }
        }
        writer.finish()
    }
}
