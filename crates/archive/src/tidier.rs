//! What thins out an archive: on the archiver's thread, or on any machine that reaches the target.
//!
//! ```text
//!   claim n ─► look ─► plan ─► leaps: read, put, any later claim? ─► wait ─► look again: is all that is kept there
//!                                                                            without what goes? ─► remove ─► done
//! ```
//!
//! A crash anywhere leaves what was there before and perhaps leaps, which are as true. Only what is not needed any more is
//! removed, when leaps are there and after a while, so that restores that read it can end.
//!
//! **One tidier.** Each takes the next number by creating its claim, and looks after each object and before each few removals whether a later one has come: then it
//! ends. A later one that listed the archive after its claim has seen whatever this one goes by. It takes nothing for
//! there that this one may be removing ([`crate::survey`]).
//!
//! **Writers** are not disturbed, and need not run. They put behind everything; what is old is theirs no more. A tidier that sees a claim of
//! a writer that has not begun yet leaves the archive alone: what counts is not settled.

use std::collections::{HashSet, VecDeque};

use base::Lsn;
use env::Clock;
use redo::Id;

use crate::desk::ArchiveOptions;
use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::key::Salts;
use crate::name::{Folder, Name};
use crate::object::Header;
use crate::picture::Picture;
use crate::survey::{KeptState, Plan, Survey};
use crate::target::{Put, Target, check_same};
use crate::thinner::{Thinner, Thinning};

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
}

impl TidyOptions {
    /// Those of an archive that is written so.
    #[must_use]
    pub const fn new(archive: ArchiveOptions) -> Self {
        Self { archive, memory_bytes: 64 << 20, grace_us: 600_000_000 }
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
}

enum State {
    Begin,
    Surveying(Box<Survey>, Vec<Lsn>),
    Thinning(Box<Plan>, Option<Box<Thinner>>),
    Waiting(Box<Plan>, u64),
    Removing(VecDeque<Name>),
    Finished,
}

/// See the file's top.
pub struct Tidier {
    database: Id,
    options: TidyOptions,
    salts: Salts,
    /// Its number, once it has claimed.
    number: u64,
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
            number: 0,
            state: State::Begin,
            pending: None,
            tidied: Tidied::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub const fn tidied(&self) -> &Tidied {
        &self.tidied
    }

    /// How many leaps are still to be made, and objects to be removed.
    #[must_use]
    pub fn left(&self) -> (usize, usize) {
        match &self.state {
            State::Thinning(plan, now) => {
                (plan.jobs.len() + usize::from(now.is_some()), plan.gone.len())
            }
            State::Waiting(plan, _) => (0, plan.gone.len()),
            State::Removing(gone) => (0, gone.len()),
            _ => (0, 0),
        }
    }

