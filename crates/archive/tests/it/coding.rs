//! Compressed and encrypted archives: what is read of them, and what is refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use archive::{
    Builder, Compression, Encoding, Error, Fill, Folder, Header, Key, Keyed, Keys, Name, Object,
    ObjectReader, Point, State, Target, encode,
};
use base::checksum::{crc32c, crc32c_append};
use base::{DbId, Lsn, Record, RecordKind};
use env::Disk;
use env_sim::sweep::{Image, image_of};
use env_sim::{Faults, SimDisk};
use redo::Id;

use crate::world::{
    Coding, INTO, TARGET, World, archive_options, begin, contents_of, keyed, restore_into, target,
};

const DATABASE: Id = Id([0xda; 16]);

fn key(of: u8) -> Key {
    Key::new([of; 32])
}

/// Everything in an archive, claims last.
fn files_of(world: &World) -> Image {
    let database = archive::database_of(&world.target(), None).unwrap();
    let root = Path::new(TARGET).join(database.to_string());
    let folders = ["log", "base", "whole", "writer"].map(|folder| root.join(folder));
    let folders: Vec<&Path> = folders.iter().map(std::path::PathBuf::as_path).collect();
    image_of(&world.target_disk, &folders)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// One with a secret in its copy and in a block behind it.
fn secretive(coding: Coding) -> World {
    let mut world = World::coded(2, coding);
    for key in [b"in-the-copy", b"in-a-block!"] {
        world.database.set(key, &b"attack at dawn, ".repeat(100));
        world.seal();
        world.settle();
    }
    world
}

#[test]
fn what_repeats_is_shorter_in_a_compressed_archive() {
    let bytes = |coding| {
        let world = secretive(coding);
        let figures = world.desk.figures();
        let there: usize = files_of(&world).values().map(Vec::len).sum();
        assert!(figures.bytes <= there as u64, "{figures:?}");
        assert_eq!(coding == Coding::Plain, figures.bytes == figures.raw_bytes, "{figures:?}");
        assert!(world.check(1) > 1);
        there
    };
    let [plain, compressed, encrypted] = Coding::ALL.map(bytes);
    assert!(compressed * 2 < plain && encrypted * 2 < plain, "{compressed}, {encrypted}: {plain}");
}

#[test]
fn nothing_of_the_data_is_in_clear_in_an_encrypted_archive() {
    for coding in Coding::ALL {
        let world = secretive(coding);
        let parts: [&[u8]; 3] = [b"attack", b"in-the-copy", b"in-a-block!"];
        let seen =
            files_of(&world).values().filter(|bytes| parts.iter().any(|it| has(bytes, it))).count();
        assert_eq!(seen > 0, coding != Coding::Encrypted, "{coding:?}");
        let files = files_of(&world);
        let sealed: Vec<_> = files.values().filter(|bytes| bytes[36] == 2).collect();
        let salts: std::collections::BTreeSet<&[u8]> =
            sealed.iter().map(|bytes| &bytes[152..184]).collect();
        assert_eq!(salts.len(), sealed.len(), "each has a salt of its own");
    }
}

/// Compression is changed while it is archived: each object says how it is encoded.
#[test]
fn objects_that_are_compressed_and_not_are_read_together() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    for compression in [Compression::Zstd(1), Compression::None, Compression::Zstd(19)] {
        let options = archive::ArchiveOptions { compression, ..archive_options() };
        world.desk.set_options(options);
        for _ in 0..4 {
            world.database.set(b"key", &b"again and ".repeat(50));
            world.seal();
            world.settle();
        }
    }
    let codecs: std::collections::BTreeSet<u8> =
        files_of(&world).values().map(|bytes| bytes[36]).collect();
    assert_eq!(codecs.len(), 2, "{codecs:?}");
    assert!(world.check(1) > 12);
}

