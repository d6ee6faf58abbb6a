//! The change stream of a log that no server has open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, RecordKind};
use env::Disk;
use redo::{Id, Replay, StoredLog};

use super::error::{TailError, TailResult, check_log};
use super::position::Position;

/// What was read of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTail {
    /// The last block that was given out, or the one before the first that was asked for.
    pub last: u64,
    /// How many blocks follow that a start keeps, and that nothing says were durable: a loss of power may take
    /// them back, so they are not given out.
    pub undurable: u64,
}

/// The newest record of the databases.
#[derive(Default)]
struct NewestDatabases(Option<RecordAddr>);

impl Replay for NewestDatabases {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        if record.kind == RecordKind::Databases {
            retired.extend(self.0.replace(addr));
        }
    }

    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

/// Gives each block from `from` on to `out`, or those behind the last one for `None`; a line each, without its end.
/// All of the log is read first: that says whether it is good, and up to where it is durable. `of` is the log that the blocks before
/// `from` were read of. `Ok(None)` if there is no log.
///
/// # Errors
/// When a server uses the log, it is damaged or cannot be read, the block is gone or is ahead of it, those before it are not this log's,
/// or `out` fails.
pub fn read_stored(
    disk: Arc<dyn Disk>,
    (dir, devices): (&Path, &[PathBuf]),
    from: Option<u64>,
    of: Option<Id>,
    out: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> TailResult<Option<StoredTail>> {
    let Some(log) = StoredLog::open(disk, dir, devices)? else { return Ok(None) };
    check_log(log.origin(), of, Lsn(from.unwrap_or(u64::MAX).saturating_sub(1)))?;
    let mut newest = NewestDatabases::default();
    let end = log.read(Lsn::ZERO, &mut newest, &mut |_| {})?;
    let extent = log.extent(end);
    let from = from.map_or(extent.durable.next(), |from| Lsn(from.max(1)));
    if from <= extent.horizon {
        return Err(TailError::Gone { from, whole_from: extent.horizon.next() });
    }
    if from > extent.durable.next() {
        return Err(TailError::Ahead { from, durable: extent.durable });
    }
    let mut position = Position::first(log.database());
    let mut before = log.blocks_of_state(Lsn(from.0 - 1))?;
    while let Some(block) = before.next()? {
        position.learn(&block)?;
    }
    let mut position = position.learned(from, extent, newest.0)?;
    let mut blocks = log.whole_blocks(from, extent.durable)?;
    while let Some(block) = blocks.next()? {
        if block.lsn() < from {
            continue;
        }
        if block.lsn() > position.next() {
            let (from, whole_from) = (position.next(), block.lsn());
            return Err(TailError::Gone { from, whole_from });
        }
        position.begin_reply();
        let (_, line) = position.write(&block)?;
        out(&line)?;
    }
    if position.next() <= extent.durable {
        let (from, whole_from) = (position.next(), extent.durable.next());
        return Err(TailError::Gone { from, whole_from });
    }
    let last = extent.durable.0;
    Ok(Some(StoredTail { last, undurable: end.last_lsn.0.saturating_sub(last) }))
}
