//! `indelible transfer`: files to another machine, verified on the medium on which they rest there.

mod bars;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use transfer::{
    Limits, Progress, Remote, Report, Scheme, Server, Service, Sessions, Token, Trust, Verification,
};

use crate::archive_transfer::TOKEN_VARIABLE;
use crate::size::Size;

/// Sends files and trees, and verifies every byte on the medium on which it finally rests.
#[derive(Parser)]
#[command(name = "indelible transfer", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Receives files into a directory, and gives out what is in it.
    Serve(Serve),
    /// Sends files and trees: indelible transfer send PATH... HOST:PORT[/directory]
    Send(Send),
    /// Fetches a file or tree: indelible transfer fetch HOST:PORT[/path] DIR
    Fetch(Fetch),
    /// Prints a new token, for both ends.
    Token,
}

#[derive(Args)]
struct Access {
    /// File with the token that both ends share; the environment's INDELIBLE_TRANSFER_TOKEN otherwise.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Talks to other machines without a token, unencrypted, to any machine that connects.
    #[arg(long)]
    insecure: bool,
}

#[derive(Args)]
struct Receiver {
    /// Most bytes of one transfer that are received (K, M, G, T for units of 1024).
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Bytes that stay free on the file system.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    keep_free: Size,
    /// Memory for buffers of one transfer.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    memory: Size,
}

#[derive(Args)]
struct Verify {
    /// How the receiver verifies: sequential, pipelined, riva, sp or spc.
    #[arg(long, default_value_t = Scheme::Spc)]
    scheme: Scheme,
    /// Threads that verify; as many as the receiver has processors if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    verifiers: u16,
    /// Size of the cache in the receiver's device; a thousandth of its capacity if not given.
    #[arg(long, value_name = "SIZE")]
    device_cache: Option<Size>,
    /// How often a page is sent again before its file is given up.
    #[arg(long, default_value_t = 3)]
    resends: u16,
    /// Prints the result as one JSON object.
    #[arg(long)]
    json: bool,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
struct Serve {
    /// The directory.
    dir: PathBuf,
    /// Where to listen. Anything but loopback wants a token, and gets a new one if none is given.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: String,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    receiver: Receiver,
    /// Size of the cache in the device, for archives: what they put is read back when as much has come behind it; a thousandth of
    /// its capacity if not given.
    #[arg(long, value_name = "SIZE")]
    device_cache: Option<Size>,
    /// What holders of the token may do in sessions, in which archives are kept: all; append: put and read, and nothing is
    /// removed or replaced, so files that are sent are refused, too; no: nothing.
    #[arg(long, value_name = "no|append|all", default_value = "all", value_parser = ["no", "append", "all"])]
    sessions: String,
}

#[derive(Args)]
struct Send {
    /// Files and directories, and at the end HOST:PORT[/directory].
    #[arg(required = true, num_args = 2.., value_name = "PATH... HOST:PORT[/DIR]")]
    paths: Vec<OsString>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    verify: Verify,
}

#[derive(Args)]
struct Fetch {
    /// What to fetch: HOST:PORT for everything, HOST:PORT/path for a file or tree of it.
    #[arg(value_name = "HOST:PORT[/PATH]")]
    remote: Remote,
    /// Where to put it.
    dir: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    receiver: Receiver,
    #[command(flatten)]
    verify: Verify,
}

/// Does what the arguments behind `indelible` say; the exit code: 0 when all has arrived, 1 when some
/// files have not, 2 when the transfer did not take place.
pub(crate) fn transfer(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::from(2)) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.action {
        Action::Serve(serve) => run_server(&serve),
        Action::Send(send) => run_send(&send),
        Action::Fetch(fetch) => run_fetch(&fetch),
        Action::Token => new_token().map(|token| {
            println!("{token}");
            ExitCode::SUCCESS
        }),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

impl Access {
    /// The token that was given, if one was.
    fn token(&self) -> Result<Option<Token>, anyhow::Error> {
        let text = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?,
            ),
            None => std::env::var(TOKEN_VARIABLE).ok(),
        };
        text.map(|text| text.parse().map_err(anyhow::Error::msg)).transpose()
    }

    fn trust(&self) -> Result<Trust, anyhow::Error> {
        Ok(match self.token()? {
            Some(token) => Trust::Token(token),
            None if self.insecure => Trust::Anybody,
            None => Trust::Loopback,
        })
    }
}

