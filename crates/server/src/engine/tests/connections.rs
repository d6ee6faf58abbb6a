//! Which clients may connect, and what ends a connection.

use super::server::TestServer;
use crate::engine::{ClientKey, Peer};

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

/// The ids of the clients that CLIENT LIST shows.
fn listed(server: &mut TestServer, client: ClientKey, filters: &str) -> Vec<u64> {
    let reply = server.send(client, &format!("CLIENT LIST {filters}\r\n"));
    assert!(reply.starts_with('$'), "{filters}: {reply}");
    let lines = reply.lines().filter_map(|line| line.strip_prefix("id="));
    lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Four clients, of which the last one asks: one with names, one that subscribes, one in a
/// transaction in another database.
fn four(server: &mut TestServer) -> [ClientKey; 4] {
    let mut connect = |address: &str| {
        let (address, local_address) = (address.to_owned(), "127.0.0.1:6379".to_owned());
        let peer = Peer { address, local_address, is_loopback: true, ..Peer::default() };
        server.engine.connect(peer).unwrap()
    };
    let clients = ["127.0.0.1:50001", "127.0.0.2:50002", "[::1]:50003", "127.0.0.1:50004"];
    let clients = clients.map(&mut connect);
    server.send(clients[0], "CLIENT SETNAME one\r\nCLIENT SETINFO lib-name lib\r\n");
    server.send(clients[0], "CLIENT SETINFO lib-ver 1.2\r\n");
    server.pass_ms(5000);
    server.send(clients[1], "SUBSCRIBE a\r\n");
    server.send(clients[2], "SELECT 3\r\nMULTI\r\n");
    clients
}

#[test]
fn clients_are_listed_by_what_they_are() {
    let mut server = TestServer::new(&[]);
    let client = four(&mut server)[3];
    for (filters, expected) in [
        ("", &[1, 2, 3, 4][..]),
        ("ID 3 1 9 -5 3", &[3, 1, 3]),
        ("ID 3 1 9 0 SKIPME no", &[1, 3]),
        ("ID 3 ID 1", &[1, 3]),
        ("ID 1 2 3 NOT-ID 2 4", &[1, 3]),
        ("NOT-ID 2 NOT-ID 4", &[1, 3]),
        ("TYPE normal", &[1, 3, 4]),
        ("type pubsub", &[2]),
        ("TYPE primary", &[]),
        ("NOT-TYPE pubsub", &[1, 3, 4]),
        ("NOT-TYPE replica", &[1, 2, 3, 4]),
        ("USER default", &[1, 2, 3, 4]),
        ("NOT-USER default", &[]),
        ("ADDR 127.0.0.2:50002", &[2]),
        ("NOT-ADDR 127.0.0.2:50002", &[1, 3, 4]),
        ("LADDR 127.0.0.1:6379", &[1, 2, 3, 4]),
        ("LADDR 127.0.0.1:6380", &[]),
        ("NOT-LADDR 127.0.0.1:6379", &[]),
        ("IP 127.0.0.1", &[1, 4]),
        ("IP ::1", &[3]),
        ("NOT-IP ::1", &[1, 2, 4]),
        ("NAME one", &[1]),
        ("NAME on", &[]),
        ("NAME \"\"", &[]),
        ("NOT-NAME \"\"", &[1, 2, 3, 4]),
        ("NAME other NAME one", &[1]),
        ("NOT-NAME one", &[2, 3, 4]),
        ("LIB-NAME lib", &[1]),
        ("NOT-LIB-NAME lib", &[2, 3, 4]),
        ("LIB-VER 1.2", &[1]),
        ("LIB-VER 1", &[]),
        ("NOT-LIB-VER 1.2", &[2, 3, 4]),
        ("FLAGS N", &[1, 4]),
        ("FLAGS x", &[3]),
        ("FLAGS xP", &[]),
        ("NOT-FLAGS N", &[2, 3]),
        ("NOT-FLAGS xP", &[1, 2, 3, 4]),
        ("CAPA r", &[]),
        ("NOT-CAPA r", &[1, 2, 3, 4]),
        ("DB 3", &[3]),
        ("NOT-DB 3", &[1, 2, 4]),
        ("IDLE 5", &[1]),
        ("IDLE 6", &[]),
        ("MAXAGE 5 SKIPME yes", &[1, 2, 3]),
        ("MAXAGE 6", &[]),
        ("SKIPME yes IP 127.0.0.1 NOT-NAME one", &[]),
        ("not-flags x Not-Type pubsub skipme YES", &[1]),
    ] {
        assert_eq!(listed(&mut server, client, filters), expected, "{filters}");
    }
}

#[test]
fn a_client_on_a_unix_socket_has_no_ip() {
    let mut server = TestServer::new(&[]);
    let address = "/run/server.sock:0".to_owned();
    let peer = Peer { address, is_unix_socket: true, ..Peer::default() };
    let client = server.engine.connect(peer).unwrap();
    assert_eq!(listed(&mut server, client, "ADDR /run/server.sock:0 FLAGS U"), [1]);
    assert_eq!(listed(&mut server, client, "IP /run/server.sock"), [0_u64; 0]);
    assert_eq!(listed(&mut server, client, "NOT-IP /run/server.sock"), [1]);
}

#[test]
fn filters_that_are_wrong_are_said_to_be() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let too_small = "client-id should be greater than 0";
    for (filters, in_list, in_kill) in [
        ("ID 10 wrong x", "Invalid client ID", "syntax error"),
        ("ID str x", "Invalid client ID", too_small),
        ("ID 0 NAME x", "", too_small),
        ("NOT-ID str x", "syntax error", "syntax error"),
        ("NOT-ID 0 x", too_small, too_small),
        ("NOT-ID -1 NAME", too_small, too_small),
        ("NOT-ID 1 NAME", "syntax error", "syntax error"),
        ("TYPE wrong", "Unknown client type 'wrong'", "Unknown client type 'wrong'"),
        ("NOT-TYPE wrong", "Unknown client type 'wrong'", "Unknown client type 'wrong'"),
        ("NOT-USER nobody", "No such user 'nobody'", "No such user 'nobody'"),
        ("SKIPME maybe", "syntax error", "syntax error"),
        ("NOT-SKIPME no", "syntax error", "syntax error"),
        ("NOT-IDLE 1", "syntax error", "syntax error"),
        (
            "IDLE x",
            "idle is not an integer or out of range",
            "idle is not an integer or out of range",
        ),
        ("IDLE 0", "idle should be greater than 0", "idle should be greater than 0"),
        ("MAXAGE 0", "maxage should be greater than 0", "maxage should be greater than 0"),
        ("DB x", "DB is not an integer or out of range", "DB is not an integer or out of range"),
        ("DB 16", "DB number should be between 0 and 15", "DB number should be between 0 and 15"),
        (
            "NOT-DB -1",
            "NOT-DB number should be between 0 and 15",
            "NOT-DB number should be between 0 and 15",
        ),
        (
            "FLAGS NZ",
            "Unknown flags found in the provided filter: NZ",
            "Unknown flags found in the provided filter: NZ",
        ),
        (
            "NOT-FLAGS Q",
            "Unknown flags found in the NOT-FLAGS filter: Q",
            "Unknown flags found in the NOT-FLAGS filter: Q",
        ),
        (
            "CAPA x",
            "Unknown capa found in the provided filter: x",
            "Unknown capa found in the provided filter: x",
        ),
    ] {
        for (subcommand, error) in [("LIST", in_list), ("KILL", in_kill)] {
            let expected = if error.is_empty() {
                "$0\r\n\r\n".to_owned()
            } else {
                format!("-ERR {error}\r\n")
            };
            let reply = server.send(client, &format!("CLIENT {subcommand} {filters}\r\n"));
            assert_eq!(reply, expected, "{subcommand} {filters}");
        }
    }
}

