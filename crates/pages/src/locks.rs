//! Locks of transactions: on records and on the gaps between them, with deadlock detection.
//!
//! ```text
//!   record(k)   Shared: k was read, there or not      Exclusive: k is written
//!   gap(k)      Shared: between the key before k and k was scanned
//!               Insert: something is put in there or taken out; many may at once
//! ```
//!
//! Strict two-phase: everything is held until the transaction ends. A scan locks each record that
//! it returns and the gap before it, and the gap that it ended in; inserting or removing `k`
//! locks the gap that `k` is in (and removing, the gap before `k` too), so nothing that was
//! scanned changes (no phantoms), and what is about to appear blocks who would miss it.
//! The *next key* that names a gap is a committed one: when a commit inserts or removes it, the
//! holders of the gap are passed on ([`LockTable::inherit`]).
//!
//! A request that must wait stays in a queue in order of arrival. Before it waits, the graph of who
//! waits for whom is searched from it: if it leads back, the request is refused. As inheriting
//! adds edges too, waiters look again from time to time.

use std::collections::{HashMap, HashSet, VecDeque};

/// What can be locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockName {
    pub(crate) table: u32,
    /// `None`: the end of the table.
    pub(crate) key: Option<Vec<u8>>,
    /// The gap before the key, not its record.
    pub(crate) is_gap: bool,
}

/// How something is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
    Insert,
}

impl Mode {
    fn agrees(self, other: Self) -> bool {
        self == other && self != Self::Exclusive
    }

    fn covers(self, other: Self) -> bool {
        self == other || self == Self::Exclusive
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Waiting,
    Deadlock,
}

type TransactionId = u64;

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<(TransactionId, Mode)>,
    waiters: VecDeque<(TransactionId, Mode)>,
}

impl Lock {
    fn agrees_with_holders(&self, id: TransactionId, mode: Mode) -> bool {
        self.holders.iter().all(|(holder, held)| *holder == id || held.agrees(mode))
    }

    fn grant(&mut self, id: TransactionId, mode: Mode) {
        self.holders.retain(|(holder, held)| *holder != id || !mode.covers(*held));
        self.holders.push((id, mode));
    }

    /// Grants what can be granted, and says to whom.
    fn pump(&mut self) -> Vec<TransactionId> {
        let mut granted = Vec::new();
        let mut still: VecDeque<(TransactionId, Mode)> = VecDeque::new();
        for (id, mode) in std::mem::take(&mut self.waiters) {
            let is_next = still.iter().all(|(_, ahead)| ahead.agrees(mode));
            if is_next && self.agrees_with_holders(id, mode) {
                self.grant(id, mode);
                granted.push(id);
            } else {
                still.push_back((id, mode));
            }
        }
        self.waiters = still;
        granted
    }

    /// Whom the request of `id` waits for.
    fn blockers(&self, id: TransactionId) -> Vec<TransactionId> {
        let Some(place) = self.waiters.iter().position(|(waiter, _)| *waiter == id) else {
            return Vec::new();
        };
        let mode = self.waiters[place].1;
        let ahead = self.waiters.iter().take(place);
        let in_the_way = self.holders.iter().chain(ahead);
        in_the_way
            .filter(|(other, held)| *other != id && !held.agrees(mode))
            .map(|(other, _)| *other)
            .collect()
    }
}

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    locks: HashMap<LockName, Lock>,
    held: HashMap<TransactionId, HashSet<LockName>>,
    waiting: HashMap<TransactionId, (LockName, Mode)>,
    tables: HashMap<Vec<u8>, u32>,
}

impl LockTable {
    /// A number for the table of this name.
    pub(crate) fn table(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.tables.get(name) {
            return *id;
        }
        let id = u32::try_from(self.tables.len()).expect("fewer tables than 2^32 are used");
        self.tables.insert(name.to_vec(), id);
        id
    }

    /// Asks for a lock, or again for one that was waited for.
    pub(crate) fn request(&mut self, id: TransactionId, name: &LockName, mode: Mode) -> Outcome {
        match self.waiting.get(&id) {
            Some((waited, waited_mode)) if waited == name && *waited_mode == mode => {
                return self.judge(id);
            }
            Some(_) => self.cancel(id),
            None => {}
        }
        let lock = self.locks.entry(name.clone()).or_default();
        let held = |(holder, held): &(TransactionId, Mode)| *holder == id && held.covers(mode);
        let agrees = lock.agrees_with_holders(id, mode);
        let is_holder = lock.holders.iter().any(|(holder, _)| *holder == id);
        if agrees && lock.holders.iter().any(held) {
            return Outcome::Granted;
        }
        let is_next = is_holder || lock.waiters.iter().all(|(_, ahead)| ahead.agrees(mode));
        if agrees && is_next {
            lock.grant(id, mode);
            self.held.entry(id).or_default().insert(name.clone());
            return Outcome::Granted;
        }
        // Who holds the lock already goes ahead: the others wait for it in any case.
        if is_holder {
            lock.waiters.push_front((id, mode));
        } else {
            lock.waiters.push_back((id, mode));
        }
        self.waiting.insert(id, (name.clone(), mode));
        self.judge(id)
    }

    /// Whether a waiting transaction may go on waiting.
    fn judge(&mut self, id: TransactionId) -> Outcome {
        if self.is_in_circle(id) {
            self.cancel(id);
            return Outcome::Deadlock;
        }
        Outcome::Waiting
    }

