//! Before the data is there, and when it is loaded again.

use std::sync::atomic::Ordering;

use keyspace::Keyspace;

use super::server::TestServer;
use crate::engine::HostRequest;

#[test]
fn loading_is_said_to_clients() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.engine.set_loading(100, 50);
    assert!(server.send(client, "GET a\r\n").starts_with("-LOADING "));
    assert!(server.send(client, "INFO persistence\r\n").contains("loading_loaded_perc:50.00"));
}

#[test]
fn what_was_watched_before_the_data_was_there_has_changed() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.engine.set_loading(100, 50);
    assert_eq!(server.send(client, "WATCH a\r\n"), "+OK\r\n");
    let keyspace = Keyspace::new(keyspace::NoJournal, [7; 16], 16);
    server.engine.loaded(keyspace, None);
    assert!(server.send(client, "MULTI\r\nPING\r\nEXEC\r\n").ends_with("*-1\r\n"));
}

#[test]
fn a_reload_is_asked_of_the_owner_and_answered_when_it_is_done() {
    let (mut server, log) = TestServer::with_log(&["--enable-debug-command", "yes"]);
    let (client, watcher, blocked) = (server.connect(), server.connect(), server.connect());
    server.send(blocked, "BLPOP l 0\r\n");
    assert_eq!(server.send(watcher, "WATCH a\r\n"), "+OK\r\n");
    assert_eq!(server.send(client, "DEBUG RELOAD\r\nPING\r\n"), "");
    assert_eq!(server.engine.take_request(), Some(HostRequest::Reload));
    assert_eq!(server.engine.take_request(), None);
    server.engine.unload().unwrap();
    server.engine.set_loading(100, 50);
    assert!(server.send(watcher, "GET a\r\n").starts_with("-LOADING "));
    assert_eq!(server.read(client), "");
    let keyspace = Keyspace::new(keyspace::NoJournal, [7; 16], 16);
    let state = log.clone();
    server.engine.loaded(keyspace, Some(Box::new(log)));
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n+PONG\r\n");
    assert_eq!(server.send(watcher, "MULTI\r\nPING\r\nEXEC\r\n").lines().last(), Some("+PONG"));
    server.send(client, "RPUSH l x\r\n");
    state.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(blocked), "*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
}
