//! Lua scripts, and functions of libraries: they are executed like EXEC, and one that runs for long shares the thread with what may happen meanwhile.
//!
//! ```text
//!   EVAL ─► Execution.step ─► asks ─► a command: call, as between MULTI and EXEC ─┐
//!             ▲                                                                  │
//!             └──────────── answer ◄─────────────────────────────────────────────┤
//!                                                       busy-reply-threshold? ───┤ not yet
//!                                                                                ▼
//!   next iteration ─► resume_script: a slice ◄─── Paused: its client waits, others are told BUSY
//! ```
//!
//! # Invariants
//! - What a script writes lies in one block. From its first command to its end nothing seals, expires, evicts or
//!   serves a client that waits, however often it is paused: each path that does asks [`Scripting::is_running`] or
//!   [`Scripting::is_paused`] first.
//! - Its reply waits for all that its commands have written and read, not each of their replies.
//! - A script runs with its client's session. A client that has gone keeps its place until its script ends.

mod calls;
mod ending;
mod functions;

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use base::{DbIndex, Lsn};
use command::spec::{Flags, Group};
use command::table::Command;
use resp::Writer;
use scripting::{
    Answer, Ask, Ended, Ending, Execution, Function, Interpreter, NoStack, Program, SUSPECT_SETS,
    Script, ScriptFlags, ScriptId, Scripts, Stack, Step, mentions,
};

use super::blocking::Wait;
use super::call::Begun;
use super::client::Closing;
use super::log_switch::{OpenLogError, OpenedLog};
use super::tracking::DeclaredKeys;
use super::transaction::Queued;
use super::{ClientKey, Engine};
use crate::logger::Logger;

pub(crate) use functions::Functions;
pub(super) use functions::subcommand_syntax;
use functions::{SUSPECT, lua_options};

/// How long a script runs at a time that has run for longer than it should.
const SLICE_US: u64 = 5000;

/// How long a reply may be that a script gets, whatever its client may.
const REPLY_BYTES_MAX: usize = 1 << 30;

/// How long one may be that it gives: the longest text, and a little more. A table can hold the same one twice, so what
/// a script returns may be as good as endless.
const GIVEN_BYTES_MAX: usize = 513 << 20;

/// What INFO says of scripts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) machine_bytes: u64,
    pub(super) source_bytes: u64,
    pub(super) count: u64,
    pub(super) evicted: u64,
}

/// What runs.
#[derive(Debug)]
enum Subject {
    /// A script, by its digest.
    Script(ScriptId),
    /// A function, by its name.
    Function(Arc<[u8]>),
}

impl Subject {
    fn name(&self) -> &[u8] {
        match self {
            Self::Script(id) => id.as_bytes(),
            Self::Function(name) => name,
        }
    }

    const fn killer(&self) -> &'static str {
        match self {
            Self::Script(_) => "SCRIPT KILL",
            Self::Function(_) => "FUNCTION KILL",
        }
    }
}

/// What is known of a script that runs.
#[derive(Debug)]
struct Running {
    client: ClientKey,
    /// The command that runs it.
    command: Command,
    subject: Subject,
    /// The database that its client has chosen.
    db: DbIndex,
    was_in_transaction: bool,
    is_read_only: bool,
    /// The memory was full when it began, and it does not say that it may run then.
    is_short_of_memory: bool,
    started_us: u64,
    /// What its commands take for the time, in microseconds since 1970.
    unix_us: i64,
    has_written: bool,
    is_killed: bool,
    /// The last block that its reply depends on, and whether it has written there.
    lsn: Lsn,
    wrote: bool,
    /// Its client has disconnected.
    is_orphan: bool,
    /// Its client is told when these change, once it has read something, and when that does.
    declared: Option<DeclaredKeys>,
}

/// A script between two slices.
struct Paused {
    execution: Execution,
    /// What it is told when it goes on.
    answer: Answer,
}

