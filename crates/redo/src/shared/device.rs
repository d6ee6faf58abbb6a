//! What the threads of a log share: the devices with their queues, and the mailbox of the executor.
//!
//! ```text
//!   executor ──orders──► inbox of a device ──► its flusher ──► file
//!      ▲                                          │
//!      └── mailbox: buffers to reuse, sealed segments, new parts
//! ```
//!
//! Lock order: `reroute` before an inbox; a failing device's inbox before its successor's; nothing
//! else is ever taken while one of these is held.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use base::{Lsn, Mutex, SegmentId};
use env::{Clock, Disk, Lock};

use crate::error::{Error, is_no_room};
use crate::format::groups::Mark;
use crate::format::manifest::{Manifest, ManifestStore};
use crate::format::segment;
use crate::id::Id;
use crate::options::Waker;
use crate::shared::devices::Devices;
use crate::shared::dropped_deletes::DroppedDeletes;
use crate::shared::durability::Durability;
use crate::shared::index_bound::IndexBound;
use crate::shared::leaders::Leaders;
use crate::shared::sealed_block::SealedBlock;
use crate::shared::spare::{Spare, ZerosOrders};
use crate::shared::sync_times::{SyncLatency, SyncTimes};
use crate::shared::used_kinds::UsedKinds;

/// What a flusher is to do.
pub(crate) enum Order {
    /// Write this block.
    Block(SealedBlock),
    /// The segment takes no further block: give it its footer.
    Seal,
}

/// How a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// It takes blocks.
    Healthy,
    /// There is no room on it; it takes blocks again when there is.
    Full,
    /// A write or sync on it has failed, or it was full and another one has taken what it could not:
    /// it takes no further block until the next start.
    Poisoned,
}

/// Whether a device is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// It is.
    InUse,
    /// It is being drained.
    Leaving,
    /// It was drained.
    Gone,
}

#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) orders: VecDeque<Order>,
    /// It takes nothing more: the device is poisoned and its blocks go to `Device::successor`, or the
    /// end has come.
    pub(crate) is_closed: bool,
    /// Something other than an order wants a step: a sync, a retry, the end.
    is_nudged: bool,
    /// The flusher is in [`Device::wait`]; a wake-up is a system call, and vain without a waiter.
    is_waiting: bool,
    /// Nothing more will come: seal and stop.
    pub(crate) is_ending: bool,
    /// Because nothing of the log is on the device any more.
    pub(crate) is_drained: bool,
    /// Because the log ends.
    pub(crate) is_closing: bool,
}

/// One device, as the executor, its flusher and the compactor see it.
pub(crate) struct Device {
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    state: AtomicU8,
    /// If it is full: see [`Device::lacks_room`].
    has_no_room: AtomicBool,
    service: AtomicU8,
    /// The device that takes over the blocks of this one once it is poisoned.
    pub(crate) successor: AtomicUsize,
    /// It is full, its reserve is used up, and there are blocks for it.
    is_stuck: AtomicBool,
    /// What makes room lacks some.
    is_asked_for_room: AtomicBool,
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) written_blocks: AtomicU64,
    pub(crate) sync_times: SyncTimes,
    /// When the flusher began what it is doing, on the monotonic clock; 0 if it does nothing.
    pub(crate) busy_since_us: AtomicU64,
    pub(crate) spare: Spare,
    /// Whether its open segment is written over zeros.
    pub(crate) is_over_zeros: AtomicBool,
    last_error: Mutex<Option<String>>,
    /// The state that people were told of last, and when, on the monotonic clock.
    told: Mutex<(DeviceState, u64)>,
}

/// So long nothing more is told of a device that is full and has room in turn.
const TOLD_AGAIN_US: u64 = 30_000_000;

impl Device {
    pub(crate) fn new(id: Id, path: PathBuf) -> Self {
        Self {
            id,
            path,
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            state: AtomicU8::new(0),
            has_no_room: AtomicBool::new(false),
            service: AtomicU8::new(0),
            successor: AtomicUsize::new(usize::MAX),
            is_stuck: AtomicBool::new(false),
            is_asked_for_room: AtomicBool::new(false),
            queued_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            written_blocks: AtomicU64::new(0),
            sync_times: SyncTimes::default(),
            busy_since_us: AtomicU64::new(0),
            spare: Spare::default(),
            is_over_zeros: AtomicBool::new(false),
            last_error: Mutex::default(),
            told: Mutex::new((DeviceState::Healthy, 0)),
        }
    }

