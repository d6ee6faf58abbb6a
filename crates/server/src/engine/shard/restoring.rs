//! Keys that come back by themselves after a start from the index.
//!
//! ```text
//!   a thread:  which records are needed ─► keys that were hot ─► every other, newest first ─► the end
//!                         │                        │                   │                          │
//!   executor:     bitmaps; compaction begins     install, a slice each iteration     streams that have come with their
//!                                                                                    ends only; then nothing is cold
//! ```
//!
//! What a command asks for is brought back at once, by the keyspace itself; what is described here only
//! makes that rarer. A slice is a fifth of a millisecond, so that clients notice it little.

use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, RecordAddr};
use env::Clock;
use keyspace::{LostKey, Missing, NamesFound, NamesWanted, RestoreError, Restored, Warmth};
use redo::LiveRecords;

use super::{LogHealth, Shard, ShardLog, Sweep, Sweeper};
use crate::logger::Logger;

/// How long the executor takes over keys in one iteration, in microseconds.
const SLICE_US: u64 = 200;

/// With so much to be freed no more garbage is taken over.
const FREEING_MAX: usize = 1024;

/// How often it is told how far it is.
const TOLD_EVERY_US: u64 = 10_000_000;

/// What a restoration has to say.
pub enum Comeback {
    /// Which records of the log are needed, and how many keys of each database expire, if it has any.
    Live(Arc<LiveRecords>, Vec<(DbId, u64)>),
    /// What there is to say of keys that were hot.
    Hot(HotNews),
    /// Some keys.
    Keys(Vec<Restored>),
    /// Keys that cannot be brought back: their records are damaged.
    Lost(Vec<LostKey>),
    /// Every key was told of.
    Done,
    /// The device fails. What was not told of comes back when it is asked for, until it is
    /// [`Comeback::Again`].
    Failing(String),
    /// The device works again.
    Again,
    /// It cannot go on. What was not told of comes back when it is asked for.
    Failed(String),
    /// The index is damaged, or says what the log does not: nothing may be believed of it.
    Distrusted(String),
}

/// News of keys that were hot before the start.
#[derive(Debug)]
pub enum HotNews {
    /// So many of them come next.
    Begun(u64),
    /// All of them have come.
    Done,
    /// What says which they are is of no use.
    OfNoUse(String),
}

/// Restores keys unasked, on another thread.
pub trait Restoration: Send {
    /// What it has to say next, if it has.
    fn take(&mut self) -> Option<Comeback>;
}

/// What can be asked for.
pub enum Wanted {
    /// A key or a value.
    Missing(Missing),
    /// Names of keys.
    Names(NamesWanted),
    /// The addresses of an object's elements.
    Elements(ObjectId),
    /// What the keys of a database had that was emptied.
    Dropped(DbId),
    /// A step of a walk for keys that have expired.
    Sweep(Sweep),
}

/// Reads what is asked for, on other threads.
pub trait Fetching: Send {
    /// Asks for something; [`Fetching::take`] tells of it, whatever becomes of it. `false` if it cannot be
    /// asked for.
    fn ask(&mut self, wanted: Wanted) -> bool;

    /// The block up to which it finds elements, whatever becomes of the index.
    fn indexed_lsn(&mut self) -> Option<Lsn>;

    /// Why the index cannot be of this log, if that was found out; told once.
    fn take_contradiction(&mut self) -> Option<String> {
        None
    }

    /// Keeps the index as it is now, or no more: it says what is garbage of what is being deleted.
    fn pin(&mut self, is_pinned: bool);

    /// Keeps the index as it is now until it was told what keys this database had, which is emptied.
    fn pin_dropped(&mut self, db: DbId);

    /// What comes of something that was asked for, but for garbage and sweeps.
    fn take(&mut self) -> Option<Fetched>;

    /// What comes of garbage that was asked for, or of a sweep.
    fn take_garbage(&mut self) -> Option<Fetched>;
}

