//! An object of an archive: whatever its bytes, it is read to its end or refused, and what was read is written as the same.

use std::io;

use archive::{
    Builder, Compression, Encoding, Fill, Folder, HEADER_BYTES, Header, Key, Keys, Name, Object,
    ObjectReader, Piece, encode,
};
use base::checksum::{crc32c, crc32c_append};
use base::{DbId, Lsn, Record, RecordKind};

use crate::checksums::DATABASE;

struct Bytes(Vec<u8>);

impl Object for Bytes {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.0.get(at..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn names() -> [Name; 12] {
    let fill = Fill { lsn: Lsn(9), writer: 2, number: 1 };
    [
        Name::Writer { writer: 2 },
        Name::Log { first: Lsn(3), last: Lsn(4), writer: 2 },
        Name::Base { fill, index: 0 },
        Name::Whole { fill, objects: 1 },
        Name::Begin { lsn: Lsn(3), writer: 2 },
        Name::Thin { first: Lsn(4), last: Lsn(9), from: Lsn(3), to: Lsn(9), tidier: 1 },
        Name::Tidier { number: 1 },
        Name::Named { lsn: Lsn(9), writer: 2, id: 7 },
        Name::Config { lsn: Lsn(9), writer: 2, number: 1 },
        Name::Damaged { piece: Piece::Log { first: Lsn(3), last: Lsn(4), writer: 2 } },
        Name::Damaged { piece: Piece::Copy { fill } },
        Name::Damaged { piece: Piece::Leap { from: Lsn(3), to: Lsn(9), tidier: 1 } },
    ]
}

/// The key of objects that are encrypted.
fn key() -> Key {
    Key::new([7; 32])
}

/// Where the frames of an object begin: behind its header, what says how it is encoded, and of an encrypted one its key.
const FRAMES: usize = HEADER_BYTES + 16;
const SEALED_FRAMES: usize = HEADER_BYTES + 72;

/// Makes any bytes an object's header: of this version, with the checksum that it must have; and the length, if it is as it is. In frames, their
/// length and checksums, too.
fn seal(bytes: &mut [u8], encoding: u8) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    bytes[..12].copy_from_slice(b"INDELARC\x01\0\0\0");
    bytes[16..32].copy_from_slice(&DATABASE.0);
    bytes[36..40].copy_from_slice(&[encoding, 0, 0, 0]);
    if encoding == 0 {
        let body = (bytes.len() - HEADER_BYTES) as u64;
        bytes[96..104].copy_from_slice(&body.to_le_bytes());
    } else {
        // So little that it is read soon.
        bytes[99..104].fill(0);
        seal_frames(bytes, if encoding == 1 { FRAMES } else { SEALED_FRAMES });
    }
    let crc = crc32c(&bytes[16..HEADER_BYTES]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn seal_frames(bytes: &mut [u8], start: usize) {
    let Some(frames_bytes) = bytes.len().checked_sub(start) else { return };
    bytes[128..136].copy_from_slice(&(frames_bytes as u64).to_le_bytes());
    bytes[139] = 0;
    if start == SEALED_FRAMES {
        bytes[144..152].copy_from_slice(&key().id().0);
    }
    let crc = crc32c_append(crc32c(&bytes[128..140]), &bytes[144..start]);
    bytes[140..144].copy_from_slice(&crc.to_le_bytes());
    let mut at = start;
    while let Some(length) = bytes[at..].first_chunk::<4>() {
        let length = (u32::from_le_bytes(*length) & !(1 << 31)) as usize;
        let Some(frame) = bytes[at..].get(8..).and_then(|rest| rest.get(..length)) else { break };
        let crc = crc32c_append(crc32c(&bytes[at..at + 4]), frame);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at += 8 + length;
    }
}

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        for folder in Folder::ALL {
            if let Some(name) = Name::parse(folder, text) {
                assert_eq!(name.file_name(), text);
            }
        }
    }
    let mut all = vec![input.to_vec(); 4];
    for (encoding, bytes) in (0..).zip(&mut all[1..]) {
        seal(bytes, encoding);
    }
    for (bytes, name) in all.iter().flat_map(|bytes| names().map(|name| (bytes, name))) {
        for keys in [Keys::NONE, Keys::new(vec![key()])] {
            read(bytes, name, &keys);
        }
    }
}

/// Reads an object to its end, or to where it is refused.
fn read(bytes: &[u8], name: Name, keys: &Keys) {
    let object = Box::new(Bytes(bytes.to_vec()));
    let Ok(mut reader) = ObjectReader::of(object, (DATABASE, keys), name) else { return };
    let header = *reader.header();
    assert_eq!(header.encode(), bytes[..HEADER_BYTES], "it means what it says");
    assert_eq!(header.encoding == Encoding::Sealed, !keys.is_empty(), "in clear or not");
    let mut read = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(block)) => {
                assert_eq!(block.records().count(), block.header.record_count as usize);
                read.extend_from_slice(&block.header.encode());
                read.extend_from_slice(&block.payload);
            }
            Ok(None) => {
                let is_plain = header.encoding == Encoding::Plain;
                let is_whole = matches!(name, Name::Whole { .. });
                assert!(is_whole || !is_plain || bytes[HEADER_BYTES..] == read);
                assert!(is_whole || header.bytes == read.len() as u64, "as much as it says");
                break;
            }
            Err(_) => break,
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let [_, _, Name::Base { fill, index }, whole, ..] = names() else { return Vec::new() };
    let mut base = Builder::base(DATABASE, fill, index);
    for lsn in [5, 9] {
        let records = [Record::whole(RecordKind::String, DbId(0), b"key", &[b'v'; 99], None)];
        base.put_records((Lsn(lsn), 1000), records.into_iter());
    }
    let (header, base) = base.finish();
    let encoded = |key: Option<(&Key, [u8; 32])>| encode(&header, &base, Compression::Zstd(1), key);
    let [compressed, sealed] = [encoded(None), encoded(Some((&key(), [4; 32])))];
    let whole = Header { name: whole, ..header };
    let name = names()[1].file_name().into_bytes();
    let mut seeds = vec![base, whole.encode().to_vec(), name];
    // Claims and the like are headers alone.
    let alone = [0, 4, 6, 8, 9, 10].map(|at| Header::new(DATABASE, names()[at]).encode().to_vec());
    seeds.extend(alone);
    seeds.extend([compressed, sealed].into_iter().flatten());
    seeds
}
