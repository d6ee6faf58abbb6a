//! Which block is meant by a time, or by "before the last FLUSHALL".

use base::{Lsn, Note, NoteEvent, RecordKind};
use redo::{BlockTime, Id, TimeOfBlock};

use crate::error::{Error, Result};
use crate::name::Name;
use crate::object::{Header, ObjectReader};
use crate::picture::{Picture, Range};
use crate::target::Target;

/// An archive that is looked through.
pub(crate) struct Moments<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) database: Id,
    pub(crate) picture: &'a Picture,
}

/// A block, and which range it is in.
#[derive(Clone, Copy)]
struct Found {
    range: usize,
    block: BlockTime,
}

impl Moments<'_> {
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
        for name in &range.logs {
            let mut object = ObjectReader::open(self.target, self.database, *name)?;
            let header = *object.header();
            let Name::Log { last: end, .. } = *name else { continue };
            if header.time_min_ms > time_ms {
                blocks.push(BlockTime { lsn: end, time_ms: header.time_min_ms });
            } else if header.time_max_ms <= time_ms {
                blocks.push(BlockTime { lsn: end, time_ms: header.time_max_ms });
            } else {
                while let Some(block) = object.next()? {
                    let (lsn, time_ms) = (block.header.lsn, block.header.time_ms);
                    blocks.push(BlockTime { lsn, time_ms });
                }
            }
        }
        let mut last = Lsn::ZERO;
        blocks.retain(|block| {
            let is_new = block.lsn > last || block.lsn == range.first && last == Lsn::ZERO;
            last = block.lsn.max(last);
            is_new
        });
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
        let mut flushes = Vec::new();
        for (index, range) in self.picture.ranges.iter().enumerate() {
            let leading = range.thinned.iter().flat_map(|thinned| &thinned.parts);
            let mut last = range.thinned.as_ref().map_or(range.first, |thinned| thinned.from);
            for name in leading.chain(&range.logs) {
                let mut object = ObjectReader::open(self.target, self.database, *name)?;
                if !object.header().may_have(RecordKind::Note) {
                    continue;
                }
                while let Some(block) = object.next()? {
                    if block.header.lsn <= last {
                        continue;
                    }
                    last = block.header.lsn;
                    let mut notes = block.records().filter(|it| it.kind == RecordKind::Note);
                    if notes.any(|note| loses_data(note.value)) {
                        flushes.push((index, Lsn(last.0 - 1)));
                    }
                }
            }
        }
        let known = flushes.len();
        let found = flushes.into_iter().rev().nth(wanted.max(1) - 1);
        let (index, lsn) = found.ok_or(Error::NoFlush { wanted, known })?;
        // There may have been another one in a gap; where blocks were thinned out, notes are there.
        let behind = &self.picture.ranges[index + 1..];
        let has_gap = behind.iter().position(|range| range.thinned.is_none());
        let before = self.picture.ranges
            [has_gap.map_or(self.picture.ranges.len() - 1, |at| index + at)]
        .last;
        match self.picture.last > Some(before) {
            true => Err(Error::FlushOrGap { lsn, before }),
            false => Ok(lsn),
        }
    }
}

/// Whether a note is of a command that has emptied or exchanged databases.
fn loses_data(note: &[u8]) -> bool {
    let event = Note::decode(note).map(|note| note.event);
    matches!(event, Some(NoteEvent::Command(command)) if command.loses_data)
}
