//! What the records of a log change, as events for programs that follow it.
//!
//! ```text
//!   records of the blocks before ─► Translator::learn ─┐ which object is whose, which database is which
//!                                                      ▼
//!   records of a block ──────────► Translator::block ─► Change, Change, … ─► json: one line a block
//! ```
//!
//! A block holds whole commands and whole transactions, is durable as one, and says nowhere where one of them
//! ends: so it is the unit that is given out. The unit within is the entry: a small value as a whole, an element
//! of a large one, a node of a list. A change says what its entry is now, never how it came to be that; one that
//! is applied twice changes nothing.
//!
//! An element names its object and not its key. [`roots`] keeps the keys of large values, as many as fit; of
//! others the key is unknown, and the object's number is given all the same.
//!
//! # Order within a block
//! It is that of the records, but for two things that make a consumer simple:
//! - Elements that come before the root of their object (COPY) are given out behind it.
//! - A RENAME logs that the old key is gone, then the root under the new one. It is given out the other way
//!   round, so that the object is never without a key.
//!
//! # Invariants
//! - Every record of a block is one change.
//! - A key that is named for an element is the right one if what was learned is right: no record that was needed
//!   before the first block, and not superseded before it, was missing ([`Translator::learn`]).
//! - Nothing that a log says makes it panic, and a record that no keyspace logs is an error.

mod change;
mod databases;
mod json;
mod roots;
mod translator;

pub use change::{Change, Database, Element, ElementName, Moved, Place};
pub use json::{Heading, write_block};
pub use translator::Translator;
