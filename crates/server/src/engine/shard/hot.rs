//! Tells the log's index which keys are hot, so that the next start brings them back first.
//!
//! ```text
//!   executor:    wait ─► a page · a page · … a slice at a time ─► addresses ─► wait
//!   index's thread:                                                   └─► the file `hot`
//! ```
//!
//! A slice is a fifth of a millisecond, and four hundred times as long nothing follows: a quarter of a percent
//! of the executor. While keys come back after a start nothing is noted, because what is in memory then is not
//! what was used; the file of the life before stays.

use env::Clock;
use keyspace::HotSurvey;

use super::{Shard, ShardLog};

/// How long the executor looks in one slice, and how many times that passes before the next one.
const SLICE_US: u64 = 200;
const PAUSE_TIMES: u64 = 400;

/// So long it may look when the server ends.
const END_US: u64 = 500_000;

/// After so many pages the time is looked at.
const PAGES_PER_LOOK: usize = 4;

/// One in so many bytes that the server may use is for addresses of what is hot.
const MEMORY_SHARE: u64 = 16;

/// How often, and how much.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct HotPlan {
    /// `log-index-hot-seconds`; 0 for never.
    pub(in crate::engine) every_s: u64,
    /// What the server may use in all; 0 for any amount.
    pub(in crate::engine) maxmemory_bytes: u64,
}

impl HotPlan {
    fn records_max(self) -> usize {
        let share = self.maxmemory_bytes / MEMORY_SHARE / size_of::<u64>() as u64;
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        let most = logindex::HotHint::RECORDS_MAX;
        if self.maxmemory_bytes == 0 { most } else { share.min(most) }
    }
}

/// Where the walk is, if there is one.
#[derive(Debug, Default)]
pub(super) struct HotSaving {
    survey: Option<HotSurvey>,
    /// When the last walk began, or waiting for one.
    since_us: Option<u64>,
    next_slice_us: u64,
}

impl Shard {
    /// Goes on with a slice if one is due.
    pub(in crate::engine) fn save_hot(&mut self, now_us: u64, clock: &dyn Clock, plan: HotPlan) {
        if plan.every_s == 0 || !self.may_save_hot() {
            self.hot = HotSaving::default();
            return;
        }
        let since_us = *self.hot.since_us.get_or_insert(now_us);
        let is_due = now_us >= since_us.saturating_add(plan.every_s.saturating_mul(1_000_000));
        if self.hot.survey.is_none() && is_due {
            self.hot.survey = Some(HotSurvey::new(plan.records_max()));
            self.hot.since_us = Some(now_us);
        }
        if now_us < self.hot.next_slice_us {
            return;
        }
        if let Some(survey) = self.hot.survey.take() {
            let start_us = clock.monotonic_us();
            self.hot.survey = self.look_for_hot(survey, clock, start_us + SLICE_US);
            let end_us = clock.monotonic_us();
            self.hot.next_slice_us = end_us + (end_us - start_us) * PAUSE_TIMES;
        }
    }

    /// The log is about to be closed. If it takes too long to learn what is hot, what was told last has to do.
    pub(in crate::engine) fn save_hot_at_end(&mut self, clock: &dyn Clock, plan: HotPlan) {
        if plan.every_s > 0 && self.may_save_hot() {
            let survey = HotSurvey::new(plan.records_max());
            self.look_for_hot(survey, clock, clock.monotonic_us() + END_US);
        }
        self.hot = HotSaving::default();
    }

    fn may_save_hot(&self) -> bool {
        let has_all =
            !self.is_loading() && !self.log_state().is_turning_on() && !self.is_restoring();
        has_all && self.log().is_some_and(ShardLog::keeps_hot)
    }

    /// Looks for so long. Returns the walk if it goes on.
    fn look_for_hot(
        &mut self,
        mut survey: HotSurvey,
        clock: &dyn Clock,
        until_us: u64,
    ) -> Option<HotSurvey> {
        loop {
            for _ in 0..PAGES_PER_LOOK {
                if self.keyspace.hot_step(&mut survey) {
                    if let Some(log) = self.log_mut() {
                        log.save_hot(survey.into_pieces());
                    }
                    return None;
                }
            }
            if clock.monotonic_us() >= until_us {
                return Some(survey);
            }
        }
    }
}
