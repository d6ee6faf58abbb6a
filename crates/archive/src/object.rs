//! An object as bytes: `docs/format/archive.md`.
//!
//! ```text
//!   header (128) · block · block · …        a block: the log's header of 64 bytes, and its records
//!   header (128) · frame · frame · …        the same, compressed and encrypted: `frames`
//! ```
//!
//! Every byte is under a checksum: the header's own, each block's header's, each block's records'; the length of all is in the header. What is
//! read is compared with all of them, with the name that it was found under, and with what the header counts.

use base::bytes::{array_at, u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use base::{Lsn, Record, RecordKind};
use redo::block::{self, BlockHeader, COMPACTED};
use redo::{Id, LogBlock, record};

use crate::error::{Error, NewerWhat, Result, TargetError};
use crate::frames::{COMPRESSED_BLOCK_BYTES_MAX, Encoding, Frames};
use crate::key::Keys;
use crate::name::{Fill, Name};
use crate::piece::Piece;
use crate::target::{Object, Target};

/// The length of an object's header.
pub const HEADER_BYTES: usize = 128;

const MAGIC: &[u8; 8] = b"INDELARC";
const VERSION: u32 = 1;

/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// What an object's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The database.
    pub database: Id,
    /// The name that it is under.
    pub name: Name,
    /// How what is behind the header is encoded.
    pub encoding: Encoding,
    /// The earliest time of a block, in Unix milliseconds; of a complete copy, when its mark was there.
    pub time_min_ms: i64,
    /// The latest.
    pub time_max_ms: i64,
    /// How many blocks it has; of a complete copy, all its objects together. Of this and the next two a claim has none.
    pub blocks: u64,
    /// How many records.
    pub records: u64,
    /// The length of the blocks behind the header, as they are before they are encoded.
    pub bytes: u64,
    /// Which kinds of records there are: bit k for kind k below 32, bit 32 + k for kind 128 + k.
    pub kinds: u64,
    /// The checksum of the records of the block before the first one, 0 if that is not known.
    pub before_crc: u32,
    /// That of the last block's.
    pub last_crc: u32,
}

/// The bit of a kind in [`Header::kinds`].
const fn kind_bit(kind: RecordKind) -> u64 {
    let number = kind as u32;
    1 << if number < 32 { number } else { 32 + number - 128 }
}

/// The bits of a record in [`Header::kinds`]: its kind's, and that of small hashes with fields that expire if it is of
/// a large one, as a program that does not know those would let the fields live for ever.
const fn kind_bits(record: &Record<'_>) -> u64 {
    let expiring = match record.has_expiring_fields() {
        true => kind_bit(RecordKind::HashPackedExpiring),
        false => 0,
    };
    kind_bit(record.kind) | expiring
}

/// The bits of all kinds that this program knows.
fn known_kinds() -> u64 {
    RecordKind::ALL.into_iter().fold(0, |bits, kind| bits | kind_bit(kind))
}

impl Header {
    /// A header of an object that has nothing yet.
    #[must_use]
    pub const fn new(database: Id, name: Name) -> Self {
        Self {
            database,
            name,
            encoding: Encoding::Plain,
            time_min_ms: 0,
            time_max_ms: 0,
            blocks: 0,
            records: 0,
            bytes: 0,
            kinds: 0,
            before_crc: 0,
            last_crc: 0,
        }
    }

    /// Whether there may be a record of the kind.
    #[must_use]
    pub const fn may_have(&self, kind: RecordKind) -> bool {
        self.kinds & kind_bit(kind) != 0
    }

    /// Counts a block in, which comes last.
    fn add_block(&mut self, block: &BlockHeader) {
        self.add(&Self {
            time_min_ms: block.time_ms,
            time_max_ms: block.time_ms,
            blocks: 1,
            records: u64::from(block.record_count),
            last_crc: block.payload_crc,
            ..Self::new(self.database, self.name)
        });
    }

