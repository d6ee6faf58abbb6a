//! SCAN, and the options that HSCAN, SSCAN and ZSCAN share with it.
//!
//! A cursor is a position in the order of the keys' hashes, so it stays true while the table
//! grows and shrinks: what is there from the beginning to the end of an iteration is returned.

use base::glob;

use crate::argument;
use crate::context::Context;
use crate::error::{CommandError, Done};

/// How many elements a call looks at when the client does not say.
const COUNT_DEFAULT: usize = 10;

/// What an iteration goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Iterated {
    Keys,
    Fields,
    Members,
    ScoredMembers,
}

/// The cursor and the options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanOptions<'a> {
    /// Where to go on; 0 at the beginning.
    pub(crate) cursor: u64,
    /// About how many elements to look at.
    pub(crate) count: usize,
    /// NOVALUES or NOSCORES: names alone.
    pub(crate) names_only: bool,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

/// The cursor that a client sent.
///
/// # Errors
/// When it is none; this is checked before the key is looked at, the options after it.
pub fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let (digits, negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    let cursor: Option<u64> = match digits {
        // C's `strtoul` makes nothing of nothing.
        b"" if !negative => Some(0),
        digits => std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()),
    };
    match cursor {
        // A sign is taken as C's `strtoul` takes it.
        Some(cursor) if negative => Ok(cursor.wrapping_neg()),
        Some(cursor) => Ok(cursor),
        None => Err(CommandError::other("ERR invalid cursor")),
    }
}

impl<'a> ScanOptions<'a> {
    /// The options behind the cursor.
    ///
    /// # Errors
    /// When one of them is unknown, incomplete, out of range, or meant for another iteration.
    pub(crate) fn parse(
        cursor: u64,
        mut options: &[&'a [u8]],
        iterated: Iterated,
    ) -> Result<Self, CommandError> {
        let mut parsed = Self {
            cursor,
            count: COUNT_DEFAULT,
            names_only: false,
            pattern: None,
            type_name: None,
        };
        while let [word, rest @ ..] = options {
            if asks_for_names(word, iterated)? {
                parsed.names_only = true;
                options = rest;
                continue;
            }
            let [value, rest @ ..] = rest else { return Err(CommandError::Syntax) };
            match word.to_ascii_lowercase().as_slice() {
                b"count" => {
                    let count = argument::int(value)?;
                    parsed.count = usize::try_from(count).map_err(|_| CommandError::Syntax)?;
                    if parsed.count == 0 {
                        return Err(CommandError::Syntax);
                    }
                }
                b"match" => parsed.pattern = (*value != b"*").then_some(*value),
                b"type" if iterated == Iterated::Keys => parsed.type_name = Some(value),
                _ => return Err(CommandError::Syntax),
            }
            options = rest;
        }
        Ok(parsed)
    }

    /// Whether the client wants an element of this name.
    #[must_use]
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn wants_type(&self, name: &str) -> bool {
        self.type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// Whether an option asks for names alone.
fn asks_for_names(option: &[u8], iterated: Iterated) -> Result<bool, CommandError> {
    let (meant, misplaced) = if argument::is(option, "NOVALUES") {
        (Iterated::Fields, "ERR NOVALUES option can only be used in HSCAN")
    } else if argument::is(option, "NOSCORES") {
        (Iterated::ScoredMembers, "ERR NOSCORES option can only be used in ZSCAN")
    } else {
        return Ok(false);
    };
    if iterated == meant { Ok(true) } else { Err(CommandError::other(misplaced)) }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
pub(crate) fn scan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let cursor = parse_cursor(args[1])?;
    let options = ScanOptions::parse(cursor, &args[2..], Iterated::Keys)?;
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    let next = ctx.keyspace.scan(ctx.db, cursor, options.count, |key, value_type| {
        if options.matches(key) && options.wants_type(value_type.name()) {
            keys.push(key.into());
        }
    });
    ctx.reply.array(2);
    write_cursor(ctx.reply, next);
    ctx.reply.array(keys.len());
    for key in &keys {
        ctx.reply.bulk(key);
    }
    Ok(())
}

/// Replies the cursor to go on with.
pub(crate) fn write_cursor(reply: &mut resp::Writer, cursor: u64) {
    reply.bulk_str(&cursor.to_string());
}
