//! The change stream of an archive.

use archive::{Followed, Target};
use base::{Lsn, Record};
use redo::Id;

use super::error::{TailError, TailResult};
use super::position::Position;

/// What was read of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedTail {
    /// The last block that was given out, or the one before the first that was asked for.
    pub last: u64,
}

/// Gives each block from `from` on to `out`, or those behind the last one for `None`; a line each, without its end. `of` is the log that the
/// blocks before `from` were read of.
///
/// # Errors
/// When the archive cannot be read or is damaged, does not have the block whole or ends in a gap, those before it are not this log's, or `out` fails.
pub fn read_archived(
    target: &dyn Target,
    database: Id,
    from: Option<u64>,
    of: Option<Id>,
    out: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> TailResult<ArchivedTail> {
    let from = from.map(|from| Lsn(from.max(1)));
    if let Some(asked) = of.filter(|of| *of != database) {
        let after = Lsn(from.map_or(0, |from| from.0 - 1));
        return Err(TailError::OtherLog { after, asked, log: database });
    }
    let mut position = Position::first(database);
    let read = archive::follow(target, database, from, &mut |followed| match followed {
        Followed::Begin => {
            position = Position::first(database);
            Ok(())
        }
        Followed::Before(block) => {
            let lsn = block.header.lsn;
            block.records().try_for_each(|record| position.learn_record(lsn, &record))
        }
        Followed::Block(block) => {
            position.begin_reply();
            let records: Vec<Record<'_>> = block.records().collect();
            let (_, line) =
                position.write_records((block.header.lsn, block.header.time_ms), &records)?;
            Ok(out(&line)?)
        }
    });
    let read = read.map_err(|error| match error {
        TailError::Archive(archive::Error::NotThere { lsn, before, after: None }) => {
            let durable = before.unwrap_or(Lsn::ZERO);
            TailError::Ahead { from: lsn.next(), durable }
        }
        TailError::Archive(archive::Error::NotThere { lsn, after: Some(after), .. }) => {
            TailError::NotArchived { from: lsn.next(), whole_from: after.next() }
        }
        error => error,
    })?;
    match read.behind_gap {
        Some(whole_from) => Err(TailError::NotArchived { from: read.last.next(), whole_from }),
        None => Ok(ArchivedTail { last: read.last.0 }),
    }
}
