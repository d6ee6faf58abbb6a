//! Keys that come back by themselves, and what clients see of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::{DbId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::{ColdStart, KeyHasher, Keyspace, Look, NoJournal, RestoreError, Restored, Restorer};

use super::server::TestServer;
use crate::engine::{Comeback, Restoration};

const SEED: [u8; 16] = [7; 16];

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

/// Says what a test says.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<VecDeque<Comeback>>>);

impl Said {
    fn say(&self, comeback: Comeback) {
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
    let mut keyspace = Keyspace::new(NoJournal, SEED, 16);
    let cold = ColdStart { keys: vec![(DbId(0), 1)], databases_seen: 1, ..ColdStart::default() };
    keyspace.begin_cold(&cold, Box::new(Broken));
    let (mut server, log) = TestServer::with_log(&[]);
    server.engine.loaded(keyspace, Some(Box::new(log)));
    let said = Said::default();
    server.engine.restore_from(Box::new(said.clone()));
    (server, said)
}

fn cold_key() -> Comeback {
    let record = Record::whole(RecordKind::String, DbId(0), b"k", b"v", None);
    let addr = RecordAddr::new(SegmentId(1), 0);
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
