//! What a server says of itself.

use std::collections::HashMap;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::Finding;
use crate::client::{Client, Reply};
use crate::login::Login;
use crate::size::Size;

/// So long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be known of a server.
pub(super) struct Server {
    pub(super) findings: Vec<Finding>,
    /// Its directories: of data, and of the log's devices.
    pub(super) directories: Vec<PathBuf>,
    pub(super) process: Option<u32>,
    /// It runs on this machine, where its directories are.
    pub(super) is_here: bool,
}

/// Asks the server at HOST or HOST:PORT.
///
/// # Errors
/// When it cannot be asked.
pub(super) fn ask(place: &str, login: &Login) -> anyhow::Result<Server> {
    let address = match place.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.ends_with(':') => {
            place.to_owned()
        }
        _ => format!("{place}:6379"),
    };
    let mut client = Client::connect_within(&address, &login.way, PATIENCE)?;
    client.authenticate(login.user.as_deref())?;
    let info = Info::ask(&mut client).with_context(|| address.clone())?;
    let mut directories: Vec<PathBuf> = Vec::new();
    let dir = setting(&mut client, "dir").unwrap_or_default();
    if !dir.is_empty() {
        directories.push(PathBuf::from(&dir));
    }
    let devices = setting(&mut client, "log-devices").unwrap_or_default();
    directories.extend(devices.split_whitespace().map(|device| PathBuf::from(&dir).join(device)));
    let is_near = address
        .to_socket_addrs()
        .is_ok_and(|mut all| all.any(|address| address.ip().is_loopback()));
    let is_here = is_near && directories.iter().all(|directory| directory.is_dir());
    let findings = findings(&address, &info, directories.is_empty());
    Ok(Server { findings, directories, process: info.number("process_id"), is_here })
}

/// The value of a directive, if it may be asked for.
fn setting(client: &mut Client, name: &str) -> Option<String> {
    match client.call(&["CONFIG", "GET", name]).ok()? {
        Reply::Array(parts) => match parts.into_iter().nth(1)? {
            Reply::Bytes(value) => String::from_utf8(value).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The lines of INFO.
struct Info(HashMap<String, String>);

impl Info {
    fn ask(client: &mut Client) -> anyhow::Result<Self> {
        match client.call(&["INFO", "everything"])? {
            Reply::Bytes(text) => Ok(Self::of(&String::from_utf8_lossy(&text))),
            Reply::Error(error) => bail!("{error}"),
            other => bail!("INFO is answered with {other:?}"),
        }
    }

    fn of(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
        Self(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }
}

fn findings(of: &str, info: &Info, has_no_settings: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(version) = info.text("indelible_version") else {
        let seen = format!("redis {}", info.text("redis_version").unwrap_or("?"));
        return vec![Finding::new(
            of,
            "version",
            seen,
            Some("it is no Indelible server: what is told here is of those"),
        )];
    };
    findings.push(Finding::good(of, "version", version));
    if has_no_settings {
        findings.push(Finding::new(of, "directories", "CONFIG GET is refused", Some("give a user that may use CONFIG GET (--user, REDISCLI_AUTH), or look at the directory itself on its machine")));
    }
    let durability = info.text("indelible_durability").unwrap_or("?");
    let advice = (durability == "volatile")
        .then_some("nothing survives the end of the process: appendonly yes, unless it is a cache");
    findings.push(Finding::new(of, "durability", durability, advice));
    if let Some(health) = info.text("redo_health") {
        let advice = (health != "ok")
            .then_some("writes are refused, or the log cannot be trusted: see docs/operations.md, and the server's log");
        findings.push(Finding::new(of, "log", health, advice));
    }
    if let Some(state) = info.text("archive_state").filter(|state| *state != "off") {
        let advice = matches!(state, "away" | "gap" | "fenced" | "failed")
            .then_some("what is written now is on this machine alone: see archive_last_error in INFO, and docs/archiving.md");
        findings.push(Finding::new(of, "archive", state, advice));
    }
    findings.extend(memory(of, info));
    let rejected: u64 = info.number("rejected_connections").unwrap_or(0);
    let advice = (rejected > 0)
        .then_some("clients were turned away: raise maxclients, or look why there are so many");
    findings.push(Finding::new(of, "connections turned away", rejected.to_string(), advice));
    findings
}

fn memory(of: &str, info: &Info) -> Option<Finding> {
    let used: u64 = info.number("used_memory")?;
    let most: u64 = info.number("maxmemory").unwrap_or(0);
    let total: u64 = info.number("total_system_memory").filter(|total| *total > 0)?;
    let limit =
        if most == 0 { "no maxmemory".to_owned() } else { format!("maxmemory {}", Size(most)) };
    let seen = format!("{} in use, {limit}, {} on the machine", Size(used), Size(total));
    let advice = if most > total / 10 * 9 {
        Some(
            "maxmemory leaves less than a tenth for buffers and the kernel: lower it, or the kernel may end the server",
        )
    } else if most == 0 && used > total / 10 * 7 {
        Some(
            "set maxmemory, with a policy by which values leave memory (docs/larger-than-memory.md), before the kernel ends the server",
        )
    } else {
        None
    };
    Some(Finding::new(of, "memory", seen, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(info: &str) -> Vec<&'static str> {
        let findings = findings("h:1", &Info::of(info), false);
        findings.iter().filter(|finding| finding.advice.is_some()).map(|it| it.what).collect()
    }

    #[test]
    fn what_a_server_says_is_judged() {
        let good = "indelible_version:0.1.0\r\nindelible_durability:always\r\nredo_health:ok\r\narchive_state:streaming\r\n\
                    used_memory:1000\r\nmaxmemory:0\r\ntotal_system_memory:100000\r\nrejected_connections:0\r\n";
        assert_eq!(advised(good), [""; 0]);
        let with = |from: &str, to: &str| advised(&good.replace(from, to));
        assert_eq!(with(":always", ":volatile"), ["durability"]);
        assert_eq!(with("redo_health:ok", "redo_health:failed"), ["log"]);
        assert_eq!(with(":streaming", ":away"), ["archive"]);
        assert_eq!(with("maxmemory:0", "maxmemory:99000"), ["memory"]);
        assert_eq!(with("used_memory:1000", "used_memory:80000"), ["memory"]);
        assert_eq!(with("connections:0", "connections:4"), ["connections turned away"]);
        assert_eq!(advised("redis_version:7.0.15\r\n"), ["version"]);
    }
}