/// What comes of something that was asked for.
pub enum Fetched {
    /// A key or a value, if it is there and can be read.
    Missing(Missing, Option<Restored>),
    /// The names with this number, or why they cannot be read.
    Names(u64, Result<NamesFound, RestoreError>),
    /// The addresses of an object's elements, if they can be read.
    Elements(ObjectId, Option<Vec<RecordAddr>>),
    /// Records of keys of a database that was emptied, each with those of its elements: garbage, if they
    /// are there still.
    Garbage(Vec<(RecordAddr, Vec<RecordAddr>)>),
    /// All garbage of a database was told of; or it cannot be read, and is to be asked for again.
    Dropped(DbId, bool),
    /// A step was done, and these keys have expired, each without its value; or it could not be done.
    Swept(Sweep, Result<Vec<Restored>, RestoreError>),
}

/// How far the comeback is, for INFO.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RestoreFigures {
    /// How many keys were cold at the start.
    pub keys_total: u64,
    /// How many are still.
    pub keys_cold: u64,
    /// How many keys were hot before the start, as far as that is known, and how many of these have come.
    pub hot_total: u64,
    /// See `hot_total`.
    pub hot_done: u64,
    /// What comes now.
    pub stage: Stage,
    /// How long it took so far, or took in all, in microseconds.
    pub elapsed_us: u64,
    /// Whether every key is in memory.
    pub is_done: bool,
    /// Whether the device fails that they come from, and is tried again.
    pub is_failing: bool,
}

impl RestoreFigures {
    /// How many keys have come.
    pub(crate) const fn keys_done(&self) -> u64 {
        self.keys_total.saturating_sub(self.keys_cold)
    }

    fn percent(&self) -> u64 {
        self.keys_done() * 100 / self.keys_total.max(1)
    }

    /// How many have come in a second, so far.
    pub(crate) fn keys_per_second(&self) -> u64 {
        self.keys_done() * 1000 / (self.elapsed_us / 1000).max(1)
    }

    /// How long the others take at that rate.
    pub(crate) fn seconds_left(&self) -> u64 {
        self.keys_cold / self.keys_per_second().max(1)
    }
}

/// What comes back unasked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing yet: it is not known what is needed.
    #[default]
    Validity,
    /// What was hot before the start.
    Hot,
    /// All that is left.
    Rest,
}

impl Stage {
    /// As INFO names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Validity => "garbage",
            Self::Hot => "hot",
            Self::Rest => "rest",
        }
    }
}

/// Streams that were added to while all other keys came back, and have come with their ends only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rests {
    /// The rest was asked for of those up to this one.
    After(Option<ObjectId>),
    /// Of all.
    Asked,
}

/// Whether keys come back unasked.
enum Course {
    Going,
    /// For this reason none does; it is tried again and again.
    Failing(String),
    /// For this reason none does until the next start.
    Ended(String),
}

/// See the file's top.
pub(crate) struct Restoring {
    source: Box<dyn Restoration>,
    /// Taken, and not yet taken over.
    next: Option<Comeback>,
    is_done: bool,
    rests: Rests,
    stage: Stage,
    /// Keys that were hot: how many there are, and how many have come.
    hot_total: u64,
    hot_done: u64,
    course: Course,
    /// How many keys there was no room for.
    left_out: u64,
    /// The index contradicts the log, or is damaged.
    distrust: Option<String>,
    since_us: u64,
    told_us: u64,
    keys_total: u64,
}

impl Restoring {
    /// Why nothing comes back unasked now.
    fn failure(&self) -> Option<&str> {
        match &self.course {
            Course::Going => None,
            Course::Failing(why) | Course::Ended(why) => Some(why),
        }
    }

    fn note_failing(&mut self, why: String, logger: &Logger) {
        if matches!(self.course, Course::Going) {
            logger.warning(&format!(
                "The log cannot be read in the background, and is tried again. Until then keys come \
                 back only when they are asked for, and nothing is compacted before it is known what \
                 is garbage: {why}"
            ));
            self.course = Course::Failing(why);
        }
    }

    fn note_hot(&mut self, news: HotNews, now_us: u64, logger: &Logger) {
        match news {
            HotNews::Begun(count) => (self.stage, self.hot_total) = (Stage::Hot, count),
            HotNews::Done => {
                self.stage = Stage::Rest;
                let (keys, ms) = (self.hot_done, now_us.saturating_sub(self.since_us) / 1000);
                logger.notice(&format!(
                    "{keys} keys that were hot before the start have come back, after {ms} ms"
                ));
            }
            HotNews::OfNoUse(why) => {
                logger.warning(&format!(
                    "Which keys were hot before the start is not known, and all come in the order of \
                     the log: {why}"
                ));
            }
        }
    }