/// What is refused without a key, or with another one, and that nothing was made.
fn refused(world: &World, keys: Keys) -> Error {
    let disk = SimDisk::new(3, Faults::default());
    let archive = keyed(&world.target_disk, keys);
    let error = restore_into(&disk, &archive, Point::Latest).unwrap_err();
    assert!(!disk.exists(Path::new(INTO)).unwrap(), "{error}");
    let database = archive::database_of(&archive, None).unwrap();
    let verified = archive::verify(&archive, database, &mut |_, _| {}).unwrap();
    assert!(!verified.locked.is_empty() && verified.objects == 0, "{error}");
    assert!(verified.errors.is_empty(), "what cannot be read is not known to be damaged");
    assert!(archive::overview(&archive, database, false).is_err());
    error
}

#[test]
fn without_the_key_nothing_is_read_and_the_error_says_which_one_it_is() {
    let world = secretive(Coding::Encrypted);
    let id = key(7).id();
    let error = refused(&world, Keys::NONE);
    assert!(matches!(error, Error::NoKey { id: found, has_keys: false, .. } if found == id));
    assert!(error.to_string().contains(&format!("key {id}, and no key was given")), "{error}");
    let error = refused(&world, Keys::new(vec![key(8)]));
    assert!(matches!(error, Error::NoKey { has_keys: true, .. }), "{error}");
    assert!(error.to_string().contains("none of those that were given"), "{error}");
    // Of several keys the right one is taken.
    let disk = SimDisk::new(3, Faults::default());
    let archive = keyed(&world.target_disk, Keys::new(vec![key(8), key(7)]));
    restore_into(&disk, &archive, Point::Latest).unwrap();
    assert_eq!(contents_of(&disk).1, world.database.keyspace.contents());
}

/// What could have been put there in the place of what was encrypted is not read.
#[test]
fn an_archive_in_clear_is_not_read_with_a_key() {
    for coding in [Coding::Plain, Coding::Compressed] {
        let error = refused(&secretive(coding), Keys::new(vec![key(7)]));
        assert!(matches!(error, Error::NotEncrypted { .. }), "{error}");
    }
}

#[test]
fn a_server_with_another_key_or_none_ends_before_it_has_changed_anything() {
    let pairs = [(Coding::Encrypted, Coding::Plain), (Coding::Plain, Coding::Encrypted)];
    for (was, is) in pairs {
        let mut world = secretive(was);
        let before = files_of(&world);
        world.mood.lock().unwrap().coding = is;
        world.restart(false);
        for _ in 0..20 {
            world.clock.advance_us(1_000_000);
            world.archive();
        }
        let figures = world.desk.figures();
        assert_eq!(figures.state, State::Failed, "{figures:?}");
        assert!(figures.last_error.unwrap().contains("encrypted"));
        assert_eq!(files_of(&world), before, "{was:?}, {is:?}");
    }
    // Nor is a copy of which no block is behind taken for its own.
    let mut world = World::coded(2, Coding::Encrypted);
    world.write();
    world.settle();
    assert_eq!(world.picture().last_log, None);
    let mood = Arc::clone(&world.mood);
    mood.lock().unwrap().coding = Coding::Plain;
    let before = files_of(&world);
    let (mut archiver, desk) = begin(&world.database, &world.target_disk, &world.clock, &mood, 77);
    archiver.step();
    assert_eq!(desk.figures().state, State::Failed);
    assert_eq!(files_of(&world), before);
}

