//! Servers are restored: what clients did through a recording proxy is repeated on an empty server,
//! and everything is compared.

mod crash;
mod mariadb;
mod proxy;
mod redis;
mod speed;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};
use tap::replay::{Credentials, Extent, Report, Settings, replay};
use tap::{Entry, Protocol};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _is_gone = self.0.kill();
        let _is_gone = self.0.wait();
    }
}

/// Returns a port on which nothing has listened, even for a moment. A process that another thread
/// starts meanwhile would inherit the listener for a while.
fn free_port() -> u16 {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap().port()
}

/// Waits for a condition that is certain to become true, even on a busy machine.
fn wait_until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(180), "the condition did not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program is installed; without it, a test says so and ends.
fn has_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&paths)
        .chain([Path::new("/usr/sbin").to_owned()])
        .any(|path| path.join(name).is_file());
    if !is_there {
        testing::skipped(name, "it is not installed (tests/install-tools)");
    }
    is_there
}

fn settings(to: SocketAddr, protocol: Protocol) -> Settings {
    Settings {
        to,
        protocol,
        credentials: Credentials::default(),
        base: None,
        until_position: None,
        until_time: None,
        speed: None,
        parallel: false,
    }
}

/// Replays a whole log.
fn replay_all(entries: &[Entry], settings: &Settings) -> Report {
    let mut log = entries.iter().cloned().map(Ok);
    replay(&mut log, Extent::All, settings, &mut |_| {}).unwrap()
}

/// Runs a command to its end and returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
