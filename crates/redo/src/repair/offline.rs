//! Making a damaged log one that starts, with everything that is still good: `indelible log repair`.
//!
//! ```text
//!   look (nothing is changed)                    carry out (only when told to)
//!     places    devices, marks, manifest           1  copy what is damaged to damaged-TIME/
//!     salvage   every file, block by block         2  good blocks of damaged segments ─► N.tmp
//!     judge     which files are not right          3  marks, manifest: gaps up to K are accepted
//!     count     what is lost, and its names        4  rename N.tmp ─► N.redo, remove the rest
//! ```
//!
//! **What stays.** A block is a transaction: it stays whole or not at all. A segment of which any
//! file is damaged is written anew from its good blocks, in the form of a compacted one (it has
//! gaps, as those have); its records get new ordinals, which nothing on disk refers to. Files that
//! are good are not touched.
//!
//! **How the gaps become legitimate.** Recovery accepts missing blocks up to the horizon M. The
//! new manifest says M = K, the largest block that anything that can still be read knows to have
//! been durable. Nothing else is bent: what is behind K is judged by recovery as ever.
//!
//! **What that costs**, and what the report therefore says: what is lost may have been the newest
//! record of an entry, or the one that said that it is gone, and an older record may still be
//! there. Such an entry shows an older state, or comes back. The log alone cannot tell which.
//!
//! **Crash at any point.** Copies and temporary files are nothing yet. Once the manifest says
//! M = K a damaged file is still damaged and stops a start. A segment is replaced by one rename;
//! what is removed was copied before. So after a crash the repair is simply made again.
//!
//! **The past.** What is damaged is replaced, as by a compaction, and nothing is kept of it: backups, and points before a
//! FLUSHALL, that are older than all of it stay; the others are lost, and the log says so.
//!
//! A device that is missing as a whole, a database that is not the one, a newer format, a log in
//! use: none of these is damage, and nothing is repaired by giving that up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, Note, NoteEvent, RecordKind, SegmentId};
use env::{Access, Disk, Entropy, FileError};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{BlockHeader, HEADER_BYTES};
use crate::format::listing::Listed;
use crate::format::manifest::{self, DeviceMark, KeptFile, Manifest};
use crate::format::record;
use crate::format::rewinds::PutBack;
use crate::format::segment;
use crate::inspect::verify::{Report, check_file, verify, verify_unlocked};
use crate::read::catalog::history_files;
use crate::read::in_use::{is_in_use, lock_path};
use crate::read::scan::find_block_in;
use crate::repair::places::{self, Places};
use crate::repair::rebuild::{DamagedSegment, Rebuilder};
use crate::repair::salvage::{DamagedFile, GoodBlock, Salvage, Wound, read_range};

/// Whether a repair is made or only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Nothing is changed.
    Show,
    /// The repair is made.
    CarryOut {
        /// The time now, to name the directory that keeps the old files.
        now_ms: i64,
    },
}

/// The log that is to be repaired.
#[derive(Debug, Clone, Copy)]
pub struct RepairRequest<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// The devices, as for [`verify`].
    pub devices: &'a [PathBuf],
    /// Devices that are gone for good: what is on them is given up, and they are not looked at.
    pub lost: &'a [PathBuf],
}

/// What a repair has found, and done if it was told to.
pub struct Repair {
    dir: PathBuf,
    /// What [`verify`] says is wrong; empty for a log that needs no repair.
    pub errors: Vec<Error>,
    /// The segments that are written anew, those together that share files.
    groups: Vec<Vec<DamagedSegment>>,
    /// Damaged files that add nothing: leftovers, and files that were begun and never used.
    discarded: BTreeSet<PathBuf>,
    /// Blocks that were durable and are in no file.
    holes: Vec<(Lsn, Lsn)>,
    /// Images that the manifest lists and that are in no file.
    missing: Vec<Listed>,
    places: Places,
    manifest: Manifest,
    /// The names of backups that need something that is damaged, or are noted behind what the next start takes.
    pub lost_backups: Vec<String>,
    /// The last block that is known to have been durable.
    pub durable_lsn: Lsn,
    /// Records that are good, in files that are damaged.
    pub saved_records: u64,
    /// Records that are lost, as far as they can be counted.
    pub lost_records: u64,
    /// Whether there may be more of them.
    pub lost_more: bool,
    /// The directories that keep the old files, once the repair is made.
    pub kept_in: Vec<PathBuf>,
}

