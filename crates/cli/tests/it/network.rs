//! Networks to capture and to break: two network namespaces joined by a pair of virtual interfaces.
//!
//! ```text
//!   server's namespace              client's namespace
//!   tap ─ redis-server ── veth ═══ veth ── redis-benchmark
//!                                    ╎ packets dropped at random (nft)
//! ```
//!
//! Making them needs root, `ip` and `nft`; without, tests say so and are skipped. A namespace goes, with
//! everything in it, when the network is dropped; the processes in it are stopped by the test that started them.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's addresses.
pub(crate) const SERVER_IPS: [&str; 2] = ["10.77.0.1", "fd77::1"];
/// The interface on the server's side.
pub(crate) const SERVER_INTERFACE: &str = "veth-server";
const CLIENT_INTERFACE: &str = "veth-client";

/// Two machines and a cable, as far as the network is concerned.
pub(crate) struct Network {
    server: Namespace,
    client: Namespace,
}

/// A network of its own for the processes in it.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// A namespace with loopback only; nothing, and a line that says why, where that is not possible.
    pub(crate) fn new() -> Option<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("indelible-{}-{number}", std::process::id());
        let namespace = match run(Command::new("ip").args(["netns", "add", &name])) {
            Ok(_) => Namespace { name },
            Err(why) => {
                testing::skipped("root and network namespaces", why);
                return None;
            }
        };
        namespace.must_run("ip", &["link", "set", "lo", "up"]);
        Some(namespace)
    }

    /// A command that will run inside. Its process is the program itself.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs a command inside, which must go well.
    pub(crate) fn must_run(&self, program: &str, arguments: &[&str]) -> Output {
        run(self.command(program).args(arguments)).unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

impl Network {
    /// Two namespaces and the cable; nothing, and a line that says why, where that is not possible.
    pub(crate) fn new() -> Option<Network> {
        let network = Network { server: Namespace::new()?, client: Namespace::new()? };
        let (server, client) = (&network.server, &network.client);
        let peer = ["type", "veth", "peer", CLIENT_INTERFACE, "netns", &client.name];
        let add = ["link", "add", SERVER_INTERFACE];
        server.must_run("ip", &[&add[..], &peer[..]].concat());
        let sides = [(server, SERVER_INTERFACE, '1'), (client, CLIENT_INTERFACE, '2')];
        for (namespace, interface, number) in sides {
            let version_4 = format!("10.77.0.{number}/24");
            let version_6 = format!("fd77::{number}/64");
            namespace.must_run("ip", &["addr", "add", &version_4, "dev", interface]);
            namespace.must_run("ip", &["addr", "add", &version_6, "dev", interface, "nodad"]);
            namespace.must_run("ip", &["link", "set", interface, "up"]);
        }
        Some(network)
    }

    /// Where the server runs.
    pub(crate) fn server(&self) -> &Namespace {
        &self.server
    }

    /// Where its clients run.
    pub(crate) fn client(&self) -> &Namespace {
        &self.client
    }

    /// Drops so many of a hundred packets to or from the server's port, at the client's end. False, and a
    /// line that says why, where there is no `nft`.
    pub(crate) fn lose(&self, percent: u32, port: u16) -> bool {
        let found = Command::new("nft").arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            testing::skipped("nft", "it is not installed (make test installs it)");
            return false;
        }
        let rules = format!(
            "table inet loss {{
                chain out {{
                    type filter hook output priority 0;
                    tcp dport {port} numgen random mod 100 < {percent} drop
                }}
                chain in {{
                    type filter hook input priority 0;
                    tcp sport {port} numgen random mod 100 < {percent} drop
                }}
            }}"
        );
        self.client.must_run("nft", &[&rules]);
        true
    }
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
