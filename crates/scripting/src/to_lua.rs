//! Replies of commands as values of Lua.
//!
//! | RESP | Lua |
//! | --- | --- |
//! | status, error | `{ok = text}`, `{err = text}` |
//! | integer, bulk string | number, text |
//! | null: of RESP2, of RESP3 | `false`, `nil` |
//! | array | table with elements |
//! | map, set | `{map = {key = value}}`, `{set = {element = true}}` |
//! | double, big number | `{double = number}`, `{big_number = text}` |
//! | verbatim text | `{verbatim_string = {format = text, string = text}}` |
//! | boolean | boolean |

use crate::entry::Raise;
use crate::frame::Frame;

/// How deep replies may be nested: deeper than any command's.
const DEPTH_MAX: u32 = 128;

/// So many names a table of Lua can have. More are an error that it raises, and must not while Rust runs.
const NAMES_MAX: usize = 1 << 26;

/// What an element and a field of a table take.
const ELEMENT_BYTES: usize = 16;
const FIELD_BYTES: usize = 40;

/// Fewer slots than a reply's own values need.
const SLOTS: i32 = 6;

/// Pushes the reply at the beginning of `bytes`. Returns what follows.
pub(crate) fn push_reply<'b>(frame: &mut Frame<'_>, bytes: &'b [u8]) -> Result<&'b [u8], Raise> {
    push(frame, bytes, 0)
}

fn malformed() -> Raise {
    Raise::reply("the reply of the command is malformed")
}

fn push<'b>(frame: &mut Frame<'_>, bytes: &'b [u8], depth: u32) -> Result<&'b [u8], Raise> {
    if depth > DEPTH_MAX || !frame.reserve(SLOTS) {
        return Err(Raise::reply("the reply of the command is nested too deeply"));
    }
    let (kind, line, mut rest) = split_line(bytes)?;
    match kind {
        b'+' => {
            frame.push_table(0, 1);
            frame.push_bytes(line);
            frame.set_field(-2, "ok");
        }
        b'-' => {
            frame.push_error(&bytes[..line.len() + 1]);
            frame.push_boolean(true);
            frame.set_field(-2, "ignore_error_stats_update");
        }
        b':' => frame.push_integer(integer(line)?),
        b'$' | b'*' if line == b"-1" => frame.push_boolean(false),
        b'$' => {
            let (text, after) = split_bulk(line, rest)?;
            frame.push_bytes(text);
            rest = after;
        }
        b'*' | b'>' => {
            let count = count(line, rest)?;
            frame.check_room(count.saturating_mul(ELEMENT_BYTES))?;
            frame.push_table(count, 0);
            for number in 1..=i32::try_from(count).map_err(|_| malformed())? {
                rest = push(frame, rest, depth + 1)?;
                frame.set_element(-2, number);
            }
        }
        b'%' | b'~' => {
            let count = count(line, rest)?;
            if count > NAMES_MAX {
                return Err(Raise::reply("the reply of the command has too many elements"));
            }
            frame.check_room(count.saturating_mul(FIELD_BYTES))?;
            frame.push_table(0, 1);
            frame.push_table(0, count);
            for _ in 0..count {
                rest = push(frame, rest, depth + 1)?;
                if kind == b'%' {
                    rest = push(frame, rest, depth + 1)?;
                } else {
                    frame.push_boolean(true);
                }
                frame.raw_set(-3)?;
            }
            frame.set_field(-2, if kind == b'%' { "map" } else { "set" });
        }
        b'_' => frame.push_nil(),
        b'#' => frame.push_boolean(line == b"t"),
        b',' => {
            let text = std::str::from_utf8(line).map_err(|_| malformed())?;
            frame.push_table(0, 1);
            frame.push_number(text.parse().map_err(|_| malformed())?);
            frame.set_field(-2, "double");
        }
        b'(' => {
            frame.push_table(0, 1);
            frame.push_bytes(line);
            frame.set_field(-2, "big_number");
        }
        b'=' => {
            let (text, after) = split_bulk(line, rest)?;
            let (format, text) = text.split_at_checked(4).ok_or_else(malformed)?;
            frame.push_table(0, 1);
            frame.push_table(0, 2);
            frame.push_bytes(text);
            frame.set_field(-2, "string");
            frame.push_bytes(&format[..3]);
            frame.set_field(-2, "format");
            frame.set_field(-2, "verbatim_string");
            rest = after;
        }
        _ => return Err(malformed()),
    }
    Ok(rest)
}

/// The type, the rest of its line, and what follows.
fn split_line(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Raise> {
    let end = bytes.iter().position(|byte| *byte == b'\r').ok_or_else(malformed)?;
    if end == 0 || bytes.get(end + 1) != Some(&b'\n') {
        return Err(malformed());
    }
    Ok((bytes[0], &bytes[1..end], &bytes[end + 2..]))
}

fn integer(line: &[u8]) -> Result<i64, Raise> {
    let (is_negative, digits) = match line.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, line),
    };
    if digits.is_empty() {
        return Err(malformed());
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        if digit > 9 {
            return Err(malformed());
        }
        // Downwards, where there is one more number.
        value = value.checked_mul(10).and_then(|v| v.checked_sub(digit)).ok_or_else(malformed)?;
    }
    if is_negative { Ok(value) } else { value.checked_neg().ok_or_else(malformed) }
}

/// The number of elements, each of which has a byte at least.
fn count(line: &[u8], rest: &[u8]) -> Result<usize, Raise> {
    let count = usize::try_from(integer(line)?).map_err(|_| malformed())?;
    if count <= rest.len() { Ok(count) } else { Err(malformed()) }
}

fn split_bulk<'b>(line: &[u8], rest: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), Raise> {
    let len = usize::try_from(integer(line)?).map_err(|_| malformed())?;
    let (text, rest) = rest.split_at_checked(len).ok_or_else(malformed)?;
    Ok((text, rest.strip_prefix(b"\r\n").ok_or_else(malformed)?))
}
