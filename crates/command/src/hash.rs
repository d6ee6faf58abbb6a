//! The hash commands.

pub(crate) mod expiry;

use base::DbIndex;
use keyspace::hash::{Hash, HashView};
use keyspace::{Keyspace, Notify, WrongType, parse_int};

use crate::argument::{self, Pick};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::long_double::{LongDouble, NOT_FINITE};
use crate::scan::{self, Iterated, ScanOptions};

/// The hash of a key, to be read.
fn view<'a>(ctx: &'a mut Context<'_>, key: &[u8]) -> Result<Option<HashView<'a>>, WrongType> {
    ctx.keyspace.read::<Hash>(ctx.db, key)
}

/// The hash of a key, of which these fields are to be read.
pub(crate) fn view_of<'a>(
    keyspace: &'a mut Keyspace,
    db: DbIndex,
    key: &[u8],
    fields: &[&[u8]],
) -> Result<Option<HashView<'a>>, WrongType> {
    keyspace.expire_named_fields(db, key, fields.iter().copied());
    keyspace.read::<Hash>(db, key)
}

pub(crate) fn hset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let new_count = set_all(ctx, args, "hset")?;
    ctx.reply.count(new_count);
    Ok(())
}

pub(crate) fn hmset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_all(ctx, args, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

/// Sets the fields and values behind the key. How many fields are new.
fn set_all(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    command: &'static str,
) -> Result<usize, CommandError> {
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CommandError::WrongArity(command.into()));
    }
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, args[1], true, |hash| {
        pairs.iter().filter(|[field, value]| hash.set(field, value)).count()
    })?;
    let updated = updated.expect("the key is created when it is not there");
    ctx.notify_update(Notify::HASH, "hset", args[1], &updated);
    Ok(updated.value)
}

pub(crate) fn hsetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, args[1], true, |hash| {
        hash.view().get(args[2]).is_none() && hash.set(args[2], args[3])
    })?;
    let updated = updated.expect("the key is created when it is not there");
    ctx.notify_update(Notify::HASH, "hset", args[1], &updated);
    ctx.reply.int(i64::from(updated.value));
    Ok(())
}

pub(crate) fn hget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let hash = view_of(ctx.keyspace, ctx.db, args[1], &args[2..])?;
    write_value(ctx.reply, hash.and_then(|hash| hash.get(args[2])));
    Ok(())
}

pub(crate) fn hmget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let hash = view_of(ctx.keyspace, ctx.db, args[1], &args[2..])?;
    ctx.reply.array(args.len() - 2);
    for field in &args[2..] {
        write_value(ctx.reply, hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

fn write_value(reply: &mut resp::Writer, value: Option<&[u8]>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

pub(crate) fn hgetall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(hash) = ctx.keyspace.read::<Hash>(ctx.db, args[1])? else {
        ctx.reply.map(0);
        return Ok(());
    };
    ctx.reply.map(hash.len());
    hash.for_each(|field, value| {
        ctx.reply.bulk(field);
        ctx.reply.bulk(value);
    });
    Ok(())
}

pub(crate) fn hkeys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(hash) = ctx.keyspace.read::<Hash>(ctx.db, args[1])? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(hash.len());
    hash.for_each(|field, _| ctx.reply.bulk(field));
    Ok(())
}

pub(crate) fn hvals(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let Some(hash) = ctx.keyspace.read::<Hash>(ctx.db, args[1])? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(hash.len());
    hash.for_each(|_, value| ctx.reply.bulk(value));
    Ok(())
}

pub(crate) fn hlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    // Redis counts fields that have expired and were not removed yet; of those there are few here.
    let len = view(ctx, args[1])?.map_or(0, |hash| hash.stored_len());
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn hstrlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let hash = view_of(ctx.keyspace, ctx.db, args[1], &args[2..])?;
    let value = hash.and_then(|hash| hash.get(args[2]));
    let len = value.map_or(0, <[u8]>::len);
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn hexists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let hash = view_of(ctx.keyspace, ctx.db, args[1], &args[2..])?;
    let exists = hash.is_some_and(|hash| hash.get(args[2]).is_some());
    ctx.reply.int(i64::from(exists));
    Ok(())
}

pub(crate) fn hdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, args[1], false, |hash| {
        args[2..].iter().filter(|field| hash.remove(field)).count()
    })?;
    let removed = updated.map_or(0, |updated| {
        ctx.notify_update(Notify::HASH, "hdel", args[1], &updated);
        updated.value
    });
    ctx.reply.count(removed);
    Ok(())
}

