//! The syncer (part of the I/O manager, 4.3.2): syncs what was written while the I/O manager writes
//! more, and tells the concurrency controller what is on the device.
//!
//! ```text
//!   I/O manager   write batch 2 ─────────► write batch 3 ─────────► ...
//!                    │ batch 1                │ batch 2
//!   syncer           └► sync ─► invalidate ─► └► sync ─► ...
//!                                  └─► controller: these ranges are on the device
//! ```
//!
//! Batches are synced in write order, one at a time. The I/O manager is at most two ahead, which
//! bounds the bytes that wait for a sync. Large files are synced individually; thousands of small
//! ones by one `syncfs`, which makes them cheap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use env::File;

use crate::concurrency_controller::Range;
use crate::frame::PAGE_BYTES;
use crate::receiver::Receiving;

/// A file with bytes in a batch.
#[derive(Default)]
pub(crate) struct Part {
    /// Open for writing; `None` if it is synced together with all others.
    pub(crate) file: Option<Arc<dyn File>>,
    /// Whether this batch completes it, unless pages must be resent.
    pub(crate) has_ended: bool,
}

/// A unit of syncing.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) ranges: Vec<Range>,
    pub(crate) written_bytes: u64,
    pub(crate) files: BTreeMap<u32, Part>,
    /// Whether the whole file system must be synced, because some of the files are no longer open.
    pub(crate) sync_everything: bool,
}

/// A request to the syncer.
pub(crate) enum Order {
    /// Sync this batch.
    Sync(Batch),
    /// Drop this sender when all earlier requests are done.
    Answer(Sender<()>),
}

/// Queued requests, at most: one batch waits while another is synced and a third is written.
pub(crate) const ORDERS_MAX: usize = 1;

/// Waits until the syncer has done all its work.
pub(crate) fn wait_until_idle(orders: &SyncSender<Order>) {
    let (answer, done) = std::sync::mpsc::channel();
    if orders.send(Order::Answer(answer)).is_ok() {
        // Nothing is ever sent: the sender is dropped.
        let _gone = done.recv();
    }
}

/// Works until all senders of requests are gone.
pub(crate) fn run(receiving: &Receiving<'_>, orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Sync(batch) => sync(receiving, batch),
            Order::Answer(answer) => drop(answer),
        }
    }
}

/// Syncs a batch and passes it on.
fn sync(receiving: &Receiving<'_>, batch: Batch) {
    let mut ended = Vec::new();
    for (&entry, part) in &batch.files {
        if part.has_ended && receiving.incoming.is_open(entry) {
            match receiving.destination.settle(entry) {
                Ok(()) => ended.push(entry),
                Err(error) => receiving.fail(entry, &format!("cannot be settled: {error}")),
            }
        }
    }
    if batch.sync_everything {
        if let Err(error) = receiving.destination.sync_all() {
            // After a failed sync, it is unknown what reached the device, and a second sync may
            // report success.
            for &entry in batch.files.keys() {
                receiving.fail(entry, &format!("cannot be synced: {error}"));
            }
            return;
        }
    } else {
        for (&entry, part) in &batch.files {
            let synced = part.file.as_ref().map_or(Ok(()), |file| file.sync_data());
            if let Err(error) = synced {
                receiving.fail(entry, &format!("cannot be synced: {error}"));
            }
        }
    }
    if receiving.scheme.reads_the_medium() {
        for range in &batch.ranges {
            let part = batch.files.get(&range.entry);
            if let Some(file) = part.and_then(|part| part.file.as_ref()) {
                file.drop_cache(range.first_page * PAGE_BYTES as u64, range.bytes);
            }
        }
    }
    pass_on(receiving, batch, &ended);
}

/// Tells the controller what is on the device, and which files are thereby complete.
fn pass_on(receiving: &Receiving<'_>, batch: Batch, ended: &[u32]) {
    let wanted = |range: &Range| receiving.incoming.is_open(range.entry);
    let ranges = batch.ranges.into_iter().filter(wanted).collect();
    receiving.controller.with(|schedule| {
        schedule.synced(ranges, batch.written_bytes);
        ended.iter().for_each(|&entry| schedule.complete(entry));
    });
    for &entry in ended {
        if receiving.incoming.settled(entry) {
            receiving.show(entry);
        }
    }
}
