//! Which clients wait for the log to come further.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Lsn;

use super::ClientKey;
use super::shard::{Level, Reach};

/// By block: the place of a client, and its id, as a place is used again.
type Waiting = BinaryHeap<Reverse<(Lsn, ClientKey, u64)>>;

/// Clients whose replies wait, by what they wait for.
#[derive(Debug, Default)]
pub(super) struct Held {
    for_written: Waiting,
    for_durable: Waiting,
    /// The last block that was ever waited for to be written.
    written_up_to: Lsn,
}

impl Held {
    /// A client has a reply that waits until everything up to `lsn` has come to `level`. Whether
    /// the log must be asked to tell when that block is written.
    pub(super) fn push(&mut self, level: Level, lsn: Lsn, key: ClientKey, id: u64) -> bool {
        match level {
            Level::Written => {
                self.for_written.push(Reverse((lsn, key, id)));
                let is_news = lsn > self.written_up_to;
                self.written_up_to = self.written_up_to.max(lsn);
                is_news
            }
            Level::Durable => {
                self.for_durable.push(Reverse((lsn, key, id)));
                false
            }
        }
    }

    /// A client whose reply waits no longer.
    pub(super) fn pop_reached(&mut self, reach: &Reach) -> Option<ClientKey> {
        for (waiting, level) in
            [(&mut self.for_written, Level::Written), (&mut self.for_durable, Level::Durable)]
        {
            if let Some(Reverse((lsn, key, _))) = waiting.peek().copied()
                && reach.has(level, lsn)
            {
                waiting.pop();
                return Some(key);
            }
        }
        None
    }

    /// Every client whose reply waits, whatever for: the log they wait for comes no further.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (ClientKey, u64)> + use<> {
        let Self { for_written, for_durable, .. } = std::mem::take(self);
        for_written.into_iter().chain(for_durable).map(|Reverse((_, key, id))| (key, id))
    }

    /// How many replies wait.
    pub(super) fn len(&self) -> usize {
        self.for_written.len() + self.for_durable.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_goes_when_its_own_prefix_is_long_enough() {
        let mut held = Held::default();
        assert!(!held.push(Level::Durable, Lsn(3), ClientKey(1), 1));
        assert!(held.push(Level::Written, Lsn(5), ClientKey(2), 2), "the log must tell of 5");
        assert!(!held.push(Level::Written, Lsn(5), ClientKey(3), 3), "it will");
        let mut reach = Reach { written: Lsn(4), durable: Lsn(2) };
        assert_eq!(held.pop_reached(&reach), None);
        reach.written = Lsn(5);
        assert_eq!(held.pop_reached(&reach), Some(ClientKey(2)));
        assert_eq!(held.pop_reached(&reach), Some(ClientKey(3)));
        assert_eq!(held.pop_reached(&reach), None);
        reach.durable = Lsn(3);
        assert_eq!(held.pop_reached(&reach), Some(ClientKey(1)));
        assert!(held.is_empty());
    }
}
