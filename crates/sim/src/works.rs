//! The threads of a log as step machines: flushers, compactor, scrubber, and what keeps the index.

use std::sync::{Arc, Mutex};

use base::{Lsn, RecordAddr};
use env::Clock;
use env_sim::{SimClock, SimEntropy};
use logindex::HotHint;
use redo::{Compactor, Flusher, Log, PendingSync, Preparer, Reader, Scrubber, Step, Turn};
use server::engine::{CloseError, DevicesError};
use server::owned_log::LogWorkers;

use crate::index::Keeper;
use crate::instant::Comebacks;
use crate::wiretap::lock;

/// See the file's top.
pub(crate) struct Works {
    flushers: Vec<Flusher>,
    /// By flusher, the sync that its thread waits for while the executor goes on writing.
    syncing: Vec<Option<PendingSync>>,
    /// None once the log is closed.
    compactor: Option<Compactor>,
    scrubber: Option<Scrubber>,
    /// What writes zeros ahead, in a run with that.
    pub(crate) preparer: Option<Preparer>,
    /// What keeps the index of the log, in a life with one.
    pub(crate) index: Option<Keeper>,
    /// What brings keys back, after a start by the index.
    pub(crate) comebacks: Option<Arc<Mutex<Comebacks>>>,
    /// Reads by address.
    pub(crate) reader: Option<Reader>,
    clock: SimClock,
    /// When each flusher has stepped last, and the longest that any has not.
    stepped_at_us: Vec<u64>,
    longest_gap_us: u64,
    /// Blocks that the executor has written itself.
    pub(crate) written_now: u64,
    /// Steps that have written zeros ahead, or begun or ended that.
    pub(crate) zeros_steps: u64,
    /// A flusher that gets hardly any steps: its device is slow.
    pub(crate) starved: Option<usize>,
}

impl Works {
    /// Of a log that was opened.
    pub(crate) fn new(
        log: &Log,
        flushers: Vec<Flusher>,
        compactor: Compactor,
        index: Option<Keeper>,
        clock: &SimClock,
    ) -> Self {
        Self {
            stepped_at_us: vec![clock.monotonic_us(); flushers.len()],
            longest_gap_us: 0,
            syncing: flushers.iter().map(|_| None).collect(),
            flushers,
            compactor: Some(compactor),
            scrubber: Some(log.scrubber()),
            preparer: None,
            index,
            comebacks: None,
            reader: Some(log.reader()),
            clock: clock.clone(),
            written_now: 0,
            zeros_steps: 0,
            starved: None,
        }
    }

    /// Each part of a log that was closed keeps it locked.
    pub(crate) fn let_go(&mut self) {
        self.flushers.clear();
        self.syncing.clear();
        self.compactor = None;
        (self.scrubber, self.preparer) = (None, None);
        (self.index, self.reader) = (None, None);
        self.let_comebacks_go();
    }

    fn let_comebacks_go(&mut self) {
        self.comebacks.take().into_iter().for_each(|comebacks| lock(&comebacks).let_go());
    }

    /// One of them does something.
    pub(crate) fn step_any(&mut self, rng: &mut SimEntropy) {
        let count = self.flushers.len();
        let others = if self.index.is_some() { 3 } else { 2 };
        if self.comebacks.is_some() && rng.below(4) == 0 {
            self.step_comebacks(rng);
            return;
        }
        if self.preparer.is_some() && rng.below(4) == 0 {
            self.step_preparer();
            return;
        }
        let index = usize::try_from(rng.below(count as u64 + others)).expect("few");
        if index == count {
            self.step_compactor();
        } else if index == count + 1 {
            self.step_scrubber();
        } else if index > count {
            for _ in 0..=rng.below(4) {
                self.step_index(rng.coin());
            }
        } else if self.starved != Some(index) || rng.below(40) == 0 {
            let now_us = self.clock.monotonic_us();
            let gap_us = now_us - self.stepped_at_us[index];
            self.longest_gap_us = self.longest_gap_us.max(gap_us);
            self.stepped_at_us[index] = now_us;
            let is_long = rng.below(2) == 0;
            self.step_flusher(index, is_long);
        }
    }

    /// A flusher takes a turn, and the sync that this begins may last until its next one.
    fn step_flusher(&mut self, index: usize, is_long: bool) -> Step {
        let flusher = &mut self.flushers[index];
        let sync = match self.syncing[index].take() {
            Some(sync) => sync,
            None => match flusher.turn() {
                Turn::Step(step) => return step,
                Turn::Sync(sync) if is_long => {
                    self.syncing[index] = Some(sync);
                    return Step::Worked;
                }
                Turn::Sync(sync) => sync,
            },
        };
        let result = sync.run();
        flusher.synced(&sync, result);
        Step::Worked
    }

