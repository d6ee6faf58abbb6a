//! The numbers of INCRBYFLOAT, HINCRBYFLOAT and INCREX: C's `long double` as it is on x86.
//!
//! Redis adds in this type and prints seventeen digits behind the point, and clients see the
//! result: 3.0 and 1.1 make 4.1, but 5.0e3 and 1e-5 make 5000.00001000000000007. A number is a
//! mantissa of 64 bits and an exponent; here both are exact integers, and rounding, to the nearest
//! number and to the even one between two, happens where the processor would do it: when a text
//! is read, when a sum is made, and when it is written.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use crate::error::CommandError;

/// The bits of a mantissa.
const MANTISSA_BITS: i64 = 64;
/// The exponent of the least bit of the least number.
const EXPONENT_MIN: i64 = -16_445;
/// Numbers are below two to the power of this.
const EXPONENT_END: i64 = 16_384;
/// No decimal power beyond this makes a number that is neither too large nor zero.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;
/// The longest text that is read, in bytes.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// The digits that are written behind the point, and ten to the power of it.
const FRACTION_DIGITS: usize = 17;
const FRACTION_SCALE: u64 = 100_000_000_000_000_000;

/// What a client reads when a sum is not finite.
pub(crate) const NOT_FINITE: CommandError =
    CommandError::other("ERR increment would produce NaN or Infinity");

/// See the file's top. There is no NaN: no text is read as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LongDouble {
    /// `mantissa * 2^exponent`.
    Finite {
        /// At most 64 bits and a sign.
        mantissa: BigInt,
        /// Of its least bit.
        exponent: i64,
    },
    /// Written so: a sum is never made infinite.
    Infinite {
        /// Below all numbers, rather than above them.
        is_negative: bool,
    },
}

