//! What of an archive is old, and what is kept of it: a look at the times of its blocks, and a plan.
//!
//! ```text
//!             old: looked at ─────────────────────────────────────────────► │ young: kept as it is
//!   copies    100                     900                         2000      │   2900
//!   kept           340       610            980      1200   1900       2400 │
//!   leaps     100→340→610→──────────►900→───980→────1200→──1900→─►2000→2400 │ log 2401, 2402 …
//! ```
//!
//! The states that are kept are *nodes*, and some copies are; a *leap* from each node to the next takes the place of the blocks between. A copy
//! stays if the leaps behind the one before it would be together longer than a few copies, so that a restore does not read much more than that.
//!
//! Where no state is kept by its time, the log leads from the newest copy that is old to what is young. As soon as it is long, and longer than that copy, a copy of the last
//! old block is made of both, and takes their place ([`crate::copier`]): so an archive is bounded, however late the writer's next copy comes. What follows from it
//! is planned as if it were there. Without memory for it a leap to the last old block takes the place of the log.
//!
//! No state that is strictly inside a complete leap is kept for its time: another tidier may be removing it. One that a backup has named is, if there is
//! a way to it: it may have got its name when the leap was made.
//!
//! What is damaged is no way from one state to another: an object of the log, a copy or a leap of which any object is ([`Piece`]). A state that only it
//! leads to stays as it is, and so do objects of the log with the same blocks.
//!
//! What takes the place of something that goes is read to its end before: leaps that there are, and copies that what goes leads to.
//!
//! What does not count, because a later writer says to have begun before its end, goes when it is old, if what counts tells of its blocks: that
//! writer may never have been one. So nothing goes that is needed for states which only count without it ([`crate::told`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use base::Lsn;
use redo::Id;

use crate::copier::CopyJob;
use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::keep::{Every, Keep};
use crate::leaps::Leaps;
use crate::name::{Fill, Folder, Name};
use crate::object::ObjectReader;
use crate::picture::{Chain, Picture};
use crate::piece::Piece;
use crate::plan::{KeptState, Plan, Why};
use crate::target::Target;
use crate::thinner::Job;
use crate::told::{Told, hidden};

/// Leaps behind a copy are together about as long as so many copies, at most, and one more.
const LEAPS_MAX: u64 = 4;

/// A block that is the last one of a time, of those that are old. A time that is before an earlier block's is that one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    lsn: Lsn,
    time_ms: i64,
}

/// Something to look at.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// A block by the time of an object that leads to it, and of the first one behind it.
    State(Lsn, Name, Option<Name>),
    /// The blocks of an object.
    Log(Name),
}

/// See the file's top.
pub(crate) struct Survey {
    /// What there is, and which of it is marked as damaged.
    names: Vec<Name>,
    marks: Vec<Piece>,
    picture: Picture,
    keep: Keep,
    /// Nothing takes the place of a log that is no longer than this.
    log_bytes_min: u64,
    now_ms: i64,
    looks: VecDeque<Look>,
    points: Vec<Point>,
    /// The latest time so far.
    time_ms: i64,
    /// The newest time is known.
    has_begun: bool,
    /// Everything behind `points` is young.
    is_over: bool,
    /// What is still to be asked for its length, and what was.
    weighing: Option<Vec<Name>>,
    bytes: HashMap<Name, u64>,
    /// All leaps.
    leaps: Leaps,
    /// What leads over nothing that is damaged, when all was looked at, and leaps that do.
    sound: Picture,
    ways: Leaps,
    pub(crate) headers: Headers,
    /// What is known to be damaged.
    pub(crate) damaged: BTreeSet<Piece>,
}

impl Survey {
    /// Begins to look at what these objects are. Ages are counted from `now_ms`, or from the newest block if that is
    /// older.
    pub(crate) fn new(
        mut names: Vec<Name>,
        (keep, log_bytes_min): (Keep, u64),
        now_ms: i64,
        (headers, damaged): (Headers, BTreeSet<Piece>),
    ) -> Self {
        let marks = names.extract_if(.., |name| name.folder() == Folder::Damaged);
        let marks: Vec<Piece> = marks
            .filter_map(|name| match name {
                Name::Damaged { piece } => Some(piece),
                _ => None,
            })
            .collect();
        let there: HashSet<Piece> = names.iter().filter_map(Piece::of).collect();
        let damaged = damaged.into_iter().chain(marks.iter().copied());
        let damaged = damaged.filter(|piece| there.contains(piece)).collect();
        let picture = Picture::of(&names);
        let leaps = Leaps::of(&picture);
        let mut looks = VecDeque::new();
        for range in &picture.ranges {
            let copy = range.fills.first().filter(|(fill, _)| fill.lsn == range.first);
            let copy = copy.map(|(fill, objects)| Name::Whole { fill: *fill, objects: *objects });
            let leading = range.thinned.as_ref().and_then(|it| it.parts.last().copied());
            // A copy says when its block was the last one, a leap when that was ended. Copies of older programs may say a later time.
            let is_behind =
                |next: &Name| matches!(next, Name::Log { first, .. } if *first > range.first);
            let next = range.logs.first().copied().filter(is_behind);
            let leap = || leaps.longest(range.first, Lsn::MAX)?.parts.first().copied();
            let next = next.or_else(leap).filter(|_| leading.is_none());
            looks.extend(leading.or(copy).map(|name| Look::State(range.first, name, next)));
            looks.extend(range.logs.iter().map(|name| Look::Log(*name)));
        }
        let (points, weighing, bytes) = (Vec::new(), None, HashMap::new());
        let time_ms = i64::MIN;
        Self {
            names,
            marks,
            picture,
            keep,
            log_bytes_min,
            now_ms,
            looks,
            points,
            time_ms,
            has_begun: false,
            is_over: false,
            weighing,
            bytes,
            leaps,
            sound: Picture::default(),
            ways: Leaps::of(&Picture::default()),
            headers,
            damaged,
        }
    }