#[test]
fn clients_are_ended_by_what_they_are() {
    for (filters, count, ended) in [
        ("ID 1 3", 2, [true, false, true, false]),
        ("ID 1 ID 3 NOT-DB 3", 1, [true, false, false, false]),
        ("NOT-TYPE normal", 1, [false, true, false, false]),
        ("NOT-NAME one NOT-FLAGS x", 1, [false, true, false, false]),
        ("NOT-NAME one SKIPME no", 3, [false, true, true, true]),
        ("IDLE 5", 1, [true, false, false, false]),
        ("IP 127.0.0.1", 1, [true, false, false, false]),
        ("CAPA r", 0, [false; 4]),
    ] {
        let mut server = TestServer::new(&[]);
        let clients = four(&mut server);
        let reply = server.send(clients[3], &format!("CLIENT KILL {filters}\r\n"));
        assert_eq!(reply, format!(":{count}\r\n"), "{filters}");
        assert_eq!(clients.map(|client| server.ends(client)), ended, "{filters}");
    }
}

fn over_tls(address: &str) -> Peer {
    let is_loopback = address.starts_with("127.");
    Peer { address: address.to_owned(), is_loopback, is_tls: true, ..Peer::default() }
}

#[test]
fn a_handshake_has_ten_seconds() {
    let mut server = TestServer::new(&[]);
    let slow = server.engine.connect(over_tls("127.0.0.1:1")).unwrap();
    let fast = server.engine.connect(over_tls("127.0.0.1:2")).unwrap();
    server.pass_ms(5_000);
    server.engine.secured(fast, None);
    let later = server.engine.connect(over_tls("127.0.0.1:3")).unwrap();
    server.pass_ms(4_900);
    assert!(!server.ends(slow));
    server.pass_ms(200);
    assert!(server.ends(slow) && !server.ends(fast) && !server.ends(later));
    server.engine.remove(slow);
    // The place is another client's now.
    let again = server.engine.connect(over_tls("127.0.0.1:4")).unwrap();
    assert_eq!(again, slow);
    server.pass_ms(5_000);
    assert!(server.ends(later) && !server.ends(again) && !server.ends(fast));
    assert_eq!(server.send(fast, "PING\r\n"), "+PONG\r\n");
}

