//! A connection to a server that speaks the Redis protocol, as far as this program needs one.

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::login::{Login, Stream, Way};

/// Where the password is.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

/// No line of a server is longer; its texts are told to people.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// No value of a server is longer.
const VALUE_BYTES_MAX: u64 = 1 << 32;

/// The password that servers are to be told.
pub(crate) fn password() -> Option<String> {
    std::env::var(PASSWORD_VARIABLE).ok()
}

/// See the file's top.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// What a server answers to commands whose replies are not deeper than this.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    Array(Vec<Self>),
}

impl Client {
    /// Connects to HOST:PORT, and authenticates if there is a password in the environment.
    pub(crate) fn connect(address: &str, login: &Login) -> anyhow::Result<Self> {
        Self::over(login.way.connect(address)?, login.user.as_deref())
    }

    /// Connects to a socket of this machine, and authenticates in the same way.
    pub(crate) fn connect_to_socket(path: &Path) -> anyhow::Result<Self> {
        Self::over(Box::new(UnixStream::connect(path)?), None)
    }

    /// Connects to HOST:PORT, or to a socket of this machine if there is a slash in it, and does not authenticate. Connecting,
    /// sending and reading fail when one of them takes longer than `patience`.
    pub(crate) fn connect_within(
        address: &str,
        way: &Way,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        if !address.contains('/') {
            return Ok(Self { stream: BufReader::new(way.connect_within(address, patience)?) });
        }
        let stream =
            UnixStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    fn over(stream: Box<dyn Stream>, user: Option<&str>) -> anyhow::Result<Self> {
        let mut client = Self { stream: BufReader::new(stream) };
        client.authenticate(user)?;
        Ok(client)
    }

    /// Authenticates if there is a password in the environment.
    pub(crate) fn authenticate(&mut self, user: Option<&str>) -> anyhow::Result<()> {
        if let Some(password) = password() {
            self.send(&["AUTH", user.unwrap_or("default"), &password])?;
            self.status()?;
        }
        Ok(())
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call(&mut self, words: &[impl AsRef<[u8]>]) -> anyhow::Result<Reply> {
        self.send(words)?;
        self.reply(0)
    }

    /// Reads a line: what kind of reply it begins, and what follows.
    pub(crate) fn line(&mut self) -> anyhow::Result<(u8, String)> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some((kind, text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            bail!("the server has closed the connection, or answers what is no reply");
        };
        Ok((*kind, String::from_utf8_lossy(text).into_owned()))
    }

    /// Reads a line that begins with this kind and has a number.
    pub(crate) fn number(&mut self, expected: u8) -> anyhow::Result<u64> {
        let (kind, text) = self.line()?;
        match text.parse() {
            Ok(number) if kind == expected => Ok(number),
            _ => bail!("the server answers {}{text}, which was not expected", char::from(kind)),
        }
    }

    /// Reads the reply of a command that has nothing to say.
    pub(crate) fn status(&mut self) -> anyhow::Result<()> {
        match self.line()? {
            (b'+', _) => Ok(()),
            (_, text) => bail!("{text}"),
        }
    }

    /// Reads a reply that is a string of at most so many bytes, and writes it to `out` as it comes.
    pub(crate) fn copy_bytes(
        &mut self,
        bytes_max: u64,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let len = self.number(b'$')?;
        self.copy(len, bytes_max, out)
    }

    fn copy(&mut self, len: u64, bytes_max: u64, out: &mut impl Write) -> anyhow::Result<()> {
        if len > bytes_max {
            bail!("the server announces a value of {len} bytes");
        }
        let copied = io::copy(&mut (&mut self.stream).take(len), out)?;
        let (mut end, is_whole) = ([0; 2], copied == len);
        self.stream.read_exact(&mut end)?;
        if !is_whole || end != *b"\r\n" {
            bail!("the server ends a value too early");
        }
        Ok(())
    }

    fn reply(&mut self, depth: u8) -> anyhow::Result<Reply> {
        let (kind, text) = self.line()?;
        let wrong =
            || anyhow::anyhow!("the server answers {}{text}, which is no reply", char::from(kind));
        Ok(match kind {
            b'+' => Reply::Status(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Number(text.parse().map_err(|_| wrong())?),
            b'$' | b'*' if text == "-1" => Reply::Nothing,
            b'$' => {
                let mut value = Vec::new();
                self.copy(text.parse().map_err(|_| wrong())?, VALUE_BYTES_MAX, &mut value)?;
                Reply::Bytes(value)
            }
            // SCAN's reply is the deepest that is asked for.
            b'*' if depth < 2 => {
                let count: usize = text.parse().map_err(|_| wrong())?;
                // It is not believed before the elements are there.
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push(self.reply(depth + 1)?);
                }
                Reply::Array(elements)
            }
            _ => return Err(wrong()),
        })
    }
}

impl Reply {
    /// What was replied, unless that is an error.
    pub(crate) fn good(self) -> anyhow::Result<Self> {
        match self {
            Self::Error(why) => bail!("{why}"),
            reply => Ok(reply),
        }
    }
}