    /// Counts the blocks of another object in, which come last.
    fn add(&mut self, other: &Self) {
        let is_first = self.blocks == 0;
        let (min_ms, max_ms) =
            if is_first { (i64::MAX, i64::MIN) } else { (self.time_min_ms, self.time_max_ms) };
        self.time_min_ms = other.time_min_ms.min(min_ms);
        self.time_max_ms = other.time_max_ms.max(max_ms);
        self.blocks += other.blocks;
        self.records += other.records;
        self.kinds |= other.kinds;
        self.last_crc = other.last_crc;
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (kind, first, last, fill, index) = match self.name {
            Name::Writer { .. } => (1, Lsn::ZERO, Lsn::ZERO, 0, 0),
            Name::Log { first, last, .. } => (2, first, last, 0, 0),
            Name::Base { fill, index } => (3, fill.lsn, fill.lsn, fill.number, index),
            Name::Whole { fill, objects } => (4, fill.lsn, fill.lsn, fill.number, objects),
            Name::Begin { lsn, .. } => (5, lsn, lsn, 0, 0),
            Name::Thin { first, last, .. } => (6, first, last, 0, 0),
            Name::Tidier { .. } => (7, Lsn::ZERO, Lsn::ZERO, 0, 0),
            Name::Named { lsn, id, .. } => (8, lsn, lsn, id, 0),
            Name::Damaged { piece } => {
                let (first, last, fill, kind) = piece.in_header();
                (9, first, last, fill, kind)
            }
            Name::Config { lsn, number, .. } => (10, lsn, lsn, number, 0),
        };
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.database.0);
        put(32, &u32::to_le_bytes(kind));
        put(36, &self.encoding.number().to_le_bytes());
        put(40, &self.name.number().to_le_bytes());
        put(48, &first.0.to_le_bytes());
        put(56, &last.0.to_le_bytes());
        put(64, &self.time_min_ms.to_le_bytes());
        put(72, &self.time_max_ms.to_le_bytes());
        put(80, &self.blocks.to_le_bytes());
        put(88, &self.records.to_le_bytes());
        put(96, &self.bytes.to_le_bytes());
        put(104, &self.kinds.to_le_bytes());
        put(112, &fill.to_le_bytes());
        put(116, &index.to_le_bytes());
        if let Name::Thin { from, to, .. } = self.name {
            put(112, &from.0.to_le_bytes());
            put(120, &to.0.to_le_bytes());
        } else {
            put(120, &self.before_crc.to_le_bytes());
            put(124, &self.last_crc.to_le_bytes());
        }
        let crc = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header of the object found as `name` in the archive of `database`.
    ///
    /// # Errors
    /// When it is damaged, another object's, or of a newer program.
    pub fn decode(bytes: &[u8; HEADER_BYTES], database: Id, name: Name) -> Result<Self> {
        let damaged = |at, what| Error::Damaged { name, at, what };
        if &bytes[..8] != MAGIC {
            return Err(damaged(0, "it is no object of an archive"));
        }
        let (version, crc) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if crc != crc32c(&bytes[16..]) {
            // Of later formats the checksum begins with the version.
            let is_newer =
                version > VERSION && crc == crc32c_append(crc32c(&bytes[8..12]), &bytes[16..]);
            return Err(if is_newer {
                Error::Newer { name, what: NewerWhat::Format(version) }
            } else {
                damaged(12, "the checksum of its header is wrong")
            });
        }
        if version != VERSION {
            return Err(damaged(8, "the version of its header is damaged"));
        }
        let codec = u32_at(bytes, 36);
        let encoding =
            Encoding::of(codec).ok_or(Error::Newer { name, what: NewerWhat::Codec(codec) })?;
        let kinds = u64_at(bytes, 104);
        if kinds & !known_kinds() != 0 {
            let what = NewerWhat::Kinds(kinds & !known_kinds());
            return Err(Error::Newer { name, what });
        }
        let [first, last] = [48, 56].map(|at| Lsn(u64_at(bytes, at)));
        let (writer, number, index) = (u64_at(bytes, 40), u32_at(bytes, 112), u32_at(bytes, 116));
        let fill = Fill { lsn: first, writer, number };
        let said = match u32_at(bytes, 32) {
            1 => Name::Writer { writer },
            2 => Name::Log { first, last, writer },
            3 => Name::Base { fill, index },
            4 => Name::Whole { fill, objects: index },
            5 => Name::Begin { lsn: first, writer },
            6 => {
                let [from, to] = [112, 120].map(|at| Lsn(u64_at(bytes, at)));
                Name::Thin { first, last, from, to, tidier: writer }
            }
            7 => Name::Tidier { number: writer },
            8 => Name::Named { lsn: first, writer, id: number },
            9 => {
                let piece = Piece::of_header((first, last), (writer, number, index));
                Name::Damaged { piece: piece.ok_or(damaged(116, "it marks nothing"))? }
            }
            10 => Name::Config { lsn: first, writer, number },
            _ => return Err(damaged(32, "it is of no known kind")),
        };
        let is_thin = matches!(said, Name::Thin { .. });
        let header = Self {
            database: Id(array_at(bytes, 16)),
            name: said,
            encoding,
            time_min_ms: u64_at(bytes, 64).cast_signed(),
            time_max_ms: u64_at(bytes, 72).cast_signed(),
            blocks: u64_at(bytes, 80),
            records: u64_at(bytes, 88),
            bytes: u64_at(bytes, 96),
            kinds,
            before_crc: if is_thin { 0 } else { u32_at(bytes, 120) },
            last_crc: if is_thin { 0 } else { u32_at(bytes, 124) },
        };
        // A claim is its name, and a copy that is complete has nothing to compress.
        let is_encoded = match said {
            Name::Writer { .. }
            | Name::Tidier { .. }
            | Name::Begin { .. }
            | Name::Damaged { .. } => encoding == Encoding::Plain,
            Name::Whole { .. } => encoding != Encoding::Frames,
            Name::Log { .. }
            | Name::Base { .. }
            | Name::Thin { .. }
            | Name::Named { .. }
            | Name::Config { .. } => true,
        };
        if !is_encoded || header.encode() != *bytes {
            return Err(damaged(0, "its header says what none says"));
        }
        if (said, header.database) != (name, database) {
            return Err(damaged(16, "it is another object than its name says"));
        }
        Ok(header)
    }
}

