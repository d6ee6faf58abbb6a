//! What a script returned or raised, as its reply.
//!
//! | Lua | reply |
//! | --- | --- |
//! | text, number | bulk string, integer: the fraction is dropped |
//! | `true`, `false` | 1 and null, or booleans after `redis.setresp(3)` |
//! | `{ok =}`, `{err =}`, `{double =}`, `{big_number =}`, `{verbatim_string =}`, `{map =}`, `{set =}` | what they name |
//! | another table | array of the elements up to the first nil |
//! | nil, anything else | null |

use resp::{Protocol, Writer};

use crate::entry::stop_text;
use crate::frame::{Frame, Kind};
use crate::host::{Ending, Interrupt};
use crate::meter::{STEP, TABLE};

/// How deep tables are written: one that contains itself has an end.
const DEPTH_MAX: u32 = 1000;

/// What an element and its table need.
const SLOTS: i32 = 6;

/// What was written was stopped: the rest of it is missing.
struct Stopped;

/// Writes the value on top, and pops it. If that is stopped meanwhile, the reply says so instead.
pub(crate) fn value(frame: &mut Frame<'_>, protocol: Protocol, out: &mut Writer) -> Ending {
    let (start, top) = (out.len(), frame.top() - 1);
    let ending = match frame.kind(-1) {
        Kind::Table => match error_of(frame).filter(|error| error.is_text) {
            Some(error) => Ending::Failed { is_counted: error.is_counted },
            None => Ending::Returned,
        },
        _ => Ending::Returned,
    };
    match write(frame, protocol, 0, out) {
        Ok(()) => ending,
        Err(Stopped) => {
            frame.truncate(top);
            out.truncate(start);
            out.error(&format!("ERR {}", stop_text(frame)));
            Ending::Stopped
        }
    }
}

/// Writes what the script called `name` has raised, which is on top, and pops it.
pub(crate) fn raised(frame: &mut Frame<'_>, name: &[u8], out: &mut Writer) -> Ending {
    if frame.kind(-1) != Kind::Table {
        // Memory or the stack was full: the handler that makes a table of it could not run.
        let text = frame.bytes(-1).unwrap_or(b"execution failure");
        let text = &text[..text.len().min(100)];
        out.error_bytes(&[b"ERR Error running script ", name, b", ", text].concat());
        frame.pop(1);
        return Ending::Failed { is_counted: false };
    }
    let error = error_of(frame).unwrap_or_else(|| ErrorValue {
        line: b"ERR unknown error".to_vec(),
        is_text: true,
        is_counted: false,
    });
    let mut line = error.line;
    frame.raw_field(-1, "source");
    frame.raw_field(-2, "line");
    if let (Some(source), Some(number)) = (frame.bytes(-2), frame.number(-1)) {
        line.extend_from_slice(b" script: ");
        line.extend_from_slice(name);
        line.extend_from_slice(b", on ");
        line.extend_from_slice(source);
        line.extend_from_slice(format!(":{number}.").as_bytes());
    }
    out.error_bytes(&line);
    frame.pop(3);
    Ending::Failed { is_counted: error.is_counted }
}

/// The text of what was raised, which is on top.
pub(crate) fn error_line(frame: &mut Frame<'_>) -> Vec<u8> {
    match frame.kind(-1) {
        Kind::Table => error_of(frame).map_or_else(|| b"ERR unknown error".to_vec(), |e| e.line),
        _ => [b"ERR ", frame.bytes(-1).unwrap_or(b"execution failure")].concat(),
    }
}

struct ErrorValue {
    line: Vec<u8>,
    /// It is text, and no number.
    is_text: bool,
    /// A command's error, which was counted when it was raised.
    is_counted: bool,
}

/// The table on top as an error, if it has the field `err`.
fn error_of(frame: &mut Frame<'_>) -> Option<ErrorValue> {
    if !frame.reserve(SLOTS) {
        return None;
    }
    frame.raw_field(-1, "err");
    let is_text = frame.kind(-1) == Kind::String;
    let has_line = is_text || frame.kind(-1) == Kind::Number;
    let line = has_line.then(|| frame.pushed_text().to_vec());
    frame.raw_field(-2, "ignore_error_stats_update");
    let is_counted = frame.is_true(-1);
    frame.pop(2);
    line.map(|line| ErrorValue { line, is_text, is_counted })
}

