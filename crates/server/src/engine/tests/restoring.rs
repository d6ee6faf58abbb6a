//! Keys that come back by themselves, and what clients see of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{DbId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{ColdStart, KeyHasher, Keyspace, Look, NoJournal, RestoreError, Restored, Restorer};

use super::cooling::Behind;
use super::server::{SharedLog, TestServer, host_of};
use crate::engine::{Comeback, HostRequest, Restoration};

pub(super) const SEED: [u8; 16] = [7; 16];

/// A log that cannot be read.
struct Broken;

impl Restorer for Broken {
    fn find(&mut self, _: DbId, _: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        Err(RestoreError::Io("no such luck".to_owned()))
    }

    fn look(&mut self, _: DbId, _: &[u8]) -> Look {
        Look::Unknown
    }

    fn read(&mut self, _: DbId, _: &[u8], _: RecordAddr) -> Result<Restored, RestoreError> {
        Err(RestoreError::Io("no such luck".to_owned()))
    }
}

/// A log of which the first database can be read, and has nothing.
struct FirstDatabase;

impl Restorer for FirstDatabase {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        if db == DbId(0) { Ok(None) } else { Broken.find(db, key) }
    }

    fn look(&mut self, _: DbId, _: &[u8]) -> Look {
        Look::Unknown
    }

    fn read(&mut self, db: DbId, key: &[u8], at: RecordAddr) -> Result<Restored, RestoreError> {
        Broken.read(db, key, at)
    }
}

/// Says what a test says.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<VecDeque<Comeback>>>);

impl Said {
    pub(super) fn say(&self, comeback: Comeback) {
        self.0.lock().unwrap().push_back(comeback);
    }
}

impl Restoration for Said {
    fn take(&mut self) -> Option<Comeback> {
        self.0.lock().unwrap().pop_front()
    }
}

/// A server with one cold key.
fn server() -> (TestServer, Said) {
    cold_server(TestServer::with_log(&[]), 1)
}

/// A server with so many cold keys, as the index has counted them.
pub(super) fn cold_server(
    (mut server, log): (TestServer, SharedLog),
    keys: u64,
) -> (TestServer, Said) {
    let mut keyspace = Keyspace::new(NoJournal, SEED, 16);
    let cold = ColdStart { keys: vec![(DbId(0), keys)], databases_seen: 1, ..ColdStart::default() };
    keyspace.begin_cold(&cold, Box::new(Broken));
    server.engine.loaded(keyspace, Some(Box::new(log)));
    let said = Said::default();
    server.engine.restore_from(Box::new(said.clone()));
    (server, said)
}

fn cold_key() -> Comeback {
    cold_key_of(b"k", 0)
}

fn cold_key_of(key: &[u8], ordinal: u32) -> Comeback {
    cold_string(key, b"v", ordinal)
}

pub(super) fn cold_string(key: &[u8], value: &[u8], ordinal: u32) -> Comeback {
    let record = Record::whole(RecordKind::String, DbId(0), key, value, None);
    let addr = RecordAddr::new(SegmentId(1), ordinal);
    Comeback::Keys(vec![Restored::of(&record, addr, KeyHasher::new(SEED)).unwrap()])
}

#[test]
fn a_device_that_fails_in_the_background_is_shown_until_it_works_again() {
    let (mut server, said) = server();
    let client = server.connect();
    let info = |server: &mut TestServer| {
        let info = server.send(client, "INFO persistence\r\n");
        let of = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {info}")).to_owned()
        };
        (of("recovery_state:"), of("recovery_last_error:"))
    };
    let restoring = ("restoring".to_owned(), "none".to_owned());
    assert_eq!(info(&mut server), restoring);
    said.say(Comeback::Failing("the disk is away".to_owned()));
    server.pass_ms(1);
    assert_eq!(info(&mut server), ("failing".to_owned(), "the disk is away".to_owned()));
    said.say(Comeback::Again);
    server.pass_ms(1);
    assert_eq!(info(&mut server), restoring);
    said.say(cold_key());
    said.say(Comeback::Done);
    server.pass_ms(1);
    assert_eq!(server.send(client, "GET k\r\n"), "$1\r\nv\r\n");
    assert!(server.send(client, "INFO persistence\r\n").contains("recovery_state:done\r\n"));
}

#[test]
fn a_failing_device_that_has_given_every_key_is_still_tried() {
    let (mut server, said) = server();
    let client = server.connect();
    said.say(Comeback::Failing("the disk is away".to_owned()));
    said.say(cold_key());
    server.pass_ms(1);
    assert_eq!(server.send(client, "GET k\r\n"), "$1\r\nv\r\n");
    // It is not known yet what of the log is garbage.
    assert!(server.send(client, "INFO persistence\r\n").contains("recovery_state:failing\r\n"));
}

