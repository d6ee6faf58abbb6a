//! How far what is archived was read back from the medium that it is on, where the target does that.

use std::collections::VecDeque;

use base::Lsn;

use crate::target::Readback;

/// So many blocks that were archived and not read back are known apart.
const WAITING_MAX: usize = 4096;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Readbacks {
    /// Blocks up to here are of an earlier process: whether they were read back is not known.
    before: Lsn,
    /// Blocks that can be restored from the first so many objects that were put.
    waiting: VecDeque<(u64, Lsn)>,
}

impl Readbacks {
    /// Those of blocks behind `before`, which an earlier process has archived.
    pub(crate) fn behind(before: Lsn) -> Self {
        Self { before, waiting: VecDeque::new() }
    }

    /// Blocks from `first` on are in another object now, which is among the first `put`: what had them goes before it is read back.
    pub(crate) fn replace(&mut self, first: Lsn, put: u64) {
        let from = self.waiting.partition_point(|(_, lsn)| *lsn < first);
        self.waiting.range_mut(from..).for_each(|(until, _)| *until = put.max(*until));
    }

    /// What the target knows when blocks up to `archived` can be restored from all that is put; `None` if what is put leads
    /// to none yet. Returns the last block that was read back, with all that it needs, if there is a later one.
    pub(crate) fn note(&mut self, readback: &Readback, archived: Option<Lsn>) -> Option<Lsn> {
        if !readback.damaged.is_empty() {
            // What waits may need what is damaged. The copy to come does not.
            self.waiting.clear();
            return None;
        }
        if let Some(archived) = archived.filter(|archived| *archived > self.before) {
            let is_full = self.waiting.len() >= WAITING_MAX;
            match self.waiting.back_mut() {
                Some((_, last)) if *last == archived => {}
                Some(last) if is_full => *last = (readback.put, archived),
                _ => self.waiting.push_back((readback.put, archived)),
            }
        }
        let mut verified = None;
        while let Some((_, lsn)) = self.waiting.pop_front_if(|(put, _)| *put <= readback.verified) {
            verified = Some(lsn);
        }
        verified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readback(put: u64, verified: u64) -> Readback {
        Readback { put, verified, damaged: Vec::new() }
    }

    #[test]
    fn a_block_is_verified_when_everything_put_before_it_was_archived_is() {
        let mut readbacks = Readbacks::default();
        assert_eq!(readbacks.note(&readback(3, 3), None), None, "there is no copy yet");
        assert_eq!(readbacks.note(&readback(4, 3), Some(Lsn(10))), None);
        assert_eq!(readbacks.note(&readback(5, 4), Some(Lsn(12))), Some(Lsn(10)));
        // Something else was put: block 12 needs no more than before.
        assert_eq!(readbacks.note(&readback(6, 5), Some(Lsn(12))), Some(Lsn(12)));
    }

    #[test]
    fn what_was_made_one_is_verified_when_that_was_read_back() {
        let mut readbacks = Readbacks::default();
        for (put, lsn) in [(1, 10), (2, 20), (3, 30)] {
            assert_eq!(readbacks.note(&readback(put, 0), Some(Lsn(lsn))), None);
        }
        // Blocks 15 to 30 are in the fourth one.
        readbacks.replace(Lsn(15), 4);
        assert_eq!(readbacks.note(&readback(4, 3), Some(Lsn(30))), Some(Lsn(10)));
        assert_eq!(readbacks.note(&readback(5, 3), Some(Lsn(40))), None);
        assert_eq!(readbacks.note(&readback(5, 4), Some(Lsn(40))), Some(Lsn(30)));
    }

    #[test]
    fn what_an_earlier_process_has_put_is_not_said_to_be_verified() {
        let mut readbacks = Readbacks::behind(Lsn(100));
        assert_eq!(readbacks.note(&readback(1, 1), Some(Lsn(100))), None);
        assert_eq!(readbacks.note(&readback(2, 2), Some(Lsn(101))), Some(Lsn(101)));
    }

    #[test]
    fn nothing_that_may_need_what_is_damaged_is_verified() {
        let mut readbacks = Readbacks::default();
        assert_eq!(readbacks.note(&readback(2, 0), Some(Lsn(10))), None);
        let damaged = Readback { put: 3, verified: 3, damaged: vec!["log/1".to_owned()] };
        assert_eq!(readbacks.note(&damaged, Some(Lsn(11))), None);
        // Until the new copy is there.
        assert_eq!(readbacks.note(&readback(9, 9), None), None);
        assert_eq!(readbacks.note(&readback(10, 9), Some(Lsn(11))), None);
        assert_eq!(readbacks.note(&readback(11, 10), Some(Lsn(11))), Some(Lsn(11)));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut readbacks = Readbacks::default();
        for lsn in 1..=2 * WAITING_MAX as u64 {
            assert_eq!(readbacks.note(&readback(lsn, 0), Some(Lsn(lsn))), None);
        }
        assert_eq!(readbacks.waiting.len(), WAITING_MAX);
        let last = 2 * WAITING_MAX as u64;
        assert_eq!(readbacks.note(&readback(last, last), Some(Lsn(last))), Some(Lsn(last)));
    }
}
