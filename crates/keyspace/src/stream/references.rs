//! Entries that go, and what groups know of them.
//!
//! An entry that is deleted or trimmed stays pending where it is, unless [`References`] says otherwise.
//!
//! Source: the options KEEPREF, DELREF and ACKED of Redis 8.2.

use super::StreamId;
use super::body::LargeStream;
use super::entries::{Keep, Trim};

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
                let ids = entries.ids_to_go(trim);
                ids.into_iter().for_each(|id| groups.forget(id, tracker));
                entries.trim(trim, tracker)
            }
            References::Acknowledged if groups.len() > 0 => self.trim_acknowledged(trim),
            _ => entries.trim(trim, tracker),
        }
    }

    /// Those that a group needs stay, and later ones go in their place.
    fn trim_acknowledged(&mut self, trim: Trim) -> u64 {
        let Self { entries, groups, tracker, .. } = self;
        // No group has been given a later one.
        let given = groups.least_last_id().unwrap_or(StreamId::MIN);
        let (end, count) = match (trim.about, trim.keep) {
            (None, Keep::Newest(count)) => {
                (Some(given), (entries.len() as u64).saturating_sub(count))
            }
            (None, Keep::From(id)) => (id.previous(), u64::MAX),
            (Some(limit), keep) => (entries.end_of_units(keep, limit), u64::MAX),
        };
        let Some(end) = end else { return 0 };
        let range = entries.range(StreamId::MIN, end.min(given)).map(|entry| entry.id);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let ids: Vec<StreamId> = range.filter(|id| !groups.need(*id)).take(count).collect();
        for id in &ids {
            entries.remove(*id, tracker);
        }
        ids.len() as u64
    }
}
