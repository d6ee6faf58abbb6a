//! What an archive does not need any more: small objects that were made one, and what is older than it is to be kept.
//!
//! ```text
//!   copies   100      900      2000          keep what is younger than T
//!   log      101 ───────────────────────►
//!                      ▲ the newest copy that is older than T: what is before it goes
//! ```
//!
//! A point is restorable from a copy on, so the copy before T stays with all that is behind it. What goes is said not to be restorable first; then its copies go,
//! and then the log. Everything goes a while after it was decided: a restore may be reading it.

use std::collections::VecDeque;

use base::Lsn;
use redo::Id;

use crate::error::Result;
use crate::name::{Folder, Name};
use crate::object::ObjectReader;
use crate::picture::Picture;
use crate::target::Target;

/// How long after it was decided something goes.
const GRACE_US: u64 = 600_000_000;

/// So many go in one step.
const STEP_COUNT: usize = 32;

/// If the wall clock has gone so much faster or slower than the other one, nothing is removed for its age.
const CLOCK_OFF_MS: i64 = 3_600_000;

/// What both clocks said at the beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) wall_ms: i64,
    pub(crate) us: u64,
}

impl Begun {
    /// How long ago that is.
    pub(crate) fn passed_ms(self, now_us: u64) -> i64 {
        i64::try_from(now_us.saturating_sub(self.us) / 1000).unwrap_or(i64::MAX)
    }

    /// Whether the wall clock was set since.
    pub(crate) fn is_clock_off(self, now_ms: i64, now_us: u64) -> bool {
        let should_be_ms = self.wall_ms.saturating_add(self.passed_ms(now_us));
        now_ms.saturating_sub(should_be_ms).abs() > CLOCK_OFF_MS
    }
}

/// Objects that are to go.
#[derive(Default)]
pub(crate) struct Leftovers(VecDeque<Leftover>);

struct Leftover {
    at_us: u64,
    name: Name,
    why: Why,
}

/// Why an object is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its blocks are in another one.
    Replaced,
    /// It is of a copy that was not made to its end: none reads it.
    Unfinished,
    /// By the clock.
    Old,
}

impl Leftovers {
    /// These are to go after a while.
    pub(crate) fn add(&mut self, now_us: u64, why: Why, names: impl IntoIterator<Item = Name>) {
        if why == Why::Unfinished {
            let gone = names.into_iter().map(|name| Leftover { at_us: now_us, name, why });
            gone.for_each(|leftover| self.0.push_front(leftover));
            return;
        }
        let at_us = now_us + GRACE_US;
        self.0.extend(names.into_iter().map(|name| Leftover { at_us, name, why }));
    }

    /// The next one that is to go is refused to be removed: it is tried later.
    pub(crate) fn postpone(&mut self, now_us: u64) {
        if let Some(leftover) = self.0.front_mut() {
            leftover.at_us = now_us + GRACE_US;
        }
    }

    /// What is old by a clock that is wrong stays.
    pub(crate) fn keep_old(&mut self) {
        self.0.retain(|leftover| leftover.why != Why::Old);
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

/// What is not needed to restore what is younger than `oldest_ms`.
pub(crate) struct Old {
    /// The first block that can be restored without it.
    pub(crate) first: Lsn,
    /// In the order in which it is to go.
    pub(crate) names: Vec<Name>,
}

/// Finds what is older; `None` if nothing is.
pub(crate) fn find_old(target: &dyn Target, database: Id, oldest_ms: i64) -> Result<Option<Old>> {
    let picture = Picture::read(target, database)?;
    let fills = picture.ranges.iter().flat_map(|range| &range.fills);
    let fills: Vec<_> = fills.copied().collect();
    let mut kept = None;
    for (fill, objects) in fills.iter().rev() {
        let name = Name::Whole { fill: *fill, objects: *objects };
        if ObjectReader::open(target, database, name)?.header().time_max_ms <= oldest_ms {
            kept = Some(fill.lsn);
            break;
        }
    }
    let Some(first) = kept else { return Ok(None) };
    let mut names = Vec::new();
    for folder in [Folder::Whole, Folder::Base, Folder::Log] {
        let is_old = |name: &Name| match name {
            Name::Whole { fill, .. } | Name::Base { fill, .. } => fill.lsn < first,
            Name::Log { last, .. } => *last <= first,
            Name::Writer { .. } => false,
        };
        names.extend(target.list(database, folder)?.into_iter().filter(is_old));
    }
    Ok((!names.is_empty()).then_some(Old { first, names }))
}