/// What FUNCTION STATS tells of a function between two slices.
pub(super) struct PausedCall<'a> {
    pub(super) name: &'a [u8],
    /// The command that runs it.
    pub(super) words: &'a [Vec<u8>],
    pub(super) duration_ms: u64,
}

/// A command that has not ended because a script in it has not.
struct Suspended {
    begun: Begun,
    args: Vec<Vec<u8>>,
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Scripting {
    /// None until the first use, and while a script runs.
    scripts: Option<Box<Scripts>>,
    pub(super) functions: Functions,
    stack: Option<Stack>,
    figures: Figures,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call DEBUG, which tests need.
    pub(super) allows_all: bool,
    running: Option<Running>,
    /// A command of the script is being executed.
    is_calling: bool,
    /// The script that has just ended has failed.
    has_failed: bool,
    /// The length of the reply of the script that has just ended.
    replied_bytes: usize,
    /// The client of the script that has just ended has disconnected.
    orphaned: Option<ClientKey>,
    paused: Option<Paused>,
    /// The commands that the paused script is in are being left.
    is_parking: bool,
    /// The command that runs the paused script, the EXEC around it, and what that executes afterwards.
    script_call: Option<Suspended>,
    exec_call: Option<Suspended>,
    queue: Option<IntoIter<Queued>>,
    /// The client of the paused script wants no reply.
    is_muted: bool,
    /// What is done when it ends: the end of the server, as this directive says; and a log that is open now.
    end_directive: Option<String>,
    opened: Option<Result<OpenedLog, OpenLogError>>,
}

impl Scripting {
    /// Nothing runs; libraries log to `logger`.
    pub(super) fn new(logger: Logger) -> Self {
        Self { functions: Functions::new(logger), ..Self::default() }
    }

    /// Whether a script has begun and not ended.
    pub(super) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether what has begun is a script, and no function.
    pub(super) fn runs_script(&self) -> bool {
        self.running.as_ref().is_some_and(|it| matches!(it.subject, Subject::Script(_)))
    }

    /// Whether a script runs for so long that others have their turns.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether a script of this client runs for so long.
    pub(super) fn is_paused_for(&self, key: ClientKey) -> bool {
        self.is_paused() && self.running.as_ref().is_some_and(|running| running.client == key)
    }

    /// The keys that the script has declared, if its client is told of what it has read.
    pub(super) fn declared_keys(&mut self) -> Option<&mut DeclaredKeys> {
        self.running.as_mut()?.declared.as_mut()
    }

    /// Whether the client of the running script is told of what it has read.
    pub(super) fn remembers_reads(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.declared.is_some())
    }

    /// Whether the commands that a paused script is in are being left.
    pub(super) const fn is_parking(&self) -> bool {
        self.is_parking
    }

    /// Whether a command of a script is being executed.
    pub(super) const fn is_calling(&self) -> bool {
        self.is_calling
    }

    /// Whether the end of the server waits for a script.
    pub(super) const fn delays_end(&self) -> bool {
        self.end_directive.is_some()
    }

    /// The time that commands of the script see, in microseconds since 1970.
    pub(super) fn unix_us(&self) -> Option<i64> {
        self.running.as_ref().filter(|_| self.is_calling).map(|running| running.unix_us)
    }

    /// What INFO says.
    pub(super) const fn figures(&self) -> Figures {
        self.figures
    }

