//! The commands of an AOF, one at a time, in as much memory as the longest of them.
//!
//! ```text
//!   *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n   a command
//!   #TS:1700000000\r\n                  an annotation: passed over
//! ```
//!
//! An AOF has commands in the form of requests, and nothing else: no inline ones, no empty ones.

use std::io::{self, Read};

use resp::{Limits, Parsed, Parser};

/// So much is read at a time.
const READ_BYTES: usize = 256 << 10;

/// No annotation is longer: each is a line of a few words.
const ANNOTATION_BYTES_MAX: usize = 64 << 10;

/// Why there is no next command.
pub(super) enum NoCommand {
    /// The source cannot be read.
    Unread(io::Error),
    /// An argument has so many bytes, which are more than is read.
    TooLong(u64),
    /// These bytes are none.
    Damaged(String),
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A command, from and to these offsets; [`Commands::args`] has its words.
    Command { offset: u64, end: u64 },
    /// The source ends where a command may begin.
    End,
    /// It ends in the middle of one.
    Truncated,
}

/// See the file's top.
pub(super) struct Commands<R> {
    source: R,
    /// What was read, from `start` on not yet done with.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    /// The offset of `start`.
    offset: u64,
    parser: Parser,
    /// The last command, at the beginning of what is done with.
    last: std::ops::Range<usize>,
    limits: Limits,
}

impl<R: Read> Commands<R> {
    /// The commands of `source`, whose first byte is at `offset` of its file.
    pub(super) fn new(source: R, offset: u64, string_bytes_max: u64) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            offset,
            parser: Parser::new(),
            last: 0..0,
            limits: Limits { bulk_bytes_max: string_bytes_max, authenticated: true },
        }
    }

    /// Where the next command begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The words of the last command.
    pub(super) fn args(&self) -> Vec<&[u8]> {
        self.parser.args(&self.buffer[self.last.clone()]).collect()
    }

    /// Goes on to the next command.
    pub(super) fn next(&mut self) -> Result<Next, NoCommand> {
        let damaged = |what: &str| Err(NoCommand::Damaged(what.to_owned()));
        loop {
            let input = &self.buffer[self.start..self.filled];
            let missing_bytes = match input.first() {
                None => 1,
                Some(b'#') => match annotation_end(input) {
                    Some(end) => {
                        self.pass(end + 1);
                        continue;
                    }
                    None if input.len() >= ANNOTATION_BYTES_MAX => {
                        return damaged("an annotation is too long");
                    }
                    None => 1,
                },
                Some(b'*') => match self.parser.parse(input, &self.limits) {
                    Err(error) => {
                        let max = self.limits.bulk_bytes_max;
                        let too_long = too_long(input, max).map(NoCommand::TooLong);
                        return Err(
                            too_long.unwrap_or_else(|| NoCommand::Damaged(error.to_string()))
                        );
                    }
                    Ok(Parsed::Request { len }) => {
                        if self.parser.args_len() == 0 {
                            return damaged("a command has no words");
                        }
                        let offset = self.offset;
                        self.last = self.start..self.start + len;
                        self.pass(len);
                        return Ok(Next::Command { offset, end: self.offset });
                    }
                    Ok(Parsed::Incomplete { missing_bytes }) => missing_bytes,
                },
                Some(_) => return damaged("no command begins there"),
            };
            if self.fill(missing_bytes).map_err(NoCommand::Unread)? == 0 {
                let is_end = self.start == self.filled;
                return Ok(if is_end { Next::End } else { Next::Truncated });
            }
        }
    }

    fn pass(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Reads more. Returns how much; at the end nothing.
    fn fill(&mut self, missing_bytes: usize) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        // No more than twice of what is there is reserved for what is merely announced.
        let more = missing_bytes.min(self.filled).max(READ_BYTES);
        let wanted = self.filled + more;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() > 2 * wanted.max(READ_BYTES) {
            self.buffer.truncate(wanted);
            self.buffer.shrink_to_fit();
        }
        loop {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.filled += count;
                    return Ok(count);
                }
            }
        }
    }
}

/// Where the line ends that `input` begins with, if it is no longer than one may be.
fn annotation_end(input: &[u8]) -> Option<usize> {
    input.iter().take(ANNOTATION_BYTES_MAX).position(|byte| *byte == b'\n')
}

