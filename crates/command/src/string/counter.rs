//! INCREX: a counter with bounds and an expiry.
//!
//! A limit of 100 calls a minute is `INCREX calls UBOUND 100 EX 60 ENX`: the first call of a minute
//! creates the counter with its expiry, and the second element of the reply is 0 when there were 100.

use keyspace::string::Form;
use keyspace::{Expiry, Keyspace, Notify, StringRef, WrongType};

use super::conditional::Condition;
use crate::argument::{self, TimeUnit};
use crate::context::Context;
use crate::error::{CommandError, Done};
use crate::long_double::LongDouble;

/// What becomes of the expiry.
#[derive(Clone, Copy)]
enum Lifetime<'a> {
    Persist,
    Until(TimeUnit, &'a [u8]),
}

/// The options of INCREX. Each comes once, except that Valkey takes NX or XX again.
#[derive(Default)]
struct Options<'a> {
    /// NX or XX, of Valkey.
    condition: Option<Condition<'a>>,
    /// Behind BYINT.
    int: Option<&'a [u8]>,
    /// Behind BYFLOAT.
    float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    /// Beyond a bound the value becomes the bound, rather than stays.
    saturates: bool,
    lifetime: Option<Lifetime<'a>>,
    /// ENX: a key that expires goes on doing so when it did.
    keeps_expiry: bool,
}

