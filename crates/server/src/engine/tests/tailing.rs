//! LOGTAIL on a log of files whose threads are steps of the test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::{Flusher, Step, SyncPolicy};

use super::server::TestServer;
use crate::engine::{ClientKey, CloseError, DevicesError};
use crate::load::{Shape, load};
use crate::owned_log::{LogWorkers, own};
use crate::tail::{REPLY_BYTES_MAX, TailRunner, TailStep, Tailer};

/// Flushers that a test steps.
#[derive(Clone)]
struct Flushers(Arc<Mutex<Vec<Flusher>>>);

impl Flushers {
    /// Lets them do all that there is to do.
    fn step(&self) {
        for flusher in self.0.lock().unwrap().iter_mut() {
            while flusher.step() == Step::Worked {}
        }
    }
}

impl LogWorkers for Flushers {
    fn add_flushers(
        &mut self,
        _count_max: usize,
        _add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        unreachable!("no device is added")
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        self.step();
        self.0.lock().unwrap().clear();
        Ok(())
    }
}

/// A tailer that a test steps.
#[derive(Clone, Default)]
struct Tailing(Arc<Mutex<Option<Tailer>>>);

impl Tailing {
    fn step(&self) {
        while let Some(tailer) = self.0.lock().unwrap().as_mut()
            && tailer.step() == TailStep::Worked
        {}
    }
}

impl TailRunner for Tailing {
    fn run(&mut self, tailer: Tailer) -> std::io::Result<()> {
        *self.0.lock().unwrap() = Some(tailer);
        Ok(())
    }

    fn finish(&mut self) {
        self.step();
        *self.0.lock().unwrap() = None;
    }
}

struct World {
    server: TestServer,
    flushers: Flushers,
    tailing: Tailing,
}

impl World {
    fn new(policy: SyncPolicy) -> Self {
        Self::on(Arc::new(SimDisk::new(1, Faults::default())), policy)
    }

    fn on(disk: Arc<SimDisk>, policy: SyncPolicy) -> Self {
        let name = if policy == SyncPolicy::Always { "always" } else { "no" };
        let mut server = TestServer::new(&["--appendfsync", name]);
        let env = redo::Env {
            disk,
            clock: Arc::new(SimClock::new(0)),
            entropy: Box::new(SimEntropy::new(1)),
            waker: Arc::new(|| {}),
        };
        let options = redo::Options { policy, ..redo::Options::new(PathBuf::from("/data")) };
        let recovery = redo::Recovery::open(env, options).unwrap();
        let shape = Shape::new(&server.engine.config().options(), 0);
        let (keyspace, opened) = load(recovery, shape, None, &mut |_| {}).unwrap();
        let flushers = Flushers(Arc::new(Mutex::new(opened.flushers)));
        let log = own(opened.log, Box::new(flushers.clone()));
        server.engine.loaded(keyspace.expect("there is no limit"), Some(log));
        let tailing = Tailing::default();
        server.engine.tail_by(Box::new(tailing.clone()));
        Self { server, flushers, tailing }
    }

    /// Sends bytes, lets everything go on until nothing more happens, and gives what the client reads.
    fn send(&mut self, client: ClientKey, bytes: &str) -> String {
        let mut read = self.server.send(client, bytes);
        self.flushers.step();
        read += &self.read(client);
        read
    }

    /// Lets the tailer read, and gives what the client reads.
    fn read(&mut self, client: ClientKey) -> String {
        let mut read = String::new();
        for _ in 0..4 {
            self.go_on();
            read += &self.server.read(client);
        }
        read
    }

    fn go_on(&mut self) {
        self.server.engine.log_advanced();
        self.server.engine.end_iteration(true);
        self.tailing.step();
        self.server.engine.end_iteration(true);
    }

    fn info(&mut self, client: ClientKey, field: &str) -> u64 {
        let text = self.server.send(client, "INFO redo\r\n");
        let prefix = format!("{field}:");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("{field}: {text}")).parse().unwrap()
    }
}

