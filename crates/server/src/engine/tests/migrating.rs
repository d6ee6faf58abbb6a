//! MIGRATE, with a target that does what a test says, when it says so.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::server::TestServer;
use crate::engine::ClientKey;
use crate::migrate::{Courier, CourierStep, Dialer, MigrateRunner, Wire};

/// The other server, and the courier that talks to it.
#[derive(Clone, Default)]
struct Target(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    courier: Option<Courier>,
    is_unreachable: bool,
    /// What it says next.
    lines: VecDeque<Vec<u8>>,
    /// What it was sent.
    sent: Vec<u8>,
}

impl MigrateRunner for Target {
    fn run(&mut self, courier: Courier) -> io::Result<()> {
        self.0.lock().unwrap().courier = Some(courier);
        Ok(())
    }
}

impl Dialer for Target {
    fn dial(&mut self, _: &str, _: u16, _: Duration) -> io::Result<Box<dyn Wire>> {
        if self.0.lock().unwrap().is_unreachable {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Box::new(self.clone()))
    }
}

impl Wire for Target {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().sent.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().lines.pop_front().ok_or(ErrorKind::TimedOut.into())
    }
}

impl Target {
    fn says(&self, lines: &[&str]) {
        let lines = lines.iter().map(|line| line.as_bytes().to_vec());
        self.0.lock().unwrap().lines.extend(lines);
    }

    /// Steps the courier until it waits for the engine, or is finished.
    fn steps(&mut self) {
        let Some(mut courier) = self.0.lock().unwrap().courier.take() else { return };
        loop {
            match courier.step(self) {
                CourierStep::Worked => {}
                CourierStep::Idle => break,
                CourierStep::Finished => return,
            }
        }
        self.0.lock().unwrap().courier = Some(courier);
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap().sent).into_owned()
    }
}

/// A server with a target, a client that migrates and another one.
struct Scene {
    server: TestServer,
    target: Target,
    client: ClientKey,
    other: ClientKey,
}

impl Scene {
    fn on(mut server: TestServer) -> Self {
        let target = Target::default();
        server.engine.migrate_by(Box::new(target.clone()));
        let (client, other) = (server.connect(), server.connect());
        Self { server, target, client, other }
    }

    fn new() -> Self {
        Self::on(TestServer::new(&[]))
    }

    /// A client asks, and the other one as well.
    fn ask(&mut self, request: &str) -> String {
        self.server.send(self.client, request)
    }

    fn other(&mut self, request: &str) -> String {
        self.server.send(self.other, request)
    }

    /// The courier goes as far as it can, and the engine looks after it.
    fn goes_on(&mut self) -> String {
        self.target.steps();
        self.server.pass_ms(0);
        // Clients that have waited go on in the next iteration.
        self.server.pass_ms(0);
        self.server.read(self.client)
    }
}

