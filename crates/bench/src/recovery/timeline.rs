//! The course of a run in steps of 100 ms, as lines that leave the process at once: it will be killed.
//!
//! ```text
//!   step MS REQUESTS P50_US P99_US MAX_US RESTORED    what was answered up to this time
//!   event NAME NUMBER                                 something happened, mostly the time in ms
//! ```

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::STEP_MS;
use crate::error::{Error, Result};
use crate::histogram::Histogram;

/// The length of a step.
const STEP_NS: u64 = STEP_MS * 1_000_000;

/// The time since the process was started, by the one that started it.
pub(super) struct SinceExec {
    exec: SystemTime,
}

impl SinceExec {
    /// Of a process that was started so many microseconds after 1970.
    pub(super) fn new(exec_us: u64) -> Self {
        Self { exec: UNIX_EPOCH + Duration::from_micros(exec_us) }
    }

    /// Microseconds since 1970, for the process that is about to be started.
    pub(super) fn now_us() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn ns(&self) -> u64 {
        let since = self.exec.elapsed().unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// See the file's top.
pub(super) struct Timeline {
    /// Of the running step.
    pub(super) latencies: Histogram,
    whole: Histogram,
    step_end_ns: u64,
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self { latencies: Histogram::new(), whole: Histogram::new(), step_end_ns: STEP_NS }
    }

    /// Ends the steps that are over; `restored` keys are in memory.
    pub(super) fn advance(&mut self, now_ns: u64, restored: u64) -> Result<()> {
        while now_ns >= self.step_end_ns {
            let step = &mut self.latencies;
            print(format_args!(
                "step {} {} {} {} {} {restored}",
                self.step_end_ns / 1_000_000,
                step.total(),
                step.quantile(500) / 1000,
                step.quantile(990) / 1000,
                step.max() / 1000
            ))?;
            self.whole.take(step);
            self.step_end_ns += STEP_NS;
        }
        Ok(())
    }

    /// Ends the last step, and tells of the whole run.
    pub(super) fn end(&mut self, restored: u64) -> Result<()> {
        self.advance(self.step_end_ns, restored)?;
        event("requests", self.whole.total())?;
        for (name, per_mille) in [("p50_us", 500), ("p99_us", 990), ("p999_us", 999)] {
            event(name, self.whole.quantile(per_mille) / 1000)?;
        }
        event("max_us", self.whole.max() / 1000)
    }
}

/// Tells of something that has happened.
pub(super) fn event(name: &str, number: u64) -> Result<()> {
    print(format_args!("event {name} {number}"))
}

fn print(line: std::fmt::Arguments<'_>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let printed = writeln!(out, "{line}").and_then(|()| out.flush());
    printed.map_err(|error| Error::engine("output")(&error))
}
