//! The string commands.

pub(crate) mod conditional;
pub(crate) mod counter;

use base::DbIndex;
use keyspace::string::Form;
use keyspace::{Expiry, Keyspace, Notify, StringRef, Type};

use crate::argument::{self, TimeUnit};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::long_double::{LongDouble, NOT_FINITE};

fn write_string(reply: &mut resp::Writer, value: Option<StringRef<'_>>) {
    match value {
        None => reply.null(),
        Some(StringRef::Bytes(bytes)) => reply.bulk(bytes),
        Some(StringRef::Int(number)) => reply.bulk_int(number),
    }
}

pub(crate) fn get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_string(ctx.reply, ctx.keyspace.string(ctx.db, args[1])?);
    Ok(())
}

pub(crate) fn strlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let len = ctx.keyspace.string(ctx.db, args[1])?.map_or(0, StringRef::len);
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn setnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let is_new = !ctx.keyspace.exists(ctx.db, args[1], false);
    if is_new {
        ctx.keyspace.set_string(ctx.db, args[1], args[2], Expiry::Clear);
        ctx.notify(Notify::STRING, "set", args[1]);
    }
    ctx.reply.int(i64::from(is_new));
    Ok(())
}

pub(crate) fn setex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiring(ctx, args, TimeUnit { seconds: true, absolute: false }, "setex")
}

pub(crate) fn psetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiring(ctx, args, TimeUnit { seconds: false, absolute: false }, "psetex")
}

fn set_expiring(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    unit: TimeUnit,
    command: &'static str,
) -> Done {
    let at_ms = argument::expiry(args[2], unit, ctx.keyspace, command)?;
    ctx.keyspace.set_string(ctx.db, args[1], args[3], Expiry::At(at_ms));
    ctx.notify(Notify::STRING, "set", args[1]);
    ctx.notify(Notify::GENERIC, "expire", args[1]);
    ctx.reply.ok();
    Ok(())
}

pub(crate) fn getset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_string(ctx.reply, ctx.keyspace.string(ctx.db, args[1])?);
    ctx.keyspace.set_string(ctx.db, args[1], args[2], Expiry::Clear);
    ctx.notify(Notify::STRING, "set", args[1]);
    Ok(())
}

pub(crate) fn getdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    write_string(ctx.reply, ctx.keyspace.string(ctx.db, args[1])?);
    if ctx.keyspace.delete(ctx.db, args[1]) {
        ctx.notify(Notify::GENERIC, "del", args[1]);
    }
    Ok(())
}

/// What GETEX is told about the expiry.
enum GetExOptions {
    Nothing,
    Persist,
    /// The unit, and where the time is.
    Expire(TimeUnit, usize),
}

impl GetExOptions {
    /// The same word may come again; of two times of one unit the last counts.
    fn parse(args: &[&[u8]]) -> Result<Self, CommandError> {
        let mut options = Self::Nothing;
        let mut at = 2;
        while let Some(&word) = args.get(at) {
            options = match (TimeUnit::parse(word), &options) {
                (None, Self::Nothing | Self::Persist) if argument::is(word, "PERSIST") => {
                    Self::Persist
                }
                (Some(unit), Self::Nothing) if at + 1 < args.len() => Self::Expire(unit, at + 1),
                (Some(unit), Self::Expire(before, _)) if unit == *before && at + 1 < args.len() => {
                    Self::Expire(unit, at + 1)
                }
                _ => return Err(CommandError::Syntax),
            };
            at += if matches!(options, Self::Expire(..)) { 2 } else { 1 };
        }
        Ok(options)
    }
}

pub(crate) fn getex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let options = GetExOptions::parse(args)?;
    let Some(value) = ctx.keyspace.string(ctx.db, key)? else {
        // Whatever time is given: there is nothing that could expire.
        ctx.reply.null();
        return Ok(());
    };
    write_string(ctx.reply, Some(value));
    let change = match options {
        GetExOptions::Nothing => None,
        GetExOptions::Persist => Some(None),
        GetExOptions::Expire(unit, at) => {
            Some(Some(argument::expiry(args[at], unit, ctx.keyspace, "getex")?))
        }
    };
    match change {
        Some(Some(at_ms)) if ctx.keyspace.has_come(at_ms) => {
            ctx.keyspace.delete(ctx.db, key);
            ctx.notify(Notify::GENERIC, "del", key);
        }
        Some(Some(at_ms)) => {
            ctx.keyspace.set_expires_at_ms(ctx.db, key, Some(at_ms));
            ctx.notify(Notify::GENERIC, "expire", key);
        }
        Some(None) if matches!(ctx.keyspace.expires_at_ms(ctx.db, key), Some(Some(_))) => {
            ctx.keyspace.set_expires_at_ms(ctx.db, key, None);
            ctx.notify(Notify::GENERIC, "persist", key);
        }
        _ => {}
    }
    Ok(())
}

