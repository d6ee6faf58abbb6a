//! A run that can be read: its fences in memory, its filter from some time on, its blocks on disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base::checksum::crc32c_append;
use base::{Lsn, SegmentId};
use env::{Access, Disk, File};

use crate::block::{Block, Damage};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::filter::{LINE_BYTES, Probe};
use crate::name::{Entry, Name};
use crate::run_format::{
    FENCE_BYTES, Fences, HEADER_BYTES, Header, Level, SEGMENT_BYTES, TRAILER_BYTES, Trailer,
    decode_dictionary,
};

/// What the manifest says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunInfo {
    /// The number of the run, never used twice in the life of a manifest.
    pub id: u64,
    /// How far down it is.
    pub level: Level,
    /// The run knows the blocks of the log after this one,
    pub after: Lsn,
    /// and up to this one.
    pub up_to: Lsn,
    /// The names in it, with those that are gone.
    pub entries: u64,
    /// The bytes of its file.
    pub bytes: u64,
    /// The CRC of its trailer.
    pub trailer_crc: u32,
}

impl RunInfo {
    /// The path of the run's file.
    pub(crate) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(file_name(self.id))
    }
}

/// The name of a run's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:010}.run")
}

/// A run that can be read.
pub(crate) struct Run {
    pub(crate) info: RunInfo,
    pub(crate) path: PathBuf,
    file: Box<dyn File>,
    pub(crate) header: Header,
    pub(crate) trailer: Trailer,
    /// The CRC that begins those of all blocks and parts.
    seed: u32,
    pub(crate) dictionary: Vec<SegmentId>,
    pub(crate) fences: Fences,
    filter: OnceLock<Vec<u8>>,
}

