//! XREAD and XREADGROUP: the entries behind an id of several streams at once.
//!
//! How much is read all told (`MAXCOUNT`, `MAXSIZE`) and what others have held for too long (`CLAIM`)
//! is in [`super::reading`].

use keyspace::Notify;
use keyspace::stream::{Stream, StreamId, StreamView};
use resp::{Protocol, Writer};

use super::reading::{Budget, Found, Reader, Reading, has_after};
use super::{id, write_entry};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// What is asked for.
struct Asked<'a, 'b> {
    /// Of each stream; 0 for all.
    count: usize,
    /// Of all streams.
    entries_max: Option<usize>,
    bytes_max: Option<usize>,
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
        let (mut entries_max, mut bytes_max, mut min_idle_ms) = (None, None, None);
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
                [number, rest @ ..] if is(word, "MAXCOUNT") => {
                    let error = "ERR MAXCOUNT must be a positive integer";
                    entries_max = Some(positive(number, error)?);
                    rest
                }
                [number, rest @ ..] if is(word, "MAXSIZE") => {
                    bytes_max = Some(positive(number, "ERR MAXSIZE must be a positive integer")?);
                    rest
                }
                [_, ..] if is(word, "CLAIM") && !is_of_group => {
                    return Err(CommandError::other(
                        "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD \
                         instead.",
                    ));
                }
                [number, rest @ ..] if is(word, "CLAIM") => {
                    min_idle_ms = Some(self::min_idle_ms(number)?);
                    rest
                }
                [_, ..] if is(word, "STREAMS") => {
                    if !rest.len().is_multiple_of(2) {
                        return Err(CommandError::other(if is_of_group {
                            "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an \
                             ID or '>' must be specified."
                        } else {
                            "ERR Unbalanced 'xread' list of streams: for each stream key an ID, \
                             '+', or '$' must be specified."
                        }));
                    }
                    let (keys, ids) = rest.split_at(rest.len() / 2);
                    let reader =
                        |(group, consumer)| Reader { group, consumer, no_ack, min_idle_ms };
                    let reader = group.map(reader);
                    if is_of_group && reader.is_none() {
                        let text = "ERR Missing GROUP option for XREADGROUP";
                        return Err(CommandError::other(text));
                    }
                    if entries_max.is_some_and(|entries_max| entries_max < count) {
                        let text = "ERR MAXCOUNT must be greater than or equal to COUNT";
                        return Err(CommandError::other(text));
                    }
                    return Ok(Self { count, entries_max, bytes_max, keys, ids, reader, block_ms });
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

    /// What a reply that begins here may have.
    fn budget(&self, reply: &Writer) -> Budget {
        Budget {
            start: reply.len(),
            entries: self.entries_max.unwrap_or(usize::MAX),
            bytes_max: self.bytes_max.unwrap_or(usize::MAX),
            is_used: false,
        }
    }

    /// How many entries of one stream are wanted.
    const fn count_of_one(&self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    /// Nothing was found: waits for it, or says so, and looks again at `look_ms`. Each id is `resolved` when the command
    /// is executed again.
    fn find_nothing(
        &self,
        ctx: &mut Context<'_>,
        args: &[&[u8]],
        look_ms: Option<i64>,
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
        ctx.block_for_changes(self.keys, deadline_ms, look_ms, args);
        Ok(())
    }
}

/// One that waits to claim looks at no more keys in a millisecond, on the average.
const KEYS_PER_MS: usize = 10;

const OUT_OF_RANGE: CommandError = CommandError::other("ERR timeout is out of range");

/// What MAXCOUNT and MAXSIZE say.
fn positive(argument: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let number = argument::int(argument).ok().filter(|number| *number > 0);
    let number = number.ok_or(CommandError::other(error))?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

/// What CLAIM says.
fn min_idle_ms(argument: &[u8]) -> Result<i64, CommandError> {
    let ms = argument::int(argument)
        .map_err(|_| CommandError::other("ERR min-idle-time is not an integer"))?;
    if ms < 0 {
        return Err(CommandError::other("ERR min-idle-time must be a positive integer"));
    }
    Ok(ms)
}

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

pub(crate) fn xread(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let asked = Asked::parse(args, false, ctx.in_script)?;
    let mut after = Vec::with_capacity(asked.ids.len());
    for (key, id) in asked.keys.iter().zip(asked.ids) {
        let stream = match ctx.keyspace.read::<Stream>(ctx.db, key) {
            // It waits on, whatever the key has become.
            Err(_) if ctx.again.is_some() => None,
            stream => stream?,
        };
        after.push(match *id {
            b"$" => stream.map_or(StreamId::MIN, StreamView::last_id),
            // The last entry that there is.
            b"+" => stream
                .and_then(StreamView::last)
                .and_then(|entry| entry.id.previous())
                .unwrap_or(StreamId::MIN),
            b">" => {
                return Err(CommandError::other(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option.",
                ));
            }
            id => id::strict(id)?,
        });
    }
    let mut budget = asked.budget(ctx.reply);
    let mut served = Served { mark: ctx.reply.mark(), count: 0 };
    for (key, after) in asked.keys.iter().zip(&after) {
        let after = *after;
        if !ctx.looks_at(key) {
            continue;
        }
        if !budget.has_room(ctx.reply) {
            break;
        }
        let Ok(stream) = ctx.keyspace.read::<Stream>(ctx.db, key) else { continue };
        if let Some(stream) = stream.filter(|stream| has_after(*stream, after)) {
            served.begin(ctx.reply, key);
            let start = after.next().expect("there is an entry behind it");
            let (mark, mut count) = (ctx.reply.mark(), 0);
            for entry in stream.range(start, StreamId::MAX).take(asked.count_of_one()) {
                if !budget.has_room(ctx.reply) {
                    break;
                }
                write_entry(ctx.reply, &entry);
                budget.spend();
                count += 1;
            }
            ctx.reply.finish_array(mark, count);
        }
    }
    if served.count == 0 {
        return asked.find_nothing(ctx, args, None, after.into_iter().map(Some));
    }
    served.finish(ctx.reply);
    Ok(())
}

pub(crate) fn xreadgroup(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let asked = Asked::parse(args, true, ctx.in_script)?;
    let reader = asked.reader.expect("it was parsed so");
    let from = from_of(ctx, &asked, reader)?;
    let mut budget = asked.budget(ctx.reply);
    let mut served = Served { mark: ctx.reply.mark(), count: 0 };
    let (now_ms, mut look_ms) = (ctx.keyspace.now_ms(), None);
    for (key, from) in asked.keys.iter().zip(&from) {
        let from = *from;
        let claims = reader.min_idle_ms.is_some();
        if !ctx.looks_at(key) || (ctx.again.is_some() && !claims && !has_new(ctx, key, reader)) {
            continue;
        }
        if !budget.has_room(ctx.reply) {
            break;
        }
        let is_again = ctx.again.is_some();
        let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
            let mut reading =
                Reading { reply: &mut *ctx.reply, budget: &mut budget, reader, now_ms };
            let count = asked.count_of_one();
            let from = match from {
                From::After(id) => Found::Held(id),
                From::New => reading.find(stream, count),
            };
            if let Found::Nothing { look_ms: at_ms } = from {
                look_ms = look_ms.into_iter().chain(at_ms).min();
                if is_again {
                    // It has not asked again.
                    return false;
                }
            }
            let mut group = stream.group(reader.group).expect("it was just seen");
            let known = group.consumer(reader.consumer);
            let consumer = known.unwrap_or_else(|| group.create_consumer(reader.consumer, now_ms));
            let is_active = match from {
                Found::Nothing { .. } => false,
                Found::Held(after) => {
                    served.begin(reading.reply, key);
                    reading.history(stream, after, count);
                    false
                }
                Found::Entries { claimable, has_new } => {
                    let is_claimed = !claimable.is_empty();
                    served.begin(reading.reply, key);
                    reading.new_entries(stream, claimable, count);
                    is_claimed || (has_new && !reader.no_ack)
                }
            };
            let mut group = stream.group(reader.group).expect("as above");
            group.note_seen(consumer, now_ms, is_active);
            known.is_none()
        })?;
        if updated.is_some_and(|updated| updated.value) {
            ctx.notify(Notify::STREAM, "xgroup-createconsumer", key);
        }
    }
    if served.count == 0 {
        // Many keys are all looked at each time, and so less often.
        let rest_ms = i64::try_from(asked.keys.len() / KEYS_PER_MS).unwrap_or(i64::MAX);
        let look_ms = look_ms.map(|look_ms| look_ms.max(now_ms.saturating_add(rest_ms)));
        return asked.find_nothing(ctx, args, look_ms, from.iter().map(|_| None));
    }
    served.finish(ctx.reply);
    Ok(())
}

/// Where a reader goes on in each stream, which must have its group.
fn from_of(
    ctx: &mut Context<'_>,
    asked: &Asked<'_, '_>,
    reader: Reader<'_>,
) -> Result<Vec<From>, CommandError> {
    let mut from = Vec::with_capacity(asked.ids.len());
    for (key, id) in asked.keys.iter().zip(asked.ids) {
        if ctx.again.is_some() {
            if ctx.looks_at(key) {
                check_group(ctx, key, reader)?;
            }
            // Others are not waited for.
            from.push(From::New);
            continue;
        }
        check_group(ctx, key, reader)?;
        from.push(match *id {
            b"$" => {
                return Err(CommandError::other(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b"+" => {
                return Err(CommandError::other(
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The + ID would just return an empty result set.",
                ));
            }
            b">" => From::New,
            id => match id::strict(id)? {
                StreamId::MAX => From::New,
                id => From::After(id),
            },
        });
    }
    Ok(from)
}

/// Refuses a key without the group; one that waits is told when it has gone.
fn check_group(ctx: &mut Context<'_>, key: &[u8], reader: Reader<'_>) -> Done {
    let stream = ctx.keyspace.read::<Stream>(ctx.db, key)?;
    if stream.and_then(|stream| stream.group(reader.group)).is_some() {
        return Ok(());
    }
    let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(reader.group));
    let text = format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    );
    Err(CommandError::Other(text.into()))
}

/// Whether there is an entry that the group was not given.
fn has_new(ctx: &mut Context<'_>, key: &[u8], reader: Reader<'_>) -> bool {
    let Ok(Some(stream)) = ctx.keyspace.read::<Stream>(ctx.db, key) else { return false };
    stream.group(reader.group).is_some_and(|group| has_after(stream, group.last_id()))
}
