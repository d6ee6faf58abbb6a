//! One thread that keeps many connections busy.
//!
//! ```text
//!   at hand ──issue──► connections ──replies──► books (meter, ledger)
//!      ▲                    │
//!      └──── a request ◄── away ◄── a connection ended, or LOADING: one request every half millisecond
//! ```
//!
//! Without a rate each connection has as many requests under way as a pipeline holds. With one, requests
//! are due at even distances whatever the server does; each goes to a connection that waits for nothing, and
//! its latency counts from when it was due.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::connection::{Connection, Purpose, Request};
use super::keys::Keys;
use super::ledger::{Comparison, Ledger};
use super::meter::{Answer, Meter};
use super::records::{Found, Records};
use super::reply::Reply;
use super::{Arguments, Task, WhenAway};
use crate::error::{Error, Result};

/// How long a server that is away is left alone.
const AWAY_NS: u64 = 500_000;
/// How long replies are waited for after the end.
const DRAIN_NS: u64 = 10_000_000_000;
/// How long the loop sleeps at most.
const SLEEP_NS: u64 = 50_000_000;

/// Judges and counts replies.
pub(super) struct Books {
    pub(super) records: Records,
    pub(super) ledger: Option<Ledger>,
    /// The keys that are asked for most often.
    pub(super) popular: HashSet<u64>,
    pub(super) meter: Meter,
    /// Of the task `check`.
    pub(super) comparison: Option<Comparison>,
}

impl Books {
    /// Takes a reply; whether the server was loading instead.
    fn take(&mut self, request: Request, bytes: &[u8], now_ns: u64) -> bool {
        let reply = Reply::of(bytes);
        let Request { key, purpose, due_ns } = request;
        if let Reply::Error(error) = reply {
            let is_loading = error.starts_with("LOADING");
            if !is_loading {
                self.meter.refused(error);
            }
            return is_loading;
        }
        if purpose == Purpose::Probe {
            return false;
        }
        let answer = match purpose {
            Purpose::Write(_) => Answer::Write,
            _ => Answer::Read { is_popular: self.popular.contains(&key) },
        };
        self.meter.answered(due_ns, now_ns, answer);
        match purpose {
            Purpose::Write(version) => {
                if let Some(ledger) = &mut self.ledger {
                    ledger.answer(key, version);
                }
            }
            Purpose::Read(least) => self.found(key, self.records.found(reply, key), least),
            Purpose::Probe => {}
        }
        false
    }

    fn found(&mut self, key: u64, found: Found, least: u32) {
        let troubles = &mut self.meter.troubles;
        let version = match found {
            Found::Version(version) => version,
            Found::Missing => 0,
            Found::Wrong => {
                troubles.wrong += 1;
                return;
            }
        };
        match (&mut self.comparison, &mut self.ledger) {
            (Some(comparison), Some(ledger)) => ledger.compare(key, version, comparison),
            (_, None) => troubles.missing += u64::from(found == Found::Missing),
            (None, Some(_)) => troubles.stale += u64::from(version < least),
        }
    }
}

/// See the file's top.
pub(super) struct Driver<'a> {
    arguments: &'a Arguments,
    began: Instant,
    unix_start_ns: u64,
    /// When nothing is sent any more.
    end_ns: u64,
    keys: Keys,
    random: fastrand::Rng,
    pub(super) books: Books,
    connections: Vec<Connection>,
    /// Since the server is not there: when to ask it again.
    away: Option<u64>,
    /// How often all connections ended.
    pub(super) breaks: u64,
    /// When the server last answered after it was away.
    pub(super) back_ns: u64,
    /// The next key of the tasks that take one after the other.
    next_key: u64,
    /// The version of the next write without a ledger.
    next_version: u32,
    /// Keys that were written before the connections ended: they stay as they are, to be compared.
    spared: Vec<bool>,
    /// With a rate: requests that are due and have no connection, and when the next one is due.
    late: VecDeque<u64>,
    next_due_ns: u64,
    /// The connection that is tried first.
    turn: usize,
}

