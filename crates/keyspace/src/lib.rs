//! The keyspace: what is in memory, and the record that every change of it leaves.
//!
//! ```text
//!            string · hash · list · set · zset · stream   semantics of each type
//!                 │ views and guards (collection)
//!  Keyspace ──────┤                                       lookup, expiry, deletion, signals
//!    │  Db ───────┼─────────► walk                            a snapshot, while commands go on
//!    │  └ Table<Entry>          entry: key + small value, or ─► Object: large value
//!    │                                                           └ Table<Element>, RankTree, …
//!    └ Recorder ──────────────► Journal                   one record a change, addresses, LSNs
//! ```
//!
//! The keyspace belongs to one thread, the executor's. It knows nothing of devices, files or
//! clients: changes go out through the [`Journal`] trait and come back through
//! [`Keyspace::apply`]: all of them after a crash, block by block in a keyspace that follows another.
//!
//! # Invariants
//! - Every change of an entry is exactly one record; the entry holds its address; the address
//!   that it held before is retired. What is not logged does not happen.
//! - A small collection (up to [`packed::PACKED_BYTES_MAX`] packed bytes) is one entry; the
//!   elements of a larger one are entries of their own.
//! - No call does work proportional to the data in one piece, beyond what its command asks for:
//!   tables grow a page at a time, and what was deleted is freed in slices.
//! - Applying the log of a keyspace to an empty one makes it equal.
//!
//! Source: Lee, Kim, Yeom, "Validity Tracking Based Log Management for In-Memory Databases",
//! III-B to III-E; the stable addresses, packed collections and incarnations are ours.

mod access;
mod apply;
mod cold;
pub mod collection;
mod connect;
mod cooling;
mod database_map;
mod databases;
mod db;
mod due;
mod due_hashes;
pub mod effects;
mod element;
mod elements;
mod entry;
mod expire;
mod free;
mod full_rewrite;
pub mod hash;
mod hasher;
mod hot;
mod inspect;
mod journal;
mod keyspace;
mod libraries;
mod limbo;
pub mod list;
mod lost;
mod names;
mod object;
pub mod packed;
pub mod plain;
pub mod rank_tree;
mod record_check;
mod recorder;
mod rename;
mod replace;
mod rewrite_lost;
mod sample;
pub mod set;
mod settings;
mod settle;
mod source;
pub mod stream;
pub mod string;
mod survey;
mod table;
mod value_type;
pub mod walk;
pub mod zset;

pub use apply::ApplyError;
pub use cold::{ColdStart, Restored, Warmth};
pub use collection::Updated;
pub use cooling::{Cooled, Round};
pub use database_map::DatabaseMap;
pub use effects::{Change, Effects, Event, Notify};
pub use full_rewrite::{FullRewrite, FullRewritten};
pub use hasher::{Identity, KeyHasher};
pub use hot::HotSurvey;
pub use inspect::{Contents, ENTRY_HEAD_BYTES, Inspected, StringLayout, TABLE_SHARE_BYTES};
pub use journal::{Journal, NoJournal};
pub use keyspace::{Keyspace, Stats};
pub use libraries::Libraries;
pub use lost::{KeysIn, LostKey, LostNews};
pub use names::{ColdName, HASH_GRAIN, NamesFor, NamesFound, NamesWanted};
pub use record_check::BadRecord;
pub use rewrite_lost::RewriteLost;
pub use settings::{EvictionPolicy, Settings};
pub use source::{ColdStats, Look, Missing, Need, RestoreError, Restorer};
pub use string::{Expiry, StringRef, parse_int};
pub use survey::{LogCheck, Survey};
pub use value_type::{Type, WrongType};
