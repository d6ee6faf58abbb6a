//! Writes a run: entries in the order of their names, then its dictionary, fences, filter, trailer.
//!
//! The file has its name from the beginning, and is no part of the index until the manifest names it,
//! which happens only after it and its name are durable. What a crash leaves is removed at the
//! next start. It is synced in portions, so that a merge of gigabytes never causes one long
//! sync that the log on the same disk would have to wait for.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::crc32c_append;
use base::{Lsn, SegmentId};
use env::{Disk, File};

use crate::block::BlockBuilder;
use crate::error::{Error, Result};
use crate::filter::{LINE_BYTES, Probe, lines_for};
use crate::name::{Entry, Name};
use crate::options::Options;
use crate::run::{Run, RunInfo};
use crate::run_format::{HEADER_BYTES, Header, Level, TRAILER_BYTES, Trailer, encode_fence};

/// The segments of a run, numbered in the order of their first entries.
#[derive(Debug)]
struct Dictionary {
    segments: Vec<SegmentId>,
    /// The index of a segment, by its last bits; nearly every question ends here.
    recent: Vec<(SegmentId, u32)>,
    indexes: HashMap<SegmentId, u32>,
}

impl Dictionary {
    const RECENT: usize = 4096;

    fn new() -> Self {
        Self {
            segments: Vec::new(),
            recent: vec![(SegmentId(0), 0); Self::RECENT],
            indexes: HashMap::new(),
        }
    }

    #[inline]
    fn index_of(&mut self, segment: SegmentId) -> u32 {
        let slot = segment.0 as usize % Self::RECENT;
        let (recent, index) = self.recent[slot];
        if recent == segment {
            return index;
        }
        let index = *self.indexes.entry(segment).or_insert_with(|| {
            self.segments.push(segment);
            u32::try_from(self.segments.len() - 1).expect("fewer than there are segments")
        });
        self.recent[slot] = (segment, index);
        index
    }
}

/// A run being written.
pub(crate) struct RunWriter {
    path: PathBuf,
    file: Box<dyn File>,
    header: Header,
    seed: u32,
    chunk_bytes: usize,
    sync_bytes: u64,
    builder: BlockBuilder,
    dictionary: Dictionary,
    fences: Vec<u8>,
    filter: Vec<u8>,
    entries: u64,
    gone: u64,
    blocks: u32,
    last: Option<Name>,
    /// What is not written yet, and where in the file it belongs.
    buffer: Vec<u8>,
    at: u64,
    /// What lies before is synced.
    synced: u64,
}

