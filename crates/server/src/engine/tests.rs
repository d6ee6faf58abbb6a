//! The engine driven with bytes: what a client sees, and when.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{Lsn, Record, RecordAddr, SegmentId};
use keyspace::Journal;

use super::*;
use crate::config::{FsyncPolicy, LogOptions};
use crate::host::NoHost;

/// A clock that stands still until a test moves it.
#[derive(Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap() * 1000
    }
}

struct TestEntropy(u64);

impl Entropy for TestEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = self.0.to_le_bytes()[7];
        }
    }
}

/// A log that becomes durable when a test says so.
#[derive(Default)]
struct TestLog {
    open: u64,
    records: u32,
    durable: Arc<AtomicU64>,
    read_only: bool,
    has_failed: bool,
}

#[derive(Clone)]
struct SharedLog(Arc<Mutex<TestLog>>);

impl Journal for SharedLog {
    fn append(&mut self, _record: &Record<'_>) -> Option<RecordAddr> {
        let mut log = self.0.lock().unwrap();
        log.records += 1;
        Some(RecordAddr::new(SegmentId(1), log.records))
    }

    fn retire(&mut self, _addr: RecordAddr) {}

    fn open_lsn(&self) -> Lsn {
        Lsn(self.0.lock().unwrap().open)
    }

    fn last_lsn(&self) -> Lsn {
        let log = self.0.lock().unwrap();
        Lsn(if log.records > 0 { log.open } else { log.open - 1 })
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.0.lock().unwrap().durable.load(Ordering::Relaxed))
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        let log = self.0.lock().unwrap();
        let last = log.open - 1;
        (log.durable.load(Ordering::Relaxed) < last).then_some(Lsn(last))
    }
}

impl LogControl for SharedLog {
    fn seal(&mut self) {
        let mut log = self.0.lock().unwrap();
        if log.records > 0 {
            log.records = 0;
            log.open += 1;
        }
    }

    fn takes_block_now(&self) -> bool {
        self.0.lock().unwrap().records > 0
    }

    fn open_bytes(&self) -> usize {
        0
    }

    fn durable_lsn(&mut self) -> Lsn {
        Journal::durable_lsn(self)
    }

    fn request_sync(&mut self) {}

    fn set_policy(&mut self, _policy: FsyncPolicy) {}

    fn set_compaction(&mut self, _options: &LogOptions) {}

    fn is_congested(&self) -> bool {
        false
    }

    fn health(&self) -> LogHealth {
        if self.0.lock().unwrap().has_failed {
            LogHealth::Failed("the disk is gone".to_owned())
        } else if self.0.lock().unwrap().read_only {
            LogHealth::ReadOnly("the disk is full".to_owned())
        } else {
            LogHealth::Good
        }
    }

    fn compact_all(&mut self) -> bool {
        self.seal();
        true
    }

    fn is_compacting(&self) -> bool {
        false
    }

    fn tick(&mut self) {}

    fn info(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn shutdown(&mut self) -> Result<(), String> {
        Ok(())
    }
}

struct TestServer {
    engine: Engine,
    clock: Arc<TestClock>,
}

impl TestServer {
    fn new(settings: &[&str]) -> Self {
        let clock = Arc::new(TestClock::default());
        clock.0.store(1000, Ordering::Relaxed);
        let arguments: Vec<String> = settings.iter().map(|word| (*word).to_owned()).collect();
        let config = crate::config::load(None, &arguments).unwrap();
        let surroundings = Surroundings {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Box::new(TestEntropy(1)),
            host: Box::new(NoHost),
            logger: Logger::to_nothing(Arc::clone(&clock) as Arc<dyn Clock>),
        };
        Self { engine: Engine::new(config, surroundings), clock }
    }

    /// A server with a log, and the number up to which it is durable.
    fn with_log(settings: &[&str]) -> (Self, SharedLog) {
        let mut server = Self::new(settings);
        let log = SharedLog(Arc::new(Mutex::new(TestLog { open: 1, ..TestLog::default() })));
        let keyspace = Keyspace::new(Box::new(log.clone()), [7; 16], 16);
        server.engine.loaded(keyspace, Some(Box::new(log.clone())));
        (server, log)
    }

    fn connect(&mut self) -> ClientKey {
        let peer = Peer { address: "127.0.0.1:1".to_owned(), is_loopback: true, ..Peer::default() };
        self.engine.connect(peer).unwrap()
    }

