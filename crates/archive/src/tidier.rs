//! What thins out an archive: on the archiver's thread, or on any machine that reaches the target.
//!
//! ```text
//!   claim n ─► (wait) ─► look ─► plan ─► leaps: read, put, any later claim? ─► wait ─► look again: is all that is kept there
//!                          ▲                                                            without what goes? ─► remove ─► over
//!                          └────── a backup has named something else, or what is read is damaged ◄────────────┘
//! ```
//!
//! A crash anywhere leaves what was there before and perhaps leaps, which are as true. Only what is not needed any more is
//! removed, when leaps are there and after a while, so that restores that read it can end.
//!
//! **One tidier.** Each takes the next number by creating its claim ([`crate::tidy_claim`]), and looks after each object and before each few removals
//! whether a later one has come: then it ends. A later one waits if the one before may still be removing something, so what it lists
//! after that is what it goes by. It takes no state for there that another one may be removing ([`crate::survey`]).
//!
//! **Names.** Before each few removals it is looked which backups have names: if one was named since it was planned, it is planned anew.
//!
//! **Damage.** What cannot be read because it is damaged is no way to anything: it is planned anew without, and what only it leads to stays as it is.
//!
//! **Writers** are not disturbed, and need not run. They put behind everything; what is old is theirs no more. A tidier that sees a claim of
//! a writer that has not begun yet leaves the archive alone: what counts is not settled.

use std::collections::{BTreeSet, HashSet};

use base::Lsn;
use env::Clock;
use redo::Id;

use crate::desk::ArchiveOptions;
use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::headers::Headers;
use crate::keep::Keep;
use crate::key::Salts;
use crate::name::{Folder, Name};
use crate::picture::Picture;
use crate::survey::{KeptState, Plan, Survey};
use crate::target::{Put, Target, check_same};
use crate::thinner::{Thinner, Thinning};
use crate::tidy_claim::TidyClaim;

/// So many objects are removed in one step.
const STEP_COUNT: usize = 16;

/// How an archive is thinned out.
#[derive(Debug, Clone, Copy)]
pub struct TidyOptions {
    /// What is kept, and how objects are made.
    pub archive: ArchiveOptions,
    /// The memory for names of entries.
    pub memory_bytes: usize,
    /// How long it is waited before anything is removed, in microseconds.
    pub grace_us: u64,
    /// Ages go on by a few hours at most from one time that it is done to the next; at first from this time, in Unix milliseconds. `None`: they
    /// are what the clock says.
    pub paced_from_ms: Option<i64>,
}

impl TidyOptions {
    /// Those of an archive that is written so.
    #[must_use]
    pub const fn new(archive: ArchiveOptions) -> Self {
        Self { archive, memory_bytes: 64 << 20, grace_us: 600_000_000, paced_from_ms: None }
    }
}

/// How a step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TidyStep {
    /// There is more to do.
    Worked,
    /// There is nothing to do until this time of the monotonic clock.
    Waiting(u64),
    /// All is done.
    Finished,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tidied {
    /// The states that are kept of those that are old.
    pub kept: Vec<KeptState>,
    /// The last block that is old: all behind it stay.
    pub last_old: Lsn,
    /// How many states could be restored before, and can be afterwards.
    pub states_before: u64,
    /// See `states_before`.
    pub states_after: u64,
    /// How many leaps were made.
    pub leaps: u64,
    /// Objects that were put for them, and their bytes.
    pub objects_put: u64,
    /// See `objects_put`.
    pub bytes_put: u64,
    /// Objects that were removed.
    pub objects_removed: u64,
    /// Objects that were found damaged: what only they lead to stays as it is.
    pub damaged: BTreeSet<Name>,
}

enum State {
    Begin,
    /// Until this time another tidier may still remove something.
    Fenced(u64),
    Surveying(Box<Survey>, Vec<Lsn>),
    Thinning(Box<Plan>, Option<Box<Thinner>>),
    Waiting(Box<Plan>, u64),
    Removing(Box<Plan>),
    Ending,
    Finished,
}