impl RunWriter {
    /// Creates the file. One of that name is what a crash or a failed attempt has left.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        header: Header,
        options: &Options,
    ) -> Result<Self> {
        let path = dir.join(crate::run::file_name(header.id));
        if disk.exists(&path).map_err(Error::io(&path, "look for"))? {
            disk.remove(&path).map_err(Error::io(&path, "remove"))?;
        }
        let file = disk.create(&path).map_err(Error::io(&path, "create"))?;
        let encoded = header.encode();
        let mut buffer = Vec::with_capacity(options.chunk_bytes + header.block_bytes as usize * 2);
        buffer.extend_from_slice(&encoded);
        buffer.resize(header.block_bytes as usize, 0);
        debug_assert!(buffer.len() > HEADER_BYTES);
        Ok(Self {
            path,
            file,
            header,
            seed: Header::crc(&encoded),
            chunk_bytes: options.chunk_bytes,
            sync_bytes: options.sync_bytes,
            builder: BlockBuilder::new(header.block_bytes as usize),
            dictionary: Dictionary::new(),
            fences: Vec::new(),
            filter: Vec::new(),
            entries: 0,
            gone: 0,
            blocks: 0,
            last: None,
            buffer,
            at: 0,
            synced: 0,
        })
    }

    /// Adds an entry. Names ascend.
    pub(crate) fn push(&mut self, entry: &Entry) -> Result<()> {
        assert!(self.last.is_none_or(|last| last < entry.name), "names ascend");
        let segment =
            entry.place().map_or(0, |place| self.dictionary.index_of(place.addr().segment()));
        if !self.builder.push(entry, segment) {
            self.end_block()?;
            assert!(self.builder.push(entry, segment), "an empty block has room");
        }
        self.last = Some(entry.name);
        self.entries += 1;
        self.gone += u64::from(entry.place().is_none());
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let names = self.builder.names();
        let count = u16::try_from(names.len()).expect("a quarter of the block's bytes");
        let from = self.filter.len();
        self.filter.resize(from + lines_for(count.into()) * LINE_BYTES, 0);
        for (i, name) in names.enumerate() {
            if i == 0 {
                encode_fence(name, count, &mut self.fences);
            }
            Probe::new(name).add_to(&mut self.filter[from..]);
        }
        self.builder.encode(self.seed, &mut self.buffer);
        self.blocks = self.blocks.checked_add(1).expect("2^32 blocks are 16 terabytes");
        if self.buffer.len() >= self.chunk_bytes {
            self.write_out(0..self.buffer.len())?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes this part of the buffer, and syncs if that is due.
    fn write_out(&mut self, part: Range<usize>) -> Result<()> {
        let written = self.file.write_all_at(&self.buffer[part.clone()], self.at);
        written.map_err(Error::io(&self.path, "write"))?;
        self.at += part.len() as u64;
        if self.at - self.synced >= self.sync_bytes { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io(&self.path, "sync"))?;
        self.synced = self.at;
        Ok(())
    }

    /// Ends the blocks: what is left is in memory, to be written by [`Ending::step`].
    pub(crate) fn end(mut self) -> Result<Ending> {
        if !self.builder.is_empty() {
            self.end_block()?;
        }
        let last = self.last.expect("a run has entries");
        let mut dictionary = Vec::new();
        for segment in &self.dictionary.segments {
            dictionary.extend_from_slice(&segment.0.to_le_bytes());
        }
        let segments = u32::try_from(self.dictionary.segments.len()).expect("32-bit numbers");
        let mut trailer = Trailer {
            header_crc: self.seed,
            entries: self.entries,
            gone: self.gone,
            blocks: self.blocks,
            segments,
            dictionary_crc: crc32c_append(self.seed, &dictionary),
            fences_crc: crc32c_append(self.seed, &self.fences),
            filter_crc: crc32c_append(self.seed, &self.filter),
            filter_lines: (self.filter.len() / LINE_BYTES) as u64,
            last,
            file_bytes: 0,
        };
        let end = trailer.end(self.header.block_bytes);
        trailer.file_bytes = end.expect("the parts are in memory or written");
        let parts_at = self.buffer.len();
        self.buffer.append(&mut dictionary);
        self.buffer.append(&mut self.fences);
        let parts = self.buffer[parts_at..].to_vec();
        self.buffer.extend_from_slice(&self.filter);
        let encoded = trailer.encode();
        self.buffer.extend_from_slice(&encoded);
        debug_assert_eq!(self.at + self.buffer.len() as u64, trailer.file_bytes);
        debug_assert_eq!(encoded.len(), TRAILER_BYTES);
        let trailer_crc = Trailer::crc(&encoded);
        Ok(Ending { writer: self, written: 0, trailer, trailer_crc, parts })
    }
}

/// A run of which only the end remains to be written.
pub(crate) struct Ending {
    writer: RunWriter,
    /// How much of the writer's buffer is written.
    written: usize,
    trailer: Trailer,
    trailer_crc: u32,
    /// The dictionary and the fences.
    parts: Vec<u8>,
}

impl Ending {
    /// Writes a chunk; whether everything is written and synced.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let writer = &mut self.writer;
        if self.written == writer.buffer.len() {
            writer.sync()?;
            return Ok(true);
        }
        let to = writer.buffer.len().min(self.written + writer.chunk_bytes);
        writer.write_out(self.written..to)?;
        self.written = to;
        Ok(false)
    }

    /// Makes the file's name durable and returns the run. REQUIRES: [`Ending::step`] said so.
    pub(crate) fn finish(self, disk: &dyn Disk, dir: &Path) -> Result<Arc<Run>> {
        let Self { writer, trailer, trailer_crc, parts, .. } = self;
        assert_eq!(writer.synced, trailer.file_bytes, "everything is written and synced");
        disk.sync_dir(dir).map_err(Error::io(dir, "sync"))?;
        let RunWriter { path, file, header, seed, filter, .. } = writer;
        let info = RunInfo {
            id: header.id,
            level: header.level,
            after: header.after,
            up_to: header.up_to,
            entries: trailer.entries,
            bytes: trailer.file_bytes,
            trailer_crc,
        };
        let run = Run::assemble(info, path, file, header, trailer, seed, &parts)?;
        run.set_filter(filter);
        Ok(Arc::new(run))
    }
}

/// Where the entries of a new run go: a file that is created with the first of them.
pub(crate) enum Output {
    /// No entry has come.
    Empty,
    /// Entries are coming.
    Writing(Box<RunWriter>),
    /// The last entry has come.
    Ending(Box<Ending>),
}

/// How far the end of an output is.
pub(crate) enum Ended {
    /// There is more to write.
    NotYet,
    /// The run is durable, or there was no entry.
    Yes(Option<Arc<Run>>),
}

impl Output {
    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: &Entry, place: &Target<'_>, level: Level) -> Result<()> {
        if let Self::Empty = self {
            let header = place.header(level);
            let writer = RunWriter::create(place.disk, place.dir, header, place.options)?;
            *self = Self::Writing(Box::new(writer));
        }
        let Self::Writing(writer) = self else { unreachable!("no entry comes after the last") };
        writer.push(entry)
    }

    /// Writes some of what remains after the last entry.
    pub(crate) fn end(&mut self, disk: &dyn Disk, dir: &Path) -> Result<Ended> {
        match std::mem::replace(self, Self::Empty) {
            Self::Empty => return Ok(Ended::Yes(None)),
            Self::Writing(writer) => *self = Self::Ending(Box::new(writer.end()?)),
            Self::Ending(mut ending) => {
                if ending.step()? {
                    return Ok(Ended::Yes(Some(ending.finish(disk, dir)?)));
                }
                *self = Self::Ending(ending);
            }
        }
        Ok(Ended::NotYet)
    }
}

/// What a new run is and where it goes.
pub(crate) struct Target<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dir: &'a Path,
    pub(crate) options: &'a Options,
    pub(crate) database: [u8; 16],
    pub(crate) id: u64,
    pub(crate) after: Lsn,
    pub(crate) up_to: Lsn,
}

impl Target<'_> {
    fn header(&self, level: Level) -> Header {
        Header {
            database: self.database,
            id: self.id,
            level,
            block_bytes: self.options.block_bytes,
            after: self.after,
            up_to: self.up_to,
        }
    }
}
