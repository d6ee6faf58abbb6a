//! Clients that wait for keys, and whose commands need what has left memory meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{DbId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{KeyHasher, Missing, Restored};

use super::restoring::{SEED, Said, cold_server};
use super::server::{SharedLog, TestServer, host_of};
use super::threads::Threads;
use crate::engine::{ClientKey, Comeback, Fetched, Wanted};

/// A list of one element, of which the log alone has more than the name.
struct Cold {
    server: TestServer,
    log: SharedLog,
    threads: Threads,
    /// What was asked for and has not come.
    asked: Option<Missing>,
    /// Moves what comes into `src` to the cold list; and waits behind it for `src`.
    waiters: [ClientKey; 2],
    other: ClientKey,
}

fn list() -> Restored {
    let value = [&b"\0\x7f"[..], &[b'a'; 127]].concat();
    let record = Record::whole(RecordKind::ListPacked, DbId(0), b"dst", &value, None);
    Restored::of(&record, RecordAddr::new(SegmentId(1), 0), KeyHasher::new(SEED)).unwrap()
}

impl Cold {
    fn new(command: &str) -> Self {
        let used = Arc::new(AtomicU64::new(0));
        let words = ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu", "--appendfsync", "no"];
        let (server, log) = TestServer::with_log_on(host_of(&used), &words);
        let (mut server, said): (_, Said) = cold_server((server, log.clone()), 1);
        said.say(Comeback::Keys(vec![list()]));
        said.say(Comeback::Done);
        server.pass_ms(1);
        let threads = Threads::default();
        server.engine.fetch_from(Box::new(threads.clone()));
        let waiters = [server.connect(), server.connect()];
        assert_eq!(server.send(waiters[0], command), "");
        assert_eq!(server.send(waiters[1], "BLPOP src 0\r\n"), "");
        let other = server.connect();
        used.store(2 << 20, Ordering::Relaxed);
        assert_eq!(server.send(other, "PING\r\n"), "+PONG\r\n");
        used.store(0, Ordering::Relaxed);
        let mut cold = Self { server, log, threads, asked: None, waiters, other };
        assert_eq!(cold.figure("evicted_values"), "1");
        cold
    }

    fn send(&mut self, command: &str) -> String {
        self.server.send(self.other, command)
    }

    fn figure(&mut self, name: &str) -> String {
        let info = self.send("INFO everything\r\n");
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name} in {info}")).to_owned()
    }

    fn replies(&mut self) -> [String; 2] {
        self.waiters.map(|client| self.server.read(client))
    }

    /// The list is asked for, once.
    fn assert_asked(&mut self) {
        while let Some(wanted) = self.threads.asked() {
            let Wanted::Missing(missing) = wanted else { panic!("nothing else is wanted") };
            assert_eq!(&missing.key[..], b"dst");
            assert!(self.asked.replace(missing).is_none(), "once");
        }
        assert!(self.asked.is_some());
    }

    fn answer(&mut self, restored: Option<Restored>) {
        self.assert_asked();
        let missing = self.asked.take().unwrap();
        self.threads.answer(Fetched::Missing(missing, restored));
        self.server.pass_ms(1);
    }

    /// What was read is charged no more, and nothing was read in a command.
    fn assert_over(&mut self) {
        assert_eq!(self.figure("cold_fetched_bytes"), "0");
        assert_eq!(self.figure("cold_blocking_fetches"), "0");
    }
}

#[test]
fn a_client_is_served_in_its_place_when_what_its_command_needs_is_there() {
    for command in ["BLMOVE src dst RIGHT LEFT 0\r\n", "BRPOPLPUSH src dst 0\r\n"] {
        let mut cold = Cold::new(command);
        assert_eq!(cold.send("RPUSH src x y\r\n"), ":2\r\n");
        cold.assert_asked();
        assert_eq!(cold.send("RPUSH src z\r\n"), ":3\r\n");
        cold.assert_asked();
        assert_eq!(cold.replies(), ["", ""], "one waits for the list, the other one behind it");
        cold.answer(Some(list()));
        assert_eq!(cold.replies(), ["$1\r\nz\r\n", "*2\r\n$3\r\nsrc\r\n$1\r\nx\r\n"]);
        let (left, moved) = (cold.send("LRANGE src 0 -1\r\n"), cold.send("LLEN dst\r\n"));
        assert_eq!((&left[..], &moved[..]), ("*1\r\n$1\r\ny\r\n", ":2\r\n"));
        cold.assert_over();
    }
}

#[test]
fn the_time_of_a_client_runs_while_what_its_command_needs_is_read() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 1\r\n");
    assert_eq!(cold.send("RPUSH src x y\r\n"), ":2\r\n");
    cold.assert_asked();
    cold.server.pass_ms(1100);
    let behind = "*2\r\n$3\r\nsrc\r\n$1\r\nx\r\n";
    assert_eq!(cold.replies(), ["*-1\r\n", behind], "the one behind it is served");
    cold.answer(Some(list()));
    cold.assert_over();
    // It can do anything again.
    assert_eq!(cold.server.send(cold.waiters[0], "LMOVE src dst LEFT LEFT\r\n"), "$1\r\ny\r\n");
    assert_eq!(cold.figure("cold_blocking_fetches"), "0");
}

