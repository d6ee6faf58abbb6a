//! The sidecar: observes a server's port and writes the log.
//!
//! ```text
//!   capture ─► reassembly ─► conversations ─► batch ═queue═► log writer ─► log
//!   └──────────── this thread ────────────────────┘          another thread:
//!                                                            writes, syncs at an interval
//! ```
//!
//! The queue is bounded in bytes. While the disk is full or slow, requests wait in it. When the
//! queue is full too, they are dropped, which is a gap; when there is room again, every connection
//! begins anew in the log, with a new number and the requests that establish its state.
//!
//! # Invariants
//! 1. After the ring and the log are open, this process has no capabilities.
//! 2. Entries reach the log in the order of capture; a dropped one is reported as a gap in its
//!    place.

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

/// The longest sleep between checks for a stop; longer than the kernel holds packets back.
const PATIENCE: Duration = Duration::from_millis(100);
/// A batch of this length is handed to the log writer.
const BATCH_BYTES: usize = 1 << 20;

/// What is captured, and how it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The network interface.
    pub interface: String,
    /// The server on it.
    pub server: Server,
    /// The protocol.
    pub protocol: Protocol,
    /// The directory of the log.
    pub dir: PathBuf,
    /// The size at which a new file of the log begins.
    pub segment_bytes: u64,
    /// The retention limits.
    pub keep: Keep,
    /// The interval of syncs.
    pub sync_interval: Duration,
    /// Whether requests that change nothing are logged as well.
    pub logs_read_only: bool,
    /// Blocks of 1 MiB in the packet ring.
    pub ring_blocks: usize,
    /// The most bytes that wait for the disk.
    pub queue_bytes: usize,
    /// The processor for capturing packets, if it must be a particular one.
    pub capture_cpu: Option<usize>,
    /// The processor for writing the log, if it must be a particular one.
    pub writer_cpu: Option<usize>,
}

/// Captures and writes until `stop` is set. `ready` is called once packets are being captured.
///
/// # Errors
/// If capture or the log cannot be opened, if the interface disappears, if the log cannot be
/// written (except while the disk is full), or if connections are encrypted. Everything captured
/// before is in the log.
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
    // An error of the log is the cause of an error in handing over to it.
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
        // The kernel releases the block that it is filling after a short while.
        while self.turn(PATIENCE)? > 0 {}
        Ok(())
    }

    /// Handles what has arrived, after waiting at most `patience`, and hands over what is due.
    /// Returns the number of blocks.
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
        // The log is written only when a sync is due: each write costs as much as a thousand
        // requests.
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
