//! Checking a log without changing it: `indelible log verify`.
//!
//! Everything that is on disk is read and compared with everything else that says something about
//! it: checksums, the place of each block in its segment and in the log, what footers claim
//! against what they would say if they were written now, and the whole log in order, as recovery
//! would read it. A log that was not closed is not damaged: its torn end is a note.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::{Access, Disk};

use crate::error::{Error, IoContext, Result};
use crate::format::block;
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::GROUP_BYTES;
use crate::format::manifest::Manifest;
use crate::format::record;
use crate::format::segment::Footer;
use crate::read::catalog::{Catalog, KeptState};
use crate::read::in_use::{is_in_use, lock_path};
use crate::read::scan::{BlockCursor, Next, SegmentFile};
use crate::read::side_by_side::side_by_side;
use crate::recover::behind::KnownBefore;
use crate::recover::replay::{Nothing, Reading};

/// What [`verify`] has found.
#[derive(Debug, Default)]
pub struct Report {
    /// What is wrong; empty for a good log.
    pub errors: Vec<Error>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<String>,
    /// Files of segments.
    pub files: usize,
    /// Their length.
    pub bytes: u64,
    /// Good blocks.
    pub blocks: u64,
    /// Their records.
    pub records: u64,
    /// Those that say that an entry is gone.
    pub deletes: u64,
    /// The last block that recovery would keep.
    pub last_lsn: Lsn,
    /// The last block that is known to have been durable.
    pub durable_lsn: Lsn,
    /// The oldest state that the log tells completely: that after this block.
    pub oldest_lsn: Lsn,
}

impl Report {
    /// Counts in what was found in a file.
    pub(crate) fn add(&mut self, of_file: Self) {
        let Self { errors, notes, files, bytes, blocks, records, deletes, .. } = of_file;
        self.errors.extend(errors);
        self.notes.extend(notes);
        self.files += files;
        self.bytes += bytes;
        self.blocks += blocks;
        self.records += records;
        self.deletes += deletes;
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.errors.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} files, {} bytes, {} blocks, {} records ({} deletes), last LSN {}, durable LSN {}",
            self.files,
            self.bytes,
            self.blocks,
            self.records,
            self.deletes,
            self.last_lsn,
            self.durable_lsn
        )?;
        if self.is_good() {
            let (oldest, last) = (self.oldest_lsn, self.last_lsn);
            writeln!(
                f,
                "tells the states after blocks {oldest} to {last} (indelible export --lsn)"
            )?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {error}"))?;
        writeln!(f, "{}", if self.is_good() { "good" } else { "DAMAGED" })
    }
}

/// The directories of the devices that the log in `dir` names, but for those that it is leaving; none if there is
/// no log.
///
/// # Errors
/// When the manifest is damaged or cannot be read.
pub fn devices_of(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
    let named = Manifest::read(disk, dir)?.into_iter().flat_map(|manifest| manifest.devices);
    let used = named.filter(|device| !device.is_leaving);
    Ok(used.map(|device| dir.join(device.path)).collect())
}

/// Checks the log in `dir`. `devices` as in [`crate::Options::devices`]; empty for those that the
/// manifest names.
///
/// # Errors
/// When the log is in use. Whatever is wrong with it is in the report.
pub fn verify(disk: &Arc<dyn Disk>, dir: &Path, devices: &[PathBuf]) -> Result<Report> {
    verify_on(disk, dir, devices, 1)
}

/// The same on up to so many threads.
///
/// # Errors
/// As of [`verify`].
pub fn verify_on(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    devices: &[PathBuf],
    threads: usize,
) -> Result<Report> {
    if is_in_use(&**disk, dir)? {
        return Err(Error::in_use(lock_path(dir)));
    }
    Ok(verify_unlocked(disk, dir, devices, threads))
}

/// The same for a caller that has the log's lock.
pub(crate) fn verify_unlocked(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    devices: &[PathBuf],
    threads: usize,
) -> Report {
    verify_rest(disk, dir, devices, threads, Report::default())
}

/// The same of a log whose files were checked one by one as they were made; `checked` is what was found, all files added up. If it
/// is not of as many files as there are, all are checked again.
pub(crate) fn verify_rest(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    devices: &[PathBuf],
    threads: usize,
    checked: Report,
) -> Report {
    let mut report = Report::default();
    let catalog = match read_catalog(&**disk, dir, devices) {
        Err(error) => {
            report.errors.push(error);
            return report;
        }
        Ok(catalog) => catalog,
    };
    if catalog.manifest.is_none() {
        report.notes.push(format!("there is no log in {}", dir.display()));
        return report;
    }
    for path in &catalog.leftovers {
        let path = path.display();
        report.notes.push(format!("{path} is a leftover that the next start removes"));
    }
    for path in &catalog.unborn {
        let path = path.display();
        report.notes.push(format!("{path} was begun and never used; the next start removes it"));
    }
    note_history(&**disk, &catalog, &mut report);
    if catalog.files.len() == checked.files {
        report.add(checked);
    } else {
        for found in side_by_side(&catalog.files, threads, |file| of_file(&**disk, file)) {
            report.add(found);
        }
    }
    if report.is_good() {
        let reading = Reading {
            disk,
            dir,
            catalog: &catalog,
            is_parallel: threads > 1,
            group_bytes: GROUP_BYTES,
            before: KnownBefore::default(),
        };
        match reading.run(&mut Nothing, &mut |_| {}) {
            Ok(state) => {
                report.last_lsn = state.last_lsn;
                report.durable_lsn = state.durable;
                report.oldest_lsn = catalog.complete_from();
                let cut: u64 = state.files.iter().map(|file| file.cut_block_count).sum();
                if cut > 0 {
                    report.notes.push(format!(
                        "{cut} blocks behind block {} follow one that is missing, and nothing in \
                         the log says that they were durable; the next start cuts them off",
                        state.last_lsn
                    ));
                }
            }
            Err(error) => report.errors.push(error),
        }
    }
    report
}

