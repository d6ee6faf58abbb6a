//! Replies as a client reads them: RESP2, parsed from whatever has arrived so far.

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+`
    Simple(String),
    /// `-`
    Error(String),
    /// `:`
    Int(i64),
    /// `$`, or nothing there.
    Bulk(Option<Vec<u8>>),
    /// `*`, or nothing there.
    Array(Option<Vec<Self>>),
}

impl Reply {
    /// The first reply in `bytes` and its length; `None` if it is not all there yet.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let bad = || format!("no reply begins like this: {}", bytes.escape_ascii());
        let line = std::str::from_utf8(&bytes[1..end]).map_err(|_| bad())?;
        let after = end + 2;
        let number = || line.parse::<i64>().map_err(|_| bad());
        match bytes[0] {
            b'+' => Ok(Some((Self::Simple(line.to_owned()), after))),
            b'-' => Ok(Some((Self::Error(line.to_owned()), after))),
            b':' => Ok(Some((Self::Int(number()?), after))),
            b'$' => {
                let Ok(len) = usize::try_from(number()?) else {
                    return Ok(Some((Self::Bulk(None), after)));
                };
                if bytes.len() < after + len + 2 {
                    return Ok(None);
                }
                Ok(Some((Self::Bulk(Some(bytes[after..after + len].to_vec())), after + len + 2)))
            }
            b'*' => {
                let Ok(count) = usize::try_from(number()?) else {
                    return Ok(Some((Self::Array(None), after)));
                };
                let (mut items, mut at) = (Vec::new(), after);
                for _ in 0..count {
                    let Some((item, len)) = Self::parse(&bytes[at..])? else { return Ok(None) };
                    items.push(item);
                    at += len;
                }
                Ok(Some((Self::Array(Some(items)), at)))
            }
            _ => Err(bad()),
        }
    }

    /// Whether a command within it was refused because a key of it cannot be read.
    pub(crate) fn has_unreadable_key(&self) -> bool {
        let Self::Array(Some(replies)) = self else { return false };
        let is_unread = |reply: &Self| match reply {
            Self::Error(error) => error.starts_with("IOERR ") || error.starts_with("CORRUPT "),
            _ => false,
        };
        replies.iter().any(is_unread)
    }

    /// Whether it says that there is nothing.
    #[must_use]
    pub const fn is_nil(&self) -> bool {
        matches!(self, Self::Bulk(None) | Self::Array(None))
    }

    /// Whether it is an error.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// A command as a client sends it.
pub fn encode(args: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_or_not_there() {
        let bytes = b"*3\r\n:1\r\n$-1\r\n$2\r\nab\r\n+OK\r\n";
        let first = Reply::Array(Some(vec![
            Reply::Int(1),
            Reply::Bulk(None),
            Reply::Bulk(Some(b"ab".to_vec())),
        ]));
        for len in 0..bytes.len() - 5 {
            assert_eq!(Reply::parse(&bytes[..len]), Ok(None), "{len}");
        }
        assert_eq!(Reply::parse(bytes), Ok(Some((first, bytes.len() - 5))));
        assert!(Reply::parse(b"?\r\n").is_err());
    }
}
