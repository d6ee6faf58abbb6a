//! Restores a server: sends its recorded requests again, over one connection for each original one.
//!
//! ```text
//!   log ─► plan: order of sending, what may overlap ─► replay ═► target a ═► server
//!            └ footprint, partial                        ╘═════► target b ═►
//!                          waiting: which one blocks which      dialect: the request as it is sent now
//! ```
//!
//! One request at a time is sent over all connections, as in the paper (section 6.3.1, "Recovery
//! Procedure"); with `parallel`, also those concurrent with it whose order cannot matter
//! ([`plan`](self)). If a request is not answered because it waits for another connection (BLPOP, a
//! row locked by another transaction), it is left waiting, and what was recorded during its wait is
//! sent. A server that is merely slow is waited for: the next request could overtake one that the
//! server has not begun.
//!
//! # Invariants
//! 1. A request is sent after all requests answered before its arrival are answered again.
//! 2. The requests of a connection are sent in order, each after the answer to the previous one.
//! 3. While a request is in flight that the server does not report as waiting, only requests that
//!    may overlap with it are sent. After one that waits for a row, only the end of a transaction
//!    is sent: any other request could lock the row first.

mod dialect;
mod footprint;
mod mysql;
mod pace;
mod partial;
mod plan;
mod target;
mod waiting;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use dialect::Credentials;
pub use partial::Base;

use self::dialect::{Dialect, Outgoing, log_in, resp_request};
use self::pace::Pace;
use self::plan::{Before, Plan, Request, Selection, What};
use self::target::{Target, wait_for};
use self::waiting::STUCK_PATIENCE;
use crate::entry::{ConnectionNumber, Entry, GapReason, Outcome, Position, Time};
use crate::error::Result;
use crate::protocol::Protocol;

/// After this time, the server is asked whether an unanswered request waits for another connection.
/// It is asked again after twice the time, and so on ([`waiting`]).
const PATIENCE: Duration = Duration::from_millis(1);

/// After this time, a request counts as waiting if the server cannot be asked.
const PATIENCE_UNASKED: Duration = Duration::from_millis(5);

/// Steps examined ahead for what may be sent concurrently.
const STEPS_AHEAD: usize = 64;

/// Differences that are described, at most; further ones are only counted.
const DIFFERENCES_MAX: usize = 100;

/// The interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// What is replayed, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub to: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The credentials for logging in.
    pub credentials: Credentials,
    /// The backup from which the server was restored; its requests are not sent.
    pub base: Option<Base>,
    /// The last request to send.
    pub until_position: Option<Position>,
    /// The last time to send.
    pub until_time: Option<Time>,
    /// The maximum speed relative to the recording; unlimited if `None`.
    pub speed: Option<f64>,
    /// Whether requests whose order cannot matter may be in flight together.
    pub parallel: bool,
}

/// A request whose answer differs in kind from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The request.
    pub position: Position,
    /// Its connection.
    pub connection: ConnectionNumber,
    /// The recorded outcome.
    pub recorded: Outcome,
    /// The outcome now.
    pub replayed: Outcome,
    /// The error text, or how the connection was lost.
    pub message: String,
    /// The beginning of the request.
    pub request: String,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Requests of the log that were not sent although they may have changed something. They came
    /// after the requested end, concerned only the original connection, or belong to lost
    /// connections.
    pub left_out: u64,
    /// Requests sent that were answered by an error, then and now.
    pub errors_as_recorded: u64,
    /// Requests sent that had no recorded answer.
    pub without_record: u64,
    /// Requests whose answers differ in kind from the recorded ones; the first of them are
    /// described.
    pub difference_count: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// Requests that waited for another connection.
    pub waited: u64,
    /// Requests sent before one that was answered earlier, because that one waited for their
    /// transaction.
    pub out_of_order: u64,
    /// How often the replay waited for answers.
    pub polls: u64,
    /// The sum of the requests in flight at those times.
    pub under_way_sum: u64,
    /// The most simultaneous connections.
    pub connections_max: usize,
    /// The gaps in the log.
    pub gaps: Vec<(Option<ConnectionNumber>, Time, GapReason)>,
    /// The last request sent.
    pub last_position: Option<Position>,
    /// The duration.
    pub took: Duration,
}

