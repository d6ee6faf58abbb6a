//! What of an archive can be restored, with its times.

use base::Lsn;
use redo::Id;

use crate::error::{Error, Result, TargetError};
use crate::moments::Moments;
use crate::name::{Folder, Name};
use crate::named::{self, ArchivedBackups};
use crate::object::{Header, ObjectReader};
use crate::picture::{Picture, Range};
use crate::piece::Piece;
use crate::target::Target;

/// Blocks without a gap that can be restored, each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: Lsn,
    /// The last.
    pub last: Lsn,
    /// When the first was the last one, at the latest, in Unix milliseconds.
    pub first_time_ms: i64,
    /// When the last was ended, at the latest.
    pub last_time_ms: i64,
    /// Whether it goes on from the one before it: what was between was thinned out, and is not missing.
    pub is_thinned: bool,
    /// The blocks of which there are copies.
    pub copies: Vec<Lsn>,
    /// How many objects there are with the blocks behind the first.
    pub logs: u64,
}

/// What an archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The last writer.
    pub writer: u64,
    /// What can be restored, ascending.
    pub spans: Vec<Span>,
    /// The last block that is there, if it cannot be restored: what comes before it is missing or damaged, or the first copy
    /// of the data is not complete.
    pub cut_off: Option<Lsn>,
    /// Backups by their names.
    pub backups: ArchivedBackups,
    /// What is marked as damaged: it leads nowhere.
    pub damaged: Vec<Piece>,
    /// All objects, also those that do not count.
    pub objects: u64,
    /// Their length.
    pub bytes: u64,
}

/// Looks at an archive. With `weighs` at every object, for its length.
///
/// # Errors
/// When the target cannot be used, or what is looked at is damaged.
pub fn overview(target: &dyn Target, database: Id, weighs: bool) -> Result<Overview> {
    let picture = Picture::read(target, database)?;
    let header = |name: Name| -> Result<Header> {
        Ok(*ObjectReader::open(target, database, name)?.header())
    };
    let moments = Moments { target, database, picture: &picture, threads: 1 };
    let span = |range: &Range| -> Result<Span> {
        let first_time_ms = moments.first_ms(range)?;
        let last = range.logs.last().map(|name| header(*name)).transpose()?;
        Ok(Span {
            first: range.first,
            last: range.last,
            first_time_ms,
            last_time_ms: last.map_or(first_time_ms, |header| header.time_max_ms),
            is_thinned: range.thinned.is_some(),
            copies: range.fills.iter().map(|(fill, _)| fill.lsn).collect(),
            logs: range.logs.len() as u64,
        })
    };
    let spans = picture.ranges.iter().map(span).collect::<Result<_>>()?;
    let (mut objects, mut bytes) = (0, 0);
    for folder in Folder::ALL {
        for name in target.list(database, folder)? {
            objects += 1;
            if weighs {
                let failed = TargetError::of("read", name.to_string());
                let length = target.open(database, &name)?.bytes().map_err(failed);
                bytes += length.map_err(Error::from)?;
            }
        }
    }
    let backups = named::backups(target, database)?;
    let damaged = picture.damaged.iter().copied().collect();
    let (writer, cut_off) = (picture.writer, picture.cut_off());
    Ok(Overview { writer, spans, cut_off, backups, damaged, objects, bytes })
}
