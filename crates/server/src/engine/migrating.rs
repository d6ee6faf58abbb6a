//! What migrations mean for clients, for the data and for the end of the server.

use base::Lsn;
use keyspace::Need;

use super::blocking::Wait;
use super::call::restore_error;
use super::fetches::Named;
use super::migrations::{self, Moving, Turn};
use super::shard::Level;
use super::{ClientKey, Engine};
use crate::migrate::{MigrateError, MigrateRunner, Order, Outcome};

/// What a client is told of whose keys none is there.
const NO_KEY: &str = "NOKEY";

impl Engine {
    /// Has keys brought to other servers by `runner`.
    pub fn migrate_by(&mut self, runner: Box<dyn MigrateRunner>) {
        self.migrations.set_runner(runner);
    }

    /// Begins a migration; its client waits.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn begin_migration(
        &mut self,
        moving: Moving,
        order: Order,
    ) -> Result<(), MigrateError> {
        let client = moving.client;
        self.migrations.begin(moving, order)?;
        self.sessions.start_wait(client, Wait::Migration);
        Ok(())
    }

    /// Looks after the migration: takes the values when the target is ready, and deletes what it has acknowledged.
    pub(super) fn follow_migration(&mut self) {
        if !self.migrations.is_under_way() || self.sleep.is_on() {
            return;
        }
        if let Some((client, id)) = self.migrations.unsent_client()
            && !self.waits_for_migration(client, id)
        {
            self.migrations.give_up();
            self.release_writers();
            return;
        }
        if self.migrations.holds_writers()
            && let Some(why) = self.shard.failure()
        {
            let why = MigrateError::NotDeleted(format!("MISCONF {why}"));
            return self.give_up_migration_now(&why);
        }
        loop {
            let (may_write, reach) = (self.may_write_unasked(), self.shard.reach);
            let level = Level::from(self.options.fsync);
            match self.migrations.turn(may_write, |lsn| reach.has(level, lsn)) {
                Turn::Wait => break,
                Turn::Take => self.take_values(),
                Turn::End(moving, outcome) => self.end_migration(&moving, outcome),
            }
        }
    }

    /// Whether a client is there and waits for its migration.
    fn waits_for_migration(&self, key: ClientKey, id: u64) -> bool {
        let waits = |wait: &Wait| matches!(wait, Wait::Migration);
        let client = self.sessions.clients.get(key).filter(|client| client.id == id);
        client.is_some_and(|client| client.session.wait.as_deref().is_some_and(waits))
    }

    /// Begins a command that no client asks for now.
    fn begin_unasked(&mut self) {
        let bytes_max = self.reading_bytes_max();
        let keyspace = &mut self.shard.keyspace;
        keyspace.take_restore_failure();
        keyspace.forget_lookups();
        if keyspace.may_lack() {
            keyspace.limit_reading(bytes_max);
        }
        keyspace.begin_command(self.time.unix_ms());
    }

    /// Takes the values that are to be brought, and holds writers from now on.
    fn take_values(&mut self) {
        if let Some(why) = self.shard.write_refusal() {
            return self.give_up_migration_now(&MigrateError::NotTaken(why));
        }
        self.begin_unasked();
        let taken = self.read_values();
        self.shard.pin_dropped();
        let (lsn, _) = self.shard.keyspace.end_command();
        match taken {
            Err(why) => self.give_up_migration_now(&why),
            // They have expired, or were deleted, while the target was reached.
            Ok(parcels) if parcels.is_empty() => {
                if let Some(moving) = self.migrations.give_up() {
                    self.release_writers();
                    self.answer_migration(&moving, Ok(NO_KEY), lsn, false);
                }
            }
            Ok(parcels) => {
                self.migrations.note_taken(parcels, lsn);
                self.update_frozen();
                self.await_values(lsn);
            }
        }
        // Clients that wait for keys are served behind that: not from keys that were taken.
        self.end_unasked();
    }

    /// What the values depend on is written as soon as that of a reply.
    fn await_values(&mut self, lsn: Lsn) {
        let level = Level::from(self.options.fsync);
        if self.shard.reach.has(level, lsn) {
            return;
        }
        if level == Level::Written
            && let Some(log) = self.shard.log_mut()
        {
            log.want_written(lsn);
        }
        self.await_block(level);
    }

    fn read_values(&mut self) -> Result<Vec<crate::migrate::Parcel>, MigrateError> {
        let not_taken = |why: String| MigrateError::NotTaken(why);
        let Some(Moving { db, keys, .. }) = self.migrations.to_take() else {
            return Ok(Vec::new());
        };
        if self.shard.keyspace.may_lack() {
            let (db, keys) = (*db, keys.clone());
            let need = Need::Value;
            let names: Vec<_> = keys.iter().map(|key| Named { db, key, need }).collect();
            self.restore_named(&names).map_err(|error| not_taken(error.to_string()))?;
        }
        let Some(moving) = self.migrations.to_take() else { return Ok(Vec::new()) };
        let parcels = migrations::take(&mut self.shard.keyspace, moving)
            .map_err(|error| not_taken(error.to_string()))?;
        match self.shard.keyspace.take_restore_failure() {
            Some(error) => Err(not_taken(restore_error(&error).to_string())),
            None => Ok(parcels),
        }
    }

    /// The courier has ended: what the target has acknowledged is deleted, as DEL would.
    fn end_migration(&mut self, moving: &Moving, outcome: Outcome) {
        self.release_writers();
        let Outcome { acknowledged, failure } = outcome;
        let result = failure.map_or(Ok("OK"), Err);
        let brought = moving.keys.iter().zip(acknowledged).filter(|(_, is_there)| *is_there);
        let brought: Vec<&[u8]> = brought.map(|(key, _)| &key[..]).collect();
        if moving.copies || brought.is_empty() {
            return self.answer_migration(moving, result, Lsn::ZERO, false);
        }
        if let Some(why) = self.shard.write_refusal() {
            let why = Err(MigrateError::NotDeleted(why));
            return self.answer_migration(moving, why, Lsn::ZERO, false);
        }
        self.begin_unasked();
        let (db, need) = (moving.db, Need::Name);
        let names: Vec<_> = brought.iter().map(|key| Named { db, key, need }).collect();
        let result = match self.restore_named(&names) {
            Ok(()) => {
                migrations::delete(&mut self.shard.keyspace, db, &brought);
                result
            }
            Err(error) => Err(MigrateError::NotDeleted(error.to_string())),
        };
        self.shard.pin_dropped();
        let (lsn, wrote) = self.shard.keyspace.end_command();
        let is_waiting = self.waits_for_migration(moving.client, moving.client_id);
        self.answer_migration(moving, result, lsn, wrote);
        self.settle(lsn, is_waiting.then_some(moving.client));
        self.tell_postponed();
        self.seal_if_large();
    }

    /// Answers the client of a migration, if it is still there; its reply waits for a block.
    fn answer_migration(
        &mut self,
        moving: &Moving,
        result: Result<&str, MigrateError>,
        lsn: Lsn,
        wrote: bool,
    ) {
        let key = moving.client;
        if !self.waits_for_migration(key, moving.client_id) {
            return;
        }
        self.sessions.stop_waiting(key, &mut self.shard.keyspace);
        let output = &mut self.sessions[key].connection.output;
        let before = output.len();
        match result {
            Ok(word) => output.writer().simple(word),
            Err(why) => {
                let error = why.to_string();
                output.writer().error(&error);
                self.observed.counters.error(error.as_bytes());
            }
        }
        if lsn > self.shard.reach.durable {
            self.depend(key, before, lsn, wrote);
        }
        self.sessions.resume(key, before);
    }

    /// Clients that waited for the end of the migration go on, and keys may expire again.
    fn release_writers(&mut self) {
        self.update_frozen();
        self.sessions.resume_paused(&mut self.shard.keyspace);
    }

    /// Ends the migration, if there is one. What the target has acknowledged by now is deleted.
    pub(super) fn give_up_migration(&mut self, why: MigrateError) {
        if self.migrations.is_sent() {
            self.follow_migration();
        }
        self.give_up_migration_now(&why);
    }

    fn give_up_migration_now(&mut self, why: &MigrateError) {
        if let Some(moving) = self.migrations.give_up() {
            self.release_writers();
            if self.waits_for_migration(moving.client, moving.client_id) {
                self.end_wait_with_error(moving.client, &why.to_string());
            }
        }
    }
}
