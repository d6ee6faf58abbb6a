//! Which clients may connect, and what ends a connection.

use super::server::TestServer;
use crate::engine::Peer;

#[test]
fn a_password_is_asked_for() {
    let mut server = TestServer::new(&["--requirepass", "secret"]);
    let client = server.connect();
    assert_eq!(server.send(client, "GET a\r\n"), "-NOAUTH Authentication required.\r\n");
    assert!(server.send(client, "AUTH wrong\r\n").starts_with("-WRONGPASS"));
    assert_eq!(server.send(client, "AUTH secret\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
}

#[test]
fn strangers_are_refused_without_a_password() {
    let mut server = TestServer::new(&[]);
    let refusal = server
        .engine
        .connect(Peer { address: "10.0.0.1:1".to_owned(), ..Peer::default() })
        .unwrap_err();
    assert!(refusal.starts_with(b"-DENIED "));
}

#[test]
fn clients_come_and_go() {
    let mut server = TestServer::new(&["--maxclients", "2"]);
    let (one, two) = (server.connect(), server.connect());
    assert!(server.engine.connect(Peer { is_loopback: true, ..Peer::default() }).is_err());
    server.send(one, "SUBSCRIBE a\r\nWATCH k\r\n");
    server.send(two, "BLPOP l 0\r\n");
    server.engine.remove(one);
    server.engine.remove(two);
    let client = server.connect();
    assert_eq!(server.send(client, "PUBLISH a x\r\nRPUSH l x\r\nLLEN l\r\n"), ":0\r\n:1\r\n:1\r\n");
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let mut server = TestServer::new(&["--client-output-buffer-limit", "normal", "1kb", "0", "0"]);
    let client = server.connect();
    let value = "x".repeat(600);
    server.engine.receive(client, format!("SET a {value}\r\nGET a\r\nGET a\r\n").as_bytes());
    assert!(server.ends(client));
}

#[test]
fn a_client_that_is_killed_takes_nothing_along() {
    let mut server = TestServer::new(&[]);
    let (blocked, client) = (server.connect(), server.connect());
    assert_eq!(server.send(blocked, "CLIENT ID\r\nBLPOP l 0\r\n"), ":1\r\n");
    let sent = "CLIENT KILL ID 1\r\nRPUSH l 1\r\nLLEN l\r\n";
    assert_eq!(server.send(client, sent), ":1\r\n:1\r\n:1\r\n");
    assert!(server.ends(blocked));
}

#[test]
fn clients_that_have_been_there_for_long_can_be_ended() {
    let mut server = TestServer::new(&[]);
    let old = server.connect();
    server.pass_ms(5000);
    let (young, client) = (server.connect(), server.connect());
    let too_small = "-ERR maxage should be greater than 0\r\n";
    for (age, reply) in [
        ("x", "-ERR maxage is not an integer or out of range\r\n"),
        ("0", too_small),
        ("-1", too_small),
        ("6", ":0\r\n"),
        ("9223372036854775807", ":0\r\n"),
        ("5 TYPE pubsub", ":0\r\n"),
    ] {
        assert_eq!(server.send(client, &format!("CLIENT KILL MAXAGE {age}\r\n")), reply, "{age}");
    }
    assert!(!server.ends(old));
    assert_eq!(server.send(client, "CLIENT KILL MAXAGE 5 SKIPME no\r\n"), ":1\r\n");
    assert!(server.ends(old) && !server.ends(young) && !server.ends(client));
}
