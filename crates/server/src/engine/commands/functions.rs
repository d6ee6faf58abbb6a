//! FUNCTION, FCALL and `FCALL_RO`.

use command::argument;
use command::error::{CommandError, Done};
use scripting::{Library, LibraryFunction, ScriptFlags};

use super::super::scripting::{Called, Invocation, PausedCall, subcommand_syntax};
use super::super::{ClientKey, Engine};
use super::scripts::{counted_keys, drop_garbage, flushes_aside};

/// The name of the only engine, as Redis writes it.
const ENGINE: &str = "LUA";

/// FCALL.
pub(super) fn fcall(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, false)
}

/// `FCALL_RO`.
pub(super) fn fcall_ro(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, true)
}

fn run(engine: &mut Engine, key: ClientKey, args: &[&[u8]], is_read_only: bool) -> Done {
    let command = engine.sessions[key].session.last_command.expect("it is being executed");
    if !engine.sessions.monitors.is_empty() {
        // Before the commands that it calls.
        let unix_us = engine.time.unix_us();
        engine.feed_monitors(key, unix_us, args);
    }
    engine.shard.keyspace.note_libraries_read();
    let found = engine.scripting.functions.find(args[1]).cloned();
    let function = found.ok_or(CommandError::other("ERR Function not found"))?;
    let bad_number = CommandError::other("ERR Bad number of keys provided");
    let count = keyspace::parse_int(args[2]).ok_or(bad_number)?;
    let (keys, arguments) = args[3..].split_at(counted_keys(args, count)?);
    let flags = function.flags();
    let is_reading = flags.contains(ScriptFlags::NO_WRITES);
    if is_read_only && !is_reading {
        return Err(CommandError::other(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    let invocation = Invocation {
        command,
        called: Called::Function(function),
        keys,
        arguments,
        is_read_only: is_reading,
        allows_oom: is_reading || flags.contains(ScriptFlags::ALLOW_OOM),
    };
    engine.run_script(key, invocation).map_err(|why| super::error(format!("ERR {why}")))
}

/// FUNCTION LOAD.
pub(super) fn load(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let Engine { shard, scripting, deps, .. } = engine;
    // An error tells which there are.
    shard.keyspace.note_libraries_read();
    let clock = Some(deps.clock.as_ref());
    let name = scripting.functions.load(&args[2..], &mut shard.keyspace, clock)?;
    engine.reply(key).bulk(&name);
    Ok(())
}

/// FUNCTION RESTORE.
pub(super) fn restore(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if args.len() > 4 {
        return Err(subcommand_syntax(args[1]));
    }
    let Engine { shard, scripting, deps, .. } = engine;
    shard.keyspace.note_libraries_read();
    let clock = Some(deps.clock.as_ref());
    scripting.functions.restore(&args[2..], &mut shard.keyspace, clock)?;
    engine.reply(key).ok();
    Ok(())
}

/// FUNCTION DELETE.
pub(super) fn delete(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.shard.keyspace.note_libraries_read();
    engine.scripting.functions.delete(args[2], &mut engine.shard.keyspace)?;
    engine.reply(key).ok();
    Ok(())
}

/// FUNCTION FLUSH.
pub(super) fn flush(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if args.len() > 3 {
        return Err(subcommand_syntax(args[1]));
    }
    let why = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
    let in_background = flushes_aside(engine, args).ok_or(CommandError::other(why))?;
    let garbage = engine.scripting.functions.flush(&mut engine.shard.keyspace);
    drop_garbage(garbage, in_background);
    engine.reply(key).ok();
    Ok(())
}

/// FUNCTION DUMP.
pub(super) fn dump(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.shard.keyspace.note_libraries_read();
    let sources = engine.shard.keyspace.libraries().map(|(_, source)| &**source);
    let payload = rdb::encode_functions(sources, engine.options.saves.rdb.compress);
    engine.reply(key).own_bulk(payload);
    Ok(())
}

/// FUNCTION KILL.
pub(super) fn kill(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.scripting.kill(true).map_err(|why| super::error(why.to_string()))?;
    engine.reply(key).ok();
    Ok(())
}

/// What FUNCTION LIST is asked for.
#[derive(Default)]
struct Wanted<'a> {
    pattern: Option<&'a [u8]>,
    with_code: bool,
}

impl<'a> Wanted<'a> {
    fn read(words: &[&'a [u8]]) -> Result<Self, CommandError> {
        let (mut wanted, mut words) = (Self::default(), words.iter());
        while let Some(word) = words.next() {
            if !wanted.with_code && argument::is(word, "withcode") {
                wanted.with_code = true;
            } else if wanted.pattern.is_none() && argument::is(word, "libraryname") {
                let missing = CommandError::other("ERR library name argument was not given");
                wanted.pattern = Some(words.next().ok_or(missing)?);
            } else {
                return Err(super::error(format!("ERR Unknown argument {}", super::text(word))));
            }
        }
        Ok(wanted)
    }
}

/// FUNCTION LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let Wanted { pattern, with_code } = Wanted::read(&args[2..])?;
    engine.shard.keyspace.note_libraries_read();
    let is_wanted = |name: &[u8]| {
        pattern.is_none_or(|pattern| base::glob::matches_ignoring_case(pattern, name))
    };
    let libraries = engine.scripting.functions.libraries();
    let all = libraries.into_iter().flat_map(scripting::Libraries::list);
    let wanted: Vec<(&[u8], &Library)> = all.filter(|(name, _)| is_wanted(name)).collect();
    let reply = engine.sessions[key].connection.output.writer();
    reply.array(wanted.len());
    for (name, library) in wanted {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk_str("library_name");
        reply.bulk(name);
        reply.bulk_str("engine");
        reply.bulk_str(ENGINE);
        reply.bulk_str("functions");
        reply.array(library.functions().len());
        library.functions().iter().for_each(|function| write_function(reply, function));
        if with_code {
            reply.bulk_str("library_code");
            reply.bulk(library.source());
        }
    }
    Ok(())
}

fn write_function(reply: &mut resp::Writer, function: &LibraryFunction) {
    reply.map(3);
    reply.bulk_str("name");
    reply.bulk(function.name());
    reply.bulk_str("description");
    match function.description() {
        Some(description) => reply.bulk(description),
        None => reply.null(),
    }
    reply.bulk_str("flags");
    let flags: Vec<&str> = function.flags().names().collect();
    reply.set(flags.len());
    flags.into_iter().for_each(|flag| reply.simple(flag));
}

/// FUNCTION STATS.
pub(super) fn stats(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if engine.scripting.runs_script() {
        return Err(CommandError::other(engine.scripting.busy()));
    }
    engine.shard.keyspace.note_libraries_read();
    let figures = engine.scripting.functions.figures();
    let running = engine.scripting.paused_call(engine.time.now_us);
    let reply = engine.sessions[key].connection.output.writer();
    reply.map(2);
    reply.bulk_str("running_script");
    match running {
        None => reply.null(),
        Some(PausedCall { name, words, duration_ms }) => {
            reply.map(3);
            reply.bulk_str("name");
            reply.bulk(name);
            reply.bulk_str("command");
            reply.array(words.len());
            words.iter().for_each(|word| reply.bulk(word));
            reply.bulk_str("duration_ms");
            reply.int(duration_ms.cast_signed());
        }
    }
    reply.bulk_str("engines");
    reply.map(1);
    reply.bulk_str(ENGINE);
    reply.map(2);
    reply.bulk_str("libraries_count");
    reply.int(figures.libraries.cast_signed());
    reply.bulk_str("functions_count");
    reply.int(figures.functions.cast_signed());
    Ok(())
}

impl Engine {
    /// Loads the libraries that the data has come with.
    pub(in crate::engine) fn load_functions(&mut self) {
        const NOTED_MS: u64 = 1000;
        let began_us = self.deps.clock.monotonic_us();
        let failed = self.scripting.functions.reload(&self.shard.keyspace);
        let took_ms = (self.deps.clock.monotonic_us() - began_us) / 1000;
        if took_ms > NOTED_MS {
            self.deps.logger.notice(&format!(
                "Loading {} libraries of functions took {took_ms} ms, in which no client was served",
                self.shard.keyspace.libraries().len()
            ));
        }
        for (name, why) in failed {
            self.deps.logger.warning(&format!(
                "WARNING: the library of functions {name} cannot be loaded, and is kept as it is: {why}. FUNCTION \
                 DUMP has it, FUNCTION LOAD REPLACE and FUNCTION DELETE end this"
            ));
        }
    }
}