impl Repair {
    /// Whether there is anything to repair.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// Shows how a log can be made to start again, or does it.
///
/// # Errors
/// When the log is in use, or what is wrong with it is no damage, or the disk refuses. Unless it
/// is carried out, nothing is changed.
pub fn repair(
    disk: &Arc<dyn Disk>,
    request: &RepairRequest<'_>,
    entropy: &mut dyn Entropy,
    mode: RepairMode,
) -> Result<Repair> {
    let RepairRequest { dir, devices, .. } = *request;
    if let Ok(Some(manifest)) = Manifest::read(&**disk, dir) {
        // What is in place belongs to two states of the log.
        manifest.check_finished(dir)?;
    }
    let RepairMode::CarryOut { now_ms } = mode else {
        if is_in_use(&**disk, dir)? {
            return Err(Error::in_use(lock_path(dir)));
        }
        let report = verify(disk, dir, devices)?;
        return look(&**disk, request, report, entropy);
    };
    disk.create_dir_all(dir).at(dir, "make")?;
    let path = lock_path(dir);
    let _lock = match disk.lock(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(Error::in_use(path));
        }
        lock => lock.at(&path, "lock")?,
    };
    let report = verify_unlocked(disk, dir, devices, 1);
    let mut repair = look(&**disk, request, report, entropy)?;
    if repair.is_needed() {
        repair.carry_out(&**disk, now_ms)?;
        let devices: Vec<PathBuf> =
            repair.places.devices.iter().map(|it| it.path.clone()).collect();
        let report = verify_unlocked(disk, dir, &devices, 1);
        if let Some(error) = report.errors.into_iter().next() {
            return Err(error);
        }
    }
    Ok(repair)
}

