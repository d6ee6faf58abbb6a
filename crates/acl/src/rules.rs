//! The words of rules, before they mean anything.

use crate::error::RuleError;
use crate::patterns::KeyAccess;

/// What C's `isspace` is true of, and NUL: no name and no pattern has it, so that a line needs no quotes.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0)
}

/// Whether this can be the name of a user.
#[must_use]
pub fn is_valid_name(name: &[u8]) -> bool {
    !name.iter().any(|&byte| is_space(byte))
}

/// Refuses a pattern with spaces.
pub(crate) fn check_word(pattern: &[u8]) -> Result<(), RuleError> {
    if pattern.iter().any(|&byte| is_space(byte)) { Err(RuleError::Syntax) } else { Ok(()) }
}

/// What stands behind a `%`: R, W or both, a `~`, and the pattern.
pub(crate) fn key_access(rest: &[u8]) -> Result<(KeyAccess, &[u8]), RuleError> {
    let mut access = KeyAccess { reads: false, writes: false };
    let end = rest.iter().position(|&byte| byte == b'~').unwrap_or(rest.len());
    for letter in &rest[..end] {
        let flag = match letter.to_ascii_uppercase() {
            b'R' => &mut access.reads,
            b'W' => &mut access.writes,
            _ => return Err(RuleError::Syntax),
        };
        if std::mem::replace(flag, true) {
            return Err(RuleError::Syntax);
        }
    }
    if !access.reads && !access.writes {
        return Err(RuleError::Syntax);
    }
    Ok((access, rest.get(end + 1..).unwrap_or_default()))
}

/// A parenthesis that is not closed: the position of the word that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unmatched(pub(crate) usize);

/// The rules with each selector in one: words from one that begins with `(` to one that ends with `)`.
pub(crate) fn merge_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Unmatched> {
    let mut merged = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, &word) in words.iter().enumerate() {
        if word.starts_with(b"(") && !word.ends_with(b")") {
            // One that is open already is forgotten, as Redis does.
            open = Some((index, word.to_vec()));
            continue;
        }
        match open.take() {
            None => merged.push(word.to_vec()),
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.ends_with(b")") {
                    merged.push(selector);
                } else {
                    open = Some((start, selector));
                }
            }
        }
    }
    match open {
        None => Ok(merged),
        Some((start, _)) => Err(Unmatched(start)),
    }
}
