//! Which values leave memory, and which keys: a hand that goes round over the pages of the tables.
//!
//! ```text
//!   page 0    page 1    page 2    page 3 …          heat of a value: how often, or how lately, it was used
//!                         ▲
//!                         hand: values up to the threshold go; the heat of all is counted
//! ```
//!
//! A value that is cold lies in the log already, so nothing is written and nothing is searched for: the
//! hand passes over a page of some hundred keys that lie side by side, and whatever is not hotter than
//! the threshold goes. The threshold is such that a round drops about an eighth of what may go, twice as much
//! after each in which memory has not shrunk, and all of it after a round in which nothing went; the
//! counts that say so are those of the round so far and of the rounds before, of which each counts half
//! of the next. What has come back is passed over once: a request that waited for it finds it.
//!
//! Where keys whose values are gone take too much, the hand takes those of a page out of the table, too, that
//! are no hotter than the threshold: then the index alone knows them. Keys that are watched stay.
//!
//! # Invariants
//! - A value goes only if its record is durable; a large one only if the index knows all of its elements.
//! - A key goes only if the index knows its record, and after its value, unless that is no larger than a trace of
//!   it. One of a stream whose end is in memory stays.
//! - No record is written, none is retired.
//! - While a walk is under way ([`crate::walk`]) nothing goes.

use base::{DbIndex, Lsn, RecordAddr};

use crate::access;
use crate::db::Parts;
use crate::due_hashes::DueHashes;
use crate::entry::{Entry, Kind};
use crate::free::FreeQueue;
use crate::hash;
use crate::hasher::KeyHasher;
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::settings::Settings;
use crate::table::Keyed;

/// One in so many values goes in a round, unless memory stays full: then twice as many in each, up to all.
const ROUND_SHARE: u64 = 8;
/// Values that are looked at before the first one goes.
const FIRST_SAMPLES: usize = 256;
/// After so many pages the threshold is looked at again.
const PAGES_PER_LOOK: u32 = 16;
/// What a key takes whose value is not in memory, about, with its share of the table.
pub(crate) const BARE_KEY_BYTES: u64 = 72;
/// How many heats are told apart.
const HEATS: usize = 256;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Hand {
    db: DbIndex,
    page: usize,
    pages_since_look: u32,
    heats: Heats,
    threshold: u8,
    /// How many values and keys went since the hand was at the first page.
    dropped: u64,
    /// How many were passed over, because they had just come back.
    passed_over: u64,
    /// How many values are no larger than what would be left of them, so far in this round.
    small: u64,
    /// In the round before.
    small_before: u64,
    /// There was nothing that could go in the round before: whatever may go goes in this one.
    is_desperate: bool,
    /// One in so many values goes, if it is not 0: otherwise one in [`ROUND_SHARE`].
    hurried_share: u64,
}

impl Hand {
    fn threshold(&self) -> u8 {
        match self.hurried_share {
            0 => self.heats.threshold(ROUND_SHARE),
            share => self.heats.threshold(share),
        }
    }

    /// Whether all goes that may, however hot.
    const fn takes_all(&self) -> bool {
        self.is_desperate || self.hurried_share == 1
    }
}

/// How many values have which heat.
pub(crate) struct Heats(Box<[u64; HEATS]>);

impl Default for Heats {
    fn default() -> Self {
        Self(Box::new([0; HEATS]))
    }
}

impl Heats {
    pub(crate) fn note(&mut self, heat: u8) {
        self.0[usize::from(heat)] += 1;
    }

    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many values were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The least heat up to which the share lies that is to go.
    fn threshold(&self, share: u64) -> u8 {
        self.coldest(self.count() / share)
    }

    /// The least heat up to which more than so many values lie.
    pub(crate) fn coldest(&self, wanted: u64) -> u8 {
        let mut below = 0;
        let found = self.0.iter().position(|count| {
            below += count;
            below > wanted
        });
        u8::try_from(found.unwrap_or(HEATS - 1)).expect("there are 256")
    }

