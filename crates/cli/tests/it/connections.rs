//! Limits of connections, sockets of both kinds, and input from the hostile.

use crate::kill::Random;
use crate::process::{Program, wait_until};
use crate::wire::{Connection, encode};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn a_unix_socket_serves_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = Program::indelible().start(&["--unixsocket", path.to_str().unwrap()]);
    assert_eq!(server.connect().words("SET k v").text(), "OK");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nQUIT\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "$1\r\nv\r\n+OK\r\n");
}

#[test]
fn a_client_that_stops_sending_gets_its_replies_and_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = Program::indelible().start(&["--unixsocket", path.to_str().unwrap()]);
    // Request and end arrive together; the reply has to wait for the log.
    for _ in 0..20 {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"SET k v\r\nGET k\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "+OK\r\n$1\r\nv\r\n");
    }
    let mut client = server.connect();
    wait_until(|| client.words("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = Program::indelible().start(&["--maxclients", "3"]);
    let mut clients: Vec<Connection> = Vec::new();
    wait_until(|| {
        // The connection that saw the server start may not be gone yet.
        clients.clear();
        clients = (0..3).map(|_| server.connect()).collect();
        clients.iter_mut().all(|client| client.call(&["PING"]).is_ok_and(|reply| !reply.is_error()))
    });
    let mut refused = server.connect();
    let reply = refused.receive().unwrap();
    assert_eq!(reply.text(), "ERR max number of clients reached");
    assert!(refused.is_closed());
    assert_eq!(clients[0].words("PING").text(), "PONG");
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected() {
    let server = Program::indelible().start(&[]);
    let mut publisher = server.connect();
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"];
    assert_eq!(publisher.call(&limit).unwrap().text(), "OK");
    let mut subscriber = server.connect();
    subscriber.words("SUBSCRIBE ch");
    let message = "x".repeat(1 << 20);
    let mut receivers = "1".to_owned();
    for _ in 0..200 {
        receivers = publisher.call(&["PUBLISH", "ch", &message]).unwrap().text();
        if receivers == "0" {
            break;
        }
    }
    assert_eq!(receivers, "0", "the subscriber is still there after 200 MB");
}

#[test]
fn an_idle_client_is_disconnected_after_the_timeout() {
    let server = Program::indelible().start(&["--timeout", "1"]);
    let mut idle = server.connect();
    assert_eq!(idle.words("PING").text(), "PONG");
    assert!(idle.is_closed());
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let server = Program::indelible().start(&[]);
    let mut sender = server.connect();
    let commands: Vec<u8> =
        (0..100_000).flat_map(|i: u32| encode(&["ECHO", &i.to_string()])).collect();
    let mut receiver = sender.split();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send_bytes(&commands).unwrap());
        for i in 0..100_000 {
            assert_eq!(receiver.receive().unwrap().text(), i.to_string());
        }
    });
}

#[test]
fn an_inline_command_without_an_end_is_cut_off() {
    let server = Program::indelible().start(&[]);
    let mut connection = server.connect();
    // The server may close while we still send.
    let _sent = connection.send_bytes(&vec![b'x'; 100_000]);
    let reply = connection.receive();
    if let Ok(reply) = reply {
        assert_eq!(reply.text(), "ERR Protocol error: too big inline request");
    }
    assert!(connection.is_closed());
    assert_eq!(server.connect().words("PING").text(), "PONG");
}

#[test]
fn hostile_bytes_neither_end_the_server_nor_fill_its_memory() {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(&[]);
    let pieces: [&[u8]; 14] = [
        b"*",
        b"$",
        b"\r\n",
        b"1",
        b"-1",
        b"*2147483647\r\n",
        b"$536870912\r\n",
        b"SET",
        b"GET k\r\n",
        b"\0",
        b"\xff",
        b"*1000000\r\n$1\r\n",
        b"\"",
        b"99999999999",
    ];
    for _ in 0..300 {
        let mut connection = server.connect();
        let mut bytes = Vec::new();
        for _ in 0..random.below(20) {
            let piece = usize::try_from(random.below(14)).unwrap();
            bytes.extend_from_slice(pieces[piece]);
        }
        // A refusal closes the connection, possibly while we send.
        let _sent = connection.send_bytes(&bytes);
    }
    assert!(server.is_running(), "{}", server.log());
    let mut connection = server.connect();
    assert_eq!(connection.words("PING").text(), "PONG");
    let memory = connection.words("INFO memory").text();
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let used: u64 = used.trim().parse().unwrap();
    assert!(used < 200 << 20, "{used} bytes in use");
}
