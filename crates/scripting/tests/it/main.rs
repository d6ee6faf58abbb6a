//! What a user of scripts and functions sees.

mod bounds;
mod cache;
mod functions;
mod host;
mod interrupts;
mod recorded;
mod replies;
mod round_trips;
mod sandbox;