    /// How many values are hotter.
    pub(crate) fn above(&self, heat: u8) -> u64 {
        self.0[usize::from(heat) + 1..].iter().sum()
    }

    fn age(&mut self) {
        self.0.iter_mut().for_each(|count| *count /= 2);
    }
}

/// Keys that were taken out of memory.
#[derive(Default)]
struct Departed {
    count: u64,
    lacks_index: bool,
}

/// What became of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cooled {
    /// How many values have left memory.
    pub values: u64,
    /// How many keys have.
    pub keys: u64,
    /// The hand has come round.
    pub round: Option<Round>,
    /// A large value or a key could go, if the index knew all of it.
    pub lacks_index: bool,
}

/// What became of all pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// How many values and keys have left memory.
    pub gone: u64,
    /// All that may go was to go, however hot.
    pub was_desperate: bool,
}

impl Keyspace {
    /// Drops the values of a page that are not used much: the log has them, and brings them back when
    /// they are asked for. Keys without values take `key_bytes_max` together; what is above that goes, too. In the
    /// middle of a transaction there is no such bound: its keys stay where it has found them.
    ///
    /// While a walk is under way nothing may leave memory, and the round is over at once.
    pub fn cool_step(&mut self, key_bytes_max: Option<u64>) -> Cooled {
        if self.is_walked() {
            let round = Some(Round { gone: 0, was_desperate: true });
            return Cooled { round, ..Cooled::default() };
        }
        let mut hand = std::mem::take(&mut self.hand);
        if hand.heats.is_empty() {
            self.sample(&mut hand);
        }
        let keys = self.bare_values() + hand.small_before.max(hand.small);
        let takes_keys = key_bytes_max
            .is_some_and(|bytes_max| hand.takes_all() || keys * BARE_KEY_BYTES > bytes_max);
        if takes_keys {
            self.forget_lookups();
        }
        let keys = if takes_keys { self.take_keys(&mut hand) } else { Departed::default() };
        let mut cooled = self.cool_page(&mut hand);
        hand.dropped += keys.count;
        (cooled.keys, cooled.lacks_index) = (keys.count, cooled.lacks_index || keys.lacks_index);
        self.stats.cooled += cooled.values;
        self.may_be_bare |= cooled.values > 0;
        self.hand = hand;
        cooled
    }

    /// Learns how hot values are before the first of them goes.
    fn sample(&mut self, hand: &mut Hand) {
        let indexed = self.indexed_lsn();
        for db in self.databases() {
            for _ in 0..FIRST_SAMPLES {
                let Some(entry) = self.dbs[db].keys().random(&mut self.rng) else { break };
                if !entry.is_bare() && may_go(entry, &self.recorder.journal, indexed) {
                    hand.heats.note(heat(entry, &self.settings, self.now_ms));
                }
            }
        }
        hand.threshold = hand.threshold();
    }

    /// Memory stays full: from now on twice as many values go in a round.
    pub fn hurry(&mut self) {
        let share = match self.hand.hurried_share {
            0 => ROUND_SHARE,
            share => share,
        };
        self.hand.hurried_share = (share / 2).max(1);
    }

    /// There is room: rounds take as much as ever.
    pub const fn calm_down(&mut self) {
        self.hand.hurried_share = 0;
    }

