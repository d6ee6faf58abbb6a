//! The behaviour that a user of the store sees.

mod basics;
mod corruption;
mod harness;
mod model;
mod serializability;
mod threads;