/// Which requests are sent again.
pub enum Extent<'a> {
    /// All, on a server in the state in which the log began.
    All,
    /// Those that were not completed, on a server that has kept the completed ones. The log is read
    /// again for them.
    NotCompleted(&'a mut dyn Iterator<Item = Result<Entry>>),
}

/// Sends the requests of `entries`; calls `progress` about once a second.
///
/// # Errors
/// If the log cannot be read, or the server cannot be reached or refuses the login.
pub fn replay(
    entries: &mut dyn Iterator<Item = Result<Entry>>,
    extent: Extent<'_>,
    settings: &Settings,
    progress: &mut dyn FnMut(&Report),
) -> Result<Report> {
    let only = match extent {
        Extent::All => None,
        Extent::NotCompleted(log) => Some(partial::not_completed(log, settings.protocol)?),
    };
    let selection = Selection {
        base: settings.base.clone(),
        until_position: settings.until_position,
        until_time: settings.until_time,
        only,
    };
    let mut replayer = Replayer {
        plan: Plan::new(entries, settings.protocol, selection),
        settings,
        targets: HashMap::new(),
        lost: HashSet::new(),
        under_way: BTreeMap::new(),
        in_transaction: HashSet::new(),
        stuck_since: None,
        control: None,
        clock: Instant::now(),
        pace: Pace::new(settings.speed),
        report: Report::default(),
    };
    replayer.run(progress)?;
    Ok(replayer.report)
}

/// A request in flight.
struct UnderWay {
    connection: ConnectionNumber,
    /// The beginning of the wait, or the last time that the server was asked.
    since: Instant,
    patience: Duration,
    /// Whether it waits for another connection.
    waits: bool,
    /// Whether it is a blocking request that the server reports as blocked.
    is_parked: bool,
    /// Whether it waits for a locked row.
    waits_for_row: bool,
    is_compared: bool,
}

struct Replayer<'a> {
    plan: Plan<'a>,
    settings: &'a Settings,
    targets: HashMap<ConnectionNumber, Target>,
    /// Connections that the server has closed.
    lost: HashSet<ConnectionNumber>,
    under_way: BTreeMap<u64, UnderWay>,
    /// Connections with an open transaction.
    in_transaction: HashSet<ConnectionNumber>,
    /// Since when all requests wait for something.
    stuck_since: Option<Instant>,
    /// A connection of our own, for questions about the others.
    control: Option<Target>,
    clock: Instant,
    pace: Pace,
    report: Report,
}