    /// The executor has a flusher write, unless its thread is just at it. Whether it has.
    fn write_now(&mut self, device: usize, rng: &mut SimEntropy) -> bool {
        if self.starved == Some(device) || rng.below(4) == 0 {
            return false;
        }
        let mut flushers = self.flushers.iter_mut();
        let has_written = flushers
            .find(|flusher| flusher.device_index() == device)
            .is_some_and(Flusher::write_now);
        self.written_now += u64::from(has_written);
        has_written
    }

    /// The longest time that any flusher had no step, and whether none is slow on purpose.
    pub(crate) fn gap_us(&self, now_us: u64) -> (u64, bool) {
        let open_us = self.stepped_at_us.iter().map(|at_us| now_us - at_us).max();
        (self.longest_gap_us.max(open_us.unwrap_or(0)), self.starved.is_none())
    }

    /// All of them do something; whether any has.
    pub(crate) fn step_all(&mut self) -> bool {
        let mut has_worked = false;
        for index in 0..self.flushers.len() {
            has_worked |= self.step_flusher(index, false) == Step::Worked;
        }
        has_worked |= self.step_scrubber() == Step::Worked;
        has_worked |= self.step_preparer() == Step::Worked;
        has_worked |= self.step_index(true) == Step::Worked;
        has_worked | (self.step_compactor() == Step::Worked)
    }

    /// What brings keys and values back does something, if anything does.
    pub(crate) fn step_comebacks(&mut self, rng: &mut SimEntropy) {
        self.comebacks.iter().for_each(|comebacks| _ = lock(comebacks).step(rng));
    }

    fn step_scrubber(&mut self) -> Step {
        self.scrubber.as_mut().map_or(Step::Finished, Scrubber::step)
    }

    fn step_preparer(&mut self) -> Step {
        let step = self.preparer.as_mut().map_or(Step::Finished, Preparer::step);
        self.zeros_steps += u64::from(step == Step::Worked);
        step
    }

    pub(crate) fn step_index(&mut self, may_look: bool) -> Step {
        self.index.as_mut().map_or(Step::Finished, |index| index.step(may_look))
    }

    /// See [`Keeper::take_suspicion`].
    pub(crate) fn take_suspicion(&mut self) -> Option<String> {
        self.index.as_mut()?.take_suspicion()
    }

    pub(crate) fn step_compactor(&mut self) -> Step {
        self.compactor.as_mut().map_or(Step::Finished, Compactor::step)
    }
}

/// The handle by which the engine ends the works.
pub(crate) struct Stepped {
    pub(crate) works: Arc<Mutex<Works>>,
    pub(crate) rng: SimEntropy,
}

/// How often everything is stepped for the log to come to its end.
const FINISH_ROUNDS: usize = 2000;

impl LogWorkers for Stepped {
    fn add_flushers(
        &mut self,
        _count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        let added = add()?;
        let mut works = lock(&self.works);
        let now_us = works.clock.monotonic_us();
        works.stepped_at_us.extend(added.iter().map(|_| now_us));
        works.syncing.extend(added.iter().map(|_| None));
        works.flushers.extend(added);
        Ok(())
    }

    fn write_now(&mut self, device: usize) -> bool {
        lock(&self.works).write_now(device, &mut self.rng)
    }

    fn want_index(&mut self) -> bool {
        lock(&self.works).index.as_ref().is_some_and(Keeper::is_kept)
    }

    fn keeps_hot(&self) -> bool {
        lock(&self.works).index.as_ref().is_some_and(Keeper::is_kept)
    }

    fn save_hot(&mut self, lsn: Lsn, records: Vec<Vec<RecordAddr>>) {
        if let Some(index) = &mut lock(&self.works).index {
            index.found_hot(HotHint::new(lsn, records.into_iter().flatten().collect()));
        }
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        let mut works = lock(&self.works);
        let works = &mut *works;
        works.index.iter_mut().for_each(Keeper::save_hot);
        // What it has not cut is read again after the next start.
        (works.index, works.reader) = (None, None);
        works.let_comebacks_go();
        for _ in 0..FINISH_ROUNDS {
            let mut is_finished = works.step_compactor() == Step::Finished;
            is_finished &= works.step_scrubber() == Step::Finished;
            is_finished &= works.step_preparer() == Step::Finished;
            for index in 0..works.flushers.len() {
                is_finished &= works.step_flusher(index, false) == Step::Finished;
            }
            if is_finished {
                return Ok(());
            }
            works.clock.advance_ms(1);
        }
        Err(CloseError::Unfinished)
    }
}
