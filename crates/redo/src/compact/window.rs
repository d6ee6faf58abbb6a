//! The window: how far back the log can be read as it was, and what that takes.
//!
//! ```text
//!            floor                                            now
//!   ───●───────┼──────────────────●────────────────────────────►    ● a point: the block before FLUSHALL
//!      │       └ every block from here on can be read           
//!      └ and this one, although the floor has passed it
//! ```
//!
//! A file is needed by the blocks from its `from` up to before its `until`: those between the
//! compaction that has made it and the one that has replaced it. A file that no compaction has made has its
//! blocks as they were written, and is needed by those that read them, even if its only block is the last one
//! when it is replaced: `from` is `until` then. So all that is kept is needed whose
//! `until` lies above the floor, and what a point needs. Giving up the oldest file is raising the
//! floor to its `until`.
//!
//! **When.** What is old goes, beyond a number of bytes that is kept however old it is; what is too
//! much goes, in bytes, in files, or for a disk that is short of room. The oldest goes first, and of
//! points the oldest when nothing else is left. For a disk nothing goes unless that makes room: not what a
//! reader, or a copy of the directory by hard links, has linked.
//!
//! **Named backups** are like points that stay, also without a window: what they need counts for nothing in
//! the bounds, and goes only for a disk that is short of room, if that is allowed.
//!
//! **The floor only rises**, here first: what the manifest says of it is never more than what is
//! kept. Ages are those of the monotonic clock, and begin anew with each start: a wall clock that
//! is set changes nothing but what is said of times.

use std::collections::{BTreeMap, VecDeque};

use base::Lsn;
use env::Clock;

use crate::compact::kept::Kept;
use crate::format::manifest::{HistoryPoint, Manifest};
use crate::format::registry::Registry;
use crate::options::HistoryOptions;

/// More points than this are too many: the oldest goes.
pub(crate) const POINTS_MAX: usize = 64;

/// However few files the log has, history may have so many; and so many for each of them.
const FILES_MIN: usize = 1024;
const FILES_SHARE: usize = 4;

/// When something was, by both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) us: u64,
    pub(crate) ms: i64,
}

impl Moment {
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self { us: clock.monotonic_us(), ms: clock.now_ms() }
    }
}

/// A point, and when it was noted.
#[derive(Debug, Clone, Copy)]
struct Point {
    lsn: Lsn,
    time_ms: i64,
    noted_us: u64,
}

impl Point {
    fn needs(&self, kept: &Kept) -> bool {
        kept.file.from <= self.lsn && self.lsn < kept.file.until
    }
}

/// How large the log is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogSize {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
}

/// See the file's top.
pub(crate) struct Window {
    pub(crate) options: HistoryOptions,
    floor: Lsn,
    /// When the log was at the floor, at the latest.
    floor_at: Moment,
    /// Ascending.
    points: Vec<Point>,
    /// How large the log was at times within the window, each less than the one before it.
    peaks: VecDeque<(u64, u64)>,
    /// A device has said that it is full where its disk seems to have room: more than this it does not bear.
    limit_bytes: u64,
    /// How many files went before they were old.
    given_up: u64,
    /// Named backups, and dangerous commands.
    pub(crate) registry: Registry,
    /// A backup has lost a file that it needs since [`Window::take_lost`].
    has_lost_backup: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            options: HistoryOptions::OFF,
            floor: Lsn::ZERO,
            floor_at: Moment::default(),
            points: Vec::new(),
            peaks: VecDeque::new(),
            limit_bytes: u64::MAX,
            given_up: 0,
            registry: Registry::default(),
            has_lost_backup: false,
        }
    }
}

impl Window {
    /// Begins with what the manifest says, at a start.
    pub(crate) fn begin(&mut self, options: HistoryOptions, manifest: &Manifest, now: Moment) {
        self.options = options;
        self.floor = manifest.history_floor;
        let ms = if manifest.history_floor_ms == 0 { now.ms } else { manifest.history_floor_ms };
        // Before this process the monotonic clock says nothing.
        let age_us = u64::try_from(now.ms - ms).unwrap_or(0).saturating_mul(1000);
        self.floor_at = Moment { us: now.us.saturating_sub(age_us), ms };
        let points = manifest.history_points.iter();
        let points = points.map(|it| Point { lsn: it.lsn, time_ms: it.time_ms, noted_us: now.us });
        self.points = if self.is_on() { points.collect() } else { Vec::new() };
        self.registry = manifest.registry.clone();
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.options.seconds > 0
    }

