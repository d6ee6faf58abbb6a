//! What the process uses of the machine: memory and processor time, for `maxmemory` and INFO.

use std::io::{self, Read, Write};

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUsage {
    /// What the program has asked the allocator for.
    pub allocated_bytes: u64,
    /// The pages in which that lies.
    pub active_bytes: u64,
    /// The pages that the allocator holds in memory.
    pub resident_bytes: u64,
    /// The process as a whole.
    pub process_bytes: u64,
    /// What was allocated before there was any data.
    pub startup_bytes: u64,
    /// The machine.
    pub system_bytes: u64,
    /// The allocator's name and version.
    pub allocator: &'static str,
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// In the kernel, all threads.
    pub system_s: f64,
    /// Outside of it, all threads.
    pub user_s: f64,
    /// In the kernel, this thread.
    pub thread_system_s: f64,
    /// Outside of it, this thread.
    pub thread_user_s: f64,
}

/// See the file's top.
pub trait Host: Send {
    /// What counts towards `maxmemory`, in bytes; cheap enough to ask before every command.
    fn used_bytes(&self) -> u64;

    /// So many bytes that other threads have allocated are the data's from now on: how much is used by all
    /// threads may be known late.
    fn note_taken_over(&self, _bytes: u64) {}

    /// What this thread has allocated and not freed, but for `given_bytes` of it, does not count as used: it is work
    /// next to the data, bounded by itself. Called again and again.
    fn count_apart(&self, _given_bytes: u64) {}

    /// Ends [`Host::count_apart`] for this thread.
    fn end_apart(&self) {}

    /// Begins a process that has all memory as of now, does `run` with a pipe, and ends. Reading gives what it sends,
    /// or `WouldBlock` now and then; dropping it ends the process.
    ///
    /// # Errors
    /// When the system refuses, or has no such thing.
    fn fork(
        &self,
        _run: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Box<dyn Read + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same host, for another thread.
    fn another(&self) -> Box<dyn Host>;

    /// All figures.
    fn memory(&self) -> MemoryUsage;

    /// Gives unused pages back to the system.
    fn purge(&self);

    /// The time spent so far.
    fn cpu(&self) -> CpuTimes;
}

/// A host that uses nothing, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn used_bytes(&self) -> u64 {
        0
    }

    fn another(&self) -> Box<dyn Host> {
        Box::new(Self)
    }

    fn memory(&self) -> MemoryUsage {
        MemoryUsage { allocator: "none", ..MemoryUsage::default() }
    }

    fn purge(&self) {}

    fn cpu(&self) -> CpuTimes {
        CpuTimes::default()
    }
}

/// A host that uses as much memory as a test says, each time that it is asked.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct TestHost(std::sync::Arc<dyn Fn() -> u64 + Send + Sync>);

#[cfg(test)]
impl TestHost {
    pub(crate) fn new(used_bytes: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(used_bytes))
    }
}

#[cfg(test)]
impl Host for TestHost {
    fn used_bytes(&self) -> u64 {
        (self.0)()
    }

    fn another(&self) -> Box<dyn Host> {
        Box::new(self.clone())
    }

    fn memory(&self) -> MemoryUsage {
        MemoryUsage::default()
    }

    fn purge(&self) {}

    fn cpu(&self) -> CpuTimes {
        CpuTimes::default()
    }
}
