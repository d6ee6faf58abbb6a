//! Glob-style patterns, as in KEYS, SCAN, PSUBSCRIBE and CONFIG GET.
//!
//! ```text
//!   *        any number of bytes          [abc] [a-c] [^a]   one of them, not one of them
//!   ?        one byte                     \x                 x itself
//! ```
//!
//! The corner cases are Redis': a class without its `]` ends with the pattern, a range may be
//! written backwards, a backslash at the end stands for itself, and a `*` needs at least one byte
//! to start from, so that the empty string matches the empty pattern only.
//!
//! Matching backtracks to the latest `*` only. That is enough: if a later `*` found no match, a
//! longer match for an earlier one cannot help, because the later one would have tried that place
//! too. So the cost is at most pattern length times text length, whatever a client sends.

/// Whether all of `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, false)
}

/// Whether all of `text` matches `pattern`, where upper and lower case are the same.
#[must_use]
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, true)
}

/// Whether `pattern` is `*`, which callers may treat as matching every text, the empty one
/// included.
#[must_use]
pub fn is_everything(pattern: &[u8]) -> bool {
    pattern == b"*"
}

fn run(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // What follows the latest star, and where in the text it was last tried.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && t < text.len() {
            if pattern[p] == b'*' {
                p = skip_stars(pattern, p);
                if p == pattern.len() {
                    return true;
                }
                star = Some((p, t));
                continue;
            }
            if let Some(next) = match_one(pattern, p, text[t], any_case) {
                p = next;
                t += 1;
                if t < text.len() {
                    continue;
                }
                p = skip_stars(pattern, p);
            }
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        match star {
            Some((after, tried)) if tried + 1 < text.len() => {
                star = Some((after, tried + 1));
                (p, t) = (after, tried + 1);
            }
            _ => return false,
        }
    }
}

fn skip_stars(pattern: &[u8], mut p: usize) -> usize {
    while pattern.get(p) == Some(&b'*') {
        p += 1;
    }
    p
}

/// Matches one byte of text with the pattern element at `p`. Returns the place of the next element.
fn match_one(pattern: &[u8], p: usize, byte: u8, any_case: bool) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => match_class(pattern, p + 1, byte, any_case),
        b'\\' if p + 1 < pattern.len() => same(pattern[p + 1], byte, any_case).then_some(p + 2),
        literal => same(literal, byte, any_case).then_some(p + 1),
    }
}

/// Matches one byte with the class whose contents start at `p`.
fn match_class(pattern: &[u8], mut p: usize, byte: u8, any_case: bool) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(p..).unwrap_or_default() {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [first, b'-', last, ..] => {
                found |= in_range(*first, *last, byte, any_case);
                p += 3;
            }
            [literal, ..] => {
                found |= same(*literal, byte, any_case);
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

/// Whether a byte lies between two others, in the order of C's signed characters.
fn in_range(first: u8, last: u8, byte: u8, any_case: bool) -> bool {
    let (low, high) =
        if first.cast_signed() <= last.cast_signed() { (first, last) } else { (last, first) };
    let [low, high, byte] = [low, high, byte].map(|bound| {
        let bound = if any_case { bound.to_ascii_lowercase() } else { bound };
        bound.cast_signed()
    });
    (low..=high).contains(&byte)
}

fn same(a: u8, b: u8, any_case: bool) -> bool {
    if any_case { a.eq_ignore_ascii_case(&b) } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        // Pattern, text and the answer of a Redis 7.0 server.
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("*", "", false),
            ("*", "x", true),
            ("a*", "a", true),
            ("a**", "a", true),
            ("*a", "a", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[", "a", false),
            ("[^", "a", true),
            ("[a", "a", true),
            ("[]", "a", false),
            ("[]a]", "a]", false),
            ("[a-", "-", true),
            ("[\\]]", "]", true),
            ("\\", "\\", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("foo*bar*", "foobazbarqux", true),
            ("foo*bar", "foobarbaz", false),
            ("*?", "a", true),
            ("?*?", "a", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("a", "", false),
            ("", "a", false),
        ];
        for &(pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn case_matters_only_when_asked() {
        assert!(!matches(b"GET*", b"getset"));
        assert!(matches_ignoring_case(b"GET*[S-T]et", b"getset"));
    }

    #[test]
    fn hostile_patterns_end_soon() {
        let pattern = b"a*".repeat(30_000);
        let text = b"a".repeat(30_000);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
        assert!(!matches(&[b"*?".repeat(10_000).as_slice(), b"b"].concat(), &text));
    }
}
