//! Writers while memory is full, and its values may leave it when they are durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::restoring::{Said, cold_server, cold_string};
use super::server::{SharedLog, TestServer, Used};
use crate::engine::{ClientKey, Comeback};

const LIMIT_BYTES: u64 = 1 << 20;

/// A server that uses twice what it may, in which nothing that was written is durable, and a writer that
/// waits.
struct Full {
    server: TestServer,
    log: SharedLog,
    used: Used,
    writer: ClientKey,
    other: ClientKey,
}

impl Full {
    fn new() -> Self {
        let used = Used(Arc::new(AtomicU64::new(0)));
        let words = ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu", "--appendfsync", "no"];
        let (server, log) = TestServer::with_log_on(Box::new(used.clone()), &words);
        let (mut server, said): (_, Said) = cold_server((server, log.clone()), 1);
        said.say(cold_string(b"k", &[b'v'; 300], 0));
        said.say(Comeback::Done);
        server.pass_ms(1);
        let (writer, other) = (server.connect(), server.connect());
        assert_eq!(server.send(writer, "SET a 1\r\n"), "+OK\r\n");
        used.0.store(2 * LIMIT_BYTES, Ordering::Relaxed);
        server.clock.us_per_look.store(10, Ordering::Relaxed);
        let mut full = Self { server, log, used, writer, other };
        full.write_until_held_back();
        full
    }

    /// What a command may take before it is known that memory does not become less is one round's.
    fn write_until_held_back(&mut self) {
        for _ in 0..10 {
            let told = self.server.send(self.writer, "APPEND b 1\r\n");
            if self.server.engine.is_held_back(self.writer) {
                assert_eq!(told, "");
                return;
            }
            assert!(told.starts_with(':'), "{told}");
        }
        panic!("the writer does not wait");
    }

    fn is_waiting(&mut self) -> bool {
        let is_waiting = self.server.engine.is_held_back(self.writer);
        assert_eq!(self.server.read(self.writer).is_empty(), is_waiting);
        is_waiting
    }

    fn pass_s(&mut self, seconds: u32) {
        (0..seconds * 10).for_each(|_| self.server.pass_ms(100));
    }

    fn make_durable(&mut self) {
        let log = self.log.0.lock().unwrap();
        log.durable.store(log.open - 1, Ordering::Relaxed);
    }

    fn told(&mut self) -> String {
        self.server.pass_ms(1);
        self.server.pass_ms(1);
        assert!(!self.server.engine.is_held_back(self.writer));
        self.server.read(self.writer)
    }
}

#[test]
fn a_writer_waits_for_memory_and_goes_on_when_there_is_some() {
    let mut full = Full::new();
    full.pass_s(1);
    assert!(full.is_waiting());
    // Only those do who take memory.
    let (other, client) = (full.other, full.server.connect());
    assert_eq!(full.server.send(other, "GET a\r\nSTRLEN k\r\nDEL c\r\n"), "$1\r\n1\r\n:300\r\n:0\r\n");
    assert_eq!(full.server.send(client, "MULTI\r\nINCR a\r\n"), "+OK\r\n+QUEUED\r\n");
    assert_eq!(full.server.send(client, "EXEC\r\nPING\r\n"), "");
    full.used.0.store(LIMIT_BYTES, Ordering::Relaxed);
    assert!(full.told().starts_with(':'));
    assert_eq!(full.server.read(client), "*1\r\n:2\r\n+PONG\r\n");
}

#[test]
fn a_device_that_takes_long_refuses_no_write() {
    let mut full = Full::new();
    full.pass_s(30);
    assert!(full.is_waiting(), "what was written is not durable yet");
    // What it has, does not become less now that it may.
    full.make_durable();
    full.pass_s(1);
    assert!(full.is_waiting(), "values may leave memory now");
    full.pass_s(10);
    assert!(full.told().starts_with("-OOM"));
    let writer = full.writer;
    assert!(full.server.send(writer, "SET a 2\r\n").starts_with("-OOM"), "it does not wait again");
    assert_eq!(full.server.send(writer, "DEL b\r\n"), ":1\r\n");
}

#[test]
fn who_was_refused_writes_again_when_memory_becomes_less() {
    for becomes_bytes in [LIMIT_BYTES, 3 * LIMIT_BYTES / 2] {
        let mut full = Full::new();
        full.make_durable();
        full.pass_s(10);
        assert!(full.told().starts_with("-OOM"));
        full.used.0.store(becomes_bytes, Ordering::Relaxed);
        full.pass_s(1);
        let writer = full.writer;
        // Above the limit, the rounds of commands have to see that it became less.
        let told = (0..20).map(|_| full.server.send(writer, "INCR a\r\n")).last().unwrap();
        let waits = full.server.engine.is_held_back(writer);
        assert!(told.starts_with(':') || waits, "{becomes_bytes} bytes: {told}");
        full.used.0.store(0, Ordering::Relaxed);
        full.server.pass_ms(1);
        let more = full.told();
        assert!(if waits { more.starts_with(':') } else { more.is_empty() }, "{more}");
    }
}

#[test]
fn a_setting_ends_the_wait() {
    for (setting, told) in [
        ("maxmemory 4mb", ":"),
        ("maxmemory 0", ":"),
        ("maxmemory-policy noeviction", "-OOM"),
        ("maxmemory-policy allkeys-lru", ":"),
    ] {
        let mut full = Full::new();
        let other = full.other;
        assert_eq!(full.server.send(other, &format!("CONFIG SET {setting}\r\n")), "+OK\r\n");
        let is = full.told();
        assert!(is.starts_with(told), "{setting}: {is}");
    }
}

#[test]
fn a_log_that_fails_tells_who_waits() {
    let mut full = Full::new();
    full.log.0.lock().unwrap().read_only = true;
    let is = full.told();
    assert!(is.starts_with("-MISCONF") || is.starts_with("-READONLY") || is.starts_with("-OOM"), "{is}");
}
