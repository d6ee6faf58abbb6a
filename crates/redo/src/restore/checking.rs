//! Reads states of the past, record by record, and makes nothing of them: whether they could be restored.
//!
//! ```text
//!   source ─► for each state: the images of then ─► every block up to its last one: checksums, place, records
//!                    └ an image that several states have as a whole is read for the first of them
//! ```
//!
//! What a restore reads is read in the same way, so what is good here can be restored, as far as the disk of what is made
//! allows. A process may have the log open: its files are linked meanwhile, as for a restore, each as long as a state is still to
//! be read that has it; where a disk becomes short of room, the check ends. A file that is damaged is so for the states that have it,
//! and one without which the log cannot be opened, for all of them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::error::{Error, Result};
use crate::format::manifest::{Manifest, path_in};
use crate::format::record;
use crate::format::registry::{NamedBackup, Registry};
use crate::read::catalog::Catalog;
use crate::read::reader_links::of_linked;
use crate::read::scan::SegmentFile;
use crate::restore::branch::{CopyCount, check_whole};
use crate::restore::source::{ImageBlocks, Source};
use crate::restore::timeline::{STEP_BYTES, Timeline};

/// What is checked.
#[derive(Debug, Clone)]
pub struct CheckRequest<'a> {
    /// The data directory of the log, which a process may have open.
    pub source: &'a Path,
    /// The directories of its devices; none for those that it names.
    pub devices: &'a [PathBuf],
    /// The name or number of a backup; without it all of them, and the newest state.
    pub name: Option<&'a str>,
    /// A number that no other reader of the log has.
    pub reader: u32,
}

impl CheckRequest<'_> {
    fn wants(&self, backup: &NamedBackup) -> bool {
        self.name.is_none_or(|name| name == backup.name || name == backup.number())
    }
}

/// How far a check is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes read since it was told before.
    pub read_bytes: u64,
    /// Bytes that were looked at for what states there are, and of the states that were checked, read or known from a state before.
    pub done_bytes: u64,
    /// The same of all that is to be; estimated as long as it is not known what states there are.
    pub all_bytes: u64,
}

/// A state that was checked.
#[derive(Debug, Clone)]
pub struct CheckedState {
    /// The backup; `None` for the newest state.
    pub backup: Option<NamedBackup>,
    /// The last block of the state.
    pub lsn: Lsn,
    /// What was found.
    pub verdict: Verdict,
}

/// What was found of a state.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// All of it was read, and is as it was written.
    Good {
        /// The files that it is made of.
        files: usize,
        /// How many records these have up to the last block.
        records: u64,
    },
    /// Something that it needs is known to be gone.
    Lost,
    /// It cannot be restored, for this reason.
    Damaged(Arc<Error>),
}

impl CheckedState {
    /// Whether it can be restored.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.verdict, Verdict::Good { .. })
    }
}

/// Checks what `request` says; `pace` is told how far it is, and whether it goes on is for it to say. `None` if there is no
/// log; what was checked up to there if it was to end.
///
/// # Errors
/// When there is no such backup, the log cannot be looked at, or a disk refuses or is short of room.
pub fn check_past(
    disk: &dyn Disk,
    request: &CheckRequest<'_>,
    pace: &mut dyn FnMut(CheckProgress) -> ControlFlow<()>,
) -> Result<Option<Vec<CheckedState>>> {
    let source = Source::open(disk, request.source, request.devices, request.reader);
    let source = match source {
        Err(error) if error.is_damage() => return all_damaged(disk, request, error).map(Some),
        source => source?,
    };
    let Some(source) = source else { return Ok(None) };
    let progress = CheckProgress::default();
    let mut pacing = Pacing { disk, source: &source, progress, short: None, pace };
    let checked = check_source(disk, request, &mut pacing);
    let short = pacing.short;
    source.release(disk);
    match short {
        Some(path) => Err(Error::ShortOfRoom { path }),
        None => checked.map(Some),
    }
}

/// What is found where the log as it is cannot be opened: so no state can be restored.
fn all_damaged(
    disk: &dyn Disk,
    request: &CheckRequest<'_>,
    error: Error,
) -> Result<Vec<CheckedState>> {
    let (registry, durable_lsn) = match Manifest::read(disk, request.source) {
        Ok(Some(manifest)) => (manifest.registry, manifest.durable_lsn),
        Ok(None) => return Err(error),
        // Of one that is damaged itself nothing else is known.
        Err(_) => (Registry::EMPTY, Lsn::ZERO),
    };
    let why = Arc::new(error);
    let backups = registry.backups().iter().filter(|backup| request.wants(backup));
    let mut states: Vec<CheckedState> = backups
        .map(|backup| CheckedState {
            backup: Some(backup.clone()),
            lsn: backup.lsn,
            verdict: match backup.is_lost {
                true => Verdict::Lost,
                false => Verdict::Damaged(Arc::clone(&why)),
            },
        })
        .collect();
    if request.name.is_none() {
        let (lsn, verdict) = (durable_lsn, Verdict::Damaged(Arc::clone(&why)));
        states.push(CheckedState { backup: None, lsn, verdict });
    }
    match Arc::try_unwrap(why) {
        // It may be one that only the log tells of.
        Ok(error) => Err(error),
        Err(_) => Ok(states),
    }
}

