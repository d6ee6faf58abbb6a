//! Groups of consumers over kills: workers die in the middle of what they do, and the server by `kill -9`.
//!
//! ```text
//!   producers   XADD s IDMP p m * n p:m     again until it is answered: each message is there once
//!   workers     XREADGROUP, XAUTOCLAIM ──► XACK, or XNACK, or nothing
//!      └ each life ends somewhere: with entries in hand, or a command sent and its reply not read
//! ```
//!
//! With `appendfsync always`, what was answered holds:
//! - An entry whose XADD was answered is there.
//! - An entry whose XACK was answered before a read was sent is not in the read's reply.
//! - At the end every message of every producer is there once, was delivered, and is acknowledged.
//!
//! A worker is a thread: to the server, one that loses its connection is as good as dead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::kill::{Random, soak_time, verify_log};
use crate::process::{PATIENCE, Program, Server};
use crate::wire::{Connection, Reply};

/// How often the server dies in the short run.
const ROUNDS: u64 = 8;

const PRODUCERS: u64 = 2;
const WORKERS: u64 = 4;

/// Names are known for longer than any run takes.
const OPTIONS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "always", "--stream-idmp-duration", "86400"];

#[test]
fn nothing_acknowledged_is_lost_or_delivered_again() {
    survive_kills(|rounds, _| rounds < ROUNDS);
}

#[test]
#[ignore = "takes as long as INDELIBLE_SOAK_SECONDS says: cargo xtask soak --tests"]
fn nothing_acknowledged_is_lost_or_delivered_again_for_long() {
    let end = soak_time();
    survive_kills(|_, elapsed| elapsed < end);
}

/// What clients were told.
#[derive(Default)]
struct Ledger {
    /// One tick for each event, so that two of them have an order.
    ticks: AtomicU64,
    /// Entries, by when their XACK was answered.
    acknowledged: Mutex<BTreeMap<String, u64>>,
    delivered: Mutex<BTreeSet<String>>,
}

impl Ledger {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// A read that was sent at `sent` has these entries.
    fn note_delivered(&self, ids: &[String], sent: u64) {
        let acknowledged = self.acknowledged.lock().unwrap();
        for id in ids {
            let before = acknowledged.get(id).is_some_and(|at| *at < sent);
            assert!(!before, "{id} was acknowledged, and is delivered again");
        }
        self.delivered.lock().unwrap().extend(ids.iter().cloned());
    }

    fn note_acknowledged(&self, ids: &[String]) {
        let at = self.tick();
        let mut acknowledged = self.acknowledged.lock().unwrap();
        for id in ids {
            acknowledged.entry(id.clone()).or_insert(at);
        }
    }
}

/// Adds messages of its own, one after the other.
struct Producer {
    number: u64,
    /// The message that is added next: those before it were answered.
    next: u64,
    /// Where they are.
    added: Vec<String>,
    random: Random,
}

impl Producer {
    fn message(&self, message: u64) -> String {
        format!("{}:{message}", self.number)
    }

    /// Adds the next message, perhaps once more.
    fn add(&mut self, connection: &mut Connection) -> io::Result<()> {
        let (producer, message) = (format!("p{}", self.number), format!("m{}", self.next));
        let value = self.message(self.next);
        let reply =
            connection.call(&["XADD", "s", "IDMP", &producer, &message, "*", "n", &value])?;
        assert!(!reply.is_error(), "{}", reply.text());
        self.added.push(reply.text());
        self.next += 1;
        Ok(())
    }

    /// Adds until the server is gone.
    fn produce(&mut self, port: u16, ledger: &Ledger) -> io::Result<()> {
        loop {
            let mut connection = Connection::open(port)?;
            for _ in 0..=self.random.below(200) {
                self.add(&mut connection)?;
                ledger.tick();
            }
            // The reply is not read, so the next life adds the same again.
            let (producer, message) = (format!("p{}", self.number), format!("m{}", self.next));
            let value = self.message(self.next);
            connection.send(&["XADD", "s", "IDMP", &producer, &message, "*", "n", &value])?;
        }
    }
}

/// Takes entries and acknowledges them.
struct Worker {
    number: u64,
    lives: u64,
    random: Random,
}

impl Worker {
    /// One that comes back has its name for some lives; what it holds when it takes another one, others must claim.
    fn name(&self) -> String {
        format!("worker:{}:{}", self.number, self.lives / 3)
    }

    /// Works until the server is gone.
    fn work(&mut self, port: u16, ledger: &Ledger) -> io::Result<()> {
        loop {
            let mut connection = Connection::open(port)?;
            self.live(&mut connection, ledger)?;
            self.lives += 1;
        }
    }

