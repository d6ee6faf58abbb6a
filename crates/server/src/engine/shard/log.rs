//! The redo log as its shard uses it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base::{DangerousCommand, Lsn, RecordAddr, SegmentId};
use env::Entropy;
use keyspace::Journal;
use redo::manifest::HistoryPoint;
use redo::{
    BackupFigures, BackupPoint, BackupRefusal, BackupState, LiveRecords, Mark, NamedBackup,
    NotedCommand, Reader,
};
use thiserror::Error;

use super::reach::Reach;
use crate::config::{FsyncPolicy, LogOptions};

/// Whether the log takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogHealth {
    /// It does.
    Good,
    /// Not for now, for this reason; reads go on.
    ReadOnly(String),
    /// Never again until the next start: what is not durable now never will be.
    Failed(String),
}

impl LogHealth {
    /// Why the log takes no writes.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Good => None,
            Self::ReadOnly(why) | Self::Failed(why) => Some(why),
        }
    }
}

/// Why the directories of the log are not changed.
#[derive(Debug, Error)]
pub enum DevicesError {
    /// A new device's flusher has no thread.
    #[error("no thread for it: {0}")]
    NoThread(#[source] io::Error),
    /// A device cannot be used, or cannot be let go.
    #[error(transparent)]
    Log(#[from] redo::Error),
}

/// Why a log was not closed well: what was not durable before may be lost.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CloseError {
    /// The devices do not take all that is on its way to them.
    #[error("{reason}")]
    NotDurable {
        /// What the log says of its devices.
        reason: String,
    },
    /// A flusher, the compactor or the scrubber has panicked.
    #[error("a thread of the log has panicked")]
    Panicked,
    /// A flusher, the compactor or the scrubber does not end.
    #[error("the log's works have not come to their end")]
    Unfinished,
}

/// How far the index of a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFigures {
    /// The last block that it has read.
    pub read_lsn: u64,
    /// The installed cut.
    pub cut_lsn: u64,
    /// How many runs it has, and their bytes.
    pub runs: u64,
    /// See `runs`.
    pub bytes: u64,
    /// How many entries are in them, and what is not written yet.
    pub entries: u64,
    /// What its blocks in memory take.
    pub cached_bytes: u64,
    /// How the log stands with it.
    pub of_log: redo::IndexStats,
    /// Whether it was removed until the next start.
    pub is_given_up: bool,
    /// How many records the hint of what is hot names, and how often it was saved since the start.
    pub hot_records: u64,
    /// See `hot_records`.
    pub hot_saves: u64,
    /// Why a step failed last.
    pub last_error: Option<String>,
}

/// See the file's top. Commands append to it as to any [`Journal`]; the rest is the engine's.
///
/// The server implements it on [`redo::Log`], a simulator listens in between, and the tests of the
/// engine have one that does what they say.
pub trait ShardLog: Journal {
    /// Ends the open block, if anything is in it, and hands it to a device.
    fn seal(&mut self);

    /// Whether there is an open block and a device would take it up at once.
    fn takes_block_now(&self) -> bool;

    /// How many bytes the open block has.
    fn open_bytes(&self) -> usize;

    /// How far the log is written and durable.
    fn reach(&mut self) -> Reach;

    /// Asks to be woken as soon as everything up to this block is written.
    fn want_written(&mut self, lsn: Lsn);

    /// Asks for everything so far to become durable soon, whatever the policy. Returns the last
    /// block of it.
    fn request_sync(&mut self) -> Lsn;

    /// Asks for everything so far to be indexed soon, and for an index if it is left to the server whether one is kept.
    /// Whether there is one or will be.
    fn want_indexed(&mut self) -> bool {
        false
    }

    /// Whether all that was in the log when it was taken over, or was turned on, is in the blocks up to this one: an index
    /// that knows less does not find what was in memory then.
    fn has_start(&self, _lsn: Lsn) -> bool {
        true
    }

    /// Makes a mark of all that is in the log, whose open block is empty, and asks for it to become durable soon.
    /// `None` while it is not known what of it is garbage.
    fn mark(&mut self) -> Option<Mark> {
        None
    }

    /// Ends the open block, if anything is in it, between two commands: what follows has a block of its own.
    fn begin_block(&mut self) {
        self.seal();
    }

    /// Keeps what is needed to read the log as it is without its open block, longer than other history.
    fn note_point(&mut self) {}

