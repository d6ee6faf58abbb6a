//! Sets a closed log back in place: `indelible restore --in-place`.
//!
//! ```text
//!   begin   lock · the log is sealed, as a start does it        a crash here, or before the manifest below:
//!           the images of then are found, and all of them read  the log is what it was
//!           blocks behind the wanted one are cut: N.tmp
//!           what leaves its place: history/N.gG.redo, linked · what comes: N.tmp, linked
//!   (the index is removed by the caller)
//!   finish  manifest: as it will be, and unfinished             from here on the log opens for nothing but this
//!           put in place: linked as N.tmp, renamed · removed
//!           manifest: finished                                  it is what it was then
//! ```
//!
//! For the history of the log this is one compaction which replaces many files, by some that were in place before: what
//! was in place is kept up to before [`Rewound::at`], and what is put there counts from there on. So every block
//! that could be told can be told afterwards, the one before among them, of which a backup is made: that is how an undo is undone.
//!
//! Nothing is copied but segments that have blocks on both sides of the wanted one. They get new numbers: their names belong to
//! the files that they were cut from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DangerousCommand, Lsn, SegmentId};
use env::{Disk, Lock};

use crate::compact::backups::HELD_FILES_MAX;
use crate::compact::history::first_needing;
use crate::compact::room::check_room;
use crate::error::{Error, IoContext, Result};
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, KeptFile, Manifest, Placed, PutBack, Rewind, path_in};
use crate::format::registry::{BACKUPS_MAX, NamedBackup, NotedCommand, Registry};
use crate::format::segment::{self, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::devices_of;
use crate::options::{Env, GROUP_BYTES, HistoryOptions, Options};
use crate::read::catalog::{Catalog, FoundDevice};
use crate::read::in_use::lock;
use crate::read::scan::SegmentFile;
use crate::recover::behind::KnownBefore;
use crate::recover::replay::{Nothing, Reading};
use crate::restore::branch::{Branch, CopyCount};
use crate::restore::expiry::ExpiryRule;
use crate::restore::put_back::{prepare, probe, put_in_place, remove_if_there};
use crate::restore::restoring::Restoring;
use crate::restore::source::{ImageBlocks, Source, found_devices};
use crate::restore::timeline::{BlockTime, RestorePoint, Timeline};
use crate::write::opening::Recovery;
use crate::write::reserve::START_BYTES_MAX;

/// What is set back.
#[derive(Debug, Clone)]
pub struct RewindRequest<'a> {
    /// The data directory of the log.
    pub dir: &'a Path,
    /// The directories of its devices; none for those that it names.
    pub devices: &'a [PathBuf],
    /// The state that is wanted.
    pub point: RestorePoint,
    /// The log was durable up to this block, as something else than it knows.
    pub durable: Lsn,
    /// What is noted of it, and of its user.
    pub command: DangerousCommand,
    /// Whether several threads may read.
    pub is_parallel: bool,
}

/// What a log was set back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewound {
    /// The state after this block.
    pub to: Lsn,
    /// When that was ended, in Unix milliseconds, if that is known.
    pub time_ms: Option<i64>,
    /// The block before it and the one behind it.
    pub neighbours: (Option<BlockTime>, Option<BlockTime>),
    /// The log goes on behind this number.
    pub at: Lsn,
    /// The name of the backup of what the log was before; `None` if it was deleted meanwhile.
    pub backup: Option<String>,
    /// An attempt before this one was interrupted, and this is what it had begun.
    pub is_resumed: bool,
    /// What was asked for is that, by the text of the command.
    pub is_as_asked: bool,
    /// How many files were put in place that a compaction had replaced.
    pub put_back: usize,
    /// How many files were cut.
    pub cut: usize,
    /// How many bytes were written for that.
    pub written_bytes: u64,
    /// How the server was configured when the backup was made that was restored, without secrets, if it is one and says that.
    pub configuration: Option<String>,
}

/// See the file's top.
pub struct Rewinding {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    devices: Vec<FoundDevice>,
    /// As it will be, and unfinished.
    manifest: Manifest,
    rewound: Rewound,
    _lock: Option<Box<dyn Lock>>,
}

