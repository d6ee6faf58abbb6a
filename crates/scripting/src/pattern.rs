//! Lua's patterns: matched with bounded depth, and interrupted.
//!
//! Lua's own matcher calls itself once for each item of a pattern and backtracks without end. This one
//! matches the same, refuses patterns that need more than [`DEPTH_MAX`] calls, and asks the host
//! every few thousand steps whether the script goes on.

use crate::entry::Raise;
use crate::frame::Frame;

/// As in Lua: `%1` to `%9` name captures, and there may be more.
pub(crate) const CAPTURES_MAX: usize = 32;

/// How many calls may be nested: one for each item with a choice and each capture of a pattern.
const DEPTH_MAX: u32 = 1000;

const ESCAPE: u8 = b'%';

/// What a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Its end was not reached.
    Open {
        start: usize,
    },
    Text {
        start: usize,
        end: usize,
    },
    /// `()`: where it is.
    Place(usize),
}

/// A text and a pattern for it.
pub(crate) struct Matcher<'m> {
    text: &'m [u8],
    pattern: &'m [u8],
    captures: Vec<Capture>,
    depth: u32,
}

type Matched = Result<Option<usize>, Raise>;

fn malformed(what: &str) -> Raise {
    Raise::text(format!("malformed pattern ({what})"))
}

impl<'m> Matcher<'m> {
    /// A pattern without its `^`.
    pub(crate) fn new(text: &'m [u8], pattern: &'m [u8]) -> Self {
        Self { text, pattern, captures: Vec::new(), depth: 0 }
    }

    /// The end of the match that begins at `start`.
    pub(crate) fn match_at(&mut self, frame: &mut Frame<'_>, start: usize) -> Matched {
        self.captures.clear();
        self.depth = 0;
        self.matches(frame, start, 0)
    }

