//! The counters of the sidecar, for people and for Prometheus.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::entry::{Class, GapReason, Outcome};

const CLASSES: [(&str, Class); 3] =
    [("connection", Class::Connection), ("query", Class::Query), ("read_only", Class::ReadOnly)];

const REASONS: [(&str, GapReason); 7] = [
    ("ring_overflow", GapReason::RingOverflow),
    ("lost", GapReason::Lost),
    ("mid_stream", GapReason::MidStream),
    ("out_of_buffer", GapReason::OutOfBuffer),
    ("unintelligible", GapReason::Unintelligible),
    ("stopped", GapReason::Stopped),
    ("disk_full", GapReason::DiskFull),
];

/// Counters that the threads of a sidecar update and others read.
#[derive(Debug, Default)]
pub struct Counters {
    packets: AtomicU64,
    packets_dropped: AtomicU64,
    connections: AtomicU64,
    connections_open: AtomicU64,
    requests: [AtomicU64; CLASSES.len()],
    request_bytes: [AtomicU64; CLASSES.len()],
    completed_ok: AtomicU64,
    completed_error: AtomicU64,
    gaps: [AtomicU64; REASONS.len()],
    log_bytes: AtomicU64,
    dropped_bytes: AtomicU64,
    rotations: AtomicU64,
    syncs: AtomicU64,
    sync_ns: AtomicU64,
    queued_bytes: AtomicUsize,
    is_disk_full: AtomicBool,
    is_stopping: AtomicBool,
    /// For each batch that is not durable, when its first entry was added. The oldest batch comes
    /// first, the one being gathered last. A batch is listed before any of its requests is counted.
    undurable_since: Mutex<VecDeque<Instant>>,
}

impl Counters {
    /// The requests observed of each class and their bytes, including those not logged.
    #[must_use]
    pub fn requests(&self, class: Class) -> (u64, u64) {
        let at = CLASSES.iter().position(|(_, named)| *named == class).expect("each has a name");
        (get(&self.requests[at]), get(&self.request_bytes[at]))
    }

    /// Gaps recorded, whatever their reason.
    #[must_use]
    pub fn gap_count(&self) -> u64 {
        self.gaps.iter().map(get).sum()
    }

    /// Packets seen, and those among them that found no room in the ring.
    #[must_use]
    pub fn packets(&self) -> (u64, u64) {
        (get(&self.packets), get(&self.packets_dropped))
    }

