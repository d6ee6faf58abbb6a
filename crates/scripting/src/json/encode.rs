//! Values of Lua as JSON.

use super::{ARRAY_METATABLE, DEPTH_MAX, Settings};
use crate::entry::{Raise, Results};
use crate::frame::{Frame, Kind};
use crate::number::general;

pub(super) fn encode(frame: &mut Frame<'_>) -> Results {
    if frame.arguments() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let mut out = Vec::new();
    let settings = Settings::of(frame);
    frame.push_copy(1);
    put(frame, &settings, 0, &mut out)?;
    frame.check_room(out.len())?;
    frame.push_bytes(&out);
    Ok(1)
}

fn cannot(kind: &str, reason: &str) -> Raise {
    Raise::text(format!("Cannot serialise {kind}: {reason}"))
}

/// Appends the value on top.
fn put(
    frame: &mut Frame<'_>,
    settings: &Settings,
    depth: i32,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    frame.pulse()?;
    match frame.kind(-1) {
        Kind::String => put_text(frame, -1, out)?,
        Kind::Number => put_number(frame, -1, settings, out)?,
        Kind::Boolean if frame.is_true(-1) => out.extend_from_slice(b"true"),
        Kind::Boolean => out.extend_from_slice(b"false"),
        Kind::Nil => out.extend_from_slice(b"null"),
        Kind::Pointer if frame.is_null(-1) => out.extend_from_slice(b"null"),
        Kind::Table => {
            let depth = depth.saturating_add(1);
            if depth > settings.encode_max_depth.min(DEPTH_MAX) || !frame.reserve(6) {
                return Err(Raise::text(format!("Cannot serialise, excessive nesting ({depth})")));
            }
            match array_length(frame, settings)? {
                Some(len) => put_array(frame, settings, depth, len, out)?,
                None => put_object(frame, settings, depth, out)?,
            }
        }
        _ => return Err(cannot(frame.kind_name(-1), "type not supported")),
    }
    Ok(())
}

/// The length of the table on top as an array, if it is written as one.
fn array_length(frame: &mut Frame<'_>, settings: &Settings) -> Result<Option<i32>, Raise> {
    let table = frame.top();
    let (mut max, mut items) = (0.0_f64, 0.0);
    frame.push_nil();
    while frame.next(table) {
        frame.pulse()?;
        frame.pop(1);
        let key = if frame.kind(-1) == Kind::Number { frame.number(-1) } else { None };
        match key {
            Some(key) if key >= 1.0 && key.fract() == 0.0 && key <= f64::from(i32::MAX) => {
                max = max.max(key);
                items += 1.0;
            }
            _ => {
                frame.truncate(table);
                return Ok(None);
            }
        }
    }
    if settings.sparse_ratio > 0
        && max > items * f64::from(settings.sparse_ratio)
        && max > f64::from(settings.sparse_safe)
    {
        return match settings.sparse_convert {
            0 => Err(cannot("table", "excessively sparse array")),
            _ => Ok(None),
        };
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most i32::MAX")]
    let len = max as i32;
    Ok((len > 0 || is_marked(frame, table)).then_some(len))
}

/// Whether a table was read as an array, and is to be written as one although it is empty.
fn is_marked(frame: &mut Frame<'_>, table: i32) -> bool {
    if !frame.push_metatable(table) {
        return false;
    }
    frame.push_upvalue(ARRAY_METATABLE);
    let is_marked = frame.is_same(-1, -2);
    frame.truncate(table);
    is_marked
}

fn put_array(
    frame: &mut Frame<'_>,
    settings: &Settings,
    depth: i32,
    len: i32,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    out.push(b'[');
    for number in 1..=len {
        if number > 1 {
            out.push(b',');
        }
        frame.raw_element(-1, number);
        put(frame, settings, depth, out)?;
        frame.pop(1);
    }
    out.push(b']');
    frame.check_room(out.len())
}

fn put_object(
    frame: &mut Frame<'_>,
    settings: &Settings,
    depth: i32,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let table = frame.top();
    let mut is_first = true;
    out.push(b'{');
    frame.push_nil();
    while frame.next(table) {
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        match frame.kind(-2) {
            Kind::Number => {
                out.push(b'"');
                put_number(frame, -2, settings, out)?;
                out.push(b'"');
            }
            Kind::String => put_text(frame, -2, out)?,
            _ => {
                return Err(cannot(frame.kind_name(-2), "table key must be a number or string"));
            }
        }
        out.push(b':');
        put(frame, settings, depth, out)?;
        frame.pop(1);
    }
    out.push(b'}');
    frame.check_room(out.len())
}

fn put_number(
    frame: &Frame<'_>,
    at: i32,
    settings: &Settings,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let value = frame.number(at).unwrap_or_default();
    match settings.encode_invalid {
        _ if value.is_finite() => {
            let precision = usize::try_from(settings.number_precision).unwrap_or(1);
            general(value, precision, out);
        }
        0 => return Err(cannot("number", "must not be NaN or Inf")),
        1 => general(value, 1, out),
        _ => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn put_text(frame: &Frame<'_>, at: i32, out: &mut Vec<u8>) -> Result<(), Raise> {
    let text = frame.bytes(at).unwrap_or_default();
    // Each byte may need six.
    if text.len() > 1 << 16 {
        frame.check_room(out.len().saturating_add(text.len().saturating_mul(6)))?;
    } else {
        frame.check_room(out.len() + text.len())?;
    }
    out.push(b'"');
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| needs_escape(*byte)) {
        out.extend_from_slice(&rest[..plain]);
        put_escaped(rest[plain], out);
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
    Ok(())
}

fn needs_escape(byte: u8) -> bool {
    matches!(byte, 0..=0x1f | b'"' | b'\\' | b'/' | 0x7f)
}

fn put_escaped(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' | b'/' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', letter]);
}
