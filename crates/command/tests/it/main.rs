//! The command crate as its users see it.

mod generic;
mod session;
mod sort;
mod table;
mod zset;
