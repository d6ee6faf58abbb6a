//! A writer takes an archive, or finds that it is not that of its log.
//!
//! ```text
//!   look ─► is the end of the archive a block of the log? ─► create claim n + 1 ─► look again: go on behind what is there
//!            no: refused, and nothing was touched
//! ```
//!
//! What an earlier writer has told to be archived was there before it saw no claim behind its object, so it is found when the claim is
//! there.

use base::Lsn;
use redo::{Id, Reader};

use crate::error::{Error, Result, TargetError};
use crate::name::{Folder, Name, WRITER_MAX};
use crate::object::{Header, ObjectReader};
use crate::picture::Picture;
use crate::target::{Put, Target};

/// An archive that was claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) writer: u64,
    pub(crate) picture: Picture,
    /// The header of the object that ends with the last block, if that was seen to be the log's own.
    pub(crate) last: Option<Header>,
}

impl Claim {
    /// Claims the archive of the database whose log `reader` reads.
    pub(crate) fn take(target: &dyn Target, database: Id, reader: &Reader) -> Result<Self> {
        let before = Picture::read(target, database)?;
        last_of(target, database, &before, reader)?;
        if before.writer >= WRITER_MAX {
            return Err(Error::NoNumber { writer: before.writer });
        }
        let writer = before.writer + 1;
        let name = Name::Writer { writer };
        let claim = Header::new(database, name).encode();
        if target.put_new(database, &name, &claim)? == Put::Taken {
            // The next attempt takes the number behind it.
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(TargetError::of("claim the archive by", name.to_string())(source).into());
        }
        // An earlier writer may have put something until now.
        let picture = Picture::read(target, database)?;
        let last = last_of(target, database, &picture, reader)?;
        tidy(target, database, &picture, writer)?;
        Ok(Self { writer, picture, last })
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
    let Some(name) = picture.last_log else {
        // There is no block to compare, but a key.
        let newest = picture.ranges.last().and_then(|range| range.fills.last());
        if let Some((fill, objects)) = newest {
            let name = Name::Whole { fill: *fill, objects: *objects };
            ObjectReader::open(target, database, name)?;
        }
        return Ok(None);
    };
    let header = *ObjectReader::open(target, database, name)?.header();
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
/// is refused they stay: no reader takes them for anything.
fn tidy(target: &dyn Target, database: Id, picture: &Picture, writer: u64) -> Result<()> {
    target.clean(database)?;
    let mut old = Vec::new();
    for name in target.list(database, Folder::Base)? {
        let Name::Base { fill, .. } = name else { continue };
        if fill.writer < writer && !picture.is_whole(&fill) {
            old.push(name);
        }
    }
    old.extend(picture.covered.iter().copied());
    let claims = target.list(database, Folder::Writer)?;
    old.extend(claims.into_iter().filter(|name| name.writer() < writer));
    for name in old {
        match target.remove(database, &name) {
            Err(error) if error.is_refused() => return Ok(()),
            removed => removed?,
        }
    }
    Ok(())
}
