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
//! Nothing that is strictly inside a complete leap is believed to be there: another tidier may be removing it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use base::Lsn;
use redo::Id;

use crate::error::Result;
use crate::keep::{Every, Keep};
use crate::name::{Fill, Name};
use crate::object::{Header, ObjectReader};
use crate::picture::{Picture, Thinned};
use crate::target::Target;
use crate::thinner::Job;

/// Leaps behind a copy are together about as long as so many copies, at most, and one more.
const LEAPS_MAX: u64 = 4;

/// Why a state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is the last one of its time.
    Rule(Every),
    /// A backup has named it.
    Named,
    /// There is a copy, which others need.
    Copy,
}

/// A state that is kept of those that are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptState {
    /// The block.
    pub lsn: Lsn,
    /// When it was the last one, in Unix milliseconds, if that was looked at.
    pub time_ms: Option<i64>,
    /// Why.
    pub why: Why,
}

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
    names: Vec<Name>,
    picture: Picture,
    keep: Keep,
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
}

impl Survey {
    /// Begins to look at what these objects are. Ages are counted from `now_ms`, or from the newest block if that is
    /// older.
    pub(crate) fn new(names: Vec<Name>, picture: Picture, keep: Keep, now_ms: i64) -> Self {
        let mut looks = VecDeque::new();
        for range in &picture.ranges {
            let copy = range.fills.first().filter(|(fill, _)| fill.lsn == range.first);
            let copy = copy.map(|(fill, objects)| Name::Whole { fill: *fill, objects: *objects });
            let leading = range.thinned.as_ref().and_then(|it| it.parts.last().copied());
            // A copy says when its block was the last one, a leap when that was ended.
            let next = range.logs.first().filter(|_| leading.is_none()).copied();
            let is_behind =
                |next: &Name| matches!(next, Name::Log { first, .. } if *first > range.first);
            let next = next.filter(is_behind);
            looks.extend(leading.or(copy).map(|name| Look::State(range.first, name, next)));
            looks.extend(range.logs.iter().map(|name| Look::Log(*name)));
        }
        let (points, weighing, bytes) = (Vec::new(), None, HashMap::new());
        let time_ms = i64::MIN;
        Self {
            names,
            picture,
            keep,
            now_ms,
            looks,
            points,
            time_ms,
            has_begun: false,
            is_over: false,
            weighing,
            bytes,
        }
    }

    /// The object that tells the newest time.
    fn newest(&self) -> Option<Name> {
        let newest = self.picture.ranges.last()?;
        let copy = newest.fills.last().map(|(fill, objects)| (*fill, *objects));
        let copy = copy.map(|(fill, objects)| Name::Whole { fill, objects });
        newest.logs.last().copied().or(copy)
    }