/// Finds out what is damaged and what is good. Reads only.
fn look(
    disk: &dyn Disk,
    request: &RepairRequest<'_>,
    report: Report,
    entropy: &mut dyn Entropy,
) -> Result<Repair> {
    let dir = request.dir;
    let places = places::find(disk, request)?;
    let mut files = Vec::new();
    let mut discarded = BTreeSet::new();
    for (device, place) in places.devices.iter().enumerate() {
        for (path, name) in places::segment_files(disk, &place.path)? {
            let database = places.database;
            files.extend(DamagedFile { disk, path: &path, device, name, database }.read()?);
        }
    }
    let headers = || files.iter().filter_map(|file| file.header);
    let known = places.manifest.as_ref();
    let mut horizon = known.map_or(Lsn::ZERO, |manifest| manifest.horizon);
    let mut durable = known.map_or(Lsn::ZERO, |manifest| manifest.durable_lsn);
    horizon = headers().map(|header| header.horizon).fold(horizon, Lsn::max);
    durable = headers().map(|header| header.durable_lsn).fold(durable, Lsn::max).max(horizon);
    for block in files.iter().flat_map(|file| &file.blocks) {
        durable = durable.max(block.header.durable_lsn);
    }

    let leftovers = take_leftovers(&mut files);
    let lsns: BTreeSet<Lsn> =
        files.iter().flat_map(|file| &file.blocks).map(|block| block.header.lsn).collect();
    let holes = holes(&lsns, horizon, durable);
    let mut complaints = Vec::new();
    for file in &files {
        complaints.push(complaint(disk, &places, &files, file, durable, &holes)?);
    }
    for file in leftovers {
        if complaint(disk, &places, &files, &file, Lsn::ZERO, &[])?.is_some() {
            discarded.insert(file.path);
        }
    }
    let next_segment = files.iter().map(|image| image.segment.0 + 1).max().unwrap_or(1);
    let listed = places.listed().iter().copied();
    let missing = listed.filter(|entry| !files.iter().any(|image| image.may_be(entry))).collect();
    let mut manifest = places.new_manifest(dir, durable, next_segment, entropy);
    let known_command = manifest.registry.last_command();
    let mut notes = BTreeMap::new();
    for file in &files {
        add_notes(disk, file, &mut notes)?;
    }
    if known.is_none() {
        // What was kept tells of what blocks in place have lost to compactions, as far as it can be read.
        for file in kept_files(disk, &places) {
            _ = add_notes(disk, &file, &mut notes);
        }
    }
    // Behind the first block that is missing after the durable ones the next start takes none, so that backups which
    // are noted there are lost. Without the manifest all are.
    let end = last_in_row(&lsns, durable);
    let mut noted_behind = Vec::new();
    for (lsn, notes) in notes {
        for note in notes {
            if lsn <= end || known.is_none() {
                manifest.registry.take(lsn, &note, known_command);
            } else if let NoteEvent::BackupCreated { name, .. } = note.event {
                noted_behind.push(name);
            }
        }
    }
    let (groups, intact) = gather_damaged(files.into_iter().zip(complaints).collect());
    manifest.listed = intact.iter().filter_map(Salvage::listed).collect();
    manifest.listed.extend(groups.iter().flatten().filter_map(DamagedSegment::listed));
    let replaced = || groups.iter().flatten();
    let images = || replaced().flat_map(|damaged| &damaged.images);
    let put_back: BTreeMap<&Path, PutBack> = images()
        .filter_map(|image| Some((&*image.path, *manifest.rewinds.file(image.header.as_ref()?)?)))
        .collect();
    let since_when = |image: &Salvage| put_back.get(&*image.path).map(|file| file.since);
    let parent = manifest.parent.map(|parent| parent.lsn);
    let since = images().map(|image| image.from(since_when(image), parent));
    let since = since.chain(holes.iter().map(|hole| hole.0)).min();
    // Without the manifest, or a file that it lists, nothing says what was made without what is missing.
    let is_all_there = known.is_some()
        && Vec::is_empty(&missing)
        && discarded.is_empty()
        && places.lost.is_empty();
    let since = if is_all_there { since } else { Some(Lsn::ZERO) };
    // Blocks behind the last one that is known to have been durable may be good, too.
    let mut lost: Vec<(Lsn, Lsn)> =
        since.map(|since| (since, Lsn::MAX.next())).into_iter().collect();
    // What was put back is in `history/`, too, for what it was part of before: one file with two names.
    let is_put_back = |kept: &&KeptFile| put_back.values().any(|file| file.is_of(kept));
    lost.extend(manifest.history.iter().filter(is_put_back).map(|kept| (kept.from, kept.until)));
    let replaced: BTreeSet<SegmentId> = replaced().map(|damaged| damaged.segment).collect();
    let mut lost_backups =
        if lost.is_empty() { Vec::new() } else { give_up(&mut manifest, &lost, &replaced) };
    lost_backups.extend(noted_behind);
    let mut repair = Repair {
        dir: dir.to_owned(),
        errors: report.errors,
        groups,
        discarded,
        holes,
        missing,
        places,
        manifest,
        lost_backups,
        durable_lsn: durable,
        saved_records: 0,
        lost_records: 0,
        lost_more: false,
        kept_in: Vec::new(),
    };
    repair.count();
    Ok(repair)
}

/// What is good of the files in `history/`; what cannot be read of them keeps nothing from being repaired.
fn kept_files(disk: &dyn Disk, places: &Places) -> Vec<Salvage> {
    let mut kept = Vec::new();
    for (device, place) in places.devices.iter().enumerate() {
        for path in history_files(disk, &place.path) {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.and_then(segment::parse_history_name) else { continue };
            let database = places.database;
            let file = DamagedFile { disk, path: &path, device, name, database };
            kept.extend(file.read().unwrap_or_default());
        }
    }
    kept
}

