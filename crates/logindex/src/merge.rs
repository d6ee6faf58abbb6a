//! The entries of several runs in the order of their names, of each name the newest.
//!
//! ```text
//!   runs, from the newest to the oldest, and what is in memory before them
//!   ├ Stream   reads chunks of blocks, verifies and decodes them
//!   └ Tournament   a tree of losers: the smallest head wins, of equal names the newer run
//! ```

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::name::{Entry, Hash96, Name, Scope};
use crate::run::Run;
use crate::sort_key::SortKey;
use crate::unwritten::{Unwritten, UnwrittenStream};

/// What is merged.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// It is newer than all runs.
    pub(crate) unwritten: Option<&'a Arc<Unwritten>>,
    /// From the newest to the oldest.
    pub(crate) runs: &'a [Arc<Run>],
}

impl<'a> From<&'a [Arc<Run>]> for Sources<'a> {
    fn from(runs: &'a [Arc<Run>]) -> Self {
        Self { unwritten: None, runs }
    }
}

/// The entries of a run between two names, wherever it is.
enum Stream {
    Unwritten(UnwrittenStream),
    Written(RunStream),
}

impl Stream {
    fn head(&self) -> Option<&Entry> {
        match self {
            Self::Unwritten(stream) => stream.head(),
            Self::Written(stream) => stream.head(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Unwritten(stream) => {
                stream.advance();
                Ok(())
            }
            Self::Written(stream) => stream.advance(),
        }
    }
}

/// The entries of a run on disk.
struct RunStream {
    run: Arc<Run>,
    chunk_blocks: usize,
    chunk: Vec<u8>,
    /// The blocks in the chunk that were not decoded yet.
    in_chunk: std::ops::Range<usize>,
    /// The first block in the chunk.
    chunk_at: usize,
    /// The end of the blocks to read.
    end: usize,
    last: Name,
    entries: Vec<Entry>,
    at: usize,
}

impl RunStream {
    fn new(run: Arc<Run>, chunk_bytes: usize, first: Name, last: Name) -> Result<Self> {
        let from = run.fences.block_of(first).unwrap_or(0);
        let end = run.fences.block_of(last).map_or(0, |block| block + 1);
        let chunk_blocks = (chunk_bytes / run.block_bytes()).max(1);
        let mut stream = Self {
            run,
            chunk_blocks,
            chunk: Vec::new(),
            in_chunk: from..from,
            chunk_at: from,
            end: end.max(from),
            last,
            entries: Vec::new(),
            at: 0,
        };
        stream.refill()?;
        stream.at = stream.entries.partition_point(|entry| entry.name < first);
        if stream.at == stream.entries.len() && !stream.entries.is_empty() {
            stream.refill()?;
        }
        Ok(stream)
    }

    /// Decodes the next block; without one, there are no entries.
    fn refill(&mut self) -> Result<()> {
        let previous = self.entries.last().map(|entry| entry.name);
        self.entries.clear();
        self.at = 0;
        let block = self.in_chunk.start;
        if block == self.end {
            return Ok(());
        }
        if self.in_chunk.is_empty() {
            let count = self.chunk_blocks.min(self.end - block);
            self.run.read_blocks(block, count, &mut self.chunk)?;
            self.chunk_at = block;
            self.in_chunk = block..block + count;
        }
        let bytes = &self.chunk[(block - self.chunk_at) * self.run.block_bytes()..];
        let damaged = |what| Error::corrupt(&self.run.path, self.run.block_at(block), what);
        let decoded = self.run.verified(bytes, block)?;
        decoded.decode(&self.run.dictionary, &mut self.entries).map_err(damaged)?;
        if previous.is_some_and(|previous| previous >= self.entries[0].name) {
            return Err(damaged("it begins before the end of the block before"));
        }
        self.in_chunk.start += 1;
        if self.in_chunk.start == self.end {
            // Only the last block can have more than is wanted.
            let wanted = self.entries.partition_point(|entry| entry.name <= self.last);
            self.entries.truncate(wanted);
        }
        Ok(())
    }

