//! The manifest: one small file that says what the database consists of.
//!
//! It is only ever replaced as a whole: a new one is written next to it, synced, and renamed over
//! it. What is in it is what must be known even when the files that it is about are gone: the
//! devices, the segment numbers that may not be given out again, and how far the log was durable
//! and compacted when something was removed.
//!
//! A small file `device` in each device's directory says whose it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use base::bytes::{array_at, u32_at, u64_at};
use base::checksum::crc32c;
use base::{Lsn, Mutex, ObjectId, SegmentId};
use env::{Access, Disk};

use crate::error::{Error, IoContext, Result};
use crate::format::listing::{Listed, Listing};
use crate::format::registry::Registry;
pub use crate::format::rewinds::{Placed, PutBack, Rewind, Rewinds};
use crate::format::sections::{self, Tag};
use crate::format::segment::SegmentHeader;
use crate::id::Id;

/// The newest format of the manifest: 2 has sections, the object floor among them.
const MANIFEST_VERSION: u32 = 2;

/// The newest format of a device's mark.
const DEVICE_VERSION: u32 = 1;

/// A device as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestDevice {
    /// Its id, which its directory repeats.
    pub id: Id,
    /// Where it was last seen.
    pub path: PathBuf,
    /// It is being drained: what is on it is written to the others.
    pub is_leaving: bool,
}

/// What the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The database.
    pub database: Id,
    /// The seed of the keyspace's hashes: the order of what is on disk depends on it.
    pub hash_seed: [u8; 16],
    /// How many times the log was opened.
    pub epoch: u64,
    /// Every block up to this one was durable when this was written.
    pub durable_lsn: Lsn,
    /// No segment that was removed ever held a block above this one.
    pub horizon: Lsn,
    /// Segment numbers below this one may have been used.
    pub next_segment: SegmentId,
    /// The object floor: no object from this one on was ever named by a record that is gone.
    pub object_floor: ObjectId,
    /// The devices.
    pub devices: Vec<ManifestDevice>,
    /// The images of segments that there must be.
    pub listed: Vec<Listed>,
    /// Files that compactions have replaced and that are kept.
    pub history: Vec<KeptFile>,
    /// The history floor: of every LSN from here on, all files are there or kept that the log was
    /// made of then.
    pub history_floor: Lsn,
    /// When the log was last at the floor, at the latest, in Unix milliseconds; 0 if unknown.
    pub history_floor_ms: i64,
    /// Blocks below the floor, or not below it yet, of which the same is true. Ascending.
    pub history_points: Vec<HistoryPoint>,
    /// Named backups, and commands that were dangerous.
    pub registry: Registry,
    /// The log that this one was restored from.
    pub parent: Option<Parent>,
    /// When the log was set back in place, and what is in place since then.
    pub rewinds: Rewinds,
}

/// A block behind which something was about to be lost, as by FLUSHALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryPoint {
    /// The block.
    pub lsn: Lsn,
    /// When that was, in Unix milliseconds.
    pub time_ms: i64,
}

/// The log that another one has branched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Its database.
    pub database: Id,
    /// The last block that the two have in common.
    pub lsn: Lsn,
}

/// A file that a compaction has replaced, and that is kept in the `history` directory of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptFile {
    /// The segment that it is named after.
    pub segment: SegmentId,
    /// Its part.
    pub part: u32,
    /// How often that segment had been compacted.
    pub generation: u32,
    /// The device that has it.
    pub device: Id,
    /// The first block that needs it.
    pub from: Lsn,
    /// The log was made of it up to before this block.
    pub until: Lsn,
}

const MAGIC: &[u8; 8] = b"INDELMAN";
const HEAD_BYTES: usize = 24;
const FIXED_BYTES: usize = 60;
const LISTED_BYTES: usize = 16;
const KEPT_BYTES: usize = 36;
const POINT_BYTES: usize = 16;
const PARENT_BYTES: usize = 24;

/// The sections: numbers and ids, devices, images that there must be, object floor; history, its
/// floor, its points, the parent, named backups, dangerous commands, from when on each file of history is
/// needed, when the log was set back, and configurations of backups, which are written when they say something.
const SECTIONS: [Tag; 13] = [
    *b"BASE", *b"DEVS", *b"IMGS", *b"OBJF", *b"HIST", *b"HFLR", *b"HPTS", *b"BRAN", *b"BKUP",
    *b"CMDS", *b"HFRO", *b"RWND", *b"BCFG",
];

