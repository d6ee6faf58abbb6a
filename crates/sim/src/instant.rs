//! Starts by the index of the log, and how keys come back after them.
//!
//! ```text
//!   disk ─┬─ copy ── read as a whole ──► shadow, addresses, what is garbage: what must be
//!         └─ opened by its index ──────► the server's keyspace, all cold
//!                                             ▲ Comebacks, stepped as threads would
//! ```
//!
//! Everything that is judged is judged by what the copy was read into: the state, the counts of keys
//! at once, and, once the log knows what is garbage, every bit of that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::{DbId, Lsn};
use env_sim::{SimDisk, SimEntropy};
use redo::Step;
use server::engine::{Comeback, Fetched, Fetching, HotNews, Restoration, Wanted};
use server::restore::{LogRestorer, NewestIndex, WarmStep, Warmup};

use crate::machine::Machine;
use crate::wiretap::lock;

/// How much may wait for the executor.
const QUEUE_LEN: usize = 3;

/// The threads that bring keys and values back, as one step machine.
pub(crate) struct Comebacks {
    warmup: Option<Warmup>,
    fetcher: Option<LogRestorer>,
    queue: VecDeque<Comeback>,
    asked: VecDeque<Wanted>,
    fetched: VecDeque<Fetched>,
    garbage: VecDeque<Fetched>,
    /// The engine was told so.
    is_failing: bool,
    has_failed: bool,
    pub(crate) hints: Hints,
    is_hot: bool,
    reads_together: bool,
    /// How many were fetched together with others.
    pub(crate) read_together: u64,
}

/// What came of the hint of what was hot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hints {
    pub(crate) used: u64,
    pub(crate) of_no_use: u64,
    pub(crate) keys: u64,
}

impl Comebacks {
    pub(crate) fn new(fetcher: LogRestorer, warmup: Option<Warmup>, reads_together: bool) -> Self {
        Self {
            reads_together,
            read_together: 0,
            fetcher: Some(fetcher),
            warmup,
            queue: VecDeque::new(),
            asked: VecDeque::new(),
            fetched: VecDeque::new(),
            garbage: VecDeque::new(),
            is_failing: false,
            has_failed: false,
            hints: Hints::default(),
            is_hot: false,
        }
    }

    fn note_hot(&mut self, comeback: &Comeback) {
        match comeback {
            Comeback::Hot(HotNews::Begun(_)) => (self.hints.used, self.is_hot) = (1, true),
            Comeback::Hot(HotNews::OfNoUse(_)) => self.hints.of_no_use = 1,
            Comeback::Hot(HotNews::Done) => self.is_hot = false,
            Comeback::Keys(keys) if self.is_hot => self.hints.keys += keys.len() as u64,
            _ => {}
        }
    }

    /// Whether an index was damaged that alone knew of some garbage.
    pub(crate) fn leaves_garbage(&self) -> bool {
        let index = self.fetcher.as_ref().and_then(LogRestorer::index);
        index.is_some_and(NewestIndex::leaves_garbage)
    }

    /// After a failure the thread waits for a while, as the server's does.
    fn pauses(&mut self, rng: &mut SimEntropy) -> bool {
        self.has_failed = self.has_failed && rng.below(32) > 0;
        self.has_failed
    }

    /// The log is closed, and each of its readers keeps it locked.
    pub(crate) fn let_go(&mut self) {
        (self.warmup, self.fetcher) = (None, None);
    }