#[test]
fn a_client_that_goes_while_what_its_command_needs_is_read_lets_others_be_served() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 0\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    cold.assert_asked();
    cold.server.engine.remove(cold.waiters[0]);
    cold.server.pass_ms(1);
    assert_eq!(cold.server.read(cold.waiters[1]), "*2\r\n$3\r\nsrc\r\n$1\r\nx\r\n");
    cold.answer(Some(list()));
    cold.assert_over();
}

#[test]
fn a_client_waits_on_when_others_were_faster_than_what_its_command_needs() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 0\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    assert_eq!(cold.send("LPOP src\r\n"), "$1\r\nx\r\n");
    assert_eq!(cold.send("RPUSH src z\r\n"), ":1\r\n");
    cold.assert_asked();
    assert_eq!(cold.replies(), ["", ""]);
    assert_eq!(cold.send("LPOP src\r\n"), "$1\r\nz\r\n");
    cold.answer(Some(list()));
    assert_eq!(cold.replies(), ["", ""]);
    cold.assert_over();
    assert_eq!(cold.send("RPUSH src y\r\n"), ":1\r\n");
    assert_eq!(cold.replies(), ["$1\r\ny\r\n", ""], "the list is in memory now");
    cold.assert_over();
}

#[test]
fn what_cannot_be_read_costs_the_client_that_needs_it_no_element() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 0\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    cold.answer(None);
    let [first, second] = cold.replies();
    assert!(first.starts_with("-IOERR"), "{first}");
    assert_eq!(second, "*2\r\n$3\r\nsrc\r\n$1\r\nx\r\n");
    assert_eq!(cold.figure("cold_fetched_bytes"), "0");
}

#[test]
fn no_client_is_served_while_writes_are_paused() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 0\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    assert_eq!(cold.send("CLIENT PAUSE 1000 WRITE\r\n"), "+OK\r\n");
    cold.answer(Some(list()));
    assert_eq!(cold.send("LLEN src\r\n"), ":1\r\n");
    assert_eq!(cold.replies(), ["", ""]);
    cold.server.pass_ms(1100);
    assert_eq!(cold.replies(), ["$1\r\nx\r\n", ""]);
    cold.assert_over();
}

#[test]
fn what_a_client_does_not_wait_for_any_more_is_not_charged_whatever_the_log_takes() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 1\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    cold.log.0.lock().unwrap().read_only = true;
    cold.answer(Some(list()));
    cold.server.pass_ms(1100);
    assert_eq!(cold.replies(), ["*-1\r\n", ""]);
    cold.assert_over();
    cold.log.0.lock().unwrap().read_only = false;
    cold.server.pass_ms(100);
    assert_eq!(cold.replies(), ["", "*2\r\n$3\r\nsrc\r\n$1\r\nx\r\n"]);
}

#[test]
fn no_client_is_served_while_the_log_takes_nothing() {
    let mut cold = Cold::new("BLMOVE src dst LEFT LEFT 0\r\n");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":1\r\n");
    cold.log.0.lock().unwrap().read_only = true;
    cold.answer(Some(list()));
    assert_eq!(cold.send("LLEN src\r\n"), ":1\r\n");
    assert_eq!(cold.replies(), ["", ""]);
    cold.log.0.lock().unwrap().read_only = false;
    cold.server.pass_ms(100);
    assert_eq!(cold.replies(), ["$1\r\nx\r\n", ""]);
    cold.assert_over();
}

/// Each change of the source calls it again.
#[test]
fn a_client_that_waits_for_elements_asks_for_nothing_else_before_they_are_there() {
    let mut cold = Cold::new("BLMOVEM src dst LEFT RIGHT 0 EXACTLY 3 BULK\r\n");
    // It would take what is pushed.
    cold.server.engine.remove(cold.waiters[1]);
    for (command, reply) in [
        ("RPUSH src x\r\n", ":1\r\n"),
        ("RPUSH src y\r\n", ":2\r\n"),
        ("LPOP src\r\n", "$1\r\nx\r\n"),
        ("DEL src\r\n", ":1\r\n"),
        ("SET src x\r\n", "+OK\r\n"),
        ("DEL src\r\n", ":1\r\n"),
        ("RPUSH src x y\r\n", ":2\r\n"),
    ] {
        assert_eq!(cold.send(command), reply);
        assert!(cold.threads.asked().is_none(), "{command}");
        assert_eq!(cold.figure("cold_blocking_fetches"), "0", "{command}");
    }
    assert_eq!(cold.send("RPUSH src z\r\n"), ":3\r\n");
    cold.assert_asked();
    assert_eq!(cold.server.read(cold.waiters[0]), "");
    // Too few again while it is read: it waits on.
    assert_eq!(cold.send("LPOP src\r\n"), "$1\r\nx\r\n");
    cold.answer(Some(list()));
    assert_eq!(cold.server.read(cold.waiters[0]), "");
    assert_eq!(cold.send("RPUSH src x\r\n"), ":3\r\n");
    let moved = "*3\r\n$1\r\ny\r\n$1\r\nz\r\n$1\r\nx\r\n";
    assert_eq!(cold.server.read(cold.waiters[0]), moved);
    assert_eq!(cold.send("LLEN dst\r\n"), ":4\r\n");
    cold.assert_over();
}
