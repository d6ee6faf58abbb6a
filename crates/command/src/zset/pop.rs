//! Popping the members with the lowest or highest scores, at once or when there are some.

use keyspace::Notify;
use keyspace::zset::ZSet;
use resp::Writer;

use crate::argument;
use crate::context::{Again, Context, TimeoutReply};
use crate::error::{CommandError, Done};

/// Which end of the order is popped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

/// How the popped members are replied.
#[derive(Clone, Copy)]
struct Shape {
    /// The key comes first.
    with_key: bool,
    /// Members and scores are in pairs, and the pairs in an array of their own behind the key.
    nested: bool,
}

impl Shape {
    fn write_header(self, reply: &mut Writer, key: &[u8], len: usize) {
        if self.with_key {
            reply.array(if self.nested { 2 } else { len * 2 + 1 });
            reply.bulk(key);
        }
        if self.nested {
            reply.array(len);
        } else if !self.with_key {
            reply.array(len * 2);
        }
    }

    fn write_member(self, reply: &mut Writer, (member, score): (&[u8], f64)) {
        if self.nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(score);
    }
}

/// Pops and replies at most `count` members of a key. Whether the key is there; if it is not,
/// nothing is replied.
fn pop(
    ctx: &mut Context<'_>,
    key: &[u8],
    end: End,
    count: usize,
    shape: Shape,
) -> Result<bool, CommandError> {
    let reply = &mut *ctx.reply;
    let updated = ctx.keyspace.update::<ZSet, _>(ctx.db, key, false, |set| {
        let len = set.len();
        let popped = count.min(len);
        shape.write_header(reply, key, popped);
        let range = match end {
            End::Min => 0..popped,
            End::Max => len - popped..len,
        };
        let members = set.view().range(range.clone());
        match end {
            End::Min => members.for_each(|member| shape.write_member(reply, member)),
            End::Max => members.rev().for_each(|member| shape.write_member(reply, member)),
        }
        set.remove_range(range);
    })?;
    let Some(updated) = updated else { return Ok(false) };
    let event = match end {
        End::Min => "zpopmin",
        End::Max => "zpopmax",
    };
    ctx.notify_update(Notify::ZSET, event, key, &updated);
    Ok(true)
}

pub(crate) fn zpopmin(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_one_key(ctx, args, End::Min)
}

pub(crate) fn zpopmax(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_one_key(ctx, args, End::Max)
}

fn pop_one_key(ctx: &mut Context<'_>, args: &[&[u8]], end: End) -> Done {
    let count = match &args[2..] {
        [] => None,
        [count] => Some(argument::count(count)?),
        _ => return Err(CommandError::Syntax),
    };
    let nested = count.is_some() && ctx.reply.is_resp3();
    if !pop(ctx, args[1], end, count.unwrap_or(1), Shape { with_key: false, nested })? {
        ctx.reply.array(0);
    }
    Ok(())
}

/// Pops from the first of `keys` that is there, or from the one that a blocked call waited for.
/// Whether there is one.
fn pop_first(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    end: End,
    count: usize,
    shape: Shape,
) -> Result<bool, CommandError> {
    if let Some(Again::Ready(ready)) = ctx.again {
        return match pop(ctx, ready, end, count, shape) {
            Err(CommandError::WrongType(_)) => Ok(false),
            popped => popped,
        };
    }
    for key in keys {
        if pop(ctx, key, end, count, shape)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn bzpopmin(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_blocking(ctx, args, End::Min)
}

pub(crate) fn bzpopmax(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    pop_blocking(ctx, args, End::Max)
}

fn pop_blocking(ctx: &mut Context<'_>, args: &[&[u8]], end: End) -> Done {
    let (timeout, keys) = args[1..].split_last().expect("the table's arity");
    let deadline_ms = argument::deadline(timeout, ctx.keyspace.now_ms())?;
    if !pop_first(ctx, keys, end, 1, Shape { with_key: true, nested: false })? {
        ctx.block(keys, deadline_ms, TimeoutReply::NullArray);
    }
    Ok(())
}

/// The arguments of ZMPOP from the number of keys on.
struct MultiPop<'a, 'b> {
    keys: &'a [&'b [u8]],
    end: End,
    count: usize,
}

impl<'a, 'b> MultiPop<'a, 'b> {
    fn parse(args: &'a [&'b [u8]]) -> Result<Self, CommandError> {
        const NO_KEYS: CommandError = CommandError::other("ERR numkeys should be greater than 0");
        const NO_COUNT: CommandError = CommandError::other("ERR count should be greater than 0");
        let positive = |text: &[u8]| argument::count(text).ok().filter(|&number| number > 0);
        let key_count = positive(args[0]).ok_or(NO_KEYS)?;
        let rest = &args[1..];
        if key_count >= rest.len() {
            return Err(CommandError::Syntax);
        }
        let (keys, rest) = rest.split_at(key_count);
        let end = match rest[0] {
            word if argument::is(word, "MIN") => End::Min,
            word if argument::is(word, "MAX") => End::Max,
            _ => return Err(CommandError::Syntax),
        };
        let count = match &rest[1..] {
            [] => 1,
            [word, count, rest @ ..] if argument::is(word, "COUNT") => {
                let count = positive(count).ok_or(NO_COUNT)?;
                if !rest.is_empty() {
                    return Err(CommandError::Syntax);
                }
                count
            }
            _ => return Err(CommandError::Syntax),
        };
        Ok(Self { keys, end, count })
    }

    fn pop(&self, ctx: &mut Context<'_>) -> Result<bool, CommandError> {
        pop_first(ctx, self.keys, self.end, self.count, Shape { with_key: true, nested: true })
    }
}

pub(crate) fn zmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    if !MultiPop::parse(&args[1..])?.pop(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(crate) fn bzmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let call = MultiPop::parse(&args[2..])?;
    let deadline_ms = argument::deadline(args[1], ctx.keyspace.now_ms())?;
    if !call.pop(ctx)? {
        ctx.block(call.keys, deadline_ms, TimeoutReply::NullArray);
    }
    Ok(())
}