/// Adds the notes in good blocks. A backup of which the manifest does not know yet must not be taken for a good one by the
/// next start, which knows of no damage any more. Of a block that is there twice the one counts that has more of them: a
/// compaction drops them.
fn add_notes(disk: &dyn Disk, file: &Salvage, notes: &mut BTreeMap<Lsn, Vec<Note>>) -> Result<()> {
    let input = disk.open(&file.path, Access::Read).at(&file.path, "open")?;
    for GoodBlock { offset, header } in &file.blocks {
        let records_at = offset + HEADER_BYTES as u64;
        let records = records_at..records_at + header.payload_bytes;
        let payload = read_range(&*input, &file.path, records)?;
        let mut rest = &payload[..];
        let mut of_block = Vec::new();
        // What a newer program has written tells nothing here.
        while let Some(Ok(record)) = (!rest.is_empty()).then(|| record::decode(&mut rest)) {
            if record.kind == RecordKind::Note {
                of_block.extend(Note::decode(record.value));
            }
        }
        let known = notes.entry(header.lsn).or_default();
        if of_block.len() > known.len() {
            *known = of_block;
        }
    }
    Ok(())
}

/// What is damaged is replaced as by a compaction of now: states of these spans of blocks, each up to before its second one,
/// need it and are lost. Returns the names of the backups among them.
fn give_up(
    manifest: &mut Manifest,
    lost: &[(Lsn, Lsn)],
    replaced: &BTreeSet<SegmentId>,
) -> Vec<String> {
    let durable = manifest.durable_lsn;
    (manifest.history_floor, manifest.history_floor_ms) = (durable, 0);
    let is_lost = |lsn: Lsn| lost.iter().any(|(from, until)| *from <= lsn && lsn < *until);
    manifest.history_points.retain(|point| !is_lost(point.lsn));
    manifest.rewinds.put_back.retain(|file| !replaced.contains(&file.segment));
    let backups = manifest.registry.backups().iter();
    let names =
        backups.filter(|backup| lost.iter().any(|(from, until)| backup.needs(*from, *until)));
    let names = names.map(|backup| backup.name.clone()).collect();
    for (from, until) in lost {
        manifest.registry.lose(*from, *until);
    }
    names
}

/// Files that a compaction has made superfluous count for nothing.
fn take_leftovers(images: &mut Vec<Salvage>) -> Vec<Salvage> {
    let mut newest: BTreeMap<SegmentId, u32> = BTreeMap::new();
    for image in images.iter() {
        let generation = newest.entry(image.segment).or_default();
        *generation = (*generation).max(image.header.map_or(0, |header| header.generation));
    }
    // Without its header nothing says how old an image is; if another file has the segment, and it
    // was compacted, records of this one may be long gone, and must not come back.
    let is_elsewhere = |image: &Salvage| {
        images.iter().any(|other| {
            let is_compacted = other.header.is_some_and(|header| header.generation > 0);
            is_compacted && other.segment == image.segment && other.path != image.path
        })
    };
    let is_old = |image: &&Salvage| match image.header {
        Some(header) => header.generation < newest[&image.segment],
        None => is_elsewhere(image),
    };
    let old: BTreeSet<PathBuf> =
        images.iter().filter(is_old).map(|image| image.path.clone()).collect();
    images.extract_if(.., |image| old.contains(&image.path)).collect()
}

