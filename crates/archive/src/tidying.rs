//! Thinning out by the archiver: an object at a time, when there is nothing to ship, and not by a clock that was set.

use env::Clock;
use redo::Id;

use crate::desk::ArchiveOptions;
use crate::error::Result;
use crate::key::Salts;
use crate::target::Target;
use crate::tidier::{Tidier, TidyOptions, TidyStep};

/// How often it is done.
const TIDY_EVERY_US: u64 = 3_600_000_000;

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

/// Thins out what is old, now and then.
pub(crate) struct Tidying {
    /// What both clocks said at the beginning.
    begun: Begun,
    /// When it was done last.
    tidied_us: Option<u64>,
    tidier: Option<Tidier>,
    /// How many objects the last one has removed, if that was not asked for yet.
    finished: Option<u64>,
}

impl Tidying {
    /// One that begins after a while.
    pub(crate) const fn new(begun: Begun) -> Self {
        Self { begun, tidied_us: None, tidier: None, finished: None }
    }

    /// Does some of it, if it is time to. Returns whether something was done.
    pub(crate) fn step(
        &mut self,
        target: &dyn Target,
        clock: &dyn Clock,
        (database, options): (Id, &ArchiveOptions),
        salts: &mut Salts,
    ) -> Result<bool> {
        let now_us = clock.monotonic_us();
        if self.begun.is_clock_off(clock.now_ms(), now_us) {
            // The wall clock was set: what it says to be old may be young.
            self.give_up(now_us);
            return Ok(false);
        }
        let Some(tidier) = &mut self.tidier else {
            let is_due = now_us >= self.tidied_us.unwrap_or(self.begun.us) + TIDY_EVERY_US;
            if is_due && !options.keep.is_all() {
                let seed = salts.next(b"tidier", &[]);
                self.tidier = Some(Tidier::new(database, TidyOptions::new(*options), seed));
            }
            return Ok(self.tidier.is_some());
        };
        match tidier.step(target, clock)? {
            TidyStep::Worked => Ok(true),
            TidyStep::Waiting(_) => Ok(false),
            TidyStep::Finished => {
                self.finished = Some(tidier.tidied().objects_removed);
                self.give_up(now_us);
                Ok(false)
            }
        }
    }

    /// Ends it, until it is time again.
    pub(crate) fn give_up(&mut self, now_us: u64) {
        (self.tidier, self.tidied_us) = (None, Some(now_us));
    }

    /// See [`Tidier::restorable_from`].
    pub(crate) fn restorable_from(&self, lsn: base::Lsn) -> Option<base::Lsn> {
        self.tidier.as_ref()?.restorable_from(lsn)
    }

    /// How many objects were removed, if it was done since this was asked.
    pub(crate) const fn take_finished(&mut self) -> Option<u64> {
        self.finished.take()
    }
}
