//! Keys that expire while they are in the log only: when they are looked for.

use base::{DbId, Record, RecordAddr, RecordKind, SegmentId};
use env::Clock;
use keyspace::{KeyHasher, RestoreError, Restored};

use super::restoring::{SEED, Said, cold_server};
use super::server::TestServer;
use super::threads::Threads;
use crate::engine::{Comeback, Fetched, Sweep, Wanted};

/// The next step that is asked for.
fn step(threads: &Threads) -> Option<Sweep> {
    threads.asked().map(|wanted| match wanted {
        Wanted::Sweep(sweep) => sweep,
        _ => panic!("nothing else is wanted"),
    })
}

/// A server with two keys, which stay in the log after its start.
fn server() -> (TestServer, Threads) {
    let server = TestServer::with_log(&["--appendfsync", "no", "--enable-debug-command", "yes"]);
    let (mut server, said): (_, Said) = cold_server(server, 2);
    let threads = Threads::default();
    server.engine.fetch_from(Box::new(threads.clone()));
    server.pass_ms(200);
    assert!(step(&threads).is_none(), "they may come back");
    said.say(Comeback::Failed("no more of them comes".to_owned()));
    (server, threads)
}

/// A key that was found, which expires so much later than now.
fn found(server: &TestServer, key: &[u8], ordinal: u32, in_ms: i64) -> Restored {
    let expires_at_ms = Some(server.clock.now_ms() + in_ms);
    let record = Record::whole(RecordKind::String, DbId(0), key, b"v", expires_at_ms);
    let addr = RecordAddr::new(SegmentId(1), ordinal);
    Restored::without_value(&record, addr, KeyHasher::new(SEED)).unwrap()
}

/// What is asked for within so many cycles.
fn asked(server: &mut TestServer, threads: &Threads, cycles: usize) -> Option<Sweep> {
    (0..cycles).find_map(|_| {
        server.pass_ms(100);
        step(threads)
    })
}

#[test]
fn what_a_sweep_finds_expires_unless_it_has_not_or_was_deleted() {
    let (mut server, threads) = server();
    let client = server.connect();
    server.send(
        client,
        "CONFIG SET notify-keyspace-events Ex\r\nSUBSCRIBE __keyevent@0__:expired\r\n",
    );
    let sweep = asked(&mut server, &threads, 3).unwrap();
    assert!(asked(&mut server, &threads, 20).is_none(), "one step at a time");
    let keys = vec![found(&server, b"later", 1, 5), found(&server, b"k", 2, -5)];
    threads.answer(Fetched::Swept(sweep, Ok(keys)));
    server.pass_ms(1);
    assert!(server.read(client).ends_with("expired\r\n$1\r\nk\r\n"), "it is told");
    let other = server.connect();
    assert_eq!(server.send(other, "DBSIZE\r\n"), ":1\r\n");
    // It is not over: there may be more.
    let sweep = asked(&mut server, &threads, 3).unwrap();
    server.send(other, "FLUSHALL\r\n");
    threads.answer(Fetched::Swept(sweep, Ok(vec![found(&server, b"later", 1, -5)])));
    server.pass_ms(1);
    assert_eq!(server.send(other, "DBSIZE\r\n"), ":0\r\n");
    assert_eq!(server.read(client), "", "it was deleted before");
}

#[test]
fn nothing_is_looked_for_while_nothing_may_expire_and_a_while_after_an_error() {
    let (mut server, threads) = server();
    let client = server.connect();
    server.send(client, "DEBUG SET-ACTIVE-EXPIRE 0\r\n");
    assert!(asked(&mut server, &threads, 20).is_none());
    server.send(client, "DEBUG SET-ACTIVE-EXPIRE 1\r\n");
    let sweep = asked(&mut server, &threads, 3).unwrap();
    threads.answer(Fetched::Swept(sweep, Err(RestoreError::Io("the disk is away".to_owned()))));
    assert!(asked(&mut server, &threads, 90).is_none(), "the disk has ten seconds");
    let sweep = asked(&mut server, &threads, 20).unwrap();
    // What comes while writers are paused is looked for again.
    server.send(client, "CLIENT PAUSE 1000 WRITE\r\n");
    server.pass_ms(1);
    threads.answer(Fetched::Swept(sweep, Ok(vec![found(&server, b"k", 1, -5)])));
    assert!(asked(&mut server, &threads, 5).is_none());
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":2\r\n");
    let sweep = asked(&mut server, &threads, 10).unwrap();
    threads.answer(Fetched::Swept(sweep, Ok(vec![found(&server, b"k", 1, -5)])));
    server.pass_ms(1);
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":1\r\n");
}
