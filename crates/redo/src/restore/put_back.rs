//! Files that get their places in the directory of a device, by names alone.

use std::io::ErrorKind;
use std::path::Path;

use env::{Access, Disk};

use crate::error::{Error, IoContext, Result};
use crate::format::manifest::PutBack;
use crate::format::segment::{self, SegmentHeader};
use crate::read::scan::read_header;

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.at(path, "remove"),
    }
}

/// Whether names can be made and removed in the directory of the file at `path`: what is found out now does not
/// end what has begun.
pub(crate) fn probe(disk: &dyn Disk, path: &Path) -> Result<()> {
    let temporary = segment::temp_path(path);
    remove_if_there(disk, &temporary)?;
    disk.link(path, &temporary).at(&temporary, "link")?;
    disk.remove(&temporary).at(&temporary, "remove")
}

/// Gives a file that is kept the name that it has before it is in place in the directory `device`, unless it is there.
pub(crate) fn prepare(disk: &dyn Disk, device: &Path, file: &PutBack) -> Result<()> {
    let PutBack { segment, part, generation, .. } = *file;
    let path = device.join(segment::file_name(segment, part));
    let temporary = segment::temp_path(&path);
    if is_at(disk, &path, file)? || is_at(disk, &temporary, file)? {
        return Ok(());
    }
    let kept = segment::history_dir(device).join(segment::history_name(segment, part, generation));
    if !disk.exists(&kept).at(&kept, "look for")? {
        return Err(Error::PutBackMissing { path: kept });
    }
    remove_if_there(disk, &temporary)?;
    disk.link(&kept, &temporary).at(&kept, "link")
}

/// Puts a file in its place, unless it is there.
pub(crate) fn put_in_place(disk: &dyn Disk, device: &Path, file: &PutBack) -> Result<()> {
    let path = device.join(segment::file_name(file.segment, file.part));
    let temporary = segment::temp_path(&path);
    if is_at(disk, &path, file)? {
        // Renaming one name of a file over another one of it would leave both.
        return remove_if_there(disk, &temporary);
    }
    prepare(disk, device, file)?;
    // Not `env::publish`: nothing is written, and the directory is synced once for all of them.
    disk.rename(&temporary, &path).at(&path, "replace")
}

/// Whether what is at `path` is this file.
fn is_at(disk: &dyn Disk, path: &Path, file: &PutBack) -> Result<bool> {
    let PutBack { segment, part, generation, device, .. } = *file;
    Ok(header_at(disk, path)?.is_some_and(|header| {
        (header.segment, header.part, header.generation, header.device)
            == (segment, part, generation, device)
    }))
}

/// The header that the file at `path` begins with, if there is one.
fn header_at(disk: &dyn Disk, path: &Path) -> Result<Option<SegmentHeader>> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.at(path, "open")?,
    };
    let len = file.len().at(path, "read")?;
    read_header(&*file, 0, len, path)
}
