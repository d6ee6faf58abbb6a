//! Merges runs into fewer, until so many are left as can be read at a time.
//!
//! ```text
//!   run run run run run run run run run run      fan-in 4: at first 4, so that later merges are full
//!   └──── run ────┘ └───── run ───┘  run run  ─► Merge of the last 4
//! ```
//!
//! Runs are merged in the order of their making, so each item is written again at most once for each
//! level. What was put aside stays where it is. The spill file grows by what is written again.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::Result;
use crate::frames::READER_BYTES;
use crate::merge::Merge;
use crate::run::RunWriter;
use crate::spill::Spill;

/// The least number of runs that are merged at a time.
const FAN_IN_MIN: usize = 16;

/// See the file's top.
pub(crate) struct Levels {
    spill: Spill,
    runs: VecDeque<Range<u64>>,
    fan_in: usize,
    open: Option<Open>,
}

/// A merge that is not complete.
struct Open {
    merge: Merge,
    writer: RunWriter,
    /// Whether a group has items that have not come.
    is_in_group: bool,
}

impl Levels {
    /// Takes all runs of `spill`. Readers get `memory_bytes`.
    pub(crate) fn new(spill: Spill, runs: VecDeque<Range<u64>>, memory_bytes: usize) -> Self {
        let fan_in = (memory_bytes / READER_BYTES).max(FAN_IN_MIN);
        Self { spill, runs, fan_in, open: None }
    }

    /// How much was spilled, in bytes.
    pub(crate) const fn spilled_bytes(&self) -> u64 {
        self.spill.len()
    }

    /// Merges an item. Returns its bytes; `None` if the runs can be merged at a time.
    pub(crate) fn step(&mut self) -> Result<Option<usize>> {
        let Some(mut open) = self.open.take() else {
            let Some(count) = self.merged_at_first() else { return Ok(None) };
            let merge = Merge::new(self.runs.drain(..count), &self.spill)?;
            let writer = RunWriter::new(&self.spill);
            self.open = Some(Open { merge, writer, is_in_group: false });
            return Ok(Some(0));
        };
        let Open { merge, writer, is_in_group } = &mut open;
        let mut bytes = 0;
        if *is_in_group {
            match merge.item(&self.spill)? {
                Some(item) => {
                    bytes = item.payload.bytes();
                    writer.item(&item, &mut self.spill)?;
                }
                None => *is_in_group = false,
            }
        } else if let Some(group) = merge.group(&self.spill)? {
            writer.begin_group(&group, &mut self.spill)?;
            *is_in_group = true;
        } else {
            self.runs.push_back(open.writer.finish(&mut self.spill)?);
            return Ok(Some(0));
        }
        self.open = Some(open);
        Ok(Some(bytes))
    }

    /// Returns how many runs to merge into one; `None` if there are few enough.
    ///
    /// A merge of `n` runs leaves `n - 1` fewer. The first one takes only the surplus, so that all
    /// others can take as many as the fan-in.
    fn merged_at_first(&self) -> Option<usize> {
        let surplus = self.runs.len().checked_sub(self.fan_in).filter(|surplus| *surplus > 0)?;
        Some((surplus - 1) % (self.fan_in - 1) + 2)
    }

    /// Opens the runs that are left.
    pub(crate) fn finish(self) -> Result<(Merge, Spill)> {
        let merge = Merge::new(self.runs, &self.spill)?;
        Ok((merge, self.spill))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use base::ObjectId;
    use env::Disk;
    use env_sim::{Faults, SimDisk};

    use super::*;
    use crate::order::Order;
    use crate::run::{Group, Item, Payload};
    use crate::spill::SpillOptions;

    /// Runs of one item each, of few objects; the number of the run is its order key.
    fn levels(count: u64, memory_bytes: usize) -> Levels {
        let disk = SimDisk::new(1, Faults::default());
        let directory = PathBuf::from("/dumps");
        disk.create_dir_all(Path::new(&directory)).expect("it can");
        let options = SpillOptions { disk: Arc::new(disk), directory, memory_bytes, kept_bytes: 0 };
        let mut spill = Spill::create(&options).expect("it can");
        let runs = (0..count).map(|number| {
            let mut writer = RunWriter::new(&spill);
            let group = Group { object: ObjectId(1 + number % 3), weight: number, items: 1 };
            writer.begin_group(&group, &mut spill).expect("it can");
            let item = Item { order: Some(Order::of(number)), payload: Payload::Here(b"payload") };
            writer.item(&item, &mut spill).expect("it can");
            writer.finish(&mut spill).expect("it can")
        });
        let runs = runs.collect();
        Levels::new(spill, runs, memory_bytes)
    }

    #[test]
    fn as_many_runs_are_merged_as_memory_allows() {
        for (count, memory_bytes) in
            (0..70).chain([255, 256, 257, 271, 1000]).flat_map(|n| [(n, 1), (n, 40 * READER_BYTES)])
        {
            let mut levels = levels(count, memory_bytes);
            let (fan_in, mut merged) = (levels.fan_in, Vec::new());
            assert_eq!(fan_in, if memory_bytes == 1 { FAN_IN_MIN } else { 40 });
            let spilled_bytes = levels.spilled_bytes();
            loop {
                let next = levels.merged_at_first().filter(|_| levels.open.is_none());
                merged.extend(next);
                if levels.step().expect("it can").is_none() {
                    break;
                }
            }
            assert!(levels.runs.len() <= fan_in);
            let full = fan_in.min(usize::try_from(count).expect("few"));
            assert_eq!(levels.runs.len(), full, "all that can be read at a time are left");
            assert!(merged.iter().skip(1).all(|runs| *runs == fan_in), "{merged:?}");
            assert!(merged.iter().all(|runs| (2..=fan_in).contains(runs)), "{merged:?}");
            let passes = u64::from(count.max(1).ilog(fan_in as u64)) + 1;
            assert!(levels.spilled_bytes() <= spilled_bytes * passes, "{count}: {passes}");

            let (mut merge, spill) = levels.finish().expect("it can");
            let mut found = Vec::new();
            while let Some(group) = merge.group(&spill).expect("it can") {
                let (mut weight, mut items) = (0, 0);
                while let Some(item) = merge.item(&spill).expect("it can") {
                    let number = item.order.expect("there are no roots").major;
                    found.push((group.object.0, number));
                    (weight, items) = (weight + number, items + 1);
                }
                assert_eq!((group.weight, group.items), (weight, items));
            }
            let mut expected: Vec<_> = (0..count).map(|number| (1 + number % 3, number)).collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
