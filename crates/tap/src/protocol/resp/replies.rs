//! Frames a server's answers without keeping them.
//!
//! ```text
//!   *2\r\n $3\r\n foo\r\n :1\r\n     one reply: an array has two more elements than it has
//!   └ +2 ┘ └ -1, skip ──┘ └ -1 ┘     elements awaited: 1 ─► 2 ─► 1 ─► 0
//! ```
//!
//! One counter of awaited elements replaces a stack, because it does not matter which aggregate
//! contains an element. Only the bytes that tell a push from a reply are kept: the first byte, the
//! beginning of a line or of the first string, and the integer in third place.

use crate::entry::Outcome;

/// Bytes kept of a line or of the first string. They suffice for any name of a push, and for the
/// timestamp at the beginning of a MONITOR line.
const HEAD_BYTES: usize = 32;

/// Bytes kept of an incomplete line: lengths and integers are shorter.
const LINE_BYTES: usize = 64;

/// A complete reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// The first byte: the type.
    pub(super) kind: u8,
    is_null: bool,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// The integer that is the third element of an array or push: the number of subscriptions.
    pub(super) third: i64,
}

impl Reply {
    const NONE: Self =
        Self { kind: 0, is_null: false, head: [0; HEAD_BYTES], head_len: 0, third: 0 };

    /// The beginning of a simple string, or of the first string of an array or push.
    pub(super) fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }

    /// Whether it is null, in either version.
    pub(super) fn is_null(&self) -> bool {
        self.is_null
    }

    pub(super) fn outcome(&self) -> Outcome {
        if self.is_error() { Outcome::Error } else { Outcome::Ok }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(HEAD_BYTES - self.head_len);
        self.head[self.head_len..self.head_len + kept].copy_from_slice(&bytes[..kept]);
        self.head_len += kept;
    }
}

/// The kind of the next bytes.
#[derive(Clone, Copy, Debug)]
enum State {
    /// A line that begins an element.
    Line,
    /// A string with `bytes` bytes to come, then its line end.
    Text { bytes: u64, is_kept: bool },
    /// The two bytes after a string.
    TextEnd(u8),
}

