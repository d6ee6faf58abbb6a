//! Every command of the table, on values of every type and encoding, with numbers at the ends of their types,
//! empty and huge arguments in every place: no call takes long, needs much memory, or ends the server.
//!
//! ```text
//!  Grammar ─► form of a call ─► one slot replaced by an extreme ─► on a fresh value of each encoding
//!                               (and all numbers at once)            │
//!                                             time, memory, alive? ◄─┘
//! ```
//!
//! The commands come from the server's own table, and one without a call fails the test. The figures are
//! those of a release build; a debug build has [`DEBUG_FACTOR`] times as long.

use crate::extremes;
use crate::grammar::{CHANGE_CONNECTION, Grammar, Shape, Slot};
use crate::kill::Random;
use crate::lcs::{forget_peak, resident_bytes};
use crate::process::{Program, Server};
use crate::wire::{Connection, Reply, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a call may take.
const CALL_MAX: Duration = Duration::from_millis(100);

/// How much memory a call may need beyond its reply.
const CALL_BYTES_MAX: u64 = 64 << 20;

/// How much slower than a release build a debug build may be.
const DEBUG_FACTOR: u32 = 20;

/// After so long without a reply a call has hung.
const HUNG: Duration = Duration::from_secs(60);

/// Walks of a command's grammar that are tried for different forms: in the short run, and in the long one.
const WALKS: [usize; 2] = [4, 60];

/// The database that the values come from.
const SPARE_DB: &str = "9";

/// Commands that may answer nothing at all, or later.
const SILENT: &[&str] = &["client|reply"];

/// The values that commands meet: a name, the groups of commands that are made for it, and how it is made.
fn fixtures() -> Vec<Fixture> {
    let many = |words: &[&str], item: &dyn Fn(usize) -> Vec<String>, count: usize| {
        let mut call: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        call.extend((0..count).flat_map(item));
        call
    };
    let padded = |number: usize| format!("{number:0>20}");
    let string = |value: String| vec!["SET".to_owned(), String::new(), value];
    let make = |name, group, call| Fixture { name, group, call };
    vec![
        make("missing", "", Vec::new()),
        make("int", "string", string("12345".to_owned())),
        make("embstr", "string", string("hello".to_owned())),
        make("raw", "string", string("r".repeat(100))),
        make("chunked", "string", string("c".repeat(50_000))),
        make("packed list", "list", many(&["RPUSH", ""], &|n| vec![n.to_string()], 3)),
        make("node list", "list", many(&["RPUSH", ""], &|n| vec![padded(n)], 300)),
        make("packed hash", "hash", many(&["HSET", ""], &|n| vec![n.to_string(), "1".into()], 3)),
        make("table hash", "hash", many(&["HSET", ""], &|n| vec![padded(n), "x".repeat(70)], 300)),
        make("intset", "set", many(&["SADD", ""], &|n| vec![n.to_string()], 5)),
        make("packed set", "set", many(&["SADD", ""], &|n| vec![format!("m{n}")], 5)),
        make("table set", "set", many(&["SADD", ""], &|n| vec![padded(n)], 300)),
        make(
            "packed zset",
            "sorted-set",
            many(&["ZADD", ""], &|n| vec![n.to_string(), padded(n)], 3),
        ),
        make(
            "table zset",
            "sorted-set",
            many(&["ZADD", ""], &|n| vec![n.to_string(), padded(n)], 300),
        ),
        make("sparse counter", "hyperloglog", many(&["PFADD", ""], &|n| vec![n.to_string()], 50)),
        make("dense counter", "hyperloglog", many(&["PFADD", ""], &|n| vec![n.to_string()], 3000)),
        make(
            "places",
            "geo",
            many(&["GEOADD", ""], &|n| vec![(n % 180).to_string(), "38".into(), padded(n)], 300),
        ),
        make(
            "stream",
            "stream",
            many(&["XADD", "", "1-1"], &|n| vec![n.to_string(), padded(n)], 300),
        ),
    ]
}

/// A value and what it is for.
struct Fixture {
    name: &'static str,
    group: &'static str,
    /// The command that makes it, its key left empty; no words make nothing.
    call: Vec<String>,
}

impl Fixture {
    /// Whether commands of a group meet it: values of its type, and one of another.
    fn is_for(&self, group: &str) -> bool {
        match group {
            "string" | "bitmap" => self.group == "string" || self.name == "packed list",
            "list" | "hash" | "set" | "sorted-set" | "stream" => {
                self.group == group || self.name == "embstr"
            }
            _ => true,
        }
    }
}

#[test]
fn every_command_is_bounded_whatever_it_is_told() {
    try_all(WALKS[0]);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak --tests"]
fn every_form_of_every_command_is_bounded_whatever_it_is_told() {
    try_all(WALKS[1]);
}

fn try_all(walks: usize) {
    let mut trial = Trial::start();
    let grammar = Grammar::of(&mut trial.control);
    let mut random = Random::from_environment();
    let mut uncovered: BTreeSet<&String> = grammar.0.keys().collect();
    for (name, shape) in &grammar.0 {
        trial.prepare();
        for form in forms(shape, walks, &mut random) {
            if trial.try_form(shape, &form) > 0 {
                uncovered.remove(name);
            }
        }
    }
    trial.report();
    assert!(uncovered.is_empty(), "commands without a call: {uncovered:?}");
    assert!(grammar.0.len() > 200, "the table has {} commands", grammar.0.len());
    assert!(trial.server.is_running());
}

/// The different calls that the grammar has for a command, as far as so many walks find them: those that are not too long,
/// or the shortest one.
fn forms(shape: &Shape, walks: usize, random: &mut Random) -> BTreeSet<Vec<Slot>> {
    // Each of the calls of a command without a grammar is one that the others do not stand for.
    let walks = if shape.has_grammar() { walks } else { walks * 10 };
    let calls: BTreeSet<_> = (0..walks).map(|_| shape.call(random)).collect();
    let shortest = calls.iter().map(Vec::len).min().unwrap_or(0);
    calls.into_iter().filter(|call| call.len() < 12.max(shortest + 1)).collect()
}

/// A server under trial.
struct Trial {
    server: Server,
    fixtures: Vec<Fixture>,
    /// A connection that no call harms.
    control: Connection,
    /// The one that calls.
    caller: Connection,
    caller_id: String,
    calls: u64,
    slowest: BTreeMap<Duration, String>,
    hungriest: BTreeMap<u64, String>,
    only: Option<String>,
}

/// What a server had before it was called.
#[derive(Clone, Copy)]
struct Before {
    /// Its process.
    server: u32,
    /// What was resident.
    bytes: u64,
}

/// How much memory a call may need whose reply is so long: a buffer may be twice as large as what is in
/// it.
fn allowed_bytes(reply_bytes: u64) -> u64 {
    CALL_BYTES_MAX + 2 * reply_bytes
}

impl Trial {
    fn start() -> Trial {
        let server = start_server();
        let (control, mut caller) = (server.connect(), server.connect());
        let caller_id = caller.words("CLIENT ID").text();
        Trial {
            server,
            fixtures: fixtures(),
            control,
            caller,
            caller_id,
            calls: 0,
            slowest: BTreeMap::new(),
            hungriest: BTreeMap::new(),
            only: std::env::var("INDELIBLE_COMMAND").ok(),
        }
    }

    /// Makes the values from which the calls' keys are copied, and nothing else.
    fn prepare(&mut self) {
        self.reconnect();
        self.control.words("FLUSHALL");
        self.control.words(&format!("SELECT {SPARE_DB}"));
        for fixture in self.fixtures.iter().filter(|fixture| !fixture.call.is_empty()) {
            let mut call = fixture.call.clone();
            call[1] = fixture.name.to_owned();
            let reply = self.control.call(&call).unwrap();
            assert!(!reply.is_error(), "{reply:?}");
        }
        self.control.words("SELECT 0");
    }

    fn reconnect(&mut self) {
        self.control = self.server.connect();
        self.new_caller();
    }

    fn new_caller(&mut self) {
        self.caller = self.server.connect();
        self.caller_id = self.caller.words("CLIENT ID").text();
    }

    /// Calls a form with every extreme in every slot. How many calls that were.
    fn try_form(&mut self, shape: &Shape, form: &[Slot]) -> usize {
        if self.only.as_ref().is_some_and(|only| *only != shape.name) {
            return 1;
        }
        let calls = variations(form);
        let has_key = form.contains(&Slot::Key);
        for at in 0..self.fixtures.len() {
            let fixture = &self.fixtures[at];
            let name = fixture.name;
            if name != "missing" && !(has_key && fixture.is_for(&shape.group)) {
                continue;
            }
            self.refresh(name);
            let before = self.begin_batch();
            let mut reply_bytes = 0;
            for call in &calls {
                reply_bytes = reply_bytes.max(self.try_call(shape, name, call));
            }
            if self.growth(before, &format!("{} on {name}", spell(&calls[0])))
                > allowed_bytes(reply_bytes)
            {
                // All together, with what the allocator has not given back yet: which of them is it?
                for call in &calls {
                    self.try_alone(shape, name, call);
                }
            }
        }
        calls.len()
    }

    /// How much memory the server has, when it gives back nothing more of what the calls before took:
    /// what it gave back between the two looks would seem to be needed again.
    fn begin_batch(&mut self) -> Before {
        let started = Instant::now();
        loop {
            forget_peak(&self.server);
            let now = resident_bytes(&self.server, "VmRSS");
            let most = resident_bytes(&self.server, "VmHWM");
            if most.saturating_sub(now) < CALL_BYTES_MAX / 16 {
                return Before { server: self.server.pid(), bytes: now };
            }
            assert!(started.elapsed() < HUNG, "the memory shrinks without end");
        }
    }

    /// How much memory the server took since then; nothing if it was ended and started anew.
    fn growth(&mut self, before: Before, what: &str) -> u64 {
        if before.server != self.server.pid() {
            return 0;
        }
        let most = resident_bytes(&self.server, "VmHWM").saturating_sub(before.bytes);
        self.hungriest.insert(most, what.to_owned());
        if self.hungriest.len() > 5 {
            self.hungriest.pop_first();
        }
        most
    }

    /// Makes one call that must not need more memory than a call may.
    fn try_alone(&mut self, shape: &Shape, fixture: &str, call: &[Vec<u8>]) {
        self.refresh(fixture);
        self.control.words("MEMORY PURGE");
        let before = self.begin_batch();
        let allowed = allowed_bytes(self.try_call(shape, fixture, call));
        let what = format!("{} on {fixture}", spell(call));
        let most = self.growth(before, &what);
        assert!(most <= allowed, "{what}: {most} bytes of memory, {allowed} allowed");
    }

    /// Makes one call on fresh values, and sees to it that the server goes on. How long the reply was.
    fn try_call(&mut self, shape: &Shape, fixture: &str, call: &[Vec<u8>]) -> u64 {
        if is_left_out(call) {
            return 0;
        }
        let name = shape.name.as_str();
        let place = || format!("{} on {fixture}", spell(call));
        if !shape.has_flag("readonly") {
            self.refresh(fixture);
        }
        if CHANGE_CONNECTION.contains(&name) {
            self.new_caller();
        }
        self.calls += 1;
        let cpu = cpu_time(&self.server);
        let started = Instant::now();
        if self.caller.send_bytes(&encode(call)).is_err() {
            self.new_caller();
            return 0;
        }
        let reply = self.await_reply(shape, &place);
        let elapsed = started.elapsed();
        if elapsed > call_max() && !may_wait(shape) && !SILENT.contains(&name) {
            // Others use this machine too: what counts is what the server did meanwhile.
            let spent = cpu_time(&self.server).saturating_sub(cpu);
            assert!(spent <= call_max(), "{}: {elapsed:?}, {spent:?} of work", place());
        }
        self.slowest.insert(elapsed, place());
        if self.slowest.len() > 10 {
            self.slowest.pop_first();
        }
        if CHANGE_CONNECTION.contains(&name) || name.starts_with("client|") {
            self.control = self.server.connect();
            self.new_caller();
            self.control.words("CLIENT UNPAUSE");
        }
        reply.map_or(0, |reply| size_of_reply(&reply))
    }

    /// Puts fresh values where the calls look for them.
    fn refresh(&mut self, fixture: &str) {
        let mut bytes = encode(&["FLUSHDB"]);
        let copies = if fixture == "missing" { 0 } else { 2 };
        for key in ["key1", "key2"].iter().take(copies) {
            let copy = ["COPY", fixture, key, "DB", "0"];
            bytes.extend(encode(&["SELECT", SPARE_DB]));
            bytes.extend(encode(&copy));
        }
        bytes.extend(encode(&["SELECT", "0"]));
        let sent = self.control.send_bytes(&bytes);
        let replies: Vec<Reply> =
            (0..2 + 2 * copies).filter_map(|_| self.control.receive().ok()).collect();
        let copied = replies.iter().filter(|reply| reply.text() == "1").count();
        if sent.is_err() || replies.len() != 2 + 2 * copies || copied != copies {
            self.prepare();
        }
    }

    /// Waits until the call is answered, ends its connection, or waits for what does not come.
    fn await_reply(&mut self, shape: &Shape, place: &dyn Fn() -> String) -> Option<Reply> {
        let started = Instant::now();
        let waits = may_wait(shape) || SILENT.contains(&shape.name.as_str());
        let patience = if waits { Duration::from_millis(3) } else { HUNG };
        loop {
            match self.caller.receive_within(patience) {
                Ok(Some(reply)) => return Some(reply),
                Ok(None) => assert!(waits && started.elapsed() < HUNG, "{} hangs", place()),
                Err(_) => {
                    // It was closed: that is an answer too, as long as the server goes on.
                    if shape.name == "shutdown" {
                        assert_eq!(self.server.wait_for_exit(), Some(0), "{}", place());
                        self.server.restart();
                    }
                    assert!(self.server.is_running(), "{} ends the server", place());
                    self.reconnect();
                    return None;
                }
            }
            if self.control.call(&["CLIENT", "UNBLOCK", &self.caller_id]).is_err() {
                // It has ended: the caller will see it.
                continue;
            }
            let is_silent = SILENT.contains(&shape.name.as_str());
            if is_silent && started.elapsed() > Duration::from_millis(10) {
                self.new_caller();
                return None;
            }
        }
    }

    fn report(&self) {
        println!("{} calls", self.calls);
        for (elapsed, call) in self.slowest.iter().rev() {
            println!("{elapsed:?} for {call}");
        }
        for (bytes, call) in self.hungriest.iter().rev() {
            println!("{bytes} bytes for {call}");
        }
    }
}

/// Whether a command may keep its client waiting until CLIENT UNBLOCK.
fn may_wait(shape: &Shape) -> bool {
    shape.has_flag("blocking") || shape.name == "wait"
}

fn start_server() -> Server {
    Program::indelible().start(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "no",
        "--enable-debug-command",
        "yes",
        // What a command stores is not what it needs in addition.
        "--proto-max-bulk-len",
        "8mb",
        "--client-output-buffer-limit",
        "normal",
        "32mb",
        "0",
        "0",
    ])
}

fn call_max() -> Duration {
    let is_debug = cfg!(debug_assertions) && std::env::var_os("INDELIBLE_SERVER").is_none();
    if is_debug { CALL_MAX * DEBUG_FACTOR } else { CALL_MAX }
}

/// A form with modest words first, then with each extreme in each slot, then in all numbers at once.
fn variations(form: &[Slot]) -> Vec<Vec<Vec<u8>>> {
    let base: Vec<Vec<u8>> = modest(form);
    let mut calls = vec![base.clone()];
    let mut replace = |positions: &[usize], word: &[u8]| {
        let mut call = base.clone();
        positions.iter().for_each(|&at| call[at] = word.to_vec());
        calls.push(call);
    };
    let huge = [extremes::huge_number(), extremes::huge_text()];
    let numbers: Vec<usize> = (0..form.len()).filter(|&at| form[at].is_number()).collect();
    for (at, slot) in form.iter().enumerate() {
        match slot {
            Slot::Word(_) => {}
            Slot::Key | Slot::Pattern => {
                replace(&[at], b"");
                replace(&[at], &huge[1]);
            }
            Slot::Integer(_) | Slot::Double(_) | Slot::KeyCount(_) | Slot::Text(_) => {
                extremes::NUMBERS.iter().for_each(|number| replace(&[at], number.as_bytes()));
                huge.iter().for_each(|word| replace(&[at], word));
            }
        }
    }
    if numbers.len() > 1 {
        extremes::NUMBERS.iter().for_each(|number| replace(&numbers, number.as_bytes()));
    }
    calls
}

/// Words that the command understands.
fn modest(form: &[Slot]) -> Vec<Vec<u8>> {
    let mut keys = 0;
    let word = |slot: &Slot| match slot {
        Slot::Word(word) => word.clone(),
        Slot::Key => {
            keys += 1;
            format!("key{keys}")
        }
        Slot::KeyCount(count) => count.to_string(),
        Slot::Integer(name) => match name.as_str() {
            "offset" | "cursor" | "start" | "db" | "destination-db" | "index" => "0".to_owned(),
            "bit" => "1".to_owned(),
            _ => "2".to_owned(),
        },
        Slot::Double(_) => "0.5".to_owned(),
        Slot::Pattern => "*1*".to_owned(),
        Slot::Text(name) => match name.as_str() {
            "min" => "-inf".to_owned(),
            "max" => "+inf".to_owned(),
            "encoding" => "u8".to_owned(),
            "offset" | "start" => "0".to_owned(),
            "stop" => "-1".to_owned(),
            _ => "1".to_owned(),
        },
    };
    form.iter().map(word).map(String::into_bytes).collect()
}

/// Calls that do just what they are told when they stop the server for a long time or all its clients.
fn is_left_out(call: &[Vec<u8>]) -> bool {
    let words: Vec<String> =
        call.iter().take(4).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let at_least =
        |number: &str, least: f64| number.trim().parse().is_ok_and(|number: f64| number >= least);
    match words[..] {
        // So many seconds, and what is too many to be counted is refused.
        ["DEBUG", "SLEEP", seconds] => {
            ["1", "+1", "0x10"].contains(&seconds)
                || (at_least(seconds, 1.0) && !at_least(seconds, 1e13))
        }
        ["DEBUG", "POPULATE", count, ..] => at_least(count, 1.0) && !at_least(count, 1e8),
        // It stops CLIENT UNPAUSE too, as in Redis; with WRITE it does not.
        ["CLIENT", "PAUSE", milliseconds] | ["CLIENT", "PAUSE", milliseconds, "ALL"] => {
            at_least(milliseconds, 1.0)
        }
        // It waits for the system's resolver, and for targets: migrate.rs.
        ["MIGRATE", ..] => true,
        _ => false,
    }
}

fn spell(call: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| match word.len() {
        0 => "\"\"".to_owned(),
        1..=90 => String::from_utf8_lossy(word).into_owned(),
        bytes => format!("<{bytes} bytes>"),
    };
    call.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn size_of_reply(reply: &Reply) -> u64 {
    match reply {
        Reply::Line(_, bytes) | Reply::Blob(_, bytes) => u64::try_from(bytes.len()).unwrap() + 16,
        Reply::Null(_) => 8,
        Reply::Many(_, elements) => 16 + elements.iter().map(size_of_reply).sum::<u64>(),
    }
}

/// How long the server's threads have run in all, to the hundredth of a second.
fn cpu_time(server: &Server) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap_or_default();
    // The name may have spaces; user and system time are the 14th and 15th field of all.
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