/// The first so many there must be.
const SECTIONS_REQUIRED: usize = 4;
const BYTES_MAX: u64 = 64 << 20;

impl Manifest {
    /// That of a log without anything in it, which was never opened.
    #[must_use]
    pub const fn new(database: Id, hash_seed: [u8; 16]) -> Self {
        Self {
            database,
            hash_seed,
            epoch: 0,
            durable_lsn: Lsn::ZERO,
            horizon: Lsn::ZERO,
            next_segment: SegmentId(1),
            object_floor: ObjectId::NONE.next(),
            devices: Vec::new(),
            listed: Vec::new(),
            history: Vec::new(),
            history_floor: Lsn::ZERO,
            history_floor_ms: 0,
            history_points: Vec::new(),
            registry: Registry::EMPTY,
            parent: None,
            rewinds: Rewinds::NONE,
        }
    }

    /// Refuses a log whose files are changing their places.
    ///
    /// # Errors
    /// When it is one.
    pub(crate) fn check_finished(&self, dir: &Path) -> Result<()> {
        match &self.rewinds.unfinished {
            Some(_) => Err(Error::RewindUnfinished { path: dir.to_owned() }),
            None => Ok(()),
        }
    }

    /// The manifest as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut base = Vec::with_capacity(FIXED_BYTES);
        base.extend_from_slice(&self.database.0);
        base.extend_from_slice(&self.hash_seed);
        base.extend_from_slice(&self.epoch.to_le_bytes());
        base.extend_from_slice(&self.durable_lsn.0.to_le_bytes());
        base.extend_from_slice(&self.horizon.0.to_le_bytes());
        base.extend_from_slice(&self.next_segment.0.to_le_bytes());
        let mut devices = Vec::new();
        for device in &self.devices {
            let path = device.path.as_os_str().as_encoded_bytes();
            devices.extend_from_slice(&device.id.0);
            devices.extend_from_slice(&u32::from(device.is_leaving).to_le_bytes());
            devices.extend_from_slice(&len_u32(path.len()).to_le_bytes());
            devices.extend_from_slice(path);
        }
        let mut images = Vec::with_capacity(self.listed.len() * LISTED_BYTES);
        for entry in &self.listed {
            images.extend_from_slice(&entry.segment.0.to_le_bytes());
            images.extend_from_slice(&entry.part.to_le_bytes());
            images.extend_from_slice(&entry.last_lsn.0.to_le_bytes());
        }
        let mut history = Vec::with_capacity(self.history.len() * KEPT_BYTES);
        for kept in &self.history {
            history.extend_from_slice(&kept.segment.0.to_le_bytes());
            history.extend_from_slice(&kept.part.to_le_bytes());
            history.extend_from_slice(&kept.generation.to_le_bytes());
            history.extend_from_slice(&kept.device.0);
            history.extend_from_slice(&kept.until.0.to_le_bytes());
        }
        let objects = self.object_floor.0.to_le_bytes();
        let floor = self.history_floor.0.to_le_bytes();
        let mut body = Vec::new();
        for (tag, content) in SECTIONS.into_iter().zip([&base[..], &devices, &images, &objects]) {
            sections::put(&mut body, tag, content);
        }
        let [
            ..,
            history_tag,
            floor_tag,
            points_tag,
            parent_tag,
            backups_tag,
            commands_tag,
            froms_tag,
            rewinds_tag,
            configurations_tag,
        ] = SECTIONS;
        if !history.is_empty() {
            sections::put(&mut body, history_tag, &history);
            let froms = self.history.iter().flat_map(|kept| kept.from.0.to_le_bytes());
            sections::put_skippable(&mut body, froms_tag, &froms.collect::<Vec<u8>>());
        }
        if self.history_floor != self.durable_lsn {
            // A program that leaves it out has compacted nothing beyond the durable LSN that it writes,
            // which stands for the floor then.
            sections::put_skippable(&mut body, floor_tag, &floor);
        }
        if self.history_floor_ms != 0 || !self.history_points.is_empty() {
            let mut points = self.history_floor_ms.to_le_bytes().to_vec();
            for point in &self.history_points {
                points.extend_from_slice(&point.lsn.0.to_le_bytes());
                points.extend_from_slice(&point.time_ms.to_le_bytes());
            }
            sections::put_skippable(&mut body, points_tag, &points);
        }
        if let Some(Parent { database, lsn }) = self.parent {
            let parent = [&database.0[..], &lsn.0.to_le_bytes()].concat();
            sections::put_skippable(&mut body, parent_tag, &parent);
        }
        let registry = &self.registry;
        if !registry.backups().is_empty() {
            // A program that overlooked it would give up what they need.
            sections::put(&mut body, backups_tag, &self.registry.encode_backups());
        } else if registry.next_id() > 0 {
            sections::put_skippable(&mut body, backups_tag, &self.registry.encode_backups());
        }
        if !registry.commands().is_empty() {
            sections::put_skippable(&mut body, commands_tag, &self.registry.encode_commands());
        }
        if self.rewinds.must_be_known() {
            sections::put(&mut body, rewinds_tag, &self.rewinds.encode());
        } else if !self.rewinds.is_empty() {
            sections::put_skippable(&mut body, rewinds_tag, &self.rewinds.encode());
        }
        let configurations = registry.encode_configurations();
        if !configurations.is_empty() {
            sections::put_skippable(&mut body, configurations_tag, &configurations);
        }
        framed(MAGIC, MANIFEST_VERSION, &body)
    }

    /// The manifest that these bytes of `file` are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8], file: &Path) -> Result<Self> {
        let (version, body) = unframed(MAGIC, MANIFEST_VERSION, bytes, file)?;
        let manifest = match version {
            1 => Self::decode_version_1(body),
            _ => sections::take(SECTIONS, SECTIONS_REQUIRED, body, file)?
                .and_then(Self::decode_sections),
        };
        manifest
            .filter(Self::has_next_numbers)
            .ok_or_else(|| Error::corrupt(file, HEAD_BYTES as u64, "the manifest makes no sense"))
    }

    /// Whether what is counted can be counted on.
    fn has_next_numbers(&self) -> bool {
        self.epoch < u64::MAX
            && self.durable_lsn <= Lsn::MAX
            && self.horizon <= Lsn::MAX
            && self.next_segment <= SegmentId::MAX
            && self.object_floor < ObjectId::MAX
            && self.history_floor <= Lsn::MAX
            && self.history.iter().all(|kept| kept.from <= Lsn::MAX && kept.until <= Lsn::MAX)
            && self.history_points.iter().all(|point| point.lsn <= Lsn::MAX)
    }

    fn decode_sections(sections: [&[u8]; 13]) -> Option<Self> {
        let [base, devices, images, objects, history, floor, points, parent, rest @ ..] = sections;
        let [backups, commands, froms, rewinds, configurations] = rest;
        if base.len() != FIXED_BYTES {
            return None;
        }
        let mut rest = devices;
        let mut devices = Vec::new();
        while !rest.is_empty() {
            devices.push(take_device(&mut rest)?);
        }
        let objects = ObjectId(u64::from_le_bytes(objects.try_into().ok()?));
        let mut manifest = Self::decode_parts(base, devices, images, objects)?;
        // A program that did not know the section wrote none.
        let knows_froms = froms.len() / 8 * KEPT_BYTES == history.len();
        if !history.len().is_multiple_of(KEPT_BYTES) || !(froms.is_empty() || knows_froms) {
            return None;
        }
        let from_of =
            |index: usize| if knows_froms { Lsn(u64_at(froms, 8 * index)) } else { Lsn::ZERO };
        let kept = history.chunks_exact(KEPT_BYTES).enumerate().map(|(index, entry)| KeptFile {
            segment: SegmentId(u32_at(entry, 0)),
            part: u32_at(entry, 4),
            generation: u32_at(entry, 8),
            device: id_at(entry, 12),
            from: from_of(index),
            until: Lsn(u64_at(entry, 28)),
        });
        manifest.history = kept.collect();
        // Without the section nothing was ever kept: only now is known.
        manifest.history_floor = match floor {
            [] => manifest.durable_lsn,
            floor => Lsn(u64::from_le_bytes(floor.try_into().ok()?)),
        };
        (manifest.history_floor_ms, manifest.history_points) = Self::decode_points(points)?;
        manifest.parent = match parent {
            [] => None,
            parent if parent.len() == PARENT_BYTES => {
                Some(Parent { database: id_at(parent, 0), lsn: Lsn(u64_at(parent, 16)) })
            }
            _ => return None,
        };
        manifest.registry = Registry::decode(backups, commands)?;
        manifest.registry.take_configurations(configurations);
        manifest.rewinds = Rewinds::decode(rewinds)?;
        Some(manifest)
    }

    /// The time of the floor, and the points.
    fn decode_points(bytes: &[u8]) -> Option<(i64, Vec<HistoryPoint>)> {
        if bytes.is_empty() {
            return Some((0, Vec::new()));
        }
        let (floor_ms, points) = bytes.split_first_chunk()?;
        if !points.len().is_multiple_of(POINT_BYTES) {
            return None;
        }
        let points = points.chunks_exact(POINT_BYTES).map(|entry| HistoryPoint {
            lsn: Lsn(u64_at(entry, 0)),
            time_ms: i64::from_le_bytes(array_at(entry, 8)),
        });
        Some((i64::from_le_bytes(*floor_ms), points.collect()))
    }

    /// The body without sections: what version 2 has in three of them, with numbers between them
    /// of how many entries follow.
    fn decode_version_1(body: &[u8]) -> Option<Self> {
        let (base, mut rest) = body.split_at_checked(FIXED_BYTES)?;
        let mut devices = Vec::new();
        for _ in 0..take_u32(&mut rest)? {
            devices.push(take_device(&mut rest)?);
        }
        let listed_count = take_u32(&mut rest)?;
        if rest.len() as u64 != u64::from(listed_count) * LISTED_BYTES as u64 {
            return None;
        }
        // What was gone before there was a floor, nothing knows.
        Self::decode_parts(base, devices, rest, ObjectId::NONE.next())
    }

    fn decode_parts(
        base: &[u8],
        devices: Vec<ManifestDevice>,
        images: &[u8],
        object_floor: ObjectId,
    ) -> Option<Self> {
        if !images.len().is_multiple_of(LISTED_BYTES) {
            return None;
        }
        let listed = images.chunks_exact(LISTED_BYTES).map(|entry| Listed {
            segment: SegmentId(u32_at(entry, 0)),
            part: u32_at(entry, 4),
            last_lsn: Lsn(u64_at(entry, 8)),
        });
        let durable_lsn = Lsn(u64_at(base, 40));
        Some(Self {
            epoch: u64_at(base, 32),
            durable_lsn,
            horizon: Lsn(u64_at(base, 48)),
            next_segment: SegmentId(u32_at(base, 56)),
            object_floor,
            devices,
            listed: listed.collect(),
            history_floor: durable_lsn,
            ..Self::new(id_at(base, 0), id_at(base, 16).0)
        })
    }

    /// Reads the manifest of `dir`; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is not one.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>> {
        let path = path_in(dir);
        match read_small(disk, &path)? {
            Some(bytes) => Self::decode(&bytes, &path).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the manifest of `dir`. Durable on return.
    ///
    /// # Errors
    /// When the disk refuses; then either the old or the new one is there.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        write_small(disk, &path_in(dir), &self.encode())
    }
}

