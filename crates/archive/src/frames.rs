//! What is behind an object's header, compressed and encrypted in frames.
//!
//! ```text
//!   header (128) · how it is encoded (16, or 72) · frame · frame · …
//!                                                  └ its length and checksum (8) · the next 256 KiB of blocks
//! ```
//!
//! Each frame decodes to as many bytes as the header says of all of them, and the last one to the rest: so how many there are, and how long each becomes,
//! is known before anything is decoded. Nothing decodes to more than [`FRAME_BYTES_MAX`] at a time, whatever it says of itself.

use base::bytes::{array_at, u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use redo::Id;
use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, Result, TargetError};
use crate::key::{Key, KeyId, Keys, ObjectKey, Part, SALT_BYTES, TAG_BYTES};
use crate::name::Name;
use crate::object::{HEADER_BYTES, Header};
use crate::target::Object;

/// What a frame decodes to, but for the last one.
const FRAME_BYTES: usize = 256 << 10;

/// The most that a frame may decode to.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 20;

/// Objects with more bytes of blocks are not compressed, nor is a longer block read from compressed frames: it would take as
/// much memory as anyone says that it has.
pub(crate) const COMPRESSED_BLOCK_BYTES_MAX: usize = 1 << 30;

/// The length of what is before each frame.
const HEAD_BYTES: usize = 8;

/// In the length of a frame: it is compressed.
const IS_COMPRESSED: u32 = 1 << 31;

/// The length of what is behind the header of an object in frames.
const FRAMES_BYTES: usize = 16;

/// The same, if they are encrypted: with the key's id, the salt and the header's proof.
const SEALED_BYTES: usize = FRAMES_BYTES + 8 + SALT_BYTES + TAG_BYTES;

/// How the blocks of an object are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Plain,
    /// In frames, each of them compressed if that makes it shorter.
    Frames,
    /// The same, encrypted.
    Sealed,
}

impl Encoding {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Plain => 0,
            Self::Frames => 1,
            Self::Sealed => 2,
        }
    }

    pub(crate) const fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Frames),
            2 => Some(Self::Sealed),
            _ => None,
        }
    }

    const fn more_bytes(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Frames => FRAMES_BYTES,
            Self::Sealed => SEALED_BYTES,
        }
    }
}

/// How objects are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    None,
    /// By zstd, at this level.
    Zstd(i32),
}

/// An object, which is there as it is, as it is put: compressed, and encrypted with a key and a salt that was never used. `None` if it is put as it
/// is.
#[must_use]
pub fn encode(
    header: &Header,
    plain: &[u8],
    compression: Compression,
    key: Option<(&Key, [u8; SALT_BYTES])>,
) -> Option<Vec<u8>> {
    let blocks = &plain[HEADER_BYTES..];
    let is_long = blocks.len() > COMPRESSED_BLOCK_BYTES_MAX;
    let compression = if is_long { Compression::None } else { compression };
    let encoding = match (key, compression) {
        (Some(_), _) => Encoding::Sealed,
        (None, Compression::Zstd(_)) if !blocks.is_empty() => Encoding::Frames,
        (None, _) => return None,
    };
    let header = Header { encoding, ..*header };
    let start = HEADER_BYTES + encoding.more_bytes();
    let mut bytes = vec![0; start];
    bytes.reserve(blocks.len() / 2);
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    let object_key = key.map(|(key, salt)| key.of_object(&salt, header.database, &header.name));
    // Without memory for it, it is left as it is.
    let mut compressor = match compression {
        Compression::None => None,
        Compression::Zstd(level) => Compressor::new(level).ok(),
    };
    let count = blocks.chunks(FRAME_BYTES).count() as u64;
    for (number, frame) in (0..).zip(blocks.chunks(FRAME_BYTES)) {
        let part = Part::Frame(number, number + 1 == count);
        let compressed = compressor.as_mut().and_then(|it| it.compress(frame).ok());
        let compressed = compressed.filter(|compressed| compressed.len() < frame.len());
        put_frame(&mut bytes, (frame, compressed.as_deref()), part, object_key.as_ref());
    }
    let frames_bytes = (bytes.len() - start) as u64;
    bytes[128..136].copy_from_slice(&frames_bytes.to_le_bytes());
    bytes[136..140].copy_from_slice(&len_u32(FRAME_BYTES).to_le_bytes());
    if let (Some((key, salt)), Some(object_key)) = (key, object_key) {
        bytes[144..152].copy_from_slice(&key.id().0);
        bytes[152..184].copy_from_slice(&salt);
        let tag = object_key.seal(Part::Header, &proven(&bytes), &mut []);
        bytes[184..200].copy_from_slice(&tag);
    }
    let crc = more_crc(&bytes[..start]);
    bytes[140..144].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

fn put_frame(
    bytes: &mut Vec<u8>,
    (plain, compressed): (&[u8], Option<&[u8]>),
    part: Part,
    key: Option<&ObjectKey>,
) {
    let stored = compressed.unwrap_or(plain);
    let tag_bytes = if key.is_some() { TAG_BYTES } else { 0 };
    let flag = if compressed.is_some() { IS_COMPRESSED } else { 0 };
    let length = (len_u32(stored.len() + tag_bytes) | flag).to_le_bytes();
    let head = bytes.len();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(stored);
    if let Some(key) = key {
        let tag = key.seal(part, &length, &mut bytes[head + HEAD_BYTES..]);
        bytes.extend_from_slice(&tag);
    }
    let crc = crc32c_append(crc32c(&length), &bytes[head + HEAD_BYTES..]);
    bytes[head + 4..head + HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
}

fn len_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a frame is short")
}

/// The bytes that an encrypted object's header is proven by: all of it but the checksum and the proof.
fn proven(bytes: &[u8]) -> Vec<u8> {
    [&bytes[..140], &bytes[144..184]].concat()
}

/// The checksum of what is between header and frames, without that itself.
fn more_crc(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[HEADER_BYTES..140]), &bytes[144..])
}

