//! The kernel's counters of this process and of the disk with its data.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel counts the CPU time of a process in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of a sector in the statistics of a disk.
const SECTOR_BYTES: u64 = 512;

/// Counts since the process, or the machine, started; or between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub(crate) struct ProcessCount {
    /// CPU time in user mode.
    pub(crate) user_seconds: f64,
    /// CPU time in the kernel.
    pub(crate) system_seconds: f64,
    /// Bytes requested by reads, from the page cache or a device.
    pub(crate) read_bytes: u64,
    /// Bytes passed to writes.
    pub(crate) written_bytes: u64,
    /// Calls that read.
    pub(crate) reads: u64,
    /// Calls that wrote.
    pub(crate) writes: u64,
    /// Bytes read by the disk, for all processes.
    pub(crate) disk_read_bytes: u64,
    /// Bytes written by the disk, for all processes.
    pub(crate) disk_written_bytes: u64,
}

impl ProcessCount {
    /// Reads the current counts, with the disk that holds `dir`; zeros where the kernel has none.
    pub(crate) fn now(dir: &Path) -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
        };
        let (user_seconds, system_seconds) = cpu_seconds();
        let (disk_read_bytes, disk_written_bytes) = disk_bytes(dir);
        Self {
            user_seconds,
            system_seconds,
            read_bytes: of("rchar"),
            written_bytes: of("wchar"),
            reads: of("syscr"),
            writes: of("syscw"),
            disk_read_bytes,
            disk_written_bytes,
        }
    }

    /// Returns the difference from `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            disk_read_bytes: self.disk_read_bytes - before.disk_read_bytes,
            disk_written_bytes: self.disk_written_bytes - before.disk_written_bytes,
        }
    }
}

fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may contain spaces.
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let mut times = behind_name
        .split_whitespace()
        .skip(11)
        .map(|field| field.parse::<f64>().unwrap_or_default() / TICKS_PER_SECOND);
    (times.next().unwrap_or_default(), times.next().unwrap_or_default())
}

/// Returns the bytes read and written by the disk that holds `dir`.
fn disk_bytes(dir: &Path) -> (u64, u64) {
    let device = std::fs::metadata(dir).map(|metadata| metadata.dev()).unwrap_or_default();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    let path = format!("/sys/dev/block/{major}:{minor}/stat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let sectors: Vec<u64> =
        text.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    let of = |index: usize| sectors.get(index).copied().unwrap_or_default() * SECTOR_BYTES;
    (of(2), of(6))
}

impl fmt::Display for ProcessCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CPU {:.1} s + {:.1} s in the kernel; {} reads of {} MB, {} writes of {} MB; disk: \
             {} MB read, {} MB written",
            self.user_seconds,
            self.system_seconds,
            self.reads,
            self.read_bytes >> 20,
            self.writes,
            self.written_bytes >> 20,
            self.disk_read_bytes >> 20,
            self.disk_written_bytes >> 20
        )
    }
}