    /// Whether the script has failed that has ended, once.
    pub(super) fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.has_failed)
    }

    /// The last block that what the script knows depends on, if one runs.
    pub(super) fn dependence(&self) -> Lsn {
        self.running.as_ref().map_or(Lsn::ZERO, |running| running.lsn)
    }

    /// The script's reply depends on this block, too.
    pub(super) fn note_dependence(&mut self, lsn: Lsn, wrote: bool) {
        if let Some(running) = &mut self.running {
            running.lsn = running.lsn.max(lsn);
            running.wrote |= wrote;
        }
    }

    /// A command ends when the paused script does. `is_last`: there is none around it.
    pub(super) fn suspend(&mut self, begun: Begun, args: &[&[u8]], is_last: bool) {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let place =
            if begun.command.name == "exec" { &mut self.exec_call } else { &mut self.script_call };
        *place = Some(Suspended { begun, args });
        if is_last {
            self.is_parking = false;
        }
    }

    /// What EXEC executes when the paused script has ended.
    pub(super) fn keep_queue(&mut self, queue: IntoIter<Queued>) {
        self.queue = Some(queue);
    }

    /// A log that was opened is taken into use when the paused script has ended.
    pub(super) fn keep_opened(&mut self, opened: Result<OpenedLog, OpenLogError>) {
        self.opened = Some(opened);
    }

    /// A client has gone. Whether its script goes on.
    fn orphan(&mut self, key: ClientKey) -> bool {
        let Some(running) = self.running.as_mut().filter(|it| it.client == key) else {
            return false;
        };
        running.is_orphan = true;
        true
    }

    /// The scripts, when none runs.
    pub(super) fn scripts(&mut self, maxmemory_bytes: u64) -> &mut Scripts {
        debug_assert!(self.running.is_none(), "a script has them");
        self.scripts.get_or_insert_with(|| Box::new(Scripts::new(lua_options(maxmemory_bytes))))
    }

    /// Notes what INFO says of them now.
    pub(super) fn note_figures(&mut self) {
        if let Some(scripts) = &self.scripts {
            self.figures = Figures {
                machine_bytes: scripts.machine_bytes() as u64,
                source_bytes: scripts.source_bytes() as u64,
                count: scripts.count() as u64,
                evicted: scripts.evicted(),
            };
        }
    }

    /// The flags of a command with these arguments: a script says in its first line what it does.
    pub(super) fn flags_of(&self, command: Command, args: &[&[u8]]) -> Flags {
        if command.group != Group::Scripting {
            return command.flags;
        }
        let Some(declared) = self.declared(command, args) else { return command.flags };
        // It is known now whether it writes.
        let flags = command.flags.without(Flags::MAY_REPLICATE.with(Flags::MAY_WRITE));
        if declared.contains(ScriptFlags::NO_WRITES) {
            return flags;
        }
        let flags = flags.with(Flags::WRITE);
        if declared.contains(ScriptFlags::ALLOW_OOM) {
            return flags;
        }
        flags.with(Flags::DENYOOM)
    }

    fn declared(&self, command: Command, args: &[&[u8]]) -> Option<ScriptFlags> {
        let name = args.get(1)?;
        match command.name {
            "evalsha" | "evalsha_ro" => self.scripts.as_ref()?.declared(&ScriptId::parse(name)?),
            "eval" | "eval_ro" if name.starts_with(b"#!") => ScriptFlags::declared_by(name),
            "fcall" | "fcall_ro" => self.functions.find(name).map(Function::flags),
            _ => None,
        }
    }

    /// Takes out what is called, with its interpreter.
    fn begin(&mut self, called: Called) -> (Program, Subject, Suspicions) {
        match called {
            Called::Script(script) => {
                let scripts = self.scripts.take().expect("none runs, and it was found in them");
                let suspicions = scripts.is_suspect(script).into();
                (Program::Script(scripts, script), Subject::Script(script.id()), suspicions)
            }
            Called::Function(function) => {
                let subject = Subject::Function(Arc::clone(function.name()));
                let suspicions = function.is_suspect().into();
                (Program::Function(self.functions.take(), function), subject, suspicions)
            }
        }
    }

    /// What runs and was left for a while.
    pub(super) fn paused_call(&self, now_us: u64) -> Option<PausedCall<'_>> {
        let (running, call) = self.running.as_ref().zip(self.script_call.as_ref())?;
        let duration_ms = now_us.saturating_sub(running.started_us) / 1000;
        Some(PausedCall { name: running.subject.name(), words: &call.args, duration_ms })
    }

    /// What a queued script may do.
    pub(super) fn suspicions(&mut self, queued: &Queued) -> Suspicions {
        let Some(name) = queued.args.get(1) else { return Suspicions::default() };
        let of_source = |source: &[u8]| SUSPECT.map(|words| mentions(source, words));
        let is_suspect = match queued.command.name {
            "eval" => of_source(name),
            // An EVALSHA behind it may run it.
            "script|load" | "function|load" => {
                queued.args.last().map_or([false; SUSPECT_SETS], |source| of_source(source))
            }
            // What it brings is not looked into.
            "function|restore" => [true; SUSPECT_SETS],
            "fcall" => {
                self.functions.find(name).map_or([false; SUSPECT_SETS], Function::is_suspect)
            }
            "evalsha" => {
                let found = self.scripts.as_mut().and_then(|scripts| {
                    let script = scripts.find(&ScriptId::parse(name)?)?;
                    Some(scripts.is_suspect(script))
                });
                found.unwrap_or_default()
            }
            _ => [false; SUSPECT_SETS],
        };
        is_suspect.into()
    }
}

