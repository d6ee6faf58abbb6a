//! The Redis serialisation protocol in both directions, without I/O.
//!
//! ```text
//!   bytes from a client ──► parse ──► arguments, as ranges of the read buffer
//!                             └ words    lines of quoted words (inline requests)
//!   replies of a command ─► writer ──► bytes for a client, RESP2 or RESP3
//!                             ├ number   integers and doubles as text
//!                             └ pieces   the buffer, which grows without being moved
//! ```
//!
//! The writer uses the protocol version that the client chose with HELLO: a handler states its
//! reply (a map, a double, a null), and the writer encodes it for that version. The parser never
//! trusts a length that a client announces: memory grows only with bytes that have arrived.

mod number;
mod parse;
mod pieces;
mod words;
mod writer;

pub use number::{format_double, format_int};
pub use parse::{Limits, Parsed, Parser, ProtocolError};
pub use pieces::SharedBytes;
pub use words::split_words;
pub use writer::{Mark, Protocol, Writer};