/// The first key encrypts what comes, and all of them decrypt what there is.
#[test]
fn a_new_key_takes_the_place_of_an_old_one() {
    let mut world = secretive(Coding::Encrypted);
    let archive = keyed(&world.target_disk, Keys::new(vec![key(8), key(7)]));
    let desk = Arc::new(archive::Desk::new(archive_options()));
    let reader = world.database.log.reader();
    let mut archiver = archive::Archiver::new(
        reader,
        Box::new(archive),
        world.clock.clone(),
        Arc::clone(&desk),
        [9; 32],
    );
    world.database.set(b"after", b"the rotation");
    world.seal();
    world.database.flush();
    let last = world.database.last();
    for _ in 0..50 {
        world.clock.advance_us(1_000_000);
        archiver.step();
    }
    assert_eq!((desk.figures().state, desk.figures().archived.0), (State::Streaming, last));
    let restored = |keys: &[u8]| {
        let disk = SimDisk::new(3, Faults::default());
        let archive =
            keyed(&world.target_disk, Keys::new(keys.iter().map(|of| key(*of)).collect()));
        restore_into(&disk, &archive, Point::Latest).map(|_| contents_of(&disk).1)
    };
    for keys in [[7, 8], [8, 7]] {
        assert_eq!(restored(&keys).unwrap(), world.database.keyspace.contents());
    }
    for keys in [[7], [8]] {
        assert!(matches!(restored(&keys), Err(Error::NoKey { has_keys: true, .. })));
    }
}

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

fn name(index: u32) -> Name {
    Name::Base { fill: Fill { lsn: Lsn(900), writer: 2, number: 1 }, index }
}

/// A copy with values of these lengths, of which every second one can be compressed.
fn object(lengths: &[usize]) -> (Header, Vec<u8>) {
    let Name::Base { fill, index } = name(0) else { unreachable!() };
    let mut builder = Builder::base(DATABASE, fill, index);
    let mut random = 1_u64;
    for (lsn, length) in (1..).zip(lengths) {
        let mut next = |of: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if lsn % 2 == 0 { random.to_le_bytes()[7] } else { of.to_le_bytes()[0] & 3 }
        };
        let value: Vec<u8> = (0..*length).map(&mut next).collect();
        let record = Record::whole(RecordKind::String, DbId(0), b"key", &value, None);
        builder.put_records((Lsn(lsn), 1000), [record].into_iter());
    }
    builder.finish()
}

fn keys_of(encoding: Encoding) -> Keys {
    if encoding == Encoding::Sealed { Keys::new(vec![key(7)]) } else { Keys::NONE }
}

/// What an object has, or what is wrong with it.
fn read(bytes: &[u8], name: Name, keys: &Keys) -> archive::Result<Vec<u8>> {
    let mut reader = ObjectReader::of(Box::new(Bytes(bytes.to_vec())), (DATABASE, keys), name)?;
    let mut all = Vec::new();
    while let Some(block) = reader.next()? {
        all.extend_from_slice(&block.header.encode());
        all.extend_from_slice(&block.payload);
    }
    Ok(all)
}

fn encoded(header: &Header, plain: &[u8], encoding: Encoding) -> Vec<u8> {
    let key = key(7);
    let key = (encoding == Encoding::Sealed).then_some((&key, [4; 32]));
    encode(header, plain, Compression::Zstd(1), key).unwrap()
}

#[test]
fn objects_of_any_number_of_frames_are_read_as_they_were() {
    const FRAME: usize = 256 << 10;
    let lengths: [&[usize]; 6] = [
        &[0],
        &[10, 20, 30],
        &[300_000, 300_000],
        &[3 << 20, 5, 2 << 20, 1 << 20],
        // The last frame is full.
        &[FRAME - 64 - 10],
        &[1000; 800],
    ];
    for lengths in lengths {
        let (header, plain) = object(lengths);
        for encoding in [Encoding::Frames, Encoding::Sealed] {
            let bytes = encoded(&header, &plain, encoding);
            let all = read(&bytes, name(0), &keys_of(encoding)).unwrap();
            assert_eq!(all, plain[128..], "{encoding:?}, {lengths:?}");
        }
        // What does not become shorter takes a few bytes more.
        let stored = encode(&header, &plain, Compression::None, Some((&key(7), [4; 32])));
        let stored = stored.unwrap();
        assert!(stored.len() <= plain.len() + 72 + 24 * plain.len().div_ceil(FRAME));
        assert_eq!(read(&stored, name(0), &keys_of(Encoding::Sealed)).unwrap(), plain[128..]);
    }
}

