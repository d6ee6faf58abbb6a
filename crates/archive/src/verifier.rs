//! Reads all of an archive.

use std::collections::VecDeque;

use base::Lsn;
use redo::Id;

use crate::configurations;
use crate::error::{Error, Result, TargetResult};
use crate::headers::bare_header;
use crate::name::{Fill, Folder, Name};
use crate::named;
use crate::object::ObjectReader;
use crate::picture::{Picture, Range};
use crate::restorer::{check_joins, check_records};
use crate::target::Target;

/// So often an object is asked for of which nothing is heard.
const ATTEMPTS_MAX: u32 = 3;

/// What no state is made of, and says which there are: each is small.
const SMALL: [Folder; 6] =
    [Folder::Writer, Folder::Begin, Folder::Tidier, Folder::Named, Folder::Damaged, Folder::Config];

/// What was read.
#[derive(Debug, Default)]
pub struct Verified {
    /// The objects that count, but for what is a header alone: claims, marks, where writers have begun.
    pub objects: u64,
    /// Their blocks, records and bytes.
    pub blocks: u64,
    /// See `blocks`.
    pub records: u64,
    /// See `blocks`.
    pub bytes: u64,
    /// What can be restored, if there is no error.
    pub ranges: Vec<Range>,
    /// See [`Picture::cut_off`].
    pub cut_off: Option<Lsn>,
    /// What is damaged, or missing.
    pub errors: Vec<Error>,
    /// What cannot be read with the keys that there are: nothing is known of it.
    pub locked: Vec<Error>,
}

/// Reads every object that a restore may read, also what is marked as damaged, and compares it with its checksums and its neighbours; names of backups,
/// claims and marks, too. `progress` is told how many were read, of how many.
///
/// # Errors
/// When the target cannot be used: then nothing is known of what was not read. What is found of objects is in the result.
pub fn verify(
    target: &dyn Target,
    database: Id,
    progress: &mut dyn FnMut(u64, u64),
) -> TargetResult<Verified> {
    let picture = Picture::read_all(target, database)?;
    let mut verified = Verified::default();
    let total = picture.ranges.iter().map(|range| range.fills.len() + chain_of(range).1.len());
    let mut small = Vec::new();
    for folder in SMALL {
        small.extend(target.list(database, folder)?);
    }
    let total = (total.sum::<usize>() + small.len()) as u64;
    let mut done = 0;
    for range in &picture.ranges {
        for (fill, objects) in &range.fills {
            let read = attempt(|| verified.read_fill(target, database, *fill, *objects))?;
            if let Err(error) = read {
                // One that is not there any more was too old, if there is another way to what is behind it.
                let is_gone = is_not_found(&error) && {
                    let now = Picture::read_all(target, database)?;
                    let mut newer = now.ranges.iter().flat_map(|range| &range.fills);
                    let is_replaced = newer.any(|(newer, _)| newer.lsn > fill.lsn);
                    !now.is_whole(fill) && (is_replaced || now.range_of(range.last).is_some())
                };
                if !is_gone {
                    verified.note(error);
                }
            }
            done += 1;
            progress(done, total);
        }
        let (mut last, mut logs) = chain_of(range);
        let mut last_crc = None;
        while let Some(name) = logs.pop_front() {
            let read = attempt(|| {
                let mut object = ObjectReader::open(target, database, name)?;
                check_joins(&object, last, last_crc)?;
                let end = verified.read(&mut object)?;
                Ok(end)
            })?;
            match read {
                // Of what was thinned out the last block may not be there.
                Ok(crc) => last_crc = matches!(name, Name::Log { .. }).then_some(crc),
                Err(error) if is_not_found(&error) => {
                    let now = Picture::read_all(target, database)?;
                    if let Some((first, behind)) = logs_behind(&now, range, last, name) {
                        last_crc = last_crc.filter(|_| first == last);
                        (last, logs) = (first, behind);
                        continue;
                    }
                    verified.note(error);
                    last_crc = None;
                }
                Err(error) => {
                    verified.note(error);
                    last_crc = None;
                }
            }
            if let Name::Log { last: end, .. } | Name::Thin { last: end, .. } = name {
                last = end;
            }
            done += 1;
            progress(done.min(total), total);
        }
    }
    for name in small {
        match attempt(|| verified.read_small(target, database, name))? {
            // A server or a tidier has removed it meanwhile: none of these is missed.
            Err(error) if is_not_found(&error) => {}
            Err(error) => verified.note(error),
            Ok(()) => {}
        }
        done += 1;
        progress(done.min(total), total);
    }
    verified.cut_off = picture.cut_off();
    verified.ranges = picture.ranges;
    if verified.cut_off.is_some() {
        // A gap may have healed while all of it was read.
        let now = Picture::read_all(target, database)?;
        (verified.cut_off, verified.ranges) = (now.cut_off(), now.ranges);
    }
    Ok(verified)
}

