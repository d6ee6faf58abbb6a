//! Where the records of an image are, as far as that is known, and one of them.
//!
//! An image with a footer of version 2 has groups, each of which is read by itself. Of others (no
//! footer yet, version 1), and of those that have blocks above the durable LSN, the whole block is
//! read: only its header says whether it is durable.

use base::{Lsn, Record};
use env::{Disk, File};

use crate::error::Result;
use crate::format::groups::Groups;
use crate::format::record;
use crate::read::block_index::BlockIndex;
use crate::read::group_read::{GroupRead, read_groups};
use crate::read::scan::{Block, SegmentFile};

/// A record that was found by its address.
pub struct FoundRecord {
    body: Vec<u8>,
}

impl FoundRecord {
    /// A record with this body, if that is what it is.
    pub(crate) fn of(body: &[u8]) -> std::result::Result<Self, &'static str> {
        record::decode_body(body)?;
        Ok(Self { body: body.to_vec() })
    }

    /// What it says.
    ///
    /// # Panics
    /// Never: it was decoded before.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        record::decode_body(&self.body).expect("it was decoded when it was found")
    }
}

/// Where an image is read from.
pub(crate) struct Source<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) file: &'a dyn File,
    pub(crate) image: &'a SegmentFile,
    /// Blocks above this one are not shown.
    pub(crate) durable: Lsn,
    /// The last block that the image must have.
    pub(crate) last_block: Lsn,
}

/// See the file's top.
pub(crate) enum Places {
    Unknown,
    Groups(Groups),
    Blocks(BlockIndex),
}

impl Places {
    /// How much is known.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Groups(groups) => groups.groups.len(),
            Self::Blocks(index) => index.len(),
        }
    }

    /// The record of the image with this ordinal, which [`SegmentFile::may_have`] it; `None` if it
    /// is not durable.
    pub(crate) fn find(
        &mut self,
        source: &Source<'_>,
        group: &mut GroupRead,
        ordinal: u32,
    ) -> Result<Option<FoundRecord>> {
        let Source { disk, file, image, last_block, .. } = *source;
        self.learn(source)?;
        match self {
            Self::Groups(groups) => {
                let body = group.body(disk, file, image, groups, ordinal)?;
                FoundRecord::of(body).map(Some).map_err(|what| image.corrupt(0, what))
            }
            Self::Blocks(index) => {
                let found = in_its_block(file, image, index, ordinal)?;
                match index.damage(last_block).filter(|_| found.is_none()) {
                    // The record may be behind it, and durable.
                    Some(offset) => Err(image.corrupt(offset, "a block's header is damaged")),
                    None => Ok(found),
                }
            }
            Self::Unknown => Ok(None),
        }
    }

    /// The groups of the image, if it has any and all of it is durable.
    pub(crate) fn groups(&mut self, source: &Source<'_>) -> Result<Option<&Groups>> {
        let Source { file, image, durable, .. } = *source;
        let is_durable = image.footer.as_ref().is_some_and(|footer| footer.max_lsn <= durable);
        if is_durable
            && !matches!(self, Self::Groups(_))
            && let Some(groups) = read_groups(file, image)?
        {
            *self = Self::Groups(groups);
        }
        match self {
            Self::Groups(groups) => Ok(Some(groups)),
            Self::Unknown | Self::Blocks(_) => Ok(None),
        }
    }

    /// Makes the place of every record known that is durable.
    fn learn(&mut self, source: &Source<'_>) -> Result<()> {
        let Source { file, image, durable, .. } = *source;
        self.groups(source)?;
        match self {
            Self::Groups(_) => Ok(()),
            Self::Blocks(index) => index.extend(file, image, durable),
            Self::Unknown => {
                let mut index = BlockIndex::default();
                index.extend(file, image, durable)?;
                *self = Self::Blocks(index);
                Ok(())
            }
        }
    }
}

/// The record with this ordinal, by way of the whole block.
fn in_its_block(
    file: &dyn File,
    image: &SegmentFile,
    index: &BlockIndex,
    ordinal: u32,
) -> Result<Option<FoundRecord>> {
    let Some(offset) = index.find(ordinal) else { return Ok(None) };
    let block = Block::read(file, image, offset)?;
    find_in(&block, ordinal).map_err(|what| image.corrupt(offset, what))
}

fn find_in(block: &Block, wanted: u32) -> std::result::Result<Option<FoundRecord>, &'static str> {
    for body in block.bodies() {
        let (ordinal, _, body) = body?;
        if ordinal == wanted {
            return FoundRecord::of(body).map(Some);
        }
        if ordinal > wanted {
            break;
        }
    }
    Ok(None)
}
