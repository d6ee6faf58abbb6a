//! `indelible restore --keys PATTERN --to HOST:PORT`: brings single keys of the past into a server that runs.
//!
//! ```text
//!   log as it was ─► a view of it, a process of its own ─► SCAN, DUMP ─► RESTORE ─► the server
//! ```
//!
//! One key at a time, as MIGRATE moves it. What the server has under the name stays, unless it is to be replaced. The view
//! ends when this process does, however that ends, and removes its copy.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use env::Clock as _;
use env_os::OsClock;

use crate::archive::NOT_NEWEST;
use crate::arguments::with_causes;
use crate::client::{Client, Reply};
use crate::expiry::Expiry;
use crate::login::Login;
use crate::moment::Moment;
use crate::view::room_for_a_copy;

/// How many keys are looked at in one step.
const KEYS_A_STEP: &str = "1000";

/// How often it is looked whether the view is there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Brings single keys of a log as it was into a server that runs. What it has under their names stays, unless --replace is
/// given. A password is taken from the variable REDISCLI_AUTH.
#[derive(Parser)]
#[command(name = "indelible restore", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    moment: Moment,
    /// The keys, as for KEYS and SCAN: user:*
    #[arg(long = "keys", value_name = "PATTERN")]
    pattern: String,
    /// The server.
    #[arg(long = "to", value_name = "HOST:PORT")]
    address: String,
    #[command(flatten)]
    login: Login,
    /// Replaces what the server has under the names of the keys.
    #[arg(long = "replace")]
    replaces: bool,
    /// When keys expire; absolute: those whose time has passed are not brought back.
    #[arg(long, value_enum, default_value_t = Expiry::Absolute)]
    expiry: Expiry,
    /// The directory in which the log is restored meanwhile; without it, the system's for temporary files.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Directives for the server that reads it meanwhile, behind --, as in: -- --maxmemory 4gb --maxmemory-policy cold-lfu
    #[arg(last = true)]
    directives: Vec<String>,
}

/// What has become of the keys.
#[derive(Debug, Default)]
struct Given {
    keys: u64,
    /// The server has something under the name.
    kept: u64,
    /// Their time has passed since.
    expired: u64,
    /// They could not be read, or the server did not take them.
    failed: u64,
    /// The archive lacks what is behind the state that they are of, which was to be the newest.
    is_not_newest: bool,
}

