//! The bytes on disk, without I/O of any size: what `docs/format/redo-log.md` says.
//!
//! [`record`]s lie in [`block`]s, blocks in the image of a [`segment`], whose footer says which
//! records it has left ([`survivors`]) and
//! where they are ([`groups`]). The [`manifest`] says what must be there (`listing`).

pub mod block;
pub(crate) mod footer;
pub mod groups;
pub(crate) mod kinds;
pub(crate) mod listing;
pub mod manifest;
pub mod record;
pub(crate) mod registry;
pub(crate) mod rewinds;
pub(crate) mod sections;
pub mod segment;
pub mod survivors;