/// Tells how far it is, and ends when what it keeps takes room that others need.
struct Pacing<'a> {
    disk: &'a dyn Disk,
    source: &'a Source,
    progress: CheckProgress,
    /// Where there is too little.
    short: Option<PathBuf>,
    pace: &'a mut dyn FnMut(CheckProgress) -> ControlFlow<()>,
}

impl Pacing<'_> {
    fn step(&mut self, read_bytes: u64) -> ControlFlow<()> {
        self.progress.read_bytes = read_bytes;
        self.short = self.source.short_of_room(self.disk);
        if self.short.is_some() {
            return ControlFlow::Break(());
        }
        (self.pace)(self.progress)
    }
}

/// A state that is to be checked.
struct Wanted {
    backup: Option<NamedBackup>,
    lsn: Lsn,
    /// `Err` with what there is to say without reading.
    images: std::result::Result<Catalog, Verdict>,
}

fn check_source(
    disk: &dyn Disk,
    request: &CheckRequest<'_>,
    pacing: &mut Pacing<'_>,
) -> Result<Vec<CheckedState>> {
    let source = pacing.source;
    let mut looked = |read_bytes, done, all: u64| {
        // What comes then is not known yet: the newest state is about as much.
        (pacing.progress.done_bytes, pacing.progress.all_bytes) = (done, all.saturating_mul(2));
        pacing.step(read_bytes)
    };
    let Some(timeline) = Timeline::look(disk, source, &mut looked)? else {
        return Ok(Vec::new());
    };
    let mut states = Vec::new();
    for backup in timeline.registry.backups() {
        if request.wants(backup) {
            states.push((Some(backup.clone()), backup.lsn));
        }
    }
    match request.name {
        None => states.push((None, timeline.last())),
        Some(name) if states.is_empty() => {
            timeline.find_backup(name)?;
        }
        Some(_) => {}
    }
    let mut wanted = Vec::new();
    for (backup, lsn) in states {
        let is_lost = backup.as_ref().is_some_and(|backup| !timeline.can_tell(backup));
        let images = match source.catalog.told_as_of(&source.kept, lsn) {
            _ if is_lost => Err(Verdict::Lost),
            images => images.map_err(|error| Verdict::Damaged(Arc::new(error))),
        };
        wanted.push(Wanted { backup, lsn, images });
    }
    let bytes_of = |state: &Wanted| {
        let images = state.images.iter().flat_map(|images| &images.files);
        images.map(|image| image.len).sum::<u64>()
    };
    let all_bytes: u64 = wanted.iter().map(bytes_of).sum();
    pacing.progress.all_bytes = pacing.progress.done_bytes + all_bytes;
    // By the state that reads it last; before all of them, what none reads.
    let mut last_reads: HashMap<&Path, usize> = source.paths().map(|path| (path, 0)).collect();
    for (state, number) in wanted.iter().zip(1..) {
        let images = state.images.iter().flat_map(|images| &images.files);
        last_reads.extend(images.map(|image| (image.path.as_path(), number)));
    }
    let mut ends = vec![Vec::new(); wanted.len() + 1];
    last_reads.into_iter().for_each(|(path, number)| ends[number].push(path));
    let mut check = Check { disk, dir: request.source, known: HashMap::new(), pacing };
    let mut checked = Vec::new();
    for (Wanted { backup, lsn, images }, read) in wanted.iter().zip(&ends) {
        source.let_go(disk, read);
        let verdict = match images {
            Ok(images) => match check.state(images, *lsn) {
                ControlFlow::Continue(verdict) => verdict,
                ControlFlow::Break(()) => break,
            },
            Err(verdict) => verdict.clone(),
        };
        checked.push(CheckedState { backup: backup.clone(), lsn: *lsn, verdict });
    }
    Ok(checked)
}

/// What reading an image has come to.
type Read = std::result::Result<CopyCount, Arc<Error>>;

struct Check<'a, 'b> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    /// Images that were read as a whole, by their file and place in it.
    known: HashMap<(PathBuf, u64), Read>,
    pacing: &'a mut Pacing<'b>,
}

