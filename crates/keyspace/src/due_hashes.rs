//! The hashes of one database that have fields that expire, in order of when the first field of each does.
//!
//! Looking for what is due costs nothing while nothing is, however many hashes there are.
//!
//! A hash is in it by the hash of its key, as the table has the key already, and while its value is in memory. Two keys
//! with one hash share a line, the one that changed last: fields of the other one go when the key is used.
//!
//! # Invariants
//! - `lines` and `dues` say the same.

use std::collections::{BTreeMap, BTreeSet};

/// About what a hash takes.
const HASH_BYTES: usize = 48;

/// See the file's top.
#[derive(Default)]
pub(crate) struct DueHashes {
    /// When, and the hash of the key. A tree grows and goes piece by piece.
    lines: BTreeSet<(i64, u64)>,
    dues: BTreeMap<u64, i64>,
}

impl DueHashes {
    /// The first field of the hash whose key has this hash expires then, or none does.
    #[inline]
    pub(crate) fn set(&mut self, hash: u64, first_ms: Option<i64>) {
        if first_ms.is_some() || !self.dues.is_empty() {
            self.store(hash, first_ms);
        }
    }

    fn store(&mut self, hash: u64, first_ms: Option<i64>) {
        let before = match first_ms {
            Some(at_ms) => self.dues.insert(hash, at_ms),
            None => self.dues.remove(&hash),
        };
        if before != first_ms {
            if let Some(at_ms) = before {
                self.lines.remove(&(at_ms, hash));
            }
            self.lines.extend(first_ms.map(|at_ms| (at_ms, hash)));
        }
    }

    /// The hash of the key whose field expired first, if one has by then.
    pub(crate) fn first_due(&self, now_ms: i64) -> Option<u64> {
        self.lines.first().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, hash)| *hash)
    }

    /// How many hashes it has.
    pub(crate) fn len(&self) -> usize {
        self.dues.len()
    }

    /// About how many bytes it takes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.dues.len() * HASH_BYTES
    }

    /// Takes it apart piece by piece: yields once for each hash, and once more.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = ()> + Send {
        let Self { lines, dues } = self;
        lines.into_iter().map(drop).chain(dues.into_iter().map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_one_line_and_the_first_is_due_first() {
        let mut rng = fastrand::Rng::with_seed(9);
        let mut due = DueHashes::default();
        let mut model = BTreeMap::new();
        for _ in 0..5_000 {
            let (hash, at_ms) = (rng.u64(..40), rng.bool().then(|| rng.i64(..50)));
            due.set(hash, at_ms);
            match at_ms {
                Some(at_ms) => model.insert(hash, at_ms),
                None => model.remove(&hash),
            };
            let now_ms = rng.i64(..50);
            let first = model.iter().map(|(hash, at_ms)| (*at_ms, *hash)).min();
            let first = first.filter(|first| first.0 <= now_ms).map(|first| first.1);
            assert_eq!(due.first_due(now_ms), first);
            assert_eq!((due.len(), due.lines.len()), (model.len(), model.len()));
        }
        assert_eq!(due.into_pieces().count(), 2 * model.len());
    }
}
