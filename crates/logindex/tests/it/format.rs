//! The format document as code: a second decoder, written after the document, bit by bit; and files
//! of each version, which are written anew and compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::{crc32c, crc32c_append};
use base::{DbId, ObjectId, RecordAddr, SegmentId};
use env::Disk;
use env_sim::sweep::{disk_of, image_of};
use logindex::{Hash96, Name, Place, Scope, What};

use crate::damage::sample;
use crate::harness::{DATABASE, DIR, check, open, state_of};

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    (0..len).rev().fold(0, |number, i| (number << 8) | u64::from(bytes[at + i]))
}

fn bits(bytes: &[u8], at: &mut usize, width: usize) -> u128 {
    let number = (0..width).fold(0, |number, i| {
        let bit = u128::from(bytes[(*at + i) / 8] >> ((*at + i) % 8) & 1);
        number | bit << i
    });
    *at += width;
    number
}

fn name(scope: u64, hash: u128) -> Name {
    let kind = match scope >> 63 {
        0 => Scope::database(DbId(scope)),
        _ => Scope::object(ObjectId(scope & (u64::MAX >> 1))),
    };
    let low = u32::try_from(hash & u128::from(u32::MAX)).unwrap();
    Name::new(kind, Hash96::new(u64::try_from(hash >> 32).unwrap(), low))
}

fn name_at(bytes: &[u8], at: usize) -> Name {
    let hash = u128::from(number(bytes, at + 8, 8)) << 32 | u128::from(number(bytes, at + 16, 4));
    name(number(bytes, at, 8), hash)
}

fn raw_scope(name: Name) -> u64 {
    match name.scope.kind() {
        logindex::ScopeKind::Database(id) => id.0,
        logindex::ScopeKind::Object(id) => id.0 | 1 << 63,
    }
}

/// Decodes a block as the document says.
fn block(bytes: &[u8], dictionary: &[u32]) -> Vec<(Name, What)> {
    let count = |at: usize| usize::try_from(number(bytes, at, 2)).unwrap();
    let (entries, gone) = (count(4), count(6));
    let width = |i: usize| usize::from(bytes[12 + i]);
    let mut at = 56 * 8;
    let mut bitmap = |has_any: bool| -> Vec<bool> {
        (0..entries).map(|_| has_any && bits(bytes, &mut at, 1) == 1).collect()
    };
    let (is_gone, expires, is_root) =
        (bitmap(gone > 0), bitmap(count(8) > 0), bitmap(count(10) > 0));
    let mut column = |n: usize, width: usize| -> Vec<u128> {
        (0..n).map(|_| bits(bytes, &mut at, width)).collect()
    };
    let (scopes, hashes) = (column(entries - 1, width(0)), column(entries - 1, width(1)));
    let placed = entries - gone;
    let (segments, ordinals, tags) =
        (column(placed, width(2)), column(placed, width(3)), column(placed, width(4)));
    let (expiries, objects) = (column(count(8), width(5)), column(count(10), width(6)));
    assert!(bytes[at.div_ceil(8)..].iter().all(|byte| *byte == 0), "zeros behind the columns");

    let first = name_at(bytes, 20);
    let mut hash = u128::from(first.hash.high()) << 32 | u128::from(first.hash.low());
    let mut scope = raw_scope(first);
    let (mut rank, mut expiry_rank, mut object_rank) = (0, 0, 0);
    let mut decoded = Vec::new();
    for i in 0..entries {
        if i > 0 && scopes[i - 1] > 0 {
            (scope, hash) = (scope + u64::try_from(scopes[i - 1]).unwrap(), 0);
        }
        hash += if i > 0 { hashes[i - 1] } else { 0 };
        if is_gone[i] {
            decoded.push((name(scope, hash), What::Gone));
            continue;
        }
        let segment = dictionary[usize::try_from(segments[rank]).unwrap()];
        let ordinal = u32::try_from(ordinals[rank]).unwrap();
        let tag = u8::try_from(tags[rank]).unwrap();
        let mut place = Place::new(RecordAddr::new(SegmentId(segment), ordinal), tag);
        rank += 1;
        if expires[i] {
            let more = u64::try_from(expiries[expiry_rank]).unwrap();
            place = place.with_expiry(number(bytes, 40, 8) + more);
            expiry_rank += 1;
        }
        if is_root[i] {
            let more = u64::try_from(objects[object_rank]).unwrap();
            place = place.with_object(ObjectId(number(bytes, 48, 8) + more));
            object_rank += 1;
        }
        decoded.push((name(scope, hash), What::At(place)));
    }
    decoded
}

