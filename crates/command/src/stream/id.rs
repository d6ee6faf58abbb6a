//! Reading the ids of entries, and intervals of them.

use keyspace::stream::StreamId;

use crate::error::CommandError;

const INVALID: CommandError =
    CommandError::other("ERR Invalid stream ID specified as stream command argument");

/// No id is longer, as in Redis.
const ID_BYTES_MAX: usize = 127;

/// An id as it was given, when only its milliseconds may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Whole(StreamId),
    /// `ms-*`.
    Milliseconds(u64),
}

/// Reads an id, `-` or `+`; `seq` is its number if there is none.
pub(super) fn parse(argument: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    match argument {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => match given(argument, seq)? {
            Given::Whole(id) => Ok(id),
            Given::Milliseconds(_) => Err(INVALID),
        },
    }
}

/// Reads an id; `-` and `+` are none, and without a number it has 0.
pub(super) fn strict(argument: &[u8]) -> Result<StreamId, CommandError> {
    match argument {
        b"-" | b"+" => Err(INVALID),
        argument => parse(argument, 0),
    }
}

/// Reads several ids.
pub(super) fn all(arguments: &[&[u8]]) -> Result<Vec<StreamId>, CommandError> {
    arguments.iter().map(|argument| strict(argument)).collect()
}

/// Reads an id whose number the stream may give.
pub(super) fn given(argument: &[u8], seq: u64) -> Result<Given, CommandError> {
    if argument.len() > ID_BYTES_MAX || matches!(argument, b"-" | b"+") {
        return Err(INVALID);
    }
    // What follows a zero byte Redis does not see.
    let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let ms = parts.next().and_then(number).ok_or(INVALID)?;
    match parts.next() {
        None => Ok(Given::Whole(StreamId::new(ms, seq))),
        Some(b"*") => Ok(Given::Milliseconds(ms)),
        Some(seq) => Ok(Given::Whole(StreamId::new(ms, number(seq).ok_or(INVALID)?))),
    }
}

/// A number as `strtoull` reads it, which Redis leaves to it: blanks and a sign may be in front, and zeros.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The first id of an interval; `(` leaves its own out.
pub(super) fn start(argument: &[u8]) -> Result<StreamId, CommandError> {
    match argument {
        [b'(', id @ ..] if !id.is_empty() => {
            let error = CommandError::other("ERR invalid start ID for the interval");
            strict(id)?.next().ok_or(error)
        }
        id => parse(id, 0),
    }
}

/// Both ends of an interval; `(` leaves an end out.
pub(super) fn interval(first: &[u8], last: &[u8]) -> Result<(StreamId, StreamId), CommandError> {
    let first = start(first)?;
    let last = match last {
        [b'(', id @ ..] if !id.is_empty() => {
            let error = CommandError::other("ERR invalid end ID for the interval");
            let id = match id {
                b"-" | b"+" => return Err(INVALID),
                id => parse(id, u64::MAX)?,
            };
            id.previous().ok_or(error)?
        }
        id => parse(id, u64::MAX)?,
    };
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_redis_reads_it() {
        let id = StreamId::new;
        assert_eq!(strict(b"5-3"), Ok(id(5, 3)));
        assert_eq!(strict(b"5"), Ok(id(5, 0)));
        assert_eq!(strict(b"007-+3"), Ok(id(7, 3)));
        assert_eq!(strict(b"18446744073709551615-18446744073709551615"), Ok(StreamId::MAX));
        assert_eq!(parse(b"5", u64::MAX), Ok(id(5, u64::MAX)));
        assert_eq!((parse(b"-", 0), parse(b"+", 0)), (Ok(StreamId::MIN), Ok(StreamId::MAX)));
        for bad in [&b"-"[..], b"+", b"", b"a", b"5-", b"5-a", b"5-3-1", b"5-*", b"*", b"-5"] {
            assert_eq!(strict(bad), Err(INVALID), "{}", bad.escape_ascii());
        }
        assert_eq!(strict(b"18446744073709551616"), Err(INVALID));
        assert_eq!(given(b"5-*", 0), Ok(Given::Milliseconds(5)));
    }

    #[test]
    fn an_interval_may_leave_its_ends_out() {
        let id = StreamId::new;
        assert_eq!(interval(b"5", b"5"), Ok((id(5, 0), id(5, u64::MAX))));
        assert_eq!(interval(b"(5-1", b"(6-0"), Ok((id(5, 2), id(5, u64::MAX))));
        assert_eq!(interval(b"(5", b"(6"), Ok((id(5, 1), id(6, u64::MAX - 1))));
        assert!(interval(b"(-", b"+").is_err() && interval(b"-", b"(+").is_err());
        assert!(interval(b"(18446744073709551615-18446744073709551615", b"+").is_err());
        assert!(interval(b"-", b"(0-0").is_err() && interval(b"(", b"+").is_err());
    }
}
