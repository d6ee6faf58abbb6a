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