/// A header whose checksum is right, and which is not that of these blocks.
#[test]
fn what_a_header_counts_is_compared_with_what_is_there() {
    let (header, good) = object(&[10, 20, 30]);
    assert!(!header.may_have(RecordKind::Hash));
    let others = [
        Header { blocks: header.blocks - 1, ..header },
        Header { records: header.records + 1, ..header },
        Header { kinds: header.kinds | 1 << RecordKind::Hash as u32, ..header },
        Header { time_min_ms: header.time_min_ms - 1, ..header },
        Header { time_max_ms: header.time_max_ms + 1, ..header },
        Header { last_crc: !header.last_crc, ..header },
    ];
    for other in others {
        let mut bytes = good.clone();
        bytes[..128].copy_from_slice(&other.encode());
        let error = read(&bytes, name(0), &Keys::NONE).unwrap_err().to_string();
        assert!(error.contains("other blocks than its header counts"), "{other:?}: {error}");
    }
}

/// A block that is whole, and behind the one that its copy is of.
#[test]
fn a_block_that_cannot_be_in_an_object_is_not_read() {
    let Name::Base { fill, index } = name(0) else { unreachable!() };
    let record = || Record::whole(RecordKind::String, DbId(0), b"key", b"value", None);
    let of = |lsn| {
        let mut builder = Builder::base(DATABASE, fill, index);
        builder.put_records((Lsn(lsn), 1000), [record()].into_iter());
        read(&builder.finish().1, name(0), &Keys::NONE).map_err(|error| error.to_string())
    };
    of(fill.lsn.0).unwrap();
    for lsn in [0, fill.lsn.0 + 1] {
        let error = of(lsn).unwrap_err();
        assert!(error.contains("a block is not the one that should be there"), "{lsn}: {error}");
    }
}

/// Of a copy all objects are whole, and they are not what was counted when it was made.
#[test]
fn a_copy_that_counts_something_else_is_not_restored() {
    let mut world = World::new(3);
    world.write();
    world.settle();
    let target = world.target();
    let database = archive::database_of(&target, None).unwrap();
    let whole = world.list(Folder::Whole)[0];
    let header = *ObjectReader::open(&target, database, whole).unwrap().header();
    target.remove(database, &whole).unwrap();
    let other = Header { records: header.records + 1, ..header };
    target.put_new(database, &whole, &other.encode()).unwrap();
    let new = SimDisk::new(3, Faults::default());
    let error = restore_into(&new, &target, Point::Latest).unwrap_err().to_string();
    assert!(error.contains("the copy has other blocks than it counts"), "{error}");
    let verified = archive::verify(&target, database, &mut |_, _| {}).unwrap();
    let error = verified.errors[0].to_string();
    assert!(error.contains("the copy has other blocks than it counts"), "{error}");
}

