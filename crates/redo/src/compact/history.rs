//! Keeping a file that is about to be replaced, and letting go of it.
//!
//! ```text
//!   keep   link in each device's history/ ─► sync those ─► (the compaction announces, renames)
//!   drop   manifest without it ─► unlink ─► sync the device's directory ─► give back
//! ```
//!
//! At a start no mark holds anything. What the manifest does not list is removed from `history/`, and
//! so is what was linked for a rename that a crash has prevented: it is in place still. What is listed
//! and missing or damaged raises the floor, and so does what cannot be read unless a backup needs it. None of it
//! stops a start: a person may have made room.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base::{Lsn, SegmentId};
use env::{Access, File, FileError};

use crate::compact::holds::Holds;
use crate::compact::kept::{Kept, MarkId};
use crate::compact::window::Moment;
use crate::error::{Error, IoContext, Result, is_full};
use crate::format::manifest::KeptFile;
use crate::format::segment;
use crate::read::scan::SegmentFile;
use crate::shared::device::Shared;

/// Files that nothing needs any more are given back so many bytes at a time: a file system that frees a
/// whole segment at once makes the syncs of a flusher wait for it (20 ms were seen for 64 MB).
const SHRINK_BYTES: u64 = 1 << 20;

/// A file that a compaction replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The index of its device.
    pub(crate) device: usize,
    /// The segment and part that it is named after, and how often that was compacted.
    pub(crate) name: (SegmentId, u32),
    pub(crate) generation: u32,
    /// The segments that it has images of.
    pub(crate) segments: Vec<SegmentId>,
    /// The first block that needs it: see [`first_needing`].
    pub(crate) from: Lsn,
    pub(crate) bytes: u64,
}

impl Source {
    /// Whether anything needs the file, which is replaced when `until` is the last block: a state before that, or, of
    /// a file that no compaction has made, a reader of whole blocks. What one compaction has made and the next one
    /// replaces, with no block between them, nothing needs.
    fn is_needed(&self, until: Lsn) -> bool {
        self.from < until || self.generation == 0
    }
}

/// The first block that needs the file with these images.
pub(crate) fn first_needing(images: &[SegmentFile]) -> Lsn {
    images.iter().map(SegmentFile::from).min().unwrap_or(Lsn::ZERO)
}

/// Keeps those of `sources` that `marks` or the window need, as the log was made of them until `until`.
/// Marks that a file could not be kept for have lost it, and so has the window. The next manifest lists
/// what is kept.
///
/// # Errors
/// When a file that a backup needs cannot be linked for now: then nothing may be replaced. Where second names of
/// files are not possible at all the backup is lost.
pub(crate) fn keep(
    shared: &Shared,
    holds: &Holds,
    sources: &[Source],
    marks: &[MarkId],
    until: Lsn,
) -> Result<()> {
    let now = Moment::now(&*shared.clock);
    let mut links: Vec<Link> =
        sources.iter().map(|source| Link::plan(shared, holds, source, marks)).collect();
    let made = make_all(shared, holds, &mut links, (until, now));
    if made.is_err() {
        // What is listed nowhere would stay as long as the process lives.
        links.iter_mut().for_each(|link| link.undo(shared));
        return made;
    }
    let mut kept = Vec::new();
    for Link { source, path, holders, state, .. } in links {
        let file = KeptFile {
            segment: source.name.0,
            part: source.name.1,
            generation: source.generation,
            device: shared.devices[source.device].id,
            from: source.from,
            until,
        };
        if matches!(state, LinkState::Old | LinkState::New) {
            let Source { device, bytes, ref segments, .. } = *source;
            let segments = segments.clone();
            kept.push(Kept {
                file,
                path,
                device,
                segments,
                holders,
                turn: 0,
                bytes,
                is_linked: false,
                kept_at: now,
            });
        } else {
            holds.lose(&holders, &source.segments);
        }
    }
    holds.keep(kept);
    Ok(())
}

