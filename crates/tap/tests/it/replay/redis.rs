//! Redis: transactions, scripts, blocking commands, subscriptions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use tap::replay::{Extent, replay};
use tap::{Entry, Outcome, Position, Protocol};

use super::proxy::Proxy;
use super::{Process, free_port, has_program, replay_all, settings, wait_until};

/// A server without a log.
pub(super) struct Server {
    _process: Process,
    pub(super) address: SocketAddr,
}

impl Server {
    pub(super) fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--enable-debug-command", "yes"]);
        let process = Process(command.stdout(Stdio::null()).spawn().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until(|| TcpStream::connect(address).is_ok());
        Self { _process: process, address }
    }

    /// A digest of all keys and values of all databases.
    pub(super) fn digest(&self) -> (String, i64) {
        let mut client = Client::connect(self.address);
        (
            client.call("DEBUG DIGEST"),
            client.call("DBSIZE").trim_start_matches(':').parse().unwrap(),
        )
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            let word = word.replace('~', " ");
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    /// Sends a command of words separated by spaces, in which ~ stands for a space. Returns the
    /// whole reply, also of an array.
    fn call(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        let count = line[1..].parse::<i64>();
        match (line.as_bytes()[0], count) {
            (b'$', Ok(len @ 0..)) => {
                let mut bytes = vec![0; usize::try_from(len).unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).unwrap()
            }
            (b'*', Ok(count @ 0..)) => {
                (0..count).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
            }
            _ => line,
        }
    }
}

/// The work of concurrent clients. Shared keys are changed in commuting ways, because the order of
/// two overlapping requests is unknown.
fn work(address: SocketAddr, worker: u32) {
    let mut client = Client::connect(address);
    let mut random = fastrand::Rng::with_seed(u64::from(worker));
    client.call(&format!("SELECT {}", worker % 3));
    client.call(&format!("CLIENT SETNAME worker{worker}"));
    for round in 0..60 {
        client.call(&format!("SET own:{worker}:{} {round}", round % 7));
        client.call(&format!("APPEND own:{worker}:log {round},"));
        client.call("INCR shared");
        client.call(&format!("HINCRBY totals field{} {}", random.u8(..4), random.u8(..)));
        client.call(&format!("GET own:{worker}:{}", round % 7));
        // A transaction, and a discarded one.
        client.call("MULTI");
        client.call(&format!("LPUSH own:{worker}:list {round}"));
        client.call("INCRBY shared 10");
        assert!(client.call(if round % 5 == 0 { "DISCARD" } else { "EXEC" }).len() > 1);
        let script = "redis.call('SADD',KEYS[1],ARGV[1])~return~redis.call('INCR',KEYS[2])";
        client.call(&format!("EVAL {script} 2 set:all own:{worker}:count {worker}-{round}"));
        // An error changes nothing, and is an error again.
        assert!(client.call(&format!("LPUSH own:{worker}:0 x")).starts_with("-WRONGTYPE"));
    }
}

/// Takes what another client pushes; sometimes nothing arrives.
fn take(address: SocketAddr) {
    let mut client = Client::connect(address);
    for _ in 0..30 {
        let taken = client.call("BLPOP queue 20");
        let value = taken.split(' ').nth(1).unwrap().to_owned();
        client.call(&format!("RPUSH taken {value}"));
        client.call("PUBLISH news taken");
    }
    // It ends by its timeout; what is pushed to that key later is not taken.
    assert_eq!(client.call("BLPOP nothing 0.1"), "*-1");
    client.call("RPUSH nothing something");
}

fn give(address: SocketAddr) {
    let mut client = Client::connect(address);
    for value in 0..30 {
        client.call(&format!("RPUSH queue {value}"));
        if value % 10 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Two clients change a key alternately, the second one only if no other client did in between.
fn compare_and_set(address: SocketAddr) {
    let (mut one, mut other) = (Client::connect(address), Client::connect(address));
    for round in 0..20 {
        one.call("WATCH contended");
        one.call("MULTI");
        one.call(&format!("SET contended {round}"));
        if round % 2 == 0 {
            other.call("INCR contended");
        }
        assert_eq!(one.call("EXEC") == "*-1", round % 2 == 0);
    }
}

/// Returns a server on which all of this was done, and the recording.
fn recorded() -> (Server, Vec<Entry>) {
    let server = Server::start();
    let proxy = Proxy::start(server.address, Protocol::Resp);
    let address = proxy.address;
    let mut listener = Client::connect(address);
    listener.call("SUBSCRIBE news");
    std::thread::scope(|scope| {
        (0..4).for_each(|worker| drop(scope.spawn(move || work(address, worker))));
        scope.spawn(move || take(address));
        scope.spawn(move || give(address));
        scope.spawn(move || compare_and_set(address));
    });
    drop(listener);
    (server, proxy.entries())
}

#[test]
fn a_redis_is_brought_back_one_request_at_a_time_or_in_parallel() {
    if !has_program("redis-server") {
        return;
    }
    let (original, entries) = recorded();
    let digest = original.digest();
    assert!(digest.1 > 20, "{digest:?}");
    drop(original);
    for parallel in [false, true] {
        let server = Server::start();
        let mut settings = settings(server.address, Protocol::Resp);
        settings.parallel = parallel;
        let report = replay_all(&entries, &settings);
        assert_eq!(report.differences, [], "parallel: {parallel}");
        assert!(report.errors_as_recorded >= 240, "{report:?}");
        assert_eq!(server.digest(), digest, "parallel: {parallel}");
    }
}

#[test]
fn what_was_not_completed_is_enough_for_a_server_that_kept_the_rest() {
    if !has_program("redis-server") {
        return;
    }
    let (original, mut entries) = recorded();
    let digest = original.digest();
    // Three answers were never seen.
    let mut client_side = Vec::new();
    for _ in 0..3 {
        let commutes = |of: Position| {
            entries.iter().any(|entry| {
                matches!(entry, Entry::Request { position, payload, .. }
                    if *position == of && payload.windows(7).any(|word| word == b"HINCRBY"))
            })
        };
        let last = entries.iter().rposition(|entry| {
            matches!(entry, Entry::Completed { position, outcome: Outcome::Ok, .. }
                if commutes(*position))
        });
        client_side.push(entries.remove(last.unwrap()));
    }
    // On a server that has only the completed requests, these complete it.
    let kept = Server::start();
    let positions: Vec<_> = client_side
        .iter()
        .map(|entry| match entry {
            Entry::Completed { position, .. } => *position,
            _ => unreachable!("only these were taken"),
        })
        .collect();
    let completed: Vec<Entry> = entries
        .iter()
        .filter(|entry| !matches!(entry, Entry::Request { position, .. } if positions.contains(position)))
        .cloned()
        .collect();
    let settings = settings(kept.address, Protocol::Resp);
    replay_all(&completed, &settings);
    assert_ne!(kept.digest(), digest);
    let mut log = entries.iter().cloned().map(Ok);
    let mut again = entries.iter().cloned().map(Ok);
    let report =
        replay(&mut log, Extent::NotCompleted(&mut again), &settings, &mut |_| {}).unwrap();
    assert_eq!(report.without_record, 3, "{report:?}");
    assert_eq!(kept.digest(), digest);
}
