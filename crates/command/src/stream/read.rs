//! XREAD and XREADGROUP: the entries behind an id of several streams at once.

use keyspace::Notify;
use keyspace::stream::{Delivery, Stream, StreamGuard, StreamId, StreamView};
use resp::{Protocol, Writer};

use super::{id, write_entries, write_entry, write_id};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// A group and a consumer of it.
#[derive(Clone, Copy)]
struct Reader<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    /// What is delivered need not be acknowledged.
    no_ack: bool,
}

/// What is asked for.
struct Asked<'a, 'b> {
    /// 0 for all.
    count: usize,
    keys: &'a [&'b [u8]],
    ids: &'a [&'b [u8]],
    reader: Option<Reader<'b>>,
    /// How long to wait, in milliseconds (0: for ever).
    block_ms: Option<i64>,
}

impl<'a, 'b> Asked<'a, 'b> {
    fn parse(
        args: &'a [&'b [u8]],
        is_of_group: bool,
        in_script: bool,
    ) -> Result<Self, CommandError> {
        let (mut count, mut group, mut no_ack, mut block_ms) = (0, None, false, None);
        let mut words = &args[1..];
        while let [word, rest @ ..] = words {
            words = match rest {
                [timeout, rest @ ..] if is(word, "BLOCK") => {
                    if in_script {
                        let command = String::from_utf8_lossy(args[0]);
                        let text = format!(
                            "ERR {command} command is not allowed with BLOCK option from scripts"
                        );
                        return Err(CommandError::Other(text.into()));
                    }
                    block_ms = Some(timeout_ms(timeout)?);
                    rest
                }
                [number, rest @ ..] if is(word, "COUNT") => {
                    count = usize::try_from(argument::int(number)?).unwrap_or(0);
                    rest
                }
                [_, ..] if is(word, "STREAMS") => {
                    if !rest.len().is_multiple_of(2) {
                        return Err(CommandError::other(
                            "ERR Unbalanced XREAD list of streams: for each stream key an ID or \
                             '$' must be specified.",
                        ));
                    }
                    let (keys, ids) = rest.split_at(rest.len() / 2);
                    let reader = group.map(|(group, consumer)| Reader { group, consumer, no_ack });
                    if is_of_group && reader.is_none() {
                        let text = "ERR Missing GROUP option for XREADGROUP";
                        return Err(CommandError::other(text));
                    }
                    return Ok(Self { count, keys, ids, reader, block_ms });
                }
                [_, _, ..] if is(word, "GROUP") && !is_of_group => {
                    return Err(CommandError::other(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD \
                         instead.",
                    ));
                }
                [name, consumer, rest @ ..] if is(word, "GROUP") => {
                    group = Some((*name, *consumer));
                    rest
                }
                _ if is(word, "NOACK") && !is_of_group => {
                    return Err(CommandError::other(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD \
                         instead.",
                    ));
                }
                rest if is(word, "NOACK") => {
                    no_ack = true;
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Err(CommandError::Syntax)
    }

    /// Nothing was found: waits for it, or says so. Each id is `resolved` when the command is executed again.
    fn find_nothing(
        &self,
        ctx: &mut Context<'_>,
        args: &[&[u8]],
        resolved: impl Iterator<Item = Option<StreamId>>,
    ) -> Done {
        let Some(block_ms) = self.block_ms else {
            ctx.reply.null_array();
            return Ok(());
        };
        let deadline_ms = match block_ms {
            0 => None,
            ms => Some(ctx.keyspace.now_ms().checked_add(ms).ok_or(OUT_OF_RANGE)?),
        };
        let mut args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
        let first = args.len() - self.ids.len();
        for (arg, id) in args[first..].iter_mut().zip(resolved) {
            if let Some(id) = id {
                *arg = id.to_string().into_bytes();
            }
        }
        ctx.block_for_changes(self.keys, deadline_ms, args);
        Ok(())
    }
}

const OUT_OF_RANGE: CommandError = CommandError::other("ERR timeout is out of range");

/// What BLOCK says.
fn timeout_ms(argument: &[u8]) -> Result<i64, CommandError> {
    let ms = argument::int(argument)
        .map_err(|_| CommandError::other("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(CommandError::other("ERR timeout is negative"));
    }
    Ok(ms)
}

/// Where a reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    After(StreamId),
    /// Behind what the group was given.
    New,
}

/// The streams that have been served.
struct Served {
    mark: resp::Mark,
    count: usize,
}

impl Served {
    fn begin(&mut self, reply: &mut Writer, key: &[u8]) {
        self.count += 1;
        if reply.protocol() == Protocol::Resp2 {
            reply.array(2);
        }
        reply.bulk(key);
    }

    fn finish(self, reply: &mut Writer) {
        match (self.count, reply.protocol()) {
            (0, _) => reply.null_array(),
            (count, Protocol::Resp2) => reply.finish_array(self.mark, count),
            (count, Protocol::Resp3) => reply.finish_map(self.mark, count),
        }
    }
}

/// Whether the stream has an entry behind this one.
fn has_after(stream: StreamView<'_>, id: StreamId) -> bool {
    stream.last().is_some_and(|last| last.id > id)
}

/// Whether a command that waited looks at this key.
fn is_looked_at(ctx: &Context<'_>, key: &[u8]) -> bool {
    ctx.ready.is_none_or(|ready| ready == key)
}

pub(crate) fn xread(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let asked = Asked::parse(args, false, ctx.in_script)?;
    let mut after = Vec::with_capacity(asked.ids.len());
    for (key, id) in asked.keys.iter().zip(asked.ids) {
        let stream = match ctx.keyspace.read::<Stream>(ctx.db, key) {
            // It waits on, whatever the key has become.
            Err(_) if ctx.ready.is_some() => None,
            stream => stream?,
        };
        after.push(match *id {
            b"$" => stream.map_or(StreamId::MIN, StreamView::last_id),
            b">" => {
                return Err(CommandError::other(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option.",
                ));
            }
            id => id::strict(id)?,
        });
    }
    let mut served = Served { mark: ctx.reply.mark(), count: 0 };
    for (key, after) in asked.keys.iter().zip(&after) {
        let after = *after;
        if !is_looked_at(ctx, key) {
            continue;
        }
        let Ok(stream) = ctx.keyspace.read::<Stream>(ctx.db, key) else { continue };
        if let Some(stream) = stream.filter(|stream| has_after(*stream, after)) {
            served.begin(ctx.reply, key);
            let start = after.next().expect("there is an entry behind it");
            write_entries(ctx.reply, stream.range(start, StreamId::MAX), asked.count);
        }
    }
    if served.count == 0 {
        return asked.find_nothing(ctx, args, after.into_iter().map(Some));
    }
    served.finish(ctx.reply);
    Ok(())
}

pub(crate) fn xreadgroup(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let asked = Asked::parse(args, true, ctx.in_script)?;
    let reader = asked.reader.expect("it was parsed so");
    let mut from = Vec::with_capacity(asked.ids.len());
    for (key, id) in asked.keys.iter().zip(asked.ids) {
        if ctx.ready.is_some() {
            check_ready(ctx, key, reader)?;
            // Others are not waited for.
            from.push(From::New);
            continue;
        }
        let stream = ctx.keyspace.read::<Stream>(ctx.db, key)?;
        if stream.and_then(|stream| stream.group(reader.group)).is_none() {
            let (key, group) =
                (String::from_utf8_lossy(key), String::from_utf8_lossy(reader.group));
            let text = format!(
                "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
            );
            return Err(CommandError::Other(text.into()));
        }
        from.push(match *id {
            b"$" => {
                return Err(CommandError::other(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b">" => From::New,
            id => match id::strict(id)? {
                StreamId::MAX => From::New,
                id => From::After(id),
            },
        });
    }
    let mut served = Served { mark: ctx.reply.mark(), count: 0 };
    let now_ms = ctx.keyspace.now_ms();
    for (key, from) in asked.keys.iter().zip(&from) {
        let from = *from;
        if !is_looked_at(ctx, key) || (ctx.ready.is_some() && !has_new(ctx, key, reader)) {
            continue;
        }
        let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
            let mut group = stream.group(reader.group).expect("it was just seen");
            let known = group.consumer(reader.consumer);
            if known.is_none() {
                group.create_consumer(reader.consumer, now_ms);
            }
            let last_id = group.view().last_id();
            let is_active = match from {
                From::After(id) => {
                    served.begin(ctx.reply, key);
                    history(ctx.reply, stream, reader, id, asked.count, now_ms);
                    false
                }
                From::New => {
                    let is_served = has_after(stream.view(), last_id);
                    if is_served {
                        served.begin(ctx.reply, key);
                        new_entries(ctx.reply, stream, reader, last_id, asked.count, now_ms);
                    }
                    is_served && !reader.no_ack
                }
            };
            let mut group = stream.group(reader.group).expect("as above");
            let consumer = group.consumer(reader.consumer).expect("it was made");
            group.note_seen(consumer, now_ms, is_active);
            known.is_none()
        })?;
        if updated.is_some_and(|updated| updated.value) {
            ctx.notify(Notify::STREAM, "xgroup-createconsumer", key);
        }
    }
    if served.count == 0 {
        return asked.find_nothing(ctx, args, from.iter().map(|_| None));
    }
    served.finish(ctx.reply);
    Ok(())
}

/// What one that waits for entries of a group is told when there cannot be any more.
fn check_ready(ctx: &mut Context<'_>, key: &[u8], reader: Reader<'_>) -> Done {
    if !is_looked_at(ctx, key) {
        return Ok(());
    }
    let Ok(Some(stream)) = ctx.keyspace.read::<Stream>(ctx.db, key) else {
        return Err(CommandError::other("UNBLOCKED the stream key no longer exists"));
    };
    match stream.group(reader.group) {
        Some(_) => Ok(()),
        None => Err(CommandError::other(
            "NOGROUP the consumer group this client was blocked on no longer exists",
        )),
    }
}

/// Whether there is an entry that the group was not given.
fn has_new(ctx: &mut Context<'_>, key: &[u8], reader: Reader<'_>) -> bool {
    let Ok(Some(stream)) = ctx.keyspace.read::<Stream>(ctx.db, key) else { return false };
    stream.group(reader.group).is_some_and(|group| has_after(stream, group.last_id()))
}

/// Entries that the group was not given yet.
fn new_entries(
    reply: &mut Writer,
    stream: &mut StreamGuard<'_>,
    reader: Reader<'_>,
    last_id: StreamId,
    count: usize,
    now_ms: i64,
) {
    let start = last_id.next().expect("there is an entry behind it");
    let ids = write_entries(reply, stream.view().range(start, StreamId::MAX), count);
    let mut group = stream.group(reader.group).expect("the caller has seen it");
    let consumer = group.consumer(reader.consumer).expect("the caller has seen it");
    for id in ids {
        group.advance(id);
        if !reader.no_ack {
            group.deliver(consumer, id, Delivery { at_ms: now_ms, count: 1 });
        }
    }
}

/// Entries that the consumer holds.
fn history(
    reply: &mut Writer,
    stream: &mut StreamGuard<'_>,
    reader: Reader<'_>,
    after: StreamId,
    count: usize,
    now_ms: i64,
) {
    let view = stream.view();
    let group = view.group(reader.group).expect("the caller has seen it");
    let consumer = group.consumer(reader.consumer).expect("the caller has seen it");
    let start = after.next().expect("the greatest id means something else");
    let (mark, mut written, mut again) = (reply.mark(), 0, Vec::new());
    for held in group.held_from(consumer, start).take(if count == 0 { usize::MAX } else { count }) {
        match view.get(held.id) {
            Some(entry) => {
                write_entry(reply, &entry);
                let count = held.delivery.count.saturating_add(1);
                again.push((held.id, Delivery { at_ms: now_ms, count }));
            }
            None => {
                reply.array(2);
                write_id(reply, held.id);
                reply.null_array();
            }
        }
        written += 1;
    }
    reply.finish_array(mark, written);
    let mut group = stream.group(reader.group).expect("as above");
    let consumer = group.consumer(reader.consumer).expect("as above");
    again.into_iter().for_each(|(id, delivery)| group.deliver(consumer, id, delivery));
}