    /// Takes bare keys out of the page under the hand.
    fn take_keys(&mut self, hand: &mut Hand) -> Departed {
        let mut departed = Departed::default();
        let Some(indexed) = self.indexed_lsn() else {
            departed.lacks_index = true;
            return departed;
        };
        let Self { dbs, recorder, settings, watched, ends, now_ms, .. } = self;
        let (db, page) = (hand.db, hand.page);
        let Some(from) = dbs.get_mut(db) else { return departed };
        let threshold = if hand.takes_all() { u8::MAX } else { hand.threshold };
        let goes = |entry: &mut Entry| {
            if entry.is_lost() || !(entry.is_bare() || is_small(entry)) || ends.has_of(entry) {
                return false;
            }
            let heat = heat(entry, settings, *now_ms);
            if !entry.is_bare() {
                hand.heats.note(heat);
                if entry.take_returned() {
                    hand.passed_over += 1;
                    return false;
                }
            }
            if heat > threshold {
                return false;
            }
            let may_depart = may_depart(entry, &recorder.journal, indexed);
            departed.lacks_index |= !may_depart;
            may_depart && !watched.has(db, entry.key())
        };
        let taken = from.take_from_page(recorder.hasher, page, goes);
        departed.count = taken.len() as u64;
        taken.iter().for_each(|entry| self.depart(db, entry));
        departed
    }

    fn cool_page(&mut self, hand: &mut Hand) -> Cooled {
        let (indexed, known) = (self.indexed_lsn(), self.known_of_ends());
        let Self { dbs, recorder, settings, free, ends, now_ms, .. } = self;
        let mut cooled = Cooled::default();
        while let Some(db) = dbs.get_mut(hand.db) {
            let Parts { keys, bare_count, due_hashes, .. } = db.parts();
            let Some(entries) = keys.page_mut(hand.page) else {
                (hand.db, hand.page) = (hand.db.next(), 0);
                continue;
            };
            let threshold = if hand.takes_all() { u8::MAX } else { hand.threshold };
            for entry in entries {
                if entry.is_bare() {
                    if ends.has_of(entry) {
                        let is_passed_over = entry.take_returned();
                        let goes = !is_passed_over && heat(entry, settings, *now_ms) <= threshold;
                        let end = ends.cool(entry, &recorder.journal, known, goes, free);
                        hand.dropped += u64::from(end.is_less);
                        cooled.lacks_index |= end.lacks_index;
                        hand.passed_over += u64::from(is_passed_over);
                    }
                    continue;
                }
                hand.small += u64::from(is_small(entry));
                if !may_go(entry, &recorder.journal, indexed) {
                    cooled.lacks_index |= entry.object().is_some();
                    continue;
                }
                let heat = heat(entry, settings, *now_ms);
                hand.heats.note(heat);
                if entry.take_returned() {
                    hand.passed_over += 1;
                } else if heat <= threshold {
                    forget_in_table(entry, recorder.hasher, due_hashes, free);
                    *bare_count += 1;
                    cooled.values += 1;
                }
            }
            hand.page += 1;
            hand.dropped += cooled.values;
            hand.pages_since_look += 1;
            if hand.pages_since_look >= PAGES_PER_LOOK {
                hand.pages_since_look = 0;
                hand.threshold = hand.threshold();
            }
            return cooled;
        }
        hand.threshold = hand.threshold();
        hand.heats.age();
        let gone = std::mem::take(&mut hand.dropped);
        let passed_over = std::mem::take(&mut hand.passed_over);
        hand.small_before = std::mem::take(&mut hand.small);
        let is_desperate = gone == 0 && passed_over == 0;
        let was_desperate = hand.takes_all();
        hand.is_desperate = is_desperate;
        (hand.db, hand.page) = (DbIndex::FIRST, 0);
        cooled.round = Some(Round { gone, was_desperate });
        cooled
    }

