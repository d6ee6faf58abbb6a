//! The archive of the log: what writes it, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use archive::{
    ArchiveOptions, Archiver, Compression, Desk, Ending, Error, Figures, NamedBlock, State,
    TargetError, TidyState,
};
use base::Lsn;
use env::Clock;
use redo::Reader;

use crate::archive_threads::ArchiveRunner;
use crate::config::{ArchivePlace, ArchiveSettings};

/// So often it is looked at what the archiver is doing.
const LOOK_EVERY_US: u64 = 100_000;

/// So often it is looked which backups there are.
const NAMED_EVERY_US: u64 = 1_000_000;

/// See the file's top.
#[derive(Default)]
pub(super) struct Archives {
    runner: Option<Box<dyn ArchiveRunner>>,
    running: Option<Running>,
    /// What the last one has told that has ended.
    before: Figures,
    looked_us: u64,
    synced_us: u64,
    /// When the backups were looked at, and what was told of them.
    named_us: u64,
    named: Vec<NamedBlock>,
    /// What was logged last.
    told: State,
    /// Why writes are refused: `archive-required`.
    refusal: Option<String>,
}

struct Running {
    desk: Arc<Desk>,
    place: ArchivePlace,
}

/// What is to be said of a change.
pub(super) enum News {
    Good(String),
    Bad(String),
}

pub(super) fn options(settings: &ArchiveSettings) -> ArchiveOptions {
    ArchiveOptions {
        interval_ms: settings.interval_ms,
        object_bytes: settings.object_bytes,
        base_percentage: settings.base_percentage,
        keep: settings.keep,
        compression: settings.zstd_level.map_or(Compression::None, Compression::Zstd),
        ..ArchiveOptions::default()
    }
}

impl Archives {
    pub(super) fn set_runner(&mut self, runner: Box<dyn ArchiveRunner>) {
        self.runner = Some(runner);
    }

    /// Whether the log is archived in this place by now.
    pub(super) fn is_at(&self, place: Option<&ArchivePlace>) -> bool {
        self.running.as_ref().map(|running| &running.place) == place
    }

    /// Whether there is something to do for it.
    pub(super) const fn is_on(&self) -> bool {
        self.running.is_some()
    }

    pub(super) const fn can_run(&self) -> bool {
        self.runner.is_some()
    }

    /// What the archiver has done.
    pub(super) fn figures(&self) -> Figures {
        self.running.as_ref().map_or_else(|| self.before.clone(), |running| running.desk.figures())
    }

    /// As [`Self::figures`], as of now, when the log is durable up to `durable`.
    pub(super) fn figures_at(&self, now_us: u64, durable: Lsn) -> Figures {
        let desk = self.running.as_ref().map(|running| &running.desk);
        desk.map_or_else(|| self.before.clone(), |desk| desk.figures_at(now_us, durable))
    }

    /// Takes over other settings. Whether writes are refused is by these from now on.
    pub(super) fn set_options(&mut self, settings: &ArchiveSettings, now_us: u64, durable: Lsn) {
        if let Some(running) = &self.running {
            running.desk.set_options(options(settings));
            let figures = running.desk.figures_at(now_us, durable);
            self.refusal = refusal_of(&figures, settings.required_s);
        }
    }

    /// The configuration may be another one from this block on; without secrets.
    pub(super) fn tell_configuration(&self, from: Lsn, text: impl FnOnce() -> String) {
        if let Some(running) = &self.running {
            running.desk.tell_configuration(from, text());
        }
    }

    /// Begins to archive the log that `reader` reads. `seed` is random.
    ///
    /// # Errors
    /// When the place or its keys cannot be used, or the system has no thread for it.
    pub(super) fn begin(
        &mut self,
        reader: Reader,
        place: &ArchivePlace,
        settings: &ArchiveSettings,
        clock: &Arc<dyn Clock>,
        seed: [u8; archive::KEY_BYTES],
    ) -> archive::Result<()> {
        let Some(runner) = &mut self.runner else { return Ok(()) };
        let desk = Arc::new(Desk::new(options(settings)));
        let started = runner.target(place).and_then(|target| {
            let (clock, desk) = (Arc::clone(clock), Arc::clone(&desk));
            let archiver = Archiver::new(reader, target, clock, desk, seed);
            let started = runner.run(archiver);
            started.map_err(TargetError::of("start a thread for", &place.url)).map_err(Error::from)
        });
        if let Err(why) = &started {
            desk.fail(why);
            self.told = State::Failed;
        }
        self.running = Some(Running { desk, place: place.clone() });
        (self.named_us, self.named) = (0, Vec::new());
        started
    }

