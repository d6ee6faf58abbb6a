//! What thins out an archive: on the archiver's thread, or on any machine that reaches the target.
//!
//! ```text
//!   claim n ─► (wait) ─► look ─► plan ─► a copy, leaps: read, put, any later claim? ─► read what takes the place of what goes ─► wait
//!                          ▲                                                                                                      │
//!                          └──── a backup has named something else, or what is read is damaged ◄──── remove ◄─────────────────────┘ look again: is all
//!                                                                                                       └─► over                    that is kept there?
//! ```
//!
//! A crash anywhere leaves what was there before and perhaps leaps, or a copy, which are as true. Only what is not needed any more is
//! removed, when leaps are there and after a while, so that restores that read it can end.
//!
//! **One tidier.** Each takes the next number by creating its claim ([`crate::tidy_claim`]), and looks after each object and before each few removals
//! whether a later one has come: then it ends. A later one waits if the one before may still be removing something, so what it lists
//! after that is what it goes by. It takes no state for there that another one may be removing ([`crate::survey`]).
//!
//! **Names.** Before each few removals it is looked which backups have names: if one was named since it was planned, it is planned anew.
//!
//! **Damage.** What cannot be read because it is damaged is no way to anything: it is marked, planned anew without, and what only it leads to stays as it
//! is. Before anything goes, each leap that takes its place is read to its end, and each copy that what goes leads to, once by each process.
//!
//! **What hides.** One that says that a later writer has begun hides what is behind it. The last one is believed only next to the claim of that writer, or
//! something else of it; and whatever they say, nothing goes that those blocks which are not old need.
//!
//! **Writers** are not disturbed, and need not run. They put behind everything; what is old is theirs no more. A tidier that sees a claim of
//! a writer that has not begun yet leaves the archive alone: what counts is not settled.

use std::collections::{BTreeSet, HashSet, VecDeque};

use base::Lsn;
use env::Clock;
use redo::Id;

use crate::copier::Copier;
use crate::desk::ArchiveOptions;
use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::headers::{Headers, bare_header};
use crate::keep::Keep;
use crate::key::Salts;
use crate::making::Making;
use crate::name::{Folder, Name};
use crate::picture::Picture;
use crate::piece::{Piece, mark};
use crate::plan::{KeptState, Plan, keeps_young, without_begins};
use crate::survey::Survey;
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
    /// Copies made and read back; in a plan, copies that will be made if memory suffices.
    pub copies: u64,
    /// Objects that were put for them, and their bytes.
    pub objects_put: u64,
    /// See `objects_put`.
    pub bytes_put: u64,
    /// Objects that were removed.
    pub objects_removed: u64,
    /// What is damaged: what only it leads to stays as it is.
    pub damaged: BTreeSet<Piece>,
}