    /// Drops about so many of a hundred values of a page, used or not, whether memory comes free or not:
    /// for tests.
    pub fn drop_some(&mut self, percentage: u8) {
        if self.is_walked() {
            return;
        }
        let (indexed, known) = (self.indexed_lsn(), self.known_of_ends());
        self.may_be_bare = true;
        let Self { dbs, recorder, free, ends, hand, rng, .. } = self;
        let Some(db) = dbs.get_mut(hand.db) else {
            hand.db = DbIndex::FIRST;
            return;
        };
        let Parts { keys, bare_count, due_hashes, .. } = db.parts();
        let Some(entries) = keys.page_mut(hand.page) else {
            (hand.db, hand.page) = (hand.db.next(), 0);
            return;
        };
        for entry in entries {
            if ends.has_of(entry) {
                let goes = rng.u8(..100) < percentage;
                ends.cool(entry, &recorder.journal, known, goes, free);
                continue;
            }
            let is_chosen = !entry.is_bare() && rng.u8(..100) < percentage;
            if is_chosen && is_in_log(entry, &recorder.journal, indexed) {
                forget_in_table(entry, recorder.hasher, due_hashes, free);
                *bare_count += 1;
            }
        }
        hand.page += 1;
    }

    /// As [`Keyspace::drop_some`], of keys whose values were dropped. Not in the middle of a transaction.
    pub fn drop_some_keys(&mut self, percentage: u8) {
        self.forget_lookups();
        let Some(indexed) = self.indexed_lsn().filter(|_| !self.is_walked()) else { return };
        let Self { dbs, recorder, watched, ends, hand, rng, .. } = self;
        let (db, page) = (hand.db, hand.page);
        let Some(from) = dbs.get_mut(db) else { return };
        let goes = |entry: &mut Entry| {
            let is_chosen = rng.u8(..100) < percentage;
            is_chosen
                && may_depart(entry, &recorder.journal, indexed)
                && !ends.has_of(entry)
                && !watched.has(db, entry.key())
        };
        let taken = from.take_from_page(recorder.hasher, page, goes);
        taken.iter().for_each(|entry| self.depart(db, entry));
    }

    /// Takes a key out of memory whose value was dropped, if the index knows it. Whether it was taken out. Not in
    /// the middle of a transaction.
    pub fn depart_key(&mut self, db: DbIndex, key: &[u8]) -> bool {
        self.forget_lookups();
        let indexed = self.indexed_lsn().filter(|_| !self.is_walked());
        let (hash, Some(indexed)) = (self.hash_of(key), indexed) else { return false };
        let Self { dbs, recorder, watched, ends, .. } = self;
        let Some(entry) = dbs[db].keys().find(hash, key) else { return false };
        let may_depart = may_depart(entry, &recorder.journal, indexed) && !ends.has_of(entry);
        if !may_depart || watched.has(db, key) {
            return false;
        }
        let Some(entry) = dbs[db].take(recorder.hasher, hash, key) else { return false };
        self.depart(db, &entry);
        true
    }

    /// Drops the value of a key, or what memory has of it, if the log has it and memory comes free. Whether it was dropped.
    pub fn cool_key(&mut self, db: DbIndex, key: &[u8]) -> bool {
        let (hash, indexed, known) = (self.hash_of(key), self.indexed_lsn(), self.known_of_ends());
        let Self { dbs, recorder, free, ends, walk, .. } = self;
        let Parts { keys, bare_count, due_hashes, .. } = dbs[db].parts();
        let Some(entry) = keys.find_mut(hash, key) else { return false };
        if ends.has_of(entry) {
            return ends.cool(entry, &recorder.journal, known, true, free).is_less;
        }
        if walk.is_some() || entry.is_bare() || !may_go(entry, &recorder.journal, indexed) {
            return false;
        }
        forget_in_table(entry, recorder.hasher, due_hashes, free);
        *bare_count += 1;
        self.may_be_bare = true;
        true
    }
}

/// Whether a value is in the log, can be found there, and dropping it is of use. The index knows all
/// elements up to the block `indexed`.
pub(crate) fn may_go(entry: &Entry, journal: &dyn Journal, indexed: Option<Lsn>) -> bool {
    // A number takes as little as its address.
    let is_number = entry.value_kind() == Kind::Int;
    let is_worth_it = entry.object().is_some() || (!is_number && entry.droppable_bytes() > 0);
    is_worth_it && is_in_log(entry, journal, indexed)
}

