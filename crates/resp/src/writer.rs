//! Writes replies in the client's version of the protocol.
//!
//! ```text
//!                 RESP2              RESP3
//!   null          $-1                _
//!   null array    *-1                _
//!   map of n      *2n                %n
//!   set of n      *n                 ~n
//!   push of n     *n                 >n
//!   double        $3 1.5             ,1.5
//!   boolean       :1                 #t
//!   verbatim      $5 hello           =9 txt:hello
//! ```
//!
//! A `Writer` owns its buffer and only appends, with two exceptions: [`Writer::truncate`] (a
//! command that failed half way withdraws its reply), and aggregates whose length is known only at
//! their end: [`Writer::mark`] remembers the place, `finish_*` inserts the header there.
//!
//! A writer may have a limit. Whatever exceeds it is not kept: the writer drops everything, accepts
//! nothing more, and [`Writer::is_over`] tells. Its owner then closes the connection, because no
//! part of a reply can be omitted. A command need not check, unless its arguments alone decide how
//! long it runs.

use std::io::IoSlice;

use crate::number::{format_double, format_int};
use crate::pieces::{Pieces, SharedBytes};

/// More than any number, header or line end needs.
const SHORT_BYTES_MAX: usize = 128;

/// The protocol version of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The initial version of every connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// The beginning of an aggregate whose length is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an aggregate needs its header: call finish_array, finish_map or finish_set"]
pub struct Mark(usize);

/// A buffer of replies.
#[derive(Debug)]
pub struct Writer {
    out: Pieces,
    protocol: Protocol,
    /// The approximate maximum length: it is checked when memory is needed.
    len_max: usize,
    is_over: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new(Protocol::default())
    }
}

