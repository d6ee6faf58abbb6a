//! Parses requests from the bytes that a client has sent so far.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n  *1\r\n$4\r\nPI
//!   └───────────── one request ────┘  └─ incomplete: the parser keeps its place
//!          └─┘           └─┘             arguments: ranges of the buffer, nothing is copied
//! ```
//!
//! Each call of [`Parser::parse`] gets everything from the first byte of the current request on;
//! the parser remembers how far it has got, so no byte is examined twice, however slowly or in
//! however many pieces a request arrives. Nothing is reserved for a length that a client merely
//! announces: memory grows with what has arrived.
//!
//! A request is an array of bulk strings, or a line of words ("inline", for people with telnet)
//! whose words may be quoted. Only quoted words need unescaping, so only inline requests are copied.

use std::ops::Range;

use thiserror::Error;

use crate::words::split_words;

/// The longest line of a request: an inline request, a count or a length.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The memory that a parser may keep between two requests.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// The most arguments, and the longest one, that a client may send before it has authenticated.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16 * 1024;

/// The limits on requests of this client at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument: `proto-max-bulk-len`.
    pub bulk_bytes_max: u64,
    /// Whether the client may send large requests: it needs no password or has given one.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bulk_bytes_max: 512 * 1024 * 1024, authenticated: true }
    }
}

/// The extent of a parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The request is not complete; at least this many bytes are missing.
    Incomplete {
        /// A lower bound, for the size of the next read.
        missing_bytes: usize,
    },
    /// A request of this many bytes; [`Parser::args`] has its arguments. It may have none (an empty
    /// line, an empty array); then there is nothing to execute or answer.
    Request {
        /// The length of the request: the next one starts after it.
        len: usize,
    },
}

/// The client violates the protocol; it is told why and disconnected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request without an end.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// An inline request with an unclosed quote, or with text directly after a closing one.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The line with the number of arguments has no end.
    #[error("Protocol error: too big mbulk count string")]
    TooBigCountLine,
    /// The number of arguments is invalid.
    #[error("Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More arguments than allowed before AUTH.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// The line with the length of an argument has no end.
    #[error("Protocol error: too big bulk count string")]
    TooBigLengthLine,
    /// An argument does not begin with a dollar sign.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedDollar(u8),
    /// The length of an argument is invalid, or above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidLength,
    /// A longer argument than is allowed before AUTH.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
}

/// The kind of bytes at the parser's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first byte of a request.
    #[default]
    Start,
    /// The line with the number of arguments.
    Count,
    /// The line with the length of the next argument.
    Length,
    /// An argument of this many bytes, and its line end.
    Bulk(usize),
    /// A line of words.
    Inline,
}

/// The position in a client's current request.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    /// Bytes of the request parsed so far.
    pos: usize,
    /// Bytes of the request searched for a line end so far.
    scanned: usize,
    /// Arguments still to come.
    remaining: usize,
    args: Vec<Range<usize>>,
    /// The unescaped words of an inline request, of which `args` are ranges.
    words: Vec<u8>,
    is_inline: bool,
}

