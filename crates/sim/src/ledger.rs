//! What the database has promised, and the judgement of a recovery.
//!
//! ```text
//!   block        1    2    3    4    5    6            the state after each of them is known
//!                          ▲              ▲
//!                       promised         last
//!                          └── recovered ─┘            anything else is a violation
//! ```
//!
//! Promised is what a client was told: the reply of a write under `always`, a strict read, a
//! WAITAOF, what an earlier recovery has shown, and, under `everysec`, what is old enough.

use std::collections::BTreeMap;

use base::{Lsn, ObjectId};

use crate::picture::Picture;

/// The state after a block.
#[derive(Debug, Clone)]
struct State {
    total: u64,
    /// Of what a dump has.
    dumped_total: u64,
    /// The largest object that a block up to this one names.
    object_max: ObjectId,
    sealed_at_us: u64,
    /// When a client has written to it last.
    written_at_us: Option<u64>,
    /// Only of a run that is being looked at.
    picture: Option<Picture>,
}

/// See the file's top.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    states: BTreeMap<Lsn, State>,
    promised: Lsn,
    promise: String,
    /// What any client has read depends on this block, and what that was: promised if nothing but
    /// the process dies.
    read: (Lsn, String),
    /// The block that a client has written to last, and when.
    written: (Lsn, u64),
    /// Whether to keep what explains a violation.
    keeps_pictures: bool,
    pub(crate) promises: u64,
}

impl Ledger {
    pub(crate) fn new(keeps_pictures: bool) -> Self {
        let mut ledger = Self {
            states: BTreeMap::new(),
            promised: Lsn::ZERO,
            promise: String::new(),
            read: (Lsn::ZERO, String::new()),
            written: (Lsn::ZERO, 0),
            keeps_pictures,
            promises: 0,
        };
        ledger.note(Lsn::ZERO, &Picture::default(), ObjectId::NONE, 0);
        ledger
    }

    /// The last block whose state is known.
    pub(crate) fn last(&self) -> Lsn {
        self.states.last_key_value().map_or(Lsn::ZERO, |(lsn, _)| *lsn)
    }

    /// The state after the last block.
    pub(crate) fn last_total(&self) -> u64 {
        self.states.last_key_value().map_or(0, |(_, state)| state.total)
    }

    /// This is the state after a block.
    pub(crate) fn note(&mut self, lsn: Lsn, picture: &Picture, object: ObjectId, now_us: u64) {
        let object_max = self.states.last_key_value().map(|(_, state)| state.object_max);
        let kept = self.keeps_pictures.then(|| picture.clone());
        let (written, written_at_us) = self.written;
        let state = State {
            total: picture.total(),
            dumped_total: picture.dumped_total(),
            object_max: object_max.unwrap_or_default().max(object),
            sealed_at_us: now_us,
            written_at_us: (written == lsn).then_some(written_at_us),
            picture: kept,
        };
        self.states.insert(lsn, state);
    }

    /// A client writes to a block.
    pub(crate) const fn write(&mut self, lsn: Lsn, now_us: u64) {
        self.written = (lsn, now_us);
    }

    /// The largest object that a block up to this one names.
    pub(crate) fn object_max(&self, lsn: Lsn) -> ObjectId {
        let before = self.states.range(..=lsn).next_back();
        before.map_or(ObjectId::NONE, |(_, state)| state.object_max)
    }

    /// A client has read what depends on a block; `what` says how.
    pub(crate) fn note_read(&mut self, lsn: Lsn, what: impl FnOnce() -> String) {
        if lsn > self.read.0 {
            self.read = (lsn, what());
        }
    }

    /// What clients have read, and by which reply.
    pub(crate) fn read(&self) -> (Lsn, String) {
        self.read.clone()
    }

    /// Whether more was lost than `everysec` may lose: what clients have written in so long a time.
    pub(crate) fn judge_loss(&self, lsn: Lsn, at_stake_us: u64) -> Result<(), String> {
        let mut lost = self.states.range(lsn.next()..).map(|(_, state)| state);
        let Some(first_us) = lost.next().map(|state| state.sealed_at_us) else { return Ok(()) };
        let last_us = lost.filter_map(|state| state.written_at_us).max().unwrap_or(first_us);
        let span_us = last_us.saturating_sub(first_us);
        if span_us <= at_stake_us {
            return Ok(());
        }
        Err(format!("LOST: {span_us} us of writes are gone, {at_stake_us} may be under everysec"))
    }

