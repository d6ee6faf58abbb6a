//! Thinning out by the archiver: an object at a time, when there is nothing to ship, and not by a clock that was set.

use base::Lsn;
use env::Clock;
use redo::Id;

use crate::desk::ArchiveOptions;
use crate::error::{Result, TargetResult};
use crate::figures::TidyState;
use crate::headers::Headers;
use crate::key::Salts;
use crate::picture::Picture;
use crate::target::Target;
use crate::tidier::{Tidied, Tidier, TidyOptions, TidyStep};

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
    /// The time of the last block that was found at the beginning.
    found_ms: Option<i64>,
    /// When it was done last.
    tidied_us: Option<u64>,
    /// When it was looked what is there, last.
    looked_us: u64,
    tidier: Option<Tidier>,
    headers: Headers,
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
            tidied_us: None,
            looked_us: begun.us,
            tidier: None,
            headers: Headers::default(),
            finished: None,
            state: TidyState::Off,
        }
    }

    /// The last block that was there at the beginning is of this time.
    pub(crate) fn note_found(&mut self, time_ms: i64) {
        self.found_ms = Some(time_ms).filter(|ms| *ms > 0);
    }

    /// Does some of it, if it is time to. Returns whether something was done.
    pub(crate) fn step(
        &mut self,
        target: &dyn Target,
        clock: &dyn Clock,
        (database, options): (Id, &ArchiveOptions),
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
        let Some(tidier) = &mut self.tidier else {
            let is_due = now.us >= self.tidied_us.unwrap_or(self.begun.us) + TIDY_EVERY_US;
            if is_due {
                let from_ms = self.found_ms.unwrap_or(self.begun.wall_ms);
                let from_ms = from_ms.saturating_add(self.begun.passed_ms(now.us));
                let paced_from_ms = Some(from_ms);
                let options = TidyOptions { paced_from_ms, ..TidyOptions::new(*options) };
                let tidier = Tidier::new(database, options, salts.next(b"tidier", &[]));
                self.tidier = Some(tidier.with_headers(std::mem::take(&mut self.headers)));
                self.state = TidyState::Working;
            } else if self.state != TidyState::Behind {
                self.state = TidyState::Idle;
            }
            return Ok(is_due);
        };
        match tidier.step(target, clock)? {
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

    /// The first block from which on each one up to `lsn` is there, once an hour: another machine may have thinned out the archive.
    pub(crate) fn look(
        &mut self,
        target: &dyn Target,
        database: Id,
        lsn: Lsn,
        now_us: u64,
    ) -> TargetResult<Option<Lsn>> {
        if now_us < self.looked_us.saturating_add(TIDY_EVERY_US) {
            return Ok(None);
        }
        self.looked_us = now_us;
        let picture = Picture::read(target, database)?;
        Ok(picture.range_of(lsn).map(|range| range.first))
    }

    /// What was done, if it was done since this was asked.
    pub(crate) const fn take_finished(&mut self) -> Option<Tidied> {
        self.finished.take()
    }
}
