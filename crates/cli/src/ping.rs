//! `indelible ping`: whether a server serves, as health checks ask it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::client::{Client, Reply};
use crate::login::Way;

/// Answers that come from a server that serves, though not this client: it knows no password.
const SERVES_OTHERS: &[&str] = &["NOAUTH ", "NOPERM "];

/// The exit code for a server that answers and does not serve.
const NOT_SERVING: u8 = 2;

/// Asks a server whether it serves, for health checks. It needs no password: a server that asks for one serves.
/// Exit code 0: it serves; 1: there is no answer; 2: it answers that it does not serve, because it loads its data, cannot write,
/// or refuses other machines.
#[derive(Parser)]
#[command(name = "indelible ping", version)]
pub(crate) struct Arguments {
    /// The server: an address with a port, or the path of a unix socket.
    #[arg(value_name = "HOST:PORT|SOCKET", default_value = "127.0.0.1:6379")]
    address: String,
    /// How long it may take to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    way: Way,
}

/// Runs `indelible ping` with these arguments, the first of which is `ping`.
pub(crate) fn ping(arguments: &[String]) -> ExitCode {
    crate::arguments::run(arguments, |arguments: Arguments| {
        let patience = Duration::from_secs(arguments.timeout.into());
        let answer = Client::connect_within(&arguments.address, &arguments.way, patience)?
            .call(&["PING"])?;
        match answer {
            Reply::Status(text) => println!("{text}"),
            Reply::Error(text) if SERVES_OTHERS.iter().any(|code| text.starts_with(code)) => {
                println!("{text}");
            }
            Reply::Error(text) => {
                eprintln!("{text}");
                return Ok(ExitCode::from(NOT_SERVING));
            }
            other => anyhow::bail!("{other:?} is no answer to PING"),
        }
        Ok(ExitCode::SUCCESS)
    })
}
