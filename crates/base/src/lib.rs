//! The vocabulary that every crate of Indelible shares.
//!
//! ```text
//!  position   Lsn · SegmentId · RecordAddr      where something is in the log
//!  record     Record · RecordKind               what the log says about one entry
//!  varint     LEB128                            how lengths are written
//!  glob       patterns of names                 how KEYS and PSUBSCRIBE match
//!  bytes      u16_at · u32_at · u64_at         numbers at fixed places of a header
//!  checksum   CRC32C                            how every byte is believed
//!  mutex      Mutex · lock_count                what shows that a path takes no lock
//! ```
//!
//! Nothing here does I/O, asks for the time, or allocates beyond what a caller hands in.

pub mod bytes;
pub mod checksum;
pub mod glob;
mod mutex;
pub mod position;
pub mod record;
pub mod varint;

pub use mutex::{Mutex, lock_count};
pub use position::{Lsn, RecordAddr, SegmentId};
pub use record::{DbId, ObjectId, Record, RecordKind};
