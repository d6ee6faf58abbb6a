//! JSON as values of Lua.

use super::{ARRAY_METATABLE, DEPTH_MAX, Settings};
use crate::entry::{Raise, Results};
use crate::frame::Frame;

/// A piece of the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its bytes are in [`Reader::text`].
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// What is wrong.
    Error(&'static str),
}

impl Token {
    /// What errors call it.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(what) => what,
        }
    }
}

/// A JSON text that is read.
struct Reader<'j> {
    json: &'j [u8],
    at: usize,
    /// Where the last token begins, or its error is.
    token_at: usize,
    /// The bytes of the last string.
    text: Vec<u8>,
    settings: Settings,
    depth: i32,
}

pub(super) fn decode(frame: &mut Frame<'_>) -> Results {
    if frame.arguments() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let json = frame.check_text(1)?;
    if json.len() >= 2 && json[..2].contains(&0) {
        return Err(Raise::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let settings = Settings::of(frame);
    let mut reader = Reader { json, at: 0, token_at: 0, text: Vec::new(), settings, depth: 0 };
    let token = reader.next();
    reader.push_value(frame, token)?;
    match reader.next() {
        Token::End => Ok(1),
        token => Err(reader.unexpected("the end", &token)),
    }
}

impl Reader<'_> {
    fn byte(&self, at: usize) -> u8 {
        // As if a zero followed, which ends the text.
        self.json.get(at).copied().unwrap_or(0)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> Raise {
        let (found, at) = (found.name(), self.token_at + 1);
        Raise::text(format!("Expected {expected} but found {found} at character {at}"))
    }

    fn error(&mut self, what: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(what)
    }

    fn next(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let token = match self.byte(self.at) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if self.settings.decode_invalid == 0 && self.is_invalid_number() {
                    return self.error("invalid number");
                }
                return self.number();
            }
            b't' | b'f' | b'n' | b'i' | b'I' | b'N' | b'+' => return self.word(),
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        token
    }

    fn word(&mut self) -> Token {
        let rest = self.json.get(self.at..).unwrap_or_default();
        for (word, token) in [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.settings.decode_invalid != 0 && self.is_invalid_number() {
            return self.number();
        }
        self.error("invalid token")
    }

    /// Whether what begins here is a number for C and none for JSON.
    fn is_invalid_number(&self) -> bool {
        let mut at = self.at;
        if self.byte(at) == b'+' {
            return true;
        }
        if self.byte(at) == b'-' {
            at += 1;
        }
        match self.byte(at) {
            b'0' => matches!(self.byte(at + 1), b'x' | b'X' | b'0'..=b'9'),
            first if first <= b'9' => false,
            _ => {
                let rest = self.json.get(at..).unwrap_or_default();
                rest.get(..3).is_some_and(|word| {
                    word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
                })
            }
        }
    }

    fn number(&mut self) -> Token {
        match read_number(self.json.get(self.at..).unwrap_or_default()) {
            Some((value, len)) => {
                self.at += len;
                Token::Number(value)
            }
            None => self.error("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.text.clear();
        self.at += 1;
        loop {
            let rest = self.json.get(self.at..).unwrap_or_default();
            let plain =
                rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token::String;
                }
                0 => return self.error("unexpected end of string"),
                _ => {}
            }
            let letter = match self.byte(self.at + 1) {
                letter @ (b'"' | b'\\' | b'/') => letter,
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                b'u' => match self.unicode() {
                    Some(()) => continue,
                    None => return self.error("invalid unicode escape code"),
                },
                _ => return self.error("invalid escape code"),
            };
            self.text.push(letter);
            self.at += 2;
        }
    }

    /// Reads `\uXXXX`, or two of them that are one character.
    fn unicode(&mut self) -> Option<()> {
        let first = self.hexadecimal(self.at + 2)?;
        let (code, len) = match first {
            0xdc00..=0xdfff => return None,
            0xd800..=0xdbff => {
                if self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                    return None;
                }
                let second = self.hexadecimal(self.at + 8)?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return None;
                }
                ((first & 0x3ff) << 10 | (second & 0x3ff), 12)
            }
            code => (code, 6),
        };
        let code = if len == 12 { code + 0x1_0000 } else { code };
        let character = char::from_u32(code)?;
        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Some(())
    }

    fn hexadecimal(&self, at: usize) -> Option<u32> {
        self.json.get(at..at + 4)?.iter().try_fold(0, |value, byte| {
            char::from(*byte).to_digit(16).map(|digit| value << 4 | digit)
        })
    }

    fn push_value(&mut self, frame: &mut Frame<'_>, token: Token) -> Result<(), Raise> {
        frame.pulse()?;
        match token {
            Token::String => frame.push_bytes(&self.text),
            Token::Number(value) => frame.push_number(value),
            Token::Boolean(value) => frame.push_boolean(value),
            Token::Null => frame.push_null(),
            Token::ObjectBegin => self.push_object(frame)?,
            Token::ArrayBegin => self.push_array(frame)?,
            other => return Err(self.unexpected("value", &other)),
        }
        Ok(())
    }

    fn descend(&mut self, frame: &Frame<'_>) -> Result<(), Raise> {
        self.depth = self.depth.saturating_add(1);
        if self.depth <= self.settings.decode_max_depth.min(DEPTH_MAX) && frame.reserve(5) {
            return Ok(());
        }
        Err(Raise::text(format!(
            "Found too many nested data structures ({}) at character {}",
            self.depth, self.at
        )))
    }

    fn push_object(&mut self, frame: &mut Frame<'_>) -> Result<(), Raise> {
        self.descend(frame)?;
        frame.push_table(0, 0);
        let mut token = self.next();
        if !matches!(token, Token::ObjectEnd) {
            loop {
                if !matches!(token, Token::String) {
                    return Err(self.unexpected("object key string", &token));
                }
                frame.push_bytes(&self.text);
                match self.next() {
                    Token::Colon => {}
                    token => return Err(self.unexpected("colon", &token)),
                }
                let value = self.next();
                self.push_value(frame, value)?;
                frame.raw_set(-3)?;
                match self.next() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next(),
                    token => return Err(self.unexpected("comma or object end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn push_array(&mut self, frame: &mut Frame<'_>) -> Result<(), Raise> {
        self.descend(frame)?;
        frame.push_table(0, 0);
        if self.settings.mark_arrays != 0 {
            frame.push_upvalue(ARRAY_METATABLE);
            frame.set_metatable(-2);
        }
        let mut token = self.next();
        if !matches!(token, Token::ArrayEnd) {
            for number in 1.. {
                self.push_value(frame, token)?;
                frame.set_element(-2, number);
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    token => return Err(self.unexpected("comma or array end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The number at the beginning as C's `strtod` reads it, and its length.
fn read_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let digits = &text[sign_len..];
    let word = |word: &[u8]| {
        digits.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if word(b"infinity") {
        return Some((sign * f64::INFINITY, sign_len + 8));
    }
    if word(b"inf") {
        return Some((sign * f64::INFINITY, sign_len + 3));
    }
    if word(b"nan") {
        return Some((f64::NAN, sign_len + 3));
    }
    if word(b"0x")
        && let Some((value, len)) = read_hexadecimal(&digits[2..])
    {
        return Some((sign * value, sign_len + 2 + len));
    }
    let count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = count(digits);
    let mut len = whole;
    if digits.get(len) == Some(&b'.') {
        let fraction = count(&digits[len + 1..]);
        if whole + fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    len += exponent_len(&digits[len..], *b"eE");
    let text = std::str::from_utf8(&text[..sign_len + len]).ok()?;
    Some((text.parse().ok()?, sign_len + len))
}

/// The length of an exponent, if there is one with digits.
fn exponent_len(text: &[u8], letters: [u8; 2]) -> usize {
    if !text.first().is_some_and(|letter| letters.contains(letter)) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'-' | b'+')));
    let digits = text[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

/// A hexadecimal number behind its `0x`.
fn read_hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut value, mut at, mut scale) = (0.0, 0, 1.0);
    while let Some(value_of_digit) = digit(at) {
        value = value * 16.0 + f64::from(value_of_digit);
        at += 1;
    }
    let mut count = at;
    if text.get(at) == Some(&b'.') {
        let mut after = at + 1;
        while let Some(value_of_digit) = digit(after) {
            scale /= 16.0;
            value += f64::from(value_of_digit) * scale;
            after += 1;
            count += 1;
        }
        if count > 0 {
            at = after;
        }
    }
    if count == 0 {
        return None;
    }
    let exponent = exponent_len(&text[at..], *b"pP");
    if exponent > 0 {
        let text = std::str::from_utf8(&text[at + 1..at + exponent]).ok()?;
        let power: i32 = text.parse().unwrap_or(if text.starts_with('-') { -5000 } else { 5000 });
        value *= 2.0_f64.powi(power);
        at += exponent;
    }
    Some((value, at))
}
