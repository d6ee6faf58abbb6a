//! What archiving the log needs of the engine: a reader, now and then a mark, and to be told of changes.

use std::sync::Arc;
use std::time::Duration;

use archive::{Ending, NamedBlock};
use base::Lsn;

use super::Engine;
use super::archives::News;
use super::shard::{LogState, ShardLog};
use crate::archive_threads::ArchiveRunner;
use crate::config::FsyncPolicy;

/// So long the end of the process waits for an archiver: a target may never answer.
pub(super) const AT_END: Duration = Duration::from_secs(3);

/// So long a server that goes on waits for one that is between two steps, and lets go of the log at once.
pub(super) const MEANWHILE: Duration = Duration::from_millis(20);

/// The backups of a log.
fn named(log: &dyn ShardLog) -> Vec<NamedBlock> {
    let backups = log.backups().into_iter().map(|state| state.backup);
    backups.map(|it| NamedBlock { id: it.id, name: it.name, lsn: it.lsn }).collect()
}

impl Engine {
    /// Has the log archived by `runner`.
    pub fn archive_by(&mut self, runner: Box<dyn ArchiveRunner>) {
        self.archives.set_runner(runner);
    }

    /// What the archiver has done.
    #[must_use]
    pub fn archived(&self) -> archive::Figures {
        self.archives.figures()
    }

    /// Looks after the archive: begins and ends it as the configuration says, and gives it marks.
    pub(super) fn follow_archive(&mut self) {
        let wanted = self.options.log.archive.place.as_ref();
        if wanted.is_none() && !self.archives.is_on() {
            return;
        }
        if !self.archives.is_at(wanted) {
            self.change_archive();
        }
        if self.archives.wanting_mark().is_some()
            && let Some(log) = self.shard.log_mut()
            && let Some(mark) = log.mark()
            && let Some(desk) = self.archives.wanting_mark()
        {
            // Now, however much later it is read: its state was the last one then.
            desk.give_mark(mark, self.deps.clock.now_ms());
        }
        if let Some(log) = self.shard.log() {
            self.archives.tell_backups(self.time.now_us, || named(log));
        }
        let durable = self.shard.reach.durable;
        let required_s = self.options.log.archive.required_s;
        match self.archives.news(self.time.now_us, durable, required_s) {
            Some(News::Good(text)) => self.deps.logger.notice(&text),
            Some(News::Bad(text)) => self.deps.logger.warning(&text),
            None => {}
        }
        let interval_us = self.options.log.archive.interval_ms * 1000;
        if self.options.fsync == FsyncPolicy::No
            && self.archives.is_sync_due(self.time.now_us, interval_us)
            && let Some(log) = self.shard.log_mut()
            && log.last_lsn() > durable
        {
            // Only what is durable is shipped.
            log.request_sync();
        }
    }

    /// Ends the archive that there is, and begins the one that is wanted, as soon as there is a log.
    fn change_archive(&mut self) {
        self.archives.end(Ending::AtOnce);
        let settings = &self.options.log.archive;
        let Some(place) = settings.place.clone().filter(|_| self.archives.can_run()) else {
            return;
        };
        let reader = match self.shard.log_state() {
            LogState::On(log) if !self.shard.is_loading() => log.reader(),
            _ => None,
        };
        let Some(reader) = reader else { return };
        let mut seed = [0; archive::KEY_BYTES];
        self.deps.entropy.fill(&mut seed);
        let clock = Arc::clone(&self.deps.clock);
        let directory = archive::directory_of(&place.url);
        if directory.is_some_and(|it| it.starts_with(self.config.value("dir"))) {
            self.deps.logger.warning(
                "The archive is in the data directory: what takes the one takes the other",
            );
        }
        if let Err(why) = self.archives.begin(reader, &place, settings, &clock, seed) {
            self.deps.logger.warning(&format!("The log is not archived: {why}"));
        }
        self.archive_configuration();
    }

    /// Has the archive know the configuration, from the next block on.
    pub(super) fn archive_configuration(&self) {
        let last = self.shard.log().map_or(Lsn::ZERO, |log| log.last_lsn());
        self.archives.tell_configuration(last.next(), || self.configuration_to_keep());
    }

    /// Ends the archive, if there is one, and waits for it, but not longer than `most`.
    pub(super) fn end_archive(&mut self, ending: Ending, most: Duration) {
        if self.archives.is_on() {
            self.archives.end(ending);
            self.archives.finish(most);
        }
    }
}
