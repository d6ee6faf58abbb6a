//! What turns the crates into a server.

pub mod config;