    /// Works until it dies, which the server cannot tell from a lost connection.
    fn live(&mut self, connection: &mut Connection, ledger: &Ledger) -> io::Result<()> {
        let name = self.name();
        let held = ["XREADGROUP", "GROUP", "g", &name, "COUNT", "20", "STREAMS", "s", "0"];
        let ids = take(connection, ledger, &held)?;
        if !self.finish(connection, ledger, &ids)? {
            return Ok(());
        }
        for _ in 0..self.random.below(40) {
            let count = (1 + self.random.below(20)).to_string();
            let ids = match self.random.below(4) {
                0 => {
                    let claim = ["XAUTOCLAIM", "s", "g", &name, "5", "0", "COUNT", &count];
                    take(connection, ledger, &claim)?
                }
                1 => {
                    let words = ["XREADGROUP", "GROUP", "g", &name, "COUNT", &count];
                    let claim = ["BLOCK", "10", "CLAIM", "5", "STREAMS", "s", ">"];
                    take(connection, ledger, &[&words[..], &claim].concat())?
                }
                _ => {
                    let words = ["XREADGROUP", "GROUP", "g", &name, "COUNT", &count];
                    let new = ["BLOCK", "10", "STREAMS", "s", ">"];
                    take(connection, ledger, &[&words[..], &new].concat())?
                }
            };
            if !self.finish(connection, ledger, &ids)? {
                return Ok(());
            }
        }
        // It dies over a command: what was taken by it is held by a name that nothing answers to.
        let count = (1 + self.random.below(20)).to_string();
        connection.send(&["XREADGROUP", "GROUP", "g", &name, "COUNT", &count, "STREAMS", "s", ">"])
    }

    /// Acknowledges entries, or gives them back, or keeps them. Whether it lives on.
    fn finish(
        &mut self,
        connection: &mut Connection,
        ledger: &Ledger,
        ids: &[String],
    ) -> io::Result<bool> {
        for ids in ids.chunks(7) {
            let count = ids.len().to_string();
            let of = |words: &[&str]| {
                let words = words.iter().map(|word| (*word).to_owned());
                words.chain(ids.iter().cloned()).collect::<Vec<String>>()
            };
            match self.random.below(12) {
                0 => {}
                1 => {
                    let reply =
                        connection.call(&of(&["XNACK", "s", "g", "FAIL", "IDS", &count]))?;
                    assert!(!reply.is_error(), "{}", reply.text());
                }
                2 => {
                    // The next life of this name finds some of them, or none.
                    connection.send(&of(&["XACK", "s", "g"]))?;
                    return Ok(false);
                }
                _ => {
                    let reply = connection.call(&of(&["XACK", "s", "g"]))?;
                    assert!(!reply.is_error(), "{}", reply.text());
                    // Others may have acknowledged some of them; none is pending now.
                    ledger.note_acknowledged(ids);
                }
            }
        }
        Ok(true)
    }
}

/// The entries that a command gives out.
fn take(connection: &mut Connection, ledger: &Ledger, words: &[&str]) -> io::Result<Vec<String>> {
    let sent = ledger.tick();
    let ids = ids_of(&connection.call(words)?);
    ledger.note_delivered(&ids, sent);
    Ok(ids)
}

/// The entries of a reply to XREADGROUP or XAUTOCLAIM.
fn ids_of(reply: &Reply) -> Vec<String> {
    assert!(!reply.is_error(), "{}", reply.text());
    let entries = match reply.elements() {
        [stream] => &stream.elements()[1],
        [_next, entries, _deleted] => entries,
        _ => return Vec::new(),
    };
    entries.elements().iter().map(|entry| entry.elements()[0].text()).collect()
}

fn survive_kills(goes_on: impl Fn(u64, Duration) -> bool) {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(&OPTIONS);
    let made = server.connect().words("XGROUP CREATE s g 0 MKSTREAM");
    assert_eq!(made.text(), "OK");
    let mut seed = || Random(random.below(u64::MAX));
    let producer = |number| Producer { number, next: 0, added: Vec::new(), random: seed() };
    let mut producers: Vec<Producer> = (0..PRODUCERS).map(producer).collect();
    let worker = |number| Worker { number, lives: 0, random: seed() };
    let mut workers: Vec<Worker> = (0..WORKERS).map(worker).collect();
    let ledger = Ledger::default();
    let (started, mut rounds) = (Instant::now(), 0);
    while goes_on(rounds, started.elapsed()) {
        rounds += 1;
        let enough = ledger.tick() + random.below(3000);
        run_until(&mut server, &mut producers, &mut workers, &ledger, enough);
        server.restart();
        check_round(&mut server.connect(), &producers, &ledger);
    }
    let mut connection = server.connect();
    producers.iter_mut().for_each(|producer| producer.add(&mut connection).unwrap());
    drain(&mut connection, &ledger);
    check_end(&mut connection, &producers, &ledger);
    println!("{rounds} rounds, {} entries", producers.iter().map(|it| it.next).sum::<u64>());
    verify_log(&mut server);
}

