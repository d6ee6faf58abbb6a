//! Executes one command and does everything that follows from it: statistics, the command
//! logs, monitors, what its reply must wait for, notifications, spoiled transactions, ready keys.

use base::Lsn;
use command::context::{Again, Blocking, Context};
use command::error::CommandError;
use command::spec::Flags;
use command::table::Command;
use keyspace::RestoreError;
use resp::{SharedBytes, Writer};

use super::client::Closing;
use super::commandlog::Executed;
use super::commands::Executor;
use super::fetches::Named;
use super::shard::Level;
use super::{ClientKey, Engine, commandlog, commands, pubsub};
use crate::crash;

/// Why a command is executed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attempt<'a> {
    /// Its client has sent it; it may wait.
    First,
    /// It stands between MULTI and EXEC; it must not wait.
    InTransaction,
    /// It waits, and is executed again.
    Again(Again<'a>),
}

/// A command that is being executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) key: ClientKey,
    pub(super) command: Command,
    /// Where its reply begins.
    pub(super) start: usize,
    start_us: u64,
    unix_us: i64,
    is_monitored: bool,
    may_lack: bool,
    /// How much of its reply was written before `start`.
    pub(super) replied_bytes: usize,
    /// How much was read from the log before it, and noted.
    fetched_before: u64,
    noted_before: u64,
}

/// A command of the server itself.
pub(super) type ServerHandler = fn(&mut Engine, ClientKey, &[&[u8]]) -> Result<(), CommandError>;

impl Engine {
    /// Executes a command of a client outside a transaction; it may make its client wait.
    pub(super) fn execute(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) {
        let blocking = self.call(key, command, args, Attempt::First);
        self.tell_postponed();
        if let Some(blocking) = blocking {
            self.sessions.block(key, command, args, blocking, &mut self.shard.keyspace);
        }
        self.serve_ready_keys();
    }

    /// Executes a command. It replies, or says what it waits for (only if it may).
    pub(super) fn call(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
        attempt: Attempt<'_>,
    ) -> Option<Blocking> {
        crash::note(command.name, args.len() - 1);
        let begun = self.begin_call(key, command);
        let (result, blocking) = match commands::executor(command) {
            Some(Executor::Data(_))
                if begun.may_lack
                    && let Err(error) = self.restore_keys(key, command, args) =>
            {
                (Err(error), None)
            }
            Some(Executor::Data(handler)) => {
                let may_store =
                    !self.options.access.is_read_only && !self.shard.keyspace.is_frozen();
                let identity = self.sessions[key].session.identity;
                let may_read_all_keys = !command.name.starts_with("sort")
                    || self.access.may_read_all_keys(identity, command, args);
                let client = &mut self.sessions[key];
                let mut context = Context {
                    keyspace: &mut self.shard.keyspace,
                    db: client.session.db,
                    reply: client.connection.output.writer(),
                    string_bytes_max: usize::try_from(self.options.bulk_bytes_max)
                        .unwrap_or(usize::MAX),
                    payload_readers: self.options.saves.rdb.version,
                    may_block: !matches!(attempt, Attempt::InTransaction),
                    in_script: self.scripting.is_calling(),
                    may_store,
                    may_read_all_keys,
                    again: if let Attempt::Again(again) = attempt { Some(again) } else { None },
                    blocking: None,
                };
                let result = handler(&mut context, args);
                (result, context.blocking)
            }
            Some(Executor::Server(handler)) => (handler(self, key, args), None),
            None => (Err(CommandError::other("ERR this command is not supported")), None),
        };
        if self.scripting.is_parking() {
            // The script that it runs goes on later, and so does its end.
            self.scripting.suspend(begun, args, !matches!(attempt, Attempt::InTransaction));
            return None;
        }
        self.end_call(&begun, args, result, blocking)
    }

    fn begin_call(&mut self, key: ClientKey, command: Command) -> Begun {
        let room = self.output_room(key);
        let client = &mut self.sessions[key];
        client.session.last_command = Some(command);
        client.connection.output.limit(room);
        let start = client.connection.output.reply_start();
        self.shard.keyspace.track_access(!client.session.is_no_touch || command.name == "touch");
        let start_us = self.time.now_us;
        // In a script the time stands still.
        let unix_us = self.scripting.unix_us().unwrap_or_else(|| self.time.unix_us());
        let is_monitored = !self.sessions.monitors.is_empty()
            && !command.flags.intersects(Flags::SKIP_MONITOR.with(Flags::ADMIN));

        if !self.in_transaction {
            // What could not be read between commands is no command's failure.
            self.shard.keyspace.take_restore_failure();
            self.shard.keyspace.forget_lookups();
            if self.shard.keyspace.may_lack() {
                let bytes_max = self.reading_bytes_max();
                self.shard.keyspace.limit_reading(bytes_max);
            }
        }
        self.shard.keyspace.begin_command(unix_us / 1000);
        let (fetched_before, noted_before) = (self.fetched_count(), self.observed.counters.fetched);
        let may_lack = self.shard.keyspace.may_lack();
        Begun {
            key,
            command,
            start,
            start_us,
            unix_us,
            is_monitored,
            may_lack,
            replied_bytes: 0,
            fetched_before,
            noted_before,
        }
    }