/// The segments of which something is damaged, each with all of its images. What shares a file
/// with one of them is written anew as well, and with it. And the images that stay as they are.
fn gather_damaged(
    mut images: Vec<(Salvage, Option<String>)>,
) -> (Vec<Vec<DamagedSegment>>, Vec<Salvage>) {
    let mut groups = Vec::new();
    while let Some((first, _)) = images.iter().find(|(_, complaint)| complaint.is_some()) {
        let mut paths = BTreeSet::from([first.path.clone()]);
        let mut segments = BTreeSet::new();
        let mut count = 0;
        while count < paths.len() + segments.len() {
            count = paths.len() + segments.len();
            for (image, _) in &images {
                if paths.contains(&image.path) {
                    segments.insert(image.segment);
                }
                if segments.contains(&image.segment) {
                    paths.insert(image.path.clone());
                }
            }
        }
        let mut damaged: BTreeMap<SegmentId, DamagedSegment> = BTreeMap::new();
        for (image, complaint) in
            images.extract_if(.., |(image, _)| segments.contains(&image.segment))
        {
            let segment = image.segment;
            let new = DamagedSegment { segment, images: Vec::new(), complaints: Vec::new() };
            let entry = damaged.entry(segment).or_insert(new);
            entry.complaints.extend(complaint);
            entry.images.push(image);
        }
        groups.push(damaged.into_values().collect());
    }
    (groups, images.into_iter().map(|(image, _)| image).collect())
}

/// The last block of those in a row behind `lsn`; that one if there is none.
fn last_in_row(lsns: &BTreeSet<Lsn>, lsn: Lsn) -> Lsn {
    let mut last = lsn;
    while lsns.contains(&last.next()) {
        last = last.next();
    }
    last
}

/// The blocks above the horizon and up to the last durable one that are in no file.
fn holes(lsns: &BTreeSet<Lsn>, horizon: Lsn, durable: Lsn) -> Vec<(Lsn, Lsn)> {
    let mut holes = Vec::new();
    let mut expected = horizon.next();
    let end = durable.next();
    for lsn in lsns.range(expected..).copied().take_while(|lsn| *lsn < end).chain([end]) {
        if lsn > expected {
            holes.push((expected, Lsn(lsn.0 - 1)));
        }
        expected = lsn.next();
    }
    holes
}

/// What is wrong with a file, if anything is.
fn complaint(
    disk: &dyn Disk,
    places: &Places,
    files: &[Salvage],
    file: &Salvage,
    durable: Lsn,
    holes: &[(Lsn, Lsn)],
) -> Result<Option<String>> {
    let at = |offset: u64, what: &str| {
        Ok(Some(format!("{} at byte {offset}: {what}", file.path.display())))
    };
    let is_newest = !files.iter().any(|other| {
        other.path.parent() == file.path.parent()
            && other.name.1 == 0
            && !other.is_moved()
            && other.segment > file.segment
    });
    let may_be_open = file.name.1 > 0 || is_newest;
    if let Some((offset, what)) = &file.unreadable {
        return at(*offset, what);
    }
    let (Some(source), Some(header)) = (&file.source, &file.header) else {
        // A start removes what was begun and never used; it is no damage, nor is it in the way.
        let is_listed = places.listed().iter().any(|entry| file.may_be(entry));
        let is_unborn = file.is_blank && may_be_open && !is_listed;
        return if is_unborn { Ok(None) } else { at(0, "the segment's header is damaged") };
    };
    let is_first = source.start == 0;
    if is_first && (header.segment, header.part) != file.name {
        return at(48, "the file's name is not what it says it is");
    }
    if header.device != places.devices[file.device].id {
        return at(source.start + 32, "the file was written to another device");
    }
    let is_twice = |other: &&Salvage| {
        let other_header = other.header.as_ref();
        other_header.is_some_and(|o| (o.segment, o.part) == (header.segment, header.part))
            && other.path != file.path
    };
    if let Some(other) = files.iter().find(is_twice) {
        return at(source.start + 48, &format!("it is also there as {}", other.path.display()));
    }
    if source.footer.is_some() {
        return match check_file(disk, source, &mut Report::default()) {
            Ok(()) => Ok(None),
            Err(Error::File(FileError::Corrupt { offset, what, .. })) => at(offset, &what),
            Err(error) => Err(error),
        };
    }
    if header.generation > 0 || !may_be_open {
        let what = "the segment was sealed, and its footer is damaged or missing";
        return at(file.range.end, what);
    }
    let last_lsn = file.blocks.last().map_or(Lsn::ZERO, |block| block.header.lsn);
    for entry in places.listed().iter().filter(|entry| entry.is_met_by(header)) {
        if let Err(Error::File(FileError::Corrupt { offset, what, .. })) =
            source.check_listed(entry, last_lsn)
        {
            return at(offset, &what);
        }
    }
    if files.iter().filter(|other| other.segment == header.segment).count() > 1 {
        // What a failed device has left behind: its blocks are elsewhere.
        return Ok(None);
    }
    for wound in &file.wounds {
        let is_durable = |block: Option<&BlockHeader>| block.is_some_and(|b| b.lsn <= durable);
        let is_known = |header: &BlockHeader| is_durable(Some(header));
        let behind = find_block_in(disk, source, wound.from..source.len, is_known)?;
        let may_fill = |hole: &(Lsn, Lsn)| {
            hole.1 > wound.after && (wound.before == Lsn::ZERO || hole.0 < wound.before)
        };
        if is_durable(wound.header.as_ref()) || behind.is_some() || holes.iter().any(may_fill) {
            return at(wound.from, wound.what);
        }
    }
    Ok(None)
}

