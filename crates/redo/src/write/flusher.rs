//! The flusher of one device: takes sealed blocks, writes them in as few writes as it can, syncs.
//!
//! ```text
//!   inbox ──► todo ──► written, unsynced ──► synced: buffers go back to the executor
//!              │              │
//!              │ no room      │ write or sync failed
//!              ▼              ▼
//!        Full: tried again   Poisoned: every block that is not synced goes to the successor
//! ```
//!
//! It is a step machine: its owner calls [`Flusher::step`], on a thread of its own or from a
//! simulator. While one step waits for a sync the inbox fills, and the next step writes all of it
//! and syncs once: group commit without a timer.
//!
//! **A failed write or sync is final for the device.** What the kernel says afterwards about the
//! same bytes means nothing, so they are written again elsewhere, from memory, under their old
//! addresses (a further part of the segment), or the log becomes read-only. The one exception is a
//! full disk, which is an answer and no failure: the same bytes are tried at the same place again. But
//! when they still find no room with the reserve given up, and another device has enough, they go
//! there, and the full device is given up like a failed one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Lsn, SegmentId};

use crate::compact::backups;
use crate::compact::holds::Holds;
use crate::error::{Error, Result, is_full, is_missing, lacks_descriptor};
use crate::format::segment::{SEGMENT_VERSION, SegmentHeader};
use crate::shared::device::Part;
use crate::shared::device::{Bell, Device, DeviceState, Order, Sealed, Shared};
use crate::shared::sealed_block::SealedBlock;
use crate::shared::spare;
use crate::shared::step::Step;
use crate::write::devices;
use crate::write::group::{GROUP_BYTES, Group};
use crate::write::pending_sync::{PendingSync, Turn};
use crate::write::preparer::REST_FULL_US;
use crate::write::reserve;
use crate::write::segment_writer::{Overwrite, SegmentWriter};
use crate::write::unsynced::{self, Unsynced, Written};

/// How long a full device rests between two attempts.
const FULL_RETRY_US: u64 = 100_000;

/// How long the reserve is lent to what makes room on a full disk: a compaction that lacked some rests for five seconds first.
const LENT_US: u64 = 30_000_000;

/// How often the manifest is written for notes, also when it could not be. What commits next waits for it on the same disk,
/// and until then a start finds notes in the log.
const LIST_EVERY_US: u64 = 1_000_000;

/// How far segment numbers are claimed in the manifest at a time.
const SEGMENT_CLAIM: u32 = 32;

/// What the sync is for that is under way.
#[derive(Clone, Copy)]
enum Syncing {
    Nothing,
    /// What was written when it began.
    Written(Written),
    /// Blocks at the front, which it writes.
    Overwritten(Group),
}

/// Writes and syncs the blocks of one device.
pub struct Flusher {
    shared: Arc<Shared>,
    holds: Arc<Holds>,
    index: usize,
    writer: Option<SegmentWriter>,
    /// Segments of poisoned devices whose blocks have come here.
    parts: Vec<SegmentWriter>,
    todo: VecDeque<Order>,
    unsynced: Unsynced,
    scratch: Vec<u8>,
    has_reserve: bool,
    /// It is not taken back before this, unless there is room for a segment, too.
    lent_until_us: u64,
    retry_at_us: u64,
    list_at_us: u64,
    /// What a write in [`Flusher::write_now`] said: the next step acts on it.
    failed: Option<Error>,
    /// The write over zeros that the turn ends with, and of which blocks at the front.
    overwrite: Option<(Overwrite, Group)>,
    syncing: Syncing,
    is_finished: bool,
}