    /// What people are to be told of its state, if that is another one than they know.
    pub(crate) fn take_news(&self, now_us: u64) -> Option<String> {
        let (state, mut told) = (self.state(), self.told.lock());
        let is_early = told.1 > 0 && now_us < told.1 + TOLD_AGAIN_US;
        if state == told.0 || (is_early && state != DeviceState::Poisoned) {
            return None;
        }
        *told = (state, now_us.max(1));
        let path = self.path.display();
        let why = self.last_error().unwrap_or_default();
        Some(match state {
            DeviceState::Healthy => format!("the log device {path} takes writes again"),
            DeviceState::Full => format!("WARNING: the log device {path} is full: {why}"),
            DeviceState::Poisoned => format!(
                "WARNING: the log device {path} has failed and takes nothing more until the next start: {why}"
            ),
        })
    }

    pub(crate) fn state(&self) -> DeviceState {
        match self.state.load(Ordering::Acquire) {
            0 => DeviceState::Healthy,
            1 => DeviceState::Full,
            _ => DeviceState::Poisoned,
        }
    }

    pub(crate) fn set_state(&self, state: DeviceState) {
        let number = match state {
            DeviceState::Healthy => 0,
            DeviceState::Full => 1,
            DeviceState::Poisoned => 2,
        };
        self.state.store(number, Ordering::Release);
    }

    /// Says that it is full, and why.
    pub(crate) fn become_full(&self, disk: &dyn Disk, error: &Error) {
        let is_own = error.path().is_some_and(|path| {
            let other = path.ancestors().find_map(|dir| disk.file_system(dir));
            let is_same_disk = other.is_some() && other == disk.file_system(&self.path);
            path.starts_with(&self.path) || is_same_disk
        });
        self.set_last_error(error.to_string());
        self.has_no_room.store(is_own && is_no_room(error), Ordering::Release);
        self.set_state(DeviceState::Full);
    }

    /// Whether it is full because its own disk has no room: not that of the manifest, and not because the
    /// process has no descriptor left.
    pub(crate) fn lacks_room(&self) -> bool {
        self.state() == DeviceState::Full && self.has_no_room.load(Ordering::Acquire)
    }

    pub(crate) fn service(&self) -> Service {
        match self.service.load(Ordering::Acquire) {
            0 => Service::InUse,
            1 => Service::Leaving,
            _ => Service::Gone,
        }
    }

    pub(crate) fn set_service(&self, service: Service) {
        let number = match service {
            Service::InUse => 0,
            Service::Leaving => 1,
            Service::Gone => 2,
        };
        self.service.store(number, Ordering::Release);
    }

    /// Whether it is wanted and has not come to its end.
    pub(crate) fn takes_more(&self) -> bool {
        self.service() == Service::InUse && !self.inbox().is_closed
    }

    /// Says that a compaction, or a deletion, lacks room: if the device is full, its reserve is lent.
    pub(crate) fn ask_for_room(&self) {
        self.is_asked_for_room.store(true, Ordering::Release);
    }

    /// Whether something has asked since.
    pub(crate) fn take_asked_for_room(&self) -> bool {
        self.is_asked_for_room.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.is_stuck.store(stuck, Ordering::Release);
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    pub(crate) fn set_last_error(&self, error: String) {
        *self.last_error.lock() = Some(error);
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }

    /// How it is now, with nothing of the log on it.
    pub(crate) fn stats(&self, now_us: u64) -> DeviceStats {
        let busy_us = match self.busy_since_us.load(Ordering::Relaxed) {
            0 => 0,
            since_us => now_us.saturating_sub(since_us),
        };
        DeviceStats {
            path: self.path.clone(),
            id: self.id,
            state: self.state(),
            is_draining: self.service() == Service::Leaving,
            segments: 0,
            bytes: 0,
            records: 0,
            invalid_records: 0,
            queued_bytes: self.queued_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            written_blocks: self.written_blocks.load(Ordering::Relaxed),
            busy_us,
            sync_latency: self.sync_times.seen(),
            is_over_zeros: self.is_over_zeros.load(Ordering::Relaxed),
            has_spare: self.spare.ready_bytes().is_some(),
            last_error: self.last_error(),
        }
    }

    /// Queues an order and wakes the flusher; gives it back when the device is poisoned.
    pub(crate) fn push(&self, order: Order) -> Result<(), Order> {
        let inbox = self.queue(order)?;
        self.wake(inbox);
        Ok(())
    }

    /// The same without a wake-up: the caller writes the order itself, or nudges.
    pub(crate) fn push_quietly(&self, order: Order) -> Result<(), Order> {
        self.queue(order).map(drop)
    }

    fn queue(&self, order: Order) -> Result<MutexGuard<'_, Inbox>, Order> {
        let mut inbox = self.inbox();
        if inbox.is_closed {
            return Err(order);
        }
        if let Order::Block(block) = &order {
            self.queued_bytes.fetch_add(block.buffer.len() as u64, Ordering::Relaxed);
        }
        inbox.orders.push_back(order);
        Ok(inbox)
    }