impl Run {
    /// Opens a run and verifies all of it but filter and blocks.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        database: [u8; 16],
        info: RunInfo,
    ) -> Result<Self> {
        let path = info.path(dir);
        let file = match disk.open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupt(
                    &path,
                    0,
                    "the manifest names this run, and it is gone",
                ));
            }
            opened => opened.map_err(Error::io(&path, "open"))?,
        };
        let bytes = file.len().map_err(Error::io(&path, "measure"))?;
        let trailer_at = bytes.checked_sub(TRAILER_BYTES as u64);
        let (Some(trailer_at), true) = (trailer_at, bytes == info.bytes) else {
            return Err(Error::corrupt(&path, bytes, "another length than the manifest says"));
        };
        let mut header = [0; HEADER_BYTES];
        read(&*file, &path, &mut header, 0)?;
        let mut trailer = [0; TRAILER_BYTES];
        read(&*file, &path, &mut trailer, trailer_at)?;
        let header_crc = Header::crc(&header);
        let header = Header::decode(&header, &path)?;
        let is_other = header.database != database
            || (header.id, header.level) != (info.id, info.level)
            || (header.after, header.up_to) != (info.after, info.up_to);
        if is_other {
            return Err(Error::corrupt(&path, 16, "another run than the manifest names"));
        }
        let corrupt = |(offset, what)| Error::corrupt(&path, trailer_at + offset, what);
        if Trailer::crc(&trailer) != info.trailer_crc {
            return Err(corrupt((8, "another trailer than the manifest names")));
        }
        let trailer = Trailer::decode(&trailer).map_err(corrupt)?;
        if trailer.header_crc != header_crc || trailer.entries != info.entries {
            return Err(corrupt((12, "header, trailer and manifest disagree")));
        }
        if trailer.file_bytes != bytes || trailer.end(header.block_bytes) != Some(bytes) {
            return Err(corrupt((84, "parts that do not add up to the file")));
        }
        let at = trailer.dictionary_at(header.block_bytes);
        let len = trailer.filter_at(header.block_bytes) - at;
        let len = usize::try_from(len).map_err(|_| corrupt((32, "more than fits in memory")))?;
        let mut parts = vec![0; len];
        read(&*file, &path, &mut parts, at)?;
        Self::assemble(info, path, file, header, trailer, header_crc, &parts)
    }

    /// Creates a run of a file and its parts: `parts` is the dictionary and the fences.
    pub(crate) fn assemble(
        info: RunInfo,
        path: PathBuf,
        file: Box<dyn File>,
        header: Header,
        trailer: Trailer,
        seed: u32,
        parts: &[u8],
    ) -> Result<Self> {
        let (dictionary_at, fences_at) =
            (trailer.dictionary_at(header.block_bytes), trailer.fences_at(header.block_bytes));
        let (dictionary, fences) = parts.split_at(trailer.segments as usize * SEGMENT_BYTES);
        debug_assert_eq!(fences.len(), trailer.blocks as usize * FENCE_BYTES);
        if crc32c_append(seed, dictionary) != trailer.dictionary_crc {
            return Err(Error::corrupt(&path, dictionary_at, "the dictionary's checksum"));
        }
        if crc32c_append(seed, fences) != trailer.fences_crc {
            return Err(Error::corrupt(&path, fences_at, "the fences' checksum"));
        }
        let dictionary = decode_dictionary(dictionary)
            .map_err(|what| Error::corrupt(&path, dictionary_at, what))?;
        let fences = Fences::decode(fences, &trailer)
            .map_err(|what| Error::corrupt(&path, fences_at, what))?;
        let filter = OnceLock::new();
        Ok(Self { info, path, file, header, trailer, seed, dictionary, fences, filter })
    }

    /// The bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.header.block_bytes as usize
    }

    /// The number of blocks.
    pub(crate) const fn blocks(&self) -> usize {
        self.fences.len()
    }

    /// Where a block is in the file.
    pub(crate) fn block_at(&self, block: usize) -> u64 {
        (block as u64 + 1) * u64::from(self.header.block_bytes)
    }

    fn damaged(&self, block: usize, what: Damage) -> Error {
        Error::corrupt(&self.path, self.block_at(block), what)
    }

    /// The only block in which the name can be, unless fences or filter exclude it.
    pub(crate) fn candidate(&self, name: Name, probe: Probe) -> Option<usize> {
        if name > self.trailer.last {
            return None;
        }
        let block = self.fences.block_of(name)?;
        let is_excluded = self
            .filter
            .get()
            .is_some_and(|filter| !probe.may_be_in(&filter[self.fences.filter_of(block)]));
        (!is_excluded).then_some(block)
    }

    /// Looks for a name in a block from the cache: `None` if it is not there.
    pub(crate) fn find_cached(
        &self,
        cache: &BlockCache,
        block: usize,
        name: Name,
    ) -> Option<Result<Option<Entry>>> {
        let bytes = cache.get(self.info.id, number(block))?;
        Some(self.find_in(&bytes, block, name))
    }

    /// Announces that a block will be read, unless it is in the cache.
    pub(crate) fn fetch_ahead(&self, cache: &BlockCache, block: usize) {
        if cache.get(self.info.id, number(block)).is_none() {
            self.file.fetch_ahead(self.block_at(block), u64::from(self.header.block_bytes));
        }
    }

    /// Looks for a name in a block, from the cache or from the disk.
    pub(crate) fn find(
        &self,
        cache: &BlockCache,
        block: usize,
        name: Name,
    ) -> Result<Option<Entry>> {
        if let Some(found) = self.find_cached(cache, block, name) {
            return found;
        }
        let mut bytes = vec![0; self.block_bytes()].into_boxed_slice();
        read(&*self.file, &self.path, &mut bytes, self.block_at(block))?;
        self.verified(&bytes, block)?;
        let found = self.find_in(&bytes, block, name);
        cache.insert(self.info.id, number(block), bytes);
        found
    }

    fn find_in(&self, bytes: &[u8], block: usize, name: Name) -> Result<Option<Entry>> {
        Block::parse(bytes, self.block_bytes())
            .and_then(|parsed| parsed.find(name, &self.dictionary))
            .map_err(|what| self.damaged(block, what))
    }

    /// Verifies a block, its checksum and that it begins where its fence says.
    pub(crate) fn verified<'a>(&self, bytes: &'a [u8], block: usize) -> Result<Block<'a>> {
        let parsed = Block::verify(bytes, self.block_bytes(), self.seed)
            .map_err(|what| self.damaged(block, what))?;
        if parsed.first() != self.fences.first(block) {
            return Err(self.damaged(block, "another first name than its fence has"));
        }
        Ok(parsed)
    }

    /// Reads the block again that has this byte of the file, and verifies all of it.
    ///
    /// # Errors
    /// Damage, also where there is no block; or the error of the disk.
    pub(crate) fn check_at(&self, offset: u64) -> Result<()> {
        let block = (offset / u64::from(self.header.block_bytes)).checked_sub(1);
        let block = block.and_then(|block| usize::try_from(block).ok());
        let Some(block) = block.filter(|block| *block < self.blocks()) else {
            return Err(Error::corrupt(&self.path, offset, "behind the blocks"));
        };
        let mut bytes = Vec::new();
        self.read_blocks(block, 1, &mut bytes)?;
        let decoded = self.verified(&bytes, block)?;
        let decoded = decoded.decode(&self.dictionary, &mut Vec::new());
        decoded.map_err(|what| self.damaged(block, what))
    }

    /// Reads blocks that follow one another, not through the cache, and not verified.
    pub(crate) fn read_blocks(&self, first: usize, count: usize, into: &mut Vec<u8>) -> Result<()> {
        let len = count * self.block_bytes();
        into.resize(len, 0);
        read(&*self.file, &self.path, into, self.block_at(first))
    }

    /// Reads bytes of the file, which ends behind them or later.
    pub(crate) fn read_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        read(&*self.file, &self.path, into, at)
    }

    /// Begins to load the filter, unless it is in memory.
    pub(crate) fn begin_loading_filter(self: &Arc<Self>) -> Option<FilterLoad> {
        self.filter.get().is_none().then(|| FilterLoad { run: self.clone(), filter: Vec::new() })
    }

    /// Takes the filter that was just written.
    pub(crate) fn set_filter(&self, filter: Vec<u8>) {
        // Another thread can only have set the same.
        let _same = self.filter.set(filter);
    }

    /// The bytes of the filter, if it is in memory.
    pub(crate) fn filter(&self) -> Option<&[u8]> {
        self.filter.get().map(Vec::as_slice)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.info.fmt(f)
    }
}