    fn fetched_count(&self) -> u64 {
        self.shard.keyspace.cold_stats().map_or(0, |it| it.fetched)
    }

    /// Does what follows from a command that was executed.
    pub(super) fn end_call(
        &mut self,
        begun: &Begun,
        args: &[&[u8]],
        result: Result<(), CommandError>,
        blocking: Option<Blocking>,
    ) -> Option<Blocking> {
        let Begun { key, command, start, may_lack, .. } = *begun;
        let (result, blocking) = match self.shard.keyspace.take_restore_failure() {
            // What the command saw was not all that there is.
            Some(error) if may_lack => (Err(restore_error(&error)), None),
            _ => (result, blocking),
        };
        let failed = match result {
            // A script says by itself how it has ended.
            Ok(()) => self.scripting.take_failed(),
            Err(error) => {
                let error = error.to_string();
                let output = &mut self.sessions[key].connection.output;
                output.withdraw(start);
                output.writer().error(&error);
                self.observed.counters.error(error.as_bytes());
                true
            }
        };
        if may_lack {
            // Another log may have come with the command.
            let count = self.fetched_count().saturating_sub(begun.fetched_before);
            self.observed.counters.note_fetched(command.ordinal(), count, begun.noted_before);
        }
        self.shard.pin_dropped();
        let (lsn, wrote) = self.shard.keyspace.end_command();
        let reply_bytes = self.reply_bytes(begun);
        if self.scripting.is_calling() {
            self.scripting.note_dependence(lsn, wrote);
            if wrote {
                self.sessions[key].session.last_write = lsn;
            }
        } else if self.sessions[key].connection.output.is_over() {
            self.end_over_limit(key);
        } else if blocking.is_some() {
            // It is told nothing yet, also not that nothing can become durable any more.
            if wrote {
                self.sessions[key].session.last_write = lsn;
            }
        } else if lsn > self.shard.reach.durable {
            self.depend(key, start, lsn, wrote);
        }
        if blocking.is_none() {
            self.count_call(begun, args, reply_bytes, failed);
            if begun.is_monitored {
                self.feed_monitors(key, begun.unix_us, &commands::redacted(command, args));
            }
        }
        if self.shard.keyspace.has_effects() {
            self.settle(lsn, Some(key));
        }
        if self.sessions.tracking.is_on() {
            // Behind its own changes: it may find out that a key has expired.
            self.note_reads(key, command, args);
        }
        blocking
    }

    /// How much a command may read itself, which no eviction can make room for while it runs: half of what
    /// memory may hold, less what it holds above that besides replies. Clients that do not read theirs keep no
    /// others from being served.
    pub(super) fn reading_bytes_max(&self) -> u64 {
        if self.options.room_bytes().is_none() {
            return u64::MAX;
        }
        let half = self.options.request_bytes_max();
        let max_bytes = self.options.maxmemory_bytes + half;
        let used_bytes = self.deps.host.used_bytes();
        let room_bytes = if max_bytes.saturating_sub(used_bytes) > self.options.fetch_bytes_max() {
            max_bytes - used_bytes
        } else {
            // So full memory is seldom, and there may be many clients.
            let replies = self.sessions.clients.iter();
            let replies = replies.map(|(_, client)| client.connection.output.memory_bytes() as u64);
            (max_bytes + replies.sum::<u64>()).saturating_sub(used_bytes)
        };
        room_bytes.min(half)
    }

    /// Brings back the keys that a command needs, so that it is not executed if one cannot be read.
    pub(super) fn restore_keys(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
    ) -> Result<(), CommandError> {
        let names = self.needed_keys(self.sessions[key].session.db, command, args);
        self.restore_named(&names)
    }

