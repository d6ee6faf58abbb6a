//! What a supervisor is told on the socket in `NOTIFY_SOCKET`: systemd's `Type=notify`.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::process::{PATIENCE, Program, wait_for_exit};

/// Waits until the server says this of itself; returns what it said before.
fn wait_for(supervisor: &UnixDatagram, state: &str) -> Vec<String> {
    let (mut bytes, mut before) = ([0; 4096], Vec::new());
    loop {
        let len = supervisor.recv(&mut bytes).unwrap();
        let message = std::str::from_utf8(&bytes[..len]).unwrap();
        for line in message.lines() {
            if line == state {
                return before;
            }
            before.push(line.to_owned());
        }
    }
}

fn ask(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Ended when it is dropped, whatever a test has come to.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_waited_for = self.0.wait();
    }
}

fn start(supervisor: &OsStr, directory: &Path, socket: &Path) -> Running {
    let mut command = Program::indelible().command(&["--port", "0", "--recovery", "full"]);
    command.stdout(Stdio::null()).arg("--dir").arg(directory).arg("--unixsocket").arg(socket);
    Running(command.env("NOTIFY_SOCKET", supervisor).spawn().unwrap())
}

#[test]
fn a_supervisor_is_told_when_the_data_is_served_and_when_the_server_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (told, socket) = (directory.path().join("notify"), directory.path().join("socket"));
    let supervisor = UnixDatagram::bind(&told).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    for (request, reply) in [("SET k v", "+OK\r\n+OK\r\n"), ("GET k", "$1\r\nv\r\n+OK\r\n")] {
        let mut server = start(told.as_os_str(), directory.path(), &socket);
        let before = wait_for(&supervisor, "READY=1");
        assert!(before.contains(&"STATUS=Loading the data".to_owned()), "{before:?}");
        assert_eq!(ask(&socket, request), reply, "nothing is loading any more");
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        wait_for(&supervisor, "STOPPING=1");
        assert_eq!(wait_for_exit(&mut server.0), Some(0));
    }
}

#[test]
fn a_supervisor_with_an_abstract_socket_is_told_too() {
    let directory = tempfile::tempdir().unwrap();
    // No other test and no other process has this directory, and so none this name.
    let name = format!("indelible{}", directory.path().display());
    let supervisor =
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = directory.path().join("socket");
    let _server = start(format!("@{name}").as_ref(), directory.path(), &socket);
    wait_for(&supervisor, "READY=1");
    assert_eq!(ask(&socket, "PING"), "+PONG\r\n+OK\r\n");
}
