//! The result of a transfer, for people and, as JSON, for programs.

use std::time::Duration;

use serde::Serialize;

use crate::entry::{Entry, Kind};
use crate::message::Totals;
use crate::relative_path::RelativePath;
use crate::scheme::Scheme;

/// A file that was not transferred, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its path, with unprintable characters escaped.
    pub path: String,
    /// The reason.
    pub what: String,
}

impl Failure {
    pub(crate) fn new(path: &RelativePath, what: String) -> Self {
        Self { path: path.to_string(), what }
    }
}

/// The result of a transfer that did not break off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The scheme of verification.
    pub scheme: String,
    /// Announced files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// The length of all files together.
    pub bytes: u64,
    /// Bytes written at the receiver, or found there.
    pub written_bytes: u64,
    /// Bytes read back and found correct.
    pub verified_bytes: u64,
    /// Bytes of existing files that were found identical.
    pub unchanged_bytes: u64,
    /// Pages that arrived more than once.
    pub pages_sent_again: u64,
    /// Bytes written to displace the last files from the device's cache.
    pub filler_bytes: u64,
    /// The size of the device's cache that was assumed; 0 if the scheme does not use it.
    pub device_cache_bytes: u64,
    /// Bytes that the host's memory held after their eviction.
    pub resident_bytes: u64,
    /// The most bytes buffered at the receiver.
    pub memory_peak_bytes: u64,
    /// The time that all verifiers spent, in total.
    pub verification_seconds: f64,
    /// Time from the list of files to the last verified byte.
    pub seconds: f64,
    /// Files that were not transferred.
    pub failures: Vec<Failure>,
    /// What was skipped: sockets, pipes, devices.
    pub skipped: Vec<String>,
}

impl Report {
    pub(crate) fn new<'a>(
        scheme: Scheme,
        entries: impl Iterator<Item = &'a Entry>,
        totals: &Totals,
        failures: Vec<Failure>,
        time: Duration,
    ) -> Self {
        let mut report = Self {
            scheme: scheme.to_string(),
            files: 0,
            directories: 0,
            links: 0,
            bytes: 0,
            written_bytes: totals.written_bytes,
            verified_bytes: totals.verified_bytes,
            unchanged_bytes: totals.unchanged_bytes,
            pages_sent_again: totals.pages_sent_again,
            filler_bytes: totals.filler_bytes,
            device_cache_bytes: totals.device_cache_bytes,
            resident_bytes: totals.resident_bytes,
            memory_peak_bytes: totals.memory_peak_bytes,
            verification_seconds: Duration::from_micros(totals.verification_us).as_secs_f64(),
            seconds: time.as_secs_f64(),
            failures,
            skipped: Vec::new(),
        };
        for entry in entries {
            match entry.kind {
                Kind::File { .. } => report.files += 1,
                Kind::Directory => report.directories += 1,
                Kind::Link { .. } => report.links += 1,
            }
            report.bytes += entry.size_bytes();
        }
        report
    }

    /// Whether everything announced has arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}