    /// Brings back these keys.
    pub(super) fn restore_named(&mut self, names: &[Named<'_>]) -> Result<(), CommandError> {
        let keyspace = &mut self.shard.keyspace;
        let mut restored = names.iter().map(|it| keyspace.restore(it.db, it.key, it.need));
        restored.try_for_each(|restored| restored.map_err(|error| restore_error(&error)))
    }

    /// Makes the reply that begins at `start` wait for a block, if its client's policy is to wait.
    pub(super) fn depend(&mut self, key: ClientKey, start: usize, lsn: Lsn, wrote: bool) {
        let client = &mut self.sessions[key];
        if wrote {
            client.session.last_write = lsn;
        }
        let level = Level::from(client.session.durability.unwrap_or(self.options.fsync));
        self.depend_at(key, start, lsn, level);
    }

    /// As [`Engine::depend`], of a write that is told when it is durable, whatever the policy.
    pub(super) fn depend_durably(&mut self, key: ClientKey, start: usize, lsn: Lsn) {
        self.sessions[key].session.last_write = lsn;
        self.depend_at(key, start, lsn, Level::Durable);
    }

    fn depend_at(&mut self, key: ClientKey, start: usize, lsn: Lsn, level: Level) {
        let client = &mut self.sessions[key];
        if self.shard.reach.has(level, lsn) {
            return;
        }
        if let Some(why) = self.shard.failure() {
            if level == Level::Written {
                // So memory can still be read when the log has failed.
                return;
            }
            // It would wait for ever.
            let error = format!(
                "MISCONF What was read is not durable and cannot become so: {why} (CLIENT DURABILITY no lets \
                 this connection read what memory has)"
            );
            client.connection.output.truncate(start);
            client.connection.output.writer().error(&error);
            self.observed.counters.error(error.as_bytes());
            return;
        }
        if client.connection.output.hold(start, level, lsn) {
            self.hold(key, level, lsn);
        }
        self.await_block(level);
    }

    /// The length of the reply that was just written; if it is over its client's limit and gone, that limit.
    fn reply_bytes(&self, begun: &Begun) -> u64 {
        let output = &self.sessions[begun.key].connection.output;
        let bytes = if output.is_over() {
            self.output_room(begun.key)
        } else {
            // What a command ends, itself perhaps, has no output any more.
            begun.replied_bytes + output.reply_start().saturating_sub(begun.start)
        };
        bytes as u64
    }

    fn count_call(&mut self, begun: &Begun, args: &[&[u8]], reply_bytes: u64, failed: bool) {
        let Begun { key, command, start_us, .. } = *begun;
        self.time.refresh_monotonic();
        let duration_us = self.time.now_us.saturating_sub(start_us) + self.sleep.take_asked_us();
        self.observed.counters.commands += 1;
        if !self.in_transaction {
            self.observed.cycles.commands_us += duration_us;
        }
        let stats = &mut self.observed.counters.by_command[command.ordinal()];
        stats.calls += 1;
        stats.duration_us += duration_us;
        stats.failed += u64::from(failed);
        if self.options.latency_tracking {
            stats.latency.get_or_insert_default().add(duration_us);
        }
        if !command.flags.has(Flags::SKIP_SLOWLOG) && !self.scripting.is_calling() {
            let client = &self.sessions[key];
            let request_bytes = commandlog::request_bytes(args);
            let executed = Executed { duration_us, request_bytes, reply_bytes };
            let limits = &self.options.command_logs;
            if executed.is_notable(limits) {
                let args = commands::redacted(command, args);
                let (peer, name) = (&client.connection.peer.address, &client.session.name);
                let unix_s = self.time.unix_s();
                self.observed.command_logs.add(&executed, limits, &args, unix_s, peer, name);
            }
        }
        if self.options.latency_threshold_ms > 0 {
            let event = if command.flags.has(Flags::FAST) { "fast-command" } else { "command" };
            self.note_latency(event, duration_us);
        }
    }

    /// Notes that something took this long, if that is as long as the user wants to know.
    pub(super) fn note_latency(&mut self, event: &'static str, duration_us: u64) {
        let threshold_ms = self.options.latency_threshold_ms;
        if threshold_ms > 0 && duration_us / 1000 >= threshold_ms {
            let unix_s = self.time.unix_s();
            self.observed.latency.add(event, unix_s, duration_us / 1000);
        }
    }

    /// Acts on the side effects of commands, of `by` if one is being executed; what others learn of it waits for `lsn`.
    pub(super) fn settle(&mut self, lsn: Lsn, by: Option<ClientKey>) {
        while self.shard.keyspace.has_effects() {
            let effects = self.shard.keyspace.take_effects();
            for key in &effects.touched {
                self.sessions.mark_watch_dirty(key);
            }
            if !effects.changed.is_empty() {
                self.data_changed(&effects.changed, lsn, by);
            }
            for event in &effects.events {
                self.publish_event(event, lsn);
            }
            self.sessions.ready_keys.extend(effects.ready);
        }
    }

    /// Publishes a keyspace notification.
    fn publish_event(&mut self, event: &keyspace::Event, lsn: Lsn) {
        let wanted = self.shard.keyspace.settings().notify;
        if wanted.has(keyspace::Notify::KEYSPACE) {
            let channel = [format!("__keyspace@{}__:", event.db).as_bytes(), &event.key].concat();
            self.publish(false, &channel, event.name.as_bytes(), lsn);
        }
        if wanted.has(keyspace::Notify::KEYEVENT) {
            let channel = format!("__keyevent@{}__:{}", event.db, event.name);
            self.publish(false, channel.as_bytes(), &event.key, lsn);
        }
    }

    /// Sends a message to its listeners; returns how many there are.
    pub(super) fn publish(
        &mut self,
        is_shard: bool,
        channel: &[u8],
        message: &[u8],
        lsn: Lsn,
    ) -> usize {
        let registry = std::mem::take(&mut self.sessions.registry);
        let receivers = registry.receivers(is_shard, channel);
        let count = receivers.len();
        let message = SharedBytes::from(if count == 0 { &[] } else { message });
        for (receiver, pattern) in receivers {
            self.deliver(receiver, lsn, |writer| {
                pubsub::write_message(writer, is_shard, pattern, channel, &message);
            });
        }
        self.sessions.registry = registry;
        count
    }

    /// Appends to what a client is sent what it has not asked for, to leave when `lsn` has come as
    /// far as the server's policy says.
    pub(super) fn deliver(&mut self, key: ClientKey, lsn: Lsn, write: impl FnOnce(&mut Writer)) {
        self.deliver_at(key, Level::from(self.options.fsync), lsn, write);
    }

    /// As [`Engine::deliver`], to leave when `lsn` has come to `level`.
    pub(super) fn deliver_at(
        &mut self,
        key: ClientKey,
        level: Level,
        lsn: Lsn,
        write: impl FnOnce(&mut Writer),
    ) {
        let waits = !self.shard.reach.has(level, lsn)
            && (level == Level::Durable || self.shard.failure().is_none());
        let room = self.output_room(key);
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        if client.connection.closing == Closing::Now {
            return;
        }
        let start = client.connection.output.len();
        client.connection.output.limit(room);
        write(client.connection.output.unasked());
        if client.connection.output.is_over() {
            self.end_over_limit(key);
            return;
        }
        if waits && client.connection.output.hold(start, level, lsn) {
            self.hold(key, level, lsn);
            self.await_block(level);
        }
        self.sessions.note(key);
        self.check_output_size(key);
        if let Some(client) =
            self.sessions.clients.get_mut(key).filter(|it| it.connection.closing == Closing::Now)
        {
            client.connection.output.clear();
        }
    }

    /// Shows a command to the clients that MONITOR.
    pub(super) fn feed_monitors(&mut self, key: ClientKey, unix_us: i64, args: &[&[u8]]) {
        let client = &self.sessions[key];
        let address = if self.scripting.is_calling() {
            "lua".to_owned()
        } else if client.connection.peer.is_unix_socket {
            format!("unix:{}", client.connection.peer.local_address.trim_end_matches(":0"))
        } else {
            client.connection.peer.address.clone()
        };
        let mut line = format!(
            "+{}.{:06} [{} {}]",
            unix_us / 1_000_000,
            unix_us % 1_000_000,
            client.session.db,
            address
        )
        .into_bytes();
        for arg in args {
            line.push(b' ');
            commands::quote(arg, &mut line);
        }
        line.extend_from_slice(b"\r\n");
        for monitor in self.sessions.monitors.clone() {
            self.deliver(monitor, Lsn::ZERO, |writer| writer.raw(&line));
        }
    }
}

/// What a client is told whose request is too much for the memory.
pub(super) const TOO_MUCH: &str =
    "OOM the values that this command needs take more than half of 'maxmemory', or than is left.";

/// What becomes of a key of which the index does not tell.
const UNLISTED: &str = "; if the log has it, it is found once the index is built anew: the server does that by itself when \
                        the index is damaged, and `indelible index rebuild` while no server runs";

/// What a client is told whose key cannot be brought back.
pub(super) fn restore_error(error: &RestoreError) -> CommandError {
    let (code, remedy) = match error {
        RestoreError::Io(_) => ("IOERR", ""),
        RestoreError::Corrupt(_) => ("CORRUPT", ""),
        RestoreError::Unlisted(_) => ("CORRUPT", UNLISTED),
        RestoreError::TooMuch => return CommandError::Other(TOO_MUCH.into()),
    };
    let what = format!("{code} a key cannot be brought back into memory: {error}{remedy}");
    CommandError::Other(what.into())
}
