//! Whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use command::argument;
use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// FLUSHDB.
pub(super) fn flushdb(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let db = engine.sessions[key].session.db;
    engine.shard.keyspace.flush(db..db + 1);
    engine.reply(key).ok();
    Ok(())
}

/// FLUSHALL.
pub(super) fn flushall(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let count = engine.shard.keyspace.database_count();
    engine.shard.keyspace.flush(0..count);
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
    let index = |argument: &[u8], wrong: &'static str| {
        let index = keyspace::parse_int(argument).filter(|index| i32::try_from(*index).is_ok());
        index.ok_or(CommandError::other(wrong))
    };
    let first = index(args[1], "ERR invalid first DB index")?;
    let second = index(args[2], "ERR invalid second DB index")?;
    let count = engine.shard.keyspace.database_count();
    let place = |index: i64| {
        let place = usize::try_from(index).ok().filter(|place| *place < count);
        place.ok_or(CommandError::other("ERR DB index is out of range"))
    };
    engine.shard.keyspace.swap(place(first)?, place(second)?);
    engine.reply(key).ok();
    Ok(())
}
