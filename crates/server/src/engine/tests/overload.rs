//! What the engine does when there is more than it can take.

use super::server::TestServer;

#[test]
fn only_clients_that_write_wait_for_a_log_that_cannot_keep_up() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "+OK\r\n");
    log.0.lock().unwrap().is_congested = true;
    server.pass_ms(1);
    assert_eq!(server.send(writer, "GET a\r\nINCR a\r\nGET a\r\n"), "$1\r\n1\r\n");
    assert!(server.engine.is_held_back(writer));
    assert_eq!(
        server.send(reader, "GET a\r\nMULTI\r\nINCR a\r\n"),
        "$1\r\n1\r\n+OK\r\n+QUEUED\r\n"
    );
    assert!(!server.engine.is_held_back(reader), "what is queued writes nothing yet");
    assert_eq!(server.send(reader, "EXEC\r\nPING\r\n"), "");
    assert!(server.engine.is_held_back(reader));
    let held = server.connect();
    assert!(server.send(held, "INFO redo\r\n").contains("redo_clients_held_back:2\r\n"));
    server.pass_ms(1);
    assert!(server.engine.is_held_back(writer), "the log is as it was");
    log.0.lock().unwrap().is_congested = false;
    server.pass_ms(1);
    server.pass_ms(1);
    assert_eq!(server.read(writer), ":2\r\n$1\r\n2\r\n");
    assert_eq!(server.read(reader), "*1\r\n:3\r\n+PONG\r\n");
    assert!(!server.engine.is_held_back(writer) && !server.engine.is_held_back(reader));
}

#[test]
fn replies_that_nobody_reads_are_bounded_while_they_are_made() {
    let limit = ["--client-output-buffer-limit", "normal", "1mb", "0", "0"];
    let mut server = TestServer::new(&limit);
    let client = server.connect();
    assert_eq!(server.send(client, "SETRANGE a 199999 x\r\n"), ":200000\r\n");
    for requests in
        ["GET a\r\n".repeat(2000), format!("MULTI\r\n{}EXEC\r\n", "GET a\r\n".repeat(2000))]
    {
        let greedy = server.connect();
        server.engine.receive(greedy, requests.as_bytes());
        let allocated = server.engine.sessions[greedy].connection.output.memory_bytes();
        assert!(allocated < 4 << 20, "{allocated} bytes for a client that may have 1 MB");
        assert!(server.ends(greedy));
        server.engine.remove(greedy);
    }
}

#[test]
fn the_largest_clients_are_disconnected_when_all_take_too_much() {
    let mut server = TestServer::new(&["--maxmemory-clients", "6mb"]);
    let (small, exempt) = (server.connect(), server.connect());
    assert_eq!(server.send(small, "SETRANGE a 999999 x\r\n"), ":1000000\r\n");
    assert_eq!(server.send(exempt, "CLIENT NO-EVICT ON\r\n"), "+OK\r\n");
    server.engine.receive(exempt, b"GET a\r\n");
    let larger = server.connect();
    server.engine.receive(larger, b"GET a\r\n");
    server.pass_ms(1000);
    assert!(!server.ends(larger), "two of them are not too much");
    let largest = server.connect();
    server.engine.receive(largest, &b"GET a\r\n".repeat(100));
    server.pass_ms(1000);
    assert!(server.ends(largest));
    assert!(![small, exempt, larger].into_iter().any(|client| server.ends(client)));
    let stats = server.send(small, "INFO stats\r\n");
    assert!(stats.contains("evicted_clients:1\r\n"), "{stats}");
}

#[test]
fn a_client_that_has_not_authenticated_and_does_not_read_is_closed() {
    let mut server = TestServer::new(&["--requirepass", "secret"]);
    let client = server.connect();
    assert!(server.send(client, "GET a\r\n").starts_with("-NOAUTH"));
    // What the socket does not take is a KiB at most.
    server.engine.receive(client, "GET a\r\n".repeat(100).as_bytes());
    assert!(!server.ends(client), "its socket was not tried");
    server.engine.stuck(client, 0);
    assert!(server.ends(client));
    // What an I/O thread holds counts, too.
    let client = server.connect();
    server.engine.stuck(client, 1024);
    assert!(!server.ends(client));
    server.engine.stuck(client, 1025);
    assert!(server.ends(client));
    // Within one turn no more is made than Redis keeps in its static buffer, and a KiB.
    let client = server.connect();
    server.engine.receive(client, "GET a\r\n".repeat(9000).as_bytes());
    assert!(server.ends(client));
    // So is what is sent without a whole request.
    let client = server.connect();
    let bulk = format!("$16000\r\n{}\r\n", "x".repeat(16_000));
    server.engine.receive(client, format!("*9\r\n{}", bulk.repeat(5)).as_bytes());
    assert!(server.ends(client));
    let client = server.connect();
    assert_eq!(server.send(client, "AUTH secret\r\n"), "+OK\r\n");
    server.engine.receive(client, "GET a\r\n".repeat(9000).as_bytes());
    server.engine.stuck(client, 0);
    assert!(!server.ends(client), "it has authenticated");
}

#[test]
fn a_message_for_many_patterns_of_one_client_is_bounded_by_its_limit() {
    let limit = ["--client-output-buffer-limit", "pubsub", "8mb", "0", "0"];
    let mut server = TestServer::new(&limit);
    let (listener, other, speaker) = (server.connect(), server.connect(), server.connect());
    let patterns: Vec<String> = (1..300).map(|stars| format!("c{}", "*".repeat(stars))).collect();
    server.send(listener, &format!("PSUBSCRIBE {}\r\n", patterns.join(" ")));
    server.send(other, "SUBSCRIBE c\r\n");
    let message = "x".repeat(1 << 20);
    let publish = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1048576\r\n{message}\r\n");
    assert_eq!(server.send(speaker, &publish), ":300\r\n");
    let allocated = server.engine.sessions[listener].connection.output.memory_bytes();
    assert!(allocated < 32 << 20, "{allocated} bytes for a client that may have 8 MB");
    assert!(server.ends(listener));
    assert!(server.read(other).ends_with("x\r\n"), "others get theirs");
}
