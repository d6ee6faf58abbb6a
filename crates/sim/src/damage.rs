//! Bits that turn in files at rest, and what the server has to say of them.

use std::path::{Path, PathBuf};

use env::{Access, Disk, File};
use env_sim::{SimDisk, SimEntropy};
use redo::segment::{Footer, HEADER_BYTES, SegmentHeader};

use crate::index::index_dir;
use crate::life::Life;
use crate::machine::{LogShape, data_dir, device_dir};

/// A bit that was turned.
#[derive(Debug, Clone)]
pub(crate) struct Flip {
    path: PathBuf,
    offset: u64,
    bit: u8,
}

/// Turns a bit of a file that was synced as a whole: of a segment with its footer, or of
/// the manifest. The end of a segment that does cannot be told from what was never acknowledged.
pub(crate) fn flip_some_bit(
    disk: &SimDisk,
    shape: &LogShape,
    rng: &mut SimEntropy,
) -> Option<Flip> {
    let mut dirs: Vec<PathBuf> = (0..shape.devices).map(device_dir).collect();
    dirs.push(data_dir());
    flip_in(disk, &dirs, rng)
}

/// As [`flip_some_bit`], while the server runs: of a segment.
pub(crate) fn flip_below_server(
    disk: &SimDisk,
    shape: &LogShape,
    rng: &mut SimEntropy,
) -> Option<Flip> {
    let dirs: Vec<PathBuf> = (0..shape.devices).map(device_dir).collect();
    flip_in(disk, &dirs, rng)
}

/// Turns a bit of a file of the index. Whether there was one.
pub(crate) fn flip_in_index(disk: &SimDisk, rng: &mut SimEntropy) -> bool {
    let dir = index_dir();
    let names = disk.list(&dir).unwrap_or_default();
    let len_of = |path: &PathBuf| disk.open(path, Access::Read).ok()?.len().ok();
    let files = names.into_iter().map(|name| dir.join(name));
    let files: Vec<_> = files
        .filter_map(|path| len_of(&path).filter(|len| *len > 0).map(|len| (path, len)))
        .collect();
    if files.is_empty() {
        return false;
    }
    let (path, len) = &files[usize::try_from(rng.below(files.len() as u64)).expect("few")];
    disk.flip_bit(path, rng.below(*len), u8::try_from(rng.below(8)).expect("eight"))
}

/// Whether the segment's footer is there as a whole: the blocks before it were synced then. Of a footer that a crash
/// has torn nothing may be believed, so its last block is the end of a segment that takes further ones.
fn is_sealed(file: &dyn File, path: &Path) -> bool {
    let mut header = [0; HEADER_BYTES];
    let database = match file.read_exact_at(&mut header, 0) {
        Ok(()) => SegmentHeader::decode(&header, path).ok().flatten().map(|it| it.database),
        Err(_) => None,
    };
    let footer = |database| Footer::read(file, file.len().ok()?, path, database).ok()?;
    database.and_then(footer).is_some()
}

fn flip_in(disk: &SimDisk, dirs: &[PathBuf], rng: &mut SimEntropy) -> Option<Flip> {
    let mut files = Vec::new();
    for dir in dirs {
        for name in disk.list(dir).ok()? {
            let path = dir.join(name);
            let is_segment = path.extension().is_some_and(|extension| extension == "redo");
            let is_manifest = path.file_name().is_some_and(|name| name == "redo.manifest");
            if !is_segment && !is_manifest {
                // Another one may be a directory, as that of the index is.
                continue;
            }
            let file = disk.open(&path, Access::Read).ok()?;
            let len = file.len().ok()?;
            if (is_segment && is_sealed(&*file, &path)) || (is_manifest && len > 0) {
                files.push((path, len));
            }
        }
    }
    if files.is_empty() {
        return None;
    }
    let (path, len) = files.swap_remove(usize::try_from(rng.below(files.len() as u64)).ok()?);
    let flip = Flip { path, offset: rng.below(len), bit: u8::try_from(rng.below(8)).ok()? };
    disk.flip_bit(&flip.path, flip.offset, flip.bit);
    Some(flip)
}

impl Flip {
    /// Whether the server says which file it is.
    pub(crate) fn check_named(&self, error: &redo::Error) -> Result<(), String> {
        let text = error.to_string();
        let path = self.path.display().to_string();
        if text.contains(&path) || matches!(error, redo::Error::Hole { .. }) {
            return Ok(());
        }
        Err(format!("a bit of {path} was turned at {}, the server says: {text}", self.offset))
    }

    /// Turns the bit back.
    pub(crate) fn undo(&self, disk: &SimDisk) {
        disk.flip_bit(&self.path, self.offset, self.bit);
    }
}

impl Life<'_> {
    /// A bit of a file at rest turns; the scrubber may find it, and the engine write it again.
    pub(crate) fn decay(&mut self) {
        let run = &mut *self.run;
        if run.decayed.is_some() || run.is_betrayed || run.disk.is_crashed() || self.is_impaired {
            return;
        }
        run.decayed = flip_below_server(&run.disk, &run.shape, &mut run.rng);
        if let Some(flip) = &run.decayed {
            run.tally.decays += 1;
            run.named.note_may_lose(true);
            let text = format!("DECAY: {flip:?}");
            run.note(|| text);
        }
    }
}