/// The position in a server's replies.
#[derive(Debug)]
pub(super) struct Replies {
    state: State,
    reply: Reply,
    /// Elements that the current reply still needs; 1 between replies.
    awaited: u64,
    /// Elements of the current reply that have begun.
    begun: u64,
    /// The part of a line that came in an earlier piece.
    line: [u8; LINE_BYTES],
    line_len: usize,
    ends_with_return: bool,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            state: State::Line,
            reply: Reply::NONE,
            awaited: 1,
            begun: 0,
            line: [0; LINE_BYTES],
            line_len: 0,
            ends_with_return: false,
        }
    }

    /// Whether no reply has begun.
    pub(super) fn is_between(&self) -> bool {
        self.begun == 0
            && self.awaited == 1
            && self.line_len == 0
            && matches!(self.state, State::Line)
    }

    /// Takes bytes off the front of `bytes` until a reply is complete.
    ///
    /// # Errors
    /// Why the bytes are not a reply.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Reply>, &'static str> {
        while !bytes.is_empty() {
            let is_element_whole = match self.state {
                State::Line => self.line(bytes)?,
                State::Text { bytes: left, is_kept } => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    if is_kept {
                        self.reply.keep(&bytes[..here]);
                    }
                    self.state = match left - here as u64 {
                        0 => State::TextEnd(b'\r'),
                        left => State::Text { bytes: left, is_kept },
                    };
                    *bytes = &bytes[here..];
                    false
                }
                State::TextEnd(end) => {
                    if bytes[0] != end {
                        return Err("a string of a reply is longer than announced");
                    }
                    *bytes = &bytes[1..];
                    self.state = if end == b'\r' { State::TextEnd(b'\n') } else { State::Line };
                    end == b'\n'
                }
            };
            if is_element_whole {
                self.awaited -= 1;
            }
            if self.awaited == 0 {
                let reply = self.reply;
                self.awaited = 1;
                self.begun = 0;
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Skips `missing` bytes if they certainly lie within a string. Returns whether they did.
    pub(super) fn skip(&mut self, missing: u64) -> bool {
        match &mut self.state {
            State::Text { bytes, .. } if missing > 0 && missing <= *bytes => {
                *bytes -= missing;
                if *bytes == 0 {
                    self.state = State::TextEnd(b'\r');
                }
                true
            }
            _ => false,
        }
    }

    /// Reads a line, or as much of it as has arrived. Returns whether it is a complete element.
    fn line(&mut self, bytes: &mut &[u8]) -> Result<bool, &'static str> {
        let found = bytes.iter().position(|&byte| byte == b'\n');
        let here = &bytes[..found.unwrap_or(bytes.len())];
        *bytes = &bytes[found.map_or(bytes.len(), |at| at + 1)..];
        if found.is_some() && self.line_len == 0 {
            let line = here
                .strip_suffix(b"\r")
                .ok_or("a line of a reply ends without a carriage return")?;
            return self.element(line);
        }
        let kept = here.len().min(LINE_BYTES - self.line_len);
        self.line[self.line_len..self.line_len + kept].copy_from_slice(&here[..kept]);
        self.line_len += kept;
        if let Some(last) = here.last() {
            self.ends_with_return = *last == b'\r';
        }
        if found.is_none() {
            return Ok(false);
        }
        if !self.ends_with_return {
            return Err("a line of a reply ends without a carriage return");
        }
        let (line, len) = (self.line, self.line_len);
        self.line_len = 0;
        self.ends_with_return = false;
        // A line longer than what is kept is text, whose end does not matter.
        self.element(line[..len].strip_suffix(b"\r").unwrap_or(&line[..len]))
    }

    /// Begins the element whose first line is `line`. Returns whether that completes it.
    fn element(&mut self, line: &[u8]) -> Result<bool, &'static str> {
        let (&kind, rest) = line.split_first().ok_or("an empty line where a reply begins")?;
        let is_top = self.begun == 0 && self.awaited == 1;
        if is_top && kind != b'|' {
            self.reply = Reply { kind, ..Reply::NONE };
            self.begun = 1;
            if kind == b'+' {
                self.reply.keep(rest);
            }
            if kind == b'_' {
                self.reply.is_null = true;
            }
        } else if self.begun > 0 {
            self.begun += 1;
            if kind == b':' && self.begun == 4 {
                self.reply.third = number(rest).unwrap_or(0);
            }
        }
        match kind {
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => Ok(true),
            b'$' | b'=' | b'!' => {
                let Ok(bytes) = u64::try_from(number(rest).ok_or(NO_LENGTH)?) else {
                    self.reply.is_null |= is_top;
                    return Ok(true);
                };
                let is_kept = self.begun == 2 && matches!(self.reply.kind, b'*' | b'>');
                self.state = match bytes {
                    0 => State::TextEnd(b'\r'),
                    bytes => State::Text { bytes, is_kept },
                };
                Ok(false)
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Ok(count) = u64::try_from(number(rest).ok_or(NO_LENGTH)?) else {
                    self.reply.is_null |= is_top;
                    return Ok(true);
                };
                let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                self.awaited = self.awaited.saturating_add(count.saturating_mul(each));
                // An attribute precedes what it describes, and is not an element itself.
                Ok(kind != b'|')
            }
            _ => Err("an unknown type of reply"),
        }
    }
}

const NO_LENGTH: &str = "a length in a reply is not a number";

fn number(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let value = digits.iter().try_fold(0_i64, |value, &byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })?;
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], step: usize) -> Vec<(char, String, i64)> {
        let (mut replies, mut seen) = (Replies::new(), Vec::new());
        for piece in bytes.chunks(step) {
            let mut piece = piece;
            while let Some(reply) = replies.next(&mut piece).unwrap() {
                let head = String::from_utf8_lossy(reply.head()).into_owned();
                seen.push((char::from(reply.kind), head, reply.third));
            }
        }
        assert!(replies.is_between());
        seen
    }

    #[test]
    fn replies_of_both_versions_are_framed_however_they_are_cut() {
        let stream = b"+OK\r\n$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n\
            -ERR x\r\n%1\r\n+a\r\n~1\r\n,1.5\r\n|1\r\n+k\r\n*1\r\n:9\r\n:5\r\n_\r\n#t\r\n=7\r\ntxt:abc\r\n\
            >3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:7\r\n!5\r\nERR y\r\n(123\r\n";
        let whole = all(stream, stream.len());
        let kinds: String = whole.iter().map(|(kind, _, _)| kind).collect();
        assert_eq!(kinds, "+$$$***-%:_#=>!(");
        assert_eq!(whole[13], ('>', "subscribe".to_owned(), 7));
        for step in 1..20 {
            assert_eq!(all(stream, step), whole);
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [&b"?\r\n"[..], b"\r\n", b"+OK\n", b"$?\r\n", b"$1\r\nab\r\n", b"*x\r\n"] {
            let mut replies = Replies::new();
            assert!(replies.next(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn bytes_within_a_string_may_be_missing() {
        let mut replies = Replies::new();
        assert!(replies.next(&mut &b"$10\r\nab"[..]).unwrap().is_none());
        assert!(!replies.skip(9));
        assert!(replies.skip(7));
        assert!(replies.next(&mut &b"c\r\n"[..]).unwrap().is_some());
        assert!(!replies.skip(1));
    }
}