    /// Tells the archiver to end.
    pub(super) fn end(&mut self, ending: Ending) {
        self.refusal = None;
        if let Some(running) = self.running.take() {
            running.desk.end(ending);
            self.before = Figures { state: State::Off, ..running.desk.figures() };
            self.before.tidy.state = TidyState::Off;
            self.told = State::Off;
        }
    }

    /// Waits until all that were told to end have ended, but not longer than `most`.
    pub(super) fn finish(&mut self, most: Duration) {
        self.runner.iter_mut().for_each(|runner| runner.finish(most));
    }

    /// The desk of an archiver that wants a mark.
    pub(super) fn wanting_mark(&self) -> Option<&Desk> {
        let desk = self.running.as_ref().map(|running| &*running.desk);
        desk.filter(|desk| desk.wants_mark())
    }

    /// Tells the archiver which backups there are, now and then, if that has changed.
    pub(super) fn tell_backups(&mut self, now_us: u64, backups: impl FnOnce() -> Vec<NamedBlock>) {
        let Some(running) = &self.running else { return };
        if now_us < self.named_us {
            return;
        }
        self.named_us = now_us + NAMED_EVERY_US;
        let backups = backups();
        if backups != self.named {
            self.named.clone_from(&backups);
            running.desk.tell_backups(backups);
        }
    }

    /// Whether blocks should be synced now, so that they can be shipped.
    pub(super) const fn is_sync_due(&mut self, now_us: u64, interval_us: u64) -> bool {
        let is_due = self.running.is_some() && now_us >= self.synced_us + interval_us;
        if is_due {
            self.synced_us = now_us;
        }
        is_due
    }

    /// Why writes are refused, as their clients are told. As it was when it was looked last.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// What the operator should know of how it goes. `required_s` is `archive-required`.
    pub(super) fn news(&mut self, now_us: u64, durable: Lsn, required_s: u64) -> Option<News> {
        let running = self.running.as_ref()?;
        if now_us < self.looked_us + LOOK_EVERY_US {
            return None;
        }
        self.looked_us = now_us;
        let figures = running.desk.figures_at(now_us, durable);
        self.refusal = refusal_of(&figures, required_s);
        let before = std::mem::replace(&mut self.told, figures.state);
        if before == figures.state {
            return None;
        }
        let place = &running.place.url;
        let why = figures.last_error.unwrap_or_default();
        Some(match figures.state {
            State::Off | State::Claiming => return None,
            State::Filling => News::Good(format!(
                "The log is archived in {place}: a first copy of the data is made"
            )),
            State::Streaming => News::Good(format!(
                "The log is archived in {place}: blocks from {} on can be restored",
                figures.restorable_from
            )),
            State::Gap => News::Bad(format!(
                "The archive in {place} lacks blocks that were compacted before they were shipped, or are damaged: a new copy is made, and what is behind it can be restored"
            )),
            State::Away => News::Bad(format!("The archive in {place} cannot be used: {why}")),
            State::Fenced | State::Failed => {
                News::Bad(format!("The log is not archived any more in {place}: {why}"))
            }
        })
    }
}

/// Why an archive like this keeps writes from being taken, where it may be so many seconds behind.
fn refusal_of(figures: &Figures, required_s: u64) -> Option<String> {
    let state = figures.state;
    let is_over = matches!(state, State::Fenced | State::Failed);
    let behind_s = figures.behind_ms / 1000;
    if required_s == 0 || !(is_over || behind_s > required_s) {
        return None;
    }
    let behind =
        if is_over { "not written any more".to_owned() } else { format!("{behind_s} s behind") };
    Some(format!(
        "MISCONF The archive is {behind} ({}; archive-required {required_s}): writes are refused until it has caught up. See INFO backup, or \
         CONFIG SET archive-required 0",
        state.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_refused_for_an_archive_that_is_too_far_behind() {
        let refused = |state, behind_ms, required_s| {
            let figures = Figures { state, behind_ms, ..Figures::default() };
            refusal_of(&figures, required_s)
        };
        assert_eq!(refused(State::Away, 999_999, 0), None);
        assert_eq!(refused(State::Failed, 0, 0), None);
        assert_eq!(refused(State::Streaming, 60_999, 60), None);
        let why = refused(State::Away, 73_500, 60).unwrap();
        assert!(why.starts_with("MISCONF The archive is 73 s behind (away;"), "{why}");
        // What is shipped then can be restored when there is a copy.
        for state in [State::Filling, State::Gap] {
            assert_eq!(refused(state, 60_999, 60), None);
            assert!(refused(state, 61_000, 60).unwrap().contains("is 61 s behind"));
        }
        for state in [State::Fenced, State::Failed] {
            assert!(refused(state, 0, 60).unwrap().contains("not written any more"));
        }
    }
}