    /// Whether a file is needed, by some block that can still be read.
    pub(crate) fn needs(&self, kept: &Kept) -> bool {
        self.is_held(kept)
            || (self.is_on()
                && (kept.file.until > self.floor || self.points.iter().any(|it| it.needs(kept))))
    }

    /// Whether a backup needs a file.
    pub(crate) fn is_held(&self, kept: &Kept) -> bool {
        self.registry.needs(kept.file.from, kept.file.until)
    }

    /// Whether a backup needs a file, and no disk that is short of room is a reason to give that up.
    pub(crate) fn withholds(&self, kept: &Kept) -> bool {
        self.withholds_between(kept.file.from, kept.file.until)
    }

    /// The same of a file that the log was made of from block `from` up to before `until`.
    pub(crate) fn withholds_between(&self, from: Lsn, until: Lsn) -> bool {
        !self.options.drops_backups && self.registry.needs(from, until)
    }

    /// Whether a file that the log was made of from block `from` up to before `until` must be kept, which is
    /// about to be replaced. If not, and if nothing else keeps it, it is lost now: so no backup is made later that
    /// needs it.
    pub(crate) fn claim(&mut self, from: Lsn, until: Lsn, is_kept: bool, now: Moment) -> bool {
        let is_needed = self.is_on() || self.registry.needs(from, until);
        if !is_needed && !is_kept {
            self.lose(from, until, now);
        }
        is_needed
    }

    /// Whether the state after a block can be told.
    pub(crate) fn tells(&self, lsn: Lsn) -> bool {
        lsn >= self.floor
            || self.points.iter().any(|point| point.lsn == lsn)
            || self.registry.held().binary_search(&lsn).is_ok()
    }

    /// The nearest blocks before and behind one that cannot be told.
    pub(crate) fn nearest(&self, lsn: Lsn) -> (Option<Lsn>, Lsn) {
        let singles = self.registry.held().iter().copied();
        let singles = || singles.clone().chain(self.points.iter().map(|point| point.lsn));
        let before = singles().filter(|single| *single < lsn).max();
        (before, singles().filter(|single| *single > lsn).fold(self.floor, Lsn::min))
    }

    /// Points, with their times.
    pub(crate) fn points(&self) -> Vec<HistoryPoint> {
        let points = self.points.iter();
        points.map(|it| HistoryPoint { lsn: it.lsn, time_ms: it.time_ms }).collect()
    }

    /// Whether a backup has lost a file that it needs since [`Window::take_lost`].
    pub(crate) const fn has_lost_backup(&self) -> bool {
        self.has_lost_backup
    }

