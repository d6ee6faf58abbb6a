//! The commands that a script calls: which it may, and where their replies go.

use acl::{Context, Denial};
use command::spec::Flags;
use command::table::Command;
use resp::Writer;
use scripting::{Answer, Call, Level, Permission};

use super::super::Engine;
use super::super::call::Attempt;
use super::super::dispatch::NOT_SAVED;
use super::super::migrations::NO_MIGRATION;
use super::functions::log;
use super::{REPLY_BYTES_MAX, Running};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

const READ_ONLY: &str = "READONLY You can't write against a read only server.";

impl Engine {
    /// Executes a command of the script.
    pub(super) fn call_of_script(&mut self, mut call: Call) -> Call {
        let Some(running) = &self.scripting.running else { return call };
        let key = running.client;
        let args = call.arguments.slices();
        let command = match self.admit(running, &args) {
            Ok(command) => command,
            Err(Refused { command, why, denial }) => {
                if let (Some(command), Some(denial)) = (command, denial) {
                    self.note_denial(key, denial, command, &args, Context::Lua);
                }
                if let Some(command) = command {
                    self.observed.counters.by_command[command.ordinal()].rejected += 1;
                }
                self.observed.counters.error(why.as_bytes());
                call.reply.error(&why);
                return call;
            }
        };
        if command.flags.has(Flags::WRITE)
            && let Some(running) = &mut self.scripting.running
        {
            running.has_written = true;
        }
        let mut reply = std::mem::take(&mut call.reply);
        reply.limit(self.output_room(key).min(REPLY_BYTES_MAX));
        self.time.refresh_monotonic();
        self.sessions[key].connection.output.begin_aside(reply);
        self.scripting.is_calling = true;
        let waits = self.call(key, command, &args, Attempt::InTransaction);
        debug_assert!(waits.is_none(), "a command that must not wait does not");
        self.scripting.is_calling = false;
        call.reply = self.sessions[key].connection.output.end_aside();
        if call.reply.is_over() {
            let mut refusal = Writer::new(call.reply.protocol());
            refusal.error(
                "ERR the reply of the command is longer than 'client-output-buffer-limit' allows",
            );
            call.reply = refusal;
        }
        call
    }

    /// Whether a script may execute this: the command, or why not.
    fn admit(&self, running: &Running, args: &[&[u8]]) -> Result<Command, Refused> {
        let Ok(command) = self.config.commands().resolve(args) else {
            return Err(Refused::of(None, "ERR Unknown Redis command called from script"));
        };
        let refuse = |why: &str| Err(Refused::of(Some(command), why));
        let flags = command.flags;
        if !command.accepts(args.len()) {
            return refuse("ERR Wrong number of args calling Redis command from script");
        }
        let is_tested = self.scripting.allows_all && command.name == "debug";
        if flags.intersects(Flags::PROTECTED.with(Flags::NOSCRIPT)) && !is_tested {
            return refuse("ERR This Redis command is not allowed from script");
        }
        if running.is_read_only && flags.intersects(Flags::WRITE.with(Flags::MAY_REPLICATE)) {
            return refuse("ERR Write commands are not allowed from read-only scripts.");
        }
        let identity = self.sessions[running.client].session.identity;
        if let Err(denial) = self.access.check(identity, command, args) {
            let why = denial.error_of_script(&self.access.text_of(identity), command);
            return Err(Refused { command: Some(command), why, denial: Some(denial) });
        }
        if command.name == "migrate" {
            return refuse(NO_MIGRATION);
        }
        if running.has_written {
            // Half of a script is worse than what these would prevent.
            return Ok(command);
        }
        if flags.has(Flags::WRITE) {
            if let Some(why) = self.shard.write_refusal() {
                return refuse(&why);
            }
            if self.is_stopped_by_failed_save() {
                return refuse(NOT_SAVED);
            }
            if let Some(why) = self.archives.refusal() {
                let why = why.to_owned();
                return refuse(&why);
            }
            if self.options.access.is_read_only {
                return refuse(READ_ONLY);
            }
        }
        if running.is_short_of_memory && flags.has(Flags::DENYOOM) {
            return refuse(OOM);
        }
        Ok(command)
    }

    /// Whether the user of the script may execute this: `redis.acl_check_cmd`.
    pub(super) fn permission(&self, args: &[&[u8]]) -> Permission {
        let Ok(command) = self.config.commands().resolve(args) else {
            return Permission::UnknownCommand;
        };
        let Some(running) = &self.scripting.running else { return Permission::Denied };
        let identity = self.sessions[running.client].session.identity;
        match self.access.check(identity, command, args) {
            Ok(()) => Permission::Granted,
            Err(_) => Permission::Denied,
        }
    }

    pub(super) fn log_of_script(&self, level: Level, line: &[u8]) -> Answer {
        log(&self.deps.logger, level, line);
        Answer::Go
    }
}

/// Why a script may not execute a command.
struct Refused {
    command: Option<Command>,
    /// The error reply.
    why: String,
    /// What its user may not use.
    denial: Option<Denial>,
}

impl Refused {
    fn of(command: Option<Command>, why: &str) -> Self {
        Self { command, why: why.to_owned(), denial: None }
    }
}
