//! DUMP and RESTORE: values as payloads that other servers of the same family read.

use base::DbIndex;
use keyspace::hash::{Field, Hash};
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::stream::Stream;
use keyspace::zset::ZSet;
use keyspace::{Expiry, Keyspace, Notify, Type, WrongType};
use rdb::{Limits, Value};

use crate::argument::{self, TimeUnit, is};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::stream;

/// DUMP key.
pub(crate) fn dump(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    // A payload is made as a whole: not one that the client cannot have anyway.
    if payload_bytes_min(ctx, args[1])? > ctx.reply.room() {
        ctx.reply.give_up();
        return Ok(());
    }
    match value_of(ctx.keyspace, ctx.db, args[1])? {
        Some(value) => ctx.reply.own_bulk(rdb::encode_for(&value, ctx.payload_readers)),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// An element shorter than this may be a number, which takes fewer bytes in a payload.
const NUMBER_BYTES_MAX: usize = 21;

/// A payload of this key has at least so many bytes.
fn payload_bytes_min(ctx: &mut Context<'_>, key: &[u8]) -> Result<usize, WrongType> {
    let bytes = |element: &[u8]| if element.len() < NUMBER_BYTES_MAX { 1 } else { element.len() };
    let Some(value_type) = ctx.keyspace.type_of(ctx.db, key) else { return Ok(0) };
    let (keyspace, db) = (&mut *ctx.keyspace, ctx.db);
    let sum = match value_type {
        Type::String => keyspace.string(db, key)?.map(|string| string.len()),
        Type::List => {
            keyspace.read::<List>(db, key)?.map(|list| list.iter_from(0).map(bytes).sum())
        }
        Type::Set => keyspace.read::<Set>(db, key)?.map(|set| set.iter().map(bytes).sum()),
        Type::ZSet => keyspace
            .read::<ZSet>(db, key)?
            .map(|zset| zset.iter().map(|(member, _)| bytes(member)).sum()),
        Type::Hash => keyspace.read::<Hash>(db, key)?.map(|hash| {
            let mut sum = 0;
            hash.for_each(|field, value| sum += bytes(field) + bytes(value));
            sum
        }),
        Type::Stream => keyspace
            .read::<Stream>(db, key)?
            .map(|stream| stream::dump::payload_bytes_min(stream, bytes)),
    };
    Ok(sum.unwrap_or(0))
}

/// No string is longer, whatever `proto-max-bulk-len` is.
const STRING_BYTES_MAX: usize = u32::MAX as usize;

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ frequency].
pub(crate) fn restore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, payload) = (args[1], args[3]);
    let options = Options::parse(&args[4..])?;
    if !options.replace && ctx.keyspace.exists(ctx.db, key, false) {
        return Err(CommandError::other("BUSYKEY Target key name already exists."));
    }
    let ttl = argument::int(args[2])?;
    if ttl < 0 {
        return Err(CommandError::other("ERR Invalid TTL value, must be >= 0"));
    }
    // What is compressed may be longer than an argument.
    let string_bytes_max = ctx.string_bytes_max.min(STRING_BYTES_MAX) as u64;
    let value = rdb::decode(payload, Limits { string_bytes_max })
        .map_err(|bad| CommandError::Other(format!("ERR {bad}").into()))?;

    match &value {
        Value::Stream(_) => ctx.bring_stream()?,
        Value::Hash(fields) if fields.iter().any(|field| field.2.is_some()) => {
            ctx.bring_expiring_fields()?;
        }
        _ => {}
    }
    let deleted = ctx.keyspace.delete(ctx.db, key);
    let now_ms = ctx.keyspace.now_ms();
    let unit = TimeUnit { seconds: false, absolute: options.absolute_ttl };
    let expires_at_ms = (ttl > 0).then(|| unit.at_ms(ttl, now_ms).unwrap_or(i64::MAX));
    if expires_at_ms.is_some_and(|at_ms| ctx.keyspace.has_come(at_ms)) {
        if deleted {
            ctx.notify(Notify::GENERIC, "del", key);
        }
    } else {
        write_value(ctx, key, &value)?;
        if expires_at_ms.is_some() {
            ctx.keyspace.set_expires_at_ms(ctx.db, key, expires_at_ms);
        }
        ctx.keyspace.set_use(ctx.db, key, options.idle_ms, options.frequency);
        ctx.notify(Notify::GENERIC, "restore", key);
    }
    ctx.reply.ok();
    Ok(())
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute_ttl: bool,
    /// How long the value was not used where it comes from, or how often it was.
    idle_ms: Option<i64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(mut words: &[&[u8]]) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "REPLACE") => {
                    options.replace = true;
                    rest
                }
                _ if is(word, "ABSTTL") => {
                    options.absolute_ttl = true;
                    rest
                }
                [seconds, rest @ ..] if is(word, "IDLETIME") && options.frequency.is_none() => {
                    let seconds = argument::int(seconds)?;
                    if seconds < 0 {
                        return Err(CommandError::other(
                            "ERR Invalid IDLETIME value, must be >= 0",
                        ));
                    }
                    options.idle_ms = Some(seconds.saturating_mul(1000));
                    rest
                }
                [frequency, rest @ ..] if is(word, "FREQ") && options.idle_ms.is_none() => {
                    let frequency = u8::try_from(argument::int(frequency)?).map_err(|_| {
                        CommandError::other("ERR Invalid FREQ value, must be >= 0 and <= 255")
                    })?;
                    options.frequency = Some(frequency);
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(options)
    }
}