    /// Sends bytes, ends the iteration, and gives what the client reads.
    fn send(&mut self, client: ClientKey, bytes: &str) -> String {
        self.engine.receive(client, bytes.as_bytes());
        self.engine.end_iteration(true);
        self.read(client)
    }

    /// What may be sent to a client now.
    fn read(&mut self, client: ClientKey) -> String {
        while self.engine.next_noted().is_some() {}
        let bytes = self.engine.outgoing(client).bytes.to_vec();
        self.engine.sent(client, bytes.len());
        String::from_utf8(bytes).unwrap()
    }

    fn ends(&mut self, client: ClientKey) -> bool {
        self.engine.outgoing(client).ends
    }

    fn pass_ms(&mut self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
        self.engine.tick();
        self.engine.end_iteration(true);
    }
}

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
fn a_password_is_asked_for() {
    let mut server = TestServer::new(&["--requirepass", "secret"]);
    let client = server.connect();
    assert_eq!(server.send(client, "GET a\r\n"), "-NOAUTH Authentication required.\r\n");
    assert!(server.send(client, "AUTH wrong\r\n").starts_with("-WRONGPASS"));
    assert_eq!(server.send(client, "AUTH secret\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
}

#[test]
fn a_write_is_answered_when_it_is_durable_and_a_reader_of_it_too() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\nPING\r\n"), "", "PING waits behind SET");
    assert_eq!(
        server.send(reader, "PING\r\nGET a\r\n"),
        "+PONG\r\n",
        "GET would show what may be lost"
    );
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.log_advanced();
    assert_eq!(server.read(writer), "+OK\r\n+PONG\r\n");
    assert_eq!(server.read(reader), "$1\r\n1\r\n");
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    assert!(server.engine.end_of_input(client), "nothing is to be sent");
    assert_eq!(server.send(client, "SET a 1\r\n"), "");
    assert!(!server.engine.end_of_input(client));
    assert!(!server.ends(client));
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.log_advanced();
    assert!(server.ends(client));
    assert_eq!(server.read(client), "+OK\r\n");
}

#[test]
fn a_connection_may_ask_for_less_durability() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let client = server.connect();
    assert_eq!(server.send(client, "CLIENT DURABILITY everysec\r\nSET a 1\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(
        server.send(client, "CLIENT DURABILITY default\r\nSET a 1\r\n"),
        "+OK\r\n",
        "SET waits again"
    );
}

#[test]
fn waitaof_waits_for_the_log() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "everysec"]);
    let client = server.connect();
    assert_eq!(server.send(client, "SET a 1\r\nWAITAOF 1 0 0\r\nPING\r\n"), "+OK\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "*2\r\n:1\r\n:0\r\n+PONG\r\n");
}

#[test]
fn a_log_that_takes_nothing_refuses_writes_and_serves_reads() {
    let (mut server, log) = TestServer::with_log(&[]);
    log.0.lock().unwrap().read_only = true;
    let client = server.connect();
    assert!(
        server
            .send(client, "SET a 1\r\n")
            .starts_with("-MISCONF Errors writing to the redo log: the disk")
    );
    assert_eq!(server.send(client, "GET a\r\n"), "$-1\r\n");
}

#[test]
fn clients_whose_writes_will_never_be_durable_are_disconnected() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (writer, reader) = (server.connect(), server.connect());
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    log.0.lock().unwrap().has_failed = true;
    server.pass_ms(200);
    assert!(server.ends(writer));
    assert_eq!(server.send(reader, "PING\r\n"), "+PONG\r\n");
    // What it has written must not be shown, and nobody need wait for it.
    let reply = server.send(reader, "GET a\r\nPING\r\n");
    assert!(reply.starts_with("-MISCONF What was read is not durable"), "{reply}");
    assert!(reply.ends_with("the disk is gone\r\n+PONG\r\n"), "{reply}");
}