pub(crate) fn mget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    ctx.reply.array(args.len() - 1);
    for key in &args[1..] {
        write_string(ctx.reply, ctx.keyspace.string(ctx.db, key).unwrap_or(None));
    }
    Ok(())
}

pub(crate) fn mset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_all(ctx, args, "mset")?;
    ctx.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("msetnx".into()));
    }
    if args[1..].iter().step_by(2).any(|key| ctx.keyspace.exists(ctx.db, key, false)) {
        ctx.reply.int(0);
        return Ok(());
    }
    set_all(ctx, args, "msetnx")?;
    ctx.reply.int(1);
    Ok(())
}

fn set_all(ctx: &mut Context<'_>, args: &[&[u8]], command: &'static str) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(command.into()));
    }
    for pair in args[1..].chunks_exact(2) {
        ctx.keyspace.set_string(ctx.db, pair[0], pair[1], Expiry::Clear);
        ctx.notify(Notify::STRING, "set", pair[0]);
    }
    Ok(())
}

/// Checks that a string of `offset` and `len` more bytes is allowed.
pub(crate) fn check_len(
    ctx: &Context<'_>,
    offset: usize,
    len: usize,
) -> Result<usize, CommandError> {
    let sum = offset.checked_add(len).ok_or(CommandError::StringTooLong)?;
    if sum > ctx.string_bytes_max { Err(CommandError::StringTooLong) } else { Ok(sum) }
}

pub(crate) fn append(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, tail) = (args[1], args[2]);
    let old_len = ctx.keyspace.string_to_change(ctx.db, key)?.map(StringRef::len);
    let len = match old_len {
        // A key that APPEND creates is as if SET had: a number may be one.
        None => {
            ctx.keyspace.set_string(ctx.db, key, tail, Expiry::Clear);
            tail.len()
        }
        Some(old_len) => {
            let len = check_len(ctx, old_len, tail.len())?;
            let tail_range = old_len..len;
            ctx.keyspace.change_string(ctx.db, key, len, tail_range, |bytes| {
                bytes.copy_from_slice(tail);
            })?
        }
    };
    ctx.notify(Notify::STRING, "append", key);
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn setrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, bytes) = (args[1], args[3]);
    let offset = usize::try_from(argument::int(args[2])?)
        .map_err(|_| CommandError::other("ERR offset is out of range"))?;
    let old_len = ctx.keyspace.string_to_change(ctx.db, key)?.map_or(0, StringRef::len);
    if bytes.is_empty() {
        ctx.reply.count(old_len);
        return Ok(());
    }
    let end = check_len(ctx, offset, bytes.len())?;
    let len = ctx
        .keyspace
        .change_string(ctx.db, key, end, offset..end, |old| old.copy_from_slice(bytes))?;
    ctx.notify(Notify::STRING, "setrange", key);
    ctx.reply.count(len);
    Ok(())
}

pub(crate) fn getrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (start, end) = (argument::int(args[2])?, argument::int(args[3])?);
    let value = ctx.keyspace.string(ctx.db, args[1])?.unwrap_or(StringRef::Bytes(&[]));
    let mut digits = itoa::Buffer::new();
    let bytes = value.as_bytes(&mut digits);
    let is_reversed = start < 0 && end < 0 && start > end;
    let part = argument::range(start, end.max(-(bytes.len() as i64)), bytes.len());
    match part {
        Some(part) if !is_reversed => ctx.reply.bulk(&bytes[part]),
        _ => ctx.reply.bulk(&[]),
    }
    Ok(())
}

pub(crate) fn incr(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    add(ctx, args[1], 1)
}

pub(crate) fn decr(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    add(ctx, args[1], -1)
}

pub(crate) fn incrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    add(ctx, args[1], argument::int(args[2])?)
}

pub(crate) fn decrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let by = argument::int(args[2])?
        .checked_neg()
        .ok_or(CommandError::other("ERR decrement would overflow"))?;
    add(ctx, args[1], by)
}

fn add(ctx: &mut Context<'_>, key: &[u8], by: i64) -> Done {
    let old = match ctx.keyspace.string_to_change(ctx.db, key)? {
        None => 0,
        Some(value) => value.as_int().ok_or(CommandError::NotAnInteger)?,
    };
    let new = old
        .checked_add(by)
        .ok_or(CommandError::other("ERR increment or decrement would overflow"))?;
    let mut digits = itoa::Buffer::new();
    ctx.keyspace.set_string(ctx.db, key, digits.format(new).as_bytes(), Expiry::Keep);
    ctx.notify(Notify::STRING, "incrby", key);
    ctx.reply.int(new);
    Ok(())
}

