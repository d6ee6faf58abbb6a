//! Lines of words, some of them quoted: inline requests and configuration files.
//!
//! A word in double quotes supports the escapes `
//!
//! \r \t \b \a \xHH`, and a backslash before any other character; a word in single quotes only
//! `\'`. A closing quote must be followed by a space or the end.

use std::ops::Range;

/// Appends the words of `line`, unescaped, to `out`, and the range of each to `words`. `None` if a
/// quote is unclosed, or text follows a closing one directly.
pub fn split_words(line: &[u8], out: &mut Vec<u8>, words: &mut Vec<Range<usize>>) -> Option<()> {
    let mut rest = trim_start(line);
    while !rest.is_empty() {
        let start = out.len();
        rest = word(rest, out)?;
        words.push(start..out.len());
        rest = trim_start(rest);
    }
    Some(())
}

/// Appends the word at the start of `rest` to `out` and returns what follows it.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] | [0, ..] => return Some(&[]),
            [byte, tail @ ..] if is_space(*byte) => return Some(tail),
            [b'"', tail @ ..] => return closed(double_quoted(tail, out)?),
            [b'\'', tail @ ..] => return closed(single_quoted(tail, out)?),
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

/// Returns what follows a closing quote, which must be a space or nothing.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|byte| is_space(*byte)).then_some(rest)
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] => return None,
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] => return None,
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

fn trim_start(mut rest: &[u8]) -> &[u8] {
    while let [byte, tail @ ..] = rest {
        if !is_space(*byte) {
            break;
        }
        rest = tail;
    }
    rest
}

/// Returns the result of C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Option<Vec<String>> {
        let (mut out, mut words) = (Vec::new(), Vec::new());
        split_words(line.as_bytes(), &mut out, &mut words)?;
        Some(words.into_iter().map(|word| String::from_utf8(out[word].to_vec()).unwrap()).collect())
    }

    #[test]
    fn words_are_separated_by_spaces() {
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split("  a  bc\td ").unwrap(), ["a", "bc", "d"]);
    }

    #[test]
    fn quotes_keep_spaces_and_know_escapes() {
        assert_eq!(split(r#""a b" 'c d'"#).unwrap(), ["a b", "c d"]);
        assert_eq!(split(r#""\x41\t\"\\" '\'\n'"#).unwrap(), ["A\t\"\\", "'\\n"]);
        assert_eq!(split(r#""""#).unwrap(), [""]);
        assert_eq!(split(r#"a"b c"d"#), None);
        assert_eq!(split(r#"x"b c""#).unwrap(), ["xb c"]);
    }

    #[test]
    fn open_quotes_are_refused() {
        assert_eq!(split("\"abc"), None);
        assert_eq!(split("'abc"), None);
        assert_eq!(split("\"a\"b"), None);
    }
}
