//! Sends the scripts of `tests/conformance` to redis-server and to Indelible and compares the replies.
//!
//! One test a script, so that a failure names its command family; every mismatch of a script is listed,
//! not only the first. The language of the scripts is described in [`crate::script`].

use crate::peers;
use crate::process::{PATIENCE, Program, Server};
use crate::script::{self, Action, Comparison, Section, Step};
use crate::wire::{Connection, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many mismatches of one script are shown.
const SHOWN_MAX: usize = 60;

macro_rules! conformance {
    ($($family:ident),* $(,)?) => {
        $(#[test]
        fn $family() {
            compare_script(concat!(stringify!($family), ".txt"));
        })*

        #[test]
        fn every_script_has_its_test() {
            let known: BTreeSet<String> = [$(concat!(stringify!($family), ".txt").to_owned()),*].into();
            let found: BTreeSet<String> = std::fs::read_dir(scripts())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            assert_eq!(found, known);
        }
    };
}

conformance!(
    acl_8_2,
    bitops,
    bitops_8_2,
    client,
    config,
    dump,
    functions,
    geo,
    hash,
    hyperloglog,
    keys,
    later_8_2,
    list,
    migrate,
    multi,
    protocol,
    pubsub,
    redis_exporter,
    redis_insight,
    scan,
    scripting,
    server,
    set,
    sort,
    stream,
    stream_8_2,
    string,
    tracking,
    zset,
);

fn scripts() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

/// The server that a script is compared with: Redis 7.0, unless its name says another version.
fn reference(name: &str) -> Option<Program> {
    if name.ends_with("_8_2.txt") { Some(peers::of("8.2")?.program) } else { Program::redis() }
}

fn compare_script(name: &str) {
    let Some(redis) = reference(name) else { return };
    let text = std::fs::read_to_string(scripts().join(name)).unwrap();
    let options = ["--enable-debug-command", "yes", "--appendonly", "no", "--save", ""];
    let redis_options = [&options[..], &["--save", ""]].concat();
    let (redis, indelible) = (redis.start(&redis_options), Program::indelible().start(&options));
    let mut report = Report::default();
    for section in script::parse(&text) {
        for &protocol in &section.protocols {
            let mut run = Run {
                sides: [Side::new(&redis, protocol), Side::new(&indelible, protocol)],
                report: &mut report,
            };
            run.section(&section, protocol);
        }
    }
    println!("{name}: {} replies compared", report.compared);
    assert!(report.mismatches == 0, "{name}: {} mismatches\n{}", report.mismatches, report.text);
    assert!(report.compared > 0, "{name} compares nothing");
}

#[derive(Default)]
struct Report {
    compared: usize,
    mismatches: usize,
    text: String,
}

/// One of the two servers during a section.
struct Side {
    port: u16,
    protocol: u8,
    connections: BTreeMap<u32, Connection>,
    variables: BTreeMap<String, Vec<u8>>,
}

impl Side {
    fn new(server: &Server, protocol: u8) -> Side {
        Side {
            port: server.port,
            protocol,
            connections: BTreeMap::new(),
            variables: BTreeMap::new(),
        }
    }

    fn open(&self) -> Result<Connection, String> {
        let hello = ["HELLO".to_owned(), self.protocol.to_string()];
        let mut connection = Connection::open(self.port).map_err(|e| e.to_string())?;
        connection.call(&hello).map_err(|e| e.to_string())?;
        Ok(connection)
    }

    fn connection(&mut self, number: u32) -> Result<&mut Connection, String> {
        if !self.connections.contains_key(&number) {
            let connection = self.open()?;
            self.connections.insert(number, connection);
        }
        self.connections.get_mut(&number).ok_or_else(|| "no connection".to_owned())
    }

    /// The words with `%{name}` replaced by what was remembered.
    fn filled(&self, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let fill = |word: &Vec<u8>| {
            let name = word.strip_prefix(b"%{").and_then(|rest| rest.strip_suffix(b"}"));
            let value = name
                .and_then(|name| self.variables.get(&String::from_utf8_lossy(name).into_owned()));
            value.unwrap_or(word).clone()
        };
        words.iter().map(fill).collect()
    }

    fn call(&mut self, number: u32, words: &[Vec<u8>]) -> Result<(Reply, Vec<u8>), String> {
        let words = self.filled(words);
        let connection = self.connection(number)?;
        connection.send(&words).map_err(|e| e.to_string())?;
        connection.receive_exact().map_err(|e| e.to_string())
    }

    /// Calls until the reply satisfies a condition.
    fn call_until(
        &mut self,
        words: &[Vec<u8>],
        satisfied: impl Fn(&Reply) -> bool,
    ) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let (reply, _) = self.call(0, words)?;
            if satisfied(&reply) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("still {:?}", reply.text()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Everything that an iteration returns, as a set.
    fn scan(&mut self, number: u32, words: &[Vec<u8>]) -> Result<BTreeSet<Vec<Reply>>, String> {
        let at = if words[0].eq_ignore_ascii_case(b"SCAN") { 1 } else { 2 };
        let pairs =
            words[0].eq_ignore_ascii_case(b"HSCAN") || words[0].eq_ignore_ascii_case(b"ZSCAN");
        let mut words = words.to_vec();
        words.insert(at, b"0".to_vec());
        let mut found = BTreeSet::new();
        for _ in 0..100_000 {
            let (reply, bytes) = self.call(number, &words)?;
            let [cursor, elements] = reply.elements() else {
                return Err(String::from_utf8_lossy(&bytes).into_owned());
            };
            let elements = elements.elements();
            found.extend(elements.chunks(if pairs { 2 } else { 1 }).map(<[Reply]>::to_vec));
            if cursor.text() == "0" {
                return Ok(found);
            }
            words[at] = cursor.text().into_bytes();
        }
        Err("the iteration does not end".to_owned())
    }
}

/// A section being run on both servers.
struct Run<'a> {
    sides: [Side; 2],
    report: &'a mut Report,
}

impl Run<'_> {
    fn section(&mut self, section: &Section, protocol: u8) {
        for words in ["CLIENT UNPAUSE", "FLUSHALL", "CONFIG RESETSTAT", "SLOWLOG RESET"] {
            for side in &mut self.sides {
                let words: Vec<Vec<u8>> = words.split(' ').map(|word| word.into()).collect();
                if let Err(problem) = side.call(0, &words) {
                    self.mismatch(&format!("before {}", section.title), "", &problem);
                    return;
                }
            }
        }
        for step in &section.steps {
            let place = format!("line {} ({}, RESP{protocol})", step.line, section.title);
            if let Err(problem) = self.step(step, &place) {
                // Without the reply the rest of the section means nothing.
                self.mismatch(&format!("{place}: {}", step.text), "", &problem);
                return;
            }
        }
    }

    fn step(&mut self, step: &Step, place: &str) -> Result<(), String> {
        let number = step.connection;
        let place = format!("{place}: {}", step.text);
        match &step.action {
            Action::Command(words, comparison) => {
                let replies = self.both(|side| side.call(number, words))?;
                self.compare(&place, comparison, &replies);
            }
            Action::Repeated(from, to, words, comparison) => {
                for i in *from..=*to {
                    let words: Vec<Vec<u8>> = words.iter().map(|word| numbered(word, i)).collect();
                    let replies = self.both(|side| side.call(number, &words))?;
                    self.compare(&format!("{place} (%i = {i})"), comparison, &replies);
                }
            }
            Action::Scan(words) => {
                let [expected, found] = self.both(|side| side.scan(number, words))?;
                self.report.compared += 1;
                if expected != found {
                    self.mismatch(&place, &format!("{expected:?}"), &format!("{found:?}"));
                }
            }
            Action::Until(wanted, words) => {
                self.both(|side| side.call_until(words, |reply| reply.text() == *wanted))?;
            }
            Action::Blocked(count) => {
                let wanted = format!("blocked_clients:{count}\r\n");
                let words = [b"INFO".to_vec(), b"clients".to_vec()];
                self.both(|side| side.call_until(&words, |reply| reply.text().contains(&wanted)))?;
            }
            Action::Remember(name, words) => {
                self.both(|side| {
                    let (reply, _) = side.call(number, words)?;
                    let (Reply::Line(_, text) | Reply::Blob(_, text)) = reply else {
                        return Err(format!("{reply:?} is no text to remember"));
                    };
                    side.variables.insert(name.clone(), text);
                    Ok(())
                })?;
            }
            Action::Send(words) => {
                self.both(|side| {
                    let words = side.filled(words);
                    side.connection(number)?.send(&words).map_err(|e| e.to_string())
                })?;
            }
            Action::Raw(bytes) => {
                let replies = self.both(|side| {
                    let connection = side.connection(number)?;
                    connection.send_bytes(bytes).map_err(|e| e.to_string())?;
                    connection.receive_exact().map_err(|e| e.to_string())
                })?;
                self.compare(&place, &Comparison::Exact, &replies);
            }
            Action::Bytes(bytes) => {
                self.both(|side| {
                    side.connection(number)?.send_bytes(bytes).map_err(|e| e.to_string())
                })?;
            }
            Action::Read(comparison) => {
                let replies = self.both(|side| {
                    side.connection(number)?.receive_exact().map_err(|e| e.to_string())
                })?;
                self.compare(&place, comparison, &replies);
            }
            Action::Closed => {
                self.both(|side| match side.connection(number)?.is_closed() {
                    true => Ok(()),
                    false => Err("the connection is still open".to_owned()),
                })?;
            }
            Action::Close => {
                self.both(|side| Ok(side.connections.remove(&number)))?;
            }
        }
        Ok(())
    }

    /// Does the same on redis-server and on Indelible, and says which of them failed.
    fn both<T>(
        &mut self,
        mut act: impl FnMut(&mut Side) -> Result<T, String>,
    ) -> Result<[T; 2], String> {
        let [redis, indelible] = &mut self.sides;
        let expected = act(redis).map_err(|problem| format!("redis-server: {problem}"));
        let found = act(indelible).map_err(|problem| format!("Indelible: {problem}"));
        Ok([expected?, found?])
    }

    fn compare(
        &mut self,
        place: &str,
        comparison: &Comparison,
        [expected, found]: &[(Reply, Vec<u8>); 2],
    ) {
        self.report.compared += 1;
        if !same(comparison, expected, found) {
            self.mismatch(place, &shown(&expected.1), &shown(&found.1));
        }
    }

    fn mismatch(&mut self, place: &str, expected: &str, found: &str) {
        self.report.mismatches += 1;
        if self.report.mismatches <= SHOWN_MAX {
            let text = &mut self.report.text;
            writeln!(text, "{place}\n    redis:     {expected}\n    indelible: {found}").unwrap();
        }
    }
}

