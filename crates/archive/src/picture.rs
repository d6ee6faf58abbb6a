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
//! Where it has begun is in an object of its own, which stays when those blocks go.
//!
//! **A copy** is complete when it says so and all its objects are there: a later writer removes those of a copy that was not
//! complete when it looked.
//!
//! **Thinned out.** What a state needs of the blocks since another one takes the place of those blocks: from the one state it leads
//! to the other, and to none between.
//!
//! ```text
//!   whole 100   ── thin 100→340 ──► 340 ── thin 340→900 ──► 900 ── log 901, 902, 903 …
//! ```
//!
//! Each object is a truth of its own, so none takes back what another one says: what can be restored in any way can be.
//!
//! **Damaged.** What is marked as damaged leads nowhere, and is there all the same: a writer begins behind it, and its blocks are not said to be
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use base::Lsn;
use redo::Id;

use crate::error::TargetResult;
use crate::name::{Fill, Folder, Name};
use crate::piece::Piece;
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
    /// What leads to the first one, from what is before it; `None` if nothing does, and it is a copy.
    pub thinned: Option<Thinned>,
    /// The objects with the blocks behind the first, in order. Blocks may be in two of them.
    pub logs: Vec<Name>,
}

/// What leads from one state to a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinned {
    /// The block that it goes on from.
    pub from: Lsn,
    /// The block that it leads to.
    pub to: Lsn,
    /// Its objects, in order: each has its blocks, none is missing.
    pub parts: Vec<Name>,
}

/// What a restore reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The copy.
    pub fill: Fill,
    /// How many objects it has.
    pub objects: u32,
    /// The objects with the blocks behind it, in order, whole or thinned out.
    pub logs: Vec<Name>,
    /// Up to this block blocks may be missing, or not be whole: the copy's, or the last one that was thinned out.
    pub horizon: Lsn,
}

impl Chain {
    /// What says that the copy is complete.
    pub(crate) const fn whole(&self) -> Name {
        Name::Whole { fill: self.fill, objects: self.objects }
    }

    /// The objects with blocks behind this one.
    pub(crate) fn behind(&self, last: Lsn) -> impl Iterator<Item = &Name> {
        let ends_before = move |name: &&Name| match name {
            Name::Log { last: end, .. } | Name::Thin { last: end, .. } => *end <= last,
            _ => false,
        };
        self.logs.iter().skip_while(ends_before)
    }

