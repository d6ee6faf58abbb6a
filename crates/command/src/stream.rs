//! Stream commands: entries. What groups of consumers do is in [`group`] and [`claim`], how entries are read in
//! [`read`], what a stream tells of itself in [`info`].

pub(crate) mod claim;
pub(crate) mod dump;
pub(crate) mod group;
mod id;
pub(crate) mod info;
mod message;
pub(crate) mod nack;
mod options;
pub(crate) mod pending;
pub(crate) mod read;
mod reading;

use std::borrow::Cow;

use keyspace::stream::{
    MessageLimits, Removal, Stream, StreamEntry, StreamGuard, StreamId, StreamView,
};
use keyspace::{Notify, Settings};
use resp::Writer;

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
pub use dump::{add_group, set_numbers};
use options::{AddId, AddOptions, RemoveOptions};

/// An entry has at most so many bytes of names and values, as in Redis.
const ENTRY_BYTES_MAX: usize = 1 << 30;

// What is known of others is not given up for one: each may repeat what it was not answered.
const TOO_MANY_PRODUCERS: CommandError = CommandError::other(
    "ERR the stream knows too many producers; use fewer names for them, or a shorter IDMP-DURATION (see XCFGSET)",
);

fn write_id(reply: &mut Writer, id: StreamId) {
    reply.bulk_str(&id.to_string());
}

/// An entry: its id, and names and values in turn.
fn write_entry(reply: &mut Writer, entry: &StreamEntry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    write_pairs(reply, entry);
}

/// The names and values of an entry in turn.
fn write_pairs(reply: &mut Writer, entry: &StreamEntry<'_>) {
    reply.array(entry.len() * 2);
    for (name, value) in entry.pairs() {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// As many entries as are asked for (0: all).
fn write_entries<'a>(
    reply: &mut Writer,
    entries: impl Iterator<Item = StreamEntry<'a>>,
    count: usize,
) {
    let (mark, mut written) = (reply.mark(), 0);
    for entry in entries.take(if count == 0 { usize::MAX } else { count }) {
        write_entry(reply, &entry);
        written += 1;
    }
    reply.finish_array(mark, written);
}

pub(crate) fn xadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (options, rest) = AddOptions::parse(&args[2..], ctx.keyspace.settings())?;
    let key = args[1];
    if rest.len() < 2 || !rest.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("xadd".into()));
    }
    if options.id == AddId::Whole(StreamId::MIN) {
        return Err(CommandError::other("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let now_ms = ctx.keyspace.now_ms();
    let message = options.message.map(|message| {
        let automatic = || Cow::Owned(message::name_of(rest).to_vec());
        let name = message.name.map_or_else(automatic, message::shortened);
        (message::shortened(message.producer), name)
    });
    if message.is_none() && options.trim.is_none() {
        return add_at_the_end(ctx, key, &options, rest);
    }
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    if stream.is_none() && options.no_mkstream {
        ctx.reply.null();
        return Ok(());
    }
    if let (Some(stream), Some((producer, name))) = (stream, &message)
        && let Some(id) = stream.message(producer, name, now_ms)
    {
        write_id(ctx.reply, id);
        return Ok(());
    }
    if let (Some(stream), Some((producer, _))) = (stream, &message)
        && !stream.has_room_for_message(producer, now_ms)
    {
        return Err(TOO_MANY_PRODUCERS);
    }
    let last_id = stream.map_or(StreamId::MIN, StreamView::last_id);
    let id = next_id(&options, last_id, now_ms, rest)?;
    if message.is_some() {
        ctx.bring_message()?;
    } else {
        ctx.bring_stream()?;
    }
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, true, |stream| {
        stream.append(id, rest);
        if let Some((producer, name)) = &message {
            stream.note_message(producer, name, id, now_ms);
        }
        options.trim.map_or(0, |trim| stream.trim_with(trim, options.references))
    })?;
    write_id(ctx.reply, id);
    ctx.notify(Notify::STREAM, "xadd", key);
    if updated.is_some_and(|updated| updated.value > 0) {
        ctx.notify(Notify::STREAM, "xtrim", key);
    }
    Ok(())
}

/// The id of an entry of these names and values behind the one with `last_id`.
fn next_id(
    options: &AddOptions<'_>,
    last_id: StreamId,
    now_ms: i64,
    pairs: &[&[u8]],
) -> Result<StreamId, CommandError> {
    if last_id == StreamId::MAX {
        return Err(CommandError::other(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    let id = options.id.after(last_id, now_ms).filter(|id| *id > last_id);
    let id = id.ok_or(CommandError::other(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    ))?;
    if pairs.iter().map(|part| part.len()).sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(CommandError::other("ERR Elements are too large to be stored"));
    }
    Ok(id)
}

/// XADD that only adds: of a stream that is not in memory it needs the end alone.
fn add_at_the_end(
    ctx: &mut Context<'_>,
    key: &[u8],
    options: &AddOptions<'_>,
    pairs: &[&[u8]],
) -> Done {
    let last_id = ctx.keyspace.stream_end(ctx.db, key)?;
    if ctx.keyspace.has_restore_failure() {
        // It may be there: the caller says why that is not known.
        return Ok(());
    }
    if last_id.is_none() && options.no_mkstream {
        ctx.reply.null();
        return Ok(());
    }
    let id = next_id(options, last_id.unwrap_or(StreamId::MIN), ctx.keyspace.now_ms(), pairs)?;
    ctx.bring_stream()?;
    ctx.keyspace.append_to_stream(ctx.db, key, id, pairs)?;
    write_id(ctx.reply, id);
    ctx.notify(Notify::STREAM, "xadd", key);
    Ok(())
}

/// Whether an XADD only adds: of a stream that is not in memory it needs the end alone.
#[must_use]
pub fn adds_at_the_end(args: &[&[u8]]) -> bool {
    let options = AddOptions::parse(args.get(2..).unwrap_or_default(), &Settings::default());
    options.is_ok_and(|(options, _)| options.message.is_none() && options.trim.is_none())
}

pub(crate) fn xlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let stream = ctx.keyspace.read::<Stream>(ctx.db, args[1])?;
    ctx.reply.count(stream.map_or(0, StreamView::len));
    Ok(())
}

pub(crate) fn xrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    range(ctx, args, args[2], args[3], false)
}

pub(crate) fn xrevrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    range(ctx, args, args[3], args[2], true)
}