/// Decodes the frames of an object, in order.
pub(crate) struct Frames {
    name: Name,
    key: Option<ObjectKey>,
    /// Where the next frame begins, and all of them end.
    at: u64,
    end: u64,
    /// Its number, and how many there are.
    number: u64,
    count: u64,
    /// What each decodes to, and all of them that are left.
    frame_bytes: usize,
    left_bytes: u64,
    stored: Vec<u8>,
    decompressor: Option<Decompressor<'static>>,
}

impl Frames {
    /// Begins with what is behind the header of an object of this length; `None` if it is as it is.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, is encrypted with none of the keys, or is not encrypted although there are keys.
    pub(crate) fn open(
        object: &dyn Object,
        header: (&Header, &[u8; HEADER_BYTES]),
        database: Id,
        (end, keys): (u64, &Keys),
    ) -> Result<Option<Self>> {
        let (header, header_bytes) = header;
        let name = header.name;
        if header.encoding != Encoding::Sealed && !keys.is_empty() {
            return Err(Error::NotEncrypted { name });
        }
        if header.encoding == Encoding::Plain {
            return Ok(None);
        }
        let damaged = |at, what| Error::Damaged { name, at, what };
        let start = HEADER_BYTES + header.encoding.more_bytes();
        if end < start as u64 {
            return Err(damaged(end, "it is cut off"));
        }
        let mut bytes = vec![0; start];
        bytes[..HEADER_BYTES].copy_from_slice(header_bytes);
        let read = object.read_at(&mut bytes[HEADER_BYTES..], HEADER_BYTES as u64);
        read.map_err(TargetError::of("read", name.to_string()))?;
        if u32_at(&bytes, 140) != more_crc(&bytes) {
            return Err(damaged(140, "the checksum of how it is encoded is wrong"));
        }
        let key = match header.encoding {
            Encoding::Sealed => Some(key_of(&bytes, database, name, keys)?),
            _ => None,
        };
        let (frames_bytes, frame_bytes) = (u64_at(&bytes, 128), u64::from(u32_at(&bytes, 136)));
        if frames_bytes != end - start as u64 {
            return Err(damaged(128, "it has another length than it says"));
        }
        if frame_bytes == 0 || frame_bytes > FRAME_BYTES_MAX as u64 {
            return Err(damaged(136, "its frames have a length that frames do not have"));
        }
        // Of a complete copy the header counts other objects.
        let is_whole = matches!(name, Name::Whole { .. });
        let left_bytes = if is_whole { 0 } else { header.bytes };
        let count = left_bytes.div_ceil(frame_bytes);
        if count > frames_bytes / (HEAD_BYTES as u64 + 1) || (count == 0) != (frames_bytes == 0) {
            return Err(damaged(128, "it has another number of frames than it says"));
        }
        Ok(Some(Self {
            name,
            key,
            at: start as u64,
            end,
            number: 0,
            count,
            frame_bytes: usize::try_from(frame_bytes).expect("it was compared"),
            left_bytes,
            stored: Vec::new(),
            decompressor: None,
        }))
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { name: self.name, at: self.at, what }
    }

