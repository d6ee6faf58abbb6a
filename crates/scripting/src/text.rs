//! Functions of `string` that are not Lua's own: those with patterns, and `rep`.

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind};
use crate::pattern::{Capture, Matcher};

pub(crate) const FUNCTIONS: [(&str, Entry); 6] = [
    ("find", Entry::of(|frame| find(frame, true))),
    ("match", Entry::of(|frame| find(frame, false))),
    ("gmatch", Entry::of(gmatch)),
    // As Lua 5.0 called it.
    ("gfind", Entry::of(gmatch)),
    ("gsub", Entry::of(gsub)),
    ("rep", Entry::of(rep)),
];

/// Characters that make a text a pattern.
const SPECIAL: &[u8] = b"^$*+?.([%-";

fn rep(frame: &mut Frame<'_>) -> Results {
    let text = frame.check_text(1)?;
    let count = usize::try_from(frame.check_int(2)?).unwrap_or(0);
    let len = text.len().checked_mul(count).ok_or_else(Raise::memory)?;
    // Once here, and once as Lua's.
    frame.check_room(len.saturating_mul(2))?;
    frame.push_bytes(&text.repeat(count));
    Ok(1)
}

/// Where a search begins: argument 3, from the end if it is negative.
fn start_of(frame: &Frame<'_>, len: usize) -> Result<usize, Raise> {
    let given = frame.optional_integer(3, 1)?;
    let from_end = i64::try_from(len).unwrap_or(i64::MAX).saturating_add(given);
    let start = if given < 0 { from_end } else { given - 1 };
    Ok(usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(len))
}

/// `string.find`, or `string.match`.
fn find(frame: &mut Frame<'_>, is_find: bool) -> Results {
    let (text, pattern) = (frame.check_text(1)?, frame.check_text(2)?);
    let start = start_of(frame, text.len())?;
    let is_plain = frame.is_true(4) || !pattern.iter().any(|byte| SPECIAL.contains(byte));
    if is_find && is_plain {
        match find_plain(frame, &text[start..], pattern)? {
            Some(at) => {
                push_place(frame, start + at + 1);
                push_place(frame, start + at + pattern.len());
                return Ok(2);
            }
            None => {
                frame.push_nil();
                return Ok(1);
            }
        }
    }
    let (is_anchored, pattern) = anchored(pattern);
    let mut matcher = Matcher::new(text, pattern);
    let starts = if is_anchored { start..=start } else { start..=text.len() };
    for start in starts {
        if let Some(end) = matcher.match_at(frame, start)? {
            if !is_find {
                return push_captures(frame, text, &matcher, start, end, true);
            }
            push_place(frame, start + 1);
            push_place(frame, end);
            return Ok(2 + push_captures(frame, text, &matcher, start, end, false)?);
        }
    }
    frame.push_nil();
    Ok(1)
}

fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.strip_prefix(b"^") {
        Some(pattern) => (true, pattern),
        None => (false, pattern),
    }
}

fn push_place(frame: &mut Frame<'_>, place: usize) {
    frame.push_integer(i64::try_from(place).unwrap_or(i64::MAX));
}

