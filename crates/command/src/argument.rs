//! Reading arguments: numbers, times, keywords.

use base::DbIndex;
use keyspace::{Keyspace, parse_int};

use crate::error::CommandError;
use crate::float;
use crate::long_double::LongDouble;

/// An integer argument.
///
/// # Errors
/// [`CommandError::NotAnInteger`].
pub fn int(argument: &[u8]) -> Result<i64, CommandError> {
    parse_int(argument).ok_or(CommandError::NotAnInteger)
}

/// An integer argument that is not negative, as a count.
///
/// # Errors
/// [`CommandError::MustBePositive`] when it is anything else.
pub fn count(argument: &[u8]) -> Result<usize, CommandError> {
    let count = parse_int(argument).ok_or(CommandError::MustBePositive)?;
    usize::try_from(count).map_err(|_| CommandError::MustBePositive)
}

/// Reads the index of a database, as SELECT, MOVE and COPY take it.
///
/// # Errors
/// Redis' errors: [`CommandError::NotAnInteger`], out of the range of an `int`, or no such database.
pub fn database(argument: &[u8], keyspace: &Keyspace) -> Result<DbIndex, CommandError> {
    let number = i32::try_from(int(argument)?).map_err(|_| {
        CommandError::other(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        )
    })?;
    existing(number, keyspace)
}

/// Reads the indexes of two databases, as SWAPDB takes them.
///
/// # Errors
/// Redis' errors: which of them is no number, before any that is no database.
pub fn two_databases(
    first: &[u8],
    second: &[u8],
    keyspace: &Keyspace,
) -> Result<(DbIndex, DbIndex), CommandError> {
    let number = |argument: &[u8], error: &'static str| {
        let number = parse_int(argument).and_then(|number| i32::try_from(number).ok());
        number.ok_or(CommandError::other(error))
    };
    let first = number(first, "ERR invalid first DB index")?;
    let second = number(second, "ERR invalid second DB index")?;
    Ok((existing(first, keyspace)?, existing(second, keyspace)?))
}

/// The database with this number.
fn existing(number: i32, keyspace: &Keyspace) -> Result<DbIndex, CommandError> {
    usize::try_from(number)
        .ok()
        .and_then(|number| keyspace.database(number))
        .ok_or(CommandError::other("ERR DB index is out of range"))
}

/// What an element of a reply takes at least: `$0`, two line ends.
const ELEMENT_BYTES_MIN: usize = 6;

/// How many random elements a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// So many different ones, or all when there are not so many.
    Distinct(usize),
    /// Exactly so many, the same one more than once perhaps: a negative count.
    Repeated(usize),
}

impl Pick {
    /// How many are asked for.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Distinct(count) | Self::Repeated(count) => count,
        }
    }

    /// The count argument of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
    ///
    /// # Errors
    /// [`CommandError::NotAnInteger`], or Redis' complaint about the one number without a negative.
    pub fn parse(argument: &[u8]) -> Result<Self, CommandError> {
        const OUT_OF_RANGE: CommandError = CommandError::other(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        );
        let count = int(argument)?;
        let size = count.checked_abs().ok_or(OUT_OF_RANGE)?;
        let size = usize::try_from(size).expect("it is not negative");
        Ok(if count < 0 { Self::Repeated(size) } else { Self::Distinct(size) })
    }

    /// Elements that may repeat are as many as the client says, however few there are: their reply
    /// is at most as long as a string may be (`reply_bytes_max`).
    ///
    /// # Errors
    /// [`CommandError::OutOfRange`] for more elements than that.
    pub fn check(self, reply_bytes_max: usize) -> Result<(), CommandError> {
        match self {
            Self::Repeated(count) if count > reply_bytes_max / ELEMENT_BYTES_MIN => {
                Err(CommandError::OutOfRange)
            }
            Self::Repeated(_) | Self::Distinct(_) => Ok(()),
        }
    }
}

