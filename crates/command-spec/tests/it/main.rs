//! The table as its users see it.

mod compatibility;
mod keys;
mod propagation;
mod table;
