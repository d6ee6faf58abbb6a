//! Asking a server for a dump, as `redis-cli --rdb` does.
//!
//! ```text
//!   AUTH [user] password      +OK                    if there is a password
//!   REPLCONF capa eof         +OK, or an error       a server of 6.0 knows no rdb-only, and sends a dump all the same
//!   REPLCONF rdb-only 1       +OK, or an error
//!   SYNC                      "\n" …                 while the server prepares it
//!                             $EOF:MARK, or $LENGTH
//!                             the dump, then MARK
//! ```

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::Error;
use crate::source::MARK_BYTES;

/// A server that sends nothing for so long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// The longest line of a reply.
const LINE_BYTES_MAX: u64 = 4096;

/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;

const PORT: u16 = 6379;

/// A server, with what it wants to be told.
#[derive(Clone)]
pub struct Address {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<String>,
}

/// How a server marks the end of a dump.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// By these bytes behind it.
    Mark([u8; MARK_BYTES]),
    /// By its length.
    Length(u64),
}

impl Address {
    /// Reads `HOST:PORT` or `redis://[[USER]:PASSWORD@]HOST[:PORT][/]`.
    pub(crate) fn parse(text: &str, password: Option<String>) -> Result<Self, Error> {
        let rest = text.strip_prefix("redis://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let wrong = |why| Error::Address { text: place.to_owned(), why };
        if rest.contains("://") {
            return Err(wrong("only redis:// is known"));
        }
        if place.contains('/') {
            return Err(wrong("a database is chosen with --database"));
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_not_a_number| wrong("its port is no number"))?)
            }
            _ => (place, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let mut address = Self { host: host.to_owned(), port, user: None, password };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            let decoded = |text| decode(text).ok_or_else(|| wrong("a % is followed by no byte"));
            address.user = Some(decoded(user)?).filter(|user| !user.is_empty());
            address.password = Some(decoded(password)?);
        }
        Ok(address)
    }

    /// Asks for a dump, which is what is read next.
    pub(crate) fn ask(&self) -> Result<(Box<dyn Read>, Framing), Error> {
        let wrong = |source| Error::Connection { address: self.to_string(), source };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).map_err(wrong)?;
        stream.set_nodelay(true).map_err(wrong)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(wrong)?;
        let mut server = BufReader::with_capacity(BUFFER_BYTES, stream);
        if let Some(password) = &self.password {
            let words: Vec<&str> =
                self.user.iter().map(String::as_str).chain([password.as_str()]).collect();
            let reply = call(&mut server, "AUTH", &words).map_err(wrong)?;
            if reply != "+OK" {
                return Err(self.refused("AUTH", &reply));
            }
        }
        call(&mut server, "REPLCONF", &["capa", "eof"]).map_err(wrong)?;
        call(&mut server, "REPLCONF", &["rdb-only", "1"]).map_err(wrong)?;
        let reply = call(&mut server, "SYNC", &[]).map_err(wrong)?;
        let framing = framing(&reply).ok_or_else(|| self.refused("SYNC", &reply))?;
        Ok(match framing {
            Framing::Mark(_) => (Box::new(server), framing),
            Framing::Length(bytes) => (Box::new(server.take(bytes)), framing),
        })
    }

    fn refused(&self, command: &'static str, reply: &str) -> Error {
        Error::Refused { address: self.to_string(), command, reply: reply.to_owned() }
    }
}

/// Sends a command and returns the line of its reply.
fn call(server: &mut BufReader<TcpStream>, command: &str, words: &[&str]) -> io::Result<String> {
    let mut request = format!("*{}\r\n", words.len() + 1);
    for word in [command].iter().chain(words) {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    server.get_mut().write_all(request.as_bytes())?;
    reply(server)
}

/// Reads one line; empty ones only say that the server is still there.
fn reply(server: &mut impl BufRead) -> io::Result<String> {
    loop {
        let mut line = Vec::new();
        server.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(if line.is_empty() {
                ErrorKind::UnexpectedEof.into()
            } else {
                io::Error::new(ErrorKind::InvalidData, "its reply is not of Redis' protocol")
            });
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            return Ok(String::from_utf8_lossy(line).into_owned());
        }
    }
}

/// What the reply to SYNC says, if it announces a dump.
fn framing(reply: &str) -> Option<Framing> {
    let rest = reply.strip_prefix('$')?;
    match rest.strip_prefix("EOF:") {
        Some(mark) => mark.as_bytes().try_into().ok().map(Framing::Mark),
        None => rest.parse().ok().map(Framing::Length),
    }
}

/// Decodes what a URL has escaped with percent signs.
fn decode(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let from_environment = || Some("env".to_owned());
        for (text, shown, user, password) in [
            ("localhost:7000", "localhost:7000", None, "env"),
            ("redis://localhost", "localhost:6379", None, "env"),
            ("redis://localhost:7000/", "localhost:7000", None, "env"),
            ("redis://:a%40b:c@localhost:7000", "localhost:7000", None, "a@b:c"),
            ("redis://me:pw@[::1]:7000", "[::1]:7000", Some("me"), "pw"),
            ("redis://[::1]", "[::1]:6379", None, "env"),
            ("redis://pw@localhost", "localhost:6379", None, "pw"),
        ] {
            let address = Address::parse(text, from_environment()).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.user.as_deref(), user, "{text}");
            assert_eq!(address.password.as_deref(), Some(password), "{text}");
            assert!(!format!("{address:?}").contains(password));
        }
        for text in ["http://a", "redis://", "redis://a:b", "redis://a/3", "redis://:%4@a"] {
            let error = Address::parse(text, None).unwrap_err();
            assert!(matches!(error, Error::Address { .. }), "{text}");
        }
    }

    #[test]
    fn replies_are_read_behind_empty_lines() {
        let mut bytes = &b"\n\n\r\n$EOF:x\r\nREDIS"[..];
        assert_eq!(reply(&mut bytes).unwrap(), "$EOF:x");
        assert_eq!(bytes, b"REDIS");
        assert_eq!(reply(&mut &b""[..]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(reply(&mut &b"+O"[..]).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn only_a_dump_is_taken_for_one() {
        let mark = "26eff17346e14f2095339fbc42f59ef52e541ae3";
        assert!(
            matches!(framing(&format!("$EOF:{mark}")), Some(Framing::Mark(it)) if it == mark.as_bytes())
        );
        assert!(matches!(framing("$88"), Some(Framing::Length(88))));
        for reply in ["-LOADING", "$EOF:short", "$-1", "+OK", ""] {
            assert!(framing(reply).is_none(), "{reply}");
        }
    }
}