    /// Everything up to a block was promised; `why` says by what.
    pub(crate) fn promise(&mut self, lsn: Lsn, why: impl FnOnce() -> String) {
        self.promises += 1;
        if lsn > self.promised {
            self.promised = lsn;
            self.promise = why();
        }
    }

    /// What was sealed before a moment is promised.
    pub(crate) fn promise_before(&mut self, moment_us: u64, why: &str) {
        let old = self.states.iter().rev().find(|(_, state)| state.sealed_at_us <= moment_us);
        if let Some(lsn) = old.map(|(lsn, _)| *lsn) {
            self.promise(lsn, || why.to_owned());
        }
    }

    /// What is wrong with a recovery that came to a block and a state, if anything. With
    /// `is_betrayed` the device has lied, and an earlier state is no fault.
    pub(crate) fn judge(&self, lsn: Lsn, found: &Picture, is_betrayed: bool) -> Result<(), String> {
        if lsn < self.promised && !is_betrayed {
            let (promised, why) = (self.promised, &self.promise);
            return Err(format!("LOST: block {lsn} is the last, {promised} was promised: {why}"));
        }
        let Some(expected) = self.states.get(&lsn) else {
            let last = self.last();
            return Err(format!("block {lsn} is the last there is, {last} the last ever written"));
        };
        if expected.total == found.total() {
            return Ok(());
        }
        let alike: Vec<Lsn> = self
            .states
            .iter()
            .filter(|(_, state)| state.total == found.total())
            .map(|(lsn, _)| *lsn)
            .collect();
        let differing = expected.picture.as_ref().map(|picture| picture.difference(found));
        Err(format!(
            "NO PREFIX: the state after block {lsn} is another (promised {}, last {}): {}; blocks with this state: {alike:?}",
            self.promised,
            self.last(),
            differing.unwrap_or_default()
        ))
    }

    /// What is wrong with a dump that says that it is of this block, if anything.
    pub(crate) fn judge_dump(&self, lsn: Lsn, found: &Picture) -> Result<(), String> {
        self.judge_copy(lsn, found, |state| state.dumped_total == found.dumped_total())
    }

    /// What is wrong with a log that was restored to this block, if anything.
    pub(crate) fn judge_restored(&self, lsn: Lsn, found: &Picture) -> Result<(), String> {
        self.judge_copy(lsn, found, |state| state.total == found.total())
    }

    fn judge_copy(
        &self,
        lsn: Lsn,
        found: &Picture,
        is_same: impl Fn(&State) -> bool,
    ) -> Result<(), String> {
        let Some(expected) = self.states.get(&lsn) else {
            return Err(format!("DUMP: of block {lsn}, which there never was"));
        };
        if is_same(expected) {
            return Ok(());
        }
        let alike = self.states.iter().filter(|(_, state)| is_same(state));
        let alike: Vec<Lsn> = alike.map(|(lsn, _)| *lsn).collect();
        let differing = expected.picture.as_ref().map(|picture| picture.difference(found));
        Err(format!(
            "DUMP: not the state after block {lsn}: {}; blocks with this state: {alike:?}",
            differing.unwrap_or_default()
        ))
    }

    /// The log was set back to the state after block `to`, which is the one after block `at` now.
    pub(crate) fn set_back(&mut self, to: Lsn, at: Lsn) {
        // What was lost before is no part of it.
        self.states.retain(|lsn, _| *lsn < at);
        let object_max = self.object_max(at);
        if let Some(state) = self.states.get(&to).cloned() {
            self.states.insert(at, State { object_max, ..state });
        }
        self.settle(at);
        "the log was set back".clone_into(&mut self.promise);
    }

    /// A recovery has come to this block: it is promised from now on, and what was behind it has
    /// never been.
    pub(crate) fn settle(&mut self, lsn: Lsn) {
        self.states.retain(|at, _| *at <= lsn);
        self.promised = lsn;
        self.read = (lsn, String::new());
        "an earlier recovery".clone_into(&mut self.promise);
    }
}