/// What a script may do, by the words in its source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Suspicions {
    pub(super) may_lose_databases: bool,
    pub(super) may_bring_streams: bool,
    pub(super) may_bring_messages: bool,
    pub(super) may_expire_fields: bool,
}

/// As [`SUSPECT`] has the words.
impl From<[bool; SUSPECT_SETS]> for Suspicions {
    fn from(is_suspect: [bool; SUSPECT_SETS]) -> Self {
        let [may_lose_databases, may_bring_streams, may_bring_messages, may_expire_fields] =
            is_suspect;
        Self { may_lose_databases, may_bring_streams, may_bring_messages, may_expire_fields }
    }
}

/// What is called.
#[derive(Clone, Debug)]
pub(super) enum Called {
    /// A script that was found.
    Script(Script),
    /// A function that was found.
    Function(Function),
}

/// What runs a script, and with what.
#[derive(Clone, Debug)]
pub(super) struct Invocation<'a> {
    pub(super) command: Command,
    pub(super) called: Called,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) arguments: &'a [&'a [u8]],
    /// It must not write: EVAL_RO, or as it says itself.
    pub(super) is_read_only: bool,
    /// It may run when memory is full.
    pub(super) allows_oom: bool,
}

impl Engine {
    /// Runs a script for a client. It ends in here, or is paused.
    pub(super) fn run_script(
        &mut self,
        key: ClientKey,
        invocation: Invocation<'_>,
    ) -> Result<(), NoStack> {
        let Invocation { command, called, keys, arguments, is_read_only, allows_oom } = invocation;
        let stack = match self.scripting.stack.take() {
            Some(stack) => stack,
            None => Stack::new()?,
        };
        let (program, subject, suspicions) = self.scripting.begin(called);
        // Which function this is depends on the block that has brought it.
        let lsn = match subject {
            Subject::Script(_) => Lsn::ZERO,
            Subject::Function(_) => self.shard.keyspace.libraries_lsn(),
        };
        if !self.in_transaction && !is_read_only {
            self.shard.declare_notes();
            if suspicions.may_bring_messages {
                self.shard.keyspace.declare_messages();
            } else if suspicions.may_bring_streams {
                self.shard.keyspace.declare_streams();
            }
            if suspicions.may_expire_fields {
                self.shard.keyspace.declare_expiring_fields();
            }
            if suspicions.may_lose_databases {
                self.shard.begin_block();
            }
        }
        let is_full = self.options.maxmemory_bytes > 0
            && if self.in_transaction {
                self.shard.is_full(self.deps.host.as_ref(), self.options.maxmemory_bytes)
            } else {
                !self.make_room()
            };
        self.time.refresh_monotonic();
        let client = &self.sessions[key];
        let tracker = client.session.tracking.as_deref();
        let remembers = tracker.is_some_and(|tracker| tracker.remembers());
        self.scripting.running = Some(Running {
            declared: remembers.then(|| DeclaredKeys::new(invocation.keys)),
            client: key,
            command,
            subject,
            db: client.session.db,
            was_in_transaction: self.in_transaction,
            is_read_only,
            is_short_of_memory: is_full && !allows_oom,
            started_us: self.time.now_us,
            unix_us: self.time.unix_us(),
            has_written: false,
            is_killed: false,
            lsn,
            wrote: false,
            // An earlier script of the same transaction may have lost its client.
            is_orphan: self.scripting.orphaned == Some(key),
        });
        let protocol = client.connection.output.protocol();
        let reply = (protocol, self.output_room(key).min(GIVEN_BYTES_MAX));
        let execution = Execution::new(stack, program, keys, arguments, reply);
        self.in_transaction = true;
        let until_us = match self.options.busy_reply_threshold_ms {
            0 => u64::MAX,
            ms => self.time.now_us.saturating_add(ms.saturating_mul(1000)),
        };
        if !self.step_script(execution, Answer::Go, until_us) {
            self.park_script(key);
        }
        Ok(())
    }

