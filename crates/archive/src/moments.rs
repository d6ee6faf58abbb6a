//! Which block is meant by a time, by "before the last FLUSHALL", or by "before this key was lost".
//!
//! What happened last is looked for from the end: a flush in some objects at a time, a key in what is behind a copy at a time, of which the copy says
//! whether it was there. Several objects are read at a time, because most of it is waiting for another machine.

use std::collections::BTreeSet;

use base::{Lsn, Note, NoteEvent, RecordKind};
use redo::{BlockTime, Deletions, Id, KeyFact, TimeOfBlock, WantedKey, side_by_side};

use crate::error::{Error, Result};
use crate::name::Name;
use crate::object::{Header, ObjectReader};
use crate::picture::{Chain, Picture, Range};
use crate::target::Target;

/// So many objects are asked for before it is looked whether one of them failed, or was enough.
const TOGETHER_MAX: usize = 32;

/// An archive that is looked through.
pub(crate) struct Moments<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) database: Id,
    pub(crate) picture: &'a Picture,
    /// On how many threads objects are read.
    pub(crate) threads: usize,
}

/// A block, and which range it is in.
#[derive(Clone, Copy)]
struct Found {
    range: usize,
    block: BlockTime,
}

/// What a block says of a key.
type Told = (Lsn, Vec<KeyFact>);

/// What blocks behind a copy say of how a key was lost.
struct Loss {
    /// The block that has lost it last.
    lost: Option<Lsn>,
    /// The last block of a leap that has set it, or exchanged databases, and where that leap begins: of a key a leap tells no more than what became of it
    /// last, so it may have been lost there, before that block.
    set_in_leap: Option<(Lsn, Lsn)>,
}

