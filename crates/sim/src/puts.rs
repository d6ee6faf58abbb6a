//! What was put into an archive, and whether its writer was the last one then.
//!
//! ```text
//!   claim 1 ── log 1–40 ── claim 2 ── log 41–60 of writer 1 ── log 41–70 of writer 2
//!                 timely                   late: it must never be told of
//! ```

use archive::Name;
use base::Lsn;

/// See the file's top.
#[derive(Debug, Clone, Default)]
pub(crate) struct Puts {
    /// The last writer that has claimed the archive.
    claimed: u64,
    timely: Vec<Timely>,
    /// Copies that were made by what thins out.
    pub(crate) tidiers_copies: u64,
}

/// Blocks that were put when no later writer had claimed the archive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timely {
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    pub(crate) writer: u64,
}

impl Puts {
    /// An object is there that was not there before.
    pub(crate) fn note(&mut self, name: &Name) {
        let timely = match *name {
            Name::Writer { writer } => {
                self.claimed = self.claimed.max(writer);
                return;
            }
            Name::Log { first, last, writer } => Timely { first, last, writer },
            Name::Whole { fill, .. } => {
                self.tidiers_copies += u64::from(fill.number >> 31);
                Timely { first: fill.lsn, last: fill.lsn, writer: fill.writer }
            }
            _ => return,
        };
        if timely.writer >= self.claimed {
            self.timely.push(timely);
        }
    }

    /// The timely blocks with this one: of this writer, or the last before it that has put any.
    pub(crate) fn of(&self, lsn: Lsn, writer: u64) -> Option<Timely> {
        let has = |it: &&Timely| it.writer <= writer && it.first <= lsn && lsn <= it.last;
        self.timely.iter().filter(has).max_by_key(|it| it.writer).copied()
    }
}
