//! The blocks of one segment, from all the files that have some of them.
//!
//! A segment is in one file, but for what was written to another device when its own had failed. A
//! block may be there twice then; each is given out once.

use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::error::Result;
use crate::read::reader::LogBlock;
use crate::read::scan::{Block, BlockCursor, Next, SegmentFile};

/// How much of a file is read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// The parts of a segment, merged by LSN.
pub(crate) struct Parts(Vec<Part>);

struct Part {
    cursor: BlockCursor,
    source: Arc<SegmentFile>,
    next: Option<Block>,
    /// The last block that must be there, if the image has no footer.
    last_block: Lsn,
    last: Lsn,
}

impl Parts {
    /// Opens the files of these images of a segment. One that was replaced meanwhile is an error, and
    /// so is one without a footer that ends before its `last_block`.
    pub(crate) fn open(
        disk: &dyn Disk,
        images: Vec<SegmentFile>,
        last_block: impl Fn(&SegmentFile) -> Lsn,
    ) -> Result<Self> {
        let parts = images.into_iter().map(|image| {
            let last_block = last_block(&image);
            Part::open(disk, image, last_block)
        });
        Ok(Self(parts.collect::<Result<_>>()?))
    }

    /// The next block above `last` and not above `end`; `None` when there is none.
    pub(crate) fn next(&mut self, last: Lsn, end: Lsn) -> Result<Option<LogBlock>> {
        loop {
            let heads = self.0.iter().enumerate();
            let lsns = heads.filter_map(|(at, part)| Some((part.next.as_ref()?.header.lsn, at)));
            let Some((lsn, at)) = lsns.min().filter(|(lsn, _)| *lsn <= end) else {
                return Ok(None);
            };
            let part = &mut self.0[at];
            let block = part.next.take().expect("it has the smallest LSN");
            part.advance()?;
            // A block may be in two parts; and after a file was replaced, what comes first is known.
            if lsn > last {
                return Ok(Some(LogBlock { block, source: Arc::clone(&part.source) }));
            }
        }
    }
}

impl Part {
    fn open(disk: &dyn Disk, image: SegmentFile, last_block: Lsn) -> Result<Self> {
        let cursor = BlockCursor::open(disk, image.clone(), CHUNK_BYTES)?;
        cursor.check_same()?;
        let (source, next, last) = (Arc::new(image), None, Lsn::ZERO);
        let mut part = Self { cursor, source, next, last_block, last };
        part.advance()?;
        Ok(part)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = match self.cursor.next()? {
            Next::Block(block) => Some(block),
            Next::Tail(tail) if self.last < self.last_block => {
                let what = tail.what.unwrap_or("blocks that were durable are missing");
                return Err(self.source.corrupt(tail.offset, what));
            }
            Next::End | Next::Tail(_) => None,
        };
        self.last = self.next.as_ref().map_or(self.last, |block| block.header.lsn);
        Ok(())
    }
}