    /// Makes a backup: see [`redo::Log::create_backup`].
    ///
    /// # Errors
    /// Why there is none.
    fn create_backup(
        &mut self,
        _name: Option<String>,
        _point: BackupPoint,
    ) -> Result<NamedBackup, BackupRefusal> {
        Err(BackupRefusal::NoLog)
    }

    /// Has a backup carry the configuration: see [`redo::Log::configure_backup`].
    fn configure_backup(&mut self, _id: u64, _text: &str) {}

    /// Deletes a backup: see [`redo::Log::delete_backup`].
    fn delete_backup(&mut self, _name: &str) -> Option<NamedBackup> {
        None
    }

    /// The backups, in the order in which they were made.
    fn backups(&self) -> Vec<BackupState> {
        Vec::new()
    }

    /// All of them in a few numbers.
    fn backup_figures(&self) -> BackupFigures {
        BackupFigures::default()
    }

    /// The backup of this name.
    fn backup(&self, _name: &str) -> Option<NamedBackup> {
        None
    }

    /// Remembers a dangerous command, whose note follows.
    fn note_command(&mut self, _command: DangerousCommand) {}

    /// The last dangerous commands, and the last blocks behind which databases were emptied or exchanged.
    fn told(&self) -> (Vec<NotedCommand>, Vec<HistoryPoint>) {
        (Vec::new(), Vec::new())
    }

    /// What reads what is durable of the log, on another thread; `None` of a log that is not on a disk.
    fn reader(&self) -> Option<Reader> {
        None
    }

    /// Changes when the log is synced.
    fn set_policy(&mut self, policy: FsyncPolicy);

    /// Learns what the server may use of memory in all; `None` for any amount.
    fn set_memory(&mut self, _bytes: Option<u64>) {}

    /// Changes when segments are compacted, how fast they are scrubbed, whether zeros are written ahead of
    /// them, and how much is kept of what was
    /// replaced.
    fn set_compaction(&mut self, options: &LogOptions);

    /// Lets the log be compacted: it has the whole keyspace, and what is garbage in it is known.
    fn thaw(&mut self);

    /// Which records are needed, once that is known: the log may be compacted then.
    ///
    /// # Errors
    /// What is wrong with that: it does not fit what is in the log.
    fn note_live(&mut self, _live: Arc<LiveRecords>) -> Result<(), redo::Error> {
        Ok(())
    }

    /// Whether it is known which records are garbage.
    fn knows_validity(&self) -> bool {
        true
    }

    /// Changes the directories of the log; none for the default one. New ones are taken into use at
    /// once, those that are missing are drained.
    ///
    /// # Errors
    /// Why it cannot be; nothing is changed then.
    fn set_devices(
        &mut self,
        devices: &[PathBuf],
        entropy: &mut dyn Entropy,
    ) -> Result<(), DevicesError>;

    /// Whether more is on its way to the devices than there should be.
    fn is_congested(&self) -> bool;

    /// Whether the log takes writes.
    fn health(&self) -> LogHealth;

    /// Starts compacting everything that is worth it; `false` when that is being done already.
    fn compact_all(&mut self) -> bool;

    /// Whether a compaction is running that was asked for.
    fn is_compacting(&self) -> bool;

    /// Does what is due.
    fn tick(&mut self);

    /// A reader of the log has failed: damage that it has met is healed.
    fn note_damage(&mut self, _error: &redo::Error) {}

    /// What is new about damage on the devices, for the server's log.
    fn drain_events(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Damaged segments: whatever has its record there is to be logged again.
    fn rewrites(&self) -> Vec<SegmentId> {
        Vec::new()
    }

    /// The figures of the log.
    fn stats(&self) -> redo::Stats;

    /// Whether a block of so many bytes finds room although the disk is full.
    fn has_room_for(&self, _bytes: u64) -> bool {
        false
    }

    /// How far back the log can be read as it was.
    fn history(&self) -> redo::HistoryStats {
        redo::HistoryStats::default()
    }

    /// How far the index of the log is; `None` if none is kept.
    fn index_figures(&self) -> Option<IndexFigures> {
        None
    }

    /// Whether it has something to keep what is hot.
    fn keeps_hot(&self) -> bool {
        false
    }

    /// Keeps for the next start which records are hot: in pieces, of any order, all of them durable.
    fn save_hot(&mut self, _records: Vec<Vec<RecordAddr>>) {}

    /// Makes everything durable and closes the files.
    ///
    /// # Errors
    /// What went wrong; what was not durable before may be lost.
    fn shutdown(&mut self) -> Result<(), CloseError>;
}