    /// Whether a backup has lost a file that it needs since this was asked.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_backup)
    }

    /// Says what can be read in the manifest that is about to be written; points are not more than what
    /// is `durable`.
    pub(crate) fn describe(&self, manifest: &mut Manifest, durable: Lsn) {
        if self.floor >= manifest.history_floor {
            manifest.history_floor = self.floor;
            manifest.history_floor_ms = if self.is_on() { self.floor_at.ms } else { 0 };
        }
        let points = self.points.iter().filter(|point| point.lsn <= durable);
        manifest.history_points =
            points.map(|it| HistoryPoint { lsn: it.lsn, time_ms: it.time_ms }).collect();
        manifest.registry = self.registry.as_of(durable);
    }

    /// Notes a point.
    pub(crate) fn note_point(&mut self, lsn: Lsn, now: Moment) {
        if !self.is_on() || self.points.last().is_some_and(|last| last.lsn >= lsn) {
            return;
        }
        self.points.push(Point { lsn, time_ms: now.ms, noted_us: now.us });
        if self.points.len() > POINTS_MAX {
            self.points.remove(0);
        }
    }

    /// Says that a file which the blocks from `from` up to before `until` need is not there any more.
    pub(crate) fn lose(&mut self, from: Lsn, until: Lsn, now: Moment) {
        self.raise(until, now);
        self.points.retain(|point| point.lsn < from || point.lsn >= until);
        self.has_lost_backup |= self.registry.lose(from, until);
        self.given_up += u64::from(self.is_on());
    }

    /// Says that a file goes that nothing needs.
    pub(crate) fn note_dropped(&mut self, kept: &Kept) {
        // Without a window the floor is behind.
        self.raise(kept.file.until, kept.kept_at);
    }

    fn raise(&mut self, floor: Lsn, at: Moment) {
        if floor > self.floor {
            (self.floor, self.floor_at) = (floor, at);
        }
    }

    /// Changes what is kept; by nothing at all everything goes.
    pub(crate) fn set_options(&mut self, options: HistoryOptions, kept: &[Kept], now: Moment) {
        let was_on = self.is_on();
        self.options = options;
        if was_on && !self.is_on() {
            let newest = kept.iter().map(|kept| kept.file.until).max();
            self.raise(newest.unwrap_or(Lsn::ZERO), now);
            self.points.clear();
        }
    }

    /// Gives up what is too old or too much of what is kept. `short_bytes` says by how much the disk of
    /// a device is short of room.
    pub(crate) fn trim(
        &mut self,
        kept: &[Kept],
        log: LogSize,
        now: Moment,
        short_bytes: BTreeMap<usize, u64>,
    ) {
        let window_us = self.window_us();
        self.points.retain(|point| now.us.saturating_sub(point.noted_us) < window_us);
        let bytes_max = self.bytes_max(log.bytes, now.us, window_us);
        let bounds = Bounds { bytes_max, files_max: FILES_MIN + FILES_SHARE * log.files };
        self.give_up(kept, now, &bounds, short_bytes);
    }

    /// The most that a disk bears that does not say so, if one has refused more.
    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        Some(self.limit_bytes).filter(|bytes| *bytes < u64::MAX)
    }

    /// Keeps no more than one half of this, as long as the process lives.
    pub(crate) fn limit(&mut self, kept: &[Kept]) {
        let of_window = kept.iter().filter(|kept| !self.is_held(kept));
        let bytes: u64 = of_window.map(|kept| kept.bytes).sum();
        self.limit_bytes = self.limit_bytes.min(bytes / 2);
    }

    /// Gives up as much of what is kept as disks are short of room.
    pub(crate) fn make_room(
        &mut self,
        kept: &[Kept],
        now: Moment,
        short_bytes: BTreeMap<usize, u64>,
    ) {
        let bounds = Bounds { bytes_max: u64::MAX, files_max: usize::MAX };
        self.give_up(kept, now, &bounds, short_bytes);
    }

    const fn window_us(&self) -> u64 {
        self.options.seconds.saturating_mul(1_000_000)
    }

    fn give_up(
        &mut self,
        kept: &[Kept],
        now: Moment,
        bounds: &Bounds,
        mut short_bytes: BTreeMap<usize, u64>,
    ) {
        let window_us = self.window_us();
        let is_old = |at_us: u64| now.us.saturating_sub(at_us) >= window_us;
        let (held, mut needed): (Vec<&Kept>, Vec<&Kept>) =
            kept.iter().filter(|kept| self.needs(kept)).partition(|kept| self.is_held(kept));
        needed.sort_by_key(|kept| kept.file.until);
        let mut left = Left { bytes: 0, files: needed.len(), on: BTreeMap::new() };
        for kept in &needed {
            left.bytes += kept.bytes;
            *left.on.entry(kept.device).or_default() += usize::from(!kept.is_linked);
        }
        let mut of_points = Vec::new();
        for kept in needed {
            if kept.file.until > self.floor {
                let is_too_much = left.is_too_much(bounds, &short_bytes);
                let is_too_old = is_old(kept.kept_at.us) && left.bytes > self.options.bytes_min;
                if !is_too_much && !is_too_old {
                    break;
                }
                self.given_up += u64::from(!is_old(kept.kept_at.us));
                self.raise(kept.file.until, kept.kept_at);
            }
            if self.points.iter().any(|point| point.needs(kept)) {
                of_points.push(kept);
            } else {
                left.take(kept, &mut short_bytes);
            }
        }
        while left.is_too_much(bounds, &short_bytes) && !self.points.is_empty() {
            self.points.remove(0);
            let is_free = |kept: &mut &Kept| !self.points.iter().any(|point| point.needs(kept));
            for kept in of_points.extract_if(.., is_free) {
                left.take(kept, &mut short_bytes);
            }
        }
        if self.options.drops_backups {
            self.drop_backups(held, short_bytes);
        }
    }

    /// Gives up backups, the oldest first, as long as a disk is short of room that has some of what they need.
    fn drop_backups(&mut self, mut held: Vec<&Kept>, mut short_bytes: BTreeMap<usize, u64>) {
        held.retain(|kept| !kept.is_linked);
        let is_short = |held: &[&Kept], short_bytes: &BTreeMap<usize, u64>| {
            held.iter().any(|kept| short_bytes.get(&kept.device).is_some_and(|bytes| *bytes > 0))
        };
        while is_short(&held, &short_bytes) && self.drop_oldest_backup() {
            for kept in held.extract_if(.., |kept| !self.is_held(kept)) {
                if let Some(bytes) = short_bytes.get_mut(&kept.device) {
                    *bytes = bytes.saturating_sub(kept.bytes);
                }
            }
        }
    }

    /// Gives up the oldest backup, or those of one block; whether there was one.
    pub(crate) fn drop_oldest_backup(&mut self) -> bool {
        let Some(oldest) = self.registry.held().first().copied() else { return false };
        self.has_lost_backup |= self.registry.lose(oldest, oldest.next());
        true
    }

    /// How much is kept at most, when the log is `log_bytes` long now.
    fn bytes_max(&mut self, log_bytes: u64, now_us: u64, window_us: u64) -> u64 {
        while self.peaks.back().is_some_and(|(_, bytes)| *bytes <= log_bytes) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now_us, log_bytes));
        while self.peaks.front().is_some_and(|(at_us, _)| now_us - at_us > window_us) {
            self.peaks.pop_front();
        }
        let peak_bytes = self.peaks.front().map_or(log_bytes, |(_, bytes)| *bytes);
        let share = u128::from(peak_bytes) * u128::from(self.options.percentage) / 100;
        let bytes_max = self.options.bytes_min.max(u64::try_from(share).unwrap_or(u64::MAX));
        bytes_max.min(self.limit_bytes)
    }

    /// The floor, when the log was there at the latest, how long ago that is in seconds, and how many files
    /// went before they were old.
    pub(crate) fn figures(&self, now: Moment) -> (Lsn, i64, u64, u64) {
        let age_us = now.us.saturating_sub(self.floor_at.us);
        let seconds = if self.is_on() { age_us / 1_000_000 } else { 0 };
        (self.floor, self.floor_at.ms, seconds, self.given_up)
    }
}

