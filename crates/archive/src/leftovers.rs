//! Objects that an archive does not need any more: small ones that were made one, and those of a copy that was not made to its end.
//!
//! They go a while after that was decided: a restore may be reading them. If what they have was said to be read back from its medium, they
//! go when what has taken their place was, too.

use std::collections::VecDeque;

use redo::Id;

use crate::error::Result;
use crate::name::Name;
use crate::target::Target;

/// How long after it was decided something goes.
const GRACE_US: u64 = 600_000_000;

/// So many go in one step.
const STEP_COUNT: usize = 32;

/// So many wait, and the newest ones: the others stay until the next start of a server.
const GROUPS_MAX: usize = 1000;

/// Objects that are to go.
#[derive(Default)]
pub(crate) struct Leftovers {
    groups: VecDeque<Group>,
    /// The first so many objects that were put were read back.
    verified: u64,
}

/// Objects that go together.
struct Group {
    why: Why,
    at_us: u64,
    names: VecDeque<Name>,
}

/// Why objects are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Their blocks are in another one. They go when the first `behind` that were put were read back; 0: whatever was.
    Replaced { behind: u64 },
    /// They are of a copy that was not made to its end: none reads it.
    Unfinished,
}

impl Leftovers {
    /// These are to go after a while.
    pub(crate) fn add(&mut self, now_us: u64, why: Why, names: impl IntoIterator<Item = Name>) {
        let grace_us = if why == Why::Unfinished { 0 } else { GRACE_US };
        let (at_us, names) = (now_us + grace_us, names.into_iter().collect());
        self.groups.push_back(Group { why, at_us, names });
        if self.groups.len() > GROUPS_MAX {
            self.groups.pop_front();
        }
    }

    /// So many of those that were put were read back, the first ones first.
    pub(crate) fn note_verified(&mut self, verified: u64) {
        self.verified = verified;
    }

    /// Something was read back as something else, perhaps what has taken the place of others: those stay.
    pub(crate) fn note_damage(&mut self) {
        self.groups.retain(|group| group.why == Why::Unfinished);
    }

    /// The first ones whose time has come.
    fn due(&self, now_us: u64) -> Option<usize> {
        self.groups.iter().position(|group| {
            let is_read_back = match group.why {
                Why::Replaced { behind } => behind <= self.verified,
                Why::Unfinished => true,
            };
            now_us >= group.at_us && is_read_back
        })
    }

    /// The next one that is to go is refused to be removed: it is tried later.
    pub(crate) fn postpone(&mut self, now_us: u64) {
        if let Some(due) = self.due(now_us) {
            // Then others would be refused, too.
            for group in self.groups.range_mut(due..) {
                group.at_us = group.at_us.max(now_us + GRACE_US);
            }
        }
    }

    /// Removes some whose time has come. Returns whether there were any.
    pub(crate) fn step(&mut self, target: &dyn Target, database: Id, now_us: u64) -> Result<bool> {
        let Some(due) = self.due(now_us) else { return Ok(false) };
        let names = &mut self.groups[due].names;
        for _ in 0..STEP_COUNT {
            let Some(name) = names.front() else { break };
            target.remove(database, name)?;
            names.pop_front();
        }
        if names.is_empty() {
            self.groups.remove(due);
        }
        Ok(true)
    }
}
