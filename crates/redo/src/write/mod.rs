//! The executor's side of the log, and the threads that write it.
//!
//! `opening` makes a log of what is on disk. `log` takes records into the `open_block` and hands it
//! to the `flusher` of a device, which writes it (`group`, `segment_writer`) and says when it is durable. `devices`
//! come and go; each keeps room for when its disk is full (`reserve`). The blocks' memory is used
//! again (`buffers`; until then it is `in_flight`) after they are durable (`unsynced`, `pending_sync`); blocks that take too long
//! make writers wait (`lateness`), and so does an index that does not keep up (`index_lag`). `bitmaps` is what the log is asked of them, `damage` what it is told of its files; `stats` are the figures of
//! all that. `past` is what a start makes of the history that it finds. `preparer` writes zeros ahead, which blocks are written over. `publication` is of a log that is built before it counts.

pub(crate) mod backups;
pub(crate) mod bitmaps;
pub(crate) mod block_times;
pub(crate) mod buffers;
mod damage;
pub(crate) mod devices;
pub(crate) mod flusher;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod in_flight;
pub(crate) mod index_lag;
pub(crate) mod lateness;
pub(crate) mod log;
pub(crate) mod open_block;
pub(crate) mod opening;
pub(crate) mod past;
pub(crate) mod pending_sync;
pub(crate) mod preparer;
pub(crate) mod publication;
pub(crate) mod reserve;
pub(crate) mod rungs;
pub(crate) mod segment_writer;
pub(crate) mod stats;
pub(crate) mod unsynced;