/// Where the manifest of `dir` is.
#[must_use]
pub fn path_in(dir: &Path) -> PathBuf {
    dir.join("redo.manifest")
}

/// The file in a device's directory that says whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMark {
    /// The database that the device belongs to.
    pub database: Id,
    /// The device.
    pub device: Id,
}

const DEVICE_MAGIC: &[u8; 8] = b"INDELDEV";

impl DeviceMark {
    /// Where the mark of the device in `dir` is.
    #[must_use]
    pub fn path_in(dir: &Path) -> PathBuf {
        dir.join("device")
    }

    /// Reads the mark of the device in `dir`; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is not one.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>> {
        let path = Self::path_in(dir);
        let Some(bytes) = read_small(disk, &path)? else { return Ok(None) };
        let (_, body) = unframed(DEVICE_MAGIC, DEVICE_VERSION, &bytes, &path)?;
        if body.len() != 32 {
            return Err(Error::corrupt(&path, HEAD_BYTES as u64, "the device mark is cut off"));
        }
        Ok(Some(Self { database: id_at(body, 0), device: id_at(body, 16) }))
    }

    /// Writes the mark into `dir`. Durable on return.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let body = [self.database.0, self.device.0].concat();
        write_small(disk, &Self::path_in(dir), &framed(DEVICE_MAGIC, DEVICE_VERSION, &body))
    }
}

