//! Which clients have read which keys, as far as they must be told when these change.
//!
//! Clients are known by their ids, which are not given again: one that has gone stays in the table until its keys
//! change, or until there are more such readers of a key than others.
//!
//! The table is ordered by the keys' hashes, so that it grows evenly, and the key behind a random hash is a random key.

use std::collections::{BTreeMap, BTreeSet};

/// The readers of one key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readers {
    One(u64),
    Several(BTreeSet<u64>),
}

impl Readers {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(ids) => ids.len(),
        }
    }

    /// Adds one.
    fn insert(&mut self, id: u64) {
        match self {
            Self::One(first) if *first == id => {}
            Self::One(first) => *self = Self::Several(BTreeSet::from([*first, id])),
            Self::Several(ids) => _ = ids.insert(id),
        }
    }

    /// Their ids.
    pub(super) fn ids(self) -> impl Iterator<Item = u64> {
        let (one, several) = match self {
            Self::One(id) => (Some(id), BTreeSet::new()),
            Self::Several(ids) => (None, ids),
        };
        one.into_iter().chain(several)
    }
}

/// A key, and its readers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) key: Box<[u8]>,
    pub(super) readers: Readers,
    /// How many readers it may have before those that have gone are looked for.
    readers_max: usize,
}

type Slots = BTreeMap<u64, Slot>;

/// How many readers a key may have, at the least, before those that have gone are looked for.
const READERS_MAX_MIN: usize = 16;

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct ReadTable {
    /// By the hash of the key.
    slots: Slots,
    reader_count: usize,
    /// How many times something was taken out.
    taken: u64,
    /// Tables that were emptied: their memory goes little by little.
    freed: Vec<Slots>,
}

impl ReadTable {
    /// How many keys it has.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many readers they have, all together.
    pub(super) const fn reader_count(&self) -> usize {
        self.reader_count
    }

    /// A number that changes whenever something is taken out.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Notes that a client has read a key. Returns another key that had to make room, as it has the same hash: its
    /// readers must be told. `is_told` says of a client whether it must still be told of what it has read.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        id: u64,
        is_told: impl Fn(u64) -> bool,
    ) -> Option<Slot> {
        let displaced = match self.slots.get_mut(&hash) {
            Some(slot) if *slot.key == *key => {
                let before = slot.readers.len();
                slot.readers.insert(id);
                if let Readers::Several(ids) = &mut slot.readers
                    && ids.len() > slot.readers_max
                {
                    ids.retain(|id| is_told(*id));
                    slot.readers_max = (2 * ids.len()).max(READERS_MAX_MIN);
                }
                self.reader_count = self.reader_count + slot.readers.len() - before;
                return None;
            }
            Some(_) => self.remove(hash),
            None => None,
        };
        let readers = Readers::One(id);
        let slot = Slot { key: key.into(), readers, readers_max: READERS_MAX_MIN };
        self.slots.insert(hash, slot);
        self.reader_count += 1;
        displaced
    }

    /// Takes a key out, if it is there.
    pub(super) fn take(&mut self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.slots.get(&hash).filter(|slot| *slot.key == *key)?;
        self.remove(hash)
    }

    /// Takes out the key whose hash is the next one behind this: any, if it is random.
    pub(super) fn take_behind(&mut self, hash: u64) -> Option<Slot> {
        let behind = self.slots.range(hash..).next();
        let hash = *behind.or_else(|| self.slots.first_key_value())?.0;
        self.remove(hash)
    }

    fn remove(&mut self, hash: u64) -> Option<Slot> {
        let slot = self.slots.remove(&hash)?;
        self.reader_count -= slot.readers.len();
        self.taken += 1;
        Some(slot)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.taken += 1;
        self.reader_count = 0;
        let slots = std::mem::take(&mut self.slots);
        if !slots.is_empty() {
            self.freed.push(slots);
        }
    }

    /// Whether memory of emptied tables is left.
    pub(super) const fn is_freeing(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Frees so many keys of emptied tables.
    pub(super) fn free_step(&mut self, keys_max: usize) {
        let Some(slots) = self.freed.last_mut() else { return };
        for _ in 0..keys_max {
            if slots.pop_first().is_none() {
                self.freed.pop();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(slot: Option<Slot>) -> Vec<u64> {
        slot.map(|slot| slot.readers.ids().collect()).unwrap_or_default()
    }

    #[test]
    fn readers_are_told_once() {
        let mut table = ReadTable::default();
        for id in [3, 1, 3] {
            assert_eq!(table.insert(7, b"a", id, |_| true), None);
        }
        assert_eq!((table.len(), table.reader_count()), (1, 2));
        assert_eq!(table.take(7, b"b"), None, "the same hash is not the same key");
        assert_eq!(ids(table.take(7, b"a")), [1, 3]);
        assert_eq!(table.take(7, b"a"), None);
        assert_eq!((table.len(), table.reader_count()), (0, 0));
    }

    #[test]
    fn of_two_keys_with_one_hash_the_first_makes_room() {
        let mut table = ReadTable::default();
        table.insert(7, b"a", 1, |_| true);
        table.insert(7, b"a", 2, |_| true);
        let displaced = table.insert(7, b"b", 3, |_| true);
        assert_eq!(displaced.as_ref().map(|slot| &*slot.key), Some(&b"a"[..]));
        assert_eq!(ids(displaced), [1, 2]);
        assert_eq!((table.len(), table.reader_count()), (1, 1));
    }

    #[test]
    fn readers_that_have_gone_do_not_pile_up() {
        let mut table = ReadTable::default();
        for id in 0..100_000 {
            table.insert(7, b"a", id, |reader| reader == 0 || reader == id);
            assert!(table.reader_count() <= READERS_MAX_MIN + 1);
        }
        let readers = ids(table.take(7, b"a"));
        assert!(readers.contains(&0) && readers.contains(&99_999));
    }

    #[test]
    fn any_key_may_be_taken_and_memory_goes_in_slices() {
        let mut table = ReadTable::default();
        // As spread as hashes are.
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut first = BTreeSet::new();
        for round in 0..200 {
            for number in 0..10 {
                table.insert(hash(number), &[u8::try_from(number).unwrap()], 1, |_| true);
            }
            first.insert(table.take_behind(hash(1000 + round)).unwrap().key);
        }
        assert_eq!(first.len(), 10);
        table.clear();
        assert_eq!((table.len(), table.reader_count()), (0, 0));
        assert!(table.is_freeing());
        table.free_step(100);
        assert!(!table.is_freeing());
    }
}
