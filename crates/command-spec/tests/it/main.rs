//! The table as its users see it.

mod table;