impl Rewinding {
    /// Finds out what is to be done to the log in `request.dir`, and prepares it: the log is still what it was. What
    /// was begun before and not finished is gone on with, whatever is asked for. `None` if there is no log.
    ///
    /// # Errors
    /// When a process has the log open, the state cannot be told, the log is damaged, or a disk refuses.
    pub fn begin(
        env: Env,
        request: &RewindRequest<'_>,
        progress: &mut dyn FnMut(Restoring),
    ) -> Result<Option<Self>> {
        let disk = Arc::clone(&env.disk);
        let Some(manifest) = Manifest::read(&*disk, request.dir)? else { return Ok(None) };
        check_devices(&*disk, &manifest, request.devices)?;
        if manifest.rewinds.unfinished.is_some() {
            return Self::resume(disk, request).map(Some);
        }
        let now_ms = env.clock.now_ms();
        let lock = seal(env, request, progress)?;
        let source = Source::of_locked(&*disk, request.dir, request.devices, lock)?;
        let wanted = match &request.point {
            RestorePoint::BeforeDelete(wanted) => Some(wanted),
            _ => None,
        };
        let mut finding = |done, all| progress(Restoring::Finding(done, all));
        let timeline = Timeline::read(&*disk, &source, (wanted, 1), &mut finding)?;
        let to = timeline.find(&request.point)?;
        let mut plan = Plan::make(&disk, request, &source, (&timeline, to, now_ms), progress)?;
        progress(Restoring::Copying(0, 1));
        plan.check_disks(&*disk, request.dir, &source.catalog.devices)?;
        plan.write_cuts(&*disk, &source.catalog.devices)?;
        plan.link_kept(&*disk, &source)?;
        plan.prepare(&*disk, &source.catalog.devices)?;
        let rewound = Rewound {
            to,
            time_ms: timeline.time_of(to),
            neighbours: timeline.neighbours(to),
            at: plan.at,
            backup: plan.manifest.registry.backups().last().map(|backup| backup.name.clone()),
            is_resumed: false,
            is_as_asked: true,
            put_back: plan.put_back_count,
            cut: plan.cuts.len(),
            written_bytes: plan.written.bytes,
            configuration: timeline.configuration(&request.point),
        };
        let Plan { manifest, .. } = plan;
        let (devices, lock) = source.into_devices();
        let dir = request.dir.to_owned();
        Ok(Some(Self { disk, dir, devices, manifest, rewound, _lock: lock }))
    }

    fn resume(disk: Arc<dyn Disk>, request: &RewindRequest<'_>) -> Result<Self> {
        let dir = request.dir.to_owned();
        let lock = lock(&*disk, &dir)?;
        let changing = || Error::Changing { path: path_in(&dir) };
        let manifest = Manifest::read(&*disk, &dir)?.ok_or_else(changing)?;
        let last = manifest.rewinds.list.last().copied();
        let Some(Rewind { to, at, .. }) = last.filter(|_| manifest.rewinds.unfinished.is_some())
        else {
            return Err(changing());
        };
        let devices = found_devices(&*disk, &dir, &manifest, request.devices)?;
        let ours = manifest.rewinds.put_back.iter().filter(|file| file.since == at);
        let backup = manifest.registry.backups().iter().rfind(|backup| backup.lsn.next() == at);
        let mut commands = manifest.registry.commands().iter();
        let is_as_asked =
            commands.any(|it| it.lsn == at && it.command.text == request.command.text);
        let rewound = Rewound {
            to,
            time_ms: None,
            neighbours: (None, None),
            at,
            backup: backup.map(|backup| backup.name.clone()),
            is_resumed: true,
            is_as_asked,
            put_back: ours.count(),
            cut: 0,
            written_bytes: 0,
            configuration: None,
        };
        Ok(Self { disk, dir, devices, manifest, rewound, _lock: Some(lock) })
    }

    /// The block to whose state the log is set back.
    #[must_use]
    pub const fn to(&self) -> Lsn {
        self.rewound.to
    }

    /// Carries it out. REQUIRES: there is no index of the log any more, durably.
    ///
    /// # Errors
    /// When a disk refuses, or a file is missing. Then the log is what it was, or refuses to open until this was done again.
    pub fn finish(self) -> Result<Rewound> {
        let Self { disk, dir, devices, mut manifest, rewound, _lock: lock } = self;
        if !rewound.is_resumed {
            manifest.write(&*disk, &dir)?;
        }
        let removed = manifest.rewinds.unfinished.take().unwrap_or_default();
        for device in &devices {
            let is_here = |id: Id| device.id == Some(id);
            let put_back = manifest.rewinds.put_back.iter();
            for file in put_back.filter(|it| it.since == rewound.at && is_here(it.device)) {
                put_in_place(&*disk, &device.path, file)?;
            }
            for placed in removed.iter().filter(|placed| is_here(placed.device)) {
                let path = device.path.join(segment::file_name(placed.segment, placed.part));
                remove_if_there(&*disk, &path)?;
            }
            disk.sync_dir(&device.path).at(&device.path, "sync")?;
        }
        manifest.write(&*disk, &dir)?;
        drop(lock);
        Ok(rewound)
    }
}

