//! The vocabulary that every crate of Indelible shares.
//!
//! ```text
//!  position   Lsn · SegmentId · RecordAddr      where something is in the log
//!  record     Record · RecordKind               what the log says about one entry
//!  varint     LEB128                            how lengths are written
//!  glob       patterns of names                 how KEYS and PSUBSCRIBE match
//!  checksum   CRC32C                            how every byte is believed
//! ```
//!
//! Everything here is pure: no I/O, no clock, no allocation except through the caller's buffers.

pub mod checksum;
pub mod glob;
pub mod position;
pub mod record;
pub mod varint;

pub use position::{Lsn, RecordAddr, SegmentId};
pub use record::{DbId, ObjectId, Record, RecordKind};
