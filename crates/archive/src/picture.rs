//! What an archive has, by the names of its objects alone.
//!
//! ```text
//!   log    101───340 341───500      620────700 701──900      runs: no block is missing within one
//!   whole 100            │               650                 copies that are complete
//!         └── 100 … 500 ─┘               └── 650 … 900       ranges: each block in them can be restored
//!                        ┄ 501 … 649 ┄                       a gap
//! ```
//!
//! **Writers.** A writer begins behind everything that it finds when it has claimed the archive. What an earlier writer
//! puts there afterwards, not knowing yet, is not told to anyone as archived ([`crate::Archiver`] looks again behind each
//! object); and does not count: behind the first block of a writer, or its first copy, there is nothing of an earlier one.
//!
//! **A copy** is complete when it says so and all its objects are there: a later writer removes those of a copy that was not
//! complete when it looked.

use std::collections::BTreeMap;

use base::Lsn;
use redo::Id;

use crate::error::TargetResult;
use crate::name::{Fill, Folder, Name};
use crate::target::Target;

/// Blocks that can be restored, each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: Lsn,
    /// The last.
    pub last: Lsn,
    /// The copies in it, ascending, with how many objects each has.
    pub fills: Vec<(Fill, u32)>,
    /// The objects with the blocks behind the first, in order. Blocks may be in two of them.
    pub logs: Vec<Name>,
}

/// What a restore reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The copy.
    pub fill: Fill,
    /// How many objects it has.
    pub objects: u32,
    /// The objects with the blocks behind it, in order.
    pub logs: Vec<Name>,
}

/// See the file's top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// The writer that has claimed the archive last; 0 for none.
    pub writer: u64,
    /// What can be restored, ascending.
    pub ranges: Vec<Range>,
    /// The last block that is there: in an object of the log, or as a complete copy's.
    pub last: Option<Lsn>,
    /// The object of the log that ends with it.
    pub last_log: Option<Name>,
    /// Objects of the log whose blocks are all in others.
    pub(crate) covered: Vec<Name>,
    /// Copies that are complete, whether they count or not.
    wholes: Vec<Fill>,
}

/// Blocks without a gap.
struct Run {
    first: Lsn,
    last: Lsn,
    logs: Vec<Name>,
}

impl Picture {
    /// Looks at an archive.
    ///
    /// # Errors
    /// When the target cannot be used.
    pub fn read(target: &dyn Target, database: Id) -> TargetResult<Self> {
        // Claims first: an object of a writer that is not seen is behind everything.
        let mut names = target.list(database, Folder::Writer)?;
        for folder in [Folder::Log, Folder::Base, Folder::Whole] {
            names.extend(target.list(database, folder)?);
        }
        Ok(Self::of(&names))
    }

    /// What these objects are.
    #[must_use]
    pub fn of(names: &[Name]) -> Self {
        // Where each writer has begun, and where the first of the later ones has.
        let mut begins: BTreeMap<u64, (Lsn, Lsn)> = BTreeMap::new();
        for name in names {
            // One that goes on from nothing begins with a copy, and behind that.
            let (first, writer) = match name {
                Name::Log { first, writer, .. } => (*first, *writer),
                Name::Whole { fill, .. } => (fill.lsn.next(), fill.writer),
                _ => continue,
            };
            let (begin, _) = begins.entry(writer).or_insert((first, Lsn::MAX));
            *begin = first.min(*begin);
        }
        let mut later = Lsn::MAX;
        for (begin, behind) in begins.values_mut().rev() {
            *behind = later;
            later = later.min(*begin);
        }
        // An object counts if all later writers have begun behind it.
        let counts = |writer: u64, last: Lsn| ends_before(&begins, writer, last);
        let mut parts: BTreeMap<Fill, u32> = BTreeMap::new();
        for name in names {
            if let Name::Base { fill, .. } = name {
                *parts.entry(*fill).or_default() += 1;
            }
        }
        let (mut logs, mut fills, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            match *name {
                Name::Log { first, last, writer } if counts(writer, last) => {
                    logs.push((first, std::cmp::Reverse(last), *name));
                }
                Name::Whole { fill, objects }
                    if parts.get(&fill).copied().unwrap_or(0) == objects =>
                {
                    wholes.push(fill);
                    if counts(fill.writer, fill.lsn) {
                        fills.push((fill, objects));
                    }
                }
                _ => {}
            }
        }
        logs.sort_unstable();
        fills.sort_unstable();
        let logs: Vec<Name> = logs.into_iter().map(|(_, _, name)| name).collect();
        let (runs, covered) = runs_of(&logs);
        let last_run = runs.last();
        let last = last_run.map(|run| run.last).max(fills.last().map(|(fill, _)| fill.lsn));
        Self {
            writer: names.iter().map(Name::writer).max().unwrap_or(0),
            last,
            last_log: last_run
                .filter(|run| Some(run.last) == last)
                .and_then(|run| run.logs.last().copied()),
            ranges: ranges_of(&runs, &fills),
            covered,
            wholes,
        }
    }

