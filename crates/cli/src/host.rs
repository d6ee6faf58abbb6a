//! What the process uses, as jemalloc and the kernel tell it.
//!
//! The allocator's statistics are exact but cost some microseconds to bring up to date; its
//! counters of one thread cost nothing. So the statistics are read now and then, and in between
//! the executor's own allocations are added to them, and what it takes over from other threads.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::allocator;
use server::host::{CpuTimes, Host, MemoryUsage};
use tikv_jemalloc_ctl::thread::ThreadLocal;
use tikv_jemalloc_ctl::{epoch, stats, thread};

/// How old the statistics may be.
const REFRESH_EVERY: Duration = Duration::from_millis(50);

/// How much the executor may allocate before the statistics are read again.
const REFRESH_BYTES: u64 = 16 << 20;

/// The unit of the times in `/proc`, in seconds.
const CLOCK_TICK_S: f64 = 0.01;

/// The statistics are read again when so much is taken over at once.
const TAKEN_OVER_BYTES: u64 = 1 << 20;

/// What is allocated and does not count as used, by all threads that [`Host::count_apart`].
static APART_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What this thread has added to [`APART_BYTES`].
    static APART: Cell<u64> = const { Cell::new(0) };
}

fn set_apart(bytes: u64) {
    let before = APART.replace(bytes);
    APART_BYTES.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
}

/// See the file's top.
pub(crate) struct JemallocHost {
    startup_bytes: u64,
    system_bytes: u64,
    /// The statistics when they were read, the thread's counters then, and when that was.
    read: Cell<(u64, u64, Option<Instant>)>,
}

impl JemallocHost {
    /// Notes what is allocated before there is any data.
    pub(crate) fn new() -> Self {
        let host =
            Self { startup_bytes: 0, system_bytes: system_bytes(), read: Cell::new((0, 0, None)) };
        allocator::give_back_in_background();
        let startup_bytes = refreshed();
        Self { startup_bytes, ..host }
    }
}

/// The allocator's counters of one thread: bytes allocated, and freed.
struct Counters {
    allocated: ThreadLocal<u64>,
    freed: ThreadLocal<u64>,
}

impl Counters {
    /// Those of this thread. To look them up by name takes as long as some commands do.
    fn of_this_thread() -> Option<Self> {
        let allocated = thread::allocatedp::read().ok()?;
        Some(Self { allocated, freed: thread::deallocatedp::read().ok()? })
    }
}

thread_local! {
    static COUNTERS: Option<Counters> = Counters::of_this_thread();
}

/// Bytes that this thread has allocated, less those that it has freed; wraps around zero when it
/// frees what others have allocated.
fn thread_balance() -> u64 {
    COUNTERS.with(|counters| {
        let counters = counters.as_ref();
        counters.map_or(0, |it| it.allocated.get().wrapping_sub(it.freed.get()))
    })
}

/// The bytes that are allocated, exactly.
fn refreshed() -> u64 {
    // Without statistics nothing is known, which is the same as nothing being used.
    let _ignored = epoch::advance();
    stats::allocated::read().unwrap_or(0) as u64
}

impl Host for JemallocHost {
    fn used_bytes(&self) -> u64 {
        let (at_read, balance_at_read, when) = self.read.get();
        let balance = thread_balance();
        let since = balance.wrapping_sub(balance_at_read).cast_signed();
        let is_fresh = when.is_some_and(|when| when.elapsed() < REFRESH_EVERY);
        if is_fresh && since.unsigned_abs() < REFRESH_BYTES {
            return at_read.saturating_add_signed(since);
        }
        let used = refreshed().saturating_sub(APART_BYTES.load(Ordering::Relaxed));
        self.read.set((used, balance, Some(Instant::now())));
        used
    }

    fn count_apart(&self, given_bytes: u64) {
        let held = thread_balance().wrapping_sub(given_bytes).cast_signed();
        set_apart(u64::try_from(held).unwrap_or(0));
    }

    fn end_apart(&self) {
        set_apart(0);
    }

    fn note_taken_over(&self, bytes: u64) {
        let (at_read, balance, when) = self.read.get();
        // What is known may have it already: that matters where it is much.
        let when = when.filter(|_| bytes < TAKEN_OVER_BYTES);
        self.read.set((at_read.saturating_add(bytes), balance, when));
    }

    fn fork(
        &self,
        run: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(env_os::Child::begin(|pipe| run(pipe))?))
    }

    fn another(&self) -> Box<dyn Host> {
        Box::new(Self { read: Cell::default(), ..*self })
    }

    fn memory(&self) -> MemoryUsage {
        let allocated_bytes = refreshed();
        MemoryUsage {
            allocated_bytes,
            active_bytes: stats::active::read().unwrap_or(0) as u64,
            resident_bytes: stats::resident::read().unwrap_or(0) as u64,
            process_bytes: process_bytes(),
            startup_bytes: self.startup_bytes,
            system_bytes: self.system_bytes,
            allocator: "jemalloc-5.3.0",
        }
    }

    fn purge(&self) {
        allocator::give_back_now();
    }

    fn cpu(&self) -> CpuTimes {
        let (user_s, system_s) = times("/proc/self/stat");
        let (thread_user_s, thread_system_s) = times("/proc/thread-self/stat");
        CpuTimes { system_s, user_s, thread_system_s, thread_user_s }
    }
}

/// The machine's memory.
fn system_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    kibibytes.unwrap_or(0_u64) * 1024
}

/// The process's resident memory.
fn process_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    kibibytes.unwrap_or(0_u64) * 1024
}

/// User and system time of a process or thread.
fn times(path: &str) -> (f64, f64) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The second field, the name, may contain anything, but ends with the last parenthesis.
    let fields: Vec<&str> =
        text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) * CLOCK_TICK_S, ticks(12) * CLOCK_TICK_S)
}
