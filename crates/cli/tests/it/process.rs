//! Server processes: started on a free port with a directory of their own, stopped when dropped.
//!
//! A port is chosen by the system and could be taken by another process before the server binds it; a server
//! that ends at once is therefore started again on another port.

use crate::tls_client;
use crate::wire::Connection;
use rustix::net::{self, AddressFamily, SocketType};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take that must happen at some time: longer than it takes on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A program that can be started as a server.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    words: Vec<String>,
}

impl Program {
    /// The program under test: the built binary, or the command in `INDELIBLE_SERVER`.
    pub(crate) fn indelible() -> Program {
        let words = match std::env::var("INDELIBLE_SERVER") {
            Ok(command) => command.split_whitespace().map(str::to_owned).collect(),
            Err(_) => vec![env!("CARGO_BIN_EXE_indelible").to_owned(), "server".to_owned()],
        };
        Program { words }
    }

    /// The program that a command line of these words starts.
    pub(crate) fn of_words(words: &str) -> Program {
        Program { words: words.split_whitespace().map(str::to_owned).collect() }
    }

    /// The program in this file.
    pub(crate) fn at(file: &Path) -> Program {
        Program { words: vec![file.to_str().unwrap().to_owned()] }
    }

    /// Debian's redis-server, the specification; nothing (and a line that says so) if it is not installed.
    pub(crate) fn redis() -> Option<Program> {
        let found = Command::new("redis-server")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            testing::skipped("redis-server", "it is not installed (make test installs it)");
        }
        found.then(|| Program { words: vec!["redis-server".to_owned()] })
    }

    /// The same program with a configuration file as its first argument.
    pub(crate) fn with_file(mut self, path: &str) -> Program {
        self.words.push(path.to_owned());
        self
    }

    /// The command with these arguments, not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts a server in a fresh directory.
    pub(crate) fn start(&self, options: &[&str]) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        self.start_in(directory, data, options)
    }

    /// Starts a server with its data in a directory of the caller's, on a disk that may fail: what it
    /// prints goes elsewhere.
    pub(crate) fn start_on(&self, data: &Path, options: &[&str]) -> Server {
        self.start_in(tempfile::tempdir().unwrap(), data.to_owned(), options)
    }

    fn start_in(&self, directory: TempDir, data: PathBuf, options: &[&str]) -> Server {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (child, port) = start_on_free_port(self, directory.path(), &data, &options);
        Server { program: self.clone(), options, directory, data, child, port }
    }
}

/// A running server.
pub(crate) struct Server {
    program: Program,
    options: Vec<String>,
    /// Where it prints to.
    directory: TempDir,
    data: PathBuf,
    child: Child,
    /// Where it listens.
    pub(crate) port: u16,
}

impl Server {
    /// A new connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap_or_else(|error| {
            panic!("cannot connect to {:?}: {error}\n{}", self.program, self.log())
        })
    }

    /// Its data directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.data.clone()
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log.txt")).unwrap_or_default()
    }

    /// Ends it without a word, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.begin_to_kill();
        self.child.wait().unwrap();
    }

    /// Nothing of it runs any more, but what it asked of the kernel may still be going on.
    pub(crate) fn begin_to_kill(&mut self) {
        let _already_gone = self.child.kill();
    }

    /// Asks it to end, as an init system would.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Starts it again on the same data with other options.
    pub(crate) fn restart_with(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
        self.restart();
    }

    /// Starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        let (child, port) =
            start_on_free_port(&self.program, self.directory.path(), &self.data, &self.options);
        self.child = child;
        self.port = port;
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for it to end by itself and gives its exit code.
    pub(crate) fn wait_for_exit(&mut self) -> Option<i32> {
        wait_for_exit(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}

/// Waits for a process to end and gives its exit code; nothing if a signal ended it or it runs on.
pub(crate) fn wait_for_exit(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// A port that was free a moment ago.
///
/// No socket listens on it for that, not even for that moment: a process that another thread starts keeps
/// what is open here until it becomes another program, and on a busy machine that takes a while.
pub(crate) fn free_port() -> u16 {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap().port()
}

fn start_on_free_port(
    program: &Program,
    directory: &Path,
    data: &Path,
    options: &[String],
) -> (Child, u16) {
    std::fs::create_dir_all(data).unwrap();
    for _ in 0..5 {
        let port = free_port();
        let log =
            File::options().create(true).append(true).open(directory.join("log.txt")).unwrap();
        let mut command = program.command(&["--dir"]);
        command.arg(data).args(tls_client::listening_options(port));
        command.args(options).current_dir(directory);
        let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        if answers(&mut child, port) {
            return (child, port);
        }
        let _already_gone = child.kill();
        let _already_waited_for = child.wait();
    }
    let log = std::fs::read_to_string(directory.join("log.txt")).unwrap_or_default();
    panic!("{program:?} {options:?} did not start:\n{log}");
}

/// Waits until the server answers PING (it may answer LOADING for a while); false if it ends first.
fn answers(child: &mut Child, port: u16) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let ready = Connection::open(port)
            .and_then(|mut connection| connection.call(&["PING"]))
            .is_ok_and(|reply| !reply.text().starts_with("LOADING"));
        if ready {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Waits for a condition that is sure to come true; a test that waits for longer than the slowest
/// machine takes has failed.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "the condition did not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}
