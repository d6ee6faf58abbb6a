//! What a user of the store sees.

mod basics;
mod harness;
mod model;
