//! An embedded, transactional, ordered key-value store for flash.
//!
//! ```text
//!   transaction: overlay of its own changes ──── locks: records and gaps, deadlocks refused
//!        │ commit: one group of redo records
//!        ▼
//!   log buffer ─► log (2 KiB pages)      B+trees of committed content, one a table
//!                     │                       │ pages
//!                     │            PFAT ─► frames          online log table
//!                     │             │ a dirty victim is dropped, not written
//!                     │             └─► read again: image in storage + its records
//!                     ▼                       ▼
//!               recovery: log ─► table    checkpoint: pages with many or old records are written
//! ```
//!
//! After *A flash-aware buffering scheme with the on-the-fly redo* (paper 003). On flash, writing a
//! page is expensive and reading one is cheap. So a dirty page is evicted by dropping it
//! (*flushing-less eviction*); its redo records stay in memory, in the *online log table*, and when
//! it is read again they are applied to its old image (*on-the-fly redo*). Pages are written at
//! checkpoints, and only those with enough records to be worth it. Only committed data reaches
//! storage (*no-steal*), so there is no undo: an abort drops the overlay of the transaction, and a
//! restart only reads the log into the table. Where this differs from the paper, and why, is in
//! `docs/adr/0009-overlays-and-twin-slots.md`.
//!
//! # Files of this crate
//!
//! | what | where |
//! |---|---|
//! | for users | `store`, `transaction`, `table`, `range`, `options`, `error`, `check` |
//! | threads | `latch` (shared and exclusive, and what is done without it), `look`, `shared_log` (group commit), `background`, `locks` |
//! | bytes | `page`, `redo_record`, `log_page`, `data_file`, `detached`; `docs/format/pages.md` |
//! | section 3: buffering | `pool` (frames, PFAT, eviction; `unlatched`: reads and writes concurrent with other threads), `replacement`, `online_log`, `redo` |
//! | section 4: recovery | `checkpoint` (Algorithm 1), `recovery` (Algorithm 2), `replay`, `unsettled`, `log_files`, `log_reader`, `log_scan` |
//! | content | `tree` (B+trees), `split`, `leaf_hints`, `catalog`, `core` (groups, free pages, large values) |
//!
//! # Invariants
//!
//! 1. A frame holds committed content, and equals its image in storage + its records, byte for byte.
//! 2. An image is written only when the group of each of its records is durable in the log.
//! 3. A record leaves the table only when an image in storage has it.
//! 4. The slot of a page that the last durable checkpoint names is not written.
//! 5. A group is in the log as a whole or not at all; so is a flush. Log pages are written once.
//! 6. The log reaches back to the first record of the dirty page table of the last checkpoint.
//! 7. After a failed write or sync, nothing is written or acknowledged any more.
//! 8. Order: the turn to move a checkpoint on, a transaction's state, the latch (`core`), the lock
//!    table or the log. No thread waits for the lock of a transaction while it holds any of the
//!    last four.
//!
//! # Use
//!
//! ```
//! # fn main() -> pages::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let dir = dir.path().join("shop");
//! use pages::{Durability, Options, PageStore};
//!
//! let store = PageStore::open_path(&dir, Options::default())?; // makes it, or recovers it
//! let transaction = store.begin()?;
//! transaction.table("stock").insert("apples", "12")?;
//! transaction.table("orders").insert(7u64.to_be_bytes(), "apples: 2")?;
//! transaction.commit(Durability::Immediate)?;
//!
//! let reader = store.begin_read()?;
//! assert_eq!(reader.table("stock").get("apples")?.as_deref(), Some(&b"12"[..]));
//! for entry in reader.table("orders").range(5u64.to_be_bytes()..) {
//!     let (_number, order) = entry?;
//!     assert_eq!(order, b"apples: 2");
//! }
//! drop(reader);
//! store.close()?;
//! # Ok(()) }
//! ```

mod background;
mod catalog;
mod check;
mod checkpoint;
mod core;
mod data_file;
mod detached;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod latch;
mod leaf_hints;
mod locks;
mod log_files;
mod log_page;
mod log_reader;
mod log_scan;
mod look;
mod online_log;
mod options;
mod page;
mod pool;
mod position;
mod range;
mod recovery;
mod redo;
mod redo_record;
mod replacement;
mod replay;
mod shared_log;
mod split;
mod store;
mod table;
mod transaction;
mod tree;
mod unsettled;

pub use catalog::TABLE_NAME_BYTES_MAX;
pub use check::Report;
pub use env::FileError;
pub use error::{Error, Result};
pub use options::{Durability, Env, LockWait, Options, Stats, Upkeep};
pub use page::{KEY_BYTES_MAX, PAGE_BYTES};
pub use position::{LogOffset, PageId};
pub use range::Range;
pub use store::PageStore;
pub use table::{ReadTable, Table};
pub use transaction::{ReadTransaction, Transaction};
pub use tree::Entry;