impl Writer {
    /// Creates an empty buffer for `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self { out: Pieces::default(), protocol, len_max: usize::MAX, is_over: false }
    }

    /// Sets the maximum length from now on; it is checked when memory is needed.
    pub fn limit(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Whether the limit was exceeded. If so, the writer is empty and remains so.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The version being written.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes `protocol` from here on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Whether replies are in RESP3.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Appends `+OK`.
    pub fn ok(&mut self) {
        self.append(b"+OK\r\n");
    }

    /// Appends a simple string, which must not contain line breaks.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a simple string is one line");
        self.line(b'+', text.as_bytes());
    }

    /// Appends an error: the whole line with its code, for example `ERR syntax error`. Line breaks
    /// at the end are dropped and others become spaces, because the line may quote what a client
    /// sent.
    pub fn error(&mut self, line: &str) {
        self.error_bytes(line.as_bytes());
    }

    /// As [`Writer::error`], for a line that may quote bytes that are not text.
    pub fn error_bytes(&mut self, line: &[u8]) {
        let end =
            line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
        self.append(b"-");
        if line[..end].iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            let one_line: Vec<u8> = line[..end]
                .iter()
                .map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte })
                .collect();
            self.append(&one_line);
        } else {
            self.append(&line[..end]);
        }
        self.crlf();
    }

    /// Appends an integer.
    pub fn int(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Appends a length or count as an integer.
    pub fn count(&mut self, value: usize) {
        self.header(b':', signed(value));
    }

    /// Appends a bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.bulk_header(bytes.len());
        self.append(bytes);
        self.crlf();
    }

    /// Appends a bulk string of text.
    pub fn bulk_str(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// Appends a bulk string of a decimal number.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk_of(|out| format_int(value, out));
    }

    /// Appends a bulk string of a number as [`format_double`] prints it, in both versions.
    pub fn bulk_double(&mut self, value: f64) {
        self.bulk_of(|out| format_double(value, out));
    }

    /// Appends the header of a bulk string of `len` bytes; the bytes follow by [`Writer::raw`],
    /// then [`Writer::bulk_end`].
    pub fn bulk_header(&mut self, len: usize) {
        self.header(b'$', signed(len));
    }

    /// Ends a bulk string begun by [`Writer::bulk_header`].
    pub fn bulk_end(&mut self) {
        self.crlf();
    }

    /// Appends bytes unchanged: pieces of a value, or a reply composed elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.append(bytes);
    }

    /// Appends a null.
    pub fn null(&mut self) {
        self.append(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n".as_slice(),
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Appends a null in place of an array.
    pub fn null_array(&mut self) {
        self.append(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n".as_slice(),
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Appends the header of an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', signed(len));
    }

    /// Appends the header of a map of `len` pairs.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', signed(len) * 2),
            Protocol::Resp3 => self.header(b'%', signed(len)),
        }
    }

    /// Appends the header of a set of `len` replies.
    pub fn set(&mut self, len: usize) {
        self.header(self.of_version(b'*', b'~'), signed(len));
    }

    /// Appends the header of a push message of `len` replies.
    pub fn push(&mut self, len: usize) {
        self.header(self.of_version(b'*', b'>'), signed(len));
    }

    /// Appends a double: a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_double(value),
            Protocol::Resp3 => {
                let Some(out) = self.short() else { return };
                out.push(b',');
                format_double(value, out);
                self.crlf();
            }
        }
    }

    /// Appends a double with the digits that `text` has: a bulk string in RESP2.
    pub fn decimal(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_str(text),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// Appends a boolean: 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        self.append(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Appends a number too large for 64 bits: a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_str(digits),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Appends text with its format, `txt` or `mkd`: a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &str, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_str(text),
            Protocol::Resp3 => {
                debug_assert_eq!(format.len(), 3, "formats have three letters");
                self.header(b'=', signed(format.len() + 1 + text.len()));
                self.append(format.as_bytes());
                self.append(b":");
                self.append(text.as_bytes());
                self.crlf();
            }
        }
    }

    /// Marks the beginning of an aggregate whose length is known only after its elements.
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Makes everything since `mark` an array of `len` replies.
    pub fn finish_array(&mut self, mark: Mark, len: usize) {
        self.insert_header(mark, b'*', signed(len));
    }

    /// Makes everything since `mark` a map of `len` pairs.
    pub fn finish_map(&mut self, mark: Mark, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.insert_header(mark, b'*', signed(len) * 2),
            Protocol::Resp3 => self.insert_header(mark, b'%', signed(len)),
        }
    }

    /// Makes everything since `mark` a set of `len` replies.
    pub fn finish_set(&mut self, mark: Mark, len: usize) {
        self.insert_header(mark, self.of_version(b'*', b'~'), signed(len));
    }

    /// Appends a bulk string of owned bytes.
    pub fn own_bulk(&mut self, bytes: Vec<u8>) {
        self.bulk_header(bytes.len());
        if !self.is_over && self.makes_room(bytes.len()) {
            self.out.give(bytes);
        }
        self.crlf();
    }

    /// The number of bytes left within the limit.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_over { 0 } else { self.len_max.saturating_sub(self.out.len()) }
    }

    /// Abandons a reply that is known in advance to exceed the limit.
    pub fn give_up(&mut self) {
        self.is_over = true;
        self.out = Pieces::default();
    }

    /// Makes everything since `mark` a verbatim text. It must begin with `txt:` in RESP3 and
    /// without it in RESP2; see [`Writer::begin_text`].
    pub fn finish_text(&mut self, mark: Mark) {
        let len = signed(self.out.len().saturating_sub(mark.0));
        self.insert_header(mark, self.of_version(b'$', b'='), len);
        self.crlf();
    }

    /// Begins a text that is written in pieces by [`Writer::raw`].
    pub fn begin_text(&mut self) -> Mark {
        let mark = self.mark();
        if self.is_resp3() {
            self.raw(b"txt:");
        }
        mark
    }

    /// Appends a bulk string whose bytes other buffers may share.
    pub fn shared_bulk(&mut self, bytes: &SharedBytes) {
        self.bulk_header(bytes.len());
        if !self.is_over && self.makes_room(bytes.len()) {
            self.out.share(bytes);
        }
        self.crlf();
    }

    /// Copies the contents into one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.out.to_vec()
    }

    /// Collects the contents from `from` to `to`, as far as `out` holds their pieces. Returns the
    /// numbers of pieces and bytes collected.
    pub fn slices<'a>(&'a self, from: usize, to: usize, out: &mut [IoSlice<'a>]) -> (usize, usize) {
        self.out.slices(from, to, out)
    }

    /// The number of bytes written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.len() == 0
    }

    /// Truncates to the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.out.len() {
            self.out.truncate(len);
        }
    }

    /// The memory of the buffer, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.out.memory_bytes()
    }

    /// Drops everything, and releases memory beyond `kept_bytes_max`.
    pub fn reset(&mut self, kept_bytes_max: usize) {
        self.out.reset(kept_bytes_max);
    }

    /// Releases memory within the first `count` bytes, which were sent. Returns the number of bytes
    /// dropped.
    pub fn drop_front(&mut self, count: usize) -> usize {
        self.out.drop_front(count)
    }

    /// Whether everything lies in one piece.
    #[must_use]
    pub fn is_one_piece(&self) -> bool {
        self.out.is_one_piece()
    }

    /// Drops the first `count` bytes of the one piece, after [`Writer::drop_front`] has dropped
    /// what it could.
    pub fn drain_front(&mut self, count: usize) {
        self.out.drain_tail(count);
    }

    /// Takes the contents as one piece, leaving an empty buffer.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    fn of_version(&self, resp2: u8, resp3: u8) -> u8 {
        match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        }
    }

    fn crlf(&mut self) {
        self.append(b"\r\n");
    }

    /// Appends bytes of any length.
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.out.spare() {
            self.out.tail().extend_from_slice(bytes);
        } else if !self.is_over && self.makes_room(bytes.len()) {
            self.out.append(bytes);
        }
    }

    /// The place for appending a few bytes; `None` if the writer accepts nothing more.
    #[inline]
    fn short(&mut self) -> Option<&mut Vec<u8>> {
        if self.out.spare() < SHORT_BYTES_MAX {
            if self.is_over || !self.makes_room(SHORT_BYTES_MAX) {
                return None;
            }
            self.out.reserve(SHORT_BYTES_MAX);
        }
        Some(self.out.tail())
    }

    /// Whether `count` more bytes are within the limit; otherwise the writer is over.
    fn makes_room(&mut self, count: usize) -> bool {
        self.is_over = self.out.len().saturating_add(count) > self.len_max;
        if self.is_over {
            self.out = Pieces::default();
        }
        !self.is_over
    }

    fn header(&mut self, kind: u8, value: i64) {
        let Some(out) = self.short() else { return };
        push_header(out, kind, value);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.append(&[kind]);
        self.append(text);
        self.crlf();
    }

    /// Appends a bulk string of a few bytes printed by `format`, whose length is known only
    /// afterwards.
    fn bulk_of(&mut self, format: impl FnOnce(&mut Vec<u8>)) {
        let Some(out) = self.short() else { return };
        let header = out.len();
        out.extend_from_slice(b"$00\r\n");
        let start = out.len();
        format(out);
        let len = out.len() - start;
        out.extend_from_slice(b"\r\n");
        let digit = |value: usize| {
            b'0' + u8::try_from(value).expect("numbers have fewer than 100 characters")
        };
        if len < 10 {
            out[header + 1] = digit(len);
            out.remove(header + 2);
        } else {
            out[header + 1] = digit(len / 10);
            out[header + 2] = digit(len % 10);
        }
    }

    fn insert_header(&mut self, mark: Mark, kind: u8, value: i64) {
        let mut header = Vec::with_capacity(SHORT_BYTES_MAX);
        push_header(&mut header, kind, value);
        if !self.is_over && self.makes_room(header.len()) {
            self.out.insert(mark.0, &header);
        }
    }
}