enum State {
    Begin,
    /// Until this time another tidier may still remove something.
    Fenced(u64),
    Surveying(Box<Survey>, Vec<Lsn>),
    Thinning(Box<Plan>, Option<Making>),
    /// These are to be read to their ends.
    Reading(Box<Plan>, VecDeque<Name>),
    Waiting(Box<Plan>, u64),
    /// These objects of copies by tidiers stay.
    Removing(Box<Plan>, Vec<Name>),
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
    /// What it has put itself, since it was planned.
    made: Vec<Name>,
    /// What is known to be damaged, what of it was found by this one and is to be marked, and what was found since this was asked.
    damaged: BTreeSet<Piece>,
    unmarked: Vec<Piece>,
    found: BTreeSet<Piece>,
    /// The last one that says where a writer has begun, and is believed.
    believed: Option<Name>,
    /// The target lets nothing be removed.
    is_refused: bool,
    /// The memory was not enough for a copy, or keys are lost.
    is_short: bool,
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
            made: Vec::new(),
            damaged: BTreeSet::new(),
            unmarked: Vec::new(),
            found: BTreeSet::new(),
            believed: None,
            is_refused: false,
            is_short: false,
            headers: Headers::default(),
            state: State::Begin,
            pending: None,
            tidied: Tidied::default(),
        }
    }

    /// One that need not read again what these headers say, and knows what is damaged.
    pub(crate) fn with_known(self, (headers, damaged): (Headers, BTreeSet<Piece>)) -> Self {
        Self { headers, damaged, ..self }
    }

    pub(crate) fn into_headers(self) -> Headers {
        match self.state {
            State::Surveying(survey, _) => survey.headers,
            _ => self.headers,
        }
    }

    /// What was found to be damaged since this was asked.
    pub(crate) fn take_damaged(&mut self) -> BTreeSet<Piece> {
        std::mem::take(&mut self.found)
    }

    /// Whether the target lets nothing be removed.
    pub(crate) const fn is_refused(&self) -> bool {
        self.is_refused
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

    /// Whether it reads what takes the place of what goes.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(..))
    }

    /// Whether ages are counted from before what the clock says: see [`TidyOptions::paced_from_ms`].
    pub(crate) fn is_behind(&self) -> bool {
        self.claim.is_some_and(|claim| claim.is_behind)
    }

    /// How many leaps and copies are still to be made, and objects to be removed.
    #[must_use]
    pub fn left(&self) -> (usize, usize) {
        match &self.state {
            State::Thinning(plan, now) => {
                let others = [plan.copy.is_some(), now.is_some()].map(usize::from);
                (plan.jobs.len() + others[0] + others[1], plan.gone.len())
            }
            State::Reading(plan, _) | State::Waiting(plan, _) | State::Removing(plan, _) => {
                (0, plan.gone.len())
            }
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
            self.tidied.copies = u64::from(plan.copy.is_some());
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
        if let Some(piece) = self.unmarked.last().copied() {
            mark(target, self.database, piece)?;
            self.unmarked.pop();
            return Ok(TidyStep::Worked);
        }
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
            State::Reading(..) => self.read(target, clock)?,
            State::Waiting(_, until_us) => {
                let until_us = *until_us;
                if clock.monotonic_us() < until_us {
                    return Ok(TidyStep::Waiting(until_us));
                }
                self.decide(target, clock)?;
            }
            State::Removing(..) => self.remove(target, clock)?,
            State::Ending => {
                self.is_refused = !self.claim()?.end(target)?;
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
        let mut names = self.list(target)?;
        names.extend(self.damaged.iter().map(|piece| Name::Damaged { piece: *piece }));
        let newest = Picture::of(&names).newest();
        let newest = newest.map(|name| self.headers.of(target, self.database, name)).transpose();
        let newest = match newest {
            // The next step looks at what is before it.
            Err(Error::Damaged { name, .. }) if self.note_damaged(&name) => return Ok(()),
            newest => newest?,
        };
        let newest_ms = newest.map_or(i64::MAX, |newest| newest.time_max_ms);
        let times = (newest_ms, self.options.paced_from_ms);
        let claim = TidyClaim::take(target, self.database, clock, times)?;
        self.claim = Some(claim);
        // If that fails, it ends: its claim is there.
        self.state = State::Fenced(claim.fenced_until_us.unwrap_or(0));
        target.clean(self.database, &Name::is_of_tidiers)?;
        Ok(())
    }

    /// Something is damaged. Returns whether that was not known.
    fn note_damaged(&mut self, name: &Name) -> bool {
        let Some(piece) = Piece::of(name) else { return false };
        let is_new = self.damaged.insert(piece);
        if is_new {
            self.tidied.damaged.insert(piece);
            self.found.insert(piece);
            self.unmarked.push(piece);
        }
        is_new
    }

    fn list(&mut self, target: &dyn Target) -> Result<Vec<Name>> {
        let names = Picture::names(target, self.database)?;
        self.check_begun(target, &names)?;
        // A writer that claims from now on finds everything that was seen here.
        let claims = target.list(self.database, Folder::Writer)?;
        let latest = claims.iter().map(Name::writer).max().unwrap_or(0);
        let picture = Picture::of(&names);
        let writer = latest.max(picture.writer);
        if writer > picture.begun { Err(Error::Claiming { writer }) } else { Ok(names) }
    }

    /// Whether the last one of what says that a writer has begun may be believed: the claim of the last writer stays, and no server lacks it.
    fn check_begun(&mut self, target: &dyn Target, names: &[Name]) -> Result<()> {
        let begins = names.iter().filter(|name| matches!(name, Name::Begin { .. }));
        let Some(last) = begins.max_by_key(|name| name.writer()).copied() else { return Ok(()) };
        let is_its =
            |name: &&Name| name.writer() >= last.writer() && name.folder() != Folder::Begin;
        if !names.iter().any(|name| is_its(&name)) {
            return Err(Error::Unclaimed { name: last });
        }
        if self.believed != Some(last) {
            bare_header(target, self.database, last)?;
            self.believed = Some(last);
        }
        Ok(())
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
        self.made.clear();
        let known = (std::mem::take(&mut self.headers), self.damaged.clone());
        let ArchiveOptions { keep, base_bytes_min, .. } = self.options.archive;
        let survey = Survey::new(names, (keep, base_bytes_min), now_ms, known);
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
        let number = self.claim.map_or(0, |claim| claim.number());
        let plan = survey.plan(named, Some(number).filter(|_| !self.is_short));
        self.headers = std::mem::take(&mut survey.headers);
        let (damaged, marked) = (std::mem::take(&mut survey.damaged), survey.marked().collect());
        let new = damaged.difference(&self.damaged).copied();
        let new: Vec<Piece> = new.filter(|piece| !BTreeSet::contains(&marked, piece)).collect();
        self.unmarked.extend(&new);
        self.found.extend(&new);
        self.damaged.extend(&damaged);
        self.tidied.damaged = damaged;
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
        let State::Thinning(plan, making) = &mut self.state else { return Ok(()) };
        if let Some(now) = making {
            let is_copy_put = now.is_copy_put();
            match now.step(target) {
                Ok(Thinning::Read) => return Ok(()),
                Ok(Thinning::Part(portion)) => {
                    self.pending = Some(portion);
                    return self.put(target, clock);
                }
                Ok(Thinning::NoRoom) => {
                    self.is_short = true;
                    return self.look_anew(target);
                }
                Ok(Thinning::Done) => {
                    self.tidied.leaps += u64::from(matches!(now, Making::Leap(_)));
                    *making = None;
                }
                // What there is of it is not complete, and goes.
                Err(Error::Damaged { name, .. } | Error::Record { name, .. })
                    if self.note_damaged(&name) =>
                {
                    if is_copy_put {
                        // The next one makes it under another number.
                        self.state = State::Ending;
                        return Ok(());
                    }
                    return self.look_anew(target);
                }
                Err(error) => return Err(error),
            }
        }
        let bytes = (self.options.archive.object_bytes, self.options.memory_bytes);
        if let Some(job) = plan.copy.take() {
            let copier = Copier::new(self.database, job, bytes, self.salts.pair());
            *making = Some(Making::Copy(Box::new(copier)));
            return Ok(());
        }
        if let Some(job) = plan.jobs.pop_front() {
            let key = self.salts.pair();
            let number = self.claim.map_or(0, |claim| claim.number());
            let thinner = Thinner::new(self.database, number, job, bytes, key);
            *making = Some(Making::Leap(Box::new(thinner)));
            return Ok(());
        }
        let State::Thinning(plan, _) = std::mem::replace(&mut self.state, State::Ending) else {
            return Ok(());
        };
        if !plan.gone.is_empty() {
            let relied = plan.relied.iter().chain(&self.made).copied().collect();
            self.state = State::Reading(plan, relied);
        }
        Ok(())
    }

    /// Reads something that is relied on to its end.
    fn read(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let State::Reading(_, relied) = &self.state else { return Ok(()) };
        let Some(name) = relied.front().copied() else {
            let until_us = clock.monotonic_us().saturating_add(self.options.grace_us);
            let copies = self.made.iter().filter(|name| name.folder() == Folder::Whole);
            self.tidied.copies += copies.count() as u64;
            if let State::Reading(plan, _) = std::mem::replace(&mut self.state, State::Ending) {
                self.state = State::Waiting(plan, until_us);
            }
            return Ok(());
        };
        match self.headers.read(target, self.database, name) {
            Ok(()) => {
                if let State::Reading(_, relied) = &mut self.state {
                    relied.pop_front();
                }
                Ok(())
            }
            Err(Error::Damaged { .. } | Error::Record { .. }) if self.note_damaged(&name) => {
                if self.made.contains(&name) {
                    // What it is made of stays; the next one makes it under another number.
                    self.state = State::Ending;
                    return Ok(());
                }
                self.look_anew(target)
            }
            Err(error) => Err(error),
        }
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
        self.made.push(name);
        self.pending = None;
        self.claim()?.check(target, clock).map(|_| ())
    }

    /// Whether a backup has named something since it was planned what goes.
    fn is_named_anew(&self, target: &dyn Target, plan: &Plan) -> Result<bool> {
        let named = self.named(target)?;
        Ok(named.iter().any(|lsn| *lsn <= plan.last && !plan.named.contains(lsn)))
    }

    /// Whether a writer has claimed the archive since it was planned.
    fn is_claimed_anew(&self, target: &dyn Target) -> Result<bool> {
        let claims = target.list(self.database, Folder::Writer)?;
        let latest = self.seen.iter().map(Name::writer).max();
        Ok(claims.iter().map(Name::writer).max() > latest)
    }

    /// Whether there is something old that was not there when it was planned, by others than itself: it came, or a list lacked it. What was
    /// made one of objects of the log that were there is not new.
    fn is_seen_anew(&self, names: &[Name], plan: &Plan) -> bool {
        let number = self.claim.map(|claim| claim.number());
        let by = |name: &Name| match name {
            Name::Thin { tidier, .. } => Some(*tidier),
            Name::Base { fill, .. } | Name::Whole { fill, .. } => fill.tidier(),
            _ => None,
        };
        let is_its = |name: &Name| number.is_some() && by(name) == number;
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
        let State::Waiting(plan, _) = &self.state else { return Ok(()) };
        if self.is_seen_anew(&names, plan) {
            return self.look_anew(target);
        }
        let gone: HashSet<Name> = plan.gone.iter().copied().collect();
        let left: Vec<Name> = names.iter().filter(|name| !gone.contains(*name)).copied().collect();
        let after = Picture::of_all(&left);
        let marks = self.damaged.iter().map(|piece| Name::Damaged { piece: *piece });
        let sound = Picture::of(&left.iter().copied().chain(marks).collect::<Vec<_>>());
        let lost = plan.nodes.iter().find(|lsn| after.chain(**lsn).is_none());
        let lost = lost.or_else(|| plan.sound.iter().find(|lsn| sound.chain(**lsn).is_none()));
        if let Some(lsn) = lost.copied() {
            return Err(Error::WouldLose { lsn });
        }
        // All that is young, each block of it; also of what a writer hides that is said to have begun.
        keeps_young(&Picture::of_all(&names), &after, plan.last)?;
        let [before, after] = [names, left.clone()].map(without_begins);
        keeps_young(&Picture::of_all(&before), &Picture::of_all(&after), plan.last)?;
        self.tidied.states_after = sound.states();
        let stays = |name: &Name| matches!(name, Name::Base { fill, .. } if fill.tidier().is_some() && fill.lsn <= plan.last && sound.is_whole(fill));
        let parts = left.into_iter().filter(stays).collect();
        if let State::Waiting(plan, _) = std::mem::replace(&mut self.state, State::Ending) {
            self.state = State::Removing(plan, parts);
        }
        Ok(())
    }

    /// Removes a few.
    fn remove(&mut self, target: &dyn Target, clock: &dyn Clock) -> Result<()> {
        let lease = self.claim()?.check(target, clock)?;
        let State::Removing(plan, parts) = &self.state else { return Ok(()) };
        // One of an older program removes copies that were not complete when it looked.
        if self.is_claimed_anew(target)?
            || self.is_named_anew(target, plan)?
            || !are_there(target, self.database, parts)?
        {
            return self.look_anew(target);
        }
        let State::Removing(plan, _) = &mut self.state else { return Ok(()) };
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

/// Whether these objects of copies are there.
fn are_there(target: &dyn Target, database: Id, parts: &[Name]) -> Result<bool> {
    if parts.is_empty() {
        return Ok(true);
    }
    let there: HashSet<Name> = target.list(database, Folder::Base)?.into_iter().collect();
    Ok(parts.iter().all(|name| there.contains(name)))
}