/// Says what is wrong with what is kept of the log as it was.
fn note_history(disk: &dyn Disk, catalog: &Catalog, report: &mut Report) {
    let mut listed = BTreeSet::new();
    for kept in catalog.kept(disk, 1) {
        let what = match kept.state {
            KeptState::There(_) => None,
            KeptState::InPlace => Some("was kept, and is in its place still"),
            KeptState::Missing => Some("is listed as kept, and is missing"),
            KeptState::Damaged => Some("is listed as kept, and is damaged"),
            KeptState::Unreadable => Some("is listed as kept, and cannot be read"),
        };
        if let Some(what) = what {
            report.notes.push(format!("{} {what}", kept.path.display()));
        }
        listed.insert(kept.path);
    }
    for path in catalog.history.iter().filter(|path| !listed.contains(*path)) {
        let path = path.display();
        report.notes.push(format!("{path} is not listed as kept; the next start removes it"));
    }
}

/// What there is in `dir`, unless it is in use. The devices default to those of the manifest.
pub(crate) fn open_catalog(disk: &dyn Disk, dir: &Path, devices: &[PathBuf]) -> Result<Catalog> {
    if is_in_use(disk, dir)? {
        return Err(Error::in_use(lock_path(dir)));
    }
    read_catalog(disk, dir, devices)
}

pub(crate) fn read_catalog(disk: &dyn Disk, dir: &Path, devices: &[PathBuf]) -> Result<Catalog> {
    let mut dirs = devices.to_vec();
    if dirs.is_empty()
        && let Some(manifest) = Manifest::read(disk, dir)?
    {
        dirs.extend(manifest.devices.into_iter().map(|device| dir.join(device.path)));
    }
    Catalog::read(disk, dir, &dirs, 1)
}

/// Reads all that is in the file of an image which is complete.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn check_image(disk: &dyn Disk, path: &Path) -> Result<Report> {
    let mut report = Report::default();
    for image in SegmentFile::read(disk, path, 0)? {
        report.add(of_file(disk, &image));
    }
    match report.errors.pop() {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// What is found in a file.
fn of_file(disk: &dyn Disk, file: &SegmentFile) -> Report {
    let mut report = Report { files: 1, bytes: file.len, ..Report::default() };
    if let Err(error) = check_file(disk, file, &mut report) {
        report.errors.push(error);
    }
    report
}

/// Reads all of a file and writes its footer anew, in memory, to compare.
pub(crate) fn check_file(disk: &dyn Disk, file: &SegmentFile, report: &mut Report) -> Result<()> {
    let mut cursor = BlockCursor::open(disk, file.clone(), 1 << 20)?;
    let mut builder = match &file.footer {
        Some(footer) => FooterBuilder::like(footer),
        None => FooterBuilder::of_version(file.header.version, GROUP_BYTES),
    };
    let mut records = Vec::new();
    loop {
        let block = match cursor.next()? {
            Next::Block(block) => block,
            Next::End => break,
            Next::Tail(mut tail) => {
                tail.look_through(disk, file)?;
                if let Some(what) = tail.what {
                    let (path, at) = (file.path.display(), tail.offset);
                    report.notes.push(format!("{path} ends torn at byte {at}: {what}"));
                }
                return Ok(());
            }
        };
        let corrupt = |what: &str| file.corrupt(block.offset, what);
        records.clear();
        let mut delete_count = 0;
        for body in block.bodies() {
            let (ordinal, at, body) = body.map_err(corrupt)?;
            let record = record::decode_body(body).map_err(corrupt)?;
            delete_count += u32::from(record.kind.is_delete());
            records.push((ordinal, (block::HEADER_BYTES + at) as u64));
        }
        if records.len() as u64 != u64::from(block.header.record_count) {
            return Err(corrupt("a block has other than the number of records that it says"));
        }
        report.blocks += 1;
        report.records += records.len() as u64;
        report.deletes += u64::from(delete_count);
        let written = WrittenBlock {
            lsn: block.header.lsn,
            header: &block.header.encode(),
            records: block.payload(),
            ordinals: Ordinals::Each(&records),
            record_count: block.header.record_count,
            delete_count,
        };
        builder.add(&written);
    }
    let input = disk.open(&file.path, Access::Read).at(&file.path, "open")?;
    let end = file.start + file.len;
    let found = Footer::read(&*input, end, &file.path, file.header.database)?;
    let Some((_, footer)) = found else { return Ok(()) };
    if builder.finish_with(footer.survivors.len()) != footer {
        let what = "the footer is not the one of the blocks before it";
        return Err(file.corrupt(footer.data_end, what));
    }
    Ok(())
}
