//! The sidecar: listens to a server's port and writes the log.
//!
//! ```text
//!   capture ─► reassembly ─► conversations ─► batch ═queue═► log writer ─► log
//!   └──────────── this thread ────────────────────┘          another thread:
//!                                                            writes, syncs at an interval
//! ```
//!
//! The queue is bounded in bytes. While the disk is full or slow requests wait in it; when it is full too
//! they are dropped, which is a gap, and when there is room again every connection begins anew in the log,
//! with a new number and the requests that made its state.
//!
//! # Invariants
//! 1. Once the ring and the log are open this process has no capabilities.
//! 2. Entries come to the log in the order of capture; one that is dropped is told as a gap in its place.

mod counters;
mod log_writer;
mod recorder;
#[cfg(test)]
mod throughput;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use env::Disk;

pub use counters::Counters;
use log_writer::LogWriter;
use recorder::Recorder;

use crate::capture::{self, Capture, Server};
use crate::entry::{GapReason, Time};
use crate::error::{Error, Result};
use crate::log::{Keep, Settings, Writer};
use crate::protocol::Protocol;
use crate::reassembly::{Limits, Table};

/// How long the sidecar sleeps at most before it looks whether it shall stop; longer than the kernel keeps
/// packets back.
const PATIENCE: Duration = Duration::from_millis(100);
/// A batch is handed to the log writer when it is as long as this.
const BATCH_BYTES: usize = 1 << 20;

/// What is listened to, and how it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The network interface.
    pub interface: String,
    /// The server on it.
    pub server: Server,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The directory of the log.
    pub dir: PathBuf,
    /// Bytes after which a file of the log is followed by another.
    pub segment_bytes: u64,
    /// What of the log is kept.
    pub keep: Keep,
    /// How often the log is made durable.
    pub sync_interval: Duration,
    /// Whether requests that change nothing are logged too.
    pub logs_read_only: bool,
    /// Blocks of 1 MiB in the packet ring.
    pub ring_blocks: usize,
    /// Bytes that wait for the disk at most.
    pub queue_bytes: usize,
    /// The processor on which packets are taken, if it shall be a certain one.
    pub capture_cpu: Option<usize>,
    /// The processor on which the log is written, if it shall be a certain one.
    pub writer_cpu: Option<usize>,
}

/// Listens and writes until `stop` is set. `ready` is called when packets are being captured.
///
/// # Errors
/// If capture or the log cannot be opened, if the interface goes, if the log cannot be written (a full
/// disk is waited for), or if connections are encrypted. What was captured before is in the log.
pub fn run(
    options: &Options,
    disk: Arc<dyn Disk>,
    counters: &Arc<Counters>,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<()> {
    let settings = Settings { protocol: options.protocol.name().into(), keep: options.keep };
    let capture = Capture::open(&options.interface, options.server.clone(), options.ring_blocks)?;
    let writer = Writer::open(disk, &options.dir, settings, now())?;
    capture::drop_capabilities()?;
    let recorder = Recorder::new(options, counters.clone(), &writer);
    let log = LogWriter::start(writer, options, counters.clone());
    if let Some(cpu) = options.capture_cpu {
        capture::pin_to_cpu(cpu)?;
    }
    ready();
    let mut sidecar = Sidecar {
        capture,
        table: Table::new(Limits::default()),
        recorder,
        log,
        counters,
        sync_interval: options.sync_interval,
    };
    let listened = sidecar.listen(stop);
    let written = sidecar.finish();
    // What went wrong with the log is the reason of what went wrong with handing over to it.
    written.and(listened)
}

struct Sidecar<'a> {
    capture: Capture,
    table: Table<recorder::Followed>,
    recorder: Recorder,
    log: LogWriter,
    counters: &'a Counters,
    sync_interval: Duration,
}

impl Sidecar<'_> {
    fn listen(&mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let rest = self.sync_interval.saturating_sub(self.recorder.gathered_for());
            self.turn(PATIENCE.min(rest))?;
        }
        // The kernel gives the block that it is filling over after a short while.
        while self.turn(PATIENCE)? > 0 {}
        Ok(())
    }

    /// Takes what has come, waiting for it for `patience` at most, and hands over what is due; how many
    /// blocks it was.
    fn turn(&mut self, patience: Duration) -> Result<usize> {
        let Self { capture, table, recorder, log, .. } = self;
        let mut handed = Ok(());
        let blocks = capture.take(patience, |segment, at| {
            table.segment(segment, at, recorder);
            if recorder.batch_bytes() >= BATCH_BYTES && handed.is_ok() {
                handed = recorder.hand_over(log);
            }
        })?;
        handed?;
        if let Some((client, server)) = self.recorder.encrypted() {
            return Err(Error::Encrypted { client, server });
        }
        self.look_for_losses()?;
        // The log is written when it is to be synced: each time costs as much as a thousand requests.
        if self.recorder.gathered_for() >= self.sync_interval {
            self.recorder.hand_over(&mut self.log)?;
        }
        if self.recorder.has_dropped() && self.log.has_room() {
            self.recorder.begin_anew(&mut self.table, now());
            self.recorder.hand_over(&mut self.log)?;
        }
        if self.recorder.wants_rotation() {
            self.recorder.hand_over(&mut self.log)?;
            self.recorder.rotate(&self.table, &mut self.log, now())?;
        }
        Ok(blocks)
    }

    fn look_for_losses(&mut self) -> Result<()> {
        let passed = self.capture.passed()?;
        self.counters.add_packets(passed.packets, passed.dropped);
        if passed.dropped > 0 {
            self.recorder.gap(now(), passed.dropped, GapReason::RingOverflow);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.counters.stop();
        let handed = self.recorder.hand_over(&mut self.log);
        self.log.finish().and(handed)
    }
}

/// The time by this machine's clock.
#[must_use]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The two ends of a connection.
type Ends = (SocketAddr, SocketAddr);