    /// Lets a script go on until it ends or `until_us` has come. Whether it has ended.
    fn step_script(&mut self, mut execution: Execution, mut answer: Answer, until_us: u64) -> bool {
        loop {
            let ask = match execution.step(answer) {
                Step::Ends(ended) => {
                    self.scripting.stack = Some(execution.into_stack());
                    self.end_script(ended);
                    return true;
                }
                Step::Asks(ask) => ask,
            };
            answer = match ask {
                Ask::Call(call) => Answer::Called(self.call_of_script(call)),
                Ask::Log(level, line) => self.log_of_script(level, &line),
                Ask::Permission(args) => Answer::Permission(self.permission(&args.slices())),
                Ask::Clock => Answer::Clock(Duration::from_micros(self.deps.clock.monotonic_us())),
                Ask::Interrupt => {
                    self.time.refresh_monotonic();
                    Answer::Go
                }
            };
            if self.time.now_us >= until_us {
                self.scripting.paused = Some(Paused { execution, answer });
                return false;
            }
        }
    }

    /// A script has run for as long as it may alone: its client waits.
    fn park_script(&mut self, key: ClientKey) {
        self.scripting.is_parking = true;
        self.scripting.is_muted = self.sessions[key].connection.output.is_muted();
        self.in_transaction = false;
        // What others may do meanwhile finds nothing out.
        self.shard.keyspace.set_frozen(true);
        self.sessions.start_wait(key, Wait::Script);
        let Some(running) = &self.scripting.running else { return };
        self.deps.logger.warning(&format!(
            "Lua slow script detected: still in execution after {} milliseconds. You can try killing the script using \
             the {} command. Script name is: {}.",
            (self.time.now_us - running.started_us) / 1000,
            running.subject.killer(),
            String::from_utf8_lossy(running.subject.name()),
        ));
    }

    /// A client has gone: whether it keeps its place, which its script needs until it ends.
    pub(super) fn keep_for_script(&mut self, key: ClientKey) -> bool {
        let is_needed = self.scripting.orphan(key);
        if is_needed {
            let connection = &mut self.sessions[key].connection;
            connection.closing = Closing::Now;
            connection.output.clear();
            connection.input = Vec::new();
        }
        is_needed
    }

