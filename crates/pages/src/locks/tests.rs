//! The lock table by itself, and compared with the simplest possible model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

impl LockTable {
    fn is_waiting(&self, id: TransactionId) -> bool {
        self.queue.iter().any(|claim| claim.id == id)
    }

    fn holds(&self, id: TransactionId, name: LockName<'_>, mode: Mode) -> bool {
        let own = self.granted_at(name.place(&self.hasher)).find(|claim| claim.id == id);
        own.is_some_and(|own| name.rights(mode).without(own.rights) == Rights::NONE)
    }
}

fn record(key: &[u8]) -> LockName<'_> {
    LockName::Record(0, key)
}

fn gap(key: &[u8]) -> LockName<'_> {
    LockName::Gap(0, Some(key))
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let mut locks = LockTable::default();
    assert_eq!(locks.request(1, record(b"a"), Mode::Shared), Outcome::Granted);
    assert_eq!(locks.request(2, record(b"a"), Mode::Shared), Outcome::Granted);
    assert_eq!(locks.request(3, record(b"a"), Mode::Exclusive), Outcome::Waiting);
    // A later reader does not overtake the writer.
    assert_eq!(locks.request(4, record(b"a"), Mode::Shared), Outcome::Waiting);
    locks.release(1);
    assert!(locks.is_waiting(3));
    locks.release(2);
    assert!(!locks.is_waiting(3) && locks.is_waiting(4));
    locks.release(3);
    assert!(!locks.is_waiting(4));
}

#[test]
fn cycles_are_refused() {
    let mut locks = LockTable::default();
    for (id, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
        assert_eq!(locks.request(id, record(key), Mode::Exclusive), Outcome::Granted);
    }
    assert_eq!(locks.request(1, record(b"b"), Mode::Shared), Outcome::Waiting);
    assert_eq!(locks.request(2, record(b"c"), Mode::Exclusive), Outcome::Waiting);
    assert_eq!(locks.request(3, record(b"a"), Mode::Shared), Outcome::Deadlock);
    locks.release(3);
    assert!(!locks.is_waiting(2));
}

#[test]
fn two_readers_that_both_want_to_write_are_a_cycle() {
    let mut locks = LockTable::default();
    assert_eq!(locks.request(1, record(b"a"), Mode::Shared), Outcome::Granted);
    assert_eq!(locks.request(2, record(b"a"), Mode::Shared), Outcome::Granted);
    assert_eq!(locks.request(1, record(b"a"), Mode::Exclusive), Outcome::Waiting);
    assert_eq!(locks.request(2, record(b"a"), Mode::Exclusive), Outcome::Deadlock);
    locks.release(2);
    assert_eq!(locks.request(1, record(b"a"), Mode::Exclusive), Outcome::Granted);
}

#[test]
fn inserters_share_a_gap_and_bar_scanners_also_after_it_was_divided() {
    let mut locks = LockTable::default();
    assert_eq!(locks.request(1, gap(b"m"), Mode::Insert), Outcome::Granted);
    assert_eq!(locks.request(2, gap(b"m"), Mode::Insert), Outcome::Granted);
    assert_eq!(locks.request(3, gap(b"m"), Mode::Shared), Outcome::Waiting);
    locks.inherit(gap(b"m"), gap(b"k"), 1);
    locks.release(1);
    assert_eq!(locks.request(4, gap(b"k"), Mode::Shared), Outcome::Waiting);
    locks.release(2);
    assert!(!locks.is_waiting(3) && !locks.is_waiting(4));
}