/// Makes an object in memory.
pub struct Builder {
    header: Header,
    bytes: Vec<u8>,
}

impl Builder {
    /// An object of the log, which begins behind a block whose records have this checksum. Its name is known when it ends.
    #[must_use]
    pub fn log(database: Id, first: Lsn, writer: u64, before_crc: u32) -> Self {
        let name = Name::Log { first, last: Lsn::ZERO, writer };
        Self::of(Header { before_crc, ..Header::new(database, name) })
    }

    /// An object of a copy.
    #[must_use]
    pub fn base(database: Id, fill: Fill, index: u32) -> Self {
        Self::of(Header::new(database, Name::Base { fill, index }))
    }

    /// An object of blocks that were thinned out.
    pub(crate) fn thin(database: Id, name: Name) -> Self {
        Self::of(Header::new(database, name))
    }

    fn of(header: Header) -> Self {
        Self { header, bytes: vec![0; HEADER_BYTES] }
    }

    /// How long it is so far.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.blocks == 0
    }

    /// The last block of an object of the log.
    pub(crate) const fn last(&self) -> Lsn {
        match self.header.name {
            Name::Log { last, .. } => last,
            _ => Lsn::ZERO,
        }
    }

    /// Adds the blocks of another object of the log, which follow.
    pub(crate) fn append(&mut self, other: &Header, blocks: &[u8]) {
        self.bytes.extend_from_slice(blocks);
        self.header.add(other);
        if let (Name::Log { last, .. }, Name::Log { last: end, .. }) =
            (&mut self.header.name, other.name)
        {
            *last = end;
        }
    }

    /// Adds the next block of the log, as it is there.
    ///
    /// # Errors
    /// What is wrong with its records.
    pub fn put_block(&mut self, block: &LogBlock) -> std::result::Result<(), &'static str> {
        let mut rest = block.payload();
        while !rest.is_empty() {
            self.header.kinds |= kind_bits(&record::decode(&mut rest)?);
        }
        let header = block.header();
        self.put(header, block.payload());
        if let Name::Log { last, .. } = &mut self.header.name {
            *last = header.lsn;
        }
        Ok(())
    }

    /// Adds what was valid of a block.
    pub fn put_records<'a>(
        &mut self,
        (lsn, time_ms): (Lsn, i64),
        records: impl Iterator<Item = Record<'a>>,
    ) {
        let (mut payload, mut record_count) = (Vec::new(), 0);
        for record in records {
            self.header.kinds |= kind_bits(&record);
            record::encode(&mut payload, &record);
            record_count += 1;
        }
        let header = BlockHeader {
            payload_crc: crc32c(&payload),
            flags: COMPACTED,
            lsn,
            time_ms,
            payload_bytes: payload.len() as u64,
            record_count,
            first_ordinal: 0,
            segment: base::SegmentId(0),
            database_tag: self.header.database.tag(),
            durable_lsn: Lsn::ZERO,
        };
        self.put(&header, &payload);
    }

    fn put(&mut self, block: &BlockHeader, payload: &[u8]) {
        self.bytes.extend_from_slice(&block.encode());
        self.bytes.extend_from_slice(payload);
        self.header.add_block(block);
    }

    /// Ends one of blocks that were thinned out: the earliest time of those that there were, and that of the last one.
    pub(crate) fn finish_thin(mut self, (min_ms, last_ms): (i64, i64)) -> (Header, Vec<u8>) {
        (self.header.time_min_ms, self.header.time_max_ms) = (min_ms, last_ms);
        self.header.last_crc = 0;
        self.finish()
    }

    /// Ends it.
    #[must_use]
    pub fn finish(mut self) -> (Header, Vec<u8>) {
        self.header.bytes = (self.bytes.len() - HEADER_BYTES) as u64;
        self.bytes[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        (self.header, self.bytes)
    }
}

