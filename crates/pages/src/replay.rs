//! The way of the records from the log into the online log table, at a restart.
//!
//! ```text
//!   log ─► scan ─► which records are needed? ─► batch ─► online log table
//!   └───────── this thread ────────────────┘   └─ another, unless upkeep is inline ─┘
//! ```
//!
//! Finding them is reading and summing; adding them is going from page to page in memory. Each
//! takes about as long as the other, so two processors do it in half the time.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use base::varint;
use hashbrown::HashMap;

use crate::checkpoint::CheckpointRecord;
use crate::error::{Error, Result};
use crate::log_page::{Group, GroupKind, take_record};
use crate::log_reader::Visited;
use crate::online_log::{Batch, OnlineLog};
use crate::options::Upkeep;
use crate::position::{Lsn, PageId};

/// Records go on in batches of so many bytes: few enough to be in the processor's cache still.
const BATCH_BYTES: usize = 64 << 10;
/// So many batches may wait to be added.
const BATCHES_WAITING: usize = 8;

/// Pages with numbers below this (32 GiB of them) are looked up in a list.
const PAGES_LISTED_MAX: usize = 4 << 20;

/// Which records are not in the images that the last checkpoint names.
struct Needed {
    /// The first record that is needed of each page with a small enough number.
    from: Vec<Lsn>,
    /// That of pages with larger ones, if they are in the dirty page table.
    from_beyond: HashMap<PageId, Lsn>,
    begin: Lsn,
    /// From here on all are needed.
    all_from: Lsn,
}

impl Needed {
    fn new(checkpoint: &CheckpointRecord) -> Self {
        let begin = checkpoint.begin;
        let mut needed =
            Self { from: Vec::new(), from_beyond: HashMap::new(), begin, all_from: begin };
        for (id, lsn) in &checkpoint.dirty_pages {
            match usize::try_from(id.0) {
                Ok(at) if at < PAGES_LISTED_MAX => {
                    if at >= needed.from.len() {
                        needed.from.resize(at + 1, begin);
                    }
                    needed.from[at] = *lsn;
                }
                _ => {
                    needed.from_beyond.insert(*id, *lsn);
                }
            }
            needed.all_from = needed.all_from.max(*lsn);
        }
        needed
    }

    /// Line 9 of Algorithm 2: is it in the page's image as of the checkpoint?
    fn is_needed(&self, id: PageId, lsn: Lsn) -> bool {
        if lsn >= self.all_from {
            return true;
        }
        let listed = usize::try_from(id.0).ok().and_then(|at| self.from.get(at));
        lsn >= *listed.or_else(|| self.from_beyond.get(&id)).unwrap_or(&self.begin)
    }
}

/// What the log made.
pub(crate) struct Replayed {
    pub(crate) table: OnlineLog,
    pub(crate) last_transaction: u64,
}

/// Has `scan` read the log, and gathers what is needed of it.
pub(crate) fn replay<T>(
    checkpoint: &CheckpointRecord,
    upkeep: Upkeep,
    scan: impl FnOnce(&mut dyn FnMut(Group<'_>) -> Visited) -> Result<T>,
) -> Result<(T, Replayed)> {
    std::thread::scope(|scope| {
        let table = OnlineLog::with_pages(checkpoint.dirty_pages.len() * 2);
        let mut adding = match upkeep {
            Upkeep::Inline => Adding::Here(table),
            Upkeep::Background => Adding::There(Adder::start(scope, table)?),
        };
        let needed = Needed::new(checkpoint);
        let mut batch = Batch::default();
        let mut last_transaction = 0;
        let scanned = scan(&mut |group| {
            if group.kind != GroupKind::Commit {
                return Ok(());
            }
            let mut body = group.body;
            let transaction = varint::take(&mut body);
            last_transaction = transaction.unwrap_or(0).max(last_transaction);
            while !body.is_empty() {
                let (id, op) = take_record(&mut body).ok_or("a group has a record that is none")?;
                if needed.is_needed(id, group.lsn) {
                    batch.push(id, group.lsn, op);
                }
            }
            if batch.bytes() >= BATCH_BYTES {
                adding.add(&mut batch);
            }
            Ok(())
        })?;
        adding.add(&mut batch);
        Ok((scanned, Replayed { table: adding.end(), last_transaction }))
    })
}

/// Who adds records to the table.
enum Adding<'scope> {
    Here(OnlineLog),
    There(Adder<'scope>),
}

impl Adding<'_> {
    /// Adds a batch, and gives an empty one.
    fn add(&mut self, batch: &mut Batch) {
        match self {
            Self::Here(table) => table.add_batch(batch),
            Self::There(adder) => {
                let next = adder.empty.try_recv().unwrap_or_default();
                let full = std::mem::replace(batch, next);
                adder.full.send(full).expect("it receives until this is dropped");
            }
        }
    }

    fn end(self) -> OnlineLog {
        match self {
            Self::Here(table) => table,
            Self::There(adder) => {
                drop(adder.full);
                adder.thread.join().expect("records come in order, or the log is no log")
            }
        }
    }
}

/// A thread that adds records.
struct Adder<'scope> {
    full: SyncSender<Batch>,
    /// Batches come back, so that their memory is used again.
    empty: Receiver<Batch>,
    thread: ScopedJoinHandle<'scope, OnlineLog>,
}

impl<'scope> Adder<'scope> {
    fn start(scope: &'scope Scope<'scope, '_>, mut table: OnlineLog) -> Result<Self> {
        let (full, batches) = sync_channel::<Batch>(BATCHES_WAITING);
        let (used, empty): (Sender<Batch>, _) = channel();
        let thread = Builder::new()
            .name(String::from("pages-replay"))
            .spawn_scoped(scope, move || {
                for mut batch in batches {
                    table.add_batch(&mut batch);
                    // At the end nobody wants it back.
                    let _unwanted = used.send(batch);
                }
                table
            })
            .map_err(Error::io(std::path::Path::new("pages-replay"), "start the thread"))?;
        Ok(Self { full, empty, thread })
    }
}
