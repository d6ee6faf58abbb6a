//! Files that a mark, the window or a named backup still needs: compaction keeps them under a second name.
//!
//! ```text
//!   mark at N ──► Holds ◄── ordered after it: a compaction of segment 7
//!                   │            1  history/7.g0.redo is linked to the old file, durably
//!                   │            2  the mark is told where it is        ┐ or that it is lost,
//!                   │            3  the manifest lists it               ┘ if a link fails
//!                   ▼            4  the new file is renamed over 7.redo
//!   reader: opens 7.redo, and then asks whether it was replaced
//! ```
//!
//! A compaction that was ordered before the mark has copied its bitmaps before: what it keeps has
//! everything that is valid at N, so its old files need not be kept. One that was ordered after the
//! mark keeps the old files if anything became garbage in between.
//!
//! **Told before the rename.** A reader that finds no word of a replacement *after* it has opened
//! the file under its name has the file that it needs: the rename comes after the word.
//!
//! **An error costs a mark or the window its file, and not the compaction.** Where no link can be made, or the
//! device is full and the old file would keep it so, the mark loses the segment: its reader gets an error. Only for
//! a named backup a compaction waits, and tries again: see [`super::history::keep`].
//!
//! The window ([`Window`]) needs what is young; it is told of every file that is replaced and not kept.
//! A start takes over what was kept for it; for marks nothing is, because none outlives its process.
//!
//! A file that nothing needs any more is first taken off the manifest's list, then loses its name,
//! then gives its bytes back; all by the compactor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use base::{Lsn, Mutex, SegmentId};

use crate::compact::backups::{
    BackupFigures, BackupRefusal, BackupState, HELD_FILES_MAX, NewBackup, Unlisted,
};
use crate::compact::kept::{
    Held, Kept, MarkId, ReaderFigures, Refusal, Whereabouts, WindowFigures, is_superfluous,
};
use crate::compact::window::{LogSize, Moment, Window};
use crate::error::Error;
use crate::format::manifest::{HistoryPoint, Manifest};
use crate::format::registry::{BACKUPS_MAX, NamedBackup, NotedCommand};
use crate::options::HistoryOptions;
use crate::shared::index_bound::IndexBound;

#[derive(Default)]
struct State {
    next: MarkId,
    turn: u64,
    held: BTreeMap<MarkId, Held>,
    kept: Vec<Kept>,
    /// The devices of files that were taken out to be dropped, until they are gone.
    dropping: BTreeSet<usize>,
    window: Window,
    /// Blocks that say something of backups which the manifest does not yet.
    unlisted: BTreeSet<Lsn>,
    readers: ReaderFigures,
    refusal: Refusal,
}

/// See the file's top.
#[derive(Default)]
pub(crate) struct Holds {
    state: Mutex<State>,
    kept_count: AtomicUsize,
    /// Something may be kept that nothing needs.
    has_superfluous: AtomicBool,
    /// The first block of `unlisted`; `u64::MAX` if there is none.
    first_unlisted: Unlisted,
    /// A backup may have lost something.
    has_lost: AtomicBool,
    /// There may be something to tell.
    has_refusal: AtomicBool,
    /// The window has found out how much it may keep, which was not told yet.
    has_new_limit: AtomicBool,
    /// How large the log is, from the executor, and was at most since the window was trimmed.
    log_bytes: AtomicU64,
    log_bytes_max: AtomicU64,
    log_files: AtomicUsize,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes over, at a start, what is kept as the manifest says.
    pub(crate) fn begin(
        &self,
        options: HistoryOptions,
        manifest: &Manifest,
        kept: Vec<Kept>,
        now: Moment,
    ) {
        let mut state = self.lock();
        state.window.begin(options, manifest, now);
        state.kept = kept;
        self.note_count(&state);
    }

    /// Holds what is in segments before `segment_end`, until [`Holds::close`].
    pub(crate) fn open(&self, segment_end: SegmentId) -> MarkId {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        let (released, lost) = (BTreeSet::new(), BTreeSet::new());
        state.held.insert(id, Held { segment_end, released, lost });
        id
    }

    /// Whether the mark still needs anything.
    pub(crate) fn is_open(&self, id: MarkId) -> bool {
        self.lock().held.contains_key(&id)
    }