impl Receiver {
    fn limits(&self) -> Limits {
        Limits {
            size_max_bytes: self.max_size.map(|size| size.0),
            keep_free_bytes: self.keep_free.0,
        }
    }
}

impl Verify {
    fn verification(&self) -> Verification {
        Verification {
            scheme: self.scheme,
            verifiers: self.verifiers,
            resends_max: self.resends,
            device_cache_bytes: self.device_cache.map_or(0, |size| size.0),
        }
    }
}

fn new_token() -> Result<Token, anyhow::Error> {
    Ok(Token::random()?)
}

fn run_server(serve: &Serve) -> Result<ExitCode, anyhow::Error> {
    let service = |trust| Service {
        dir: serve.dir.clone(),
        trust,
        limits: serve.receiver.limits(),
        memory_bytes: serve.receiver.memory.0,
        device_cache_bytes: serve.device_cache.map_or(0, |size| size.0),
        sessions: match serve.sessions.as_str() {
            "no" => Sessions::No,
            "append" => Sessions::Append,
            _ => Sessions::All,
        },
    };
    let trust = serve.access.trust()?;
    let bound = Server::bind(&serve.listen, service(trust.clone()));
    let server = match (bound, trust) {
        // Not loopback, and no token is configured: it gets one, for as long as it runs.
        (Err(transfer::Error::Refusing(_)), Trust::Loopback) => {
            let token = new_token()?;
            let server = Server::bind(&serve.listen, service(Trust::Token(token.clone())))?;
            eprintln!("a new token, for as long as this server runs; on the other machine:");
            eprintln!("  export {TOKEN_VARIABLE}={token}");
            server
        }
        (bound, _) => bound?,
    };
    println!("listening on {}", server.address()?);
    std::io::stdout().flush()?;
    server.run(&|line| eprintln!("{line}"))?;
    Ok(ExitCode::SUCCESS)
}

fn run_send(send: &Send) -> Result<ExitCode, anyhow::Error> {
    let (remote, paths) = send.paths.split_last().expect("clap wants two at least");
    let remote = remote
        .to_str()
        .ok_or_else(|| anyhow::anyhow!("the last argument is not HOST:PORT[/directory]"))?;
    let remote: Remote = remote.parse()?;
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let trust = send.access.trust()?;
    let verification = send.verify.verification();
    let report = watched(&send.verify, |progress| {
        transfer::send(&paths, &remote, &trust, verification, progress)
    })?;
    Ok(show(&report, send.verify.json))
}

fn run_fetch(fetch: &Fetch) -> Result<ExitCode, anyhow::Error> {
    let trust = fetch.access.trust()?;
    let report = watched(&fetch.verify, |progress| {
        transfer::fetch(
            &fetch.remote,
            &fetch.dir,
            &trust,
            fetch.verify.verification(),
            &fetch.receiver.limits(),
            fetch.receiver.memory.0,
            progress,
        )
    })?;
    Ok(show(&report, fetch.verify.json))
}

/// Runs a transfer, with progress bars on a terminal.
fn watched(
    verify: &Verify,
    run: impl FnOnce(&Progress) -> transfer::Result<Report>,
) -> Result<Report, anyhow::Error> {
    let progress = Progress::default();
    if verify.quiet || !std::io::stderr().is_terminal() {
        return Ok(run(&progress)?);
    }
    Ok(bars::beside(&progress, || run(&progress))?)
}

fn show(report: &Report, json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::to_string(report).expect("a report is JSON"));
    } else {
        for skipped in &report.skipped {
            eprintln!("{skipped}");
        }
        for failure in &report.failures {
            eprintln!("{}: {}", failure.path, failure.what);
        }
        let rate = report.bytes as f64 / report.seconds.max(1e-9);
        println!(
            "{} files, {} directories, {} links: {} in {:.1} s ({}/s); {} verified by {}{}",
            report.files,
            report.directories,
            report.links,
            Size(report.bytes),
            report.seconds,
            bars::rate(rate),
            Size(report.verified_bytes),
            report.scheme,
            match (report.unchanged_bytes, report.pages_sent_again) {
                (0, 0) => String::new(),
                (same, again) =>
                    format!(", {} were there already, {again} pages came again", Size(same)),
            }
        );
    }
    if report.is_complete() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} files have NOT been transferred", report.failures.len());
    ExitCode::FAILURE
}
