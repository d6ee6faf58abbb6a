//! Merges sorted runs into one sequence of groups and items.
//!
//! ```text
//!   runs ─► the least object of all ─► its groups: weights and items added up
//!                                        └─ their items, by order key and then by run
//! ```
//!
//! Each run has its next item in its reader, and nothing is copied. Of elements whose order does not
//! matter all keys are the same, so a run is read as long as it has any of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use base::ObjectId;

use crate::error::Result;
use crate::order::Order;
use crate::run::{Group, Item, RunReader};
use crate::spill::Spill;

/// See the file's top.
pub(crate) struct Merge {
    readers: Vec<RunReader>,
    /// How many items of its group each run has not given out.
    left: Vec<u64>,
    /// The next group of each run that has one.
    next: BinaryHeap<Reverse<NextGroup>>,
    /// The next item of each run that has one in the current group: by order key, then run.
    queue: BinaryHeap<Reverse<(Option<Order>, usize)>>,
    /// Whether the first of the queue was given out.
    is_given: bool,
}

/// A group of a run, by object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextGroup {
    object: ObjectId,
    run: usize,
    weight: u64,
    items: u64,
}

impl Merge {
    /// Opens runs, and reads a frame of each.
    pub(crate) fn new(runs: impl IntoIterator<Item = Range<u64>>, spill: &Spill) -> Result<Self> {
        let readers: Vec<RunReader> = runs.into_iter().map(RunReader::new).collect();
        let left = vec![0; readers.len()];
        let (next, queue) = (BinaryHeap::new(), BinaryHeap::new());
        let mut merge = Self { readers, left, next, queue, is_given: false };
        (0..merge.readers.len()).try_for_each(|run| merge.read_group(run, spill))?;
        Ok(merge)
    }

    fn read_group(&mut self, run: usize, spill: &Spill) -> Result<()> {
        if let Some(Group { object, weight, items }) = self.readers[run].group(spill)? {
            self.next.push(Reverse(NextGroup { object, run, weight, items }));
        }
        Ok(())
    }

    /// Begins the next group; `None` when all were given out.
    ///
    /// REQUIRES: all items of the group before were given out.
    pub(crate) fn group(&mut self, spill: &Spill) -> Result<Option<Group>> {
        debug_assert!(self.queue.is_empty(), "items of a group were left");
        let Some(Reverse(NextGroup { object, .. })) = self.next.peek() else { return Ok(None) };
        let mut group = Group { object: *object, weight: 0, items: 0 };
        while let Some(first) = self.next.peek_mut()
            && first.0.object == group.object
        {
            let Reverse(NextGroup { run, weight, items, .. }) = PeekMut::pop(first);
            group.weight = group.weight.saturating_add(weight);
            group.items += items;
            self.left[run] = items - 1;
            self.readers[run].advance(spill)?;
            self.queue.push(Reverse((self.readers[run].order(), run)));
        }
        Ok(Some(group))
    }

    /// Returns the next item of the group.
    pub(crate) fn item(&mut self, spill: &Spill) -> Result<Option<Item<'_>>> {
        if std::mem::take(&mut self.is_given) {
            self.pass_first(spill)?;
        }
        let Some(Reverse((_, run))) = self.queue.peek() else { return Ok(None) };
        self.is_given = true;
        Ok(Some(self.readers[*run].item()))
    }

    /// Reads what is behind the first of the queue in its run.
    fn pass_first(&mut self, spill: &Spill) -> Result<()> {
        let Some(mut first) = self.queue.peek_mut() else { return Ok(()) };
        let run = first.0.1;
        if self.left[run] == 0 {
            PeekMut::pop(first);
            return self.read_group(run, spill);
        }
        self.left[run] -= 1;
        self.readers[run].advance(spill)?;
        first.0.0 = self.readers[run].order();
        Ok(())
    }
}
