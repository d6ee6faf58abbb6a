//! Merges sorted runs, object by object.
//!
//! ```text
//!   runs ─► the least object of all ─► its runs: weights added up, its root found
//!                                        ├─ a root: then the elements of its runs, by their order keys
//!                                        └─ no root: passed over
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::ObjectId;

use crate::error::{Error, Result};
use crate::run::{Group, Run, RunReader};
use crate::spill::{FRAME_BYTES, Spill};

/// What comes out, an object after the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Merged<'a> {
    /// The root of an object that has so many elements.
    Root { object: ObjectId, payload: &'a [u8], weight: u64 },
    /// An element of it, with its order key.
    Element { order: u64, payload: &'a [u8] },
    /// All of its elements have come.
    End,
    /// Elements without a root were passed over: so many items.
    Orphans(u64),
}

/// See the file's top.
pub(crate) struct Merge {
    spill: Option<Spill>,
    readers: Vec<RunReader>,
    /// The next group of each run that has one: by object, then run.
    next: BinaryHeap<Reverse<(ObjectId, usize)>>,
    groups: Vec<Group>,
    current: Option<Current>,
}

/// The object that is merged.
struct Current {
    object: ObjectId,
    /// Its runs, with the number of items that are left in each.
    members: Vec<(usize, u64)>,
    /// The next item of each member that has one: by order key, then member.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    /// The items that the queue refers to, read ahead.
    ahead: Vec<Vec<u8>>,
}

impl Merged<'_> {
    /// How much is passed on, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Root { payload, .. } | Self::Element { payload, .. } => payload.len(),
            Self::End | Self::Orphans(_) => 0,
        }
    }
}

impl Merge {
    /// How much was spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.as_ref().map_or(0, Spill::len)
    }

    pub(crate) fn new(spill: Option<Spill>, runs: Vec<Run>) -> Result<Self> {
        let readers: Vec<RunReader> = runs.into_iter().map(RunReader::new).collect();
        let nothing = Group { object: ObjectId::NONE, weight: 0, items: 0 };
        let (groups, next) = (vec![nothing; readers.len()], BinaryHeap::new());
        let mut merge = Self { spill, readers, next, groups, current: None };
        (0..merge.readers.len()).try_for_each(|run| merge.advance(run))?;
        Ok(merge)
    }

    /// Reads the next group of a run.
    fn advance(&mut self, run: usize) -> Result<()> {
        if let Some(group) = self.readers[run].group(self.spill.as_ref())? {
            self.groups[run] = group;
            self.next.push(Reverse((group.object, run)));
        }
        Ok(())
    }

    /// Tells what comes next. Whether there was anything.
    pub(crate) fn step(&mut self, visit: &mut dyn FnMut(Merged<'_>) -> Result<()>) -> Result<bool> {
        match self.current.take() {
            Some(current) => self.go_on(current, visit).map(|()| true),
            None => self.begin(visit),
        }
    }

    /// Begins the next object.
    fn begin(&mut self, visit: &mut dyn FnMut(Merged<'_>) -> Result<()>) -> Result<bool> {
        let Some(&Reverse((object, _))) = self.next.peek() else { return Ok(false) };
        let (mut members, mut weight) = (Vec::new(), 0_u64);
        while let Some(&Reverse((same, run))) = self.next.peek()
            && same == object
        {
            self.next.pop();
            weight = weight.saturating_add(self.groups[run].weight);
            members.push((run, self.groups[run].items));
        }
        let ahead = vec![Vec::new(); members.len()];
        let mut current = Current { object, members, queue: BinaryHeap::new(), ahead };
        // A root is the first of its run.
        let mut rooted = None;
        for member in 0..current.members.len() {
            let (run, left) = &mut current.members[member];
            *left -= 1;
            let item = self.readers[*run].item(self.spill.as_ref())?;
            match item.order {
                None if rooted.is_some() => {
                    return Err(Error::Object { object, what: "two roots" });
                }
                None => {
                    rooted = Some(member);
                    visit(Merged::Root { object, payload: item.payload, weight })?;
                }
                Some(key) => {
                    current.ahead[member].extend_from_slice(item.payload);
                    current.queue.push(Reverse((key, member)));
                }
            }
        }
        match rooted {
            Some(member) => {
                self.read_ahead(&mut current, member)?;
                self.current = Some(current);
            }
            None => self.pass_over(&current, visit)?,
        }
        Ok(true)
    }

    /// Reads the next item of a member into its place.
    fn read_ahead(&mut self, current: &mut Current, member: usize) -> Result<()> {
        let (run, left) = &mut current.members[member];
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let item = self.readers[*run].item(self.spill.as_ref())?;
        let Some(key) = item.order else {
            return Err(Error::Object { object: current.object, what: "two roots" });
        };
        let ahead = &mut current.ahead[member];
        ahead.clear();
        ahead.shrink_to(FRAME_BYTES);
        ahead.extend_from_slice(item.payload);
        current.queue.push(Reverse((key, member)));
        Ok(())
    }

    /// Tells the next element, or the end.
    fn go_on(
        &mut self,
        mut current: Current,
        visit: &mut dyn FnMut(Merged<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(Reverse((order, member))) = current.queue.pop() {
            visit(Merged::Element { order, payload: &current.ahead[member] })?;
            self.read_ahead(&mut current, member)?;
            self.current = Some(current);
            return Ok(());
        }
        visit(Merged::End)?;
        current.members.iter().try_for_each(|(run, _)| self.advance(*run))
    }

    /// Reads what is left of an object that has no root.
    fn pass_over(
        &mut self,
        current: &Current,
        visit: &mut dyn FnMut(Merged<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut count = current.queue.len() as u64;
        for (run, left) in &current.members {
            count += left;
            for _ in 0..*left {
                self.readers[*run].item(self.spill.as_ref())?;
            }
            self.advance(*run)?;
        }
        visit(Merged::Orphans(count))
    }
}