impl Repair {
    fn images(&self) -> impl Iterator<Item = &Salvage> {
        self.groups.iter().flatten().flat_map(|damaged| &damaged.images)
    }

    fn count(&mut self) {
        let (mut saved, mut lost) = (0, 0);
        // The manifest may have known of more; what is put aside unread may have been newer.
        let mut lost_more = self.places.manifest.is_none()
            || !self.places.lost.is_empty()
            || !self.discarded.is_empty()
            || !self.missing.is_empty();
        for image in self.images() {
            saved += image.good_record_count();
            lost += image.lost_record_count().unwrap_or_else(|| {
                lost_more = true;
                let headers = image.wounds.iter().filter_map(|wound| wound.header);
                headers.map(|header| u64::from(header.record_count)).sum()
            });
        }
        let damaged: BTreeSet<Lsn> = self
            .images()
            .flat_map(|image| &image.wounds)
            .filter_map(|wound| wound.header.map(|header| header.lsn))
            .collect();
        let (mut missing_blocks, mut unread_blocks) = (0, 0);
        for (from, to) in &self.holes {
            let count = to.0 - from.0 + 1;
            missing_blocks += count;
            unread_blocks += count - damaged.range(*from..=*to).count() as u64;
        }
        // What nothing tells the length of has one record at least, as every block has. Some of it
        // may be counted above already.
        if unread_blocks > 0 {
            lost_more = true;
            lost = lost.max(missing_blocks);
        }
        self.lost_more = lost_more;
        (self.saved_records, self.lost_records) = (saved, lost);
    }

    fn carry_out(&mut self, disk: &dyn Disk, now_ms: i64) -> Result<()> {
        self.keep_old_files(disk, now_ms)?;
        let mut rebuilt = Vec::new();
        for group in &self.groups {
            let home = group.first().and_then(|damaged| damaged.images.first());
            let home = &self.places.devices[home.map_or(0, |image| image.device)];
            let rebuilder = Rebuilder {
                disk,
                database: self.places.database,
                device: home.id,
                dir: &home.path,
                durable_lsn: self.durable_lsn,
                kept: &self.manifest.history,
            };
            rebuilt.extend(rebuilder.write(group)?);
        }
        for place in &self.places.devices {
            let mark = DeviceMark { database: self.places.database, device: place.id };
            if !place.has_mark {
                mark.write(disk, &place.path)?;
            }
        }
        self.manifest.write(disk, &self.dir)?;
        let sources = self.images().map(|image| &image.path);
        let mut superfluous: BTreeSet<&PathBuf> = sources.chain(&self.discarded).collect();
        for (new, path) in rebuilt {
            new.publish(disk, &path)?;
            superfluous.remove(&path);
        }
        for path in superfluous {
            disk.remove(path).at(path, "remove")?;
        }
        let mut dirs = self.places.devices.iter().map(|place| &place.path);
        dirs.try_for_each(|dir| disk.sync_dir(dir).at(dir, "sync"))
    }

