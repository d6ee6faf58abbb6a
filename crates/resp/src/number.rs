//! Numbers as text, as Redis 7.0 prints them.
//!
//! Doubles go through C's `%.17g`: seventeen significant digits, trailing zeros removed, an
//! exponent when the decimal exponent is below -4 or at least 17. So 1.1 is printed as
//! 1.1000000000000001, and clients that compare with Redis see the same bytes.

/// Significant digits of `%.17g`: enough to read back the same double.
const SIGNIFICANT_DIGITS: i32 = 17;

/// Whole numbers below this are exact in a double and need no exponent in `%.17g`.
const INTEGER_MAX: f64 = 1e15;

/// Appends `value` in decimal.
pub fn format_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        // The remainder of a division by ten is one decimal digit.
        digits[start] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends `value` as Redis 7.0 replies it: `inf`, `-inf`, `nan`, or C's `%.17g`.
pub fn format_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value.fract() == 0.0 && value.abs() < INTEGER_MAX {
        if value == 0.0 && value.is_sign_negative() {
            out.extend_from_slice(b"-0");
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "whole and far below 2^63")]
            format_int(value as i64, out);
        }
    } else {
        format_general(value, out);
    }
}

/// `%.17g` of a finite, nonzero number.
fn format_general(value: f64, out: &mut Vec<u8>) {
    // "d.dddddddddddddddde<exponent>", correctly rounded to 17 digits.
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} prints an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} prints a whole exponent");
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];

    if value < 0.0 {
        out.push(b'-');
    }
    if !(-4..SIGNIFICANT_DIGITS).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        format_int(i64::from(exponent.abs()), out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        for _ in 1..-exponent {
            out.push(b'0');
        }
        out.extend_from_slice(digits);
    } else {
        let whole = usize::try_from(exponent).expect("checked above") + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        } else {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        format_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The right-hand sides are ZSCORE replies of a Redis 7.0 server.
    #[test]
    fn doubles_are_printed_as_redis_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (1.5, "1.5"),
            (1.1, "1.1000000000000001"),
            (0.1, "0.10000000000000001"),
            (3.15, "3.1499999999999999"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e18, "1e+18"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (123_456_789.125, "123456789.125"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double(value), text, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn doubles_read_back_the_same(value in any::<f64>().prop_filter("nan", |v| !v.is_nan())) {
            prop_assert_eq!(double(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }

        #[test]
        fn integers_match_the_standard_library(value in any::<i64>()) {
            let mut out = Vec::new();
            format_int(value, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