#[test]
fn loading_is_said_to_clients() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.engine.set_loading(100, 50);
    assert!(server.send(client, "GET a\r\n").starts_with("-LOADING "));
    assert!(server.send(client, "INFO persistence\r\n").contains("loading_loaded_perc:50.00"));
}

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
fn blocked_clients_are_served_in_the_order_in_which_they_came() {
    let mut server = TestServer::new(&[]);
    let (first, second, pusher) = (server.connect(), server.connect(), server.connect());
    assert_eq!(server.send(first, "BLPOP a b 0\r\nPING\r\n"), "");
    assert_eq!(server.send(second, "BLPOP b 0\r\n"), "");
    assert_eq!(server.send(pusher, "RPUSH b x\r\n"), ":1\r\n");
    server.engine.end_iteration(true);
    assert_eq!(server.read(first), "*2\r\n$1\r\nb\r\n$1\r\nx\r\n+PONG\r\n");
    assert_eq!(server.read(second), "");
    server.send(pusher, "RPUSH b y z\r\n");
    assert_eq!(server.read(second), "*2\r\n$1\r\nb\r\n$1\r\ny\r\n");
    assert_eq!(server.send(pusher, "LRANGE b 0 -1\r\n"), "*1\r\n$1\r\nz\r\n");
}

#[test]
fn a_blocked_client_gives_up_and_can_be_unblocked() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "BLPOP a 1.5\r\n");
    server.pass_ms(1000);
    assert_eq!(server.read(client), "");
    server.pass_ms(600);
    assert_eq!(server.read(client), "*-1\r\n");
    server.send(client, "BLPOP a 0\r\n");
    assert_eq!(server.send(other, "CLIENT UNBLOCK 1 ERROR\r\n"), ":1\r\n");
    assert_eq!(server.read(client), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
}

#[test]
fn messages_reach_channels_and_patterns() {
    let mut server = TestServer::new(&[]);
    let (listener, publisher) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE news\r\nPSUBSCRIBE n*\r\n");
    assert_eq!(server.send(publisher, "PUBLISH news hi\r\n"), ":2\r\n");
    assert_eq!(
        server.read(listener),
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert!(
        server
            .send(listener, "GET a\r\n")
            .starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE")
    );
}

#[test]
fn keyspace_notifications_are_messages() {
    let mut server = TestServer::new(&["--notify-keyspace-events", "KEA"]);
    let (listener, writer) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE __keyspace@0__:a __keyevent@0__:set\r\n");
    server.send(writer, "SET a 1\r\n");
    let messages = server.read(listener);
    assert!(messages.contains("__keyspace@0__:a\r\n$3\r\nset\r\n"), "{messages}");
    assert!(messages.contains("__keyevent@0__:set\r\n$1\r\na\r\n"), "{messages}");
}

#[test]
fn a_pause_holds_writers_until_it_is_over() {
    let mut server = TestServer::new(&[]);
    let (client, admin) = (server.connect(), server.connect());
    server.send(admin, "CLIENT PAUSE 1000 WRITE\r\n");
    assert_eq!(server.send(client, "GET a\r\nSET a 1\r\nGET a\r\n"), "$-1\r\n");
    server.pass_ms(1001);
    assert_eq!(server.read(client), "+OK\r\n$1\r\n1\r\n");
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
fn a_client_that_does_not_read_is_disconnected() {
    let mut server = TestServer::new(&["--client-output-buffer-limit", "normal", "1kb", "0", "0"]);
    let client = server.connect();
    let value = "x".repeat(600);
    server.engine.receive(client, format!("SET a {value}\r\nGET a\r\nGET a\r\n").as_bytes());
    assert!(server.ends(client));
}

#[test]
fn expired_keys_go_by_themselves() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.send(client, "SET a 1 PX 100\r\nSET b 1\r\n");
    server.pass_ms(200);
    assert_eq!(server.send(client, "DBSIZE\r\n"), ":1\r\n");
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
fn the_slow_log_hides_secrets() {
    let mut server =
        TestServer::new(&["--slowlog-log-slower-than", "0", "--requirepass", "secret"]);
    let client = server.connect();
    let log = server.send(client, "AUTH secret\r\nCONFIG SET requirepass new\r\nSLOWLOG GET\r\n");
    assert!(log.contains("(redacted)") && !log.contains("secret") && !log.contains("new"), "{log}");
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
fn strangers_are_refused_without_a_password() {
    let mut server = TestServer::new(&[]);
    let refusal = server
        .engine
        .connect(Peer { address: "10.0.0.1:1".to_owned(), ..Peer::default() })
        .unwrap_err();
    assert!(refusal.starts_with(b"-DENIED "));
}

#[test]
fn a_reply_that_is_taken_back_takes_its_gate_along() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    let value = "x".repeat(500);
    server.send(client, &format!("SET a {value}\r\n"));
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    let silent = "CLIENT REPLY OFF\r\nMULTI\r\nGET a\r\nSET b 1\r\nEXEC\r\nCLIENT REPLY ON\r\n";
    assert_eq!(server.send(client, silent), "");
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
}

#[test]
fn nothing_splits_the_block_of_a_transaction() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    for command in ["BGSAVE", "BGREWRITEAOF", "CHECKPOINT"] {
        let before = log.0.lock().unwrap().open;
        let sent = format!("MULTI\r\nSET a 1\r\n{command}\r\nSET b 1\r\nEXEC\r\n");
        server.engine.receive(client, sent.as_bytes());
        server.engine.end_iteration(true);
        assert_eq!(log.0.lock().unwrap().open, before + 1, "{command}");
    }
}

#[test]
fn a_log_that_takes_nothing_gets_nothing_from_expiry() {
    let (mut server, log) = TestServer::with_log(&[]);
    let client = server.connect();
    server.send(client, "SET a 1 PX 100\r\nSADD s 1\r\nPEXPIRE s 100\r\nSADD t 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.read(client);
    log.0.lock().unwrap().read_only = true;
    server.pass_ms(200);
    assert_eq!(server.send(client, "DBSIZE\r\nGET a\r\n"), ":3\r\n$-1\r\n");
    assert_eq!(server.send(client, "SUNION s t\r\nEXISTS a s\r\n"), "*1\r\n$1\r\n1\r\n:0\r\n");
    assert_eq!(log.0.lock().unwrap().records, 0, "reads log nothing");
    log.0.lock().unwrap().read_only = false;
    server.pass_ms(200);
    assert_eq!(server.engine.keyspace.size(0).0, 1);
}

#[test]
fn what_is_read_after_an_exchange_of_databases_waits_for_it() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, reader) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "+OK\r\n");
    server.engine.receive(client, b"SWAPDB 0 1\r\n");
    assert_eq!(server.send(reader, "SELECT 1\r\nGET a\r\n"), "+OK\r\n");
    log.0.lock().unwrap().durable.store(2, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert_eq!(server.read(reader), "$1\r\n1\r\n");
}