    /// Copies everything that will be replaced or removed, and the report.
    fn keep_old_files(&mut self, disk: &dyn Disk, now_ms: i64) -> Result<()> {
        let report = format!("{self:#}");
        let mut seconds = now_ms / 1000;
        while disk.exists(&self.dir.join(format!("damaged-{seconds}"))).at(&self.dir, "look in")? {
            seconds += 1;
        }
        let name = format!("damaged-{seconds}");
        let mut files: BTreeSet<PathBuf> = self.discarded.clone();
        files.extend(self.images().map(|image| image.path.clone()));
        files.insert(manifest::path_in(&self.dir));
        let unmarked = self.places.devices.iter().filter(|place| !place.has_mark);
        files.extend(unmarked.map(|place| DeviceMark::path_in(&place.path)));
        let keep = self.dir.join(&name);
        disk.create_dir_all(&keep).at(&keep, "make")?;
        let mut kept_in = BTreeSet::from([keep.clone()]);
        for path in files {
            if !disk.exists(&path).at(&path, "look for")? {
                continue;
            }
            let keep = path.parent().expect("a file is in a directory").join(&name);
            disk.create_dir_all(&keep).at(&keep, "make")?;
            copy_file(disk, &path, &copy_in(&keep, &path))?;
            kept_in.insert(keep);
        }
        // States that are given up are deleted by the next start: here their files stay.
        let mut synced = BTreeSet::new();
        for place in &self.places.devices {
            let keep = place.path.join(&name);
            for path in history_files(disk, &place.path) {
                let history = segment::history_dir(&keep);
                disk.create_dir_all(&history).at(&history, "make")?;
                let copy = copy_in(&history, &path);
                if disk.link(&path, &copy).is_err() {
                    // Some file systems make no second names.
                    copy_file(disk, &path, &copy)?;
                }
                synced.extend([history, keep.clone()]);
                kept_in.insert(keep.clone());
            }
        }
        let path = keep.join("report.txt");
        let file = disk.create(&path).at(&path, "create")?;
        file.write_all_at(report.as_bytes(), 0).at(&path, "write")?;
        file.sync_data().at(&path, "sync")?;
        synced.extend(kept_in.iter().cloned());
        synced.iter().try_for_each(|dir| disk.sync_dir(dir).at(dir, "sync"))?;
        self.kept_in = kept_in.into_iter().collect();
        Ok(())
    }
}

/// The name in a directory that a copy of the file has.
fn copy_in(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path.file_name().expect("a file has a name"))
}

fn copy_file(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    let input = disk.open(from, Access::Read).at(from, "open")?;
    let output = disk.create(to).at(to, "create")?;
    let (len, mut at) = (input.len().at(from, "read")?, 0);
    while at < len {
        let end = len.min(at + (1 << 20));
        output.write_all_at(&read_range(&*input, from, at..end)?, at).at(to, "write")?;
        at = end;
    }
    output.sync_data().at(to, "sync")
}

/// So many holes are shown, unless all are asked for (`{:#}`).
const HOLES_SHOWN: usize = 100;

