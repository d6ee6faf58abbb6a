//! The requests that a partially preserved server lacks: those in flight when the log ended, or
//! when a base backup was taken.
//!
//! ```text
//!   BEGIN  UPDATE ┊ UPDATE  COMMIT      the whole transaction is sent
//!                 ┊ the backup, or the last answer
//! ```
//!
//! A transaction is a unit: if its end was not answered, none of it may remain, and all of it is
//! sent again. A transaction that had not ended when the log did is not sent, because it was never
//! acknowledged. An answered request is not sent again, an unanswered one is: a server that
//! executed it but could not answer executes it twice.

use std::collections::{BTreeSet, HashMap};

use super::footprint::Footprints;
use super::plan::Request;
use crate::entry::{Class, ConnectionNumber, Entry, Position};
use crate::error::Result;
use crate::protocol::Protocol;

/// Returns the requests whose transactions were not answered.
pub(super) fn not_completed(
    entries: &mut dyn Iterator<Item = Result<Entry>>,
    protocol: Protocol,
) -> Result<BTreeSet<Position>> {
    let mut transactions = Transactions::new(protocol);
    for entry in entries {
        transactions.take(entry?);
    }
    Ok(transactions.unanswered.into_values().flatten().collect())
}

/// The contents of a base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    position: Position,
    /// Requests up to `position` that are missing from it.
    missing: BTreeSet<Position>,
}

impl Base {
    /// Determines the contents of a backup from the log before it. The backup was taken when the
    /// request at `position` was the last one.
    ///
    /// A log of SQL is ordered by answers: a request not answered before the next one arrived is
    /// not in the backup. For RESP, the backup contains everything that had arrived, except
    /// transactions whose EXEC had not.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn at(
        position: Position,
        entries: &mut dyn Iterator<Item = Result<Entry>>,
        protocol: Protocol,
    ) -> Result<Self> {
        let mut transactions = Transactions::new(protocol);
        for entry in entries {
            let entry = entry?;
            if matches!(&entry, Entry::Request { position: later, .. } if *later > position) {
                break;
            }
            transactions.take(entry);
        }
        let Transactions { open, mut unanswered, .. } = transactions;
        if protocol != Protocol::Mysql {
            unanswered.clear();
        }
        let groups = open.into_values().chain(unanswered.into_values());
        Ok(Self { position, missing: groups.flatten().collect() })
    }

    /// The request after which reading must begin.
    #[must_use]
    pub fn reads_behind(&self) -> Position {
        self.missing.first().map_or(self.position, |first| Position(first.0 - 1))
    }

    /// Whether a request is in the backup.
    pub(super) fn has(&self, position: Position) -> bool {
        position <= self.position && !self.missing.contains(&position)
    }
}

/// The transactions that have begun.
struct Transactions {
    footprints: Footprints,
    /// Requests of transactions without an end.
    open: HashMap<ConnectionNumber, Vec<Position>>,
    /// Requests of transactions whose end has no answer, by its position.
    unanswered: HashMap<Position, Vec<Position>>,
}

impl Transactions {
    fn new(protocol: Protocol) -> Self {
        let footprints = Footprints::new(protocol);
        Self { footprints, open: HashMap::new(), unanswered: HashMap::new() }
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Request { position, connection, at, class, payload, .. } => {
                if class == Class::ReadOnly {
                    return;
                }
                let request = Request { position, at, class, payload, recorded: None };
                let (_, ends_transaction) = self.footprints.request(connection, &request);
                if class == Class::Query {
                    self.open.entry(connection).or_default().push(position);
                }
                if ends_transaction && let Some(group) = self.open.remove(&connection) {
                    self.unanswered.insert(position, group);
                }
            }
            Entry::Completed { position, outcome, .. } => {
                self.footprints.answered(position, outcome);
                self.unanswered.remove(&position);
            }
            Entry::Closed { connection, .. } => {
                self.footprints.close(connection);
                self.open.remove(&connection);
            }
            Entry::Opened { .. } | Entry::Gap { .. } => {}
        }
    }
}
