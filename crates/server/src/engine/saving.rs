//! What dumps mean for clients and for the end of the server.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use dump::{SpillOptions, WholeReason};
use keyspace::walk::Algorithm;
use rdb::WriteOptions;
use redo::Mark;

use super::blocking::Wait;
use super::client::Closing;
use super::commands::REDIS_VERSION;
use super::saves::{FileSave, NotSaved, Stream};
use super::{Engine, LogHealth, LogState, Shutdown};
use crate::config::SnapshotAlgorithm;
use crate::migrate::MigrateError;
use crate::save::{
    KnownDump, Predecessor, SaveError, SaveFigures, SaveJob, SaveResult, SaveRunner, SaveSource,
    SaveTarget, Saver, dump_into, temporary_name,
};

/// What a client is told whose SHUTDOWN has not come to pass. Redis' own words.
pub(super) const NOT_SHUT_DOWN: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// A moment of the data, to be dumped.
struct Moment {
    source: SaveSource,
    /// The last block that it shows.
    lsn: Lsn,
    /// Of which database; `None` without a log.
    database: Option<redo::Id>,
    facts: Vec<(&'static str, String)>,
    /// Of each database, how many keys it has, and how many of them expire.
    sizes: Vec<(u64, u64)>,
    /// The sources of the libraries of functions.
    libraries: Vec<Arc<[u8]>>,
    options: WriteOptions,
}

impl Engine {
    /// Has dumps written by `runner`.
    pub fn save_by(&mut self, runner: Box<dyn SaveRunner>) {
        self.saves.set_runner(runner);
    }

    /// Begins a dump into the file. Whether it has begun; otherwise it does as soon as a mark can be made.
    ///
    /// # Errors
    /// Why there is none: it is what the client is told.
    pub(super) fn begin_save(&mut self) -> Result<bool, NotSaved> {
        if !matches!(self.saves.file, FileSave::None) {
            return Err(NotSaved::InProgress);
        }
        self.may_save()?;
        self.saves.file = FileSave::Wanted;
        self.begin_wanted();
        match &self.saves.file {
            FileSave::None => Err(NotSaved::NotBegun),
            FileSave::Wanted => Ok(self.in_transaction),
            FileSave::Running(_) => Ok(true),
        }
    }

    /// What loads a dump tells `known`.
    pub(crate) fn know_dump(&mut self, known: KnownDump) {
        self.saves.known = known;
    }

    /// How dumps are made now.
    pub(super) fn snapshot_algorithm(&self) -> SnapshotAlgorithm {
        match self.options.saves.algorithm {
            SnapshotAlgorithm::Auto => match self.shard.log_state() {
                LogState::Off => SnapshotAlgorithm::Piggyback,
                _ => SnapshotAlgorithm::Bitmap,
            },
            chosen => chosen,
        }
    }

    /// Why a dump would be useless to begin.
    pub(super) fn may_save(&self) -> Result<(), NotSaved> {
        if let LogHealth::ReadOnly(why) | LogHealth::Failed(why) = self.shard.log_health() {
            return Err(NotSaved::LogFailed(why));
        }
        if self.shard.keyspace.libraries().len() > 0 {
            self.rdb_options().check_functions()?;
        }
        let is_of_log = self.snapshot_algorithm().reads_log();
        match self.shard.log_state() {
            LogState::Off if is_of_log => Err(NotSaved::NoLog),
            _ if !is_of_log && self.may_lack() => Err(NotSaved::NotInMemory),
            _ => Ok(()),
        }
    }

    /// Whether keys or values may be in the log only, or leave memory at any time.
    fn may_lack(&self) -> bool {
        self.shard.keyspace.may_lack() || self.options.eviction.is_cold()
    }