#[test]
fn what_the_target_has_is_deleted_and_writers_wait_from_the_taking_on() {
    let mut scene = Scene::new();
    scene.other("SET a 1\r\nSET b 2\r\n");
    assert_eq!(scene.ask("MIGRATE host 1 a 3 100\r\nEXISTS a\r\n"), "");
    // Nothing is taken yet: the target may be out of reach.
    assert_eq!(scene.other("SET a 5\r\n"), "+OK\r\n");
    scene.target.says(&["+OK"]);
    assert_eq!(scene.goes_on(), "");
    assert_eq!(scene.target.sent(), "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
    assert_eq!(scene.other("GET a\r\nSET b 3\r\n"), "$1\r\n5\r\n");
    scene.target.says(&["+OK"]);
    assert_eq!(scene.goes_on(), "+OK\r\n:0\r\n");
    let payload = scene.target.sent();
    assert!(payload.contains("*4\r\n$7\r\nRESTORE\r\n$1\r\na\r\n$1\r\n0\r\n$"), "{payload}");
    assert_eq!(scene.server.read(scene.other), "+OK\r\n");
    assert_eq!(scene.other("GET b\r\nEXISTS a\r\n"), "$1\r\n3\r\n:0\r\n");
}

#[test]
fn only_what_is_acknowledged_is_deleted() {
    for (answers, reply, left) in [
        (
            &["+OK", "-BUSYKEY it is", "+OK"][..],
            "-ERR Target instance replied with error: BUSYKEY it is\r\n",
            "$-1\r\n$1\r\nb\r\n$-1\r\n",
        ),
        (
            &["+OK"],
            "-IOERR error or timeout reading to target instance\r\n",
            "$-1\r\n$1\r\nb\r\n$1\r\nc\r\n",
        ),
        (
            &["HTTP/1.1 400", "+OK", "+OK"],
            "-ERR Target instance replied with error: it is no answer to RESTORE: HTTP/1.1 400\r\n",
            "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        ),
        (
            &[":1", "+OK"],
            "-ERR Target instance replied with error: it is no answer to RESTORE: :1\r\n",
            "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        ),
    ] {
        let mut scene = Scene::new();
        scene.other("MSET a a b b c c\r\n");
        scene.ask("MIGRATE host 1 \"\" 0 100 REPLACE KEYS a none b c\r\n");
        scene.target.says(&["+OK"]);
        scene.goes_on();
        scene.target.says(answers);
        assert_eq!(scene.goes_on(), reply);
        assert_eq!(scene.other("GET a\r\nGET b\r\nGET c\r\n"), left, "{answers:?}");
    }
}

#[test]
fn a_target_that_refuses_gets_no_value() {
    for (request, line) in [
        ("AUTH secret", "-WRONGPASS no"),
        ("AUTH2 user secret", "-WRONGPASS no"),
        ("COPY", "-ERR DB index is out of range"),
    ] {
        let mut scene = Scene::new();
        scene.other("SET a 1\r\n");
        scene.ask(&format!("MIGRATE host 1 a 99 100 {request}\r\n"));
        scene.target.says(&[line]);
        let reply = format!("-ERR Target instance replied with error: {}\r\n", &line[1..]);
        assert_eq!(scene.goes_on(), reply);
        assert!(!scene.target.sent().contains("RESTORE"), "{}", scene.target.sent());
        assert_eq!(scene.other("GET a\r\nSET a 2\r\n"), "$1\r\n1\r\n+OK\r\n");
    }
    let mut scene = Scene::new();
    scene.target.0.lock().unwrap().is_unreachable = true;
    scene.other("SET a 1\r\n");
    for port in ["1", "no", "70000"] {
        scene.ask(&format!("MIGRATE host {port} a 0 100\r\n"));
        assert_eq!(scene.goes_on(), "-IOERR error or timeout connecting to the client\r\n");
    }
}

#[test]
fn a_copy_stays_and_lives_as_long() {
    let mut scene = Scene::new();
    scene.other("SET a 1 PX 5000\r\n");
    scene.server.pass_ms(1000);
    scene.ask("MIGRATE host 1 a 0 100 COPY REPLACE AUTH2 me secret\r\n");
    scene.target.says(&["+OK", "+OK"]);
    scene.goes_on();
    scene.target.says(&["+OK"]);
    assert_eq!(scene.goes_on(), "+OK\r\n");
    let sent = scene.target.sent();
    assert!(sent.starts_with("*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n"), "{sent}");
    assert!(sent.contains("*5\r\n$7\r\nRESTORE\r\n$1\r\na\r\n$4\r\n4000\r\n"), "{sent}");
    assert!(sent.ends_with("$7\r\nREPLACE\r\n"), "{sent}");
    assert_eq!(scene.other("GET a\r\n"), "$1\r\n1\r\n");
}

#[test]
fn nothing_changes_a_key_that_is_on_its_way() {
    let mut scene = Scene::new();
    let waiter = scene.server.connect();
    scene.other("SET a 1 PX 100\r\n");
    assert_eq!(scene.server.send(waiter, "BLPOP src 0\r\n"), "");
    scene.ask("MIGRATE host 1 a 0 1000\r\n");
    scene.target.says(&["+OK"]);
    scene.goes_on();
    assert_eq!(scene.other("RPUSH src y\r\n"), "");
    for request in ["FLUSHALL", "SWAPDB 0 1", "MIGRATE host 1 a 0 100", "GETDEL a"] {
        let client = scene.server.connect();
        assert_eq!(scene.server.send(client, &format!("{request}\r\n")), "", "{request}");
        scene.server.engine.remove(client);
    }
    scene.server.pass_ms(500);
    assert_eq!(scene.server.engine.keyspace().size(base::DbIndex::FIRST).0, 1);
    scene.target.says(&["+OK"]);
    assert_eq!(scene.goes_on(), "+OK\r\n");
    assert_eq!(scene.server.read(scene.other), ":1\r\n");
    assert_eq!(scene.server.read(waiter), "*2\r\n$3\r\nsrc\r\n$1\r\ny\r\n");
}

#[test]
fn what_leaves_is_durable() {
    let (server, log) = TestServer::with_log(&[]);
    let mut scene = Scene::on(server);
    scene.other("SET a 1\r\n");
    scene.target.says(&["+OK", "+OK"]);
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.goes_on();
    assert_eq!(scene.goes_on(), "");
    assert!(!scene.target.sent().contains("RESTORE"), "the log could still lose it");
    let durable = Arc::clone(&log.0.lock().unwrap().durable);
    durable.store(1, Ordering::Relaxed);
    scene.server.pass_ms(0);
    // The deletion is not durable yet, and its reply waits.
    assert_eq!(scene.goes_on(), "");
    assert!(scene.target.sent().contains("RESTORE"));
    durable.store(2, Ordering::Relaxed);
    scene.server.pass_ms(0);
    assert_eq!(scene.server.read(scene.client), "+OK\r\n");
}

#[test]
fn a_log_that_takes_nothing_keeps_the_keys() {
    let (server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let mut scene = Scene::on(server);
    scene.other("SET a 1\r\n");
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.target.says(&["+OK"]);
    scene.goes_on();
    log.0.lock().unwrap().read_only = true;
    scene.target.says(&["+OK"]);
    let reply = scene.goes_on();
    assert!(reply.starts_with("-MISCONF") && reply.contains("still here"), "{reply}");
    assert_eq!(scene.other("GET a\r\n"), "$1\r\n1\r\n");
}

#[test]
fn a_client_that_goes_ends_what_was_not_sent_and_nothing_else() {
    let mut scene = Scene::new();
    scene.other("SET a 1\r\n");
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.server.engine.remove(scene.client);
    scene.target.says(&["+OK"]);
    scene.server.pass_ms(0);
    scene.target.steps();
    assert!(scene.target.0.lock().unwrap().courier.is_none(), "it has ended");
    scene.client = scene.server.connect();
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.target.says(&["+OK"]);
    scene.goes_on();
    scene.server.engine.remove(scene.client);
    assert_eq!(scene.other("SET b 1\r\n"), "");
    scene.target.says(&["+OK"]);
    scene.goes_on();
    assert_eq!(scene.server.read(scene.other), "+OK\r\n");
    assert_eq!(scene.other("EXISTS a\r\n"), ":0\r\n");
}

#[test]
fn the_end_of_the_server_gives_it_up() {
    let mut scene = Scene::new();
    scene.other("SET a 1\r\n");
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.target.says(&["+OK"]);
    scene.goes_on();
    scene.server.engine.request_shutdown("shutdown-on-sigterm");
    let reply = scene.server.read(scene.client);
    assert!(reply.starts_with("-IOERR the server is shutting down"), "{reply}");
    assert!(scene.server.engine.shutdown_requested().is_some());
    scene.target.says(&["+OK"]);
    scene.goes_on();
    assert_eq!(scene.other("EXISTS a\r\n"), ":1\r\n");
}

#[test]
fn it_is_refused_in_a_transaction_before_anything_is_done() {
    let mut scene = Scene::new();
    let reply = scene.ask("MULTI\r\nSET a 1\r\nMIGRATE host 1 a 0 100\r\nEXEC\r\nEXISTS a\r\n");
    assert!(reply.contains("-ERR MIGRATE is not possible inside a transaction"), "{reply}");
    assert!(reply.contains("-EXECABORT") && reply.ends_with(":0\r\n"), "{reply}");
}

#[test]
fn what_is_gone_when_the_target_is_ready_is_not_sent() {
    let mut scene = Scene::new();
    scene.other("SET a 1\r\n");
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    scene.other("DEL a\r\n");
    scene.target.says(&["+OK"]);
    assert_eq!(scene.goes_on(), "+NOKEY\r\n");
    assert_eq!(scene.ask("MIGRATE host 1 a 0 100\r\n"), "+NOKEY\r\n");
}

#[test]
fn there_is_one_at_a_time_and_each_gets_its_turn() {
    let mut scene = Scene::new();
    scene.other("MSET a 1 b 2\r\n");
    scene.ask("MIGRATE host 1 a 0 100\r\n");
    assert_eq!(scene.other("MIGRATE host 1 b 0 100\r\n"), "");
    let mut heard = String::new();
    for _ in 0..4 {
        scene.target.says(&["+OK"]);
        heard += &scene.goes_on();
    }
    assert_eq!(heard + &scene.server.read(scene.other), "+OK\r\n+OK\r\n");
    assert_eq!(scene.server.engine.keyspace().size(base::DbIndex::FIRST).0, 0);
}

#[test]
fn passwords_are_not_shown() {
    let mut scene = Scene::on(TestServer::new(&["--slowlog-log-slower-than", "0"]));
    let monitor = scene.server.connect();
    scene.server.send(monitor, "MONITOR\r\n");
    scene.ask("MIGRATE h 1 \"\" 0 9 AUTH hunter1 COPY AUTH2 me hunter2 KEYS auth a\r\n");
    let shown = scene.server.read(monitor) + &scene.other("SLOWLOG GET\r\n");
    assert!(shown.contains("(redacted)") && !shown.contains("hunter"), "{shown}");
    assert!(shown.contains("\"KEYS\" \"auth\" \"a\""), "{shown}");
}