    /// How hot the keys are that come now.
    fn warmth(&self) -> Warmth {
        if self.stage == Stage::Hot { Warmth::Hot } else { Warmth::Unknown }
    }

    fn note_again(&mut self, logger: &Logger) {
        if matches!(self.course, Course::Failing(_)) {
            logger.notice("The log can be read in the background again");
            self.course = Course::Going;
        }
    }

    fn end(&mut self, why: String, logger: &Logger) {
        if matches!(self.course, Course::Ended(_)) {
            return;
        }
        logger.warning(&format!(
            "Keys come back only when they are asked for, until the next start: {why}"
        ));
        self.course = Course::Ended(why);
    }
}

impl Shard {
    /// Keys come back from `source` from now on.
    pub(in crate::engine) fn begin_restoring(&mut self, source: Box<dyn Restoration>, now_us: u64) {
        self.restoring = Some(Restoring {
            source,
            next: None,
            is_done: false,
            rests: Rests::After(None),
            stage: Stage::Validity,
            hot_total: 0,
            hot_done: 0,
            course: Course::Going,
            left_out: 0,
            distrust: None,
            since_us: now_us,
            told_us: now_us,
            keys_total: self.keyspace.cold_keys(),
        });
        self.restored = None;
    }

    /// What memory lacks is read by `fetching` from now on.
    pub(in crate::engine) fn set_fetching(&mut self, fetching: Option<Box<dyn Fetching>>) {
        (self.fetching, self.is_index_pinned) = (fetching, false);
        self.keyspace.note_pinned(None);
        self.keyspace.forget_asked();
        self.sweeper = Sweeper::default();
    }

    /// See [`Fetching::ask`].
    pub(in crate::engine) fn ask(&mut self, wanted: Wanted) -> bool {
        self.fetching.as_mut().is_some_and(|fetching| fetching.ask(wanted))
    }

    /// Asks for what is missing: what it is to be put together with stays as it is until
    /// [`keyspace::Keyspace::note_told`].
    pub(in crate::engine) fn ask_for(&mut self, missing: &Missing) -> bool {
        let is_asked = self.ask(Wanted::Missing(missing.clone()));
        if is_asked {
            self.keyspace.note_asked(missing);
        }
        is_asked
    }

    /// What comes next of the streams that were added to while all other keys came back, and have come with their ends only:
    /// each once, when the others are there.
    pub(in crate::engine) fn next_rest(&mut self) -> Option<Missing> {
        let restoring = self.restoring.as_mut().filter(|restoring| restoring.is_done)?;
        let Rests::After(after) = restoring.rests else { return None };
        let next = self.keyspace.rest_after(after);
        restoring.rests = match &next {
            Some((stream, _)) => Rests::After(Some(*stream)),
            None => Rests::Asked,
        };
        next.map(|(_, missing)| missing)
    }

    /// See [`Fetching::take`].
    pub(in crate::engine) fn take_fetched(&mut self) -> Option<Fetched> {
        self.fetching.as_mut()?.take()
    }

    /// See [`Fetching::take_garbage`]. None while there is enough to be freed.
    pub(in crate::engine) fn take_garbage(&mut self) -> Option<Fetched> {
        if self.keyspace.freeing() >= FREEING_MAX {
            return None;
        }
        self.fetching.as_mut()?.take_garbage()
    }

    /// Keeps the index that knows what databases had that were just emptied.
    pub(in crate::engine) fn pin_dropped(&mut self) {
        if let Some(fetching) = &mut self.fetching {
            self.keyspace.dropped().iter().for_each(|db| fetching.pin_dropped(*db));
        }
    }

    /// Learns which large values may leave memory.
    pub(in crate::engine) fn note_indexed(&mut self) {
        let indexed = self.fetching.as_mut().and_then(|fetching| fetching.indexed_lsn());
        // What has come from the log at the start does not say which blocks it was in.
        let indexed = indexed.filter(|lsn| self.log().is_none_or(|log| log.has_start(*lsn)));
        self.keyspace.note_indexed(indexed);
    }

