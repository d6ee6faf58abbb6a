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
fn large_requests_and_replies_are_logged() {
    let mut server = TestServer::new(&[
        "--commandlog-request-larger-than",
        "1024",
        "--commandlog-reply-larger-than",
        "1030",
        "--slowlog-log-slower-than",
        "-1",
    ]);
    let client = server.connect();
    let lens =
        "COMMANDLOG LEN slow\r\nCOMMANDLOG LEN large-request\r\nCOMMANDLOG LEN large-reply\r\n";
    let value = "x".repeat(1000);
    // The request has 1029 bytes, the reply 1009.
    server.send(client, &format!("SET k {value}\r\nGET k\r\nPING\r\n"));
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:0\r\n");
    server.send(client, "CLIENT SETNAME me\r\nAPPEND k 0123456789012345678901\r\nGET k\r\n");
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:1\r\n");
    let request = server.send(client, "COMMANDLOG GET -1 Large-Request\r\n");
    assert!(
        request.starts_with("*1\r\n*6\r\n:0\r\n:1700000001\r\n:1029\r\n*3\r\n$3\r\nSET\r\n"),
        "{request}"
    );
    assert!(request.contains("... (872 more bytes)"), "{request}");
    let reply = server.send(client, "COMMANDLOG GET 5 large-reply\r\n");
    let expected = "*1\r\n*6\r\n:0\r\n:1700000001\r\n:1031\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    assert!(reply.starts_with(expected) && reply.ends_with("$2\r\nme\r\n"), "{reply}");
    assert_eq!(server.send(client, "COMMANDLOG GET 0 large-reply\r\n"), "*0\r\n");
    server.send(client, "MULTI\r\nGET k\r\nGET k\r\nEXEC\r\nCLIENT REPLY OFF\r\nGET k\r\n");
    server.send(client, "CLIENT REPLY ON\r\n");
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:3\r\n", "each of a transaction");
    server.send(client, "CONFIG SET commandlog-large-reply-max-len 2\r\nGET k\r\n");
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:2\r\n");
    server.send(client, "COMMANDLOG RESET large-reply\r\n");
    server.send(client, "EVAL \"return redis.call('GET', KEYS[1])\" 1 k\r\n");
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:1\r\n", "the script alone");
    let reset = "COMMANDLOG RESET large-reply\r\nCONFIG SET commandlog-reply-larger-than -1\r\n";
    assert_eq!(server.send(client, reset), "+OK\r\n+OK\r\n");
    server.send(client, "GET k\r\n");
    assert_eq!(server.send(client, lens), ":0\r\n:1\r\n:0\r\n");
}

/// The largest replies are those that end their clients.
#[test]
fn a_reply_that_is_over_the_limit_of_its_client_is_a_large_one() {
    let mut server = TestServer::new(&["--commandlog-reply-larger-than", "4096"]);
    let (client, other) = (server.connect(), server.connect());
    server.send(other, &format!("SET k {}\r\n", "x".repeat(50_000)));
    server.send(other, "CONFIG SET client-output-buffer-limit \"normal 20000 0 0\"\r\n");
    server.send(client, "GET k\r\n");
    assert!(server.ends(client));
    let log = server.send(other, "COMMANDLOG GET -1 large-reply\r\n");
    assert!(log.starts_with("*1\r\n*6\r\n:0\r\n:1700000001\r\n:20000\r\n*2\r\n$3\r\nGET"), "{log}");
}

#[test]
fn the_log_of_slow_commands_has_two_names() {
    let mut server = TestServer::new(&["--commandlog-execution-slower-than", "0"]);
    let client = server.connect();
    server.send(client, "PING\r\nCONFIG SET commandlog-slow-execution-max-len 2\r\nPING\r\n");
    assert_eq!(server.send(client, "SLOWLOG LEN\r\nCOMMANDLOG LEN slow\r\n"), ":2\r\n:2\r\n");
    let both = server.send(client, "CONFIG SET slowlog-log-slower-than -1\r\nSLOWLOG GET\r\n");
    let other = server.send(client, "COMMANDLOG GET 10 slow\r\n");
    assert_eq!(both, format!("+OK\r\n{other}"));
    assert_eq!(server.send(client, "COMMANDLOG RESET SLOW\r\nSLOWLOG LEN\r\n"), "+OK\r\n:0\r\n");
    for (call, error) in [
        ("GET -2 slow", "count should be greater than or equal to -1"),
        ("GET x slow", "count should be greater than or equal to -1"),
        ("GET 1 fast", "type should be one of the following: slow, large-request, large-reply"),
        ("LEN fast", "type should be one of the following: slow, large-request, large-reply"),
        ("RESET fast", "type should be one of the following: slow, large-request, large-reply"),
    ] {
        let reply = server.send(client, &format!("COMMANDLOG {call}\r\n"));
        assert_eq!(reply, format!("-ERR {error}\r\n"), "{call}");
    }
    assert!(server.send(client, "COMMANDLOG HELP\r\n").contains("RESET <type>"));
    let names = server.send(client, "CONFIG GET commandlog*\r\n");
    assert!(names.starts_with("*12\r\n"), "{names}");
    assert!(!server.send(client, "CONFIG GET *\r\n").contains("commandlog"));
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
