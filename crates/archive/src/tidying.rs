//! Thinning out by the archiver: an object at a time, when there is nothing to ship, and not by a clock that was set.

use std::collections::BTreeSet;

use base::Lsn;
use env::Clock;
use redo::Id;

use crate::desk::ArchiveOptions;
use crate::error::{Error, Result};
use crate::figures::TidyState;
use crate::headers::Headers;
use crate::keep::Keep;
use crate::key::Salts;
use crate::piece::Piece;
use crate::target::Target;
use crate::tidier::{Tidied, Tidier, TidyOptions, TidyStep};
use crate::tidy_claim::{Dated, TidyClaim};

/// How often it is done.
const TIDY_EVERY_US: u64 = 3_600_000_000;

/// So long both clocks go alike before the wall clock is believed.
const STEADY_US: u64 = 3_600_000_000;

/// If the wall clock has gone so much faster or slower than the other one, nothing is removed for its age.
const CLOCK_OFF_MS: i64 = 3_600_000;

/// What both clocks said at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) wall_ms: i64,
    pub(crate) us: u64,
}

impl Begun {
    fn now(clock: &dyn Clock) -> Self {
        Self { wall_ms: clock.now_ms(), us: clock.monotonic_us() }
    }

    /// How long ago that is.
    fn passed_ms(self, now_us: u64) -> i64 {
        i64::try_from(now_us.saturating_sub(self.us) / 1000).unwrap_or(i64::MAX)
    }

    /// Whether the wall clock was set between this and `now`.
    fn is_clock_off(self, now: Self) -> bool {
        let should_be_ms = self.wall_ms.saturating_add(self.passed_ms(now.us));
        now.wall_ms.saturating_sub(should_be_ms).abs() > CLOCK_OFF_MS
    }
}

/// Thins out what is old, now and then.
pub(crate) struct Tidying {
    /// What both clocks said at the beginning, and since when they go alike.
    begun: Begun,
    steady: Begun,
    /// The time of the last block that was found at the beginning; of an archive in which nothing was, that of the beginning.
    found_ms: Option<i64>,
    /// Whether a claim says what ages go on from, and when it is looked for one if none can be put.
    is_dated: bool,
    dated_us: u64,
    /// Nothing could be removed as long as the rules are these.
    refused: Option<Keep>,
    /// When it was done last.
    tidied_us: Option<u64>,
    /// When it was looked what is there, last.
    looked_us: u64,
    tidier: Option<Tidier>,
    headers: Headers,
    /// What was found to be damaged, if that was not asked for yet.
    damaged: BTreeSet<Piece>,
    /// What the last one has done, if that was not asked for yet.
    finished: Option<Tidied>,
    pub(crate) state: TidyState,
}

impl Tidying {
    /// One that begins after a while.
    pub(crate) fn new(begun: Begun) -> Self {
        Self {
            begun,
            steady: begun,
            found_ms: None,
            is_dated: false,
            dated_us: 0,
            refused: None,
            tidied_us: None,
            looked_us: begun.us,
            tidier: None,
            headers: Headers::default(),
            damaged: BTreeSet::new(),
            finished: None,
            state: TidyState::Off,
        }
    }

    /// The last block that was there at the beginning is of this time.
    pub(crate) fn note_found(&mut self, time_ms: i64) {
        self.found_ms = Some(time_ms).filter(|ms| *ms > 0);
    }

    /// There was nothing.
    pub(crate) fn note_empty(&mut self) {
        self.note_found(self.begun.wall_ms);
    }

    /// Puts a claim that says what ages go on from, if none does: before this process has put anything, whose clock may be wrong. Returns whether it
    /// did.
    pub(crate) fn date(
        &mut self,
        target: &dyn Target,
        database: Id,
        keep: Keep,
        now_us: u64,
    ) -> Result<bool> {
        let passed_ms = self.begun.passed_ms(now_us);
        if keep.is_all() || self.is_dated || now_us < self.dated_us {
            return Ok(false);
        }
        // If it is refused, or nothing is known, another machine may do it.
        self.dated_us = now_us.saturating_add(TIDY_EVERY_US);
        let from_ms = self.found_ms.map(|found_ms| found_ms.saturating_add(passed_ms));
        match TidyClaim::date(target, database, from_ms) {
            Ok(dated) => {
                self.is_dated = dated != Dated::Unknown;
                Ok(dated == Dated::Now)
            }
            Err(error) => {
                let is_passing = matches!(&error, Error::Target(error) if !error.is_refused());
                if is_passing {
                    self.dated_us = now_us;
                }
                Err(error)
            }
        }
    }

