//! The language of `tests/conformance/*.txt`: commands whose replies must be those of redis-server.
//!
//! ```text
//! # a comment
//! == expiry flags                       a section: an empty database, new connections; run in RESP2 and RESP3
//! == maps in RESP3 [resp3]              … in one of them only
//! SET key "two words\r\n" EX 100        compared byte by byte
//! SET big {x*1000}                      x a thousand times
//! @sort SMEMBERS s                      elements in any order
//! @pairs HGETALL h                      keys with their values, in any order
//! @near 2 TTL key                       a number at most 2 away
//! @type OBJECT FREQ key                 only the type of the reply
//! @count SRANDMEMBER s -5               only the type and the number of elements
//! @fields CONFIG GET maxm*              only the keys of the pairs, in any order
//! @ignore DEBUG RELOAD                  any reply
//! @scan HSCAN h COUNT 5                 a whole iteration: the set of what it returns
//! @until 0 EXISTS key                   again and again until the reply is this
//! @blocked 1                            wait until so many clients are blocked
//! @for 1 200 RPUSH list item:%i         two hundred commands
//! @let id CLIENT ID                     remembers each server's reply as %{id}
//! 2> SUBSCRIBE channel                  on the second connection (they come into being when named)
//! 2> @send BLPOP key 0                  does not wait for the reply
//! 2> @read                              waits for the next reply or push
//! 2> @raw "*1\r\n$4\r\nPING\r\n"        bytes as they are, then waits for one reply
//! 2> @bytes "*1\r\n"                    bytes as they are, no waiting
//! 2> @closed                            the server must have closed the connection
//! 2> @close                             the client closes it
//! ```
//!
//! A line says what is unpredictable in its reply and nothing more: every directive is a hole in the test.

/// How two replies are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Comparison {
    /// Byte by byte.
    Exact,
    /// Elements in any order.
    Sorted,
    /// Pairs of elements in any order.
    SortedPairs,
    /// Numbers that may differ by this much.
    Near(f64),
    /// The type only.
    Type,
    /// The type and the number of elements.
    Count,
    /// The first of each pair, in any order.
    Fields,
    /// Nothing.
    Ignored,
}

/// What a line does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Sends a command and compares the replies.
    Command(Vec<Vec<u8>>, Comparison),
    /// Sends the command for each number in turn in place of `%i`.
    Repeated(i64, i64, Vec<Vec<u8>>, Comparison),
    /// Iterates with a command of the SCAN family and compares the sets of what it returns.
    Scan(Vec<Vec<u8>>),
    /// Repeats a command until its reply has this text on both servers.
    Until(String, Vec<Vec<u8>>),
    /// Waits until this many clients are blocked.
    Blocked(String),
    /// Sends a command and remembers the text of its reply under a name.
    Remember(String, Vec<Vec<u8>>),
    /// Sends a command, leaves its reply.
    Send(Vec<Vec<u8>>),
    /// Sends bytes, then compares one reply.
    Raw(Vec<u8>),
    /// Sends bytes, leaves the reply.
    Bytes(Vec<u8>),
    /// Compares the next reply.
    Read(Comparison),
    /// Expects the end of the connection.
    Closed,
    /// Ends the connection.
    Close,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Where it stands in the file.
    pub(crate) line: usize,
    /// The line as written.
    pub(crate) text: String,
    /// Which connection it uses.
    pub(crate) connection: u32,
    /// What it does.
    pub(crate) action: Action,
}

/// The steps between two `==` lines.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// What it is about.
    pub(crate) title: String,
    /// The protocol versions that it runs in.
    pub(crate) protocols: Vec<u8>,
    /// Its steps in order.
    pub(crate) steps: Vec<Step>,
}

/// Reads a script; panics with the line where it is malformed.
pub(crate) fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("==") {
            sections.push(parse_title(title.trim()));
            continue;
        }
        let section = sections.last_mut().expect("a script starts with a == line");
        let step = parse_step(line).unwrap_or_else(|| panic!("line {}: {line}", index + 1));
        section.steps.push(Step { line: index + 1, ..step });
    }
    sections
}

fn parse_title(title: &str) -> Section {
    let (title, protocols) = if let Some(title) = title.strip_suffix("[resp2]") {
        (title, vec![2])
    } else if let Some(title) = title.strip_suffix("[resp3]") {
        (title, vec![3])
    } else {
        (title, vec![2, 3])
    };
    Section { title: title.trim().to_owned(), protocols, steps: Vec::new() }
}

