//! Objects that an archive does not need any more: small ones that were made one, and those of a copy that was not made to its end.
//!
//! They go a while after that was decided: a restore may be reading them.

use std::collections::VecDeque;

use redo::Id;

use crate::error::Result;
use crate::name::Name;
use crate::target::Target;

/// How long after it was decided something goes.
const GRACE_US: u64 = 600_000_000;

/// So many go in one step.
const STEP_COUNT: usize = 32;

/// Objects that are to go.
#[derive(Default)]
pub(crate) struct Leftovers(VecDeque<Leftover>);

struct Leftover {
    at_us: u64,
    name: Name,
}

/// Why an object is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its blocks are in another one.
    Replaced,
    /// It is of a copy that was not made to its end: none reads it.
    Unfinished,
}

impl Leftovers {
    /// These are to go after a while.
    pub(crate) fn add(&mut self, now_us: u64, why: Why, names: impl IntoIterator<Item = Name>) {
        if why == Why::Unfinished {
            let gone = names.into_iter().map(|name| Leftover { at_us: now_us, name });
            gone.for_each(|leftover| self.0.push_front(leftover));
            return;
        }
        let at_us = now_us + GRACE_US;
        self.0.extend(names.into_iter().map(|name| Leftover { at_us, name }));
    }

    /// The next one that is to go is refused to be removed: it is tried later.
    pub(crate) fn postpone(&mut self, now_us: u64) {
        if let Some(leftover) = self.0.front_mut() {
            leftover.at_us = now_us + GRACE_US;
        }
    }

    /// Removes some whose time has come. Returns whether there were any.
    pub(crate) fn step(&mut self, target: &dyn Target, database: Id, now_us: u64) -> Result<bool> {
        let mut worked = false;
        for _ in 0..STEP_COUNT {
            let Some(leftover) = self.0.front().filter(|leftover| now_us >= leftover.at_us) else {
                break;
            };
            target.remove(database, &leftover.name)?;
            self.0.pop_front();
            worked = true;
        }
        Ok(worked)
    }
}
