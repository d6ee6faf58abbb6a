//! A page of a server that is none, and requests to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use admin::{Admin, Answer, CommandLatency, Latency, LogDevice, Report, Server, Settings};
use tempfile::TempDir;

/// Longer than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Answers at once, and counts.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) asked: AtomicU64,
}

impl Server for Fake {
    fn ask(&self, answer: Answer) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let latency = Latency {
            count: 7,
            sum: Duration::from_micros(70),
            up_to_us: (0..25).map(|power| (1 << power, if power < 5 { 2 } else { 7 })).collect(),
        };
        answer(Report {
            info: "indelible_version:9.8.7\r\nredis_git_sha1:abcdef01\r\nredis_version:7.2.4\r\nredo_enabled:1\r\n\
                   redo_health:ok\r\nredo_policy:always\r\nredo_durable_lsn:41\r\nused_memory:2048\r\n\
                   aof_last_write_status:ok\r\neventloop_duration_sum:2500000\r\ntotal_commands_processed:12\r\n\
                   db0:keys=5,expires=1,avg_ttl=0\r\n"
                .to_owned(),
            devices: vec![LogDevice {
                path: "/data/\"redo\"".to_owned(),
                state: "Healthy".to_owned(),
                syncs: latency.clone(),
                ..LogDevice::default()
            }],
            commands: vec![CommandLatency { name: "set".to_owned(), latency, ..CommandLatency::default() }],
            ..Report::default()
        });
    }
}

/// A page, and what a test needs to look at it.
pub(crate) struct Page {
    pub(crate) server: Arc<Fake>,
    pub(crate) token: String,
    pub(crate) address: SocketAddr,
    _admin: Admin,
    _dir: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Page {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let token_file = dir.path().join("admin-token");
        let server = Arc::new(Fake::default());
        let settings = Settings {
            bind: "127.0.0.1".to_owned(),
            port: 0,
            token_file: token_file.clone(),
            hosts: vec!["db.example".to_owned()],
        };
        let admin = admin::start(settings, Arc::clone(&server) as Arc<dyn Server>).unwrap();
        let token = std::fs::read_to_string(token_file).unwrap().trim().to_owned();
        Self { server, token, address: admin.address(), _admin: admin, _dir: dir }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request on a connection of its own, with these lines in its head.
    pub(crate) fn send(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Reply {
        let mut stream = self.connect();
        let host = if lines.iter().any(|line| line.starts_with("Host:")) {
            ""
        } else {
            "Host: localhost\r\n"
        };
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str, lines: &[&str]) -> Reply {
        self.send("GET", path, lines, "")
    }

    /// The line of a head that shows the token.
    pub(crate) fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }
}
