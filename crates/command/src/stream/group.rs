//! XGROUP and XACK: groups of consumers, and what they have acknowledged.

use keyspace::Notify;
use keyspace::stream::{Stream, StreamId, StreamView};

use super::id;
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::help::write_help;

/// The error that there is no such group; `what` is the sentence behind it.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(group));
    CommandError::Other(format!("NOGROUP No such key '{key}' or consumer group '{group}'").into())
}

/// The same of a stream that is there.
pub(super) fn no_group_in(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(group));
    let text = format!("NOGROUP No such consumer group '{group}' for key name '{key}'");
    CommandError::Other(text.into())
}

const NO_STREAM: CommandError = CommandError::other(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
     MKSTREAM option to create an empty stream automatically.",
);

/// The options of CREATE and SETID.
#[derive(Default)]
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: &[&[u8]], is_create: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = &args[5..];
        while let [word, rest @ ..] = words {
            words = match rest {
                rest if is_create && is(word, "MKSTREAM") => {
                    options.make_stream = true;
                    rest
                }
                [count, rest @ ..] if is(word, "ENTRIESREAD") => {
                    let count = argument::int(count)?;
                    if count < -1 {
                        let text = "ERR value for ENTRIESREAD must be positive or -1";
                        return Err(CommandError::other(text));
                    }
                    options.entries_read = u64::try_from(count).ok();
                    rest
                }
                _ => return Err(syntax_error(args)),
            };
        }
        Ok(options)
    }
}

/// What Redis says of a subcommand's arguments that it cannot make sense of.
pub(super) fn syntax_error(args: &[&[u8]]) -> CommandError {
    let command = String::from_utf8_lossy(args[0]).to_uppercase();
    let word = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
    let text = format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try {command} HELP."
    );
    CommandError::Other(text.into())
}

/// Up to which entry a group was given them.
fn last_id(
    argument: &[u8],
    stream: Option<StreamView<'_>>,
    is_strict: bool,
) -> Result<StreamId, CommandError> {
    match argument {
        b"$" => Ok(stream.map_or(StreamId::MIN, StreamView::last_id)),
        argument if is_strict => id::strict(argument),
        argument => id::parse(argument, 0),
    }
}

pub(crate) fn create(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let options = Options::parse(args, true)?;
    let (key, name) = (args[2], args[3]);
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    if stream.is_none() && !options.make_stream {
        return Err(NO_STREAM);
    }
    let last_id = last_id(args[4], stream, true)?;
    ctx.bring_stream()?;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, true, |stream| {
        stream.create();
        stream.create_group(name, last_id, options.entries_read)
    })?;
    if !updated.is_some_and(|updated| updated.value) {
        return Err(CommandError::other("BUSYGROUP Consumer Group name already exists"));
    }
    ctx.reply.ok();
    ctx.notify(Notify::STREAM, "xgroup-create", key);
    Ok(())
}

pub(crate) fn set_id(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let options = Options::parse(args, false)?;
    let (key, name) = (args[2], args[3]);
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?.ok_or(NO_STREAM)?;
    if stream.group(name).is_none() {
        return Err(no_group_in(key, name));
    }
    let last_id = last_id(args[4], Some(stream), false)?;
    ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut group = stream.group(name).expect("it was just seen");
        group.set(last_id, options.entries_read);
    })?;
    ctx.reply.ok();
    ctx.notify(Notify::STREAM, "xgroup-setid", key);
    Ok(())
}

pub(crate) fn destroy(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name) = (args[2], args[3]);
    ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?.ok_or(NO_STREAM)?;
    let updated = ctx
        .keyspace
        .update::<Stream, _>(ctx.db, key, false, |stream| stream.destroy_group(name))?;
    let is_destroyed = updated.is_some_and(|updated| updated.value);
    ctx.reply.int(i64::from(is_destroyed));
    if is_destroyed {
        // Those that wait for entries of it are told.
        ctx.keyspace.wake(ctx.db, key);
        ctx.notify(Notify::STREAM, "xgroup-destroy", key);
    }
    Ok(())
}

/// Checks that the key has a stream with this group, as XGROUP wants it.
fn check_group(ctx: &mut Context<'_>, key: &[u8], name: &[u8]) -> Done {
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?.ok_or(NO_STREAM)?;
    stream.group(name).map(|_| ()).ok_or_else(|| no_group_in(key, name))
}

pub(crate) fn create_consumer(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    check_group(ctx, key, name)?;
    let now_ms = ctx.keyspace.now_ms();
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut group = stream.group(name).expect("it was just seen");
        let is_new = group.consumer(consumer).is_none();
        if is_new {
            group.create_consumer(consumer, now_ms);
        }
        is_new
    })?;
    let is_created = updated.is_some_and(|updated| updated.value);
    if is_created {
        ctx.notify(Notify::STREAM, "xgroup-createconsumer", key);
    }
    ctx.reply.int(i64::from(is_created));
    Ok(())
}

pub(crate) fn delete_consumer(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    check_group(ctx, key, name)?;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut group = stream.group(name).expect("it was just seen");
        group.consumer(consumer).map(|consumer| group.delete_consumer(consumer))
    })?;
    let held = updated.and_then(|updated| updated.value);
    if held.is_some() {
        ctx.notify(Notify::STREAM, "xgroup-delconsumer", key);
    }
    ctx.reply.count(held.unwrap_or(0));
    Ok(())
}

pub(crate) fn help(ctx: &mut Context<'_>, _: &[&[u8]]) -> Done {
    let lines = [
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ];
    write_help(ctx.reply, "XGROUP", &lines);
    Ok(())
}

pub(crate) fn xack(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, name) = (args[1], args[2]);
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        ctx.reply.int(0);
        return Ok(());
    }
    let ids = id::all(&args[3..])?;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut group = stream.group(name).expect("it was just seen");
        ids.iter().filter(|id| group.release(**id)).count()
    })?;
    ctx.reply.count(updated.map_or(0, |updated| updated.value));
    Ok(())
}
