//! Sums of decimal numbers as INCRBYFLOAT and HINCRBYFLOAT write them.
//!
//! Redis adds in 80-bit floating point so that 1.1 and 0.1 make 1.2. We add the decimals exactly
//! while they have at most 28 digits, and fall back on 64-bit floating point for the rest.

use std::str::FromStr;

use rust_decimal::Decimal;

use crate::error::CommandError;
use crate::float;

/// The digits that Redis prints behind the point.
const SCALE_MAX: u32 = 17;

/// The decimal form of `value + increment`.
///
/// # Errors
/// [`CommandError::NotAFloat`] when one of them is no number, or Redis' complaint when the sum
/// is none.
pub(crate) fn sum(value: &[u8], increment: &[u8]) -> Result<String, CommandError> {
    let floats = (float::parse(value), float::parse(increment));
    let (Some(left), Some(right)) = floats else { return Err(CommandError::NotAFloat) };
    if let (Some(left), Some(right)) = (exact(value), exact(increment))
        && let Some(sum) = left.checked_add(right)
    {
        return Ok(sum.round_dp(SCALE_MAX).normalize().to_string());
    }
    let sum = left + right;
    if !sum.is_finite() {
        return Err(CommandError::other("ERR increment would produce NaN or Infinity"));
    }
    let text = format!("{sum:.17}");
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

fn exact(bytes: &[u8]) -> Option<Decimal> {
    let text = std::str::from_utf8(bytes).ok()?;
    let decimal = Decimal::from_str(text).or_else(|_| Decimal::from_scientific(text)).ok()?;
    // Zero has no sign here.
    Some(if decimal.is_zero() { Decimal::ZERO } else { decimal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_decimal() {
        for (value, increment, expected) in [
            ("1.1", "0.1", "1.2"),
            ("3.0e3", "200", "3200"),
            ("0", "-0.0", "0"),
            ("-1.5", "1.5", "0"),
            ("10.50", "0.1", "10.6"),
            ("1e40", "0", "10000000000000000303786028427003666890752"),
        ] {
            let sum = sum(value.as_bytes(), increment.as_bytes());
            assert_eq!(sum.as_deref(), Ok(expected), "{value} + {increment}");
        }
        assert_eq!(sum(b"1", b"x"), Err(CommandError::NotAFloat));
        assert!(sum(b"1", b"inf").is_err());
    }
}
