//! What clients were told, and what must therefore be there after a crash.
//!
//! A [`Writer`] sends numbered operations on keys of its own and keeps two counts: how many were *sent* and
//! how many were *acknowledged*. The n-th operation follows from n alone, so the state after any n of them
//! can be computed. After a crash the state found must be that after some n with
//!
//! ```text
//!     acknowledged ≤ n ≤ sent           for a writer at `always`
//!     n ≤ sent                          for the others, and the order over all of them tells the rest
//! ```
//!
//! The operations of a [`Style::Transactions`] writer are MULTI blocks that also increment one counter shared
//! by all such writers. Its reply is the operation's place in the order of all transactions. After a crash
//! that found the counter at G exactly the transactions with places 1 to G must be there: a prefix, each
//! of them whole.

use crate::wire::{Connection, Reply, encode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The counter that all transactions increment.
pub(crate) const ORDER_KEY: &str = "order";

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Single commands of many kinds, pipelined, at `always`.
    Commands,
    /// MULTI blocks, one at a time, at the server's `appendfsync`.
    Transactions,
}

/// A key's value as far as the operations use it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Hash(BTreeMap<String, String>),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Sorted(BTreeMap<String, String>),
}

/// The keys of one writer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    keys: BTreeMap<String, Value>,
}

impl State {
    /// Applies one command as Redis would; it must be one that [`commands`] makes.
    fn apply(&mut self, words: &[String]) {
        let argument = |index: usize| words[index].clone();
        let key = argument(1);
        match words[0].as_str() {
            "SET" => {
                self.keys.insert(key, Value::Text(argument(2)));
            }
            "APPEND" => match self.keys.entry(key).or_insert_with(|| Value::Text(String::new())) {
                Value::Text(text) => text.push_str(&words[2]),
                other => panic!("APPEND to {other:?}"),
            },
            "DEL" => {
                self.keys.remove(&key);
            }
            "HSET" => match self.keys.entry(key).or_insert_with(|| Value::Hash(BTreeMap::new())) {
                Value::Hash(fields) => drop(fields.insert(argument(2), argument(3))),
                other => panic!("HSET on {other:?}"),
            },
            "HDEL" => self.shrink(&key, |value| match value {
                Value::Hash(fields) => drop(fields.remove(&words[2])),
                other => panic!("HDEL on {other:?}"),
            }),
            "RPUSH" => match self.keys.entry(key).or_insert_with(|| Value::List(VecDeque::new())) {
                Value::List(elements) => elements.push_back(argument(2)),
                other => panic!("RPUSH to {other:?}"),
            },
            "LPOP" => self.shrink(&key, |value| match value {
                Value::List(elements) => drop(elements.pop_front()),
                other => panic!("LPOP from {other:?}"),
            }),
            "SADD" => match self.keys.entry(key).or_insert_with(|| Value::Set(BTreeSet::new())) {
                Value::Set(members) => drop(members.insert(argument(2))),
                other => panic!("SADD to {other:?}"),
            },
            "SREM" => self.shrink(&key, |value| match value {
                Value::Set(members) => drop(members.remove(&words[2])),
                other => panic!("SREM from {other:?}"),
            }),
            "ZADD" => {
                match self.keys.entry(key).or_insert_with(|| Value::Sorted(BTreeMap::new())) {
                    Value::Sorted(members) => drop(members.insert(argument(3), argument(2))),
                    other => panic!("ZADD to {other:?}"),
                }
            }
            "ZREM" => self.shrink(&key, |value| match value {
                Value::Sorted(members) => drop(members.remove(&words[2])),
                other => panic!("ZREM from {other:?}"),
            }),
            other => panic!("{other} is not modelled"),
        }
    }

    /// Changes a collection; an empty one is gone.
    fn shrink(&mut self, key: &str, change: impl FnOnce(&mut Value)) {
        let Some(value) = self.keys.get_mut(key) else { return };
        change(value);
        let empty = match value {
            Value::Text(_) => false,
            Value::Hash(fields) => fields.is_empty(),
            Value::List(elements) => elements.is_empty(),
            Value::Set(members) => members.is_empty(),
            Value::Sorted(members) => members.is_empty(),
        };
        if empty {
            self.keys.remove(key);
        }
    }

