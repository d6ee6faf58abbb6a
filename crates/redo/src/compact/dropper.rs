//! Lets go of files that were kept and that nothing needs any more, a little at a time.
//!
//! Files of the window go in batches: each is a manifest, which flushers write too when a segment begins,
//! and a descriptor a file. Between two batches a compaction takes its turn. What a full device or one that
//! leaves has goes at once, and what was kept for a mark alone.

use crate::compact::history::{self, Nameless};
use crate::compact::holds::Holds;
use crate::compact::reaper::Reaper;
use crate::compact::room::short_bytes;
use crate::compact::window::Moment;
use crate::shared::device::{DeviceState, Service, Shared};

/// How often files of the window are given up, and let go of.
const DROP_EVERY_US: u64 = 1_000_000;

/// So many files are a batch.
const DROPPED_MAX: usize = 256;

/// How long it rests after a failure.
const RETRY_US: u64 = 100_000;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Dropper {
    /// Files without a name, to be given back.
    nameless: Nameless,
    /// It has failed: when it is tried again.
    again_at_us: u64,
    /// When the window is looked at next.
    trim_at_us: u64,
    /// When files are let go of next that can wait.
    drop_at_us: u64,
    reaper: Reaper,
}

impl Dropper {
    /// Lets go of some files, or of some bytes; whether there was anything.
    pub(crate) fn step(&mut self, shared: &Shared, holds: &Holds) -> bool {
        if !self.nameless.is_empty() {
            self.nameless.shrink();
            if self.nameless.is_empty() {
                holds.end_drop();
            }
            return true;
        }
        let now = Moment::now(&*shared.clock);
        if self.reaper.step(shared, holds, now.us, &mut self.nameless) {
            return true;
        }
        if holds.count() == 0 || now.us < self.again_at_us {
            return false;
        }
        let mut is_urgent = !holds.keeps_window();
        for (index, device) in shared.devices.iter().enumerate() {
            is_urgent |= device.service() == Service::Leaving;
            if device.state() == DeviceState::Full && holds.has_on(index) {
                is_urgent = true;
                holds.give_up(index, now);
            }
        }
        if now.us >= self.trim_at_us {
            self.trim_at_us = now.us + DROP_EVERY_US;
            holds.trim_window(now, short_bytes(shared));
        }
        if !is_urgent && now.us < self.drop_at_us {
            return false;
        }
        let kept = holds.take_superfluous(DROPPED_MAX);
        if kept.is_empty() {
            return false;
        }
        self.drop_at_us = now.us + DROP_EVERY_US;
        if history::drop_kept(shared, holds, &kept, &mut self.nameless).is_err() {
            holds.keep_again(kept);
            self.again_at_us = now.us + RETRY_US;
        }
        if self.nameless.is_empty() {
            holds.end_drop();
        }
        true
    }
}
