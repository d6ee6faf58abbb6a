//! Whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use command::argument;
use command::error::{CommandError, Done};
use command::table::Command;

use super::super::{ClientKey, Engine};

/// FLUSHDB.
pub(super) fn flushdb(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    begin_losing(engine);
    let db = engine.sessions[key].session.db;
    engine.shard.keyspace.flush([db]);
    engine.reply(key).ok();
    Ok(())
}

/// FLUSHALL.
pub(super) fn flushall(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    begin_losing(engine);
    let all = engine.shard.keyspace.databases();
    engine.shard.keyspace.flush(all);
    engine.reply(key).ok();
    Ok(())
}

/// Whether the command is one of these.
pub(super) fn loses_databases(command: Command) -> bool {
    matches!(command.name, "flushall" | "flushdb" | "swapdb")
}

/// Makes what was there before one to which the log can be brought back, with nothing of other clients' writes
/// lost: the command has a block of its own. In a transaction, EXEC has done it.
fn begin_losing(engine: &mut Engine) {
    if !engine.in_transaction {
        engine.shard.begin_losing();
    }
}

/// SYNC and ASYNC are the same here: the keys are gone at once, their memory little by little.
fn check_mode(args: &[&[u8]]) -> Done {
    match args {
        [_] => Ok(()),
        [_, mode] if argument::is(mode, "sync") || argument::is(mode, "async") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}

/// SWAPDB.
pub(super) fn swapdb(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (first, second) = argument::two_databases(args[1], args[2], &engine.shard.keyspace)?;
    begin_losing(engine);
    engine.shard.keyspace.swap(first, second);
    engine.reply(key).ok();
    Ok(())
}
