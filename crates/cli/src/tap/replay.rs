//! `indelible tap replay`: brings a server back from a log of requests.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use env::Disk;
use env_os::OsDisk;
use serde_json::json;
use tap::replay::{Base, Credentials, Extent, Report, Settings, replay};
use tap::{Outcome, Position, Protocol, Time};

use super::timestamp;

/// Where a password is looked for if none is given: all users of the machine see arguments.
const PASSWORD_VARIABLE: &str = "INDELIBLE_TAP_PASSWORD";

#[derive(Args)]
pub(super) struct Replay {
    /// The directory of the log.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The server to bring back.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Begins behind this request, as after a base backup that holds it.
    #[arg(long, value_name = "POSITION")]
    since: Option<u64>,
    /// Ends with this request, or at this moment (2026-11-22T09:15:00Z).
    #[arg(long, value_name = "TIME|POSITION")]
    until: Option<String>,
    /// Logs in as this user instead of the recorded ones.
    #[arg(long)]
    user: Option<String>,
    /// The password; the environment's INDELIBLE_TAP_PASSWORD otherwise.
    #[arg(long)]
    password: Option<String>,
    /// Not faster than so many times the recorded speed.
    #[arg(long, value_name = "N")]
    speed: Option<f64>,
    /// Sends requests together whose order cannot matter.
    #[arg(long)]
    parallel: bool,
    /// Sends only what was not completed, to a server that has kept the rest.
    #[arg(long)]
    partial: bool,
    /// Reports as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Replays the log; the exit code is 1 if there were differences, or gaps in the log.
pub(super) fn run(arguments: &Replay) -> Result<ExitCode, anyhow::Error> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let protocol: Protocol =
        tap::log::protocol(&disk, &arguments.dir)?.parse().map_err(anyhow::Error::msg)?;
    let base = base(arguments, &disk, protocol)?;
    let behind = base.as_ref().map(Base::reads_behind);
    let mut log = tap::log::read(&disk, &arguments.dir, behind)?;
    let mut again = tap::log::read(&disk, &arguments.dir, behind)?;
    let extent = if arguments.partial { Extent::NotCompleted(&mut again) } else { Extent::All };
    let settings = Settings { base, ..settings(arguments, protocol)? };
    let shows_progress = !arguments.json && std::io::stderr().is_terminal();
    let mut progress = |report: &Report| {
        if shows_progress {
            let mut out = std::io::stderr();
            let _ignored = write!(
                out,
                "\r{} requests in {:.0} s, {} differences ",
                report.sent,
                report.took.as_secs_f64(),
                report.difference_count
            );
        }
    };
    let report = replay(&mut log, extent, &settings, &mut progress)?;
    if shows_progress {
        eprintln!();
    }
    if arguments.json {
        println!("{}", as_json(&report));
    } else {
        show(&report);
    }
    let is_good = report.difference_count == 0 && report.gaps.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What the server was restored from, by what the log says of the moment of the backup. All of the log
/// before it is read, as a transaction may have been open for long.
fn base(
    arguments: &Replay,
    disk: &Arc<dyn Disk>,
    protocol: Protocol,
) -> Result<Option<Base>, anyhow::Error> {
    let Some(since) = arguments.since.map(Position) else { return Ok(None) };
    // Whether the log goes back to that moment.
    drop(tap::log::read(disk, &arguments.dir, Some(since))?);
    let mut before = tap::log::read(disk, &arguments.dir, None)?;
    Ok(Some(Base::at(since, &mut before, protocol)?))
}

fn settings(arguments: &Replay, protocol: Protocol) -> Result<Settings, anyhow::Error> {
    let (mut until_position, mut until_time): (Option<Position>, Option<Time>) = (None, None);
    if let Some(until) = &arguments.until {
        match until.parse() {
            Ok(position) => until_position = Some(Position(position)),
            Err(_) => {
                let time = timestamp::read(until);
                until_time = Some(time.with_context(|| {
                    format!("--until {until}: a position, or a time as 2026-11-22T09:15:00Z")
                })?);
            }
        }
    }
    if let Some(speed) = arguments.speed {
        anyhow::ensure!(speed > 0.0 && speed.is_finite(), "--speed: more than nothing");
    }
    let password = arguments.password.clone().or_else(|| std::env::var(PASSWORD_VARIABLE).ok());
    Ok(Settings {
        to: address(&arguments.to)?,
        protocol,
        base: None,
        credentials: Credentials { user: arguments.user.clone(), password },
        until_position,
        until_time,
        speed: arguments.speed,
        parallel: arguments.parallel,
    })
}

fn address(to: &str) -> Result<SocketAddr, anyhow::Error> {
    let mut found = to.to_socket_addrs().with_context(|| format!("--to {to}: HOST:PORT"))?;
    found.next().with_context(|| format!("--to {to}: no such host"))
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
    }
}

fn show(report: &Report) {
    let last = report.last_position.map_or(0, |position| position.0);
    println!(
        "{} requests sent in {:.3} s, up to number {last}; {} left out, {} errors as recorded, {} \
         without a recorded answer",
        report.sent,
        report.took.as_secs_f64(),
        report.left_out,
        report.errors_as_recorded,
        report.without_record
    );
    for (connection, at, reason) in &report.gaps {
        let whose =
            connection.map_or_else(String::new, |number| format!(" of connection {}", number.0));
        println!("gap at {}{whose}: {reason:?}", timestamp::show(*at));
    }
    for difference in &report.differences {
        println!(
            "difference: request {} of connection {} was {}, and is {} {}: {}",
            difference.position.0,
            difference.connection.0,
            words(difference.recorded),
            words(difference.replayed),
            difference.message,
            difference.request
        );
    }
    let more = report.difference_count - report.differences.len() as u64;
    if more > 0 {
        println!("and {more} more differences");
    }
}

fn as_json(report: &Report) -> serde_json::Value {
    let differences: Vec<_> = report
        .differences
        .iter()
        .map(|difference| {
            json!({
                "position": difference.position.0,
                "connection": difference.connection.0,
                "recorded": words(difference.recorded),
                "replayed": words(difference.replayed),
                "message": difference.message,
                "request": difference.request,
            })
        })
        .collect();
    let gaps: Vec<_> = report
        .gaps
        .iter()
        .map(|(connection, at, reason)| {
            json!({
                "connection": connection.map(|number| number.0),
                "at": timestamp::show(*at),
                "reason": format!("{reason:?}"),
            })
        })
        .collect();
    json!({
        "sent": report.sent,
        "left_out": report.left_out,
        "errors_as_recorded": report.errors_as_recorded,
        "without_record": report.without_record,
        "waited": report.waited,
        "out_of_order": report.out_of_order,
        "under_way_mean": report.under_way_sum as f64 / report.polls.max(1) as f64,
        "connections_max": report.connections_max,
        "last_position": report.last_position.map(|position| position.0),
        "seconds": report.took.as_secs_f64(),
        "difference_count": report.difference_count,
        "differences": differences,
        "gaps": gaps,
    })
}