/// A number argument.
///
/// # Errors
/// [`CommandError::NotAFloat`].
pub fn float(argument: &[u8]) -> Result<f64, CommandError> {
    float::parse(argument).ok_or(CommandError::NotAFloat)
}

/// Whether an argument is a keyword, in whatever case.
#[must_use]
pub fn is(argument: &[u8], keyword: &str) -> bool {
    argument.eq_ignore_ascii_case(keyword.as_bytes())
}

/// How a command states when a key expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeUnit {
    /// Seconds, rather than milliseconds.
    pub seconds: bool,
    /// From 1970, rather than from now.
    pub absolute: bool,
}

impl TimeUnit {
    /// The unit that EX, PX, EXAT or PXAT names.
    #[must_use]
    pub fn parse(keyword: &[u8]) -> Option<Self> {
        [("EX", true, false), ("PX", false, false), ("EXAT", true, true), ("PXAT", false, true)]
            .into_iter()
            .find(|unit| is(keyword, unit.0))
            .map(|(_, seconds, absolute)| Self { seconds, absolute })
    }

    /// The Unix time in milliseconds that `value` of this unit is; `None` when it overflows.
    #[must_use]
    pub fn at_ms(self, value: i64, now_ms: i64) -> Option<i64> {
        let ms = if self.seconds { value.checked_mul(1000)? } else { value };
        if self.absolute { Some(ms) } else { ms.checked_add(now_ms) }
    }
}

/// When a key expires, from a time argument that must be positive (SET EX and its like).
///
/// # Errors
/// [`CommandError::NotAnInteger`], or [`CommandError::InvalidExpire`] for `command`.
pub fn expiry(
    argument: &[u8],
    unit: TimeUnit,
    keyspace: &Keyspace,
    command: &'static str,
) -> Result<i64, CommandError> {
    let value = int(argument)?;
    let at_ms = if value > 0 { unit.at_ms(value, keyspace.now_ms()) } else { None };
    at_ms.ok_or(CommandError::InvalidExpire(command.into()))
}

/// The deadline of a blocking command from its timeout argument in seconds, 0 for never.
///
/// # Errors
/// Redis' two complaints about timeouts.
pub fn deadline(argument: &[u8], now_ms: i64) -> Result<Option<i64>, CommandError> {
    const NOT_A_FLOAT: CommandError =
        CommandError::other("ERR timeout is not a float or out of range");
    const NEGATIVE: CommandError = CommandError::other("ERR timeout is negative");
    /// Below this many seconds a double is precise to the millisecond.
    const PRECISE_SECONDS: f64 = 1e12;
    let ms = match float::parse(argument) {
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
        Some(seconds) if (0.0..PRECISE_SECONDS).contains(&seconds) => {
            (seconds * 1000.0).ceil() as i64
        }
        // Of what is too large the processor makes a negative number in Redis 7.0.
        _ => LongDouble::parse(argument).ok_or(NOT_A_FLOAT)?.thousandfold().unwrap_or(-1),
    };
    if ms < 0 {
        return Err(NEGATIVE);
    }
    if ms == 0 {
        return Ok(None);
    }
    Ok(Some(now_ms.saturating_add(ms)))
}

/// The part of a sequence of `len` items that `start` and `end` name, inclusive, negative from
/// the end; `None` when it is empty.
#[must_use]
pub fn range(start: i64, end: i64, len: usize) -> Option<std::ops::RangeInclusive<usize>> {
    let len = i64::try_from(len).ok()?;
    let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(len - 1));
    if start > end || start >= len {
        return None;
    }
    Some(usize::try_from(start).ok()?..=usize::try_from(end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inclusive_and_negative_from_the_end() {
        assert_eq!(range(0, -1, 5), Some(0..=4));
        assert_eq!(range(-3, 100, 5), Some(2..=4));
        assert_eq!(range(-100, -100, 5), None);
        assert_eq!(range(3, 2, 5), None);
        assert_eq!(range(0, 0, 0), None);
    }
}
