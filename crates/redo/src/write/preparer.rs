//! Writes zeros ahead of the log: for each device a file that its next segment is written over.
//!
//! ```text
//!   create ─► allocate ─► slice ─► sync ─► slice ─► sync ─► … ─► ready (`shared/spare.rs`)
//!                           └ a pause after each: commits go to the same device
//! ```
//!
//! A sync of a file that grows must write its metadata too: its length, and where its new bytes are.
//! That is several writes of the device. Over zeros that are durable it is one.
//!
//! - Under `always` only: with a sync a second it does not matter.
//! - Only on a device that has written some blocks since the start, whose file system writes in place,
//!   and where there is room for much more than that.
//! - Whatever fails here is no failure of the log: segments grow then, as ever.
//! - A device that has failed is left alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use env::{File, leave_room};

use crate::error::{IoContext, Result};
use crate::format::segment;
use crate::shared::device::{Device, DeviceState, Service, Shared};
use crate::shared::spare::Zeros;
use crate::shared::step::Step;
use crate::write::log::Log;
use crate::write::segment_writer::PAGE_BYTES;

/// How many zeros are written and synced at once. 2 MiB are some milliseconds of a device, and four to sixteen of its
/// writes.
const SLICE_BYTES: u64 = 2 << 20;

/// The pause between two slices.
const SLICE_EVERY_US: u64 = 20_000;

/// How often it is looked whether a spare file takes room that is needed.
const LOOK_EVERY_US: u64 = 1_000_000;

/// How long nothing is prepared after it has failed.
const REST_US: u64 = 10_000_000;

/// How long nothing is prepared on a disk that was full: a quota cannot be seen, and it was zeros that had met it, perhaps.
pub(super) const REST_FULL_US: u64 = 600_000_000;

/// A segment ends past its size: so much of it is added, as one part in so many.
const BEYOND_SHARE: u64 = 8;

/// See the file's top. It is a step machine, and made by [`crate::Log::preparer`].
pub struct Preparer {
    shared: Arc<Shared>,
    work: Option<Work>,
    zeros: Vec<u8>,
    next_at_us: u64,
    look_at_us: u64,
}

/// A file that is being filled.
struct Work {
    device: usize,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    /// How far it is filled.
    at: u64,
}

impl Log {
    /// What writes zeros ahead for segments, if [`crate::Options::zeros_blocks_min`] says so; for a thread.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        Preparer::new(self.shared.clone())
    }

    /// Has zeros written ahead, or not any more; only if the options say from when on.
    pub fn set_writes_zeros(&mut self, writes: bool) {
        self.shared.devices.zeros.set_enabled(writes);
    }
}

