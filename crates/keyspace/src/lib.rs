//! Entries and data types: what is in memory.

pub mod rank_tree;
