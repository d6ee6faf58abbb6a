//! The binary as a user meets it: started, killed, started again, misused.
//!
//! The servers listen on a unix socket in a directory of their own, so no port can be taken.

use crate::process::PATIENCE;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts a server with its data in `directory` and waits until the data is there.
    fn start(directory: &Path, options: &[&str]) -> Self {
        let socket = directory.join("socket");
        // Lies there when the last one was killed: it must not be taken for the new one's.
        let _ignored = std::fs::remove_file(&socket);
        let process = command()
            .args(["server", "--port", "0", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(directory)
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, socket };
        let start = Instant::now();
        while !server.is_ready() {
            assert!(start.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = UnixStream::connect(&self.socket) else { return false };
        let mut reply = [0; 512];
        stream.write_all(b"GET k\r\n").unwrap();
        let count = stream.read(&mut reply).unwrap();
        !reply[..count].starts_with(b"-LOADING")
    }

    /// The reply to one command, of one line or one short bulk string.
    fn ask(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.trim_end_matches("+OK\r\n").to_owned()
            + if reply == "+OK\r\n+OK\r\n" { "+OK\r\n" } else { "" }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ignored = self.process.kill();
        let _ignored = self.process.wait();
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_indelible"))
}

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.ask("SET a 1"), "+OK\r\n");
    assert_eq!(server.ask("RPUSH l x y z"), ":3\r\n");
    assert_eq!(server.ask("HSET h f v"), ":1\r\n");
    server.kill();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.ask("GET a"), "$1\r\n1\r\n");
    assert_eq!(server.ask("LLEN l"), ":3\r\n");
    assert_eq!(server.ask("HGET h f"), "$1\r\nv\r\n");
}

#[test]
fn shutdown_ends_well_and_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &["--appendfsync", "no"]);
    assert_eq!(server.ask("SET a 1"), "+OK\r\n");
    assert_eq!(server.ask("SHUTDOWN"), "");
    assert!(server.process.wait().unwrap().success());
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.ask("GET a"), "$1\r\n1\r\n");
}

/// What a stock redis.conf says: no AOF, save points. Redis has the data after a shutdown.
#[test]
fn what_redis_keeps_under_a_configuration_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    for options in [&["--appendonly", "no"][..], &["--appendonly", "no", "--save", "900 1"]] {
        let mut server = Server::start(directory.path(), options);
        assert_eq!(server.ask("SET a 1"), "+OK\r\n");
        assert_eq!(server.ask("SAVE"), "+OK\r\n");
        assert_eq!(server.ask("SHUTDOWN SAVE"), "");
        assert!(server.process.wait().unwrap().success());
        let server = Server::start(directory.path(), options);
        assert_eq!(server.ask("GET a"), "$1\r\n1\r\n", "{options:?}");
        server.kill();
    }
}

/// Otherwise eviction would prefer everything that was loaded to what came since.
#[test]
fn what_was_loaded_counts_as_used_when_it_was_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.ask("SET a 1"), "+OK\r\n");
    server.kill();
    let server = Server::start(directory.path(), &[]);
    let idle = server.ask("OBJECT IDLETIME a");
    let idle: u64 = idle.trim_start_matches(':').trim_end().parse().unwrap();
    assert!(idle < PATIENCE.as_secs(), "{idle} s");
    server.kill();
    let server = Server::start(directory.path(), &["--maxmemory-policy", "allkeys-lfu"]);
    assert_eq!(server.ask("OBJECT FREQ a"), ":5\r\n", "as of a new key");
}

#[test]
fn without_a_log_nothing_is_kept_and_nothing_written() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--appendonly", "no", "--save", ""]);
    assert_eq!(server.ask("SET a 1"), "+OK\r\n");
    server.kill();
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["socket"]);
}

#[test]
fn a_data_directory_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let path = directory.path().to_str().unwrap();
    let port = crate::process::free_port().to_string();
    let output = run(&["server", "--port", &port, "--dir", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("another process uses this data directory"),
        "{}",
        stderr(&output)
    );
    assert_eq!(server.ask("SET a 1"), "+OK\r\n");
}

#[test]
fn a_wrong_configuration_is_shown_and_the_server_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redis.conf");
    std::fs::write(&file, "port 7000\nmaxmemory lots\n").unwrap();
    let output = run(&["server", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(
        error.contains("at line 2\n>>> 'maxmemory lots'\nargument must be a memory value"),
        "{error}"
    );
    let output = run(&["server", "--nothing", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Bad directive or wrong number of arguments"));
    let output = run(&["server", "--dir", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Can't chdir to '/nonexistent'"));
}

#[test]
fn a_log_can_be_checked_and_shown_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.ask("SET key value"), "+OK\r\n");
    assert!(!run(&["log", "verify", path]).status.success(), "the log is in use");
    server.kill();
    let verified = run(&["log", "verify", path]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    let dumped =
        String::from_utf8_lossy(&run(&["log", "dump", path, "--json"]).stdout).into_owned();
    assert!(dumped.contains("\"key\"") && dumped.contains("\"value\""), "{dumped}");
    assert!(!run(&["log", "nothing"]).status.success());
}

#[test]
fn the_binary_says_who_it_is() {
    assert!(
        String::from_utf8_lossy(&run(&["--version"]).stdout).contains(env!("CARGO_PKG_VERSION"))
    );
    assert!(String::from_utf8_lossy(&run(&["--help"]).stdout).contains("indelible server"));
    assert_eq!(run(&["nothing"]).status.code(), Some(1));
}