impl Check<'_, '_> {
    fn state(&mut self, images: &Catalog, last: Lsn) -> ControlFlow<(), Verdict> {
        let (horizon, mut records) = (images.horizon(), 0);
        // Which of the blocks above the horizon were met: none of them may be missing.
        let mut met = Bits::new(last.0.saturating_sub(horizon.0));
        for image in &images.files {
            let footer = image.footer.as_ref();
            let is_whole = footer.is_some_and(|footer| footer.max_lsn <= last.min(horizon));
            let key = (image.path.clone(), image.start);
            let read = match self.known.get(&key).filter(|_| is_whole) {
                Some(read) => read.clone(),
                None => {
                    let met = &mut |lsn: Lsn| met.set(lsn.0.wrapping_sub(horizon.0 + 1));
                    let read = self.image(images, image, last, met)?;
                    let read: Read = read.map_err(|why| Arc::new(of_linked(why)));
                    if is_whole {
                        self.known.insert(key, read.clone());
                    }
                    read
                }
            };
            self.pacing.progress.done_bytes += image.len;
            match read {
                Ok(count) => records += count.records,
                Err(error) => return ControlFlow::Continue(Verdict::Damaged(error)),
            }
        }
        let verdict = match met.first_missing() {
            Some(missing) => {
                let (missing, next) = (Lsn(horizon.0 + 1 + missing), Lsn::ZERO);
                let file = path_in(self.dir);
                Verdict::Damaged(Arc::new(Error::Hole { missing, durable: last, next, file }))
            }
            None => Verdict::Good { files: images.files.len(), records },
        };
        ControlFlow::Continue(verdict)
    }

    /// Reads an image up to the block `last`, and tells which blocks it has.
    fn image(
        &mut self,
        images: &Catalog,
        image: &SegmentFile,
        last: Lsn,
        met: &mut dyn FnMut(Lsn),
    ) -> ControlFlow<(), Result<CopyCount>> {
        let mut blocks = match ImageBlocks::open(self.disk, image) {
            Ok(blocks) => blocks,
            Err(error) => return ControlFlow::Continue(Err(error)),
        };
        let mut so_far = SoFar::default();
        let mut told_bytes = 0;
        let ended = loop {
            let more = so_far.take_next(&mut blocks, image, last, met);
            let read_bytes = so_far.count.bytes - told_bytes;
            if read_bytes >= STEP_BYTES || !matches!(more, Ok(true)) {
                told_bytes = so_far.count.bytes;
                self.pacing.step(read_bytes)?;
            }
            match more {
                Ok(true) => {}
                ended => break ended,
            }
        };
        let whole = ended.and_then(|_| check_whole(images, image, so_far.last_read, last));
        ControlFlow::Continue(whole.map(|()| so_far.count))
    }
}

/// What was read of an image.
#[derive(Default)]
struct SoFar {
    count: CopyCount,
    last_read: Lsn,
}

impl SoFar {
    /// Reads the next block; whether there was one up to `last`.
    fn take_next(
        &mut self,
        blocks: &mut ImageBlocks<'_>,
        image: &SegmentFile,
        last: Lsn,
        met: &mut dyn FnMut(Lsn),
    ) -> Result<bool> {
        let Some(block) = blocks.next()? else { return Ok(false) };
        self.last_read = block.header.lsn;
        if self.last_read > last {
            return Ok(false);
        }
        met(self.last_read);
        for body in block.bodies() {
            let decoded = body.and_then(|(_, _, body)| record::decode_body(body));
            decoded.map_err(|what| image.corrupt(block.offset, what))?;
            self.count.records += 1;
        }
        self.count.blocks += 1;
        self.count.bytes += block.header.block_bytes();
        Ok(true)
    }
}

/// Numbers below an end, some of which are set.
struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words], len }
    }

    /// Sets a number, if it is below the end.
    fn set(&mut self, number: u64) {
        if number < self.len {
            self.words[(number / 64) as usize] |= 1 << (number % 64);
        }
    }

    fn first_missing(&self) -> Option<u64> {
        let mut words = self.words.iter().zip((0..).step_by(64));
        let (word, first) = words.find(|(word, _)| **word != u64::MAX)?;
        Some(first + u64::from(word.trailing_ones())).filter(|missing| *missing < self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_was_not_met_is_found() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut bits = Bits::new(len);
            (0..len + 9).for_each(|number| bits.set(number));
            bits.set(u64::MAX);
            assert_eq!(bits.first_missing(), None, "{len}");
            for missing in 0..len {
                let mut bits = Bits::new(len);
                (0..len).filter(|number| *number != missing).for_each(|number| bits.set(number));
                assert_eq!(bits.first_missing(), Some(missing), "{len}");
            }
        }
    }
}
