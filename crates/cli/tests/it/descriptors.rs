//! A server whose process has no file descriptor left: the log waits for one, and loses nothing.

use crate::process::{PATIENCE, Program, Server};
use crate::wire::Connection;
use std::process::Command;
use std::time::Instant;

/// Changes how many descriptors a running server may have.
fn limit(server: &Server, count: &str) {
    let pid = server.pid().to_string();
    let nofile = format!("--nofile={count}:");
    let status = Command::new("prlimit").args(["--pid", &pid, &nofile]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_log_that_finds_no_descriptor_goes_on_when_there_is_one() {
    let mut server = Program::indelible().start(&["--log-segment-bytes", "1mb"]);
    let (mut writer, mut watcher) = (server.connect(), server.connect());
    assert_eq!(watcher.words("PING").text(), "PONG");
    assert_eq!(writer.words("SET before 1").text(), "OK");
    // From now on nothing can be opened: neither a connection nor the next segment.
    limit(&server, "3");
    let value = "x".repeat(100_000);
    let mut told = 0;
    let mut not_served = Connection::open(server.port).unwrap();
    not_served.send(&["ECHO", "PONG"]).unwrap();
    // More than the segment takes: the rest waits, or is refused, until there is a descriptor.
    for number in 0..40 {
        writer.send(&["SET", &format!("key:{number}"), &value]).unwrap();
    }
    let started = Instant::now();
    while !watcher.words("INFO redo").text().contains("os error 24") {
        assert!(started.elapsed() < PATIENCE, "the log did not need a descriptor");
    }
    limit(&server, "1024");
    for _ in 0..40 {
        let reply = writer.receive().unwrap().text();
        told += usize::from(reply == "OK");
        assert!(reply == "OK" || reply.starts_with("MISCONF"), "{reply}");
    }
    assert_eq!(not_served.receive().unwrap().text(), "PONG");
    let started = Instant::now();
    while writer.words("SET after 1").text() != "OK" {
        assert!(started.elapsed() < PATIENCE, "the log takes nothing any more:\n{}", server.log());
    }
    server.kill();
    server.restart();
    let there = server.connect().words("DBSIZE").text().parse::<usize>().unwrap();
    assert!(there >= told + 2, "{there} keys are there, {told} and 2 were acknowledged");
}

/// The server with so few descriptors.
fn start_with_limit(limit: &str, options: &[&str]) -> Server {
    let program = env!("CARGO_BIN_EXE_indelible");
    let command = format!("prlimit --nofile={limit} {program} server");
    Program::of_words(&command).start(options)
}

#[test]
fn clients_cannot_take_the_descriptors_of_the_log() {
    let mut server = start_with_limit("128", &["--log-segment-bytes", "1mb"]);
    let mut writer = server.connect();
    let there = writer.words("CONFIG GET maxclients").elements()[1].text();
    assert_eq!(there.parse::<usize>().unwrap(), 128 - 32 - 32 - 5);
    assert!(server.log().contains("maxclients is 59 and not 10000"), "{}", server.log());
    let refused = writer.words("CONFIG SET maxclients 5000").text();
    assert_eq!(
        refused,
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system \
         is not able to handle the specified number of clients, try with 59"
    );
    assert_eq!(writer.words("CONFIG SET maxclients 50").text(), "OK");
    assert_eq!(writer.words("CONFIG SET maxclients 59").text(), "OK");
    // More clients than there are descriptors at all: those that are too many are told so.
    let mut served = Vec::new();
    let mut told = 0;
    for _ in 0..150 {
        let mut client = Connection::open(server.port).unwrap();
        match client.call(&["PING"]) {
            Ok(reply) if reply.text() == "PONG" => served.push(client),
            Ok(reply) => {
                assert_eq!(reply.text(), "ERR max number of clients reached");
                told += 1;
            }
            // It was closed before the PING was sent.
            Err(_) => told += 1,
        }
    }
    // Of the 59 lowest descriptors the process itself has some: never more than are counted for it.
    assert!(served.len() >= 59 - 32 && told >= 80, "{} served, {told} refused", served.len());
    // The log takes new segments all the same, and ends well.
    let value = "x".repeat(100_000);
    for number in 0..40 {
        let reply = writer.call(&["SET", &format!("key:{number}"), &value]).unwrap();
        assert_eq!(reply.text(), "OK", "{}", server.log());
    }
    let _ended = writer.call(&["SHUTDOWN"]);
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    assert!(!server.log().contains("os error 24"), "{}", server.log());
    server.restart();
    assert_eq!(server.connect().words("DBSIZE").text(), "40");
}

#[test]
fn maxclients_is_lowered_with_the_limit_of_a_running_server() {
    let server = start_with_limit("1024:4096", &[]);
    let mut client = server.connect();
    // What may be raised is raised.
    assert_eq!(client.words("CONFIG SET maxclients 3000").text(), "OK");
    assert!(client.words("CONFIG SET maxclients 5000").is_error());
    assert_eq!(client.words("CONFIG GET maxclients").elements()[1].text(), "3000");
    // Others can take descriptors, too: what counts is how many are left when a client comes.
    limit(&server, "40");
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(Connection::open(server.port).unwrap());
    }
    let last = clients.last_mut().unwrap().call(&["PING"]);
    let is_refused = last.map_or(true, |reply| reply.text().contains("max number of clients"));
    assert!(is_refused, "the last of 40 clients is served with 40 descriptors");
    assert_eq!(client.words("SET a 1").text(), "OK");
    assert_eq!(client.words("SAVE").text(), "OK");
}

#[test]
fn a_shutdown_without_descriptors_loses_nothing() {
    let mut server = Program::indelible().start(&["--appendfsync", "no"]);
    let mut client = server.connect();
    for number in 0..100 {
        assert_eq!(client.words(&format!("SET key:{number} 1")).text(), "OK");
    }
    limit(&server, "3");
    let _ended = client.call(&["SHUTDOWN"]);
    // It may say that it could not end well, but it may not run on for ever, nor lose anything.
    assert!(server.wait_for_exit().is_some(), "it runs on:\n{}", server.log());
    server.restart();
    assert_eq!(server.connect().words("DBSIZE").text(), "100");
}
