//! The vocabulary that every crate of Indelible shares.
//!
//! ```text
//!  position   Lsn · SegmentId · RecordAddr      positions in the log
//!  record     Record · RecordKind               the log's contents about one entry
//!  note       Note · NoteEvent                  what the log says of itself
//!  db_index   DbIndex                           the number that SELECT takes
//!  varint     LEB128                            the encoding of lengths
//!  glob       patterns of names                 matching in KEYS and PSUBSCRIBE
//!  bytes      u16_at · u32_at · u64_at          numbers at fixed places of a header
//!  checksum   CRC32C                            the checksum of everything on disk
//!  mutex      Mutex · lock_count                proof that a path takes no lock
//! ```
//!
//! Nothing here does I/O, reads a clock, or allocates except through the caller's buffers.

pub mod bytes;
pub mod checksum;
mod db_index;
pub mod glob;
mod mutex;
pub mod note;
pub mod position;
pub mod record;
pub mod varint;

pub use db_index::DbIndex;
pub use mutex::{Mutex, lock_count};
pub use note::{DangerousCommand, Note, NoteEvent};
pub use position::{Lsn, RecordAddr, SegmentId};
pub use record::{DbId, ObjectId, Record, RecordKind};