    fn wake(&self, inbox: MutexGuard<'_, Inbox>) {
        let is_waiting = inbox.is_waiting;
        drop(inbox);
        if is_waiting {
            self.arrived.notify_one();
        }
    }

    /// Makes the flusher take a step although there is no order for it.
    pub(crate) fn nudge(&self) {
        let mut inbox = self.inbox();
        inbox.is_nudged = true;
        self.wake(inbox);
    }

    /// Says that nothing more will come, because the log ends.
    pub(crate) fn end(&self) {
        let mut inbox = self.inbox();
        (inbox.is_ending, inbox.is_closing) = (true, true);
        drop(inbox);
        self.nudge();
    }

    /// Says the same, because nothing is on the device any more.
    pub(crate) fn end_drained(&self) {
        let mut inbox = self.inbox();
        (inbox.is_ending, inbox.is_drained) = (true, true);
        drop(inbox);
        self.nudge();
    }

    /// Waits until there is something to do, or for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut inbox = self.inbox();
        if inbox.orders.is_empty() && !inbox.is_nudged {
            inbox.is_waiting = true;
            inbox = self
                .arrived
                .wait_timeout(inbox, timeout)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
            inbox.is_waiting = false;
        }
        inbox.is_nudged = false;
    }
}

/// What there is to say about one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStats {
    /// Its directory.
    pub path: PathBuf,
    /// Its id.
    pub id: Id,
    /// How it is.
    pub state: DeviceState,
    /// It is taken out of use: its segments are written to the others.
    pub is_draining: bool,
    /// How many segments have their file on it.
    pub segments: usize,
    /// How long their files are.
    pub bytes: u64,
    /// How many records are in them.
    pub records: u64,
    /// How many of those are garbage.
    pub invalid_records: u64,
    /// Bytes waiting to be written.
    pub queued_bytes: u64,
    /// Bytes written since the start.
    pub written_bytes: u64,
    /// Blocks written since the start.
    pub written_blocks: u64,
    /// Syncs since the start, and how long they took.
    pub sync_latency: SyncLatency,
    /// How long the write or sync that is under way has taken by now, in microseconds; 0 if none is.
    pub busy_us: u64,
    /// Whether its open segment is written over zeros that were there before, and does not grow.
    pub is_over_zeros: bool,
    /// Whether zeros are ready for the next one.
    pub has_spare: bool,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Tells when a flusher has something to do.
pub struct Bell {
    shared: Arc<Shared>,
    index: usize,
}

impl Bell {
    pub(crate) const fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { shared, index }
    }

    /// Waits until there is something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.shared.devices[self.index].wait(timeout);
    }
}

/// A further file of a segment, with blocks that its own device could not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The index of the device that it is on.
    pub(crate) device: usize,
    /// What its name says. It was given in another life perhaps, when devices had other indices.
    pub(crate) number: u32,
}

/// A file that a flusher has sealed.
pub(crate) struct Sealed {
    pub(crate) segment: SegmentId,
    pub(crate) part: u32,
    pub(crate) bytes: u64,
}

/// What the other threads have to tell the executor.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// Buffers with their marks, and how many bytes of the flight they were.
    pub(crate) recycled: Vec<(Vec<u8>, Vec<Mark>)>,
    pub(crate) sealed: Vec<Sealed>,
    /// Segments that got a further part.
    pub(crate) parts: Vec<(SegmentId, Part)>,
}

