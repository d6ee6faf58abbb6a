//! Numbers as text, as C's `%.14g` has them and as Redis 7.2 has them in arguments.

/// Appends a finite number with at most `precision` significant digits, as C's `%.{precision}g`.
pub(crate) fn general(value: f64, precision: usize, out: &mut Vec<u8>) {
    if !value.is_finite() {
        out.extend_from_slice(special(value));
        return;
    }
    // Most numbers are small and whole, and -0 is not.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if precision >= 10 && value.abs() < 1e9 && value.fract() == 0.0 && value != 0.0 {
        resp::format_int(value as i64, out);
        return;
    }
    let (digits, exponent) = digits_of(&format!("{:.*e}", precision.max(1) - 1, value.abs()));
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let limit = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
    if (-4..limit).contains(&exponent) {
        positional(&digits, exponent, out);
    } else {
        scientific(&digits, exponent, 2, out);
    }
}

/// Half of what 64 bits hold: up to there, Redis writes whole numbers as integers.
const INTEGER_MAX: f64 = 4_611_686_018_427_387_904.0;

/// Appends a number with as few digits as tell it from all others; a whole one with
/// all digits, up to [`INTEGER_MAX`].
pub(crate) fn shortest(value: f64, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if value.fract() == 0.0 && value.abs() <= INTEGER_MAX {
        resp::format_int(value as i64, out);
        return;
    }
    if !value.is_finite() {
        out.extend_from_slice(special(value));
        return;
    }
    let (digits, exponent) = digits_of(&format!("{:e}", value.abs()));
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // Of the last digit.
    let last = exponent - count + 1;
    if (last >= 0 && exponent < count + 7) || (last < 0 && (last > -7 || exponent.abs() < 4)) {
        positional(&digits, exponent, out);
    } else {
        scientific(&digits, exponent, 1, out);
    }
}

fn special(value: f64) -> &'static [u8] {
    if value.is_nan() {
        b"nan"
    } else if value > 0.0 {
        b"inf"
    } else {
        b"-inf"
    }
}

/// The digits of `d.ddde±x` without zeros at the end, and the exponent.
fn digits_of(text: &str) -> (Vec<u8>, i32) {
    let (mantissa, exponent) = text.split_once('e').expect("{:e} has an exponent");
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    (digits, exponent.parse().expect("a whole exponent"))
}

fn positional(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    let Ok(before) = usize::try_from(exponent + 1) else {
        out.extend_from_slice(b"0.");
        out.extend((1..exponent.unsigned_abs()).map(|_| b'0'));
        out.extend_from_slice(digits);
        return;
    };
    if before == 0 {
        out.extend_from_slice(b"0.");
        out.extend_from_slice(digits);
    } else if digits.len() <= before {
        out.extend_from_slice(digits);
        out.extend((digits.len()..before).map(|_| b'0'));
    } else {
        out.extend_from_slice(&digits[..before]);
        out.push(b'.');
        out.extend_from_slice(&digits[before..]);
    }
}

fn scientific(digits: &[u8], exponent: i32, width: usize, out: &mut Vec<u8>) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    out.extend_from_slice(format!("{:0width$}", exponent.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn general_is_as_c_prints() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (100_000_000_000_000.0, "1e+14"),
            (12_345_678_901_234.0, "12345678901234"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e300, "1e+300"),
            (-2.5, "-2.5"),
            (-12.0, "-12"),
            (999_999_999.0, "999999999"),
            (1_000_000_000.0, "1000000000"),
        ] {
            assert_eq!(text(|out| general(value, 14, out)), expected);
        }
    }

    #[test]
    fn arguments_are_as_redis_writes_them() {
        // What Redis 8.2 stores after redis.call('set', 'k', value).
        for (value, expected) in [
            (0.1, "0.1"),
            (1e15 + 0.5, "1000000000000000.5"),
            (1e20, "1e+20"),
            (-0.0, "0"),
            (f64::NEG_INFINITY, "-inf"),
            (1.5e-7, "1.5e-7"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (9_223_372_036_854_775_808.0, "9223372036854776000"),
            (14.142_135_623_731, "14.142135623731"),
        ] {
            assert_eq!(text(|out| shortest(value, out)), expected);
        }
    }
}