    /// Lets the paused script go on for a while.
    pub(super) fn resume_script(&mut self) {
        let Some(Paused { execution, answer }) = self.scripting.paused.take() else { return };
        let Some(running) = &self.scripting.running else { return };
        let key = running.client;
        let is_ending = self.scripting.end_directive.is_some() && !running.has_written;
        let answer = if running.is_killed || is_ending { Answer::Stop } else { answer };
        self.time.refresh();
        self.update_frozen();
        self.in_transaction = true;
        if self.scripting.is_muted {
            self.sessions[key].connection.output.mute();
        }
        let until_us = self.time.now_us.saturating_add(SLICE_US);
        let has_ended = self.step_script(execution, answer, until_us) && self.end_suspended(key);
        self.sessions[key].connection.output.unmute();
        if !has_ended {
            self.in_transaction = false;
            self.shard.keyspace.set_frozen(true);
            return;
        }
        self.sessions[key].session.wait = None;
        self.tell_postponed();
        if self.scripting.orphaned.take() == Some(key) {
            self.sessions.clients.remove(key);
        } else {
            self.end_caching(key, None);
            self.check_large_output(key);
            self.sessions.note(key);
            self.sessions.resumed.push_back(key);
        }
        self.serve_ready_keys();
        self.seal_if_large();
        if let Some(opened) = self.scripting.opened.take() {
            self.log_opened(opened);
        }
        if let Some(directive) = self.scripting.end_directive.take() {
            self.request_shutdown(&directive);
        }
    }

    /// The paused script has ended: so do the commands around it. Whether all of them have.
    fn end_suspended(&mut self, key: ClientKey) -> bool {
        let script_call = self.scripting.script_call.take();
        let replied_bytes = std::mem::take(&mut self.scripting.replied_bytes);
        self.end_suspended_call(script_call, replied_bytes);
        if let Some(queue) = self.scripting.queue.take() {
            self.check_large_output(key);
            self.run_queue(key, queue);
            if std::mem::take(&mut self.scripting.is_parking) {
                return false;
            }
            let exec_call = self.scripting.exec_call.take();
            self.end_suspended_call(exec_call, 0);
        }
        true
    }

    /// Ends a call of whose reply so many bytes are written.
    fn end_suspended_call(&mut self, suspended: Option<Suspended>, replied_bytes: usize) {
        let Some(Suspended { mut begun, args }) = suspended else { return };
        begun.replied_bytes = replied_bytes;
        // What was there before may have been sent.
        begun.start = self.sessions[begun.key].connection.output.reply_start();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let _waits = self.end_call(&begun, &args, Ok(()), None);
    }

    /// A script has ended: its reply goes to its client, which has its session again.
    fn end_script(&mut self, ended: Ended) {
        let Ended { interpreter, ending, mut reply } = ended;
        match interpreter {
            Interpreter::Scripts(scripts) => self.scripting.scripts = Some(scripts),
            Interpreter::Libraries(libraries) => self.scripting.functions.put_back(libraries),
        }
        self.scripting.note_figures();
        let running = self.scripting.running.take().expect("a script has run");
        let key = running.client;
        if running.is_orphan {
            self.scripting.orphaned = Some(key);
        }
        if reply.is_over() {
            reply = Writer::new(reply.protocol());
            reply.error(
                "ERR the reply of the script is longer than 513 MB, or than 'client-output-buffer-limit' allows",
            );
        }
        let reply = reply.take();
        let is_news = !matches!(ending, Ending::Returned | Ending::Failed { is_counted: true });
        if is_news {
            self.observed.counters.error(&reply);
        }
        self.scripting.has_failed = ending != Ending::Returned;
        let room = self.output_room(key);
        let client = &mut self.sessions[key];
        client.session.db = running.db;
        client.session.last_command = Some(running.command);
        let start = client.connection.output.len();
        client.connection.output.limit(room);
        client.connection.output.writer().raw(&reply);
        self.scripting.replied_bytes = client.connection.output.len().saturating_sub(start);
        if !running.was_in_transaction {
            self.end_transaction();
        } else {
            self.shard.keyspace.begin_command(self.time.unix_ms());
        }
        if running.lsn > self.shard.reach.durable && !self.sessions[key].connection.output.is_over()
        {
            self.depend(key, start, running.lsn, running.wrote);
        }
    }
}