    fn head(&self) -> Option<&Entry> {
        self.entries.get(self.at)
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at == self.entries.len() { self.refill() } else { Ok(()) }
    }
}

/// What is compared: the name, then the age of the run, which is the number of the stream.
fn key_of(stream: &Stream, age: usize) -> SortKey {
    let age = u32::try_from(age).expect("few runs");
    stream.head().map_or(SortKey::END, |entry| SortKey::new(entry.name, age))
}

/// The heads of streams that have met in pairs: stream `i` of `n` begins at node `(n + i) / 2`.
struct Tournament {
    /// At each inner node, from 1, what lost there.
    losers: Vec<SortKey>,
    winner: SortKey,
}

impl Tournament {
    fn new(heads: &[SortKey]) -> Self {
        let count = heads.len();
        let mut winners = [&vec![SortKey::END; count], heads].concat();
        let mut losers = vec![SortKey::END; count];
        for node in (1..count).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], losers[node]) = (one.min(other), one.max(other));
        }
        let winner = winners.get(1).copied().unwrap_or(SortKey::END);
        Self { losers, winner }
    }

    /// Replaces the winner by the next head of its stream.
    #[inline]
    fn replace(&mut self, stream: usize, head: SortKey) {
        let mut winner = head;
        let mut node = usize::midpoint(stream, self.losers.len());
        while node > 0 {
            let loser = self.losers[node];
            let is_beaten = loser.is_before(winner);
            (self.losers[node], winner) = if is_beaten { (winner, loser) } else { (loser, winner) };
            node /= 2;
        }
        self.winner = winner;
    }
}

/// The entries of several runs, of each name the newest.
pub(crate) struct Merge {
    /// From the newest run to the oldest.
    streams: Vec<Stream>,
    tournament: Tournament,
    /// A block could not be read: what follows would lack its entries, and show older ones.
    has_failed: bool,
}

impl Merge {
    /// Merges all entries.
    pub(crate) fn all(sources: Sources<'_>, chunk_bytes: usize) -> Result<Self> {
        let first = Name::new(Scope::from_raw(0), Hash96::MIN);
        let last = Name::new(Scope::from_raw(u64::MAX), Hash96::MAX);
        Self::between(sources, chunk_bytes, first, last)
    }

    /// Merges the entries between two names, both included.
    pub(crate) fn between(
        sources: Sources<'_>,
        chunk_bytes: usize,
        first: Name,
        last: Name,
    ) -> Result<Self> {
        let unwritten = sources.unwritten.map(|unwritten| unwritten.stream(first, last));
        let overlapping = sources.runs.iter().filter(|run| run.trailer.last >= first);
        let written = overlapping.map(|run| RunStream::new(run.clone(), chunk_bytes, first, last));
        let streams = unwritten.map(|stream| Ok(Stream::Unwritten(stream))).into_iter();
        let streams: Vec<Stream> = streams
            .chain(written.map(|stream| stream.map(Stream::Written)))
            .collect::<Result<_>>()?;
        let heads = streams.iter().enumerate().map(|(age, stream)| key_of(stream, age));
        let tournament = Tournament::new(&heads.collect::<Vec<_>>());
        Ok(Self { streams, tournament, has_failed: false })
    }

    fn advance(&mut self, stream: usize) -> Result<()> {
        self.streams[stream].advance()?;
        self.tournament.replace(stream, key_of(&self.streams[stream], stream));
        Ok(())
    }

    /// Returns the newest entry of the next name. After an error there is no next one.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        if self.has_failed {
            return Err(Error::Interrupted);
        }
        self.take().inspect_err(|_| self.has_failed = true)
    }

    fn take(&mut self) -> Result<Option<Entry>> {
        let head = self.tournament.winner;
        if head == SortKey::END {
            return Ok(None);
        }
        let entry = self.streams[head.number() as usize].head().copied();
        let mut next = head;
        while next.has_name_of(head) && next != SortKey::END {
            self.advance(next.number() as usize)?;
            next = self.tournament.winner;
        }
        Ok(entry)
    }
}