    /// Whether the copy is complete.
    #[must_use]
    pub fn is_whole(&self, fill: &Fill) -> bool {
        self.wholes.contains(fill)
    }

    /// The range that a block is in.
    #[must_use]
    pub fn range_of(&self, lsn: Lsn) -> Option<&Range> {
        self.ranges.iter().find(|range| (range.first..=range.last).contains(&lsn))
    }

    /// What is to be read to restore the state after this block; `None` if that is not possible.
    #[must_use]
    pub fn chain(&self, lsn: Lsn) -> Option<Chain> {
        let range = self.range_of(lsn)?;
        let (fill, objects) = *range.fills.iter().rev().find(|(fill, _)| fill.lsn <= lsn)?;
        let is_needed = |name: &&Name| matches!(name, Name::Log { first, last, .. } if *last > fill.lsn && *first <= lsn);
        Some(Chain { fill, objects, logs: range.logs.iter().filter(is_needed).copied().collect() })
    }

    /// The nearest blocks to one that cannot be restored: before it, and behind it.
    #[must_use]
    pub fn nearest(&self, lsn: Lsn) -> (Option<Lsn>, Option<Lsn>) {
        let before = self.ranges.iter().map(|range| range.last).filter(|last| *last < lsn).max();
        let after = self.ranges.iter().map(|range| range.first).filter(|first| *first > lsn).min();
        (before, after)
    }
}

/// Whether `last` is before the block at which the first of the writers behind `writer` has begun. `later` says that of those
/// which have put something, and of those behind each.
fn ends_before(later: &BTreeMap<u64, (Lsn, Lsn)>, writer: u64, last: Lsn) -> bool {
    later.range(writer + 1..).next().is_none_or(|(_, (own, behind))| last < *own.min(behind))
}

/// Runs of objects that are sorted by their first blocks, the longest first.
///
/// Also returns the objects whose blocks are all in the one before.
fn runs_of(logs: &[Name]) -> (Vec<Run>, Vec<Name>) {
    let (mut runs, mut covered): (Vec<Run>, Vec<Name>) = (Vec::new(), Vec::new());
    for name in logs {
        let Name::Log { first, last, .. } = *name else { continue };
        match runs.last_mut() {
            Some(run) if first <= run.last.next() => {
                if last > run.last {
                    run.last = last;
                    run.logs.push(*name);
                } else {
                    covered.push(*name);
                }
            }
            _ => runs.push(Run { first, last, logs: vec![*name] }),
        }
    }
    (runs, covered)
}