    /// Reads the keys that start with a prefix from a server.
    fn read(connection: &mut Connection, prefix: &str) -> State {
        let pattern = format!("{prefix}*");
        let names = texts(&connection.call(&["KEYS", &pattern]).unwrap());
        let keys = names.into_iter().map(|key| {
            let value = read_value(connection, &key);
            (key, value)
        });
        State { keys: keys.collect() }
    }

    /// The first key in which two states differ, for the message of a failure.
    fn difference(&self, other: &State) -> String {
        let names: BTreeSet<&String> = self.keys.keys().chain(other.keys.keys()).collect();
        let differs = names.into_iter().find(|&name| self.keys.get(name) != other.keys.get(name));
        differs.map_or_else(String::new, |name| {
            format!("{name}: {:?} and not {:?}", self.keys.get(name), other.keys.get(name))
        })
    }
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.elements().iter().map(Reply::text).collect()
}

fn read_value(connection: &mut Connection, key: &str) -> Value {
    let pairs = |reply: Reply| {
        let texts = texts(&reply);
        texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    };
    let kind = connection.call(&["TYPE", key]).unwrap().text();
    match kind.as_str() {
        "string" => Value::Text(connection.call(&["GET", key]).unwrap().text()),
        "hash" => Value::Hash(pairs(connection.call(&["HGETALL", key]).unwrap())),
        "list" => Value::List(texts(&connection.call(&["LRANGE", key, "0", "-1"]).unwrap()).into()),
        "set" => {
            Value::Set(texts(&connection.call(&["SMEMBERS", key]).unwrap()).into_iter().collect())
        }
        "zset" => {
            let reply = connection.call(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).unwrap();
            Value::Sorted(pairs(reply))
        }
        other => panic!("{key} has type {other:?}"),
    }
}

/// The commands of the n-th operation of a writer.
fn commands(style: Style, prefix: &str, n: u64) -> Vec<Vec<String>> {
    let line = match style {
        Style::Transactions => {
            return [
                format!("INCR {ORDER_KEY}"),
                format!("HSET {prefix}hash f{} {n}", n % 97),
                format!("RPUSH {prefix}list {n}"),
                format!("SET {prefix}last {n}"),
            ]
            .iter()
            .map(|line| words(line))
            .collect();
        }
        Style::Commands => single_command(prefix, n),
    };
    vec![words(&line)]
}

