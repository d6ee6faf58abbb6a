//! MULTI, EXEC and WATCH.

use super::server::TestServer;

#[test]
fn a_transaction_is_all_or_nothing() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let reply = server.send(client, "MULTI\r\nSET a 1\r\nINCR a\r\nEXEC\r\n");
    assert_eq!(reply, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:2\r\n");
    let reply = server.send(client, "MULTI\r\nNOPE\r\nSET a 5\r\nEXEC\r\nGET a\r\n");
    assert!(
        reply.ends_with(
            "-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n2\r\n"
        ),
        "{reply}"
    );
}

#[test]
fn a_watched_key_that_changes_spoils_the_transaction() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\nWATCH a\r\nMULTI\r\nSET b 1\r\n");
    server.send(other, "SET a 2\r\n");
    assert_eq!(server.send(client, "EXEC\r\n"), "*-1\r\n");
    let reply = server.send(client, "WATCH a\r\nMULTI\r\nPING\r\nEXEC\r\n");
    assert_eq!(reply, "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[test]
fn the_devices_of_the_log_are_not_changed_in_the_middle_of_a_transaction() {
    let options = ["--appendfsync", "no", "--enable-protected-configs", "yes"];
    let (mut server, log) = TestServer::with_log(&options);
    let client = server.connect();
    let before = log.0.lock().unwrap().open;
    let queued = "MULTI\r\nSET a 1\r\nCONFIG SET log-devices /elsewhere\r\nSET a 2\r\nEXEC\r\n";
    let reply = server.send(client, queued);
    assert!(reply.contains("-ERR CONFIG SET failed") && reply.contains("transaction"), "{reply}");
    let log = log.0.lock().unwrap();
    assert_eq!((log.open - before, log.records), (1, 0), "the transaction is one block");
}

#[test]
fn a_server_that_is_read_only_refuses_what_writes_and_nothing_else() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let reply = server.send(client, "SET a 1\r\nMULTI\r\nSET a 2\r\nCONFIG SET read-only yes\r\n");
    assert_eq!(reply, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    // What was begun before is refused as a whole only if it is refused at its end.
    assert_eq!(server.send(client, "EXEC\r\n"), "*2\r\n+OK\r\n+OK\r\n");
    let refusal = "-READONLY You can't write against a read only server.\r\n";
    for words in ["SET a 3", "DEL a", "FLUSHALL", "EXPIRE a 1", "GETDEL a", "RPOP a"] {
        assert_eq!(server.send(client, &format!("{words}\r\n")), refusal, "{words}");
    }
    assert_eq!(server.send(client, "GET a\r\n"), "$1\r\n2\r\n");
    let reply = server.send(client, "MULTI\r\nSET a 3\r\nEXEC\r\n");
    assert!(reply.starts_with(&format!("+OK\r\n{refusal}-EXECABORT")), "{reply}");
    assert_eq!(server.send(client, "CONFIG SET read-only no\r\nDEL a\r\n"), "+OK\r\n:1\r\n");
}
