//! Where the keyspace's records go, and when they are durable.
//!
//! ```text
//!   Keyspace ── records ──► LogJournal  ─► redo::Log, a flusher's thread: slr, ailir, runs
//!                       └─► TreeJournal ─► a transaction a block, committed at once: silir
//! ```
//!
//! Both promise the same: a reply leaves when its block is durable. A block has the writes of all clients
//! that wrote since the block before, so that one sync serves all of them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Lsn, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::Journal;
use redo::{LiveRecords, Log, Opened, Step};

use super::tree::{Tree, TreeBatch};
use crate::error::{Error, Result};

/// How long a thread of the log waits for work before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// The segment of the addresses that [`TreeJournal`] gives out. No log has so many.
const WRITTEN: SegmentId = SegmentId(u32::MAX);

/// A journal, and how its blocks become durable.
pub(super) trait Durable: Journal {
    /// Ends the open block if the device takes it up at once.
    fn seal(&mut self) -> Result<()>;

    /// Returns the last block that is durable now.
    fn poll(&mut self) -> Lsn;

    /// Does what is to be done from time to time.
    fn tick(&mut self) {}

    /// Learns which records of the log are needed, after a start that has not read it.
    fn note_live(&mut self, _live: Arc<LiveRecords>) -> Result<()> {
        Ok(())
    }
}

/// The redo log, with its threads.
pub(super) struct LogJournal {
    log: Log,
    threads: Vec<JoinHandle<()>>,
}

impl LogJournal {
    /// Starts the threads of a log.
    pub(super) fn start(opened: Opened) -> Result<Self> {
        let Opened { log, flushers, mut compactor, .. } = opened;
        let mut threads = Vec::new();
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let no_thread = |error: std::io::Error| Error::engine("log")(&error);
        for mut flusher in flushers {
            let bell = flusher.bell();
            let run = move || {
                loop {
                    match flusher.step() {
                        Step::Worked => {}
                        Step::Idle => bell.wait(IDLE_WAIT),
                        Step::Finished => return,
                    }
                }
            };
            threads.push(spawn("flusher").spawn(run).map_err(no_thread)?);
        }
        let run = move || {
            loop {
                match compactor.step() {
                    Step::Worked => std::thread::yield_now(),
                    Step::Idle => compactor.wait(IDLE_WAIT),
                    Step::Finished => return,
                }
            }
        };
        threads.push(spawn("compactor").spawn(run).map_err(no_thread)?);
        Ok(Self { log, threads })
    }

    /// Ends the open block, whatever the device does.
    pub(super) fn seal_now(&mut self) {
        self.log.seal();
    }

    /// Whether more than enough waits for the device.
    pub(super) fn is_congested(&mut self) -> bool {
        self.log.poll();
        self.log.is_congested()
    }
}

impl Drop for LogJournal {
    fn drop(&mut self) {
        self.log.shutdown();
        // One that has panicked has said so.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

impl Journal for LogJournal {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        Some(self.log.append(record))
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.log.retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        self.log.open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        let open_lsn = self.log.open_lsn();
        if self.log.has_open_records() { open_lsn } else { Lsn(open_lsn.0 - 1) }
    }

    fn durable_lsn(&self) -> Lsn {
        self.log.durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.log.undurable_lsn_of(addr)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.log.is_retired(addr)
    }
}

impl Durable for LogJournal {
    fn seal(&mut self) -> Result<()> {
        if self.log.takes_block_now() {
            self.log.seal();
        }
        match self.log.health() {
            redo::Health::Writable => Ok(()),
            redo::Health::DiskFull { reason } | redo::Health::ReadOnly { reason } => {
                Err(Error::engine("log")(&reason))
            }
        }
    }

    fn poll(&mut self) -> Lsn {
        self.log.poll();
        self.log.durable_lsn()
    }

    fn tick(&mut self) {
        self.log.tick();
    }

    fn note_live(&mut self, live: Arc<LiveRecords>) -> Result<()> {
        self.log.note_live(live).map_err(|error| Error::engine("log")(&error))
    }
}

/// A tree instead of a log: the paper's synchronous indexing.
pub(super) struct TreeJournal {
    tree: Arc<Tree>,
    open: TreeBatch,
    open_lsn: Lsn,
    /// The ordinal of the first record of the open block.
    first: u32,
    next: u32,
}

impl TreeJournal {
    /// Goes on behind the last block that `tree` has.
    pub(super) fn new(tree: Arc<Tree>) -> Result<Self> {
        let open_lsn = tree.cut()?.next();
        Ok(Self { tree, open: TreeBatch::default(), open_lsn, first: 0, next: 0 })
    }
}

impl Journal for TreeJournal {
    /// # Panics
    /// For anything but a string: memtier sets nothing else.
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        assert_eq!(record.kind, RecordKind::String, "the load has strings only");
        let addr = RecordAddr::new(WRITTEN, self.next);
        self.open.push(
            &self.tree,
            record.key,
            self.open_lsn,
            self.next - self.first,
            None,
            record.value,
        );
        self.next += 1;
        Some(addr)
    }

    fn retire(&mut self, _addr: RecordAddr) {}

    fn open_lsn(&self) -> Lsn {
        self.open_lsn
    }

    fn last_lsn(&self) -> Lsn {
        if self.open.is_empty() { Lsn(self.open_lsn.0 - 1) } else { self.open_lsn }
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.open_lsn.0 - 1)
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        (addr.segment() == WRITTEN && addr.ordinal() >= self.first).then_some(self.open_lsn)
    }
}

impl Durable for TreeJournal {
    fn seal(&mut self) -> Result<()> {
        if !self.open.is_empty() {
            self.tree.commit(&mut self.open, self.open_lsn, pages::Durability::Immediate)?;
            self.open_lsn = self.open_lsn.next();
            self.first = self.next;
        }
        Ok(())
    }

    fn poll(&mut self) -> Lsn {
        self.durable_lsn()
    }
}
