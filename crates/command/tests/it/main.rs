//! The command crate as its users see it.

mod generic;
mod geo;
mod hash_expiry;
mod hyperloglog;
mod introspect;
mod list;
mod session;
mod set;
mod sort;
mod stream;
mod string;
mod zset;