/// A filter being loaded, some of it in each step. Until it is complete, probes read blocks.
#[derive(Debug)]
pub(crate) struct FilterLoad {
    run: Arc<Run>,
    filter: Vec<u8>,
}

impl FilterLoad {
    /// Reads up to so many bytes; whether the filter is there.
    pub(crate) fn step(&mut self, bytes_max: usize) -> Result<bool> {
        let Run { header, trailer, .. } = &*self.run;
        let at = trailer.filter_at(header.block_bytes);
        let len = usize::try_from(trailer.filter_lines).expect("less than the file") * LINE_BYTES;
        let from = self.filter.len();
        let to = len.min(from + bytes_max);
        self.filter.resize(to, 0);
        if let Err(error) = self.run.read_at(&mut self.filter[from..], at + from as u64) {
            self.filter.truncate(from);
            return Err(error);
        }
        if to < len {
            return Ok(false);
        }
        let filter = std::mem::take(&mut self.filter);
        if crc32c_append(self.run.seed, &filter) != trailer.filter_crc {
            return Err(Error::corrupt(&self.run.path, at, "the filter's checksum"));
        }
        self.run.set_filter(filter);
        Ok(true)
    }
}

/// The number of a block as the cache has it.
fn number(block: usize) -> u32 {
    u32::try_from(block).expect("the trailer counts blocks with 32 bits")
}

fn read(file: &dyn File, path: &Path, into: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(into, at).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, at, "the file ends here"),
        _ => Error::io(path, "read")(error),
    })
}