/// Copies out the value of a key; looking at it does not count as use.
///
/// # Errors
/// None: the type is asked for.
pub fn value_of(
    keyspace: &mut Keyspace,
    db: DbIndex,
    key: &[u8],
) -> Result<Option<Value>, WrongType> {
    let Some(value_type) = keyspace.type_of(db, key) else { return Ok(None) };
    Ok(match value_type {
        Type::String => keyspace
            .string(db, key)?
            .map(|string| Value::String(string.as_bytes(&mut itoa::Buffer::new()).to_vec())),
        Type::List => keyspace
            .read::<List>(db, key)?
            .map(|list| Value::List(list.iter_from(0).map(<[u8]>::to_vec).collect())),
        Type::Set => keyspace
            .read::<Set>(db, key)?
            .map(|set| Value::Set(set.iter().map(|member| member.to_vec()).collect())),
        Type::ZSet => keyspace.read::<ZSet>(db, key)?.map(|zset| {
            Value::ZSet(zset.iter().map(|(member, score)| (member.to_vec(), score)).collect())
        }),
        Type::Hash => keyspace.read::<Hash>(db, key)?.and_then(|hash| {
            let mut fields = Vec::with_capacity(hash.len());
            hash.for_each_field(|field| {
                fields.push((field.name.to_vec(), field.value.to_vec(), field.expires_at_ms));
            });
            // Of one whose fields have all expired, and were not all removed yet, nothing is left: no server takes a
            // payload of it.
            (!fields.is_empty()).then_some(Value::Hash(fields))
        }),
        Type::Stream => keyspace
            .read::<Stream>(db, key)?
            .map(|stream| Value::Stream(stream::dump::value_of(stream))),
    })
}

/// Creates a key that is not there.
fn write_value(ctx: &mut Context<'_>, key: &[u8], value: &Value) -> Result<(), WrongType> {
    let (keyspace, db) = (&mut *ctx.keyspace, ctx.db);
    match value {
        Value::String(bytes) => {
            keyspace.set_string(db, key, bytes, Expiry::Clear);
        }
        Value::List(elements) => {
            keyspace.update::<List, ()>(db, key, true, |list| {
                elements.iter().for_each(|element| list.push(End::Back, element));
            })?;
        }
        Value::Set(members) => {
            keyspace.update::<Set, ()>(db, key, true, |set| {
                for member in members {
                    set.add(member);
                }
            })?;
        }
        Value::ZSet(members) => {
            keyspace.update::<ZSet, ()>(db, key, true, |zset| {
                for (member, score) in members {
                    zset.set(member, *score);
                }
            })?;
        }
        Value::Stream(value) => stream::dump::create(keyspace, db, key, value)?,
        Value::Hash(fields) => {
            keyspace.update::<Hash, ()>(db, key, true, |hash| {
                for (name, value, expires_at_ms) in fields {
                    hash.put(&Field { name, value, expires_at_ms: *expires_at_ms });
                }
            })?;
        }
    }
    Ok(())
}