/// Puts the log in order, as a start does, and returns its lock.
fn seal(
    env: Env,
    request: &RewindRequest<'_>,
    progress: &mut dyn FnMut(Restoring),
) -> Result<Box<dyn Lock>> {
    let mut options = Options::new(request.dir);
    options.devices = request.devices.to_vec();
    if options.devices.is_empty() {
        options.devices = devices_of(&*env.disk, request.dir)?;
    }
    // What is kept of its past is not for this program to give up, and nothing is set aside.
    options.history = HistoryOptions::ALL;
    options.reserve_bytes = 0;
    options.parallel_loaders = request.is_parallel;
    let mut recovery = Recovery::open(env, options)?;
    recovery.note_durable(request.durable);
    recovery.seal(&mut |read| progress(Restoring::Finding(read.bytes_done, read.bytes_total)))
}

/// Refuses directories that are none of the log's: they would become part of it.
fn check_devices(disk: &dyn Disk, manifest: &Manifest, devices: &[PathBuf]) -> Result<()> {
    for path in devices {
        let is_its = DeviceMark::read(disk, path)?.is_some_and(|mark| {
            mark.database == manifest.database
                && manifest.devices.iter().any(|device| device.id == mark.device)
        });
        if !is_its {
            return Err(Error::NoDeviceOf { path: path.clone() });
        }
    }
    Ok(())
}

/// The images of each file, by its path.
fn by_file(catalog: &Catalog) -> BTreeMap<&Path, Vec<&SegmentFile>> {
    let mut files: BTreeMap<&Path, Vec<&SegmentFile>> = BTreeMap::new();
    for image in &catalog.files {
        files.entry(&image.path).or_default().push(image);
    }
    files.values_mut().for_each(|images| images.sort_by_key(|image| image.start));
    files
}

/// A file that leaves its place.
struct Leaving {
    path: PathBuf,
    /// The index of its device.
    device: usize,
    file: KeptFile,
}

/// What is to be done.
struct Plan {
    at: Lsn,
    /// The log as of the wanted block.
    then: Catalog,
    last: Lsn,
    /// Images of it that go on behind that block, each with its new number.
    cuts: Vec<(SegmentFile, SegmentId)>,
    leaving: Vec<Leaving>,
    /// As it will be, and unfinished.
    manifest: Manifest,
    put_back_count: usize,
    written: CopyCount,
}

