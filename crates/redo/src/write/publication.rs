//! A log that is built before it counts: its manifest lies apart until all of it is there.
//!
//! ```text
//!   build/redo.manifest ── names ──► devices and their segments      in `dir` no log is found
//!        │ publish: the same manifest, written in `dir`
//!        ▼
//!   dir/redo.manifest ── names ──► the same devices and segments     the log of `dir`
//! ```
//!
//! The log is opened with `build` as its data directory, on the devices that it will have, noted as `dir`
//! will have them ([`crate::Options::destination`]), and closed again. Only the manifest says what a log consists of, so writing it, which is atomic, is the moment
//! from which the log counts. Until then the manifest in `build` tells what an attempt has left on
//! which device, and [`discard`] removes that.
//!
//! Invariants:
//! 1. A device loses its mark after the files that the mark vouches for, and the manifest in `build` goes
//!    last: whatever a crash leaves, the next `discard` finds.
//! 2. What another database has put on a device is never removed.
//! 3. Nothing is removed because of a manifest in `build` that is not next to the file of [`begin`], or while
//!    a process has the log there open: a log that happens to lie there stays. Devices outside of `dir` are
//!    emptied only for the directory that the log was begun for: copies of that directory name them too.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use env::Disk;

use crate::error::{Error, IoContext, Result};
use crate::format::manifest::{self, DeviceMark, Manifest};
use crate::format::segment;
use crate::read::catalog::history_files;
use crate::read::in_use::{is_there, lock, lock_path};
use crate::write::reserve;

/// The file in `build` which says that what is there is unfinished, for which directory it was begun, and, behind a zero, what it will be.
fn begun_path(build: &Path) -> PathBuf {
    build.join("unfinished")
}

/// Where a restore builds the log of `into`.
pub(crate) const RESTORE_DIR: &str = "restore-tmp";

/// Refuses a directory without a log into which a restore was begun that has not ended: whatever devices are given, no log may begin there.
///
/// # Errors
/// Then, or when the disk refuses.
pub(crate) fn check_finished(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let begun = begun_path(&dir.join(RESTORE_DIR));
    match !is_there(disk, dir) && disk.exists(&begun).at(&begun, "look for")? {
        true => Err(Error::UnfinishedRestore { path: dir.to_owned() }),
        false => Ok(()),
    }
}

/// How far it is, where it can go on ([`crate::NewLog::keep`]).
pub(crate) fn reached_path(build: &Path) -> PathBuf {
    build.join("reached")
}

/// What was begun in `build`, as [`begin`] was told; `None` if nothing was, or for another directory.
pub(crate) fn begun(disk: &dyn Disk, build: &Path, dir: &Path) -> Result<Option<Vec<u8>>> {
    let said = manifest::read_small(disk, &begun_path(build))?;
    let begun = said.as_deref().and_then(split_begun);
    Ok(begun
        .filter(|(of, _)| *of == dir.as_os_str().as_encoded_bytes())
        .map(|(_, what)| what.to_vec()))
}

/// The directory, which has no zero in its name, and what is built.
fn split_begun(said: &[u8]) -> Option<(&[u8], &[u8])> {
    let zero = said.iter().position(|byte| *byte == 0)?;
    Some((&said[..zero], &said[zero + 1..]))
}

fn not_unfinished(build: &Path, what: impl Into<String>) -> Error {
    Error::NotUnfinished { path: build.to_owned(), what: what.into() }
}

/// Begins to build a log for `dir` in `build`, where there must be nothing ([`discard`]). `what` tells it from others that may
/// be begun there, for one that goes on.
///
/// # Errors
/// When a restore into `dir` has not ended, or the disk refuses.
pub fn begin(disk: &dyn Disk, build: &Path, dir: &Path, what: &[u8]) -> Result<()> {
    check_finished(disk, dir)?;
    disk.create_dir_all(build).at(build, "make")?;
    let said = [dir.as_os_str().as_encoded_bytes(), &[0], what].concat();
    manifest::write_small(disk, &begun_path(build), &said)
}

/// Makes the log that was built, and closed, in `build` the log of `dir`. Durable on return.
///
/// # Errors
/// When there is none, or the disk refuses; then it may be the log of `dir`, or not yet.
pub fn publish(disk: &dyn Disk, build: &Path, dir: &Path) -> Result<()> {
    match Manifest::read(disk, build)? {
        // Its paths are those that it has in `dir`.
        Some(manifest) => manifest.write(disk, dir)?,
        None if is_there(disk, dir) => {}
        None => {
            return Err(not_unfinished(build, "holds no log any more: it was removed meanwhile"));
        }
    }
    forget(disk, build)
}

