//! The set commands on one set, or on one member of two; [`crate::set_algebra`] has the others.

use keyspace::set::{Set, SetView};
use keyspace::{Notify, Type, WrongType};

use crate::argument::{self, Pick};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::scan::{self, Iterated, ScanOptions};

const NOT_EMPTY: &str = "no key holds an empty set";

/// The set of a key, to be read.
fn view<'a>(ctx: &'a mut Context<'_>, key: &[u8]) -> Result<Option<SetView<'a>>, WrongType> {
    ctx.keyspace.read::<Set>(ctx.db, key)
}

pub(crate) fn sadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let added = add_all(ctx, args[1], &args[2..])?;
    ctx.reply.count(added);
    Ok(())
}

/// Adds members to a set, which is created when it is not there. How many are new.
fn add_all(ctx: &mut Context<'_>, key: &[u8], members: &[&[u8]]) -> Result<usize, WrongType> {
    let updated = ctx.keyspace.update::<Set, _>(ctx.db, key, true, |set| {
        members.iter().filter(|member| set.add(member)).count()
    })?;
    let updated = updated.expect("the key is created when it is not there");
    ctx.notify_update(Notify::SET, "sadd", key, &updated);
    Ok(updated.value)
}

pub(crate) fn srem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let removed = remove_all(ctx, args[1], &args[2..])?;
    ctx.reply.count(removed);
    Ok(())
}

/// Removes members from a set. How many were there.
fn remove_all(ctx: &mut Context<'_>, key: &[u8], members: &[&[u8]]) -> Result<usize, WrongType> {
    let updated = ctx.keyspace.update::<Set, _>(ctx.db, key, false, |set| {
        members.iter().filter(|member| set.remove(member)).count()
    })?;
    let Some(updated) = updated else { return Ok(0) };
    ctx.notify_update(Notify::SET, "srem", key, &updated);
    Ok(updated.value)
}

pub(crate) fn smembers(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_members(ctx.reply, ctx.keyspace.read::<Set>(ctx.db, args[1])?);
    Ok(())
}

/// Replies all members of a set; a key that is not there is an empty one.
fn write_members(reply: &mut resp::Writer, set: Option<SetView<'_>>) {
    reply.set(set.map_or(0, |set| set.len()));
    set.iter().flat_map(SetView::iter).for_each(|member| reply.bulk(member));
}

pub(crate) fn scard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let len = view(ctx, args[1])?.map_or(0, |set| set.len());
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn sismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let is_member = view(ctx, args[1])?.is_some_and(|set| set.contains(args[2]));
    ctx.reply.int(i64::from(is_member));
    Ok(())
}

pub(crate) fn smismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let set = ctx.keyspace.read::<Set>(ctx.db, args[1])?;
    ctx.reply.array(args.len() - 2);
    for member in &args[2..] {
        ctx.reply.int(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

pub(crate) fn smove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to, member) = (args[1], args[2], args[3]);
    let is_other = |found: Option<Type>| found.is_some_and(|found| found != Type::Set);
    let Some(source) = ctx.keyspace.read_to_change::<Set>(ctx.db, from)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let is_member = source.contains(member);
    if is_other(ctx.keyspace.type_of(ctx.db, to)) {
        return Err(WrongType.into());
    }
    if is_member && from != to {
        remove_all(ctx, from, &[member])?;
        add_all(ctx, to, &[member])?;
    }
    ctx.reply.int(i64::from(is_member));
    Ok(())
}

/// SPOP key [count].
pub(crate) fn spop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let count = match args {
        [_, _] => None,
        [_, _, count] => Some(argument::count(count)?),
        _ => return Err(CommandError::Syntax),
    };
    let len = ctx.keyspace.read_to_change::<Set>(ctx.db, key)?.map_or(0, |set| set.len());
    match count {
        None if len == 0 => ctx.reply.null(),
        None => {
            let popped = pop(ctx, key, 1)?;
            ctx.reply.bulk(&popped[0]);
        }
        Some(count) if count >= len => {
            write_members(ctx.reply, ctx.keyspace.read_to_change::<Set>(ctx.db, key)?);
            if ctx.keyspace.delete(ctx.db, key) {
                ctx.notify(Notify::SET, "spop", key);
                ctx.notify(Notify::GENERIC, "del", key);
            }
        }
        Some(count) => {
            let popped = pop(ctx, key, count)?;
            ctx.reply.set(popped.len());
            popped.into_iter().for_each(|member| ctx.reply.own_bulk(member.into()));
        }
    }
    Ok(())
}

/// Removes random members from a set that is there.
fn pop(ctx: &mut Context<'_>, key: &[u8], count: usize) -> Result<Vec<Box<[u8]>>, WrongType> {
    let updated = ctx.keyspace.update::<Set, _>(ctx.db, key, false, |set| set.pop(count))?;
    let updated = updated.expect("the caller saw it");
    ctx.notify_update(Notify::SET, "spop", key, &updated);
    Ok(updated.value)
}

/// SRANDMEMBER key [count].
pub(crate) fn srandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut rng = ctx.keyspace.rng().fork();
    let pick = match args {
        [_, _] => None,
        [_, _, count] => Some(Pick::parse(count)?),
        _ => return Err(CommandError::Syntax),
    };
    let set = ctx.keyspace.read::<Set>(ctx.db, args[1])?;
    match (set, pick) {
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.array(0),
        (Some(set), None) => ctx.reply.bulk(set.random(&mut rng).expect(NOT_EMPTY)),
        (Some(set), Some(Pick::Distinct(count))) => {
            let picked = set.sample(count, &mut rng);
            ctx.reply.array(picked.len());
            picked.iter().for_each(|member| ctx.reply.bulk(member));
        }
        (Some(set), Some(pick @ Pick::Repeated(count))) => {
            pick.check(ctx.string_bytes_max)?;
            ctx.reply.array(count);
            for _ in 0..count {
                ctx.reply.bulk(set.random(&mut rng).expect(NOT_EMPTY));
                if ctx.reply.is_over() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// SSCAN key cursor [MATCH pattern] [COUNT count].
pub(crate) fn sscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let cursor = scan::parse_cursor(args[2])?;
    let Some(set) = ctx.keyspace.read::<Set>(ctx.db, args[1])? else {
        ctx.reply.array(2);
        scan::write_cursor(ctx.reply, 0);
        ctx.reply.array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(cursor, &args[3..], Iterated::Members)?;
    let mut found = Vec::new();
    let next = set.scan(cursor, options.count, |member| {
        if options.matches(member) {
            found.push(member);
        }
    });
    ctx.reply.array(2);
    scan::write_cursor(ctx.reply, next);
    ctx.reply.array(found.len());
    found.iter().for_each(|member| ctx.reply.bulk(member));
    Ok(())
}
