//! A mark: what was valid at one LSN, to be read while the log goes on.
//!
//! ```text
//!   Log::mark ─► Mark ──── when its block is durable and the bitmaps are copied ───► MarkReader
//!                 │                                                                  every record
//!                 └ files that compactions replace are kept until it is dropped      valid at N
//! ```
//!
//! Snapshots, backups and consistent exports are consumers of a mark. It costs the executor eight
//! bytes a retirement while the bitmaps are copied (`compact::marks`), and compactions a hard link
//! for each file that they replace (`compact::holds`). `validity` is the bitmaps, `reader` reads the
//! records.

pub(crate) mod handle;
pub(crate) mod reader;
pub(crate) mod validity;
