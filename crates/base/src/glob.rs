//! Glob patterns as Redis understands them: KEYS, SCAN, PSUBSCRIBE, CONFIG GET.
//!
//! `*` any bytes, `?` any byte, `[abc]`, `[a-z]`, `[^a]` one of a class, `\` the next byte as it
//! is. Works on bytes. Only the last `*` is ever retried, so the time is at most the product of the
//! two lengths, whatever the pattern.

/// Whether all of `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    glob(pattern, text, |byte| byte)
}

/// [`matches`], with letters of either case being the same.
#[must_use]
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    glob(pattern, text, |byte| byte.to_ascii_lowercase())
}

fn glob(mut pattern: &[u8], mut text: &[u8], fold: fn(u8) -> u8) -> bool {
    // What is left of both behind the last star, had it matched one byte more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match text {
            [] if pattern.is_empty() => return true,
            // The text is used up: no longer match of a star can help.
            [] => return false,
            [byte, rest @ ..] => match_one(pattern, *byte, fold).map(|pattern| (pattern, rest)),
        };
        if let Some(step) = step {
            (pattern, text) = step;
            continue;
        }
        match &mut retry {
            Some((after_star, from)) => {
                let Some((_, longer)) = from.split_first() else { return false };
                *from = longer;
                (pattern, text) = (after_star, longer);
            }
            None => return false,
        }
    }
}

/// What is left of `pattern` when its first element matches `byte`.
fn match_one(pattern: &[u8], byte: u8, fold: fn(u8) -> u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', b'^', class @ ..] => match_class(class, byte, fold, true),
        [b'[', class @ ..] => match_class(class, byte, fold, false),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            (fold(*literal) == fold(byte)).then_some(rest)
        }
    }
}

/// What is left behind a class when it has `byte`, or has it not and is `negated`. A class that
/// nobody closed ends with the pattern.
fn match_class(mut class: &[u8], byte: u8, fold: fn(u8) -> u8, negated: bool) -> Option<&[u8]> {
    let mut found = false;
    loop {
        class = match class {
            [] => break,
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [b']', rest @ ..] => {
                class = rest;
                break;
            }
            [start, b'-', end, rest @ ..] => {
                let (low, high) = (fold(*start.min(end)), fold(*start.max(end)));
                found |= (low..=high).contains(&fold(byte));
                rest
            }
            [literal, rest @ ..] => {
                found |= fold(*literal) == fold(byte);
                rest
            }
        };
    }
    (found != negated).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes())
    }

    #[test]
    fn the_elements_match_what_redis_says() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("**", "abc"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("a\\*c", "a*c"),
            ("a[\\]]c", "a]c"),
            ("*b*d", "abbcbd"),
            ("a[bc", "ab"),
            ("a\\", "a\\"),
            ("*abc*", "xxabyabcz"),
        ] {
            assert!(check(pattern, text), "{pattern} should match {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("a\\*c", "abc"),
            ("*b*d", "abbcb"),
            ("abc", "ab"),
            ("a*b", "a"),
            ("[a-c]", "d"),
            ("h[]llo", "hllo"),
        ] {
            assert!(!check(pattern, text), "{pattern} should not match {text}");
        }
        assert!(matches_ignoring_case(b"MAX*[A-C]", b"maxmemoryb"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(40) + "b";
        let text = "a".repeat(2_000);
        assert!(!check(&pattern, &text));
    }
}
