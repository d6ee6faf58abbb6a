//! When fields of hashes expire: HEXPIRE, HTTL, HPERSIST and their like; HGETEX, HSETEX and HGETDEL.
//!
//! All times are kept as Unix milliseconds, up to 46 bits of them as in Redis. A time that has come removes the
//! field at once, and says so with `hdel` instead of `hexpire`.

use keyspace::hash::{Field, Hash};
use keyspace::{Notify, parse_int};

use crate::argument::{self, TimeUnit, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

const SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: false };
const MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: false };
const UNIX_SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: true };
const UNIX_MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: true };

/// No field expires later, in Unix milliseconds.
const TIME_MS_MAX: i64 = (1 << 46) - 1;

/// Replies of a field that is not there, that its condition forbids, whose expiry was set, and that was removed.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_MET: i64 = 0;
const SET: i64 = 1;
const REMOVED: i64 = 2;

const NO_FIELDS: CommandError =
    CommandError::other("ERR Mandatory argument FIELDS is missing or not at the right position");
const OTHER_NUMBER: CommandError =
    CommandError::other("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: CommandError =
    CommandError::other("ERR Number of fields must be a positive integer");

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field …
pub(crate) fn hexpire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "hexpire", SECONDS)
}

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field …
pub(crate) fn hpexpire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "hpexpire", MILLISECONDS)
}

/// HEXPIREAT key seconds-since-epoch [NX | XX | GT | LT] FIELDS numfields field …
pub(crate) fn hexpireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "hexpireat", UNIX_SECONDS)
}

/// HPEXPIREAT key milliseconds-since-epoch [NX | XX | GT | LT] FIELDS numfields field …
pub(crate) fn hpexpireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "hpexpireat", UNIX_MILLISECONDS)
}

/// HTTL key FIELDS numfields field …
pub(crate) fn httl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args, SECONDS)
}

/// HPTTL key FIELDS numfields field …
pub(crate) fn hpttl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args, MILLISECONDS)
}

/// HEXPIRETIME key FIELDS numfields field …
pub(crate) fn hexpiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args, UNIX_SECONDS)
}

/// HPEXPIRETIME key FIELDS numfields field …
pub(crate) fn hpexpiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args, UNIX_MILLISECONDS)
}

/// When something expires that is said to expire at `given` in this unit.
fn moment(
    ctx: &Context<'_>,
    given: i64,
    unit: TimeUnit,
    name: &'static str,
) -> Result<i64, CommandError> {
    if given < 0 {
        return Err(CommandError::other("ERR invalid expire time, must be >= 0"));
    }
    let at_ms = unit.at_ms(given, ctx.keyspace.now_ms()).filter(|at_ms| *at_ms <= TIME_MS_MAX);
    at_ms.ok_or(CommandError::InvalidExpire(name.into()))
}

/// The fields behind FIELDS and their number, which is the first of `words` if they are there.
fn fields_of<'a, 'b>(
    words: &'a [&'b [u8]],
    no_number: CommandError,
) -> Result<&'a [&'b [u8]], CommandError> {
    let [word, count, fields @ ..] = words else { return Err(NO_FIELDS) };
    if !is(word, "FIELDS") {
        return Err(NO_FIELDS);
    }
    let Some(count) = parse_int(count).filter(|count| *count > 0) else { return Err(no_number) };
    if usize::try_from(count) == Ok(fields.len()) { Ok(fields) } else { Err(OTHER_NUMBER) }
}

/// The condition on a field's present expiry. A field that does not expire counts as expiring last.
#[derive(Clone, Copy)]
enum Condition {
    None,
    Without,
    With,
    Later,
    Earlier,
}

impl Condition {
    fn of(word: &[u8]) -> Self {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => Self::Without,
            b"xx" => Self::With,
            b"gt" => Self::Later,
            b"lt" => Self::Earlier,
            _ => Self::None,
        }
    }

    fn allows(self, present: Option<i64>, wanted: i64) -> bool {
        match self {
            Self::None => true,
            Self::Without => present.is_none(),
            Self::With => present.is_some(),
            Self::Later => present.is_some_and(|present| wanted > present),
            Self::Earlier => present.is_none_or(|present| wanted < present),
        }
    }
}

