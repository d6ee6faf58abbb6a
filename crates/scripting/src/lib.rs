//! Lua scripts and function libraries as Redis 7.2 has them, independent of the server.
//!
//! ```text
//!   EVAL, EVALSHA, SCRIPT ──► Scripts ────┐                      ┌─► redis.call ─► Host::call ─► the engine
//!   FUNCTION, FCALL ────────► Libraries ──┴─► Machine ── run ────┤                    │ a reply, as RESP
//!                                              │ one Lua state   │◄── to_lua ◄────────┘
//!                                              │ heap: counted,  └─► to_reply ─► the client's Writer
//!                                              │   limited
//!                                              └ meter: the work of 100,000 instructions ─► Host::interrupt
//! ```
//!
//! The server implements [`Host`]: it executes the commands that a script calls, and says whether a
//! script that runs for long may go on. [`Scripts`] owns the scripts of EVAL and [`Libraries`]
//! those of FUNCTION, each in a Lua state of its own; both run one to its end and write its reply.
//! An [`Execution`] runs one in steps, so that the server can leave it alone when it runs for long.
//! Nothing here reads a clock, a file or a socket, and a state belongs to one thread at a time.
//!
//! # The layers
//! - [`heap`] gives Lua memory: it counts bytes and refuses those past the limit.
//! - [`meter`] counts what a run does, whatever does it, and says when the host is to be asked.
//! - [`entry`], [`coroutine`], [`frame`] and [`arguments`] are the border. Lua reports an error by `longjmp`, which must not jump
//!   over a Rust frame that has something to drop. So Rust called from Lua sees only a [`frame::Frame`],
//!   none of its methods can raise, and an error becomes a jump in [`entry`], when all is dropped.
//! - [`machine`] owns a state: it compiles, runs and interrupts.
//! - [`sandbox`], [`redis_api`], [`registration`], [`json`], [`msgpack`], [`packing`], [`bits`], [`pattern`], [`table`]
//!   and [`text`] are what scripts see, in safe Rust over `Frame`.
//! - [`scripts`] and [`libraries`] are what the server sees.
//!
//! # Invariants
//! 1. No method of `Frame` raises a Lua error. The ways in which Lua's interface raises are: memory
//!    that is refused (the heap refuses none while Rust runs: [`heap::Heap::enter`]); a key that is nil or not a number
//!    ([`frame::Frame::raw_set`] refuses it); metamethods (only raw access is offered); a full stack
//!    ([`frame::Frame::reserve`] reports it).
//! 2. Whatever Rust allocates for a script is checked against the room that the heap has left.
//! 3. No panic unwinds through Lua: [`entry`] catches it, ends the script, and [`machine`] resumes it.
//! 4. Scripts share nothing: globals and libraries are behind proxies that no script can write to,
//!    `rawset` and metatables included. The exceptions are Redis': the settings of `cjson`, the
//!    sequence of `math.random`, and upvalues of library functions.
//! 5. A stop is final: once [`Host::interrupt`] has said [`Interrupt::Stop`], every following instruction raises the error
//!    again, and whatever catches errors (`pcall`, `resume`, `wrap`, `load`, [`frame::Frame::call`]) raises it again. The
//!    state stays usable.
//! 6. Only source is compiled. Compiled chunks are refused: their checks are Lua's weakest part.
//!
//! # What cannot be interrupted
//! One instruction may call a function of C that runs for long, `string.format` or `..` of large texts, or collect all
//! garbage: one such operation is bounded by the memory limit. What it allocates is counted, so the host is asked
//! behind each that is large; what it only reads is not, so an instruction counts more the more memory is in use
//! ([`meter`]). The compilation of a source is one operation.
//! Everything with unbounded work (patterns, `cjson`, `cmsgpack`, `string.rep`, most of `table`, the writing of the reply)
//! is written here and asks [`Host::interrupt`], too.

mod arguments;
mod bits;
mod coroutine;
mod entry;
mod error;
mod execution;
mod frame;
mod heap;
mod host;
mod json;
mod libraries;
mod machine;
mod meter;
mod msgpack;
mod number;
mod packing;
mod pattern;
mod random;
mod redis_api;
mod registration;
mod sandbox;
mod scripts;
mod shebang;
mod table;
mod text;
mod to_lua;
mod to_reply;

pub use error::{LibraryError, ScriptError};
pub use execution::{
    Answer, Arguments, Ask, Call, Ended, Execution, Interpreter, NoStack, Program, Stack, Step,
};
pub use host::{Ending, Host, Interrupt, Level, Permission};
pub use libraries::{
    Existing, Function, LIBRARIES_MAX, Libraries, Library, LibraryFunction, SOURCE_BYTES_MAX,
    library_name,
};
pub use machine::{LOADING_INTERRUPT_EVERY, Options, SUSPECT_SETS};
pub use scripts::{Origin, Script, ScriptId, Scripts, mentions};
pub use shebang::ScriptFlags;