impl Preparer {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, work: None, zeros: Vec::new(), next_at_us: 0, look_at_us: 0 }
    }

    /// Waits until there may be something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let now_us = self.shared.clock.monotonic_us();
        let pause = match self.work {
            Some(_) => Duration::from_micros(self.next_at_us.saturating_sub(now_us)),
            None => timeout,
        };
        self.shared.devices.zeros.wait(pause.min(timeout));
    }

    /// Does some of what there is to do: at most a slice is written.
    pub fn step(&mut self) -> Step {
        if self.shared.devices.zeros.is_ending() {
            self.work = None;
            self.shared.devices.iter().for_each(|device| self.give_up(device));
            return Step::Finished;
        }
        let now_us = self.shared.clock.monotonic_us();
        if now_us >= self.look_at_us {
            self.look_at_us = now_us + LOOK_EVERY_US;
            self.give_up_superfluous();
        }
        if now_us < self.next_at_us {
            return Step::Idle;
        }
        let worked = match self.work.take() {
            Some(work) => self.go_on(work, now_us),
            None => match self.device_in_want(now_us) {
                Some(index) => self.begin(index),
                None => return Step::Idle,
            },
        };
        if worked.is_err() {
            self.next_at_us = now_us + REST_US;
        }
        Step::Worked
    }

    /// The next device that should have a spare file and has none.
    fn device_in_want(&self, now_us: u64) -> Option<usize> {
        self.shared.devices.iter().position(|device| {
            self.is_served(device)
                && device.spare.is_wanting(now_us)
                && self.shared.disk.overwrites_in_place(&device.path)
                && self.has_room(device, self.file_bytes(), 2)
        })
    }

    /// Whether zeros are of use to the device.
    fn is_served(&self, device: &Device) -> bool {
        let blocks = device.written_blocks.load(Ordering::Relaxed);
        self.shared.devices.zeros.wants(blocks)
            && self.shared.durability.is_sync_always()
            && device.service() == Service::InUse
            && device.state() == DeviceState::Healthy
    }

    /// Whether the device has room for so many bytes, and so many segments and reserves beyond that.
    fn has_room(&self, device: &Device, bytes: u64, times: u64) -> bool {
        let kept = (self.shared.segment_bytes + self.shared.reserve_bytes).saturating_mul(times);
        leave_room(&*self.shared.disk, &device.path, bytes, kept).is_ok()
    }

    /// How long the file for a segment is that begins now.
    fn file_bytes(&self) -> u64 {
        let roll_bytes = self.shared.roll_bytes.load(Ordering::Relaxed);
        (roll_bytes + roll_bytes / BEYOND_SHARE).next_multiple_of(PAGE_BYTES)
    }

    fn begin(&mut self, index: usize) -> Result<()> {
        let (disk, device) = (&*self.shared.disk, &self.shared.devices[index]);
        let path = segment::spare_path(&device.path);
        // Of an attempt that has failed.
        if disk.exists(&path).at(&path, "look for")? {
            disk.remove(&path).at(&path, "remove")?;
        }
        let file: Arc<dyn File> = Arc::from(disk.create(&path).at(&path, "create")?);
        let bytes = self.file_bytes();
        device.spare.begin(&file);
        if let Err(error) = file.allocate(0, bytes).at(&path, "reserve space for") {
            device.spare.give_up(disk, &device.path);
            return Err(error);
        }
        self.work = Some(Work { device: index, path, file, bytes, at: 0 });
        Ok(())
    }

    fn go_on(&mut self, mut work: Work, now_us: u64) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let device = &shared.devices[work.device];
        if !device.spare.is_begun(&work.file) {
            return Ok(());
        }
        let left = work.bytes - work.at;
        // What was allocated is not counted as room any more.
        if !self.is_served(device) || !self.has_room(device, 0, 1) {
            self.give_up(device);
            return Ok(());
        }
        let len = SLICE_BYTES.min(left);
        self.zeros.resize(usize::try_from(SLICE_BYTES).expect("a few megabytes"), 0);
        let slice = &self.zeros[..usize::try_from(len).expect("a slice at most")];
        let written = write_zeros(&*work.file, slice, work.at).at(&work.path, "write zeros to");
        if let Err(error) = written {
            self.give_up(device);
            return Err(error);
        }
        work.at += len;
        self.next_at_us = now_us + SLICE_EVERY_US;
        if work.at < work.bytes {
            self.work = Some(work);
            return Ok(());
        }
        self.zeros = Vec::new();
        let Work { path, file, bytes, .. } = work;
        device.spare.finish(Zeros { path, file, bytes });
        Ok(())
    }

    /// Gives up spare files of which no use is made any more, or whose room is needed.
    fn give_up_superfluous(&self) {
        for device in self.shared.devices.iter() {
            let Some(bytes) = device.spare.ready_bytes() else { continue };
            // Or segments have become much longer meanwhile.
            let is_kept = bytes >= self.file_bytes() / 2
                && self.is_served(device)
                && self.has_room(device, 0, 1);
            if !is_kept {
                self.give_up(device);
            }
        }
    }

    /// Removes the spare file; of a device that has failed, nothing is touched.
    fn give_up(&self, device: &Device) {
        match device.state() {
            DeviceState::Poisoned => device.spare.forget(),
            _ => _ = device.spare.give_up(&*self.shared.disk, &device.path),
        }
    }
}

/// Writes zeros, durably, and leaves the page cache to others.
fn write_zeros(file: &dyn File, zeros: &[u8], at: u64) -> std::io::Result<()> {
    file.write_all_at(zeros, at)?;
    file.sync_data()?;
    file.drop_cache(at, zeros.len() as u64);
    Ok(())
}