impl Plan {
    fn make(
        disk: &Arc<dyn Disk>,
        request: &RewindRequest<'_>,
        source: &Source,
        (timeline, to, now_ms): (&Timeline, Lsn, i64),
        progress: &mut dyn FnMut(Restoring),
    ) -> Result<Self> {
        let catalog = &source.catalog;
        let old = catalog.manifest.clone();
        let old = old.ok_or_else(|| Error::Changing { path: path_in(request.dir) })?;
        let end = timeline.last().max(old.durable_lsn);
        if to >= end {
            return Err(Error::NothingToUndo { lsn: to });
        }
        let then = catalog.told_as_of(&source.kept, to)?;
        progress(Restoring::Verifying);
        check_all(disk, request, &then, to)?;
        let at = end.next();
        let id = |device: usize| catalog.devices[device].id.unwrap_or(Id([0; 16]));
        let mut next_segment = catalog.next_segment();
        let (now, files) = (by_file(catalog), by_file(&then));
        let is_behind =
            |image: &&SegmentFile| image.footer.as_ref().is_none_or(|footer| footer.max_lsn > to);
        // Ordinals are counted over all parts of a segment: they are cut, and named anew, together.
        let mut new_numbers = BTreeMap::new();
        for image in then.files.iter().filter(is_behind) {
            new_numbers.entry(image.header.segment).or_insert_with(|| {
                let number = next_segment;
                next_segment = SegmentId(number.0 + 1);
                number
            });
        }
        let (mut listed, mut put_back, mut cuts) = (Vec::new(), Vec::new(), Vec::new());
        let mut staying: BTreeSet<&Path> = BTreeSet::new();
        let mut list = |segment, part| {
            listed.push(Listed { segment, part, last_lsn: Listed::SEALED });
        };
        for (path, images) in &files {
            let first = images[0];
            let SegmentHeader { segment, part, generation, .. } = first.header;
            let device = id(first.device);
            if let Some(number) = images.iter().find_map(|it| new_numbers.get(&it.header.segment)) {
                if images.len() > 1 || generation > 0 {
                    return Err(Error::NotCut { path: path.to_path_buf(), lsn: to });
                }
                list(*number, part);
                put_back.push(PutBack { segment: *number, part, generation, device, since: at });
                cuts.push((first.clone(), *number));
                continue;
            }
            images.iter().for_each(|image| list(image.header.segment, image.header.part));
            if now.contains_key(path) {
                staying.insert(*path);
                let since = first.put_back;
                put_back.extend(since.map(|since| PutBack {
                    segment,
                    part,
                    generation,
                    device,
                    since,
                }));
            } else {
                put_back.push(PutBack { segment, part, generation, device, since: at });
            }
        }
        put_back.sort_unstable_by_key(|file| (file.segment, file.part));
        let leaving = now.iter().filter(|(path, _)| !staying.contains(*path));
        let leaving = leaving.map(|(path, images)| {
            let SegmentHeader { segment, part, generation, .. } = images[0].header;
            let images: Vec<SegmentFile> = images.iter().copied().cloned().collect();
            let (device, from) = (images[0].device, first_needing(&images));
            let file = KeptFile { segment, part, generation, device: id(device), from, until: at };
            Leaving { path: path.to_path_buf(), device, file }
        });
        let leaving: Vec<Leaving> = leaving.collect();
        let mut registry = old.registry.clone();
        let held =
            source.kept.iter().filter(|kept| registry.needs(kept.file.from, kept.file.until));
        check_room_for_backup(&registry, held.count() + leaving.len())?;
        let (id, time_ms) = (registry.next_id(), now_ms);
        let (name, is_lost) = (name_of_backup(&registry, at), false);
        registry.add_backup(NamedBackup { id, name, lsn: end, noted_lsn: end, time_ms, is_lost });
        let command = request.command.clone();
        registry.add_command(NotedCommand { lsn: at, time_ms, command });
        let mut manifest = Manifest {
            durable_lsn: at,
            // Behind the end nothing is missing, and before it everything is listed.
            horizon: at,
            next_segment,
            listed,
            registry,
            ..old
        };
        manifest.history.extend(leaving.iter().map(|leaving| leaving.file));
        let put_back_count = put_back.iter().filter(|file| file.since == at).count() - cuts.len();
        let removed = leaving.iter().map(|leaving| {
            let KeptFile { segment, part, device, .. } = leaving.file;
            Placed { device, segment, part }
        });
        let is_taken = |placed: &Placed| {
            put_back.iter().any(|it| {
                (it.device, it.segment, it.part) == (placed.device, placed.segment, placed.part)
            })
        };
        let removed: Vec<Placed> = removed.filter(|placed| !is_taken(placed)).collect();
        let rewinds = &mut manifest.rewinds;
        rewinds.add(Rewind { to, at, time_ms });
        (rewinds.put_back, rewinds.unfinished) = (put_back, Some(removed));
        let written = CopyCount::default();
        Ok(Self { at, then, last: to, cuts, leaving, manifest, put_back_count, written })
    }

    /// Refuses what a disk has no room for, or does not let this program do, while the log is what it was.
    fn check_disks(&self, disk: &dyn Disk, dir: &Path, devices: &[FoundDevice]) -> Result<()> {
        let mut needed: BTreeMap<&Path, u64> = BTreeMap::new();
        // Two of them, and the one that is there.
        needed.insert(dir, START_BYTES_MAX + 2 * self.manifest.encode().len() as u64);
        for (image, _) in &self.cuts {
            *needed.entry(&devices[image.device].path).or_default() += image.len;
        }
        check_room(disk, &needed.into_iter().collect::<Vec<_>>())?;
        let mut probed = BTreeSet::new();
        let mut leaving = self.leaving.iter().filter(|leaving| probed.insert(leaving.device));
        leaving.try_for_each(|leaving| probe(disk, &leaving.path))
    }

    /// Gives what is put in place a name next to it: a disk that refuses that does it now.
    fn prepare(&self, disk: &dyn Disk, devices: &[FoundDevice]) -> Result<()> {
        let put_back = self.manifest.rewinds.put_back.iter();
        for file in put_back.filter(|file| file.since == self.at) {
            let device = devices.iter().find(|device| device.id == Some(file.device));
            device.map_or(Ok(()), |device| prepare(disk, &device.path, file))?;
        }
        Ok(())
    }

