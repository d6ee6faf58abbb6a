//! Reading a log while it is written, compacted and healed.
//!
//! ```text
//!   record(7:130) ─► images of segment 7 ─► the block that has ordinal 130 ─► CRC ─► the record
//!   blocks(from)  ─► images of all ─► merge by LSN ─► each block once, up to the durable LSN
//! ```
//!
//! 1. What is not durable is not there: neither a record nor a block above the durable LSN is shown,
//!    because a crash could take it back.
//! 2. The answer is right or an error. Everything that is given out has been compared with its
//!    checksum, on a handle of a file whose header is the one that was looked up.
//! 3. A file may be replaced at any moment. The reader sees that by a name that is gone, by another
//!    header under the name, or by a file that ends too early because it has no name any more and is
//!    being given back; it then looks the segment up again. Addresses and LSNs stay, so it goes on
//!    where it was.
//! 4. It takes no lock that the executor waits for, and keeps no file from being replaced: what a
//!    compaction has dropped may be gone before it is read. A mark keeps it.
//! 5. It holds the log's lock with the log's threads: another process, or this one, opens the log when
//!    its readers and marks are dropped, too.

use std::collections::HashMap;
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, SegmentId};
use env::Access;

use crate::error::{Error, IoContext, Result};
use crate::format::record;
use crate::read::block_index::BlockIndex;
use crate::read::blocks::Blocks;
use crate::read::images::{self, ATTEMPTS_MAX};
use crate::read::scan::{Block, SegmentFile};
use crate::shared::device::Shared;

/// So many blocks are known by their place before the places are forgotten: 16 bytes each.
const INDEXED_BLOCKS_MAX: usize = 1 << 20;

/// A record that was found by its address.
pub struct FoundRecord {
    /// Its block.
    pub lsn: Lsn,
    body: Vec<u8>,
}

impl FoundRecord {
    /// What it says.
    ///
    /// # Panics
    /// Never: it was decoded before.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        record::decode_body(&self.body).expect("it was decoded when it was found")
    }
}

/// See the file's top.
pub struct Reader {
    shared: Arc<Shared>,
    /// Segments that were looked up, with what is known of their images.
    segments: HashMap<SegmentId, Vec<Located>>,
}

struct Located {
    image: SegmentFile,
    index: BlockIndex,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, segments: HashMap::new() }
    }

    /// Returns the record at `addr`; `None` if a compaction has dropped it, or it is not durable.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged.
    pub fn record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>> {
        let mut attempt = 1;
        loop {
            let found = self.try_record(addr);
            match found {
                // Where it was known to be something else may be by now.
                Err(_) if attempt < ATTEMPTS_MAX => {
                    self.segments.remove(&addr.segment());
                    attempt += 1;
                }
                found => return found,
            }
        }
    }

    /// Reads the blocks from `from` on up to the last one that is durable now, in order. They say
    /// everything that has changed since the block before `from`, deletions included, or are refused
    /// by [`Blocks::next`]: compactions drop deletions after a while. A mark's state goes on with the
    /// block behind it, an empty state with block 1.
    ///
    /// While compactions go on, what comes of them is the state at [`Blocks::end`] but for entries that
    /// later blocks have changed: those may be missing. With the blocks of the next call they come.
    #[must_use]
    pub fn blocks(&self, from: Lsn) -> Blocks {
        Blocks::new(Arc::clone(&self.shared), from)
    }

    fn try_record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>> {
        let durable = self.shared.durability.durable_lsn();
        self.locate(addr.segment())?;
        let located = self.segments.get_mut(&addr.segment()).expect("located above");
        for Located { image, index } in located {
            let ordinal = addr.ordinal();
            if let Some(footer) = &image.footer
                && !footer.survivors.contains(ordinal)
            {
                continue;
            }
            let file = self.shared.disk.open(&image.path, Access::Read).at(&image.path, "open")?;
            image.check_same(&*file)?;
            index.extend(&*file, image, durable)?;
            let Some(offset) = index.find(ordinal) else { continue };
            let block = Block::read(&*file, image, offset)?;
            if let Some(found) =
                find_in(&block, ordinal).map_err(|what| image.corrupt(offset, what))?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn locate(&mut self, segment: SegmentId) -> Result<()> {
        if self.segments.contains_key(&segment) {
            // A segment without any image may have been too new; one with may have got a part.
            let located = &self.segments[&segment];
            let is_growing = located.iter().any(|located| located.image.footer.is_none());
            if !located.is_empty() && !is_growing {
                return Ok(());
            }
        }
        let indexed: usize =
            self.segments.values().flatten().map(|located| located.index.len()).sum();
        if indexed > INDEXED_BLOCKS_MAX {
            self.segments.clear();
        }
        let images = images::find_segment(&self.shared, segment)?;
        let mut known = self.segments.remove(&segment).unwrap_or_default();
        let located = images.into_iter().map(|image| {
            let is_same = |known: &Located| {
                known.image.path == image.path && known.image.header == image.header
            };
            let at = known.iter().position(is_same);
            let index = at.map(|at| known.swap_remove(at).index).unwrap_or_default();
            Located { image, index }
        });
        let located: Vec<Located> = located.collect();
        self.segments.insert(segment, located);
        Ok(())
    }
}

fn find_in(block: &Block, wanted: u32) -> std::result::Result<Option<FoundRecord>, &'static str> {
    for body in block.bodies() {
        let (ordinal, _, body) = body?;
        if ordinal == wanted {
            record::decode_body(body)?;
            return Ok(Some(FoundRecord { lsn: block.header.lsn, body: body.to_vec() }));
        }
        if ordinal > wanted {
            break;
        }
    }
    Ok(None)
}

/// A block of the log, with all of its records.
pub struct LogBlock {
    pub(crate) block: Block,
    pub(crate) source: Arc<SegmentFile>,
}

impl LogBlock {
    /// Its number.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.block.header.lsn
    }

    /// The wall-clock time of its sealing, in Unix milliseconds.
    #[must_use]
    pub const fn time_ms(&self) -> i64 {
        self.block.header.time_ms
    }

    /// Its records with their addresses, in order. Those that a compaction has dropped are missing.
    pub fn records(&self) -> impl Iterator<Item = Result<(RecordAddr, Record<'_>)>> {
        self.block.bodies().map(|body| {
            let corrupt = |what: &str| self.corrupt(what);
            let (ordinal, _, body) = body.map_err(corrupt)?;
            let record = record::decode_body(body).map_err(corrupt)?;
            Ok((RecordAddr::new(self.block.header.segment, ordinal), record))
        })
    }

    fn corrupt(&self, what: &str) -> Error {
        self.source.corrupt(self.block.offset, what)
    }
}
