//! Random calls of every command that redis-server and Indelible both have, with words at the ends of their
//! ranges: every reply must be the same but for what [`crate::differences`] lists.
//!
//! The calls follow the commands' own grammar ([`crate::grammar`]) and the shapes of
//! [`crate::random_commands`], on few keys, so that they meet values of every type and size. A short run is part
//! of the tests; the long one is ignored, and goes on for `INDELIBLE_SOAK_SECONDS` (`cargo xtask soak --tests`).

use crate::differences::{self, are_same};
use crate::extremes;
use crate::grammar::{CHANGE_CONNECTION, Grammar, Shape, Slot};
use crate::kill::{Random, soak_time};
use crate::process::{Program, Server};
use crate::random_commands::{everything, index, shape_words};
use crate::wire::{Connection, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The version that replies are compared with.
const REDIS_VERSION: [u32; 3] = [7, 0, 15];

/// Calls of the short run.
const CALLS: u64 = 12_000;

/// Calls between two looks at all the data.
const CALLS_A_LOOK: u64 = 200;

/// How many differences a run collects before it gives up.
const DIFFERENCES_MAX: usize = 40;

/// How long both may be silent before they are taken to wait.
const SILENCE: Duration = Duration::from_millis(15);

#[test]
fn every_command_gets_the_same_replies() {
    run(|calls, _| calls < CALLS);
}

#[test]
#[ignore = "takes as long as INDELIBLE_SOAK_SECONDS says: cargo xtask soak --tests"]
fn every_command_gets_the_same_replies_for_long() {
    let end = soak_time();
    run(|_, elapsed| elapsed < end);
}

fn run(goes_on: impl Fn(u64, Duration) -> bool) {
    let Some(redis) = Program::redis() else { return };
    let mut pair = Pair::start(&redis);
    let mut random = Random::from_environment();
    let shapes = pair.shared_shapes();
    let mut unsent: BTreeSet<&str> = shapes.keys().map(String::as_str).collect();
    let names: Vec<&String> = shapes.keys().collect();
    let started = Instant::now();
    let mut calls = 0;
    while goes_on(calls, started.elapsed()) && pair.differences.len() < DIFFERENCES_MAX {
        calls += 1;
        if random.below(2) == 0 {
            let words = shape_words(&mut random);
            let name = words[0].to_lowercase();
            pair.compare(&name, words.into_iter().map(String::into_bytes).collect());
        } else {
            let name = names[index(&mut random, names.len())];
            unsent.remove(name.as_str());
            let words = pair.call(&shapes, &shapes[name], &mut random);
            pair.compare(name, words);
        }
        if calls % CALLS_A_LOOK == 0 {
            pair.look();
        }
    }
    println!("{calls} calls of {} commands in {:?}", names.len(), started.elapsed());
    assert!(
        pair.differences.is_empty(),
        "{} differences:\n{}",
        pair.differences.len(),
        pair.differences.join("\n")
    );
    assert!(unsent.is_empty(), "not sent: {unsent:?}");
}

/// Both servers, and what was seen of them.
struct Pair {
    servers: [Server; 2],
    sides: [Connection; 2],
    /// What DUMP gave for a value of each type, for RESTORE.
    payloads: Vec<Vec<u8>>,
    /// The latest calls, to find the cause of a difference.
    recent: Vec<String>,
    differences: Vec<String>,
}

impl Pair {
    fn start(redis: &Program) -> Pair {
        let options =
            ["--save", "", "--proto-max-bulk-len", "1mb", "--enable-debug-command", "yes"];
        let servers = [redis.start(&options), Program::indelible().start(&options)];
        let sides = servers.each_ref().map(Server::connect);
        let mut pair = Pair {
            servers,
            sides,
            payloads: Vec::new(),
            recent: Vec::new(),
            differences: Vec::new(),
        };
        for make in
            ["SET k 12", "SET k hello", "RPUSH k a b", "HSET k f v", "SADD k 1 2", "ZADD k 1 m"]
        {
            pair.sides[0].words("DEL k");
            pair.sides[0].words(make);
            if let Reply::Blob(_, payload) = pair.sides[0].words("DUMP k") {
                pair.payloads.push(payload);
            }
        }
        pair.sides[0].words("FLUSHALL");
        pair
    }

    /// The commands that both serve and that may be sent, with our grammar.
    fn shared_shapes(&mut self) -> BTreeMap<String, Shape> {
        let listed = self.sides[0].words("COMMAND LIST");
        let redis: BTreeSet<String> = listed.elements().iter().map(Reply::text).collect();
        let shapes = Grammar::of(&mut self.sides[1]).0.into_iter();
        let shared = shapes.filter(|(name, _)| {
            redis.contains(name) && differences::reason_not_to_send(name).is_none()
        });
        shared.map(|(name, shape)| (name, shape.of_version(REDIS_VERSION))).collect()
    }

    /// A random call of a command.
    fn call(
        &self,
        shapes: &BTreeMap<String, Shape>,
        shape: &Shape,
        random: &mut Random,
    ) -> Vec<Vec<u8>> {
        let mut words = self.words(shape, random);
        if shape.name.starts_with("command|getkeys") {
            // What stands behind it is a call.
            words.truncate(2);
            let names: Vec<&String> = shapes.keys().collect();
            let inner = &shapes[names[index(random, names.len())]];
            let slots = inner.call(random);
            words.extend(slots.iter().map(|slot| match slot {
                // Where it is no number, Redis takes as much of it as C's `atoi` does.
                Slot::KeyCount(count) => count.to_string().into_bytes(),
                slot => self.word(inner, slot, random),
            }));
        }
        // A container alone is another command.
        let least = shape.name.split('|').count();
        if random.below(40) == 0 && words.len() > least {
            words.pop();
        }
        words
    }

    fn words(&self, shape: &Shape, random: &mut Random) -> Vec<Vec<u8>> {
        let slots = shape.call(random);
        slots.iter().map(|slot| self.word(shape, slot, random)).collect()
    }

    fn word(&self, shape: &Shape, slot: &Slot, random: &mut Random) -> Vec<u8> {
        if let Slot::Text(name) = slot
            && name == "serialized-value"
            && random.below(8) != 0
        {
            return self.payloads[index(random, self.payloads.len())].clone();
        }
        let word = word(slot, random);
        let is_span = matches!(slot, Slot::Integer(name)
            if ["seconds", "milliseconds", "ttl"].contains(&name.as_str()));
        let number: Option<i64> = word.parse().ok();
        let word = match number {
            // It must not pass between the two servers' answers.
            Some(number) if is_span && (1..100_000).contains(&number) => "100000".to_owned(),
            // As many elements as that no reply holds.
            Some(number) if shape.name.ends_with("randmember") && number < -100 => "-7".to_owned(),
            Some(number) if shape.name == "hrandfield" && number < -100 => "-7".to_owned(),
            _ => word,
        };
        word.into_bytes()
    }

    /// Sends a call to both and notes a difference.
    fn compare(&mut self, name: &str, words: Vec<Vec<u8>>) {
        let spelled = spell(&words);
        if differences::is_not_sent(&words) {
            return;
        }
        self.recent.push(spelled.clone());
        let started = Instant::now();
        for side in &mut self.sides {
            side.send(&words).unwrap();
        }
        let [mut expected, mut found] = [None, None];
        while expected.is_none() || found.is_none() {
            expected = expected.or_else(|| receive(&mut self.sides[0]));
            found = found.or_else(|| receive(&mut self.sides[1]));
            // One that answers has the other's patience; both silent wait for what does not come.
            let is_slow = started.elapsed() > Duration::from_secs(5);
            if (expected.is_none() && found.is_none()) || is_slow {
                break;
            }
        }
        let comparison = differences::comparison(name, &words);
        let same = match (&expected, &found) {
            (Some(expected), Some(found)) => are_same(comparison, expected, found),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.note(&format!(
                "{spelled}\n    Redis: {}\n    here:  {}",
                show(expected.as_ref()),
                show(found.as_ref())
            ));
        }
        if !same || expected.is_none() || CHANGE_CONNECTION.contains(&name) {
            self.sides = self.servers.each_ref().map(Server::connect);
        }
        if differences::is_forgetting(name, &words) && words.len() > 1 {
            for side in &mut self.sides {
                side.call(&[b"DEL", words[1].as_slice()]).unwrap();
            }
        }
    }

    fn note(&mut self, what: &str) {
        self.differences.push(format!("{what}\n  after\n    {}", self.history().join("\n    ")));
        self.recent.clear();
        // Both go on from the same state.
        self.sides = self.servers.each_ref().map(Server::connect);
        for side in &mut self.sides {
            side.words("FLUSHALL");
        }
    }

    /// The latest calls that have a key in common with the last one.
    fn history(&self) -> Vec<&str> {
        let keys = |call: &str| -> BTreeSet<String> {
            call.split(' ').filter(|word| word.starts_with("key")).map(str::to_owned).collect()
        };
        let Some(last) = self.recent.last() else { return Vec::new() };
        let wanted = keys(last);
        let mut calls: Vec<&str> = self.recent.iter().rev().map(String::as_str).collect();
        calls.retain(|call| {
            !keys(call).is_disjoint(&wanted)
                || ["SELECT", "SWAPDB", "FLUSH"].iter().any(|it| call.starts_with(it))
        });
        calls.truncate(20);
        calls.reverse();
        calls
    }

    /// Compares all data.
    fn look(&mut self) {
        let [expected, found] = self.sides.each_mut().map(|side| {
            let mut all = everything(side);
            // Redis' digest of it all has keys that have expired and that no command met.
            all.pop();
            all.extend(looks(side));
            all
        });
        if expected != found {
            let only = |a: &[String], b: &[String]| {
                a.iter()
                    .filter(|line| !b.contains(line))
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n    ")
            };
            let (redis, here) = (only(&expected, &found), only(&found, &expected));
            self.note(&format!("the data\n    Redis: {redis}\n    here:  {here}"));
        }
    }
}

/// How every value looks from within.
fn looks(side: &mut Connection) -> Vec<String> {
    let mut found = Vec::new();
    for database in ["2", "1", "0"] {
        side.words(&format!("SELECT {database}"));
        let mut keys: Vec<String> =
            side.words("KEYS key*").elements().iter().map(Reply::text).collect();
        keys.sort();
        for key in keys {
            let encoding = side.words(&format!("OBJECT ENCODING {key}")).text();
            let digest = show(Some(&side.words(&format!("DEBUG DIGEST-VALUE {key}"))));
            found.push(format!("{database} {key} {encoding} {digest}"));
        }
    }
    found
}

fn receive(side: &mut Connection) -> Option<Reply> {
    match side.receive_within(SILENCE) {
        Ok(reply) => reply,
        Err(error) => Some(Reply::Line(b'!', error.kind().to_string().into_bytes())),
    }
}

/// A word for a slot: modest mostly, at the end of a range often enough.
fn word(slot: &Slot, random: &mut Random) -> String {
    let extreme = |random: &mut Random| extremes::NUMBERS[index(random, extremes::NUMBERS.len())];
    if slot.is_number() && random.below(4) == 0 {
        return extreme(random).to_owned();
    }
    match slot {
        Slot::Word(word) => word.clone(),
        Slot::Key if random.below(100) == 0 => String::new(),
        Slot::Key => format!("key{}", random.below(10)),
        Slot::KeyCount(count) => count.to_string(),
        Slot::Integer(name) => match name.as_str() {
            "db" | "destination-db" | "index" | "index1" | "index2" if random.below(3) > 0 => {
                random.below(2).to_string()
            }
            "offset" | "bit" => random.below(60).to_string(),
            _ => (random.below(60).cast_signed() - 20).to_string(),
        },
        Slot::Double(_) => pick(random, &["0", "1", "-3.5", "17", "0.25"]).to_owned(),
        Slot::Pattern => {
            pick(random, &["*", "key[0-4]", "nosort", "key*", "#", "key*->f1", "", "?"]).to_owned()
        }
        Slot::Text(name) => text(name, random, &extreme),
    }
}

fn text(name: &str, random: &mut Random, extreme: &dyn Fn(&mut Random) -> &'static str) -> String {
    let numbers = random.below(5) == 0;
    match name {
        _ if numbers => extreme(random).to_owned(),
        "min" | "max" | "start" | "stop" => {
            pick(random, &["0", "-1", "3", "(5", "-inf", "+inf", "[f1", "(f3", "-", "+", "20"])
                .to_owned()
        }
        "encoding" => {
            pick(random, &["u8", "i16", "i64", "u63", "u64", "i0", "u1", "x8"]).to_owned()
        }
        "offset" => {
            pick(random, &["0", "7", "100", "#1", "#30", "#9223372036854775807"]).to_owned()
        }
        "field" | "member" => format!("f{}", random.below(12)),
        _ => match random.below(4) {
            0 => random.below(1000).to_string(),
            1 => "x".repeat(index(random, 120)),
            _ => format!("f{}", random.below(12)),
        },
    }
}

fn pick<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[index(random, words.len())]
}

fn spell(words: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| match word.len() {
        0 => "\"\"".to_owned(),
        1..=100 => format!("{}", word.escape_ascii()),
        bytes => format!("<{bytes} bytes>"),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn show(reply: Option<&Reply>) -> String {
    match reply {
        None => "no reply".to_owned(),
        Some(Reply::Many(kind, elements)) => {
            let elements: Vec<String> =
                elements.iter().take(20).map(|element| show(Some(element))).collect();
            format!("{} [{}]", char::from(*kind), elements.join(", "))
        }
        Some(reply) => format!("{} {:.300}", char::from(reply.kind()), reply.text()),
    }
}
