//! `indelible restore --keys PATTERN --to HOST:PORT`: brings single keys of the past into a server that runs.
//!
//! ```text
//!   log as it was ─► a view of it, a process of its own ─► SCAN, DUMP ─► RESTORE ─► the server
//! ```
//!
//! One key at a time, as MIGRATE moves it. What the server has under the name stays, unless it is to be replaced.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use env::Clock as _;
use env_os::OsClock;

use crate::client::{Client, Reply};
use crate::moment::Moment;

/// How many keys are looked at in one step.
const KEYS_A_STEP: &str = "1000";

/// How often it is looked whether the view is there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// When keys expire that are brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Expiry {
    /// When they would have: those whose time has passed are not brought back.
    Absolute,
    /// After as long as they had left then.
    Relative,
    /// Never.
    Never,
}

/// Brings single keys of a log as it was into a server that runs. What it has under their names stays, unless --replace is
/// given. A password is taken from the variable REDISCLI_AUTH.
#[derive(Parser)]
#[command(name = "indelible restore", version)]
struct Arguments {
    #[command(flatten)]
    moment: Moment,
    /// The keys, as for KEYS and SCAN: user:*
    #[arg(long = "keys", value_name = "PATTERN")]
    pattern: String,
    /// The server.
    #[arg(long = "to", value_name = "HOST:PORT")]
    address: String,
    /// The user of the password in REDISCLI_AUTH.
    #[arg(long)]
    user: Option<String>,
    /// Replaces what the server has under the names of the keys.
    #[arg(long = "replace")]
    replaces: bool,
    /// When keys expire.
    #[arg(long, value_enum, default_value_t = Expiry::Absolute)]
    expiry: Expiry,
    /// The directory in which the log is restored meanwhile; without it, the system's for temporary files.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
}

/// What has become of the keys.
#[derive(Debug, Default)]
struct Given {
    keys: u64,
    /// The server has something under the name.
    kept: u64,
    /// Their time has passed since.
    expired: u64,
}

/// Runs `indelible restore` with these arguments, the first of which is `restore`.
pub(crate) fn give_back(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.run() {
        Ok(Given { keys, kept, expired }) => {
            println!("{keys} keys are back at {}", arguments.address);
            if expired > 0 {
                println!("{expired} have expired since (--expiry relative brings them back)");
            }
            if kept > 0 {
                println!("{kept} are there and stay as they are (--replace replaces them)");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A view of the past, and what connects to it. Its process ends with this.
struct View {
    process: Child,
    client: Client,
}

impl View {
    /// Starts it, with all that it makes in `directory`.
    fn start(moment: &Moment, directory: &Path) -> anyhow::Result<Self> {
        let socket = directory.join("view.sock");
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("view")
            .args(moment.words())
            .arg("--temporary")
            .arg(directory)
            .args(["--port", "0", "--"]);
        command.arg("--unixsocket").arg(&socket).args(["--logfile", "/dev/null"]);
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the view")?;
        loop {
            if let Some(ended) = process.try_wait()? {
                bail!("the past cannot be viewed ({ended})");
            }
            if let Ok(mut client) = Client::connect_to_socket(&socket)
                && let Ok(Reply::Status(_)) = client.call(&["PING"])
                && !matches!(client.call(&["DBSIZE"]), Ok(Reply::Error(_)) | Err(_))
            {
                return Ok(Self { process, client });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // It removes what it has made.
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _gone = self.process.wait();
    }
}

impl Arguments {
    fn run(&self) -> anyhow::Result<Given> {
        // Early: a server that is not there is not found out after minutes.
        let mut server = Client::connect(&self.address, self.user.as_deref())?;
        let near = self.temporary.clone().unwrap_or_else(std::env::temp_dir);
        let directory = tempfile::Builder::new().prefix("indelible-keys-").tempdir_in(near)?;
        let mut view = View::start(&self.moment, directory.path())?;
        let given = self.give_all(&mut view, &mut server);
        drop(view);
        directory.close()?;
        given
    }

    fn give_all(&self, view: &mut View, server: &mut Client) -> anyhow::Result<Given> {
        let mut given = Given::default();
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
                    self.give(view, server, key, &mut given)?;
                }
                if next == b"0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok(given)
    }

    fn give(
        &self,
        view: &mut View,
        server: &mut Client,
        key: &[u8],
        given: &mut Given,
    ) -> anyhow::Result<()> {
        let Reply::Bytes(payload) = view.client.call(&[b"DUMP", key])?.good()? else {
            bail!("a key of the past is gone from its view");
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
            Reply::Error(why) => bail!("{}: {why}", String::from_utf8_lossy(key)),
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