/// The manifest of an open log, shared by the threads that may change it. Never the executor's:
/// every change is a wait for the disk.
pub(crate) struct ManifestStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// What the paths of devices are relative to.
    home: PathBuf,
    current: Mutex<Current>,
    /// What the next manifest will list. Held for moments only, never during a write.
    listing: Mutex<Listing>,
}

struct Current {
    manifest: Manifest,
    /// The last attempt to replace the file has failed: it may be there all the same.
    is_in_doubt: bool,
}

impl ManifestStore {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        home: PathBuf,
        manifest: Manifest,
    ) -> Self {
        let listing = Mutex::new(Listing::of(&manifest.listed));
        let current = Mutex::new(Current { manifest, is_in_doubt: false });
        Self { disk, dir, home, current, listing }
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A device's path as the manifest has it: what is below the data directory moves with it.
    pub(crate) fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.home).unwrap_or(path).to_owned()
    }

    /// Since when the file with this header, of its first image, is in place, if it was put back there.
    pub(crate) fn put_back_since(&self, header: &SegmentHeader) -> Option<Lsn> {
        self.current.lock().manifest.rewinds.since(header)
    }

    /// Whether what the log is now has nothing of the block: it was set back behind it.
    pub(crate) fn is_abandoned(&self, lsn: Lsn) -> bool {
        self.current.lock().manifest.rewinds.is_abandoned(lsn)
    }

    /// What the next manifest will list.
    pub(crate) fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock()
    }

    pub(crate) fn get(&self) -> Manifest {
        self.current.lock().manifest.clone()
    }

    /// Changes the manifest, durably, if `change` says that there is something to change. After an
    /// error the file may say the one or the other, until the next call has succeeded.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Manifest) -> bool) -> Result<()> {
        let mut current = self.current.lock();
        let mut next = current.manifest.clone();
        if change(&mut next) || current.is_in_doubt {
            current.is_in_doubt = true;
            next.listed = self.listing().list(next.durable_lsn);
            next.write(&*self.disk, &self.dir)?;
            *current = Current { manifest: next, is_in_doubt: false };
        }
        Ok(())
    }
}