/// Whether the key has a hash.
fn has_hash(ctx: &mut Context<'_>, key: &[u8]) -> Result<bool, CommandError> {
    Ok(ctx.keyspace.read_to_change::<Hash>(ctx.db, key)?.is_some())
}

fn write_replies(ctx: &mut Context<'_>, replies: &[i64]) {
    ctx.reply.array(replies.len());
    replies.iter().for_each(|reply| ctx.reply.int(*reply));
}

fn set_expiry(ctx: &mut Context<'_>, args: &[&[u8]], name: &'static str, unit: TimeUnit) -> Done {
    let key = args[1];
    let is_there = has_hash(ctx, key)?;
    let at_ms = moment(ctx, argument::int(args[2])?, unit, name)?;
    let condition = Condition::of(args[3]);
    let words = if matches!(condition, Condition::None) { &args[3..] } else { &args[4..] };
    let no_number = CommandError::other("ERR Parameter `numFields` should be greater than 0");
    let fields = fields_of(words, no_number)?;
    if !is_there {
        write_replies(ctx, &vec![NO_FIELD; fields.len()]);
        return Ok(());
    }
    let has_come = ctx.keyspace.has_come(at_ms);
    if !has_come {
        ctx.bring_expiring_fields()?;
    }
    ctx.keyspace.expire_named_fields(ctx.db, key, fields.iter().copied());
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, false, |hash| {
        let set = |field: &&[u8]| {
            let Some(present) = hash.view().field(field) else { return NO_FIELD };
            if !condition.allows(present.expires_at_ms, at_ms) {
                return NOT_MET;
            }
            if has_come {
                hash.remove(field);
                return REMOVED;
            }
            hash.set_expiry(field, Some(at_ms));
            SET
        };
        fields.iter().map(set).collect::<Vec<i64>>()
    })?;
    let Some(updated) = updated else {
        write_replies(ctx, &vec![NO_FIELD; fields.len()]);
        return Ok(());
    };
    let has = |reply| updated.value.contains(&reply);
    if has(SET) {
        ctx.notify(Notify::HASH, "hexpire", key);
    }
    if has(REMOVED) {
        ctx.notify(Notify::HASH, "hdel", key);
    }
    if updated.emptied {
        ctx.notify(Notify::GENERIC, "del", key);
    }
    write_replies(ctx, &updated.value);
    Ok(())
}

/// Replies when fields expire.
fn reply_expiry(ctx: &mut Context<'_>, args: &[&[u8]], unit: TimeUnit) -> Done {
    let now_ms = ctx.keyspace.now_ms();
    has_hash(ctx, args[1])?;
    let fields = fields_of(&args[2..], NOT_POSITIVE)?;
    let hash = super::view_of(ctx.keyspace, ctx.db, args[1], fields)?;
    ctx.reply.array(fields.len());
    for name in fields {
        let found = hash.as_ref().and_then(|hash| hash.field(name));
        ctx.reply.int(match found.map(|field| field.expires_at_ms) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at_ms)) => {
                let ms = if unit.absolute { at_ms } else { at_ms.saturating_sub(now_ms) };
                if unit.seconds { ms.saturating_add(999) / 1000 } else { ms }
            }
        });
    }
    Ok(())
}

/// HPERSIST key FIELDS numfields field …
pub(crate) fn hpersist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    has_hash(ctx, key)?;
    let fields = fields_of(&args[2..], NOT_POSITIVE)?;
    ctx.keyspace.expire_named_fields(ctx.db, key, fields.iter().copied());
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, false, |hash| {
        let persist = |field: &&[u8]| match hash.view().field(field) {
            None => NO_FIELD,
            Some(Field { expires_at_ms: None, .. }) => NO_EXPIRY,
            Some(_) => {
                hash.set_expiry(field, None);
                SET
            }
        };
        fields.iter().map(persist).collect::<Vec<i64>>()
    })?;
    let replies = updated.map_or_else(|| vec![NO_FIELD; fields.len()], |updated| updated.value);
    if replies.contains(&SET) {
        ctx.notify(Notify::HASH, "hpersist", key);
    }
    write_replies(ctx, &replies);
    Ok(())
}

