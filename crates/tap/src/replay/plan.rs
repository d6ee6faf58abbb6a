//! What is sent, in which order, and what may be in flight at the same time.
//!
//! ```text
//!   log   R1a  R2b  C1  R3a  C2        R: a request of a connection arrives, C: it was answered
//!          1    2    3   4    5        their places in the log
//! ```
//!
//! R3 came after C1: it may depend on R1, and waits until R1 is answered again. R2 was in flight
//! when C1 and R3 happened: the log does not tell their order.
//!
//! *Which order is chosen.* Servers that hold locks until the end of a transaction (SQL) answer a
//! request only once it has its locks, so of two that conflict, the one answered first came first:
//! the order of answers. For a server that executes requests one after another as they arrive
//! (RESP), it is the order of arrival, as in the paper. Both orders agree wherever intervals do not
//! overlap, and with the order of each connection.
//!
//! *What may overlap* is decided by [`super::footprint`]; without `--parallel`, nothing may.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::footprint::{Footprint, Footprints};
use super::partial::Base;
use crate::entry::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};
use crate::error::Result;
use crate::protocol::Protocol;
use crate::protocol::mysql::deadlock_rollback;

/// Requests read ahead of the log, at most: a later answer counts as never given.
const REQUESTS_AHEAD: usize = 100_000;

/// Bytes of requests held, at most, but always at least one request.
const BYTES_AHEAD: usize = 256 << 20;

/// A position in the sending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rank(u64);

/// An action on a connection.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) connection: ConnectionNumber,
    pub(super) what: What,
    rank: Rank,
    /// Its place in the log.
    arrival: u64,
    /// Everything answered before this place in the log must be done first.
    due_behind: u64,
    /// The place of its answer in the log; the greatest number if there is none.
    completion: u64,
    pub(super) footprint: Footprint,
    /// The place of the end of its transaction in the log, or its own if there is none.
    transaction_end: u64,
}

impl Step {
    /// Whether the step belongs to a transaction that continues after it.
    pub(super) fn leaves_transaction_open(&self) -> bool {
        matches!(&self.what, What::Send(request) if request.class == Class::Query)
            && self.transaction_end != self.arrival
    }
}

/// The kind of action.
#[derive(Clone, Debug)]
pub(super) enum What {
    Send(Request),
    /// The connection ended.
    Close,
}

/// A request of the log.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) position: Position,
    pub(super) at: Time,
    pub(super) class: Class,
    pub(super) payload: Vec<u8>,
    pub(super) recorded: Option<Outcome>,
}

/// Which requests of the log are sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Excludes what is in this backup.
    pub(super) base: Option<Base>,
    pub(super) until_position: Option<Position>,
    pub(super) until_time: Option<Time>,
    /// Only these, and what establishes connection state.
    pub(super) only: Option<BTreeSet<Position>>,
}

/// The entries of the log other than requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) gaps: Vec<(Option<ConnectionNumber>, Time, GapReason)>,
    pub(super) left_out: u64,
    pub(super) last_position: Option<Position>,
}

/// The earlier steps in the order and what they touch. Tells whether a step may be in flight with
/// all of them.
pub(super) struct Before<'p, 'a> {
    plan: &'p Plan<'a>,
    /// The keys of all of them.
    keys: HashSet<u64>,
    /// Those that touch something other than keys.
    others: Vec<&'p Step>,
}

impl<'p, 'a> Before<'p, 'a> {
    pub(super) fn new(plan: &'p Plan<'a>) -> Self {
        Self { plan, keys: HashSet::new(), others: Vec::new() }
    }

    pub(super) fn may_overlap(&self, place: u64) -> bool {
        let Some(step) = self.plan.steps.get(&place) else { return true };
        let has_other_keys = match &step.footprint {
            Footprint::Nothing => return true,
            Footprint::Keys(keys, _) => !keys.iter().any(|key| self.keys.contains(key)),
            Footprint::Everything | Footprint::Locks | Footprint::Inserts | Footprint::End => {
                self.keys.is_empty()
            }
        };
        has_other_keys && self.others.iter().all(|earlier| self.plan.may_overlap(earlier, step))
    }

    /// Adds a step after the others; false if nothing further can overlap with it.
    pub(super) fn add(&mut self, place: u64) -> bool {
        let Some(step) = self.plan.steps.get(&place) else { return true };
        match &step.footprint {
            Footprint::Nothing => {}
            Footprint::Keys(keys, _) => self.keys.extend(keys),
            Footprint::Everything => return false,
            Footprint::Locks | Footprint::Inserts | Footprint::End => self.others.push(step),
        }
        true
    }
}