    /// Decodes the next frame, and appends what it had. With `is_long` it must not be compressed.
    pub(crate) fn next(
        &mut self,
        object: &dyn Object,
        into: &mut Vec<u8>,
        is_long: bool,
    ) -> Result<()> {
        if self.number == self.count {
            return Err(self.damaged("a frame is missing"));
        }
        let failed = || TargetError::of("read", self.name.to_string());
        let mut head = [0; HEAD_BYTES];
        if self.end - self.at < HEAD_BYTES as u64 {
            return Err(self.damaged("a frame is cut off"));
        }
        object.read_at(&mut head, self.at).map_err(failed())?;
        let length = u32_at(&head, 0);
        let stored_bytes = (length & !IS_COMPRESSED) as usize;
        if is_long && length & IS_COMPRESSED != 0 {
            return Err(self.damaged("a block is longer than one that is compressed may be"));
        }
        let left = self.end - self.at - HEAD_BYTES as u64;
        if stored_bytes > FRAME_BYTES_MAX + TAG_BYTES || stored_bytes as u64 > left {
            return Err(self.damaged("a frame is longer than its object, or than any"));
        }
        self.stored.resize(stored_bytes, 0);
        object.read_at(&mut self.stored, self.at + HEAD_BYTES as u64).map_err(failed())?;
        if u32_at(&head, 4) != crc32c_append(crc32c(&head[..4]), &self.stored) {
            return Err(self.damaged("the checksum of a frame is wrong"));
        }
        let is_last = self.number + 1 == self.count;
        let mut stored = &mut self.stored[..];
        if let Some(key) = &self.key {
            let opened = key.open(Part::Frame(self.number, is_last), &head[..4], stored);
            stored = opened.ok_or(Error::Damaged {
                name: self.name,
                at: self.at,
                what: "a frame is not what was encrypted",
            })?;
        }
        let plain_bytes = self.left_bytes.min(self.frame_bytes as u64);
        let plain_bytes = usize::try_from(plain_bytes).expect("a frame is short");
        let start = into.len();
        let decoded = if length & IS_COMPRESSED == 0 {
            into.extend_from_slice(stored);
            Ok(stored.len())
        } else {
            into.resize(start + plain_bytes, 0);
            let decompressor = match &mut self.decompressor {
                Some(decompressor) => decompressor,
                none => none.insert(Decompressor::new().map_err(failed())?),
            };
            decompressor.decompress_to_buffer(stored, &mut into[start..])
        };
        if decoded.ok() != Some(plain_bytes) {
            into.truncate(start);
            return Err(self.damaged("a frame does not decode to what it should have"));
        }
        self.left_bytes -= plain_bytes as u64;
        self.number += 1;
        self.at += (HEAD_BYTES + stored_bytes) as u64;
        if is_last && self.at != self.end {
            return Err(self.damaged("there is something behind the last frame"));
        }
        Ok(())
    }
}

/// The key of an encrypted object, which its header was proven with.
fn key_of(bytes: &[u8], database: Id, name: Name, keys: &Keys) -> Result<ObjectKey> {
    let id = KeyId(array_at(bytes, 144));
    let known = keys.find(id);
    let key = known.ok_or(Error::NoKey { name, id, has_keys: !keys.is_empty() })?;
    let object_key = key.of_object(&array_at(bytes, 152), database, &name);
    let mut tag: [u8; TAG_BYTES] = array_at(bytes, 184);
    match object_key.open(Part::Header, &proven(bytes), &mut tag) {
        Some(_) => Ok(object_key),
        None => Err(Error::Damaged { name, at: 0, what: "its header is not what was encrypted" }),
    }
}
