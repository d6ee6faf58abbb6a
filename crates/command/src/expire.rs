//! When keys expire: the EXPIRE and TTL families.
//!
//! All times are kept as Unix milliseconds. EXPIRE and PEXPIRE count from the time that the
//! command sees, the AT forms from the epoch. A time that has come deletes the key at once, and
//! says so with `del` instead of `expire`.

use keyspace::Notify;

use crate::argument::{self, TimeUnit};
use crate::context::Context;
use crate::error::{CommandError, Done};

const SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: false };
const MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: false };
const UNIX_SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: true };
const UNIX_MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: true };

/// EXPIRE key seconds [NX | XX | GT | LT].
pub(crate) fn expire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "expire", SECONDS)
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT].
pub(crate) fn pexpire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "pexpire", MILLISECONDS)
}

/// EXPIREAT key seconds-since-epoch [NX | XX | GT | LT].
pub(crate) fn expireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "expireat", UNIX_SECONDS)
}

/// PEXPIREAT key milliseconds-since-epoch [NX | XX | GT | LT].
pub(crate) fn pexpireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    set_expiry(ctx, args, "pexpireat", UNIX_MILLISECONDS)
}

/// TTL key.
pub(crate) fn ttl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args[1], SECONDS)
}

/// PTTL key.
pub(crate) fn pttl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args[1], MILLISECONDS)
}

/// EXPIRETIME key.
pub(crate) fn expiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args[1], UNIX_SECONDS)
}

/// PEXPIRETIME key.
pub(crate) fn pexpiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    reply_expiry(ctx, args[1], UNIX_MILLISECONDS)
}

/// PERSIST key.
pub(crate) fn persist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (db, key) = (ctx.db, args[1]);
    let expires = ctx.keyspace.expires_at_ms(db, key).flatten().is_some();
    if expires {
        ctx.keyspace.set_expires_at_ms(db, key, None);
        ctx.notify(Notify::GENERIC, "persist", key);
    }
    ctx.reply.int(expires.into());
    Ok(())
}

/// The conditions on a key's present expiry. A key that does not expire counts as expiring last.
#[derive(Default)]
struct Conditions {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Conditions {
    fn parse(options: &[&[u8]]) -> Result<Self, CommandError> {
        let mut conditions = Self::default();
        for option in options {
            let condition = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.only_without,
                b"xx" => &mut conditions.only_with,
                b"gt" => &mut conditions.only_later,
                b"lt" => &mut conditions.only_earlier,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(CommandError::Other(
                        format!("ERR Unsupported option {option}").into(),
                    ));
                }
            };
            *condition = true;
        }
        let Self { only_without, only_with, only_later, only_earlier } = conditions;
        if only_without && (only_with || only_later || only_earlier) {
            return Err(CommandError::other(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if only_later && only_earlier {
            return Err(CommandError::other(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    fn allow(&self, present: Option<i64>, wanted: i64) -> bool {
        match present {
            Some(present) => {
                !self.only_without
                    && (!self.only_later || wanted > present)
                    && (!self.only_earlier || wanted < present)
            }
            None => !self.only_with && !self.only_later,
        }
    }
}

fn set_expiry(ctx: &mut Context<'_>, args: &[&[u8]], name: &'static str, unit: TimeUnit) -> Done {
    let conditions = Conditions::parse(&args[3..])?;
    let given = argument::int(args[2])?;
    let now_ms = ctx.keyspace.now_ms();
    let at_ms = unit.at_ms(given, now_ms).ok_or(CommandError::InvalidExpire(name.into()))?;

    let (db, key) = (ctx.db, args[1]);
    let present = ctx.keyspace.expires_at_ms(db, key);
    let allowed = present.is_some_and(|present| conditions.allow(present, at_ms));
    if allowed {
        if ctx.keyspace.has_come(at_ms) {
            ctx.keyspace.delete(db, key);
            ctx.notify(Notify::GENERIC, "del", key);
        } else {
            ctx.keyspace.set_expires_at_ms(db, key, Some(at_ms));
            ctx.notify(Notify::GENERIC, "expire", key);
        }
    }
    ctx.reply.int(allowed.into());
    Ok(())
}

/// Replies when the key expires; -1 for never, -2 when it is not there.
fn reply_expiry(ctx: &mut Context<'_>, key: &[u8], unit: TimeUnit) -> Done {
    let found = ctx.keyspace.expires_at_ms(ctx.db, key);
    ctx.count_read(key, found.is_some());
    let reply = match found {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => {
            let base_ms = if unit.absolute { 0 } else { ctx.keyspace.now_ms() };
            let left_ms = (at_ms - base_ms).max(0);
            if unit.seconds { left_ms / 1000 + i64::from(left_ms % 1000 >= 500) } else { left_ms }
        }
    };
    ctx.reply.int(reply);
    Ok(())
}