/// Whether a key may leave memory, too: its value has, or is as small as what would be left of it; and the index
/// knows its record.
fn may_depart(entry: &Entry, journal: &dyn Journal, indexed: Lsn) -> bool {
    let is_known =
        |addr: RecordAddr| journal.lsn_bound_of(addr).is_some_and(|bound| bound <= indexed);
    let is_empty = entry.is_bare() || is_small(entry);
    is_empty && !entry.is_lost() && entry.addr().is_some_and(is_known)
}

/// Whether nothing is won by dropping the value and keeping the key.
fn is_small(entry: &Entry) -> bool {
    let is_number = entry.value_kind() == Kind::Int;
    !entry.is_bare() && entry.object().is_none() && (is_number || entry.droppable_bytes() == 0)
}

/// Takes the value out of memory, and leaves it in the log.
pub(crate) fn forget_value(entry: &mut Entry, free: &mut FreeQueue) {
    if let Some(object) = entry.make_bare() {
        free.spent(*object);
    }
}

/// The same of an entry in its table: fields of it are due no more, until it comes back.
fn forget_in_table(
    entry: &mut Entry,
    hasher: KeyHasher,
    due_hashes: &mut DueHashes,
    free: &mut FreeQueue,
) {
    if hash::first_expiry_ms(entry).is_some() {
        due_hashes.set(hasher.hash(entry.key()), None);
    }
    forget_value(entry, free);
}

fn is_in_log(entry: &Entry, journal: &dyn Journal, indexed: Option<Lsn>) -> bool {
    let is_there = entry.addr().is_some_and(|addr| journal.undurable_lsn_of(addr).is_none());
    let is_known = |changed_at| indexed.is_some_and(|indexed| changed_at <= indexed);
    is_there && entry.object().is_none_or(|object| is_known(object.changed_at))
}

/// How hot a value is: how often it was used, or how lately, on a scale of its logarithm.
pub(crate) fn heat(entry: &Entry, settings: &Settings, now_ms: i64) -> u8 {
    if settings.eviction.is_lfu() {
        let frequency = access::frequency(entry.access(), settings, now_ms);
        return u8::try_from(frequency).unwrap_or(u8::MAX);
    }
    let idle_s = (access::idle_ms(entry.access(), now_ms) / 1000).unsigned_abs();
    let Some(octave) = idle_s.checked_ilog2() else { return u8::MAX };
    // Eight steps to a doubling.
    let step = ((idle_s << 3) >> octave) & 7;
    u8::MAX - u8::try_from(u64::from(octave) * 8 + step + 1).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EvictionPolicy;

    #[test]
    fn the_threshold_is_where_the_share_lies_that_goes() {
        let mut heats = Heats::default();
        assert!(heats.is_empty());
        (0..=99).for_each(|heat| heats.note(heat));
        assert_eq!(heats.threshold(ROUND_SHARE), 12);
        assert_eq!(heats.threshold(1), u8::MAX, "all go");
        let mut heats = Heats::default();
        (0..5).for_each(|_| heats.note(5));
        assert_eq!(heats.threshold(ROUND_SHARE), 5, "all are the same");
    }

    #[test]
    fn what_was_used_lately_is_hotter() {
        let settings = Settings { eviction: EvictionPolicy::ColdLru, ..Settings::default() };
        let mut entry = Entry::with_bytes(b"k", Kind::Str, b"v");
        entry.set_access(access::lru_clock(1_000_000));
        let heat_after = |seconds: i64| heat(&entry, &settings, 1_000_000 + seconds * 1000);
        let heats: Vec<u8> = [0, 1, 2, 3, 60, 3600, 86400].map(heat_after).to_vec();
        assert!(heats.is_sorted_by(|a, b| a > b), "{heats:?}");
        assert_eq!(heats[0], 255);
    }
}