pub(crate) fn hincrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, field, by) = (args[1], args[2], argument::int(args[3])?);
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, true, |hash| {
        let old = match hash.view().get(field) {
            None => 0,
            Some(value) => {
                parse_int(value).ok_or(CommandError::other("ERR hash value is not an integer"))?
            }
        };
        let new = old
            .checked_add(by)
            .ok_or(CommandError::other("ERR increment or decrement would overflow"))?;
        hash.set_keeping_expiry(field, itoa::Buffer::new().format(new).as_bytes());
        Ok::<_, CommandError>(new)
    })?;
    let updated = updated.expect("the key is created when it is not there");
    ctx.notify_update(Notify::HASH, "hincrby", key, &updated);
    ctx.reply.int(updated.value?);
    Ok(())
}

pub(crate) fn hincrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, field) = (args[1], args[2]);
    let by = LongDouble::parse(args[3]).ok_or(CommandError::NotAFloat)?;
    if !by.is_finite() {
        return Err(CommandError::other("ERR value is NaN or Infinity"));
    }
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, true, |hash| {
        let old = LongDouble::parse(hash.view().get(field).unwrap_or(b"0"))
            .ok_or(CommandError::other("ERR hash value is not a float"))?;
        let sum = old.checked_add(&by).ok_or(NOT_FINITE)?.to_decimal();
        hash.set_keeping_expiry(field, sum.as_bytes());
        Ok::<_, CommandError>(sum)
    })?;
    let updated = updated.expect("the key is created when it is not there");
    ctx.notify_update(Notify::HASH, "hincrbyfloat", key, &updated);
    ctx.reply.bulk_str(&updated.value?);
    Ok(())
}

/// HRANDFIELD key [count [WITHVALUES]].
pub(crate) fn hrandfield(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut rng = ctx.keyspace.rng().fork();
    let Some(count) = args.get(2) else {
        let hash = ctx.keyspace.read::<Hash>(ctx.db, args[1])?;
        let picked = hash.and_then(|hash| hash.random(&mut rng));
        write_value(ctx.reply, picked.map(|(field, _)| field));
        return Ok(());
    };
    let pick = Pick::parse(count)?;
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && argument::is(word, "WITHVALUES") => true,
        Some(_) => return Err(CommandError::Syntax),
    };
    // The reply has two elements for each of them.
    if with_values && pick.count() > usize::MAX / 4 {
        return Err(CommandError::OutOfRange);
    }
    let hash = ctx.keyspace.read::<Hash>(ctx.db, args[1])?;
    let Some(hash) = hash.filter(|hash| !hash.is_empty()) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let picked: Vec<_> = match pick {
        Pick::Distinct(count) => hash.sample(count, &mut rng),
        Pick::Repeated(count) => {
            pick.check(ctx.string_bytes_max)?;
            // They are picked one by one while they are written: the count is the client's.
            write_pairs_header(ctx.reply, count, with_values);
            let mut picks = hash.picks();
            for _ in 0..count {
                let pair = picks.next(&mut rng).expect("it is not empty");
                write_pair(ctx.reply, pair, with_values);
                if ctx.reply.is_over() {
                    break;
                }
            }
            return Ok(());
        }
    };
    write_pairs_header(ctx.reply, picked.len(), with_values);
    for pair in picked {
        write_pair(ctx.reply, pair, with_values);
    }
    Ok(())
}

/// Pairs are arrays of their own in RESP3, and flat in RESP2.
fn write_pairs_header(reply: &mut resp::Writer, count: usize, with_values: bool) {
    reply.array(if with_values && !reply.is_resp3() { 2 * count } else { count });
}

fn write_pair(reply: &mut resp::Writer, (field, value): (&[u8], &[u8]), with_values: bool) {
    if with_values && reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(field);
    if with_values {
        reply.bulk(value);
    }
}

/// HSCAN key cursor [MATCH pattern] [COUNT count].
pub(crate) fn hscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let cursor = scan::parse_cursor(args[2])?;
    let Some(hash) = ctx.keyspace.read::<Hash>(ctx.db, args[1])? else {
        ctx.reply.array(2);
        scan::write_cursor(ctx.reply, 0);
        ctx.reply.array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(cursor, &args[3..], Iterated::Fields)?;
    let mut found = Vec::new();
    let next = hash.scan(cursor, options.count, |field, value| {
        if options.matches(field) {
            found.push(field);
            found.extend((!options.names_only).then_some(value));
        }
    });
    ctx.reply.array(2);
    scan::write_cursor(ctx.reply, next);
    ctx.reply.array(found.len());
    found.iter().for_each(|part| ctx.reply.bulk(part));
    Ok(())
}