    /// Begins what was wanted, if that is possible now: only between commands, and when it is known what of the
    /// log is garbage.
    pub(super) fn begin_wanted(&mut self) {
        if self.in_transaction || !self.saves.is_wanted() {
            return;
        }
        self.saves.streams.retain(|stream| {
            let client = self.sessions.clients.get(stream.client);
            client.is_some_and(|client| client.id == stream.client_id)
        });
        let may_save = self.may_save().map_err(|why| SaveError::Impossible(why.to_string()));
        if let Err(why) = may_save {
            // Not for a while, or for good.
            return self.refuse_wanted(why);
        }
        if matches!(self.saves.file, FileSave::Wanted) {
            match self.take_moment(true) {
                Ok(Some(moment)) => self.begin_file(moment),
                Ok(None) => {}
                Err(why) => self.file_failed(why),
            }
        }
        for index in (0..self.saves.streams.len()).rev() {
            if self.saves.streams[index].ticket.is_none() {
                match self.take_moment(false) {
                    Ok(Some(moment)) => self.begin_stream(index, moment),
                    Ok(None) => {}
                    Err(why) => self.stream_failed(index, &why),
                }
            }
        }
    }

    /// Nothing that is wanted can be begun.
    fn refuse_wanted(&mut self, why: SaveError) {
        let why = Arc::new(why);
        if matches!(self.saves.file, FileSave::Wanted) {
            self.saves.note_failed(self.time.now_us);
            self.file_ended(Err(Arc::clone(&why)));
        }
        for index in (0..self.saves.streams.len()).rev() {
            if self.saves.streams[index].ticket.is_none() {
                self.stream_failed(index, &why);
            }
        }
    }

    /// Ends the open block, and takes the data as of now, for a file or a stream; `None` if that is not possible yet.
    fn take_moment(&mut self, is_file: bool) -> Result<Option<Moment>, SaveError> {
        let algorithm = self.snapshot_algorithm();
        let may_take = match self.shard.log_state() {
            LogState::On(_) => self.shard.is_writable(),
            LogState::Off => !algorithm.reads_log(),
            _ => false,
        };
        let walk = match algorithm {
            SnapshotAlgorithm::Piggyback => Some(Algorithm::Piggyback),
            SnapshotAlgorithm::CopyOnUpdate => Some(Algorithm::CopyOnUpdate),
            _ => None,
        };
        // There is one walk at a time.
        let is_walked = walk.is_some() && self.shard.keyspace.is_walked();
        // It is asked for only when it can be made: it ends a block.
        if !may_take || self.shard.is_loading() || is_walked || !self.shard.knows_validity() {
            return Ok(None);
        }
        let options = self.rdb_options();
        let start_us = self.deps.clock.monotonic_us();
        self.seal();
        let mark = match self.shard.log_mut() {
            None => None,
            Some(log) => match log.mark() {
                Some(mark) => Some(mark),
                None => return Ok(None),
            },
        };
        let lsn = mark.as_ref().and_then(Mark::lsn).unwrap_or_default();
        let facts = self.facts(mark.as_ref());
        let database = mark.as_ref().map(Mark::database);
        let keyspace = &self.shard.keyspace;
        let size = |db| {
            let (keys, expiring) = keyspace.size(db);
            (keys as u64, expiring as u64)
        };
        let sizes: Vec<_> = keyspace.databases().map(size).collect();
        let libraries = keyspace.libraries().map(|(_, source)| Arc::clone(source)).collect();
        let source = match (walk, mark) {
            (Some(algorithm), _) => {
                let memory_bytes = self.options.saves.memory_bytes;
                let keyspace = &mut self.shard.keyspace;
                let feed = self.walking.begin(keyspace, algorithm, memory_bytes)?;
                SaveSource::Walk(feed.receiver())
            }
            (None, Some(mark)) if algorithm.reads_log() => {
                let databases = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
                // What was sent to a client is not here to be merged with.
                if is_file && algorithm == SnapshotAlgorithm::Hourglass {
                    if keyspace.may_have_expiring_fields() {
                        // Their elements look otherwise in a dump than those of the hashes that they were.
                        self.saves.last_dumps.forget(WholeReason::ExpiringFields);
                    }
                    SaveSource::Hourglass(mark, databases, self.saves.last_dumps.clone())
                } else {
                    SaveSource::Log(mark, databases)
                }
            }
            _ => {
                let mut run =
                    |pipe: &mut dyn Write| dump_into(pipe, keyspace, options, &facts, &sizes);
                SaveSource::Child(self.deps.host.fork(&mut run).map_err(SaveError::Child)?)
            }
        };
        self.saves.taken_us = self.deps.clock.monotonic_us().saturating_sub(start_us);
        Ok(Some(Moment { source, lsn, database, facts, sizes, libraries, options }))
    }