/// Makes the second names of files that are needed. What could not be made, and what no backup needs, is lost.
fn make_all(
    shared: &Shared,
    holds: &Holds,
    links: &mut [Link<'_>],
    (until, now): (Lsn, Moment),
) -> Result<()> {
    for link in &mut *links {
        let from = link.source.from;
        let is_kept = !link.holders.is_empty() || link.state == LinkState::Old;
        let is_claimed = link.source.is_needed(until) && holds.claim(from, until, is_kept, now);
        link.make(shared, holds, is_claimed, holds.is_held(from, until));
    }
    let is_new = |link: &&mut Link<'_>| link.state == LinkState::New;
    let devices: BTreeSet<usize> =
        links.iter_mut().filter(is_new).map(|link| link.source.device).collect();
    for device in devices {
        let dir = segment::history_dir(&shared.devices[device].path);
        if let Err(error) = shared.disk.sync_dir(&dir) {
            let mut new = links.iter_mut().filter(is_new);
            while let Some(link) = new.find(|link| link.source.device == device) {
                link.undo(shared);
                let again = std::io::Error::new(error.kind(), error.to_string());
                let again: std::io::Result<()> = Err(again);
                link.failure = again.at(&dir, "sync").err();
            }
        }
    }
    let lost = links.iter_mut().filter(|link| link.state == LinkState::None);
    for link in lost.filter(|link| link.source.is_needed(until)) {
        let needed = (link.source.from, until);
        if link.failure.as_ref().is_some_and(is_for_ever) {
            holds.lose_from_window(needed.0, until, now);
            continue;
        }
        let lacks_room = link.failure.as_ref().is_some_and(is_full);
        if !holds.lose_unless_held(needed, lacks_room, now) {
            let none = || Error::Changing { path: link.path.clone() };
            return Err(link.failure.take().unwrap_or_else(none));
        }
    }
    Ok(())
}

/// How far the second name of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// There is none, and there is to be none unless a mark or the window needs the file.
    None,
    /// It is there from a compaction that has failed, for marks that have the file still. It is
    /// durable, and stays whatever becomes of this attempt.
    Old,
    /// It was made now.
    New,
}

/// The second name of a file that is about to be replaced.
struct Link<'a> {
    source: &'a Source,
    path: PathBuf,
    holders: BTreeSet<MarkId>,
    state: LinkState,
    /// Why it could not be made.
    failure: Option<Error>,
}

impl<'a> Link<'a> {
    fn plan(shared: &Shared, holds: &Holds, source: &'a Source, marks: &[MarkId]) -> Self {
        let dir = segment::history_dir(&shared.devices[source.device].path);
        let (segment, part) = source.name;
        let path = dir.join(segment::history_name(segment, part, source.generation));
        let holders = holds.holders(marks, &source.segments, Some(&path));
        let state = if holds.is_kept(&path) { LinkState::Old } else { LinkState::None };
        Self { source, path, holders, state, failure: None }
    }

    /// Makes the name if a mark, the window or a backup needs the file, as far as that can be.
    fn make(&mut self, shared: &Shared, holds: &Holds, is_claimed: bool, is_held: bool) {
        let is_needed = is_claimed || !self.holders.is_empty();
        if self.state == LinkState::Old || !is_needed {
            return;
        }
        match self.try_make(shared, is_held) {
            Ok(()) => self.state = LinkState::New,
            Err(error) => self.failure = Some(error),
        }
        if is_claimed {
            holds.note_link(self.failure.as_ref());
        }
    }

    fn try_make(&self, shared: &Shared, is_held: bool) -> Result<()> {
        let device = &shared.devices[self.source.device];
        let (dir, path) = (segment::history_dir(&device.path), &self.path);
        if device.lacks_room() && !is_held {
            // What is kept there would keep it full.
            return Err(std::io::Error::from(ErrorKind::StorageFull)).at(path, "keep");
        }
        let disk = &*shared.disk;
        if !disk.exists(&dir).at(&dir, "look for")? {
            disk.create_dir_all(&dir).at(&dir, "make")?;
        }
        // Nothing has it: it is left from a mark that was dropped, or from before the start.
        if disk.exists(path).at(path, "look for")? {
            disk.remove(path).at(path, "remove")?;
        }
        disk.link(&self.source.path, path).at(path, "link")
    }

