//! What the kernel has counted for this process.

/// Bytes and calls of this process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct IoCount {
    /// Bytes asked for by reads, from the page cache or a device.
    pub(crate) read_bytes: u64,
    /// Bytes handed over by writes.
    pub(crate) written_bytes: u64,
    /// Calls that read.
    pub(crate) reads: u64,
    /// Calls that wrote.
    pub(crate) writes: u64,
    /// Bytes that came from a device.
    pub(crate) device_read_bytes: u64,
    /// Bytes that went, or will go, to a device.
    pub(crate) device_written_bytes: u64,
}

impl IoCount {
    /// As it stands now; nothing where the kernel does not tell.
    pub(crate) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
        };
        Self {
            read_bytes: of("rchar"),
            written_bytes: of("wchar"),
            reads: of("syscr"),
            writes: of("syscw"),
            device_read_bytes: of("read_bytes"),
            device_written_bytes: of("write_bytes"),
        }
    }

    /// What was counted after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            device_read_bytes: self.device_read_bytes - before.device_read_bytes,
            device_written_bytes: self.device_written_bytes - before.device_written_bytes,
        }
    }
}
