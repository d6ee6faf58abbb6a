//! All blocks of all files in LSN order.
//!
//! ```text
//!   device A: files by their oldest block ─► merge ─┐  (a thread each,
//!   device B: files by their oldest block ─► merge ─┼─► merge ─► blocks in LSN order
//!   device C: files by their oldest block ─► merge ─┘   if wanted)
//! ```
//!
//! Within a file LSNs ascend. A file is opened when its oldest block is due, so that few are open
//! at a time: as many as overlap in LSN, which is one a device but for a few moved blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, Scope};

use base::Lsn;
use env::Disk;

use crate::error::Result;
use crate::read::scan::{Block, BlockCursor, Next, SegmentFile, Tail};

/// How much of a file is read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How many blocks, or bytes of them, a loader hands over at a time, and how many such batches it
/// may be ahead.
const BATCH_BLOCKS: usize = 4096;
const BATCH_BYTES: u64 = 1 << 20;
const BATCHES_AHEAD: usize = 4;

/// A block and the index of its file.
pub(crate) type FileBlock = (usize, Block);

/// The blocks of the files of one device, in LSN order.
pub(crate) struct DeviceStream {
    disk: Arc<dyn Disk>,
    /// Files not yet opened, by their oldest block, the oldest last.
    waiting: Vec<(Lsn, usize, SegmentFile)>,
    open: Vec<OpenFile>,
    /// The oldest block of each open file.
    heads: BinaryHeap<Reverse<(Lsn, usize)>>,
    tails: Vec<(usize, Tail)>,
    /// Whether files may be replaced between the look at them and their opening.
    is_running: bool,
}

struct OpenFile {
    index: usize,
    /// `None` once the file has come to its end.
    cursor: Option<BlockCursor>,
    head: Option<Block>,
}

impl DeviceStream {
    /// A stream over `files`, each with its index.
    pub(crate) fn new(disk: Arc<dyn Disk>, files: Vec<(usize, SegmentFile)>) -> Result<Self> {
        Self::begin(disk, files, false)
    }

    /// The same over files of a log that goes on: one that was replaced is an error.
    pub(crate) fn of_running_log(
        disk: Arc<dyn Disk>,
        files: Vec<(usize, SegmentFile)>,
    ) -> Result<Self> {
        Self::begin(disk, files, true)
    }

    fn begin(
        disk: Arc<dyn Disk>,
        files: Vec<(usize, SegmentFile)>,
        is_running: bool,
    ) -> Result<Self> {
        let mut stream = Self {
            is_running,
            disk,
            waiting: Vec::new(),
            open: Vec::new(),
            heads: BinaryHeap::new(),
            tails: Vec::new(),
        };
        for (index, file) in files {
            match &file.footer {
                Some(footer) => stream.waiting.push((footer.min_lsn, index, file)),
                None => stream.open(index, file)?,
            }
        }
        stream.waiting.sort_by_key(|(lsn, _, _)| Reverse(*lsn));
        Ok(stream)
    }

    fn open(&mut self, index: usize, file: SegmentFile) -> Result<()> {
        let cursor = BlockCursor::open(&*self.disk, file, CHUNK_BYTES)?;
        if self.is_running {
            cursor.check_same()?;
        }
        let cursor = Some(cursor);
        let free = self.open.iter().position(|open| open.cursor.is_none() && open.head.is_none());
        let open = OpenFile { index, cursor, head: None };
        let slot = match free {
            Some(slot) => {
                self.open[slot] = open;
                slot
            }
            None => {
                self.open.push(open);
                self.open.len() - 1
            }
        };
        self.advance(slot)
    }

    fn advance(&mut self, slot: usize) -> Result<()> {
        let open = &mut self.open[slot];
        let Some(cursor) = &mut open.cursor else { return Ok(()) };
        match cursor.next()? {
            Next::Block(block) => {
                self.heads.push(Reverse((block.header.lsn, slot)));
                open.head = Some(block);
            }
            Next::End => open.cursor = None,
            Next::Tail(tail) => {
                self.tails.push((open.index, tail));
                open.cursor = None;
            }
        }
        Ok(())
    }