#[test]
fn keys_that_were_counted_and_not_found_are_told_although_there_was_no_room_for_others() {
    let words =
        ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu", "--cold-keys-maxmemory", "0"];
    let full = Arc::new(AtomicU64::new(1 << 40));
    for (counted, state, error) in [
        (2, "recovery_state:done\r\n", "recovery_last_error:none\r\n"),
        (
            4,
            "recovery_state:on_demand\r\n",
            "recovery_last_error:2 keys that the index has counted",
        ),
    ] {
        let log = TestServer::with_log_on(host_of(&full), &words);
        let (mut server, said) = cold_server(log, counted);
        let client = server.connect();
        // One finds room, and no other one then.
        said.say(cold_key_of(b"a", 0));
        said.say(cold_key_of(b"b", 1));
        said.say(Comeback::Done);
        server.pass_ms(1);
        let info = server.send(client, "INFO persistence\r\n");
        assert!(info.contains(state) && info.contains(error), "{counted} keys: {info}");
    }
}

#[test]
fn values_leave_memory_while_nothing_may_be_written() {
    let used = Arc::new(AtomicU64::new(0));
    let words = ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu"];
    let log = TestServer::with_log_on(host_of(&used), &words);
    let (mut server, said) = cold_server(log, 1);
    let client = server.connect();
    said.say(cold_string(b"k", &[b'v'; 300], 0));
    said.say(Comeback::Done);
    server.pass_ms(1);
    assert_eq!(server.send(client, "STRLEN k\r\n"), ":300\r\n");
    assert_eq!(server.send(client, "CLIENT PAUSE 60000 WRITE\r\n"), "+OK\r\n");
    used.store(2 << 20, Ordering::Relaxed);
    assert_eq!(server.send(client, "PING\r\n"), "+PONG\r\n");
    let info = server.send(client, "INFO stats\r\n");
    assert!(info.contains("evicted_values:1\r\n"), "{info}");
}

#[test]
fn no_command_of_a_transaction_runs_before_all_of_its_keys_are_known_in_whatever_database() {
    for (first, queued) in [
        ("SET a 1", "SELECT 1\r\nGET k"),
        ("SET a 1", "SWAPDB 0 1\r\nGET k"),
        ("SET a 1", "SELECT 1\r\nSWAPDB 1 2\r\nSELECT 2\r\nGET k"),
        ("SET a 1", "MOVE a 1"),
        ("SET a 1", "COPY a k DB 1"),
    ] {
        let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
        let mut keyspace = Keyspace::new(NoJournal, SEED, 16);
        let keys = vec![(DbId(1), 1)];
        let cold = ColdStart { keys, databases_seen: 2, ..ColdStart::default() };
        keyspace.begin_cold(&cold, Box::new(FirstDatabase));
        server.engine.loaded(keyspace, Some(Box::new(log)));
        server.engine.restore_from(Box::new(Said::default()));
        let client = server.connect();
        let told = server.send(client, &format!("MULTI\r\n{first}\r\n{queued}\r\nEXEC\r\n"));
        // The error is all that EXEC replies.
        let last = told.rsplit("+QUEUED\r\n").next().unwrap();
        assert!(last.starts_with("-IOERR"), "{queued}: {told}");
        assert_eq!(server.send(client, "EXISTS a\r\n"), ":0\r\n", "{queued}");
        // Without that key, nothing stands in its way.
        let told = server.send(client, &format!("MULTI\r\n{first}\r\nGET a\r\nEXEC\r\n"));
        assert!(told.ends_with("*2\r\n+OK\r\n$1\r\n1\r\n"), "{told}");
    }
}

#[test]
fn that_an_index_cannot_be_right_is_not_forgotten_while_the_log_takes_nothing() {
    let (server, log) = TestServer::with_log(&[]);
    let (mut server, said) = cold_server((server, log.clone()), 1);
    log.0.lock().unwrap().read_only = true;
    server.pass_ms(200);
    said.say(Comeback::Distrusted("two and two are five".to_owned()));
    (0..3).for_each(|_| server.pass_ms(200));
    assert_eq!(server.engine.take_request(), None);
    log.0.lock().unwrap().read_only = false;
    (0..3).for_each(|_| server.pass_ms(200));
    assert_eq!(server.engine.take_request(), Some(HostRequest::ReloadAll));
}

#[test]
fn the_log_is_read_again_as_a_whole_when_its_index_cannot_be_right() {
    let (mut server, said) = server();
    said.say(Comeback::Distrusted("two and two are five".to_owned()));
    server.pass_ms(1);
    server.pass_ms(1);
    assert_eq!(server.engine.take_request(), Some(HostRequest::ReloadAll));
    server.pass_ms(1);
    assert_eq!(server.engine.take_request(), None, "it is asked for once");
}

/// Without a policy by which values leave memory it may be full for ever.
#[test]
fn a_start_ends_though_memory_is_full() {
    let used = Arc::new(AtomicU64::new(0));
    let log = TestServer::with_log_on(host_of(&used), &["--maxmemory", "1mb"]);
    let (mut server, said) = cold_server(log, 1);
    server.engine.fetch_from(Box::new(Behind));
    used.store(2 << 20, Ordering::Relaxed);
    said.say(cold_key());
    said.say(Comeback::Done);
    (0..3).for_each(|_| server.pass_ms(1));
    let client = server.connect();
    let info = server.send(client, "INFO persistence\r\n");
    assert!(info.contains("recovery_state:done"), "{info}");
}
