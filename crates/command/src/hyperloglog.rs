//! HyperLogLog: about how many different elements there are, in a string of at most 12 KB.
//!
//! PFCOUNT of one key stores the count in the value's header, as in Redis, so that the next one
//! need not count: a change like any other, with a record. Where nothing may be written it counts and
//! leaves the value alone.

mod value;

use std::ops::Range;

use keyspace::string::Form;
use keyspace::{Expiry, Notify};

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};
use value::{Changes, Corrupted, HyperLogLog, REGISTER_COUNT, Registers, View, estimate, place};

/// A copy of the value of a key, to be changed.
fn load(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<HyperLogLog>, CommandError> {
    let mut digits = itoa::Buffer::new();
    let Some(string) = ctx.keyspace.string_to_change(ctx.db, key)? else { return Ok(None) };
    Ok(Some(HyperLogLog::of(View::of(string.as_bytes(&mut digits))?)))
}

/// What `read` finds in the value of a key, which is not copied; `None` if there is no key.
fn look<T>(
    ctx: &mut Context<'_>,
    key: &[u8],
    read: impl FnOnce(View<'_>) -> Result<T, Corrupted>,
) -> Result<Option<T>, CommandError> {
    let mut digits = itoa::Buffer::new();
    let Some(string) = ctx.keyspace.string(ctx.db, key)? else { return Ok(None) };
    Ok(Some(read(View::of(string.as_bytes(&mut digits))?)?))
}

/// Makes a key's value this one, which was loaded from it. Of a dense one, what is logged is what has changed.
fn store(ctx: &mut Context<'_>, key: &[u8], value: &HyperLogLog) -> Done {
    let bytes = value.bytes();
    match value.changes() {
        Changes::Parts(parts) if parts.iter().all(Range::is_empty) => {}
        Changes::Parts(parts) if !value.is_sparse() => {
            for part in parts.iter().filter(|part| !part.is_empty()) {
                let change = |old: &mut [u8]| old.copy_from_slice(&bytes[part.clone()]);
                ctx.keyspace.change_string(ctx.db, key, bytes.len(), part.clone(), change)?;
            }
        }
        Changes::Parts(_) | Changes::All => {
            ctx.keyspace.set_string_as(Form::Raw, ctx.db, key, bytes, Expiry::Keep);
        }
    }
    Ok(())
}

pub(crate) fn pfadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let found = load(ctx, key)?;
    let mut changed = found.is_none();
    let mut value = found.unwrap_or_else(HyperLogLog::empty);
    let sparse_max = ctx.keyspace.settings().hll_sparse_max_bytes;
    for element in &args[2..] {
        changed |= value.add(element, sparse_max)?;
    }
    if changed {
        value.invalidate();
        store(ctx, key, &value)?;
        ctx.notify(Notify::STRING, "pfadd", key);
    } else {
        ctx.keyspace.make_raw(ctx.db, key);
    }
    ctx.reply.int(i64::from(changed));
    Ok(())
}

/// About how many different elements there are, with the registers that PFADD would make of them: 16 KiB
/// of memory, however many they are.
pub(crate) fn estimate_of<'a>(elements: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut registers: Box<Registers> = Box::new([0; REGISTER_COUNT]);
    for element in elements {
        let (index, rank) = place(element);
        registers[index] = registers[index].max(rank);
    }
    usize::try_from(estimate(&registers)).unwrap_or(0)
}

/// The highest of each register in these keys, and whether one of them is dense.
fn union(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<(Box<Registers>, bool), CommandError> {
    let (mut registers, mut is_dense) = (Box::new([0; REGISTER_COUNT]), false);
    for key in keys {
        let raised = look(ctx, key, |value| {
            value.raise(&mut registers)?;
            Ok(!value.is_sparse())
        })?;
        is_dense |= raised.unwrap_or(false);
    }
    Ok((registers, is_dense))
}

pub(crate) fn pfcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let count = match args[1..] {
        [key] => count_of(ctx, key)?,
        _ => estimate(&union(ctx, &args[1..])?.0),
    };
    ctx.reply.int(count);
    Ok(())
}

