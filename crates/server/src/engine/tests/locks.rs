//! The engine with a log of files that nothing writes: commands take no lock, and it is not closed well.

use std::path::PathBuf;
use std::sync::Arc;

use base::lock_count;
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::Flusher;

use super::server::TestServer;
use crate::engine::{CloseError, DevicesError};
use crate::load::{Shape, load};
use crate::owned_log::{LogWorkers, own};

/// Nothing is written: commands only fill the open block.
struct NoWorkers;

impl LogWorkers for NoWorkers {
    fn add_flushers(
        &mut self,
        _count_max: usize,
        _add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        unreachable!("no device is added")
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        Ok(())
    }
}

/// A server with a log that writes nothing.
fn server_with_log() -> TestServer {
    let mut server = TestServer::new(&[]);
    let env = redo::Env {
        disk: Arc::new(SimDisk::new(1, Faults::default())),
        clock: Arc::new(SimClock::new(0)),
        entropy: Box::new(SimEntropy::new(1)),
        waker: Arc::new(|| {}),
    };
    let recovery = redo::Recovery::open(env, redo::Options::new(PathBuf::from("/data"))).unwrap();
    let shape = Shape::new(&server.engine.config().options(), 0);
    let (keyspace, opened) = load(recovery, shape, None, &mut |_| {}).unwrap();
    let keyspace = keyspace.expect("there is no limit");
    server.engine.loaded(keyspace, Some(own(opened.log, Box::new(NoWorkers))));
    server
}

#[test]
fn no_lock_is_taken_between_a_command_and_the_log() {
    let mut server = server_with_log();
    assert!(lock_count() > 0, "opening a log takes locks, and they are counted");
    let client = server.connect();
    let calls = [
        "SET a 1\r\n",
        "SET a 2\r\n",
        "GET a\r\n",
        "HSET h f v\r\n",
        "HSET h f w\r\n",
        "DEL a\r\nGET a\r\n",
        "MULTI\r\nSET a 1\r\nHSET h g v\r\nEXEC\r\n",
        "SET a 1\r\nGET a\r\nSET b 1\r\nGET b\r\n",
    ];
    for call in calls {
        let before = lock_count();
        server.engine.receive(client, call.as_bytes());
        assert_eq!(lock_count() - before, 0, "{call}");
    }
    let log = server.engine.log().expect("it is on");
    assert_eq!(log.stats().records, 0, "nothing is sealed yet");
    assert!(log.open_bytes() > 100, "and everything was logged");
}

#[test]
fn closing_fails_if_no_device_took_the_last_blocks() {
    let mut server = server_with_log();
    let client = server.connect();
    server.engine.receive(client, b"SET a 1\r\n");
    let closed = server.engine.close().map_err(|why| why.to_string());
    let why = closed.expect_err("the block is lost");
    assert!(why.starts_with("the last blocks are on no device"), "{why}");
}