    /// Writes what is left of segments that go on behind the last block, each under the name that it has before it is in
    /// place, and reads it back.
    fn write_cuts(&mut self, disk: &dyn Disk, devices: &[FoundDevice]) -> Result<()> {
        for (image, number) in &self.cuts {
            let device = &devices[image.device];
            let branch = Branch {
                disk,
                database: self.manifest.database,
                device: image.header.device,
                path: &device.path,
                last: self.last,
                expiry: ExpiryRule::Same,
            };
            let (count, written) = branch.write(&self.then, image, *number)?;
            let temporary = written.temporary().to_owned();
            let _named_later = written.complete()?;
            self.check_cut(disk, &temporary, image, count)?;
            self.written.bytes += count.bytes;
        }
        let cut_on: BTreeSet<usize> = self.cuts.iter().map(|(image, _)| image.device).collect();
        for device in cut_on {
            let path = &devices[device].path;
            disk.sync_dir(path).at(path, "sync")?;
        }
        Ok(())
    }

    fn check_cut(
        &self,
        disk: &dyn Disk,
        path: &Path,
        image: &SegmentFile,
        count: CopyCount,
    ) -> Result<()> {
        let images = SegmentFile::read(disk, path, image.device)?;
        let (mut blocks, mut records, mut last) = (0, 0, Lsn::ZERO);
        if let [image] = &images[..] {
            let mut read = ImageBlocks::open(disk, image)?;
            while let Some(block) = read.next()? {
                blocks += 1;
                records += u64::from(block.header.record_count);
                last = block.header.lsn;
            }
        }
        if (blocks, records) == (count.blocks, count.records) && blocks > 0 {
            return Ok(());
        }
        let (path, lsn, found) = (path.to_owned(), self.last, records);
        Err(Error::NotRestored { path, lsn, last, records: count.records, found })
    }

    /// Gives what leaves its place the name under which it is kept.
    fn link_kept(&self, disk: &dyn Disk, source: &Source) -> Result<()> {
        let there: BTreeSet<&Path> = source.kept.iter().map(|kept| kept.path.as_path()).collect();
        let mut dirs = BTreeSet::new();
        for Leaving { path, device, file } in &self.leaving {
            let dir = segment::history_dir(&source.catalog.devices[*device].path);
            let name = segment::history_name(file.segment, file.part, file.generation);
            let kept = dir.join(name);
            if there.contains(kept.as_path()) {
                // It was put back once, and is kept for the time before that.
                continue;
            }
            if !disk.exists(&dir).at(&dir, "look for")? {
                disk.create_dir_all(&dir).at(&dir, "make")?;
            }
            remove_if_there(disk, &kept)?;
            disk.link(path, &kept).at(path, "link")?;
            dirs.insert(dir);
        }
        dirs.iter().try_for_each(|dir| disk.sync_dir(dir).at(dir, "sync"))
    }
}

/// Reads all of the log as it was when `last` was its last block.
fn check_all(
    disk: &Arc<dyn Disk>,
    request: &RewindRequest<'_>,
    then: &Catalog,
    last: Lsn,
) -> Result<()> {
    let (is_parallel, group_bytes) = (request.is_parallel, GROUP_BYTES);
    let (dir, before) = (request.dir, KnownBefore::default());
    let reading = Reading { disk, dir, catalog: then, is_parallel, group_bytes, before };
    let state = reading.run(&mut Nothing, &mut |_| {})?;
    if state.last_lsn >= last {
        return Ok(());
    }
    let (missing, next, file) = (state.last_lsn.next(), Lsn::ZERO, path_in(dir));
    Err(Error::Hole { missing, durable: last, next, file })
}

/// Whether a backup can be made that needs `files` files, with what others need.
fn check_room_for_backup(registry: &Registry, files: usize) -> Result<()> {
    let backups = registry.backups().len();
    if backups >= BACKUPS_MAX || files >= HELD_FILES_MAX {
        return Err(Error::CannotKeep { backups, files });
    }
    Ok(())
}

/// What the backup of what was there before is called.
fn name_of_backup(registry: &Registry, at: Lsn) -> String {
    let mut name = format!("before-restore-{at}");
    while registry.find(&name).is_some() {
        name.push('x');
    }
    name
}
