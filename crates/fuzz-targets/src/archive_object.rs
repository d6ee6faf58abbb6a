//! An object of an archive: whatever its bytes, it is read to its end or refused, and what was read is written as the same.
//!
//! What has blocks is read as a restore does; claims, marks, and what has a text, as the commands do that look at all of an archive.

use std::io;
use std::sync::Arc;

use archive::{
    Builder, Compression, Encoding, Fill, Folder, HEADER_BYTES, Header, Key, Keys, Name, Object,
    ObjectReader, Piece, Put, Target, TargetError, TargetResult, encode,
};
use base::checksum::{crc32c, crc32c_append};
use base::{DbId, Lsn, Record, RecordKind};
use redo::Id;
use redo::block::{self, BlockHeader};

use crate::checksums::DATABASE;

/// The longest name of a backup.
const BACKUP_NAME_BYTES_MAX: usize = 64;

struct Bytes(Arc<[u8]>);

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

/// A target that has one object.
struct OneObject<'a> {
    name: Name,
    bytes: Arc<[u8]>,
    keys: &'a Keys,
}

impl Target for OneObject<'_> {
    fn put_new(&self, _: Id, _: &Name, _: &[u8]) -> TargetResult<Put> {
        Ok(Put::Taken)
    }

    fn open(&self, _: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let none = || TargetError::of("open", name.to_string())(io::ErrorKind::NotFound.into());
        let object = (*name == self.name).then(|| Bytes(self.bytes.clone())).ok_or_else(none)?;
        Ok(Box::new(object))
    }

    fn list(&self, _: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        Ok(Some(self.name).filter(|name| name.folder() == folder).into_iter().collect())
    }

    fn remove(&self, _: Id, _: &Name) -> TargetResult<()> {
        Ok(())
    }

    fn clean(&self, _: Id, _: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        Ok(())
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        Ok(vec![DATABASE])
    }

    fn keys(&self) -> &Keys {
        self.keys
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

/// The kinds of objects that have a text, in their headers.
const TEXT_OF_BACKUP: u8 = 8;
const TEXT_OF_CONFIG: u8 = 10;

/// Makes any bytes an object's header: of this version, with the checksum that it must have; and the length, if it is as it is, and the checksum
/// of a text. In frames, their length and checksums, too.
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
        if let [TEXT_OF_BACKUP | TEXT_OF_CONFIG, 0, 0, 0] = bytes[32..36] {
            let crc = crc32c(&bytes[HEADER_BYTES..]);
            bytes[124..128].copy_from_slice(&crc.to_le_bytes());
        }
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
        if let Some(database) = archive::parse_database(text) {
            assert_eq!(database.to_string(), text);
        }
    }
    let mut all = vec![input.to_vec(); 4];
    for (encoding, bytes) in (0..).zip(&mut all[1..]) {
        seal(bytes, encoding);
    }
    let keys = [Keys::NONE, Keys::new(vec![key()])];
    for bytes in all {
        let bytes: Arc<[u8]> = bytes.into();
        for name in names() {
            for keys in &keys {
                read(&bytes, name, keys);
                if !has_blocks(&name) {
                    look(&OneObject { name, bytes: bytes.clone(), keys });
                }
            }
        }
    }
}

/// Whether a state is made of it.
const fn has_blocks(name: &Name) -> bool {
    matches!(name, Name::Log { .. } | Name::Base { .. } | Name::Whole { .. } | Name::Thin { .. })
}

