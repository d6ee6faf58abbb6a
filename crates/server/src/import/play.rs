//! The commands of an AOF, executed by the handlers that clients' commands have.
//!
//! What an AOF is made of is told by [`role`]. Transactions need nothing: what counts of a file was found
//! before, and nothing of an import counts before all of it does.

use std::io::Read;

use base::DbIndex;
use command::argument;
use command::context::Context;
use command::error::CommandError;
use command::handlers::{self, Handler};
use command::table::{self, Command};
use keyspace::Keyspace;
use rdb::BadPayload;
use resp::{Protocol, Writer};

use super::aof::{Commands, Next};
use super::check::{Rules, no_command, wrong_command};
use super::contents::Contents;
use super::error::{Unusable, shown};
use super::functions::FunctionChange;
use super::source::SourceFile;
use super::{ImportError, Target, Teller};

/// What a command of an AOF is for an import.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It changes keys.
    Data(Handler),
    Select,
    Multi,
    Exec,
    FlushDb,
    FlushAll,
    SwapDb,
    /// It changes no data.
    Nothing,
    /// It defines scripts, which do not outlive a server.
    Scripts,
    /// It changes libraries of functions.
    Functions(FunctionChange),
    /// It is not served, and may be left out: what it counts as.
    NotServed(String),
}

/// The role of a command, or why it cannot have any.
pub(super) fn role(rules: &Rules, args: &[&[u8]]) -> Result<Role, Unusable> {
    let Ok(command) = rules.names.resolve(args) else { return unknown_role(rules, args) };
    if !command.accepts(args.len()) {
        return Err(Unusable::Arity);
    }
    if command.name == "restore" {
        return Ok(restore_role(rules, command, args));
    }
    if let Some(handler) = handlers::of(command) {
        return Ok(Role::Data(handler));
    }
    Ok(match command.name {
        "select" => Role::Select,
        "multi" => Role::Multi,
        "exec" => Role::Exec,
        "flushdb" => Role::FlushDb,
        "flushall" => Role::FlushAll,
        "swapdb" => Role::SwapDb,
        "ping" | "publish" | "spublish" => Role::Nothing,
        // What scripts there are is not kept over a start.
        name if name.starts_with("script|") => Role::Scripts,
        name if name.starts_with("function|") => {
            FunctionChange::of(name).map_or(Role::Nothing, Role::Functions)
        }
        // Redis before 5.0 could write scripts and not what they did.
        name @ ("eval" | "evalsha" | "fcall") => Role::NotServed(format!("commands {name}")),
        _ => return Err(Unusable::Foreign),
    })
}

/// The role of a command that is not served.
fn unknown_role(rules: &Rules, args: &[&[u8]]) -> Result<Role, Unusable> {
    let name = args.first().copied().unwrap_or_default();
    let known = table::find(name).filter(|known| !known.served);
    match known.map(|known| known.name) {
        // A cluster moves keys by it.
        Some("restore-asking") if args.len() >= 4 => {
            let restore = table::find(b"restore").expect("the table has it");
            Ok(restore_role(rules, restore, args))
        }
        Some(name) => Ok(Role::NotServed(format!("commands {name}"))),
        None if rules.skips_unknown => {
            Ok(Role::NotServed(format!("unknown commands {}", shown(&name.to_ascii_lowercase()))))
        }
        None => Err(Unusable::Unknown),
    }
}

/// The role of RESTORE, which can bring values that are not served.
fn restore_role(rules: &Rules, restore: Command, args: &[&[u8]]) -> Role {
    match (rdb::decode(args[3], rules.limits()), handlers::of(restore)) {
        (Err(BadPayload::Content), _) | (_, None) => {
            Role::NotServed("commands restore of a type that is not served".to_owned())
        }
        (_, Some(handler)) => Role::Data(handler),
    }
}

/// The number of the database that SELECT names.
pub(super) fn index_of_select(args: &[&[u8]]) -> Option<u32> {
    keyspace::parse_int(args.get(1)?).and_then(|number| u32::try_from(number).ok())
}

/// Executes the commands of a file.
pub(super) struct Play<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) target: &'a mut Target,
    pub(super) rules: &'a Rules,
    pub(super) contents: &'a mut Contents,
    /// Up to where the file counts.
    pub(super) end: u64,
}

impl Play<'_> {
    /// Executes those of `source`, which begins at `offset` of the file.
    pub(super) fn run<R: Read>(
        &mut self,
        source: R,
        offset: u64,
        teller: &mut Teller<'_>,
    ) -> Result<(), ImportError> {
        let mut commands = Commands::new(source, offset, self.rules.string_bytes_max);
        let (mut db, mut reply) = (DbIndex::FIRST, Writer::new(Protocol::default()));
        loop {
            let at = commands.offset();
            let next = commands.next().map_err(|why| no_command(self.file, at, why))?;
            let Next::Command { offset, end } = next else {
                // The first pass has read whole commands up to there.
                let is_end = next == Next::End && commands.offset() == self.end;
                let changed = ImportError::Changed { path: self.file.path.clone() };
                return if is_end { Ok(()) } else { Err(changed) };
            };
            let args = commands.args();
            let done = self.execute(&mut db, &args, &mut reply);
            done.map_err(|what| wrong_command(self.file, offset, &args, what))?;
            reply.truncate(0);
            self.contents.commands += 1;
            self.target.breathe()?;
            teller.note_item(end);
        }
    }

    fn execute(
        &mut self,
        db: &mut DbIndex,
        args: &[&[u8]],
        reply: &mut Writer,
    ) -> Result<(), Unusable> {
        let role = role(self.rules, args)?;
        let Target { keyspace, functions, .. } = &mut *self.target;
        let keyspace: &mut Keyspace = keyspace;
        match role {
            Role::Data(handler) => self.call(handler, *db, args, reply)?,
            Role::Select => *db = argument::database(args[1], keyspace)?,
            Role::FlushDb => _ = keyspace.flush([*db]),
            Role::FlushAll => _ = keyspace.flush(keyspace.databases()),
            Role::SwapDb => {
                let (first, second) = argument::two_databases(args[1], args[2], keyspace)?;
                keyspace.swap(first, second);
            }
            Role::Scripts => self.contents.note_left_out("commands of scripts"),
            Role::Functions(change) => {
                change.execute(args, functions, keyspace)?;
            }
            Role::NotServed(what) => self.contents.note_not_served(&what),
            Role::Multi | Role::Exec | Role::Nothing => {}
        }
        Ok(())
    }

    fn call(
        &mut self,
        handler: Handler,
        db: DbIndex,
        args: &[&[u8]],
        reply: &mut Writer,
    ) -> Result<(), CommandError> {
        let string_bytes_max = usize::try_from(self.rules.string_bytes_max);
        let mut context = Context {
            keyspace: &mut self.target.keyspace,
            db,
            reply,
            string_bytes_max: string_bytes_max.unwrap_or(usize::MAX),
            payload_readers: rdb::Version::Redis(rdb::VERSION),
            // Nothing waits, but a log may be told of streams before any command.
            may_block: true,
            in_script: false,
            may_store: true,
            may_read_all_keys: true,
            again: None,
            blocking: None,
        };
        handler(&mut context, args)
    }
}