fn find_plain(frame: &mut Frame<'_>, text: &[u8], searched: &[u8]) -> Result<Option<usize>, Raise> {
    let Some(first) = searched.first() else { return Ok(Some(0)) };
    let last_start = match text.len().checked_sub(searched.len()) {
        Some(last_start) => last_start,
        None => return Ok(None),
    };
    let mut at = 0;
    while at <= last_start {
        frame.pulse()?;
        match text[at..=last_start].iter().position(|byte| byte == first) {
            None => return Ok(None),
            Some(skipped) => at += skipped,
        }
        if text[at..].starts_with(searched) {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

/// Pushes the captures of a match, or all of it if there are none and `or_whole`.
fn push_captures(
    frame: &mut Frame<'_>,
    text: &[u8],
    matcher: &Matcher<'_>,
    start: usize,
    end: usize,
    or_whole: bool,
) -> Results {
    let captures = matcher.captures();
    if !frame.reserve(i32::try_from(captures.len() + 2).unwrap_or(i32::MAX)) {
        return Err(Raise::text("stack overflow (too many captures)"));
    }
    if captures.is_empty() && or_whole {
        frame.push_bytes(&text[start..end]);
        return Ok(1);
    }
    for capture in captures {
        push_capture(frame, text, *capture)?;
    }
    Ok(i32::try_from(captures.len()).unwrap_or(i32::MAX))
}

fn push_capture(frame: &mut Frame<'_>, text: &[u8], capture: Capture) -> Result<(), Raise> {
    match capture {
        Capture::Text { start, end } => frame.push_bytes(&text[start..end]),
        Capture::Place(at) => push_place(frame, at + 1),
        Capture::Open { .. } => return Err(Raise::text("unfinished capture")),
    }
    Ok(())
}

/// `string.gmatch`: a function with text, pattern and place as upvalues.
fn gmatch(frame: &mut Frame<'_>) -> Results {
    frame.check_text(1)?;
    frame.check_text(2)?;
    // Numbers have become texts by now.
    frame.push_copy(1);
    frame.push_copy(2);
    frame.push_number(0.0);
    frame.push_function(Entry::of(gmatch_next), 3);
    Ok(1)
}

fn gmatch_next(frame: &mut Frame<'_>) -> Results {
    let text = frame.upvalue_text(1).unwrap_or_default();
    let pattern = frame.upvalue_text(2).unwrap_or_default();
    frame.push_upvalue(3);
    #[expect(clippy::cast_possible_truncation, reason = "a place in a text")]
    #[expect(clippy::cast_sign_loss, reason = "a place in a text")]
    let from = frame.number(-1).unwrap_or_default() as usize;
    frame.pop(1);
    let mut matcher = Matcher::new(text, pattern);
    for start in from..=text.len() {
        if let Some(end) = matcher.match_at(frame, start)? {
            // Behind an empty match, the next one begins one further.
            push_place(frame, if end == start { end + 1 } else { end });
            frame.replace_upvalue(3);
            return push_captures(frame, text, &matcher, start, end, true);
        }
    }
    Ok(0)
}

/// `string.gsub`.
fn gsub(frame: &mut Frame<'_>) -> Results {
    let (text, pattern) = (frame.check_text(1)?, frame.check_text(2)?);
    let max = match frame.kind(4) {
        Kind::None | Kind::Nil => i64::MAX,
        _ => frame.check_integer(4)?,
    };
    if !matches!(frame.kind(3), Kind::Number | Kind::String | Kind::Function | Kind::Table) {
        return Err(Raise::argument(3, "string/function/table expected"));
    }
    let (is_anchored, pattern) = anchored(pattern);
    let mut matcher = Matcher::new(text, pattern);
    let mut out = Vec::new();
    let mut at = 0;
    let mut count = 0;
    while count < max {
        match matcher.match_at(frame, at)? {
            Some(end) => {
                count += 1;
                replace(frame, text, &matcher, at, end, &mut out)?;
                if end > at {
                    at = end;
                } else if at < text.len() {
                    out.push(text[at]);
                    at += 1;
                } else {
                    break;
                }
            }
            None if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            None => break,
        }
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    frame.check_room(out.len())?;
    frame.push_bytes(&out);
    frame.push_integer(count);
    Ok(2)
}

/// Appends what stands for a match.
fn replace(
    frame: &mut Frame<'_>,
    text: &[u8],
    matcher: &Matcher<'_>,
    start: usize,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let base = frame.top();
    match frame.kind(3) {
        Kind::Function => {
            frame.push_copy(3);
            let count = push_captures(frame, text, matcher, start, end, true)?;
            frame.call(count, 1)?;
        }
        Kind::Table => {
            push_captures(frame, text, matcher, start, end, true)?;
            frame.truncate(base + 1);
            frame.index(3)?;
        }
        _ => {
            let template = frame.check_text(3)?;
            frame.check_room(out.len() + template.len() + (end - start))?;
            return fill(frame, template, text, matcher, start, end, out);
        }
    }
    match frame.kind(-1) {
        Kind::Nil => out.extend_from_slice(&text[start..end]),
        Kind::Boolean if !frame.is_true(-1) => out.extend_from_slice(&text[start..end]),
        Kind::String | Kind::Number => {
            let replacement = frame.pushed_text();
            frame.check_room(out.len() + replacement.len())?;
            out.extend_from_slice(replacement);
        }
        _ => {
            let kind = frame.kind_name(-1);
            return Err(Raise::text(format!("invalid replacement value (a {kind})")));
        }
    }
    frame.truncate(base);
    Ok(())
}

/// Appends a template with its `%1` filled in.
fn fill(
    frame: &mut Frame<'_>,
    template: &[u8],
    text: &[u8],
    matcher: &Matcher<'_>,
    start: usize,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let mut rest = template.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let captured = match rest.next() {
            Some(b'0') => start..end,
            Some(digit @ b'1'..=b'9') => {
                let number = usize::from(digit - b'1');
                match matcher.captures().get(number) {
                    Some(Capture::Text { start, end }) => *start..*end,
                    Some(Capture::Place(at)) => {
                        out.extend_from_slice((at + 1).to_string().as_bytes());
                        continue;
                    }
                    Some(Capture::Open { .. }) => return Err(Raise::text("unfinished capture")),
                    None if number == 0 => start..end,
                    None => return Err(Raise::text("invalid capture index")),
                }
            }
            // Any other character means itself.
            other => {
                out.extend(other);
                continue;
            }
        };
        frame.check_room(out.len() + captured.len())?;
        out.extend_from_slice(&text[captured]);
    }
    Ok(())
}