    /// The mark needs nothing any more.
    pub(crate) fn close(&self, id: MarkId) {
        self.lock().held.remove(&id);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// The mark does not need this segment any more.
    pub(crate) fn release(&self, id: MarkId, segment: SegmentId) {
        if let Some(held) = self.lock().held.get_mut(&id) {
            held.released.insert(segment);
        }
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Those of `marks` that need one of `segments` as it is in place now. The file in place may be
    /// kept as `kept_as` already, because its replacement failed before: that is no older one.
    pub(crate) fn holders(
        &self,
        marks: &[MarkId],
        segments: &[SegmentId],
        kept_as: Option<&Path>,
    ) -> BTreeSet<MarkId> {
        let state = self.lock();
        let has_older = |id: MarkId, segment: &SegmentId| {
            let mut older = state.kept.iter().filter(|kept| kept_as != Some(&kept.path));
            older.any(|kept| kept.holders.contains(&id) && kept.segments.contains(segment))
        };
        let needs = |id: &&MarkId| {
            state.held.get(id).is_some_and(|held| {
                let mut needed = segments.iter().filter(|segment| held.needs(**segment));
                needed.any(|segment| !held.lost.contains(segment) && !has_older(**id, segment))
            })
        };
        marks.iter().filter(needs).copied().collect()
    }

    /// Whether the file of this path is kept. Generations are never used again, so that is then the
    /// file that will be replaced under this name.
    pub(crate) fn is_kept(&self, path: &Path) -> bool {
        self.count() > 0 && self.lock().kept.iter().any(|kept| kept.path == path)
    }

    /// How often the segment had been compacted, as far as what is kept under its name says. Of a log that was set back
    /// that may be more often than the file in place says.
    pub(crate) fn generation_of(&self, segment: SegmentId) -> u32 {
        let state = self.lock();
        let kept = state.kept.iter().filter(|kept| kept.file.segment == segment);
        kept.map(|kept| kept.file.generation).max().unwrap_or(0)
    }

    /// Says that files which were taken out to be dropped are kept as before.
    pub(crate) fn keep_again(&self, kept: Vec<Kept>) {
        let mut state = self.lock();
        state.kept.extend(kept);
        self.note_count(&state);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Says that files are about to be replaced and are kept. One that is kept already, because its
    /// replacement failed before, is kept for more.
    pub(crate) fn keep(&self, kept: Vec<Kept>) {
        let mut state = self.lock();
        state.turn += 1;
        let turn = state.turn;
        for new in kept {
            let new = Kept { turn, ..new };
            // A file that was put back is kept for each time that it was in place.
            let is_same = |old: &&mut Kept| old.path == new.path && old.file.from == new.file.from;
            match state.kept.iter_mut().find(is_same) {
                Some(old) => {
                    old.holders.extend(new.holders);
                    (old.file, old.turn, old.kept_at) = (new.file, turn, new.kept_at);
                }
                None => state.kept.push(new),
            }
        }
        self.note_count(&state);
        // A mark may have been dropped since it was looked for.
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Says that the files of these segments are about to be replaced and are not kept.
    pub(crate) fn lose(&self, marks: &BTreeSet<MarkId>, segments: &[SegmentId]) {
        let mut state = self.lock();
        for id in marks {
            if let Some(held) = state.held.get_mut(id) {
                let needed: Vec<_> = segments.iter().filter(|s| held.needs(**s)).collect();
                held.lost.extend(needed);
            }
        }
    }

    /// Says, before it is replaced, that the window loses a file which blocks from `from` up to before
    /// `until` need.
    pub(crate) fn lose_from_window(&self, from: Lsn, until: Lsn, now: Moment) {
        let mut state = self.lock();
        state.window.lose(from, until, now);
        self.note_lost(&state);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// As [`Holds::lose_from_window`], unless a backup needs the file: then nothing is lost but, where a disk lacks room and that is
    /// a reason to give backups up, the oldest of them. Whether the file is lost.
    pub(crate) fn lose_unless_held(
        &self,
        (from, until): (Lsn, Lsn),
        lacks_room: bool,
        now: Moment,
    ) -> bool {
        let mut state = self.lock();
        let is_held = state.window.registry.needs(from, until);
        if !is_held {
            state.window.lose(from, until, now);
        } else if lacks_room && state.window.options.drops_backups {
            state.window.drop_oldest_backup();
        }
        self.note_lost(&state);
        self.has_superfluous.store(true, Ordering::Release);
        !is_held
    }

    /// Whether the window or a backup needs a file that is about to be replaced; see [`Window::claim`].
    pub(crate) fn claim(&self, from: Lsn, until: Lsn, is_kept: bool, now: Moment) -> bool {
        self.lock().window.claim(from, until, is_kept, now)
    }

    /// Whether a backup needs such a file: it is kept also on a full disk, where the oldest backup goes first, if any may.
    pub(crate) fn is_held(&self, from: Lsn, until: Lsn) -> bool {
        self.lock().window.registry.needs(from, until)
    }

    /// Makes a backup, whose note follows in the open block. Until the manifest lists it, nothing behind that block
    /// is indexed: a start that reads only what the index does not know must read it.
    pub(crate) fn create_backup(
        &self,
        new: NewBackup,
        bound: &IndexBound,
    ) -> Result<NamedBackup, BackupRefusal> {
        let mut state = self.lock();
        let State { window, kept, .. } = &mut *state;
        let NewBackup { name, lsn, noted_lsn, time_ms } = new;
        let id = window.registry.next_id();
        let name = name.unwrap_or_else(|| NamedBackup::name_of(id));
        if let Some(other) = window.registry.find(&name) {
            return Err(BackupRefusal::Taken { id: other.id });
        }
        if window.registry.backups().len() >= BACKUPS_MAX {
            return Err(BackupRefusal::TooMany);
        }
        let files = kept.iter().filter(|kept| window.is_held(kept)).count();
        if files >= HELD_FILES_MAX {
            return Err(BackupRefusal::TooManyFiles { files });
        }
        if lsn > noted_lsn {
            return Err(BackupRefusal::BehindEnd { lsn, last: Lsn(noted_lsn.0 - 1) });
        }
        if !window.tells(lsn) {
            let (before, after) = window.nearest(lsn);
            return Err(BackupRefusal::OutOfReach { lsn, before, after });
        }
        let backup = NamedBackup { id, name, lsn, noted_lsn, time_ms, is_lost: false };
        window.registry.add_backup(backup.clone());
        self.note_unlisted(&mut state, noted_lsn, bound);
        Ok(backup)
    }

    /// Notes how the server was configured when a backup was made, whose note is in the open block.
    pub(crate) fn set_configuration(&self, id: u64, text: &str) {
        self.lock().window.registry.set_configuration(id, text);
    }

    /// Deletes a backup, whose note follows in the open block.
    pub(crate) fn delete_backup(
        &self,
        name: &str,
        noted_lsn: Lsn,
        bound: &IndexBound,
    ) -> Option<NamedBackup> {
        let mut state = self.lock();
        let backup = state.window.registry.remove_backup(name)?;
        self.note_unlisted(&mut state, noted_lsn, bound);
        self.has_superfluous.store(true, Ordering::Release);
        Some(backup)
    }

    /// Backups, with what they take.
    pub(crate) fn backups(&self) -> Vec<BackupState> {
        let state = self.lock();
        let registry = &state.window.registry;
        // What changes from each held block to the next one, and behind the last.
        let mut changes = vec![(0_i64, 0_i64); registry.held().len() + 1];
        for Kept { file, bytes, .. } in &state.kept {
            let held = registry.held_between(file.from, file.until);
            let bytes = bytes.cast_signed();
            changes[held.start] = (changes[held.start].0 + 1, changes[held.start].1 + bytes);
            changes[held.end] = (changes[held.end].0 - 1, changes[held.end].1 - bytes);
        }
        let sums = changes.into_iter().scan((0, 0), |sum, change| {
            *sum = (sum.0 + change.0, sum.1 + change.1);
            Some((usize::try_from(sum.0).unwrap_or(0), sum.1.max(0).cast_unsigned()))
        });
        let sums: Vec<(usize, u64)> = sums.collect();
        let backups = registry.backups().iter().map(|backup| {
            let held = registry.held().binary_search(&backup.lsn);
            let held = held.ok().filter(|_| !backup.is_lost);
            let (files, bytes) = held.map_or((0, 0), |index| sums[index]);
            BackupState { backup: backup.clone(), files, bytes }
        });
        backups.collect()
    }

    /// All of them in a few numbers.
    pub(crate) fn backup_figures(&self) -> BackupFigures {
        let state = self.lock();
        let backups = state.window.registry.backups();
        let held = state.kept.iter().filter(|kept| state.window.is_held(kept));
        BackupFigures {
            count: backups.len(),
            lost: backups.iter().filter(|backup| backup.is_lost).count(),
            held_bytes: held.map(|kept| kept.bytes).sum(),
            last: backups.last().cloned(),
        }
    }

    /// The backup of this name.
    pub(crate) fn backup(&self, name: &str) -> Option<NamedBackup> {
        self.lock().window.registry.find(name).cloned()
    }

    /// The last commands that were dangerous, and the points.
    pub(crate) fn told(&self) -> (Vec<NotedCommand>, Vec<HistoryPoint>) {
        let state = self.lock();
        (state.window.registry.commands().to_vec(), state.window.points())
    }

    /// Notes a command, whose note is in the block that it names. One that loses data is told by a start that reads
    /// only what the index does not know, too.
    pub(crate) fn note_command(&self, noted: NotedCommand, bound: &IndexBound) {
        let mut state = self.lock();
        if noted.command.loses_data {
            self.note_unlisted(&mut state, noted.lsn, bound);
        }
        state.window.registry.add_command(noted);
    }

    /// The names of backups that have lost a file since this was asked.
    pub(crate) fn take_lost_backups(&self) -> Vec<String> {
        if !self.has_lost.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let window = &mut self.lock().window;
        if !window.take_lost() {
            return Vec::new();
        }
        let lost = window.registry.backups().iter().filter(|backup| backup.is_lost);
        lost.map(|backup| backup.name.clone()).collect()
    }

    /// Whether the manifest lacks what a durable block says of backups. Takes no lock.
    pub(crate) fn has_unlisted(&self, durable: Lsn) -> bool {
        self.first_unlisted.0.load(Ordering::Acquire) <= durable.0
    }

    /// Says that the manifest lists what blocks up to `durable` say of backups.
    pub(crate) fn note_listed(&self, durable: Lsn, bound: &IndexBound) {
        let mut state = self.lock();
        state.unlisted = state.unlisted.split_off(&durable.next());
        self.tell_unlisted(&state, bound);
    }

    fn note_unlisted(&self, state: &mut State, lsn: Lsn, bound: &IndexBound) {
        state.unlisted.insert(lsn);
        self.tell_unlisted(state, bound);
    }

    fn tell_unlisted(&self, state: &State, bound: &IndexBound) {
        let first = state.unlisted.first().copied();
        self.first_unlisted.0.store(first.map_or(u64::MAX, |lsn| lsn.0), Ordering::Release);
        bound.hold_back(first);
    }

    /// Notes how it went when a file was to be kept for the window.
    pub(crate) fn note_link(&self, error: Option<&Error>) {
        let refusal = &mut self.lock().refusal;
        match (&refusal, error) {
            (Refusal::None, Some(error)) => *refusal = Refusal::New(error.to_string()),
            (_, None) => *refusal = Refusal::None,
            (Refusal::New(_) | Refusal::Told, Some(_)) => return,
        }
        self.has_refusal.store(error.is_some(), Ordering::Release);
    }

    /// Why a file could not be kept, once until one was.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        if !self.has_refusal.swap(false, Ordering::AcqRel) {
            return None;
        }
        let refusal = &mut self.lock().refusal;
        let Refusal::New(why) = refusal else { return None };
        let why = std::mem::take(why);
        *refusal = Refusal::Told;
        Some(why)
    }

    /// Whether the window needs every file that is replaced now.
    pub(crate) fn keeps_window(&self) -> bool {
        self.lock().window.is_on()
    }

    /// Changes what the window needs.
    pub(crate) fn set_window(&self, options: HistoryOptions, now: Moment) {
        let State { window, kept, .. } = &mut *self.lock();
        window.set_options(options, kept, now);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Notes that behind the block `lsn` something is about to be lost.
    pub(crate) fn note_point(&self, lsn: Lsn, now: Moment) {
        self.lock().window.note_point(lsn, now);
    }

    /// Notes how large the log is, without what is kept of it.
    pub(crate) fn note_log(&self, size: LogSize) {
        self.log_bytes.store(size.bytes, Ordering::Relaxed);
        self.log_bytes_max.fetch_max(size.bytes, Ordering::Relaxed);
        self.log_files.store(size.files, Ordering::Relaxed);
    }

    /// Lets the window give up what is too old or too much. `short_bytes` says by how much the disk of a
    /// device is short of room; the log's segments may get `open_bytes` longer than they are.
    pub(crate) fn trim_window(
        &self,
        now: Moment,
        mut short_bytes: BTreeMap<usize, u64>,
        open_bytes: u64,
    ) {
        let bytes = self.log_bytes.load(Ordering::Relaxed);
        let bytes = self.log_bytes_max.swap(bytes, Ordering::Relaxed).max(bytes) + open_bytes;
        let files = self.log_files.load(Ordering::Relaxed);
        let State { window, kept, held, .. } = &mut *self.lock();
        // What is about to go makes room that must not be made twice.
        for kept in kept.iter().filter(|kept| !kept.is_linked && is_superfluous(kept, held, window))
        {
            if let Some(bytes) = short_bytes.get_mut(&kept.device) {
                *bytes = bytes.saturating_sub(kept.bytes);
            }
        }
        window.trim(kept, LogSize { bytes, files }, now, short_bytes);
        self.has_lost.fetch_or(window.has_lost_backup(), Ordering::AcqRel);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Lets the window keep half of what it keeps now, and no more again: see [`Window::limit`].
    pub(crate) fn limit_window(&self) {
        let State { window, kept, .. } = &mut *self.lock();
        window.limit(kept);
        self.has_new_limit.store(true, Ordering::Release);
    }

    /// How much the window keeps at most, if that has become less since this was asked.
    pub(crate) fn take_new_limit(&self) -> Option<u64> {
        let is_new = self.has_new_limit.swap(false, Ordering::AcqRel);
        is_new.then(|| self.lock().window.limit_bytes())?
    }

    /// The files that are kept on these devices.
    pub(crate) fn paths_on(&self, is_on: impl Fn(usize) -> bool) -> Vec<PathBuf> {
        let state = self.lock();
        let kept = state.kept.iter().filter(|kept| is_on(kept.device));
        kept.map(|kept| kept.path.clone()).collect()
    }

    /// Says which of the files have another name too.
    pub(crate) fn note_linked(&self, linked: &BTreeSet<PathBuf>) {
        for kept in &mut self.lock().kept {
            kept.is_linked = linked.contains(&kept.path);
        }
    }

    /// Writes into the manifest what is kept, what the window can still tell, and how far the log is durable: a start
    /// that finds less must not take that for the log's end.
    ///
    /// A caller that waited for the manifest knows less than it says by now.
    pub(crate) fn describe(&self, manifest: &mut Manifest, durable: Lsn) {
        let durable = durable.max(manifest.durable_lsn);
        manifest.durable_lsn = durable;
        let state = self.lock();
        manifest.history = state.kept.iter().map(|kept| kept.file).collect();
        state.window.describe(manifest, durable);
    }

    /// Says which readers of other processes were found.
    pub(crate) fn note_readers(&self, readers: ReaderFigures) {
        self.lock().readers = readers;
    }

    /// What there is to say of the window and of all that is kept.
    pub(crate) fn figures(&self, now: Moment) -> WindowFigures {
        let state = self.lock();
        let (floor, floor_ms, seconds, given_up) = state.window.figures(now);
        let of_marks = state.kept.iter().filter(|kept| !kept.holders.is_empty());
        WindowFigures {
            floor,
            floor_ms,
            seconds,
            given_up,
            limit_bytes: state.window.limit_bytes(),
            files: state.kept.len(),
            bytes: state.kept.iter().map(|kept| kept.bytes).sum(),
            files_of_marks: of_marks.count(),
            readers: state.readers,
        }
    }

    /// Where the mark finds the segment now.
    pub(crate) fn find(&self, id: MarkId, segment: SegmentId) -> Whereabouts {
        let state = self.lock();
        if state.held.get(&id).is_none_or(|held| held.lost.contains(&segment)) {
            return Whereabouts::Lost;
        }
        let has = |kept: &&Kept| kept.holders.contains(&id) && kept.segments.contains(&segment);
        // A later compaction may have kept a file with the segment for the sake of another one.
        let first = state.kept.iter().filter(has).map(|kept| kept.turn).min();
        let files = state.kept.iter().filter(has).filter(|kept| Some(kept.turn) == first);
        let files: Vec<_> = files.map(|kept| (kept.path.clone(), kept.device)).collect();
        if files.is_empty() { Whereabouts::InPlace } else { Whereabouts::Kept(files) }
    }

    /// Gives up what the window keeps on a device, because that is leaving.
    pub(crate) fn give_up_window(&self, device: usize, now: Moment) {
        let State { window, kept, .. } = &mut *self.lock();
        for kept in kept.iter().filter(|kept| kept.device == device) {
            // A device that leaves waits for what backups need.
            if window.needs(kept) && !window.withholds(kept) {
                window.lose(kept.file.from, kept.file.until, now);
            }
        }
        self.has_lost.fetch_or(window.has_lost_backup(), Ordering::AcqRel);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Gives up what is kept on a device, because it is full; but what another name keeps too makes no room. Of what
    /// backups need, if that may go, only what the oldest one needs, when nothing else is left.
    pub(crate) fn give_up(&self, device: usize, now: Moment) {
        let mut state = self.lock();
        let State { held, kept, window, .. } = &mut *state;
        let mut is_left = false;
        for kept in kept.iter().filter(|kept| kept.device == device && !kept.is_linked) {
            if window.needs(kept) && !window.is_held(kept) {
                window.lose(kept.file.from, kept.file.until, now);
                is_left = true;
            }
            for (_, held) in held.iter_mut().filter(|(id, _)| kept.holders.contains(id)) {
                let needed: Vec<_> = kept.segments.iter().filter(|s| held.needs(**s)).collect();
                held.lost.extend(needed);
                is_left = true;
            }
        }
        let mut kept = kept.iter().filter(|kept| kept.device == device && !kept.is_linked);
        if !is_left && kept.any(|kept| window.is_held(kept) && !window.withholds(kept)) {
            window.drop_oldest_backup();
        }
        self.note_lost(&state);
        self.has_superfluous.store(true, Ordering::Release);
    }

    /// Takes out at most `max` files that nothing needs any more, to be dropped: until [`Holds::end_drop`]
    /// they count as being on their devices. Takes no lock when that cannot be.
    pub(crate) fn take_superfluous(&self, max: usize) -> Vec<Kept> {
        if self.count() == 0 || !self.has_superfluous.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_superfluous.store(false, Ordering::Relaxed);
        let mut state = self.lock();
        let State { held, kept, dropping, window, .. } = &mut *state;
        let is_due = |kept: &mut Kept| is_superfluous(kept, held, window);
        let taken: Vec<Kept> = kept.extract_if(.., is_due).take(max).collect();
        if taken.len() == max {
            self.has_superfluous.store(true, Ordering::Release);
        }
        taken.iter().for_each(|kept| window.note_dropped(kept));
        dropping.extend(taken.iter().map(|kept| kept.device));
        self.note_count(&state);
        taken
    }

    /// Says that what was taken out is gone from its devices, or is kept again.
    pub(crate) fn end_drop(&self) {
        self.lock().dropping.clear();
    }

    /// Whether anything is kept on the device, or being dropped there.
    pub(crate) fn has_on(&self, device: usize) -> bool {
        let state = self.lock();
        state.dropping.contains(&device) || state.kept.iter().any(|kept| kept.device == device)
    }

    /// How many files are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept_count.load(Ordering::Acquire)
    }

    /// Whether there is something on the device that only the window needs, or that is being dropped.
    pub(crate) fn has_window_on(&self, device: usize) -> bool {
        let state = self.lock();
        let mut kept = state.kept.iter().filter(|kept| kept.device == device);
        kept.any(|kept| state.window.needs(kept) && !state.window.withholds(kept))
    }

    /// There may be a backup to tell of.
    fn note_lost(&self, state: &State) {
        self.has_lost.fetch_or(state.window.has_lost_backup(), Ordering::AcqRel);
    }

    fn note_count(&self, state: &State) {
        self.kept_count.store(state.kept.len(), Ordering::Release);
    }
}
