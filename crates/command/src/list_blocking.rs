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

pub(crate) fn blpop(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_first(cx, &args[1..args.len() - 1], args[args.len() - 1], End::Front, None)
}

pub(crate) fn brpop(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_first(cx, &args[1..args.len() - 1], args[args.len() - 1], End::Back, None)
}

pub(crate) fn blmpop(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let PopFrom { keys, end, count } = PopFrom::parse(&args[2..])?;
    pop_first(cx, keys, args[1], end, Some(count))
}

fn pop_first(
    cx: &mut Context<'_>,
    keys: &[&[u8]],
    timeout: &[u8],
    end: End,
    count: Option<usize>,
) -> Done {
    let deadline_ms = argument::deadline(timeout, cx.keyspace.now_ms())?;
    match cx.first_filled(keys, Type::List)? {
        Some(key) => list::pop_with_key(cx, key, end, count),
        None => {
            cx.block(keys, deadline_ms, TimeoutReply::NullArray);
            Ok(())
        }
    }
}

pub(crate) fn blmove(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (from, to) = (list::end(args[3])?, list::end(args[4])?);
    move_first(cx, args, args[5], from, to)
}

pub(crate) fn brpoplpush(cx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    move_first(cx, args, args[3], End::Back, End::Front)
}

fn move_first(cx: &mut Context<'_>, args: &[&[u8]], timeout: &[u8], from: End, to: End) -> Done {
    let deadline_ms = argument::deadline(timeout, cx.keyspace.now_ms())?;
    if cx.first_filled(&args[1..2], Type::List)?.is_some() {
        return list::move_element(cx, args[1], args[2], from, to);
    }
    cx.block(&args[1..2], deadline_ms, TimeoutReply::Null);
    Ok(())
}
