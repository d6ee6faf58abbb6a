//! What there is on disk: the manifest, the devices, their files. Reading only.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base::{Lsn, SegmentId};
use env::{Access, Disk, FileError};

use crate::error::{Error, IoContext, Result};
use crate::format::manifest::{self, DeviceMark, KeptFile, Manifest};
use crate::format::segment;
use crate::id::Id;
use crate::read::extent;
use crate::read::scan::SegmentFile;
use crate::read::side_by_side::side_by_side;

/// So many files are looked at at the same time: that each is three reads matters more than processors.
pub(crate) const LOOKERS: usize = 8;

/// A device directory as it was found.
#[derive(Debug, Clone)]
pub(crate) struct FoundDevice {
    pub(crate) path: PathBuf,
    /// Its id, if the directory says one.
    pub(crate) id: Option<Id>,
    /// It was being drained, and was not asked for since.
    pub(crate) is_leaving: bool,
}

/// A file that the manifest lists as kept.
pub(crate) struct KeptImages {
    pub(crate) file: KeptFile,
    pub(crate) path: PathBuf,
    /// The index of its device.
    pub(crate) device: usize,
    pub(crate) state: KeptState,
}

/// What has become of it.
pub(crate) enum KeptState {
    /// It is there, with these images.
    There(Vec<SegmentFile>),
    /// What should have replaced it is not there: it is in its place still, and stands for itself.
    InPlace,
    Missing,
    /// Something else is there.
    Damaged,
    /// The disk does not tell, or not now.
    Unreadable,
}

/// Everything that belongs to the log in a directory.
pub(crate) struct Catalog {
    pub(crate) manifest: Option<Manifest>,
    pub(crate) devices: Vec<FoundDevice>,
    /// The files of segments, by segment and part.
    pub(crate) files: Vec<SegmentFile>,
    /// Files without a header: begun and never used.
    pub(crate) unborn: Vec<PathBuf>,
    /// Leftovers: temporary files, and parts that a compaction has made superfluous.
    pub(crate) leftovers: Vec<PathBuf>,
    /// Files that are named like those that compactions have replaced and that were kept.
    pub(crate) history: Vec<PathBuf>,
    /// The last block, when it is the log as it was then: see `as_of`.
    pub(crate) limit: Option<Lsn>,
}

impl Catalog {
    /// Reads what there is, `lookers` files at a time, and checks that it belongs together.
    pub(crate) fn read(
        disk: &dyn Disk,
        dir: &Path,
        device_dirs: &[PathBuf],
        lookers: usize,
    ) -> Result<Self> {
        let manifest = Manifest::read(disk, dir)?;
        let devices = find_devices(disk, dir, manifest.as_ref(), device_dirs)?;
        Self::of_devices(disk, dir, manifest, devices, lookers)
    }

    /// The same for devices that were found.
    pub(crate) fn of_devices(
        disk: &dyn Disk,
        dir: &Path,
        manifest: Option<Manifest>,
        devices: Vec<FoundDevice>,
        lookers: usize,
    ) -> Result<Self> {
        if let Some(manifest) = &manifest {
            manifest.check_finished(dir)?;
        }
        let mut catalog = Self {
            devices,
            manifest,
            files: Vec::new(),
            unborn: Vec::new(),
            leftovers: Vec::new(),
            history: Vec::new(),
            limit: None,
        };
        for index in 0..catalog.devices.len() {
            catalog.read_device(disk, dir, index, lookers)?;
        }
        catalog.files.sort_by_key(|file| (file.header.segment, file.header.part));
        catalog.set_leftovers_aside();
        catalog.check_parts()?;
        catalog.check_listed(dir)?;
        catalog.check_footers()?;
        Ok(catalog)
    }

    /// The horizon: no compaction ever removed anything of a block above it.
    pub(crate) fn horizon(&self) -> Lsn {
        let claimed = self.manifest.as_ref().map_or(Lsn::ZERO, |manifest| manifest.horizon);
        let horizon = self.files.iter().map(|file| file.header.horizon).fold(claimed, Lsn::max);
        horizon.min(self.limit.unwrap_or(horizon))
    }