    /// All of its objects, in the order in which they are read.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        let parts = (0..self.objects).map(|index| Name::Base { fill: self.fill, index });
        std::iter::once(self.whole()).chain(parts).chain(self.logs.iter().copied())
    }
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
    /// Everything thinned out that is complete, ascending by its ends.
    pub(crate) thinned: Vec<Thinned>,
    /// Objects of the log and complete copies that do not count, and never will.
    pub(crate) stale: Vec<Name>,
    /// The last writer that has begun, which counts for what there is of others.
    pub(crate) begun: u64,
    /// What leads nowhere, because it is damaged.
    pub(crate) damaged: BTreeSet<Piece>,
    /// Copies that are complete, whether they count or not.
    wholes: Vec<Fill>,
    /// Where each writer has begun, and where the first of the later ones has.
    begins: BTreeMap<u64, (Lsn, Lsn)>,
    /// The newest block of which there is what says that its copy is complete, and not all of that.
    lacking: Option<Lsn>,
    /// Complete copies of the last block and how many objects they have, damaged or not.
    last_copies: Vec<(Fill, u32)>,
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
        Ok(Self::of(&Self::names(target, database)?))
    }

    /// The same, as if nothing were marked as damaged: what may be read when there is no other way.
    ///
    /// # Errors
    /// When the target cannot be used.
    pub fn read_all(target: &dyn Target, database: Id) -> TargetResult<Self> {
        Ok(Self::of_all(&Self::names(target, database)?))
    }

    /// The objects that it is made of.
    pub(crate) fn names(target: &dyn Target, database: Id) -> TargetResult<Vec<Name>> {
        // Claims first: an object of a writer that is not seen is behind everything.
        let mut names = Vec::new();
        for folder in Self::FOLDERS {
            names.extend(target.list(database, folder)?);
        }
        Ok(names)
    }

    /// The folders that it is made of, in the order in which they are listed. Where writers have begun comes behind the
    /// claims: one that is seen to have begun has found what was there before.
    pub(crate) const FOLDERS: [Folder; 7] = [
        Folder::Writer,
        Folder::Log,
        Folder::Base,
        Folder::Whole,
        Folder::Thin,
        Folder::Begin,
        Folder::Damaged,
    ];

    /// What these objects are.
    #[must_use]
    pub fn of(names: &[Name]) -> Self {
        let damaged = names.iter().filter_map(|name| match name {
            Name::Damaged { piece } => Some(*piece),
            _ => None,
        });
        Self::without(names, damaged.collect())
    }

    /// What they are as if nothing were marked as damaged.
    pub(crate) fn of_all(names: &[Name]) -> Self {
        Self::without(names, BTreeSet::new())
    }

    fn without(names: &[Name], damaged: BTreeSet<Piece>) -> Self {
        let mut begins: BTreeMap<u64, (Lsn, Lsn)> = BTreeMap::new();
        for name in names {
            // One that goes on from nothing begins with a copy, and behind that.
            let (first, writer) = match name {
                Name::Log { first, writer, .. } => (*first, *writer),
                Name::Whole { fill, .. } => (fill.lsn.next(), fill.writer),
                Name::Begin { lsn, writer } => (*lsn, *writer),
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
        let (mut stale, mut lacking) = (Vec::new(), None);
        for name in names {
            match *name {
                Name::Log { first, last, writer } if counts(writer, last) => {
                    logs.push((first, std::cmp::Reverse(last), *name));
                }
                Name::Log { .. } => stale.push(*name),
                Name::Whole { fill, objects }
                    if parts.get(&fill).copied().unwrap_or(0) == objects =>
                {
                    wholes.push(fill);
                    if counts(fill.writer, fill.lsn) {
                        fills.push((fill, objects));
                    } else {
                        stale.push(*name);
                    }
                }
                Name::Whole { fill, .. } if counts(fill.writer, fill.lsn) => {
                    lacking = lacking.max(Some(fill.lsn));
                }
                _ => {}
            }
        }
        logs.sort_unstable();
        fills.sort_unstable();
        let mut logs: Vec<Name> = logs.into_iter().map(|(_, _, name)| name).collect();
        let (mut runs, mut covered) = runs_of(&logs);
        let last_run = runs.last();
        let last = last_run.map(|run| run.last).max(fills.last().map(|(fill, _)| fill.lsn));
        let last_log =
            last_run.filter(|run| Some(run.last) == last).and_then(|run| run.logs.last().copied());
        let is_last = |(fill, _): &&(Fill, u32)| Some(fill.lsn) == last;
        let last_copies = fills.iter().filter(is_last).copied().collect();
        let is_good = |name: &Name| Piece::of(name).is_none_or(|piece| !damaged.contains(&piece));
        if !damaged.is_empty() {
            logs.retain(is_good);
            fills.retain(|(fill, _)| !damaged.contains(&Piece::Copy { fill: *fill }));
            (runs, covered) = runs_of(&logs);
        }
        let thinned = thinned_of(names.iter().filter(|name| is_good(name)));
        Self {
            writer: names.iter().map(Name::writer).max().unwrap_or(0),
            begun: begins.last_key_value().map_or(0, |(writer, _)| *writer),
            last,
            last_log,
            ranges: ranges_of(&runs, &fills, &thinned),
            covered,
            thinned,
            stale,
            damaged,
            wholes,
            begins,
            lacking,
            last_copies,
        }
    }

    /// Whether what this writer has put of this block counts: all later ones have begun behind it.
    pub(crate) fn counts(&self, writer: u64, lsn: Lsn) -> bool {
        ends_before(&self.begins, writer, lsn)
    }

    /// The last writer that had begun by this block: what counts as its own of that block does.
    pub(crate) fn writer_of(&self, lsn: Lsn) -> Option<u64> {
        let had_begun = |(_, (begin, _)): &(&u64, &(Lsn, Lsn))| *begin <= lsn;
        self.begins.iter().rev().find(had_begun).map(|(writer, _)| *writer)
    }

    /// What says that the last block is there, damaged or not: of each, all of its objects. None can be left out of one,
    /// and one is enough.
    pub(crate) fn of_last(&self) -> Vec<Vec<Name>> {
        let copies = self.last_copies.iter().map(|(fill, objects)| {
            let parts = (0..*objects).map(|index| Name::Base { fill: *fill, index });
            std::iter::once(Name::Whole { fill: *fill, objects: *objects }).chain(parts).collect()
        });
        self.last_log.map(|name| vec![name]).into_iter().chain(copies).collect()
    }

    /// How many states can be restored.
    #[must_use]
    pub fn states(&self) -> u64 {
        self.ranges.iter().map(|range| range.last.0 - range.first.0 + 1).sum()
    }

    /// The last block that is there, or of which a copy lacks objects, if it cannot be restored: nothing leads to it, as far as is
    /// known.
    #[must_use]
    pub fn cut_off(&self) -> Option<Lsn> {
        let newest = self.ranges.last().map(|range| range.last);
        self.last.max(self.lacking).filter(|last| newest.is_none_or(|newest| newest < *last))
    }

    /// Whether the same blocks and copies are there.
    pub(crate) fn has_same_blocks(&self, other: &Self) -> bool {
        (&self.ranges, self.last, self.last_log) == (&other.ranges, other.last, other.last_log)
    }

    /// Whether the copy is complete.
    #[must_use]
    pub fn is_whole(&self, fill: &Fill) -> bool {
        self.wholes.contains(fill)
    }

    /// The first gap behind a block of a range: the last block before it. `None` if all that is there behind the block is told of.
    pub(crate) fn gap_behind(&self, lsn: Lsn) -> Option<Lsn> {
        let ends = self.ranges.partition_point(|range| range.last < lsn);
        // Where blocks were thinned out nothing is missing.
        let begins_anew = |range: &Range| range.thinned.is_none();
        let next = self.ranges.iter().skip(ends + 1).position(begins_anew);
        let at = next.map_or(self.ranges.len().checked_sub(1)?, |next| ends + next);
        let before = self.ranges[at].last;
        (self.last > Some(before)).then_some(before)
    }

    /// The range that a block is in.
    #[must_use]
    pub fn range_of(&self, lsn: Lsn) -> Option<&Range> {
        let at = self.ranges.partition_point(|range| range.last < lsn);
        self.ranges.get(at).filter(|range| range.first <= lsn)
    }

    /// What is to be read to restore the state after this block; `None` if that is not possible.
    #[must_use]
    pub fn chain(&self, lsn: Lsn) -> Option<Chain> {
        self.chain_behind(lsn, lsn.next())
    }

    /// The same from a copy of a block before `before`.
    pub(crate) fn chain_behind(&self, lsn: Lsn, before: Lsn) -> Option<Chain> {
        // From its end to its beginning, which is a copy.
        let (mut end, mut horizon, mut logs) = (lsn, Lsn::ZERO, Vec::new());
        loop {
            let range = self.range_of(end)?;
            let is_behind = |fill: &Fill| fill.lsn <= end && fill.lsn < before;
            let fill = range.fills.iter().rev().find(|(fill, _)| is_behind(fill));
            let begin = fill.map_or(range.first, |(fill, _)| fill.lsn);
            let is_needed = |name: &&Name| matches!(name, Name::Log { first, last, .. } if *last > begin && *first <= end);
            logs.extend(range.logs.iter().rev().filter(is_needed));
            if let Some((fill, objects)) = fill {
                logs.reverse();
                let horizon = horizon.max(fill.lsn);
                return Some(Chain { fill: *fill, objects: *objects, logs, horizon });
            }
            let thinned = range.thinned.as_ref()?;
            logs.extend(thinned.parts.iter().rev());
            horizon = horizon.max(thinned.to);
            end = thinned.from;
        }
    }

    /// The object that tells the newest time.
    pub(crate) fn newest(&self) -> Option<Name> {
        let newest = self.ranges.last()?;
        let copy = newest.fills.last().map(|(fill, objects)| (*fill, *objects));
        let copy = copy.map(|(fill, objects)| Name::Whole { fill, objects });
        newest.logs.last().copied().or(copy)
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

/// What was thinned out and is complete: one tidier has put objects with all its blocks.
fn thinned_of<'a>(names: impl Iterator<Item = &'a Name>) -> Vec<Thinned> {
    let mut all: BTreeMap<(Lsn, Lsn, u64), Vec<Name>> = BTreeMap::new();
    for name in names {
        if let Name::Thin { from, to, tidier, .. } = *name {
            all.entry((to, from, tidier)).or_default().push(*name);
        }
    }
    let mut thinned: Vec<Thinned> = Vec::new();
    for ((to, from, _), mut parts) in all {
        parts.sort_unstable();
        let mut end = from;
        for part in &parts {
            let Name::Thin { first, last, .. } = *part else { continue };
            // A part that is missing, or there twice, is no end.
            end = if first == end.next() { last } else { Lsn::MAX };
        }
        let is_there = thinned.last().is_some_and(|it| (it.from, it.to) == (from, to));
        if end == to && !is_there {
            thinned.push(Thinned { from, to, parts });
        }
    }
    thinned
}

fn ranges_of(runs: &[Run], fills: &[(Fill, u32)], thinned: &[Thinned]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut at = runs.iter().peekable();
    // What leads to a block comes behind the copies of that, and everything before it is known by then.
    let copies = fills.iter().map(|(fill, objects)| (fill.lsn, 0, Some((*fill, *objects)), None));
    let leading = thinned.iter().map(|thinned| (thinned.to, 1, None, Some(thinned)));
    let mut sources: Vec<_> = copies.chain(leading).collect();
    sources.sort_by_key(|(lsn, rank, ..)| (*lsn, *rank));
    for (lsn, _, copy, thinned) in sources {
        while at.next_if(|run| run.last < lsn).is_some() {}
        if let Some(thinned) = thinned {
            let before = ranges.partition_point(|range| range.last < thinned.from);
            if ranges.get(before).is_none_or(|range| range.first > thinned.from) {
                continue;
            }
        }
        if let Some(range) = ranges.last_mut().filter(|range| lsn <= range.last) {
            range.fills.extend(copy);
            if range.first == lsn && range.thinned.is_none() {
                range.thinned = thinned.cloned();
            }
            continue;
        }
        let run = at.peek().filter(|run| run.first <= lsn.next());
        let logs = run.map(|run| run.logs.clone()).unwrap_or_default();
        let last = run.map_or(lsn, |run| run.last);
        let fills = copy.into_iter().collect();
        ranges.push(Range { first: lsn, last, fills, thinned: thinned.cloned(), logs });
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

    fn thin(first: u64, last: u64, (from, to): (u64, u64)) -> Name {
        let [first, last, from, to] = [first, last, from, to].map(Lsn);
        Name::Thin { first, last, from, to, tidier: 1 }
    }

    #[test]
    fn what_was_thinned_out_leads_to_its_end_and_to_none_between() {
        let names = [
            whole(100, 1),
            thin(101, 200, (100, 340)),
            thin(201, 340, (100, 340)),
            thin(341, 900, (340, 900)),
            // It has some of the blocks behind 900, and some that were thinned out.
            log(890, 910, 1),
            log(911, 950, 1),
        ];
        assert_eq!(ranges(&names), [(100, 100), (340, 340), (900, 950)]);
        let picture = Picture::of(&names);
        let chain = picture.chain(Lsn(915)).unwrap();
        assert_eq!((chain.fill.lsn, chain.horizon), (Lsn(100), Lsn(900)));
        assert_eq!(chain.logs, names[1..]);
        assert_eq!(picture.chain(Lsn(340)).unwrap().logs, names[1..3]);
        assert_eq!(picture.chain(Lsn(200)), None);
        assert_eq!(picture.nearest(Lsn(500)), (Some(Lsn(340)), Some(Lsn(900))));
        assert_eq!((picture.last, picture.last_log), (Some(Lsn(950)), Some(log(911, 950, 1))));
        // A part is missing, or is there twice; or there is no state that it goes on from.
        assert_eq!(ranges(&[&names[..1], &names[2..]].concat()), [(100, 100)]);
        assert_eq!(ranges(&[&names[..2], &names[1..]].concat()), [(100, 100)]);
        assert_eq!(ranges(&names[1..]), []);
    }

    #[test]
    fn of_a_copy_and_what_was_thinned_out_up_to_it_the_copy_is_taken() {
        let names = [whole(100, 1), thin(101, 340, (100, 340)), whole(340, 1), log(341, 350, 1)];
        assert_eq!(ranges(&names), [(100, 100), (340, 350)]);
        let chain = Picture::of(&names).chain(Lsn(345)).unwrap();
        assert_eq!((chain.fill.lsn, chain.logs), (Lsn(340), vec![log(341, 350, 1)]));
    }

    /// A writer was thought dead, and what it has sent arrives when what its successor has put first is gone.
    #[test]
    fn what_an_earlier_writer_puts_late_does_not_count_when_the_blocks_of_the_later_one_are_gone() {
        let begin = Name::Begin { lsn: Lsn(11), writer: 2 };
        let names = [
            whole(10, 1),
            log(11, 30, 1),
            thin(11, 20, (10, 20)),
            thin(21, 40, (20, 40)),
            log(41, 50, 2),
        ];
        assert_eq!(ranges(&names)[0], (10, 30), "without it, it would");
        let names = [&names[..], &[begin]].concat();
        assert_eq!(ranges(&names), [(10, 10), (20, 20), (40, 50)]);
        let picture = Picture::of(&names);
        assert_eq!((picture.stale, picture.begun), (vec![log(11, 30, 1)], 2));
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

    /// What is marked is there, and leads nowhere.
    #[test]
    fn what_is_damaged_leads_nowhere_and_is_the_last_that_is_there() {
        let names = [
            whole(100, 1),
            log(101, 200, 1),
            log(201, 240, 1),
            log(241, 300, 1),
            log(201, 300, 1),
            whole(300, 1),
            log(301, 400, 1),
        ];
        let damaged = |name: &Name| Name::Damaged { piece: Piece::of(name).unwrap() };
        let with = |marked: &[usize]| -> Vec<Name> {
            let marks = marked.iter().map(|at| damaged(&names[*at]));
            names.into_iter().chain(marks).collect()
        };
        assert_eq!(ranges(&with(&[])), [(100, 400)]);
        // The small ones lead over it.
        assert_eq!(ranges(&with(&[4])), [(100, 400)]);
        assert_eq!(ranges(&with(&[4, 3])), [(100, 240), (300, 400)]);
        assert_eq!(ranges(&with(&[4, 3, 5])), [(100, 240)]);
        let picture = Picture::of(&with(&[6]));
        assert_eq!((picture.last, picture.last_log), (Some(Lsn(400)), Some(names[6])));
        assert_eq!(ranges(&with(&[6])), [(100, 300)]);
        assert_eq!(picture.covered, names[2..4]);
        assert_eq!(Picture::of(&with(&[4])).covered, [], "they are all that there is");
        assert!(Picture::of(&with(&[5])).is_whole(&Fill { lsn: Lsn(300), writer: 1, number: 1 }));
        assert_eq!(Picture::of_all(&with(&[2, 4, 5, 6])), Picture::of(&names));
        let leap = thin(401, 500, (400, 500));
        let leaps = [with(&[]), vec![leap]].concat();
        assert_eq!(ranges(&leaps), [(100, 400), (500, 500)]);
        assert_eq!(ranges(&[leaps, vec![damaged(&leap)]].concat()), [(100, 400)]);
    }

    #[test]
    fn nothing_is_no_picture() {
        assert_eq!(Picture::of(&[]), Picture::default());
        assert_eq!(ranges(&[log(1, 5, 1)]), []);
    }
}
