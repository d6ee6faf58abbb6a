//! A server as the command line names it, and what is asked of it outside of a load.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use super::listener;
use super::process::Process;
use crate::client::reply::{Reply, whole_bytes};
use crate::error::{Error, Result};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server: `NAME=[HOST:]PORT[/PID]`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Target {
    /// What it is called in the results.
    pub name: String,
    /// Where it is; this machine if it is not given.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its process, if it is given.
    pub pid: Option<u32>,
}

/// Why an argument is no target.
#[derive(Debug, thiserror::Error)]
#[error("a target is NAME=[HOST:]PORT[/PID], such as redis=127.0.0.1:6379")]
pub struct NoTarget;

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> std::result::Result<Self, NoTarget> {
        let (name, place) = text.split_once('=').ok_or(NoTarget)?;
        let (place, pid) = match place.split_once('/') {
            Some((place, pid)) => (place, Some(pid.parse().map_err(|_| NoTarget)?)),
            None => (place, None),
        };
        let (host, port) = place.rsplit_once(':').unwrap_or(("127.0.0.1", place));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() || host.is_empty() {
            return Err(NoTarget);
        }
        let port = port.parse().map_err(|_| NoTarget)?;
        Ok(Self { name: name.to_owned(), host: host.to_owned(), port, pid })
    }
}

impl Target {
    /// Returns the process: as it was given, or the one that listens on the port, if the host is this machine.
    pub(super) fn process(&self) -> Result<Option<Process>> {
        let process = match self.pid {
            Some(pid) => Some(pid),
            None if self.is_here()? => listener::process_of(self.port),
            None => None,
        };
        Ok(process.map(Process))
    }

    fn is_here(&self) -> Result<bool> {
        let address = (&*self.host, self.port).to_socket_addrs();
        let mut addresses = address.map_err(|error| self.error(&error))?;
        Ok(addresses.next().is_some_and(|address| {
            let IpAddr::V6(v6) = address.ip() else { return address.ip().is_loopback() };
            v6.to_canonical().is_loopback()
        }))
    }

    /// Asks what it is: "indelible 0.9.1, redis 7.4.0, of 1a2b3c4d".
    pub(super) fn version(&self) -> Result<String> {
        let info = self.call(&["INFO", "server"])?;
        let of = |name: &str| {
            let value =
                info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_version:"));
            value.map(|value| format!("{name} {}", value.trim()))
        };
        let mut versions: Vec<String> =
            ["indelible", "valkey", "redis"].into_iter().filter_map(of).collect();
        let commit = info.lines().find_map(|line| line.strip_prefix("redis_git_sha1:"));
        let commit = commit.map(str::trim).filter(|commit| commit.contains(|it| it != '0'));
        versions.extend(commit.map(|commit| format!("of {commit}")));
        Ok(versions.join(", "))
    }

    /// Asks how many keys it has.
    pub(super) fn keys(&self) -> Result<u64> {
        let reply = self.call(&["DBSIZE"])?;
        let number = reply.trim().strip_prefix(':').and_then(|number| number.parse().ok());
        number.ok_or_else(|| self.error(&reply))
    }

    fn call(&self, words: &[&str]) -> Result<String> {
        let reply = self.exchange(words).map_err(|error| self.error(&error))?;
        match Reply::of(&reply) {
            Reply::Error(error) => Err(self.error(&error)),
            _ => Ok(String::from_utf8_lossy(&reply).into_owned()),
        }
    }

    fn exchange(&self, words: &[&str]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((&*self.host, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(request.as_bytes())?;
        let (mut reply, mut some) = (Vec::new(), [0; 4096]);
        while whole_bytes(&reply).is_none() {
            match stream.read(&mut some)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                bytes => reply.extend_from_slice(&some[..bytes]),
            }
        }
        Ok(reply)
    }

    fn error(&self, what: &dyn std::fmt::Display) -> Error {
        let Self { name, host, port, .. } = self;
        Error::engine("target")(&format_args!("{name} ({host}:{port}): {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_name_and_a_place() {
        let target = |name: &str, host: &str, port, pid| {
            let (name, host) = (name.to_owned(), host.to_owned());
            Target { name, host, port, pid }
        };
        let parsed = |text: &str| text.parse::<Target>().unwrap();
        assert_eq!(parsed("a=7000"), target("a", "127.0.0.1", 7000, None));
        assert_eq!(parsed("a=h:7000/12"), target("a", "h", 7000, Some(12)));
        assert_eq!(parsed("b=[::1]:7000"), target("b", "::1", 7000, None));
        assert!(parsed("b=[::1]:7000").is_here().unwrap());
        for wrong in ["7000", "=7000", "a=", "a=h:", "a=:7000", "a=h:70000", "a=h:1/x"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