impl<'a> Driver<'a> {
    pub(super) fn new(arguments: &'a Arguments) -> Result<Self> {
        let records = Records::new(arguments.fields, arguments.value_bytes);
        let records = records.map_err(|what| Error::engine("records")(&what))?;
        let end_key = arguments.first_key + arguments.keys;
        let open = |path| Ledger::open(path, end_key);
        let ledger = arguments.ledger.as_deref().map(open).transpose()?;
        if ledger.is_some() && !records.is_string() {
            return Err(Error::engine("records")(&"a ledger is for strings"));
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settle_ns = ns(Duration::from_secs_f64(arguments.settle));
        let meter = Meter::new(settle_ns..end_ns(arguments), ns(unix), arguments.samples.is_some());
        let comparison = (arguments.task == Task::Check).then(Comparison::default);
        let spared = if ledger.is_some() { end_key } else { 0 };
        let keys = Keys::new(arguments.first_key..end_key, arguments.distribution);
        Ok(Self {
            arguments,
            began: Instant::now(),
            unix_start_ns: ns(unix),
            end_ns: end_ns(arguments),
            random: fastrand::Rng::with_seed(arguments.seed),
            books: Books { records, ledger, popular: keys.popular(), meter, comparison },
            keys,
            connections: Vec::new(),
            away: Some(0),
            breaks: 0,
            back_ns: 0,
            next_key: arguments.first_key,
            next_version: 2,
            spared: vec![false; usize::try_from(spared).expect("keys fit in memory")],
            late: VecDeque::new(),
            next_due_ns: 0,
            turn: 0,
        })
    }

    /// Turns a time of the run into milliseconds since 1970.
    pub(super) fn unix_ms(&self, at_ns: u64) -> f64 {
        (self.unix_start_ns + at_ns) as f64 / 1e6
    }

    pub(super) fn now_ns(&self) -> u64 {
        ns(self.began.elapsed())
    }

    /// Runs the task.
    pub(super) fn run(&mut self) -> Result<()> {
        loop {
            let now_ns = self.now_ns();
            if self.is_over(now_ns) {
                return Ok(());
            }
            match self.away {
                Some(at_ns) if now_ns >= at_ns => self.ask_again(now_ns),
                Some(_) => {}
                None => self.issue(now_ns),
            }
            let Err(error) = self.turn() else { continue };
            if self.broke(&error)? {
                return Ok(());
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let is_idle = || self.connections.iter().all(|connection| connection.waiting() == 0);
        match self.arguments.task {
            Task::Run if now_ns >= self.end_ns => {
                let is_done = is_idle() && self.late.is_empty();
                is_done || self.away.is_some() || now_ns >= self.end_ns + DRAIN_NS
            }
            Task::Run => false,
            Task::Fill | Task::Check => self.next_key == self.end_key() && is_idle(),
        }
    }

    fn end_key(&self) -> u64 {
        self.arguments.first_key + self.arguments.keys
    }

    /// Asks a server that is away for a key.
    fn ask_again(&mut self, now_ns: u64) {
        self.away = Some(now_ns + AWAY_NS);
        if self.connections.is_empty() {
            self.connections.extend(Connection::open(self.arguments.port));
        }
        let key = self.keys.draw(&mut self.random);
        let Some(connection) = self.connections.first_mut() else { return };
        if connection.waiting() == 0 {
            let request = Request { key, purpose: Purpose::Probe, due_ns: now_ns };
            connection.push(request, |out| self.books.records.read(out, key));
        }
    }

    /// Sends what is due.
    fn issue(&mut self, now_ns: u64) {
        let count = self.connections.len();
        if self.arguments.rate > 0.0 && self.arguments.task == Task::Run {
            self.note_due(now_ns);
            for _ in 0..count {
                let Some(due_ns) = self.late.front().copied() else { return };
                self.turn = (self.turn + 1) % count;
                if self.connections[self.turn].waiting() < self.arguments.pipeline {
                    self.late.pop_front();
                    self.send(self.turn, due_ns);
                }
            }
            return;
        }
        for index in 0..count {
            while now_ns < self.end_ns
                && self.connections[index].waiting() < self.arguments.pipeline
                && self.send(index, now_ns)
            {}
        }
    }

    fn note_due(&mut self, now_ns: u64) {
        let distance_ns = ns(Duration::from_secs_f64(1.0 / self.arguments.rate)).max(1);
        while self.next_due_ns <= now_ns && self.next_due_ns < self.end_ns {
            self.late.push_back(self.next_due_ns);
            self.next_due_ns += distance_ns;
        }
    }

    /// Sends the next request of the task through a connection; whether there is one.
    fn send(&mut self, index: usize, due_ns: u64) -> bool {
        let is_write = match self.arguments.task {
            Task::Run => self.random.f64() >= self.arguments.reads,
            task => task == Task::Fill,
        };
        let Some(key) = self.draw(index, is_write) else { return false };
        let any = self.random.usize(..);
        let Self { books, connections, next_version, .. } = self;
        let Books { records, ledger, .. } = books;
        let connection = &mut connections[index];
        if !is_write {
            let least = ledger.as_ref().map_or(0, |ledger| ledger.of(key).answered);
            let request = Request { key, purpose: Purpose::Read(least), due_ns };
            connection.push(request, |out| records.read(out, key));
            return true;
        }
        let is_fill = self.arguments.task == Task::Fill;
        let version = match ledger {
            Some(ledger) => ledger.send(key),
            None if is_fill => 1,
            None => {
                *next_version += 1;
                *next_version
            }
        };
        let request = Request { key, purpose: Purpose::Write(version), due_ns };
        connection.push(request, |out| match is_fill {
            true => records.create(out, key, version),
            false => records.update(out, key, version, any),
        });
        true
    }

    /// The key of the next request.
    fn draw(&mut self, index: usize, is_write: bool) -> Option<u64> {
        if self.arguments.task != Task::Run {
            let key = self.next_key;
            let is_one = key < self.end_key();
            self.next_key += u64::from(is_one);
            return is_one.then_some(key);
        }
        let mut key = self.keys.draw(&mut self.random);
        if !is_write || self.books.ledger.is_none() {
            return Some(key);
        }
        // Writes of one key go through one connection, so that they are answered in their order.
        loop {
            let (first, count) = (self.arguments.first_key, self.arguments.connections as u64);
            let owned = key - (key - first) % count + index as u64;
            let place = usize::try_from(owned).expect("keys fit in memory");
            if owned < self.end_key() && (self.breaks == 0 || !self.spared[place]) {
                self.spared[place] |= self.breaks == 0;
                return Some(owned);
            }
            key = self.keys.draw(&mut self.random);
        }
    }

    /// Writes and reads what the sockets take and have, or sleeps until there is something to do.
    fn turn(&mut self) -> std::io::Result<()> {
        let mut fds = Vec::with_capacity(self.connections.len());
        for connection in &mut self.connections {
            connection.flush()?;
        }
        for connection in &self.connections {
            let more = if connection.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(connection.stream(), PollFlags::IN | more));
        }
        let sleep_ns = self.sleep_ns();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(sleep_ns).unwrap_or_default() };
        rustix::event::poll(&mut fds, Some(&timeout))?;
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let ready: Vec<bool> = fds.iter().map(|fd| fd.revents().intersects(readable)).collect();
        drop(fds);
        let (now_ns, was_away) = (self.now_ns(), self.away.is_some());
        let (mut is_loading, mut is_back) = (false, false);
        for (connection, _) in self.connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            connection.receive(|request, reply| {
                let was_loading = self.books.take(request, reply, now_ns);
                is_loading |= was_loading;
                is_back |= !was_loading;
            })?;
        }
        if is_loading && !was_away {
            self.away = Some(now_ns + AWAY_NS);
        }
        if is_back && was_away {
            self.come_back(now_ns)?;
        }
        Ok(())
    }