    /// What is marked as damaged.
    pub(crate) fn marked(&self) -> impl Iterator<Item = Piece> + use<'_> {
        self.marks.iter().copied()
    }

    /// What is known to be damaged, as marks.
    fn damaged_marks(&self) -> impl Iterator<Item = Name> + use<'_> {
        self.damaged.iter().map(|piece| Name::Damaged { piece: *piece })
    }

    fn is_damaged(&self, name: &Name) -> bool {
        Piece::of(name).is_some_and(|piece| self.damaged.contains(&piece))
    }

    /// Looks at something more. Returns whether there was something.
    pub(crate) fn step(&mut self, target: &dyn Target, database: Id) -> Result<bool> {
        match self.look(target, database) {
            // It is passed over when it is come to again.
            Err(Error::Damaged { name, .. } | Error::Record { name, .. })
                if Piece::of(&name).is_some_and(|piece| self.damaged.insert(piece)) =>
            {
                Ok(true)
            }
            // What has failed otherwise is done again, which changes nothing.
            done => done,
        }
    }

    fn look(&mut self, target: &dyn Target, database: Id) -> Result<bool> {
        if !self.has_begun {
            let names: Vec<Name> = self.names.iter().copied().chain(self.damaged_marks()).collect();
            let Some(newest) = Picture::of(&names).newest() else { return Ok(false) };
            let newest = self.headers.of(target, database, newest)?;
            self.now_ms = self.now_ms.min(newest.time_max_ms);
            self.has_begun = true;
            return Ok(true);
        }
        if let Some(look) = self.looks.front().copied().filter(|_| !self.is_over) {
            match look {
                Look::State(_, name, _) | Look::Log(name) if self.is_damaged(&name) => {}
                Look::State(lsn, name, next) => {
                    let next = next.filter(|next| !self.is_damaged(next));
                    let next = next.map(|next| self.headers.of(target, database, next));
                    let next_ms = next.transpose()?.map_or(i64::MAX, |next| next.time_min_ms);
                    let time_ms = self.headers.of(target, database, name)?.time_max_ms;
                    self.note(lsn, time_ms.min(next_ms));
                }
                Look::Log(name) => self.look_at(target, database, name)?,
            }
            self.looks.pop_front();
            return Ok(true);
        }
        let weighing = match self.weighing.take() {
            Some(weighing) => weighing,
            None => self.to_weigh(),
        };
        let weighing = self.weighing.insert(weighing);
        let Some(name) = weighing.last().copied() else { return Ok(false) };
        let is_damaged = Piece::of(&name).is_some_and(|piece| self.damaged.contains(&piece));
        if !is_damaged {
            self.bytes.insert(name, self.headers.of(target, database, name)?.bytes);
        }
        weighing.pop();
        Ok(true)
    }

    /// A block was the last one at this time.
    fn note(&mut self, lsn: Lsn, time_ms: i64) {
        let time_ms = time_ms.max(self.time_ms);
        if self.keep.every_at(time_ms, self.now_ms) == Some(Every::All) {
            self.is_over = true;
            return;
        }
        self.time_ms = time_ms;
        let finest = self.keep.finest();
        match self.points.last_mut() {
            Some(last) if last.lsn >= lsn => {}
            Some(last) if finest.is_same(last.time_ms, time_ms) => *last = Point { lsn, time_ms },
            _ => self.points.push(Point { lsn, time_ms }),
        }
    }

    fn look_at(&mut self, target: &dyn Target, database: Id, name: Name) -> Result<()> {
        let Name::Log { last, .. } = name else { return Ok(()) };
        let header = self.headers.of(target, database, name)?;
        self.bytes.insert(name, header.bytes);
        let first_ms = header.time_min_ms.max(self.time_ms);
        let last_ms = header.time_max_ms.max(self.time_ms);
        let is_old = self.keep.every_at(last_ms, self.now_ms) != Some(Every::All);
        if is_old && self.keep.finest().is_same(first_ms, last_ms) {
            self.note(last, last_ms);
            return Ok(());
        }
        let mut object = ObjectReader::open(target, database, name)?;
        while let Some(block) = object.next()?.filter(|_| !self.is_over) {
            self.note(block.header.lsn, block.header.time_ms);
        }
        Ok(())
    }

    /// The last block that is old; `None` if none is.
    pub(crate) fn last(&self) -> Option<Lsn> {
        self.points.last().map(|point| point.lsn)
    }

    /// Copies and leaps that are old.
    fn to_weigh(&self) -> Vec<Name> {
        let Some(last) = self.last() else { return Vec::new() };
        let copies = self.copies(last).into_values();
        let mut names: Vec<Name> =
            copies.map(|(fill, objects)| Name::Whole { fill, objects }).collect();
        let leaps = self.picture.thinned.iter().filter(|leap| leap.to <= last);
        names.extend(leaps.flat_map(|leap| leap.parts.iter().copied()));
        names
    }

    /// The copies up to a block that are good.
    fn copies(&self, last: Lsn) -> BTreeMap<Lsn, (Fill, u32)> {
        let fills = self.picture.ranges.iter().flat_map(|range| &range.fills);
        let old = fills.filter(|(fill, _)| {
            let is_good = !self.damaged.contains(&Piece::Copy { fill: *fill });
            fill.lsn <= last && is_good && !self.leaps.is_inside(fill.lsn)
        });
        old.map(|(fill, objects)| (fill.lsn, (*fill, *objects))).collect()
    }

    /// About how long the leap from one block to another is: as what it is made of, or the data if that is less. `None` if it
    /// cannot be made.
    fn leap_bytes(&self, from: Lsn, to: Lsn, data_bytes: u64) -> Option<u64> {
        let of = |parts: &[Name]| parts.iter().filter_map(|name| self.bytes.get(name)).sum::<u64>();
        match self.ways.get(from, to) {
            Some(leap) => Some(of(&leap.parts)),
            None => Some(of(&self.inputs(from, to)?).min(data_bytes)),
        }
    }

    /// The objects that have every block behind `from` up to `to`, whole or as it was thinned out, in order; `None` if some are
    /// nowhere, or damaged.
    fn inputs(&self, from: Lsn, to: Lsn) -> Option<Vec<Name>> {
        let (mut at, mut inputs) = (from, Vec::new());
        while at < to {
            if let Some(leap) = self.ways.longest(at, to) {
                inputs.extend_from_slice(&leap.parts);
                at = leap.to;
                continue;
            }
            let range = self.sound.range_of(at).filter(|range| range.last > at)?;
            // As far as its blocks go, or up to where a leap begins.
            let leap = self.ways.first_between(at, range.last, to);
            let end = leap.unwrap_or(range.last).min(to);
            let is_before = |name: &Name| matches!(name, Name::Log { last, .. } if *last <= at);
            let has_some = |name: &&Name| matches!(name, Name::Log { first, .. } if *first <= end);
            let logs = &range.logs[range.logs.partition_point(is_before)..];
            inputs.extend(logs.iter().take_while(has_some));
            at = end;
        }
        Some(inputs)
    }

    /// How a state is restored: over nothing that is damaged, if that is possible.
    fn chain(&self, lsn: Lsn) -> Option<Chain> {
        self.sound.chain(lsn).or_else(|| self.picture.chain(lsn))
    }

    /// Looks which ways there are over nothing that is damaged.
    fn find_ways(&mut self) {
        let names: Vec<Name> = self.names.iter().copied().chain(self.damaged_marks()).collect();
        self.sound = Picture::of(&names);
        self.ways = Leaps::of(&self.sound);
    }

    /// What is kept, what is to be made for it, and what goes. `tidier` makes copies, if that is one's number.
    pub(crate) fn plan(&mut self, named: &[Lsn], tidier: Option<u64>) -> Option<Plan> {
        let last = self.last()?;
        self.find_ways();
        let copy = tidier.and_then(|tidier| self.copy_to_young(last, tidier));
        if let Some(copy) = &copy {
            self.names.push(Name::Whole { fill: copy.to, objects: 0 });
            self.picture = Picture::of(&self.names);
            self.find_ways();
        }
        let nodes = self.nodes(named, last);
        let mut plan = Plan::new(last, nodes.all().into_iter().collect(), named);
        plan.copy = copy;
        let parts = self.parts();
        let names_of = |fill: Fill| parts.get(&fill).into_iter().flatten().copied();
        let mut needed: HashSet<Name> = HashSet::new();
        let copies = self.copies(last);
        for (fill, _) in nodes.copies.iter().filter_map(|lsn| copies.get(lsn)) {
            needed.extend(names_of(*fill));
        }
        let leading = nodes.leading.iter().flat_map(|nodes| nodes.windows(2));
        for pair in leading {
            let [from, to] = [pair[0], pair[1]];
            if let Some(leap) = self.ways.get(from, to) {
                needed.extend(&leap.parts);
            } else if let Some(inputs) = self.inputs(from, to) {
                plan.jobs.push_back(Job { from, to, inputs });
            } else if !copies.contains_key(&to)
                && let Some(chain) = self.chain(to)
            {
                // There is no way from the one to the other: it stays as it is.
                needed.extend(names_of(chain.fill));
                needed.extend(chain.logs);
            }
        }
        let mut gone = self.gone(&nodes, (last, tidier), &needed);
        plan.gone = gone.iter().copied().collect();
        let mut after = self.picture_after(&plan);
        // What could not be restored any more stays as it is: of a backup that is inside a leap, behind a copy that is damaged, or hidden.
        let lost = plan.nodes.iter().filter(|lsn| after.chain(**lsn).is_none());
        let chains = lost.filter_map(|lsn| self.chain(*lsn));
        let hidden = match self.picture.stale.is_empty() {
            true => Vec::new(),
            false => hidden(&self.names, &self.sound, last),
        };
        let chains = chains.chain(hidden);
        let stays: HashSet<Name> =
            chains.flat_map(|chain| names_of(chain.fill).chain(chain.logs)).collect();
        if !stays.is_empty() {
            gone.retain(|name| !stays.contains(name));
            plan.gone = gone.into();
            after = self.picture_after(&plan);
        }
        plan.sound.extend(plan.nodes.iter().filter(|lsn| after.chain(**lsn).is_some()));
        plan.relied = self.relied(&plan, (&nodes, &copies), &parts);
        self.add_marks(&mut plan);
        plan.kept = self.kept_states(&nodes, named);
        plan.states_after = after.states();
        plan.ranges = after.ranges.iter().map(|range| (range.first, range.last)).collect();
        Some(plan)
    }

    /// What goes, in this order.
    fn gone(
        &self,
        nodes: &Nodes,
        (last, tidier): (Lsn, Option<u64>),
        needed: &HashSet<Name>,
    ) -> Vec<Name> {
        let is_untouched = |from: Lsn, to: Lsn| match nodes.untouched {
            Some((after, until)) => from >= after && to <= until,
            None => true,
        };
        let is_young = |end: Lsn| end > last;
        let wholes: HashSet<Fill> = self.names.iter().filter_map(fill_of_whole).collect();
        let is_kept = |name: &Name| match *name {
            Name::Log { first, last: end, .. } => {
                is_young(end)
                    || nodes.untouched.is_none_or(|(after, until)| end > after && first <= until)
            }
            Name::Thin { from, to, .. } => is_young(to) || is_untouched(from, to),
            Name::Whole { fill, .. } => is_young(fill.lsn),
            // One that is being made has no end yet. A tidier before this one makes none any more.
            Name::Base { fill, .. } => {
                let is_over = fill.tidier().is_some_and(|by| Some(by) != tidier);
                if wholes.contains(&fill) { is_young(fill.lsn) } else { !is_over }
            }
            _ => true,
        };
        // What never counts goes first: what makes that so may go, too. Then copies, and what leads from them. Of a copy its end goes last:
        // without it nothing would say that the rest may go.
        let stale: HashSet<Name> = self.picture.stale.iter().copied().collect();
        let stale_fills: HashSet<Fill> = stale.iter().filter_map(fill_of_whole).collect();
        let is_stale = |name: &Name| {
            stale.contains(name)
                || matches!(name, Name::Base { fill, .. } if stale_fills.contains(fill))
        };
        let rank = |name: &Name| match name {
            Name::Base { .. } => 1,
            Name::Whole { .. } => 2,
            Name::Log { .. } => 3,
            _ => 4,
        };
        let told = Told::blocks(&self.sound);
        let goes = |name: &&Name| match is_stale(name) {
            true => name.last() <= Some(last) && self.is_told_otherwise(&told, name),
            false => !needed.contains(name) && !is_kept(name) && !self.is_spare(name),
        };
        let mut gone: Vec<Name> = self.names.iter().filter(goes).copied().collect();
        gone.sort_by_key(|name| (!is_stale(name), rank(name), *name));
        gone
    }

    /// What takes the place of something that goes: leaps, and the objects of copies.
    fn relied(
        &self,
        plan: &Plan,
        (nodes, copies): (&Nodes, &BTreeMap<Lsn, (Fill, u32)>),
        parts: &HashMap<Fill, Vec<Name>>,
    ) -> Vec<Name> {
        // Behind which block each thing that goes begins, ascending, and how far those reach so far.
        let mut gone: Vec<(Lsn, Lsn)> = plan.gone.iter().filter_map(blocks_of).collect();
        gone.sort_unstable();
        let mut most = Lsn::ZERO;
        for (_, end) in &mut gone {
            most = most.max(*end);
            *end = most;
        }
        let has_some = |from: Lsn, to: Lsn| {
            let at = gone.partition_point(|(begin, _)| *begin < to);
            at.checked_sub(1).is_some_and(|at| gone[at].1 > from)
        };
        let leading = nodes.leading.iter().flat_map(|nodes| nodes.windows(2));
        let leaps = leading.filter_map(|pair| self.ways.get(pair[0], pair[1]));
        let leaps = leaps.filter(|leap| has_some(leap.from, leap.to)).flat_map(|leap| &leap.parts);
        let kept = nodes.copies.iter().filter_map(|lsn| copies.get(lsn));
        let kept = kept.filter(|(fill, _)| has_some(Lsn::ZERO, fill.lsn));
        let of_copies = kept.filter_map(|(fill, _)| parts.get(fill)).flatten();
        let of_copies = of_copies.filter(|name| matches!(name, Name::Base { .. }));
        leaps.chain(of_copies).copied().filter(|name| !self.headers.has_read(name)).collect()
    }

    /// What marks something that is not there afterwards goes, too.
    fn add_marks(&self, plan: &mut Plan) {
        let gone: HashSet<Name> = plan.gone.iter().copied().collect();
        let left = self.names.iter().filter(|name| !gone.contains(name));
        let left: HashSet<Piece> = left.filter_map(Piece::of).collect();
        let is_idle = |piece: &&Piece| piece.last() <= plan.last && !left.contains(piece);
        let idle = self.marks.iter().filter(is_idle).map(|piece| Name::Damaged { piece: *piece });
        plan.gone.extend(idle.collect::<Vec<_>>());
    }

    /// Whether what counts tells of all the blocks of an object that does not.
    fn is_told_otherwise(&self, told: &Told, name: &Name) -> bool {
        match *name {
            Name::Log { first, last, .. } => told.has_all(first, last),
            Name::Base { fill, .. } | Name::Whole { fill, .. } => {
                self.ways.is_inside(fill.lsn) || self.sound.chain(fill.lsn).is_some()
            }
            _ => true,
        }
    }

    /// Whether an object of the log has blocks of one that is damaged.
    fn is_spare(&self, name: &Name) -> bool {
        let Name::Log { first, last, .. } = *name else { return false };
        self.damaged.iter().any(|piece| match *piece {
            Piece::Log { first: from, last: to, .. } => {
                Piece::of(name) != Some(*piece) && from <= last && first <= to
            }
            _ => false,
        })
    }

    /// What there will be, without what is damaged.
    fn picture_after(&self, plan: &Plan) -> Picture {
        let gone: HashSet<&Name> = plan.gone.iter().collect();
        let left = self.names.iter().filter(|name| !gone.contains(name)).copied();
        let made = plan.jobs.iter().map(|job| {
            let Job { from, to, .. } = *job;
            Name::Thin { first: from.next(), last: to, from, to, tidier: u64::MAX }
        });
        Picture::of(&left.chain(made).chain(self.damaged_marks()).collect::<Vec<_>>())
    }

    /// All objects of copies, by the copies.
    fn parts(&self) -> HashMap<Fill, Vec<Name>> {
        let mut parts: HashMap<Fill, Vec<Name>> = HashMap::new();
        for name in &self.names {
            if let Name::Whole { fill, .. } | Name::Base { fill, .. } = name {
                parts.entry(*fill).or_default().push(*name);
            }
        }
        parts
    }

    fn kept_states(&self, nodes: &Nodes, named: &[Lsn]) -> Vec<KeptState> {
        let kept = nodes.all().into_iter().map(|lsn| {
            let at = self.points.partition_point(|point| point.lsn < lsn);
            let point = self.points.get(at).filter(|point| point.lsn == lsn);
            let why = match nodes.by_rule.get(&lsn) {
                Some(every) => Why::Rule(*every),
                None if named.contains(&lsn) => Why::Named,
                None if nodes.before_young == Some(lsn) => Why::BeforeYoung,
                None => Why::Copy,
            };
            KeptState { lsn, time_ms: point.map(|point| point.time_ms), why }
        });
        kept.collect()
    }

    /// The states that are kept by their times, each with the rule that keeps it.
    fn by_rule(&self) -> BTreeMap<Lsn, Every> {
        let points = self.points.iter().enumerate().filter_map(|(index, point)| {
            let every = self.keep.every_at(point.time_ms, self.now_ms)?;
            let next = self.points.get(index + 1);
            let is_last = next.is_none_or(|next| !every.is_same(point.time_ms, next.time_ms));
            (is_last && !self.leaps.is_inside(point.lsn)).then_some((point.lsn, every))
        });
        points.collect()
    }

    fn nodes(&self, named: &[Lsn], last: Lsn) -> Nodes {
        let copies = self.copies(last);
        let by_rule = self.by_rule();
        let is_there = |lsn: &Lsn| *lsn <= last && self.picture.range_of(*lsn).is_some();
        let named: BTreeSet<Lsn> = named.iter().copied().filter(is_there).collect();
        let first = by_rule.keys().next().copied();
        // The copy that what is kept begins with: what is before it goes.
        let base = copies.range(..=first.unwrap_or(last)).next_back().map(|(lsn, _)| *lsn);
        let mut nodes = Nodes { by_rule, ..Nodes::default() };
        nodes.untouched = base.map(|base| (base, first.unwrap_or(Lsn::MAX)));
        nodes.copies.extend(base);
        // Backups of what is older, each from the copy before it.
        for lsn in named.iter().filter(|lsn| base.is_some_and(|base| **lsn < base)) {
            let Some(copy) = copies.range(..=*lsn).next_back().map(|(copy, _)| *copy) else {
                continue;
            };
            if nodes.copies.insert(copy) {
                nodes.leading.push(vec![copy]);
            }
            let chain = nodes.leading.last_mut().filter(|_| copy < *lsn);
            chain.into_iter().for_each(|chain| chain.push(*lsn));
        }
        let Some(first) = first else {
            if let Some(base) = base {
                let to = self.leap_to_young(base, last);
                let is_between =
                    |lsn: &&Lsn| **lsn > base && **lsn < to && !self.leaps.is_inside(**lsn);
                let between = named.iter().filter(is_between).copied();
                let mut chain: BTreeSet<Lsn> = between.collect();
                chain.extend([base, to]);
                nodes.before_young = Some(to).filter(|to| *to > base);
                nodes.leading.push(chain.into_iter().collect());
                nodes.untouched = Some((to, Lsn::MAX));
            }
            nodes.extra.extend(named);
            return nodes;
        };
        let old = |lsn: &&Lsn| **lsn >= first;
        let mut chain: BTreeSet<Lsn> = nodes.by_rule.keys().copied().collect();
        chain.extend(named.iter().filter(old));
        chain.extend(copies.keys().filter(old));
        let chain = self.without_copies(chain, &nodes.by_rule, &named);
        nodes.copies.extend(copies.keys().filter(old).filter(|lsn| chain.contains(lsn)));
        nodes.leading.push(chain);
        nodes.extra.extend(named);
        nodes
    }

    /// How far a leap from this copy towards what is young goes: to the last old block, if the log behind the leaps that there are is longer than the copy. What
    /// reaches behind either end would stay next to it, and is not counted.
    fn leap_to_young(&self, base: Lsn, last: Lsn) -> Lsn {
        let mut to = base;
        while let Some(leap) = self.ways.longest(to, last) {
            to = leap.to;
        }
        let of = |name: &Name| self.bytes.get(name).copied().unwrap_or(0);
        let copies = self.copies(last);
        let copy =
            copies.get(&base).map(|(fill, objects)| Name::Whole { fill: *fill, objects: *objects });
        let is_within =
            |name: &Name| blocks_of(name).is_some_and(|(after, end)| after >= to && end <= last);
        let logs = self.inputs(to, last).unwrap_or_default().into_iter();
        let log_bytes: u64 = logs.filter(is_within).map(|name| of(&name)).sum();
        match copy.is_some_and(|copy| log_bytes > of(&copy).max(self.log_bytes_min)) {
            true => last,
            false => to,
        }
    }

    /// The copy of the last old block that takes the place of such a leap, and of what that would go on from.
    fn copy_to_young(&self, last: Lsn, tidier: u64) -> Option<CopyJob> {
        let (base, (from, objects)) = self.copies(last).pop_last()?;
        let is_there = self.ways.get(base, last).is_some() || self.leaps.is_inside(last);
        if !self.by_rule().is_empty() || is_there || self.leap_to_young(base, last) != last {
            return None;
        }
        let to = Fill::of_tidier(last, self.picture.writer_of(last)?, tidier)?;
        // One of that name was made, and is damaged, or a server of an older program has removed some of it.
        if self.names.iter().filter_map(Piece::of).any(|piece| piece == Piece::Copy { fill: to }) {
            return None;
        }
        let inputs = self.inputs(base, last).filter(|inputs| !inputs.is_empty())?;
        Some(CopyJob { from, objects, to, inputs })
    }

    /// The nodes of a chain without the copies that are not worth their length.
    fn without_copies(
        &self,
        chain: BTreeSet<Lsn>,
        by_rule: &BTreeMap<Lsn, Every>,
        named: &BTreeSet<Lsn>,
    ) -> Vec<Lsn> {
        let chain: Vec<Lsn> = chain.into_iter().collect();
        let newest = self.sound.ranges.iter().flat_map(|range| &range.fills).next_back();
        let newest = newest.map(|(fill, _)| fill.lsn);
        let copies = self.copies(chain.last().copied().unwrap_or_default());
        let copy_bytes = |lsn: Lsn| {
            let (fill, objects) = copies.range(..=lsn).next_back()?.1;
            let whole = Name::Whole { fill: *fill, objects: *objects };
            self.bytes.get(&whole).copied()
        };
        // About how long leaps are since the last copy that stays.
        let (mut nodes, mut since_bytes): (Vec<Lsn>, u64) = (Vec::new(), 0);
        for (index, lsn) in chain.iter().enumerate() {
            let before = nodes.last().copied();
            let most = copy_bytes(*lsn).unwrap_or(0);
            let leap = |to: Lsn| before.and_then(|from| self.leap_bytes(from, to, most));
            let is_wanted = by_rule.contains_key(lsn) || named.contains(lsn);
            let is_copy = copies.contains_key(lsn);
            if is_copy && !is_wanted && newest != Some(*lsn) {
                let next = chain.get(index + 1).and_then(|next| leap(*next));
                let is_long =
                    |next: u64| since_bytes.saturating_add(next) > most.saturating_mul(LEAPS_MAX);
                if next.is_some_and(|next| !is_long(next)) {
                    continue;
                }
            }
            since_bytes = if is_copy { 0 } else { since_bytes + leap(*lsn).unwrap_or(0) };
            nodes.push(*lsn);
        }
        nodes
    }
}

