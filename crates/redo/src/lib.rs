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
//! # Files of this crate
//!
//! | what | where |
//! |---|---|
//! | bytes | [`record`], [`block`], [`segment`], [`survivors`], [`manifest`]; `docs/format/redo-log.md` |
//! | the executor's side | `log`, `devices` (which come and go), `segments` and `bitmap` (what is garbage, when deletes may go), `schedule` and `pins` (what is compacted, and what not), `healing` (of damage while running) |
//! | the threads' side | `flusher`, `segment_writer`, `compactor`, `image_copy`, `large_block`, `scrubber`; shared: `device`, `durability`, `reserve` |
//! | starting | `recovery`, `catalog` (what is there), `listing` (what must be), `merge`, `replay` (what counts as missing), `cut` |
//! | looking | `scan` (one file, believing nothing), `verify`, `dump`, `stats` |
//! | after damage | `repair`, `places` (whose directories), `salvage` (what is good in one file), `rebuild` |
//!
//! # Invariants
//!
//! 1. Block n is durable only when all blocks before it are; nobody is told otherwise.
//! 2. An address never changes while its record lives, whatever is compacted or moved.
//! 3. Of what differs between an old segment and its compacted self, everything is superseded by
//!    records that were durable before the rename (`compactor`).
//! 4. A delete record stays as long as an older record of its entry may be in any file
//!    (`segments` has the proof).
//! 5. After a failed write or sync a device's unsynced bytes are never trusted again, nor what the
//!    kernel shows of them after a restart (`flusher`, `cut`).
//! 6. A gap in the log is an error unless it is known to be legitimate or never to have been
//!    acknowledged (`replay`). Nothing on disk is changed before everything was read and judged.
//! 7. The executor takes locks only for moments, never while one is held during I/O. Lock order:
//!    `reroute`, then the inbox of a failing device, then that of its successor.
//! 8. Nothing here starts a thread but parallel loaders, and those only if asked to: [`Flusher`]
//!    and [`Compactor`] are stepped by whoever owns them, in any order.
//!
//! # Use
//!
//! ```no_run
//! # fn f(env: redo::Env, keyspace: &mut dyn redo::Replay) -> redo::Result<()> {
//! let recovery = redo::Recovery::open(env, redo::Options::new("data"))?;
//! let redo::Opened { mut log, flushers, compactor, .. } = recovery.run(keyspace, &mut |_| {})?;
//! for mut flusher in flushers {
//!     std::thread::spawn(move || {
//!         loop {
//!             match flusher.step() {
//!                 redo::Step::Worked => {}
//!                 redo::Step::Idle => flusher.wait(std::time::Duration::from_millis(100)),
//!                 redo::Step::Finished => return,
//!             }
//!         }
//!     });
//! }
//! # drop(compactor); drop(log);
//! # Ok(()) }
//! ```

mod bitmap;
pub mod block;
mod catalog;
mod compactor;
mod cut;
mod device;
mod devices;
mod dump;
mod durability;
mod error;
mod flusher;
mod healing;
mod image_copy;
mod large_block;
mod listing;
mod log;
pub mod manifest;
mod merge;
mod options;
mod pins;
mod places;
mod rebuild;
pub mod record;
mod recovery;
mod repair;
mod replay;
mod reserve;
mod salvage;
mod scan;
mod schedule;
mod scrubber;
pub mod segment;
mod segment_writer;
mod segments;
mod stats;
pub mod survivors;
mod verify;

pub use compactor::Compactor;
pub use device::DeviceState;
pub use dump::{DumpFormat, dump};
pub use error::{Error, Result};
pub use flusher::{Flusher, Step};
pub use listing::Listed;
pub use log::{Health, Log};
pub use manifest::Id;
pub use options::{CompactionOptions, Env, Options, SyncPolicy, Waker};
pub use pins::Pin;
pub use recovery::{Opened, Progress, Recovery, Replay, Summary, is_in_use, is_there};
pub use repair::{Repair, RepairMode, repair};
pub use scrubber::Scrubber;
pub use stats::{DeviceStats, Stats};
pub use verify::{Report, verify};
