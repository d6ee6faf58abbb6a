//! After reading: the end of the log is put in order.
//!
//! Every file ends up sealed. One that had no footer is cut behind the last block that stays and
//! gets its footer; one that had a footer and holds blocks that go is replaced by a shorter copy,
//! so that at no time a sealed segment is there without its footer; one without any block is
//! removed. The newest segments are done first: should this be interrupted, no older segment is
//! without a footer while a newer one is there that is still to go.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use env::{Access, Disk, File, Unpublished};

use crate::error::{Error, IoContext, Result};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock, write_footer};
use crate::format::segment;
use crate::read::catalog::Catalog;
use crate::read::scan::{BlockCursor, Next, SegmentFile, is_zero};
use crate::recover::replay::{FileState, LogState};

/// What was done.
pub(crate) struct Tidied {
    /// The length of each file now; 0 for those that are gone.
    pub(crate) file_bytes: Vec<u64>,
    /// How many bytes were cut off that were not just unwritten space.
    pub(crate) cut_bytes: u64,
}

/// Removes what is named like history and is not in `kept`; what could not be removed. Before the rest:
/// it may be another name of a file that is changed, or take the room for that. Nothing needs that it is
/// gone: a file with another name is changed by a copy, and what is there under a name of ours may be a
/// directory that was put there.
pub(crate) fn remove_history(
    disk: &dyn Disk,
    catalog: &Catalog,
    kept: &BTreeSet<PathBuf>,
) -> Vec<Error> {
    let (mut stuck, mut dirs) = (Vec::new(), BTreeSet::new());
    for path in catalog.history.iter().filter(|path| !kept.contains(*path)) {
        match disk.remove(path) {
            Ok(()) => _ = path.parent().map(|dir| dirs.insert(dir)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => stuck.extend(removed.at(path, "remove").err()),
        }
    }
    for dir in dirs {
        // Only now may a file system give the blocks to other files.
        let _later = disk.sync_dir(dir);
    }
    stuck
}

/// Cuts, seals and removes, durably.
pub(crate) fn tidy(disk: &dyn Disk, catalog: &Catalog, state: &LogState) -> Result<Tidied> {
    let superfluous = catalog.leftovers.iter().chain(&catalog.unborn);
    for path in superfluous {
        // A half-written device mark may have been replaced meanwhile.
        match disk.remove(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.at(path, "remove")?,
        }
    }
    let newest = catalog.newest_segments();
    let mut tidied = Tidied { file_bytes: vec![0; catalog.files.len()], cut_bytes: 0 };
    for (index, source) in catalog.files.iter().enumerate().rev() {
        let file = &state.files[index];
        tidied.cut_bytes += match file.cut_bytes(source) {
            0 => 0,
            bytes if source.footer.is_some() => bytes,
            // What there is behind it of zeros that were written ahead was never anything.
            _ => filled_end(disk, source, file.end)? - file.end,
        };
        // Only the last sync of a device can have failed: it took no block after that.
        let segment = source.header.segment;
        let is_newest = source.header.part > 0 || segment >= newest[source.device];
        // Where a segment has several files, a block may be durable in one and not in the other.
        let is_sibling = |other: usize| {
            catalog.files.get(other).is_some_and(|other| other.header.segment == segment)
        };
        let has_siblings = is_sibling(index + 1) || is_sibling(index.wrapping_sub(1));
        let undurable_start = match file.undurable.front() {
            _ if has_siblings => segment::HEADER_BYTES as u64,
            Some((_, offset)) => *offset,
            None => file.end,
        };
        tidied.file_bytes[index] = tidy_file(disk, source, file, undurable_start, is_newest)?;
    }
    for device in &catalog.devices {
        disk.sync_dir(&device.path).at(&device.path, "sync")?;
    }
    Ok(tidied)
}

/// Where the zeros begin that the file of an image without a footer ends with, at `from` at the earliest.
fn filled_end(disk: &dyn Disk, source: &SegmentFile, from: u64) -> Result<u64> {
    const WINDOW_BYTES: u64 = 1 << 20;
    let path = &source.path;
    let file = disk.open(path, Access::Read).at(path, "open")?;
    let mut end = source.len;
    let mut window = Vec::new();
    while end > from {
        let len = (end - from).min(WINDOW_BYTES);
        window.resize(usize::try_from(len).expect("a window at most"), 0);
        file.read_exact_at(&mut window, source.start + end - len).at(path, "read")?;
        if !is_zero(&window) {
            let last = window.iter().rposition(|byte| *byte != 0).expect("not all are");
            return Ok(end - len + last as u64 + 1);
        }
        end -= len;
    }
    Ok(from)
}

fn tidy_file(
    disk: &dyn Disk,
    source: &SegmentFile,
    state: &FileState,
    undurable_start: u64,
    is_newest: bool,
) -> Result<u64> {
    let path = &source.path;
    let is_whole = source.footer.is_some() && state.cut_block_count == 0;
    if state.block_count == 0 {
        disk.remove(path).at(path, "remove")?;
        return Ok(0);
    }
    if is_whole {
        if source.header.generation == 0 && (is_newest || undurable_start < state.end) {
            let file = open_own(disk, path)?;
            // The length as well: what was cut off may still be there for a start after a crash.
            file.set_len(source.len).at(path, "cut")?;
            rewrite(&*file, path, undurable_start, source.len)?;
            // The length too: a cut may be what the kernel has given up.
            file.set_len(source.len).at(path, "cut")?;
            file.sync_data().at(path, "sync")?;
        }
        return Ok(source.len);
    }
    if source.footer.is_none() {
        let file = open_own(disk, path)?;
        rewrite(&*file, path, undurable_start, state.end)?;
        file.sync_data().at(path, "sync")?;
        let footer = state.footer.finish().encode(source.header.database);
        write_footer(&*file, path, state.end, &footer)?;
        return Ok(state.end + footer.len() as u64);
    }
    replace_by_prefix(disk, source, state.end)
}

/// Opens a file to change it in place. One that has another name, as in a data directory that is a
/// copy by hard links, is copied first: what is there is still used under the other name.
fn open_own(disk: &dyn Disk, path: &Path) -> Result<Box<dyn File>> {
    if disk.has_other_names(path).at(path, "look at")? {
        let input = disk.open(path, Access::Read).at(path, "open")?;
        // The catalog knows the temporary name: what a crash leaves is removed by the next start.
        let output = Unpublished::create(disk, &segment::temp_path(path))?;
        let len = input.len().at(path, "look at")?;
        copy(&*input, path, output.file(), output.temporary(), 0..len)?;
        output.publish(disk, path)?;
    }
    disk.open(path, Access::ReadWrite).at(path, "open")
}

/// Writes the bytes from `start` to `end` again as they are. When a sync has failed before the
/// process died, the kernel may still show blocks that it has given up writing, and would call the
/// next sync a success: only what was written after that is what a sync is about.
fn rewrite(file: &dyn File, path: &Path, start: u64, end: u64) -> Result<()> {
    copy(file, path, file, path, start..end)
}

fn copy(
    input: &dyn File,
    input_path: &Path,
    output: &dyn File,
    output_path: &Path,
    range: Range<u64>,
) -> Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
        input.read_exact_at(&mut chunk[..len], at).at(input_path, "read")?;
        output.write_all_at(&chunk[..len], at).at(output_path, "write")?;
        at += len as u64;
    }
    Ok(())
}

