//! XPENDING: what a group waits to be acknowledged.

use keyspace::stream::{PendingView, Stream, StreamId};

use super::{group, id, write_id};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// Which entries are asked for.
struct Asked<'a> {
    start: StreamId,
    end: StreamId,
    count: usize,
    min_idle_ms: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// Of the words behind the group; `None` if there are none, and a summary is asked for.
    fn parse(words: &[&'a [u8]]) -> Result<Option<Self>, CommandError> {
        if words.is_empty() {
            return Ok(None);
        }
        if !(3..=6).contains(&words.len()) {
            return Err(CommandError::Syntax);
        }
        let (min_idle_ms, words) = if is(words[0], "IDLE") {
            let min_idle_ms = argument::int(words[1])?;
            if words.len() < 5 {
                return Err(CommandError::Syntax);
            }
            (min_idle_ms, &words[2..])
        } else {
            (0, words)
        };
        let count = usize::try_from(argument::int(words[2])?).unwrap_or(0);
        let (start, end) = id::interval(words[0], words[1])?;
        Ok(Some(Self { start, end, count, min_idle_ms, consumer: words.get(3).copied() }))
    }
}

pub(crate) fn xpending(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let asked = Asked::parse(&args[3..])?;
    let now_ms = ctx.keyspace.now_ms();
    let stream = ctx.keyspace.read::<Stream>(ctx.db, args[1])?;
    let group = stream.and_then(|stream| stream.group(args[2]));
    let group = group.ok_or_else(|| group::no_group(args[1], args[2]))?;
    let reply = &mut *ctx.reply;
    let Some(asked) = asked else {
        reply.array(4);
        reply.count(group.pending_count());
        let Some((first, last)) = group.pending_bounds() else {
            reply.null();
            reply.null();
            reply.null_array();
            return Ok(());
        };
        write_id(reply, first);
        write_id(reply, last);
        let (mark, mut count) = (reply.mark(), 0);
        for consumer in group.consumers().filter(|consumer| consumer.held_count() > 0) {
            reply.array(2);
            reply.bulk(consumer.name());
            reply.bulk_str(&consumer.held_count().to_string());
            count += 1;
        }
        reply.finish_array(mark, count);
        return Ok(());
    };
    let idle_ms = |pending: &PendingView<'_>| now_ms.saturating_sub(pending.delivery.at_ms);
    // What was given back is idle for any time.
    let is_asked = |pending: &PendingView<'_>| {
        let is_given_back = pending.consumer.is_none();
        is_given_back || asked.min_idle_ms == 0 || idle_ms(pending) >= asked.min_idle_ms
    };
    let (mark, mut count) = (reply.mark(), 0);
    let mut write = |pending: PendingView<'_>| {
        reply.array(4);
        write_id(reply, pending.id);
        reply.bulk(pending.consumer.unwrap_or_default());
        reply.int(pending.consumer.map_or(-1, |_| idle_ms(&pending).max(0)));
        reply.int(i64::try_from(pending.delivery.count).unwrap_or(i64::MAX));
        count += 1;
    };
    let is_within = |pending: &PendingView<'_>| pending.id <= asked.end;
    match asked.consumer.map(|name| group.consumer(name)) {
        None => {
            let pending = group.pending_from(asked.start).take_while(is_within);
            pending.filter(is_asked).take(asked.count).for_each(&mut write);
        }
        Some(None) => {}
        Some(Some(consumer)) => {
            let held = group.held_from(consumer, asked.start).take_while(is_within);
            held.filter(is_asked).take(asked.count).for_each(&mut write);
        }
    }
    reply.finish_array(mark, count);
    Ok(())
}
