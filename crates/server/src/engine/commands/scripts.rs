//! EVAL, EVALSHA and SCRIPT.

use std::borrow::Cow;

use command::argument;
use command::error::{CommandError, Done};
use scripting::{Origin, Script, ScriptFlags, ScriptId, Scripts};

use super::super::scripting::{Called, Invocation};
use super::super::{ClientKey, Engine};

const NO_SCRIPT: CommandError =
    CommandError::other("NOSCRIPT No matching script. Please use EVAL.");

/// EVAL.
pub(super) fn eval(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, false)
}

/// `EVAL_RO`.
pub(super) fn eval_ro(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, true)
}

/// EVALSHA.
pub(super) fn evalsha(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, false)
}

/// `EVALSHA_RO`.
pub(super) fn evalsha_ro(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    run(engine, key, args, true)
}

fn run(engine: &mut Engine, key: ClientKey, args: &[&[u8]], is_read_only: bool) -> Done {
    let command = engine.sessions[key].session.last_command.expect("it is being executed");
    if !engine.sessions.monitors.is_empty() {
        // Before the commands that it calls.
        let unix_us = engine.time.unix_us();
        engine.feed_monitors(key, unix_us, args);
    }
    let is_by_digest = command.name.starts_with("evalsha");
    if is_by_digest && args[1].len() != 40 {
        return Err(NO_SCRIPT);
    }
    let key_count = key_count(args)?;
    let scripts = scripts(engine);
    let script = if is_by_digest {
        find(scripts, args[1]).ok_or(NO_SCRIPT)?
    } else {
        scripts.load(args[1], Origin::Eval).map_err(|why| super::error(format!("ERR {why}")))?
    };
    let flags = scripts.flags(script);
    let says = |flag| flags.is_some_and(|flags| flags.contains(flag));
    let is_reading = says(ScriptFlags::NO_WRITES);
    if is_read_only && flags.is_some() && !is_reading {
        return Err(CommandError::other(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    let (keys, arguments) = args[3..].split_at(key_count);
    let invocation = Invocation {
        command,
        called: Called::Script(script),
        keys,
        arguments,
        is_read_only: is_read_only || is_reading,
        allows_oom: is_reading || says(ScriptFlags::ALLOW_OOM),
    };
    engine.run_script(key, invocation).map_err(|why| super::error(format!("ERR {why}")))
}

/// How many of the arguments are keys.
fn key_count(args: &[&[u8]]) -> Result<usize, CommandError> {
    counted_keys(args, argument::int(args[2])?)
}

/// As many, if there can be so many.
pub(super) fn counted_keys(args: &[&[u8]], count: i64) -> Result<usize, CommandError> {
    let Ok(count) = usize::try_from(count) else {
        return Err(CommandError::other("ERR Number of keys can't be negative"));
    };
    if count > args.len() - 3 {
        let why = "ERR Number of keys can't be greater than number of args";
        return Err(CommandError::other(why));
    }
    Ok(count)
}

fn scripts(engine: &mut Engine) -> &mut Scripts {
    engine.scripting.scripts(engine.options.maxmemory_bytes)
}

fn find(scripts: &mut Scripts, digest: &[u8]) -> Option<Script> {
    scripts.find(&ScriptId::parse(digest)?)
}

/// SCRIPT LOAD.
pub(super) fn load(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let loaded = scripts(engine).load(args[2], Origin::Load);
    let script = loaded.map_err(|why| super::error(format!("ERR {why}")))?;
    engine.scripting.note_figures();
    engine.reply(key).bulk(script.id().as_bytes());
    Ok(())
}

/// SCRIPT EXISTS.
pub(super) fn exists(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let scripts = scripts(engine);
    let is_there = |digest: &&[u8]| ScriptId::parse(digest).is_some_and(|id| scripts.contains(&id));
    let found: Vec<bool> = args[2..].iter().map(is_there).collect();
    let reply = engine.reply(key);
    reply.array(found.len());
    found.into_iter().for_each(|is_there| reply.int(i64::from(is_there)));
    Ok(())
}

/// SCRIPT FLUSH.
pub(super) fn flush(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let why = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
    let in_background = flushes_aside(engine, args).ok_or(CommandError::other(why))?;
    let garbage = scripts(engine).flush();
    drop_garbage(garbage, in_background);
    engine.scripting.note_figures();
    engine.reply(key).ok();
    Ok(())
}

/// Whether SCRIPT FLUSH or FUNCTION FLUSH with these words drops what there was on another thread; `None` if they are no
/// such command.
pub(super) fn flushes_aside(engine: &Engine, args: &[&[u8]]) -> Option<bool> {
    match args {
        [_, _] => Some(engine.config.is_yes("lazyfree-lazy-user-flush")),
        [_, _, mode] if argument::is(mode, "async") => Some(true),
        [_, _, mode] if argument::is(mode, "sync") => Some(false),
        _ => None,
    }
}

/// Drops what an interpreter had.
pub(super) fn drop_garbage(garbage: impl Send + 'static, in_background: bool) {
    if in_background {
        // Without a thread for it, it is dropped here.
        let _ended = std::thread::Builder::new().spawn(move || drop(garbage));
    }
}

/// SCRIPT SHOW.
pub(super) fn show(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let id = ScriptId::parse(args[2]).ok_or(NO_SCRIPT)?;
    let source = scripts(engine).source(&id).map(<[u8]>::to_vec).ok_or(NO_SCRIPT)?;
    engine.reply(key).own_bulk(source);
    Ok(())
}

/// SCRIPT KILL.
pub(super) fn kill(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let killed = engine.scripting.kill(false);
    killed.map_err(|why| CommandError::Other(Cow::Owned(why.to_string())))?;
    engine.reply(key).ok();
    Ok(())
}

/// SCRIPT DEBUG.
pub(super) fn debug(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    if !argument::is(args[2], "no") {
        return Err(CommandError::other(
            "ERR scripts are not debugged here: there is SCRIPT DEBUG NO only",
        ));
    }
    engine.reply(key).ok();
    Ok(())
}