impl<'a> Options<'a> {
    fn parse(mut words: &[&'a [u8]]) -> Result<Self, CommandError> {
        const NO_EXPIRATION: CommandError =
            CommandError::other("ERR ENX flag requires an expiration");
        let mut options = Self::default();
        while let [word, rest @ ..] = words {
            let is = |keyword| argument::is(word, keyword);
            words = rest;
            if let Some(condition) = Condition::parse(word, None)
                && options.condition.is_none_or(|before| before.is_like(condition))
            {
                options.condition = Some(condition);
            } else if is("SATURATE") && !options.saturates {
                options.saturates = true;
            } else if is("ENX") && !options.keeps_expiry {
                options.keeps_expiry = true;
            } else if is("PERSIST") && options.lifetime.is_none() {
                options.lifetime = Some(Lifetime::Persist);
            } else if let [value, rest @ ..] = rest {
                options.set(word, value)?;
                words = rest;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        match options.lifetime {
            Some(Lifetime::Persist) if options.keeps_expiry => Err(CommandError::Syntax),
            None if options.keeps_expiry => Err(NO_EXPIRATION),
            _ => Ok(options),
        }
    }

    /// Notes an option that has a value.
    fn set(&mut self, word: &[u8], value: &'a [u8]) -> Result<(), CommandError> {
        let is = |keyword| argument::is(word, keyword);
        let has_increment = self.int.is_some() || self.float.is_some();
        if is("BYINT") && !has_increment {
            self.int = Some(value);
        } else if is("BYFLOAT") && !has_increment {
            self.float = Some(value);
        } else if is("LBOUND") && self.lower.is_none() {
            self.lower = Some(value);
        } else if is("UBOUND") && self.upper.is_none() {
            self.upper = Some(value);
        } else if let Some(unit) = TimeUnit::parse(word)
            && self.lifetime.is_none()
        {
            self.lifetime = Some(Lifetime::Until(unit, value));
        } else {
            return Err(CommandError::Syntax);
        }
        Ok(())
    }

    /// Whether NX or XX holds of a key.
    fn admits(&self, ctx: &mut Context<'_>, key: &[u8]) -> Result<bool, WrongType> {
        self.condition.map_or(Ok(true), |condition| condition.holds(ctx, key))
    }

    /// What becomes of the expiry, if nothing of the key is to be kept.
    fn expiry(&self, keyspace: &Keyspace) -> Result<Expiry, CommandError> {
        Ok(match self.lifetime {
            None => Expiry::Keep,
            Some(Lifetime::Persist) => Expiry::Clear,
            Some(Lifetime::Until(unit, time)) => {
                Expiry::At(argument::expiry(time, unit, keyspace, "increx")?)
            }
        })
    }
}

/// INCREX key [NX | XX] [BYINT integer | BYFLOAT float] [LBOUND bound] [UBOUND bound] [SATURATE]
/// [EX | PX | EXAT | PXAT time | PERSIST] [ENX].
///
/// A call whose condition does not hold is declined like one beyond a bound: it replies the value
/// as it is, and 0.
pub(crate) fn increx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let options = Options::parse(&args[2..])?;
    match options.float {
        Some(by) => add_float(ctx, args[1], by, &options),
        None => add_int(ctx, args[1], &options),
    }
}

const CROSSED: CommandError = CommandError::other("ERR LBOUND can't be greater than UBOUND");

fn add_int(ctx: &mut Context<'_>, key: &[u8], options: &Options<'_>) -> Done {
    let read = |text: Option<&[u8]>, name: &str, otherwise: i64| match text {
        None => Ok(otherwise),
        Some(text) => argument::int(text).map_err(|_| {
            CommandError::Other(format!("ERR {name} is not an integer or out of range").into())
        }),
    };
    let by = read(options.int, "Increment", 1)?;
    let bounds = Bounds {
        lower: read(options.lower, "LBOUND", i64::MIN)?,
        upper: read(options.upper, "UBOUND", i64::MAX)?,
        saturates: options.saturates,
    };
    if bounds.lower > bounds.upper {
        return Err(CROSSED);
    }
    let expiry = options.expiry(ctx.keyspace)?;
    let old = match ctx.keyspace.string_to_change(ctx.db, key)? {
        None => 0,
        Some(value) => value.as_int().ok_or(CommandError::NotAnInteger)?,
    };
    let sum = if options.admits(ctx, key)? { bounds.sum(old, by)? } else { None };
    if let Some((new, _)) = sum {
        let mut digits = itoa::Buffer::new();
        let new = digits.format(new).as_bytes();
        store(ctx, key, Form::Compact, new, expiry, options.keeps_expiry);
    }
    let (new, applied) = sum.unwrap_or((old, 0));
    ctx.reply.array(2);
    ctx.reply.int(new);
    ctx.reply.int(applied);
    Ok(())
}

/// What a counter may become.
struct Bounds<T> {
    lower: T,
    upper: T,
    /// A sum beyond a bound becomes the bound, rather than being declined.
    saturates: bool,
}

impl Bounds<i64> {
    /// The sum and what was added to make it; `None` when it is declined.
    fn sum(&self, old: i64, by: i64) -> Result<Option<(i64, i64)>, CommandError> {
        const TOO_FAR: CommandError = CommandError::other("ERR applied increment would overflow");
        let sum = i128::from(old) + i128::from(by);
        let new = sum.clamp(self.lower.into(), self.upper.into());
        if new != sum && !self.saturates {
            return Ok(None);
        }
        let applied = i64::try_from(new - i128::from(old)).map_err(|_| TOO_FAR)?;
        Ok(Some((i64::try_from(new).expect("the bounds are such numbers"), applied)))
    }
}

impl Bounds<LongDouble> {
    /// As that of integers.
    fn sum(
        &self,
        old: &LongDouble,
        by: &LongDouble,
    ) -> Result<Option<(LongDouble, LongDouble)>, CommandError> {
        const INFINITE: CommandError =
            CommandError::other("ERR applied increment would be Infinity");
        let Self { lower, upper, saturates } = self;
        let new = match old.checked_add(by) {
            Some(sum) if !sum.order(lower).is_lt() && !sum.order(upper).is_gt() => sum,
            _ if !saturates => return Ok(None),
            Some(sum) if sum.order(lower).is_lt() => lower.clone(),
            // What no number is large enough for is beyond the bound on its side.
            None if by.is_negative() => lower.clone(),
            _ => upper.clone(),
        };
        let applied = new.checked_add(&old.negated()).ok_or(INFINITE)?;
        Ok(Some((new, applied)))
    }
}

fn add_float(ctx: &mut Context<'_>, key: &[u8], by: &[u8], options: &Options<'_>) -> Done {
    const INFINITE_INCREMENT: CommandError =
        CommandError::other("ERR BYFLOAT increment cannot be Infinity");
    const INFINITE_VALUE: CommandError = CommandError::other("ERR value cannot be Infinity");
    let read = |text: &[u8], name: &str| {
        LongDouble::parse(text)
            .ok_or_else(|| CommandError::Other(format!("ERR {name} is not a valid float").into()))
    };
    let by = read(by, "Increment")?;
    if !by.is_finite() {
        return Err(INFINITE_INCREMENT);
    }
    let bound = |text: Option<&[u8]>, name: &str, otherwise: LongDouble| match text {
        None => Ok(otherwise),
        Some(text) => read(text, name),
    };
    let bounds = Bounds {
        lower: bound(options.lower, "LBOUND", LongDouble::largest().negated())?,
        upper: bound(options.upper, "UBOUND", LongDouble::largest())?,
        saturates: options.saturates,
    };
    if bounds.lower.order(&bounds.upper).is_gt() {
        return Err(CROSSED);
    }
    let expiry = options.expiry(ctx.keyspace)?;
    let mut digits = itoa::Buffer::new();
    let old = ctx.keyspace.string_to_change(ctx.db, key)?.unwrap_or(StringRef::Int(0));
    let old = LongDouble::parse(old.as_bytes(&mut digits)).ok_or(CommandError::NotAFloat)?;
    if !old.is_finite() {
        return Err(INFINITE_VALUE);
    }
    let sum = if options.admits(ctx, key)? { bounds.sum(&old, &by)? } else { None };
    let (new, applied) = match &sum {
        Some((new, applied)) => (new.to_decimal(), applied.to_decimal()),
        None => (old.to_decimal(), "0".to_owned()),
    };
    if sum.is_some() {
        store(ctx, key, Form::Text, new.as_bytes(), expiry, options.keeps_expiry);
    }
    ctx.reply.array(2);
    ctx.reply.decimal(&new);
    ctx.reply.decimal(&applied);
    Ok(())
}

/// Sets a key, or deletes it when its time has come already, and tells of it.
fn store(
    ctx: &mut Context<'_>,
    key: &[u8],
    form: Form,
    new: &[u8],
    expiry: Expiry,
    keeps_expiry: bool,
) {
    let expires = matches!(ctx.keyspace.expires_at_ms(ctx.db, key), Some(Some(_)));
    let expiry = if keeps_expiry && expires { Expiry::Keep } else { expiry };
    if let Expiry::At(at_ms) = expiry
        && ctx.keyspace.has_come(at_ms)
    {
        if ctx.keyspace.delete(ctx.db, key) {
            ctx.notify(Notify::GENERIC, "del", key);
        }
        return;
    }
    let event = if matches!(form, Form::Text) { "incrbyfloat" } else { "incrby" };
    ctx.keyspace.set_string_as(form, ctx.db, key, new, expiry);
    ctx.notify(Notify::STRING, event, key);
    match expiry {
        Expiry::At(_) => ctx.notify(Notify::GENERIC, "expire", key),
        Expiry::Clear if expires => ctx.notify(Notify::GENERIC, "persist", key),
        Expiry::Clear | Expiry::Keep => {}
    }
}
