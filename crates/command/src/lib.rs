//! What Indelible understands: the command table as data, and one file a command family.
//!
//! ```text
//!   spec        what is known about a command: arity, flags, where its keys are, its documentation
//!   table/      the specs themselves, one file a group; lookup by name
//!   keys        the positions of the keys among a call's arguments
//!   introspect  the replies of COMMAND, made from the table; help: those of HELP subcommands
//!   context     what a handler works on; argument: how it reads what it was given
//!   string …    the handlers, one file a family: Redis' semantics, and nothing of the log
//! ```
//!
//! A command's facts are Redis 7.0's, so that client libraries which ask the server about its
//! commands (for routing, for completion, for checking) get the answers they were written for.
//! What we cannot do is not in the table and is therefore an unknown command.

pub mod argument;
mod bitfield;
mod bitmap;
pub mod context;
mod dump;
pub mod error;
mod expire;
mod float;
mod generic;
mod hash;
pub mod help;
pub mod introspect;
pub mod keys;
mod list;
mod list_blocking;
mod long_double;
pub mod names;
mod scan;
mod set;
mod set_algebra;
mod sort;
pub mod spec;
mod string;
pub mod table;
mod zset;