/// HGETDEL key FIELDS numfields field …
pub(crate) fn hgetdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    has_hash(ctx, key)?;
    let fields = fields_of(&args[2..], NOT_POSITIVE)?;
    ctx.reply.array(fields.len());
    let reply = &mut *ctx.reply;
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, false, |hash| {
        for field in fields {
            super::write_value(reply, hash.view().get(field));
            hash.remove(field);
        }
    })?;
    match updated {
        None => fields.iter().for_each(|_| ctx.reply.null()),
        Some(updated) => ctx.notify_update(Notify::HASH, "hdel", key, &updated),
    }
    Ok(())
}

/// What becomes of the expiry of fields that are read or set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewExpiry {
    Keep,
    Never,
    At(i64),
}

/// HGETEX key [EX seconds | PX milliseconds | EXAT … | PXAT … | PERSIST] FIELDS numfields field …
pub(crate) fn hgetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const NAME: &str = "hgetex";
    let key = args[1];
    has_hash(ctx, key)?;
    let (expiry, words) = match args[2..] {
        [word, ref rest @ ..] if is(word, "PERSIST") => (NewExpiry::Never, rest),
        [word, given, ref rest @ ..] if TimeUnit::parse(word).is_some() => {
            let unit = TimeUnit::parse(word).expect("it was just asked");
            (NewExpiry::At(moment(ctx, argument::int(given)?, unit, NAME)?), rest)
        }
        ref rest => (NewExpiry::Keep, rest),
    };
    if words.len() < 2 {
        return Err(CommandError::WrongArity(NAME.into()));
    }
    let fields = fields_of(words, NOT_POSITIVE)?;
    let has_come = matches!(expiry, NewExpiry::At(at_ms) if ctx.keyspace.has_come(at_ms));
    if matches!(expiry, NewExpiry::At(_)) && !has_come {
        ctx.bring_expiring_fields()?;
    }
    ctx.keyspace.expire_named_fields(ctx.db, key, fields.iter().copied());
    let start = ctx.reply.len();
    ctx.reply.array(fields.len());
    let reply = &mut *ctx.reply;
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, false, |hash| {
        let (mut set, mut persisted, mut removed) = (false, false, false);
        for name in fields {
            let found = hash.view().field(name);
            super::write_value(reply, found.map(|field| field.value));
            let Some(Field { expires_at_ms: present, .. }) = found else { continue };
            match expiry {
                NewExpiry::Keep => {}
                NewExpiry::Never => {
                    hash.set_expiry(name, None);
                    persisted |= present.is_some();
                }
                NewExpiry::At(_) if has_come => removed |= hash.remove(name),
                NewExpiry::At(at_ms) => set |= hash.set_expiry(name, Some(at_ms)),
            }
        }
        (set, persisted, removed)
    })?;
    let Some(updated) = updated else {
        ctx.reply.truncate(start);
        ctx.reply.array(fields.len());
        fields.iter().for_each(|_| ctx.reply.null());
        return Ok(());
    };
    let (set, persisted, removed) = updated.value;
    for (happened, event) in [(set, "hexpire"), (persisted, "hpersist"), (removed, "hdel")] {
        if happened {
            ctx.notify(Notify::HASH, event, key);
        }
    }
    if updated.emptied {
        ctx.notify(Notify::GENERIC, "del", key);
    }
    Ok(())
}

/// A field and its value.
type Pair<'a> = [&'a [u8]; 2];

/// What HSETEX is told before its fields.
struct SetOptions {
    expiry: Option<NewExpiry>,
    /// All fields must be there, or none (FXX, FNX).
    fields_must_exist: Option<bool>,
    /// The key must be there, or not (XX, NX: Valkey's).
    key_must_exist: Option<bool>,
}

