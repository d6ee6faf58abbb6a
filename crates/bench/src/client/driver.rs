//! One thread that keeps many connections busy.
//!
//! ```text
//!   at hand ──issue──► connections ──replies──► books (meter, ledger)
//!      ▲                    │  ▲                  │
//!      │                    │  └── what follows ──┘
//!      └──── a request ◄── away ◄── a connection ended, or LOADING: one request every half millisecond
//! ```
//!
//! Closed loop (no rate): each connection has as many operations under way as a pipeline holds, and the next one
//! begins when one is over. A server that stalls is asked nothing meanwhile: its stall is one latency of each
//! connection. Open loop (a rate): operations are due at even distances whatever the server does; each goes to a
//! connection with room, and its latency counts from when it was due, so a stall is seen by all that were due in it.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::books::{Books, Taken};
use super::connection::{Connection, Purpose};
use super::keys::Keys;
use super::ledger::{Comparison, Ledger};
use super::live::Live;
use super::meter::Meter;
use super::mix::{Mix, Operation};
use super::poller::Poller;
use super::records::Records;
use super::{Arguments, Task, WhenAway};
use crate::error::{Error, Result};

/// How long a server that is away is left alone.
const AWAY_NS: u64 = 500_000;
/// How long replies are waited for after the end.
const DRAIN_NS: u64 = 10_000_000_000;
/// How long the loop sleeps at most.
const SLEEP_NS: u64 = 50_000_000;

/// See the file's top.
pub(super) struct Driver<'a> {
    arguments: &'a Arguments,
    began: Instant,
    unix_start_ns: u64,
    /// When nothing is sent any more.
    end_ns: u64,
    mix: Mix,
    random: fastrand::Rng,
    pub(super) books: Books,
    connections: Vec<Connection>,
    poller: Poller,
    /// The connections that have replies.
    ready: Vec<usize>,
    /// Since the server is not there: when to ask it again.
    away: Option<u64>,
    /// How often all connections ended.
    pub(super) breaks: u64,
    /// When the server last answered after it was away.
    pub(super) back_ns: u64,
    /// The next key of the tasks that take one after the other.
    next_key: u64,
    /// Keys that were written before the connections ended: they stay as they are, to be compared.
    spared: Vec<bool>,
    /// With a rate: requests that are due and have no connection, and when the next one is due.
    late: VecDeque<u64>,
    next_due_ns: u64,
    /// The connection that is tried first.
    turn: usize,
}

