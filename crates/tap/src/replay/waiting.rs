//! Determines which requests in flight wait for another connection, and what is sent when all of
//! them do.
//!
//! Time alone proves nothing: on a busy machine, a late request may be one that the server has not
//! begun, and whatever was sent in its place would overtake it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::dialect::{Dialect, resp_request};
use super::mysql::MysqlSession;
use super::{Replayer, STEPS_AHEAD, UnderWay};
use crate::entry::{ConnectionNumber, Outcome};
use crate::error::Result;
use crate::protocol::Protocol;

/// The longest interval between questions about a late request.
const PATIENCE_MAX: Duration = Duration::from_millis(20);

/// How long there may be no progress before the server is asked which connection blocks which. Its
/// answer may be 100 ms older than the previous question, and a connection whose lock was released
/// may not have woken up yet.
pub(super) const STUCK_PATIENCE: Duration = Duration::from_millis(150);

impl Replayer<'_> {
    /// Determines which of the late requests wait for another connection.
    pub(super) fn look_after_late(&mut self) -> Result<()> {
        let is_late = |one: &UnderWay| !one.waits && one.since.elapsed() >= one.patience;
        let late = self.under_way.iter().filter(|(_, one)| is_late(one));
        let late: Vec<(u64, ConnectionNumber)> =
            late.map(|(place, one)| (*place, one.connection)).collect();
        if late.is_empty() {
            return Ok(());
        }
        let waiting = match self.settings.protocol {
            Protocol::Resp => self.waiting_in_redis(&late)?,
            Protocol::Mysql => self.waiting_in_mysql(&late)?,
            // The server cannot be asked.
            Protocol::Raw => late.iter().map(|(place, _)| *place).collect(),
        };
        for (place, _) in late {
            let Some(one) = self.under_way.get_mut(&place) else { continue };
            one.waits = waiting.contains(&place);
            self.report.waited += u64::from(one.waits);
            one.since = Instant::now();
            one.patience = PATIENCE_MAX.min(2 * one.patience);
        }
        Ok(())
    }

    /// Returns the late requests that wait: a server that answers later ones has read them.
    fn waiting_in_redis(&mut self, late: &[(u64, ConnectionNumber)]) -> Result<HashSet<u64>> {
        // The first may have reached the server together with them.
        for _ in 0..2 {
            self.control()?.ask(&resp_request(&[b"PING"]))?;
        }
        let mut waiting = HashSet::new();
        for (place, connection) in late {
            let target = self.targets.get_mut(connection).expect("it is under way");
            let outcome = target.proceed();
            if matches!(outcome, Ok(None)) && target.is_unanswered() {
                waiting.insert(*place);
            }
            self.unless_lost(*place, *connection, outcome)?;
        }
        Ok(waiting)
    }

    /// Returns the late requests that wait for rows or other locks. The server counts the requests
    /// that wait for rows, but does not immediately say which they are. The others are answered
    /// eventually, and then only those that wait remain.
    fn waiting_in_mysql(&mut self, late: &[(u64, ConnectionNumber)]) -> Result<HashSet<u64>> {
        let awaited = self.under_way.values().filter(|one| !one.waits).count();
        let known = self.under_way.values().filter(|one| one.waits_for_row).count();
        let (_, answer) = self.control()?.ask(&MysqlSession::row_waits_query())?;
        // If the server may not tell, they count as waiting.
        if MysqlSession::waits_for_rows(&answer).is_none_or(|count| count >= known + awaited) {
            for (place, _) in late {
                self.under_way.get_mut(place).expect("it is under way").waits_for_row = true;
            }
            return Ok(late.iter().map(|(place, _)| *place).collect());
        }
        let mut waiting = HashSet::new();
        for (place, connection) in late {
            let Dialect::Mysql(session) = &self.targets[connection].dialect else { continue };
            let question = session.asks_whether_it_waits();
            let (outcome, answer) = self.control()?.ask(&question)?;
            if outcome == Outcome::Error || MysqlSession::says_that_it_waits(&answer) {
                waiting.insert(*place);
            }
        }
        Ok(waiting)
    }

    /// Ends a transaction beyond the steps examined ahead, if all requests in flight wait and none
    /// of those steps is due. If none can be ended, sends the next request of one that holds what
    /// another waits for. Which gaps between rows a statement locks depends on what the server has
    /// purged by then, so a lock may conflict now that did not in the recording.
    pub(super) fn let_holders_go_on(&mut self) -> Result<()> {
        let is_stuck = self.settings.protocol == Protocol::Mysql
            && self.under_way.values().all(|one| one.waits)
            && !self.under_way.is_empty()
            && self.due().is_empty();
        if !is_stuck {
            self.stuck_since = None;
            return Ok(());
        }
        if let Some(place) = self.plan.first_end_due(|place| self.under_way.contains_key(&place)) {
            self.stuck_since = None;
            return self.begin(place);
        }
        if self.stuck_since.get_or_insert_with(Instant::now).elapsed() < STUCK_PATIENCE {
            return Ok(());
        }
        self.stuck_since = None;
        let Some(holder) = self.holder()? else { return Ok(()) };
        self.report.out_of_order += 1;
        self.begin(holder)
    }

    /// Returns the next request of a transaction that holds what a request in flight waits for.
    /// `None` if none waits any more, or only for others in flight.
    fn holder(&mut self) -> Result<Option<u64>> {
        let (outcome, answer) = self.control()?.ask(&MysqlSession::blocking_connections_query())?;
        let is_idle = |place: &u64| !self.under_way.contains_key(place);
        if outcome == Outcome::Error {
            // If the server does not say: any open transaction.
            let mut ordered = self.plan.ordered().take(STEPS_AHEAD * 4);
            return Ok(ordered.find(|place| {
                let connection = self.plan.connection(*place);
                self.plan.is_next(*place)
                    && is_idle(place)
                    && connection.is_some_and(|one| self.in_transaction.contains(&one))
            }));
        }
        let connection_of = |thread: u32| {
            let mut targets = self.targets.iter();
            let found = targets.find(|(_, target)| {
                matches!(&target.dialect, Dialect::Mysql(session) if session.thread == thread)
            });
            found.map(|(connection, _)| *connection)
        };
        let blocking = MysqlSession::blocking(&answer);
        let holders = blocking.iter().filter_map(|thread| connection_of(*thread));
        Ok(holders.filter_map(|connection| self.plan.next_of(connection)).find(is_idle))
    }
}