fn parse_step(line: &str) -> Option<Step> {
    let (connection, rest) = match line.split_once("> ") {
        Some((number, rest)) if number.parse::<u32>().is_ok() => (number.parse().ok()?, rest),
        _ => (1, line),
    };
    let step = |action| Step { line: 0, text: line.to_owned(), connection, action };
    let Some(directive) = rest.strip_prefix('@') else {
        return Some(step(Action::Command(split_words(rest)?, Comparison::Exact)));
    };
    let (name, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    let action = match name {
        "scan" => Action::Scan(split_words(rest)?),
        "until" => {
            let (wanted, command) = rest.split_once(' ')?;
            Action::Until(wanted.to_owned(), split_words(command)?)
        }
        "blocked" => Action::Blocked(rest.trim().to_owned()),
        "let" => {
            let (variable, command) = rest.split_once(' ')?;
            Action::Remember(variable.to_owned(), split_words(command)?)
        }
        "for" => {
            let mut parts = rest.splitn(3, ' ');
            let (from, to) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Action::Repeated(from, to, split_words(parts.next()?)?, Comparison::Exact)
        }
        "send" => Action::Send(split_words(rest)?),
        "raw" => Action::Raw(split_words(rest)?.pop()?),
        "bytes" => Action::Bytes(split_words(rest)?.pop()?),
        "closed" => Action::Closed,
        "close" => Action::Close,
        "read" if rest.is_empty() => Action::Read(Comparison::Exact),
        "read" => Action::Read(parse_comparison(rest.strip_prefix('@')?)?.0),
        _ => {
            let (comparison, command) = parse_comparison(directive)?;
            Action::Command(split_words(command)?, comparison)
        }
    };
    Some(step(action))
}

/// Splits `near 2 TTL key` into how to compare and the command.
fn parse_comparison(directive: &str) -> Option<(Comparison, &str)> {
    let (name, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    Some(match name {
        "sort" => (Comparison::Sorted, rest),
        "pairs" => (Comparison::SortedPairs, rest),
        "near" => {
            let (tolerance, command) = rest.split_once(' ').unwrap_or((rest, ""));
            (Comparison::Near(tolerance.parse().ok()?), command)
        }
        "type" => (Comparison::Type, rest),
        "count" => (Comparison::Count, rest),
        "fields" => (Comparison::Fields, rest),
        "ignore" => (Comparison::Ignored, rest),
        _ => return None,
    })
}

/// Splits a command line as redis-cli does, with `{text*count}` for long arguments.
fn split_words(line: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start().as_bytes();
    while !rest.is_empty() {
        let (word, after) = match rest[0] {
            b'"' => quoted(&rest[1..])?,
            _ => {
                let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
                (repeated(&rest[..end]), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    (!words.is_empty()).then_some(words)
}

/// Reads up to the closing quote: the bytes meant and what follows.
fn quoted(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut word, mut at) = (Vec::new(), 0);
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((word, &bytes[at + 1..])),
            b'\\' => {
                at += 1;
                match *bytes.get(at)? {
                    b'n' => word.push(b'\n'),
                    b'r' => word.push(b'\r'),
                    b't' => word.push(b'\t'),
                    b'x' => {
                        let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
                        word.push(u8::from_str_radix(digits, 16).ok()?);
                        at += 2;
                    }
                    other => word.push(other),
                }
            }
            other => word.push(other),
        }
        at += 1;
    }
}

/// `{text*count}` written out; other words as they are.
fn repeated(word: &[u8]) -> Vec<u8> {
    let written_out = || {
        let inner = std::str::from_utf8(word).ok()?.strip_prefix('{')?.strip_suffix('}')?;
        let (text, count) = inner.rsplit_once('*')?;
        Some(text.repeat(count.parse().ok()?).into_bytes())
    };
    written_out().unwrap_or_else(|| word.to_vec())
}

#[test]
fn lines_mean_what_the_essay_says() {
    let script = parse(
        "# comment\n== one [resp3]\nSET k \"a\\r\\n\\x00\\\"\" {ab*3}\n2> @send BLPOP k 0\n2> @read @near 2\n",
    );
    assert_eq!((script.len(), script[0].title.as_str()), (1, "one"));
    assert_eq!(script[0].protocols, [3]);
    let words: Vec<Vec<u8>> =
        vec![b"SET".to_vec(), b"k".to_vec(), b"a\r\n\0\"".to_vec(), b"ababab".to_vec()];
    assert_eq!(script[0].steps[0].action, Action::Command(words, Comparison::Exact));
    assert_eq!((script[0].steps[1].connection, script[0].steps[1].line), (2, 4));
    assert_eq!(script[0].steps[2].action, Action::Read(Comparison::Near(2.0)));
}
