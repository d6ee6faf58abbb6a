//! Locks of transactions: on records and on the gaps between them, with deadlock detection.
//!
//! ```text
//!   table       Shared: it is used                    Exclusive: it is deleted
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

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet};

/// What can be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockName<'a> {
    /// All of a table: shared by whoever uses it, exclusive for who deletes it.
    Table(u32),
    /// A key of a table, there or not.
    Record(u32, &'a [u8]),
    /// What is between a key, or the end of the table, and the key before it.
    Gap(u32, Option<&'a [u8]>),
}

impl LockName<'_> {
    fn encode(self, out: &mut Vec<u8>) {
        let (kind, table, key) = match self {
            Self::Table(table) => (0, table, &[][..]),
            Self::Record(table, key) => (1, table, key),
            Self::Gap(table, None) => (2, table, &[][..]),
            Self::Gap(table, Some(key)) => (3, table, key),
        };
        out.clear();
        out.extend_from_slice(&table.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(key);
    }
}

/// A name as it is kept: one piece of memory, shared by all lists it is in.
type Name = Arc<[u8]>;

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

/// So many locks that nobody holds are kept.
const SPARE_LOCKS: usize = 1024;

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
    locks: HashMap<Name, Lock>,
    held: HashMap<TransactionId, Vec<Name>>,
    waiting: HashMap<TransactionId, (Name, Mode)>,
    tables: HashMap<Vec<u8>, u32>,
    /// Locks that nobody holds: their memory is for the next ones.
    spare: Vec<Lock>,
    /// The name that is being looked for.
    scratch: Vec<u8>,
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
    pub(crate) fn request(&mut self, id: TransactionId, name: LockName<'_>, mode: Mode) -> Outcome {
        let mut encoded = std::mem::take(&mut self.scratch);
        name.encode(&mut encoded);
        let outcome = self.request_encoded(id, &encoded, mode, true);
        self.scratch = encoded;
        outcome
    }

    /// Takes a lock if nobody is in the way; true if it is held then. Nothing waits for it
    /// otherwise.
    pub(crate) fn take_if_free(
        &mut self,
        id: TransactionId,
        name: LockName<'_>,
        mode: Mode,
    ) -> bool {
        let mut encoded = std::mem::take(&mut self.scratch);
        name.encode(&mut encoded);
        let outcome = self.request_encoded(id, &encoded, mode, false);
        self.scratch = encoded;
        outcome == Outcome::Granted
    }

    fn request_encoded(
        &mut self,
        id: TransactionId,
        name: &[u8],
        mode: Mode,
        is_to_wait: bool,
    ) -> Outcome {
        match (!self.waiting.is_empty()).then(|| self.waiting.get(&id)).flatten() {
            Some((waited, waited_mode)) if waited.as_ref() == name && *waited_mode == mode => {
                return self.judge(id);
            }
            Some(_) => _ = self.cancel(id),
            None => {}
        }
        let mut entry = match self.locks.entry_ref(name) {
            EntryRef::Occupied(entry) => entry,
            EntryRef::Vacant(entry) => {
                let mut lock = self.spare.pop().unwrap_or_default();
                lock.holders.push((id, mode));
                let name = Name::from(name);
                entry.insert_with_key(Arc::clone(&name), lock);
                self.held.entry(id).or_default().push(name);
                return Outcome::Granted;
            }
        };
        let name = Arc::clone(entry.key());
        let lock = entry.get_mut();
        let held = |(holder, held): &(TransactionId, Mode)| *holder == id && held.covers(mode);
        let agrees = lock.agrees_with_holders(id, mode);
        let is_holder = lock.holders.iter().any(|(holder, _)| *holder == id);
        if agrees && lock.holders.iter().any(held) {
            return Outcome::Granted;
        }
        let is_next = is_holder || lock.waiters.iter().all(|(_, ahead)| ahead.agrees(mode));
        if agrees && is_next {
            lock.grant(id, mode);
            if !is_holder {
                self.held.entry(id).or_default().push(name);
            }
            return Outcome::Granted;
        }
        if !is_to_wait {
            return Outcome::Waiting;
        }
        // Who holds the lock already goes ahead: the others wait for it in any case.
        if is_holder {
            lock.waiters.push_front((id, mode));
        } else {
            lock.waiters.push_back((id, mode));
        }
        self.waiting.insert(id, (name, mode));
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

    /// Whether nobody else holds any lock.
    pub(crate) fn is_alone(&self, id: TransactionId) -> bool {
        self.held.len() <= usize::from(self.held.contains_key(&id))
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

    fn cancel(&mut self, id: TransactionId) -> bool {
        let Some((name, _)) = self.waiting.remove(&id) else { return false };
        if let Some(lock) = self.locks.get_mut(&name) {
            lock.waiters.retain(|(waiter, _)| *waiter != id);
        }
        self.pump(&name)
    }

    /// Grants what can be granted; true if that is anything.
    fn pump(&mut self, name: &Name) -> bool {
        let Some(lock) = self.locks.get_mut(name) else { return false };
        if lock.waiters.is_empty() {
            if lock.holders.is_empty() {
                self.locks.remove(name);
            }
            return false;
        }
        let granted = lock.pump();
        for id in &granted {
            self.waiting.remove(id);
            let held = self.held.entry(*id).or_default();
            // Who has waited for more of a lock holds it already.
            if !held.contains(name) {
                held.push(Arc::clone(name));
            }
        }
        !granted.is_empty()
    }

    /// Gives back everything that a transaction holds or waits for; true if somebody who waited
    /// has got something.
    pub(crate) fn release(&mut self, id: TransactionId) -> bool {
        let mut is_news = self.cancel(id);
        for name in self.held.remove(&id).unwrap_or_default() {
            let EntryRef::Occupied(mut entry) = self.locks.entry_ref(name.as_ref()) else {
                continue;
            };
            let lock = entry.get_mut();
            lock.holders.retain(|(holder, _)| *holder != id);
            if !lock.waiters.is_empty() {
                is_news |= self.pump(&name);
            } else if lock.holders.is_empty() {
                let lock = entry.remove();
                if self.spare.len() < SPARE_LOCKS {
                    self.spare.push(lock);
                }
            }
        }
        is_news
    }

    /// Lets everybody but `except` who may insert into gap `from` insert into gap `to` as well: a
    /// commit has divided or united the two.
    pub(crate) fn inherit(&mut self, from: LockName<'_>, to: LockName<'_>, except: TransactionId) {
        let mut encoded = std::mem::take(&mut self.scratch);
        from.encode(&mut encoded);
        let heirs: Vec<TransactionId> = match self.locks.get(encoded.as_slice()) {
            Some(lock) => (lock.holders.iter())
                .filter(|(holder, mode)| *holder != except && *mode == Mode::Insert)
                .map(|(holder, _)| *holder)
                .collect(),
            None => Vec::new(),
        };
        to.encode(&mut encoded);
        if !heirs.is_empty() {
            let name = match self.locks.get_key_value(encoded.as_slice()) {
                Some((name, _)) => Arc::clone(name),
                None => Name::from(encoded.as_slice()),
            };
            let lock = self.locks.entry(Arc::clone(&name)).or_default();
            for heir in heirs {
                if !lock.holders.iter().any(|(holder, _)| *holder == heir) {
                    self.held.entry(heir).or_default().push(Arc::clone(&name));
                }
                lock.grant(heir, Mode::Insert);
            }
        }
        self.scratch = encoded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A reader that comes later does not overtake the writer.
        assert_eq!(locks.request(4, record(b"a"), Mode::Shared), Outcome::Waiting);
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
            assert_eq!(locks.request(id, record(key), Mode::Exclusive), Outcome::Granted);
        }
        assert_eq!(locks.request(1, record(b"b"), Mode::Shared), Outcome::Waiting);
        assert_eq!(locks.request(2, record(b"c"), Mode::Exclusive), Outcome::Waiting);
        assert_eq!(locks.request(3, record(b"a"), Mode::Shared), Outcome::Deadlock);
        locks.release(3);
        assert!(!locks.is_waiting(2));
    }

    #[test]
    fn two_readers_that_both_want_to_write_are_a_circle() {
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
}
