//! The redo log: the database is what the log says, and memory is a cache of it.
//!
//! ```text
//!                     executor (one thread, never waits)
//!   append ─► open block ─seal─► inbox ─► Flusher ─► segment ┐ device A (a thread each)
//!   retire ─► validity bitmaps   inbox ─► Flusher ─► segment ┤ device B
//!   poll   ◄─ mailbox ◄────────────────────┘                 │
//!   tick   ─► jobs ─────────────► Compactor ─► segment, smaller
//!                                                            │
//!   Recovery: catalog ─► merge of all blocks by LSN ◄────────┘─► Replay (the keyspace)
//!             (or of those behind the cut of an index; then what is live comes by note_live)
//! ```
//!
//! A *record* is the complete new state of one entry, or says that it is gone. A *block* is the
//! records of one turn of the event loop: it has the next *LSN*, and is there after a crash as a
//! whole or not at all. A *segment* is a file of blocks on one *device*, a directory on a disk of
//! its own if possible. The address of a record is its segment and its ordinal there, and never
//! changes. A *bit* a record says that it is garbage; *compaction* replaces a segment by one
//! without its garbage, which is all the checkpointing there is. After *Distributed logging and
//! log file compaction* (paper 000, sections III-B to III-F), with stable addresses instead of its
//! remapping pass.
//!
//! # Folders of this crate
//!
//! Each uses only those above it.
//!
//! | folder | what it is |
//! |---|---|
//! | `format` | the bytes: [`record`], [`block`], [`segment`], [`survivors`], [`manifest`]; `docs/format/redo-log.md` |
//! | `shared` | what the log's threads share: devices with their queues, how far the log is durable |
//! | `read` | reading what is on disk: what there is, block by block, all of it in order |
//! | `compact` | garbage: what it is, when it and delete records go, how |
//! | `mark` | what was valid at one LSN: [`Log::mark`], and its reader |
//! | `recover` | what counts as missing, and the end of the log put in order |
//! | `inspect` | [`verify()`], [`dump()`] |
//! | `repair` | damage: scrubbing and healing while the log runs, repair when it cannot start |
//! | `write` | taking records and writing them: [`Recovery`] makes the executor's [`Log`], devices, flushers |
//! | `restore` | a new log made of one as it was: [`restore()`] |
//!
//! The `mod.rs` of each says what is in which file.
//!
//! # Invariants
//!
//! 1. Block n is durable only when all blocks before it are; nothing says otherwise.
//! 2. An address never changes while its record lives, whatever is compacted or moved.
//! 3. Of what differs between an old segment and its compacted self, everything is superseded by
//!    records that were durable before the rename (`compactor`).
//! 4. A delete record stays as long as an older record of its entry may be in any file
//!    (`segments` has the proof).
//! 5. After a failed write or sync a device's unsynced bytes are never trusted again, nor what the
//!    kernel shows of them after a restart (`flusher`, `cut`).
//! 6. A gap in the log is an error unless it is known to be legitimate or never to have been
//!    acknowledged (`replay`). Nothing on disk is changed before everything was read and judged; after
//!    [`Recovery::run_behind`] that is what an index does not know, and footers for the rest (`behind`).
//! 7. The executor takes locks only for moments, never while one is held during I/O. Lock order:
//!    `reroute`, then the inbox of a failing device, then that of its successor.
//! 8. Bits that are not set say nothing until it is known what is garbage (`validity`): nothing is
//!    compacted, put aside, healed or marked before.
//! 9. Nothing here starts a thread but parallel loaders, and those only if asked to: [`Flusher`]
//!    and [`Compactor`] are stepped by their owners, in any order.
//!
//! # Use
//!
//! ```no_run
//! # fn f(env: redo::Env, keyspace: &mut dyn redo::Replay) -> redo::Result<()> {
//! let recovery = redo::Recovery::open(env, redo::Options::new("data"))?;
//! let redo::Opened { mut log, flushers, compactor, .. } = recovery.run(keyspace, &mut |_| {})?;
//! for mut flusher in flushers {
//!     let bell = flusher.bell();
//!     std::thread::spawn(move || {
//!         loop {
//!             match flusher.step() {
//!                 redo::Step::Worked => {}
//!                 redo::Step::Idle => bell.wait(std::time::Duration::from_millis(100)),
//!                 redo::Step::Finished => return,
//!             }
//!         }
//!     });
//! }
//! # drop(compactor); drop(log);
//! # Ok(()) }
//! ```

mod block_time;
mod compact;
mod error;
mod format;
mod id;
mod inspect;
mod mark;
mod options;
mod origin;
mod read;
mod recover;
mod repair;
mod restore;
mod shared;
mod write;

pub use base::note::is_backup_name;
pub use base::{DangerousCommand, RecordAddr};
pub use block_time::{TimeOfBlock, parse_ago, parse_time};
pub use compact::backups::{BackupFigures, BackupRefusal, BackupState};
pub use compact::compactor::Compactor;
pub use compact::live_records::LiveRecords;
pub use env::FileError;
pub use error::{Error, Result};
pub use format::listing::Listed;
pub use format::manifest::Parent;
pub use format::registry::{BACKUPS_MAX, NamedBackup, NotedCommand, Registry};
pub use format::{block, groups, manifest, record, segment, survivors};
pub use id::{Id, NoId};
pub use inspect::dump::{DumpFormat, dump};
pub use inspect::get::get;
pub use inspect::stored_log::{StoredBlocks, StoredEnd, StoredLog, StoredSegment};
pub use inspect::verify::{Report, devices_of, verify, verify_on};
pub use mark::handle::Mark;
pub use mark::reader::{MarkReader, MarkedBlock};
pub use mark::validity::{SegmentValidity, Validity};
pub use options::{CompactionOptions, Env, HistoryOptions, Options, SyncPolicy, Waker};
pub use origin::Origin;
pub use read::as_of::Reach;
pub use read::blocks::Blocks;
pub use read::extent::Extent;
pub use read::in_use::{is_in_use, is_there, lock};
pub use read::places::FoundRecord;
pub use read::reader::{LogBlock, Reader, ReaderLimits};
pub use read::segment_scan::SegmentScan;
pub use read::side_by_side::side_by_side;
pub use recover::behind::StartPoint;
pub use recover::replay::{Progress, Replay};
pub use repair::offline::{Repair, RepairMode, RepairRequest, repair};
pub use repair::scrubber::Scrubber;
pub use restore::checking::{CheckProgress, CheckRequest, CheckedState, Verdict, check_past};
pub use restore::deletions::{Deletions, Fact as KeyFact, WantedKey};
pub use restore::expiry::Expiry;
pub use restore::new_log::{Made, NewLog, NewLogOptions};
pub use restore::restoring::{RestoreRequest, Restored, Restoring, Room, database_of, restore};
pub use restore::rewinding::{RewindRequest, Rewinding, Rewound};
pub use restore::source::{NoMoreLinks, abandon_reader};
pub use restore::timeline::{BlockTime, RestorePoint};
pub use restore::told::{StoredHistory, stored_history};
pub use shared::device::{Bell, DeviceState, DeviceStats};
pub use shared::index_bound::IndexBound;
pub use shared::step::Step;
pub use shared::sync_times::SyncLatency;
pub use write::backups::BackupPoint;
pub use write::flusher::Flusher;
pub use write::health::Health;
pub use write::log::Log;
pub use write::opening::{Opened, Recovery, Summary};
pub use write::pending_sync::{PendingSync, Turn};
pub use write::preparer::Preparer;
pub use write::publication::{begin, discard, publish};
pub use write::stats::{HistoryStats, IndexStats, MarkStats, Stats};