    /// Has listed what is garbage of what was deleted and was not in memory. Called before the block
    /// ends in which it was, so that no index knows of that.
    pub(in crate::engine) fn list_garbage(&mut self) {
        let Some(fetching) = &mut self.fetching else { return };
        let is_wanted = self.keyspace.freeing() + self.keyspace.unlisted() > 0;
        if is_wanted != self.is_index_pinned {
            self.is_index_pinned = is_wanted;
            // The one that is pinned knows that much, or more.
            let pinned = is_wanted.then(|| fetching.indexed_lsn().unwrap_or(Lsn::ZERO));
            fetching.pin(is_wanted);
            self.keyspace.note_pinned(pinned);
        }
        for object in self.keyspace.take_bare_garbage() {
            if !fetching.ask(Wanted::Elements(object)) {
                self.keyspace.retire_elements(object, None);
            }
        }
        for db in self.keyspace.take_dropped() {
            // Without threads it stays until the next start.
            fetching.ask(Wanted::Dropped(db));
        }
    }

    /// Whether keys are coming back unasked.
    pub(in crate::engine) const fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// Looks whether everything is in memory again.
    pub(in crate::engine) fn note_full(&mut self) {
        self.keyspace.note_full();
        if self.restoring.is_none() && self.keyspace.is_cold() {
            self.keyspace.end_cold();
        }
    }

    /// Why the index is not to be believed, if that is so; said once.
    pub(in crate::engine) fn take_distrust(&mut self) -> Option<String> {
        let in_pass = self.restoring.as_mut().and_then(|restoring| restoring.distrust.take());
        in_pass.or_else(|| {
            let why = self.fetching.as_mut()?.take_contradiction()?;
            // If an index that was just built is wrong, too, to build it again does not help.
            (!std::mem::replace(&mut self.is_contradicted, true)).then_some(why)
        })
    }

