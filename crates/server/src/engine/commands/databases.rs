//! Whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use command::argument;
use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// FLUSHDB.
pub(super) fn flushdb(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let db = engine.sessions[key].session.db;
    engine.shard.keyspace.flush([db]);
    engine.reply(key).ok();
    Ok(())
}

/// FLUSHALL.
pub(super) fn flushall(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let all = engine.shard.keyspace.databases();
    engine.shard.keyspace.flush(all);
    engine.reply(key).ok();
    Ok(())
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
    let keyspace = &mut engine.shard.keyspace;
    let (first, second) = argument::two_databases(args[1], args[2], keyspace)?;
    keyspace.swap(first, second);
    engine.reply(key).ok();
    Ok(())
}