/// A block of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its header.
    pub header: BlockHeader,
    /// Its records, encoded.
    pub payload: Vec<u8>,
}

impl StoredBlock {
    /// Its records, which were decoded when it was read.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &self.payload[..];
        std::iter::from_fn(
            move || {
                if rest.is_empty() { None } else { record::decode(&mut rest).ok() }
            },
        )
    }
}

/// Reads an object from its beginning to its end.
pub struct ObjectReader {
    object: Box<dyn Object>,
    header: Header,
    /// If it is not there as it is.
    frames: Option<Box<Frames>>,
    /// Where the next block begins, and all of it ends, in the object as it is when it is decoded.
    at: u64,
    end: u64,
    /// What was read ahead, from `chunk_at` on.
    chunk: Vec<u8>,
    chunk_at: u64,
    /// What was read so far, to be compared with the header in the end.
    seen: Header,
    /// The block that must be next, in an object of the log.
    next: Option<Lsn>,
    /// The last block that was read of one of blocks that were thinned out: those ascend, too.
    before: Lsn,
}

impl ObjectReader {
    /// Opens the object.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or of a newer program; or is encrypted with another key than the target's, or not although there is one.
    pub fn open(target: &dyn Target, database: Id, name: Name) -> Result<Self> {
        Self::of(target.open(database, &name)?, (database, target.keys()), name)
    }