    /// Bytes written to the log.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        get(&self.log_bytes)
    }

    /// How long the oldest request that is not durable has waited.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.undurable_since().front().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Whether the last write to the log failed because the disk was full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        self.is_disk_full.load(Ordering::Relaxed)
    }

    /// The gaps by reason, without those that did not occur.
    #[must_use]
    pub fn gaps(&self) -> Vec<(&'static str, u64)> {
        let named = REASONS.iter().zip(&self.gaps).map(|((name, _), count)| (*name, get(count)));
        named.filter(|(_, count)| *count > 0).collect()
    }

    /// Announces a stop, so that a full disk is no longer waited for.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns all counters in Prometheus' text format.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = Exposition::default();
        let count = |counter| get(counter).to_string();
        text.one("packets_total", "counter", "Packets of the server seen", &count(&self.packets));
        text.one(
            "packets_dropped_total",
            "counter",
            "Packets dropped because the ring was full",
            &count(&self.packets_dropped),
        );
        text.one("connections_total", "counter", "Connections seen", &count(&self.connections));
        text.one("connections", "gauge", "Connections open", &count(&self.connections_open));
        let by_class = |counters: &[AtomicU64]| {
            let named = CLASSES.iter().zip(counters);
            named.map(|((name, _), counter)| (*name, get(counter))).collect::<Vec<_>>()
        };
        text.many("requests_total", "Requests heard", "class", &by_class(&self.requests));
        text.many(
            "request_bytes_total",
            "Bytes of requests observed",
            "class",
            &by_class(&self.request_bytes),
        );
        let outcomes = [("ok", get(&self.completed_ok)), ("error", get(&self.completed_error))];
        text.many("completed_total", "Logged requests answered", "outcome", &outcomes);
        let gaps: Vec<_> =
            REASONS.iter().zip(&self.gaps).map(|((name, _), n)| (*name, get(n))).collect();
        text.many("gaps_total", "Gaps in the log", "reason", &gaps);
        text.one("log_bytes_total", "counter", "Bytes written", &count(&self.log_bytes));
        text.one(
            "log_dropped_bytes_total",
            "counter",
            "Bytes not written because the disk was full",
            &count(&self.dropped_bytes),
        );
        text.one("log_rotations_total", "counter", "Segments begun", &count(&self.rotations));
        text.one("log_syncs_total", "counter", "Syncs of the log", &count(&self.syncs));
        let sync_seconds = Duration::from_nanos(get(&self.sync_ns)).as_secs_f64().to_string();
        text.one("log_sync_seconds_total", "counter", "Time spent syncing", &sync_seconds);
        let queued = self.queued_bytes().to_string();
        text.one("queue_bytes", "gauge", "Bytes that wait to be written", &queued);
        let lag = self.lag().as_secs_f64().to_string();
        text.one("lag_seconds", "gauge", "Age of the oldest request that is not durable", &lag);
        let full = u8::from(self.is_disk_full()).to_string();
        text.one("disk_full", "gauge", "Whether the log waits for room", &full);
        text.0
    }

    pub(super) fn add_packets(&self, packets: u64, dropped: u64) {
        add(&self.packets, packets);
        add(&self.packets_dropped, dropped);
    }

    pub(super) fn opened(&self) {
        add(&self.connections, 1);
        add(&self.connections_open, 1);
    }

    pub(super) fn closed(&self) {
        self.connections_open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn request(&self, class: Class, bytes: usize) {
        let at = match class {
            Class::Connection => 0,
            Class::Query => 1,
            Class::ReadOnly => 2,
        };
        add(&self.requests[at], 1);
        add(&self.request_bytes[at], bytes as u64);
    }

    pub(super) fn completed(&self, outcome: Outcome) {
        add(if outcome == Outcome::Ok { &self.completed_ok } else { &self.completed_error }, 1);
    }

    pub(super) fn gap(&self, reason: GapReason) {
        let at = REASONS.iter().position(|(_, named)| *named == reason).expect("each has a name");
        add(&self.gaps[at], 1);
    }

    pub(super) fn dropped(&self, bytes: usize) {
        add(&self.dropped_bytes, bytes as u64);
    }

    pub(super) fn queued(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn written(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        add(&self.log_bytes, bytes as u64);
    }

    pub(super) fn rotated(&self) {
        add(&self.rotations, 1);
    }

    pub(super) fn set_disk_full(&self, is_full: bool) {
        self.is_disk_full.store(is_full, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(super) fn sync(&self, took: Duration) {
        add(&self.syncs, 1);
        add(&self.sync_ns, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn batch_begun(&self, now: Instant) {
        self.undurable_since().push_back(now);
    }

    /// Notes that the batch being gathered will never be durable.
    pub(super) fn batch_dropped(&self) {
        self.undurable_since().pop_back();
    }

    /// Notes that `count` more batches are durable.
    pub(super) fn batches_durable(&self, count: usize) {
        self.undurable_since().drain(..count);
    }

    fn undurable_since(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.undurable_since.lock().expect("no holder panics")
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn add(counter: &AtomicU64, amount: u64) {
    // Each counter is incremented by one thread only.
    counter.store(get(counter) + amount, Ordering::Relaxed);
}

/// Prometheus' text format, version 0.0.4.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP indelible_tap_{name} {help}.").expect("memory takes it");
        writeln!(self.0, "# TYPE indelible_tap_{name} {kind}").expect("memory takes it");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: &str) {
        self.head(name, kind, help);
        writeln!(self.0, "indelible_tap_{name} {value}").expect("memory takes it");
    }

    fn many(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.head(name, "counter", help);
        for (labelled, value) in values {
            writeln!(self.0, "indelible_tap_{name}{{{label}=\"{labelled}\"}} {value}")
                .expect("memory takes it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_exposed() {
        let counters = Counters::default();
        counters.add_packets(10, 3);
        counters.request(Class::Query, 100);
        counters.request(Class::Query, 20);
        counters.gap(GapReason::RingOverflow);
        let text = counters.exposition();
        for line in [
            "# TYPE indelible_tap_packets_dropped_total counter",
            "indelible_tap_packets_dropped_total 3",
            "indelible_tap_requests_total{class=\"query\"} 2",
            "indelible_tap_request_bytes_total{class=\"query\"} 120",
            "indelible_tap_gaps_total{reason=\"ring_overflow\"} 1",
            "indelible_tap_gaps_total{reason=\"lost\"} 0",
            "indelible_tap_lag_seconds 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert_eq!(counters.requests(Class::Query), (2, 120));
        assert_eq!(counters.gaps(), [("ring_overflow", 1)]);
    }
}