#[inline]
fn push_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    out.push(kind);
    // Nearly all lengths and counts have one digit.
    match u8::try_from(value) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        _ => format_int(value, out),
    }
    out.extend_from_slice(b"\r\n");
}

/// Lengths of things in memory fit in 63 bits.
fn signed(len: usize) -> i64 {
    i64::try_from(len).expect("lengths fit in 63 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Writer)) -> (String, String) {
        let text = |protocol| {
            let mut writer = Writer::new(protocol);
            write(&mut writer);
            String::from_utf8(writer.take()).unwrap()
        };
        (text(Protocol::Resp2), text(Protocol::Resp3))
    }

    fn same(text: &str) -> (String, String) {
        (text.to_owned(), text.to_owned())
    }

    fn pair(resp2: &str, resp3: &str) -> (String, String) {
        (resp2.to_owned(), resp3.to_owned())
    }

    #[test]
    fn plain_replies_are_the_same_in_both_versions() {
        assert_eq!(both(Writer::ok), same("+OK\r\n"));
        assert_eq!(both(|w| w.simple("PONG")), same("+PONG\r\n"));
        assert_eq!(both(|w| w.int(-42)), same(":-42\r\n"));
        assert_eq!(both(|w| w.int(i64::MIN)), same(":-9223372036854775808\r\n"));
        assert_eq!(both(|w| w.bulk(b"")), same("$0\r\n\r\n"));
        assert_eq!(both(|w| w.bulk(b"hello world")), same("$11\r\nhello world\r\n"));
        assert_eq!(both(|w| w.bulk_int(7)), same("$1\r\n7\r\n"));
        assert_eq!(both(|w| w.bulk_int(1_234_567_890)), same("$10\r\n1234567890\r\n"));
        assert_eq!(both(|w| w.array(12)), same("*12\r\n"));
    }

    #[test]
    fn typed_replies_differ() {
        assert_eq!(both(Writer::null), pair("$-1\r\n", "_\r\n"));
        assert_eq!(both(Writer::null_array), pair("*-1\r\n", "_\r\n"));
        assert_eq!(both(|w| w.map(3)), pair("*6\r\n", "%3\r\n"));
        assert_eq!(both(|w| w.set(3)), pair("*3\r\n", "~3\r\n"));
        assert_eq!(both(|w| w.push(3)), pair("*3\r\n", ">3\r\n"));
        assert_eq!(both(|w| w.double(1.5)), pair("$3\r\n1.5\r\n", ",1.5\r\n"));
        assert_eq!(both(|w| w.double(f64::INFINITY)), pair("$3\r\ninf\r\n", ",inf\r\n"));
        assert_eq!(both(|w| w.decimal("0.10")), pair("$4\r\n0.10\r\n", ",0.10\r\n"));
        assert_eq!(both(|w| w.boolean(true)), pair(":1\r\n", "#t\r\n"));
        assert_eq!(
            both(|w| w.verbatim("txt", "hello")),
            pair("$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n")
        );
    }

    #[test]
    fn an_error_stays_one_line() {
        assert_eq!(both(|w| w.error("ERR unknown 'a\r\nb'\r\n")), same("-ERR unknown 'a  b'\r\n"));
    }

    #[test]
    fn an_aggregate_gets_its_header_afterwards() {
        let reply = both(|w| {
            w.int(0);
            let mark = w.mark();
            for field in 0..11 {
                w.int(field);
            }
            w.finish_array(mark, 11);
            let mark = w.mark();
            w.int(1);
            w.int(2);
            w.finish_map(mark, 1);
        });
        let elements = (0..11).map(|field| format!(":{field}\r\n")).collect::<String>();
        assert_eq!(reply.0, format!(":0\r\n*11\r\n{elements}*2\r\n:1\r\n:2\r\n"));
        assert_eq!(reply.1, format!(":0\r\n*11\r\n{elements}%1\r\n:1\r\n:2\r\n"));
    }

    #[test]
    fn a_text_in_pieces_is_a_text() {
        let pieces = both(|w| {
            w.int(1);
            let mark = w.begin_text();
            w.raw(b"hello ");
            w.raw(b"world");
            w.finish_text(mark);
        });
        let whole = both(|w| {
            w.int(1);
            w.verbatim("txt", "hello world");
        });
        assert_eq!(pieces, whole);
    }

    #[test]
    fn a_reply_can_be_taken_back() {
        let mut writer = Writer::new(Protocol::Resp2);
        writer.ok();
        let before = writer.len();
        writer.array(5);
        writer.int(1);
        writer.truncate(before);
        writer.error("ERR no");
        assert_eq!(writer.to_vec(), b"+OK\r\n-ERR no\r\n");
    }

    #[test]
    fn what_is_over_the_limit_is_not_kept() {
        let mut writer = Writer::new(Protocol::Resp2);
        writer.limit(1_000_000);
        for _ in 0..10 {
            writer.bulk(&[b'x'; 90_000]);
        }
        assert!(!writer.is_over());
        let mark = writer.mark();
        for _ in 0..1000 {
            writer.bulk(&[b'x'; 90_000]);
            writer.int(i64::MAX);
            writer.bulk_int(7);
            writer.bulk_double(0.5);
        }
        writer.finish_array(mark, 3000);
        assert!(writer.is_over());
        assert!(writer.memory_bytes() < 1_000);
        assert!(writer.is_empty());
    }
}
