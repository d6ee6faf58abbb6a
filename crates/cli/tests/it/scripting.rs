//! Lua scripts of real clients: one that runs for long, and servers that are killed while scripts write.

use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, Reply};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Two keys that must always be equal.
const BOTH: &str =
    "redis.call('set', KEYS[1], ARGV[1]) redis.call('set', KEYS[2], ARGV[1]) return ARGV[1]";

fn text(connection: &mut Connection, words: &[&str]) -> String {
    connection.call(words).unwrap().text()
}

/// Sends a script that does not end, and waits until others are told.
fn begin(server: &Server, source: &str) -> (Connection, Connection) {
    let (mut client, mut other) = (server.connect(), server.connect());
    client.send(&["EVAL", source, "0"]).unwrap();
    wait_until(|| text(&mut other, &["PING"]) == BUSY);
    (client, other)
}

#[test]
fn a_script_without_end_is_killed_and_the_server_goes_on() {
    let server = Program::indelible().start(&["--busy-reply-threshold", "50"]);
    let (mut client, mut other) = begin(&server, "while true do end");
    assert_eq!(text(&mut other, &["GET", "a"]), BUSY);
    assert_eq!(text(&mut other, &["SCRIPT", "KILL"]), "OK");
    let reply = client.receive().unwrap();
    assert!(reply.text().starts_with("ERR Script killed by user with SCRIPT KILL"), "{reply:?}");
    assert_eq!(text(&mut client, &["SET", "a", "1"]), "OK");
    assert_eq!(text(&mut other, &["EVAL", "return redis.call('get', 'a')", "0"]), "1");
}

#[test]
fn the_end_of_a_script_whose_client_has_gone_is_waited_for() {
    let server = Program::indelible().start(&["--busy-reply-threshold", "50"]);
    let source =
        "redis.call('set', 'a', 1) for n = 1, 30 * 1000 * 1000 do end redis.call('set', 'b', 1)";
    let (client, mut other) = begin(&server, source);
    let unkillable = text(&mut other, &["SCRIPT", "KILL"]);
    assert!(unkillable.starts_with("UNKILLABLE"), "{unkillable}");
    drop(client);
    wait_until(|| text(&mut other, &["PING"]) == "PONG");
    assert_eq!(text(&mut other, &["EXISTS", "a", "b"]), "2");
}

#[test]
fn shutdown_nosave_keeps_nothing_of_a_script_that_runs() {
    let mut server = Program::indelible().start(&["--busy-reply-threshold", "50"]);
    let mut writer = server.connect();
    assert_eq!(text(&mut writer, &["SET", "before", "1"]), "OK");
    let (_client, mut other) = begin(&server, "redis.call('set', 'half', 1) while true do end");
    assert_eq!(text(&mut other, &["SHUTDOWN"]), BUSY);
    other.send(&["SHUTDOWN", "NOSAVE"]).unwrap();
    server.wait_for_exit();
    server.restart();
    let mut client = server.connect();
    assert_eq!(text(&mut client, &["EXISTS", "before"]), "1");
    assert_eq!(text(&mut client, &["EXISTS", "half"]), "0");
}

#[test]
fn a_signal_ends_a_script_that_has_not_written_and_the_server() {
    let mut server = Program::indelible().start(&["--busy-reply-threshold", "50"]);
    let (_client, _other) = begin(&server, "while true do end");
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
}

#[test]
fn after_a_kill_a_script_is_there_as_a_whole_or_not_at_all() {
    let mut server = Program::indelible().start(&["--appendfsync", "always"]);
    for _round in 0..3 {
        let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                let mut client = server.connect();
                scope.spawn(move || {
                    let keys = [format!("left:{number}"), format!("right:{number}")];
                    for value in 1.. {
                        let value = u64::to_string(&value);
                        let call = ["EVAL", BOTH, "2", &keys[0], &keys[1], &value];
                        match client.call(&call) {
                            Ok(reply) if !reply.is_error() => {
                                acknowledged.fetch_add(1, Ordering::Relaxed)
                            }
                            _ => return,
                        };
                    }
                });
            }
            wait_until(|| acknowledged.iter().all(|it| it.load(Ordering::Relaxed) > 30));
            server.kill();
        });
        server.restart();
        let mut client = server.connect();
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let left = text(&mut client, &["GET", &format!("left:{number}")]);
            let right = text(&mut client, &["GET", &format!("right:{number}")]);
            assert_eq!(left, right, "client {number}");
            assert!(left.parse::<u64>().unwrap() >= acknowledged.load(Ordering::Relaxed));
        }
        let missing = text(&mut client, &["EVALSHA", &"a".repeat(40), "0"]);
        assert_eq!(missing, "NOSCRIPT No matching script. Please use EVAL.");
    }
}

#[test]
fn a_lock_is_given_back_by_its_owner_only() {
    let server = Program::indelible().start(&[]);
    let mut client = server.connect();
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let digest = text(&mut client, &["SCRIPT", "LOAD", release]);
    assert_eq!(text(&mut client, &["SET", "lock", "mine", "NX", "PX", "60000"]), "OK");
    let again = client.call(&["SET", "lock", "theirs", "NX", "PX", "60000"]).unwrap();
    assert!(matches!(again, Reply::Null(_)), "{again:?}");
    assert_eq!(text(&mut client, &["EVALSHA", &digest, "1", "lock", "theirs"]), "0");
    assert_eq!(text(&mut client, &["EVALSHA", &digest, "1", "lock", "mine"]), "1");
    assert_eq!(text(&mut client, &["EXISTS", "lock"]), "0");
}

#[test]
fn redis_cli_runs_the_scripts_of_files() {
    let server = Program::indelible().start(&[]);
    let file = server.directory().join("script.lua");
    std::fs::write(&file, "return redis.call('set', KEYS[1], ARGV[1])").unwrap();
    let port = server.port.to_string();
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port, "--eval"]).arg(&file).args(["key", ",", "value"]);
    let Ok(output) = command.output() else {
        testing::skipped("redis-cli", "it is not installed (make test installs it)");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n");
    assert_eq!(text(&mut server.connect(), &["GET", "key"]), "value");
}
