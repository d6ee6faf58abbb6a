//! SQL as words, names, strings and signs.

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a name or a number, unchanged.
    Word(&'a [u8]),
    /// A name in backquotes.
    Name,
    /// A string in quotes.
    Text,
    /// `:=`.
    Assignment,
    /// Any other sign.
    Symbol(u8),
    /// An executed comment, or a string whose end is ambiguous.
    Doubtful,
}

/// The tokens of a statement.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    sql: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(sql: &'a [u8]) -> Self {
        Self { sql, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        &self.sql[self.at..]
    }

    /// Skips past `end`, or to the end of the statement.
    fn skip_past(&mut self, end: &[u8]) {
        let found = self.rest().windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.sql.len(), |found| self.at + found + end.len());
    }

    /// Skips past the string that begins with `quote`.
    fn quoted(&mut self, quote: u8) -> Token<'a> {
        let mut is_doubtful = false;
        loop {
            let rest = self.rest();
            let Some(found) =
                rest.iter().position(|&byte| byte == quote || (byte == b'\\' && quote != b'`'))
            else {
                self.at = self.sql.len();
                return Token::Doubtful;
            };
            self.at += found + 1;
            let next = rest.get(found + 1).copied();
            if rest[found] == b'\\' {
                // A backslash escapes, unless the session's mode disables that.
                is_doubtful |= next == Some(quote);
                self.at += usize::from(next.is_some());
            } else if next == Some(quote) {
                self.at += 1;
            } else {
                break;
            }
        }
        match quote {
            _ if is_doubtful => Token::Doubtful,
            b'`' => Token::Name,
            _ => Token::Text,
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.rest();
            let first = *rest.first()?;
            match rest {
                [b'/', b'*', b'!' | b'M', ..] => {
                    self.skip_past(b"*/");
                    return Some(Token::Doubtful);
                }
                [b'/', b'*', ..] => {
                    self.at += 2;
                    self.skip_past(b"*/");
                }
                [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] | [b'-', b'-'] => {
                    self.skip_past(b"\n");
                }
                _ if first.is_ascii_whitespace() || first == 0x0b => self.at += 1,
                [b'\'' | b'"' | b'`', ..] => {
                    self.at += 1;
                    return Some(self.quoted(first));
                }
                [b':', b'=', ..] => {
                    self.at += 2;
                    return Some(Token::Assignment);
                }
                _ if is_of_word(first) => {
                    let len = rest.iter().position(|&byte| !is_of_word(byte));
                    let word = &rest[..len.unwrap_or(rest.len())];
                    self.at += word.len();
                    return Some(Token::Word(word));
                }
                _ => {
                    self.at += 1;
                    return Some(Token::Symbol(first));
                }
            }
        }
    }
}

/// Whether a byte may be part of an unquoted name; bytes of other alphabets may.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}