    /// How a dump is written now: if no version is chosen, in the oldest one that has all that there is.
    pub(super) fn rdb_options(&self) -> WriteOptions {
        let mut options = self.options.saves.rdb;
        let has_functions = self.shard.keyspace.libraries().len() > 0;
        let has_streams = self.shard.keyspace.may_have_streams();
        if self.config.value("rdb-version") == "auto" {
            if self.shard.keyspace.may_have_expiring_fields() {
                options.version = WriteOptions::WITH_EXPIRING_FIELDS;
            } else if has_functions || has_streams {
                options.version = WriteOptions::WITH_FUNCTIONS;
            }
        }
        options
    }

    /// What a dump says of itself.
    pub(super) fn facts(&self, mark: Option<&Mark>) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("redis-ver", REDIS_VERSION.to_owned()),
            ("redis-bits", "64".to_owned()),
            ("ctime", self.time.unix_s().to_string()),
            ("used-mem", self.observed.memory_bytes.to_string()),
            ("aof-base", "0".to_owned()),
            ("indelible-ver", crate::VERSION.to_owned()),
        ];
        if let Some(mark) = mark {
            facts.push(("indelible-database", mark.database().to_string()));
            facts.push(("indelible-lsn", mark.lsn().unwrap_or_default().to_string()));
        }
        facts
    }

    fn begin_file(&mut self, moment: Moment) {
        if !matches!(moment.source, SaveSource::Hourglass(..)) {
            self.saves.last_dumps.forget(WholeReason::OtherAlgorithm);
        }
        let directory = std::path::PathBuf::from(self.config.value("dir"));
        let target = SaveTarget::File {
            path: directory.join(self.config.value("dbfilename")),
            temporary: directory.join(temporary_name(&self.run_id, self.saves.next_number())),
            syncs_early: self.config.is_yes("rdb-save-incremental-fsync"),
            before: Predecessor {
                database: moment.database.map(|database| (database, moment.lsn)),
                known: self.saves.known.clone(),
            },
        };
        let (lsn, keys) = (moment.lsn, moment.sizes.iter().map(|(keys, _)| keys).sum::<u64>());
        let (saver, ticket) = Saver::new(self.save_job(moment, target));
        if let Err(why) = self.saves.run(saver) {
            return self.file_failed(why);
        }
        self.saves.note_running(ticket, self.time.now_us, self.shard.keyspace.dirty(), keys);
        let told = format!("Background saving started: {keys} keys, as of block {lsn} of the log");
        self.deps.logger.notice(&told);
    }

    /// A dump into the file could not be begun.
    fn file_failed(&mut self, why: SaveError) {
        self.saves.note_failed(self.time.now_us);
        self.file_ended(Err(Arc::new(why)));
    }

    fn begin_stream(&mut self, index: usize, moment: Moment) {
        let is_walk = matches!(moment.source, SaveSource::Walk(_));
        let (saver, ticket) = Saver::new(self.save_job(moment, SaveTarget::Ticket));
        let stream = &mut self.saves.streams[index];
        (stream.ticket, stream.taken_us) = (Some(ticket), self.time.now_us);
        stream.is_walk = is_walk;
        if let Err(why) = self.saves.run(saver) {
            self.stream_failed(index, &why);
        }
    }

    fn stream_failed(&mut self, index: usize, why: &SaveError) {
        self.deps.logger.warning(&format!("A dump for a client could not be begun: {why}"));
        let stream = self.saves.streams.remove(index);
        self.end_stream(&stream);
    }

    /// Ends the connection of a client that does not get the rest of its dump.
    pub(super) fn end_stream(&mut self, stream: &Stream) {
        let client = self.sessions.clients.get(stream.client);
        if client.is_some_and(|client| client.id == stream.client_id) {
            self.end_client(stream.client, Closing::Now);
        }
    }

    fn save_job(&self, moment: Moment, target: SaveTarget) -> SaveJob {
        let Moment { source, lsn, database: _, facts, sizes, libraries, options } = moment;
        let directory = self.config.value("dir").into();
        let disk = Arc::clone(&self.deps.disk);
        // The rest are buffers of what is read, merged and written.
        let memory_bytes = self.options.saves.memory_bytes / 8 * 3;
        // A dump must not take the room that the log needs for its next segments.
        let log = &self.options.log;
        let is_there = log.enabled && log.devices.is_empty();
        let kept_bytes = if is_there { 2 * log.segment_bytes } else { 0 };
        let spill = SpillOptions { disk: Arc::clone(&disk), directory, memory_bytes, kept_bytes };
        let (clock, saves) = (Arc::clone(&self.deps.clock), &self.options.saves);
        // What the end of the server waits for spares nothing.
        let is_urgent = self.saves.final_save;
        let bytes_per_s = if is_urgent { 0 } else { saves.bytes_per_s };
        SaveJob {
            disk,
            source,
            lsn,
            sizes,
            libraries,
            target,
            options,
            facts,
            spill,
            clock,
            bytes_per_s,
            is_urgent,
        }
    }

    /// Looks after dumps: begins what is wanted, passes streams on, and notes what has ended.
    pub(super) fn follow_saves(&mut self) {
        if self.saves.is_idle() {
            return;
        }
        if let LogHealth::Failed(why) = self.shard.log_health() {
            return self.give_up_undurable(why);
        }
        self.begin_wanted();
        self.saves.note_durable(self.shard.log().map(|_| self.shard.reach.durable));
        if let Some(result) = self.saves.take_end(self.time.now_us, self.time.unix_s()) {
            self.file_ended(result);
            // Another one may be wanted by now.
            self.begin_wanted();
        }
        self.hasten_walk();
        for index in (0..self.saves.streams.len()).rev() {
            if !self.feed(index) {
                self.saves.streams.remove(index);
            }
        }
    }

    /// The log has failed: what is not durable never will be, and no dump of it is complete.
    fn give_up_undurable(&mut self, why: String) {
        let given_up = self.saves.give_up();
        if given_up.0 {
            self.saves.file = FileSave::Wanted;
        }
        given_up.1.iter().for_each(|stream| self.end_stream(stream));
        self.refuse_wanted(SaveError::Impossible(why));
    }

    /// Writers must not wait for long because a client takes its dump slowly: it is let go.
    fn hasten_walk(&mut self) {
        let is_congested = self.shard.keyspace.is_walk_congested();
        if !self.walking.is_congested_for_long(is_congested, self.time.now_us) {
            return;
        }
        let of_walk = |stream: &Stream| stream.is_walk && stream.ticket.is_some();
        if let Some(index) = self.saves.streams.iter().position(of_walk) {
            self.deps.logger.warning(
                "Closing a client that takes its dump more slowly than others write: see snapshot-memory, or BGSAVE",
            );
            let stream = self.saves.streams.remove(index);
            self.end_stream(&stream);
        }
    }

    /// Begins a dump if a save point is reached.
    pub(super) fn save_if_due(&mut self) {
        let (now_us, unix_s) = (self.time.now_us, self.time.unix_s());
        let dirty = self.shard.keyspace.dirty();
        if !self.saves.is_due(&self.options.saves.points, dirty, now_us, unix_s) {
            return;
        }
        match self.begin_save() {
            // The first is said where the log has failed, the second where the dump has.
            Ok(_) | Err(NotSaved::LogFailed(_) | NotSaved::NotBegun) => {}
            Err(why) => {
                let why = why.to_string();
                let why = why.strip_prefix("ERR ").unwrap_or(&why);
                self.deps
                    .logger
                    .warning(&format!("A save point is reached, and nothing is saved: {why}"));
                self.saves.note_failed(now_us);
            }
        }
    }

    /// A dump into the file has ended: those that wait for it learn it.
    fn file_ended(&mut self, result: SaveResult) {
        let logger = self.deps.logger.clone();
        match &result {
            Ok(figures) => {
                let SaveFigures { keys, bytes, lost_keys, lsn, kept, .. } = figures;
                let seconds = self.saves.last.duration_s.unwrap_or(0);
                logger.notice(&format!(
                    "DB saved on disk: {keys} keys, {bytes} bytes, as of block {lsn}, in {seconds} s"
                ));
                if let Some(text) = figures.made_of_text() {
                    logger.notice(&text);
                }
                if *lost_keys > 0 {
                    logger.warning(&format!(
                        "WARNING: {lost_keys} keys are not in the dump: their values are lost, see \
                         `indelible log verify`"
                    ));
                }
                if let Some(kept) = kept {
                    let name = kept.name(Path::new(self.config.value("dbfilename")));
                    let (name, why) = (name.display(), kept.why());
                    logger.warning(&format!(
                        "WARNING: the dump that was there before {why}: it stays as {name}; remove it when it is not needed"
                    ));
                }
            }
            Err(why) => {
                logger.warning(&format!("Background saving error: {why}"));
                self.note_damage(why);
            }
        }
        if matches!(self.saves.file, FileSave::Wanted) {
            // The one that they wait for comes now.
            return;
        }
        self.answer_savers(&result);
        if !std::mem::take(&mut self.saves.final_save) {
            return;
        }
        let is_forced = self.shutdown.is_some_and(|shutdown| shutdown.force);
        if result.is_err() && !is_forced {
            logger.warning("Error trying to save the DB, can't exit.");
            self.stay();
        }
    }

    /// Answers the clients that wait for the dump into the file.
    fn answer_savers(&mut self, result: &SaveResult) {
        for key in self.sessions.clients.keys() {
            if !matches!(self.sessions[key].session.wait.as_deref(), Some(Wait::Save)) {
                continue;
            }
            match result {
                Ok(_) => self.sessions.end_wait_with_ok(key, &mut self.shard.keyspace),
                Err(why) => self.end_wait_with_error(key, &format!("ERR {why}")),
            }
        }
    }

    /// What a dump could not read of the log is healed.
    pub(super) fn note_damage(&mut self, why: &SaveError) {
        if let SaveError::Dump(dump::Error::Log(error)) = why
            && let Some(log) = self.shard.log_mut()
        {
            log.note_damage(error);
        }
    }

    /// Ends the server, after a dump if that is wanted; clients that write wait meanwhile. What is still being loaded is
    /// not saved.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn end_server(&mut self, saves: bool, shutdown: Shutdown) -> Result<(), NotSaved> {
        if self.saves.final_save {
            // It is being done.
            return Ok(());
        }
        let saves = saves && !self.shard.is_loading();
        let may_save = if saves { self.may_save() } else { Ok(()) };
        if may_save.is_err() && !shutdown.force {
            return may_save;
        }
        self.give_up_migration(MigrateError::ShuttingDown);
        self.shutdown = Some(shutdown);
        if !saves || may_save.is_err() {
            return Ok(());
        }
        self.saves.final_save = true;
        self.update_frozen();
        // Clients that are sent a dump would hold it up.
        let streams = std::mem::take(&mut self.saves.streams);
        streams.iter().for_each(|stream| self.end_stream(stream));
        // One that is under way is older than what is to be saved.
        if self.saves.give_up_file() {
            self.saves.file = FileSave::Wanted;
        } else {
            self.saves.wants_another = true;
        }
        self.begin_wanted();
        Ok(())
    }

    /// Ends what [`Engine::end_server`] has begun, if that is still possible. Whether it was.
    pub(super) fn stay_up(&mut self) -> bool {
        if !std::mem::take(&mut self.saves.final_save) {
            return false;
        }
        self.saves.wants_another = false;
        if self.saves.give_up_file() {
            self.answer_savers(&Err(Arc::new(SaveError::ShutdownAborted)));
        }
        self.stay();
        true
    }

    /// The server goes on: clients learn it.
    fn stay(&mut self) {
        self.shutdown = None;
        self.update_frozen();
        self.sessions.resume_paused(&mut self.shard.keyspace);
        for key in self.sessions.clients.keys() {
            if matches!(self.sessions[key].session.wait.as_deref(), Some(Wait::Shutdown)) {
                self.end_wait_with_error(key, NOT_SHUT_DOWN);
            }
        }
    }

    /// Gives up every dump that is being written, and waits until none uses the log any more.
    pub(super) fn give_up_saves(&mut self) {
        let (had_file, streams) = self.saves.give_up();
        // It names records of the log that is closed now.
        self.saves.last_dumps.forget(WholeReason::First);
        if had_file {
            self.deps.logger.notice("The dump that was being written is given up");
            self.answer_savers(&Err(Arc::new(SaveError::LogClosed)));
        }
        streams.iter().for_each(|stream| self.end_stream(stream));
    }
}