fn numbered(word: &[u8], i: i64) -> Vec<u8> {
    match std::str::from_utf8(word) {
        Ok(text) => text.replace("%i", &i.to_string()).into_bytes(),
        Err(_) => word.to_vec(),
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    if text.len() > 500 { format!("{}… ({} bytes)", &text[..500], bytes.len()) } else { text }
}

fn same(comparison: &Comparison, expected: &(Reply, Vec<u8>), found: &(Reply, Vec<u8>)) -> bool {
    let (expected_reply, found_reply) = (&expected.0, &found.0);
    let same_kind = expected_reply.kind() == found_reply.kind();
    match comparison {
        Comparison::Exact => expected.1 == found.1,
        Comparison::Sorted => same_kind && sorted(expected_reply, 1) == sorted(found_reply, 1),
        Comparison::SortedPairs => same_kind && sorted(expected_reply, 2) == sorted(found_reply, 2),
        Comparison::Near(tolerance) => {
            let numbers = (expected_reply.text().parse::<f64>(), found_reply.text().parse::<f64>());
            match numbers {
                (Ok(expected), Ok(found)) => same_kind && (expected - found).abs() <= *tolerance,
                _ => false,
            }
        }
        Comparison::Type => same_kind,
        Comparison::Count => {
            same_kind && expected_reply.elements().len() == found_reply.elements().len()
        }
        Comparison::Fields => same_kind && fields(expected_reply) == fields(found_reply),
        Comparison::Ignored => true,
    }
}

/// The elements in order, `width` of them kept together; of scalars the scalar itself.
fn sorted(reply: &Reply, width: usize) -> Vec<Vec<Reply>> {
    let Reply::Many(_, elements) = reply else { return vec![vec![reply.clone()]] };
    let mut groups: Vec<Vec<Reply>> = elements.chunks(width).map(<[Reply]>::to_vec).collect();
    groups.sort();
    groups
}

fn fields(reply: &Reply) -> BTreeSet<String> {
    reply.elements().iter().step_by(2).map(Reply::text).collect()
}