/// Ends the threads that use the server, also when the one that looks after them panics.
struct EndsClients<'a>(&'a mut Server);

impl Drop for EndsClients<'_> {
    fn drop(&mut self) {
        self.0.begin_to_kill();
    }
}

/// Lets everything run, and kills the server when there were so many events.
fn run_until(
    server: &mut Server,
    producers: &mut [Producer],
    workers: &mut [Worker],
    ledger: &Ledger,
    enough: u64,
) {
    let (port, started) = (server.port, Instant::now());
    std::thread::scope(|scope| {
        for producer in producers {
            scope.spawn(move || drop(producer.produce(port, ledger)));
        }
        for worker in workers {
            scope.spawn(move || drop(worker.work(port, ledger)));
        }
        let ends = EndsClients(server);
        while ledger.ticks.load(Ordering::SeqCst) < enough {
            assert!(ends.0.is_running(), "the server ended by itself:\n{}", ends.0.log());
            assert!(started.elapsed() < PATIENCE, "the clients do not get on");
            std::thread::sleep(Duration::from_millis(1));
        }
        ends.0.kill();
    });
}

/// The ids of what the group waits for.
fn pending(connection: &mut Connection) -> BTreeSet<String> {
    let pending = connection.words("XPENDING s g - + 1000000");
    pending.elements().iter().map(|it| it.elements()[0].text()).collect()
}

/// What is there after a crash.
fn check_round(connection: &mut Connection, producers: &[Producer], ledger: &Ledger) {
    let pending = pending(connection);
    let acknowledged = ledger.acknowledged.lock().unwrap();
    let again = acknowledged.keys().find(|id| pending.contains(*id));
    assert_eq!(again, None, "it was acknowledged, and is pending");
    for producer in producers {
        if let Some(last) = producer.added.last() {
            let found = connection.words(&format!("XRANGE s {last} {last}"));
            assert_eq!(found.elements().len(), 1, "{last} was added, and is not there");
        }
    }
    let added: usize = producers.iter().map(|producer| producer.added.len()).sum();
    let there: usize = connection.words("XLEN s").text().parse().unwrap();
    assert!(there >= added, "{there} entries, and {added} were added");
}

/// Takes what is left, whichever consumer has it, and acknowledges it.
fn drain(connection: &mut Connection, ledger: &Ledger) {
    loop {
        let claim = ["XAUTOCLAIM", "s", "g", "last", "0", "0", "COUNT", "100"];
        let mut ids = take(connection, ledger, &claim).unwrap();
        let new = ["XREADGROUP", "GROUP", "g", "last", "COUNT", "100", "STREAMS", "s", ">"];
        ids.extend(take(connection, ledger, &new).unwrap());
        if ids.is_empty() {
            return;
        }
        let words = ["XACK", "s", "g"].map(str::to_owned);
        let words: Vec<String> = words.into_iter().chain(ids.iter().cloned()).collect();
        assert_eq!(connection.call(&words).unwrap().text(), ids.len().to_string());
        ledger.note_acknowledged(&ids);
    }
}

/// Every message is there once, was delivered, and is acknowledged.
fn check_end(connection: &mut Connection, producers: &[Producer], ledger: &Ledger) {
    assert_eq!(pending(connection), BTreeSet::new());
    let group = connection.words("XINFO GROUPS s").elements()[0].elements().to_vec();
    let lag = group.iter().position(|it| it.text() == "lag").unwrap();
    assert_eq!(group[lag + 1].text(), "0");
    let mut there: BTreeMap<String, String> = BTreeMap::new();
    for entry in connection.words("XRANGE s - +").elements() {
        let [id, pairs] = entry.elements() else { panic!("{entry:?}") };
        let value = pairs.elements()[1].text();
        let other = there.insert(value.clone(), id.text());
        assert_eq!(other, None, "{value} is there twice");
    }
    let mut expected = BTreeMap::new();
    for producer in producers {
        for (message, id) in (0..).zip(&producer.added) {
            expected.insert(producer.message(message), id.clone());
        }
    }
    assert_eq!(there, expected);
    let ids: BTreeSet<String> = there.into_values().collect();
    assert_eq!(*ledger.delivered.lock().unwrap(), ids);
    let acknowledged = ledger.acknowledged.lock().unwrap();
    let unheard = ids.iter().filter(|id| !acknowledged.contains_key(*id)).count();
    println!("{unheard} of {} acknowledged without a reply", ids.len());
}