fn range(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    start: &[u8],
    end: &[u8],
    is_reversed: bool,
) -> Done {
    let (start, end) = id::interval(start, end)?;
    let mut count = None;
    let mut options = &args[4..];
    while let [word, rest @ ..] = options {
        let [number, rest @ ..] = rest else { return Err(CommandError::Syntax) };
        if !argument::is(word, "COUNT") {
            return Err(CommandError::Syntax);
        }
        count = Some(usize::try_from(argument::int(number)?).unwrap_or(0));
        options = rest;
    }
    let Some(stream) = ctx.keyspace.read::<Stream>(ctx.db, args[1])? else {
        ctx.reply.array(0);
        return Ok(());
    };
    match count {
        Some(0) => ctx.reply.null_array(),
        count if is_reversed => {
            write_entries(ctx.reply, stream.range_back(start, end), count.unwrap_or(0));
        }
        count => {
            write_entries(ctx.reply, stream.range(start, end), count.unwrap_or(0));
        }
    }
    Ok(())
}

pub(crate) fn xdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    if ctx.keyspace.read_to_change::<Stream>(ctx.db, args[1])?.is_none() {
        ctx.reply.int(0);
        return Ok(());
    }
    let ids = id::all(&args[2..])?;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, args[1], false, |stream| {
        ids.iter().filter(|id| stream.delete(**id)).count()
    })?;
    let deleted = updated.map_or(0, |updated| updated.value);
    if deleted > 0 {
        ctx.notify(Notify::STREAM, "xdel", args[1]);
    }
    ctx.reply.count(deleted);
    Ok(())
}

/// Sets how long what producers add is known.
pub(crate) fn xcfgset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let of_new = ctx.keyspace.settings().message_limits;
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, args[1])?;
    let stream = stream.ok_or(CommandError::NoSuchKey)?;
    let mut limits = stream.producers().map_or(of_new, |it| it.limits);
    if args.len() == 2 {
        return Err(CommandError::other("ERR At least one parameter must be specified"));
    }
    let mut words = &args[2..];
    while let [word, rest @ ..] = words {
        let [number, rest @ ..] = rest else { return Err(CommandError::Syntax) };
        let number_to = |max: u32, error: &'static str| {
            let number = u32::try_from(argument::int(number)?).ok();
            let number = number.filter(|number| (1..=max).contains(number));
            number.ok_or(CommandError::other(error))
        };
        if argument::is(word, "IDMP-DURATION") {
            let error = "ERR IDMP-DURATION must be between 1 and 86400 seconds";
            limits.duration_s = number_to(MessageLimits::DURATION_S_MAX, error)?;
        } else if argument::is(word, "IDMP-MAXSIZE") {
            let error = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
            limits.messages_max = number_to(MessageLimits::MESSAGES_MAX, error)?;
        } else {
            return Err(CommandError::Syntax);
        }
        words = rest;
    }
    ctx.bring_message()?;
    ctx.keyspace.update::<Stream, _>(ctx.db, args[1], false, |stream| {
        stream.set_message_limits(limits);
    })?;
    ctx.reply.ok();
    Ok(())
}