    /// The oldest state that the files in place tell completely: that after each block from this one
    /// on. A compaction drops what was not needed when its bitmaps were copied, and the block that was
    /// open then is the floor: in its file, and in the manifest, also of files that are gone.
    pub(crate) fn complete_from(&self) -> Lsn {
        self.manifest.as_ref().map_or(Lsn::ZERO, |it| extent::told_from(it, &self.files))
    }

    /// What has become of the files that the manifest lists as kept.
    pub(crate) fn kept(&self, disk: &dyn Disk, lookers: usize) -> Vec<KeptImages> {
        let listed: Vec<&KeptFile> =
            self.manifest.iter().flat_map(|manifest| &manifest.history).collect();
        let there: BTreeSet<&PathBuf> = self.history.iter().collect();
        let in_place = self.files.iter().map(|image| {
            let header = &image.header;
            let since = image.put_back.unwrap_or(Lsn::ZERO);
            ((header.segment, header.part, header.generation), since)
        });
        let in_place: HashMap<_, _> = in_place.collect();
        side_by_side(&listed, lookers, |file| self.look_at_kept(disk, file, &there, &in_place))
    }

    fn look_at_kept(
        &self,
        disk: &dyn Disk,
        file: &KeptFile,
        there: &BTreeSet<&PathBuf>,
        in_place: &HashMap<(SegmentId, u32, u32), Lsn>,
    ) -> KeptImages {
        let name = segment::history_name(file.segment, file.part, file.generation);
        let found = |path, device, state| KeptImages { file: *file, path, device, state };
        let index = self.devices.iter().position(|device| device.id == Some(file.device));
        let Some(index) = index else {
            // Its device has left.
            return found(PathBuf::from(name), 0, KeptState::Missing);
        };
        let device = &self.devices[index];
        let path = segment::history_dir(&device.path).join(name);
        let is_same = |image: &SegmentFile| {
            let header = &image.header;
            (header.segment, header.part, header.generation)
                == (file.segment, file.part, file.generation)
        };
        // One that was put back stands for itself since then, and is kept for the time before it was replaced.
        let since = in_place.get(&(file.segment, file.part, file.generation));
        if since.is_some_and(|since| *since < file.until) {
            return found(path, index, KeptState::InPlace);
        }
        if !there.contains(&path) {
            // A directory that could not be listed has no names either.
            let is_gone = matches!(disk.exists(&path), Ok(false));
            let state = if is_gone { KeptState::Missing } else { KeptState::Unreadable };
            return found(path, index, state);
        }
        let is_ours = |images: &Vec<SegmentFile>| {
            let manifest = self.manifest.as_ref();
            let mut owned = images.iter().filter(|image| {
                manifest.is_some_and(|manifest| check_owner(image, manifest, device).is_ok())
                    && image.footer.is_some()
            });
            images.first().is_some_and(is_same) && owned.by_ref().count() == images.len()
        };
        let state = match SegmentFile::read(disk, &path, index) {
            Ok(images) if is_ours(&images) => KeptState::There(images),
            Err(Error::File(FileError::Io { .. })) => KeptState::Unreadable,
            _ => KeptState::Damaged,
        };
        found(path, index, state)
    }

