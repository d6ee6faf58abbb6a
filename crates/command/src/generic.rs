//! Keys of any type: their existence, their names, what is known about their values.

use base::glob;
use keyspace::Notify;

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::help::write_help;

/// DEL key [key ...], and UNLINK: memory is given back in slices either way.
pub(crate) fn del(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut count = 0;
    for key in &args[1..] {
        if ctx.keyspace.delete(ctx.db, key) {
            ctx.notify(Notify::GENERIC, "del", key);
            count += 1;
        }
    }
    ctx.reply.count(count);
    Ok(())
}

/// EXISTS key [key ...]: a key that is given twice counts twice.
pub(crate) fn exists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut count = 0;
    for key in &args[1..] {
        let found = ctx.keyspace.exists(ctx.db, key, false);
        ctx.count_read(key, found);
        count += usize::from(found);
    }
    ctx.reply.count(count);
    Ok(())
}

/// TOUCH key [key ...].
pub(crate) fn touch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let count = args[1..].iter().filter(|key| ctx.keyspace.exists(ctx.db, key, true)).count();
    ctx.reply.count(count);
    Ok(())
}

/// TYPE key.
pub(crate) fn type_(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let found = ctx.keyspace.type_of(ctx.db, args[1]);
    ctx.count_read(args[1], found.is_some());
    ctx.reply.simple(found.map_or("none", keyspace::Type::name));
    Ok(())
}

/// KEYS pattern.
pub(crate) fn keys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let pattern = args[1];
    let mark = ctx.reply.mark();
    let mut count = 0;
    let reply = &mut *ctx.reply;
    ctx.keyspace.for_each_key(ctx.db, Some(pattern), |key, _| {
        if pattern == b"*" || glob::matches(pattern, key) {
            reply.bulk(key);
            count += 1;
        }
    });
    ctx.reply.finish_array(mark, count);
    Ok(())
}

/// RANDOMKEY.
pub(crate) fn randomkey(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Done {
    match ctx.keyspace.random_key(ctx.db) {
        Some(key) => ctx.reply.bulk(&key),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// DBSIZE.
pub(crate) fn dbsize(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Done {
    ctx.keyspace.note_read_all();
    let (key_count, _) = ctx.keyspace.size(ctx.db);
    ctx.reply.count(key_count);
    Ok(())
}

/// RENAME key newkey.
pub(crate) fn rename(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (args[1], args[2]);
    if !ctx.keyspace.exists(ctx.db, from, false) {
        return Err(CommandError::NoSuchKey);
    }
    move_to(ctx, from, to);
    ctx.reply.ok();
    Ok(())
}

/// RENAMENX key newkey.
pub(crate) fn renamenx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (args[1], args[2]);
    if !ctx.keyspace.exists(ctx.db, from, false) {
        return Err(CommandError::NoSuchKey);
    }
    let is_free = !ctx.keyspace.exists(ctx.db, to, false);
    if is_free {
        move_to(ctx, from, to);
    }
    ctx.reply.int(is_free.into());
    Ok(())
}

/// Gives the value at `from` the name `to`; to the same name is no change.
fn move_to(ctx: &mut Context<'_>, from: &[u8], to: &[u8]) {
    if from != to {
        ctx.keyspace.rename(ctx.db, from, ctx.db, to);
        ctx.notify(Notify::GENERIC, "rename_from", from);
        ctx.notify(Notify::GENERIC, "rename_to", to);
    }
}

/// COPY source destination [DB db] [REPLACE].
pub(crate) fn copy(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (args[1], args[2]);
    let (mut to_db, mut replace) = (ctx.db, false);
    let mut options = &args[3..];
    while let [word, rest @ ..] = options {
        options = match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"replace", rest) => {
                replace = true;
                rest
            }
            (b"db", [index, rest @ ..]) => {
                to_db = argument::database(index, ctx.keyspace)?;
                rest
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    if (ctx.db, from) == (to_db, to) {
        return Err(CommandError::other(SAME_OBJECT));
    }
    let copied = ctx.keyspace.exists(ctx.db, from, true)
        && (replace || !ctx.keyspace.exists(to_db, to, false));
    if copied {
        ctx.keyspace.copy(ctx.db, from, to_db, to);
        ctx.keyspace.notify(Notify::GENERIC, "copy_to", to_db, to);
    }
    ctx.reply.int(copied.into());
    Ok(())
}

/// MOVE key db.
pub(crate) fn move_(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let to_db = argument::database(args[2], ctx.keyspace)?;
    if to_db == ctx.db {
        return Err(CommandError::other(SAME_OBJECT));
    }
    let moved = ctx.keyspace.exists(ctx.db, key, false) && !ctx.keyspace.exists(to_db, key, false);
    if moved {
        ctx.keyspace.rename(ctx.db, key, to_db, key);
        ctx.notify(Notify::GENERIC, "move_from", key);
        ctx.keyspace.notify(Notify::GENERIC, "move_to", to_db, key);
    }
    ctx.reply.int(moved.into());
    Ok(())
}

const SAME_OBJECT: &str = "ERR source and destination objects are the same";

/// OBJECT ENCODING key.
pub(crate) fn object_encoding(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    match ctx.keyspace.encoding(ctx.db, args[2]) {
        Some(encoding) => ctx.reply.bulk_str(encoding),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// OBJECT REFCOUNT key: values are never shared, but small integers count as the shared ones that
/// Redis makes of them, unless it notes the use of each, since clients may look for that.
pub(crate) fn object_refcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;
    const SHARED_COUNT: i64 = i32::MAX as i64;
    let key = args[2];
    if ctx.keyspace.exists(ctx.db, key, false) {
        let value = ctx.keyspace.peek_int(ctx.db, key);
        let settings = ctx.keyspace.settings();
        let may_share = !(settings.is_memory_limited && settings.eviction.looks_at_use());
        let is_shared = may_share && value.is_some_and(|value| SHARED_INTEGERS.contains(&value));
        ctx.reply.int(if is_shared { SHARED_COUNT } else { 1 });
    } else {
        ctx.reply.null();
    }
    Ok(())
}

/// OBJECT IDLETIME key.
pub(crate) fn object_idletime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(idle_ms) = ctx.keyspace.idle_ms(ctx.db, args[2]) else {
        ctx.reply.null();
        return Ok(());
    };
    if ctx.keyspace.settings().eviction.is_lfu() {
        return Err(CommandError::other(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to \
             adjust.",
        ));
    }
    ctx.reply.int(idle_ms / 1000);
    Ok(())
}

/// OBJECT FREQ key.
pub(crate) fn object_freq(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(frequency) = ctx.keyspace.frequency(ctx.db, args[2]) else {
        ctx.reply.null();
        return Ok(());
    };
    if !ctx.keyspace.settings().eviction.is_lfu() {
        return Err(CommandError::other(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take \
             some time to adjust.",
        ));
    }
    ctx.reply.int(frequency.into());
    Ok(())
}

/// OBJECT HELP.
pub(crate) fn object_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Done {
    write_help(ctx.reply, "OBJECT", OBJECT_HELP);
    Ok(())
}

const OBJECT_HELP: &[&str] = &[
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
];
