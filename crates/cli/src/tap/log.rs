//! `indelible tap log`: the sidecar, from the command line.

use std::io::IsTerminal;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use env_os::OsDisk;
use signal_hook::consts::{SIGINT, SIGTERM};
use tap::capture::Server;
use tap::sidecar::{self, Counters, Options};
use tap::{Class, Protocol};

use super::keep::Keep;
use super::metrics;
use crate::size::Size;

#[derive(Args)]
pub(super) struct Log {
    /// The server's port.
    #[arg(long)]
    port: u16,
    /// The network interface on which its clients come in: eth0, or lo for clients on this machine.
    #[arg(long, value_name = "NAME")]
    interface: String,
    /// The server's address, if others on the interface have the same port. Can be given several times.
    #[arg(long, value_name = "IP")]
    address: Vec<IpAddr>,
    /// What is spoken there.
    #[arg(long, value_name = "NAME")]
    protocol: Protocol,
    /// The directory of the log; it goes on behind what is there.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Runs on this processor; with two, takes packets on the first and writes the log on the second.
    #[arg(long, value_name = "N[,M]")]
    cpu: Option<Cpus>,
    /// Milliseconds between syncs of the log: what a loss of power may take.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    sync_interval: u64,
    /// Bytes after which a file of the log is followed by another.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    segment_size: Size,
    /// How much of the log is kept: all, a size (10G) or an age (7d).
    #[arg(long, value_name = "HOW MUCH", default_value = "all")]
    keep: Keep,
    /// Logs requests that change nothing, too.
    #[arg(long)]
    read_only: bool,
    /// Memory in which packets wait for this process.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    ring: Size,
    /// Memory in which requests wait for a disk that is full or slow.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    queue: Size,
    /// Answers Prometheus here.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
}

/// The processors to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpus {
    capture: usize,
    writer: usize,
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse().map_err(|_not_a_number| format!("'{text}' is not a processor's number"))
        };
        let (capture, writer) = text.split_once(',').unwrap_or((text, text));
        Ok(Self { capture: number(capture)?, writer: number(writer)? })
    }
}

impl Log {
    fn options(&self) -> Result<Options, anyhow::Error> {
        let ring_blocks = usize::try_from(self.ring.0 >> 20)?;
        anyhow::ensure!(ring_blocks >= 2, "--ring: at least 2M");
        anyhow::ensure!(self.sync_interval > 0, "--sync-interval: at least 1");
        Ok(Options {
            interface: self.interface.clone(),
            server: Server { port: self.port, addresses: self.address.clone() },
            protocol: self.protocol,
            dir: self.dir.clone(),
            segment_bytes: self.segment_size.0,
            keep: self.keep.0,
            sync_interval: Duration::from_millis(self.sync_interval),
            logs_read_only: self.read_only,
            ring_blocks,
            queue_bytes: usize::try_from(self.queue.0)?,
            capture_cpu: self.cpu.map(|cpus| cpus.capture),
            writer_cpu: self.cpu.map(|cpus| cpus.writer),
        })
    }
}

/// Listens until SIGTERM or SIGINT.
pub(super) fn run(log: &Log) -> Result<ExitCode, anyhow::Error> {
    let options = log.options()?;
    let listener = match &log.metrics {
        Some(address) => Some(
            TcpListener::bind(address)
                .map_err(|error| anyhow::anyhow!("--metrics {address}: {error}"))?,
        ),
        None => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let counters = Arc::new(Counters::default());
    // These threads begin once the process has given its capabilities up, so they have none either.
    let ready = || {
        if let Some(listener) = listener {
            metrics::serve(listener, counters.clone());
        }
        watch(counters.clone());
        eprintln!(
            "recording {} requests to port {} on {} in {} (classic packet filter)",
            options.protocol.name(),
            options.server.port,
            options.interface,
            options.dir.display()
        );
    };
    let ended = sidecar::run(&options, Arc::new(OsDisk), &counters, &stop, ready);
    eprintln!("{}", summary(&counters));
    if let Err(error @ tap::Error::Encrypted { .. }) = ended {
        // Nothing gets better by trying again, which the exit code tells.
        eprintln!("{error}");
        return Ok(ExitCode::from(3));
    }
    ended?;
    let gaps = counters.gaps();
    if gaps.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let named: Vec<String> = gaps.iter().map(|(name, count)| format!("{name} {count}")).collect();
    eprintln!("the log has GAPS: {}", named.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Tells of gaps and of a full disk as they come, and on a terminal how it goes, every second.
fn watch(counters: Arc<Counters>) {
    std::thread::spawn(move || {
        let is_terminal = std::io::stderr().is_terminal();
        let (mut gaps, mut was_full) = (0, false);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = counters.gap_count();
            if now > gaps {
                eprintln!("{} gaps: {:?}", now - gaps, counters.gaps());
                gaps = now;
            }
            let is_full = counters.is_disk_full();
            if is_full != was_full {
                eprintln!(
                    "{}",
                    if is_full { "the disk is FULL: waiting" } else { "there is room again" }
                );
                was_full = is_full;
            }
            if is_terminal {
                eprintln!("{}", summary(&counters));
            }
        }
    });
}

fn summary(counters: &Counters) -> String {
    let (packets, dropped) = counters.packets();
    let classes = [Class::Connection, Class::Query, Class::ReadOnly];
    let [connection, query, read_only] = classes.map(|class| counters.requests(class).0);
    format!(
        "{packets} packets ({dropped} dropped), {query} queries, {connection} of connections, \
         {read_only} read-only; {} written, lag {:.0} ms",
        Size(counters.log_bytes()),
        counters.lag().as_secs_f64() * 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_or_two() {
        assert_eq!("1".parse(), Ok(Cpus { capture: 1, writer: 1 }));
        assert_eq!("0,1".parse(), Ok(Cpus { capture: 0, writer: 1 }));
        assert!("one".parse::<Cpus>().is_err());
    }
}