impl<'a> Driver<'a> {
    pub(super) fn new(arguments: &'a Arguments, live: Option<Live>) -> Result<Self> {
        let load = &arguments.load;
        let records = Records::new(load.fields(), load.value_bytes());
        let records = records.map_err(|what| Error::engine("records")(&what))?;
        let end_key = arguments.first_key + load.keys;
        let open = |path| Ledger::open(path, end_key);
        let ledger = arguments.ledger.as_deref().map(open).transpose()?;
        if ledger.is_some() && !records.is_string() {
            return Err(Error::engine("records")(&"a ledger is for strings"));
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settle_ns = ns(Duration::from_secs_f64(load.settle()));
        let counted_ns = settle_ns..end_ns(arguments);
        let meter = Meter::new(counted_ns, ns(unix), arguments.samples.is_some(), live);
        let comparison = (arguments.task == Task::Check).then(Comparison::default);
        let spared = if ledger.is_some() { end_key } else { 0 };
        let mix = load.mix();
        let has_inserts = arguments.task == Task::Run && mix.has_inserts();
        let keys = Keys::new(arguments.first_key..end_key, load.distribution(), has_inserts);
        let is_fill = arguments.task == Task::Fill;
        let books = Books {
            records,
            has_index: load.workload.is_some(),
            ledger,
            popular: keys.popular(),
            keys,
            meter,
            comparison,
            is_fill,
            version: if is_fill { 1 } else { 2 },
            random: fastrand::Rng::with_seed(load.seed ^ 1),
        };
        Ok(Self {
            arguments,
            began: Instant::now(),
            unix_start_ns: ns(unix),
            end_ns: end_ns(arguments),
            mix,
            random: fastrand::Rng::with_seed(load.seed),
            books,
            connections: Vec::new(),
            poller: Poller::new().map_err(|error| Error::engine("epoll")(&error))?,
            ready: Vec::new(),
            away: Some(0),
            breaks: 0,
            back_ns: 0,
            next_key: arguments.first_key,
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
        self.run_to_the_end()?;
        let waiting: usize = self.connections.iter().map(Connection::waiting).sum();
        self.books.meter.troubles.unanswered += (waiting + self.late.len()) as u64;
        Ok(())
    }

    fn run_to_the_end(&mut self) -> Result<()> {
        loop {
            let now_ns = self.now_ns();
            if self.is_over(now_ns) {
                return Ok(());
            }
            self.books.meter.show(now_ns);
            match self.away {
                Some(at_ns) if now_ns >= at_ns => self.ask_again(now_ns)?,
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
            Task::Fill | Task::Check | Task::Remove => self.next_key == self.end_key() && is_idle(),
        }
    }

    fn end_key(&self) -> u64 {
        self.arguments.first_key + self.arguments.load.keys
    }

    /// Asks a server that is away for a key. An error if it is not there, and is not waited for.
    fn ask_again(&mut self, now_ns: u64) -> Result<()> {
        self.away = Some(now_ns + AWAY_NS);
        if self.connections.is_empty()
            && let Err(error) = self.connect()
            && self.arguments.when_away != WhenAway::Wait
        {
            let Arguments { host, port, .. } = self.arguments;
            return Err(Error::engine("connection")(&format_args!("{host}:{port}: {error}")));
        }
        let key = self.books.keys.draw(&mut self.random);
        let Self { books, connections, .. } = self;
        let Some(connection) = connections.first_mut() else { return Ok(()) };
        if connection.waiting() == 0 {
            connection.push(|out| books.write(key, Purpose::Probe, now_ns, out));
        }
        Ok(())
    }

    fn connect(&mut self) -> std::io::Result<()> {
        let connection = Connection::open(&self.arguments.host, self.arguments.port)?;
        self.poller.add(connection.stream(), self.connections.len())?;
        self.connections.push(connection);
        Ok(())
    }

    /// Sends what is due.
    fn issue(&mut self, now_ns: u64) {
        let count = self.connections.len();
        if self.arguments.load.rate > 0.0 && self.arguments.task == Task::Run {
            self.note_due(now_ns);
            let mut full = 0;
            while full < count {
                let Some(due_ns) = self.late.front().copied() else { return };
                self.turn = (self.turn + 1) % count;
                full += 1;
                if self.connections[self.turn].waiting() < self.arguments.load.pipeline {
                    self.late.pop_front();
                    self.send(self.turn, due_ns);
                    full = 0;
                }
            }
            return;
        }
        for index in 0..count {
            while now_ns < self.end_ns
                && self.connections[index].waiting() < self.arguments.load.pipeline
                && self.send(index, now_ns)
            {}
        }
    }

    fn note_due(&mut self, now_ns: u64) {
        let distance_ns = ns(Duration::from_secs_f64(1.0 / self.arguments.load.rate)).max(1);
        while self.next_due_ns <= now_ns && self.next_due_ns < self.end_ns {
            self.late.push_back(self.next_due_ns);
            self.next_due_ns += distance_ns;
        }
    }

    /// Begins the next operation of the task on a connection. Returns whether there is one.
    fn send(&mut self, index: usize, due_ns: u64) -> bool {
        let operation = match self.arguments.task {
            Task::Run => self.mix.draw(&mut self.random),
            Task::Fill | Task::Remove => Operation::Update,
            Task::Check => Operation::Read,
        };
        let Some(key) = self.draw(index, operation) else { return false };
        let Self { books, connections, arguments, .. } = self;
        let purpose = match (arguments.task, operation) {
            (Task::Remove, _) => Purpose::Remove,
            (Task::Fill, _) if books.has_index => Purpose::Insert,
            (_, Operation::Read) => {
                Purpose::Read(books.ledger.as_ref().map_or(0, |ledger| ledger.of(key).answered))
            }
            (_, Operation::Update) => Purpose::Write(books.version_of(key)),
            (_, Operation::Insert) => Purpose::Insert,
            (_, Operation::Scan) => Purpose::Scan,
            (_, Operation::ReadModifyWrite) => Purpose::ReadToModify,
        };
        connections[index].push(|out| books.write(key, purpose, due_ns, out));
        true
    }

    /// The key of the next operation.
    fn draw(&mut self, index: usize, operation: Operation) -> Option<u64> {
        if self.arguments.task != Task::Run {
            let key = self.next_key;
            let is_one = key < self.end_key();
            self.next_key += u64::from(is_one);
            return is_one.then_some(key);
        }
        if operation == Operation::Insert {
            return Some(self.books.keys.begin_insert());
        }
        let mut key = self.books.keys.draw(&mut self.random);
        if operation == Operation::Read || self.books.ledger.is_none() {
            return Some(key);
        }
        // Writes of one key go through one connection, so that they are answered in their order.
        loop {
            let (first, count) = (self.arguments.first_key, self.arguments.load.connections as u64);
            let owned = key - (key - first) % count + index as u64;
            let place = usize::try_from(owned).expect("keys fit in memory");
            if owned < self.end_key() && (self.breaks == 0 || !self.spared[place]) {
                self.spared[place] |= self.breaks == 0;
                return Some(owned);
            }
            key = self.books.keys.draw(&mut self.random);
        }
    }

    /// Writes and reads what the sockets take and have, or sleeps until there is something to do.
    fn turn(&mut self) -> std::io::Result<()> {
        for connection in &mut self.connections {
            connection.flush()?;
        }
        self.poller.wait(self.sleep_ns(), &mut self.ready)?;
        let (now_ns, was_away) = (self.now_ns(), self.away.is_some());
        let (mut is_loading, mut is_back) = (false, false);
        let Self { books, connections, ready, .. } = self;
        for index in ready.iter() {
            connections[*index].receive(|request, reply, out| {
                let taken = books.take(request, reply, now_ns, out);
                let was_loading = taken == Taken::Loading;
                is_loading |= was_loading;
                is_back |= !was_loading;
                match taken {
                    Taken::GoesOn(next) => Some(next),
                    Taken::Loading | Taken::Over => None,
                }
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
            None if self.arguments.load.rate > 0.0 && self.late.is_empty() => self.next_due_ns,
            None => u64::MAX,
        };
        until_ns.saturating_sub(now_ns).min(SLEEP_NS)
    }

    /// The server has answered.
    fn come_back(&mut self, now_ns: u64) -> std::io::Result<()> {
        while self.connections.len() < self.arguments.load.connections {
            self.connect()?;
        }
        self.away = None;
        self.back_ns = now_ns;
        self.books.meter.troubles.unanswered += self.late.len() as u64;
        self.late.clear();
        self.next_due_ns = self.next_due_ns.max(now_ns);
        Ok(())
    }

    /// Gives up all connections; whether the run ends with that.
    fn broke(&mut self, error: &std::io::Error) -> Result<bool> {
        let waiting: usize = self.connections.iter().map(Connection::waiting).sum();
        self.books.meter.troubles.broken += waiting as u64;
        self.connections.clear();
        self.books.keys.end_inserts();
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
        Task::Run => ns(Duration::from_secs_f64(arguments.load.settle() + arguments.load.seconds)),
        Task::Fill | Task::Check | Task::Remove => u64::MAX - DRAIN_NS,
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
