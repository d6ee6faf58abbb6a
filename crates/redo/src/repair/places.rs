//! Where a damaged log is: like [`crate::read::catalog`], but a manifest or a mark may be lost.
//!
//! What the manifest would say is taken from what repeats it: the devices' marks and the
//! headers of segments both name database and device. What nothing repeats is made anew: the seed
//! of the hashes, which nothing on disk depends on.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base::{Lsn, SegmentId};
use env::{Access, Disk, Entropy, FileError};

use crate::error::{Error, IoContext, Result};
use crate::format::listing::Listed;
use crate::format::manifest::{self, DeviceMark, Manifest, ManifestDevice};
use crate::format::segment::{self, SegmentHeader};
use crate::id::Id;
use crate::repair::offline::RepairRequest;

/// Segment numbers that a lost manifest may have claimed beyond those that are seen.
const CLAIMED_MAX: u32 = 1024;

/// A device's directory.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) id: Id,
    /// Whether its mark is good.
    pub(crate) has_mark: bool,
}

/// The directories of a log.
pub(crate) struct Places {
    pub(crate) database: Id,
    /// `None` when it is lost or damaged.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) devices: Vec<Place>,
    /// The devices that are given up, which the manifest names.
    pub(crate) lost: Vec<PathBuf>,
}

/// Finds what belongs to the log, whatever is damaged.
pub(crate) fn find(disk: &dyn Disk, request: &RepairRequest<'_>) -> Result<Places> {
    let RepairRequest { dir, devices: given, lost } = *request;
    let manifest = match Manifest::read(disk, dir) {
        Err(Error::File(FileError::Corrupt { .. })) => None,
        manifest => manifest?,
    };
    let known = || manifest.iter().flat_map(|manifest| &manifest.devices);
    let mut lost_ids = Vec::new();
    for path in lost {
        let device = known().find(|device| dir.join(&device.path) == dir.join(path));
        let device = device.ok_or_else(|| Error::NoSuchDevice { path: path.clone() })?;
        lost_ids.push(device.id);
    }
    if !lost.is_empty() && known().all(|device| lost_ids.contains(&device.id)) {
        return Err(Error::NothingLeft { path: lost[0].clone() });
    }
    let is_lost = |path: &Path| lost.iter().any(|lost| dir.join(lost) == dir.join(path));
    let mut dirs = given.to_vec();
    if dirs.is_empty() {
        match &manifest {
            Some(manifest) => {
                dirs.extend(manifest.devices.iter().map(|device| dir.join(&device.path)));
            }
            None => dirs.push(dir.join("redo")),
        }
    }
    dirs.retain(|path| !is_lost(path));
    let mut finder =
        Finder { disk, dir, database: manifest.as_ref().map(|m| m.database), manifest };
    let mut devices: Vec<Place> = Vec::new();
    for path in dirs {
        let Some(place) = finder.look_at(&path)? else { continue };
        if let Some(other) = devices.iter().find(|other| other.id == place.id || other.path == path)
        {
            return Err(Error::DuplicateDevice { first: other.path.clone(), second: path });
        }
        devices.push(place);
    }
    // By whatever name it was given.
    devices.retain(|place| !lost_ids.contains(&place.id));
    let known = finder.manifest.as_ref().map(|manifest| manifest.devices.clone());
    if let Some(known) = &known {
        // It was given up by a repair before, or is of another time: what it has must not come back.
        let is_known = |place: &Place| known.iter().any(|device| device.id == place.id);
        for place in devices.iter().filter(|place| !is_known(place)) {
            if !segment_files(disk, &place.path)?.is_empty() {
                return Err(Error::DeviceNotEmpty { path: place.path.clone() });
            }
        }
    }
    for known in known.into_iter().flatten() {
        if devices.iter().any(|device| device.id == known.id) {
            continue;
        }
        let path = dir.join(&known.path);
        if is_lost(&path) {
            continue;
        }
        // A device that was being drained need not be asked for.
        match finder.look_at(&path)?.filter(|place| known.is_leaving && place.id == known.id) {
            Some(place) => devices.push(place),
            None => return Err(Error::MissingDevice { id: known.id, path }),
        }
    }
    let Finder { database, manifest, .. } = finder;
    let nothing = || Error::corrupt(&manifest::path_in(dir), 0, "nothing says which log this was");
    let lost = lost.iter().map(|path| dir.join(path)).collect();
    Ok(Places { database: database.ok_or_else(nothing)?, manifest, devices, lost })
}

