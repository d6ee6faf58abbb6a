//! How far what is archived was read back from the medium that it is on, where the target does that.

use std::collections::VecDeque;

use base::Lsn;

use crate::figures::Figures;
use crate::target::Readback;

/// So many blocks that were archived and not read back are known apart.
const WAITING_MAX: usize = 4096;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Readbacks {
    /// Blocks that can be restored from the first so many objects that were put.
    waiting: VecDeque<(u64, Lsn)>,
}

impl Readbacks {
    /// What the target knows when all that `figures` say is put. Returns what was found damaged.
    pub(crate) fn note(&mut self, readback: Readback, figures: &mut Figures) -> Vec<String> {
        let archived = figures.archived;
        let is_full = self.waiting.len() >= WAITING_MAX;
        match self.waiting.back_mut() {
            Some((_, last)) if *last == archived => {}
            Some(last) if is_full => *last = (readback.put, archived),
            _ => self.waiting.push_back((readback.put, archived)),
        }
        while let Some((_, lsn)) = self.waiting.front().filter(|(put, _)| *put <= readback.verified)
        {
            figures.verified = figures.verified.max(*lsn);
            self.waiting.pop_front();
        }
        figures.damaged += readback.damaged.len() as u64;
        readback.damaged
    }
}