fn filter_bits(name: Name, lines: u64) -> Vec<(usize, u8)> {
    let k = |text| u64::from_str_radix(text, 16).unwrap();
    let mut h = raw_scope(name).wrapping_mul(k("9e3779b97f4a7c15"))
        ^ name.hash.high()
        ^ u64::from(name.hash.low()).wrapping_mul(k("c2b2ae3d27d4eb4f"));
    for factor in ["ff51afd7ed558ccd", "c4ceb9fe1a85ec53"] {
        h = (h ^ (h >> 33)).wrapping_mul(k(factor));
    }
    h ^= h >> 33;
    let line = ((h >> 32) * lines) >> 32;
    let bits = h.wrapping_mul(k("d6e8feb86659fd93"));
    let bit = |n: u64| (bits >> (9 * n)) % 512;
    let byte = |n| usize::try_from(line * 64 + bit(n) / 8).unwrap();
    (0..7).map(|n| (byte(n), 1 << (bit(n) % 8))).collect()
}

/// Decodes a run as the document says.
fn run(bytes: &[u8]) -> Vec<(Name, What)> {
    let crc =
        |parts: &[&[u8]]| u64::from(parts.iter().fold(0, |crc, part| crc32c_append(crc, part)));
    assert_eq!((&bytes[..8], number(bytes, 8, 4)), (&b"INDELRUN"[..], 1));
    let seed = number(bytes, 12, 4);
    assert_eq!(seed, crc(&[&bytes[..12], &bytes[16..64]]));
    let seeded = |part: &[u8]| u64::from(crc32c_append(u32::try_from(seed).unwrap(), part));
    assert_eq!(bytes[16..32], DATABASE);
    let block_bytes = usize::try_from(number(bytes, 44, 4)).unwrap();
    assert!(bytes[64..block_bytes].iter().all(|byte| *byte == 0));
    let trailer = &bytes[bytes.len() - 96..];
    assert_eq!(&trailer[..8], b"INDELRTR");
    assert_eq!(number(trailer, 8, 4), crc(&[&trailer[..8], &trailer[12..]]));
    assert_eq!(number(trailer, 12, 4), seed);
    let field = |at, len| usize::try_from(number(trailer, at, len)).unwrap();
    let (blocks, segments, lines) = (field(32, 4), field(36, 4), field(56, 8));
    assert_eq!(field(84, 8), bytes.len());
    let (blocks_part, rest) = bytes[block_bytes..].split_at(blocks * block_bytes);
    let (dictionary, rest) = rest.split_at(segments * 4);
    let (fences, rest) = rest.split_at(blocks * 22);
    let (mut filter, rest) = rest.split_at(lines * 64);
    assert_eq!(rest.len(), 96);
    assert_eq!(number(trailer, 40, 4), seeded(dictionary));
    assert_eq!(number(trailer, 44, 4), seeded(fences));
    assert_eq!(number(trailer, 48, 4), seeded(filter));
    let dictionary: Vec<u32> =
        dictionary.chunks(4).map(|segment| u32::try_from(number(segment, 0, 4)).unwrap()).collect();
    let mut entries = Vec::new();
    for (bytes, fence) in blocks_part.chunks(block_bytes).zip(fences.chunks(22)) {
        assert_eq!(number(bytes, 0, 4), seeded(&bytes[4..]));
        let decoded = block(bytes, &dictionary);
        assert_eq!((name_at(fence, 0), number(fence, 20, 2)), (decoded[0].0, decoded.len() as u64));
        let lines = (decoded.len() * 10).div_ceil(512);
        let mut expected = vec![0; lines * 64];
        for (name, _) in &decoded {
            filter_bits(*name, lines as u64).iter().for_each(|(at, mask)| expected[*at] |= mask);
        }
        assert_eq!(expected, filter[..lines * 64]);
        filter = &filter[lines * 64..];
        entries.extend(decoded);
    }
    assert!(filter.is_empty() && entries.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(field(16, 8), entries.len());
    assert_eq!(field(24, 8), entries.iter().filter(|(_, what)| *what == What::Gone).count());
    assert_eq!(name_at(trailer, 64), entries.last().unwrap().0);
    entries
}

#[test]
fn the_format_is_the_documented_one() {
    let (disk, writer) = sample();
    let image = image_of(&disk, &[Path::new(DIR)]);
    let manifest = &image[&Path::new(DIR).join("manifest")];
    assert_eq!((&manifest[..8], number(manifest, 8, 4)), (&b"INDELIDX"[..], 1));
    let crc = crc32c_append(crc32c(&manifest[..12]), &manifest[16..]);
    assert_eq!(number(manifest, 12, 4), crc.into());
    assert_eq!(number(manifest, 16, 8), manifest.len() as u64 - 24);
    assert_eq!(manifest[24..40], DATABASE);
    let mut at = 52;
    let mut newest: BTreeMap<Name, What> = BTreeMap::new();
    for _ in 0..number(manifest, 48, 4) {
        let id = number(manifest, at, 8);
        assert!(id < number(manifest, 40, 8));
        let bytes = &image[&Path::new(DIR).join(format!("{id:010}.run"))];
        assert_eq!(number(bytes, 32, 8), id);
        assert_eq!((bytes[40], &bytes[48..64]), (manifest[at + 8], &manifest[at + 9..at + 25]));
        let entries = run(bytes);
        assert_eq!(number(manifest, at + 25, 8), entries.len() as u64);
        assert_eq!(number(manifest, at + 33, 8), bytes.len() as u64);
        assert_eq!(number(manifest, at + 41, 4), number(bytes, bytes.len() - 88, 4));
        for (name, what) in entries {
            newest.entry(name).or_insert(what);
        }
        at += 45;
    }
    assert!(newest.len() > 15);
    assert!(newest.iter().all(|(name, what)| writer.picture.newest[name] == *what));
    // The cut: its LSN, the map of databases, the state.
    assert_eq!((manifest[at], number(manifest, at + 1, 8)), (1, writer.lsn.0));
    assert_eq!((manifest[at + 9], number(manifest, at + 10, 8)), (2, 4));
    assert_eq!(number(manifest, at + 18, 4), 3);
    let named: Vec<u64> = (0..3).map(|i| number(manifest, at + 22 + 8 * i, 8)).collect();
    assert_eq!(named, [0, 1, 3], "2 was flushed");
    let state = state_of(writer.lsn);
    assert_eq!(number(manifest, at + 46, 8), state.len() as u64);
    assert_eq!(manifest[at + 54..], state);
}

/// `offset  16 bytes in hex`, a line each.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        write!(text, "{:06x}", i * 16).unwrap();
        line.iter().for_each(|byte| write!(text, " {byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let bytes = text.lines().flat_map(|line| line.split(' ').skip(1));
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn fixture(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_string_lossy();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    fixtures.join(format!("{name}.hex"))
}

#[test]
fn version_1_is_written_and_read_as_ever() {
    let (disk, writer) = sample();
    let image = image_of(&disk, &[Path::new(DIR)]);
    if std::env::var_os("INDELIBLE_WRITE_FIXTURES").is_some() {
        for (path, bytes) in &image {
            std::fs::create_dir_all(fixture(path).parent().unwrap()).unwrap();
            std::fs::write(fixture(path), hex(bytes)).unwrap();
        }
    }
    let mut kept = image.clone();
    for (path, bytes) in &mut kept {
        let text = std::fs::read_to_string(fixture(path)).unwrap();
        assert_eq!(hex(bytes), text, "{}", path.display());
        *bytes = from_hex(&text);
    }
    let disk: Arc<dyn Disk> = Arc::new(disk_of(&kept));
    check(&open(&disk).unwrap().index(), &writer.picture);
}
