//! Replies, as far as a client that measures looks at them.

/// What a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// An error, without its `-`.
    Error(&'a str),
    /// That there is no such key: the null bulk string, or an empty array.
    Missing,
    /// Anything else, as it came.
    Other(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// Takes apart a whole reply.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        match bytes {
            [b'-', error @ ..] => {
                Self::Error(std::str::from_utf8(error).unwrap_or("not UTF-8").trim_end())
            }
            b"$-1\r\n" | b"*0\r\n" => Self::Missing,
            other => Self::Other(other),
        }
    }
}

/// Returns the length of the first reply in `bytes`, if it is there as a whole.
pub(crate) fn whole_bytes(bytes: &[u8]) -> Option<usize> {
    let line_bytes = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let number = || {
        let text = std::str::from_utf8(&bytes[1..line_bytes - 2]).ok()?;
        text.parse::<i64>().ok()
    };
    let end = match bytes[0] {
        b'$' => number().and_then(|length| usize::try_from(length).ok()).map(|it| it + 2),
        b'*' => {
            let mut at = line_bytes;
            for _ in 0..number()? {
                at += whole_bytes(&bytes[at..])?;
            }
            return Some(at);
        }
        _ => None,
    };
    let end = line_bytes + end.unwrap_or(0);
    (bytes.len() >= end).then_some(end)
}

/// Returns the strings of an array of strings, or the string itself.
pub(super) fn strings(mut reply: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(line_bytes) = reply.iter().position(|byte| *byte == b'\n').map(|at| at + 1) {
        let whole = match reply[0] {
            b'*' => line_bytes,
            _ => whole_bytes(reply).unwrap_or(reply.len()),
        };
        if reply[0] == b'$' && whole > line_bytes {
            found.push(&reply[line_bytes..whole - 2]);
        }
        reply = &reply[whole..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_only_with_its_last_byte() {
        for reply in ["+OK\r\n", ":12\r\n", "$-1\r\n", "$0\r\n\r\n", "$3\r\na\nb\r\n", "*0\r\n"] {
            check(reply.as_bytes());
        }
        check(b"*2\r\n$1\r\na\r\n*1\r\n:7\r\n");
    }

    fn check(reply: &[u8]) {
        let followed = [reply, b"+more\r\n"].concat();
        assert_eq!(whole_bytes(&followed), Some(reply.len()));
        for short in 0..reply.len() {
            assert_eq!(whole_bytes(&reply[..short]), None, "{short} of {reply:?}");
        }
    }

    #[test]
    fn strings_are_taken_out() {
        assert_eq!(strings(b"$2\r\n\r\n\r\n"), [b"\r\n"]);
        assert_eq!(strings(b"*2\r\n$1\r\na\r\n$0\r\n\r\n"), [&b"a"[..], b""]);
        assert!(strings(b"+OK\r\n").is_empty());
        assert_eq!(Reply::of(b"-ERR no\r\n"), Reply::Error("ERR no"));
        assert_eq!(Reply::of(b"$-1\r\n"), Reply::Missing);
    }
}