    /// One of the threads does something.
    pub(crate) fn step(&mut self, rng: &mut SimEntropy) -> Step {
        if rng.coin()
            && let Some(fetcher) = &mut self.fetcher
            && !self.asked.is_empty()
        {
            let at = usize::try_from(rng.below(self.asked.len() as u64)).expect("few");
            let wanted = self.asked.remove(at).expect("there are so many");
            if let Wanted::Missing(missing) = wanted {
                let mut together = vec![missing];
                if self.reads_together && rng.coin() {
                    // All that wait, as the server's thread reads them.
                    self.asked.retain(|wanted| match wanted {
                        Wanted::Missing(missing) => {
                            together.push(missing.clone());
                            false
                        }
                        _ => true,
                    });
                    let (asked, to) = (together.len() as u64, &mut self.fetched);
                    let large = fetcher.fetch_together(together, &mut |missing, restored| {
                        to.push_back(Fetched::Missing(missing, restored));
                    });
                    together = large;
                    let read = asked - together.len() as u64;
                    self.read_together += if read > 1 { read } else { 0 };
                }
                for missing in together {
                    let restored = fetcher.fetch(&missing);
                    self.fetched.push_back(Fetched::Missing(missing, restored));
                }
                return Step::Worked;
            }
            let is_garbage =
                matches!(wanted, Wanted::Elements(_) | Wanted::Dropped(_) | Wanted::Sweep(_));
            let to = if is_garbage { &mut self.garbage } else { &mut self.fetched };
            fetcher.answer(wanted, &mut |fetched| to.push_back(fetched));
            return Step::Worked;
        }
        if self.queue.len() >= QUEUE_LEN || self.pauses(rng) {
            return Step::Idle;
        }
        let Some(warmup) = &mut self.warmup else { return Step::Idle };
        match warmup.step() {
            Ok(WarmStep::Comeback(comeback)) => {
                if std::mem::take(&mut self.is_failing) {
                    self.queue.push_back(Comeback::Again);
                }
                self.note_hot(&comeback);
                self.queue.push_back(comeback);
            }
            Ok(WarmStep::Worked) => {}
            Ok(WarmStep::Idle) => return Step::Idle,
            // It is tried again; the engine is told, or hears nothing of it.
            Err(_) if self.is_failing || rng.below(8) > 0 => self.has_failed = true,
            Err(error) => {
                (self.is_failing, self.has_failed) = (true, true);
                self.queue.push_back(Comeback::Failing(error.to_string()));
            }
        }
        Step::Worked
    }
}

/// What the engine has of it.
#[derive(Clone)]
pub(crate) struct Source(pub(crate) Arc<Mutex<Comebacks>>);

impl Restoration for Source {
    fn take(&mut self) -> Option<Comeback> {
        lock(&self.0).queue.pop_front()
    }
}

impl Fetching for Source {
    fn ask(&mut self, wanted: Wanted) -> bool {
        lock(&self.0).asked.push_back(wanted);
        true
    }

    fn indexed_lsn(&mut self) -> Option<Lsn> {
        lock(&self.0).fetcher.as_ref()?.index()?.cut()
    }

    fn take_contradiction(&mut self) -> Option<String> {
        lock(&self.0).fetcher.as_ref()?.index()?.take_contradiction()
    }

    fn pin(&mut self, is_pinned: bool) {
        let comebacks = lock(&self.0);
        match comebacks.fetcher.as_ref().and_then(LogRestorer::index) {
            Some(index) if is_pinned => index.pin(),
            Some(index) => index.unpin(),
            None => {}
        }
    }

    fn pin_dropped(&mut self, db: DbId) {
        let comebacks = lock(&self.0);
        let index = comebacks.fetcher.as_ref().and_then(LogRestorer::index);
        index.iter().for_each(|index| index.pin_dropped(db));
    }

    fn take(&mut self) -> Option<Fetched> {
        lock(&self.0).fetched.pop_front()
    }

    fn take_garbage(&mut self) -> Option<Fetched> {
        lock(&self.0).garbage.pop_front()
    }
}

/// A copy of a disk that works well.
pub(crate) fn copy_of(disk: &SimDisk) -> SimDisk {
    let copy = disk.fork();
    copy.set_faults(env_sim::Faults::default());
    copy.crash_after(u64::MAX / 4);
    copy
}

impl Machine {
    /// Whether every bit of what is garbage is right, once the log knows it.
    ///
    /// # Errors
    /// A record whose bit is wrong.
    pub(crate) fn check_validity(&self) -> Result<(), String> {
        let Some(log) = self.engine.log() else { return Ok(()) };
        let tap = lock(&self.tap);
        let Some(addresses) = &tap.addresses else { return Ok(()) };
        if let Some(addr) = addresses.needed().into_iter().find(|addr| log.is_retired(*addr)) {
            return Err(format!("VALIDITY: {addr} is needed, and the log calls it garbage"));
        }
        // What was retired while a keyspace was being logged anew the log is told later.
        if !log.knows_validity() || tap.is_copying || self.engine.keyspace().is_cold() {
            return Ok(());
        }
        match tap.retired.iter().find(|addr| !log.is_retired(**addr)) {
            Some(addr) => Err(format!("VALIDITY: {addr} is garbage, and the log needs it")),
            None => Ok(()),
        }
    }
}