/// Replaces a sealed file by one that ends at `end`, with a footer for what is left.
fn replace_by_prefix(disk: &dyn Disk, source: &SegmentFile, end: u64) -> Result<u64> {
    let path = &source.path;
    let footer = source.footer.as_ref().expect("it is sealed");
    let mut footer = FooterBuilder::like(footer);
    let mut cursor = BlockCursor::open(disk, source.clone(), 1 << 20)?;
    while cursor.offset() < end {
        let Next::Block(block) = cursor.next()? else { break };
        let bodies = block.bodies().filter_map(std::result::Result::ok);
        let records: Vec<(u32, u64, bool)> = bodies
            .map(|(ordinal, at, body)| {
                let at = (crate::format::block::HEADER_BYTES + at) as u64;
                (ordinal, at, crate::format::record::is_delete(body))
            })
            .collect();
        let offsets: Vec<(u32, u64)> = records.iter().map(|(o, at, _)| (*o, *at)).collect();
        let deletes = records.iter().filter(|(_, _, is_delete)| *is_delete).count();
        footer.add(&WrittenBlock {
            lsn: block.header.lsn,
            header: &block.header.encode(),
            records: block.payload(),
            ordinals: Ordinals::Each(&offsets),
            record_count: block.header.record_count,
            delete_count: u32::try_from(deletes).expect("no more than records"),
        });
    }
    let input = disk.open(path, Access::Read).at(path, "open")?;
    let output = Unpublished::create(disk, &segment::temp_path(path))?;
    copy(&*input, path, output.file(), output.temporary(), 0..end)?;
    let footer = footer.finish().encode(source.header.database);
    output.file().write_all_at(&footer, end).at(output.temporary(), "write")?;
    output.publish(disk, path)?;
    Ok(end + footer.len() as u64)
}
