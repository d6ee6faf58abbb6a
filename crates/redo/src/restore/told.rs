//! What a log tells of its past: which states can be restored, and what notes say.

use std::path::{Path, PathBuf};

use base::Lsn;
use env::Disk;

use crate::error::Result;
use crate::format::registry::{NamedBackup, NotedCommand};
use crate::restore::source::Source;
use crate::restore::timeline::{BlockTime, Timeline};

/// See the file's top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHistory {
    /// Whether a process has the log open.
    pub is_running: bool,
    /// The state after every block from this one on can be restored.
    pub floor: Lsn,
    /// When the log was at the floor, at the latest, in Unix milliseconds; 0 if unknown.
    pub floor_ms: i64,
    /// The last block, and when it was ended if that is known.
    pub last: (Lsn, Option<i64>),
    /// Backups, in the order in which they were made; those that cannot be restored are lost.
    pub backups: Vec<NamedBackup>,
    /// Blocks behind which databases were emptied or exchanged, which can be restored. Ascending.
    pub flushes: Vec<BlockTime>,
    /// Dangerous commands. Ascending.
    pub commands: Vec<NotedCommand>,
    /// Why a file could not be read to its end: what it says of backups, flushes and commands may be missing here.
    pub unread: Option<String>,
}

/// Finds out what the log in `dir` tells of its past; `None` if there is none. `devices` and `reader` are as in
/// [`crate::RestoreRequest`], `progress` is told bytes read, and in all.
///
/// # Errors
/// When a file is damaged or missing, or a disk refuses.
pub fn stored_history(
    disk: &dyn Disk,
    dir: &Path,
    devices: &[PathBuf],
    reader: u32,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<StoredHistory>> {
    let Some(source) = Source::open(disk, dir, devices, reader)? else { return Ok(None) };
    let read = Timeline::read(disk, &source, (None, 1), progress);
    let is_running = source.is_running();
    source.release(disk);
    let timeline = read?;
    let backups = timeline.registry.backups().iter().map(|backup| {
        let is_lost = !timeline.can_tell(backup);
        NamedBackup { is_lost, ..backup.clone() }
    });
    let last = timeline.last();
    Ok(Some(StoredHistory {
        is_running,
        floor: timeline.reach.floor,
        floor_ms: timeline.reach.floor_ms,
        last: (last, timeline.time_of(last)),
        backups: backups.collect(),
        flushes: timeline.flushes.clone(),
        commands: timeline.commands().to_vec(),
        unread: timeline.unread.as_ref().map(ToString::to_string),
    }))
}