/// Steps that were read from the log and are not done.
pub(super) struct Plan<'a> {
    entries: &'a mut dyn Iterator<Item = Result<Entry>>,
    selection: Selection,
    by_answer: bool,
    has_ended: bool,
    place: u64,
    bytes: usize,
    footprints: Footprints,
    steps: BTreeMap<u64, Step>,
    /// The sending order, by rank.
    ranks: BTreeMap<Rank, u64>,
    /// Places of the steps of each connection.
    queues: HashMap<ConnectionNumber, VecDeque<u64>>,
    /// Places of requests whose answers are yet to be read.
    unanswered: HashMap<Position, u64>,
    /// Places of the answers to steps that are not done.
    completions: BTreeSet<(u64, u64)>,
    /// Requests of open transactions whose end is unknown.
    open: HashMap<ConnectionNumber, Vec<u64>>,
    pub(super) seen: Seen,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        entries: &'a mut dyn Iterator<Item = Result<Entry>>,
        protocol: Protocol,
        selection: Selection,
    ) -> Self {
        Self {
            entries,
            selection,
            by_answer: protocol == Protocol::Mysql,
            has_ended: false,
            place: 0,
            bytes: 0,
            footprints: Footprints::new(protocol),
            steps: BTreeMap::new(),
            ranks: BTreeMap::new(),
            queues: HashMap::new(),
            unanswered: HashMap::new(),
            completions: BTreeSet::new(),
            open: HashMap::new(),
            seen: Seen::default(),
        }
    }

    /// Reads ahead.
    pub(super) fn fill(&mut self) -> Result<()> {
        while !self.has_ended
            && (self.steps.is_empty()
                || (self.steps.len() < REQUESTS_AHEAD && self.bytes < BYTES_AHEAD))
        {
            match self.entries.next().transpose()? {
                Some(entry) => self.take(entry),
                None => self.has_ended = true,
            }
        }
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.has_ended && self.steps.is_empty()
    }

    fn take(&mut self, entry: Entry) {
        self.place += 1;
        match entry {
            Entry::Request { position, connection, at, class, payload, .. } => {
                let request = Request { position, at, class, payload, recorded: None };
                self.take_request(connection, request);
            }
            Entry::Completed { position, outcome, .. } => {
                self.footprints.answered(position, outcome);
                if let Some(place) = self.unanswered.remove(&position) {
                    self.completed(place, outcome);
                }
            }
            Entry::Closed { connection, at } => {
                let is_later = self.selection.until_time.is_some_and(|until| at > until);
                if is_later || !self.queues.contains_key(&connection) {
                    return;
                }
                let footprint = self.footprints.close(connection);
                self.end_transaction(connection, self.place);
                self.add(connection, What::Close, footprint, Rank(self.place), self.place);
            }
            Entry::Gap { connection, at, reason, .. } => {
                self.seen.gaps.push((connection, at, reason));
            }
            Entry::Opened { .. } => {}
        }
    }

    fn take_request(&mut self, connection: ConnectionNumber, request: Request) {
        let selection = &self.selection;
        let is_later = selection.until_position.is_some_and(|until| request.position > until)
            || selection.until_time.is_some_and(|until| request.at > until);
        let is_state = request.class == Class::Connection;
        let is_wanted = is_state
            || selection.only.as_ref().is_none_or(|only| only.contains(&request.position))
                && selection.base.as_ref().is_none_or(|base| !base.has(request.position));
        if is_later || !is_wanted || request.class == Class::ReadOnly {
            self.seen.left_out += u64::from(request.class != Class::ReadOnly);
            return;
        }
        self.seen.last_position = self.seen.last_position.max(Some(request.position));
        let place = self.place;
        let (footprint, ends_transaction) = self.footprints.request(connection, &request);
        self.unanswered.insert(request.position, place);
        self.bytes += request.payload.len();
        // A step that establishes connection state stays in place even if its answer was cut off.
        let rank = if self.by_answer && !is_state { u64::MAX / 2 + place } else { place };
        self.add(connection, What::Send(request), footprint, Rank(rank), u64::MAX);
        if ends_transaction {
            self.end_transaction(connection, place);
        } else {
            self.open.entry(connection).or_default().push(place);
        }
    }

    fn add(
        &mut self,
        connection: ConnectionNumber,
        what: What,
        footprint: Footprint,
        rank: Rank,
        completion: u64,
    ) {
        self.ranks.insert(rank, self.place);
        if completion != u64::MAX {
            self.completions.insert((completion, self.place));
        }
        let due_behind = self.due_behind(connection, &what);
        let step = Step {
            connection,
            what,
            rank,
            arrival: self.place,
            due_behind,
            completion,
            footprint,
            transaction_end: u64::MAX,
        };
        self.steps.insert(self.place, step);
        self.queues.entry(connection).or_default().push_back(self.place);
    }

    /// Returns the place of an added step. If it ends a transaction because the server broke a
    /// deadlock, returns the place of the refused request: other requests proceeded before the
    /// server reported it.
    fn due_behind(&self, connection: ConnectionNumber, what: &What) -> u64 {
        let is_rollback = matches!(what, What::Send(request)
            if self.by_answer && request.payload == deadlock_rollback());
        let last = self.queues.get(&connection).and_then(VecDeque::back);
        let refused = last.filter(|_| is_rollback).and_then(|place| self.steps.get(place));
        refused.map_or(self.place, |refused| refused.due_behind)
    }

    /// Notes that the step at `end` ends the transaction of its connection. If the server broke a
    /// deadlock by it, the locks may have been free since the refused request.
    fn end_transaction(&mut self, connection: ConnectionNumber, end: u64) {
        let free = self.steps.get(&end).map_or(end, |step| step.due_behind);
        for place in self.open.remove(&connection).unwrap_or_default() {
            if let Some(step) = self.steps.get_mut(&place) {
                step.transaction_end = free;
            }
        }
        if let Some(step) = self.steps.get_mut(&end) {
            step.transaction_end = end;
        }
    }

    fn completed(&mut self, place: u64, outcome: Outcome) {
        let Some(step) = self.steps.get_mut(&place) else { return };
        step.completion = self.place;
        if let What::Send(request) = &mut step.what {
            request.recorded = Some(outcome);
            if self.by_answer && request.class != Class::Connection {
                self.ranks.remove(&step.rank);
                step.rank = Rank(self.place);
                self.ranks.insert(step.rank, place);
            }
        }
        self.completions.insert((self.place, place));
    }

    /// The places of steps, in sending order.
    pub(super) fn ordered(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranks.values().copied()
    }

    /// The place of a step's answer in the log; the greatest number if there is none.
    pub(super) fn completion(&self, place: u64) -> u64 {
        self.steps.get(&place).map_or(u64::MAX, |step| step.completion)
    }

    /// Whether the log has an answer to a step.
    pub(super) fn is_answered(&self, place: u64) -> bool {
        self.completion(place) != u64::MAX
    }

    /// The connection of a step.
    pub(super) fn connection(&self, place: u64) -> Option<ConnectionNumber> {
        self.steps.get(&place).map(|step| step.connection)
    }

    /// Whether a step is the next one of its connection.
    pub(super) fn is_next(&self, place: u64) -> bool {
        self.steps
            .get(&place)
            .and_then(|step| self.queues.get(&step.connection))
            .is_some_and(|queue| queue.front() == Some(&place))
    }

    /// Whether everything answered before the step arrived is done.
    pub(super) fn is_due(&self, place: u64) -> bool {
        let first = self.completions.first();
        self.steps
            .get(&place)
            .is_some_and(|step| first.is_none_or(|(completion, _)| *completion >= step.due_behind))
    }

    /// The next step of a connection.
    pub(super) fn next_of(&self, connection: ConnectionNumber) -> Option<u64> {
        self.queues.get(&connection)?.front().copied()
    }

    /// Whether a step only ends a transaction. That includes a step refused to break a deadlock,
    /// which is not sent, and the next one of its connection.
    pub(super) fn is_end(&self, place: u64) -> bool {
        self.steps.get(&place).is_some_and(|step| step.footprint == Footprint::End)
            || self.broke_deadlock(place)
    }

    /// The first, in sending order, of all ends of transactions that are due, next on their
    /// connections, and not in flight.
    pub(super) fn first_end_due(&self, is_under_way: impl Fn(u64) -> bool) -> Option<u64> {
        let next = self.queues.values().filter_map(VecDeque::front).copied();
        let due = next
            .filter(|place| self.is_end(*place) && self.is_due(*place) && !is_under_way(*place));
        due.min_by_key(|place| self.steps.get(place).map(|step| step.rank))
    }

    /// Whether `second` may be in flight together with `first`, which comes before it in the order.
    fn may_overlap(&self, first: &Step, second: &Step) -> bool {
        // Both were answered before the first one's transaction ended: neither waited for a lock of
        // the other, so they share none.
        let held_locks_together = self.by_answer
            && first.transaction_end != first.arrival
            && second.completion < first.transaction_end;
        first.footprint.may_overlap(&second.footprint, held_locks_together)
    }

    /// Whether an EXEC follows on a connection and was answered, so that its WATCH has had its
    /// effect.
    pub(super) fn has_answered_exec(&self, connection: ConnectionNumber) -> bool {
        let queue = self.queues.get(&connection).into_iter().flatten();
        let mut steps = queue.filter_map(|place| self.steps.get(place));
        let exec = steps.find(|step| step.footprint.is_exec());
        exec.is_some_and(|exec| exec.completion != u64::MAX)
    }

    /// Whether the step was refused to break a deadlock, so that its transaction is rolled back
    /// next.
    pub(super) fn broke_deadlock(&self, place: u64) -> bool {
        let queue = self.steps.get(&place).and_then(|step| self.queues.get(&step.connection));
        let next = queue.and_then(|queue| queue.get(1)).and_then(|next| self.steps.get(next));
        matches!(next, Some(Step { what: What::Send(request), .. })
            if self.by_answer && request.payload == deadlock_rollback())
    }

    /// The number of requests not sent.
    pub(super) fn unsent_count(&self) -> u64 {
        self.queues.values().map(|queue| queue.len() as u64).sum()
    }

    /// Returns a step.
    pub(super) fn step(&self, place: u64) -> Option<&Step> {
        self.steps.get(&place)
    }

    /// Marks a step as done: the next one of its connection may follow.
    pub(super) fn finish(&mut self, place: u64) -> Option<Step> {
        let step = self.steps.remove(&place)?;
        if matches!(step.what, What::Close) {
            self.queues.remove(&step.connection);
        } else if let Some(queue) = self.queues.get_mut(&step.connection) {
            debug_assert_eq!(queue.front(), Some(&place), "the order of the connection");
            queue.pop_front();
        }
        self.completions.remove(&(step.completion, place));
        self.ranks.remove(&step.rank);
        if let What::Send(request) = &step.what {
            self.bytes -= request.payload.len();
        }
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mysql::packet;

    fn request(position: u64, connection: u64, payload: Vec<u8>) -> Entry {
        Entry::Request {
            position: Position(position),
            connection: ConnectionNumber(connection),
            at: Time(1),
            class: Class::Query,
            sequence: 0,
            payload,
        }
    }

    fn query(position: u64, connection: u64, sql: &str) -> Entry {
        let mut payload = Vec::new();
        packet::write(&mut payload, 0, format!("\x03{sql}").as_bytes());
        request(position, connection, payload)
    }

    fn completed(position: u64, outcome: Outcome) -> Entry {
        Entry::Completed { position: Position(position), at: Time(1), outcome }
    }

    #[test]
    fn a_victim_of_a_deadlock_is_out_of_the_way_before_the_server_told_it() {
        let (ok, error) = (Outcome::Ok, Outcome::Error);
        let log = [
            query(1, 1, "BEGIN"),
            completed(1, ok),
            query(2, 1, "UPDATE t SET a = 1 WHERE id = 1"),
            completed(2, ok),
            query(3, 2, "BEGIN"),
            completed(3, ok),
            query(4, 2, "UPDATE t SET a = 2 WHERE id = 2"),
            completed(4, ok),
            query(5, 2, "UPDATE t SET a = 2 WHERE id = 1"),
            query(6, 1, "UPDATE t SET a = 1 WHERE id = 2"),
            // The other one got its lock, and was answered first.
            completed(5, ok),
            query(7, 2, "UPDATE t SET a = 2 WHERE id = 3"),
            completed(7, ok),
            completed(6, error),
            request(8, 1, deadlock_rollback()),
            completed(8, ok),
        ];
        let mut entries = log.into_iter().map(Ok);
        let mut plan = Plan::new(&mut entries, Protocol::Mysql, Selection::default());
        plan.fill().unwrap();
        let step = |plan: &Plan<'_>, place| plan.step(place).unwrap().clone();
        assert!(plan.may_overlap(&step(&plan, 3), &step(&plan, 7)), "both held their locks");
        assert!(!plan.may_overlap(&step(&plan, 3), &step(&plan, 9)), "it waited for that lock");
        for place in [1, 3, 5, 7] {
            plan.finish(place);
        }
        let (waiting, refused, later, rollback) = (9, 10, 12, 15);
        assert!(plan.is_next(waiting) && plan.is_due(waiting) && !plan.is_due(later));
        assert_eq!(plan.first_end_due(|_| false), Some(refused), "it is not sent");
        plan.finish(refused);
        assert_eq!(
            plan.first_end_due(|_| false),
            Some(rollback),
            "though it came behind the answer"
        );
    }
}
