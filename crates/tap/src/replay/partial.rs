//! Which requests were under way when the log ended, for a server that has kept the others.
//!
//! A transaction is one thing: if its end was not answered, nothing of it may have stayed, and all of it
//! is sent again. One that was not ended is not, as nobody was promised it. A request that was answered
//! is not sent again, one that was not answered is: a server that had executed it and could not say so any
//! more executes it twice.

use std::collections::{BTreeSet, HashMap};

use super::footprint::Footprints;
use super::plan::Request;
use crate::entry::{Class, Entry, Position};
use crate::error::Result;
use crate::protocol::Protocol;

/// The requests whose transactions were not answered.
pub(super) fn not_completed(
    entries: &mut dyn Iterator<Item = Result<Entry>>,
    protocol: Protocol,
) -> Result<BTreeSet<Position>> {
    let mut footprints = Footprints::new(protocol);
    let mut open: HashMap<_, Vec<Position>> = HashMap::new();
    let mut unanswered: HashMap<Position, Vec<Position>> = HashMap::new();
    for entry in entries {
        match entry? {
            Entry::Request { position, connection, at, class, payload, .. } => {
                if class == Class::ReadOnly {
                    continue;
                }
                let request = Request { position, at, class, payload, recorded: None };
                let (_, ends_transaction) = footprints.request(connection, &request);
                if class == Class::Query {
                    open.entry(connection).or_default().push(position);
                }
                if ends_transaction && let Some(group) = open.remove(&connection) {
                    unanswered.insert(position, group);
                }
            }
            Entry::Completed { position, .. } => {
                unanswered.remove(&position);
            }
            Entry::Closed { connection, .. } => {
                footprints.close(connection);
                open.remove(&connection);
            }
            Entry::Opened { .. } | Entry::Gap { .. } => {}
        }
    }
    Ok(unanswered.into_values().flatten().collect())
}
