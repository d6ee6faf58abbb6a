//! The tap next to a server, both in a network of their own.

use crate::network::Namespace;
use crate::process::{wait_for_exit, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The port of the server; its namespace has no other.
pub(crate) const PORT: u16 = 6379;

/// Debian's redis-server in a namespace.
pub(crate) struct Redis {
    child: Child,
}

impl Redis {
    /// Starts it; nothing, and a line that says why, where it is not installed.
    pub(crate) fn start(namespace: &Namespace) -> Option<Redis> {
        let mut command = namespace.command("redis-server");
        command.args(["--port", &PORT.to_string(), "--save", "", "--protected-mode", "no"]);
        command.args(["--bind", "*", "-::*"]).stdout(Stdio::null());
        let mut redis = Redis { child: command.spawn().ok()? };
        let mut has_ended = false;
        wait_until(|| {
            has_ended = redis.child.try_wait().unwrap().is_some();
            let mut ping = namespace.command("redis-cli");
            let pong = ping.args(["-p", &PORT.to_string(), "ping"]).output();
            has_ended || pong.is_ok_and(|output| output.stdout.starts_with(b"PONG"))
        });
        if has_ended {
            testing::skipped("redis-server", "it is not installed (make test installs it)");
        }
        (!has_ended).then_some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// `indelible tap log` in a namespace.
pub(crate) struct Tap {
    child: Child,
    /// Goes with the log in it.
    _directory: TempDir,
    log: PathBuf,
    said: Arc<Mutex<String>>,
    /// Ends when it has said everything.
    hearing: Option<JoinHandle<()>>,
}

impl Tap {
    /// Starts it and waits until it records.
    pub(crate) fn start(namespace: &Namespace, interface: &str, options: &[&str]) -> Tap {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        Self::start_in(namespace, interface, options, directory, log)
    }

    /// The same with its log on a disk of the caller's.
    pub(crate) fn start_on(namespace: &Namespace, log: &Path, options: &[&str]) -> Tap {
        Self::start_in(namespace, "lo", options, tempfile::tempdir().unwrap(), log.to_owned())
    }

    fn start_in(
        namespace: &Namespace,
        interface: &str,
        options: &[&str],
        directory: TempDir,
        log: PathBuf,
    ) -> Tap {
        let mut command = log_command(namespace, interface, &log);
        let mut child = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (heard, stderr) = (said.clone(), child.stderr.take().unwrap());
        let hearing = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = heard.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        let hearing = Some(hearing);
        let mut tap = Tap { child, _directory: directory, log, said, hearing };
        wait_until(|| tap.said().contains("recording") || tap.child.try_wait().unwrap().is_some());
        assert!(tap.said().contains("recording"), "{}", tap.said());
        tap
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Asks it to stop and gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.wait_for_exit()
    }

    /// Waits for it to end by itself and gives its exit code.
    pub(crate) fn wait_for_exit(&mut self) -> Option<i32> {
        let code = wait_for_exit(&mut self.child)?;
        self.hearing.take().map(JoinHandle::join).transpose().unwrap();
        Some(code)
    }

    /// The sums over what it has recorded that contains `text`, or over everything.
    pub(crate) fn statistics(&self, text: Option<&str>) -> Value {
        let mut command = inspect(&self.log);
        command.args(["--statistics", "--json"]);
        if let Some(text) = text {
            command.args(["--contains", text]);
        }
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it records.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// `indelible tap log`, not started.
pub(crate) fn log_command(namespace: &Namespace, interface: &str, log: &Path) -> Command {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_indelible"));
    command.args(["tap", "log", "--protocol", "resp", "--interface", interface]);
    command.args(["--port", &PORT.to_string(), "--dir"]).arg(log);
    command
}

/// `indelible tap inspect`, not started.
pub(crate) fn inspect(log: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["tap", "inspect", "--dir"]).arg(log);
    command
}

/// Runs redis-benchmark's SET to the server's first or second address, or to loopback.
pub(crate) fn benchmark(namespace: &Namespace, host: &str, options: &[&str]) {
    let mut command = namespace.command("redis-benchmark");
    command.args(["-h", host, "-p", &PORT.to_string(), "-t", "set", "-q"]).args(options);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// How many requests a server got since it began, by its own count, and how long each was.
pub(crate) fn sets_served(namespace: &Namespace, host: &str) -> u64 {
    let mut command = namespace.command("redis-cli");
    command.args(["-h", host, "-p", &PORT.to_string(), "info", "commandstats"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let calls = text.split_once("cmdstat_set:calls=").map(|(_, rest)| rest);
    calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Bytes of redis-benchmark's SET of a value of so many bytes.
pub(crate) fn set_bytes(value_bytes: u64) -> u64 {
    let head = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n".len() as u64;
    head + format!("${value_bytes}\r\n").len() as u64 + value_bytes + 2
}

fn stop(child: &mut Child) {
    let _already_gone = child.kill();
    let _already_waited_for = child.wait();
}
