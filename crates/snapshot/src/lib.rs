//! Consistent snapshots of rows in memory: the algorithms of paper 004, and one more, behind one
//! trait.
//!
//! ```text
//!                     ┌──────────────── Database<A> ────────────────┐
//!   Client ── tick ──►│ gate ─► A: Algorithm                        │
//!     read, write     │  ▲        rows (cells), flags               │
//!                     │  │ closed while a snapshot is taken         │
//!   Snapshotter ─────►│ take ─► write_to_online ─► snapshot_row …   │──► Checkpoints ──► dump
//!                     └─────────────────────────────────────────────┘      (merge)
//! ```
//!
//! After *A Comparative Study of Consistent Snapshot Algorithms for Main-Memory Database Systems*
//! (paper 004). A client thread reads and writes rows. A snapshotter thread captures the state
//! between two ticks of the client and keeps it while the client continues. The algorithms differ
//! in how they divide the work (`docs/snapshots.md` says which to choose, from measurements):
//!
//! | algorithm | file | snapshot | copies | taken phase | a write |
//! |---|---|---|---|---|---|
//! | Naive | `naive` | full | 2 | copies all rows | the row |
//! | Copy-on-Update | `copy_on_update` | full | 2 | clears a flag a row | the row; at first a lock and its old value |
//! | Fork | `fork` | full | 1 and pages written | copies the page tables | the row; at first a page fault and a page |
//! | Zigzag | `zigzag` | full | 2 | negates a flag a row | a flag, a row of either copy, a flag |
//! | Ping-Pong | `ping_pong` | changes | 3 | swap | the row twice, a flag |
//! | Hourglass | `hourglass` | changes | 2 | swap | a flag, the row, a flag |
//! | Piggyback | `piggyback` | full | 2 | swap | the row, a flag |
//! | Windowed Piggyback | `windowed` | full | 2 | swap | the row, a flag |
//! | CALC, vHG, vPB | `transactions` | | 2 | none: transactions go on | |
//!
//! # Files of this crate
//!
//! | what | where |
//! |---|---|
//! | for users | `database`, `algorithm`, `checkpoint`, `dump`, `error` |
//! | memory that two threads look at | `cells`, `gate`, `window`, `sync` |
//! | algorithms | one file each, as in the table |
//! | transactions | `transactions`: strict two-phase locking and the virtual algorithms |
//!
//! # Invariants
//!
//! 1. A read returns the latest value written.
//! 2. A snapshot is the state at the end of its taken phase, whatever is written later. For the
//!    virtual algorithms, it is the state at one point of the commit order.
//! 3. A snapshot of changes contains every row written since the previous snapshot; merged with the
//!    checkpoint of that one, it is full.
//! 4. The next snapshot is taken only after the previous one is finished, and an unfinished one is
//!    not lost.
//! 5. A row is written by one thread at a time. Each algorithm's file says what guarantees this;
//!    the memory orderings are in `cells`.
//! 6. A file with the name of a dump is complete; every byte of it is verified on reading.
//!
//! # Use
//!
//! ```
//! # fn main() -> snapshot::Result<()> {
//! use snapshot::{Checkpoints, Database, Pages, Setup, Shape, Windowed};
//! # let disk = std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default()));
//!
//! let shape = Shape::new(1000, 64)?;
//! let mut database: Database<Windowed> = Database::new(&Setup {
//!     shape,
//!     pages: Pages::Ordinary,
//!     child_disk: None,
//!     initial: &|row, value| value.fill(row as u64),
//! });
//! let checkpoints = Checkpoints::open(disk, "/checkpoints")?;
//!
//! let (mut client, mut snapshotter) = database.split();
//! client.tick().write(7, &[77; 8]);
//! let snapshot = snapshotter.take()?;
//! client.tick().write(7, &[78; 8]); // not in the snapshot
//! checkpoints.make(snapshot)?;
//!
//! assert!(checkpoints.latest()?.is_some());
//! # Ok(())
//! # }
//! ```

pub mod algorithm;
pub mod cells;
pub mod checkpoint;
mod copy_on_update;
pub mod database;
pub mod dump;
mod error;
#[cfg(not(loom))]
mod fork;
pub mod gate;
mod hourglass;
mod naive;
mod piggyback;
mod ping_pong;
mod sync;
pub mod transactions;
mod window;
mod windowed;
mod zigzag;

pub use algorithm::{Algorithm, Content, Setup};
pub use cells::{Pages, Shape};
pub use checkpoint::{Checkpoints, Source};
pub use copy_on_update::CopyOnUpdate;
pub use database::{Client, Database, Snapshot, Snapshotter, Tick};
pub use env::FileError;
pub use error::{Error, Result};
#[cfg(not(loom))]
pub use fork::Fork;
pub use hourglass::Hourglass;
pub use naive::Naive;
pub use piggyback::Piggyback;
pub use ping_pong::PingPong;
pub use transactions::calc::Calc;
pub use transactions::hourglass::VirtualHourglass;
pub use transactions::piggyback::VirtualPiggyback;
pub use transactions::{Transaction, TransactionStore, VirtualAlgorithm, VirtualSnapshot};
pub use windowed::Windowed;
pub use zigzag::Zigzag;
