//! BACKUP VERIFY: what reads backups meanwhile, and what it has found.

use std::sync::Arc;
use std::time::Duration;

use redo::{BackupState, CheckProgress, CheckedState, NamedBackup, Verdict};

use super::Engine;
use crate::verify_thread::{VerifyDesk, VerifyRunner};

/// What is known of a backup, or of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// `never`, `running`, `good`, `lost`, `damaged` or `failed`.
    pub(super) state: &'static str,
    /// When it was found, in Unix milliseconds.
    pub(super) time_ms: i64,
    /// What is wrong.
    pub(super) why: String,
    /// How much of it is read.
    pub(super) percentage: u64,
}

impl Known {
    fn new(state: &'static str) -> Self {
        Self { state, time_ms: 0, why: String::new(), percentage: 0 }
    }
}

/// A backup of the log, and whether it can be restored.
pub(super) struct KnownBackup {
    pub(super) kept: BackupState,
    /// See [`Verifying::state_of`].
    pub(super) state: &'static str,
}

impl KnownBackup {
    /// Whether it can be restored, as far as is known.
    pub(super) fn is_restorable(&self) -> bool {
        !self.kept.backup.is_lost && self.state == self.kept.backup.state()
    }
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Verifying {
    runner: Option<Box<dyn VerifyRunner>>,
    running: Option<Running>,
    /// What was found last of each state.
    found: Vec<(CheckedState, i64)>,
    /// Why the last one could not look, and at which backup, if it was one.
    failed: Option<(Option<String>, Known)>,
}

struct Running {
    desk: Arc<VerifyDesk>,
    /// The backup that is read, if it is one.
    name: Option<String>,
}

impl Running {
    fn known(&self) -> Known {
        let CheckProgress { done_bytes, all_bytes, .. } = self.desk.progress();
        let percentage = done_bytes.saturating_mul(100) / all_bytes.max(1);
        Known { percentage, ..Known::new("running") }
    }
}

/// What is to be said of the end of one.
enum News {
    Good(String),
    Bad(String),
}

impl Verifying {
    /// Begins to read the backup of this name, or all of them. Whether it could: not while another one is read.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(super) fn begin(&mut self, name: Option<String>) -> std::io::Result<bool> {
        let Some(runner) = self.runner.as_mut().filter(|_| self.running.is_none()) else {
            return Ok(false);
        };
        let desk = Arc::new(VerifyDesk::default());
        runner.run(name.clone(), Arc::clone(&desk))?;
        (self.running, self.failed) = (Some(Running { desk, name }), None);
        Ok(true)
    }

    /// What is known of a backup.
    pub(super) fn known(&self, backup: &NamedBackup) -> Known {
        if let Some(running) = &self.running
            && running.name.as_ref().is_none_or(|name| *name == backup.name)
        {
            return running.known();
        }
        if let Some((name, failed)) = &self.failed
            && name.as_ref().is_none_or(|name| *name == backup.name)
        {
            return failed.clone();
        }
        self.found_of(backup).map_or(Known::new("never"), |(state, time_ms)| Known {
            time_ms: *time_ms,
            ..verdict_of(state)
        })
    }

    /// Whether a backup can be restored, as far as is known: `restorable`, `lost`, or `damaged` if that was found when
    /// it was read last.
    pub(super) fn state_of(&self, backup: &NamedBackup) -> &'static str {
        if backup.is_lost {
            return backup.state();
        }
        match self.found_of(backup) {
            Some((state, _)) if !state.is_good() => verdict_of(state).state,
            _ => backup.state(),
        }
    }

    /// How many of `backups` cannot be restored, where the log knows of so many.
    pub(super) fn lost_among(
        &self,
        known: usize,
        backups: impl FnOnce() -> Vec<KnownBackup>,
    ) -> usize {
        match self.found.iter().all(|(state, _)| state.is_good()) {
            true => known,
            false => backups().iter().filter(|backup| !backup.is_restorable()).count(),
        }
    }

    /// What was found of a backup when it was read last, and when.
    fn found_of(&self, backup: &NamedBackup) -> Option<&(CheckedState, i64)> {
        let is_it =
            |state: &CheckedState| state.backup.as_ref().is_some_and(|it| it.id == backup.id);
        self.found.iter().find(|(state, _)| is_it(state))
    }

    /// What is known of all that was looked at.
    pub(super) fn known_of_all(&self) -> Known {
        if let Some(running) = &self.running {
            return running.known();
        }
        if let Some((_, failed)) = &self.failed {
            return failed.clone();
        }
        let time_ms = self.found.iter().map(|(_, time_ms)| *time_ms).max();
        let Some(time_ms) = time_ms else { return Known::new("never") };
        let bad = self.found.iter().find(|(state, _)| !state.is_good());
        let told = bad.or_else(|| self.found.first());
        Known { time_ms, ..told.map_or(Known::new("never"), |(state, _)| verdict_of(state)) }
    }

    /// Takes over what was found, when it has ended.
    fn follow(&mut self) -> Option<News> {
        let running = self.running.as_ref()?;
        let (found, time_ms) = running.desk.take_found()?;
        let name = self.running.take().and_then(|running| running.name);
        match found {
            Ok(states) if states.is_empty() => {
                Some(self.fail(name, time_ms, "it ended before anything was read".to_owned()))
            }
            Ok(states) => {
                let bad: Vec<String> =
                    states.iter().filter(|state| !state.is_good()).map(described).collect();
                let count = states.len();
                for state in states {
                    let id = |state: &CheckedState| state.backup.as_ref().map(|backup| backup.id);
                    self.found.retain(|(other, _)| id(other) != id(&state));
                    self.found.push((state, time_ms));
                }
                Some(match bad.is_empty() {
                    true => {
                        News::Good(format!("{count} states of the log were read: all are good"))
                    }
                    false => News::Bad(format!("Of {count} states of the log: {}", bad.join("; "))),
                })
            }
            Err(error) => Some(self.fail(name, time_ms, error.to_string())),
        }
    }

    fn fail(&mut self, name: Option<String>, time_ms: i64, why: String) -> News {
        let news = News::Bad(format!("Backups could not be read: {why}"));
        self.failed = Some((name, Known { time_ms, why, ..Known::new("failed") }));
        news
    }

    /// Ends it, and waits, but not longer than `most`.
    pub(super) fn end(&mut self, most: Duration) {
        let Some(running) = self.running.take() else { return };
        running.desk.end();
        self.runner.iter_mut().for_each(|runner| runner.finish(most));
    }

    /// Forgets backups that are not there any more.
    fn forget(&mut self, is_there: impl Fn(u64) -> bool) {
        let is_known =
            |state: &CheckedState| state.backup.as_ref().is_none_or(|backup| is_there(backup.id));
        self.found.retain(|(state, _)| is_known(state));
    }
}

