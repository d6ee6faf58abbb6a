//! The change stream: blocks of the log as lines, read next to the executor and given to clients that ask.
//!
//! ```text
//!   LOGTAIL ─► engine ── Request: after block n, at most so many ──► Desk ──► Tailer (a thread, or steps)
//!                 ▲                                                             │ a Position: the next block, and
//!                 └──────────────── Reply: lines, up to 1 MiB ◄── Desk ◄────────┘ which object is whose
//! ```
//!
//! A client asks, and is never pushed to: what it does not ask for is nowhere but in the log. The thread reads
//! files; the executor never does.
//!
//! Which key has which large value is known at the end of what was read. A few such positions are kept, each with
//! its last reply: a client that asks for what is next, or once more for what it was sent last, is served from
//! there. Any other one has the log read up to its block first, for the keys ([`blocks`]).
//!
//! # Invariants
//! - No block is given out that is not durable: a crash could take it back, and give its number to another one.
//! - A block is given out as a whole and with every record that it ever had, or it is an error that says from
//!   where on there is that.
//! - What a database is called is right, or that is an error, too ([`position`] has the rule).
//! - A reply is at most about [`REPLY_BYTES_MAX`], or one block.

mod archived;
mod blocks;
mod desk;
mod error;
mod position;
mod stored;
mod tailer;
mod threads;

pub use archived::{ArchivedTail, read_archived};
pub(crate) use desk::{Answer, Desk, Request, Wanted};
pub(crate) use error::check_log;
pub use error::{TailError, TailResult};
pub use stored::{StoredTail, read_stored};
pub use tailer::{TailFigures, TailStep, Tailer};
pub use threads::TailRunner;
pub(crate) use threads::TailThread;

/// How many bytes of lines a reply has, but for its last one.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;

/// How much of the keys of large values is known at each position. A key that is forgotten is unknown from there on.
const ROOTS_BYTES_MAX: usize = 16 << 20;
