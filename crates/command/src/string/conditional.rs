//! What is set or deleted as a whole, perhaps only if a condition holds: SET, MSETEX, DELEX, DELIFEQ.
//!
//! A lock is taken with `SET lock token NX PX 30000`, prolonged with `IFEQ token`, and released with
//! `DELEX lock IFEQ token`: no script is needed.

use keyspace::{Expiry, Keyspace, Notify, Type, WrongType};

use super::write_string;
use crate::argument::{self, TimeUnit};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// What must be true of a key for a call to change it.
#[derive(Clone, Copy)]
pub(super) enum Condition<'a> {
    /// NX.
    Absent,
    /// XX.
    Present,
    /// IFEQ.
    Equal(&'a [u8]),
    /// IFNE: also of a key that is not there.
    Unequal(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// The condition that a word names, with the argument behind it if it compares.
    pub(super) fn parse(word: &[u8], value: Option<&'a [u8]>) -> Option<Self> {
        if argument::is(word, "NX") {
            Some(Self::Absent)
        } else if argument::is(word, "XX") {
            Some(Self::Present)
        } else if argument::is(word, "IFEQ") {
            value.map(Self::Equal)
        } else if argument::is(word, "IFNE") {
            value.map(Self::Unequal)
        } else {
            None
        }
    }

    /// Whether it compares the value with an argument.
    const fn compares(self) -> bool {
        matches!(self, Self::Equal(_) | Self::Unequal(_))
    }

    /// Whether both are named by the same word.
    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Whether it holds of a key. Looking at the key does not count as a read.
    pub(super) fn holds(self, ctx: &mut Context<'_>, key: &[u8]) -> Result<bool, WrongType> {
        let (wanted, equal) = match self {
            Self::Absent => return Ok(!ctx.keyspace.exists(ctx.db, key, false)),
            Self::Present => return Ok(ctx.keyspace.exists(ctx.db, key, false)),
            Self::Equal(wanted) => (wanted, true),
            Self::Unequal(wanted) => (wanted, false),
        };
        let mut digits = itoa::Buffer::new();
        let found = ctx.keyspace.string_to_change(ctx.db, key)?;
        Ok(found.is_some_and(|value| value.as_bytes(&mut digits) == wanted) == equal)
    }
}

/// The options of SET, and those of MSETEX, which are some of them.
#[derive(Default)]
struct SetOptions<'a> {
    condition: Option<Condition<'a>>,
    get: bool,
    keep_ttl: bool,
    expires: Option<(TimeUnit, &'a [u8])>,
}

impl<'a> SetOptions<'a> {
    /// A word may come again: of two values, and of two times of one unit, the last counts.
    fn parse(mut words: &[&'a [u8]]) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let [word, rest @ ..] = words {
            words = rest;
            if let Some(condition) = Condition::parse(word, rest.first().copied())
                && options.condition.is_none_or(|before| before.is_like(condition))
            {
                options.condition = Some(condition);
                words = &rest[usize::from(condition.compares())..];
            } else if argument::is(word, "GET") {
                options.get = true;
            } else if argument::is(word, "KEEPTTL") && options.expires.is_none() {
                options.keep_ttl = true;
            } else if let Some(unit) = TimeUnit::parse(word)
                && let [time, rest @ ..] = rest
                && options.expires.is_none_or(|(before, _)| before == unit)
                && !options.keep_ttl
            {
                options.expires = Some((unit, *time));
                words = rest;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// What becomes of the expiry of a key that is set.
    fn expiry(&self, keyspace: &Keyspace, command: &'static str) -> Result<Expiry, CommandError> {
        Ok(match self.expires {
            Some((unit, time)) => Expiry::At(argument::expiry(time, unit, keyspace, command)?),
            None if self.keep_ttl => Expiry::Keep,
            None => Expiry::Clear,
        })
    }
}

/// SET key value [NX | XX | IFEQ value | IFNE value] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL].
pub(crate) fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let key = args[1];
    let options = SetOptions::parse(&args[3..])?;
    let expiry = options.expiry(ctx.keyspace, "set")?;
    if options.get {
        write_string(ctx.reply, ctx.keyspace.string(ctx.db, key)?);
    }
    if let Some(condition) = options.condition
        && !condition.holds(ctx, key)?
    {
        if !options.get {
            ctx.reply.null();
        }
        return Ok(());
    }
    put(ctx, key, args[2], expiry);
    if !options.get {
        ctx.reply.ok();
    }
    Ok(())
}

/// Sets a key and tells of it: `set` before `expire`, of every command. MSETEX of Redis 8.4 tells
/// them the other way round.
fn put(ctx: &mut Context<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    ctx.keyspace.set_string(ctx.db, key, value, expiry);
    ctx.notify(Notify::STRING, "set", key);
    if matches!(expiry, Expiry::At(_)) {
        ctx.notify(Notify::GENERIC, "expire", key);
    }
}

/// The most pairs that MSETEX says it takes.
const PAIRS_MAX: usize = 0x7fff_ffff;

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX | PX | EXAT | PXAT time | KEEPTTL].
pub(crate) fn msetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const NO_COUNT: CommandError = CommandError::other("ERR invalid numkeys value");
    const TOO_FEW: CommandError = CommandError::other("ERR wrong number of key-value pairs");
    let count = argument::count(args[1]).ok().filter(|count| (1..=PAIRS_MAX).contains(count));
    let (pairs, words) = args[2..].split_at_checked(2 * count.ok_or(NO_COUNT)?).ok_or(TOO_FEW)?;
    let options = SetOptions::parse(words)?;
    if options.get || options.condition.is_some_and(Condition::compares) {
        return Err(CommandError::Syntax);
    }
    let expiry = options.expiry(ctx.keyspace, "msetex")?;
    let (pairs, _) = pairs.as_chunks::<2>();
    if let Some(condition) = options.condition {
        for [key, _] in pairs {
            if !condition.holds(ctx, key)? {
                ctx.reply.int(0);
                return Ok(());
            }
        }
    }
    for [key, value] in pairs {
        put(ctx, key, value, expiry);
    }
    ctx.reply.int(1);
    Ok(())
}

/// DELEX key [IFEQ value | IFNE value]; without a condition, of any type.
pub(crate) fn delex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    const NOT_A_STRING: CommandError =
        CommandError::other("ERR Key should be of string type if conditions are specified");
    const NO_CONDITION: CommandError =
        CommandError::other("ERR Invalid condition. Use IFEQ or IFNE");
    let key = args[1];
    let condition = match args[2..] {
        [] => None,
        [word, value] => Some((word, value)),
        _ => return Err(CommandError::WrongArity("delex".into())),
    };
    // The key is looked at before the rest of the call.
    let holds = match (ctx.keyspace.type_of(ctx.db, key), condition) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(Type::String), Some((word, value))) => {
            let condition = Condition::parse(word, Some(value)).filter(|found| found.compares());
            condition.ok_or(NO_CONDITION)?.holds(ctx, key)?
        }
        (Some(_), Some(_)) => return Err(NOT_A_STRING),
    };
    delete_if(ctx, key, holds);
    Ok(())
}

/// DELIFEQ key value, of Valkey.
pub(crate) fn delifeq(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let holds = Condition::Equal(args[2]).holds(ctx, args[1])?;
    delete_if(ctx, args[1], holds);
    Ok(())
}

fn delete_if(ctx: &mut Context<'_>, key: &[u8], holds: bool) {
    let deleted = holds && ctx.keyspace.delete(ctx.db, key);
    if deleted {
        ctx.notify(Notify::GENERIC, "del", key);
    }
    ctx.reply.int(i64::from(deleted));
}