/// Writes the value on top, and pops it.
fn write(
    frame: &mut Frame<'_>,
    protocol: Protocol,
    depth: u32,
    out: &mut Writer,
) -> Result<(), Stopped> {
    if out.is_over() {
        frame.pop(1);
        return Ok(());
    }
    if depth > DEPTH_MAX || !frame.reserve(SLOTS) {
        out.error("ERR reached lua stack limit");
        frame.pop(1);
        return Ok(());
    }
    match frame.kind(-1) {
        Kind::String => out.bulk(frame.bytes(-1).unwrap_or_default()),
        Kind::Number => out.int(truncated(frame.number(-1).unwrap_or_default())),
        Kind::Boolean => match (protocol, frame.is_true(-1)) {
            (Protocol::Resp2, true) => out.int(1),
            (Protocol::Resp2, false) => out.null(),
            (Protocol::Resp3, value) => out.boolean(value),
        },
        Kind::Table => write_table(frame, protocol, depth, out)?,
        _ => out.null(),
    }
    frame.pop(1);
    Ok(())
}

/// As the processor converts it: whatever does not fit is the smallest number.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncated(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&value) { value as i64 } else { i64::MIN }
}

/// Writes the table on top, and leaves it there.
fn write_table(
    frame: &mut Frame<'_>,
    protocol: Protocol,
    depth: u32,
    out: &mut Writer,
) -> Result<(), Stopped> {
    go_on(frame, TABLE)?;
    let table = frame.top();
    if let Some(error) = error_of(frame).filter(|error| error.is_text) {
        out.error_bytes(&error.line);
        return Ok(());
    }
    for (field, kind, written) in FIELDS {
        frame.raw_field(table, field);
        let is_written = frame.kind(-1) == kind && written(frame, protocol, depth + 1, out)?;
        frame.truncate(table);
        if is_written {
            return Ok(());
        }
    }
    let mark = out.mark();
    let mut count = 0;
    for number in 1.. {
        frame.raw_element(table, number);
        if frame.kind(-1) == Kind::Nil || out.is_over() {
            break;
        }
        go_on(frame, STEP)?;
        write(frame, protocol, depth + 1, out)?;
        count += 1;
    }
    frame.truncate(table);
    out.finish_array(mark, count);
    Ok(())
}

/// Counts work, and asks from time to time whether the script goes on.
fn go_on(frame: &mut Frame<'_>, work: usize) -> Result<(), Stopped> {
    match frame.goes_on(work) {
        Interrupt::Continue => Ok(()),
        Interrupt::Stop => Err(Stopped),
    }
}

/// Writes what is on top, if it is as it must be.
type WriteField = fn(&mut Frame<'_>, Protocol, u32, &mut Writer) -> Result<bool, Stopped>;

/// The fields that make a table another reply than an array, in the order in which they count.
const FIELDS: [(&str, Kind, WriteField); 6] = [
    ("ok", Kind::String, |frame, _, _, out| {
        out.raw(b"+");
        out.raw(&one_line(frame.bytes(-1).unwrap_or_default()));
        out.raw(b"\r\n");
        Ok(true)
    }),
    ("double", Kind::Number, |frame, _, _, out| {
        out.double(frame.number(-1).unwrap_or_default());
        Ok(true)
    }),
    ("big_number", Kind::String, |frame, _, _, out| {
        let digits = one_line(frame.bytes(-1).unwrap_or_default());
        if out.is_resp3() {
            out.raw(b"(");
            out.raw(&digits);
            out.raw(b"\r\n");
        } else {
            out.bulk(&digits);
        }
        Ok(true)
    }),
    ("verbatim_string", Kind::Table, |frame, _, _, out| {
        frame.raw_field(-1, "format");
        frame.raw_field(-2, "string");
        let (Some(format), Some(text)) = (frame.bytes(-2), frame.bytes(-1)) else {
            return Ok(false);
        };
        if out.is_resp3() {
            let mut letters = *b"   ";
            for (letter, given) in letters.iter_mut().zip(format) {
                *letter = *given;
            }
            out.raw(format!("={}\r\n", text.len() + 4).as_bytes());
            out.raw(&letters);
            out.raw(b":");
            out.raw(text);
            out.raw(b"\r\n");
        } else {
            out.bulk(text);
        }
        Ok(true)
    }),
    ("map", Kind::Table, |frame, protocol, depth, out| {
        let table = frame.top();
        let mark = out.mark();
        let mut count = 0;
        frame.push_nil();
        while frame.next(table) {
            go_on(frame, STEP)?;
            frame.push_copy(-2);
            write(frame, protocol, depth, out)?;
            write(frame, protocol, depth, out)?;
            count += 1;
        }
        out.finish_map(mark, count);
        Ok(true)
    }),
    ("set", Kind::Table, |frame, protocol, depth, out| {
        let table = frame.top();
        let mark = out.mark();
        let mut count = 0;
        frame.push_nil();
        while frame.next(table) {
            go_on(frame, STEP)?;
            frame.pop(1);
            frame.push_copy(-1);
            write(frame, protocol, depth, out)?;
            count += 1;
        }
        out.finish_set(mark, count);
        Ok(true)
    }),
];

/// A line that has no line breaks.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
