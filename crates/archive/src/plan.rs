//! What is kept of an archive's old states, and what is to be done for it.

use std::collections::{HashSet, VecDeque};

use base::Lsn;

use crate::copier::CopyJob;
use crate::error::{Error, Result};
use crate::keep::Every;
use crate::name::{Folder, Name};
use crate::picture::Picture;
use crate::thinner::Job;

/// Why a state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is the last one of its time.
    Rule(Every),
    /// A backup has named it.
    Named,
    /// There is a copy, which others need.
    Copy,
    /// What is kept whole goes on from it.
    BeforeYoung,
}

/// A state that is kept of those that are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptState {
    /// The block.
    pub lsn: Lsn,
    /// When it was the last one, in Unix milliseconds, if that was looked at.
    pub time_ms: Option<i64>,
    /// Why.
    pub why: Why,
}

/// What is kept, what is to be made for it, and what goes.
pub(crate) struct Plan {
    /// The last block that is old.
    pub(crate) last: Lsn,
    /// What is kept of what is old, ascending.
    pub(crate) kept: Vec<KeptState>,
    /// A copy to be made, which what follows takes for there.
    pub(crate) copy: Option<CopyJob>,
    /// Leaps to be made.
    pub(crate) jobs: VecDeque<Job>,
    /// What goes when all of that is there, in this order.
    pub(crate) gone: VecDeque<Name>,
    /// The blocks that backups had named.
    pub(crate) named: HashSet<Lsn>,
    /// Every state of these can be restored afterwards.
    pub(crate) nodes: Vec<Lsn>,
    /// These without anything that is known to be damaged.
    pub(crate) sound: Vec<Lsn>,
    /// What is to be read to its end before anything goes.
    pub(crate) relied: Vec<Name>,
    /// What can be restored then: how many states, and from which block up to which.
    pub(crate) states_after: u64,
    /// See `states_after`.
    pub(crate) ranges: Vec<(Lsn, Lsn)>,
}

impl Plan {
    /// One by which these states stay, and nothing goes yet.
    pub(crate) fn new(last: Lsn, nodes: Vec<Lsn>, named: &[Lsn]) -> Self {
        Self {
            last,
            kept: Vec::new(),
            copy: None,
            jobs: VecDeque::new(),
            gone: VecDeque::new(),
            named: named.iter().copied().collect(),
            nodes,
            sound: Vec::new(),
            relied: Vec::new(),
            states_after: 0,
            ranges: Vec::new(),
        }
    }
}

/// Whether each block behind `last` that could be restored before can be afterwards.
pub(crate) fn keeps_young(before: &Picture, after: &Picture, last: Lsn) -> Result<()> {
    for range in before.ranges.iter().filter(|range| range.last > last) {
        let first = range.first.max(last.next());
        let there = after.range_of(range.last);
        if there.is_none_or(|there| there.first > first) {
            return Err(Error::WouldLose { lsn: first });
        }
    }
    Ok(())
}

/// All but where writers say to have begun.
pub(crate) fn without_begins(mut names: Vec<Name>) -> Vec<Name> {
    names.retain(|name| name.folder() != Folder::Begin);
    names
}
