//! Which records are there while others are being inserted: all below a limit, as YCSB's acknowledged counter
//! counts them.

use std::collections::BTreeSet;

/// See the file's top.
pub(super) struct Inserted {
    /// All records below it are there.
    limit: u64,
    /// Those above that are there.
    done: BTreeSet<u64>,
    /// The next one to insert.
    next: u64,
}

impl Inserted {
    /// All below `end` are there.
    pub(super) fn new(end: u64) -> Self {
        Self { limit: end, done: BTreeSet::new(), next: end }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The first number that was never given to [`Inserted::begin`].
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the record to insert next.
    pub(super) fn begin(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Notes that an insert has ended.
    pub(super) fn end(&mut self, key: u64) {
        self.done.insert(key);
        while self.done.remove(&self.limit) {
            self.limit += 1;
        }
    }

    /// Ends all inserts that are under way: their connections are closed.
    pub(super) fn end_all(&mut self) {
        self.done.clear();
        self.limit = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_yet_there_is_a_limit() {
        let mut inserted = Inserted::new(10);
        assert_eq!([inserted.begin(), inserted.begin(), inserted.begin()], [10, 11, 12]);
        inserted.end(11);
        assert_eq!(inserted.limit(), 10);
        inserted.end(10);
        assert_eq!(inserted.limit(), 12);
        inserted.end_all();
        assert_eq!((inserted.limit(), inserted.begin()), (13, 13));
    }
}