    fn sleep_ns(&self) -> u64 {
        let now_ns = self.now_ns();
        let until_ns = match self.away {
            Some(at_ns) => at_ns,
            None if self.arguments.rate > 0.0 && self.late.is_empty() => self.next_due_ns,
            None => u64::MAX,
        };
        until_ns.saturating_sub(now_ns).min(SLEEP_NS)
    }

    /// The server has answered.
    fn come_back(&mut self, now_ns: u64) -> std::io::Result<()> {
        while self.connections.len() < self.arguments.connections {
            self.connections.push(Connection::open(self.arguments.port)?);
        }
        self.away = None;
        self.back_ns = now_ns;
        self.late.clear();
        self.next_due_ns = self.next_due_ns.max(now_ns);
        Ok(())
    }

    /// Gives up all connections; whether the run ends with that.
    fn broke(&mut self, error: &std::io::Error) -> Result<bool> {
        let waiting: usize = self.connections.iter().map(Connection::waiting).sum();
        self.books.meter.troubles.broken += waiting as u64;
        self.connections.clear();
        self.away = Some(self.now_ns() + AWAY_NS);
        self.breaks += 1;
        match self.arguments.when_away {
            WhenAway::Fail => Err(Error::engine("connection")(error)),
            WhenAway::Stop => Ok(true),
            WhenAway::Wait => Ok(false),
        }
    }
}

/// When nothing is sent any more.
fn end_ns(arguments: &Arguments) -> u64 {
    match arguments.task {
        Task::Run => ns(Duration::from_secs_f64(arguments.settle + arguments.seconds)),
        Task::Fill | Task::Check => u64::MAX - DRAIN_NS,
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
