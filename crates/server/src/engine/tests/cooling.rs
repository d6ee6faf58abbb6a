//! Writers while memory is full, and its values may leave it when they are durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{DbId, Lsn};

use super::restoring::{Said, cold_server, cold_string};
use super::server::{SharedLog, TestServer, host_of};
use crate::engine::{ClientKey, Comeback, Fetched, Fetching, Wanted};

const LIMIT_BYTES: u64 = 1 << 20;

/// An index that knows nothing of what is written, yet.
pub(super) struct Behind;

impl Fetching for Behind {
    fn ask(&mut self, _: Wanted) -> bool {
        false
    }

    fn indexed_lsn(&mut self) -> Option<Lsn> {
        Some(Lsn::ZERO)
    }

    fn pin(&mut self, _: bool) {}

    fn pin_dropped(&mut self, _: DbId) {}

    fn take(&mut self) -> Option<Fetched> {
        None
    }

    fn take_garbage(&mut self) -> Option<Fetched> {
        None
    }
}

/// A server that uses twice what it may, in which nothing that was written is durable, and a writer that
/// waits.
struct Full {
    server: TestServer,
    log: SharedLog,
    used: Arc<AtomicU64>,
    writer: ClientKey,
    other: ClientKey,
}

impl Full {
    /// With an index, so that keys may leave memory as well, or without.
    fn new(has_index: bool) -> Self {
        let used = Arc::new(AtomicU64::new(0));
        let words = ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu", "--appendfsync", "no"];
        let (server, log) = TestServer::with_log_on(host_of(&used), &words);
        let (mut server, said): (_, Said) = cold_server((server, log.clone()), 1);
        said.say(cold_string(b"k", &[b'v'; 300], 0));
        said.say(Comeback::Done);
        server.pass_ms(1);
        if has_index {
            log.0.lock().unwrap().indexed = Some(Lsn::ZERO);
            server.engine.fetch_from(Box::new(Behind));
        }
        let (writer, other) = (server.connect(), server.connect());
        assert_eq!(server.send(writer, "SET a 1\r\n"), "+OK\r\n");
        used.store(2 * LIMIT_BYTES, Ordering::Relaxed);
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
            assert!(told.starts_with(':') || told.starts_with("-OOM"), "{told}");
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
    for has_index in [false, true] {
        let mut full = Full::new(has_index);
        full.pass_s(1);
        assert!(full.is_waiting());
        // Only clients wait that take memory.
        let (other, client) = (full.other, full.server.connect());
        let told = full.server.send(other, "GET a\r\nSTRLEN k\r\nDEL c\r\n");
        assert_eq!(told, "$1\r\n1\r\n:300\r\n:0\r\n");
        assert_eq!(full.server.send(client, "MULTI\r\nINCR a\r\n"), "+OK\r\n+QUEUED\r\n");
        assert_eq!(full.server.send(client, "EXEC\r\nPING\r\n"), "");
        full.used.store(LIMIT_BYTES, Ordering::Relaxed);
        assert!(full.told().starts_with(':'));
        assert_eq!(full.server.read(client), "*1\r\n:2\r\n+PONG\r\n");
    }
}

#[test]
fn a_device_that_takes_long_refuses_no_write() {
    for has_index in [false, true] {
        let mut full = Full::new(has_index);
        full.pass_s(30);
        assert!(full.is_waiting(), "what was written is not durable yet");
        full.make_durable();
        full.pass_s(1);
        if has_index {
            assert!(full.is_waiting(), "what the index does not know yet, it may know soon");
            full.pass_s(10);
        }
        // What is left can never go.
        assert!(full.told().starts_with("-OOM"));
        let writer = full.writer;
        let told = full.server.send(writer, "SET a 2\r\nDEL b\r\n");
        assert!(told.starts_with("-OOM") && told.ends_with(":1\r\n"), "it does not wait: {told}");
    }
}

#[test]
fn memory_that_becomes_less_and_less_is_waited_for() {
    let mut full = Full::new(true);
    full.make_durable();
    for step in 1..20 {
        full.used.store(2 * LIMIT_BYTES - step * LIMIT_BYTES / 25, Ordering::Relaxed);
        full.pass_s(1);
        assert!(full.is_waiting(), "for {step} s");
    }
    full.used.store(0, Ordering::Relaxed);
    assert!(full.told().starts_with(':'));
}

#[test]
fn who_was_refused_writes_again_when_memory_becomes_less() {
    for becomes_bytes in [LIMIT_BYTES, 3 * LIMIT_BYTES / 2] {
        let mut full = Full::new(true);
        full.make_durable();
        full.pass_s(10);
        assert!(full.told().starts_with("-OOM"));
        full.used.store(becomes_bytes, Ordering::Relaxed);
        if becomes_bytes > LIMIT_BYTES {
            // A round of the hand has to see that it became less.
            full.write_until_held_back();
            full.used.store(0, Ordering::Relaxed);
        } else {
            let writer = full.writer;
            assert!(full.server.send(writer, "APPEND b 1\r\n").starts_with(':'));
            continue;
        }
        assert!(full.told().starts_with(':'));
    }
}

#[test]
fn a_setting_ends_the_wait() {
    for (setting, told) in [
        ("maxmemory 4mb", ":"),
        ("maxmemory 0", ":"),
        ("maxmemory-policy noeviction", "-OOM"),
        // Nothing but keys can go then, and all of them are not enough.
        ("maxmemory-policy allkeys-lru", "-OOM"),
    ] {
        let mut full = Full::new(true);
        let other = full.other;
        assert_eq!(full.server.send(other, &format!("CONFIG SET {setting}\r\n")), "+OK\r\n");
        let is = full.told();
        assert!(is.starts_with(told), "{setting}: {is}");
    }
}

#[test]
fn a_log_that_fails_tells_who_waits() {
    let mut full = Full::new(true);
    full.log.0.lock().unwrap().read_only = true;
    let is = full.told();
    assert!(is.starts_with("-MISCONF"), "{is}");
}

/// What has come from the log at the start may be in any of its blocks.
#[test]
fn an_index_that_does_not_know_the_start_lets_nothing_leave_memory() {
    let mut full = Full::new(true);
    assert_eq!(full.server.engine.keyspace().indexed_lsn(), Some(Lsn::ZERO));
    for (start, indexed) in [(Lsn(1), None), (Lsn::ZERO, Some(Lsn::ZERO))] {
        full.log.0.lock().unwrap().start = start;
        full.server.pass_ms(1);
        assert_eq!(full.server.engine.keyspace().indexed_lsn(), indexed);
    }
}