    #[cfg(test)]
    fn is_waiting(&self, id: TransactionId) -> bool {
        self.waiting.contains_key(&id)
    }

    fn is_in_circle(&self, id: TransactionId) -> bool {
        let blockers = |id: TransactionId| match self.waiting.get(&id) {
            Some((name, _)) => self.locks.get(name).map_or_else(Vec::new, |lock| lock.blockers(id)),
            None => Vec::new(),
        };
        let mut seen = HashSet::new();
        let mut next = blockers(id);
        while let Some(other) = next.pop() {
            if other == id {
                return true;
            }
            if seen.insert(other) {
                next.extend(blockers(other));
            }
        }
        false
    }

    fn cancel(&mut self, id: TransactionId) {
        if let Some((name, _)) = self.waiting.remove(&id) {
            if let Some(lock) = self.locks.get_mut(&name) {
                lock.waiters.retain(|(waiter, _)| *waiter != id);
            }
            self.pump(&name);
        }
    }

    fn pump(&mut self, name: &LockName) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        for id in lock.pump() {
            self.waiting.remove(&id);
            self.held.entry(id).or_default().insert(name.clone());
        }
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            self.locks.remove(name);
        }
    }

    /// Gives back everything that a transaction holds or waits for.
    pub(crate) fn release(&mut self, id: TransactionId) {
        self.cancel(id);
        for name in self.held.remove(&id).unwrap_or_default() {
            if let Some(lock) = self.locks.get_mut(&name) {
                lock.holders.retain(|(holder, _)| *holder != id);
            }
            self.pump(&name);
        }
    }

    /// Lets everybody but `except` who may insert into gap `from` insert into gap `to` as well: a
    /// commit has divided or united the two.
    pub(crate) fn inherit(&mut self, from: &LockName, to: &LockName, except: TransactionId) {
        let Some(lock) = self.locks.get(from) else { return };
        let heirs: Vec<TransactionId> = (lock.holders.iter())
            .filter(|(holder, mode)| *holder != except && *mode == Mode::Insert)
            .map(|(holder, _)| *holder)
            .collect();
        for heir in heirs {
            self.locks.entry(to.clone()).or_default().grant(heir, Mode::Insert);
            self.held.entry(heir).or_default().insert(to.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8]) -> LockName {
        LockName { table: 0, key: Some(key.to_vec()), is_gap: false }
    }

    fn gap(key: &[u8]) -> LockName {
        LockName { is_gap: true, ..record(key) }
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_them() {
        let mut locks = LockTable::default();
        assert_eq!(locks.request(1, &record(b"a"), Mode::Shared), Outcome::Granted);
        assert_eq!(locks.request(2, &record(b"a"), Mode::Shared), Outcome::Granted);
        assert_eq!(locks.request(3, &record(b"a"), Mode::Exclusive), Outcome::Waiting);
        // A reader that comes later does not overtake the writer.
        assert_eq!(locks.request(4, &record(b"a"), Mode::Shared), Outcome::Waiting);
        locks.release(1);
        assert!(locks.is_waiting(3));
        locks.release(2);
        assert!(!locks.is_waiting(3) && locks.is_waiting(4));
        locks.release(3);
        assert!(!locks.is_waiting(4));
    }

    #[test]
    fn circles_are_refused() {
        let mut locks = LockTable::default();
        for (id, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            assert_eq!(locks.request(id, &record(key), Mode::Exclusive), Outcome::Granted);
        }
        assert_eq!(locks.request(1, &record(b"b"), Mode::Shared), Outcome::Waiting);
        assert_eq!(locks.request(2, &record(b"c"), Mode::Exclusive), Outcome::Waiting);
        assert_eq!(locks.request(3, &record(b"a"), Mode::Shared), Outcome::Deadlock);
        locks.release(3);
        assert!(!locks.is_waiting(2));
    }

    #[test]
    fn two_readers_that_both_want_to_write_are_a_circle() {
        let mut locks = LockTable::default();
        assert_eq!(locks.request(1, &record(b"a"), Mode::Shared), Outcome::Granted);
        assert_eq!(locks.request(2, &record(b"a"), Mode::Shared), Outcome::Granted);
        assert_eq!(locks.request(1, &record(b"a"), Mode::Exclusive), Outcome::Waiting);
        assert_eq!(locks.request(2, &record(b"a"), Mode::Exclusive), Outcome::Deadlock);
        locks.release(2);
        assert_eq!(locks.request(1, &record(b"a"), Mode::Exclusive), Outcome::Granted);
    }

    #[test]
    fn inserters_share_a_gap_and_bar_scanners_also_after_it_was_divided() {
        let mut locks = LockTable::default();
        assert_eq!(locks.request(1, &gap(b"m"), Mode::Insert), Outcome::Granted);
        assert_eq!(locks.request(2, &gap(b"m"), Mode::Insert), Outcome::Granted);
        assert_eq!(locks.request(3, &gap(b"m"), Mode::Shared), Outcome::Waiting);
        locks.inherit(&gap(b"m"), &gap(b"k"), 1);
        locks.release(1);
        assert_eq!(locks.request(4, &gap(b"k"), Mode::Shared), Outcome::Waiting);
        locks.release(2);
        assert!(!locks.is_waiting(3) && !locks.is_waiting(4));
    }
}
