//! A new log made of one as it was: `indelible restore`.
//!
//! ```text
//!   source ── files in place and kept, locked or linked ──► timeline: which block is meant
//!                                                              │ as of it
//!   branch ◄── image by image, with the new database's headers ┘
//!     └─► verified ─► published: the manifest comes last
//! ```
//!
//! `source` is a data directory that is read, also one of a process that goes on writing; `timeline`
//! the blocks that can be told, with their times (in a `block_list`), and what notes say; `deletions` says when a key was
//! lost; `branch` copies an image, by an `image_writer`; `expiry` changes when keys expire on the way; `building` is the new directory; `restoring` is all of it; `told` is what a log tells without being restored, and
//! `checking` reads states without making anything of them.
//! `rewinding` sets a closed log back where it is, with `put_back` for the names of files. `new_log` makes a log in the same way of blocks that come from elsewhere; `reached` says how far one is that was cut off.

pub(crate) mod block_list;
pub(crate) mod branch;
pub(crate) mod building;
pub(crate) mod checking;
pub(crate) mod deletions;
pub(crate) mod expiry;
pub(crate) mod image_writer;
pub(crate) mod new_log;
pub(crate) mod put_back;
pub(crate) mod reached;
pub(crate) mod restoring;
pub(crate) mod rewinding;
pub(crate) mod source;
pub(crate) mod timeline;
pub(crate) mod told;
