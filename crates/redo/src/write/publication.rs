//! A log that is built before it counts: its manifest lies apart until all of it is there.
//!
//! ```text
//!   build/redo.manifest ── names ──► devices and their segments      in `dir` no log is found
//!        │ publish: the same manifest, written in `dir`
//!        ▼
//!   dir/redo.manifest ── names ──► the same devices and segments     the log of `dir`
//! ```
//!
//! The log is opened with `build` as its data directory, on the devices that it will have, and closed
//! again. Only the manifest says what a log consists of, so writing it, which is atomic, is the moment
//! from which the log counts. Until then the manifest in `build` tells what an attempt has left on
//! which device, and [`discard`] removes that.
//!
//! Invariants:
//! 1. A device loses its mark after the files that the mark vouches for, and the manifest in `build` goes
//!    last: whatever a crash leaves, the next `discard` finds.
//! 2. What another database has put on a device is never removed.

use std::io::ErrorKind;
use std::path::Path;

use env::Disk;

use crate::error::{IoContext, Result};
use crate::format::manifest::{self, DeviceMark, Manifest};
use crate::format::segment;
use crate::read::catalog::history_files;
use crate::read::in_use::lock_path;
use crate::write::reserve;

/// Makes the log that was built, and closed, in `build` the log of `dir`. Durable on return.
///
/// # Errors
/// When the disk refuses; then it may be the log of `dir`, or not yet.
pub fn publish(disk: &dyn Disk, build: &Path, dir: &Path) -> Result<()> {
    let Some(mut manifest) = Manifest::read(disk, build)? else { return Ok(()) };
    for device in &mut manifest.devices {
        let path = build.join(&device.path);
        // What is below the data directory moves with it.
        device.path = path.strip_prefix(dir).unwrap_or(&path).to_owned();
    }
    manifest.write(disk, dir)?;
    forget(disk, build)
}

/// Removes what an unfinished attempt to build a log for `dir` in `build` has left, on its devices too.
/// If the log was published already, it stays.
///
/// # Errors
/// When the manifest in `build` is damaged, or the disk refuses; the next call goes on.
pub fn discard(disk: &dyn Disk, build: &Path, dir: &Path) -> Result<()> {
    let Some(built) = Manifest::read(disk, build)? else { return forget(disk, build) };
    let published = Manifest::read(disk, dir)?;
    if published.is_none_or(|published| published.database != built.database) {
        for device in &built.devices {
            let path = build.join(&device.path);
            let mark = DeviceMark { database: built.database, device: device.id };
            if DeviceMark::read(disk, &path)? == Some(mark) {
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
    for path in history_files(disk, device)? {
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

/// Removes `build` with all that a log has there: the manifest after everything else.
fn forget(disk: &dyn Disk, build: &Path) -> Result<()> {
    if !disk.exists(build).at(build, "look for")? {
        return Ok(());
    }
    reserve::remove_all(disk, build);
    let manifest = manifest::path_in(build);
    for path in [manifest.with_extension("tmp"), lock_path(build), manifest] {
        match disk.remove(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            removed => removed.at(&path, "remove")?,
        }
        disk.sync_dir(build).at(build, "sync")?;
    }
    let _kept = disk.remove_dir(build);
    Ok(())
}
