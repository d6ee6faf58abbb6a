//! How much a run has done since its host was asked last.
//!
//! ```text
//!   instructions, times what one may cost ──┐
//!   coroutines made and resumed ────────────┤
//!   steps of functions of ours ─────────────┼──► work ── the limit? ──► Host::interrupt, and from nothing again
//!   bytes allocated, read, searched for     │
//!     garbage ──────────────────────────────┘
//! ```
//!
//! The unit is an instruction of Lua, some five nanoseconds. All threads of Lua and all functions of a run share one
//! meter, so nothing that is begun anew begins to count anew.
//!
//! One instruction may compare, search or hash as many bytes as there are in memory. So the more memory is in use, the
//! more an instruction counts: [`Meter::weight`].
//!
//! While a library is loaded only instructions and steps count, which are the same at every start.

use std::cell::Cell;
use std::ffi::c_int;

/// So many instructions a thread of Lua executes at most before its hook counts them.
pub(crate) const HOOK_INSTRUCTIONS_MAX: usize = 1000;

/// What it counts to resume a coroutine.
pub(crate) const RESUME: usize = 50;

/// What a step of a function counts: [`crate::frame::Frame::pulse`].
pub(crate) const STEP: usize = 2;

/// What a table that is written as a reply counts.
pub(crate) const TABLE: usize = 64;

/// So many bytes are allocated, or searched for garbage, within the time of an instruction.
const ALLOCATED_BYTES: usize = 16;

/// So many are read.
const READ_BYTES: usize = 64;

/// Texts that are shorter are not counted.
const SHORT_BYTES: usize = 4096;

/// With so many bytes in use an instruction counts twice, with twice as many three times.
const WEIGHT_BYTES: usize = 256 << 10;

/// The host is not asked after fewer instructions because of that.
const WEIGHED_INSTRUCTIONS_MIN: usize = 64;

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    work: Cell<usize>,
    /// The host is asked at so much work. Zero once it has said stop: then everything is due.
    limit: Cell<usize>,
    /// A library is being loaded.
    is_loading: Cell<bool>,
}

impl Meter {
    /// A run begins, whose host is asked after each `limit` of work.
    pub(crate) fn begin(&self, limit: usize, is_loading: bool) {
        self.work.set(0);
        self.limit.set(limit.max(1));
        self.is_loading.set(is_loading);
    }

    /// The host is being asked.
    pub(crate) fn restart(&self) {
        self.work.set(0);
    }

    /// The host has said stop.
    pub(crate) fn stop(&self) {
        self.limit.set(0);
    }

    /// Whether the host is to be asked.
    pub(crate) fn is_due(&self) -> bool {
        self.work.get() >= self.limit.get()
    }

    /// Adds steps. Whether the host is to be asked.
    pub(crate) fn add(&self, work: usize) -> bool {
        self.work.set(self.work.get().saturating_add(work));
        self.is_due()
    }

    /// Adds instructions, of which each may have met so many bytes. Whether the host is to be asked.
    pub(crate) fn add_instructions(&self, count: c_int, used_bytes: usize) -> bool {
        let count = usize::try_from(count).unwrap_or(1);
        self.add(count.saturating_mul(self.weight(used_bytes)))
    }

    /// Adds what was allocated, or searched for garbage. Whether the host is to be asked now and was not before.
    pub(crate) fn add_allocated(&self, bytes: usize) -> bool {
        self.add_uncounted(bytes / ALLOCATED_BYTES)
    }

    /// Adds the reading of a text. Whether the host is to be asked now and was not before.
    pub(crate) fn add_read(&self, bytes: usize) -> bool {
        bytes >= SHORT_BYTES && self.add_uncounted(bytes / READ_BYTES)
    }

    /// Adds what a new coroutine can execute before its own hook counts. Whether the host is to be asked now and was not
    /// before.
    pub(crate) fn add_coroutine(&self, used_bytes: usize) -> bool {
        let count = usize::try_from(self.hook_instructions(used_bytes)).unwrap_or(1);
        self.add_uncounted(count.saturating_mul(self.weight(used_bytes)))
    }

    /// Adds what loading does not count. Whether the host is to be asked now and was not before.
    pub(crate) fn add_uncounted(&self, work: usize) -> bool {
        !self.is_loading.get() && !self.is_due() && self.add(work)
    }

    /// After how many instructions a hook is to come.
    pub(crate) fn hook_instructions(&self, used_bytes: usize) -> c_int {
        let count = self.limit.get().div_ceil(self.weight(used_bytes));
        c_int::try_from(count.clamp(1, HOOK_INSTRUCTIONS_MAX)).unwrap_or(1)
    }

    /// How often an instruction counts.
    fn weight(&self, used_bytes: usize) -> usize {
        if self.is_loading.get() {
            return 1;
        }
        let max = self.limit.get().div_ceil(WEIGHED_INSTRUCTIONS_MIN).max(1);
        (1 + used_bytes / WEIGHT_BYTES).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_counts_more_the_more_memory_is_in_use() {
        let meter = Meter::default();
        meter.begin(100_000, false);
        assert_eq!(meter.hook_instructions(100 << 10), 1000);
        assert_eq!(meter.hook_instructions(999 << 20), 64);
        assert!(!meter.add_instructions(63, 999 << 20) && meter.add_instructions(1, 999 << 20));
        assert_eq!(meter.hook_instructions(63 << 20), 396);
        meter.begin(100, true);
        assert_eq!(meter.hook_instructions(999 << 20), 100);
    }

    #[test]
    fn what_depends_on_memory_does_not_count_while_a_library_is_loaded() {
        let meter = Meter::default();
        meter.begin(100, true);
        assert!(!meter.add_allocated(1 << 30) && !meter.add_read(1 << 30) && !meter.is_due());
        meter.begin(100, false);
        assert!(meter.add_allocated(1 << 30) && meter.is_due());
        assert!(!meter.add_read(1 << 30), "it was due before");
    }
}
