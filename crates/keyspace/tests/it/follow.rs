//! A keyspace under random commands, and one that follows its log block by block while it is read:
//! equal after each block, and what the one retires the other retires.
//!
//! The follower begins with the first block, or in the middle with what a compaction has left of
//! the records before: those that are superseded are missing, so elements come before their roots.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use base::{DbIndex, Lsn, ObjectId, Record, RecordAddr};
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Contents, Expiry, Inspected, Journal, Keyspace, NoJournal};
use proptest::prelude::*;

use crate::journal::{LoggedKeyspace, MemoryLog, addr};
use crate::{DB0, DB1};

pub(crate) const DB_COUNT: usize = 3;
pub(crate) const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Everything that can be seen of a key.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    db: DbIndex,
    key: Vec<u8>,
    expires_at_ms: Option<i64>,
    object: ObjectId,
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

fn seen(db: DbIndex, entry: &Inspected<'_>) -> Seen {
    let mut parts = Vec::new();
    match &entry.contents {
        Contents::String(string) => {
            parts.push((Vec::new(), string.as_bytes(&mut itoa::Buffer::new()).to_vec()));
        }
        Contents::List(list) => {
            let numbered = (0u32..).zip(list.iter_from(0));
            parts.extend(numbered.map(|(at, element)| (at.to_be_bytes().into(), element.to_vec())));
        }
        Contents::Hash(hash) => {
            hash.for_each_field(|field| {
                let until = format!(" until {:?}", field.expires_at_ms);
                parts.push((field.name.to_vec(), [field.value, until.as_bytes()].concat()));
            });
            parts.sort();
        }
        Contents::Set(set) => {
            parts.extend(set.iter().map(|member| (member.to_vec(), Vec::new())));
            parts.sort();
        }
        Contents::ZSet(zset) => {
            parts
                .extend(zset.iter().map(|(name, score)| (name.into(), score.to_le_bytes().into())));
        }
        Contents::Stream(stream) => {
            let all = format!("{:?}", crate::stream::seen(*stream));
            parts.push((Vec::new(), all.into_bytes()));
        }
    }
    let object = entry.object;
    Seen { db, key: entry.key.to_vec(), expires_at_ms: entry.expires_at_ms, object, parts }
}

pub(crate) fn all(keyspace: &Keyspace) -> Vec<Seen> {
    let mut all = Vec::new();
    for db in keyspace.databases() {
        keyspace.inspect(db, |entry| all.push(seen(db, &entry)));
    }
    all.sort();
    all
}

/// Takes the addresses of what is freed in slices; nothing else is said to it.
#[derive(Clone, Default)]
struct Retired(Arc<Mutex<BTreeSet<RecordAddr>>>);

impl Retired {
    fn add(&self, addr: RecordAddr) {
        let is_new = self.0.lock().expect("one thread").insert(addr);
        assert!(is_new, "{addr} is retired twice");
    }
}

impl Journal for Retired {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        panic!("a follower logs nothing: {record:?}")
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.add(addr);
    }

    fn open_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
}

/// A keyspace that follows.
struct Follower {
    keyspace: Keyspace<Retired>,
    retired: Retired,
    /// Records that a compaction had dropped before they could be applied.
    missing: BTreeSet<RecordAddr>,
    next: usize,
}

impl Follower {
    /// Has applied what a compaction has left of the log: of the retired records every `n`-th.
    fn after(log: &MemoryLog, n: usize, rng: &mut fastrand::Rng) -> Self {
        let retired = Retired::default();
        let keyspace = Keyspace::new(NoJournal, crate::journal::SEED, 4);
        let keyspace = keyspace.with_journal(retired.clone());
        let mut follower = Self { keyspace, retired, missing: BTreeSet::new(), next: 0 };
        let records = log.records();
        let mut superseded = Vec::new();
        for (at, logged) in records.iter().enumerate() {
            if logged.is_retired && rng.usize(..n) > 0 {
                follower.missing.insert(addr(at));
                continue;
            }
            let applied =
                follower.keyspace.apply(&logged.record(), addr(at), Lsn(1), &mut superseded);
            applied.expect("the keyspace logged this record");
        }
        follower.next = records.len();
        drop(records);
        follower.end_block(superseded);
        follower
    }

