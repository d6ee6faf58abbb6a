//! The commands of Redis and Valkey as pure data.
//!
//! ```text
//!   spec     what is known about a command: arity, flags, where its keys are, how it reaches a replica
//!   table    the specs, one file a group; from a name to its command and its ordinal
//!   keys     which of a call's arguments are keys
//!   names    the names of the table as `rename-command` has changed them
//! ```
//!
//! There is nothing here that executes: a crate that does has an array of handlers by ordinal,
//! which [`table::by_ordinal`] builds and checks at compile time. A crate that only needs the facts
//! (to route, to check permissions, to log a conversation) depends on this one alone.
//!
//! Invariants, each with a check at compile time or a test:
//!
//! 1. A name is in the table once. An ordinal belongs to one command or subcommand.
//! 2. A look-up finds what is served and nothing else; [`table::find`] finds what is known.
//! 3. The facts are those that the servers tell of themselves; summaries are in our words.

pub mod keys;
pub mod names;
pub mod spec;
pub mod table;
