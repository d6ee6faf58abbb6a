//! Sorts roots and elements by object, in memory and, where that is not enough, in the spill file.
//!
//! ```text
//!   push ─┬─ up to a frame ─► Batch ──full──► a sorted run of the spill file ─► Levels ─► Merge
//!         │                     ▲ └── end, and there is no run ───────────────► the batch itself
//!         └─ larger: put aside ─┘ where it is
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use base::ObjectId;

use crate::batch::Batch;
use crate::error::Result;
use crate::levels::Levels;
use crate::order::Order;
use crate::run::RunWriter;
use crate::source::Sorted;
use crate::spill::{FRAME_BYTES, Spill, SpillOptions};

/// See the file's top.
pub(crate) struct Sorter {
    options: SpillOptions,
    batch: Batch,
    spill: Option<Spill>,
    runs: VecDeque<Range<u64>>,
}

impl Sorter {
    pub(crate) fn new(options: SpillOptions) -> Self {
        Self { options, batch: Batch::default(), spill: None, runs: VecDeque::new() }
    }

    /// Takes an item. `order` is `None` for a root, otherwise the place of the element in its
    /// object, if that matters; `weight` is how many elements it is; `parts` are its bytes.
    pub(crate) fn push(
        &mut self,
        object: ObjectId,
        order: Option<Order>,
        weight: u64,
        parts: &[&[u8]],
    ) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let is_aside = bytes > FRAME_BYTES;
        let kept_bytes = if is_aside { 0 } else { bytes };
        if self.batch.bytes_with(kept_bytes) > self.options.memory_bytes && !self.batch.is_empty() {
            self.write_run()?;
        }
        if is_aside {
            let aside = self.spill()?.put_aside(parts)?;
            self.batch.push_aside(object, order, weight, aside);
        } else {
            self.batch.push(object, order, weight, parts);
        }
        Ok(())
    }

    /// How much has been spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.as_ref().map_or(0, Spill::len)
    }

    /// All has come.
    pub(crate) fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.batch.sort();
            if let Some(spill) = &mut self.spill {
                spill.flush()?;
            }
            return Ok(Sorted::InMemory(self.batch, self.spill));
        }
        self.write_run()?;
        let spill = self.spill.expect("it has the runs");
        Ok(Sorted::InRuns(Levels::new(spill, self.runs, self.options.memory_bytes)))
    }

    /// The spill file.
    fn spill(&mut self) -> Result<&mut Spill> {
        if self.spill.is_none() {
            self.spill = Some(Spill::create(&self.options)?);
        }
        Ok(self.spill.as_mut().expect("it was created"))
    }

    /// Writes what is in memory as a run of the spill file.
    fn write_run(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort();
        let spill = self.spill()?;
        let mut writer = RunWriter::new(spill);
        while let Some(group) = batch.group() {
            writer.begin_group(&group, spill)?;
            while let Some(item) = batch.item() {
                writer.item(&item, spill)?;
            }
        }
        let run = writer.finish(spill)?;
        self.runs.push_back(run);
        batch.clear();
        self.batch = batch;
        Ok(())
    }
}
