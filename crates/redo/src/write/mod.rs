//! The executor's side of the log, and the threads that write it.
//!
//! `log` takes records and hands each `sealed_block` to a `flusher` for each `device`, which writes them
//! (`segment_writer`) and says when they are durable (`durability`). `devices` come and go; each
//! keeps room for when its disk is full (`reserve`). The blocks' memory is used again (`buffers`), after
//! they are durable (`unsynced`, `pending_sync`); those that are not for long make writers wait (`lateness`).

pub(crate) mod buffers;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod durability;
pub(crate) mod flusher;
pub(crate) mod lateness;
pub(crate) mod log;
pub(crate) mod pending_sync;
pub(crate) mod reserve;
pub(crate) mod sealed_block;
pub(crate) mod segment_writer;
pub(crate) mod unsynced;
