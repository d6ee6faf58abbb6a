//! Locks, as every library for Redis makes them: `SET lock token NX PX 30000`, and a script that deletes the key if the
//! token is still in it.
//!
//! Each connection has a thread and locks of its own, takes one and gives it back, and waits for both replies: what is
//! measured is how long a critical section has to be at least. A reply that is not what it must be ends the run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::histogram::Histogram;

/// What gives a lock back.
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Locks of a connection, taken in turn.
const LOCKS: u64 = 1000;

/// What is done before it counts.
const WARM: Duration = Duration::from_secs(1);

/// The arguments of `indelible-bench locks`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The server's port on this machine.
    #[arg(long)]
    port: u16,
    /// How many connections there are.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// For how many seconds.
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
}

/// What was measured.
#[derive(serde::Serialize)]
struct Outcome {
    connections: usize,
    seconds: f64,
    pairs_per_second: f64,
    /// Of a pair, in microseconds.
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), request: Vec::new() })
    }

    /// The first line of the reply, and the second one of a bulk string.
    fn call(&mut self, words: &[&str]) -> std::io::Result<String> {
        self.request.clear();
        write!(self.request, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.request, "${}\r\n{word}\r\n", word.len())?;
        }
        self.stream.get_mut().write_all(&self.request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_prefix('$') {
            Some(len) => {
                let len: usize = len.trim_end().parse().map_err(std::io::Error::other)?;
                let mut bytes = vec![0; len + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(len);
                String::from_utf8(bytes).map_err(std::io::Error::other)
            }
            None => Ok(line.trim_end().to_owned()),
        }
    }
}

/// Runs it, and prints a line of JSON.
///
/// # Errors
/// A server that closes a connection, or replies with something else than what it must.
pub fn run(arguments: &Arguments) -> Result<()> {
    let failed = |error: std::io::Error| Error::damaged(format!("the server: {error}"));
    let sha = Connection::open(arguments.port)
        .and_then(|mut connection| connection.call(&["SCRIPT", "LOAD", UNLOCK]))
        .map_err(failed)?;
    let barrier = Barrier::new(arguments.connections);
    let counted = Duration::from_secs_f64(arguments.seconds);
    let histograms: Vec<Result<Histogram>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.connections)
            .map(|number| {
                let (barrier, sha) = (&barrier, &sha);
                scope.spawn(move || take_turns(arguments.port, number, sha, barrier, counted))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let mut all = Histogram::new();
    for histogram in histograms {
        all.take(&mut histogram?);
    }
    let us = |per_mille| all.quantile(per_mille) as f64 / 1000.0;
    let outcome = Outcome {
        connections: arguments.connections,
        seconds: arguments.seconds,
        pairs_per_second: all.total() as f64 / arguments.seconds,
        p50_us: us(500),
        p99_us: us(990),
        max_us: all.max() as f64 / 1000.0,
    };
    println!("{}", serde_json::to_string(&outcome).expect("it is plain data"));
    Ok(())
}

/// One connection: how long each pair took, in nanoseconds.
fn take_turns(
    port: u16,
    number: usize,
    sha: &str,
    barrier: &Barrier,
    counted: Duration,
) -> Result<Histogram> {
    let failed = |error: std::io::Error| Error::damaged(format!("the server: {error}"));
    let connection = Connection::open(port);
    // Before anything can fail: others wait here.
    barrier.wait();
    let (mut connection, mut histogram) = (connection.map_err(failed)?, Histogram::new());
    let start = Instant::now() + WARM;
    for turn in 0.. {
        let (name, token) = (format!("lock:{number}:{}", turn % LOCKS), format!("token-{turn}"));
        let at = Instant::now();
        if at >= start + counted {
            break;
        }
        let taken =
            connection.call(&["SET", &name, &token, "NX", "PX", "30000"]).map_err(failed)?;
        let given = connection.call(&["EVALSHA", sha, "1", &name, &token]).map_err(failed)?;
        if taken != "+OK" || given != ":1" {
            return Err(Error::damaged(format!(
                "a lock was taken with {taken}, given back with {given}"
            )));
        }
        if at >= start {
            histogram.add(u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
    Ok(histogram)
}