/// Removes what an unfinished attempt to build a log for `dir` in `build` has left, on its devices too.
/// If the log was published already, it stays.
///
/// # Errors
/// When something else lies in `build`, or a process builds there; when the manifest in `build` is damaged,
/// or the disk refuses; the next call goes on.
pub fn discard(disk: &dyn Disk, build: &Path, dir: &Path) -> Result<()> {
    if disk.is_symlink(build).at(build, "look at")? {
        return Err(not_unfinished(build, "is a symbolic link: remove it"));
    }
    if !disk.exists(build).at(build, "look for")? {
        return Ok(());
    }
    let begun_for = manifest::read_small(disk, &begun_path(build))?;
    if begun_for.is_none() && is_there(disk, build) {
        let what = "holds a redo log that no import has begun: move it elsewhere";
        return Err(not_unfinished(build, what));
    }
    let _lock = lock(disk, build)?;
    let Some(built) = Manifest::read(disk, build)? else { return forget(disk, build) };
    let published = Manifest::read(disk, dir)?;
    if published.is_none_or(|published| published.database != built.database) {
        // Older programs said the directory alone.
        let begun_for =
            begun_for.as_deref().map(|said| split_begun(said).map_or(said, |(of, _)| of));
        let is_at_home = begun_for == Some(dir.as_os_str().as_encoded_bytes());
        let mut devices = Vec::new();
        for device in &built.devices {
            let path = dir.join(&device.path);
            let mark = DeviceMark { database: built.database, device: device.id };
            let is_ours = DeviceMark::read(disk, &path)? == Some(mark);
            if is_ours && !path.starts_with(dir) && !is_at_home {
                // This may be a copy, and the device that of a log which was published since.
                let what = format!(
                    "was begun for another data directory, and {} may be in use there; if it is not, remove both",
                    path.display()
                );
                return Err(not_unfinished(build, what));
            }
            devices.push((path, is_ours));
        }
        for (path, is_ours) in devices {
            if is_ours {
                empty_device(disk, &path)?;
            }
            if path.starts_with(dir) {
                // Made by this attempt, unless it has files that are not ours.
                let _kept = disk.remove_dir(&path);
            }
        }
    }
    forget(disk, build)
}

/// Removes the files of a device, and its mark after them.
fn empty_device(disk: &dyn Disk, device: &Path) -> Result<()> {
    let history = segment::history_dir(device);
    for path in history_files(disk, device) {
        disk.remove(&path).at(&path, "remove")?;
    }
    if disk.exists(&history).at(&history, "look for")? {
        disk.sync_dir(&history).at(&history, "sync")?;
        // Empty by now, unless it has files that are not ours.
        let _kept = disk.remove_dir(&history);
    }
    reserve::remove_all(disk, device);
    for name in disk.list(device).at(device, "list")? {
        let Some(text) = name.to_str() else { continue };
        let written = text.strip_suffix(".tmp").map(|stem| format!("{stem}.redo"));
        let is_ours = text == "device.tmp"
            || segment::parse_file_name(text).is_some()
            || written.is_some_and(|name| segment::parse_file_name(&name).is_some());
        if is_ours {
            let path = device.join(&name);
            disk.remove(&path).at(&path, "remove")?;
        }
    }
    disk.sync_dir(device).at(device, "sync")?;
    let mark = DeviceMark::path_in(device);
    disk.remove(&mark).at(&mark, "remove")?;
    disk.sync_dir(device).at(device, "sync")
}

/// Removes `build` with all that a log has there: the manifest after everything else of the log.
fn forget(disk: &dyn Disk, build: &Path) -> Result<()> {
    if !disk.exists(build).at(build, "look for")? {
        return Ok(());
    }
    reserve::remove_all(disk, build);
    let manifest = manifest::path_in(build);
    let begun = begun_path(build);
    let reached = reached_path(build);
    let [manifest_tmp, begun_tmp, reached_tmp] =
        [&manifest, &begun, &reached].map(|path| path.with_extension("tmp"));
    for path in [reached_tmp, reached, manifest_tmp, lock_path(build), manifest, begun_tmp, begun] {
        match disk.remove(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            removed => removed.at(&path, "remove")?,
        }
        disk.sync_dir(build).at(build, "sync")?;
    }
    let _kept = disk.remove_dir(build);
    Ok(())
}