    /// Finds out what would be done, and changes nothing.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub fn plan(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<&Tidied> {
        self.look(target, clock)?;
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
            State::Begin => {
                self.claim(target)?;
                self.look(target, clock)?;
            }
            State::Surveying(..) => self.survey(target)?,
            State::Thinning(..) => self.thin_out(target, clock)?,
            State::Waiting(_, until_us) => {
                let until_us = *until_us;
                if clock.monotonic_us() < until_us {
                    return Ok(TidyStep::Waiting(until_us));
                }
                self.decide(target)?;
            }
            State::Removing(_) => self.remove(target)?,
            State::Finished => return Ok(TidyStep::Finished),
        }
        Ok(TidyStep::Worked)
    }

    fn claim(&mut self, target: &dyn Target) -> Result<()> {
        let claims = target.list(self.database, Folder::Tidier)?;
        let number = claims.iter().map(Name::number).max().unwrap_or(0) + 1;
        let name = Name::Tidier { number };
        if target.put_new(self.database, &name, &Header::new(self.database, name).encode())?
            == Put::Taken
        {
            return Err(Error::OtherTidier { by: number });
        }
        self.number = number;
        target.clean(self.database, &Folder::OF_TIDIERS)?;
        Ok(())
    }

    /// Whether no later tidier has come.
    fn check_claim(&self, target: &dyn Target) -> Result<()> {
        let claims = target.list(self.database, Folder::Tidier)?;
        let by = claims.iter().map(Name::number).max().unwrap_or(0);
        if by == self.number { Ok(()) } else { Err(Error::OtherTidier { by }) }
    }

    fn list(&self, target: &dyn Target) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for folder in Picture::FOLDERS {
            names.extend(target.list(self.database, folder)?);
        }
        // A writer that claims from now on finds everything that was seen here.
        let claims = target.list(self.database, Folder::Writer)?;
        let latest = claims.iter().map(Name::writer).max().unwrap_or(0);
        let picture = Picture::of(&names);
        let writer = latest.max(picture.writer);
        if writer > picture.begun { Err(Error::Claiming { writer }) } else { Ok(names) }
    }

    /// Begins to look at what there is.
    fn look(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let names = self.list(target)?;
        let named = target.list(self.database, Folder::Named)?;
        let named = named.iter().filter_map(|name| match name {
            Name::Named { lsn, .. } => Some(*lsn),
            _ => None,
        });
        let named = named.collect();
        let picture = Picture::of(&names);
        self.tidied.states_before = picture.states();
        self.tidied.states_after = picture.states();
        let survey = Survey::new(names, picture, self.options.archive.keep, clock.now_ms());
        self.state = State::Surveying(Box::new(survey), named);
        Ok(())
    }

    fn survey(&mut self, target: &dyn Target) -> Result<()> {
        let State::Surveying(survey, _) = &mut self.state else { return Ok(()) };
        if survey.step(target, self.database)? {
            return Ok(());
        }
        let State::Surveying(survey, named) = std::mem::replace(&mut self.state, State::Finished)
        else {
            return Ok(());
        };
        if let Some(plan) = survey.plan(&named) {
            (self.tidied.kept, self.tidied.last_old) = (plan.kept.clone(), plan.last);
            self.tidied.states_after = plan.states_after;
            self.state = State::Thinning(Box::new(plan), None);
        }
        Ok(())
    }

    fn thin_out(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        if self.pending.is_some() {
            return self.put(target);
        }
        let State::Thinning(plan, thinner) = &mut self.state else { return Ok(()) };
        if let Some(now) = thinner {
            match now.step(target)? {
                Thinning::Read => return Ok(()),
                Thinning::Part(portion) => {
                    self.pending = Some(portion);
                    return self.put(target);
                }
                Thinning::Done => {
                    self.tidied.leaps += 1;
                    *thinner = None;
                }
            }
        }
        if let Some(job) = plan.jobs.pop_front() {
            let bytes = (self.options.archive.object_bytes, self.options.memory_bytes);
            let key = self.salts.pair();
            let new = Thinner::new(self.database, self.number, job, bytes, key);
            *thinner = Some(Box::new(new));
            return Ok(());
        }
        let State::Thinning(plan, _) = std::mem::replace(&mut self.state, State::Finished) else {
            return Ok(());
        };
        if plan.gone.is_empty() {
            return self.clean(target);
        }
        let until_us = clock.monotonic_us().saturating_add(self.options.grace_us);
        self.state = State::Waiting(plan, until_us);
        Ok(())
    }

    /// Puts what is pending.
    fn put(&mut self, target: &dyn Target) -> Result<()> {
        let Some(portion) = &mut self.pending else { return Ok(()) };
        portion.encode(target, &mut self.salts, self.options.archive.compression);
        let (name, stored) = (portion.header.name, portion.stored());
        if target.put_new(self.database, &name, stored)? == Put::Taken {
            check_same(target, self.database, &name, stored)?;
        }
        self.tidied.objects_put += 1;
        self.tidied.bytes_put += stored.len() as u64;
        self.pending = None;
        self.check_claim(target)
    }

    /// Looks whether all that is kept is there without what goes.
    fn decide(&mut self, target: &dyn Target) -> Result<()> {
        self.check_claim(target)?;
        let names = self.list(target)?;
        let State::Waiting(plan, _) = &mut self.state else { return Ok(()) };
        let gone: HashSet<Name> = plan.gone.iter().copied().collect();
        let left: Vec<Name> = names.iter().filter(|name| !gone.contains(*name)).copied().collect();
        let (before, after) = (Picture::of(&names), Picture::of(&left));
        let young = before.ranges.iter().map(|range| range.last).filter(|last| *last > plan.last);
        let mut needed = plan.nodes.iter().copied().chain(young);
        if let Some(lsn) = needed.find(|lsn| after.chain(*lsn).is_none()) {
            return Err(Error::WouldLose { lsn });
        }
        self.tidied.states_after = after.states();
        self.state = State::Removing(std::mem::take(&mut plan.gone).into());
        Ok(())
    }

    fn remove(&mut self, target: &dyn Target) -> Result<()> {
        self.check_claim(target)?;
        let State::Removing(gone) = &mut self.state else { return Ok(()) };
        for _ in 0..STEP_COUNT {
            let Some(name) = gone.front() else { break };
            target.remove(self.database, name)?;
            gone.pop_front();
            self.tidied.objects_removed += 1;
        }
        if gone.is_empty() { self.clean(target) } else { Ok(()) }
    }

    /// Removes the claims of earlier ones.
    fn clean(&mut self, target: &dyn Target) -> Result<()> {
        for claim in target.list(self.database, Folder::Tidier)? {
            if claim.number() < self.number {
                target.remove(self.database, &claim)?;
            }
        }
        self.state = State::Finished;
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
