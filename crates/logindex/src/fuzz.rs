//! Entry points for the fuzzer: decoders given correct checksums, and the properties of what they
//! accept. Not part of the API.

use std::path::Path;

use base::bytes::u32_at;
use base::checksum::{crc32c, crc32c_append};
use base::{Lsn, RecordAddr, SegmentId};
use env::Disk;

use crate::block::{Block, BlockBuilder};
use crate::hot::HotHint;
use crate::index::Index;
use crate::judge::{Judge, Scopes};
use crate::manifest::Manifest;
use crate::name::Entry;
use crate::run_format::{FENCE_BYTES, HEADER_BYTES, Header, SEGMENT_BYTES, TRAILER_BYTES, Trailer};
use crate::verify::verify;

const BLOCK_BYTES: usize = 256;

/// Decodes a block with the right checksum, and encodes again what it contains.
///
/// # Panics
/// If an accepted block cannot be used, or does not mean the same when it is written again.
pub fn block(input: &[u8]) {
    let mut bytes = [0; BLOCK_BYTES];
    let len = input.len().min(BLOCK_BYTES);
    bytes[..len].copy_from_slice(&input[..len]);
    let crc = crc32c(&bytes[4..BLOCK_BYTES]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let Ok(block) = Block::verify(&bytes, BLOCK_BYTES, 0) else { return };
    let dictionary: Vec<SegmentId> = (1..=5).map(SegmentId).collect();
    let mut entries: Vec<Entry> = Vec::new();
    if block.decode(&dictionary, &mut entries).is_err() {
        return;
    }
    assert!(entries.is_sorted_by(|a, b| a.name < b.name), "names ascend");
    for entry in &entries {
        assert_eq!(block.find(entry.name, &dictionary), Ok(Some(*entry)));
    }
    // A block of both kinds, which no writer makes, would need two.
    let mut builder = BlockBuilder::new(BLOCK_BYTES);
    let index = |entry: &Entry| entry.place().map_or(0, |place| place.addr().segment().0 - 1);
    if entries.iter().all(|entry| builder.push(entry, index(entry))) {
        let mut again = Vec::new();
        builder.encode(0, &mut again);
        let block = Block::verify(&again, BLOCK_BYTES, 0).expect("what was written is right");
        let mut decoded = Vec::new();
        assert_eq!(block.decode(&dictionary, &mut decoded), Ok(()));
        assert_eq!(decoded, entries);
    }
}

/// Puts the right length and checksum into a manifest.
fn seal_manifest(bytes: &mut [u8]) {
    if let Some(body_bytes) = bytes.len().checked_sub(24) {
        bytes[16..24].copy_from_slice(&(body_bytes as u64).to_le_bytes());
        let crc = crc32c_append(crc32c(&bytes[..12]), &bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Decodes a manifest with the right checksum.
///
/// # Panics
/// If it does not mean the same when it is written again.
pub fn manifest(input: &[u8]) {
    let mut bytes = input.to_vec();
    seal_manifest(&mut bytes);
    let path = Path::new("manifest");
    let Ok(manifest) = Manifest::decode(&bytes, path) else { return };
    let again = Manifest::decode(&manifest.encode(), path).expect("what was written is right");
    assert!(again == manifest, "a manifest means the same when it is written again");
}

/// Decodes a hint of what is hot with the right checksum.
///
/// # Panics
/// If its records do not ascend, or if it does not mean the same when it is written again.
pub fn hint(input: &[u8]) {
    let mut bytes = input.to_vec();
    // Its header is a manifest's, but for the name.
    seal_manifest(&mut bytes);
    let path = Path::new("hot");
    let Ok((hint, database)) = HotHint::decode(&bytes, path) else { return };
    assert!(hint.records().is_sorted_by(|a, b| a < b), "records ascend");
    let again = HotHint::decode(&hint.encode(database), path).expect("what was written is right");
    assert!(again == (hint, database), "a hint means the same when it is written again");
}

/// A hint of these records.
#[must_use]
pub fn hint_of(records: Vec<RecordAddr>) -> Vec<u8> {
    HotHint::new(Lsn(9), records).encode([0xda; 16])
}

/// Puts the right checksums into a run, as far as its parts can be found.
pub fn seal_run(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES + TRAILER_BYTES {
        return;
    }
    let (front, trailer) = bytes.split_at_mut(bytes.len() - TRAILER_BYTES);
    let header: &mut [u8; HEADER_BYTES] = front.first_chunk_mut().expect("it is that long");
    let seed = Header::crc(header);
    header[12..16].copy_from_slice(&seed.to_le_bytes());
    let block_bytes = u32_at(front, 44) as usize;
    let blocks = u32_at(trailer, 32) as usize;
    let lens = [u32_at(trailer, 36) as usize * SEGMENT_BYTES, blocks * FENCE_BYTES];
    let mut at = block_bytes.min(front.len());
    for _ in 0..blocks.min(front.len()) {
        let Some(block) = front.get_mut(at..at + block_bytes) else { return };
        let Some((crc, rest)) = block.split_first_chunk_mut::<4>() else { return };
        *crc = crc32c_append(seed, rest).to_le_bytes();
        at += block_bytes;
    }
    for (len, crc_at) in lens.into_iter().zip([40, 44]) {
        let Some(part) = front.get(at..at + len) else { return };
        trailer[crc_at..crc_at + 4].copy_from_slice(&crc32c_append(seed, part).to_le_bytes());
        at += len;
    }
    trailer[48..52].copy_from_slice(&crc32c_append(seed, &front[at..]).to_le_bytes());
    trailer[12..16].copy_from_slice(&seed.to_le_bytes());
    let trailer: &mut [u8; TRAILER_BYTES] = trailer.try_into().expect("it is that long");
    let crc = Trailer::crc(trailer);
    trailer[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the manifest of one run name this one, whatever its trailer.
pub fn name_run(manifest: &mut [u8], run: &[u8]) {
    const RUN_AT: usize = 52;
    if run.len() < TRAILER_BYTES || manifest.len() < RUN_AT + 45 {
        return;
    }
    let trailer = &run[run.len() - TRAILER_BYTES..];
    manifest[RUN_AT + 25..RUN_AT + 33].copy_from_slice(&trailer[16..24]);
    manifest[RUN_AT + 33..RUN_AT + 41].copy_from_slice(&(run.len() as u64).to_le_bytes());
    manifest[RUN_AT + 41..RUN_AT + 45].copy_from_slice(&trailer[8..12]);
    seal_manifest(manifest);
}

/// Reads everything of an index of one run.
///
/// # Panics
/// If what is accepted contradicts itself.
pub fn read(index: &Index, disk: &dyn Disk, dir: &Path) {
    let is_right = verify(disk, dir).is_ok();
    let judge = Judge::Settled(Scopes::without_map());
    let Ok(mut pass) = index.live_pass(judge) else { return };
    let mut entries: Vec<Entry> = Vec::new();
    let is_read = loop {
        match pass.step(100, &mut |entry: &Entry| entries.push(*entry)) {
            Ok(true) => break true,
            Ok(false) => {}
            Err(_) => break false,
        }
    };
    assert!(is_read || !is_right, "what verify accepts is read");
    assert!(entries.is_sorted_by(|a, b| a.name < b.name), "names ascend");
    for entry in &entries {
        let found = index.probe(entry.name);
        let agrees = matches!(&found, Ok(Some(found)) if found == entry);
        assert!(agrees || !is_right, "{entry:?} is in the run: {found:?}");
    }
}