/// Behind which block it tells of some, and up to which.
fn blocks_of(name: &Name) -> Option<(Lsn, Lsn)> {
    let last = name.last()?;
    let first = match *name {
        Name::Log { first, .. } => first,
        Name::Thin { from, .. } => return Some((from, last)),
        _ => last,
    };
    Some((Lsn(first.0.saturating_sub(1)), last))
}

fn fill_of_whole(name: &Name) -> Option<Fill> {
    match name {
        Name::Whole { fill, .. } => Some(*fill),
        _ => None,
    }
}

/// The states that stay.
#[derive(Default)]
struct Nodes {
    by_rule: BTreeMap<Lsn, Every>,
    /// Copies that stay.
    copies: BTreeSet<Lsn>,
    /// Chains of states, each reached from the one before, or a copy.
    leading: Vec<Vec<Lsn>>,
    /// Between these two everything stays as it is; `None` if there is no copy to begin with: then nothing goes.
    untouched: Option<(Lsn, Lsn)>,
    /// A leap leads to it from the newest copy that is old, in place of what leads to what is young.
    before_young: Option<Lsn>,
    /// Others that must stay.
    extra: BTreeSet<Lsn>,
}

impl Nodes {
    fn all(&self) -> BTreeSet<Lsn> {
        let chains = self.leading.iter().flatten().copied();
        chains.chain(self.copies.iter().copied()).chain(self.extra.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a copy that never counts the parts go before what says that it is one: a crash between leaves no parts for ever.
    #[test]
    fn what_never_counts_goes_first_and_of_a_copy_its_end_goes_last() {
        let fill = |lsn, writer| Fill { lsn: Lsn(lsn), writer, number: 1 };
        let copy = |lsn, writer| {
            let fill = fill(lsn, writer);
            [Name::Base { fill, index: 0 }, Name::Whole { fill, objects: 1 }]
        };
        let log = |first, last, writer| Name::Log { first: Lsn(first), last: Lsn(last), writer };
        let begin = Name::Begin { lsn: Lsn(31), writer: 2 };
        let stale = log(31, 60, 1);
        let plan = |later: &[Name], last| {
            let first = [copy(10, 1), copy(20, 1), copy(50, 1)].concat();
            let names = [&first[..], &[log(11, 30, 1), stale, begin], later].concat();
            let keep: Keep = "1h:all".parse().unwrap();
            let known = (Headers::default(), BTreeSet::new());
            let mut survey = Survey::new(names, (keep, 0), 0, known);
            survey.now_ms = 10 * 3_600_000;
            survey.points = vec![Point { lsn: Lsn(last), time_ms: 0 }];
            survey.plan(&[], None).unwrap().gone
        };
        let stales = [&copy(50, 1)[..], &[stale]].concat();
        // What is young stays, whatever hides it.
        assert_eq!(plan(&[log(31, 40, 2)], 25), copy(10, 1));
        let gone = plan(&[log(31, 70, 2)], 65);
        assert_eq!(gone.iter().copied().take(3).collect::<Vec<_>>(), stales);
        // So does what is told by nothing else: the one that hides it may never have been a writer.
        let gone = plan(&[], 65);
        assert!(!gone.iter().any(|name| stales.contains(name)), "{gone:?}");
    }

    /// What there is of a copy of a tidier before goes, whatever is young by now: the rules are others, or the clock was set back.
    #[test]
    fn what_is_left_of_a_copy_that_was_cut_off_goes_with_the_next_tidier() {
        let fill = |lsn, number| Fill { lsn: Lsn(lsn), writer: 1, number };
        let of = |tidier: u32| fill(60, (1 << 31) + tidier);
        let part = |fill| Name::Base { fill, index: 0 };
        let parts = [part(of(4)), part(of(5)), part(fill(60, 1)), part(fill(10, 1))];
        let logs = Name::Log { first: Lsn(11), last: Lsn(70), writer: 1 };
        let names = [&parts[..], &[Name::Whole { fill: fill(10, 1), objects: 1 }, logs]].concat();
        let keep: Keep = "1h:all".parse().unwrap();
        let mut survey = Survey::new(names, (keep, 0), 0, (Headers::default(), BTreeSet::new()));
        survey.now_ms = 10 * 3_600_000;
        survey.points = vec![Point { lsn: Lsn(40), time_ms: 0 }];
        assert_eq!(survey.plan(&[], Some(5)).unwrap().gone, [part(of(4))]);
    }

    /// What is made of an object that reaches behind the last old block stays next to it, so it is no reason to make it: each time that block is another one.
    #[test]
    fn a_copy_is_made_for_a_log_that_goes_and_is_long() {
        let copy = Fill { lsn: Lsn(10), writer: 1, number: 1 };
        let whole = Name::Whole { fill: copy, objects: 1 };
        let log = |first, last| Name::Log { first: Lsn(first), last: Lsn(last), writer: 1 };
        let logs = [log(8, 20), log(21, 40), log(41, 60)];
        let is_made = |bytes: [u64; 3], log_bytes_min| {
            let names = [&[Name::Base { fill: copy, index: 0 }, whole], &logs[..]].concat();
            let keep = ("1h:all".parse().unwrap(), log_bytes_min);
            let mut survey = Survey::new(names, keep, 0, (Headers::default(), BTreeSet::new()));
            survey.now_ms = 10 * 3_600_000;
            survey.points = vec![Point { lsn: Lsn(50), time_ms: 0 }];
            survey.bytes = logs.into_iter().zip(bytes).chain([(whole, 100)]).collect();
            survey.plan(&[], Some(1)).unwrap().copy.is_some()
        };
        assert!(is_made([0, 101, 0], 100));
        assert!(!is_made([0, 100, 0], 100));
        assert!(!is_made([1000, 100, 1000], 0));
        assert!(!is_made([0, 1000, 0], 1000));
        assert!(is_made([0, 1001, 0], 1000));
    }

    /// A beginning that lies: the blocks that it hides, and those behind them, lead to what is there when it is gone.
    #[test]
    fn what_a_beginning_hides_stays_with_what_leads_to_it() {
        let copy = |lsn, writer| {
            let fill = Fill { lsn: Lsn(lsn), writer, number: 1 };
            [Name::Base { fill, index: 0 }, Name::Whole { fill, objects: 1 }]
        };
        let log = |first, last, writer| Name::Log { first: Lsn(first), last: Lsn(last), writer };
        let begin = |lsn| Name::Begin { lsn: Lsn(lsn), writer: 2 };
        let logs = [log(11, 29, 1), log(30, 50, 1), log(51, 69, 2), log(70, 100, 2)];
        let gone = |begins: &[Name]| {
            let names = [&copy(10, 1)[..], &copy(70, 2), &logs, begins].concat();
            let keep: Keep = "1h:all".parse().unwrap();
            let mut survey =
                Survey::new(names, (keep, 0), 0, (Headers::default(), BTreeSet::new()));
            survey.now_ms = 10 * 3_600_000;
            survey.points = vec![Point { lsn: Lsn(95), time_ms: 0 }];
            survey.plan(&[], None).unwrap().gone
        };
        let before = [&copy(10, 1)[..], &logs[..3]].concat();
        assert_eq!(gone(&[begin(51)]), before, "all before the copy is old");
        assert_eq!(gone(&[begin(51), begin(30)]), []);
    }

    /// What was made one and has rotted is not the only one that has its blocks.
    #[test]
    fn what_has_blocks_of_something_damaged_stays() {
        let copy = |lsn| {
            let fill = Fill { lsn: Lsn(lsn), writer: 1, number: 1 };
            [Name::Base { fill, index: 0 }, Name::Whole { fill, objects: 1 }]
        };
        let log = |first, last| Name::Log { first: Lsn(first), last: Lsn(last), writer: 1 };
        let (made_one, small) = (log(11, 30), [log(11, 20), log(21, 30)]);
        let gone = |damaged: &[Name]| {
            let names = [&copy(10)[..], &copy(40), &small, &[made_one, log(31, 70)]].concat();
            let damaged = damaged.iter().filter_map(Piece::of).collect();
            let keep: Keep = "1h:all".parse().unwrap();
            let mut survey = Survey::new(names, (keep, 0), 0, (Headers::default(), damaged));
            survey.now_ms = 10 * 3_600_000;
            survey.points = vec![Point { lsn: Lsn(45), time_ms: 0 }];
            survey.plan(&[], None).unwrap().gone
        };
        assert!(small.iter().all(|name| gone(&[]).contains(name)));
        assert!(!small.iter().any(|name| gone(&[made_one]).contains(name)));
    }
}
