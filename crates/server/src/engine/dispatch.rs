//! From bytes to commands: parses what a client has sent, and decides whether each command may be
//! executed, is queued, refused or has to wait.
//!
//! The order of the checks is Redis', because a command that fails several of them is answered by
//! the first.

use command::spec::{Action, Flags};
use command::table::Command;
use resp::{Limits, Parsed};

use super::client::{Closing, ReplyMode};
use super::{ClientKey, Engine, commands};
use crate::config::ProtectedAction;

/// How many arguments the memory for those of a request is kept for.
const KEPT_ARGS_MAX: usize = 4096;

/// How many requests of a pipeline are looked at before the first of them is executed, and how long
/// a key may be for that.
const LOOK_AHEAD_MAX: usize = 16;
const LOOK_AHEAD_KEY_BYTES_MAX: usize = 128;

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
        let Some(client) = self.clients.get_mut(key) else { return };
        if client.input.is_empty() || !client.may_execute() || self.sleep.is_on() {
            return;
        }
        let mut input = std::mem::take(&mut client.input);
        let consumed = self.run(key, &input);
        let Some(client) = self.clients.get_mut(key) else { return };
        if consumed == input.len() {
            input.clear();
            // One large request must not keep its memory for the rest of the connection.
            input.shrink_to(super::limits::KEPT_INPUT_BYTES_MAX);
        } else {
            input.drain(..consumed);
        }
        client.input = input;
    }

    /// Executes the complete requests in `input` and returns how many bytes they had.
    pub(super) fn run(&mut self, key: ClientKey, input: &[u8]) -> usize {
        let limits = self.clients[key].limits(self.options.bulk_bytes_max);
        let mut parser = std::mem::take(&mut self.clients[key].parser);
        let mut argv = recycle(std::mem::take(&mut self.argv));
        let mut at = 0;
        let mut looked_ahead = 0;
        self.was_log_good = self.shard.write_refusal().is_none();
        self.clients[key].in_process_bytes = input.len();
        while self.clients[key].may_execute() && !self.sleep.is_on() {
            let limits = if limits.authenticated {
                limits
            } else {
                self.clients[key].limits(limits.bulk_bytes_max)
            };
            match parser.parse(&input[at..], &limits) {
                Ok(Parsed::Incomplete { .. }) => break,
                Ok(Parsed::Request { len }) => {
                    if at >= looked_ahead && at + len < input.len() {
                        looked_ahead = at + self.look_ahead(key, &input[at..], &limits).max(len);
                    }
                    let mut call = recycle(argv);
                    call.extend(parser.args(&input[at..at + len]));
                    let flow = if call.is_empty() { Flow::Done } else { self.answer(key, &call) };
                    argv = recycle(call);
                    if flow == Flow::Postponed {
                        break;
                    }
                    at += len;
                    // A short request may have a long reply, and there may be thousands of them.
                    self.check_large_output(key);
                }
                Err(error) => {
                    self.mute_unwanted(key);
                    self.reply(key).error(&format!("ERR {error}"));
                    self.clients[key].output.unmute();
                    self.counters.error(b"-ERR");
                    self.end_client(key, Closing::AfterReply);
                    at = input.len();
                }
            }
        }
        let mut argv: Vec<&'static [u8]> = recycle(argv);
        argv.shrink_to(KEPT_ARGS_MAX);
        self.argv = argv;
        self.clients[key].in_process_bytes = 0;
        parser.release();
        self.clients[key].parser = parser;
        if self.clients[key].output.waiting_bytes() > 0 {
            self.note(key);
            self.check_output_size(key);
        }
        at
    }

    /// Brings the keys that the next requests name into the processor's cache; returns how many
    /// bytes these requests have. It takes the first argument for a key, as it is one in most
    /// commands; where it is not, the look-up is wasted and changes nothing.
    fn look_ahead(&mut self, key: ClientKey, input: &[u8], limits: &Limits) -> usize {
        let hasher = self.shard.keyspace.hasher();
        let (mut hashes, mut count) = ([0; LOOK_AHEAD_MAX], 0);
        let mut at = 0;
        for hash in &mut hashes {
            let Ok(Parsed::Request { len }) = self.scout.parse(&input[at..], limits) else { break };
            let name = self.scout.args(&input[at..at + len]).nth(1).unwrap_or_default();
            *hash = hasher.hash(&name[..name.len().min(LOOK_AHEAD_KEY_BYTES_MAX)]);
            count += 1;
            at += len;
        }
        self.scout.restart();
        self.shard.keyspace.prefetch(self.clients[key].db, &hashes[..count]);
        at
    }

    /// [`Engine::request`], whose reply the client may not want.
    fn answer(&mut self, key: ClientKey, args: &[&[u8]]) -> Flow {
        self.mute_unwanted(key);
        let flow = self.request(key, args);
        let client = &mut self.clients[key];
        client.output.unmute();
        if flow == Flow::Done {
            client.reply_mode = match client.reply_mode {
                ReplyMode::SkipNext => ReplyMode::Skip,
                ReplyMode::Skip => ReplyMode::On,
                stays => stays,
            };
        }
        flow
    }

    /// What is replied is not kept if the client has said so.
    pub(super) fn mute_unwanted(&mut self, key: ClientKey) {
        let client = &mut self.clients[key];
        if matches!(client.reply_mode, ReplyMode::Off | ReplyMode::Skip) {
            client.output.mute();
        }
    }

    /// Executes, queues, refuses or postpones one command.
    fn request(&mut self, key: ClientKey, args: &[&[u8]]) -> Flow {
        let command = match self.config.commands().resolve(args) {
            Ok(command) => command,
            Err(_) if is_http(args[0]) => {
                // A browser was tricked into talking to us: nothing behind this line is ours.
                self.end_client(key, Closing::Now);
                return Flow::Done;
            }
            Err(unknown) => {
                self.refuse(key, None, &format!("ERR {unknown}"));
                return Flow::Done;
            }
        };
        if command.name.ends_with("subscribe") {
            // Confirmations of subscriptions are messages, not replies: nothing suppresses them.
            self.clients[key].output.unmute();
        }
        if let Some(refusal) = self.refusal(key, command, args) {
            self.refuse(key, Some(command), &refusal);
        } else if self.is_paused_for(key, command) {
            self.postpone(key);
            return Flow::Postponed;
        } else if self.waits_for_room(key, command) {
            self.hold_back(key);
            return Flow::Postponed;
        } else if self.clients[key].transaction.is_some() && is_queued(command) {
            self.enqueue(key, command, args);
        } else {
            self.execute(key, command, args);
        }
        Flow::Done
    }

    /// Why a command is not executed now, or `None`.
    fn refusal(&mut self, key: ClientKey, command: Command, args: &[&[u8]]) -> Option<String> {
        if !command.accepts(args.len()) || matches!(command.action, Action::Unsupported) {
            return Some(format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        let flags = command.flags;
        let client = &self.clients[key];
        if flags.has(Flags::PROTECTED) {
            if command.name.starts_with("module|") {
                return Some(commands::MODULE_REFUSAL.to_owned());
            }
            if !self.allows(self.options.debug_command, key) {
                return Some(debug_refusal());
            }
        }
        let client_flags =
            (client.is_authenticated, client.transaction.is_some(), client.is_in_pubsub_context());
        let (is_authenticated, in_transaction, in_pubsub) = client_flags;
        if !is_authenticated && !flags.has(Flags::NO_AUTH) {
            return Some("NOAUTH Authentication required.".to_owned());
        }
        if in_transaction && flags.has(Flags::NO_MULTI) {
            return Some("ERR Command not allowed inside a transaction".to_owned());
        }
        let effective = match &client.transaction {
            Some(transaction) if command.name == "exec" => flags.with(transaction.flags),
            _ => flags,
        };
        if self.options.maxmemory_bytes > 0 && !self.make_room() {
            let grows = effective.has(Flags::DENYOOM) || (in_transaction && is_queued(command));
            if grows {
                return Some("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
            }
        }
        if effective.has(Flags::WRITE)
            && !self.was_log_good
            && let Some(refusal) = self.shard.write_refusal()
        {
            return Some(refusal);
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

    /// Whether a protected thing is allowed to a client.
    pub(super) fn allows(&self, action: ProtectedAction, key: ClientKey) -> bool {
        let peer = &self.clients[key].peer;
        match action {
            ProtectedAction::No => false,
            ProtectedAction::Yes => true,
            ProtectedAction::Local => peer.is_loopback || peer.is_unix_socket,
        }
    }

    /// Replies an error instead of executing a command.
    fn refuse(&mut self, key: ClientKey, command: Option<Command>, error: &str) {
        if let Some(command) = command {
            self.counters.by_command[command.ordinal()].rejected += 1;
        }
        self.counters.error(error.as_bytes());
        let client = &mut self.clients[key];
        if let Some(transaction) = &mut client.transaction {
            transaction.is_refused = true;
        }
        let is_exec = command.is_some_and(|command| command.name == "exec");
        if is_exec {
            // EXEC itself was refused: the transaction is over, and its error says why. Redis drops
            // the general code there and keeps the telling ones (OOM, MISCONF).
            let reason = error.strip_prefix("ERR ").unwrap_or(error);
            let error = format!("EXECABORT Transaction discarded because of: {reason}");
            self.discard(key);
            self.reply(key).error(&error);
        } else {
            client.output.writer().error(error);
        }
    }
}

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

/// An empty vector for other borrows in the memory of this one: collecting in place allocates
/// nothing, so a request's arguments cost no allocation.
fn recycle<'b>(mut argv: Vec<&[u8]>) -> Vec<&'b [u8]> {
    argv.clear();
    argv.into_iter().map(|_| -> &'b [u8] { &[] }).collect()
}