    /// Takes a name away again that was made now.
    fn undo(&mut self, shared: &Shared) {
        if self.state == LinkState::New {
            let _leftover = shared.disk.remove(&self.path);
            self.state = LinkState::None;
        }
    }
}

/// What a file system says that has no second names of files, if it says no more than that it does not permit them.
const EPERM: i32 = 1;

/// Whether a file system makes no second names of files. A directory that the process may not write to is none.
fn is_for_ever(error: &Error) -> bool {
    let Error::File(FileError::Io { doing: "link", source, .. }) = error else { return false };
    matches!(source.kind(), ErrorKind::Unsupported | ErrorKind::TooManyLinks)
        || source.raw_os_error() == Some(EPERM)
}

/// Takes away the names of files that `holds` has given out to be dropped, off the manifest's list first;
/// what is left is to be given back. An error says that nothing has happened.
///
/// Where there is no room even for a manifest, the names go all the same: what is listed and missing raises
/// the floor at the next start, which is where it is by now.
pub(crate) fn drop_kept(
    shared: &Shared,
    holds: &Holds,
    kept: &[Kept],
    nameless: &mut Nameless,
) -> Result<()> {
    let durable = shared.durability.durable_lsn();
    let unlisted = shared.manifest.update(|manifest| {
        holds.describe(manifest, durable);
        true
    });
    if let Err(error) = unlisted
        && !is_full(&error)
    {
        return Err(error);
    }
    for device in kept.iter().map(|kept| kept.device).collect::<BTreeSet<_>>() {
        // The same file may have been in place twice, and be kept for both.
        let is_gone = |kept: &&Kept| !holds.is_kept(&kept.path);
        let ours = kept.iter().filter(|kept| kept.device == device).filter(is_gone);
        // One that stays is removed by the next start.
        nameless.remove(shared, device, ours.map(|kept| kept.path.as_path()));
    }
    Ok(())
}

/// Files that have no name any more, and how much of them is left.
#[derive(Default)]
pub(crate) struct Nameless(Vec<(Box<dyn File>, u64)>);

impl Nameless {
    /// Opens a file that is about to lose its name: the handle keeps the file system from freeing it.
    pub(crate) fn open(&mut self, shared: &Shared, path: &Path) {
        let Ok(file) = shared.disk.open(path, Access::ReadWrite) else { return };
        let Ok(len) = file.len() else { return };
        self.0.push((file, len));
    }

    /// Takes these names on a device away, as far as that can be.
    pub(crate) fn remove<'a>(
        &mut self,
        shared: &Shared,
        device: usize,
        paths: impl Iterator<Item = &'a Path>,
    ) {
        let mut opened = Self::default();
        for path in paths {
            let count = opened.0.len();
            opened.open(shared, path);
            if shared.disk.remove(path).is_err() {
                // It is to be kept by its name alone.
                opened.0.truncate(count);
            }
        }
        // A compaction may have failed before its removal of the name in place was durable: a crash
        // must not bring that back for a file that is cut.
        if shared.disk.sync_dir(&shared.devices[device].path).is_ok() {
            self.0.append(&mut opened.0);
        }
    }

    /// Gives back all of them at once.
    pub(crate) fn clear(&mut self) {
        while let Some((_, len)) = self.0.last_mut() {
            *len = 0;
            self.shrink();
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives back some of the last one.
    pub(crate) fn shrink(&mut self) {
        if let Some((file, len)) = self.0.last_mut() {
            *len = len.saturating_sub(SHRINK_BYTES);
            // Under another name, of a copy or of ours, it is still read: then it is not to be cut.
            let is_ours = !file.has_name().unwrap_or(true);
            if !is_ours || file.set_len(*len).is_err() || *len == 0 {
                // Closing it gives back the rest.
                self.0.pop();
            }
        }
    }
}