/// The count of one key, which is stored in its value.
fn count_of(ctx: &mut Context<'_>, key: &[u8]) -> Result<i64, CommandError> {
    let found = look(ctx, key, |value| match value.cached() {
        Some(count) => Ok((count, true)),
        None => value.registers().map(|registers| (estimate(&registers), false)),
    })?;
    let Some((count, is_stored)) = found else { return Ok(0) };
    if !is_stored
        && ctx.may_store
        && let Some(mut value) = load(ctx, key)?
    {
        value.cache(count);
        store(ctx, key, &value)?;
    }
    Ok(count)
}

pub(crate) fn pfmerge(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let (registers, is_dense) = union(ctx, &args[1..])?;
    let mut value = load(ctx, key)?.unwrap_or_else(HyperLogLog::empty);
    if is_dense {
        value.make_dense()?;
    }
    let sparse_max = ctx.keyspace.settings().hll_sparse_max_bytes;
    let own = value.view().registers()?;
    for (index, (register, own)) in registers.iter().zip(own.iter()).enumerate() {
        if register > own {
            value.set(index, *register, sparse_max)?;
        }
    }
    value.invalidate();
    value.touch();
    store(ctx, key, &value)?;
    ctx.notify(Notify::STRING, "pfadd", key);
    ctx.reply.ok();
    Ok(())
}

pub(crate) fn pfdebug(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (word, key) = (args[1], args[2]);
    let Some(mut value) = load(ctx, key)? else {
        return Err(CommandError::other("ERR The specified key does not exist"));
    };
    if argument::is(word, "GETREG") {
        let registers = value.view().registers()?;
        if value.make_dense()? {
            store(ctx, key, &value)?;
        }
        ctx.reply.array(REGISTER_COUNT);
        registers.iter().for_each(|register| ctx.reply.int(i64::from(*register)));
    } else if argument::is(word, "DECODE") {
        if !value.is_sparse() {
            return Err(CommandError::other("ERR HLL encoding is not sparse"));
        }
        let spell = |run: value::Run| match run.value {
            0 if run.is_long() => format!("Z:{}", run.len),
            0 => format!("z:{}", run.len),
            value => format!("v:{value},{}", run.len),
        };
        ctx.reply.bulk_str(&value.view().runs().map(spell).collect::<Vec<_>>().join(" "));
    } else if argument::is(word, "ENCODING") {
        ctx.reply.simple(if value.is_sparse() { "sparse" } else { "dense" });
    } else if argument::is(word, "TODENSE") {
        let changed = value.make_dense()?;
        if changed {
            store(ctx, key, &value)?;
        }
        ctx.reply.int(i64::from(changed));
    } else {
        let word = String::from_utf8_lossy(word);
        return Err(CommandError::Other(format!("ERR Unknown PFDEBUG subcommand '{word}'").into()));
    }
    Ok(())
}

/// How many elements PFSELFTEST counts, and how many bytes the sparse form may have meanwhile.
const TESTED_ELEMENTS: u32 = 10_000;
const TESTED_SPARSE_MAX: usize = 3000;

pub(crate) fn pfselftest(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Done {
    const FAILED: CommandError = CommandError::other("ERR TESTFAILED HyperLogLog");
    let (mut sparse, mut dense) = (HyperLogLog::empty(), HyperLogLog::empty());
    dense.make_dense()?;
    for number in 0..TESTED_ELEMENTS {
        sparse.add(&number.to_le_bytes(), TESTED_SPARSE_MAX)?;
        dense.add(&number.to_le_bytes(), TESTED_SPARSE_MAX)?;
        if number.is_power_of_two() && sparse.view().registers()? != dense.view().registers()? {
            return Err(FAILED);
        }
    }
    let registers = dense.view().registers()?;
    let count = estimate(&registers);
    if count.abs_diff(i64::from(TESTED_ELEMENTS)) > u64::from(TESTED_ELEMENTS) / 20 {
        return Err(FAILED);
    }
    ctx.reply.ok();
    Ok(())
}
