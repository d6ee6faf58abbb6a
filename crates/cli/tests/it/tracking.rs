//! Clients that are told of changes, on both servers: after every random command each of them must have been told the
//! same by redis-server and by Indelible.
//!
//! ```text
//!   two clients with RESP3, in random modes ─┐ random commands, transactions, scripts
//!   one with RESP2 that redirects ───────────┘
//!          └─► its listener                    after each: all that lies before the answer to a PING
//! ```
//!
//! In the place of some bugs Indelible does what is meant. So there are no scripts of clients that are not told of
//! their own changes, and nothing expires.

use std::collections::BTreeMap;

use crate::kill::Random;
use crate::process::{Program, Server};
use crate::random_commands::{index, shape_words};
use crate::wire::{Connection, Reply};

const STEPS: u64 = 3000;

/// How the clients track.
const MODES: &[&str] = &[
    "",
    "",
    "NOLOOP",
    "OPTIN",
    "OPTIN NOLOOP",
    "OPTOUT",
    "OPTOUT NOLOOP",
    "BCAST",
    "BCAST NOLOOP",
    "BCAST PREFIX key1 PREFIX key2 PREFIX key3",
    "BCAST PREFIX key4 PREFIX none NOLOOP",
];

/// The clients that read and write; behind them is one that only listens.
const CLIENTS: usize = 3;
const LISTENER: usize = CLIENTS;

/// The connections to one of the servers.
struct Side {
    connections: Vec<Connection>,
    listener_id: String,
}

impl Side {
    fn open(server: &Server) -> Self {
        let mut connections: Vec<Connection> = (0..=CLIENTS).map(|_| server.connect()).collect();
        for connection in &mut connections[..2] {
            connection.words("HELLO 3");
        }
        let listener_id = connections[LISTENER].words("CLIENT ID").text();
        connections[LISTENER].words("SUBSCRIBE __redis__:invalidate");
        Self { connections, listener_id }
    }

    /// Sends commands in one piece; what each connection gets until it answers a PING, messages in order of their
    /// bytes behind the other replies.
    fn act(&mut self, by: usize, calls: &[Vec<String>]) -> BTreeMap<usize, Vec<Reply>> {
        for words in calls {
            let words: Vec<String> =
                words.iter().map(|word| word.replace("%listener", &self.listener_id)).collect();
            self.connections[by].send(&words).unwrap();
        }
        let mut got = BTreeMap::new();
        // First the one that acts: what it does is done then.
        for number in std::iter::once(by).chain((0..=LISTENER).filter(|number| *number != by)) {
            let connection = &mut self.connections[number];
            let (mut replies, mut messages) = (Vec::new(), Vec::new());
            let awaited = if number == by { calls.len() } else { 0 };
            let mut has_asked = false;
            loop {
                // In one piece with the calls it could be answered before the iteration ends, and messages leave.
                if replies.len() == awaited && !std::mem::replace(&mut has_asked, true) {
                    connection.send(&["PING", "the end"]).unwrap();
                }
                let reply = connection.receive().unwrap();
                let is_end = |reply: &Reply| reply.text() == "the end";
                if is_end(&reply) || reply.elements().last().is_some_and(is_end) {
                    break;
                }
                let is_message = reply.kind() == b'>' || number == LISTENER;
                if is_message { &mut messages } else { &mut replies }.push(reply);
            }
            messages.sort();
            // What commands answer is compared elsewhere.
            let kinds = replies.iter().map(|reply| Reply::Line(reply.kind(), Vec::new()));
            got.insert(number, kinds.chain(messages).collect());
        }
        got
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn some_words(random: &mut Random) -> Vec<String> {
    loop {
        let words = shape_words(random);
        // Here all clients are told that databases were exchanged.
        if words[0] != "SWAPDB" {
            return words;
        }
    }
}

fn calls(random: &mut Random, mode: &str) -> Vec<Vec<String>> {
    let mut calls = Vec::new();
    if mode.starts_with("OPT") && random.below(3) == 0 {
        let word = if mode.starts_with("OPTIN") { "YES" } else { "NO" };
        calls.push(words(&format!("CLIENT CACHING {word}")));
    }
    let key = |random: &mut Random| format!("key{}", random.below(10));
    match random.below(20) {
        0 => {
            calls.push(words("MULTI"));
            calls.extend((0..=random.below(5)).map(|_| some_words(random)));
            calls.push(words("EXEC"));
        }
        1 if !mode.contains("NOLOOP") => {
            let source = "redis.call('exists', KEYS[1]) redis.call('set', KEYS[2], 'x') \
                          redis.call('exists', KEYS[2]) redis.call('del', 'key0') return 1";
            let script = ["EVAL", source, "2", &key(random), &key(random)];
            calls.push(script.iter().map(ToString::to_string).collect());
        }
        2 => calls.push(words(&format!("MGET {} {} {}", key(random), key(random), key(random)))),
        3 if random.below(10) == 0 => calls.push(words("FLUSHALL")),
        _ => calls.push(some_words(random)),
    }
    calls
}

#[test]
fn clients_are_told_the_same_as_by_redis() {
    let Some(redis) = Program::redis() else { return };
    let mut random = Random::from_environment();
    let shared = ["--proto-max-bulk-len", "1mb", "--save", ""];
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let redis = redis.start(&shared);
    let indelible = Program::indelible().start(&[&durable, &shared[..]].concat());
    let mut sides = [Side::open(&redis), Side::open(&indelible)];
    let mut modes = [""; CLIENTS];
    let mut told = 0;
    let mut history = Vec::new();
    for step in 0..STEPS {
        let by = index(&mut random, CLIENTS);
        // One of them tracks always: what others have read is forgotten when none does.
        let changes_mode = step < CLIENTS as u64 || random.below(50) == 0;
        let (by, calls) = if changes_mode {
            let by = if step < CLIENTS as u64 { usize::try_from(step).unwrap() } else { by };
            modes[by] = MODES[index(&mut random, MODES.len())];
            let redirect = if by == 2 { "REDIRECT %listener" } else { "" };
            let on = words(&format!("CLIENT TRACKING ON {} {redirect}", modes[by]));
            let off = words("CLIENT TRACKING OFF");
            (by, if by == 0 && step > 0 { continue } else { vec![off, on] })
        } else {
            (by, calls(&mut random, modes[by]))
        };
        history.push(format!("{by}> {calls:?}"));
        let [expected, found] = sides.each_mut().map(|side| side.act(by, &calls));
        told += expected.values().flatten().filter(|it| !it.elements().is_empty()).count();
        let last = &history[history.len().saturating_sub(40)..];
        assert_eq!(found, expected, "modes {modes:?}, the end of:\n{}", last.join("\n"));
    }
    assert!(told > 300, "only {told} messages");
}