/// A transaction, what it has locked, and how.
type Grant = (TransactionId, LockName<'static>, Mode);

/// The lock table as two lists: what is granted, and which transaction waits for what.
#[derive(Default)]
struct Lists {
    granted: Vec<Grant>,
    queue: Vec<(TransactionId, Vec<Grant>)>,
}

fn agree(one: &Grant, other: &Grant) -> bool {
    one.0 == other.0 || one.1 != other.1 || (one.2 == other.2 && one.2 != Mode::Exclusive)
}

impl Lists {
    fn holds(&self, (id, name, mode): Grant) -> bool {
        self.granted.contains(&(id, name, mode))
            || self.granted.contains(&(id, name, Mode::Exclusive))
    }

    fn is_waiting(&self, id: TransactionId) -> bool {
        self.queue.iter().any(|(waiter, _)| *waiter == id)
    }

    fn request(
        &mut self,
        id: TransactionId,
        name: LockName<'static>,
        mode: Mode,
        is_to_wait: bool,
    ) -> Outcome {
        let mut wanted = match name {
            LockName::NextKey(table, key) => {
                vec![
                    (id, LockName::Record(table, key), mode),
                    (id, LockName::Gap(table, Some(key)), mode),
                ]
            }
            _ => vec![(id, name, mode)],
        };
        wanted.retain(|grant| !self.holds(*grant));
        if !self.queue.contains(&(id, wanted.clone())) {
            self.queue.retain(|(waiter, _)| *waiter != id);
            self.grant_what_is_free();
            let is_upgrade =
                |want: &Grant| self.granted.iter().any(|held| (held.0, held.1) == (id, want.1));
            let place = if wanted.iter().any(is_upgrade) { 0 } else { self.queue.len() };
            self.queue.insert(place, (id, wanted));
            if self.blockers(id).is_empty() {
                self.granted.extend(self.queue.remove(place).1);
                return Outcome::Granted;
            }
            if !is_to_wait {
                self.queue.remove(place);
                return Outcome::Waiting;
            }
        }
        let mut reached = self.blockers(id);
        for _ in 0..IDS {
            reached =
                reached.iter().flat_map(|id| self.blockers(*id)).chain(reached.clone()).collect();
        }
        if !reached.contains(&id) {
            return Outcome::Waiting;
        }
        self.queue.retain(|(waiter, _)| *waiter != id);
        self.grant_what_is_free();
        Outcome::Deadlock
    }

    fn blockers(&self, id: TransactionId) -> BTreeSet<TransactionId> {
        let Some(place) = self.queue.iter().position(|(waiter, _)| *waiter == id) else {
            return BTreeSet::new();
        };
        let ahead = self.queue[..place].iter().flat_map(|(_, wanted)| wanted);
        let others = self.granted.iter().chain(ahead);
        let is_in_the_way =
            |other: &&Grant| !self.queue[place].1.iter().all(|want| agree(want, other));
        others.filter(is_in_the_way).map(|other| other.0).collect()
    }

    fn grant_what_is_free(&mut self) -> bool {
        let free = self.queue.iter().position(|(id, _)| self.blockers(*id).is_empty());
        let Some(place) = free else { return false };
        self.granted.extend(self.queue.remove(place).1);
        self.grant_what_is_free();
        true
    }

    fn release(&mut self, id: TransactionId) -> bool {
        self.queue.retain(|(waiter, _)| *waiter != id);
        self.granted.retain(|(holder, _, _)| *holder != id);
        self.grant_what_is_free()
    }

    fn shares_a_gap(&self, id: TransactionId) -> bool {
        let gaps = self.granted.iter().filter(|grant| grant.2 == Mode::Insert);
        let mut pairs = gaps.clone().flat_map(|own| gaps.clone().map(move |other| (own, other)));
        pairs.any(|(own, other)| own.0 == id && other.0 != id && own.1 == other.1)
    }

    fn inherit(&mut self, from: LockName<'static>, to: LockName<'static>, except: TransactionId) {
        for id in (1..=IDS).filter(|id| *id != except) {
            if self.holds((id, from, Mode::Insert)) && !self.holds((id, to, Mode::Insert)) {
                self.granted.push((id, to, Mode::Insert));
            }
        }
    }
}

const IDS: u64 = 6;
const KEYS: [&[u8]; 3] = [b"", b"a", b"a key that is longer than the others"];

type Lock = (LockName<'static>, Mode);

#[derive(Debug, Clone, Copy)]
enum Step {
    Request(Lock),
    TakeIfFree(Lock),
    /// Repeats the last request.
    Again,
    Release,
    Inherit(LockName<'static>, LockName<'static>),
}

fn gap_or_end() -> impl Strategy<Value = LockName<'static>> {
    let before = proptest::option::of(select(&KEYS[..]));
    (0..2_u32, before).prop_map(|(table, before)| LockName::Gap(table, before))
}

/// The locks that the store takes.
fn lock() -> impl Strategy<Value = Lock> {
    let key = || (0..2_u32, select(&KEYS[..]));
    let shared_or = |mode| select(vec![Mode::Shared, mode]);
    prop_oneof![
        1 => ((0..2_u32).prop_map(LockName::Table), shared_or(Mode::Exclusive)),
        3 => (key().prop_map(|(table, key)| LockName::Record(table, key)), shared_or(Mode::Exclusive)),
        3 => (gap_or_end(), shared_or(Mode::Insert)),
        3 => (key().prop_map(|(table, key)| LockName::NextKey(table, key)), Just(Mode::Shared)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(TransactionId, Step)>> {
    let step = prop_oneof![
        8 => lock().prop_map(Step::Request),
        3 => lock().prop_map(Step::TakeIfFree),
        2 => Just(Step::Again),
        2 => Just(Step::Release),
        1 => (gap_or_end(), gap_or_end()).prop_map(|(from, to)| Step::Inherit(from, to)),
    ];
    proptest::collection::vec((1..=IDS, step), 1..80)
}

/// Everything that can be locked, each part separately.
fn parts() -> impl Iterator<Item = Lock> {
    (0..2).flat_map(|table| {
        let keys = KEYS.into_iter().flat_map(move |key| {
            let (record, gap) = (LockName::Record(table, key), LockName::Gap(table, Some(key)));
            [(record, Mode::Exclusive), (gap, Mode::Insert)]
        });
        let whole =
            [(LockName::Table(table), Mode::Exclusive), (LockName::Gap(table, None), Mode::Insert)];
        keys.chain(whole).flat_map(|(name, mode)| [(name, Mode::Shared), (name, mode)])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn it_grants_what_the_lists_grant(steps in steps()) {
        let (mut locks, mut lists) = (LockTable::default(), Lists::default());
        let mut last = BTreeMap::new();
        for (id, step) in steps {
            match step {
                Step::Request((name, mode)) => {
                    last.insert(id, (name, mode));
                    prop_assert_eq!(locks.request(id, name, mode), lists.request(id, name, mode, true));
                }
                Step::TakeIfFree((name, mode)) => {
                    let outcome = lists.request(id, name, mode, false);
                    prop_assert_eq!(locks.take_if_free(id, name, mode), outcome == Outcome::Granted);
                }
                Step::Again => {
                    let Some((name, mode)) = last.get(&id) else { continue };
                    prop_assert_eq!(locks.request(id, *name, *mode), lists.request(id, *name, *mode, true));
                }
                Step::Release => prop_assert_eq!(locks.release(id), lists.release(id)),
                Step::Inherit(from, to) => {
                    locks.inherit(from, to, id);
                    lists.inherit(from, to, id);
                }
            }
            for id in 1..=IDS {
                prop_assert_eq!(locks.is_waiting(id), lists.is_waiting(id));
                prop_assert_eq!(locks.shares_a_gap(id), lists.shares_a_gap(id));
                for (name, mode) in parts() {
                    let is_held = locks.holds(id, name, mode);
                    prop_assert_eq!(is_held, lists.holds((id, name, mode)), "{} {:?} {:?}", id, name, mode);
                }
            }
        }
        (1..=IDS).for_each(|id| _ = locks.release(id));
        prop_assert!(locks.granted.is_empty() && locks.queue.is_empty());
    }
}
