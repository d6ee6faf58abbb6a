//! XINFO: what a stream, its groups and their consumers are.

use keyspace::stream::{ConsumerView, GroupView, ProducersView, Stream, StreamId, StreamView};
use resp::Writer;

use super::{group, write_entries, write_entry, write_id};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::help::write_help;

fn write_number(reply: &mut Writer, name: &str, number: u64) {
    reply.bulk_str(name);
    reply.int(i64::try_from(number).unwrap_or(i64::MAX));
}

fn write_named_id(reply: &mut Writer, name: &str, id: StreamId) {
    reply.bulk_str(name);
    write_id(reply, id);
}

/// When something happened, in Unix milliseconds; -1 for never.
fn write_time(reply: &mut Writer, name: &str, at_ms: Option<i64>) {
    reply.bulk_str(name);
    reply.int(at_ms.unwrap_or(-1));
}

pub(crate) fn consumers(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let now_ms = ctx.keyspace.now_ms();
    let stream = ctx.keyspace.read::<Stream>(ctx.db, args[2])?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.group(args[3]).ok_or_else(|| group::no_group_in(args[2], args[3]))?;
    let reply = &mut *ctx.reply;
    reply.array(group.consumer_count());
    let since = |at_ms: i64| now_ms.saturating_sub(at_ms).max(0);
    for consumer in group.consumers() {
        reply.map(4);
        reply.bulk_str("name");
        reply.bulk(consumer.name());
        write_number(reply, "pending", consumer.held_count() as u64);
        write_time(reply, "idle", Some(since(consumer.seen_ms())));
        write_time(reply, "inactive", consumer.active_ms().map(since));
    }
    Ok(())
}

pub(crate) fn groups(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let stream = ctx.keyspace.read::<Stream>(ctx.db, args[2])?.ok_or(CommandError::NoSuchKey)?;
    let reply = &mut *ctx.reply;
    reply.array(stream.group_count());
    for group in stream.groups() {
        reply.map(6);
        reply.bulk_str("name");
        reply.bulk(group.name());
        write_number(reply, "consumers", group.consumer_count() as u64);
        write_number(reply, "pending", group.pending_count() as u64);
        write_read(reply, stream, group);
    }
    Ok(())
}

/// What a group was given, and what it still has to be.
fn write_read(reply: &mut Writer, stream: StreamView<'_>, group: GroupView<'_>) {
    write_named_id(reply, "last-delivered-id", group.last_id());
    let read = group.entries_read().map(|read| i64::try_from(read).unwrap_or(i64::MAX));
    for (name, number) in [("entries-read", read), ("lag", stream.lag(group))] {
        reply.bulk_str(name);
        match number {
            Some(number) => reply.int(number),
            None => reply.null(),
        }
    }
}

pub(crate) fn help(ctx: &mut Context<'_>, _: &[&[u8]]) -> Done {
    let lines = [
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ];
    write_help(ctx.reply, "XINFO", &lines);
    Ok(())
}

pub(crate) fn stream(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    /// So many entries, and pending ones, are told in full.
    const COUNT: usize = 10;
    let stream = ctx.keyspace.read::<Stream>(ctx.db, args[2])?.ok_or(CommandError::NoSuchKey)?;
    let full = match args[3..] {
        [] => None,
        [word] if is(word, "FULL") => Some(COUNT),
        [word, option, count] if is(word, "FULL") && is(option, "COUNT") => {
            Some(usize::try_from(argument::int(count)?).unwrap_or(COUNT))
        }
        _ => return Err(group::syntax_error(args)),
    };
    let reply = &mut *ctx.reply;
    // A stream that knows of no producer has the fields that it has in Redis 7.
    let of_producers = stream.producers();
    let fields = if full.is_some() { 9 } else { 10 };
    reply.map(fields + if of_producers.is_some() { 4 } else { 0 });
    write_number(reply, "length", stream.len() as u64);
    // There is no radix tree: these are the nodes, and what points to them.
    write_number(reply, "radix-tree-keys", stream.node_count() as u64);
    write_number(reply, "radix-tree-nodes", stream.node_count() as u64 + 1);
    write_named_id(reply, "last-generated-id", stream.last_id());
    write_named_id(reply, "max-deleted-entry-id", stream.max_deleted_id());
    write_number(reply, "entries-added", stream.entries_added());
    let first_id = stream.first().map_or(StreamId::MIN, |entry| entry.id);
    write_named_id(reply, "recorded-first-entry-id", first_id);
    if let Some(ProducersView { limits, producers, messages }) = of_producers {
        write_number(reply, "idmp-duration", limits.duration_s.into());
        write_number(reply, "idmp-maxsize", limits.messages_max.into());
        write_number(reply, "pids-tracked", producers as u64);
        write_number(reply, "iids-tracked", messages as u64);
    }
    match full {
        None => {
            write_number(reply, "groups", stream.group_count() as u64);
            for (name, entry) in [("first-entry", stream.first()), ("last-entry", stream.last())] {
                reply.bulk_str(name);
                match entry {
                    Some(entry) => write_entry(reply, &entry),
                    None => reply.null(),
                }
            }
        }
        Some(count) => {
            reply.bulk_str("entries");
            write_entries(reply, stream.range(StreamId::MIN, StreamId::MAX), count);
            reply.bulk_str("groups");
            reply.array(stream.group_count());
            stream.groups().for_each(|group| write_group(reply, stream, group, count));
        }
    }
    Ok(())
}

/// A group with all that it has, as far as `count` goes (0: all).
fn write_group(reply: &mut Writer, stream: StreamView<'_>, group: GroupView<'_>, count: usize) {
    let count = if count == 0 { usize::MAX } else { count };
    reply.map(7);
    reply.bulk_str("name");
    reply.bulk(group.name());
    write_read(reply, stream, group);
    write_number(reply, "pel-count", group.pending_count() as u64);
    reply.bulk_str("pending");
    reply.array(group.pending_count().min(count));
    for pending in group.pending_from(StreamId::MIN).take(count) {
        reply.array(4);
        write_id(reply, pending.id);
        reply.bulk(pending.consumer.unwrap_or_default());
        reply.int(pending.delivery.at_ms);
        reply.int(i64::try_from(pending.delivery.count).unwrap_or(i64::MAX));
    }
    reply.bulk_str("consumers");
    reply.array(group.consumer_count());
    group.consumers().for_each(|consumer| write_consumer(reply, group, consumer, count));
}

fn write_consumer(
    reply: &mut Writer,
    group: GroupView<'_>,
    consumer: ConsumerView<'_>,
    count: usize,
) {
    reply.map(5);
    reply.bulk_str("name");
    reply.bulk(consumer.name());
    write_time(reply, "seen-time", Some(consumer.seen_ms()));
    write_time(reply, "active-time", consumer.active_ms());
    write_number(reply, "pel-count", consumer.held_count() as u64);
    reply.bulk_str("pending");
    reply.array(consumer.held_count().min(count));
    for held in group.held_from(consumer, StreamId::MIN).take(count) {
        reply.array(3);
        write_id(reply, held.id);
        reply.int(held.delivery.at_ms);
        reply.int(i64::try_from(held.delivery.count).unwrap_or(i64::MAX));
    }
}