    fn end_block(&mut self, mut superseded: Vec<RecordAddr>) {
        self.keyspace.end_block(&mut superseded).expect("every database has an id");
        superseded.into_iter().for_each(|addr| self.retired.add(addr));
        let waiting = self.keyspace.waiting().0;
        assert!(waiting <= usize::from(!self.missing.is_empty()), "{waiting} objects wait");
    }

    /// Applies what was logged since the last call: a block.
    fn catch_up(&mut self, log: &MemoryLog) {
        let mut superseded = Vec::new();
        let records = log.records();
        for (at, logged) in records.iter().enumerate().skip(self.next) {
            let record = logged.record();
            self.keyspace.announce(&[record]);
            let applied = self.keyspace.apply(&record, addr(at), Lsn(1), &mut superseded);
            applied.expect("the keyspace logged this record");
        }
        self.next = records.len();
        drop(records);
        self.end_block(superseded);
    }

    /// Reads as clients do, which must find what the keyspace that is followed has.
    fn read(&mut self, primary: &Keyspace, now_ms: i64) {
        self.keyspace.begin_command(now_ms);
        for db in DbIndex::all(DB_COUNT) {
            for key in KEYS {
                let there = primary.inspect_key(db, key);
                let there = there.filter(|e| e.expires_at_ms.is_none_or(|at| at > now_ms));
                assert_eq!(self.keyspace.exists(db, key, true), there.is_some());
                let Some(there) = there else { continue };
                match there.contents {
                    Contents::ZSet(zset) => {
                        let read = self.keyspace.read::<ZSet>(db, key).expect("a sorted set");
                        let read = read.expect("it is there");
                        let last = zset.len() - 1;
                        assert_eq!(read.at(last), zset.at(last));
                        assert_eq!(
                            zset.at(last).and_then(|at| read.rank(at.0)),
                            Some((last, zset.at(last).expect("there").1))
                        );
                    }
                    Contents::List(list) => {
                        let read = self.keyspace.read::<List>(db, key).expect("a list");
                        assert_eq!(
                            read.and_then(|read| read.get(list.len() / 2)),
                            list.get(list.len() / 2)
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    /// Frees everything, and compares what was retired.
    fn compare_retired(&mut self, log: &MemoryLog) {
        if self.keyspace.waiting() != (0, 0) {
            // The elements of the newest object, which was deleted: a root could come.
            return;
        }
        while self.keyspace.free_step(7) {}
        let expected: BTreeSet<RecordAddr> = log
            .records()
            .iter()
            .enumerate()
            .filter(|(at, logged)| logged.is_retired && !self.missing.contains(&addr(*at)))
            .map(|(at, _)| addr(at))
            .collect();
        assert_eq!(*self.retired.0.lock().expect("one thread"), expected);
    }
}

fn element(rng: &mut fastrand::Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0 => vec![b'x'; rng.usize(1..6) * 60],
        1..4 => format!("element:{}", rng.u8(..60)).into_bytes(),
        _ => rng.u8(..120).to_string().into_bytes(),
    }
}

/// One change by any type's command.
fn change(keyspace: &mut LoggedKeyspace, rng: &mut fastrand::Rng, now_ms: i64) {
    change_by(keyspace, rng, now_ms, true);
}

/// As [`change`]; unless `may_pop`, what it does depends on nothing but the data and `rng`.
pub(crate) fn change_by(
    keyspace: &mut LoggedKeyspace,
    rng: &mut fastrand::Rng,
    now_ms: i64,
    may_pop: bool,
) {
    let dbs: Vec<DbIndex> = keyspace.databases().collect();
    let (db, other) = (dbs[rng.usize(..dbs.len())], dbs[rng.usize(..dbs.len())]);
    let key = KEYS[rng.usize(..KEYS.len())];
    let other_key = KEYS[rng.usize(..KEYS.len())];
    let elements: Vec<Vec<u8>> = (0..rng.usize(1..30)).map(|_| element(rng)).collect();
    let create = rng.u8(..5) > 0;
    let at_ms = now_ms + rng.i64(1..200);
    // Other types are in the way: that is a command that fails.
    match rng.u8(..34) {
        0..2 => {
            let expiry = if rng.bool() { Expiry::At(at_ms) } else { Expiry::Clear };
            let long = vec![b's'; rng.usize(..3) * 3000];
            let value = if rng.bool() { long } else { element(rng) };
            keyspace.set_string(db, key, &value, expiry);
        }
        2..4 => {
            let (at, bytes) = (rng.usize(..9000), element(rng));
            let range = at..at + bytes.len();
            let end = range.end;
            let _ = keyspace.change_string(db, key, end, range, |old| old.copy_from_slice(&bytes));
        }
        4..8 => {
            let _ = keyspace.update::<Hash, _>(db, key, create, |hash| {
                elements.iter().for_each(|name| _ = hash.set(name, &element(rng)));
            });
        }
        8..10 => {
            let _ = keyspace.update::<Hash, _>(db, key, false, |hash| {
                elements.iter().for_each(|name| _ = hash.remove(name));
            });
        }
        10..13 => {
            let _ = keyspace.update::<Set, _>(db, key, create, |set| {
                elements.iter().for_each(|name| _ = set.add(name));
            });
        }
        13..15 => {
            let _ = keyspace.update::<Set, _>(db, key, false, |set| {
                elements.iter().for_each(|name| _ = set.remove(name));
                let count = rng.usize(..30);
                if may_pop {
                    set.pop(count);
                }
            });
        }
        15..18 => {
            let _ = keyspace.update::<ZSet, _>(db, key, create, |zset| {
                elements.iter().for_each(|name| _ = zset.set(name, f64::from(rng.u8(..9))));
            });
        }
        18..20 => {
            let _ = keyspace.update::<ZSet, _>(db, key, false, |zset| {
                elements.iter().for_each(|name| _ = zset.remove(name));
                zset.remove_range(0..rng.usize(..10));
            });
        }
        20..23 => {
            let end = if rng.bool() { End::Front } else { End::Back };
            let _ = keyspace.update::<List, _>(db, key, create, |list| {
                elements.iter().for_each(|element| list.push(end, element));
                let at = rng.usize(..=list.view().len());
                list.insert(at, &elements[0]);
            });
        }
        23..25 => {
            let end = if rng.bool() { End::Front } else { End::Back };
            let _ = keyspace.update::<List, _>(db, key, false, |list| {
                list.remove_equal(&elements[0], end, 3);
                list.cut(end, rng.usize(..40).min(list.view().len()));
            });
        }
        25 => _ = keyspace.delete(db, key),
        26 | 27 => _ = keyspace.rename(db, key, other, other_key),
        28 => _ = keyspace.copy(db, key, other, other_key),
        29 | 30 => {
            let at_ms = rng.bool().then_some(at_ms);
            keyspace.set_expires_at_ms(db, key, at_ms);
        }
        31 => keyspace.swap(db, other),
        32 if rng.u8(..3) == 0 => {
            let between = db.min(other)..=db.max(other);
            keyspace.flush(dbs.into_iter().filter(|db| between.contains(db)));
        }
        _ => {
            let _ = keyspace.replace::<Set, _>(db, key, |set| {
                elements.iter().for_each(|name| _ = set.add(name));
            });
        }
    }
}

/// A life of a keyspace, followed from the block `first` on.
fn follow(seed: u64, first: usize, block_count: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let log = MemoryLog::default();
    let mut primary = log.keyspace();
    let mut follower = None;
    let mut now_ms = 0;
    for block in 0..block_count {
        if block == first {
            // Elements of what is being freed are in no entry and may be there or not.
            if rng.bool() {
                while primary.free_step(100) {}
            }
            follower = Some(Follower::after(&log, rng.usize(1..4), &mut rng));
        }
        now_ms += rng.i64(0..20);
        // A block has one command, or a transaction.
        for _ in 0..[1, 1, 1, 5][rng.usize(..4)] {
            primary.begin_command(now_ms);
            change(&mut primary, &mut rng, now_ms);
            if rng.u8(..8) == 0 {
                let db = primary.database(rng.usize(..DB_COUNT)).expect("it exists");
                primary.expire_sample(db, 3);
            }
        }
        if rng.bool() {
            primary.free_step(rng.usize(..200));
        }
        let Some(follower) = &mut follower else { continue };
        follower.catch_up(&log);
        assert_eq!(all(&follower.keyspace), all(&primary), "after block {block}");
        follower.read(&primary, now_ms);
        if rng.u8(..10) == 0 {
            while primary.free_step(100) {}
            follower.compare_retired(&log);
        } else if rng.bool() {
            follower.keyspace.free_step(rng.usize(..100));
        }
    }
    let Some(mut follower) = follower else { return };
    while primary.free_step(100) {}
    let mut superseded = Vec::new();
    follower.keyspace.settle(&mut superseded).expect("every database has an id");
    if first == 0 {
        assert!(superseded.is_empty(), "a log that was followed leaves nothing at its end");
    }
    superseded.into_iter().for_each(|addr| follower.retired.add(addr));
    follower.compare_retired(&log);
    // It goes on as what it followed.
    let mut heir = follower.keyspace.with_journal(Box::new(log.clone()) as Box<dyn Journal>);
    assert_eq!(all(&heir), all(&primary));
    for _ in 0..30 {
        now_ms += rng.i64(0..20);
        heir.begin_command(now_ms);
        change(&mut heir, &mut rng, now_ms);
    }
    while heir.free_step(100) {}
    assert_eq!(all(&log.replay(|_| true)), all(&heir));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_follower_is_what_it_follows(seed: u64, first in 0..150usize) {
        follow(seed, if first < 50 { 0 } else { first }, 200);
    }
}

#[test]
fn a_log_that_is_turned_on_is_followed() {
    let old = MemoryLog::default();
    let mut before = old.keyspace();
    before.begin_command(0);
    before.set_string(DB1, b"old", b"x", Expiry::Clear);
    let _ = before.update::<Hash, _>(DB0, b"old", true, |hash| {
        (0..300u32).for_each(|number| _ = hash.set(&number.to_be_bytes(), b"v"));
    });
    let mut follower = Follower::after(&old, 1, &mut fastrand::Rng::with_seed(1));

    let mut keyspace =
        Keyspace::new(Box::new(NoJournal) as Box<dyn Journal>, crate::journal::SEED, 4);
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        change(&mut keyspace, &mut rng, 0);
    }
    while keyspace.free_step(100) {}
    let survey = old.survey();
    let state = all(&follower.keyspace);
    let mut rewrite =
        keyspace.begin_full_rewrite(Box::new(old.clone()) as Box<dyn Journal>, survey);
    while !keyspace.full_rewrite_step(&mut rewrite, 3) {
        follower.catch_up(&old);
        assert_eq!(all(&follower.keyspace), state, "nothing counts before the end");
    }
    let (journal, rewritten) = rewrite.finish();
    keyspace.set_journal(journal);
    keyspace.begin_command(0);
    let survey = keyspace.finish_full_rewrite(rewritten);
    follower.catch_up(&old);
    assert_eq!(all(&follower.keyspace), all(&keyspace));
    keyspace.retire_surveyed(survey);
    while keyspace.free_step(100) {}
    follower.compare_retired(&old);
    for _ in 0..100 {
        change(&mut keyspace, &mut rng, 0);
        follower.catch_up(&old);
        assert_eq!(all(&follower.keyspace), all(&keyspace));
    }
}
