//! MIGRATE's conversation with the other server, next to the executor.
//!
//! ```text
//!   engine ── Courier ──► MigrateRunner: a thread, or a test's steps
//!      │                   Courier ── Wire ──► the target
//!      │                      connect, AUTH, SELECT        commands go on, also those that write
//!      │◄──────────────────── ready
//!      │  writers wait
//!      ├── Parcels ─────────► RESTORE …                    all are sent
//!      │                      +OK …                        all are heard
//!      └── Ticket ◄────────── Outcome: which of them the target has
//! ```
//!
//! The executor copies values and deletes keys; names are resolved, values are encoded, and bytes are sent by the courier.
//! Nothing is taken before the target has taken AUTH and SELECT, so a target that does not answer holds no writer up, and no
//! value goes into another database than the one that was named.
//!
//! # Invariants
//! - A key counts as acknowledged only if the target has answered its RESTORE with `+OK`.
//! - A courier never waits longer than the timeout: to connect, for a piece to be taken, for a line.
//! - When a [`Ticket`] is dropped, its courier ends.

mod courier;
mod desk;
mod error;
mod order;
mod tcp;
mod threads;
mod wire;

pub use courier::{Courier, CourierStep};
pub use desk::{Outcome, Ticket};
pub use error::MigrateError;
pub use order::{Credentials, Order, Parcel};
pub use threads::MigrateRunner;
pub(crate) use threads::MigrateThreads;
pub use wire::{Dialer, Wire};
