//! A writer takes an archive, or finds that it is not that of its log.
//!
//! ```text
//!   look ─► is the end of the archive a block of the log? ─► create claim n + 1 ─► look again: go on behind what is there
//!            no: refused, and nothing was touched                                       └─► create begin
//! ```
//!
//! What an earlier writer has told to be archived was there before it saw no claim behind its object, so it is found when the claim is
//! there. What cannot be read is asked for before the claim, so a target that fails costs no number; a claim that was
//! made is kept when what follows fails.
//!
//! What is marked as damaged, or is seen to be, is there, and leads nowhere: a writer begins behind it, and goes on from what is there only if something
//! else leads to the last block.

use std::collections::HashMap;

use base::Lsn;
use redo::{Id, Reader};

use crate::error::{Error, Result, TargetError};
use crate::headers::read_to_end;
use crate::name::{Folder, Name, WRITER_MAX};
use crate::object::{Header, ObjectReader};
use crate::picture::Picture;
use crate::piece::Piece;
use crate::target::{Put, Target};

/// So many objects behind the newest copy are asked for their length.
const SAMPLES_MAX: usize = 64;

/// An archive that was claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) writer: u64,
    pub(crate) found: Found,
}

/// What there is, and what of it can be gone on from.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) picture: Picture,
    pub(crate) footing: Footing,
    /// What was seen to be damaged, and is not marked.
    pub(crate) damaged: Vec<Piece>,
}

/// What a writer goes on from, as the headers of the newest objects say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Footing {
    /// The header of the object that ends with the last block, if that was seen to be the log's own.
    pub(crate) last: Option<Header>,
    /// That of the newest complete copy from which the newest state can be restored; `None` if none can be.
    pub(crate) whole: Option<Header>,
    /// About how many bytes of blocks are behind it.
    pub(crate) log_bytes: u64,
}

/// A claim that is being made.
#[derive(Default)]
pub(crate) struct Claiming {
    /// What was there before it.
    found: Option<Found>,
    /// Its number, once it is there.
    writer: Option<u64>,
}

impl Claiming {
    /// Claims the archive of the database whose log `reader` reads; goes on where it was when the last call has failed.
    pub(crate) fn take(
        &mut self,
        target: &dyn Target,
        database: Id,
        reader: &Reader,
    ) -> Result<Claim> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => self.create(target, database, reader)?,
        };
        // An earlier writer may have put something until now.
        let names = Picture::names(target, database)?;
        let mut found = match &self.found {
            Some(before) if before.is_same(&names) => before.clone(),
            _ => Found::look(names.clone(), (target, database), reader)?,
        };
        let lsn = found.picture.last.map_or(Lsn(1), Lsn::next);
        let begin = Name::Begin { lsn, writer };
        target.put_new(database, &begin, &Header::new(database, begin).encode())?;
        let damaged = tidy(target, database, &found.picture, writer)?;
        if !damaged.is_empty() {
            let marks = damaged.iter().map(|piece| Name::Damaged { piece: *piece });
            let names = names.into_iter().chain(marks).collect();
            found = Found::look(names, (target, database), reader)?;
            found.damaged.extend(damaged);
        }
        Ok(Claim { writer, found })
    }

    fn create(&mut self, target: &dyn Target, database: Id, reader: &Reader) -> Result<u64> {
        let names = Picture::names(target, database)?;
        let found = Found::look(names, (target, database), reader)?;
        let before = found.picture.writer;
        if before >= WRITER_MAX {
            return Err(Error::NoNumber { writer: before });
        }
        let writer = before + 1;
        let name = Name::Writer { writer };
        let claim = Header::new(database, name).encode();
        if target.put_new(database, &name, &claim)? == Put::Taken {
            // The next attempt takes the number behind it.
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(TargetError::of("claim the archive by", name.to_string())(source).into());
        }
        self.found = Some(found);
        self.writer = Some(writer);
        Ok(writer)
    }
}

impl Found {
    /// Looks at what these objects are.
    ///
    /// # Errors
    /// When the archive is seen not to be of this log, or cannot be read.
    fn look(
        mut names: Vec<Name>,
        (target, database): (&dyn Target, Id),
        reader: &Reader,
    ) -> Result<Self> {
        let mut damaged = Vec::new();
        loop {
            let picture = Picture::of(&names);
            let piece = match Footing::read(target, database, &picture, reader) {
                Ok(footing) => return Ok(Self { picture, footing, damaged }),
                Err(Error::Damaged { name, at, what }) => {
                    let piece = Piece::of(&name).filter(|piece| !damaged.contains(piece));
                    piece.ok_or(Error::Damaged { name, at, what })?
                }
                Err(error) => return Err(error),
            };
            // Something else leads there, or a new copy will.
            damaged.push(piece);
            names.push(Name::Damaged { piece });
        }
    }

    /// Whether the same blocks and copies are there.
    fn is_same(&self, names: &[Name]) -> bool {
        let marks = self.damaged.iter().map(|piece| Name::Damaged { piece: *piece });
        let names: Vec<Name> = names.iter().copied().chain(marks).collect();
        self.picture.has_same_blocks(&Picture::of(&names))
    }
}