/// A command that touches every kind of record: inline values, elements, chunks, deletes, keys made anew.
fn single_command(prefix: &str, n: u64) -> String {
    match n % 16 {
        0 => format!("HSET {prefix}hash f{} {n}", n % 401),
        1 => format!("SET {prefix}key{} {n}", n % 53),
        2 => format!("RPUSH {prefix}list {n}"),
        3 => format!("SADD {prefix}set {}", n % 503),
        4 => format!("ZADD {prefix}sorted {n} m{}", n % 307),
        5 => format!("HDEL {prefix}hash f{}", n * 7 % 401),
        6 => format!("APPEND {prefix}long {n}{}", "-".repeat(100)),
        7 => format!("SREM {prefix}set {}", n * 11 % 503),
        8 => format!("RPUSH {prefix}list {n}"),
        9 => format!("ZREM {prefix}sorted m{}", n * 13 % 307),
        10 => format!("LPOP {prefix}list"),
        11 => format!("SET {prefix}key{} {n}{}", n % 53, "x".repeat(500)),
        12 => format!("DEL {prefix}key{}", n * 5 % 53),
        13 => format!("SADD {prefix}small {}", n % 7),
        14 => format!("HSET {prefix}short f{} {n}", n % 3),
        _ if n % 1008 == 15 => format!("DEL {prefix}hash"),
        _ if n % 1008 == 31 => format!("DEL {prefix}long"),
        _ if n % 1008 == 47 => format!("DEL {prefix}list"),
        _ => format!("SET {prefix}last {n}"),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A client with its ledger.
#[derive(Debug)]
pub(crate) struct Writer {
    style: Style,
    prefix: String,
    /// The state after the acknowledged operations.
    state: State,
    acknowledged: u64,
    sent: u64,
    /// Of each acknowledged transaction of this run: its number, its place in the order, when.
    places: Vec<(u64, u64, Instant)>,
}

impl Writer {
    /// A writer that has written nothing.
    pub(crate) fn new(style: Style, number: usize) -> Writer {
        let prefix = format!("w{number}:");
        let state = State::default();
        Writer { style, prefix, state, acknowledged: 0, sent: 0, places: Vec::new() }
    }

    /// How it writes.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Writes until the connection breaks or the server takes no writes any more, and counts what is
    /// acknowledged. Panics on any other error reply.
    pub(crate) fn write(&mut self, mut connection: Connection, depth: u64, total: &AtomicU64) {
        self.places.clear();
        let depth = if self.style == Style::Transactions { 1 } else { depth };
        loop {
            while self.sent - self.acknowledged < depth {
                let commands = commands(self.style, &self.prefix, self.sent + 1);
                self.sent += 1;
                if connection.send_bytes(&encoded(self.style, &commands)).is_err() {
                    return;
                }
            }
            let Some(reply) = last_reply(&mut connection, self.style) else { return };
            self.acknowledged += 1;
            if let Some(place) = reply.elements().first() {
                let place = place.text().parse().unwrap();
                self.places.push((self.acknowledged, place, Instant::now()));
            }
            self.apply(self.acknowledged);
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn apply(&mut self, n: u64) {
        let own = commands(self.style, &self.prefix, n);
        own.iter().filter(|words| words[1] != ORDER_KEY).for_each(|words| self.state.apply(words));
    }

    /// Compares what is there after a crash with the ledger and goes on from there. `must_survive` says of
    /// an acknowledged transaction's place and time whether it must be there. Gives how many of this
    /// writer's operations are there.
    pub(crate) fn check(
        &mut self,
        connection: &mut Connection,
        always: bool,
        must_survive: impl Fn(u64, Instant) -> bool,
    ) -> u64 {
        let found = State::read(connection, &self.prefix);
        if self.style == Style::Transactions && !always {
            self.rewind_to(&found);
        }
        let least = self.acknowledged;
        while self.state != found {
            assert!(
                self.acknowledged < self.sent,
                "writer {}: not the state after any of the operations {least} to {}: {}",
                self.prefix,
                self.sent,
                found.difference(&self.state)
            );
            self.acknowledged += 1;
            self.apply(self.acknowledged);
        }
        for &(n, place, when) in &self.places {
            let survived = n <= self.acknowledged;
            assert!(
                survived || !must_survive(place, when),
                "writer {}: transaction {n} (place {place}) was acknowledged {:?} ago and is lost",
                self.prefix,
                when.elapsed()
            );
        }
        self.sent = self.acknowledged;
        self.acknowledged
    }

    /// When the last of its transactions was acknowledged.
    pub(crate) fn last_acknowledgement(&self) -> Option<Instant> {
        self.places.last().map(|(_, _, when)| *when)
    }

    /// The places of acknowledged transactions that are not there.
    pub(crate) fn lost_places(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().filter(|(n, ..)| *n > self.acknowledged).map(|(_, place, _)| *place)
    }

    /// The places of acknowledged transactions that are there.
    pub(crate) fn kept_places(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().filter(|(n, ..)| *n <= self.acknowledged).map(|(_, place, _)| *place)
    }

    /// Makes the ledger's state that after as many operations as the `last` key says.
    fn rewind_to(&mut self, found: &State) {
        let last = match found.keys.get(&format!("{}last", self.prefix)) {
            Some(Value::Text(text)) => text.parse().unwrap(),
            _ => 0,
        };
        if last < self.acknowledged {
            self.state = State::default();
            (1..=last).for_each(|n| self.apply(n));
            self.acknowledged = last;
        }
    }
}

fn encoded(style: Style, commands: &[Vec<String>]) -> Vec<u8> {
    let body: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
    match style {
        Style::Commands => body,
        Style::Transactions => [encode(&["MULTI"]), body, encode(&["EXEC"])].concat(),
    }
}

/// The reply that acknowledges an operation; nothing when the connection broke.
fn last_reply(connection: &mut Connection, style: Style) -> Option<Reply> {
    let mut is_refused = false;
    if style == Style::Transactions {
        for _ in 0..5 {
            let queued = connection.receive().ok()?;
            is_refused |= is_refusal(&queued);
            assert!(is_refused || !queued.is_error(), "{queued:?}");
        }
    }
    let reply = connection.receive().ok()?;
    if is_refused || is_refusal(&reply) {
        return None;
    }
    let errors = reply.elements().iter().any(Reply::is_error) || reply.is_error();
    assert!(!errors, "{reply:?}");
    Some(reply)
}

/// Whether the server says that it takes no writes now: the operation has not happened.
pub(crate) fn is_refusal(reply: &Reply) -> bool {
    let text = reply.text();
    reply.is_error() && text.contains("Errors writing to the redo log")
}
