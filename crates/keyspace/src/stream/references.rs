//! Entries that go, and what groups know of them.
//!
//! An entry that is deleted or trimmed stays pending where it is, unless [`References`] says otherwise.
//!
//! Source: the options KEEPREF, DELREF and ACKED of Redis 8.2.

use super::StreamId;
use super::body::LargeStream;
use super::entries::{Entries, Keep, Trim};

/// An approximate trim leaves off behind so many entries that groups need. Each addition may trim.
const NEEDED_PER_TRIM: usize = 256;

/// What becomes of pending entries when the entry itself goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum References {
    /// They stay, for consumers to find that it is gone.
    #[default]
    Keep,
    /// They go, in every group.
    Delete,
    /// An entry goes only when each group was given it and waits for it no longer.
    Acknowledged,
}

/// What became of an entry that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// It was not there.
    Absent,
    /// A group still needs it.
    Needed,
}

impl LargeStream {
    /// Deletes an entry, as far as groups let it go.
    pub(super) fn delete(&mut self, id: StreamId, references: References) -> Removal {
        let Self { entries, groups, tracker, .. } = self;
        match references {
            References::Acknowledged if groups.need(id) => return Removal::Needed,
            References::Delete => groups.forget(id, tracker),
            References::Keep | References::Acknowledged => {}
        }
        if entries.delete(id, tracker) { Removal::Removed } else { Removal::Absent }
    }

    /// Cuts off the oldest entries, as far as groups let them go. How many went.
    pub(super) fn trim(&mut self, trim: Trim, references: References) -> u64 {
        let Self { entries, groups, tracker, .. } = self;
        match references {
            References::Delete if groups.have_pending() => {
                entries.ids_to_go(trim).for_each(|id| groups.forget(id, tracker));
                entries.trim(trim, tracker)
            }
            References::Acknowledged if groups.len() > 0 => self.trim_acknowledged(trim),
            _ => entries.trim(trim, tracker),
        }
    }

    /// Those that a group needs stay, and later ones go in their place. An approximate trim leaves off when it has found
    /// [`NEEDED_PER_TRIM`] of them, and the next one goes on from there.
    fn trim_acknowledged(&mut self, trim: Trim) -> u64 {
        let Self { entries, groups, tracker, trim_from, .. } = self;
        // No group has been given a later one.
        let given = groups.least_last_id().unwrap_or(StreamId::MIN);
        let (end, count) = match (trim.about, trim.keep) {
            (None, Keep::Newest(count)) => {
                (Some(given), (entries.len() as u64).saturating_sub(count))
            }
            (None, Keep::From(id)) => (id.previous(), u64::MAX),
            (Some(0), keep) => (entries.end_of_all_units(keep), u64::MAX),
            (Some(limit), keep) => (entries.end_of_all_units(keep), limit),
        };
        let Some(end) = end.map(|end| end.min(given)) else { return 0 };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let is_needed = |id: StreamId| groups.need(id);
        let ids = match trim.about {
            None => {
                let ids = entries.range(StreamId::MIN, end).map(|entry| entry.id);
                ids.filter(|id| !is_needed(*id)).take(count).collect()
            }
            Some(_) => {
                let (ids, next) = some_acknowledged(entries, *trim_from, end, count, is_needed);
                *trim_from = next;
                ids
            }
        };
        for id in &ids {
            entries.remove(*id, tracker);
        }
        ids.len() as u64
    }
}

/// The ids of at most `count` entries that are not needed, from `from` to `end` and then from the first one on, and where to
/// go on.
fn some_acknowledged(
    entries: &Entries,
    from: StreamId,
    end: StreamId,
    count: usize,
    is_needed: impl Fn(StreamId) -> bool,
) -> (Vec<StreamId>, StreamId) {
    let (mut ids, mut needed) = (Vec::new(), 0);
    let before = from.previous().map(|last| entries.range(StreamId::MIN, last.min(end)));
    for entry in entries.range(from, end).chain(before.into_iter().flatten()) {
        if ids.len() == count || needed == NEEDED_PER_TRIM {
            return (ids, entry.id);
        }
        if is_needed(entry.id) {
            needed += 1;
        } else {
            ids.push(entry.id);
        }
    }
    (ids, StreamId::MIN)
}