/// What the threads of one log share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) waker: Waker,
    pub(crate) database: Id,
    pub(crate) epoch: u64,
    pub(crate) manifest: ManifestStore,
    pub(crate) durability: Durability,
    pub(crate) dropped_deletes: DroppedDeletes,
    pub(crate) index_bound: Arc<IndexBound>,
    pub(crate) used_kinds: UsedKinds,
    pub(crate) leaders: Leaders,
    pub(crate) devices: Devices,
    pub(crate) segment_bytes: u64,
    /// How long the groups of new files are.
    pub(crate) group_bytes: u32,
    /// The size past which segments take no further block as of now: at most `segment_bytes`.
    pub(crate) roll_bytes: AtomicU64,
    pub(crate) reserve_bytes: u64,
    /// Whether written blocks are kept until they are synced, to be written elsewhere if the sync
    /// fails. Not at `no`, where a sync may be long in coming.
    pub(crate) keeps_unsynced: AtomicBool,
    /// Whether the executor waits for buffers to come back.
    pub(crate) is_congested: AtomicBool,
    /// Whether so much garbage has gathered that compaction's rate does not matter.
    pub(crate) is_compaction_behind: AtomicBool,
    pub(crate) reroute: Mutex<()>,
    /// Why nothing can be written any more.
    fatal: Mutex<Option<String>>,
    /// Whether there is such a reason: the executor asks for every command.
    is_fatal: AtomicBool,
    mailbox: Mutex<Mailbox>,
    has_mail: AtomicBool,
    /// No other process opens the log while any of its threads is alive.
    _lock: Box<dyn Lock>,
}

impl Shared {
    /// Where the file is, or would be, that is named after a segment.
    pub(crate) fn file_of(&self, device: usize, leader: SegmentId) -> PathBuf {
        self.devices[device].path.join(segment::file_name(leader, 0))
    }

    #[expect(clippy::too_many_arguments, reason = "called once, by recovery")]
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        waker: Waker,
        manifest: ManifestStore,
        durability: Durability,
        devices: Vec<Device>,
        segment_bytes: u64,
        group_bytes: u32,
        reserve_bytes: u64,
        zeros_blocks_min: Option<u64>,
        lock: Box<dyn Lock>,
    ) -> Self {
        let Manifest { database, epoch, horizon, .. } = manifest.get();
        Self {
            disk,
            clock,
            waker,
            database,
            epoch,
            manifest,
            durability,
            dropped_deletes: DroppedDeletes::new(horizon),
            index_bound: Arc::default(),
            used_kinds: UsedKinds::default(),
            leaders: Leaders::default(),
            devices: Devices::new(devices, ZerosOrders::new(zeros_blocks_min)),
            segment_bytes,
            group_bytes,
            roll_bytes: AtomicU64::new(segment_bytes),
            reserve_bytes,
            keeps_unsynced: AtomicBool::new(true),
            is_congested: AtomicBool::new(false),
            is_compaction_behind: AtomicBool::new(false),
            reroute: Mutex::default(),
            fatal: Mutex::default(),
            is_fatal: AtomicBool::new(false),
            mailbox: Mutex::default(),
            has_mail: AtomicBool::new(false),
            _lock: lock,
        }
    }

    /// Leaves something in the mailbox.
    pub(crate) fn post(&self, write: impl FnOnce(&mut Mailbox)) {
        write(&mut self.mailbox.lock());
        self.has_mail.store(true, Ordering::Release);
    }

    /// Empties the mailbox into `into`, whose vectors are reused; `false` if there was nothing.
    pub(crate) fn take_mail(&self, into: &mut Mailbox) -> bool {
        if !self.has_mail.swap(false, Ordering::AcqRel) {
            return false;
        }
        std::mem::swap(&mut *self.mailbox.lock(), into);
        true
    }

    /// Why the log has become read-only, if it has. Takes no lock while it has not.
    pub(crate) fn fatal(&self) -> Option<String> {
        self.is_fatal.load(Ordering::Acquire).then(|| self.fatal.lock().clone())?
    }

    /// Says that the log has become read-only. The first reason stays.
    pub(crate) fn set_fatal(&self, reason: String) {
        self.fatal.lock().get_or_insert(reason);
        self.is_fatal.store(true, Ordering::Release);
    }

    /// Asks every device to sync what it has written up to `lsn`.
    pub(crate) fn request_sync(&self, lsn: Lsn) {
        self.durability.want_synced(lsn);
        self.devices.iter().for_each(Device::nudge);
    }
}
