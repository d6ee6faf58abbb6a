//! Lets go of files that were kept and that nothing needs any more, a little at a time.
//!
//! Files of the window go in batches: each is a manifest, which flushers write too when a segment begins,
//! and a descriptor a file. Between two batches a compaction takes its turn. What a full device or one that
//! leaves has goes at once, and what was kept for a mark alone.
//!
//! ```text
//!   a device lacks room ─► as much as its disk is short of ─► it still does a while later: all that it has
//! ```
//!
//! Its disk may seem to have room: a quota, or a limit of files, is nothing that a file system tells. Then
//! half of all that is kept goes, and never is so much kept again.

use std::collections::{BTreeMap, BTreeSet};

use crate::compact::history::{self, Nameless};
use crate::compact::holds::Holds;
use crate::compact::reaper::Reaper;
use crate::compact::room::short_bytes;
use crate::compact::window::Moment;
use crate::shared::device::{DeviceState, Service, Shared};

/// How often files of the window are given up, and let go of if they are few.
const DROP_EVERY_US: u64 = 1_000_000;

/// So many files are a batch: each is open until its bytes are given back, and descriptors are kept back
/// for 32 files of the log (`descriptors` of the server).
const DROPPED_MAX: usize = 16;

/// How long it rests after a failure.
const RETRY_US: u64 = 100_000;

/// So much time has a full device, once something went, to find that it has room again.
const RECOVERY_US: u64 = 1_000_000;

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
    /// Devices that lack room, and when all goes that is kept on them.
    full: BTreeMap<usize, u64>,
    reaper: Reaper,
}

impl Dropper {
    /// Lets go of some files, or of some bytes; whether there was anything.
    pub(crate) fn step(&mut self, shared: &Shared, holds: &Holds) -> bool {
        if !self.nameless.is_empty() {
            if shared.devices.iter().any(|device| device.state() == DeviceState::Full) {
                // Whatever it lacks, room or descriptors, these have some.
                self.nameless.clear();
            } else {
                self.nameless.shrink();
            }
            if self.nameless.is_empty() {
                holds.end_drop();
            }
            return true;
        }
        let now = Moment::now(&*shared.clock);
        if self.reaper.step(shared, holds, now.us, &mut self.nameless) {
            return true;
        }
        if holds.count() == 0 {
            self.full.clear();
            if now.us >= self.trim_at_us {
                // It notes how large the log is, for what is kept later.
                self.trim(shared, holds, now, BTreeMap::new());
            }
            return false;
        }
        if now.us < self.again_at_us {
            return false;
        }
        let is_leaving = |service| service == Service::Leaving;
        let mut is_urgent = !holds.keeps_window();
        is_urgent |= shared.devices.iter().any(|device| is_leaving(device.service()));
        is_urgent |= self.look_at_full(shared, holds, now);
        if now.us >= self.trim_at_us {
            let short_bytes = short_bytes(shared);
            note_linked(shared, holds, |device| short_bytes.contains_key(&device));
            self.trim(shared, holds, now, short_bytes);
        }
        if !is_urgent && now.us < self.drop_at_us {
            return false;
        }
        let kept = holds.take_superfluous(DROPPED_MAX);
        if kept.is_empty() {
            return false;
        }
        // Of many the next ones follow when a compaction has had its turn.
        let are_all = kept.len() < DROPPED_MAX;
        self.drop_at_us = if are_all { now.us + DROP_EVERY_US } else { now.us };
        for kept in &kept {
            self.full.entry(kept.device).and_modify(|at_us| *at_us = now.us + RECOVERY_US);
        }
        if history::drop_kept(shared, holds, &kept, &mut self.nameless).is_err() {
            holds.keep_again(kept);
            self.again_at_us = now.us + RETRY_US;
        }
        if self.nameless.is_empty() {
            holds.end_drop();
        }
        true
    }

    /// Looks for devices that lack room, and gives up what is kept there; whether there are any.
    fn look_at_full(&mut self, shared: &Shared, holds: &Holds, now: Moment) -> bool {
        let devices = shared.devices.iter().enumerate();
        let lacking = devices.filter(|(index, device)| device.lacks_room() && holds.has_on(*index));
        let lacking: BTreeSet<usize> = lacking.map(|(index, _)| index).collect();
        self.full.retain(|index, _| lacking.contains(index));
        for &index in &lacking {
            match self.full.get(&index) {
                Some(at_us) if now.us < *at_us => continue,
                None if holds.has_window_on(index) => {
                    if !short_bytes(shared).contains_key(&index) {
                        holds.limit_window();
                    }
                    self.trim_at_us = now.us;
                }
                Some(_) | None => {
                    note_linked(shared, holds, |device| device == index);
                    holds.give_up(index, now);
                }
            }
            self.full.insert(index, now.us + RECOVERY_US);
        }
        !lacking.is_empty()
    }

    fn trim(
        &mut self,
        shared: &Shared,
        holds: &Holds,
        now: Moment,
        short_bytes: BTreeMap<usize, u64>,
    ) {
        self.trim_at_us = now.us + DROP_EVERY_US;
        // A point needs what the segments were that took the log, with what they have taken since.
        let open_bytes = (1 + shared.devices.iter().count() as u64) * shared.segment_bytes;
        holds.trim_window(now, short_bytes, open_bytes);
    }
}

/// Finds out which of the files on some devices another name keeps too.
fn note_linked(shared: &Shared, holds: &Holds, is_asked: impl Fn(usize) -> bool) {
    let paths = holds.paths_on(is_asked).into_iter();
    let linked = paths.filter(|path| shared.disk.has_other_names(path).unwrap_or(false));
    holds.note_linked(&linked.collect());
}
