//! From bytes to commands: parses what a client has sent, and decides whether each command may be
//! executed, is queued, refused or has to wait.
//!
//! The order of the checks is Redis', because a command that fails several of them is answered by
//! the first.

use acl::Context;
use command::spec::Flags;
use command::table::Command;
use resp::ProtocolError;

use super::batch::{self, Batch, End};
use super::call::TOO_MUCH;
use super::client::{Closing, ReplyMode};
use super::fetches::FetchWait;
use super::migrations::NO_MIGRATION;
use super::{ClientKey, Engine, commands};
use crate::config::ProtectedAction;

/// Commands that do nothing but delete: a full disk gets its room back by them.
const MAKES_ROOM: [&str; 4] = ["del", "unlink", "flushdb", "flushall"];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// It is done with.
    Done,
    /// It must be looked at again later, with everything behind it.
    Postponed,
}

impl Engine {
    /// Executes what lies in a client's input buffer.
    pub(super) fn run_input(&mut self, key: ClientKey) {
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        if client.connection.input.is_empty() || !client.may_execute() || self.sleep.is_on() {
            return;
        }
        let mut input = std::mem::take(&mut client.connection.input);
        let consumed = self.run(key, &input);
        let Some(client) = self.sessions.clients.get_mut(key) else { return };
        if consumed == input.len() {
            input.clear();
            // One large request must not keep its memory for the rest of the connection.
            input.shrink_to(super::limits::KEPT_INPUT_BYTES_MAX);
        } else {
            input.drain(..consumed);
        }
        client.connection.input = input;
    }

    /// Executes the complete requests in `input` and returns how many bytes they had.
    pub(super) fn run(&mut self, key: ClientKey, input: &[u8]) -> usize {
        let mut parser = std::mem::take(&mut self.sessions[key].connection.parser);
        let mut batch: Batch<'_> = std::mem::take(&mut self.batch);
        self.was_log_good = self.shard.is_writable();
        self.sessions[key].connection.in_process_bytes = input.len();
        let mut at = 0;
        while self.may_execute(key) {
            let limits = self.sessions[key].limits(self.options.bulk_bytes_max);
            // What a client may send changes when it authenticates.
            let requests_max = if limits.authenticated { batch::REQUESTS_MAX } else { 1 };
            let names = self.config.commands();
            let end = batch.fill(&mut parser, &input[at..], &limits, names, requests_max);
            self.prefetch(key, &batch);
            let (len, is_stopped) = self.run_batch(key, &batch);
            at += len;
            if is_stopped {
                // The requests behind are parsed again when they are looked at again.
                parser.restart();
                break;
            }
            match end {
                End::Full => {}
                End::Incomplete => break,
                End::Inline(_) | End::Wrong(_) if !self.may_execute(key) => parser.restart(),
                End::Inline(len) => {
                    let args: Vec<&[u8]> = parser.args(&input[at..at + len]).collect();
                    let command = self.config.commands().resolve(&args).ok();
                    if !args.is_empty() && self.answer(key, command, &args) == Flow::Postponed {
                        drop(args);
                        parser.restart();
                        break;
                    }
                    at += len;
                    self.check_large_output(key);
                }
                End::Wrong(error) => {
                    self.reject_input(key, error);
                    at = input.len();
                }
            }
        }
        self.batch = Batch::recycle(batch);
        self.sessions[key].connection.in_process_bytes = 0;
        parser.release();
        self.sessions[key].connection.parser = parser;
        if self.sessions[key].connection.output.waiting_bytes() > 0 {
            self.sessions.note(key);
            self.check_output_size(key);
        }
        at
    }

    /// Whether the next request of a client may be executed now.
    fn may_execute(&self, key: ClientKey) -> bool {
        self.sessions[key].may_execute() && !self.sleep.is_on()
    }

    /// Executes the requests of a batch in order. Returns how many bytes those had, and whether it
    /// had to stop before the last one.
    fn run_batch(&mut self, key: ClientKey, batch: &Batch<'_>) -> (usize, bool) {
        let mut done_bytes = 0;
        for index in 0..batch.len() {
            let (request, args) = batch.request(index);
            if !self.may_execute(key) {
                return (done_bytes, true);
            }
            if !args.is_empty() && self.answer(key, request.command, args) == Flow::Postponed {
                self.fetch_behind(key, batch, index + 1);
                return (done_bytes, true);
            }
            done_bytes += request.len;
            // A short request may have a long reply, and there may be thousands of them.
            self.check_large_output(key);
        }
        (done_bytes, false)
    }