/// Magic, format version, length and checksum around `body`.
fn framed(magic: &[u8; 8], version: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&crc32c(body).to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The version and the body of a file in such a frame, the newest version known being `known`.
fn unframed<'a>(
    magic: &[u8; 8],
    known: u32,
    bytes: &'a [u8],
    file: &Path,
) -> Result<(u32, &'a [u8])> {
    if bytes.len() < HEAD_BYTES || &bytes[..8] != magic {
        return Err(Error::corrupt(file, 0, "it does not begin as such a file does"));
    }
    let found = u32_at(bytes, 8);
    if found > known {
        return Err(Error::newer(file, found, known));
    }
    let body = &bytes[HEAD_BYTES..];
    if found == 0 || u64_at(bytes, 16) != body.len() as u64 || u32_at(bytes, 12) != crc32c(body) {
        return Err(Error::corrupt(file, 8, "its checksum or length is wrong"));
    }
    Ok((found, body))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn take_device(bytes: &mut &[u8]) -> Option<ManifestDevice> {
    let (head, rest) = bytes.split_at_checked(24)?;
    let (path, rest) = rest.split_at_checked(u32_at(head, 20) as usize)?;
    *bytes = rest;
    let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
    Some(ManifestDevice { id: id_at(head, 0), path, is_leaving: u32_at(head, 16) & 1 != 0 })
}

pub(crate) fn read_small(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.at(path, "open")?,
    };
    let len = file.len().at(path, "read")?;
    if len > BYTES_MAX {
        return Err(Error::corrupt(path, BYTES_MAX, "it is far too long"));
    }
    let mut bytes = vec![0; usize::try_from(len).expect("bounded above")];
    file.read_exact_at(&mut bytes, 0).at(path, "read")?;
    Ok(Some(bytes))
}

pub(crate) fn write_small(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    env::publish(disk, &path.with_extension("tmp"), path, bytes)?;
    Ok(())
}