fn verdict_of(state: &CheckedState) -> Known {
    let (name, why) = match &state.verdict {
        Verdict::Good { .. } => ("good", String::new()),
        Verdict::Lost => ("lost", described(state)),
        Verdict::Damaged(_) => ("damaged", described(state)),
    };
    Known { why, percentage: 100, ..Known::new(name) }
}

/// What is wrong with a state, for a person.
fn described(state: &CheckedState) -> String {
    let what = match &state.backup {
        Some(backup) => format!("backup {} of block {}", backup.name, state.lsn),
        None => format!("the newest state, of block {},", state.lsn),
    };
    match &state.verdict {
        Verdict::Good { .. } => format!("{what} is good"),
        Verdict::Lost => format!("{what} is lost: a file that it needs is gone"),
        Verdict::Damaged(why) => format!("{what} cannot be restored: {why}"),
    }
}

impl Engine {
    /// Has backups read by `runner`.
    pub fn verify_by(&mut self, runner: Box<dyn VerifyRunner>) {
        self.verifying.runner = Some(runner);
    }

    /// The backups of the log, with what is known of them.
    pub(super) fn known_backups(&self) -> Vec<KnownBackup> {
        let backups = self.shard.log().map(|log| log.backups()).unwrap_or_default();
        let known =
            |kept: BackupState| KnownBackup { state: self.verifying.state_of(&kept.backup), kept };
        backups.into_iter().map(known).collect()
    }

    /// Looks whether a verification has ended, and says what it has found.
    pub(super) fn follow_verification(&mut self) {
        let Some(news) = self.verifying.follow() else { return };
        match news {
            News::Good(text) => self.deps.logger.notice(&text),
            News::Bad(text) => self.deps.logger.warning(&text),
        }
        let backups = self.shard.log().map(|log| log.backups()).unwrap_or_default();
        self.verifying.forget(|id| backups.iter().any(|it| it.backup.id == id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that ends without having told anything, as when its thread panics.
    struct Silent;

    impl VerifyRunner for Silent {
        fn run(&mut self, _: Option<String>, desk: Arc<VerifyDesk>) -> std::io::Result<()> {
            desk.end_unless_told(7);
            Ok(())
        }

        fn finish(&mut self, _: Duration) {}
    }

    fn backup(name: &str, id: u64) -> NamedBackup {
        let (lsn, name) = (base::Lsn(id), name.to_owned());
        NamedBackup { id, name, lsn, noted_lsn: lsn, time_ms: 1, is_lost: false }
    }

    #[test]
    fn what_told_nothing_has_failed_and_no_older_verdict_hides_it() {
        let mut verifying = Verifying { runner: Some(Box::new(Silent)), ..Verifying::default() };
        let (one, two) = (backup("one", 1), backup("two", 2));
        let verdict = Verdict::Good { files: 1, records: 1 };
        for backup in [&one, &two] {
            let (backup, lsn, verdict) = (Some(backup.clone()), backup.lsn, verdict.clone());
            verifying.found.push((CheckedState { backup, lsn, verdict }, 3));
        }
        assert!(verifying.begin(Some("one".to_owned())).unwrap());
        assert_eq!(verifying.known(&one).state, "running");
        assert!(matches!(verifying.follow(), Some(News::Bad(_))));
        assert_eq!((verifying.known(&one).state, verifying.known(&one).time_ms), ("failed", 7));
        assert_eq!(verifying.known(&two).state, "good");
        assert_eq!(verifying.known_of_all().state, "failed");
        // What was told is not taken back by the end of the thread.
        let desk = VerifyDesk::default();
        desk.end_with(Ok(vec![verifying.found[0].0.clone()]), 1);
        desk.end_unless_told(2);
        assert!(desk.take_found().is_some_and(|(_, time_ms)| time_ms == 1));
    }
}