    /// Looks at something more. Returns whether there was something.
    pub(crate) fn step(&mut self, target: &dyn Target, database: Id) -> Result<bool> {
        let header = |name: Name| -> Result<Header> {
            Ok(*ObjectReader::open(target, database, name)?.header())
        };
        if !self.has_begun {
            let Some(newest) = self.newest() else { return Ok(false) };
            self.now_ms = self.now_ms.min(header(newest)?.time_max_ms);
            self.has_begun = true;
            return Ok(true);
        }
        if let Some(look) = self.looks.front().copied().filter(|_| !self.is_over) {
            // What has failed is done again, which changes nothing.
            match look {
                Look::State(lsn, name, next) => {
                    let next_ms = next.map(header).transpose()?;
                    let next_ms = next_ms.map_or(i64::MAX, |next| next.time_min_ms);
                    self.note(lsn, header(name)?.time_max_ms.min(next_ms));
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
        self.bytes.insert(name, header(name)?.bytes);
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
        let mut object = ObjectReader::open(target, database, name)?;
        let header = *object.header();
        self.bytes.insert(name, header.bytes);
        let first_ms = header.time_min_ms.max(self.time_ms);
        let last_ms = header.time_max_ms.max(self.time_ms);
        let is_old = self.keep.every_at(last_ms, self.now_ms) != Some(Every::All);
        if is_old && self.keep.finest().is_same(first_ms, last_ms) {
            self.note(last, last_ms);
            return Ok(());
        }
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

    /// Whether a block is strictly inside a leap that can be used.
    fn is_inside(&self, lsn: Lsn) -> bool {
        let is_used = |leap: &&Thinned| self.picture.range_of(leap.from).is_some();
        let mut leaps = self.picture.thinned.iter().filter(is_used);
        leaps.any(|leap| leap.from < lsn && lsn < leap.to)
    }

    /// The copies up to a block.
    fn copies(&self, last: Lsn) -> BTreeMap<Lsn, (Fill, u32)> {
        let fills = self.picture.ranges.iter().flat_map(|range| &range.fills);
        let old = fills.filter(|(fill, _)| fill.lsn <= last && !self.is_inside(fill.lsn));
        old.map(|(fill, objects)| (fill.lsn, (*fill, *objects))).collect()
    }

    /// The leap from one block to another, if it is there.
    fn leap(&self, from: Lsn, to: Lsn) -> Option<&Thinned> {
        self.picture.thinned.iter().find(|leap| (leap.from, leap.to) == (from, to))
    }

    /// About how long the leap from one block to another is: as what it is made of, or the data if that is less. `None` if it
    /// cannot be made.
    fn leap_bytes(&self, from: Lsn, to: Lsn, data_bytes: u64) -> Option<u64> {
        let of = |parts: &[Name]| parts.iter().filter_map(|name| self.bytes.get(name)).sum::<u64>();
        match self.leap(from, to) {
            Some(leap) => Some(of(&leap.parts)),
            None => Some(of(&self.inputs(from, to)?).min(data_bytes)),
        }
    }

    /// The objects that have every block behind `from` up to `to`, whole or as it was thinned out, in order; `None` if some are
    /// nowhere.
    fn inputs(&self, from: Lsn, to: Lsn) -> Option<Vec<Name>> {
        let leaps: Vec<&Thinned> =
            self.picture.thinned.iter().filter(|leap| leap.to <= to).collect();
        let (mut at, mut inputs) = (from, Vec::new());
        while at < to {
            let longest = leaps.iter().filter(|leap| leap.from == at).max_by_key(|leap| leap.to);
            if let Some(leap) = longest {
                inputs.extend_from_slice(&leap.parts);
                at = leap.to;
                continue;
            }
            let ranges = &self.picture.ranges;
            let range = ranges.iter().find(|range| range.last > at && range.first <= at)?;
            // As far as its blocks go, or up to where a leap begins.
            let leap = leaps.iter().filter(|leap| leap.from > at && leap.from < range.last);
            let end = leap.map(|leap| leap.from).min().unwrap_or(range.last).min(to);
            let has_some = |name: &&Name| matches!(name, Name::Log { first, last, .. } if *last > at && *first <= end);
            inputs.extend(range.logs.iter().filter(has_some));
            at = end;
        }
        Some(inputs)
    }

    /// What is kept, what is to be made for it, and what goes.
    pub(crate) fn plan(self, named: &[Lsn]) -> Option<Plan> {
        let last = self.last()?;
        let nodes = self.nodes(named, last);
        let mut plan = Plan::new(last, &nodes);
        let mut needed: HashSet<Name> = HashSet::new();
        let copies = self.copies(last);
        for (fill, _) in nodes.copies.iter().filter_map(|lsn| copies.get(lsn)) {
            needed.extend(self.names_of(*fill));
        }
        let leading = nodes.leading.iter().flat_map(|nodes| nodes.windows(2));
        for pair in leading {
            let [from, to] = [pair[0], pair[1]];
            if let Some(leap) = self.leap(from, to) {
                needed.extend(&leap.parts);
            } else if let Some(inputs) = self.inputs(from, to) {
                plan.jobs.push_back(Job { from, to, inputs });
            } else if !copies.contains_key(&to)
                && let Some(chain) = self.picture.chain(to)
            {
                // There is no way from the one to the other: it stays as it is.
                needed.extend(self.names_of(chain.fill));
                needed.extend(chain.logs);
            }
        }
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
            // One that is being made has no end yet.
            Name::Base { fill, .. } => is_young(fill.lsn) || !wholes.contains(&fill),
            _ => true,
        };
        let goes = |name: &&Name| !needed.contains(name) && !is_kept(name);
        let mut gone: Vec<Name> = self.names.iter().filter(goes).copied().collect();
        // What never counts goes first: what makes that so may go, too. Then copies, and what leads from them.
        let rank = |name: &Name| match name {
            Name::Base { .. } => 1,
            Name::Whole { .. } => 2,
            Name::Log { .. } => 3,
            _ => 4,
        };
        gone.retain(|name| !self.picture.stale.contains(name));
        gone.sort_by_key(|name| (rank(name), *name));
        plan.gone = self.picture.stale.iter().copied().chain(gone).collect();
        plan.kept = self.kept_states(&nodes, named);
        let after = self.picture_after(&plan);
        plan.states_after = after.states();
        plan.ranges = after.ranges.iter().map(|range| (range.first, range.last)).collect();
        Some(plan)
    }

    /// What there will be.
    fn picture_after(&self, plan: &Plan) -> Picture {
        let gone: HashSet<&Name> = plan.gone.iter().collect();
        let left = self.names.iter().filter(|name| !gone.contains(name)).copied();
        let made = plan.jobs.iter().map(|job| {
            let Job { from, to, .. } = *job;
            Name::Thin { first: from.next(), last: to, from, to, tidier: u64::MAX }
        });
        Picture::of(&left.chain(made).collect::<Vec<_>>())
    }

    /// All objects of a copy.
    fn names_of(&self, fill: Fill) -> impl Iterator<Item = Name> {
        let names = self.names.iter().copied();
        names.filter(move |name| match name {
            Name::Whole { fill: of, .. } | Name::Base { fill: of, .. } => *of == fill,
            _ => false,
        })
    }

    fn kept_states(&self, nodes: &Nodes, named: &[Lsn]) -> Vec<KeptState> {
        let kept = nodes.all().into_iter().map(|lsn| {
            let at = self.points.partition_point(|point| point.lsn < lsn);
            let point = self.points.get(at).filter(|point| point.lsn == lsn);
            let why = match nodes.by_rule.get(&lsn) {
                Some(every) => Why::Rule(*every),
                None if named.contains(&lsn) => Why::Named,
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
            (is_last && !self.is_inside(point.lsn)).then_some((point.lsn, every))
        });
        points.collect()
    }

    fn nodes(&self, named: &[Lsn], last: Lsn) -> Nodes {
        let copies = self.copies(last);
        let by_rule = self.by_rule();
        let is_there = |lsn: &Lsn| {
            *lsn <= last && !self.is_inside(*lsn) && self.picture.range_of(*lsn).is_some()
        };
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

    /// The nodes of a chain without the copies that are not worth their length.
    fn without_copies(
        &self,
        chain: BTreeSet<Lsn>,
        by_rule: &BTreeMap<Lsn, Every>,
        named: &BTreeSet<Lsn>,
    ) -> Vec<Lsn> {
        let chain: Vec<Lsn> = chain.into_iter().collect();
        let newest = self.picture.ranges.iter().flat_map(|range| &range.fills).next_back();
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
    /// Others that must stay.
    extra: BTreeSet<Lsn>,
}

impl Nodes {
    fn all(&self) -> BTreeSet<Lsn> {
        let chains = self.leading.iter().flatten().copied();
        chains.chain(self.copies.iter().copied()).chain(self.extra.iter().copied()).collect()
    }
}

/// See the file's top.
pub(crate) struct Plan {
    /// The last block that is old.
    pub(crate) last: Lsn,
    /// What is kept of what is old, ascending.
    pub(crate) kept: Vec<KeptState>,
    /// Leaps to be made.
    pub(crate) jobs: VecDeque<Job>,
    /// What goes when they are there, in this order.
    pub(crate) gone: Vec<Name>,
    /// Every state of these can be restored afterwards.
    pub(crate) nodes: Vec<Lsn>,
    /// What can be restored then: how many states, and from which block up to which.
    pub(crate) states_after: u64,
    /// See `states_after`.
    pub(crate) ranges: Vec<(Lsn, Lsn)>,
}

impl Plan {
    fn new(last: Lsn, nodes: &Nodes) -> Self {
        let nodes = nodes.all().into_iter().collect();
        Self {
            last,
            kept: Vec::new(),
            jobs: VecDeque::new(),
            gone: Vec::new(),
            nodes,
            states_after: 0,
            ranges: Vec::new(),
        }
    }
}