/// The length of the first argument of the command in `input` that is longer than `bytes_max`.
fn too_long(input: &[u8], bytes_max: u64) -> Option<u64> {
    let line_end = |input: &[u8]| input.iter().position(|byte| *byte == b'\n');
    let mut rest = &input[line_end(input)? + 1..];
    loop {
        let end = line_end(rest)?;
        let digits = rest[..end].trim_ascii_end().strip_prefix(b"$")?;
        let bytes: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if bytes > bytes_max {
            return Some(bytes);
        }
        rest = rest.get(end + 1 + usize::try_from(bytes).ok()? + b"\r\n".len()..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AOF: &[u8] = b"#TS:1\r\n*1\r\n$4\r\nPING\r\n#x\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";

    /// A command: from where to where, and as text.
    type Seen = (u64, u64, String);

    /// All commands with their offsets, and how it ended.
    fn read(bytes: &[u8]) -> (Vec<Seen>, Result<Next, String>, u64) {
        let mut commands = Commands::new(bytes, 100, 1000);
        let mut all = Vec::new();
        loop {
            match commands.next() {
                Ok(Next::Command { offset, end }) => {
                    let words: Vec<_> =
                        commands.args().iter().map(|arg| arg.escape_ascii().to_string()).collect();
                    all.push((offset, end, words.join(" ")));
                }
                Ok(next) => return (all, Ok(next), commands.offset()),
                Err(NoCommand::Damaged(what)) => return (all, Err(what), commands.offset()),
                Err(NoCommand::TooLong(bytes)) => {
                    return (all, Err(format!("{bytes}")), commands.offset());
                }
                Err(NoCommand::Unread(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn commands_have_their_places_and_annotations_are_passed_over() {
        let (all, end, _) = read(AOF);
        let expected = [(107, 121, "PING"), (125, 145, "DEL k")];
        assert_eq!(all, expected.map(|(from, to, text)| (from, to, text.to_owned())));
        assert_eq!(end, Ok(Next::End));
    }

    #[test]
    fn a_file_that_is_cut_is_told_from_one_that_ends() {
        for len in 0..AOF.len() {
            let (_, end, offset) = read(&AOF[..len]);
            let is_whole = [0, 7, 21, 25].contains(&len);
            assert_eq!(end, Ok(if is_whole { Next::End } else { Next::Truncated }), "{len}");
            let begin = [0, 7, 21, 25].into_iter().filter(|at| *at <= len).max().unwrap();
            assert_eq!(offset, 100 + begin as u64, "{len}");
        }
    }

    #[test]
    fn what_is_no_command_is_damage() {
        for bad in
            [&b"PING\r\n"[..], b"*0\r\n", b"*-1\r\n", b"\0\0", b"*1\r\n:1\r\n", b"*1\r\n$9999\r\n"]
        {
            assert!(read(bad).1.is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn annotations_and_arguments_have_a_longest_one() {
        let line = |bytes: usize| [&vec![b'#'; bytes - 1][..], b"\n"].concat();
        assert_eq!(read(&line(ANNOTATION_BYTES_MAX)).1, Ok(Next::End));
        let endless = vec![b'#'; 1 << 20];
        for long in [line(ANNOTATION_BYTES_MAX + 1), line(1 << 20), endless] {
            assert!(read(&long).1.unwrap_err().contains("annotation"));
        }
        let (_, end, at) = read(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$1001\r\n");
        assert_eq!((end, at), (Err("1001".to_owned()), 114));
    }

    #[test]
    fn long_commands_are_read_whole_and_their_memory_is_given_back() {
        let long = vec![b'v'; 3 * READ_BYTES];
        let head = format!("*2\r\n$3\r\nDEL\r\n${}\r\n", long.len());
        let aof =
            [head.as_bytes(), &long, b"\r\n", &b"*1\r\n$4\r\nPING\r\n".repeat(100_000)].concat();
        let mut commands = Commands::new(&aof[..], 0, 1 << 30);
        assert!(matches!(commands.next(), Ok(Next::Command { .. })));
        assert_eq!(commands.args()[1], long);
        for _ in 0..100_000 {
            assert!(matches!(commands.next(), Ok(Next::Command { .. })));
        }
        assert!(matches!(commands.next(), Ok(Next::End)));
        assert!(commands.buffer.capacity() <= 3 * READ_BYTES, "{}", commands.buffer.capacity());
    }
}