/// The blocks in a reply, by their numbers.
fn lsns(reply: &str) -> Vec<u64> {
    let parts = reply.split(r#"{"lsn":"#).skip(1);
    parts.map(|part| part.split(',').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn blocks_are_given_out_once_they_are_durable() {
    let mut world = World::new(SyncPolicy::No);
    let (client, writer) = (world.server.connect(), world.server.connect());
    world.send(writer, "SET a 1\r\n");
    assert_eq!(world.info(client, "redo_written_lsn"), 1);
    assert_eq!(world.server.send(client, "LOGTAIL 0 BLOCK 0\r\n"), "");
    assert_eq!(world.read(client), "", "a crash could take it back");
    // With appendfsync no, what a client waits for is synced all the same.
    world.flushers.step();
    let told = world.read(client);
    assert!(told.starts_with("*2\r\n:1\r\n*1\r\n$"), "{told}");
    assert!(
        told.contains(r#""op":"set","db":0,"db_id":0,"key":"a","type":"string","value":"1"}]}"#)
    );
    // One that is durable before one that is only written.
    world.send(writer, "SET b 1\r\n");
    assert_eq!(world.info(client, "redo_written_lsn"), 2);
    assert_eq!(lsns(&world.send(client, "LOGTAIL 0\r\n")), [1]);
    // What is asked for without waiting is synced, too, once a second.
    let nothing = "*2\r\n:1\r\n*0\r\n";
    assert_eq!(world.send(client, "LOGTAIL 1\r\n"), nothing);
    assert_eq!(world.info(client, "redo_durable_lsn"), 1);
    world.server.pass_ms(1000);
    assert_eq!(world.send(client, "LOGTAIL 1\r\n"), nothing);
    assert_eq!(lsns(&world.send(client, "LOGTAIL 1\r\n")), [2]);
    let mut other = World::new(SyncPolicy::No);
    let (client, writer) = (other.server.connect(), other.server.connect());
    other.send(writer, "SET a 1\r\n");
    other.send(writer, "WAITAOF 1 0 0\r\n");
    other.send(writer, "SET b 1\r\n");
    let reach = ["redo_durable_lsn", "redo_written_lsn"].map(|field| other.info(client, field));
    assert_eq!(reach, [1, 2]);
    assert_eq!(lsns(&other.send(client, "LOGTAIL 0\r\n")), [1], "no position is kept yet");
}

#[test]
fn a_client_waits_for_what_it_does_not_know() {
    let mut world = World::new(SyncPolicy::Always);
    let (client, writer) = (world.server.connect(), world.server.connect());
    world.send(writer, "SET a 1\r\n");
    assert_eq!(world.send(client, "LOGTAIL now BLOCK 500\r\n"), "");
    assert_eq!(world.info(writer, "logtail_waiting"), 1);
    world.server.pass_ms(400);
    assert_eq!(world.read(client), "");
    world.server.pass_ms(200);
    assert_eq!(world.read(client), "*2\r\n:1\r\n*0\r\n", "nothing has come");
    assert_eq!(world.send(client, "LOGTAIL 1 BLOCK 500\r\nPING\r\n"), "");
    world.send(writer, "MULTI\r\nSET b 1\r\nSET c 2\r\nEXEC\r\n");
    let told = world.read(client);
    assert!(told.starts_with("*2\r\n:2\r\n*1\r\n$") && told.ends_with("+PONG\r\n"), "{told}");
    assert_eq!(told.matches(r#""op":"set""#).count(), 2, "{told}");
    world.server.pass_ms(1000);
    assert_eq!(world.read(client), "", "it was answered");
    // CLIENT UNBLOCK ends it as its time does.
    assert_eq!(world.send(client, "LOGTAIL 2 BLOCK 0\r\n"), "");
    assert_eq!(world.send(writer, "CLIENT UNBLOCK 1\r\n"), ":1\r\n");
    assert_eq!(world.read(client), "*2\r\n:2\r\n*0\r\n");
}

#[test]
fn replies_are_bounded_and_go_on_where_they_ended() {
    let mut world = World::new(SyncPolicy::Always);
    let (client, writer) = (world.server.connect(), world.server.connect());
    for number in 1..=9 {
        world.send(writer, &format!("SET key {number}\r\n"));
    }
    assert_eq!(lsns(&world.send(client, "LOGTAIL 0 COUNT 4\r\n")), [1, 2, 3, 4]);
    assert_eq!(lsns(&world.send(client, "LOGTAIL 4 COUNT 4\r\n")), [5, 6, 7, 8]);
    let again = world.send(client, "LOGTAIL 4 COUNT 4\r\n");
    assert_eq!(lsns(&again), [5, 6, 7, 8], "it has lost the reply");
    assert!(again.starts_with("*2\r\n:8\r\n"), "{again}");
    assert_eq!(lsns(&world.send(client, "LOGTAIL 6 COUNT 1\r\n")), [7]);
    assert_eq!(lsns(&world.send(client, "LOGTAIL 8\r\n")), [9]);
    assert_eq!(world.info(client, "logtail_learnings"), 0);
    assert_eq!(lsns(&world.send(client, "LOGTAIL 2 COUNT 2\r\n")), [3, 4]);
    assert_eq!(world.info(client, "logtail_learnings"), 1, "nothing knows that position any more");
    assert_eq!(world.info(client, "logtail_lag_blocks"), 5);
    assert_eq!(world.send(client, "LOGTAIL 9\r\n"), "*2\r\n:9\r\n*0\r\n");
    let ahead = world.send(client, "LOGTAIL 10\r\n");
    assert!(ahead.starts_with("-ERR block 10 is ahead of the log, whose last one is 9"), "{ahead}");
}

#[test]
fn a_client_that_reads_nothing_is_not_read_for() {
    let mut world = World::new(SyncPolicy::Always);
    let (client, writer) = (world.server.connect(), world.server.connect());
    let value = "v".repeat(REPLY_BYTES_MAX / 2);
    for _ in 0..4 {
        let len = value.len();
        let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${len}\r\n{value}\r\n");
        assert_eq!(world.send(writer, &set), "+OK\r\n");
    }
    let requests = "LOGTAIL 0\r\n".repeat(50);
    world.server.engine.receive(client, requests.as_bytes());
    (0..200).for_each(|_| world.go_on());
    assert_eq!(world.info(writer, "logtail_requests"), 1);
    let waiting = world.server.engine.outgoing(client).bytes.len();
    assert!(waiting < 3 * REPLY_BYTES_MAX, "{waiting} bytes wait");
    let mut replies = 0;
    for _ in 0..60 {
        replies += world.read(client).matches("*2\r\n:").count();
    }
    assert_eq!(replies, 50, "it gets them all when it reads");
}

#[test]
fn what_came_before_is_learned_from_the_log() {
    let disk = Arc::new(SimDisk::new(1, Faults::default()));
    let mut world = World::on(Arc::clone(&disk), SyncPolicy::Always);
    let writer = world.server.connect();
    let field = "f".repeat(300);
    world.send(writer, "SWAPDB 0 3\r\n");
    world.send(writer, &format!("HSET hash {field} v\r\n"));
    world.send(writer, "RENAME hash other\r\n");
    world.send(writer, "HSET other f v\r\n");
    world.server.engine.close().unwrap();
    drop(world);
    let mut world = World::on(disk, SyncPolicy::Always);
    let client = world.server.connect();
    let told = world.send(client, "LOGTAIL 3\r\n");
    assert_eq!(lsns(&told), [4]);
    let expected = r#""op":"element","db":0,"db_id":3,"key":"other","type":"hash","object":1,"field":"f","value":"v""#;
    assert!(told.contains(expected), "{told}");
    assert_eq!(world.info(client, "logtail_learned_blocks"), 3);
}

#[test]
fn without_a_log_there_is_nothing_to_follow() {
    let mut server = TestServer::new(&["--appendonly", "no"]);
    let client = server.connect();
    let told = server.send(client, "LOGTAIL 0\r\n");
    assert!(told.starts_with("-ERR there is no redo log to follow"), "{told}");
    for wrong in
        ["LOGTAIL -1", "LOGTAIL x", "LOGTAIL 0 COUNT 0", "LOGTAIL 0 COUNT", "LOGTAIL 0 X 1"]
    {
        assert!(server.send(client, &format!("{wrong}\r\n")).starts_with("-ERR "), "{wrong}");
    }
    server.send(client, "MULTI\r\n");
    let told = server.send(client, "LOGTAIL 0\r\n");
    assert_eq!(told, "-ERR Command not allowed inside a transaction\r\n");
}

#[test]
fn a_log_that_is_closed_is_not_followed_any_more() {
    let mut world = World::new(SyncPolicy::Always);
    let (client, writer) = (world.server.connect(), world.server.connect());
    world.send(writer, "SET a 1\r\n");
    assert_eq!(lsns(&world.send(client, "LOGTAIL 0\r\n")), [1]);
    assert_eq!(world.send(client, "LOGTAIL 1 BLOCK 0\r\n"), "");
    world.server.engine.close().unwrap();
    assert_eq!(world.read(client), "-ERR the redo log is being closed\r\n");
    assert!(world.tailing.0.lock().unwrap().is_none(), "nothing has it open");
    assert_eq!(world.info(client, "logtail_blocks"), 1, "what it has cost is not forgotten");
}

/// The lines in a reply, by the numbers of their blocks.
fn lines(reply: &str) -> BTreeMap<u64, String> {
    let lines = reply.split("\r\n").filter(|line| line.starts_with('{'));
    lines.map(|line| (lsns(line)[0], line.to_owned())).collect()
}

#[test]
fn what_was_given_out_is_there_after_a_loss_of_power() {
    let (mut told_count, mut lost_count) = (0, 0);
    for seed in 0..60 {
        let disk = Arc::new(SimDisk::new(seed, Faults::default()));
        let mut rng = SimEntropy::new(seed);
        let mut told: BTreeMap<u64, String> = BTreeMap::new();
        let mut last = 0;
        for _ in 0..4 {
            let mut world = World::on(Arc::clone(&disk), SyncPolicy::No);
            let (client, writer) = (world.server.connect(), world.server.connect());
            let found = lines(&world.send(client, "LOGTAIL 0 COUNT 10000\r\n"));
            let is_there = told.iter().all(|(lsn, line)| found.get(lsn) == Some(line));
            assert!(is_there, "seed {seed}: {told:?} was given out, and there is {found:?}");
            lost_count += last - found.len();
            for _ in 0..40 {
                match rng.below(8) {
                    0..4 => {
                        let number = rng.below(1000);
                        world.server.send(writer, &format!("SET key {number}\r\n"));
                    }
                    4 => _ = world.server.send(writer, "WAITAOF 1 0 1\r\n"),
                    5 => {
                        let mut flushers = world.flushers.0.lock().unwrap();
                        flushers.iter_mut().for_each(|flusher| _ = flusher.step());
                    }
                    6 => world.server.pass_ms(10),
                    _ => {
                        let after = told.last_key_value().map_or(0, |(lsn, _)| *lsn);
                        world.server.send(client, &format!("LOGTAIL {after} COUNT 3\r\n"));
                        (0..20).for_each(|_| world.go_on());
                        told.extend(lines(&world.server.read(client)));
                    }
                }
            }
            let log = world.server.engine.log().unwrap();
            last = usize::try_from(log.open_lsn().0 - 1).unwrap();
            disk.crash();
            drop(world);
            disk.restart();
        }
        told_count += told.len();
    }
    assert!(told_count > 500 && lost_count > 100, "{told_count} {lost_count}");
}

#[test]
fn a_client_that_may_not_read_all_keys_any_more_is_told_nothing() {
    let mut world = World::new(SyncPolicy::Always);
    let (admin, client) = (world.server.connect(), world.server.connect());
    let set = |world: &mut World, rules: &str| {
        let reply = world.send(admin, &format!("ACL SETUSER tail {rules}\r\n"));
        assert_eq!(reply, "+OK\r\n", "{rules}");
    };
    let refused = "-NOPERM No permissions to access a key\r\n";
    set(&mut world, "on nopass +@all ~some:*");
    assert_eq!(world.send(client, "AUTH tail x\r\n"), "+OK\r\n");
    assert_eq!(world.send(client, "LOGTAIL 0\r\n"), refused);
    set(&mut world, "allkeys");
    assert_eq!(world.send(client, "LOGTAIL 0 BLOCK 0\r\n"), "");
    set(&mut world, "resetkeys ~some:*");
    assert_eq!(world.read(client), refused);
    world.send(admin, "SET secret 1\r\n");
    assert_eq!(world.read(client), "");
    // The same if it loses the command.
    set(&mut world, "allkeys");
    assert_eq!(world.send(client, "LOGTAIL 1 BLOCK 0\r\n"), "");
    set(&mut world, "-logtail");
    let refused = "-NOPERM User tail has no permissions to run the 'logtail' command\r\n";
    assert_eq!(world.read(client), refused);
}