/// Puts right the checksums of what was changed in an object's header.
fn put_right(bytes: &mut [u8], start: usize) {
    let crc = crc32c(&bytes[16..128]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c_append(crc32c(&bytes[128..140]), &bytes[144..start]);
    bytes[140..144].copy_from_slice(&crc.to_le_bytes());
}

fn put_frame_right(bytes: &mut [u8], at: usize) {
    let length = u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) & !(1 << 31);
    let end = (at + 8 + length as usize).min(bytes.len());
    let crc = crc32c_append(crc32c(&bytes[at..at + 4]), &bytes[at + 8..end]);
    bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Checksums can be made by anyone: what an encrypted object says of itself is proven by its key.
#[test]
fn what_was_changed_with_all_checksums_put_right_is_not_read() {
    let (header, plain) = object(&[400_000, 400_000, 700]);
    let good = encoded(&header, &plain, Encoding::Sealed);
    let keys = keys_of(Encoding::Sealed);
    for at in (16..128).chain(128..200).filter(|at| !(140..144).contains(at)) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        put_right(&mut bytes, 200);
        assert!(read(&bytes, name(0), &keys).is_err(), "byte {at}");
    }
    for at in [200, 203, 208, 300, 1000] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        put_frame_right(&mut bytes, 200);
        assert!(read(&bytes, name(0), &keys).is_err(), "byte {at}");
    }
    // In the place of another object, with a header that says so.
    let mut bytes = good.clone();
    bytes[116] = 1;
    put_right(&mut bytes, 200);
    let error = read(&bytes, name(1), &keys).unwrap_err();
    assert!(error.to_string().contains("its header is not what was encrypted"), "{error}");
    // Frames exchanged: all of them are whole.
    let length = |at: usize| {
        8 + (u32::from_le_bytes(*good[at..].first_chunk().unwrap()) & !(1 << 31)) as usize
    };
    let (first, second) = (length(200), length(200 + length(200)));
    let mut bytes = good[..200].to_vec();
    bytes.extend_from_slice(&good[200 + first..200 + first + second]);
    bytes.extend_from_slice(&good[200..200 + first]);
    bytes.extend_from_slice(&good[200 + first + second..]);
    let error = read(&bytes, name(0), &keys).unwrap_err();
    assert!(error.to_string().contains("a frame is not what was encrypted"), "{error}");
}

/// A few bytes that say to become many do not.
#[test]
fn a_frame_never_becomes_more_than_it_may() {
    let zeros = vec![0; 64 << 20];
    let bomb = zstd::bulk::compress(&zeros, 19).unwrap();
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    let (header, plain) = object(&[10]);
    let with_frame = |header: &Header, frame: &[u8], frame_bytes: u32| {
        let mut bytes = encoded(header, &plain, Encoding::Frames);
        bytes.truncate(144);
        let length = u32::try_from(frame.len()).unwrap() | 1 << 31;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(frame);
        put_frame_right(&mut bytes, 144);
        let stored = (bytes.len() - 144) as u64;
        bytes[128..136].copy_from_slice(&stored.to_le_bytes());
        bytes[136..140].copy_from_slice(&frame_bytes.to_le_bytes());
        put_right(&mut bytes, 144);
        read(&bytes, name(0), &Keys::NONE).unwrap_err().to_string()
    };
    let error = with_frame(&header, &bomb, 1 << 18);
    assert!(error.contains("does not decode to what it should have"), "{error}");
    let short = zstd::bulk::compress(&plain[128..plain.len() - 1], 1).unwrap();
    let error = with_frame(&header, &short, 1 << 18);
    assert!(error.contains("does not decode to what it should have"), "{error}");
    for frame_bytes in [0, (1 << 20) + 1, u32::MAX] {
        let error = with_frame(&header, &bomb, frame_bytes);
        assert!(error.contains("a length that frames do not have"), "{error}");
    }
    // The frame that it had, and something behind it.
    let good = encoded(&header, &plain, Encoding::Frames);
    let mut more = good.clone();
    more.extend_from_slice(&good[144..]);
    let stored = (more.len() - 144) as u64;
    more[128..136].copy_from_slice(&stored.to_le_bytes());
    put_right(&mut more, 144);
    let error = read(&more, name(0), &Keys::NONE).unwrap_err().to_string();
    assert!(error.contains("something behind the last frame"), "{error}");
    // A header that counts more than its frames can have.
    for bytes in [u64::MAX, 1 << 60, 1 << 40] {
        let error = with_frame(&Header { bytes, ..header }, &bomb, 1 << 20);
        assert!(error.contains("another number of frames"), "{error}");
    }
}

/// A target without keys of its own, as tests have it.
#[test]
fn a_target_has_no_keys_unless_it_was_given_some() {
    let disk = SimDisk::new(1, Faults::default());
    assert!(target(&disk).keys().is_empty());
    assert!(!Keyed::new(Box::new(target(&disk)), Keys::new(vec![key(1)])).keys().is_empty());
}