/// How much may be kept.
struct Bounds {
    bytes_max: u64,
    files_max: usize,
}

/// What is still kept while some of it is given up.
struct Left {
    bytes: u64,
    files: usize,
    /// How many files on each device that make room when they go.
    on: BTreeMap<usize, usize>,
}

impl Left {
    fn is_too_much(&self, bounds: &Bounds, short_bytes: &BTreeMap<usize, u64>) -> bool {
        let has_files_on = |device: &usize| self.on.get(device).is_some_and(|count| *count > 0);
        self.bytes > bounds.bytes_max
            || self.files > bounds.files_max
            || short_bytes.iter().any(|(device, bytes)| *bytes > 0 && has_files_on(device))
    }

    fn take(&mut self, kept: &Kept, short_bytes: &mut BTreeMap<usize, u64>) {
        self.bytes -= kept.bytes;
        self.files -= 1;
        if kept.is_linked {
            return;
        }
        if let Some(count) = self.on.get_mut(&kept.device) {
            *count -= 1;
        }
        if let Some(bytes) = short_bytes.get_mut(&kept.device) {
            *bytes = bytes.saturating_sub(kept.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::KeptFile;
    use crate::format::registry::NamedBackup;
    use crate::id::Id;
    use base::SegmentId;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    const S: u64 = 1_000_000;

    /// A file of ten bytes that was replaced so many seconds after the beginning.
    fn kept(number: u32, from: u64, until: u64, at_s: u64) -> Kept {
        Kept {
            file: KeptFile {
                segment: SegmentId(number),
                part: 0,
                generation: 0,
                device: Id([1; 16]),
                from: Lsn(from),
                until: Lsn(until),
            },
            path: PathBuf::from(number.to_string()),
            device: 0,
            segments: Vec::new(),
            holders: BTreeSet::new(),
            turn: 0,
            bytes: 10,
            is_linked: false,
            kept_at: Moment { us: at_s * S, ms: 0 },
        }
    }

    fn window(seconds: u64, bytes_min: u64, percentage: u64) -> Window {
        let options = HistoryOptions { seconds, bytes_min, percentage, drops_backups: false };
        Window { options, ..Window::default() }
    }

    fn at(seconds: u64) -> Moment {
        Moment { us: seconds * S, ms: 0 }
    }

    fn left(window: &Window, kept: &[Kept]) -> Vec<u32> {
        kept.iter().filter(|kept| window.needs(kept)).map(|kept| kept.file.segment.0).collect()
    }

    fn log(bytes: u64) -> LogSize {
        LogSize { bytes, files: 10 }
    }

    #[test]
    fn backups_stay_beyond_every_bound_and_go_only_for_a_disk_if_that_is_allowed() {
        let all: Vec<Kept> =
            (1..=6).map(|n| kept(n, 10 * (u64::from(n) - 1), 10 * u64::from(n), 1)).collect();
        let mut window = window(2, 0, 0);
        let backup = |id: u64, lsn| NamedBackup {
            id,
            name: format!("b-{id}"),
            lsn: Lsn(lsn),
            noted_lsn: Lsn(lsn),
            time_ms: 0,
            is_lost: false,
        };
        window.registry = Registry::new(3, vec![backup(1, 15), backup(2, 39)], Vec::new());
        window.trim(&all, log(0), at(100), BTreeMap::new());
        assert_eq!(left(&window, &all), [2, 4]);
        assert!(window.tells(Lsn(15)) && window.tells(Lsn(39)) && !window.tells(Lsn(25)));
        assert_eq!(window.nearest(Lsn(20)), (Some(Lsn(15)), Lsn(39)));
        window.trim(&all, log(0), at(100), BTreeMap::from([(0, 5)]));
        assert_eq!(left(&window, &all), [2, 4], "it is not allowed");
        assert!(!window.take_lost());
        window.options.drops_backups = true;
        window.trim(&all, log(0), at(100), BTreeMap::from([(0, 5)]));
        assert_eq!(left(&window, &all), [4], "the oldest, and no more than it takes");
        assert!(window.take_lost() && !window.tells(Lsn(15)));
        window.set_options(HistoryOptions::OFF, &all, at(100));
        assert_eq!(left(&window, &all), [4], "without a window it is held too");
        assert!(
            window.claim(Lsn(30), Lsn(50), false, at(100))
                && !window.claim(Lsn(40), Lsn(70), false, at(100))
        );
        assert_eq!(window.figures(at(100)).0, Lsn(70), "what is not claimed is lost at once");
    }

    #[test]
    fn what_is_old_goes_beyond_the_bytes_that_are_kept_at_any_age() {
        let files: Vec<Kept> =
            (1..=5).map(|n| kept(n, 0, u64::from(n) * 10, u64::from(n) * 10)).collect();
        let mut window = window(30, 20, 100);
        window.trim(&files, log(1000), at(45), BTreeMap::new());
        assert_eq!(left(&window, &files), [2, 3, 4, 5], "one is old");
        window.trim(&files, log(1000), at(1000), BTreeMap::new());
        assert_eq!(left(&window, &files), [4, 5], "all are old, and twenty bytes stay");
        assert_eq!(window.given_up, 0, "none of them early");
    }

    #[test]
    fn what_is_too_much_goes_the_oldest_first_by_the_largest_log_within_the_window() {
        let files: Vec<Kept> =
            (1..=5).map(|n| kept(n, 0, u64::from(n) * 10, u64::from(n))).collect();
        let mut window = window(30, 0, 100);
        window.trim(&files, log(50), at(5), BTreeMap::new());
        window.trim(&files, log(5), at(10), BTreeMap::new());
        assert_eq!(left(&window, &files).len(), 5, "it was that large a while ago");
        window.trim(&files, log(25), at(20), BTreeMap::new());
        let mut later: Vec<Kept> = files.clone();
        later.iter_mut().for_each(|kept| kept.kept_at = at(40));
        window.trim(&later, log(5), at(41), BTreeMap::new());
        assert_eq!(left(&window, &later), [4, 5]);
        assert_eq!(window.given_up, 3);
    }

    #[test]
    fn a_disk_that_is_short_of_room_gets_it_from_its_own_files() {
        let mut files: Vec<Kept> =
            (1..=6).map(|n| kept(n, 0, u64::from(n) * 10, u64::from(n))).collect();
        files[0].device = 1;
        files[4].device = 1;
        let mut window = window(3000, 1000, 100);
        window.trim(&files, log(0), at(10), BTreeMap::from([(0, 15), (7, 100)]));
        assert_eq!(left(&window, &files), [4, 5, 6], "older ones elsewhere go too");
    }

    #[test]
    fn what_another_name_keeps_makes_no_room() {
        let mut files: Vec<Kept> =
            (1..=6).map(|n| kept(n, 0, u64::from(n) * 10, u64::from(n))).collect();
        [0, 2, 4, 5].into_iter().for_each(|index| files[index].is_linked = true);
        let short = |bytes| BTreeMap::from([(0, bytes)]);
        let mut window = window(3000, 1000, 100);
        window.note_point(Lsn(45), at(3));
        window.trim(&files[4..], log(0), at(10), short(100));
        assert_eq!(left(&window, &files[4..]), [5, 6], "nor is it given up");
        assert_eq!(window.points.len(), 1);
        window.trim(&files, log(0), at(10), short(5));
        assert_eq!(left(&window, &files), [3, 4, 5, 6], "two makes it");
        window.points.clear();
        window.trim(&files, log(0), at(10), short(100));
        assert_eq!(left(&window, &files), [5, 6], "four is all there is");
    }

    #[test]
    fn a_limit_that_was_found_holds() {
        let files: Vec<Kept> =
            (1..=6).map(|n| kept(n, 0, u64::from(n) * 10, u64::from(n))).collect();
        let mut window = window(3000, 1000, 100);
        window.limit(&files);
        window.limit(&files);
        window.trim(&files, log(1000), at(10), BTreeMap::new());
        assert_eq!(left(&window, &files), [4, 5, 6]);
    }

    #[test]
    fn a_point_needs_what_was_there_then_and_goes_last() {
        let files = [kept(1, 0, 20, 1), kept(2, 5, 30, 2), kept(3, 16, 30, 3), kept(4, 20, 50, 4)];
        let mut window = window(3000, 10, 0);
        window.note_point(Lsn(15), at(3));
        window.trim(&files, log(0), at(10), BTreeMap::new());
        assert!(left(&window, &files).is_empty(), "what the point needs is too much by itself");
        let mut window = super::tests::window(3000, 20, 0);
        window.note_point(Lsn(15), at(3));
        window.trim(&files, log(0), at(10), BTreeMap::new());
        assert_eq!(left(&window, &files), [1, 2]);
        assert_eq!(window.floor, Lsn(50));
        window.trim(&files, log(0), at(3003), BTreeMap::new());
        assert!(left(&window, &files).is_empty(), "no point is older than the window");
    }

    #[test]
    fn what_could_not_be_kept_ends_the_points_that_needed_it() {
        let mut window = window(3000, 20, 0);
        [10, 20, 30].into_iter().for_each(|lsn| window.note_point(Lsn(lsn), at(1)));
        window.lose(Lsn(15), Lsn(25), at(2));
        assert_eq!(window.floor, Lsn(25));
        let points: Vec<u64> = window.points.iter().map(|point| point.lsn.0).collect();
        assert_eq!(points, [10, 30]);
    }

    #[test]
    fn files_are_bounded_by_their_number_too() {
        let files: Vec<Kept> = (1..2000).map(|n| kept(n, 0, u64::from(n), 1)).collect();
        let mut window = window(3000, u64::MAX, 0);
        window.trim(&files, log(0), at(2), BTreeMap::new());
        assert_eq!(left(&window, &files).len(), FILES_MIN + FILES_SHARE * 10);
    }
}
