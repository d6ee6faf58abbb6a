//! What executes the commands that need nothing but the keyspace: one file a command family.
//!
//! ```text
//!   handlers    from a command's ordinal to its handler
//!   context     what a handler works on; argument: how it reads what it was given
//!   string …    the handlers, one file a family: Redis' semantics, and nothing of the log
//!   introspect  the replies of COMMAND, made from the table; help: those of HELP subcommands
//! ```
//!
//! What the commands are (arity, flags, keys, documentation) is `command_spec`'s, whose modules are
//! here again for the crates that execute commands. A command's facts are Redis 7.0's, so that client
//! libraries which ask the server about its commands (for routing, for completion, for checking) get
//! the answers they were written for.

pub mod argument;
mod bitfield;
mod bitmap;
pub mod context;
mod dump;
pub mod error;
mod expire;
mod float;
mod generic;
mod geo;
pub mod handlers;
mod hash;
pub mod help;
mod hyperloglog;
pub mod introspect;
mod list;
mod list_blocking;
mod long_double;
mod scan;
mod set;
mod set_algebra;
mod sort;
mod stream;
mod string;
mod zset;

pub use command_spec::{keys, names, spec, table};
pub use dump::value_of;
pub use list::moving::lacks_elements;
pub use scan::parse_cursor;
pub use stream::adds_at_the_end;
pub use stream::{add_group, set_numbers};
