//! Whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use base::DbIndex;
use command::argument;
use command::error::{CommandError, Done};
use command::table::Command;

use super::super::{ClientKey, Engine};

/// FLUSHDB.
pub(super) fn flushdb(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let db = engine.sessions[key].session.db;
    losing(engine, key, args, &[db], |engine| _ = engine.shard.keyspace.flush([db]));
    engine.reply(key).ok();
    Ok(())
}

/// FLUSHALL.
pub(super) fn flushall(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    check_mode(args)?;
    let all: Vec<DbIndex> = engine.shard.keyspace.databases().collect();
    losing(engine, key, args, &all, |engine| {
        let all = engine.shard.keyspace.databases();
        engine.shard.keyspace.flush(all);
    });
    engine.reply(key).ok();
    Ok(())
}

/// Whether the command is one of these.
pub(super) fn loses_databases(command: Command) -> bool {
    matches!(command.name, "flushall" | "flushdb" | "swapdb")
}

/// Does what empties or exchanges databases. If there is anything in them, what was there before is a point to
/// which the log can be brought back, with nothing of other clients' writes lost: the command has a block of its
/// own (in a transaction, EXEC has seen to that), which says what it was.
fn losing(
    engine: &mut Engine,
    key: ClientKey,
    args: &[&[u8]],
    databases: &[DbIndex],
    run: impl FnOnce(&mut Engine),
) {
    let is_losing = databases.iter().any(|db| engine.shard.keyspace.size(*db).0 > 0);
    if is_losing {
        if !engine.in_transaction {
            engine.shard.declare_notes();
            engine.shard.begin_block();
        }
        engine.shard.note_point();
    }
    run(engine);
    if is_losing {
        engine.note_dangerous(key, args, true);
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
    let both = [first, second];
    let databases = if first == second { &[] } else { &both[..] };
    losing(engine, key, args, databases, |engine| engine.shard.keyspace.swap(first, second));
    engine.reply(key).ok();
    Ok(())
}
