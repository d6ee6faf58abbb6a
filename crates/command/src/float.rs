//! Floating-point numbers in arguments, read the way C's `strtod` reads them.
//!
//! Redis takes scores, weights and range bounds with `strtod`, which knows more spellings than
//! Rust's parser: hexadecimal (`0x1p-3`), and for bounds also leading white space and nothing at
//! all. Decimal digits are left to Rust's parser, which rounds correctly as C's does.

/// What `strtod` makes of the start of a text.
struct Scanned {
    value: f64,
    /// How many bytes it used; 0 if there is no number.
    used: usize,
    /// The number was too large, or too small and not zero, for a double.
    out_of_range: bool,
}

/// A score or weight: all of `text` is one number that a double can hold; not NaN.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|&byte| is_space(byte)) {
        return None;
    }
    let scanned = scan(text);
    let vanished = scanned.out_of_range && (scanned.value == 0.0 || scanned.value.is_infinite());
    (scanned.used == text.len() && !vanished && !scanned.value.is_nan()).then_some(scanned.value)
}

/// A bound of a score range without its parenthesis: also takes white space before the number,
/// an empty text as 0, and numbers too large as infinity.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    let scanned = scan(text);
    (scanned.used == text.len() && !scanned.value.is_nan()).then_some(scanned.value)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn scan(text: &[u8]) -> Scanned {
    let spaces = count_while(text, is_space);
    let signed = &text[spaces..];
    let sign_len = usize::from(matches!(signed.first(), Some(b'+' | b'-')));
    let negative = signed.first() == Some(&b'-');
    let scanned = scan_unsigned(&signed[sign_len..]);
    if scanned.used == 0 {
        return Scanned { value: 0.0, used: 0, out_of_range: false };
    }
    Scanned {
        value: if negative { -scanned.value } else { scanned.value },
        used: spaces + sign_len + scanned.used,
        out_of_range: scanned.out_of_range,
    }
}

fn scan_unsigned(text: &[u8]) -> Scanned {
    let starts_with =
        |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let whole = |value, used| Scanned { value, used, out_of_range: false };
    if starts_with(b"infinity") {
        whole(f64::INFINITY, 8)
    } else if starts_with(b"inf") {
        whole(f64::INFINITY, 3)
    } else if starts_with(b"nan") {
        whole(f64::NAN, 3)
    } else if starts_with(b"0x") {
        scan_hexadecimal(text)
    } else {
        scan_decimal(text)
    }
}

fn scan_decimal(text: &[u8]) -> Scanned {
    let (mantissa_len, digit_count) = mantissa(text, |byte| byte.is_ascii_digit());
    if digit_count == 0 {
        return Scanned { value: 0.0, used: 0, out_of_range: false };
    }
    let used = mantissa_len + exponent_len(&text[mantissa_len..], b'e');
    let number = std::str::from_utf8(&text[..used]).expect("digits, point and exponent are ASCII");
    let value: f64 = number.parse().expect("Rust's grammar of floats includes this one");
    let is_zero = !text[..mantissa_len].iter().any(|byte| matches!(byte, b'1'..=b'9'));
    Scanned { value, used, out_of_range: value.is_infinite() || (value == 0.0 && !is_zero) }
}

/// `0x`, hexadecimal digits with a point, and a binary exponent.
fn scan_hexadecimal(text: &[u8]) -> Scanned {
    let digits = &text[2..];
    let (mantissa_len, digit_count) = mantissa(digits, |byte| byte.is_ascii_hexdigit());
    if digit_count == 0 {
        // Only the zero before the x is a number.
        return Scanned { value: 0.0, used: 1, out_of_range: false };
    }
    let mut bits = 0_u64;
    let mut exponent = 0_i64;
    let mut after_point = false;
    for &byte in &digits[..mantissa_len] {
        let Some(digit) = char::from(byte).to_digit(16) else {
            after_point = true;
            continue;
        };
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            exponent -= if after_point { 4 } else { 0 };
        } else {
            // Past what a double can tell apart, except for whether anything was there.
            bits |= u64::from(digit != 0);
            exponent += if after_point { 0 } else { 4 };
        }
    }
    let exponent_len = exponent_len(&digits[mantissa_len..], b'p');
    if exponent_len > 0 {
        let written = &digits[mantissa_len + 1..mantissa_len + exponent_len];
        let written = std::str::from_utf8(written).expect("a sign and digits are ASCII");
        exponent =
            exponent.saturating_add(written.parse().unwrap_or(if written.starts_with('-') {
                i64::MIN / 2
            } else {
                i64::MAX / 2
            }));
    }
    let value = scale(bits, exponent);
    let out_of_range = value.is_infinite() || (value == 0.0 && bits != 0);
    Scanned { value, used: 2 + mantissa_len + exponent_len, out_of_range }
}

/// `bits · 2^exponent`, in steps that no intermediate result over- or underflows in.
fn scale(bits: u64, exponent: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rounding to the nearest double is the point")]
    let mut value = bits as f64;
    let mut rest = i32::try_from(exponent.clamp(-3000, 3000)).expect("clamped");
    while rest != 0 && value != 0.0 && value.is_finite() {
        let step = rest.clamp(-1000, 1000);
        value *= 2_f64.powi(step);
        rest -= step;
    }
    value
}

/// The length of digits with at most one point in or around them, and how many digits they are.
fn mantissa(text: &[u8], is_digit: impl Fn(u8) -> bool) -> (usize, usize) {
    let whole = count_while(text, &is_digit);
    if text.get(whole) != Some(&b'.') {
        return (whole, whole);
    }
    let fraction = count_while(&text[whole + 1..], &is_digit);
    (whole + 1 + fraction, whole + fraction)
}

/// The length of `letter`, a sign or none, and decimal digits; 0 if there is no such exponent.
fn exponent_len(text: &[u8], letter: u8) -> usize {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match count_while(&text[1 + sign..], |byte| byte.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn count_while(text: &[u8], mut holds: impl FnMut(u8) -> bool) -> usize {
    text.iter().position(|&byte| !holds(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_what_redis_takes() {
        for (text, value) in [
            ("1", 1.0),
            ("-1.5", -1.5),
            ("+2", 2.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-2", 0.01),
            ("inf", f64::INFINITY),
            ("+inf", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("0x10", 16.0),
            ("0X1.8p1", 3.0),
            ("-0x.8", -0.5),
            ("0x1p-1074", 5e-324),
            ("0x1fffffffffffffff", 2_305_843_009_213_693_951.0),
            ("1.7976931348623157e308", f64::MAX),
            ("0e999", 0.0),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            " 1",
            "1 ",
            "abc",
            "1a",
            "nan",
            "-nan",
            "1e400",
            "-1e400",
            "1e-400",
            "e5",
            ".",
            "+",
            "1e",
            "0x",
            "0xp1",
            "0x1p99999",
            "1\0",
            "--1",
            "infinit",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn bounds_are_more_lenient() {
        for (text, value) in
            [("", 0.0), (" 1", 1.0), ("\t-2", -2.0), ("1e999", f64::INFINITY), ("1e-400", 0.0)]
        {
            assert_eq!(parse_bound(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["nan", "1 ", "(1", " ", "x", "1x"] {
            assert_eq!(parse_bound(text.as_bytes()), None, "{text}");
        }
    }
}