impl Moments<'_> {
    /// What comes of each of these, in their order; the first error, with a few others read in vain.
    fn of_each<T: Send>(
        &self,
        names: &[Name],
        work: impl Fn(&Name) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(TOGETHER_MAX) {
            for done in side_by_side(names, self.threads, &work) {
                all.push(done?);
            }
        }
        Ok(all)
    }

    fn header(&self, name: Name) -> Result<Header> {
        Ok(*ObjectReader::open(self.target, self.database, name)?.header())
    }

    /// The last block of a copy or an object that is not later than the time, before the first one that is.
    pub(crate) fn at(&self, time_ms: i64) -> Result<Lsn> {
        let mut all = Vec::new();
        for (index, range) in self.picture.ranges.iter().enumerate() {
            let blocks = self.blocks_of(range, time_ms)?;
            all.extend(blocks.into_iter().map(|block| Found { range: index, block }));
        }
        let is_later = |found: &Found| found.block.time_ms > time_ms;
        let turns = all.windows(2).filter(|pair| !is_later(&pair[0]) && is_later(&pair[1]));
        let mut candidates: Vec<[Option<Found>; 2]> =
            turns.map(|pair| [Some(pair[0]), Some(pair[1])]).collect();
        let last = all.last().filter(|last| !is_later(last));
        candidates.extend(last.map(|last| [Some(*last), None]));
        let time = TimeOfBlock(time_ms);
        match candidates[..] {
            [[Some(before), after]] => match after.filter(|after| after.range != before.range) {
                Some(after) => {
                    let (before, after) = (before.block.lsn, Some(after.block.lsn));
                    Err(Error::InGap { time, before, after })
                }
                // What is behind the last range, and before that time, cannot be restored.
                None if after.is_none()
                    && time_ms > before.block.time_ms
                    && self.picture.last > Some(self.picture.ranges[before.range].last) =>
                {
                    Err(Error::InGap { time, before: before.block.lsn, after: None })
                }
                None => Ok(before.block.lsn),
            },
            [[Some(first), _], .., [Some(last), _]] => Err(Error::ClockWentBack {
                time,
                count: candidates.len(),
                first: first.block.lsn,
                last: last.block.lsn,
            }),
            _ => match all.first() {
                Some(Found { block, .. }) => Err(Error::TooEarly {
                    time,
                    first: block.lsn,
                    first_time: TimeOfBlock(block.time_ms),
                }),
                None => Err(Error::Nothing),
            },
        }
    }

    /// When a range's first block was the last one.
    pub(crate) fn first_ms(&self, range: &Range) -> Result<i64> {
        let copy = range.fills.first().filter(|(fill, _)| fill.lsn == range.first);
        let copy = copy.map(|(fill, objects)| Name::Whole { fill: *fill, objects: *objects });
        let leading = range.thinned.as_ref().and_then(|thinned| thinned.parts.last().copied());
        let name = leading.or(copy).ok_or(Error::Nothing)?;
        // A copy says when it was begun to be read, at the latest: blocks behind it may have been there by then.
        let is_behind = |next: &&Name| matches!(next, Name::Log { first, .. } if leading.is_none() && *first > range.first);
        let next = range.logs.first().filter(is_behind);
        let next = next.map(|next| self.header(*next)).transpose()?;
        let next_ms = next.map_or(i64::MAX, |next| next.time_min_ms);
        Ok(self.header(name)?.time_max_ms.min(next_ms))
    }

    /// The range's first block, and those behind it, of which many that are all later, or all not, are one.
    fn blocks_of(&self, range: &Range, time_ms: i64) -> Result<Vec<BlockTime>> {
        let mut blocks = vec![BlockTime { lsn: range.first, time_ms: self.first_ms(range)? }];
        let all = self.of_each(&range.logs, |name| self.blocks_in(*name, time_ms))?;
        blocks.extend(all.into_iter().flatten());
        let mut last = Lsn::ZERO;
        blocks.retain(|block| {
            let is_new = block.lsn > last || block.lsn == range.first && last == Lsn::ZERO;
            last = block.lsn.max(last);
            is_new
        });
        Ok(blocks)
    }

    /// The blocks of an object of the log; the last one alone if all are later than the time, or none is.
    fn blocks_in(&self, name: Name, time_ms: i64) -> Result<Vec<BlockTime>> {
        let mut object = ObjectReader::open(self.target, self.database, name)?;
        let (header, mut blocks) = (*object.header(), Vec::new());
        let Name::Log { last, .. } = name else { return Ok(blocks) };
        if header.time_min_ms > time_ms {
            blocks.push(BlockTime { lsn: last, time_ms: header.time_min_ms });
        } else if header.time_max_ms <= time_ms {
            blocks.push(BlockTime { lsn: last, time_ms: header.time_max_ms });
        } else {
            while let Some(block) = object.next()? {
                let (lsn, time_ms) = (block.header.lsn, block.header.time_ms);
                blocks.push(BlockTime { lsn, time_ms });
            }
        }
        Ok(blocks)
    }

    /// When the block was ended, if it is in an object of the log; when the copy's mark was there, if it is that.
    pub(crate) fn time_of(&self, lsn: Lsn) -> Result<Option<i64>> {
        let Some(chain) = self.picture.chain(lsn) else { return Ok(None) };
        if chain.fill.lsn == lsn {
            let name = Name::Whole { fill: chain.fill, objects: chain.objects };
            return self.header(name).map(|it| Some(it.time_max_ms));
        }
        let Some(name) = chain.logs.last() else { return Ok(None) };
        if let Name::Thin { .. } = name {
            return self.header(*name).map(|it| Some(it.time_max_ms));
        }
        let mut object = ObjectReader::open(self.target, self.database, *name)?;
        while let Some(block) = object.next()? {
            if block.header.lsn == lsn {
                return Ok(Some(block.header.time_ms));
            }
        }
        Ok(None)
    }

    /// The block before databases were emptied or exchanged: for the last time with 1, for the time before with 2.
    pub(crate) fn before_flush(&self, wanted: usize) -> Result<Lsn> {
        let wanted = wanted.max(1);
        // Blocks may be in two objects.
        let mut flushes = BTreeSet::new();
        'all: for range in self.picture.ranges.iter().rev() {
            let leading = range.thinned.iter().flat_map(|thinned| &thinned.parts);
            let names: Vec<Name> = leading.chain(&range.logs).copied().collect();
            let begin = range.thinned.as_ref().map_or(range.first, |thinned| thinned.from);
            for names in names.rchunks(TOGETHER_MAX) {
                let found = self.of_each(names, |name| self.flushes_in(*name))?;
                flushes.extend(found.into_iter().flatten().filter(|lsn| *lsn > begin));
                if flushes.len() >= wanted {
                    break 'all;
                }
            }
        }
        let flush = flushes.iter().rev().nth(wanted - 1);
        let flush = flush.ok_or(Error::NoFlush { wanted, known: flushes.len() })?;
        let lsn = Lsn(flush.0 - 1);
        // There may have been another one in a gap; where blocks were thinned out, notes are there.
        match self.picture.gap_behind(*flush) {
            Some(before) => Err(Error::FlushOrGap { lsn, before }),
            None => Ok(lsn),
        }
    }

    /// The blocks of an object in which databases were emptied or exchanged.
    fn flushes_in(&self, name: Name) -> Result<Vec<Lsn>> {
        let mut object = ObjectReader::open(self.target, self.database, name)?;
        let mut flushes = Vec::new();
        if !object.header().may_have(RecordKind::Note) {
            return Ok(flushes);
        }
        while let Some(block) = object.next()? {
            let mut notes = block.records().filter(|it| it.kind == RecordKind::Note);
            if notes.any(|note| loses_data(note.value)) {
                flushes.push(block.header.lsn);
            }
        }
        Ok(flushes)
    }

    /// The block before the one in which a key was lost last: deleted, expired, or flushed with its database. The state after it may be one that was
    /// thinned out.
    pub(crate) fn before_delete(&self, wanted: &WantedKey) -> Result<Lsn> {
        let ranges = &self.picture.ranges;
        let mut end = ranges.last().ok_or(Error::Nothing)?.last;
        let mut set_in_leap = None;
        let lost = loop {
            if let Some(chain) = self.picture.chain_behind(end, end) {
                let loss = self.lost_in(&chain, end, wanted)?;
                set_in_leap = set_in_leap.or(loss.set_in_leap);
                if loss.lost.is_some() {
                    break loss.lost;
                }
                end = chain.fill.lsn;
                continue;
            }
            // Nothing leads here: there is a gap, or it is where the archive begins.
            let first = self.picture.range_of(end).map_or(end, |range| range.first);
            match ranges.iter().rev().find(|range| range.last < first) {
                Some(range) => end = range.last,
                None => break None,
            }
        };
        let key = || wanted.key.escape_ascii().to_string();
        let database = wanted.database;
        let first = ranges[0].first;
        let lost = lost.ok_or_else(|| Error::NoDelete { key: key(), database, first })?;
        let lsn = Lsn(lost.0 - 1);
        let leap = set_in_leap.filter(|(set, _)| *set > lost).map(|(_, from)| from);
        match self.picture.gap_behind(lost).or(leap) {
            Some(before) => Err(Error::DeleteOrGap { key: key(), database, lsn, before }),
            None => Ok(lsn),
        }
    }

    /// How a key was lost last behind a copy, up to `end`.
    fn lost_in(&self, chain: &Chain, end: Lsn, wanted: &WantedKey) -> Result<Loss> {
        let all = self.of_each(&chain.logs, |name| self.told_in(*name, wanted))?;
        let is_map = |fact: &KeyFact| matches!(fact, KeyFact::Map(..));
        let mut told = all.iter().flatten();
        let has_map = told.any(|(_, facts)| facts.iter().any(is_map));
        let mut deletions = Deletions::new(wanted);
        let (mut last, mut set_in_leap) = (chain.fill.lsn, None);
        deletions.take(last, &self.copied(chain, wanted, has_map)?);
        let sets = |fact: &KeyFact| matches!(fact, KeyFact::Set(_) | KeyFact::Map(..));
        for (name, told) in chain.logs.iter().zip(&all) {
            for (lsn, facts) in told {
                // Blocks may be in two objects.
                if *lsn <= last || *lsn > end {
                    continue;
                }
                deletions.take(*lsn, facts);
                last = *lsn;
                if let Name::Thin { from, .. } = name
                    && facts.iter().any(sets)
                {
                    set_in_leap = Some((*lsn, *from));
                }
            }
        }
        Ok(Loss { lost: deletions.last, set_in_leap })
    }

    /// What a copy says of a key: which database has its number, and, where a whole database may be lost, whether it is there.
    fn copied(&self, chain: &Chain, wanted: &WantedKey, is_all: bool) -> Result<Vec<KeyFact>> {
        if !is_all && !self.header(chain.whole())?.may_have(RecordKind::Databases) {
            return Ok(Vec::new());
        }
        let parts: Vec<Name> =
            (0..chain.objects).map(|index| Name::Base { fill: chain.fill, index }).collect();
        let all = self.of_each(&parts, |name| {
            let is_needed = is_all || self.header(*name)?.may_have(RecordKind::Databases);
            if is_needed { self.told_in(*name, wanted) } else { Ok(Vec::new()) }
        })?;
        // Each entry is there once, in any order.
        Ok(all.into_iter().flatten().flat_map(|(_, facts)| facts).collect())
    }

    /// What the blocks of an object say of a key: those that say something.
    fn told_in(&self, name: Name, wanted: &WantedKey) -> Result<Vec<Told>> {
        let mut object = ObjectReader::open(self.target, self.database, name)?;
        let mut told = Vec::new();
        while let Some(block) = object.next()? {
            let facts: Vec<KeyFact> =
                block.records().filter_map(|record| KeyFact::of(&record, wanted)).collect();
            if !facts.is_empty() {
                told.push((block.header.lsn, facts));
            }
        }
        Ok(told)
    }
}

/// Whether a note is of a command that has emptied or exchanged databases.
fn loses_data(note: &[u8]) -> bool {
    let event = Note::decode(note).map(|note| note.event);
    matches!(event, Some(NoteEvent::Command(command)) if command.loses_data)
}
