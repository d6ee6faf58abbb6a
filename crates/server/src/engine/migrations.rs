//! Keys on their way to another server, as the engine follows them. There is one migration at a time.
//!
//! ```text
//!   MIGRATE ─► Connecting ── the target is ready, and writers may be held ─► Taken ── the log has it ─► Sending
//!                  │                                                           │                          │
//!                  │ others write                    ┌── others wait ──────────┘                          │
//!                  └──────── a failure ─► None ◄─────┴──── what the target has is deleted ◄───────────────┘
//! ```
//!
//! From the moment at which values are taken until what the target has is deleted, commands that write wait as with CLIENT
//! PAUSE WRITE, and nothing is expired or evicted: what is deleted is what was sent. (With COPY nothing is deleted, and nothing waits.) The client that has asked may go
//! meanwhile; nothing is sent for one that goes before, and what was sent is seen to its end.
//!
//! # Invariants
//! - A key is deleted only when the target has acknowledged it, and it has not changed since it was taken.
//! - What leaves the server is as durable as a reply would have to be.

use base::{DbIndex, Lsn};
use keyspace::{Keyspace, Notify, WrongType};

use super::ClientKey;
use crate::migrate::{Courier, MigrateError, MigrateRunner, Order, Outcome, Parcel, Ticket};

/// What a client is told that wants to migrate keys where nothing may wait.
pub(super) const NO_MIGRATION: &str =
    "ERR MIGRATE is not possible inside a transaction: send it outside of MULTI and EXEC";

/// What is to be moved, and for which client.
pub(super) struct Moving {
    pub(super) client: ClientKey,
    /// Its number: the place may be another client's by now.
    pub(super) client_id: u64,
    pub(super) db: DbIndex,
    pub(super) keys: Vec<Box<[u8]>>,
    /// Whether the keys stay here as well.
    pub(super) copies: bool,
}

/// How far the migration is.
#[derive(Default)]
enum Stage {
    /// There is none.
    #[default]
    None,
    /// The target is being reached.
    Connecting(Moving, Ticket),
    /// The values were taken, and are sent when the log has this block.
    Taken(Moving, Ticket, Vec<Parcel>, Lsn),
    /// The values are sent: the keys are now those of them.
    Sending(Moving, Ticket),
}

/// What the engine has to do for the migration.
pub(super) enum Turn {
    /// Nothing.
    Wait,
    /// The values can be taken.
    Take,
    /// It is over: what the target has can be deleted.
    End(Moving, Outcome),
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Migrations {
    runner: Option<Box<dyn MigrateRunner>>,
    stage: Stage,
}

impl Migrations {
    pub(super) fn set_runner(&mut self, runner: Box<dyn MigrateRunner>) {
        self.runner = Some(runner);
    }

    /// Whether there is one: another one waits.
    pub(super) const fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// Whether commands that write wait for its end. Of keys that stay here a copy was taken, whatever becomes of them.
    pub(super) const fn holds_writers(&self) -> bool {
        match &self.stage {
            Stage::Taken(moving, ..) | Stage::Sending(moving, _) => !moving.copies,
            Stage::None | Stage::Connecting(..) => false,
        }
    }

    /// Whether the target may have some of it.
    pub(super) const fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::Sending(..))
    }

    /// Begins one.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn begin(&mut self, moving: Moving, order: Order) -> Result<(), MigrateError> {
        let runner = self.runner.as_mut().ok_or(MigrateError::NoRunner)?;
        let (courier, ticket) = Courier::new(order);
        runner.run(courier).map_err(MigrateError::NoThread)?;
        self.stage = Stage::Connecting(moving, ticket);
        Ok(())
    }

    /// The client for which nothing was sent yet.
    pub(super) const fn unsent_client(&self) -> Option<(ClientKey, u64)> {
        match &self.stage {
            Stage::Connecting(moving, _) | Stage::Taken(moving, ..) => {
                Some((moving.client, moving.client_id))
            }
            _ => None,
        }
    }

    /// What comes next. `may_write`: keys may be changed now; `has_reached`: whether the log has a block.
    pub(super) fn turn(&mut self, may_write: bool, has_reached: impl Fn(Lsn) -> bool) -> Turn {
        match std::mem::take(&mut self.stage) {
            Stage::Connecting(moving, ticket) => match ticket.take_outcome() {
                Some(outcome) => Turn::End(moving, outcome),
                None => {
                    let may_take = may_write && ticket.is_ready();
                    self.stage = Stage::Connecting(moving, ticket);
                    if may_take { Turn::Take } else { Turn::Wait }
                }
            },
            Stage::Taken(moving, ticket, parcels, lsn) if has_reached(lsn) => {
                ticket.hand_over(parcels);
                self.stage = Stage::Sending(moving, ticket);
                Turn::Wait
            }
            Stage::Sending(moving, ticket) if may_write => match ticket.take_outcome() {
                Some(outcome) => Turn::End(moving, outcome),
                None => {
                    self.stage = Stage::Sending(moving, ticket);
                    Turn::Wait
                }
            },
            waits => {
                self.stage = waits;
                Turn::Wait
            }
        }
    }

    /// Where the keys are whose values are to be taken.
    pub(super) fn to_take(&self) -> Option<&Moving> {
        if let Stage::Connecting(moving, _) = &self.stage { Some(moving) } else { None }
    }

    /// The values were taken, and depend on this block.
    pub(super) fn note_taken(&mut self, parcels: Vec<Parcel>, lsn: Lsn) {
        match std::mem::take(&mut self.stage) {
            Stage::Connecting(mut moving, ticket) => {
                moving.keys = parcels.iter().map(|parcel| parcel.key.clone()).collect();
                self.stage = Stage::Taken(moving, ticket, parcels, lsn);
            }
            other => self.stage = other,
        }
    }

    /// Ends it, whatever the target has.
    pub(super) fn give_up(&mut self) -> Option<Moving> {
        match std::mem::take(&mut self.stage) {
            Stage::None => None,
            Stage::Connecting(moving, _) | Stage::Taken(moving, ..) | Stage::Sending(moving, _) => {
                Some(moving)
            }
        }
    }
}

/// Copies out what is to be moved of the keys that are there.
///
/// # Errors
/// None that can happen, as with [`command::value_of`].
pub(super) fn take(keyspace: &mut Keyspace, moving: &Moving) -> Result<Vec<Parcel>, WrongType> {
    let mut parcels = Vec::new();
    for key in &moving.keys {
        let Some(expires_at_ms) = keyspace.expires_at_ms(moving.db, key) else { continue };
        let Some(value) = command::value_of(keyspace, moving.db, key)? else { continue };
        // 0 is for ever.
        let now_ms = keyspace.now_ms();
        let ttl_ms = expires_at_ms.map_or(0, |at_ms| at_ms.saturating_sub(now_ms).max(1));
        parcels.push(Parcel { key: key.clone(), ttl_ms, value });
    }
    Ok(parcels)
}

/// Deletes the keys that the target has.
pub(super) fn delete(keyspace: &mut Keyspace, db: DbIndex, keys: &[&[u8]]) {
    for key in keys {
        if keyspace.delete(db, key) {
            keyspace.notify(Notify::GENERIC, "del", db, key);
        }
    }
}
