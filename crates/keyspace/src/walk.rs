//! A consistent snapshot of the keyspace in memory, taken while commands change it: without a fork,
//! without a copy of the data, in slices of bounded work.
//!
//! ```text
//!   trigger    each database gets a cursor at its first hash: nothing else happens
//!
//!   hashes     0 ──────────────── cursor ──────────────────── 2^64
//!   table      visited: emitted,  │   not visited: as at the trigger, or EARLY
//!              changes are of     │            ■ ■ □ ■ ◆ ■        □ ◆ EARLY: emitted already,
//!              no concern         │                                   or not in the snapshot
//!
//!   a command ─► Db: about to change ■ ─► hand over ─┬─ small: emitted now, whole
//!                                                    └─ large: gets a shadow, waits in the queue
//!   walk_step ─► queue ─► pages from the cursor on ─► chunks ─► Decoder, on another thread
//! ```
//!
//! The state of an entry is the paper's: it has the value of the snapshot, or that was passed on before
//! the entry changed. The paper keeps a copy of every row and two bits; here the first change of an
//! entry emits what was there, and one flag in its header says so. Pages are ranges of hashes, and
//! splits and merges move no hash over the cursor, so *visited* needs no mark: it is `hash < cursor`.
//!
//! # Small and large
//! A value in its key's entry, or an object of at most [`Options::whole_bytes_max`] bytes, is emitted as a
//! whole before its first change: that copies no more than a command that reads it. The stream has it
//! at once; nothing is queued, and what was there is freed as ever.
//!
//! An object that is larger gets a *shadow* in front of its first change: the walk and the object share
//! the work. The shadow has a cursor of its own; an element in front of it that changes or goes is kept
//! in the shadow, and one that comes is noted there. So every element as of the trigger is emitted
//! once, their number is known before the first, and a command pays for the elements that it changes.
//! The body that owns the elements keeps their shadow, and changes them through one file:
//!
//! ```text
//!   hashes, sets, sorted sets   elements/shadow     elements move there; new names are noted
//!   lists                       list/nodes/walked   nodes by their order keys
//!   strings                     string/large        chunks of 4 KiB
//!   streams                     stream/tracker      nodes, groups and pending entries by their names
//! ```
//!
//! An object with a shadow is found by where it is *now*: RENAME and MOVE take it to another key, and a
//! deletion to the `FreeQueue`, which holds it until it was emitted and frees it then, its
//! records retired as ever. The name and the expiry that it had wait in the queue.
//!
//! # Whole databases
//! A cursor belongs to a database, whatever index it has: SWAPDB needs nothing. A database that is
//! flushed is *detached*: the walk visits it before all others and frees it then.
//!
//! # Algorithms
//! [`Algorithm::Piggyback`] is what the above describes. [`Algorithm::CopyOnUpdate`] is what Valkey and
//! Dragonfly do, for comparison: an object is emitted as a whole before its first change, however large.
//!
//! # Invariants
//! - Entries change through `Db` alone, which hands them over before.
//! - Of a database that is not visited to its end, an entry behind the cursor that is not EARLY is as it
//!   was at the trigger. An entry before the cursor is not EARLY. Without a walk no entry is.
//! - An object has a shadow exactly as long as its root is in the queue.
//! - Only the first of the queue is emitted in part. What is handed over meanwhile is put aside until
//!   its end, so keys do not interleave.
//! - While a walk is under way, all keys and values are in memory, and none leaves it.
//!
//! Source: Li, Wang, Wu, Yuan, Chen, Lian, "A Comparative Study of Consistent Snapshot Algorithms for
//! Main-Memory Database Systems", 3.2.2 (Piggyback) and 5.4 (Redis); elements, databases and the queue
//! are ours.

mod decode;
mod handing;
mod step;
mod stream;

pub use decode::{DecodeError, Decoder, Element, Key, Visitor};
pub(crate) use handing::{Walk, Walker};
pub(crate) use stream::{PART_BYTES_MAX, Stream};

/// What happens to a large value before its first change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// What changes of it is kept until it was emitted.
    Piggyback,
    /// It is emitted as a whole.
    CopyOnUpdate,
}

/// How a walk goes about it.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What happens to a large value before its first change.
    pub algorithm: Algorithm,
    /// About how large chunks are, in bytes.
    pub chunk_bytes: usize,
    /// An object of at most so many bytes is emitted as a whole.
    pub whole_bytes_max: usize,
    /// With more bytes than these waiting the walk is congested.
    pub handed_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Piggyback,
            chunk_bytes: 256 << 10,
            whole_bytes_max: 4096,
            handed_bytes_max: 64 << 20,
        }
    }
}

/// Why no walk was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another walk has not ended yet.
    #[error("another snapshot of memory is under way, or is being cleaned up")]
    UnderWay,
    /// The keyspace is fed from a log.
    #[error("the keyspace follows a log: a snapshot of memory would cut its blocks")]
    Fed,
    /// Memory may not have everything.
    #[error("not all keys and values are in memory: a snapshot of it would lack them")]
    Lacking,
}

/// What a walk has begun with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseSize {
    /// The index of the database.
    pub database: u32,
    /// How many keys it has.
    pub keys: u64,
    /// How many of them expire.
    pub expiring: u64,
}

/// How far a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How many keys were emitted.
    pub keys_emitted: u64,
    /// How many there were at the trigger.
    pub keys_total: u64,
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// No walk is under way.
    Idle,
    /// A chunk is full. There is more.
    Chunk(Vec<u8>),
    /// The step has done what it may. There is more.
    More,
    /// The walk has ended; another one can begin.
    Over(Outcome),
}

/// How a walk has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was emitted.
    Complete,
    /// [`crate::Keyspace::end_walk`] ended it.
    Ended,
    /// The keyspace was replaced in the middle of it.
    Lost,
}