pub(crate) fn incrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let mut digits = itoa::Buffer::new();
    let old = ctx.keyspace.string_to_change(ctx.db, args[1])?.unwrap_or(StringRef::Int(0));
    let parse = |text: &[u8]| LongDouble::parse(text).ok_or(CommandError::NotAFloat);
    let (old, by) = (parse(old.as_bytes(&mut digits))?, parse(args[2])?);
    let sum = old.checked_add(&by).ok_or(NOT_FINITE)?.to_decimal();
    ctx.keyspace.set_string_as(Form::Text, ctx.db, args[1], sum.as_bytes(), Expiry::Keep);
    ctx.notify(Notify::STRING, "incrbyfloat", args[1]);
    ctx.reply.bulk_str(&sum);
    Ok(())
}

/// The options of LCS.
#[derive(Default)]
struct LcsOptions {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

impl LcsOptions {
    fn parse(words: &[&[u8]]) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if argument::is(word, "LEN") {
                options.len = true;
            } else if argument::is(word, "IDX") {
                options.idx = true;
            } else if argument::is(word, "WITHMATCHLEN") {
                options.with_match_len = true;
            } else if argument::is(word, "MINMATCHLEN") {
                let len = argument::int(rest.next().ok_or(CommandError::Syntax)?)?;
                options.min_match_len = usize::try_from(len).unwrap_or(0);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if options.len && options.idx {
            return Err(CommandError::other(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

pub(crate) fn lcs(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const NOT_STRINGS: CommandError =
        CommandError::other("ERR The specified keys must contain string values");
    // The keys are looked at before the rest of the call.
    let mut owned = |key: &[u8]| owned_string(ctx.keyspace, ctx.db, key);
    let (a, b) = (owned(args[1]), owned(args[2]));
    let (Some(a), Some(b)) = (a, b) else { return Err(NOT_STRINGS) };
    let options = LcsOptions::parse(&args[3..])?;
    // As in Redis: four bytes a cell, and no more of them than a string may have.
    let cells = (a.len() + 1).checked_mul(b.len() + 1);
    let cells = cells.filter(|cells| *cells <= ctx.string_bytes_max / 4);
    let Some(cells) = cells else {
        return Err(CommandError::other(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    };
    write_lcs(ctx.reply, &a, &b, &lengths(&a, &b, cells), &options);
    Ok(())
}

fn owned_string(keyspace: &mut Keyspace, db: DbIndex, key: &[u8]) -> Option<Vec<u8>> {
    if keyspace.type_of(db, key).is_some_and(|found| found != Type::String) {
        return None;
    }
    let value = keyspace.string(db, key).ok()?;
    Some(value.map_or(Vec::new(), |v| v.as_bytes(&mut itoa::Buffer::new()).to_vec()))
}

/// The lengths of the longest common subsequences of all prefixes, by rows of `a`.
fn lengths(a: &[u8], b: &[u8], cells: usize) -> Vec<u32> {
    let width = b.len() + 1;
    let mut table = vec![0u32; cells];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    table
}

fn write_lcs(reply: &mut resp::Writer, a: &[u8], b: &[u8], table: &[u32], options: &LcsOptions) {
    let width = b.len() + 1;
    let total = table[a.len() * width + b.len()];
    if options.len {
        reply.int(i64::from(total));
        return;
    }
    let (mut i, mut j) = (a.len(), b.len());
    let mut common = Vec::new();
    // Ranges of both strings that match, each as its first positions and its length, from the end.
    let mut matches: Vec<(usize, usize, usize)> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match matches.last_mut() {
                Some((x, y, len)) if (*x, *y) == (i + 1, j + 1) => {
                    (*x, *y, *len) = (i, j, *len + 1)
                }
                _ => matches.push((i, j, 1)),
            }
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    if !options.idx {
        common.reverse();
        reply.bulk(&common);
        return;
    }
    matches.retain(|found| found.2 >= options.min_match_len);
    reply.map(2);
    reply.bulk_str("matches");
    reply.array(matches.len());
    for (x, y, len) in matches {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for first in [x, y] {
            reply.array(2);
            reply.count(first);
            reply.count(first + len - 1);
        }
        if options.with_match_len {
            reply.count(len);
        }
    }
    reply.bulk_str("len");
    reply.int(i64::from(total));
}