    /// Brings the keys of a batch into the processor's cache.
    fn prefetch(&self, key: ClientKey, batch: &Batch<'_>) {
        if batch.len() < 2 {
            return;
        }
        let (mut hashes, mut count) = ([0; batch::KEYS_MAX], 0);
        for (hash, found) in hashes.iter_mut().zip(batch.key_hashes(self.shard.keyspace.hasher())) {
            *hash = found;
            count += 1;
        }
        self.shard.keyspace.prefetch(self.sessions[key].session.db, &hashes[..count]);
    }

    /// What a client has sent is no request: it is told, and its connection ends.
    fn reject_input(&mut self, key: ClientKey, error: ProtocolError) {
        self.mute_unwanted(key);
        self.reply(key).error(&format!("ERR {error}"));
        self.sessions[key].connection.output.unmute();
        self.observed.counters.error(b"-ERR");
        self.end_client(key, Closing::AfterReply);
    }

    /// [`Engine::request`], whose reply the client may not want.
    fn answer(&mut self, key: ClientKey, command: Option<Command>, args: &[&[u8]]) -> Flow {
        self.mute_unwanted(key);
        let flow = self.request(key, command, args);
        let client = &mut self.sessions[key];
        client.connection.output.unmute();
        if flow == Flow::Done {
            client.session.reply_mode = match client.session.reply_mode {
                ReplyMode::SkipNext => ReplyMode::Skip,
                ReplyMode::Skip => ReplyMode::On,
                stays => stays,
            };
            if self.sessions.tracking.is_on() {
                self.end_caching(key, command);
            }
            self.release_fetched(key);
        }
        flow
    }

    /// What is replied is not kept if the client has said so.
    pub(super) fn mute_unwanted(&mut self, key: ClientKey) {
        let client = &mut self.sessions[key];
        if matches!(client.session.reply_mode, ReplyMode::Off | ReplyMode::Skip) {
            client.connection.output.mute();
        }
    }

    /// Executes, queues, refuses or postpones one command.
    fn request(&mut self, key: ClientKey, command: Option<Command>, args: &[&[u8]]) -> Flow {
        let Some(command) = command else {
            self.refuse_unknown(key, args);
            return Flow::Done;
        };
        if command.flags.has(Flags::PUBSUB) && command.name.ends_with("subscribe") {
            // Confirmations of subscriptions are messages, not replies: nothing suppresses them.
            self.sessions[key].connection.output.unmute();
        }
        let flags = self.scripting.flags_of(command, args);
        if let Some(refusal) = self.refusal(key, command, args, flags) {
            self.refuse(key, Some(command), &refusal);
        } else if self.is_paused_for(key, command, flags) {
            self.sessions.postpone(key);
            return Flow::Postponed;
        } else if self.waits_for_room(key, command, flags) {
            self.hold_back(key);
            return Flow::Postponed;
        } else if self.sessions[key].session.transaction.is_some() && is_queued(command) {
            if self.shard.keyspace.may_lack() {
                self.fetch_ahead(key, command, args);
            }
            let client = &mut self.sessions[key];
            client.session.enqueue(command, args, flags);
            client.connection.output.writer().simple("QUEUED");
        } else {
            match self.wait_for_keys(key, command, args) {
                FetchWait::None => self.execute(key, command, args),
                FetchWait::Waits => return Flow::Postponed,
                FetchWait::TooMuch => self.refuse(key, Some(command), TOO_MUCH),
            }
        }
        Flow::Done
    }

    /// There is no such command.
    fn refuse_unknown(&mut self, key: ClientKey, args: &[&[u8]]) {
        if is_http(args[0]) {
            // A browser was tricked into talking to us: nothing behind this line is ours.
            self.end_client(key, Closing::Now);
        } else if let Err(unknown) = self.config.commands().resolve(args) {
            self.refuse(key, None, &format!("ERR {unknown}"));
        }
    }

