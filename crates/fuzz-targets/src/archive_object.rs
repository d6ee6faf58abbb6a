//! An object of an archive: whatever its bytes, it is read to its end or refused, and what was read is written as the same.

use std::io;

use archive::{Builder, Fill, Folder, HEADER_BYTES, Header, Name, Object, ObjectReader};
use base::checksum::crc32c;
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

fn names() -> [Name; 4] {
    let fill = Fill { lsn: Lsn(9), writer: 2, number: 1 };
    [
        Name::Writer { writer: 2 },
        Name::Log { first: Lsn(3), last: Lsn(4), writer: 2 },
        Name::Base { fill, index: 0 },
        Name::Whole { fill, objects: 1 },
    ]
}

/// Makes any bytes an object's header: of this version, not encoded, with the length and the checksum that it must have.
fn seal(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    bytes[..12].copy_from_slice(b"INDELARC\x01\0\0\0");
    bytes[16..32].copy_from_slice(&DATABASE.0);
    bytes[36..40].fill(0);
    let body = (bytes.len() - HEADER_BYTES) as u64;
    bytes[96..104].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c(&bytes[16..HEADER_BYTES]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        for folder in Folder::ALL {
            if let Some(name) = Name::parse(folder, text) {
                assert_eq!(name.file_name(), text);
            }
        }
    }
    let mut sealed = input.to_vec();
    seal(&mut sealed);
    for (bytes, name) in
        [input.to_vec(), sealed].iter().flat_map(|bytes| names().map(|name| (bytes, name)))
    {
        let Ok(mut reader) = ObjectReader::of(Box::new(Bytes(bytes.clone())), DATABASE, name)
        else {
            continue;
        };
        let header = *reader.header();
        assert_eq!(header.encode(), bytes[..HEADER_BYTES], "it means what it says");
        let mut read = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(block)) => {
                    assert_eq!(block.records().count(), block.header.record_count as usize);
                    read.extend_from_slice(&block.header.encode());
                    read.extend_from_slice(&block.payload);
                }
                Ok(None) => {
                    assert!(bytes[HEADER_BYTES..] == read || matches!(name, Name::Whole { .. }));
                    break;
                }
                Err(_) => break,
            }
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let [_, _, Name::Base { fill, index }, whole] = names() else { return Vec::new() };
    let mut base = Builder::base(DATABASE, fill, index);
    for lsn in [5, 9] {
        let records = [Record::whole(RecordKind::String, DbId(0), b"key", b"value", None)];
        base.put_records((Lsn(lsn), 1000), records.into_iter());
    }
    let (header, base) = base.finish();
    let whole = Header { name: whole, ..header };
    let name = names()[1].file_name().into_bytes();
    let claim = Header::new(DATABASE, names()[0]).encode().to_vec();
    vec![base, whole.encode().to_vec(), claim, name]
}