    /// The next block.
    pub(crate) fn next(&mut self) -> Result<Option<FileBlock>> {
        loop {
            let head = self.heads.peek().map(|Reverse((lsn, _))| *lsn);
            let is_due = |(oldest, _, _): &mut (Lsn, usize, SegmentFile)| {
                head.is_none_or(|lsn| *oldest <= lsn)
            };
            if let Some((_, index, file)) = self.waiting.pop_if(is_due) {
                self.open(index, file)?;
                continue;
            }
            let Some(Reverse((_, slot))) = self.heads.pop() else { return Ok(None) };
            let index = self.open[slot].index;
            let block = self.open[slot].head.take().expect("a head has its block");
            self.advance(slot)?;
            return Ok(Some((index, block)));
        }
    }
}

enum Batch {
    Blocks(Vec<FileBlock>),
    End(Vec<(usize, Tail)>),
}

/// Where the blocks of one device come from.
enum Lane {
    Direct(DeviceStream),
    Loaded { batches: Receiver<Result<Batch>>, ready: VecDeque<FileBlock> },
}

/// All blocks in LSN order.
pub(crate) struct Merge {
    lanes: Vec<Lane>,
    heads: Vec<Option<FileBlock>>,
    /// Where the blocks of files without a footer end; complete once all blocks were taken.
    pub(crate) tails: Vec<(usize, Tail)>,
}

impl Merge {
    /// Merges `streams` on this thread.
    pub(crate) fn sequential(streams: Vec<DeviceStream>) -> Result<Self> {
        Self::start(streams.into_iter().map(Lane::Direct).collect())
    }

    /// Merges `streams`, each read by a thread of its own if there is one.
    pub(crate) fn parallel<'scope>(
        scope: &'scope Scope<'scope, '_>,
        streams: Vec<DeviceStream>,
    ) -> Result<Self> {
        let spawn = |stream: DeviceStream| {
            let (sender, batches) = sync_channel(BATCHES_AHEAD);
            let (give, given) = sync_channel::<DeviceStream>(1);
            let load = move || {
                let Ok(mut stream) = given.recv() else { return };
                loop {
                    let batch = load_batch(&mut stream);
                    let is_last = !matches!(batch, Ok(Batch::Blocks(_)));
                    // A receiver that is gone has met an error elsewhere.
                    if sender.send(batch).is_err() || is_last {
                        return;
                    }
                }
            };
            if Builder::new().spawn_scoped(scope, load).is_err() {
                return Lane::Direct(stream);
            }
            give.send(stream).expect("the thread waits for it");
            Lane::Loaded { batches, ready: VecDeque::new() }
        };
        Self::start(streams.into_iter().map(spawn).collect())
    }

    fn start(lanes: Vec<Lane>) -> Result<Self> {
        let mut merge =
            Self { heads: lanes.iter().map(|_| None).collect(), lanes, tails: Vec::new() };
        (0..merge.lanes.len()).try_for_each(|lane| merge.refill(lane))?;
        Ok(merge)
    }

    fn refill(&mut self, lane: usize) -> Result<()> {
        self.heads[lane] = match &mut self.lanes[lane] {
            Lane::Direct(stream) => {
                let next = stream.next()?;
                self.tails.append(&mut stream.tails);
                next
            }
            Lane::Loaded { batches, ready } => {
                if ready.is_empty()
                    && let Ok(batch) = batches.recv()
                {
                    match batch? {
                        Batch::Blocks(blocks) => ready.extend(blocks),
                        Batch::End(tails) => self.tails.extend(tails),
                    }
                }
                ready.pop_front()
            }
        };
        Ok(())
    }

    /// The lane with the oldest block.
    fn oldest(&self) -> Option<usize> {
        let heads = self.heads.iter().enumerate();
        let lsns = heads.filter_map(|(lane, head)| Some((head.as_ref()?.1.header.lsn, lane)));
        lsns.min().map(|(_, lane)| lane)
    }

    /// The next block.
    pub(crate) fn next(&mut self) -> Result<Option<FileBlock>> {
        let Some(lane) = self.oldest() else { return Ok(None) };
        let block = self.heads[lane].take();
        self.refill(lane)?;
        Ok(block)
    }
}

fn load_batch(stream: &mut DeviceStream) -> Result<Batch> {
    let mut blocks = Vec::new();
    let mut bytes = 0;
    while blocks.len() < BATCH_BLOCKS && bytes < BATCH_BYTES {
        let Some(block) = stream.next()? else { break };
        bytes += block.1.header.block_bytes();
        blocks.push(block);
    }
    if blocks.is_empty() {
        return Ok(Batch::End(std::mem::take(&mut stream.tails)));
    }
    Ok(Batch::Blocks(blocks))
}