/// See the file's top.
pub struct Tidier {
    database: Id,
    options: TidyOptions,
    salts: Salts,
    /// Its claim, once that is there.
    claim: Option<TidyClaim>,
    /// What there was when it was planned.
    seen: HashSet<Name>,
    headers: Headers,
    state: State,
    pending: Option<Portion>,
    tidied: Tidied,
}

impl Tidier {
    /// One for the archive of this database. `seed` is random, and never the same again.
    #[must_use]
    pub fn new(database: Id, options: TidyOptions, seed: [u8; crate::key::KEY_BYTES]) -> Self {
        Self {
            database,
            options,
            salts: Salts::new(seed),
            claim: None,
            seen: HashSet::new(),
            headers: Headers::default(),
            state: State::Begin,
            pending: None,
            tidied: Tidied::default(),
        }
    }

    /// One that need not read again what these headers say.
    pub(crate) fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    pub(crate) fn into_headers(self) -> Headers {
        match self.state {
            State::Surveying(survey, _) => survey.headers,
            _ => self.headers,
        }
    }

    /// What was done so far.
    #[must_use]
    pub const fn tidied(&self) -> &Tidied {
        &self.tidied
    }

    pub(crate) const fn keep(&self) -> Keep {
        self.options.archive.keep
    }

    /// Whether it waits for what another one may still be removing.
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        matches!(self.state, State::Fenced(until_us) if until_us > 0)
    }

    /// Whether ages are counted from before what the clock says: see [`TidyOptions::paced_from_ms`].
    pub(crate) fn is_behind(&self) -> bool {
        self.claim.is_some_and(|claim| claim.is_behind)
    }

    /// How many leaps are still to be made, and objects to be removed.
    #[must_use]
    pub fn left(&self) -> (usize, usize) {
        match &self.state {
            State::Thinning(plan, now) => {
                (plan.jobs.len() + usize::from(now.is_some()), plan.gone.len())
            }
            State::Waiting(plan, _) | State::Removing(plan) => (0, plan.gone.len()),
            _ => (0, 0),
        }
    }

    /// Finds out what would be done, and changes nothing.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub fn plan(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<&Tidied> {
        self.look(target, clock.now_ms())?;
        while matches!(self.state, State::Surveying(..)) {
            self.survey(target)?;
        }
        if let State::Thinning(plan, _) = &self.state {
            self.tidied.leaps = plan.jobs.len() as u64;
            self.tidied.objects_removed = plan.gone.len() as u64;
        }
        self.state = State::Finished;
        Ok(&self.tidied)
    }

    /// Does some of what there is to do. After an error that may pass the same step may be asked for again.
    ///
    /// # Errors
    /// When the target cannot be used, an object that is read is damaged, or another tidier or writer has come.
    pub fn step(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<TidyStep> {
        match &mut self.state {
            State::Begin => self.begin(target, clock)?,
            State::Fenced(until_us) => {
                let until_us = *until_us;
                if clock.monotonic_us() < until_us {
                    return Ok(TidyStep::Waiting(until_us));
                }
                self.look_anew(target)?;
            }
            State::Surveying(..) => self.survey(target)?,
            State::Thinning(..) => self.thin_out(target, clock)?,
            State::Waiting(_, until_us) => {
                let until_us = *until_us;
                if clock.monotonic_us() < until_us {
                    return Ok(TidyStep::Waiting(until_us));
                }
                self.decide(target, clock)?;
            }
            State::Removing(_) => self.remove(target, clock)?,
            State::Ending => {
                self.claim()?.end(target)?;
                self.state = State::Finished;
            }
            State::Finished => return Ok(TidyStep::Finished),
        }
        Ok(TidyStep::Worked)
    }

    fn claim(&self) -> Result<&TidyClaim> {
        self.claim.as_ref().ok_or(Error::OtherTidier { by: 0 })
    }

    fn begin(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let newest = Picture::of(&self.list(target)?).newest();
        let newest = newest.map(|name| self.headers.of(target, self.database, name)).transpose()?;
        let newest_ms = newest.map_or(i64::MAX, |newest| newest.time_max_ms);
        let times = (newest_ms, self.options.paced_from_ms);
        let claim = TidyClaim::take(target, self.database, clock, times)?;
        self.claim = Some(claim);
        // If that fails, it ends: its claim is there.
        self.state = State::Fenced(claim.fenced_until_us.unwrap_or(0));
        target.clean(self.database, &Folder::OF_TIDIERS)?;
        Ok(())
    }

    fn list(&self, target: &dyn Target) -> Result<Vec<Name>> {
        let names = Picture::names(target, self.database)?;
        // A writer that claims from now on finds everything that was seen here.
        let claims = target.list(self.database, Folder::Writer)?;
        let latest = claims.iter().map(Name::writer).max().unwrap_or(0);
        let picture = Picture::of(&names);
        let writer = latest.max(picture.writer);
        if writer > picture.begun { Err(Error::Claiming { writer }) } else { Ok(names) }
    }

    /// The blocks that backups have named.
    fn named(&self, target: &dyn Target) -> Result<Vec<Lsn>> {
        let named = target.list(self.database, Folder::Named)?;
        let named = named.iter().filter_map(|name| match name {
            Name::Named { lsn, .. } => Some(*lsn),
            _ => None,
        });
        Ok(named.collect())
    }

    /// Begins to look at what there is.
    fn look(&mut self, target: &dyn Target, now_ms: i64) -> Result<()> {
        let names = self.list(target)?;
        let named = self.named(target)?;
        let states = Picture::of(&names).states();
        if self.tidied.states_before == 0 {
            self.tidied.states_before = states;
        }
        self.tidied.states_after = states;
        self.seen = names.iter().copied().collect();
        let known = (std::mem::take(&mut self.headers), self.tidied.damaged.clone());
        let survey = Survey::new(names, self.options.archive.keep, now_ms, known);
        self.state = State::Surveying(Box::new(survey), named);
        Ok(())
    }

    fn look_anew(&mut self, target: &dyn Target) -> Result<()> {
        let now_ms = self.claim()?.now_ms;
        self.look(target, now_ms)
    }

    fn survey(&mut self, target: &dyn Target) -> Result<()> {
        let State::Surveying(survey, named) = &mut self.state else { return Ok(()) };
        if survey.step(target, self.database)? {
            return Ok(());
        }
        let plan = survey.plan(named);
        self.headers = std::mem::take(&mut survey.headers);
        self.tidied.damaged = std::mem::take(&mut survey.damaged);
        match plan {
            Some(plan) => {
                (self.tidied.kept, self.tidied.last_old) = (plan.kept.clone(), plan.last);
                self.tidied.states_after = plan.states_after;
                self.state = State::Thinning(Box::new(plan), None);
            }
            None => self.state = State::Ending,
        }
        Ok(())
    }

    fn thin_out(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        if self.pending.is_some() {
            return self.put(target, clock);
        }
        let State::Thinning(plan, thinner) = &mut self.state else { return Ok(()) };
        if let Some(now) = thinner {
            match now.step(target) {
                Ok(Thinning::Read) => return Ok(()),
                Ok(Thinning::Part(portion)) => {
                    self.pending = Some(portion);
                    return self.put(target, clock);
                }
                Ok(Thinning::Done) => {
                    self.tidied.leaps += 1;
                    *thinner = None;
                }
                // What there is of this leap is not complete, and goes.
                Err(Error::Damaged { name, .. } | Error::Record { name, .. }) => {
                    self.tidied.damaged.insert(name);
                    return self.look_anew(target);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(job) = plan.jobs.pop_front() {
            let bytes = (self.options.archive.object_bytes, self.options.memory_bytes);
            let key = self.salts.pair();
            let number = self.claim.map_or(0, |claim| claim.number());
            let new = Thinner::new(self.database, number, job, bytes, key);
            *thinner = Some(Box::new(new));
            return Ok(());
        }
        let State::Thinning(plan, _) = std::mem::replace(&mut self.state, State::Ending) else {
            return Ok(());
        };
        if !plan.gone.is_empty() {
            let until_us = clock.monotonic_us().saturating_add(self.options.grace_us);
            self.state = State::Waiting(plan, until_us);
        }
        Ok(())
    }

    /// Puts what is pending.
    fn put(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let Some(portion) = &mut self.pending else { return Ok(()) };
        portion.encode(target, &mut self.salts, self.options.archive.compression);
        let (name, stored) = (portion.header.name, portion.stored());
        if target.put_new(self.database, &name, stored)? == Put::Taken {
            check_same(target, self.database, &name, stored)?;
        }
        self.tidied.objects_put += 1;
        self.tidied.bytes_put += stored.len() as u64;
        self.pending = None;
        self.claim()?.check(target, clock).map(|_| ())
    }

    /// Whether a backup has named something since it was planned what goes.
    fn is_named_anew(&self, target: &dyn Target, plan: &Plan) -> Result<bool> {
        let named = self.named(target)?;
        Ok(named.iter().any(|lsn| *lsn <= plan.last && !plan.named.contains(lsn)))
    }

    /// Whether there is something old that was not there when it was planned, by others than itself: it came, or a list lacked it. What was
    /// made one of objects of the log that were there is not new.
    fn is_seen_anew(&self, names: &[Name], plan: &Plan) -> bool {
        let number = self.claim.map(|claim| claim.number());
        let is_its =
            |name: &Name| matches!(name, Name::Thin { tidier, .. } if Some(*tidier) == number);
        let is_old = |name: &Name| name.last().is_some_and(|last| last <= plan.last);
        let mut new =
            names.iter().filter(|name| is_old(name) && !is_its(name) && !self.seen.contains(*name));
        let seen: Vec<Name> = self.seen.iter().copied().collect();
        let seen = Picture::of(&seen);
        new.any(|name| match *name {
            Name::Log { first, last, .. } => {
                let mut ranges = seen.ranges.iter();
                !ranges.any(|range| range.first < first && last <= range.last)
            }
            _ => true,
        })
    }

    /// Looks whether all that is kept is there without what goes.
    fn decide(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        self.claim()?.check(target, clock)?;
        let State::Waiting(plan, _) = &self.state else { return Ok(()) };
        if self.is_named_anew(target, plan)? {
            return self.look_anew(target);
        }
        let names = self.list(target)?;
        if self.is_seen_anew(&names, plan) {
            return self.look_anew(target);
        }
        let gone: HashSet<Name> = plan.gone.iter().copied().collect();
        let left: Vec<Name> = names.iter().filter(|name| !gone.contains(*name)).copied().collect();
        let (before, after) = (Picture::of(&names), Picture::of(&left));
        let is_lost = |lsn: &&Lsn| after.chain(**lsn).is_none();
        if let Some(lsn) = plan.nodes.iter().find(is_lost).copied() {
            return Err(Error::WouldLose { lsn });
        }
        // All that is young, each block of it.
        for range in before.ranges.iter().filter(|range| range.last > plan.last) {
            let first = range.first.max(plan.last.next());
            let there = after.range_of(range.last);
            if there.is_none_or(|there| there.first > first) {
                return Err(Error::WouldLose { lsn: first });
            }
        }
        self.tidied.states_after = after.states();
        if let State::Waiting(plan, _) = std::mem::replace(&mut self.state, State::Ending) {
            self.state = State::Removing(plan);
        }
        Ok(())
    }

    fn remove(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let lease = self.claim()?.check(target, clock)?;
        let State::Removing(plan) = &self.state else { return Ok(()) };
        if self.is_named_anew(target, plan)? {
            return self.look_anew(target);
        }
        let State::Removing(plan) = &mut self.state else { return Ok(()) };
        for _ in 0..STEP_COUNT {
            let Some(name) = plan.gone.front() else { break };
            if lease.is_over(clock) {
                return Ok(());
            }
            target.remove(self.database, name)?;
            plan.gone.pop_front();
            self.tidied.objects_removed += 1;
        }
        if plan.gone.is_empty() {
            self.state = State::Ending;
        }
        Ok(())
    }

    /// The first block up to which every one before this block can be restored when what goes is gone; `None` if it is
    /// not known yet what goes.
    pub(crate) fn restorable_from(&self, lsn: Lsn) -> Option<Lsn> {
        let State::Thinning(plan, _) = &self.state else { return None };
        // What was put since it was looked at goes on from the last one.
        let range = plan.ranges.iter().rev().find(|(first, _)| *first <= lsn);
        range.map(|(first, _)| *first)
    }
}