    fn read_device(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        index: usize,
        lookers: usize,
    ) -> Result<()> {
        let device = self.devices[index].clone();
        self.history.extend(history_files(disk, &device.path));
        let names = match disk.list(&device.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            names => names.at(&device.path, "list")?,
        };
        let mut found = Vec::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            let path = device.path.join(name);
            let stem = name.strip_suffix(".tmp").map(|stem| format!("{stem}.redo"));
            if name == "device.tmp"
                || stem.is_some_and(|name| segment::parse_file_name(&name).is_some())
            {
                self.leftovers.push(path);
                continue;
            }
            let named = segment::parse_file_name(name);
            found.extend(named.map(|(segment, part)| (path, segment, part)));
        }
        let Some(manifest) = &self.manifest else {
            let manifest = manifest::path_in(dir);
            let error = Error::NoManifest { path: device.path, manifest };
            return if found.is_empty() { Ok(()) } else { Err(error) };
        };
        // What a repair has given up must not come back with its records: others may have deleted theirs since.
        let is_known = |id| manifest.devices.iter().any(|known| known.id == id);
        if !found.is_empty() && device.id.is_some_and(|id| !is_known(id)) {
            return Err(Error::DeviceNotEmpty { path: device.path });
        }
        // The newest file is the longest to read: begin with it.
        found.reverse();
        let read = side_by_side(&found, lookers, |(path, ..)| {
            SegmentFile::read_at_start(disk, path, index)
        });
        for ((path, segment, part), images) in found.into_iter().zip(read) {
            let images = images?;
            let Some(first) = images.first() else {
                // The header is durable before the first block is written: a file that is longer
                // had a good one.
                let len = disk.open(&path, Access::Read).and_then(|file| file.len());
                if len.at(&path, "read")? > segment::HEADER_BYTES as u64 {
                    return Err(Error::corrupt(&path, 0, "the segment's header is damaged"));
                }
                self.unborn.push(path);
                continue;
            };
            if (first.header.segment, first.header.part) != (segment, part) {
                return Err(Error::corrupt(&path, 48, "the file's name is not what it says it is"));
            }
            let put_back = manifest.rewinds.since(&first.header);
            for image in &images {
                check_owner(image, manifest, &device)?;
            }
            self.files.extend(images.into_iter().map(|image| SegmentFile { put_back, ..image }));
        }
        Ok(())
    }

    /// Compaction writes a segment again as one of the next generation, and then removes the files
    /// that it has read: if one of them was left behind, it is a leftover as a whole.
    fn set_leftovers_aside(&mut self) {
        let mut generations: HashMap<SegmentId, u32> = HashMap::new();
        for file in &self.files {
            let generation = generations.entry(file.header.segment).or_default();
            *generation = (*generation).max(file.header.generation);
        }
        let is_old =
            |file: &&SegmentFile| file.header.generation < generations[&file.header.segment];
        let old: BTreeSet<PathBuf> =
            self.files.iter().filter(is_old).map(|file| file.path.clone()).collect();
        self.files.retain(|file| !old.contains(&file.path));
        self.leftovers.extend(old);
    }

    pub(crate) fn check_parts(&self) -> Result<()> {
        for pair in self.files.windows(2) {
            let (a, b) = (&pair[0].header, &pair[1].header);
            if (a.segment, a.part) == (b.segment, b.part) {
                let what = format!("it is also there as {}", pair[0].path.display());
                return Err(pair[1].corrupt(48, what));
            }
        }
        Ok(())
    }

    /// Whether everything that the manifest lists is there. How far open images go is seen when
    /// they are read.
    fn check_listed(&self, dir: &Path) -> Result<()> {
        for entry in self.manifest.iter().flat_map(|manifest| &manifest.listed) {
            let Some(image) = self.files.iter().find(|image| entry.is_met_by(&image.header)) else {
                let name = segment::file_name(entry.segment, entry.part);
                let is_damaged = |path: &&PathBuf| path.ends_with(&name);
                return Err(match self.unborn.iter().find(is_damaged) {
                    Some(path) => Error::corrupt(path, 0, "the segment's header is damaged"),
                    None => entry.missing(&manifest::path_in(dir)),
                });
            };
            if entry.is_sealed() {
                image.check_listed(entry, Lsn::ZERO)?;
            }
        }
        Ok(())
    }

    /// The last segment that was begun on each device.
    pub(crate) fn newest_segments(&self) -> Vec<SegmentId> {
        let mut newest = vec![SegmentId(0); self.devices.len()];
        let begun = self.files.iter().filter(|f| f.header.part == 0 && !f.header.is_moved);
        for file in begun {
            newest[file.device] = newest[file.device].max(file.header.segment);
        }
        newest
    }

    /// Only a file that took the log until the end may lack a footer, or a header: the newest of
    /// its device, and parts of segments of failed devices.
    fn check_footers(&self) -> Result<()> {
        let newest = self.newest_segments();
        for path in &self.unborn {
            let name = path.file_name().and_then(|name| name.to_str());
            let segment = name.and_then(segment::parse_file_name);
            let device = self.devices.iter().position(|d| Some(d.path.as_path()) == path.parent());
            if let (Some((segment, 0)), Some(device)) = (segment, device)
                && segment < newest[device]
            {
                return Err(Error::corrupt(path, 0, "the segment was sealed, and it is cut off"));
            }
        }
        for file in self.files.iter().filter(|file| file.footer.is_none()) {
            let is_newest = file.header.segment >= newest[file.device];
            if file.header.generation > 0 || (file.header.part == 0 && !is_newest) {
                let what = "the segment was sealed, and its footer is damaged or missing";
                return Err(file.corrupt(file.len, what));
            }
        }
        Ok(())
    }

    /// A segment number above every one in use.
    pub(crate) fn next_segment(&self) -> SegmentId {
        let claimed = self.manifest.as_ref().map_or(1, |manifest| manifest.next_segment.0.max(1));
        let used = self.files.iter().map(|file| file.header.segment.0 + 1).max().unwrap_or(1);
        SegmentId(claimed.max(used))
    }
}

