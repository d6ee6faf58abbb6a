//! The command crate as its users see it.

mod generic;
mod list;
mod session;
mod sort;
mod table;
mod zset;