impl Parser {
    /// Creates a parser at the start of a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether part of a request has been parsed.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        self.state != State::Start
    }

    /// Continues with `input`: everything that has arrived since the start of the current request.
    ///
    /// After a complete request the next call starts a new one.
    ///
    /// # Errors
    /// If the bytes are not a request; the connection is unusable afterwards.
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        loop {
            let missing_bytes = match self.state {
                State::Start => {
                    self.reset();
                    match input.first() {
                        None => 1,
                        Some(b'*') => {
                            self.pos = 1;
                            self.state = State::Count;
                            continue;
                        }
                        Some(_) => {
                            self.state = State::Inline;
                            continue;
                        }
                    }
                }
                State::Inline => match self.inline(input)? {
                    Some(len) => return Ok(self.complete(len)),
                    None => 1,
                },
                State::Count => match self.line(input).ok_or(ProtocolError::TooBigCountLine)? {
                    None => 1,
                    Some(line) => {
                        let count = parse_int(&input[line]).ok_or(ProtocolError::InvalidCount)?;
                        if count > i64::from(i32::MAX) {
                            return Err(ProtocolError::InvalidCount);
                        }
                        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                            return Err(ProtocolError::UnauthenticatedCount);
                        }
                        self.remaining = usize::try_from(count).unwrap_or(0);
                        if self.remaining == 0 {
                            return Ok(self.complete(self.pos));
                        }
                        self.state = State::Length;
                        continue;
                    }
                },
                State::Length => match self.line(input).ok_or(ProtocolError::TooBigLengthLine)? {
                    None => 1,
                    Some(line) => {
                        self.state = State::Bulk(bulk_len(&input[line], limits)?);
                        continue;
                    }
                },
                State::Bulk(len) => {
                    let end = self.pos + len;
                    if input.len() >= end + 2 {
                        self.args.push(self.pos..end);
                        // The two bytes after it count as a line end, as in Redis.
                        self.pos = end + 2;
                        self.remaining -= 1;
                        if self.remaining == 0 {
                            return Ok(self.complete(self.pos));
                        }
                        self.state = State::Length;
                        continue;
                    }
                    end + 2 - input.len()
                }
            };
            return Ok(Parsed::Incomplete { missing_bytes });
        }
    }

    /// The arguments of the request that [`Parser::parse`] found in `input`, the name first.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let source = if self.is_inline { self.words.as_slice() } else { input };
        self.args.iter().map(move |range| &source[range.clone()])
    }

    /// As [`Parser::args`], unless the arguments had to be unescaped. They are slices of the input,
    /// and the parser may continue with the next request.
    pub fn bulk_args<'a>(
        &self,
        input: &'a [u8],
    ) -> Option<impl ExactSizeIterator<Item = &'a [u8]> + use<'a, '_>> {
        let args = self.args.iter().map(move |range| &input[range.clone()]);
        (!self.is_inline).then_some(args)
    }

    /// The number of arguments that [`Parser::args`] yields.
    #[must_use]
    pub fn args_len(&self) -> usize {
        self.args.len()
    }

    /// The parser's memory in addition to the input, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.args.capacity() * size_of::<Range<usize>>() + self.words.capacity()
    }

    /// Discards the request in progress.
    pub fn restart(&mut self) {
        self.state = State::Start;
        self.release();
    }

    /// Releases the memory of a large request, unless one is in progress.
    pub fn release(&mut self) {
        if self.state == State::Start && self.memory_bytes() > KEPT_BYTES_MAX {
            self.args = Vec::new();
            self.words = Vec::new();
        }
    }

    fn reset(&mut self) {
        self.pos = 0;
        self.scanned = 0;
        self.args.clear();
        self.is_inline = false;
    }

    fn complete(&mut self, len: usize) -> Parsed {
        self.state = State::Start;
        Parsed::Request { len }
    }

    /// Takes the line at the parser's position, without its end. `Some(None)` if it is incomplete,
    /// `None` if it is too long.
    fn line(&mut self, input: &[u8]) -> Option<Option<Range<usize>>> {
        let from = self.scanned.max(self.pos);
        let Some(found) = input[from..].iter().position(|&byte| byte == b'\r') else {
            self.scanned = input.len();
            return (input.len() - self.pos <= LINE_BYTES_MAX).then_some(None);
        };
        let end = from + found;
        // Independent of how the bytes arrive: the limit is the same for a line in one piece or in
        // many.
        if end - self.pos > LINE_BYTES_MAX {
            return None;
        }
        if input.len() < end + 2 {
            self.scanned = end;
            return Some(None);
        }
        let line = self.pos..end;
        self.pos = end + 2;
        Some(Some(line))
    }

    /// Parses the words of an inline request. Returns its length.
    fn inline(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(found) = input[self.scanned..].iter().position(|&byte| byte == b'\n') else {
            self.scanned = input.len();
            return if input.len() > LINE_BYTES_MAX {
                Err(ProtocolError::TooBigInline)
            } else {
                Ok(None)
            };
        };
        let end = self.scanned + found;
        if end > LINE_BYTES_MAX {
            return Err(ProtocolError::TooBigInline);
        }
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.is_inline = true;
        self.words.clear();
        split_words(line, &mut self.words, &mut self.args)
            .ok_or(ProtocolError::UnbalancedQuotes)?;
        Ok(Some(end + 1))
    }
}

/// Parses the length line of an argument.
fn bulk_len(line: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let Some((b'$', digits)) = line.split_first() else {
        // An empty line: the byte in that place is its end.
        return Err(ProtocolError::ExpectedDollar(line.first().copied().unwrap_or(b'\r')));
    };
    let len = parse_int(digits).filter(|len| *len >= 0).ok_or(ProtocolError::InvalidLength)?;
    if len.unsigned_abs() > limits.bulk_bytes_max {
        return Err(ProtocolError::InvalidLength);
    }
    if len > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedLength);
    }
    usize::try_from(len)
        .ok()
        .filter(|len| *len < usize::MAX / 4)
        .ok_or(ProtocolError::InvalidLength)
}