/// So many names of what a wound held are shown, unless all are asked for (`{:#}`).
const NAMES_SHOWN: usize = 20;

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_needed() {
            return writeln!(f, "nothing is wrong: there is nothing to repair");
        }
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {error}"))?;
        if self.places.manifest.is_none() {
            writeln!(f, "the manifest is lost: a new one is made from what the other files say")?;
        }
        for path in &self.places.lost {
            writeln!(f, "lost: log device {}, which is given up", path.display())?;
        }
        for place in self.places.devices.iter().filter(|place| !place.has_mark) {
            writeln!(f, "{} lost its mark: it gets a new one", place.path.display())?;
        }
        for damaged in self.groups.iter().flatten() {
            damaged.write(f)?;
        }
        for path in &self.discarded {
            writeln!(f, "{}: superfluous since a compaction; put aside", path.display())?;
        }
        for Listed { segment, part, .. } in &self.missing {
            writeln!(
                f,
                "lost: segment {segment} (part {part}), listed in the manifest, in no file"
            )?;
        }
        let shown = if f.alternate() { usize::MAX } else { HOLES_SHOWN };
        for (from, to) in self.holes.iter().take(shown) {
            let what =
                if from == to { format!("block {from}") } else { format!("blocks {from} to {to}") };
            writeln!(f, "lost: {what}, known to have been durable, in no file")?;
        }
        let rest = self.holes.iter().skip(shown).map(|(from, to)| to.0 - from.0 + 1);
        let rest: u64 = rest.sum();
        if rest > 0 {
            writeln!(
                f,
                "lost: {rest} more blocks like these; report.txt, which --yes makes, names them"
            )?;
        }
        if !self.lost_backups.is_empty() {
            let names = self.lost_backups.join(", ");
            writeln!(
                f,
                "backups that need what is damaged or missing, and are lost: {names}; restore before what `indelible backup verify` calls good"
            )?;
        }
        self.write_sum(f)
    }
}

impl Repair {
    fn write_sum(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (saved, lost) = (self.saved_records, self.lost_records);
        let lost = match (self.lost_more, lost) {
            (false, lost) => lost.to_string(),
            (true, 0) => "an unknown number".to_owned(),
            (true, lost) => format!("at least {lost}"),
        };
        writeln!(f, "{saved} records of damaged segments are good and stay; {lost} are lost")?;
        if self.lost_more || self.lost_records > 0 || !self.holes.is_empty() {
            writeln!(
                f,
                "WARNING: each lost record may have been the newest of its entry, or its deletion: \
                 so many keys and elements ({lost}) may be gone, show an older value, or come \
                 back although they were deleted; a lost record of a database map (FLUSHALL, \
                 FLUSHDB, SWAPDB) undoes that command, and keys may be in a database of another number \
                 (INFO keyspace), also of one above `databases`; a collection whose root is lost is gone, \
                 one whose elements are lost is incomplete"
            )?;
        }
        if self.kept_in.is_empty() {
            return Ok(());
        }
        writeln!(f, "repaired; the files as they were are in:")?;
        self.kept_in.iter().try_for_each(|dir| writeln!(f, "  {}", dir.display()))
    }
}

impl DamagedSegment {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "segment {}:", self.segment)?;
        self.complaints.iter().try_for_each(|what| writeln!(f, "  damaged: {what}"))?;
        for file in &self.images {
            let (blocks, records) = (file.blocks.len(), file.good_record_count());
            writeln!(
                f,
                "  {}: {blocks} blocks with {records} records are good",
                file.path.display()
            )?;
            file.wounds.iter().try_for_each(|wound| wound.write(f))?;
        }
        Ok(())
    }
}

impl Wound {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(f, "    lost: bytes {from} to {to}, {}: ", self.what)?;
        match (&self.header, self.after, self.before) {
            (Some(header), ..) => {
                writeln!(f, "block {}, {} records", header.lsn, header.record_count)?;
            }
            (None, after, Lsn::ZERO) => writeln!(f, "what came after block {after}")?,
            (None, after, before) => writeln!(f, "what was between blocks {after} and {before}")?,
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let shown = if f.alternate() { self.names.len() } else { NAMES_SHOWN };
        writeln!(f, "      it was about (as far as it can be read):")?;
        for name in self.names.iter().take(shown) {
            writeln!(f, "        {name}")?;
        }
        match self.names.len().saturating_sub(shown) {
            0 => Ok(()),
            more => writeln!(f, "        and {more} more"),
        }
    }
}