    /// Whether there is something to take over now.
    pub(in crate::engine) fn has_comeback(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| restoring.next.is_some())
    }

    /// Why nothing comes back unasked now.
    pub(in crate::engine) fn restore_failure(&self) -> Option<&str> {
        self.restoring.as_ref()?.failure()
    }

    /// How far it is; `None` if no key was cold at the start.
    pub(in crate::engine) fn restore_figures(&self, now_us: u64) -> Option<RestoreFigures> {
        let Some(restoring) = &self.restoring else { return self.restored };
        Some(RestoreFigures {
            keys_total: restoring.keys_total,
            keys_cold: self.keyspace.cold_keys(),
            hot_total: restoring.hot_total,
            hot_done: restoring.hot_done,
            stage: restoring.stage,
            elapsed_us: now_us.saturating_sub(restoring.since_us),
            is_done: false,
            is_failing: matches!(restoring.course, Course::Failing(_)),
        })
    }

    /// Whether keys come back unasked.
    pub(super) fn is_warming(&self) -> bool {
        let failure = |restoring: &Restoring| restoring.failure().is_none();
        self.keyspace.is_cold() && self.restoring.as_ref().is_some_and(failure)
    }

    /// Whether it is known which records of the log are garbage.
    pub(in crate::engine) fn knows_validity(&self) -> bool {
        self.log().is_none_or(ShardLog::knows_validity)
    }

    /// Takes over some of what has come. When memory `is_short` once so many bytes more are taken, keys come
    /// back without their values, and those that take more than `key_bytes_max` do not come back. If
    /// `reads_rests`, it ends only when the rests of all streams with ends in memory have come.
    pub(in crate::engine) fn restore_slice(
        &mut self,
        clock: &dyn Clock,
        logger: &Logger,
        (is_short, reads_rests): (&dyn Fn(u64) -> bool, bool),
        key_bytes_max: u64,
    ) {
        if self.restoring.is_some() {
            self.note_indexed();
        }
        let takes_records = self.log_health() == LogHealth::Good && !self.is_log_congested();
        let Some(restoring) = &mut self.restoring else { return };
        let start_us = clock.monotonic_us();
        while let Some(comeback) = restoring.next.take().or_else(|| restoring.source.take()) {
            if clock.monotonic_us() - start_us >= SLICE_US {
                restoring.next = Some(comeback);
                break;
            }
            match comeback {
                Comeback::Live(live, expiring) => {
                    for (db, count) in expiring {
                        self.keyspace.note_cold_expiring(db, count);
                    }
                    let log = self.keyspace.journal_mut().log_mut();
                    restoring.stage = Stage::Rest;
                    if let Some(Err(why)) = log.map(|log| log.note_live(live)) {
                        restoring.distrust.get_or_insert(why.to_string());
                    }
                }
                Comeback::Hot(news) => restoring.note_hot(news, clock.monotonic_us(), logger),
                Comeback::Keys(keys) => {
                    let bytes: usize = keys.iter().map(Restored::bytes).sum();
                    let (is_short, warmth) = (is_short(bytes as u64), restoring.warmth());
                    if warmth == Warmth::Hot {
                        restoring.hot_done += keys.len() as u64;
                    }
                    for key in keys {
                        if is_short && self.keyspace.has_no_room_for_keys(key_bytes_max) {
                            restoring.left_out += 1;
                        } else {
                            self.keyspace.install_key(key, !is_short, warmth);
                        }
                    }
                }
                Comeback::Lost(keys) if takes_records => {
                    keys.into_iter().for_each(|key| self.keyspace.lose_cold(key));
                }
                Comeback::Lost(keys) => {
                    // The log takes nothing now.
                    restoring.next = Some(Comeback::Lost(keys));
                    break;
                }
                Comeback::Done => restoring.is_done = true,
                Comeback::Failing(why) => restoring.note_failing(why, logger),
                Comeback::Again => restoring.note_again(logger),
                Comeback::Failed(why) => restoring.end(why, logger),
                Comeback::Distrusted(why) => _ = restoring.distrust.get_or_insert(why),
            }
        }
        let left = self.keyspace.cold_keys();
        let now_us = clock.monotonic_us();
        let has_ended = matches!(restoring.course, Course::Ended(_));
        // Where memory is short, or nothing reads them, they come when they are asked for.
        let has_rests = reads_rests
            && self.fetching.is_some()
            && !is_short(0)
            && (restoring.rests != Rests::Asked || self.keyspace.awaited_rests() > 0);
        let is_over = (restoring.is_done && !has_rests) || (has_ended && left == 0);
        if is_over {
            return self.end_restoring(now_us, logger);
        }
        if now_us - restoring.told_us >= TOLD_EVERY_US && restoring.failure().is_none() {
            restoring.told_us = now_us;
            if let Some(figures) = self.restore_figures(now_us) {
                let (done, percent, per_second) =
                    (figures.keys_done(), figures.percent(), figures.keys_per_second());
                logger.notice(&format!(
                    "{done} keys are back in memory ({percent} %), {per_second} a second; the rest in about {} s",
                    figures.seconds_left()
                ));
            }
        }
    }

    fn end_restoring(&mut self, now_us: u64, logger: &Logger) {
        let Some(figures) = self.restore_figures(now_us) else { return };
        let left_out = self.restoring.as_ref().map_or(0, |restoring| restoring.left_out);
        // Those that came back again count here, too: then fewer are told than are missing, never more.
        let elsewhere = left_out + self.keyspace.departed();
        let left = self.keyspace.end_cold();
        let missing = left.saturating_sub(elsewhere);
        if missing > 0 {
            let why =
                format!("{missing} keys that the index has counted were not found in the log");
            if let Some(restoring) = &mut self.restoring {
                restoring.is_done = false;
                restoring.end(why, logger);
            }
            return;
        }
        let (ms, keys) = (figures.elapsed_us / 1000, figures.keys_total.saturating_sub(left));
        logger.notice(&match left {
            0 => format!("All {keys} keys are back in memory, after {ms} ms"),
            _ => format!("{keys} keys are back in memory, after {ms} ms; {left} are read when they are asked for"),
        });
        self.restored = Some(RestoreFigures { keys_cold: left, is_done: true, ..figures });
        self.restoring = None;
    }
}