impl Replayer<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(&Report)) -> Result<()> {
        let began = Instant::now();
        let mut told = began;
        loop {
            self.plan.fill()?;
            if self.plan.is_done() {
                break;
            }
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                self.report.took = began.elapsed();
                progress(&self.report);
            }
            let has_sent = self.send_what_is_due()?;
            if self.under_way.values().any(|one| !one.is_parked) {
                self.receive()?;
                self.let_holders_go_on()?;
            } else if !has_sent && !self.unpark()? {
                break;
            }
        }
        self.report.left_out += self.plan.unsent_count() - self.under_way.len() as u64;
        let seen = std::mem::take(&mut self.plan.seen);
        self.report.left_out += seen.left_out;
        self.report.gaps = seen.gaps;
        self.report.last_position = seen.last_position;
        self.report.took = began.elapsed();
        Ok(())
    }

    /// Sends what may be sent now. Returns whether there was anything.
    fn send_what_is_due(&mut self) -> Result<bool> {
        let mut has_sent = false;
        loop {
            let due = self.due();
            if due.is_empty() {
                return Ok(has_sent);
            }
            for place in due {
                self.begin(place)?;
            }
            has_sent = true;
        }
    }

    /// The steps that may be sent now, in order. There is one or, with `parallel`, all that may be
    /// in flight together.
    fn due(&self) -> Vec<u64> {
        let mut due = Vec::new();
        let is_busy = self.under_way.values().any(|one| !one.waits);
        if is_busy && !self.settings.parallel {
            return due;
        }
        let (mut before, mut is_behind_waiting) = (Before::new(&self.plan), false);
        for place in self.plan.ordered().take(STEPS_AHEAD + self.under_way.len()) {
            let under_way = self.under_way.get(&place);
            // A request that waits for a row waits for the end of a transaction; any request may
            // wake other waits.
            let waits_for_row = under_way.is_some_and(|one| one.waits_for_row);
            if under_way.is_some_and(|one| one.waits) && !waits_for_row {
                continue;
            }
            is_behind_waiting |= waits_for_row;
            let may_be_sent =
                under_way.is_none() && self.plan.is_next(place) && self.plan.is_due(place);
            if self.settings.parallel {
                if may_be_sent && (before.may_overlap(place) || self.plan.is_end(place)) {
                    due.push(place);
                }
                if !before.add(place) {
                    break;
                }
            } else if may_be_sent && (!is_behind_waiting || self.plan.is_end(place)) {
                due.push(place);
                break;
            }
        }
        due
    }

    /// Begins a step in its turn.
    fn begin(&mut self, place: u64) -> Result<()> {
        let Some(step) = self.plan.step(place) else { return Ok(()) };
        let connection = step.connection;
        if step.leaves_transaction_open() {
            self.in_transaction.insert(connection);
        } else {
            self.in_transaction.remove(&connection);
        }
        let request = match &step.what {
            What::Close => {
                self.targets.remove(&connection);
                self.lost.remove(&connection);
                self.plan.finish(place);
                return Ok(());
            }
            What::Send(request) => request.clone(),
        };
        if self.lost.contains(&connection) {
            self.report.left_out += 1;
            self.plan.finish(place);
            return Ok(());
        }
        std::thread::sleep(self.pace.pause(request.at, self.clock.elapsed()));
        let has_answered_exec =
            dialect::is_watch(&request.payload) && self.plan.has_answered_exec(connection);
        if !self.targets.contains_key(&connection) && !self.connect(connection, &request)? {
            self.plan.finish(place);
            return Ok(());
        }
        let is_refused = self.broke_deadlock(place, &request);
        let target = self.targets.get_mut(&connection).expect("it was just made");
        let credentials = &self.settings.credentials;
        match target.dialect.outgoing(&request, credentials, has_answered_exec) {
            Outgoing::Nothing => {
                self.report.left_out += 1;
                self.plan.finish(place);
            }
            // Its effect on later requests is already known.
            Outgoing::Bytes { .. } if is_refused => {
                self.report.left_out += 1;
                self.plan.finish(place);
            }
            Outgoing::Bytes { bytes, is_compared, is_told_late } => {
                let sent = target.send(bytes, is_told_late);
                self.started(place, connection, is_compared);
                self.unless_lost(place, connection, sent)?;
            }
            Outgoing::Blocks(bytes) => self.begin_blocking(place, connection, bytes)?,
        }
        Ok(())
    }

    /// Whether a request was refused to break a deadlock. A replay has no deadlock, and the request
    /// would wait or cause one.
    fn broke_deadlock(&self, place: u64, request: &Request) -> bool {
        request.recorded == Some(Outcome::Error) && self.plan.broke_deadlock(place)
    }

    /// Opens the connection that stands for an original one; false if the original was never
    /// usable.
    fn connect(&mut self, connection: ConnectionNumber, first: &Request) -> Result<bool> {
        if self.settings.protocol == Protocol::Mysql && first.recorded == Some(Outcome::Error) {
            // Its login was refused.
            self.report.left_out += 1;
            return Ok(false);
        }
        let mut target = Target::connect(self.settings.to, Dialect::new(self.settings.protocol))?;
        log_in(&mut target, first, &self.settings.credentials)?;
        self.targets.insert(connection, target);
        self.report.connections_max = self.report.connections_max.max(self.targets.len());
        Ok(true)
    }

    fn started(&mut self, place: u64, connection: ConnectionNumber, is_compared: bool) {
        self.report.sent += 1;
        let patience = match self.settings.protocol {
            Protocol::Resp | Protocol::Mysql => PATIENCE,
            Protocol::Raw => PATIENCE_UNASKED,
        };
        let one = UnderWay {
            connection,
            since: Instant::now(),
            patience,
            waits: false,
            is_parked: false,
            waits_for_row: false,
            is_compared,
        };
        self.under_way.insert(place, one);
    }

    /// Receives answers, or finds out why one is missing.
    fn receive(&mut self) -> Result<()> {
        let running = self.under_way.iter().filter(|(_, one)| !one.is_parked);
        let places: Vec<(u64, ConnectionNumber)> =
            running.map(|(place, one)| (*place, one.connection)).collect();
        let awaited = self.under_way.values().filter(|one| !one.waits);
        let rest = awaited.map(|one| one.patience.saturating_sub(one.since.elapsed())).min();
        let stuck_rest = |since: Instant| STUCK_PATIENCE.saturating_sub(since.elapsed());
        let rest = rest.or(self.stuck_since.map(stuck_rest));
        let timeout = rest.unwrap_or(PROGRESS_INTERVAL);
        let mut descriptors: Vec<_> =
            places.iter().map(|(_, connection)| self.targets[connection].poll_fd()).collect();
        wait_for(&mut descriptors, Some(timeout))?;
        self.report.polls += 1;
        self.report.under_way_sum += descriptors.len() as u64;
        let ready: Vec<bool> =
            descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        drop(descriptors);
        for ((place, connection), is_ready) in places.into_iter().zip(ready) {
            if is_ready {
                let target = self.targets.get_mut(&connection).expect("it is under way");
                let outcome = target.proceed();
                self.unless_lost(place, connection, outcome)?;
            }
        }
        self.look_after_late()
    }

    /// Handles the progress of a connection: an answer, nothing yet, or its end.
    fn unless_lost(
        &mut self,
        place: u64,
        connection: ConnectionNumber,
        outcome: Result<Option<Outcome>>,
    ) -> Result<()> {
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(outcome)) => {
                let message = self.targets[&connection].error_text();
                self.finish(place, outcome, message);
                Ok(())
            }
            Err(error) => {
                self.targets.remove(&connection);
                self.lost.insert(connection);
                self.finish(place, Outcome::Error, error.to_string());
                Ok(())
            }
        }
    }

    /// Handles the answer to a request.
    fn finish(&mut self, place: u64, outcome: Outcome, message: String) {
        let Some(one) = self.under_way.remove(&place) else { return };
        let Some(step) = self.plan.finish(place) else { return };
        let What::Send(request) = step.what else { return };
        if let Some(target) = self.targets.get_mut(&one.connection) {
            target.dialect.answered(&request, outcome);
        }
        match request.recorded {
            None => self.report.without_record += 1,
            Some(recorded) if one.is_compared && recorded != outcome => {
                self.report.difference_count += 1;
                if self.report.differences.len() < DIFFERENCES_MAX {
                    self.report.differences.push(Difference {
                        position: request.position,
                        connection: one.connection,
                        recorded,
                        replayed: outcome,
                        message: if outcome == Outcome::Error { message } else { String::new() },
                        request: shown(&request.payload),
                    });
                }
            }
            Some(Outcome::Error) => self.report.errors_as_recorded += 1,
            Some(Outcome::Ok) => {}
        }
    }

    /// Sends a blocking request, and makes sure that the server has parsed it before any other is
    /// sent.
    fn begin_blocking(
        &mut self,
        place: u64,
        connection: ConnectionNumber,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let id = self.client_id(connection)?;
        let target = self.targets.get_mut(&connection).expect("it was just used");
        let sent = target.send(bytes, false);
        self.started(place, connection, true);
        self.unless_lost(place, connection, sent)?;
        let list = resp_request(&[b"CLIENT", b"LIST", b"ID", id.to_string().as_bytes()]);
        while let Some(target) = self.targets.get_mut(&connection)
            && self.under_way.contains_key(&place)
        {
            let outcome = target.proceed();
            if !matches!(outcome, Ok(None)) {
                return self.unless_lost(place, connection, outcome);
            }
            let (outcome, answer) = self.control()?.ask(&list)?;
            // If the server cannot tell, it has nevertheless read the request by now, because the
            // request came first.
            if outcome == Outcome::Error || is_blocked(&answer) {
                let one = self.under_way.get_mut(&place).expect("checked above");
                one.waits = true;
                one.is_parked = true;
                self.report.waited += 1;
                break;
            }
        }
        Ok(())
    }

    /// The server's id of a connection.
    fn client_id(&mut self, connection: ConnectionNumber) -> Result<u64> {
        let target = self.targets.get_mut(&connection).expect("it was just used");
        if let Dialect::Resp(session) = &target.dialect
            && let Some(id) = session.client_id
        {
            return Ok(id);
        }
        let (_, answer) = target.ask(&resp_request(&[b"CLIENT", b"ID"]))?;
        let digits = answer.iter().skip(1).take_while(|byte| byte.is_ascii_digit());
        let id = digits.fold(0_u64, |id, digit| id.wrapping_mul(10) + u64::from(digit - b'0'));
        if let Dialect::Resp(session) = &mut target.dialect {
            session.client_id = Some(id);
        }
        Ok(id)
    }

    /// The connection for questions about others.
    fn control(&mut self) -> Result<&mut Target> {
        if self.control.is_none() {
            let dialect = Dialect::new(self.settings.protocol);
            let mut target = Target::connect(self.settings.to, dialect)?;
            dialect::log_in_as_ourselves(&mut target, &self.settings.credentials)?;
            self.control = Some(target);
        }
        Ok(self.control.as_mut().expect("it was just made"))
    }

    /// Ends a blocking request by its timeout, if nothing can be sent before its answer. Returns
    /// false if there is none, so that nothing is left to do.
    fn unpark(&mut self) -> Result<bool> {
        // Requests woken by a push are answered before the push's connection is asked anything
        // else.
        let parked = self.under_way.iter().filter(|(_, one)| one.is_parked);
        let first = parked
            .filter(|(place, _)| self.plan.is_answered(**place))
            .min_by_key(|(place, _)| self.plan.completion(**place));
        let Some((&place, one)) = first else { return Ok(false) };
        let connection = one.connection;
        let id = self.client_id_known(connection);
        self.control()?.ask(&resp_request(&[b"CLIENT", b"UNBLOCK", id.as_bytes()]))?;
        let one = self.under_way.get_mut(&place).expect("found above");
        one.is_parked = false;
        Ok(true)
    }

    fn client_id_known(&self, connection: ConnectionNumber) -> String {
        match self.targets.get(&connection).map(|target| &target.dialect) {
            Some(Dialect::Resp(session)) => session.client_id.unwrap_or(0).to_string(),
            _ => String::new(),
        }
    }
}

/// Whether CLIENT LIST reports the connection as blocked.
fn is_blocked(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.split(' ').filter_map(|word| word.strip_prefix("flags=")).any(|flags| flags.contains('b'))
}

/// Returns the beginning of a request for display.
fn shown(payload: &[u8]) -> String {
    const SHOWN_BYTES: usize = 120;
    payload[..payload.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}