    /// The captures of the last match.
    pub(crate) fn captures(&self) -> &[Capture] {
        &self.captures
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    fn deeper(&mut self, frame: &mut Frame<'_>, at: usize, item: usize) -> Matched {
        if self.depth >= DEPTH_MAX {
            return Err(Raise::text("pattern too complex"));
        }
        self.depth += 1;
        let matched = self.matches(frame, at, item);
        self.depth -= 1;
        matched
    }

    fn matches(&mut self, frame: &mut Frame<'_>, mut at: usize, mut item: usize) -> Matched {
        loop {
            frame.pulse()?;
            let Some(byte) = self.byte(item) else { return Ok(Some(at)) };
            match (byte, self.byte(item + 1)) {
                (b'(', Some(b')')) => {
                    return self.open(frame, at, item + 2, Capture::Place(at));
                }
                (b'(', _) => {
                    return self.open(frame, at, item + 1, Capture::Open { start: at });
                }
                (b')', _) => return self.close(frame, at, item + 1),
                (b'$', None) => {
                    return Ok((at == self.text.len()).then_some(at));
                }
                (ESCAPE, Some(b'b')) => match self.balanced(frame, at, item + 2)? {
                    Some(end) => {
                        at = end;
                        item += 4;
                        continue;
                    }
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => {
                    item += 2;
                    if self.byte(item) != Some(b'[') {
                        return Err(Raise::text("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(item)?;
                    let before = if at == 0 { 0 } else { self.text[at - 1] };
                    let here = self.text.get(at).copied().unwrap_or(0);
                    if self.set_has(item, end, before) || !self.set_has(item, end, here) {
                        return Ok(None);
                    }
                    item = end;
                    continue;
                }
                (ESCAPE, Some(digit @ b'0'..=b'9')) => match self.repeated(at, digit)? {
                    Some(end) => {
                        at = end;
                        item += 2;
                        continue;
                    }
                    None => return Ok(None),
                },
                _ => {}
            }
            let end = self.class_end(item)?;
            let fits = self.single(at, item, end);
            match self.byte(end) {
                Some(b'?') => {
                    if fits && let Some(matched) = self.deeper(frame, at + 1, end + 1)? {
                        return Ok(Some(matched));
                    }
                    item = end + 1;
                }
                Some(b'*') => return self.longest(frame, at, item, end),
                Some(b'+') => {
                    return if fits { self.longest(frame, at + 1, item, end) } else { Ok(None) };
                }
                Some(b'-') => return self.shortest(frame, at, item, end),
                _ if fits => {
                    at += 1;
                    item = end;
                }
                _ => return Ok(None),
            }
        }
    }

    fn longest(&mut self, frame: &mut Frame<'_>, at: usize, item: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.single(at + count, item, end) {
            count += 1;
            frame.pulse()?;
        }
        loop {
            if let Some(matched) = self.deeper(frame, at + count, end + 1)? {
                return Ok(Some(matched));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, frame: &mut Frame<'_>, at: usize, item: usize, end: usize) -> Matched {
        let mut at = at;
        loop {
            if let Some(matched) = self.deeper(frame, at, end + 1)? {
                return Ok(Some(matched));
            }
            if !self.single(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, frame: &mut Frame<'_>, at: usize, item: usize, capture: Capture) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Raise::text("too many captures"));
        }
        let len = self.captures.len();
        self.captures.push(capture);
        let matched = self.deeper(frame, at, item)?;
        if matched.is_none() {
            self.captures.truncate(len);
        }
        Ok(matched)
    }

    fn close(&mut self, frame: &mut Frame<'_>, at: usize, item: usize) -> Matched {
        let open =
            self.captures.iter().rposition(|capture| matches!(capture, Capture::Open { .. }));
        let Some(number) = open else { return Err(Raise::text("invalid pattern capture")) };
        let before = self.captures[number];
        let Capture::Open { start } = before else { unreachable!("it was found open") };
        self.captures[number] = Capture::Text { start, end: at };
        let matched = self.deeper(frame, at, item)?;
        if matched.is_none() {
            self.captures[number] = before;
        }
        Ok(matched)
    }

    /// `%bxy`: from an x to the y that balances it.
    fn balanced(&self, frame: &mut Frame<'_>, at: usize, item: usize) -> Matched {
        let (Some(begin), Some(end)) = (self.byte(item), self.byte(item + 1)) else {
            return Err(Raise::text("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&begin) {
            return Ok(None);
        }
        let mut depth = 1;
        for (number, byte) in self.text.iter().enumerate().skip(at + 1) {
            frame.pulse()?;
            if *byte == end {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(number + 1));
                }
            } else if *byte == begin {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: what a capture has matched.
    fn repeated(&self, at: usize, digit: u8) -> Matched {
        let number = usize::from(digit).checked_sub(usize::from(b'1'));
        match number.and_then(|number| self.captures.get(number)) {
            Some(Capture::Text { start, end }) => {
                let captured = &self.text[*start..*end];
                Ok(self.text[at..].starts_with(captured).then_some(at + captured.len()))
            }
            Some(Capture::Place(_)) => Ok(None),
            _ => Err(Raise::text("invalid capture index")),
        }
    }

    /// Where the single-character class that begins at `item` ends.
    fn class_end(&self, item: usize) -> Result<usize, Raise> {
        match self.byte(item) {
            Some(ESCAPE) => match self.byte(item + 1) {
                Some(_) => Ok(item + 2),
                None => Err(malformed("ends with '%'")),
            },
            Some(b'[') => {
                let mut at = item + 1;
                if self.byte(at) == Some(b'^') {
                    at += 1;
                }
                // The first one may be a bracket.
                loop {
                    let Some(byte) = self.byte(at) else {
                        return Err(malformed("missing ']'"));
                    };
                    at += 1;
                    if byte == ESCAPE && self.byte(at).is_some() {
                        at += 1;
                    }
                    if self.byte(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the byte at `at` is one of the class `item..end`.
    fn single(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match self.pattern[item] {
            b'.' => true,
            ESCAPE => class_has(self.pattern[item + 1], byte),
            b'[' => self.set_has(item, end, byte),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set `[…]` at `item..end`.
    fn set_has(&self, item: usize, end: usize, byte: u8) -> bool {
        let mut set = &self.pattern[item + 1..end - 1];
        let is_negated = set.first() == Some(&b'^');
        if is_negated {
            set = &set[1..];
        }
        let mut has = false;
        while let Some((first, rest)) = set.split_first() {
            set = rest;
            match (*first, rest) {
                (ESCAPE, [class, rest @ ..]) => {
                    set = rest;
                    has |= class_has(*class, byte);
                }
                (first, [b'-', last, rest @ ..]) => {
                    set = rest;
                    has |= (first..=*last).contains(&byte);
                }
                (first, _) => has |= first == byte,
            }
        }
        has != is_negated
    }
}

/// Whether a byte is of the class `%letter`; other characters mean themselves.
fn class_has(class: u8, byte: u8) -> bool {
    let has = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    has != class.is_ascii_uppercase()
}
