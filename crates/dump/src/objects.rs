//! From sorted items to objects: the root, its elements, the end.

use base::ObjectId;

use crate::error::{Error, Result};
use crate::order::Order;
use crate::run::{Group, Item, Payload};
use crate::source::Source;
use crate::spill::Spill;

/// What comes out, an object after the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Merged<'a> {
    /// The root of an object that has so many elements.
    Root { object: ObjectId, payload: &'a [u8], weight: u64 },
    /// An element of it, with its order key.
    Element { order: Order, payload: &'a [u8] },
    /// All of its elements have come.
    End,
    /// An element without a root was passed over: so many bytes.
    Orphan(usize),
}

impl Merged<'_> {
    /// How much is passed on, or over, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Root { payload, .. } | Self::Element { payload, .. } => payload.len(),
            Self::Orphan(bytes) => *bytes,
            Self::End => 0,
        }
    }
}

/// A large item's buffer of more than this is not kept for the next one.
const KEPT_BYTES: usize = 1 << 20;

/// See the file's top.
pub(crate) struct Objects {
    source: Source,
    /// The item that is passed on, if it was put aside.
    large: Vec<u8>,
    state: State,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum State {
    /// An object.
    Between,
    /// The first item of one.
    First(Group),
    /// The others, or the end.
    Rooted(ObjectId),
    /// Those of an object without a root.
    Orphaned,
}

impl Objects {
    /// Takes sorted roots and elements.
    pub(crate) const fn of(source: Source) -> Self {
        Self { source, large: Vec::new(), state: State::Between }
    }

    /// How much was spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.source.spilled_bytes()
    }

    /// Tells what comes next, at most one item. Returns whether there was anything.
    pub(crate) fn step(&mut self, visit: &mut dyn FnMut(Merged<'_>) -> Result<()>) -> Result<bool> {
        if let State::Between = self.state {
            let Some(group) = self.source.group()? else { return Ok(false) };
            self.state = State::First(group);
        }
        let (state, merged) = match (self.state, self.source.item()?) {
            (State::Between, _) | (State::First(_), None) => {
                unreachable!("a group was begun, and has items")
            }
            (State::First(group), Some((Item { order: None, payload }, spill))) => {
                let payload = resolve(payload, spill, &mut self.large)?;
                let Group { object, weight, .. } = group;
                (State::Rooted(object), Merged::Root { object, payload, weight })
            }
            (State::First(_) | State::Orphaned, Some((item, _))) => {
                (State::Orphaned, Merged::Orphan(item.payload.bytes()))
            }
            (State::Rooted(object), Some((Item { order, payload }, spill))) => {
                let what = "two roots";
                let order = order.ok_or(Error::Object { object, what })?;
                let payload = resolve(payload, spill, &mut self.large)?;
                (State::Rooted(object), Merged::Element { order, payload })
            }
            (State::Rooted(_), None) => (State::Between, Merged::End),
            (State::Orphaned, None) => {
                self.state = State::Between;
                return Ok(true);
            }
        };
        visit(merged)?;
        self.state = state;
        if self.large.capacity() > KEPT_BYTES {
            self.large = Vec::new();
        }
        Ok(true)
    }
}

/// Returns the bytes of an item, which are read into `large` if they were put aside.
pub(crate) fn resolve<'a>(
    payload: Payload<'a>,
    spill: Option<&Spill>,
    large: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    match payload {
        Payload::Here(bytes) => Ok(bytes),
        Payload::Aside(aside) => {
            spill.expect("it was put aside there").read_aside(aside, large)?;
            Ok(large)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use env::Disk;
    use env_sim::{Faults, SimDisk};

    use super::*;
    use crate::sorter::Sorter;
    use crate::source::Sorted;
    use crate::spill::SpillOptions;

    /// One large item is in memory at a time, from whichever runs they come.
    #[test]
    fn a_large_item_is_let_go_before_the_next() {
        let disk = SimDisk::new(1, Faults::default());
        let directory = PathBuf::from("/dumps");
        disk.create_dir_all(&directory).expect("it can");
        let options =
            SpillOptions { disk: Arc::new(disk), directory, memory_bytes: 1, kept_bytes: 0 };
        let mut sorter = Sorter::new(options);
        let long = vec![7; KEPT_BYTES + 1];
        sorter.push(ObjectId(1), None, 0, &[b"root"]).expect("it can");
        for order in 0..8 {
            sorter.push(ObjectId(1), Some(Order::of(order)), 1, &[&long]).expect("it can");
        }
        let sorted = sorter.finish().expect("it can");
        assert!(matches!(sorted, Sorted::InRuns(_)), "there are nine runs");
        let mut objects = Objects::of(sorted.into_source().expect("it can"));
        let mut large = 0;
        let mut visit = |merged: Merged<'_>| {
            if let Merged::Element { payload, .. } = merged {
                assert!(payload == long);
                large += 1;
            }
            Ok(())
        };
        while objects.step(&mut visit).expect("it can") {
            assert_eq!(objects.large.capacity(), 0);
        }
        assert_eq!(large, 8);
    }
}