impl LongDouble {
    /// What `strtold` makes of the whole text, if that is a number in its range.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (sign, unsigned) = match text {
            [b'-', unsigned @ ..] => (Sign::Minus, unsigned),
            [b'+', unsigned @ ..] => (Sign::Plus, unsigned),
            unsigned => (Sign::Plus, unsigned),
        };
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        if [&b"inf"[..], b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
            return Some(Self::Infinite { is_negative: sign == Sign::Minus });
        }
        let (numerator, denominator) = match unsigned {
            [b'0', b'x' | b'X', rest @ ..] => parse_fraction(rest, 16)?,
            rest => parse_fraction(rest, 10)?,
        };
        let (mantissa, exponent) = round(&numerator, &denominator)?;
        let vanished = mantissa == BigUint::ZERO && numerator != BigUint::ZERO;
        (!vanished)
            .then(|| Self::Finite { mantissa: BigInt::from_biguint(sign, mantissa), exponent })
    }

    /// The largest number.
    pub(crate) fn largest() -> Self {
        Self::Finite { mantissa: BigInt::from(u64::MAX), exponent: EXPONENT_END - MANTISSA_BITS }
    }

    pub(crate) const fn is_finite(&self) -> bool {
        matches!(self, Self::Finite { .. })
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::Finite { mantissa, .. } => mantissa.sign() == Sign::Minus,
            Self::Infinite { is_negative } => *is_negative,
        }
    }

    /// The same with the other sign.
    pub(crate) fn negated(&self) -> Self {
        match self {
            Self::Finite { mantissa, exponent } => {
                Self::Finite { mantissa: -mantissa, exponent: *exponent }
            }
            Self::Infinite { is_negative } => Self::Infinite { is_negative: !is_negative },
        }
    }

    /// How it compares with another one.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let beyond = |number: &Self| match number {
            Self::Finite { .. } => 0,
            Self::Infinite { is_negative: true } => -1,
            Self::Infinite { is_negative: false } => 1,
        };
        match (self, other) {
            (
                Self::Finite { mantissa: a, exponent: i },
                Self::Finite { mantissa: b, exponent: j },
            ) => {
                let exponent = *i.min(j);
                (a << (i - exponent)).cmp(&(b << (j - exponent)))
            }
            _ => beyond(self).cmp(&beyond(other)),
        }
    }

    /// The sum; `None` when it is not finite.
    pub(crate) fn checked_add(&self, other: &Self) -> Option<Self> {
        let (Self::Finite { mantissa: a, exponent: i }, Self::Finite { mantissa: b, exponent: j }) =
            (self, other)
        else {
            return None;
        };
        let exponent = *i.min(j);
        let (sign, sum) = ((a << (i - exponent)) + (b << (j - exponent))).into_parts();
        let one = BigUint::from(1u8);
        let (mantissa, exponent) = if exponent < 0 {
            round(&sum, &(one << -exponent))?
        } else {
            round(&(sum << exponent), &one)?
        };
        Some(Self::Finite { mantissa: BigInt::from_biguint(sign, mantissa), exponent })
    }

    /// The least whole number that is not below a thousand times this one, if an `i64` holds it.
    pub(crate) fn thousandfold(&self) -> Option<i64> {
        let Self::Finite { mantissa, exponent } = self else { return None };
        // What is as large as this has more bits than any fraction that matters.
        let product: BigInt = mantissa * 1000;
        let whole = if *exponent >= 0 {
            product << (*exponent).min(MANTISSA_BITS * 2)
        } else {
            let shift = *exponent;
            -(-product >> -shift)
        };
        i64::try_from(whole).ok()
    }

    /// The decimal form with at most seventeen digits behind the point, and no zeros at its end.
    pub(crate) fn to_decimal(&self) -> String {
        let (mantissa, exponent) = match self {
            Self::Finite { mantissa, exponent } => (mantissa, exponent),
            Self::Infinite { is_negative: true } => return "-inf".to_owned(),
            Self::Infinite { is_negative: false } => return "inf".to_owned(),
        };
        let scaled = mantissa.magnitude() * FRACTION_SCALE;
        let digits = if *exponent < 0 {
            divide(&scaled, &(BigUint::from(1u8) << -exponent))
        } else {
            scaled << *exponent
        };
        if digits == BigUint::ZERO {
            return "0".to_owned();
        }
        let digits = format!("{digits:0>width$}", width = FRACTION_DIGITS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
        let sign = if mantissa.sign() == Sign::Minus { "-" } else { "" };
        format!("{sign}{whole}.{fraction}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Numerator and denominator of digits, a point somewhere, and an exponent.
fn parse_fraction(text: &[u8], radix: u32) -> Option<(BigUint, BigUint)> {
    let marker = if radix == 16 { b'p' } else { b'e' };
    let mantissa_len = text.iter().position(|byte| byte.eq_ignore_ascii_case(&marker));
    let (mantissa, exponent) = text.split_at(mantissa_len.unwrap_or(text.len()));
    let mut exponent = match exponent {
        [] => 0,
        [_, digits @ ..] => parse_exponent(digits)?,
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let fraction = mantissa.get(point + 1..).unwrap_or_default();
    let digits = [&mantissa[..point], fraction].concat();
    if digits.is_empty() || !digits.iter().all(|byte| char::from(*byte).is_digit(radix)) {
        return None;
    }
    let digit_bits = if radix == 16 { 4 } else { 1 };
    exponent -= i64::try_from(fraction.len()).ok()? * digit_bits;
    let number = BigUint::parse_bytes(&digits, radix)?;
    let one = BigUint::from(1u8);
    if number == BigUint::ZERO {
        return Some((number, one));
    }
    let size = exponent + i64::try_from(digits.len()).ok()? * digit_bits;
    let size_max = if radix == 16 { EXPONENT_END + MANTISSA_BITS } else { DECIMAL_EXPONENT_MAX };
    if size.abs() > size_max {
        return None;
    }
    let power = u32::try_from(exponent.unsigned_abs()).ok()?;
    let power = BigUint::from(if radix == 16 { 2u8 } else { 10 }).pow(power);
    Some(if exponent < 0 { (number, power) } else { (number * power, one) })
}

/// The exponent behind its letter; what is too large for the type is too large for any number.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const OUT_OF_RANGE: i64 = 1_000_000;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = std::str::from_utf8(digits).ok()?.parse().unwrap_or(OUT_OF_RANGE).min(OUT_OF_RANGE);
    Some(if negative { -size } else { size })
}

/// The mantissa and exponent that are nearest to a fraction; `None` when it is too large.
fn round(numerator: &BigUint, denominator: &BigUint) -> Option<(BigUint, i64)> {
    if *numerator == BigUint::ZERO {
        return Some((BigUint::ZERO, 0));
    }
    let bits = |number: &BigUint| i64::try_from(number.bits()).expect("texts are short");
    // The quotient of this shift has as many bits as the mantissa, or one more.
    let shift = MANTISSA_BITS - (bits(numerator) - bits(denominator));
    let quotient = |shift: i64| {
        if shift < 0 {
            (numerator.clone(), denominator << -shift)
        } else {
            (numerator << shift, denominator.clone())
        }
    };
    let (shifted, divisor) = quotient(shift);
    let one_more = bits(&(shifted / divisor)) > MANTISSA_BITS;
    let shift = (shift - i64::from(one_more)).min(-EXPONENT_MIN);
    let (shifted, divisor) = quotient(shift);
    let mantissa = divide(&shifted, &divisor);
    (bits(&mantissa) - shift <= EXPONENT_END).then_some((mantissa, -shift))
}

/// The quotient, rounded to the nearest integer and to the even one between two.
fn divide(numerator: &BigUint, denominator: &BigUint) -> BigUint {
    let quotient = numerator / denominator;
    let twice_rest = (numerator - &quotient * denominator) * 2u8;
    let is_up = twice_rest > *denominator || twice_rest == *denominator && quotient.bit(0);
    if is_up { quotient + 1u8 } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousandfold_is_rounded_up() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("1.0001", Some(1001)),
            ("-1.0001", Some(-1000)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("1e400", None),
            ("-inf", None),
            ("1e-4000", Some(1)),
        ] {
            let number = LongDouble::parse(text.as_bytes()).unwrap();
            assert_eq!(number.thousandfold(), wanted, "{text}");
        }
    }

    fn sum(a: &str, b: &str) -> Option<String> {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number");
        parse(a).checked_add(&parse(b)).map(|sum| sum.to_decimal())
    }

    /// The sums are INCRBYFLOAT's replies of a Redis 7.0 server on x86.
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, expected) in [
            ("1.1", "0.1", "1.2"),
            ("3.0e3", "200", "3200"),
            ("0", "-0.0", "0"),
            ("-1.5", "1.5", "0"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "1e-5", "5000.00001000000000007"),
            ("3", "0.0000000000000001", "3.0000000000000001"),
            ("-0.3", "-1e-30", "-0.3"),
            ("0x10", "0x.8p1", "17"),
            ("1e19", "0.5", "10000000000000000000"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        assert_eq!(sum("1e308", "1e308").map(|sum| sum.len()), Some(309));
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("1", "inf"), None);
    }

    #[test]
    fn what_is_infinite_has_a_sign() {
        for (text, decimal) in [("inf", "inf"), ("+Infinity", "inf"), ("-inf", "-inf")] {
            assert_eq!(LongDouble::parse(text.as_bytes()).unwrap().to_decimal(), decimal);
        }
    }

    #[test]
    fn numbers_are_ordered_and_have_opposites() {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number");
        let ascending =
            ["-inf", "-1e4932", "-1.5", "-1", "-3.7e-4951", "0", "1e-4000", "1", "1e19", "inf"];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                let (a, b) = (parse(a), parse(b));
                assert_eq!(a.order(&b), i.cmp(&j), "{a:?} {b:?}");
                assert_eq!(a.negated().order(&b.negated()), j.cmp(&i), "{a:?} {b:?}");
            }
            assert_eq!(parse(a).is_negative(), a.starts_with('-'));
        }
        let largest = LongDouble::largest();
        assert!(largest.order(&parse("1.18e4932")).is_gt());
        assert_eq!(largest.checked_add(&parse("1")), Some(largest.clone()));
        assert_eq!(largest.checked_add(&largest), None);
    }

    #[test]
    fn only_whole_texts_in_range_are_numbers() {
        for text in
            ["", " 1", "1 ", "nan", "abc", "--1", "1e", "e1", ".", "0x", "1e5000", "1e-5000"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["1.", ".5", "+1", "1e+3", "0e999999999999999999999", "INFINITY", "3.6e-4951"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text}");
        }
    }
}