#[test]
fn a_handshake_gives_way_where_there_is_no_other_place() {
    let mut server = TestServer::new(&["--maxclients", "3"]);
    let client = server.connect();
    let [one, two] = [1, 2].map(|_| server.engine.connect(over_tls("127.0.0.1:1")).unwrap());
    let new = server.engine.connect(over_tls("127.0.0.1:2")).unwrap();
    assert!(server.ends(one) && !server.ends(two));
    server.engine.remove(one);
    server.engine.secured(new, None);
    let plain = server.connect();
    assert!(server.ends(two));
    server.engine.remove(two);
    // Clients do not.
    assert!(server.engine.connect(over_tls("127.0.0.1:3")).is_err());
    for client in [client, new, plain] {
        assert_eq!(server.send(client, "PING\r\n"), "+PONG\r\n");
    }
    let stats = server.send(client, "INFO stats\r\n");
    assert!(stats.contains("rejected_connections:3\r\n"), "{stats}");
}

#[test]
fn protected_mode_says_no_when_the_client_can_hear_it() {
    let mut server = TestServer::new(&[]);
    let stranger = server.engine.connect(over_tls("10.0.0.1:1")).unwrap();
    assert_eq!(server.read(stranger), "", "nothing can be said before the handshake");
    server.engine.secured(stranger, None);
    assert!(!server.engine.is_listened_to(stranger));
    assert!(server.read(stranger).starts_with("-DENIED "));
    assert!(server.ends(stranger));
}