#[test]
fn emptying_what_is_empty_waits_for_what_emptied_it() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\n");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.engine.receive(client, b"DEL a\r\n");
    assert_eq!(server.send(other, "FLUSHALL\r\n"), "");
}

#[test]
fn a_wrong_type_is_told_when_it_is_durable() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "SET a 1\r\nLPUSH l 1\r\n");
    assert_eq!(server.send(other, "LPUSH a 1\r\n"), "");
    let other = server.connect();
    assert_eq!(server.send(other, "APPEND l 1\r\n"), "");
}

#[test]
fn a_message_does_not_overtake_what_its_sender_wrote() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, listener) = (server.connect(), server.connect());
    server.send(listener, "SUBSCRIBE c\r\n");
    server.send(client, "MULTI\r\nSET a 1\r\nPUBLISH c a\r\nEXEC\r\n");
    assert_eq!(server.read(listener), "");
    log.0.lock().unwrap().durable.store(1, Ordering::Relaxed);
    server.engine.end_iteration(true);
    assert!(server.read(listener).ends_with("$1\r\na\r\n"));
}

#[test]
fn what_was_watched_before_the_data_was_there_has_changed() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    server.engine.set_loading(100, 50);
    assert_eq!(server.send(client, "WATCH a\r\n"), "+OK\r\n");
    let keyspace = Keyspace::new(Box::new(keyspace::NoJournal), [7; 16], 16);
    server.engine.loaded(keyspace, None);
    assert!(server.send(client, "MULTI\r\nPING\r\nEXEC\r\n").ends_with("*-1\r\n"));
}

#[test]
fn a_client_that_wants_no_replies_gets_none_for_what_it_waited_for() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(server.send(client, "CLIENT REPLY OFF\r\nBLPOP l 0\r\n"), "");
    server.send(other, "RPUSH l 1\r\n");
    assert_eq!(server.send(client, "BLPOP l 0.1\r\n"), "");
    server.pass_ms(200);
    assert_eq!(server.send(client, "CLIENT REPLY ON\r\n"), "+OK\r\n");
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