/// HSETEX key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT … | PXAT … | KEEPTTL]
/// FIELDS numfields field value …
pub(crate) fn hsetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let (options, pairs) = parse_hsetex(ctx, args)?;
    let SetOptions { expiry, fields_must_exist, key_must_exist } = options;
    let expiry = expiry.unwrap_or(NewExpiry::Never);
    let is_there = has_hash(ctx, key)?;
    if key_must_exist.is_some_and(|must| must != is_there)
        || fields_must_exist == Some(true) && !is_there
    {
        ctx.reply.int(0);
        return Ok(());
    }
    let has_come = matches!(expiry, NewExpiry::At(at_ms) if ctx.keyspace.has_come(at_ms));
    if matches!(expiry, NewExpiry::At(_)) && !has_come {
        ctx.bring_expiring_fields()?;
    }
    if fields_must_exist.is_some() {
        ctx.keyspace.expire_named_fields(ctx.db, key, pairs.iter().map(|[name, _]| *name));
    }
    let updated = ctx.keyspace.update::<Hash, _>(ctx.db, key, !has_come, |hash| {
        let is_met = |[field, _]: &Pair<'_>| {
            fields_must_exist.is_none_or(|must| hash.view().get(field).is_some() == must)
        };
        if !pairs.iter().all(is_met) {
            return false;
        }
        for [name, value] in pairs {
            match expiry {
                NewExpiry::At(_) if has_come => _ = hash.remove(name),
                NewExpiry::At(at_ms) => {
                    hash.put(&Field { name, value, expires_at_ms: Some(at_ms) });
                }
                NewExpiry::Keep => _ = hash.set_keeping_expiry(name, value),
                NewExpiry::Never => _ = hash.set(name, value),
            }
        }
        true
    })?;
    // Fields that would have expired at once are not made.
    let is_done = updated.as_ref().is_none_or(|updated| updated.value);
    if is_done {
        ctx.notify(Notify::HASH, "hset", key);
        if has_come {
            ctx.notify(Notify::HASH, "hdel", key);
            if updated.is_none_or(|updated| updated.emptied) {
                ctx.notify(Notify::GENERIC, "del", key);
            }
        } else if matches!(expiry, NewExpiry::At(_)) {
            ctx.notify(Notify::HASH, "hexpire", key);
        }
    }
    ctx.reply.int(is_done.into());
    Ok(())
}

fn parse_hsetex<'a, 'b>(
    ctx: &Context<'_>,
    args: &'a [&'b [u8]],
) -> Result<(SetOptions, &'a [Pair<'b>]), CommandError> {
    const NAME: &str = "hsetex";
    let wrong_arity = || CommandError::WrongArity(NAME.into());
    let mut options = SetOptions { expiry: None, fields_must_exist: None, key_must_exist: None };
    let mut words = &args[2..];
    while let [word, rest @ ..] = words {
        words = rest;
        let condition = match word.to_ascii_lowercase().as_slice() {
            b"fields" => {
                let [count, rest @ ..] = words else { return Err(wrong_arity()) };
                let count = parse_int(count).and_then(|count| i32::try_from(count).ok());
                let count = count
                    .filter(|count| *count > 0)
                    .ok_or(CommandError::other("ERR invalid number of fields"))?;
                let (pairs, odd) = rest.as_chunks::<2>();
                if !odd.is_empty() || usize::try_from(count) != Ok(pairs.len()) {
                    return Err(wrong_arity());
                }
                return Ok((options, pairs));
            }
            b"fnx" => (&mut options.fields_must_exist, false),
            b"fxx" => (&mut options.fields_must_exist, true),
            b"nx" => (&mut options.key_must_exist, false),
            b"xx" => (&mut options.key_must_exist, true),
            _ => {
                let unit = TimeUnit::parse(word);
                if unit.is_none() && !is(word, "KEEPTTL") {
                    let word = String::from_utf8_lossy(word);
                    let text = format!("ERR unknown argument: {word}");
                    return Err(CommandError::Other(text.into()));
                }
                if options.expiry.is_some() {
                    return Err(CommandError::other(
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                    ));
                }
                options.expiry = Some(match unit {
                    None => NewExpiry::Keep,
                    Some(unit) => {
                        let [given, rest @ ..] = words else { return Err(wrong_arity()) };
                        words = rest;
                        NewExpiry::At(moment(ctx, argument::int(given)?, unit, NAME)?)
                    }
                });
                continue;
            }
        };
        let (place, must_exist) = condition;
        if place.replace(must_exist).is_some() {
            let is_of_fields = word.len() == 3;
            return Err(CommandError::other(if is_of_fields {
                "ERR Only one of FXX or FNX arguments can be specified"
            } else {
                "ERR Only one of XX or NX arguments can be specified"
            }));
        }
    }
    Err(wrong_arity())
}