/// Runs `indelible restore` with these arguments, the first of which is `restore`.
pub(crate) fn give_back(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.run() {
        Ok(Given { keys, kept, expired, failed, is_not_newest }) => {
            println!("{keys} keys are back at {}", arguments.address);
            if expired > 0 {
                println!("{expired} have expired since (--expiry relative brings them back)");
            }
            if kept > 0 {
                println!("{kept} are there and stay as they are (--replace replaces them)");
            }
            if failed > 0 {
                println!("{failed} could not be brought back: see above");
                return ExitCode::FAILURE;
            }
            if is_not_newest { ExitCode::from(NOT_NEWEST) } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("{}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// A view of the past, and what connects to it. Its process ends when its input does, which is with this.
struct View {
    process: Child,
    client: Client,
}

impl View {
    /// Starts it, with its copy and its socket in `directory`.
    fn start(moment: &Moment, directory: &Path, directives: &[String]) -> anyhow::Result<Self> {
        let socket = directory.join(format!("indelible-keys-{}.sock", std::process::id()));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("view").args(moment.words()).arg("--temporary").arg(directory);
        command.args(["--until-input-ends", "--port", "0", "--"]).args(directives);
        command.arg("--unixsocket").arg(&socket).args([
            "--unixsocketperm",
            "700",
            "--logfile",
            "/dev/null",
        ]);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut process = process.context("cannot start the view")?;
        loop {
            if let Some(ended) = process.try_wait()? {
                bail!("the past cannot be viewed ({ended})");
            }
            if let Ok(mut client) = Client::connect_to_socket(&socket)
                && !matches!(client.call(&["DBSIZE"]), Ok(Reply::Error(_)) | Err(_))
            {
                return Ok(Self { process, client });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends it. Returns whether it was of the newest state, if that was asked for.
    fn end(mut self) -> std::io::Result<bool> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        Ok(status.code() != Some(i32::from(NOT_NEWEST)))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _gone = self.process.wait();
    }
}

impl Arguments {
    fn run(&self) -> anyhow::Result<Given> {
        // Early: a server that is not there is not found out after minutes.
        let mut server = Client::connect(&self.address, &self.login)?;
        let near = room_for_a_copy(self.temporary.as_deref())?;
        let mut view = View::start(&self.moment, &near, &self.directives)?;
        let mut given = Given::default();
        let ended = self.give_all(&mut view, &mut server, &mut given);
        if ended.is_err() {
            eprintln!("{} keys were brought back before", given.keys);
        }
        ended?;
        given.is_not_newest = !view.end()?;
        Ok(given)
    }

    fn give_all(
        &self,
        view: &mut View,
        server: &mut Client,
        given: &mut Given,
    ) -> anyhow::Result<()> {
        for database in databases(&mut view.client)? {
            let number = database.to_string();
            view.client.call(&["SELECT", &number])?.good()?;
            server
                .call(&["SELECT", &number])?
                .good()
                .with_context(|| format!("SELECT {number} at {}", self.address))?;
            let mut cursor = b"0".to_vec();
            loop {
                let words: [&[u8]; 6] = [
                    b"SCAN",
                    &cursor,
                    b"MATCH",
                    self.pattern.as_bytes(),
                    b"COUNT",
                    KEYS_A_STEP.as_bytes(),
                ];
                let (next, keys) = scanned(view.client.call(&words)?.good()?)?;
                for key in &keys {
                    self.give(view, server, key, given)?;
                }
                if next == b"0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }

    fn give(
        &self,
        view: &mut View,
        server: &mut Client,
        key: &[u8],
        given: &mut Given,
    ) -> anyhow::Result<()> {
        let payload = match view.client.call(&[b"DUMP", key])? {
            Reply::Bytes(payload) => payload,
            other => {
                eprintln!("{}: the past answers {other:?}", String::from_utf8_lossy(key));
                given.failed += 1;
                return Ok(());
            }
        };
        let verb: &[u8] = if self.expiry == Expiry::Absolute { b"PEXPIRETIME" } else { b"PTTL" };
        let left_ms = match (self.expiry, view.client.call(&[verb, key])?.good()?) {
            (Expiry::Never, _) => 0,
            (_, Reply::Number(ms)) => ms.max(0),
            (_, other) => bail!("the view answers {other:?}"),
        };
        if self.expiry == Expiry::Absolute && left_ms > 0 && left_ms <= OsClock::new().now_ms() {
            given.expired += 1;
            return Ok(());
        }
        let left = left_ms.to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", key, left.as_bytes(), &payload];
        if self.replaces {
            words.push(b"REPLACE");
        }
        if self.expiry == Expiry::Absolute && left_ms > 0 {
            words.push(b"ABSTTL");
        }
        match server.call(&words)? {
            Reply::Error(why) if why.starts_with("BUSYKEY") => given.kept += 1,
            Reply::Error(why) => {
                eprintln!("{}: {why}", String::from_utf8_lossy(key));
                given.failed += 1;
            }
            _ => given.keys += 1,
        }
        Ok(())
    }
}

/// The databases that have keys.
fn databases(client: &mut Client) -> anyhow::Result<Vec<u32>> {
    let Reply::Bytes(text) = client.call(&["INFO", "keyspace"])?.good()? else { bail!("no INFO") };
    let text = String::from_utf8_lossy(&text);
    let numbers =
        text.lines().filter_map(|line| line.strip_prefix("db")?.split_once(':')?.0.parse().ok());
    Ok(numbers.collect())
}

/// What SCAN has said: the next cursor, and keys.
fn scanned(reply: Reply) -> anyhow::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let Reply::Array(parts) = reply else { bail!("no reply to SCAN") };
    let (Some(Reply::Bytes(cursor)), Some(Reply::Array(keys))) = ({
        let mut parts = parts.into_iter();
        (parts.next(), parts.next())
    }) else {
        bail!("no reply to SCAN");
    };
    let keys = keys
        .into_iter()
        .filter_map(|key| if let Reply::Bytes(key) = key { Some(key) } else { None });
    Ok((cursor, keys.collect()))
}