pub(crate) fn id_at(bytes: &[u8], at: usize) -> Id {
    Id(array_at(bytes, at))
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("paths and devices are few and short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> Manifest {
        Manifest {
            database: Id([1; 16]),
            hash_seed: [2; 16],
            epoch: 3,
            durable_lsn: Lsn(4),
            horizon: Lsn(5),
            next_segment: SegmentId(6),
            object_floor: ObjectId(9),
            devices: vec![
                ManifestDevice { id: Id([7; 16]), path: PathBuf::from("a"), is_leaving: true },
                ManifestDevice { id: Id([8; 16]), path: PathBuf::from("b/c"), is_leaving: false },
            ],
            listed: vec![
                Listed { segment: SegmentId(1), part: 0, last_lsn: Listed::SEALED },
                Listed { segment: SegmentId(2), part: 3, last_lsn: Lsn(4) },
            ],
            history: vec![KeptFile {
                segment: SegmentId(1),
                part: 0,
                generation: 2,
                device: Id([8; 16]),
                from: Lsn(3),
                until: Lsn(4),
            }],
            history_floor: Lsn(3),
            history_floor_ms: -5,
            history_points: vec![HistoryPoint { lsn: Lsn(2), time_ms: 1_700_000_000_123 }],
            registry: Registry::new(3, Vec::new(), Vec::new()),
            parent: Some(Parent { database: Id([9; 16]), lsn: Lsn(1) }),
            rewinds: Rewinds {
                list: vec![Rewind { to: Lsn(2), at: Lsn(3), time_ms: 9 }],
                put_back: Vec::new(),
                unfinished: None,
            },
        }
    }

    #[test]
    fn a_manifest_survives_the_disk() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes, Path::new("m")).unwrap(), manifest());
    }

    /// A program that does not know when files of history begin to be needed writes a list without that.
    #[test]
    fn a_list_without_beginnings_is_read_as_needed_by_any_block() {
        let bytes = manifest().encode();
        let (_, mut body) = unframed(MAGIC, MANIFEST_VERSION, &bytes, Path::new("m")).unwrap();
        let mut without = Vec::new();
        while !body.is_empty() {
            let len = 16 + usize::try_from(u64_at(body, 8)).unwrap();
            let (section, rest) = body.split_at(len);
            without.extend_from_slice(if section.starts_with(b"HFRO") { &[] } else { section });
            body = rest;
        }
        let read =
            |body: &[u8]| Manifest::decode(&framed(MAGIC, MANIFEST_VERSION, body), Path::new("m"));
        let mut expected = manifest();
        expected.history[0].from = Lsn::ZERO;
        assert_eq!(read(&without).unwrap(), expected);
        // One that lists other files than it has beginnings of makes no sense.
        sections::put_skippable(&mut without, *b"HFRO", &[0; 16]);
        assert!(read(&without).is_err());
    }

    /// The program before this one knew the first four sections.
    #[test]
    fn a_program_that_knows_no_history_reads_a_manifest_that_lists_none() {
        let known = [SECTIONS[0], SECTIONS[1], SECTIONS[2], SECTIONS[3]];
        let is_read = |manifest: &Manifest| {
            let bytes = manifest.encode();
            assert_eq!(&Manifest::decode(&bytes, Path::new("m")).unwrap(), manifest);
            let (_, body) = unframed(MAGIC, MANIFEST_VERSION, &bytes, Path::new("m")).unwrap();
            sections::take(known, 4, body, Path::new("m")).is_ok_and(|found| found.is_some())
        };
        for history_floor in [Lsn::ZERO, Lsn(3), manifest().durable_lsn] {
            let without = Manifest { history: Vec::new(), history_floor, ..manifest() };
            assert!(is_read(&without), "{without:?}");
        }
        assert!(!is_read(&manifest()), "a file is kept, and it must not be overlooked");
    }

    #[test]
    fn numbers_that_nobody_counts_to_are_refused() {
        for bad in [
            Manifest { epoch: u64::MAX, ..manifest() },
            Manifest { durable_lsn: Lsn::MAX.next(), ..manifest() },
            Manifest { horizon: Lsn::MAX.next(), ..manifest() },
            Manifest { next_segment: SegmentId(u32::MAX), ..manifest() },
            Manifest { object_floor: ObjectId(u64::MAX), ..manifest() },
            Manifest { history_floor: Lsn::MAX.next(), ..manifest() },
            Manifest {
                history_points: vec![HistoryPoint { lsn: Lsn::MAX.next(), time_ms: 0 }],
                ..manifest()
            },
        ] {
            assert!(Manifest::decode(&bad.encode(), Path::new("m")).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut bytes = manifest().encode();
        bytes[8] = 3;
        let error = Manifest::decode(&bytes, Path::new("m")).unwrap_err();
        let is_newer =
            matches!(&error, Error::File(env::FileError::NewerFormat { found: 3, known: 2, .. }));
        assert!(is_newer, "{error}");
    }

    proptest! {
        #[test]
        fn any_body_is_decoded_or_refused(body: Vec<u8>) {
            for version in [1, 2] {
                let _ = Manifest::decode(&framed(MAGIC, version, &body), Path::new("m"));
            }
            let _ = Manifest::decode(&body, Path::new("m"));
        }
    }
}
