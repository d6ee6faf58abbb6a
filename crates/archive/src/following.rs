//! The blocks of an archive from one on, whole, and before them what is needed to understand them.
//!
//! ```text
//!   copy of N: every record that was valid then ─► blocks N + 1 to F − 1, whole or thinned out ─► blocks F …, each whole, none left out
//!   └────────────────────── Before ─────────────────────────────────────────────────────────┘    └──────────── Block ─────────────┘
//! ```

use std::collections::BTreeSet;

use base::Lsn;
use redo::Id;

use crate::error::{Error, Result};
use crate::name::Name;
use crate::object::{ObjectReader, StoredBlock};
use crate::picture::Picture;
use crate::piece::Piece;
use crate::restorer::{check_joins, check_records};
use crate::target::Target;

/// How often it is begun anew because objects were made one, or thinned out, while they were read.
const ATTEMPTS_MAX: usize = 5;

/// What is read.
pub enum Followed<'a> {
    /// All that was given before, but for blocks, counts no more: it comes again.
    Begin,
    /// What is left of a block before the first one that is wanted.
    Before(&'a StoredBlock),
    /// A whole block.
    Block(&'a StoredBlock),
}

/// Where the blocks ended that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedTo {
    /// The last one, or the one before the first that was wanted.
    pub last: Lsn,
    /// The first one behind a gap, if there are some.
    pub behind_gap: Option<Lsn>,
}

/// Reads the blocks from `from` on; those behind the last one for `None`. When objects were made one meanwhile `take` is given what comes
/// before the next block again, behind another [`Followed::Begin`]. That something is marked as damaged is no reason to leave it out: what cannot be read
/// is, if another way leads on.
///
/// # Errors
/// [`Error::NotThere`] when blocks from that one on are not there whole, with what is needed to understand them; when the archive is damaged or cannot be
/// read; and what `take` says.
pub fn follow<E: From<Error>>(
    target: &dyn Target,
    database: Id,
    from: Option<Lsn>,
    take: &mut dyn FnMut(Followed<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<FollowedTo, E> {
    let (mut from, mut attempts, mut ways) = (from, 1, Ways::default());
    loop {
        let names = Picture::names(target, database).map_err(Error::from)?;
        let picture = ways.picture(&names);
        let end = picture.ranges.last().map(|range| range.last);
        let next = match from.or(end.map(Lsn::next)) {
            Some(next) if next > Lsn::ZERO => next,
            _ => return Err(Error::Nothing.into()),
        };
        let mut following = Following { target, database, next, reading: None };
        let read = following.read(&picture, take);
        let last = Lsn(following.next.0 - 1);
        match read {
            Err(Failed::Archive(Error::Target(error)))
                if error.is_not_found() && attempts < ATTEMPTS_MAX =>
            {
                attempts += 1;
            }
            Err(Failed::Archive(error)) => {
                ways.look_for_another(error, following.reading)?;
            }
            Err(Failed::Taker(error)) => return Err(error),
            Ok(behind_gap) => {
                ways.check_end(&names, last, behind_gap)?;
                return Ok(FollowedTo { last, behind_gap });
            }
        }
        from = Some(following.next);
    }
}

/// Which ways lead on: those over nothing that could not be read, whether it is marked or not.
#[derive(Default)]
struct Ways {
    unread: BTreeSet<Piece>,
    /// Why the first of them could not be.
    why: Option<Error>,
}

impl Ways {
    fn picture(&self, names: &[Name]) -> Picture {
        let is_mark = |name: &&Name| matches!(name, Name::Damaged { .. });
        let mut names: Vec<Name> = names.iter().filter(|name| !is_mark(name)).copied().collect();
        names.extend(self.unread.iter().map(|piece| Name::Damaged { piece: *piece }));
        Picture::of(&names)
    }

    /// Goes on without what could not be read.
    ///
    /// # Errors
    /// When there is no other way.
    fn look_for_another(&mut self, error: Error, reading: Option<Name>) -> Result<()> {
        if let Error::NotThere { after, .. } = error {
            return Err(self.why.take().filter(|_| after.is_none()).unwrap_or(error));
        }
        let piece = reading.and_then(|name| Piece::of(&name));
        if !piece.is_some_and(|piece| self.unread.insert(piece)) {
            return Err(error);
        }
        self.why.get_or_insert(error);
        Ok(())
    }

    /// Whether the blocks end where those that are there do, or at a gap that is told.
    fn check_end(&mut self, names: &[Name], last: Lsn, behind_gap: Option<Lsn>) -> Result<()> {
        let is_short =
            || Picture::of_all(names).range_of(last).is_some_and(|range| range.last > last);
        match self.why.take() {
            Some(why) if behind_gap.is_none() && is_short() => Err(why),
            _ => Ok(()),
        }
    }
}

/// What has failed.
enum Failed<E> {
    Archive(Error),
    Taker(E),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Self {
        Self::Archive(error)
    }
}

struct Following<'a> {
    target: &'a dyn Target,
    database: Id,
    /// The block that is given next.
    next: Lsn,
    /// The object that was opened last.
    reading: Option<Name>,
}

impl Following<'_> {
    fn open(&mut self, name: Name) -> Result<ObjectReader> {
        self.reading = Some(name);
        ObjectReader::open(self.target, self.database, name)
    }

    /// Returns the first block behind the gap that it ends in, if there is one.
    fn read<E>(
        &mut self,
        picture: &Picture,
        take: &mut dyn FnMut(Followed<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<Lsn>, Failed<E>> {
        let before = Lsn(self.next.0 - 1);
        let not_there = || {
            let (before_it, after) = picture.nearest(before);
            Error::NotThere { lsn: before, before: before_it, after }
        };
        let (Some(range), Some(chain)) = (picture.range_of(before), picture.chain(before)) else {
            return Err(not_there().into());
        };
        let behind = picture.ranges.iter().find(|other| other.first > range.last);
        let behind_gap = behind.map(|range| range.first.next());
        if before == range.last {
            return Ok(behind_gap);
        }
        take(Followed::Begin).map_err(Failed::Taker)?;
        for index in 0..chain.objects {
            let mut object = self.open(Name::Base { fill: chain.fill, index })?;
            while let Some(block) = next(&mut object)? {
                take(Followed::Before(&block)).map_err(Failed::Taker)?;
            }
        }
        let mut last = chain.fill.lsn;
        for name in chain.logs {
            let mut object = self.open(name)?;
            check_joins(&object, last, None)?;
            while let Some(block) = next(&mut object)? {
                let lsn = block.header.lsn;
                if lsn > last && lsn <= before {
                    take(Followed::Before(&block)).map_err(Failed::Taker)?;
                    last = lsn;
                }
            }
            if let Name::Thin { last: end, .. } = name {
                last = end.max(last);
            }
        }
        let mut last_crc = None;
        for name in &range.logs {
            if !matches!(name, Name::Log { last, .. } if *last >= self.next) {
                continue;
            }
            let mut object = self.open(*name)?;
            check_joins(&object, Lsn(self.next.0 - 1), last_crc)?;
            while let Some(block) = next(&mut object)? {
                if block.header.lsn == self.next {
                    take(Followed::Block(&block)).map_err(Failed::Taker)?;
                    self.next = self.next.next();
                    last_crc = Some(block.header.payload_crc);
                }
            }
        }
        if self.next <= range.last {
            return Err(not_there().into());
        }
        Ok(behind_gap)
    }
}

fn next(object: &mut ObjectReader) -> Result<Option<StoredBlock>> {
    let block = object.next()?;
    if let Some(block) = &block {
        check_records(object.header().name, block)?;
    }
    Ok(block)
}
