//! Puts right checksums, and lengths that nothing else depends on, into bytes that are nearly one of
//! the log's formats (`docs/format/redo-log.md`), so that what lies behind them is tried too.

use base::checksum::{crc32c, crc32c_append};
use redo::Id;
use redo::block::{self, BlockHeader};
use redo::segment;

const TRAILER_MAGIC: &[u8; 8] = b"INDELEND";
const TRAILER_BYTES: usize = 16;
const MANIFEST_MAGIC: &[u8; 8] = b"INDELMAN";
const MANIFEST_HEAD_BYTES: usize = 24;

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_len(bytes: &mut [u8], at: usize, len: usize) {
    put_u32(bytes, at, u32::try_from(len).expect("inputs are small"));
}

/// The database that every file here belongs to.
pub(crate) const DATABASE: Id = Id([0xda; 16]);

/// Makes any bytes a block's header.
pub(crate) fn seal_block_header(bytes: &mut [u8; block::HEADER_BYTES]) {
    bytes[..4].copy_from_slice(&block::MARK);
    let crc = crc32c(&bytes[8..]);
    put_u32(bytes, 4, crc);
}

/// Gives a footer the right length and checksum, and a trailer; the bytes that are too few for one
/// stay as they are.
///
/// How many records its segment ever had is cut to a million: each takes a bit of memory for as long
/// as the segment lives, whatever is left of them in the file.
pub(crate) fn seal_footer(bytes: &mut [u8]) {
    let Some(body_end) = bytes.len().checked_sub(TRAILER_BYTES).filter(|end| *end >= 8) else {
        return;
    };
    let is_old = bytes[..4] == segment::FOOTER_MARK_V1;
    let mark = if is_old { segment::FOOTER_MARK_V1 } else { segment::FOOTER_MARK };
    bytes[..4].copy_from_slice(&mark);
    bytes[7] = 0;
    bytes[6] &= 0x0f;
    put_len(bytes, body_end, bytes.len());
    let crc = crc32c_append(crc32c(&DATABASE.0), &bytes[..body_end + 4]);
    put_u32(bytes, body_end + 4, crc);
    bytes[body_end + 8..].copy_from_slice(TRAILER_MAGIC);
}

/// Gives a manifest the right magic, version, length and checksum.
pub(crate) fn seal_manifest(bytes: &mut [u8]) {
    let Some(body_bytes) = bytes.len().checked_sub(MANIFEST_HEAD_BYTES) else { return };
    bytes[..8].copy_from_slice(MANIFEST_MAGIC);
    put_u32(bytes, 8, 1);
    let crc = crc32c(&bytes[MANIFEST_HEAD_BYTES..]);
    put_u32(bytes, 12, crc);
    bytes[16..24].copy_from_slice(&(body_bytes as u64).to_le_bytes());
}

/// What a segment's file must say of where it is.
pub(crate) struct Place {
    pub(crate) database: Id,
    pub(crate) device: Id,
    pub(crate) segment: u32,
    pub(crate) part: u32,
}

/// Makes a file one of this place: the header, the headers of the blocks as far as they follow one
/// another, and the footer if what follows them is nearly one; and all this again for the images
/// behind it, which are numbered upwards.
pub(crate) fn seal_segment(mut file: &mut [u8], mut place: Place) {
    while file.len() >= segment::HEADER_BYTES {
        let header = &mut file[..segment::HEADER_BYTES];
        header[..8].copy_from_slice(b"INDELSEG");
        let version = if header[8] == 1 { 1 } else { segment::SEGMENT_VERSION };
        put_u32(header, 8, version);
        // Kinds and a shard that this program does not know end every start.
        header[88..100].fill(0);
        header[16..32].copy_from_slice(&place.database.0);
        header[32..48].copy_from_slice(&place.device.0);
        put_u32(header, 48, place.segment);
        put_u32(header, 52, place.part);
        let crc = crc32c(&header[16..]);
        put_u32(header, 12, crc);
        let data_end = seal_blocks(file, &place);
        let Some(footer_bytes) = footer_bytes(&file[data_end..]) else { return };
        file[data_end + 40..data_end + 48].copy_from_slice(&(data_end as u64).to_le_bytes());
        seal_footer(&mut file[data_end..data_end + footer_bytes]);
        file = &mut file[data_end + footer_bytes..];
        place.segment += 1;
    }
}

/// How long the footer at the front of these bytes is by what it says itself.
fn footer_bytes(bytes: &[u8]) -> Option<usize> {
    const FIXED_BYTES: usize = 64;
    let number = |at: usize| {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if bytes.first() != Some(&segment::FOOTER_MARK[0]) {
        return None;
    }
    let is_old = bytes.starts_with(&segment::FOOTER_MARK_V1);
    let table_bytes = if is_old { number(52)? * 8 } else { number(56)? };
    let body_bytes = FIXED_BYTES + number(48)? + table_bytes;
    Some(body_bytes + TRAILER_BYTES).filter(|all| *all <= bytes.len())
}

/// Where the blocks end.
fn seal_blocks(file: &mut [u8], place: &Place) -> usize {
    let mut at = segment::HEADER_BYTES;
    loop {
        let Some(found) = file.get(at..at + block::HEADER_BYTES) else { return at };
        if found[..4] != block::MARK {
            return at;
        }
        let mut bytes: [u8; block::HEADER_BYTES] = found.try_into().expect("that many bytes");
        put_u32(&mut bytes, 48, place.segment);
        put_u32(&mut bytes, 52, place.database.tag());
        seal_block_header(&mut bytes);
        let Some(header) = BlockHeader::decode(&bytes) else { return at };
        let payload_at = at + block::HEADER_BYTES;
        let payload = usize::try_from(header.payload_bytes)
            .ok()
            .and_then(|bytes| file.get(payload_at..payload_at.checked_add(bytes)?));
        if let Some(payload) = payload {
            put_u32(&mut bytes, 8, crc32c(payload));
            seal_block_header(&mut bytes);
        }
        let payload_bytes = payload.map(<[u8]>::len);
        file[at..payload_at].copy_from_slice(&bytes);
        let Some(payload_bytes) = payload_bytes else { return at };
        at = payload_at + payload_bytes;
    }
}