/// Reads an object to its end, or to where it is refused.
fn read(bytes: &Arc<[u8]>, name: Name, keys: &Keys) {
    let object = Box::new(Bytes(bytes.clone()));
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

/// Looks at an object that has no blocks. Returns whether it is good.
fn look(target: &OneObject<'_>) -> bool {
    let OneObject { name, bytes, .. } = target;
    let header = bytes.first_chunk().map(|header| Header::decode(header, DATABASE, *name));
    if matches!(header, Some(Err(_))) {
        // That is seen again and again.
        return false;
    }
    let verified = archive::verify(target, DATABASE, &mut |_, _| {}).expect("it can be reached");
    let is_good = verified.errors.is_empty() && verified.locked.is_empty();
    let is_plain = bytes.get(36..40) == Some(&[0; 4]);
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    match name {
        Name::Named { .. } => {
            let backups = archive::backups(target, DATABASE);
            let known = backups.map_or_else(|_| Vec::new(), |backups| backups.known);
            assert_eq!(known.len(), usize::from(is_good), "one that is good has a name");
            for backup in known {
                assert!(backup.name.len() <= BACKUP_NAME_BYTES_MAX);
                assert!(!is_plain || backup.name.as_bytes() == body);
            }
        }
        Name::Config { .. } => assert!(!is_good || !is_plain || std::str::from_utf8(body).is_ok()),
        _ => assert!(!is_good || body.is_empty(), "it is its header alone"),
    }
    is_good
}

/// An object of the log: the blocks of another one, which are its first and all that are behind it.
fn log(header: &Header, blocks: &[u8]) -> Vec<u8> {
    let header = Header { name: names()[1], ..*header };
    let mut log = [&header.encode(), blocks].concat();
    let mut at = HEADER_BYTES;
    while let Some(head) = log[at..].first_chunk() {
        let block = BlockHeader::decode(head).expect("it is a block");
        let head = BlockHeader { flags: 0, ..block }.encode();
        log[at..at + block::HEADER_BYTES].copy_from_slice(&head);
        at += block::HEADER_BYTES + usize::try_from(block.payload_bytes).expect("it is in memory");
    }
    log
}

/// The blocks of some numbers, as an object of a copy.
fn base(fill: Fill, lsns: [u64; 2]) -> (Header, Vec<u8>) {
    let mut base = Builder::base(DATABASE, fill, 0);
    for lsn in lsns {
        let records = [Record::whole(RecordKind::String, DbId(0), b"key", &[b'v'; 99], None)];
        base.put_records((Lsn(lsn), 1000), records.into_iter());
    }
    base.finish()
}

/// An object, compressed, and encrypted.
fn encoded(header: &Header, plain: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let key = key();
    let keys = [None, Some((&key, [4; 32]))];
    keys.map(|key| encode(header, plain, Compression::Zstd(1), key)).into_iter().flatten()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let all = names();
    let [_, _, Name::Base { fill, .. }, whole, _, thin, ..] = all else { return Vec::new() };
    let (header, blocks) = base(fill, [5, 9]);
    let [compressed, sealed] =
        [0, 1].map(|at| encoded(&header, &blocks).nth(at).expect("both can be made"));
    let whole = Header { name: whole, ..header };
    let name = all[1].file_name().into_bytes();
    let mut seeds = vec![blocks.clone(), whole.encode().to_vec(), name, compressed, sealed];
    seeds.extend(encoded(&whole, &whole.encode()));
    let thin = Header { name: thin, last_crc: 0, ..header };
    seeds.push([&thin.encode(), &blocks[HEADER_BYTES..]].concat());
    let (header, blocks) = base(fill, [3, 4]);
    seeds.push(log(&header, &blocks[HEADER_BYTES..]));
    seeds.extend(all.iter().map(|name| name.file_name().into_bytes()));
    seeds.push(DATABASE.to_string().into_bytes());
    for name in all.into_iter().filter(|name| !has_blocks(name)) {
        let text = match name {
            Name::Named { .. } => "before the sale",
            Name::Config { .. } => "save \"\"\nmaxmemory 1gb\nuser alice on #2bb8 ~a* +@read\n",
            // Claims and the like are headers alone.
            _ => "",
        };
        let last_crc = if text.is_empty() { 0 } else { crc32c(text.as_bytes()) };
        let header = Header { bytes: text.len() as u64, last_crc, ..Header::new(DATABASE, name) };
        let plain = [&header.encode(), text.as_bytes()].concat();
        if !text.is_empty() {
            seeds.extend(encoded(&header, &plain));
        }
        seeds.push(plain);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With which of no key and a key an object is read to its end as one of this name.
    fn is_read(bytes: &Arc<[u8]>, name: Name) -> [bool; 2] {
        [Keys::NONE, Keys::new(vec![key()])].map(|keys| {
            if !has_blocks(&name) {
                return look(&OneObject { name, bytes: bytes.clone(), keys: &keys });
            }
            let object = Box::new(Bytes(bytes.clone()));
            let reader = ObjectReader::of(object, (DATABASE, &keys), name);
            reader.is_ok_and(|mut reader| {
                while let Ok(Some(_)) = reader.next() {}
                matches!(reader.next(), Ok(None))
            })
        })
    }

    #[test]
    fn there_are_seeds_of_every_name_in_clear_and_encrypted() {
        let seeds: Vec<Arc<[u8]>> = seeds().into_iter().map(Into::into).collect();
        for name in names() {
            let read: Vec<_> = seeds.iter().map(|bytes| is_read(bytes, name)).collect();
            assert!(read.iter().any(|[in_clear, _]| *in_clear), "{name}");
            let may_be_sealed =
                has_blocks(&name) || matches!(name, Name::Named { .. } | Name::Config { .. });
            let has_sealed = !matches!(name, Name::Log { .. } | Name::Thin { .. });
            let is_sealed = read.iter().any(|[in_clear, with_key]| *with_key && !*in_clear);
            assert_eq!(is_sealed, may_be_sealed && has_sealed, "{name}");
        }
    }
}