/// What XDELEX and XACKDEL say of an entry that is not there, or does not wait.
const ABSENT: i64 = -1;

/// What they say of any other one.
const fn outcome(removal: Removal) -> i64 {
    match removal {
        Removal::Absent => ABSENT,
        Removal::Removed => 1,
        Removal::Needed => 2,
    }
}

pub(crate) fn xdelex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let is_there = ctx.keyspace.read_to_change::<Stream>(ctx.db, args[1])?.is_some();
    let RemoveOptions { references, ids } = RemoveOptions::parse(&args[2..])?;
    remove(ctx, args[1], is_there, ids, |stream, id| outcome(stream.delete_with(id, references)))
}

/// Removes entries one by one and says what became of each; there is none of them unless `is_there`.
fn remove(
    ctx: &mut Context<'_>,
    key: &[u8],
    is_there: bool,
    ids: &[&[u8]],
    mut remove: impl FnMut(&mut StreamGuard<'_>, StreamId) -> i64,
) -> Done {
    if !is_there {
        ctx.reply.array(ids.len());
        ids.iter().for_each(|_| ctx.reply.int(ABSENT));
        return Ok(());
    }
    let ids = id::all(ids)?;
    let reply = &mut *ctx.reply;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let before = stream.view().len();
        reply.array(ids.len());
        ids.into_iter().for_each(|id| reply.int(remove(stream, id)));
        stream.view().len() < before
    })?;
    if updated.is_some_and(|updated| updated.value) {
        ctx.notify(Notify::STREAM, "xdel", key);
    }
    Ok(())
}

pub(crate) fn xackdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name) = (args[1], args[2]);
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    let is_there = stream.is_some_and(|stream| stream.group(name).is_some());
    let RemoveOptions { references, ids } = RemoveOptions::parse(&args[3..])?;
    remove(ctx, key, is_there, ids, |stream, id| {
        if !stream.group(name).expect("it was just seen").release(id) {
            return ABSENT;
        }
        match stream.delete_with(id, references) {
            // What the group waited for was deleted before.
            Removal::Absent => outcome(Removal::Removed),
            removal => outcome(removal),
        }
    })
}

pub(crate) fn xtrim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (trim, references) = options::trim(&args[2..], ctx.keyspace.settings())?;
    let updated = ctx
        .keyspace
        .update::<Stream, _>(ctx.db, args[1], false, |stream| stream.trim_with(trim, references))?;
    let removed = updated.map_or(0, |updated| updated.value);
    if removed > 0 {
        ctx.notify(Notify::STREAM, "xtrim", args[1]);
    }
    ctx.reply.int(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn xsetid(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let last_id = id::strict(args[2])?;
    let (mut added, mut max_deleted_id) = (None, None);
    let mut options = &args[3..];
    while let [word, rest @ ..] = options {
        options = match rest {
            [number, rest @ ..] if argument::is(word, "ENTRIESADDED") => {
                let number = u64::try_from(argument::int(number)?);
                added = Some(
                    number
                        .map_err(|_| CommandError::other("ERR entries_added must be positive"))?,
                );
                rest
            }
            [id, rest @ ..] if argument::is(word, "MAXDELETEDID") => {
                let id = id::strict(id)?;
                if last_id < id {
                    return Err(CommandError::other(
                        "ERR The ID specified in XSETID is smaller than the provided \
                         max_deleted_entry_id",
                    ));
                }
                max_deleted_id = Some(id).filter(|id| *id != StreamId::MIN);
                rest
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, args[1])?;
    let stream = stream.ok_or(CommandError::NoSuchKey)?;
    if last_id < stream.max_deleted_id() {
        return Err(CommandError::other(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if let Some(top) = stream.last() {
        if last_id < top.id {
            return Err(CommandError::other(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| added < stream.len() as u64) {
            return Err(CommandError::other(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    ctx.keyspace.update::<Stream, _>(ctx.db, args[1], false, |stream| {
        stream.set_ids(last_id, added, max_deleted_id);
    })?;
    ctx.reply.ok();
    ctx.notify(Notify::STREAM, "xsetid", args[1]);
    Ok(())
}