/// The files that are kept on a device. A directory that is not there, is another one's or cannot be read has none: what
/// is kept must not stop a start, and what of it is missing is met where it is looked for.
pub(crate) fn history_files(disk: &dyn Disk, device: &Path) -> Vec<PathBuf> {
    let dir = segment::history_dir(device);
    let names = disk.list(&dir).unwrap_or_default();
    let is_ours = |name: &str| segment::parse_history_name(name).is_some();
    let ours = names.iter().filter(|name| name.to_str().is_some_and(is_ours));
    ours.map(|name| dir.join(name)).collect()
}

/// Whether the image belongs to this database and lies on the device that it was written to.
fn check_owner(image: &SegmentFile, manifest: &Manifest, device: &FoundDevice) -> Result<()> {
    let (expected, found) = (manifest.database, image.header.database);
    if found != expected {
        return Err(Error::Foreign { path: image.path.clone(), expected, found });
    }
    if device.id.is_some_and(|id| id != image.header.device) {
        let what = "the file was written to another device; move it back there";
        return Err(image.corrupt(32, what));
    }
    Ok(())
}

/// Matches the directories that were given with those that the manifest knows.
pub(crate) fn find_devices(
    disk: &dyn Disk,
    dir: &Path,
    manifest: Option<&Manifest>,
    device_dirs: &[PathBuf],
) -> Result<Vec<FoundDevice>> {
    let mut devices: Vec<FoundDevice> = Vec::new();
    for path in device_dirs {
        let mark = DeviceMark::read(disk, path)?;
        let same = |other: &&FoundDevice| {
            other.path == *path || mark.is_some_and(|mark| other.id == Some(mark.device))
        };
        if let Some(other) = devices.iter().find(same) {
            let (first, second) = (other.path.clone(), path.clone());
            return Err(Error::DuplicateDevice { first, second });
        }
        match (mark, manifest) {
            (Some(_), None) => {
                let manifest = manifest::path_in(dir);
                return Err(Error::NoManifest { path: path.clone(), manifest });
            }
            (Some(mark), Some(manifest)) if mark.database != manifest.database => {
                let (expected, found) = (manifest.database, mark.database);
                return Err(Error::Foreign { path: path.clone(), expected, found });
            }
            _ => {}
        }
        let id = mark.map(|mark| mark.device);
        devices.push(FoundDevice { path: path.clone(), id, is_leaving: false });
    }
    for known in manifest.into_iter().flat_map(|manifest| &manifest.devices) {
        if devices.iter().any(|device| device.id == Some(known.id)) {
            continue;
        }
        // Epoch 0: the very first start did not come to its end, the marks may be missing.
        let is_first_start = manifest.is_some_and(|manifest| manifest.epoch == 0);
        let unmarked = devices.iter_mut().find(|device| {
            is_first_start && device.id.is_none() && device.path == dir.join(&known.path)
        });
        match unmarked {
            Some(device) => device.id = Some(known.id),
            None => {
                let (id, path) = (known.id, dir.join(&known.path));
                let mark = if known.is_leaving { DeviceMark::read(disk, &path)? } else { None };
                if mark.map(|mark| mark.device) != Some(id) {
                    return Err(Error::MissingDevice { id, path });
                }
                devices.push(FoundDevice { path, id: Some(id), is_leaving: true });
            }
        }
    }
    Ok(devices)
}
