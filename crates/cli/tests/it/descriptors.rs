//! A server whose process has no file descriptor left: the log waits for one, and loses nothing.

use crate::process::{PATIENCE, Program};
use crate::wire::Connection;
use std::time::Instant;

#[test]
fn a_log_that_finds_no_descriptor_goes_on_when_there_is_one() {
    let mut server = Program::indelible().start(&["--log-segment-bytes", "1mb"]);
    let (mut writer, mut watcher) = (server.connect(), server.connect());
    assert_eq!(watcher.words("PING").text(), "PONG");
    assert_eq!(writer.words("SET before 1").text(), "OK");
    // From now on nothing can be opened: neither a connection nor the next segment.
    let limit = |count: &str| {
        let pid = server.pid().to_string();
        let nofile = format!("--nofile={count}:");
        let status =
            std::process::Command::new("prlimit").args(["--pid", &pid, &nofile]).status().unwrap();
        assert!(status.success());
    };
    limit("3");
    let value = "x".repeat(100_000);
    let mut told = 0;
    let mut not_served = Connection::open(server.port).unwrap();
    not_served.send(&["PING"]).unwrap();
    // More than the segment takes: the rest waits, or is refused, until there is a descriptor.
    for number in 0..40 {
        writer.send(&["SET", &format!("key:{number}"), &value]).unwrap();
    }
    let started = Instant::now();
    while !watcher.words("INFO redo").text().contains("os error 24") {
        assert!(started.elapsed() < PATIENCE, "the log did not need a descriptor");
    }
    limit("1024");
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