    /// Why a command, which has these flags with its arguments, is not executed now, or `None`.
    fn refusal(
        &mut self,
        key: ClientKey,
        command: Command,
        args: &[&[u8]],
        flags: Flags,
    ) -> Option<String> {
        if !command.accepts(args.len()) {
            return Some(format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        let client = &self.sessions[key];
        if flags.has(Flags::PROTECTED) {
            if command.name.starts_with("module|") {
                return Some(commands::MODULE_REFUSAL.to_owned());
            }
            if !self.allows(self.options.access.debug_command, key) {
                return Some(debug_refusal());
            }
        }
        let client_flags = (
            client.session.is_stranger(),
            client.session.transaction.is_some(),
            client.is_in_pubsub_context(),
        );
        let (is_stranger, in_transaction, in_pubsub) = client_flags;
        if is_stranger && !flags.has(Flags::NO_AUTH) {
            return Some("NOAUTH Authentication required.".to_owned());
        }
        if in_transaction && flags.has(Flags::NO_MULTI) {
            return Some("ERR Command not allowed inside a transaction".to_owned());
        }
        let context = if in_transaction { Context::Multi } else { Context::TopLevel };
        if let Some(denial) = self.denial(key, command, args, context) {
            let identity = self.sessions[key].session.identity;
            return Some(denial.error(&self.access.text_of(identity), command));
        }
        if in_transaction && command.name == "migrate" {
            return Some(NO_MIGRATION.to_owned());
        }
        let client = &self.sessions[key];
        let effective = match &client.session.transaction {
            Some(transaction) if command.name == "exec" => flags.with(transaction.flags),
            _ => flags,
        };
        if self.scripting.is_paused() && !flags.has(Flags::ALLOW_BUSY) {
            return Some(self.scripting.busy().to_owned());
        }
        if self.options.maxmemory_bytes > 0 && !self.scripting.is_paused() && !self.make_room() {
            let grows = effective.has(Flags::DENYOOM) || (in_transaction && is_queued(command));
            if grows {
                return Some("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
            }
        }
        if self.sessions.tracking.key_count() > self.options.tracking_keys_max
            && !self.scripting.is_paused()
        {
            self.limit_tracking();
        }
        // PING is refused with them: health checks ask by it whether the server can write.
        let is_told = effective.has(Flags::WRITE) || command.name == "ping";
        if is_told
            && !self.was_log_good
            && let Some(refusal) = self.shard.write_refusal()
        {
            let is_alone = !in_transaction && MAKES_ROOM.contains(&command.name);
            if !is_alone || !self.shard.takes_deletions(args) {
                return Some(refusal);
            }
        }
        if is_told && self.is_stopped_by_failed_save() {
            return Some(NOT_SAVED.to_owned());
        }
        if effective.has(Flags::WRITE)
            && let Some(refusal) = self.archives.refusal()
        {
            return Some(refusal.to_owned());
        }
        if effective.has(Flags::WRITE) && self.options.access.is_read_only {
            return Some("READONLY You can't write against a read only server.".to_owned());
        }
        if in_pubsub && !is_allowed_in_pubsub(command.name) {
            return Some(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                command.name
            ));
        }
        if self.shard.is_loading() && !effective.has(Flags::LOADING) {
            return Some("LOADING Indelible is loading the dataset in memory".to_owned());
        }
        None
    }

    /// Whether save points are set, the last dump has failed, and writers must notice it.
    pub(super) const fn is_stopped_by_failed_save(&self) -> bool {
        !self.saves.last.is_good
            && self.options.saves.stops_writes_on_error
            && !self.options.saves.points.is_empty()
    }

    /// Whether a protected thing is allowed to a client.
    pub(super) fn allows(&self, action: ProtectedAction, key: ClientKey) -> bool {
        let peer = &self.sessions[key].connection.peer;
        match action {
            ProtectedAction::No => false,
            ProtectedAction::Yes => true,
            ProtectedAction::Local => peer.is_loopback || peer.is_unix_socket,
        }
    }

    /// Replies an error instead of executing a command.
    fn refuse(&mut self, key: ClientKey, command: Option<Command>, error: &str) {
        if let Some(command) = command {
            self.observed.counters.by_command[command.ordinal()].rejected += 1;
        }
        self.observed.counters.error(error.as_bytes());
        let client = &mut self.sessions[key];
        if let Some(transaction) = &mut client.session.transaction {
            transaction.is_refused = true;
        }
        let is_exec = command.is_some_and(|command| command.name == "exec");
        if is_exec {
            // EXEC itself was refused: the transaction is over, and its error says why. Redis drops
            // the general code there and keeps the telling ones (OOM, MISCONF).
            let reason = error.strip_prefix("ERR ").unwrap_or(error);
            let error = format!("EXECABORT Transaction discarded because of: {reason}");
            self.sessions.discard(key, &mut self.shard.keyspace);
            self.reply(key).error(&error);
        } else {
            client.connection.output.writer().error(error);
        }
    }
}

/// Why writes are refused after a dump that has failed. Redis' own words.
pub(super) const NOT_SAVED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
    disk. Commands that may modify the data set are disabled, because this instance is configured to report errors \
    during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for \
    details about the RDB error.";

/// Whether a request is the beginning of one in HTTP.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Whether MULTI puts a command in the queue rather than executing it.
fn is_queued(command: Command) -> bool {
    !matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

fn is_allowed_in_pubsub(name: &str) -> bool {
    matches!(
        name,
        "ping"
            | "subscribe"
            | "ssubscribe"
            | "psubscribe"
            | "unsubscribe"
            | "sunsubscribe"
            | "punsubscribe"
            | "quit"
            | "reset"
    )
}

fn debug_refusal() -> String {
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server."
        .to_owned()
}