fn ranges_of(runs: &[Run], fills: &[(Fill, u32)]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut at = runs.iter().peekable();
    for (fill, objects) in fills {
        while at.next_if(|run| run.last < fill.lsn).is_some() {}
        if let Some(range) = ranges.last_mut().filter(|range| fill.lsn <= range.last) {
            range.fills.push((*fill, *objects));
            continue;
        }
        let run = at.peek().filter(|run| run.first <= fill.lsn.next());
        let logs = run.map(|run| run.logs.clone()).unwrap_or_default();
        let last = run.map_or(fill.lsn, |run| run.last);
        ranges.push(Range { first: fill.lsn, last, fills: vec![(*fill, *objects)], logs });
    }
    for range in &mut ranges {
        let first = range.first;
        range.logs.retain(|name| matches!(name, Name::Log { last, .. } if *last > first));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u64, last: u64, writer: u64) -> Name {
        Name::Log { first: Lsn(first), last: Lsn(last), writer }
    }

    fn whole(lsn: u64, writer: u64) -> Name {
        Name::Whole { fill: Fill { lsn: Lsn(lsn), writer, number: 1 }, objects: 0 }
    }

    fn ranges(names: &[Name]) -> Vec<(u64, u64)> {
        Picture::of(names).ranges.iter().map(|range| (range.first.0, range.last.0)).collect()
    }

    /// A copy of a writer that goes on from nothing, and what an earlier one has put late.
    #[test]
    fn behind_the_copy_of_a_later_writer_nothing_of_an_earlier_one_counts() {
        let late = [log(1, 10, 1), log(11, 30, 1), whole(0, 1), whole(20, 2)];
        assert_eq!(ranges(&late), [(0, 10), (20, 20)]);
        let own = [log(1, 10, 1), log(11, 30, 1), whole(0, 1), whole(20, 2), log(21, 25, 2)];
        assert_eq!(ranges(&own), [(0, 10), (20, 25)]);
        let gone_on = [log(1, 10, 1), log(11, 30, 2), whole(0, 1), whole(20, 2)];
        assert_eq!(ranges(&gone_on), [(0, 30)]);
    }

    #[test]
    fn a_range_begins_with_a_copy_and_ends_where_a_block_is_missing() {
        let names = [
            log(101, 340, 1),
            log(341, 500, 1),
            log(620, 700, 1),
            log(701, 900, 1),
            whole(100, 1),
            whole(650, 1),
        ];
        assert_eq!(ranges(&names), [(100, 500), (650, 900)]);
        let picture = Picture::of(&names);
        assert_eq!(picture.nearest(Lsn(600)), (Some(Lsn(500)), Some(Lsn(650))));
        assert_eq!(picture.chain(Lsn(600)), None);
        assert_eq!(picture.chain(Lsn(340)).unwrap().logs, [log(101, 340, 1)]);
        assert_eq!(picture.chain(Lsn(100)).unwrap().logs, []);
        assert_eq!(picture.chain(Lsn(651)).unwrap().logs, [log(620, 700, 1)]);
        assert_eq!((picture.last, picture.last_log), (Some(Lsn(900)), Some(log(701, 900, 1))));
    }

    #[test]
    fn a_copy_alone_is_a_block_that_can_be_restored() {
        assert_eq!(ranges(&[whole(7, 1), log(9, 12, 1)]), [(7, 7)]);
        assert_eq!(ranges(&[whole(7, 1), log(8, 12, 1)]), [(7, 12)]);
        assert_eq!(ranges(&[whole(13, 1), log(8, 12, 1)]), [(13, 13)]);
        assert_eq!(ranges(&[whole(12, 1), log(8, 12, 1)]), [(12, 12)]);
        assert_eq!(Picture::of(&[whole(13, 1), log(8, 12, 1)]).last_log, None);
    }

    #[test]
    fn the_longest_object_of_those_that_begin_alike_counts() {
        let names = [log(1, 5, 1), log(1, 9, 1), log(10, 12, 1), whole(0, 1)];
        let picture = Picture::of(&names);
        assert_eq!(picture.chain(Lsn(12)).unwrap().logs, [log(1, 9, 1), log(10, 12, 1)]);
    }

    #[test]
    fn behind_the_first_block_of_a_writer_no_earlier_one_counts() {
        // Writer 1 has gone on after writer 2 had seen blocks up to 10.
        let names = [log(1, 10, 1), log(11, 30, 1), whole(0, 1), whole(20, 1), log(11, 15, 2)];
        // And what it had begun before.
        assert_eq!(
            ranges(&[log(1, 10, 1), whole(0, 1), log(11, 30, 1), whole(20, 2), log(21, 25, 2)]),
            [(0, 10), (20, 25)]
        );
        let picture = Picture::of(&names);
        assert_eq!(ranges(&names), [(0, 15)]);
        assert_eq!(picture.chain(Lsn(15)).unwrap().logs, [log(1, 10, 1), log(11, 15, 2)]);
        assert_eq!(picture.writer, 2);
    }

    #[test]
    fn a_copy_is_complete_when_all_its_objects_are_there() {
        let fill = Fill { lsn: Lsn(7), writer: 1, number: 1 };
        let [first, second] = [0, 1].map(|index| Name::Base { fill, index });
        let whole = Name::Whole { fill, objects: 2 };
        assert_eq!(ranges(&[first, second, whole]), [(7, 7)]);
        for names in [&[first, whole][..], &[whole], &[first, second]] {
            assert_eq!(ranges(names), [], "{names:?}");
        }
    }

    #[test]
    fn nothing_is_no_picture() {
        assert_eq!(Picture::of(&[]), Picture::default());
        assert_eq!(ranges(&[log(1, 5, 1)]), []);
    }
}
