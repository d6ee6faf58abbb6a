//! The command crate as its users see it.

mod table;