    /// Does some of it, if it is time to. Returns whether something was done.
    pub(crate) fn step(
        &mut self,
        target: &dyn Target,
        clock: &dyn Clock,
        (database, options, damaged): (Id, &ArchiveOptions, &BTreeSet<Piece>),
        salts: &mut Salts,
    ) -> Result<bool> {
        let now = Begun::now(clock);
        if self.steady.is_clock_off(now) {
            // The wall clock was set: what it says to be old may be young.
            self.steady = now;
        }
        let is_steady = now.us >= self.steady.us.saturating_add(STEADY_US);
        let keep = options.keep;
        if !is_steady || self.tidier.as_ref().is_some_and(|tidier| tidier.keep() != keep) {
            // By other rules something else goes.
            self.give_up(now.us);
        }
        if keep.is_all() || !is_steady {
            let is_set = self.steady != self.begun;
            let waiting = if is_set { TidyState::ClockSet } else { TidyState::Idle };
            self.state = if keep.is_all() { TidyState::Off } else { waiting };
            return Ok(false);
        }
        if !self.is_dated {
            self.state = TidyState::Behind;
            return Ok(false);
        }
        if self.refused.is_some_and(|rules| rules == keep) {
            self.state = TidyState::Refused;
            return Ok(false);
        }
        let Some(tidier) = &mut self.tidier else {
            let is_due = now.us >= self.tidied_us.unwrap_or(self.begun.us) + TIDY_EVERY_US;
            if is_due {
                let from_ms = self.found_ms.unwrap_or(self.begun.wall_ms);
                let from_ms = from_ms.saturating_add(self.begun.passed_ms(now.us));
                let paced_from_ms = Some(from_ms);
                let options = TidyOptions { paced_from_ms, ..TidyOptions::new(*options) };
                let tidier = Tidier::new(database, options, salts.next(b"tidier", &[]));
                let known = (std::mem::take(&mut self.headers), damaged.clone());
                self.tidier = Some(tidier.with_known(known));
                self.state = TidyState::Working;
            } else if self.state != TidyState::Behind {
                self.state = TidyState::Idle;
            }
            return Ok(is_due);
        };
        let step = tidier.step(target, clock);
        self.damaged.extend(tidier.take_damaged());
        match step? {
            TidyStep::Worked => {
                self.state = TidyState::Working;
                Ok(true)
            }
            TidyStep::Waiting(_) => {
                self.state = TidyState::Waiting;
                Ok(false)
            }
            TidyStep::Finished => {
                let is_behind = tidier.is_behind();
                self.refused = Some(keep).filter(|_| tidier.is_refused());
                self.finished = Some(tidier.tidied().clone());
                self.give_up(now.us);
                self.state = if is_behind { TidyState::Behind } else { TidyState::Idle };
                Ok(false)
            }
        }
    }

    /// Ends it, until it is time again.
    pub(crate) fn give_up(&mut self, now_us: u64) {
        if let Some(tidier) = self.tidier.take() {
            self.headers = tidier.into_headers();
            self.tidied_us = Some(now_us);
            self.state = TidyState::Idle;
        }
    }

    /// See [`Tidier::restorable_from`].
    pub(crate) fn restorable_from(&self, lsn: Lsn) -> Option<Lsn> {
        self.tidier.as_ref()?.restorable_from(lsn)
    }

    /// Whether it is time to look what is there: another machine may have thinned out the archive.
    pub(crate) const fn is_to_look(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.looked_us.saturating_add(TIDY_EVERY_US);
        if is_due {
            self.looked_us = now_us;
        }
        is_due
    }

    /// It has failed.
    pub(crate) fn note_error(&mut self, error: &Error, now_us: u64, keep: Keep) {
        self.give_up(now_us);
        if matches!(error, Error::Target(error) if error.is_refused()) {
            // Each time would leave a claim and leaps next to what cannot go.
            (self.refused, self.state) = (Some(keep), TidyState::Refused);
        }
    }

    /// What was found to be damaged since this was asked.
    pub(crate) fn take_damaged(&mut self) -> BTreeSet<Piece> {
        std::mem::take(&mut self.damaged)
    }

    /// What was done, if it was done since this was asked.
    pub(crate) const fn take_finished(&mut self) -> Option<Tidied> {
        self.finished.take()
    }
}