struct Finder<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    database: Option<Id>,
    manifest: Option<Manifest>,
}

impl Finder<'_> {
    /// Whose directory this is; `None` if there is nothing in it and it is not missed.
    fn look_at(&mut self, path: &Path) -> Result<Option<Place>> {
        let (disk, path_buf) = (self.disk, path.to_owned());
        let mark = match DeviceMark::read(disk, path) {
            Err(Error::File(FileError::Corrupt { .. })) => None,
            mark => mark?,
        };
        if let Some(mark) = mark {
            self.belongs(path, mark.database)?;
            return Ok(Some(Place { path: path_buf, id: mark.device, has_mark: true }));
        }
        // Without a mark, the segments say whose directory it is.
        for (file, _) in segment_files(disk, path)? {
            if let Some(header) = read_header(disk, &file)? {
                self.belongs(&file, header.database)?;
                return Ok(Some(Place { path: path_buf, id: header.device, has_mark: false }));
            }
        }
        let is_damaged = disk.exists(&DeviceMark::path_in(path)).at(path, "look in")?;
        let known = self.manifest.iter().flat_map(|manifest| &manifest.devices);
        let mut known = known.filter(|device| self.dir.join(&device.path) == path);
        // An empty directory is one where nothing is mounted, and no device that lost its mark.
        let id = known.next().filter(|_| is_damaged).map(|device| device.id);
        Ok(id.map(|id| Place { path: path_buf, id, has_mark: false }))
    }

    fn belongs(&mut self, path: &Path, found: Id) -> Result<()> {
        let expected = *self.database.get_or_insert(found);
        if expected == found {
            return Ok(());
        }
        Err(Error::Foreign { path: path.to_owned(), expected, found })
    }
}

fn read_header(disk: &dyn Disk, path: &Path) -> Result<Option<SegmentHeader>> {
    let file = disk.open(path, Access::Read).at(path, "open")?;
    let mut bytes = [0; segment::HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        read => {
            read.at(path, "read")?;
            SegmentHeader::decode(&bytes, path)
        }
    }
}

/// The files in a device's directory that are named like those of segments.
pub(crate) fn segment_files(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<Vec<(PathBuf, (SegmentId, u32))>> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.at(dir, "list")?,
    };
    let files = names.iter().filter_map(|name| {
        let parsed = segment::parse_file_name(name.to_str()?)?;
        Some((dir.join(name), parsed))
    });
    Ok(files.collect())
}

impl Places {
    /// What there must be, as far as that is known.
    pub(crate) fn listed(&self) -> &[Listed] {
        self.manifest.as_ref().map_or(&[], |manifest| &manifest.listed)
    }

    /// The manifest of the repaired log: gaps up to `durable` are accepted.
    pub(crate) fn new_manifest(
        &self,
        dir: &Path,
        durable: Lsn,
        next_segment: u32,
        entropy: &mut dyn Entropy,
    ) -> Manifest {
        let devices = self.devices.iter().map(|place| ManifestDevice {
            id: place.id,
            path: place.path.strip_prefix(dir).unwrap_or(&place.path).to_owned(),
            is_leaving: false,
        });
        let mut manifest = self.manifest.clone().unwrap_or_else(|| {
            let mut hash_seed = [0; 16];
            entropy.fill(&mut hash_seed);
            // The object floor is raised by the next start, above every object that is left.
            Manifest {
                epoch: 1,
                next_segment: SegmentId(next_segment + CLAIMED_MAX),
                devices: devices.clone().collect(),
                ..Manifest::new(self.database, hash_seed)
            }
        });
        let is_here = |id: Id| self.devices.iter().any(|place| place.id == id);
        manifest.devices.retain(|device| is_here(device.id));
        manifest.history.retain(|kept| is_here(kept.device));
        manifest.rewinds.put_back.retain(|file| is_here(file.device));
        manifest.durable_lsn = durable;
        manifest.horizon = durable;
        manifest.next_segment = manifest.next_segment.max(SegmentId(next_segment));
        manifest
    }
}