/// Parses a number in Redis' strict form: no plus sign, no spaces, no leading zeros.
fn parse_int(text: &[u8]) -> Option<i64> {
    // Nearly all counts and lengths have one or two digits.
    match *text {
        [digit @ b'0'..=b'9'] => return Some(i64::from(digit - b'0')),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9'] => {
            return Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'));
        }
        _ => {}
    }
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, &byte| {
        let digit = i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        let value = value.checked_mul(10)?;
        if negative { value.checked_sub(digit) } else { value.checked_add(digit) }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(request: &[u8]) -> Vec<Vec<u8>> {
        let mut parser = Parser::new();
        let parsed = parser.parse(request, &Limits::default()).unwrap();
        assert_eq!(parsed, Parsed::Request { len: request.len() });
        parser.args(request).map(<[u8]>::to_vec).collect()
    }

    fn refused(request: &[u8]) -> String {
        Parser::new().parse(request, &Limits::default()).unwrap_err().to_string()
    }

    fn encode(args: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = crate::Writer::new(crate::Protocol::Resp2);
        writer.array(args.len());
        for arg in args {
            writer.bulk(arg);
        }
        writer.take()
    }

    #[test]
    fn arrays_and_lines_are_requests() {
        assert_eq!(words(b"*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n"), [b"GET".to_vec(), b"foo".to_vec()]);
        assert_eq!(words(b"*1\r\n$0\r\n\r\n"), [b"".to_vec()]);
        assert_eq!(words(b"PING\r\n"), [b"PING".to_vec()]);
        assert_eq!(words(b"  get   foo  \n"), [b"get".to_vec(), b"foo".to_vec()]);
        assert_eq!(words(b"set \"a b\\x41\\n\" 'it\\'s'\r\n"), [&b"set"[..], b"a bA\n", b"it's"]);
    }

    #[test]
    fn empty_requests_have_no_arguments() {
        for empty in [&b"\r\n"[..], b"\n", b"*0\r\n", b"*-1\r\n", b"   \r\n"] {
            assert_eq!(words(empty), Vec::<Vec<u8>>::new());
        }
    }

    #[test]
    fn what_is_no_request_is_refused_as_redis_refuses_it() {
        assert_eq!(refused(b"*x\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*+1\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*01\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*2147483648\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*1\r\n%\r\n"), "Protocol error: expected '$', got '%'");
        assert_eq!(refused(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refused(b"*1\r\n$01\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refused(b"*1\r\n$999999999999\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refused(b"get \"a\"b\r\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(refused(b"get \"a\r\n"), "Protocol error: unbalanced quotes in request");
        let long = |start: &[u8]| [start, &[b'1'; LINE_BYTES_MAX + 1]].concat();
        assert_eq!(refused(&long(b"*")), "Protocol error: too big mbulk count string");
        assert_eq!(refused(&long(b"*1\r\n$")), "Protocol error: too big bulk count string");
        assert_eq!(refused(&long(b"")), "Protocol error: too big inline request");
        // The same if the line end arrives with it.
        let whole = |start: &[u8]| [&long(start)[..], b"\r\n"].concat();
        assert_eq!(refused(&whole(b"*")), "Protocol error: too big mbulk count string");
        assert_eq!(refused(&whole(b"*1\r\n$")), "Protocol error: too big bulk count string");
        assert_eq!(refused(&whole(b"")), "Protocol error: too big inline request");
    }

    #[test]
    fn a_client_without_password_may_send_little() {
        let limits = Limits { authenticated: false, ..Limits::default() };
        let parse = |request: &[u8]| {
            Parser::new().parse(request, &limits).map_err(|error| error.to_string())
        };
        assert_eq!(
            parse(b"*11\r\n").unwrap_err(),
            "Protocol error: unauthenticated multibulk length"
        );
        assert_eq!(
            parse(b"*1\r\n$16385\r\n").unwrap_err(),
            "Protocol error: unauthenticated bulk length"
        );
        assert_eq!(
            parse(b"*10\r\n$16384\r\n").unwrap(),
            Parsed::Incomplete { missing_bytes: 16386 }
        );
    }

    #[test]
    fn a_large_request_leaves_nothing_behind() {
        let mut parser = Parser::new();
        let request = encode(&vec![Vec::new(); 100_000]);
        let half = &request[..request.len() / 2];
        parser.parse(half, &Limits::default()).unwrap();
        parser.release();
        assert!(parser.memory_bytes() > 500_000, "half a request is still needed");
        parser.parse(&request, &Limits::default()).unwrap();
        assert_eq!(parser.args(&request).len(), 100_000);
        parser.release();
        assert_eq!(parser.memory_bytes(), 0);
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        let mut parser = Parser::new();
        let parsed = parser.parse(b"*2147483647\r\n$536870912\r\nabc", &Limits::default()).unwrap();
        assert_eq!(parsed, Parsed::Incomplete { missing_bytes: 536_870_911 });
        assert!(parser.args.capacity() < 1024);
    }

    proptest! {
        #[test]
        fn requests_survive_any_cutting(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 1..5),
            step in 1_usize..20,
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|args| encode(args)).collect();
            let (mut parser, mut start, mut seen) = (Parser::new(), 0, Vec::new());
            let mut end = 0;
            while seen.len() < requests.len() {
                match parser.parse(&bytes[start..end], &Limits::default()).unwrap() {
                    Parsed::Incomplete { missing_bytes } => {
                        prop_assert!(end + missing_bytes <= bytes.len());
                        end = (end + step).min(bytes.len());
                    }
                    Parsed::Request { len } => {
                        let args = parser.args(&bytes[start..start + len]);
                        seen.push(args.map(<[u8]>::to_vec).collect::<Vec<_>>());
                        start += len;
                    }
                }
            }
            prop_assert_eq!(seen, requests);
        }

        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut parser, mut start) = (Parser::new(), 0);
            while let Ok(Parsed::Request { len }) = parser.parse(&bytes[start..], &Limits::default()) {
                prop_assert!(len > 0);
                start += len;
            }
        }
    }
}