    /// The same, of an object that is open, in the archive of this database that was encrypted with these keys.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn of(object: Box<dyn Object>, (database, keys): (Id, &Keys), name: Name) -> Result<Self> {
        let failed = || TargetError::of("read", name.to_string());
        let end = object.bytes().map_err(failed())?;
        let mut bytes = [0; HEADER_BYTES];
        if end < bytes.len() as u64 {
            return Err(Error::Damaged { name, at: end, what: "it is cut off" });
        }
        object.read_at(&mut bytes, 0).map_err(failed())?;
        let header = Header::decode(&bytes, database, name)?;
        let opened = Frames::open(&*object, (&header, &bytes), database, (end, keys))?;
        let frames = opened.map(Box::new);
        let body = if matches!(name, Name::Whole { .. }) { 0 } else { header.bytes };
        let plain_end = (HEADER_BYTES as u64).checked_add(body);
        let Some(end) = plain_end.filter(|plain| frames.is_some() || *plain == end) else {
            let what = "it has another length than it says";
            return Err(Error::Damaged { name, at: end, what });
        };
        let next = if let Name::Log { first, .. } = name { Some(first) } else { None };
        let (at, chunk, seen) = (HEADER_BYTES as u64, Vec::new(), Header::new(database, name));
        let before = if let Name::Thin { first, .. } = name { Lsn(first.0 - 1) } else { Lsn::ZERO };
        Ok(Self { object, header, frames, at, end, chunk, chunk_at: at, seen, next, before })
    }

    /// See [`Object::fetch_ahead`].
    pub(crate) fn fetch_ahead(&self) {
        self.object.fetch_ahead();
    }

    /// All of it, of an object that has a text.
    pub(crate) fn text(mut self, bytes_max: u64) -> Result<String> {
        let bytes = self.header.bytes;
        if bytes > bytes_max {
            return Err(self.damaged("its text is longer than such a text is"));
        }
        let length = usize::try_from(bytes).unwrap_or_default();
        let text = self.load(self.at, length)?.to_vec();
        if crc32c(&text) != self.header.last_crc {
            return Err(self.damaged("its text is damaged"));
        }
        String::from_utf8(text).map_err(|_| self.damaged("its text is none"))
    }

    /// What its header says.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How many bytes of it were read.
    #[must_use]
    pub const fn bytes_done(&self) -> u64 {
        self.at
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { name: self.header.name, at: self.at, what }
    }

    /// The next block; `None` behind the last one.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    #[expect(clippy::should_implement_trait, reason = "as the log's readers")]
    pub fn next(&mut self) -> Result<Option<StoredBlock>> {
        if self.at == self.end {
            return self.finish().map(|()| None);
        }
        if self.end - self.at < block::HEADER_BYTES as u64 {
            return Err(self.damaged("a block's header is cut off"));
        }
        let mut head = [0; block::HEADER_BYTES];
        head.copy_from_slice(self.load(self.at, block::HEADER_BYTES)?);
        let header = BlockHeader::decode(&head)
            .ok_or_else(|| self.damaged("a block's header is damaged"))?;
        self.check(&header)?;
        let payload_bytes = usize::try_from(header.payload_bytes)
            .map_err(|_| self.damaged("a block is longer than memory"))?;
        let payload = self.load(self.at + block::HEADER_BYTES as u64, payload_bytes)?.to_vec();
        if crc32c(&payload) != header.payload_crc {
            return Err(self.damaged("a block's records are damaged"));
        }
        let (mut rest, mut count) = (&payload[..], 0_u64);
        while !rest.is_empty() {
            let record = record::decode(&mut rest).map_err(|what| self.damaged(what))?;
            self.seen.kinds |= kind_bits(&record);
            count += 1;
        }
        if count != u64::from(header.record_count) {
            return Err(self.damaged("a block has other than the number of records that it says"));
        }
        self.count(&header);
        self.at += header.block_bytes();
        Ok(Some(StoredBlock { header, payload }))
    }

    /// Whether a block with this header can be next.
    fn check(&self, header: &BlockHeader) -> Result<()> {
        let is_log = self.next.is_some();
        let is_next = self.next.is_none_or(|next| next == header.lsn);
        let is_next = is_next && header.lsn > self.before;
        let last = match self.header.name {
            Name::Log { last, .. } | Name::Thin { last, .. } => last,
            Name::Base { fill, .. } => fill.lsn,
            _ => Lsn::ZERO,
        };
        if header.database_tag != self.header.database.tag() {
            Err(self.damaged("a block belongs to another database"))
        } else if header.flags != if is_log { 0 } else { COMPACTED } {
            Err(self.damaged("a block's flags are not those of its object"))
        } else if !is_next || header.lsn == Lsn::ZERO || header.lsn > last {
            Err(self.damaged("a block is not the one that should be there"))
        } else if header.block_bytes() > self.end - self.at {
            Err(self.damaged("a block is longer than its object"))
        } else {
            Ok(())
        }
    }

    fn count(&mut self, block: &BlockHeader) {
        self.seen.add_block(block);
        self.next = self.next.map(|_| block.lsn.next());
        if matches!(self.header.name, Name::Thin { .. }) {
            self.before = block.lsn;
        }
    }

    /// Whether it had what its header says.
    fn finish(&self) -> Result<()> {
        let Header { name, database, encoding, before_crc, bytes, .. } = self.header;
        if matches!(name, Name::Whole { .. }) {
            return Ok(());
        }
        let mut seen = Header { name, database, encoding, before_crc, bytes, ..self.seen };
        if matches!(name, Name::Thin { .. }) {
            // Its times are those of all blocks that there were.
            (seen.time_min_ms, seen.time_max_ms) =
                (self.header.time_min_ms, self.header.time_max_ms);
            seen.last_crc = 0;
        }
        let is_complete = match name {
            Name::Log { last, .. } => self.next == Some(last.next()),
            _ => true,
        };
        if seen != self.header || !is_complete {
            return Err(self.damaged("it has other blocks than its header counts"));
        }
        Ok(())
    }

    /// So many bytes from there on, which the object has. Never before what was asked for last.
    fn load(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        if offset + bytes as u64 <= chunk_end {
            // It is there.
        } else if let Some(frames) = &mut self.frames {
            let done = usize::try_from(offset - self.chunk_at).expect("within the chunk");
            self.chunk.drain(..done);
            self.chunk_at = offset;
            // What a length says takes no memory before there is something for it, and a few bytes that say to
            // become a long block become none.
            let is_long = bytes > COMPRESSED_BLOCK_BYTES_MAX;
            while self.chunk.len() < bytes {
                frames.next(&*self.object, &mut self.chunk, is_long)?;
            }
        } else {
            let rest = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
            self.chunk.clear();
            self.chunk.resize(CHUNK_BYTES.max(bytes).min(rest), 0);
            let failed = TargetError::of("read", self.header.name.to_string());
            self.object.read_at(&mut self.chunk, offset).map_err(failed)?;
            self.chunk_at = offset;
        }
        let start = usize::try_from(offset - self.chunk_at).expect("within the chunk");
        Ok(&self.chunk[start..start + bytes])
    }
}
