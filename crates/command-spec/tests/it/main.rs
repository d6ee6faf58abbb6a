//! The table as its users see it.

mod keys;
mod propagation;
mod table;