impl Footing {
    /// Reads so much that every key is asked for that is needed to go on, and never more than a few objects.
    ///
    /// # Errors
    /// When the archive is seen not to be of this log, or cannot be read.
    fn read(target: &dyn Target, database: Id, picture: &Picture, reader: &Reader) -> Result<Self> {
        let last = last_of(target, database, picture, reader)?;
        let mut footing = Self { last, ..Self::default() };
        let newest = picture.ranges.last().and_then(|range| picture.chain(range.last));
        let Some(chain) = newest else { return Ok(footing) };
        let name = Name::Whole { fill: chain.fill, objects: chain.objects };
        footing.whole = Some(*ObjectReader::open(target, database, name)?.header());
        let step = chain.logs.len().div_ceil(SAMPLES_MAX).max(1);
        for name in chain.logs.iter().step_by(step) {
            let bytes = ObjectReader::open(target, database, *name)?.header().bytes;
            footing.log_bytes = footing.log_bytes.saturating_add(bytes * step as u64);
        }
        Ok(footing)
    }
}

/// The header of the last object, if its last block was compared with the log's and is the same. What was compacted or is damaged
/// cannot be compared, nor a copy: a log that went another way could be taken for this one.
///
/// # Errors
/// When the archive is seen not to be of this log.
fn last_of(
    target: &dyn Target,
    database: Id,
    picture: &Picture,
    reader: &Reader,
) -> Result<Option<Header>> {
    let Some(archived) = picture.last else { return Ok(None) };
    let durable = reader.whole_blocks(Lsn(1)).end();
    if archived > durable {
        return Err(Error::Ahead { archived, durable });
    }
    // A copy has no block to compare.
    let Some(name) = picture.last_log else { return Ok(None) };
    let header = match ObjectReader::open(target, database, name) {
        // It is known: there is nothing to compare.
        Err(Error::Damaged { .. })
            if Piece::of(&name).is_some_and(|piece| picture.damaged.contains(&piece)) =>
        {
            return Ok(None);
        }
        object => *object?.header(),
    };
    match reader.whole_blocks(archived).up_to(archived).next() {
        Ok(Some(block)) => {
            let block = block.header();
            if block.payload_crc != header.last_crc || block.time_ms > header.time_max_ms {
                return Err(Error::Diverged { lsn: archived });
            }
            Ok(Some(header))
        }
        Ok(None) | Err(_) => Ok(None),
    }
}

/// Removes what earlier writers have begun and not completed, or made one and not removed, and their claims. Where that
/// is refused they stay: no reader takes them for anything. Returns what was found to be damaged.
fn tidy(target: &dyn Target, database: Id, picture: &Picture, writer: u64) -> Result<Vec<Piece>> {
    target.clean(database, &|name| !name.is_of_tidiers())?;
    let mut old = Vec::new();
    for name in target.list(database, Folder::Base)? {
        let Name::Base { fill, .. } = name else { continue };
        // One that a tidier makes may become complete yet, or goes with the next one.
        let is_left = fill.writer < writer && fill.tidier().is_none();
        if is_left && !picture.is_whole(&fill) {
            old.push(name);
        }
    }
    // If what has taken their place is damaged, they are all that there is.
    let mut readable = HashMap::new();
    for name in &picture.covered {
        if is_covered_well(target, database, (picture, name), &mut readable)? {
            old.push(*name);
        }
    }
    let claims = target.list(database, Folder::Writer)?;
    old.extend(claims.into_iter().filter(|name| name.writer() < writer));
    let damaged = readable.iter().filter(|(_, is_readable)| !**is_readable);
    let damaged = damaged.filter_map(|(name, _)| Piece::of(name)).collect();
    for name in old {
        match target.remove(database, &name) {
            Err(error) if error.is_refused() => return Ok(damaged),
            removed => removed?,
        }
    }
    Ok(damaged)
}

/// Whether all objects that count and have blocks of this one can be read to their ends.
fn is_covered_well(
    target: &dyn Target,
    database: Id,
    (picture, name): (&Picture, &Name),
    readable: &mut HashMap<Name, bool>,
) -> Result<bool> {
    let Name::Log { first, last, .. } = *name else { return Ok(true) };
    let has_some = |other: &&Name| matches!(other, Name::Log { first: from, last: to, .. } if *from <= last && first <= *to);
    for other in picture.ranges.iter().flat_map(|range| &range.logs).filter(has_some) {
        let is_readable = match readable.get(other) {
            Some(is_readable) => *is_readable,
            None => can_be_read(target, database, *other)?,
        };
        readable.insert(*other, is_readable);
        if !is_readable {
            return Ok(false);
        }
    }
    Ok(true)
}

fn can_be_read(target: &dyn Target, database: Id, name: Name) -> Result<bool> {
    match read_to_end(target, database, name) {
        Ok(()) => Ok(true),
        Err(Error::Damaged { .. } | Error::Record { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
