//! Where a dump comes from: a file, standard input, or a server.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::sync::{Address, Framing};

/// Bytes of the mark that a server sends behind a dump, and `redis-cli --rdb -` passes on.
pub(crate) const MARK_BYTES: usize = 40;

/// A dump to be read.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// A server that is asked for one.
    Server(Address),
}

/// What must come behind a dump.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// Nothing, or the mark that `redis-cli --rdb -` passes on.
    End,
    /// What the server has said.
    Framed(Framing),
}

/// A dump that is open for reading.
pub(crate) struct Opened {
    pub(crate) reader: Box<dyn Read>,
    pub(crate) ending: Ending,
    /// How long the dump is, if that is known.
    pub(crate) bytes: Option<u64>,
}

impl Source {
    /// Reads what a person has given: a file that is there, `-`, `HOST:PORT` or a URL. `password` is for
    /// an address that has none.
    ///
    /// # Errors
    /// If it is a URL and not one of a server.
    pub fn parse(text: &str, password: Option<String>) -> Result<Self, Error> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        let is_url = text.contains("://");
        if !is_url && (Path::new(text).exists() || !has_port(text)) {
            return Ok(Self::File(text.into()));
        }
        Address::parse(text, password).map(Self::Server)
    }

    pub(crate) fn open(&self) -> Result<Opened, Error> {
        match self {
            Self::Stdin => {
                Ok(Opened { reader: Box::new(io::stdin()), ending: Ending::End, bytes: None })
            }
            Self::File(path) => {
                let wrong = |source| Error::Open { path: path.clone(), source };
                let file = File::open(path).map_err(wrong)?;
                let bytes = file.metadata().map_err(wrong)?.len();
                Ok(Opened { reader: Box::new(file), ending: Ending::End, bytes: Some(bytes) })
            }
            Self::Server(address) => {
                let (reader, framing) = address.ask()?;
                let bytes = match framing {
                    Framing::Length(bytes) => Some(bytes),
                    Framing::Mark(_) => None,
                };
                Ok(Opened { reader, ending: Ending::Framed(framing), bytes })
            }
        }
    }
}

impl Ending {
    /// Checks what comes behind a dump of so many bytes.
    pub(crate) fn check(&self, bytes: u64, mut rest: impl Read) -> Result<(), Wrong> {
        match self {
            Self::Framed(Framing::Length(announced)) if bytes == *announced => Ok(()),
            Self::Framed(Framing::Length(_)) => {
                Err(Wrong::Ending("it is shorter than the server has announced"))
            }
            Self::Framed(Framing::Mark(mark)) => {
                let mut found = [0; MARK_BYTES];
                rest.read_exact(&mut found).map_err(Wrong::Io)?;
                if found == *mark {
                    Ok(())
                } else {
                    Err(Wrong::Ending("another mark is behind it"))
                }
            }
            Self::End => {
                let mut found = Vec::new();
                rest.take(MARK_BYTES as u64 + 1).read_to_end(&mut found).map_err(Wrong::Io)?;
                let is_mark =
                    found.len() == MARK_BYTES && found.iter().all(u8::is_ascii_alphanumeric);
                if found.is_empty() || is_mark {
                    Ok(())
                } else {
                    Err(Wrong::Ending("it goes on behind its end mark"))
                }
            }
        }
    }
}

/// What is wrong behind a dump.
pub(crate) enum Wrong {
    Ending(&'static str),
    Io(io::Error),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::Server(address) => address.fmt(f),
        }
    }
}

/// Whether a text ends with a port, as an address does.
fn has_port(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_by_its_form() {
        let parse = |text| Source::parse(text, None).map(|source| format!("{source:?}"));
        for (text, begins) in [
            ("-", "Stdin"),
            ("dump.rdb", "File"),
            ("data/dump.rdb", "File"),
            ("data/a:6379", "File"),
            (":6379", "File"),
            ("localhost:6379", "Server"),
            ("[::1]:6379", "Server"),
            ("redis://localhost", "Server"),
        ] {
            let parsed = parse(text).unwrap();
            assert!(parsed.starts_with(begins), "{text}: {parsed}");
        }
        assert!(parse("http://localhost:6379").is_err());
        assert!(parse("rediss://localhost:6379").is_err());
    }

    #[test]
    fn what_is_behind_a_dump_is_checked() {
        let check = |ending: Ending, rest: &[u8]| ending.check(100, rest).is_ok();
        let mark = *b"26eff17346e14f2095339fbc42f59ef52e541ae3";
        for (ending, rest, is_good) in [
            (Ending::End, &b""[..], true),
            (Ending::End, &mark, true),
            (Ending::End, &mark[1..], false),
            (Ending::End, &[0; 40], false),
            (Ending::End, &[b'a'; 41], false),
            (Ending::Framed(Framing::Mark(mark)), &mark, true),
            (Ending::Framed(Framing::Mark(mark)), &mark[..39], false),
            (Ending::Framed(Framing::Mark(mark)), &[b'0'; 40], false),
            (Ending::Framed(Framing::Length(100)), b"", true),
            (Ending::Framed(Framing::Length(101)), b"", false),
        ] {
            assert_eq!(check(ending, rest), is_good, "{ending:?} {rest:?}");
        }
    }
}
