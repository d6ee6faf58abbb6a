//! The list commands that wait for an element when there is none.
//!
//! A handler that finds nothing says what it waits for ([`Context::block`]); the server executes
//! the command again when one of the keys is created.

use keyspace::Type;
use keyspace::list::End;

use crate::argument;
use crate::context::{Context, TimeoutReply};
use crate::error::Done;
use crate::list::{self, PopFrom};

pub(crate) fn blpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_first(ctx, &args[1..args.len() - 1], args[args.len() - 1], End::Front, None)
}

pub(crate) fn brpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_first(ctx, &args[1..args.len() - 1], args[args.len() - 1], End::Back, None)
}

pub(crate) fn blmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let PopFrom { keys, end, count } = PopFrom::parse(&args[2..])?;
    pop_first(ctx, keys, args[1], end, Some(count))
}

fn pop_first(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    timeout: &[u8],
    end: End,
    count: Option<usize>,
) -> Done {
    let deadline_ms = argument::deadline(timeout, ctx.keyspace.now_ms())?;
    match ctx.first_filled(keys, Type::List)? {
        Some(key) => list::pop_with_key(ctx, key, end, count),
        None => {
            ctx.block(keys, deadline_ms, TimeoutReply::NullArray);
            Ok(())
        }
    }
}

pub(crate) fn blmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (list::end(args[3])?, list::end(args[4])?);
    move_first(ctx, args, args[5], from, to)
}

pub(crate) fn brpoplpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    move_first(ctx, args, args[3], End::Back, End::Front)
}

fn move_first(ctx: &mut Context<'_>, args: &[&[u8]], timeout: &[u8], from: End, to: End) -> Done {
    let deadline_ms = argument::deadline(timeout, ctx.keyspace.now_ms())?;
    if ctx.first_filled(&args[1..2], Type::List)?.is_some() {
        return list::move_element(ctx, args[1], args[2], from, to);
    }
    ctx.block(&args[1..2], deadline_ms, TimeoutReply::Null);
    Ok(())
}