impl Flusher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        holds: Arc<Holds>,
        index: usize,
        has_reserve: bool,
    ) -> Self {
        Self {
            shared,
            holds,
            index,
            writer: None,
            parts: Vec::new(),
            todo: VecDeque::new(),
            unsynced: Unsynced::default(),
            scratch: Vec::new(),
            has_reserve,
            lent_until_us: 0,
            retry_at_us: 0,
            list_at_us: 0,
            failed: None,
            overwrite: None,
            syncing: Syncing::Nothing,
            is_finished: false,
        }
    }

    /// Which of the log's devices it serves.
    #[must_use]
    pub const fn device_index(&self) -> usize {
        self.index
    }

    /// Writes what waits, if that is no more than handing bytes to the system: nothing is synced,
    /// created or sealed. For the executor, whose replies wait for it (see `durability`); a write to
    /// the page cache costs less than waking the flusher's thread and being woken by it. Whatever
    /// else is to be done, an error too, is left to [`Flusher::step`]: `false` says that it is due.
    pub fn write_now(&mut self) -> bool {
        if self.is_finished || self.failed.is_some() {
            return false;
        }
        if self.device().state() != DeviceState::Healthy {
            return false;
        }
        match self.syncing {
            // A device that syncs more slowly than it is written to is waited for.
            Syncing::Written(written) if self.unsynced.has_much_beyond(written) => return false,
            // The same page of the same file is on its way past the cache.
            Syncing::Overwritten(_) => return false,
            Syncing::Nothing | Syncing::Written(_) => {}
        }
        let shared = self.shared.clone();
        self.todo.append(&mut shared.devices[self.index].inbox().orders);
        while let Some(order) = self.todo.front() {
            let is_next = |block: &SealedBlock| {
                let writer = self.writer.as_ref().filter(|writer| writer.is_listed);
                block.home == self.index
                    && block.buffer.len() <= GROUP_BYTES
                    && writer.is_some_and(|writer| writer.segment == block.segment)
            };
            match order {
                Order::Block(block) if is_next(block) => {}
                Order::Block(_) | Order::Seal => return false,
            }
            let first = self.unsynced.lsns.len();
            if let Err(error) = self.write_group() {
                self.failed = Some(error);
                return false;
            }
            // The executor looks when this returns: it need not be woken.
            let lsns = self.unsynced.lsns[first..].iter().copied();
            let _must_wake = shared.durability.mark_written(lsns);
        }
        matches!(self.syncing, Syncing::Written(_)) || !self.wants_sync()
    }

    /// The directory that this flusher writes to.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.device().path
    }

    /// Waits for its work without it, so that it can be shared meanwhile.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell::new(Arc::clone(&self.shared), self.index)
    }

    /// Does some of what there is to do.
    pub fn step(&mut self) -> Step {
        match self.turn() {
            Turn::Step(step) => step,
            Turn::Sync(sync) => {
                let result = sync.run();
                self.synced(&sync, result);
                Step::Worked
            }
        }
    }

    /// [`Flusher::step`], but a sync of what was written is left to the caller, so that
    /// [`Flusher::write_now`] can go on meanwhile. No other turn is taken before it has run.
    pub fn turn(&mut self) -> Turn {
        assert!(matches!(self.syncing, Syncing::Nothing), "one sync at a time");
        // What does not return is seen by others.
        self.note_busy_since(self.shared.clock.monotonic_us());
        let step = self.act();
        let (written, now_us) = (self.unsynced.written(), self.shared.clock.monotonic_us());
        if let Some((overwrite, group)) = self.overwrite.take() {
            self.syncing = Syncing::Overwritten(group);
            return Turn::Sync(PendingSync::of_overwrite(overwrite, written, now_us));
        }
        if step == Step::Worked && self.defers_sync() {
            self.syncing = Syncing::Written(written);
            let writers = self.writer.iter_mut().chain(&mut self.parts);
            return Turn::Sync(PendingSync::begin(writers, written, now_us));
        }
        self.note_busy_since(0);
        Turn::Step(step)
    }

    /// A sync that [`Flusher::turn`] has begun is over.
    pub fn synced(&mut self, sync: &PendingSync, result: Result<()>) {
        if result.is_ok() {
            self.note_time(sync);
        }
        match (std::mem::replace(&mut self.syncing, Syncing::Nothing), result) {
            (Syncing::Overwritten(group), Ok(())) => self.note_overwritten(group),
            (Syncing::Overwritten(_), Err(error)) if is_full(&error) => {
                // A file system that puts written blocks elsewhere after all. None of them counts as
                // written: the next step acts on it as on any write, and writes all of them again.
                self.writer.iter_mut().for_each(SegmentWriter::grow);
                self.failed = Some(error);
            }
            (_, Ok(())) => self.note_synced(sync),
            (_, Err(error)) => self.poison(&error.to_string(), None),
        }
        self.note_busy_since(0);
    }

    /// Notes since when it has been doing what it does; 0 for nothing.
    fn note_busy_since(&self, monotonic_us: u64) {
        self.device().busy_since_us.store(monotonic_us, Ordering::Relaxed);
    }

    /// The blocks at the front are written over zeros, and durable.
    fn note_overwritten(&mut self, group: Group) {
        self.note_written(group);
        unsynced::tell_written(&self.shared, &self.unsynced.lsns);
        let writers = self.writer.iter_mut().chain(&mut self.parts);
        let now_us = self.shared.clock.monotonic_us();
        let done = PendingSync::begin(writers, self.unsynced.written(), now_us);
        self.note_synced(&done);
    }

    /// Whether a sync is due and nothing else: then it need not be waited for.
    fn defers_sync(&self) -> bool {
        self.device().state() == DeviceState::Healthy && !self.is_finished && self.wants_sync()
    }

    fn act(&mut self) -> Step {
        let shared = self.shared.clone();
        let device = &shared.devices[self.index];
        if self.is_finished {
            return Step::Finished;
        }
        let is_ending = {
            let mut inbox = device.inbox();
            self.todo.append(&mut inbox.orders);
            inbox.is_ending
        };
        let (state, now_us) = (device.state(), shared.clock.monotonic_us());
        let is_due = now_us >= self.retry_at_us;
        if state == DeviceState::Poisoned {
            self.is_finished = is_ending;
            return if is_ending { Step::Finished } else { Step::Idle };
        }
        self.list_backups();
        if state == DeviceState::Full {
            // What was accepted all the same is written as it comes, as long as it finds room.
            if !is_due && (device.is_stuck() || self.todo.is_empty()) {
                return Step::Idle;
            }
            if is_due {
                self.retry_at_us = now_us + FULL_RETRY_US;
            }
        } else if self.todo.is_empty() && !self.wants_sync() && !is_ending && self.failed.is_none()
        {
            return Step::Idle;
        }
        let worked = match self.failed.take() {
            Some(error) => Err(error),
            None => self.work(is_ending),
        };
        match worked {
            Ok(()) if state == DeviceState::Full && is_due && !self.is_finished => {
                self.try_to_recover_from_full();
            }
            Ok(()) => {}
            Err(error) if is_full(&error) => {
                return self.become_full(&error, is_ending);
            }
            Err(error) => self.poison(&error.to_string(), None),
        }
        Step::Worked
    }

    /// Writes the manifest if it lacks what durable blocks say of backups: whichever flusher comes first.
    fn list_backups(&mut self) {
        let durable = self.shared.durability.durable_lsn();
        let now_us = self.shared.clock.monotonic_us();
        if !self.holds.has_unlisted(durable) || now_us < self.list_at_us {
            return;
        }
        self.list_at_us = now_us + LIST_EVERY_US;
        if let Err(error) = backups::list(&self.shared, &self.holds, durable) {
            self.device().set_last_error(error.to_string());
        }
    }

    fn device(&self) -> &Device {
        &self.shared.devices[self.index]
    }

    fn work(&mut self, is_ending: bool) -> Result<()> {
        while let Some(order) = self.todo.front() {
            match order {
                Order::Seal => {
                    self.seal_writer()?;
                    self.todo.pop_front();
                }
                Order::Block(block) if block.home == self.index => {
                    let segment = block.segment;
                    if self.writer.as_ref().is_none_or(|writer| writer.segment != segment) {
                        self.seal_writer()?;
                        self.writer = Some(self.create_segment(segment, 0)?);
                    }
                    if let Some(writer) = &mut self.writer {
                        writer.list(&self.shared)?;
                    }
                    self.overwrite = self.overwrite_group();
                    if self.overwrite.is_some() {
                        return Ok(());
                    }
                    let first = self.unsynced.lsns.len();
                    self.write_group()?;
                    unsynced::tell_written(&self.shared, &self.unsynced.lsns[first..]);
                }
                Order::Block(_) => self.write_foreign()?,
            }
        }
        // Otherwise a sync that is due is the turn's, which does not make the executor wait for it.
        let is_healthy = self.device().state() == DeviceState::Healthy;
        if (!is_healthy && self.wants_sync()) || (is_ending && !self.unsynced.lsns.is_empty()) {
            self.sync()?;
        }
        if is_ending {
            self.seal_writer()?;
            self.seal_parts()?;
            // So that the next start misses the last blocks, or a footer, should they be gone.
            let durable_lsn = self.shared.durability.durable_lsn();
            self.shared.manifest.update(|manifest| {
                manifest.durable_lsn = manifest.durable_lsn.max(durable_lsn);
                true
            })?;
            if self.close_inbox() {
                self.persist_durable_lsn();
                devices::leave(&self.shared, self.device())?;
                self.is_finished = true;
            }
        }
        Ok(())
    }

    /// Says that this device takes nothing more; not if a device that has failed meanwhile has
    /// left its blocks here.
    fn close_inbox(&self) -> bool {
        let _none_fails_now = self.shared.reroute.lock();
        let mut inbox = self.device().inbox();
        inbox.is_closed = inbox.orders.is_empty();
        inbox.is_closed
    }

    /// Writes down how far the log is durable, the last device for all: that a later start finds
    /// the end of the log cut off, and does not take it for a torn one, if it should ever be.
    fn persist_durable_lsn(&self) {
        let durable_lsn = self.shared.durability.durable_lsn();
        let noted = self.shared.manifest.update(|manifest| {
            let is_news =
                durable_lsn > manifest.durable_lsn || self.holds.has_unlisted(durable_lsn);
            self.holds.describe(manifest, durable_lsn);
            is_news
        });
        if let Err(error) = noted {
            // Everything is durable all the same, only less is known of it.
            self.device().set_last_error(error.to_string());
        }
    }

    fn wants_sync(&self) -> bool {
        let durability = &self.shared.durability;
        self.unsynced.is_large()
            || self.unsynced.lsns.first().is_some_and(|lsn| durability.is_wanted(*lsn))
    }

    /// The write of the blocks at the front over the zeros of their segment; `None` if it has none, or if
    /// they, or others before them, are to be written and synced as ever.
    fn overwrite_group(&mut self) -> Option<(Overwrite, Group)> {
        let Some(Order::Block(first)) = self.todo.front() else { return None };
        let device = &self.shared.devices[self.index];
        if device.state() != DeviceState::Healthy
            || first.buffer.len() > GROUP_BYTES
            || !self.shared.durability.is_wanted(first.lsn)
        {
            return None;
        }
        let writer = self.writer.as_mut()?;
        let is_clean =
            self.unsynced.lsns.is_empty() && self.parts.iter().all(|part| !part.is_dirty);
        if is_clean && writer.is_over_zeros() {
            let group = Group::complete(&self.shared, &mut self.todo, writer.segment);
            let buffers = group.blocks(&self.todo).map(|block| &block.buffer[..]);
            if let Some(overwrite) = writer.overwrite(buffers, group.bytes) {
                return Some((overwrite, group));
            }
        }
        if !writer.is_left && device.spare.ready_bytes().is_some() && !writer.has_zeros() {
            writer.is_left = true;
            device.spare.offer();
        }
        None
    }

    /// Writes the blocks at the front that belong to the current segment and fit one write.
    fn write_group(&mut self) -> Result<()> {
        let writer = self.writer.as_mut().expect("the caller has opened the block's segment");
        let group = Group::complete(&self.shared, &mut self.todo, writer.segment);
        if let (1, Some(Order::Block(block))) = (group.block_count, self.todo.front()) {
            writer.write(&block.buffer)?;
        } else {
            self.scratch.clear();
            for block in group.blocks(&self.todo) {
                self.scratch.extend_from_slice(&block.buffer);
            }
            writer.write(&self.scratch)?;
        }
        self.note_written(group);
        Ok(())
    }

    /// The blocks at the front are at the end of their file now.
    fn note_written(&mut self, group: Group) {
        let writer = self.writer.as_mut().expect("it is not ended before its blocks are written");
        for block in group.take(&mut self.todo) {
            writer.add(&block);
            self.unsynced.add(&self.shared, self.index, block);
        }
    }

    /// Writes the block at the front, whose segment is on a device that has failed.
    fn write_foreign(&mut self) -> Result<()> {
        let Some(Order::Block(block)) = self.todo.front() else { return Ok(()) };
        let segment = block.segment;
        let at = match self.parts.iter().position(|part| part.segment == segment) {
            Some(at) => at,
            None => {
                let part = 1 + u32::try_from(self.index).expect("devices are few");
                let writer = self.create_segment(segment, part)?;
                let place = Part { device: self.index, number: part };
                self.shared.post(|mail| mail.parts.push((segment, place)));
                self.parts.push(writer);
                self.parts.len() - 1
            }
        };
        self.parts[at].list(&self.shared)?;
        let durable_lsn = self.shared.durability.durable_lsn();
        let Some(Order::Block(block)) = self.todo.front_mut() else { return Ok(()) };
        block.complete(self.shared.database.tag(), durable_lsn);
        let writer = &mut self.parts[at];
        writer.write(&block.buffer)?;
        let Some(Order::Block(block)) = self.todo.pop_front() else { return Ok(()) };
        writer.add(&block);
        let lsn = block.lsn;
        self.unsynced.add(&self.shared, self.index, block);
        unsynced::tell_written(&self.shared, &[lsn]);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let writers = self.writer.iter_mut().chain(&mut self.parts);
        let now_us = self.shared.clock.monotonic_us();
        let sync = PendingSync::begin(writers, self.unsynced.written(), now_us);
        sync.run()?;
        self.note_time(&sync);
        self.note_synced(&sync);
        Ok(())
    }

    fn note_time(&self, sync: &PendingSync) {
        if sync.is_empty() {
            return;
        }
        let now_us = self.shared.clock.monotonic_us();
        self.device().sync_times.note(now_us.saturating_sub(sync.begun_us));
    }

    /// What was written when the sync began is durable: says so, and gives the buffers back.
    fn note_synced(&mut self, sync: &PendingSync) {
        // First what the manifest will list: once the blocks are known durable, a compactor may
        // raise the horizon over them.
        let durable_lsn = self.shared.durability.durable_lsn();
        for writer in self.writer.iter_mut().chain(&mut self.parts) {
            let id = (writer.segment, writer.part);
            let synced = writer.unsynced.drain(..sync.block_count_of(id));
            self.shared.manifest.listing().note_synced(id, synced, durable_lsn);
        }
        let has_advanced = self.unsynced.note_synced(&self.shared, sync.written);
        if has_advanced || self.shared.is_congested.load(Ordering::Relaxed) {
            (self.shared.waker)();
        }
    }

    /// Ends the current segment: its footer, everything synced.
    fn seal_writer(&mut self) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let bytes = writer.seal()?;
        let (segment, part) = (writer.segment, writer.part);
        self.shared.manifest.listing().note_sealed(segment, part);
        self.writer = None;
        self.sync()?;
        self.shared.post(|mail| mail.sealed.push(Sealed { segment, part, bytes }));
        Ok(())
    }

    fn seal_parts(&mut self) -> Result<()> {
        while let Some(part) = self.parts.last_mut() {
            part.seal()?;
            self.shared.manifest.listing().note_sealed(part.segment, part.part);
            self.parts.pop();
        }
        Ok(())
    }

    fn create_segment(&mut self, segment: SegmentId, part: u32) -> Result<SegmentWriter> {
        let shared = &self.shared;
        let durable_lsn = shared.durability.durable_lsn();
        shared.manifest.update(|manifest| {
            let is_claimed = segment < manifest.next_segment;
            if !is_claimed {
                manifest.next_segment = SegmentId(segment.0 + SEGMENT_CLAIM);
                manifest.durable_lsn = manifest.durable_lsn.max(durable_lsn);
            }
            !is_claimed
        })?;
        let header = SegmentHeader {
            version: SEGMENT_VERSION,
            database: shared.database,
            device: self.device().id,
            segment,
            part,
            generation: 0,
            is_moved: false,
            durable_lsn,
            compaction_lsn: Lsn::ZERO,
            horizon: Lsn::ZERO,
            kinds: shared.used_kinds.get(),
        };
        // On a full disk what the reserve has freed goes to the blocks, not to a reservation.
        let is_healthy = self.device().state() == DeviceState::Healthy && part == 0;
        let roll_bytes = shared.roll_bytes.load(Ordering::Relaxed);
        let allocate_bytes = if is_healthy { roll_bytes } else { 0 };
        let (disk, device) = (&*shared.disk, self.device());
        let dir = &device.path;
        if is_healthy && let Some(zeros) = device.spare.take() {
            let made = SegmentWriter::over_zeros(disk, dir, &header, zeros, shared.group_bytes);
            let is_useless = |error: &Error| is_missing(error) || is_full(error);
            if made.as_ref().is_err_and(is_useless) {
                // It was removed by other hands, as temporary files are, or there is no room.
                spare::remove(disk, dir);
            }
            device.spare.end_taking();
            match made {
                Err(error) if is_useless(&error) => {}
                made => {
                    device.is_over_zeros.store(made.is_ok(), Ordering::Relaxed);
                    return made;
                }
            }
        }
        device.is_over_zeros.store(false, Ordering::Relaxed);
        SegmentWriter::create(disk, dir, &header, allocate_bytes, shared.group_bytes)
    }

    fn become_full(&mut self, error: &Error, is_ending: bool) -> Step {
        let device = &self.shared.devices[self.index];
        // A full disk below the data directory keeps the manifest from being replaced: another
        // device would not get further.
        let has_descriptor = !lacks_descriptor(error);
        let is_own = error.path().is_some_and(|path| path.starts_with(&device.path));
        let was_full = device.state() == DeviceState::Full;
        if has_descriptor {
            device.spare.rest(self.shared.clock.monotonic_us() + REST_FULL_US);
            // What was for the next segment is for the blocks that there are: then it is not full.
            if device.spare.give_up(&*self.shared.disk, &device.path) {
                self.retry_at_us = 0;
                return Step::Worked;
            }
        }
        device.become_full(&*self.shared.disk, error);
        let error = error.to_string();
        if has_descriptor && self.has_reserve && reserve::give_up(&*self.shared.disk, &device.path)
        {
            // What was accepted before the disk was full gets the room that was kept for it. It may be
            // the manifest that needs it: mostly it is on the same disk.
            self.has_reserve = false;
            self.retry_at_us = 0;
            (self.shared.waker)();
            return Step::Worked;
        }
        if is_ending && device.inbox().is_closing {
            // Waiting for room would keep the process from ending. A device that was drained waits: its
            // last deed is due while the log goes on.
            let has_blocks = self.todo.iter().any(|order| matches!(order, Order::Block(_)));
            if has_blocks || (!self.unsynced.lsns.is_empty() && self.sync().is_err()) {
                self.shared.set_fatal(format!("the last blocks could not be written: {error}"));
            }
            self.is_finished = true;
            return Step::Finished;
        }
        let is_stuck = self.todo.iter().any(|order| matches!(order, Order::Block(_)));
        if is_own
            && has_descriptor
            && is_stuck
            && let Some(other) = devices::other_with_room(&self.shared, device)
        {
            // Else what this one cannot take would hold up what the others can.
            let synced = self.sync();
            let error = synced.map_or_else(|failure| failure.to_string(), |()| error);
            self.poison(&error, Some(other));
            return Step::Worked;
        }
        let device = &self.shared.devices[self.index];
        self.retry_at_us = self.shared.clock.monotonic_us() + FULL_RETRY_US;
        if !was_full || is_stuck != device.is_stuck() {
            device.set_stuck(is_stuck);
            (self.shared.waker)();
        }
        Step::Idle
    }

    /// The queue of a full device is written; whether it takes more depends on the reserve. As long as that is lent to what makes
    /// room, it is taken back only if a segment has room, too.
    fn try_to_recover_from_full(&mut self) {
        let Shared { segment_bytes, reserve_bytes, ref disk, ref clock, ref devices, .. } =
            *self.shared;
        let (device, now_us) = (&devices[self.index], clock.monotonic_us());
        device.set_stuck(false);
        if device.take_asked_for_room() && self.has_reserve {
            self.has_reserve = !reserve::give_up(&**disk, &device.path);
            self.lent_until_us = now_us + LENT_US;
        }
        let wanted_bytes = segment_bytes.min(reserve_bytes);
        let has_room_for = |bytes: u64| {
            disk.available_bytes(&device.path).is_ok_and(|available| available >= bytes)
        };
        let is_lent = now_us < self.lent_until_us;
        if !self.has_reserve && (!is_lent || has_room_for(reserve_bytes + wanted_bytes)) {
            let made = reserve::make(&**disk, &device.path, reserve_bytes);
            if let Err(error) = &made {
                // It may be full for another reason by now.
                device.become_full(&**disk, error);
            }
            self.has_reserve = made.is_ok();
        }
        if self.has_reserve && has_room_for(wanted_bytes) {
            device.set_state(DeviceState::Healthy);
            (self.shared.waker)();
        }
    }

    /// The device has failed: what is not synced goes to another one, `preferred` if it still takes
    /// blocks, or nothing goes on.
    fn poison(&mut self, error: &str, preferred: Option<usize>) {
        let shared = self.shared.clone();
        let device = &shared.devices[self.index];
        device.set_last_error(error.to_owned());
        let _one_at_a_time = shared.reroute.lock();
        device.set_state(DeviceState::Poisoned);
        device.set_stuck(false);
        let unsynced = std::mem::take(&mut self.unsynced);
        let has_all = unsynced.blocks.len() == unsynced.lsns.len();
        let successor = shared.devices.successor(preferred);
        let mut inbox = device.inbox();
        inbox.is_closed = true;
        let rest = self.todo.drain(..).chain(inbox.orders.drain(..));
        let blocks: Vec<SealedBlock> = (unsynced.blocks.into_iter())
            .chain(rest.filter_map(|order| match order {
                Order::Block(block) => Some(block),
                Order::Seal => None,
            }))
            .collect();
        device.queued_bytes.store(0, Ordering::Relaxed);
        match successor {
            Some(successor) if has_all => {
                for block in blocks {
                    // It is open still: what closes it holds `reroute`, as this does.
                    let _ = shared.devices[successor].push(Order::Block(block));
                }
                device.successor.store(successor, Ordering::Release);
            }
            _ => {
                let path = device.path.display();
                shared.set_fatal(match successor {
                    Some(_) => format!(
                        "log device {path} has failed ({error}) with blocks written and not \
                         synced, which the policy did not keep; restart to continue from what is \
                         durable"
                    ),
                    None => format!(
                        "log device {path} has failed ({error}) and there is no other that \
                         takes blocks; replace the disk and restart"
                    ),
                });
                unsynced::give_back(&shared, blocks.into_iter());
            }
        }
        drop(inbox);
        self.writer = None;
        self.parts.clear();
        (shared.waker)();
    }
}
