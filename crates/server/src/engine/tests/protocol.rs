//! Requests and their replies, byte by byte.

use super::server::TestServer;

#[test]
fn commands_are_executed_in_order_however_they_arrive() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert_eq!(server.send(client, "SET a 1\r\nGET a\r\n*2\r\n$3\r\nGE"), "+OK\r\n$1\r\n1\r\n");
    assert_eq!(server.send(client, "T\r\n$1\r\n"), "");
    assert_eq!(server.send(client, "a\r\nPING\r\n"), "$1\r\n1\r\n+PONG\r\n");
}

#[test]
fn refusals_are_redis_own() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let check = |server: &mut TestServer, sent: &str, reply: &str| {
        assert_eq!(server.send(client, &format!("{sent}\r\n")), format!("{reply}\r\n"), "{sent}");
    };
    check(
        &mut server,
        "NOPE a b",
        "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' ",
    );
    check(&mut server, "GET", "-ERR wrong number of arguments for 'get' command");
    check(&mut server, "CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP.");
    check(&mut server, "SELECT 99", "-ERR DB index is out of range");
    check(&mut server, "EXEC", "-ERR EXEC without MULTI");
    check(
        &mut server,
        "AUTH x",
        "-ERR AUTH <password> called without any password configured for the default \
         user. Are you sure your configuration is correct?",
    );
}

#[test]
fn a_protocol_error_ends_the_connection_after_its_reply() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert_eq!(
        server.send(client, "*1\r\nx\r\n"),
        "-ERR Protocol error: expected '$', got 'x'\r\n"
    );
    assert!(server.ends(client));
}

#[test]
fn hello_changes_the_protocol_and_reset_changes_it_back() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert!(
        server.send(client, "HELLO 3\r\n").starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n")
    );
    assert_eq!(server.send(client, "GET a\r\n"), "_\r\n");
    assert_eq!(server.send(client, "RESET\r\nGET a\r\n"), "+RESET\r\n$-1\r\n");
    assert_eq!(server.send(client, "HELLO 4\r\n"), "-NOPROTO unsupported protocol version\r\n");
}

#[test]
fn replies_can_be_turned_off() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert_eq!(server.send(client, "CLIENT REPLY SKIP\r\nPING\r\nPING\r\n"), "+PONG\r\n");
    assert_eq!(
        server.send(client, "CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nPING\r\n"),
        "+OK\r\n+PONG\r\n"
    );
}

#[test]
fn the_slow_log_hides_secrets() {
    let mut server =
        TestServer::new(&["--slowlog-log-slower-than", "0", "--requirepass", "secret"]);
    let client = server.connect();
    let log = server.send(client, "AUTH secret\r\nCONFIG SET requirepass new\r\nSLOWLOG GET\r\n");
    assert!(log.contains("(redacted)") && !log.contains("secret") && !log.contains("new"), "{log}");
}

#[test]
fn what_is_no_request_is_answered_when_its_turn_comes() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    let wrong = "*1\r\nwrong\r\n";
    let waiting = format!("*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n{wrong}");
    assert_eq!(server.send(client, &waiting), "", "BLPOP is to be answered first");
    assert_eq!(server.send(other, "RPUSH l x\r\n"), ":1\r\n");
    assert_eq!(
        server.read(client),
        "*2\r\n$1\r\nl\r\n$1\r\nx\r\n-ERR Protocol error: expected '$', got 'w'\r\n"
    );
    let leaving = server.connect();
    assert_eq!(server.send(leaving, &format!("*1\r\n$4\r\nQUIT\r\n{wrong}")), "+OK\r\n");
    assert!(server.ends(leaving));
}
