//! A log of requests as the sidecar would have written it, made by the test: every time, answer and gap
//! in it is the test's choice, and no right to capture is needed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;
use tap::log::{Batch, Carried, Keep, Settings, Writer};
use tap::{Class, ConnectionNumber, GapReason, Outcome, Position, Time};
use tempfile::TempDir;

use crate::wire::encode;

/// When everything begins: 2026-11-22T09:15:00Z.
const BEGIN_MS: u64 = 1_795_338_900_000;

/// A log, and its end, open for writing.
pub(crate) struct Recording {
    directory: TempDir,
    writer: Writer,
    batch: Batch,
    /// Milliseconds since the beginning.
    now_ms: u64,
    connections: u64,
}

impl Recording {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { protocol: "resp".into(), keep: Keep::default() };
        let begin = Time(BEGIN_MS * 1_000_000);
        let dir = directory.path().join("log");
        let writer = Writer::open(Arc::new(env_os::OsDisk), &dir, settings, begin).unwrap();
        let batch = Batch::after(writer.position());
        Self { directory, writer, batch, now_ms: 0, connections: 0 }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Time goes by; what follows happens then.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn now(&self) -> Time {
        Time((BEGIN_MS + self.now_ms) * 1_000_000)
    }

    /// A client connects.
    pub(crate) fn open(&mut self) -> ConnectionNumber {
        self.connections += 1;
        let connection = ConnectionNumber(self.connections);
        let (client, server) = ends(connection);
        self.batch.opened(connection, self.now(), client, server);
        connection
    }

    pub(crate) fn close(&mut self, connection: ConnectionNumber) {
        self.batch.closed(connection, self.now());
    }

    /// A client sends a command, written as words.
    pub(crate) fn ask(&mut self, connection: ConnectionNumber, words: &str) -> Position {
        let words: Vec<&str> = words.split(' ').collect();
        let class = match words[0] {
            "SELECT" | "AUTH" => Class::Connection,
            "GET" => Class::ReadOnly,
            _ => Class::Query,
        };
        let port = ends(connection).0.port();
        self.batch.request(connection, self.now(), class, port, 7, &encode(&words))
    }

    pub(crate) fn answer(&mut self, position: Position, outcome: Outcome) {
        self.batch.completed(position, self.now(), outcome);
    }

    /// A client sends a command, and the server agrees.
    pub(crate) fn done(&mut self, connection: ConnectionNumber, words: &str) -> Position {
        let position = self.ask(connection, words);
        self.answer(position, Outcome::Ok);
        position
    }

    pub(crate) fn gap(&mut self, connection: ConnectionNumber, missing: u64, reason: GapReason) {
        self.batch.gap(Some(connection), self.now(), missing, reason);
    }

    /// Makes what happened so far durable.
    pub(crate) fn sync(&mut self) {
        if !self.batch.is_empty() {
            self.writer.write(&mut self.batch).unwrap();
            self.batch.clear();
        }
        self.writer.sync().unwrap();
    }

    /// The log goes on in another file, into which the state of these connections is carried over.
    pub(crate) fn next_segment(&mut self, carried: &[(ConnectionNumber, &[&str])]) {
        self.sync();
        let carry = |(connection, requests): &(ConnectionNumber, &[&str])| {
            let (client, server) = ends(*connection);
            let encoded = |words: &&str| encode(&words.split(' ').collect::<Vec<_>>());
            let requests = requests.iter().map(encoded).collect();
            Carried { connection: *connection, opened: self.now(), client, server, requests }
        };
        let carried: Vec<Carried> = carried.iter().map(carry).collect();
        let last = ConnectionNumber(self.connections);
        self.writer.rotate(&carried, last, self.now()).unwrap();
    }
}

/// The ends of a connection.
fn ends(connection: ConnectionNumber) -> (SocketAddr, SocketAddr) {
    let port = 40_000 + u16::try_from(connection.0).unwrap();
    (SocketAddr::from(([192, 0, 2, 7], port)), SocketAddr::from(([192, 0, 2, 1], 6379)))
}

/// A time so many milliseconds after the beginning, as users write it.
pub(crate) fn time(ms: u64) -> String {
    assert!(ms < 60_000, "within the first minute");
    format!("2026-11-22T09:15:{:02}.{:03}Z", ms / 1000, ms % 1000)
}

/// `indelible tap replay` of a log to a server on this machine, not started.
pub(crate) fn replay(log: &Path, port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["tap", "replay", "--to", &format!("127.0.0.1:{port}"), "--dir"]).arg(log);
    command
}

/// Runs a command that prints one JSON object: its exit code, and what it says.
pub(crate) fn json(command: &mut Command) -> (Option<i32>, Value) {
    let output = command.arg("--json").output().unwrap();
    let said = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), said)
}

/// The lines that a command printed.
pub(crate) fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
