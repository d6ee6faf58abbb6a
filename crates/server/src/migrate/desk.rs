//! What a courier and the engine tell each other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::MigrateError;
use super::order::Parcel;

/// How a migration has ended.
#[derive(Debug)]
pub struct Outcome {
    /// Which of the parcels the target has, in the order in which they were handed over.
    pub acknowledged: Vec<bool>,
    /// What went wrong first.
    pub failure: Option<MigrateError>,
}

impl Outcome {
    /// Nothing was brought.
    pub(super) const fn of(failure: MigrateError) -> Self {
        Self { acknowledged: Vec::new(), failure: Some(failure) }
    }
}

/// Whose turn it is.
enum Turn {
    /// The courier's: it connects, sends or hears.
    Courier,
    /// The engine's: the target is ready.
    Engine,
    /// The courier's: the parcels are there.
    Parcels(Vec<Parcel>),
    /// The engine's: it is over.
    Over(Outcome),
    /// None's: the engine has the outcome, or wants none.
    Closed,
}

/// See the file's top.
pub(super) struct Desk {
    turn: Mutex<Turn>,
    news: Condvar,
}

impl Desk {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { turn: Mutex::new(Turn::Courier), news: Condvar::new() })
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        // What is in it is whole, even if a thread has panicked.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the engine wants nothing more.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(*self.turn(), Turn::Closed)
    }

    /// The target is ready: it is the engine's turn.
    pub(super) fn offer(&self) {
        let mut turn = self.turn();
        if matches!(*turn, Turn::Courier) {
            *turn = Turn::Engine;
        }
    }

    /// Takes the parcels, once they are there.
    pub(super) fn take_parcels(&self) -> Option<Vec<Parcel>> {
        let mut turn = self.turn();
        match std::mem::replace(&mut *turn, Turn::Courier) {
            Turn::Parcels(parcels) => Some(parcels),
            other => {
                *turn = other;
                None
            }
        }
    }

    /// It is over, unless it is already.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut turn = self.turn();
        if !matches!(*turn, Turn::Over(_) | Turn::Closed) {
            *turn = Turn::Over(outcome);
        }
    }

    /// Waits until the engine has done something, or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let turn = self.turn();
        if matches!(*turn, Turn::Engine) {
            drop(self.news.wait_timeout(turn, timeout));
        }
    }

    /// Whether the engine has something to do.
    pub(super) fn has_news(&self) -> bool {
        matches!(*self.turn(), Turn::Engine | Turn::Over(_))
    }
}

/// Tells a connection whether it is still wanted.
pub(super) struct GivenUp(pub(super) Arc<Desk>);

impl GivenUp {
    /// Whether the engine wants nothing more.
    pub(super) fn is(&self) -> bool {
        self.0.is_given_up()
    }
}

/// What the engine has of a courier. Dropping it gives the migration up.
pub struct Ticket(Arc<Desk>);

impl Ticket {
    pub(super) const fn new(desk: Arc<Desk>) -> Self {
        Self(desk)
    }

    /// Whether the target waits for the parcels.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(*self.0.turn(), Turn::Engine)
    }

    /// Hands over what is to be brought.
    pub fn hand_over(&self, parcels: Vec<Parcel>) {
        let mut turn = self.0.turn();
        if matches!(*turn, Turn::Engine) {
            *turn = Turn::Parcels(parcels);
        }
        drop(turn);
        self.0.news.notify_all();
    }

    /// Takes how it has ended, once it has.
    #[must_use]
    pub fn take_outcome(&self) -> Option<Outcome> {
        let mut turn = self.0.turn();
        match std::mem::replace(&mut *turn, Turn::Closed) {
            Turn::Over(outcome) => Some(outcome),
            other => {
                *turn = other;
                None
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        *self.0.turn() = Turn::Closed;
        self.0.news.notify_all();
    }
}