/// What is read behind a block: what leads to a range, and what is in it.
fn chain_of(range: &Range) -> (Lsn, VecDeque<Name>) {
    let leading = range.thinned.iter().flat_map(|thinned| &thinned.parts);
    let from = range.thinned.as_ref().map_or(range.first, |thinned| thinned.from);
    (from, leading.chain(&range.logs).copied().collect())
}

/// Does it again if nothing was heard of the target, and fails if nothing is.
fn attempt<T>(mut read: impl FnMut() -> Result<T>) -> TargetResult<Result<T>> {
    let mut attempts = 1;
    loop {
        match read() {
            Err(Error::Target(error)) if !error.is_not_found() => {
                if attempts == ATTEMPTS_MAX {
                    return Err(error);
                }
                attempts += 1;
            }
            done => return Ok(done),
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Target(error) if error.is_not_found())
}

/// What is to be read behind `last` instead of an object that is not there any more, because it was made one with others, was too
/// old or was thinned out; and behind which block. `None` if nothing has taken its place.
fn logs_behind(
    now: &Picture,
    range: &Range,
    last: Lsn,
    missing: Name,
) -> Option<(Lsn, VecDeque<Name>)> {
    let begin = now.ranges.first()?.first;
    if begin > range.last {
        return Some((range.last, VecDeque::new()));
    }
    let there = now.range_of(range.last).filter(|there| !there.logs.contains(&missing))?;
    let is_thinned = there.thinned.is_some();
    if there.first > last && there.first != begin && !is_thinned {
        return None;
    }
    let last = last.max(there.first);
    let is_behind = |name: &Name| matches!(name, Name::Log { last: end, .. } if *end > last);
    Some((last, there.logs.iter().copied().filter(is_behind).collect()))
}

impl Verified {
    fn note(&mut self, error: Error) {
        match error {
            Error::NoKey { .. } | Error::NotEncrypted { .. } => self.locked.push(error),
            error => self.errors.push(error),
        }
    }

    fn read_fill(
        &mut self,
        target: &dyn Target,
        database: Id,
        fill: Fill,
        objects: u32,
    ) -> Result<()> {
        let name = Name::Whole { fill, objects };
        let whole = *ObjectReader::open(target, database, name)?.header();
        let (mut blocks, mut records) = (0, 0);
        for index in 0..objects {
            let name = Name::Base { fill, index };
            let header = attempt(|| {
                let mut object = ObjectReader::open(target, database, name)?;
                self.read(&mut object)?;
                Ok(*object.header())
            });
            let header = header.map_err(Error::Target)??;
            blocks += header.blocks;
            records += header.records;
        }
        if (blocks, records) != (whole.blocks, whole.records) {
            let what = "the copy has other blocks than it counts";
            return Err(Error::Damaged { name, at: 80, what });
        }
        self.objects += 1;
        Ok(())
    }

    /// Reads an object that has no blocks.
    fn read_small(&mut self, target: &dyn Target, database: Id, name: Name) -> Result<()> {
        match name {
            Name::Named { .. } => drop(named::text_of(target, database, name)?),
            Name::Config { .. } => drop(configurations::text_of(target, database, name)?),
            _ => return bare_header(target, database, name).map(drop),
        }
        self.objects += 1;
        Ok(())
    }

    /// Reads an object to its end. Returns the checksum of its last block's records.
    fn read(&mut self, object: &mut ObjectReader) -> Result<u32> {
        while let Some(block) = object.next()? {
            check_records(object.header().name, &block)?;
        }
        let header = object.header();
        self.objects += 1;
        self.blocks += header.blocks;
        self.records += header.records;
        self.bytes += header.bytes;
        Ok(header.last_crc)
    }
}
